//! Every event, action and row of the transition table must be seen in some named scenario.

use crate::run::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static SEEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

fn saw(what: String) {
    SEEN.with_borrow_mut(|seen| seen.insert(what));
}

/// A name for each variant, and the list of all names. The match has no wildcard, so a new
/// variant does not compile until it is listed, and then a scenario must produce it.
macro_rules! names {
    ($function:ident, $list:ident, $type:ident { $($variant:ident),* $(,)? }) => {
        pub fn $function(value: &$type) -> &'static str {
            match value { $($type::$variant { .. } => stringify!($variant)),* }
        }
        const $list: &[&str] = &[$(stringify!($variant)),*];
    };
}

names!(
    event_name,
    EVENTS,
    Event {
        Created,
        InputsReplaced,
        InputsGiven,
        FlowChanged,
        Delivered,
        ReplayOf,
        RetryOf,
        Started,
        StepStarted,
        Branched,
        GroupAsks,
        GroupAnswered,
        LoopStarted,
        GroupStage,
        TimerSet,
        TimerCleared,
        TimerFired,
        Intent,
        SendLost,
        AttemptFailed,
        ErrandSet,
        ErrandAnswered,
        OpRequested,
        OpDone,
        ChildRequested,
        ChildStarted,
        ChildEnded,
        DoubtsBelow,
        DoubtRaised,
        Verdict,
        LabelsSet,
        LabelsReplaced,
        MessageLeft,
        MessagesTaken,
        VariablesSet,
        VariablesUnset,
        RetrySet,
        StepEnded,
        StepPaused,
        StepResumed,
        BodiesEnd,
        Exited,
        Paused,
        Resumed,
        BreakpointsSet,
        StoppedAt,
        Restored,
        Released,
        CancelRequested,
        StopRequested,
        SlaBroken,
        Forced,
        Restarted,
        Replayed,
        SkipAsked,
        Jumped,
        Finishing,
        Concluded,
        Ended,
        StatusChanged,
    }
);
names!(
    action_name,
    ACTIONS,
    Action { Evaluate, EvaluateOutputs, Perform, Op, CancelChild, EnterLane, ForceLane, RunAgain, CheckSla }
);
names!(
    input_name,
    INPUTS,
    Input {
        Start,
        Evaluated,
        OutputsEvaluated,
        Performed,
        Errand,
        Continue,
        TimerFired,
        ChildEnded,
        DoubtsBelow,
        Delivered,
        Pause,
        Resume,
        ResumeStep,
        ResumeFromBreakpoint,
        Release,
        Cancel,
        CancelAlone,
        Restart,
        RestartMarked,
        Replay,
        Verdict,
        Stop,
        ForceRun,
        SetLabels,
        ChangeStatus,
        MarkStep,
        SlaChecked,
        Wish,
        ChildReopened,
        Recover,
    }
);
names!(wish_name, WISHES, Wish { Pause, Resume, Terminate, Retry, Redo, Skip, Tell, Leave, Append, Jump, Upgrade });
names!(
    why_name,
    WHYS,
    TimerWhy { Sleep, CutShort, Backoff, Timeout, Pause, Interval, Quiet, FlowRetry, StartDate, Sla }
);

/// A wish counts by its own name.
pub fn name_of(input: &Input) -> String {
    match input {
        Input::Wish { wish, .. } => {
            saw("input Wish".to_owned());
            format!("wish {}", wish_name(wish))
        }
        input => input_name(input).to_owned(),
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Open => "open",
        Phase::Finishing => "finishing",
        Phase::RetryLater => "retry later",
        Phase::Ended(EndStatus::Completed) => "completed",
        Phase::Ended(EndStatus::Failed) => "failed",
        Phase::Ended(EndStatus::Cancelled) => "cancelled",
    }
}

pub fn saw_event(event: &Event) {
    saw(format!("event {}", event_name(event)));
    if let Event::TimerSet { why, .. } = event {
        saw(format!("timer {}", why_name(why)));
    }
}

pub fn saw_action(action: &Action) {
    saw(format!("action {}", action_name(action)));
}

