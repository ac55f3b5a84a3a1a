//! The folded state of a run: bounded by what is open, never by what is finished.

use super::conclusion::Conclusion;
use super::errand::ErrandTerms;
use super::event::{EndStatus, Failure, ListName, Payload, Stage, StepOutcome, TimerWhy, VerdictKind};
use super::step::{StepKey, step_id};
use super::wish::LastAsked;
use crate::ids::{Hash16, RunId};
use crate::ir::{AfterReview, EffectClass, OnTime, Retry};
use crate::planted;
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the snapshot encoding; a snapshot of another version is ignored and refolded.
pub const SNAPSHOT_VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub logical: RunId,
    /// Raised when a person asks for finished steps again.
    pub take: u32,
    /// Raised at each restart: handlers run anew, so their step ids must differ.
    pub round: u32,
    pub phase: Phase,
    pub paused: bool,
    /// Tasks before which the run stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakpoints: Vec<String>,
    /// Steps of loops that have begun before which it stops as well: their round has the value that was named.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stops: BTreeSet<StepKey>,
    /// Where it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<StepKey>,
    /// Where it had, and may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<StepKey>,
    /// The store was restored since the run last moved: nothing happens before a person says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    pub cancelling: bool,
    /// What it has started goes on while it is being cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// The flow has ended its run, and what was sent has yet to settle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    pub warned: bool,
    /// Open steps, and failed ones as far as a restart needs them.
    pub steps: BTreeMap<StepKey, Step>,
    pub timers: BTreeMap<u64, Timer>,
    pub next_timer: u64,
    pub doubts: BTreeMap<StepKey, Doubt>,
    /// Open doubts of descendants, by child.
    pub doubts_below: BTreeMap<RunId, u32>,
    pub steps_started: u64,
    /// Tries of the whole flow under its own `retry:`.
    pub flow_attempt: u32,
    pub first_started: Option<Millis>,
    /// Top-level tasks that another run has done for this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seeded: u32,
    /// It begins with what another run had done when it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carried: bool,
    /// How a rule wants the run to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<(EndStatus, Failure)>,
    /// How the run will end when what comes after it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concluded: Option<Concluded>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<Conclusion>,
    /// SLAs that were broken: each is so once.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub slas_broken: BTreeSet<u32>,
    /// What was asked of the run last, while it goes on because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<LastAsked>,
    /// Tasks that are to end when they would start.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub skips: BTreeSet<String>,
    /// The restart since which sub-runs are others than before; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub child_round: u32,
    /// Sub-runs of steps that failed with them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_children: BTreeMap<StepKey, RunId>,
    /// Messages that were left for the run, and those that its steps have taken.
    #[serde(default)]
    pub messages_left: u64,
    #[serde(default)]
    pub messages_taken: u64,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// An end that is decided and not written down yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concluded {
    pub status: EndStatus,
    pub warned: bool,
    pub outputs: Option<Payload>,
    pub failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Created; waits for its slot.
    Waiting,
    Open,
    /// All steps are done; the outputs are being evaluated.
    Finishing,
    /// Failed, and the flow's own `retry:` will start it again.
    RetryLater,
    Ended(EndStatus),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub take: u32,
    pub round: u32,
    /// Counts the author's attempts, the first being 1.
    pub attempt: u32,
    pub first_at: Option<Millis>,
    /// How often a verdict asked for a new outbound key.
    #[serde(default)]
    pub new_keys: u32,
    /// Someone outside carries it out: each attempt has a name of its own, so they are counted on for ever.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub errand: bool,
    /// The sub-run that it starts is not waited for, whatever its task is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Counts instead of what the task says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Evaluating,
    Group(GroupState),
    /// An intent is durable and no outcome is.
    Sending(Sending),
    /// To be sent again when its timer fires (`None`: now, but the run is paused).
    Backoff {
        timer: Option<u64>,
        sending: Option<Sending>,
    },
    /// Someone outside carries it out. `rests`: the attempt has failed, and the next one waits for the run to be
    /// resumed.
    Errand {
        terms: Box<ErrandTerms>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rests: bool,
    },
    Op,
    OpFailed {
        failure: Failure,
    },
    Sleeping {
        timer: u64,
    },
    /// The run stands still here until somebody resumes it. `group` is what the step did before:
    /// where a restart finds it.
    AtPause {
        timer: Option<u64>,
        late: OnTime,
        group: GroupState,
    },
    Child {
        run: Option<RunId>,
        timer: Option<u64>,
    },
    /// A crash left the effect unknown: a verdict is needed.
    Doubtful(Sending),
    /// Kept so that a restart can begin here.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupState {
    pub list: ListName,
    pub stage: Stage,
    /// Children at once; 0 means all.
    pub concurrent: u32,
    /// `Some(n)`: a loop of n iterations.
    pub count: Option<u32>,
    pub next: u32,
    /// `next` of the body while a handler runs.
    pub body_next: u32,
    pub open: u32,
    pub failed: bool,
    /// A child of the running handler failed.
    pub handler_failed: bool,
    pub warned: bool,
    pub cancelled: bool,
    /// The first failure below, and whose it was.
    pub failure: Option<(StepKey, Failure)>,
    /// Children of the body that failed, kept for a restart.
    pub kept: BTreeSet<StepKey>,
    #[serde(default, skip_serializing_if = "Asks::is_never")]
    pub asks: Asks,
    /// Each round of this loop asks as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_asks: bool,
    /// Each round of this loop is a step without tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_is_step: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// What a decision means to the run once this has ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<AfterReview>,
    /// A decision somewhere in the run was the last word: no other task of its list starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

