//! What a journal holds, what the machine is told, and what it asks for.

pub use super::action::Action;
use super::back::Back;
use super::conclusion::Conclusion;
use super::errand::{ErrandEnd, ErrandTerms, Seen};
pub use super::input::{Evaluated, Input, Performed, VariableChange};
use super::step::StepKey;
use crate::ids::{FlowRef, Hash16, RunId};
use crate::ir::{AfterReview, EffectClass, OnTime, Retry, ReviewDecision};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::Arc;

/// Version of the event encoding, stored with each journal row.
pub const JOURNAL_VERSION: u32 = 1;

/// A user's value inside an event. The structure keeps only the digest; the value itself is
/// stored in a column of its own, so that erasure drops it and the run still folds.
#[derive(Clone, Debug)]
pub struct Payload {
    pub digest: Hash16,
    pub value: Option<Arc<Json>>,
}

impl Payload {
    pub fn new(value: Json) -> Payload {
        let mut text = Vec::with_capacity(128);
        crate::fingerprint::write_canonical(&value, &mut text);
        Payload { digest: Hash16::of(&[&text]), value: Some(Arc::new(value)) }
    }

    /// The value, or null once erased.
    pub fn json(&self) -> &Json {
        self.value.as_deref().unwrap_or(&Json::Null)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.digest == other.digest
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digest.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        Ok(Payload { digest: Hash16::deserialize(deserializer)?, value: None })
    }
}

/// Which children of a group run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListName {
    Tasks,
    Then,
    Else,
    Case(String),
    Defaults,
    /// What a pause does before it stands still.
    OnPause,
    /// What follows a denial.
    OnDeny,
    /// Nothing: nobody decided in time.
    OnExpire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Body,
    Errors,
    Finally,
    /// What follows the end of the run, and changes nothing about it.
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    Success,
    Warning,
    Skipped,
    Failed,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    Completed,
    Failed,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerWhy {
    Sleep,
    /// The end of the time that a sleeping step has, before it has slept its fill.
    CutShort,
    /// Before the next attempt or the next send of a step.
    Backoff,
    /// A step has taken too long.
    Timeout,
    /// The time of a pause is over.
    Pause,
    /// Before the next round of a loop.
    Interval,
    /// The end of a lane's quiet period.
    Quiet,
    /// Before the flow is tried again.
    FlowRetry,
    /// The instant before which the run must not start.
    StartDate,
    /// The run has taken longer than this SLA of the flow allows (its place in the list).
    Sla(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Done,
    Repeat,
    RepeatNewKey,
    Fail,
}

/// Who asked for something, and why; kept for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    pub who: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Why something failed. The message may quote user data, so it travels as a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: Payload,
}

impl Failure {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure { code: code.into(), message: Payload::new(Json::String(message.into())) }
    }

    pub fn message(&self) -> &str {
        self.message.json().as_str().unwrap_or("(erased)")
    }
}

