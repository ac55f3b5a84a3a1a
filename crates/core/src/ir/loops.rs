//! Loops that ask after each round whether there is another, or that keep their rounds to themselves.

use super::{DoWhile, Group, OutputDef, SubflowSpec, Template};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Round after round, until the condition holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UntilSpec {
    pub condition: Template,
    /// Between the end of a round and the start of the next.
    pub interval: Template,
    /// How the interval grows from round to round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// A number or a template that gives one; without it there is no bound but the limits'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<Json>,
    /// Counted from the start of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<Template>,
    /// Whether having reached a bound is a failure; a boolean or a template that gives one.
    #[serde(default)]
    pub fail_on_max: Json,
    /// In Conductor's words: the condition says whether to stop, as the last task of the round has found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub do_while: Option<DoWhile>,
    #[serde(flatten)]
    pub group: Group,
}

/// How a wait between rounds grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// By the first wait each time.
    Linear,
    /// Twice as long each time.
    Exponential,
}

impl Growth {
    /// The wait after so many rounds.
    pub fn wait_ms(self, first_ms: i64, rounds: u32) -> i64 {
        let times = match self {
            Growth::Linear => i64::from(rounds.max(1)),
            Growth::Exponential => 1_i64.checked_shl(rounds.saturating_sub(1)).filter(|n| *n > 0).unwrap_or(i64::MAX),
        };
        first_ms.saturating_mul(times)
    }
}

/// A round for each value; what a round gives is seen outside only through `outputs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopSpec {
    pub values: Json,
    /// 0 means all at once (bounded by the limits).
    pub concurrent: u32,
    pub transmit_failed: bool,
    #[serde(default)]
    pub outputs: Vec<OutputDef>,
    /// No further round starts once this holds after one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_when: Option<Template>,
    #[serde(flatten)]
    pub group: Group,
}

/// A sub-run for each part of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchSpec {
    /// The task beside this one that has cut the file, and listed the parts in another.
    pub split: String,
    pub subflow: SubflowSpec,
}

/// What the id of the task that fills a working directory ends with. No author's id holds a dot.
pub const FILES_PART: &str = ".files";
/// As [`FILES_PART`], of the task that keeps files of it for the next run.
pub const KEEP_PART: &str = ".keep";

/// Parts of `flow.ForEachItem`, which no author can name.
pub const SPLIT_PART: &str = "flow.ForEachItemSplit";
pub const ITEMS_PART: &str = "flow.ForEachItemExecutable";
pub const MERGE_PART: &str = "flow.ForEachItemMergeOutputs";

/// How a run that ends itself has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitState {
    Success,
    Warning,
    Failed,
    Cancelled,
    /// As if a person had cancelled it: what it started is stopped too.
    Killed,
}

impl ExitState {
    pub const ALL: [ExitState; 5] =
        [ExitState::Success, ExitState::Warning, ExitState::Killed, ExitState::Failed, ExitState::Cancelled];

    pub fn word(self) -> &'static str {
        match self {
            ExitState::Success => "SUCCESS",
            ExitState::Warning => "WARNING",
            ExitState::Failed => "FAILED",
            ExitState::Cancelled => "CANCELED",
            ExitState::Killed => "KILLED",
        }
    }

    /// Both spellings of the word for cancelled are taken.
    pub fn parse(word: &str) -> Option<ExitState> {
        let word = word.trim().to_ascii_uppercase();
        ExitState::ALL
            .into_iter()
            .find(|state| state.word() == word || (word == "CANCELLED" && *state == ExitState::Cancelled))
    }
}