/// Whether a group's expressions are evaluated again when its list is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    #[default]
    Never,
    WhenDone,
    /// The answer is awaited.
    Now,
    /// The answer was to go round again, when this timer fires.
    Later {
        timer: u64,
    },
    /// The answer was that the list is the last one.
    Answered,
}

/// Where and how a flow ended its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub step: StepKey,
    pub outcome: StepOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Children of a group that start when what they depend on is done, by task id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Needs {
    pub started: BTreeSet<String>,
    pub done: BTreeSet<String>,
}

impl Asks {
    fn is_never(&self) -> bool {
        *self == Asks::Never
    }
}

impl Work {
    /// Its expressions are to be evaluated.
    pub fn is_evaluated(&self) -> bool {
        matches!(self, Work::Evaluating | Work::Group(GroupState { asks: Asks::Now, .. }))
    }
}

impl GroupState {
    pub fn new(list: ListName, concurrent: u32, count: Option<u32>) -> GroupState {
        GroupState {
            list,
            stage: Stage::Body,
            concurrent,
            count,
            next: 0,
            body_next: 0,
            open: 0,
            failed: false,
            handler_failed: false,
            warned: false,
            cancelled: false,
            failure: None,
            kept: BTreeSet::new(),
            asks: Asks::Never,
            each_asks: false,
            each_is_step: false,
            needs: None,
            then: None,
            over: false,
        }
    }
}

/// An effect between its intent and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    pub send: u32,
    /// Sends since the last attempt began: automatic repeats are bounded.
    pub repeats: u32,
    /// An answer was lost, this time or before: sending again needs the class's leave at that time.
    #[serde(default)]
    pub lost: bool,
    pub class: EffectClass,
    pub out_key: String,
    pub safe_until: Option<Millis>,
    pub timeout_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    pub due: Millis,
    pub step: StepKey,
    pub why: TimerWhy,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    pub step_id: Hash16,
    pub class: EffectClass,
    pub code: String,
    /// Decided while other doubts were still open; acted on when the last one is settled.
    pub verdict: Option<VerdictKind>,
}

/// Would giving up on this effect leave something unknown that a new run could repeat?
pub(super) fn leaves_doubt(class: EffectClass) -> bool {
    match class {
        EffectClass::Pure | EffectClass::Read | EffectClass::Repeatable => false,
        EffectClass::Keyed | EffectClass::Naked | EffectClass::Probed | EffectClass::Transactional => true,
    }
}

