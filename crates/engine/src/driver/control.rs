//! What a person asks of a run, as an input of its machine.

use super::active::Active;
use super::breakpoints;
use super::wishes::{self, Places};
use crate::api::{Asking, Control, ErrandAnswer};
use semel_core::run::{
    By, CANCELLED, EndStatus, FAILED_FOR_GOOD, Failure, Input, Payload, Phase, RunState, Said, StepKey, TimerWhy,
    VerdictKind,
};
use semel_expr::Value;
use serde_json::{Value as Json, json};

/// Turns a person's wish into an input; a verdict finds its step by id, path, or being the only one.
pub(super) fn control_input(places: Places<'_>, active: &Active, control: Control, by: By) -> Result<Input, String> {
    let state = &active.state;
    let goes_on =
        matches!(&control, Control::Wish { wish } if matches!(**wish, Asking::Retry { .. } | Asking::Redo { .. }));
    let goes_on = goes_on
        || matches!(
            control,
            Control::Restart | Control::RestartMarked { .. } | Control::Replay { .. } | Control::MarkStep { .. }
        );
    if active.erased && goes_on {
        return Err("the run was erased: the values it would need are gone; start a new one".to_owned());
    }
    Ok(match control {
        Control::Cancel => Input::Cancel { by },
        Control::CancelAlone => Input::CancelAlone { by },
        Control::Pause => Input::Pause { by },
        Control::Resume => Input::Resume { by },
        Control::ResumeStep { step, inputs, review } => {
            let mut open = state.paused_steps().into_iter();
            let found = open.find(|key| key.0 == step || state.step_id(key).hex() == step);
            let step = found.ok_or_else(|| format!("the run does not stand still at step `{step}`"))?;
            Input::ResumeStep { step, by, inputs: inputs.map(Payload::new), review }
        }
        Control::ResumeFromBreakpoint { breakpoints } => {
            let places = breakpoints::in_open_loops(active, &breakpoints);
            Input::ResumeFromBreakpoint { by, tasks: breakpoints, places }
        }
        Control::Release => Input::Release { by },
        Control::Restart => Input::Restart { by },
        Control::RestartMarked { revision } => {
            let revision = revision.filter(|revision| *revision != active.flow.revision);
            Input::RestartMarked { by, other: revision.map(|revision| Box::new(wishes::other(active, revision))) }
        }
        Control::Replay { from } => Input::Replay { by, from },
        Control::ForceRun { queued } => Input::ForceRun { by, queued },
        Control::Dequeue { status } => dequeue(state, status, by)?,
        Control::SetLabels { labels } => Input::SetLabels { by, labels: with_own_labels(active, labels) },
        Control::ChangeStatus { status, warned, conclusion } => Input::ChangeStatus { by, status, warned, conclusion },
        Control::MarkStep { step, outcome } => {
            let known = |key: &&StepKey| key.0 == step || state.step_id(key).hex() == step;
            let found = state.steps.keys().find(known).cloned();
            Input::MarkStep { step: found.ok_or_else(|| format!("step `{step}` did not fail the run"))?, outcome, by }
        }
        Control::Errand { step, attempt, end, seen } => Input::Errand { step, attempt, said: said(end), seen },
        Control::Wish { wish } => Input::Wish { wish: wishes::wish(places, active, *wish)?, by },
        Control::Verdict { step, verdict, result } => {
            let open: Vec<&StepKey> =
                state.doubts.iter().filter(|(_, d)| d.verdict.is_none()).map(|(k, _)| k).collect();
            let found = match step {
                None if open.len() == 1 => open[0].clone(),
                None if open.is_empty() => return Err("no effect of this run is in doubt".to_owned()),
                None => {
                    let names: Vec<&str> = open.iter().map(|k| k.0.as_str()).collect();
                    return Err(format!("several effects are in doubt; name one of the steps {}", names.join(", ")));
                }
                Some(name) => open
                    .iter()
                    .find(|key| key.0 == name || state.doubts[**key].step_id.hex() == name)
                    .map(|key| (*key).clone())
                    .ok_or_else(|| format!("no doubt is open at step `{name}`"))?,
            };
            let result = match (verdict, result) {
                (VerdictKind::Done, Some(result)) => Some(Payload::new(Value::from_json(&result).to_stored())),
                (VerdictKind::Done, None) => Some(Payload::new(json!({}))),
                (VerdictKind::Repeat | VerdictKind::RepeatNewKey | VerdictKind::Fail, _) => None,
            };
            Input::Verdict { step: found, verdict, by, result }
        }
    })
}

pub(super) fn said(end: ErrandAnswer) -> Said {
    let stored = |json: &Json| Payload::new(Value::from_json(json).to_stored());
    match end {
        ErrandAnswer::Done { output } => Said::Done { output: stored(&output) },
        ErrandAnswer::Failed { message, output, for_good } => {
            let code = if for_good { FAILED_FOR_GOOD } else { "errand_failed" };
            Said::Failed { failure: Failure::new(code, message), output: output.as_ref().map(stored), for_good }
        }
        ErrandAnswer::Cancelled { message, output } => {
            let failure = Failure::new(CANCELLED, message);
            Said::Failed { failure, output: output.as_ref().map(stored), for_good: true }
        }
    }
}

/// Only a run that waits for its slot leaves the line; another one is cancelled or goes on.
fn dequeue(state: &RunState, status: EndStatus, by: By) -> Result<Input, String> {
    let waits_for_time = state.timers.values().any(|t| matches!(t.why, TimerWhy::StartDate | TimerWhy::Quiet));
    if state.phase != Phase::Waiting || waits_for_time {
        return Err("the run does not wait for its slot".to_owned());
    }
    let failure = Failure::new("dequeued", format!("{} took the run out of the line", by.who));
    Ok(Input::Stop { by, status, failure })
}

/// The labels a person gives, and those that only the system sets.
fn with_own_labels(active: &Active, labels: Vec<(String, String)>) -> Payload {
    let own = active.memory.labels.iter().filter(|(key, _)| key.starts_with("system."));
    let own = own.map(|(key, value)| (key.clone(), value.clone()));
    let all = own.chain(labels).map(|(key, value)| (key, Json::String(value))).collect();
    Payload::new(Json::Object(all))
}