pub fn saw_row(before: Phase, input: &str, after: Phase) {
    saw(format!("input {input}"));
    saw(format!("{} + {input} = {}", phase_name(before), phase_name(after)));
}

pub fn saw_refusal(before: Phase, input: &str) {
    saw(format!("{} + {input} = refused", phase_name(before)));
}

/// The table at the head of `run/mod.rs`, row by row, and the refusals around it.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &[&str])] = &[
    ("waiting",     "Start",            &["open"]),
    ("waiting",     "Cancel",           &["cancelled"]),
    ("waiting",     "Pause",            &["refused"]),
    ("waiting",     "Restart",          &["refused"]),
    ("waiting",     "TimerFired",       &["waiting"]),
    ("waiting",     "Recover",          &["waiting"]),
    ("waiting",     "Delivered",        &["waiting"]),
    ("open",        "Evaluated",        &["open", "finishing", "completed", "failed", "cancelled", "retry later"]),
    ("open",        "Performed",        &["open", "finishing", "failed", "cancelled", "retry later"]),
    ("open",        "Errand",           &["open", "finishing", "failed", "refused"]),
    ("failed",      "Errand",           &["refused"]),
    ("open",        "TimerFired",       &["open", "finishing", "failed", "cancelled"]),
    ("open",        "ChildEnded",       &["open", "finishing", "failed", "cancelled"]),
    ("open",        "Continue",         &["open", "finishing", "failed", "cancelled"]),
    ("open",        "DoubtsBelow",      &["open"]),
    ("open",        "Delivered",        &["open"]),
    ("open",        "Start",            &["open"]),
    ("open",        "Pause",            &["open", "refused"]),
    ("open",        "Resume",           &["open", "finishing", "refused"]),
    ("open",        "ResumeStep",       &["open", "finishing", "refused"]),
    ("open",        "ResumeFromBreakpoint", &["open", "refused"]),
    ("completed",   "ResumeFromBreakpoint", &["refused"]),
    ("open",        "Cancel",           &["open", "cancelled"]),
    ("open",        "CancelAlone",      &["open", "cancelled"]),
    ("cancelled",   "CancelAlone",      &["refused"]),
    ("open",        "Release",          &["open", "refused"]),
    ("waiting",     "Release",          &["waiting"]),
    ("open",        "Recover",          &["open", "cancelled"]),
    ("open",        "Restart",          &["refused"]),
    ("open",        "Replay",           &["refused"]),
    ("open",        "Verdict",          &["open", "failed", "finishing", "refused"]),
    ("finishing",   "OutputsEvaluated", &["completed", "failed", "cancelled"]),
    ("finishing",   "Cancel",           &["cancelled"]),
    ("finishing",   "Recover",          &["finishing"]),
    ("finishing",   "Pause",            &["refused"]),
    ("retry later", "TimerFired",       &["open", "retry later"]),
    ("retry later", "Cancel",           &["cancelled"]),
    ("retry later", "Recover",          &["retry later"]),
    ("retry later", "Pause",            &["refused"]),
    ("failed",      "Restart",          &["open", "refused"]),
    ("failed",      "Replay",           &["open", "refused"]),
    ("failed",      "Verdict",          &["open", "failed", "finishing", "refused"]),
    ("failed",      "DoubtsBelow",      &["failed", "open"]),
    ("failed",      "Resume",           &["refused"]),
    ("failed",      "Cancel",           &["refused"]),
    ("failed",      "Recover",          &["failed"]),
    ("cancelled",   "Restart",          &["open", "refused"]),
    ("cancelled",   "Replay",           &["open"]),
    ("cancelled",   "Verdict",          &["cancelled"]),
    ("completed",   "Restart",          &["refused"]),
    ("completed",   "Replay",           &["open", "refused"]),
    ("completed",   "Verdict",          &["completed"]),
    ("completed",   "Cancel",           &["refused"]),
    ("waiting",     "ForceRun",         &["waiting", "refused"]),
    ("waiting",     "Stop",             &["failed", "cancelled"]),
    ("waiting",     "ChangeStatus",     &["refused"]),
    ("open",        "ForceRun",         &["open", "refused"]),
    ("open",        "Stop",             &["open", "failed"]),
    ("open",        "SlaChecked",       &["failed"]),
    ("open",        "SetLabels",        &["refused"]),
    ("open",        "MarkStep",         &["refused"]),
    ("finishing",   "Stop",             &["failed"]),
    ("finishing",   "SlaChecked",       &["finishing", "cancelled"]),
    ("finishing",   "OutputsEvaluated", &["open"]),
    ("retry later", "Stop",             &["cancelled", "failed"]),
    ("completed",   "Stop",             &["completed"]),
    ("completed",   "ForceRun",         &["refused"]),
    ("completed",   "SetLabels",        &["completed"]),
    ("completed",   "ChangeStatus",     &["failed"]),
    ("failed",      "RestartMarked",    &["open", "refused"]),
    ("failed",      "ChangeStatus",     &["completed", "refused"]),
    ("failed",      "MarkStep",         &["open", "finishing", "failed", "refused"]),
    ("open",        "wish Pause",       &["open", "refused"]),
    ("failed",      "wish Pause",       &["refused"]),
    ("open",        "wish Resume",      &["open", "refused"]),
    ("completed",   "wish Resume",      &["refused"]),
    ("waiting",     "wish Terminate",   &["cancelled"]),
    ("open",        "wish Terminate",   &["open", "cancelled"]),
    ("failed",      "wish Terminate",   &["cancelled", "refused"]),
    ("cancelled",   "wish Terminate",   &["cancelled"]),
    ("completed",   "wish Terminate",   &["refused"]),
    ("open",        "wish Retry",       &["open", "refused"]),
    ("failed",      "wish Retry",       &["open"]),
    ("cancelled",   "wish Retry",       &["open"]),
    ("completed",   "wish Retry",       &["refused"]),
    ("open",        "wish Redo",        &["open", "refused"]),
    ("failed",      "wish Redo",        &["open", "refused"]),
    ("cancelled",   "wish Redo",        &["open"]),
    ("completed",   "wish Redo",        &["open", "refused"]),
    ("open",        "wish Skip",        &["open", "refused"]),
    ("completed",   "wish Skip",        &["refused"]),
    ("waiting",     "wish Tell",        &["waiting"]),
    ("open",        "wish Tell",        &["open", "finishing", "refused"]),
    ("completed",   "wish Tell",        &["refused"]),
    ("waiting",     "wish Leave",       &["waiting"]),
    ("open",        "wish Leave",       &["open", "finishing", "refused"]),
    ("completed",   "wish Leave",       &["refused"]),
    ("waiting",     "wish Append",      &["waiting"]),
    ("open",        "wish Append",      &["open"]),
    ("completed",   "wish Append",      &["refused"]),
    ("open",        "wish Jump",        &["open", "refused"]),
    ("failed",      "wish Jump",        &["refused"]),
    ("open",        "wish Upgrade",     &["open", "refused"]),
    ("completed",   "wish Upgrade",     &["refused"]),
    ("failed",      "ChildReopened",    &["open", "failed"]),
    ("open",        "ChildReopened",    &["open"]),
];

#[test]
fn every_event_action_input_and_row_is_seen_in_a_named_scenario() {
    for (_, scenario) in super::all_scenarios() {
        scenario();
    }
    let mut wanted: Vec<String> = Vec::new();
    for (kind, names) in [("event", EVENTS), ("action", ACTIONS), ("input", INPUTS), ("timer", WHYS)] {
        wanted.extend(names.iter().map(|name| format!("{kind} {name}")));
    }
    wanted.extend(WISHES.iter().map(|name| format!("input wish {name}")));
    for (phase, input, nexts) in ROWS {
        wanted.extend(nexts.iter().map(|next| format!("{phase} + {input} = {next}")));
    }
    let missing: Vec<String> =
        SEEN.with_borrow(|seen| wanted.into_iter().filter(|name| !seen.contains(name)).collect());
    assert!(missing.is_empty(), "no scenario shows: {missing:#?}");
}