/// The one word that every door, list and page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    Running,
    Waiting,
    Paused,
    Held,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Status; 8] = [
        Status::Queued,
        Status::Running,
        Status::Waiting,
        Status::Paused,
        Status::Held,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Paused => "paused",
            Status::Held => "held",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    pub fn parse(word: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|s| s.word() == word)
    }

    pub fn is_ended(self) -> bool {
        match self {
            Status::Completed | Status::Failed | Status::Cancelled => true,
            Status::Queued | Status::Running | Status::Waiting | Status::Paused | Status::Held => false,
        }
    }
}

impl RunState {
    pub fn new(logical: RunId) -> RunState {
        RunState {
            logical,
            take: 0,
            round: 0,
            phase: Phase::Waiting,
            paused: false,
            breakpoints: Vec::new(),
            stops: BTreeSet::new(),
            stopped_at: None,
            passed: None,
            restored: false,
            cancelling: false,
            alone: false,
            exit: None,
            warned: false,
            steps: BTreeMap::new(),
            timers: BTreeMap::new(),
            next_timer: 1,
            doubts: BTreeMap::new(),
            doubts_below: BTreeMap::new(),
            steps_started: 0,
            flow_attempt: 1,
            first_started: None,
            seeded: 0,
            carried: false,
            stop: None,
            concluded: None,
            conclusion: None,
            slas_broken: BTreeSet::new(),
            asked: None,
            skips: BTreeSet::new(),
            child_round: 0,
            failed_children: BTreeMap::new(),
            messages_left: 0,
            messages_taken: 0,
        }
    }

    /// Doubts nobody has decided yet, here and below.
    pub fn open_doubts(&self) -> u32 {
        let own = self.doubts.values().filter(|d| d.verdict.is_none()).count() as u32;
        own + self.doubts_below.values().sum::<u32>()
    }

    /// Effects whose intent is durable and whose outcome is not. A lost request that waits for its
    /// repeat counts, unless it is of a class that leaves no doubt.
    pub fn open_intents(&self) -> u32 {
        let open = self.steps.values().filter(|step| match &step.work {
            Work::Sending(_) => true,
            Work::Backoff { sending: Some(sending), .. } => sending.lost && leaves_doubt(sending.class),
            _ => false,
        });
        open.count() as u32
    }

    /// Nothing starts any more: what was sent settles, and then the run has ended.
    pub fn is_stopping(&self) -> bool {
        self.cancelling || self.exit.is_some()
    }

    /// True when this process must do something for the run to go on.
    pub fn is_active(&self) -> bool {
        match self.phase {
            _ if self.restored => false,
            Phase::Waiting | Phase::Ended(_) => false,
            Phase::RetryLater => self.needs_successor(),
            Phase::Finishing => true,
            Phase::Open => self.steps.values().any(|step| match &step.work {
                work if work.is_evaluated() => !self.paused,
                Work::Sending(_) | Work::Op | Work::OpFailed { .. } => true,
                Work::Child { run, .. } => run.is_none(),
                Work::Evaluating
                | Work::Group(_)
                | Work::Backoff { .. }
                | Work::Errand { .. }
                | Work::Sleeping { .. }
                | Work::AtPause { .. }
                | Work::Doubtful(_)
                | Work::Failed => false,
            }),
        }
    }

    /// It has failed, and the run that takes its place is not there yet.
    pub fn needs_successor(&self) -> bool {
        self.phase == Phase::RetryLater && self.timers.values().all(|timer| timer.why != TimerWhy::FlowRetry)
    }

