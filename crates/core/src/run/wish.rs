//! What a person asks of a run, in a way that can be asked again.
//!
//! Clients repeat a request whose answer they did not get. So a wish that has come true already is granted once more and
//! changes nothing, where the inputs of the same names refuse it: a pause of a run that is paused, the end of one that
//! was ended, and going on or beginning again as long as that is the last thing that was asked of the run, it was asked
//! within [`REPEAT_MS`], and the run has not ended since.

use super::back::Back;
use super::errand::{Said, Seen};
use super::event::{Failure, Payload};
use super::index::FlowIndex;
use super::step::StepKey;
use crate::ids::FlowRef;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// For so long a request is taken for a repeat of the last one.
pub const REPEAT_MS: i64 = 60_000;

/// Messages that may wait for a run.
pub const MESSAGES_MAX: u64 = 1_000;
/// Why one more is not taken.
pub const MESSAGES_FULL: &str = "the message queue of the workflow is full: 1000 messages wait to be pulled";

/// The code of the end of a run that a person has ended.
pub const TERMINATED: &str = "terminated";
/// The same, where what the flow does about a failure is to be done.
pub const TERMINATED_AS_FAILED: &str = "terminated_as_failed";

#[derive(Clone, Debug)]
pub enum Wish {
    Pause,
    Resume,
    /// The failure says why, and by its code whether it counts as one.
    Terminate {
        failure: Failure,
    },
    /// The failed steps once more. `anew`: with new sub-runs instead of those that failed.
    Retry {
        anew: bool,
    },
    /// Finished steps once more.
    Redo(Box<Redo>),
    /// A task that was not reached ends when it would start.
    Skip {
        task: String,
        input: Option<Payload>,
        output: Option<Payload>,
    },
    /// Variables of the run, and what became of an attempt of an errand.
    Tell {
        variables: Option<Payload>,
        errand: Option<Box<Told>>,
    },
    /// Something is left for the run. `output` is what a step gives that waits for it.
    Leave {
        message: Payload,
        output: Payload,
    },
    /// Variables of the run; what stands for one that is a list is added to it.
    Append {
        variables: Payload,
    },
    /// On from another top-level task.
    Jump {
        task: String,
        input: Option<Payload>,
    },
    Upgrade(Box<Upgrade>),
}

/// What is to be done again, and with what.
#[derive(Clone, Debug, Default)]
pub struct Redo {
    /// `None`: from the start.
    pub back: Option<Back>,
    /// By this definition from now on.
    pub flow: Option<(FlowRef, u32)>,
    pub inputs: Option<Payload>,
    pub correlation_id: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Told {
    pub step: StepKey,
    pub attempt: u32,
    pub said: Said,
    pub seen: Seen,
}

#[derive(Clone, Debug)]
pub struct Upgrade {
    pub flow: FlowRef,
    pub revision: u32,
    pub inputs: Option<Payload>,
    /// Top-level tasks of the new definition that stand before the place of the run and were never done, with what
    /// they are to have given.
    pub missed: Vec<(String, Option<Payload>)>,
    pub was: FlowIndex,
}

/// A definition that takes over from the one that the run went by (`was`).
#[derive(Clone, Debug)]
pub struct Other {
    pub flow: FlowRef,
    pub revision: u32,
    pub was: FlowIndex,
}

/// What was asked of a run last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastAsked {
    pub what: Asked,
    pub at: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    Resume,
    Retry,
    /// From this step, or from the start.
    Redo(Option<StepKey>),
    /// To the top-level task at this place.
    Jump(u32),
    /// To a task of a list that was under way.
    JumpInside(StepKey),
    Upgrade(FlowRef, u32),
}
