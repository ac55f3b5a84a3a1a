//! What the machine is told: what happened, what an evaluation found, how an effect ended.

#[cfg(doc)]
use super::action::Action;
use super::conclusion::Conclusion;
use super::errand::{ErrandTerms, Said, Seen};
#[cfg(doc)]
use super::event::Event;
use super::event::{By, EndStatus, Failure, ListName, Payload, StepOutcome, VerdictKind};
use super::step::StepKey;
use super::wish::{Other, Wish};
use crate::ids::RunId;
use crate::ir::{AfterReview, EffectClass, ExitState, OnTime, Retry, Reviewed};

/// What happened to a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// The run has its slot.
    Start,
    /// Answer to [`Action::Evaluate`].
    Evaluated {
        step: StepKey,
        result: Result<Evaluated, Failure>,
        /// How often the step is tried, where that is known only now.
        retry: Option<Box<Retry>>,
    },
    /// Answer to [`Action::EvaluateOutputs`].
    OutputsEvaluated(Result<Option<Payload>, Failure>),
    /// Answer to [`Action::Perform`].
    Performed {
        step: StepKey,
        send: u32,
        outcome: Performed,
    },
    /// Someone outside says what became of an attempt, or its time is over.
    Errand {
        step: StepKey,
        attempt: u32,
        said: Said,
        seen: Seen,
    },
    /// The transaction wrote [`Event::OpDone`] or [`Event::ChildStarted`]: go on from there.
    Continue,
    TimerFired {
        timer: u64,
    },
    ChildEnded {
        run: RunId,
        status: EndStatus,
        conclusion: Option<Conclusion>,
        /// It completed, and something in it was not as it should be.
        warned: bool,
        outputs: Payload,
        doubts: u32,
    },
    DoubtsBelow {
        run: RunId,
        count: u32,
    },
    Delivered {
        payload: Payload,
    },
    Pause {
        by: By,
    },
    Resume {
        by: By,
    },
    /// Let the run go on from the step it stands at. `inputs` is what whoever asks says to it, checked.
    ResumeStep {
        step: StepKey,
        by: By,
        inputs: Option<Payload>,
        /// At a step that asks for a decision, and only there.
        review: Option<Reviewed>,
    },
    /// Let a run go on that has stopped before a task, and stop it before these instead.
    ResumeFromBreakpoint {
        by: By,
        tasks: Vec<String>,
        /// See [`Event::BreakpointsSet`].
        places: Vec<StepKey>,
    },
    /// Let a run go on that a restore holds.
    Release {
        by: By,
    },
    Cancel {
        by: By,
    },
    /// As [`Input::Cancel`], but its sub-runs go on.
    CancelAlone {
        by: By,
    },
    Restart {
        by: By,
    },
    /// As [`Input::Restart`]; a label says that it was.
    RestartMarked {
        by: By,
        /// By this definition from now on, which is the one the machine is given.
        other: Option<Box<Other>>,
    },
    /// `from` is a top-level task id; `None` means from the start.
    Replay {
        by: By,
        from: Option<String>,
    },
    Verdict {
        step: StepKey,
        verdict: VerdictKind,
        by: By,
        result: Option<Payload>,
    },
    /// A rule ends the run: an SLA, a full lane, a task.
    Stop {
        by: By,
        status: EndStatus,
        failure: Failure,
    },
    /// Let a run start that waits for its slot or its date. `queued`: refuse all but one that waits for its slot.
    ForceRun {
        by: By,
        queued: bool,
    },
    /// Of a run that has ended.
    SetLabels {
        by: By,
        labels: Payload,
    },
    ChangeStatus {
        by: By,
        status: EndStatus,
        warned: bool,
        conclusion: Option<Conclusion>,
    },
    /// Call a failed step something else, and go on from there.
    MarkStep {
        step: StepKey,
        outcome: StepOutcome,
        by: By,
    },
    /// What can be asked again.
    Wish {
        wish: Wish,
        by: By,
    },
    /// A person asked a sub-run to go on that had ended.
    ChildReopened {
        run: RunId,
        by: By,
    },
    /// Answer to [`Action::CheckSla`].
    SlaChecked {
        sla: u32,
        holds: bool,
    },
    /// The process that drove this run is gone.
    Recover,
}

/// What the engine found when it evaluated a step's expressions.
#[derive(Clone, Debug)]
pub enum Evaluated {
    /// `runIf` is false.
    Skip,
    /// Somebody asked for it to be skipped.
    SkipWith {
        output: Option<Payload>,
    },
    /// A group with one list.
    Group,
    Branch {
        list: ListName,
        output: Option<Payload>,
    },
    Items {
        count: u32,
        items: Payload,
        /// Steps of its rounds that the run is to stop before.
        stops: Vec<StepKey>,
    },
    Sleep {
        ms: i64,
    },
    /// A loop goes round again, after so long.
    Again {
        ms: i64,
    },
    /// A group or a round is done.
    Answered {
        output: Option<Payload>,
        failure: Option<Failure>,
        /// Of a round: no other is to start.
        stop: bool,
    },
    /// The flow ends its run.
    Exit {
        state: ExitState,
        /// In the author's words.
        reason: Option<String>,
        /// The step has done its own part well, and this is what it gives.
        output: Option<Payload>,
    },
    /// Stand still, at most this long.
    Pause {
        ms: Option<i64>,
        late: OnTime,
    },
    /// What follows a decision is done: what it means to the run.
    Reviewed {
        then: AfterReview,
    },
    /// An inline task was computed on the spot.
    Inline {
        result: Result<Option<Payload>, Failure>,
        labels: Option<Payload>,
    },
    Effect {
        class: EffectClass,
        out_key: Option<String>,
        window_ms: i64,
        timeout_ms: i64,
        request: Payload,
    },
    /// Someone outside carries it out.
    Errand {
        terms: Box<ErrandTerms>,
        request: Payload,
    },
    /// So many messages are taken, those of before being `from`; none where nobody is waited for.
    Messages {
        from: u64,
        count: u32,
        output: Payload,
    },
    /// The run's own variables change.
    Variables(VariableChange),
    Op,
    Child {
        /// Nobody waits for it, whatever the task is.
        alone: bool,
    },
}

#[derive(Clone, Debug)]
pub enum VariableChange {
    /// A map.
    Set(Payload),
    /// A list of names.
    Unset(Payload),
}

/// How an effect ended.
#[derive(Clone, Debug)]
pub enum Performed {
    Done {
        output: Payload,
    },
    /// The far side answered no, or provably never got the request.
    FailedClean {
        failure: Failure,
    },
    /// Something may have left and no answer was read.
    Lost {
        failure: Failure,
    },
}

impl Evaluated {
    /// A loop over these, with nothing in its way.
    pub fn items(count: u32, items: Payload) -> Evaluated {
        Evaluated::Items { count, items, stops: Vec::new() }
    }
}