/// One journal entry. Appended, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Created {
        flow: FlowRef,
        revision: u32,
        logical: RunId,
        inputs: Payload,
        trigger: Payload,
        labels: Payload,
        /// It had to wait for a slot of its lane.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queued: bool,
    },
    /// A later event of the same quiet period replaced the payload.
    InputsReplaced {
        inputs: Payload,
        trigger: Payload,
    },
    /// A person gave the run other inputs, or another name for what it belongs to.
    InputsGiven {
        by: By,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correlation_id: Option<String>,
    },
    /// The run goes on by another definition.
    FlowChanged {
        by: By,
        flow: FlowRef,
        revision: u32,
        at: Millis,
        /// Groups that are open, and which of their children is next there.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        places: Vec<(StepKey, u32)>,
    },
    /// Another event of the lane was handed to this run.
    Delivered {
        payload: Payload,
    },
    /// Somebody has left something for the run.
    MessageLeft {
        message: Payload,
        by: By,
    },
    /// A step has taken so many of the messages that had been there longest.
    MessagesTaken {
        step: StepKey,
        count: u32,
    },
    /// The run does again what another one did. Its top-level tasks before `from` are finished already: their events
    /// follow, as that run had them.
    ReplayOf {
        run: RunId,
        original: RunId,
        from: u32,
    },
    /// The run goes on where another one failed, as the same logical run: what that one did stands before this, and its
    /// steps are begun again as a restart would.
    RetryOf {
        run: RunId,
        original: RunId,
    },
    Started {
        at: Millis,
    },
    StepStarted {
        step: StepKey,
        take: u32,
        round: u32,
        at: Millis,
    },
    /// A group knows which of its lists runs.
    Branched {
        step: StepKey,
        list: ListName,
        /// Children at once; 0 means all.
        concurrent: u32,
        /// Its expressions are evaluated again when the list is done.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks: bool,
        /// Children start when what they depend on is done, not in their order.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_needs: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
    },
    /// The list of a group is done, and what comes next must be evaluated.
    GroupAsks {
        step: StepKey,
    },
    /// The answer: the list was the last one. With a failure the group has failed by itself.
    GroupAnswered {
        step: StepKey,
        /// Of a round: no other is to start.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
        /// What the decision means to the run when the group has ended well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then: Option<AfterReview>,
    },
    LoopStarted {
        step: StepKey,
        count: u32,
        concurrent: u32,
        /// The loop is evaluated again when its rounds are done.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks: bool,
        /// So is each round.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        each_asks: bool,
        /// A round holds no tasks: it is a step itself. All are done, whatever becomes of the others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        each_is_step: bool,
        /// The run stops before these steps of its rounds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stops: Vec<StepKey>,
        items: Payload,
    },
    GroupStage {
        step: StepKey,
        stage: Stage,
    },
    TimerSet {
        timer: u64,
        due: Millis,
        step: StepKey,
        why: TimerWhy,
    },
    TimerCleared {
        timer: u64,
    },
    TimerFired {
        timer: u64,
    },
    /// The right to send, durable before the first byte leaves.
    Intent {
        step: StepKey,
        attempt: u32,
        send: u32,
        class: EffectClass,
        out_key: String,
        safe_until: Option<Millis>,
        timeout_ms: i64,
        /// Present on the first send; later ones repeat the same request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Payload>,
    },
    /// An answer was lost and the class allows another send of the same attempt.
    SendLost {
        step: StepKey,
        send: u32,
        failure: Failure,
    },
    AttemptFailed {
        step: StepKey,
        attempt: u32,
        failure: Failure,
        doubt: bool,
    },
    /// An attempt is out: someone may take it from then on.
    ErrandSet {
        step: StepKey,
        attempt: u32,
        at: Millis,
        free_at: Millis,
        /// Both are there with the first attempt; later ones have the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terms: Option<Box<ErrandTerms>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Payload>,
    },
    /// What whoever had it made of it, or that it took too long.
    ErrandAnswered {
        step: StepKey,
        attempt: u32,
        at: Millis,
        end: ErrandEnd,
        #[serde(default)]
        seen: Seen,
        /// Of an attempt that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
    },
    OpRequested {
        step: StepKey,
    },
    /// Written by the transaction that carried the op out.
    OpDone {
        step: StepKey,
        ok: bool,
        at: Millis,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    ChildRequested {
        step: StepKey,
        /// Nobody waits for it, whatever the task is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
    /// Written by the transaction that admitted the child.
    ChildStarted {
        step: StepKey,
        run: RunId,
    },
    ChildEnded {
        step: StepKey,
        run: RunId,
        status: EndStatus,
        outputs: Payload,
        doubts: u32,
    },
    /// Doubts open below this run, as told by a child.
    DoubtsBelow {
        run: RunId,
        count: u32,
    },
    DoubtRaised {
        step: StepKey,
        failure: Failure,
    },
    /// The result of a step called done is its output, also where the step had failed before.
    Verdict {
        step: StepKey,
        verdict: VerdictKind,
        by: By,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Payload>,
    },
    LabelsSet {
        labels: Payload,
    },
    /// A person gave an ended run other labels.
    LabelsReplaced {
        labels: Payload,
        by: By,
    },
    /// How often the step is tried, as it was known when the step was evaluated first.
    RetrySet {
        step: StepKey,
        retry: Box<Retry>,
    },
    /// Variables of the run, over those that it had.
    VariablesSet {
        variables: Payload,
        /// Whoever set them from outside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<By>,
        /// What stands for a variable that is a list is added to it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        append: bool,
    },
    /// A list of names.
    VariablesUnset {
        names: Payload,
    },
    StepEnded {
        step: StepKey,
        outcome: StepOutcome,
        at: Millis,
        /// The failure does not fail the parent (`allowFailure`).
        #[serde(default)]
        tolerated: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The run stands still at this step, until somebody resumes it or its time is over.
    StepPaused {
        step: StepKey,
        at: Millis,
        /// What the end of its time means.
        late: OnTime,
    },
    /// The step goes on with one of its lists. Nobody (`by`) means that its time was over.
    StepResumed {
        step: StepKey,
        at: Millis,
        how: OnTime,
        list: ListName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<By>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
        /// What was decided, where it is a question. The output is added to what the step shows already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<ReviewDecision>,
    },
    /// A decision was the last word for this group and all in it: no list of tasks starts another one, and the
    /// handlers do their work. A run ends like this then.
    BodiesEnd {
        within: StepKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The flow ends its run here: nothing starts any more, and it ends like this when all that was sent has settled.
    Exited {
        step: StepKey,
        outcome: StepOutcome,
        /// Unless it ends well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    Paused {
        by: By,
    },
    Resumed {
        by: By,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Millis>,
    },
    /// The run stops before these tasks, and no more before those that were named earlier.
    BreakpointsSet {
        /// A task, or `task.value` for the rounds of a loop that have this value.
        tasks: Vec<String>,
        /// What the latter mean in the loops that have begun.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        places: Vec<StepKey>,
    },
    /// Nothing starts, as in a pause: the next step is one of a task that the run stops before.
    StoppedAt {
        step: StepKey,
    },
    /// The store was restored from a backup: what the run did since is not known.
    Restored {
        at: Millis,
    },
    /// A person looked, and the run goes on from what the backup knew.
    Released {
        by: By,
    },
    CancelRequested {
        by: By,
        /// Its sub-runs go on by themselves.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
    /// A rule ends the run with this status once what is in flight has settled.
    StopRequested {
        by: By,
        status: EndStatus,
        failure: Failure,
    },
    /// A rule of the flow was broken (its place in the list).
    SlaBroken {
        sla: u32,
    },
    /// A person lets a run start that waits for its slot or its date.
    Forced {
        by: By,
    },
    Restarted {
        by: By,
        round: u32,
        at: Millis,
        /// Steps whose sub-runs failed begin new ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        anew: bool,
        /// A step that waits for its sub-run again, which goes on by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<(StepKey, RunId)>,
    },
    /// Top-level tasks from this one on are done again; `back`: from a step inside of it.
    Replayed {
        by: By,
        take: u32,
        from: u32,
        at: Millis,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        back: Option<Box<Back>>,
    },
    /// When a step of this task would start it has ended, with this output.
    SkipAsked {
        by: By,
        task: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Payload>,
    },
    /// The run goes on from another task: of the outermost list, or of one that is under way.
    Jumped {
        by: By,
        take: u32,
        /// Its place in the list.
        to: u32,
        /// The step that starts, where the list is not the outermost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepKey>,
        at: Millis,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    },
    Finishing,
    /// How the run ends is known; what its author wants done after that comes before the end is written down.
    Concluded {
        status: EndStatus,
        warned: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    Ended {
        status: EndStatus,
        warned: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<Payload>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// A person says that an ended run ended otherwise.
    StatusChanged {
        status: EndStatus,
        warned: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conclusion: Option<Conclusion>,
        by: By,
        /// Why, where the end itself says something else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
}

impl Event {
    /// Every user value of the event, in a fixed order: the order of the values column.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        fn of(failure: &mut Option<Failure>) -> Option<&mut Payload> {
            failure.as_mut().map(|f| &mut f.message)
        }
        match self {
            Event::Created { inputs, trigger, labels, .. } => vec![inputs, trigger, labels],
            Event::InputsReplaced { inputs, trigger } => vec![inputs, trigger],
            Event::InputsGiven { inputs, .. } => inputs.iter_mut().collect(),
            Event::Delivered { payload } => vec![payload],
            Event::MessageLeft { message, .. } => vec![message],
            Event::Branched { output, .. } => output.iter_mut().collect(),
            Event::LoopStarted { items, .. } => vec![items],
            Event::Intent { request, .. } | Event::ErrandSet { request, .. } => request.iter_mut().collect(),
            Event::ErrandAnswered { output, .. } => output.iter_mut().collect(),
            Event::SendLost { failure, .. }
            | Event::AttemptFailed { failure, .. }
            | Event::DoubtRaised { failure, .. } => {
                vec![&mut failure.message]
            }
            Event::OpDone { output, failure, .. }
            | Event::StepEnded { output, failure, .. }
            | Event::StepResumed { output, failure, .. }
            | Event::GroupAnswered { output, failure, .. } => output.iter_mut().chain(of(failure)).collect(),
            Event::ChildEnded { outputs, .. } => vec![outputs],
            Event::Verdict { result, .. } => result.iter_mut().collect(),
            Event::LabelsSet { labels } | Event::LabelsReplaced { labels, .. } => vec![labels],
            Event::VariablesSet { variables, .. } => vec![variables],
            Event::VariablesUnset { names } => vec![names],
            Event::StopRequested { failure, .. } => vec![&mut failure.message],
            Event::StatusChanged { failure, .. } => of(failure).into_iter().collect(),
            Event::Replayed { back, .. } => back.iter_mut().flat_map(|back| back.payloads_mut()).collect(),
            Event::SkipAsked { input, output, .. } => input.iter_mut().chain(output).collect(),
            Event::Jumped { input, .. } => input.iter_mut().collect(),
            Event::Exited { failure, .. } | Event::BodiesEnd { failure, .. } => of(failure).into_iter().collect(),
            Event::Concluded { outputs, failure, .. } | Event::Ended { outputs, failure, .. } => {
                outputs.iter_mut().chain(of(failure)).collect()
            }
            Event::ReplayOf { .. }
            | Event::RetryOf { .. }
            | Event::Started { .. }
            | Event::StepStarted { .. }
            | Event::MessagesTaken { .. }
            | Event::GroupAsks { .. }
            | Event::GroupStage { .. }
            | Event::RetrySet { .. }
            | Event::StepPaused { .. }
            | Event::TimerSet { .. }
            | Event::TimerCleared { .. }
            | Event::TimerFired { .. }
            | Event::OpRequested { .. }
            | Event::ChildRequested { .. }
            | Event::ChildStarted { .. }
            | Event::DoubtsBelow { .. }
            | Event::Paused { .. }
            | Event::Resumed { .. }
            | Event::BreakpointsSet { .. }
            | Event::StoppedAt { .. }
            | Event::Restored { .. }
            | Event::Released { .. }
            | Event::CancelRequested { .. }
            | Event::SlaBroken { .. }
            | Event::Forced { .. }
            | Event::Restarted { .. }
            | Event::FlowChanged { .. }
            | Event::Finishing => vec![],
        }
    }
}

impl Event {
    /// False for what is noted of a run that has ended without changing anything about its end.
    pub fn touches_the_end(&self) -> bool {
        !matches!(self, Event::Delivered { .. } | Event::LabelsSet { .. } | Event::LabelsReplaced { .. })
    }
}