    pub fn status(&self) -> Status {
        match self.phase {
            _ if self.restored => Status::Held,
            Phase::Waiting => Status::Queued,
            Phase::Ended(_) if self.open_doubts() > 0 && !planted!(DoubtCountsAsEnd) => Status::Held,
            Phase::Ended(EndStatus::Completed) => Status::Completed,
            Phase::Ended(EndStatus::Failed) => Status::Failed,
            Phase::Ended(EndStatus::Cancelled) => Status::Cancelled,
            Phase::Finishing => Status::Running,
            Phase::RetryLater => Status::Waiting,
            Phase::Open if self.is_active() => Status::Running,
            Phase::Open if self.steps.values().any(|s| matches!(s.work, Work::Doubtful(_))) => Status::Held,
            Phase::Open if self.paused || !self.paused_steps().is_empty() => Status::Paused,
            Phase::Open => Status::Waiting,
        }
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Steps whose expressions are to be evaluated.
    pub fn evaluated_steps(&self) -> Vec<StepKey> {
        self.steps.iter().filter(|(_, step)| step.work.is_evaluated()).map(|(key, _)| key.clone()).collect()
    }

    /// Steps that someone outside carries out, with the attempt that is out.
    pub fn errands(&self) -> impl Iterator<Item = (&StepKey, u32, &ErrandTerms)> {
        self.steps.iter().filter_map(|(key, step)| match &step.work {
            Work::Errand { terms, rests: false } => Some((key, step.attempt, &**terms)),
            _ => None,
        })
    }

    /// Whether an answer to this attempt is what the run waits for, with nothing else in its way.
    pub fn awaits_errand(&self, step: &StepKey, attempt: u32) -> bool {
        let is_out = |step: &Step| matches!(step.work, Work::Errand { rests: false, .. }) && step.attempt == attempt;
        let held_up = self.paused || self.restored || self.is_ended() || self.is_stopping();
        !held_up && self.steps.get(step).is_some_and(is_out)
    }

    /// Steps at which the run stands still, those it reached first before the others.
    pub fn paused_steps(&self) -> Vec<StepKey> {
        let stands = |step: &Step| matches!(step.work, Work::AtPause { .. });
        let mut found: Vec<(&StepKey, &Step)> = self.steps.iter().filter(|(_, step)| stands(step)).collect();
        found.sort_by_key(|(_, step)| step.first_at);
        found.into_iter().map(|(key, _)| key.clone()).collect()
    }

    /// Whether the run is to stop before this step. A loop's iterations are no tasks.
    pub fn stops_at(&self, key: &StepKey) -> bool {
        let named = self.breakpoints.iter().any(|task| task == key.task_id()) || self.stops.contains(key);
        named && key.iteration_number().is_none() && self.passed.as_ref() != Some(key)
    }

    /// The stable id of a step, open or not yet started.
    pub fn step_id(&self, key: &StepKey) -> Hash16 {
        match self.steps.get(key) {
            Some(step) => step_id(self.logical, step.take, step.round, key),
            None => step_id(self.logical, self.take, 0, key),
        }
    }

    /// The outbound key of an effect: the author's own, else the step id; a new one for each
    /// verdict that asked for it.
    pub fn out_key(&self, key: &StepKey, declared: Option<String>) -> String {
        match self.steps.get(key).map_or(0, |s| s.new_keys) {
            0 if planted!(EffectKeyWithoutLoop) => step_id(self.logical, 0, 0, &StepKey(key.task_id().into())).hex(),
            0 => declared.unwrap_or_else(|| self.step_id(key).hex()),
            n => format!("{}-{n}", self.step_id(key).hex()),
        }
    }

    /// True for a step that has ended and is kept for a restart.
    pub fn is_kept(&self, key: &StepKey) -> bool {
        let parent = key.parent().and_then(|parent| self.steps.get(&parent));
        matches!(parent, Some(Step { work: Work::Group(group), .. }) if group.kept.contains(key))
    }

    /// A decision was the last word for the list that this step belongs to.
    pub fn is_over_around(&self, key: &StepKey) -> bool {
        let group = key.parent().and_then(|parent| self.group(&parent));
        group.is_some_and(|group| group.over && group.stage == Stage::Body)
    }

    pub fn group(&self, key: &StepKey) -> Option<&GroupState> {
        match self.steps.get(key).map(|step| &step.work) {
            Some(Work::Group(group)) => Some(group),
            _ => None,
        }
    }

    /// How many top-level tasks have started.
    pub fn tasks_reached(&self) -> u32 {
        match self.steps.get(&StepKey::root()).map(|s| &s.work) {
            Some(Work::Group(group)) if group.stage == Stage::Body => group.next,
            Some(Work::Group(group)) => group.body_next,
            _ => 0,
        }
    }

    /// The earliest timer.
    pub fn next_due(&self) -> Option<Millis> {
        self.timers.values().map(|t| t.due).min()
    }
}
