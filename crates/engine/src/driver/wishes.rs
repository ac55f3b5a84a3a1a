//! Wishes of people, as their machine takes them: steps and values found, definitions looked up.

use super::active::Active;
use super::control::said;
use crate::api::{Asking, ErrandTold};
use crate::conductor::pulled;
use crate::flows::{Flows, LoadedFlow};
use crate::replay::journal_of;
use crate::scope::Services;
use semel_core::limits::Limits;
use semel_core::run::{
    Back, Failure, Input, Other, Payload, Redo, StepKey, TERMINATED, TERMINATED_AS_FAILED, Told, Upgrade, Wish, back_to,
};
use semel_core::{FlowRef, ir};
use semel_expr::Value;
use serde_json::Value as Json;
use std::sync::Arc;

/// Where wishes are looked up.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub services: &'a Services,
    pub flows: &'a Flows,
    pub limits: &'a Limits,
}

/// The definition that a wish has the run go on by.
pub(super) fn other_flow(input: &Input) -> Option<(&FlowRef, u32)> {
    match input {
        Input::Wish { wish: Wish::Redo(redo), .. } => redo.flow.as_ref().map(|(flow, revision)| (flow, *revision)),
        Input::Wish { wish: Wish::Upgrade(upgrade), .. } => Some((&upgrade.flow, upgrade.revision)),
        Input::RestartMarked { other, .. } => other.as_deref().map(|other| (&other.flow, other.revision)),
        _ => None,
    }
}

/// Another revision of the flow of a run.
pub(super) fn other(active: &Active, revision: u32) -> Other {
    Other { flow: active.flow.flow_ref.clone(), revision, was: active.flow.index.clone() }
}

fn stored(json: &Json) -> Payload {
    Payload::new(Value::from_json(json).to_stored())
}

pub(super) fn wish(places: Places<'_>, active: &Active, asking: Asking) -> Result<Wish, String> {
    let given = |json: Option<Json>| json.as_ref().map(stored);
    Ok(match asking {
        Asking::Pause => Wish::Pause,
        Asking::Resume => Wish::Resume,
        Asking::Terminate { reason, as_failed } => {
            let code = if as_failed { TERMINATED_AS_FAILED } else { TERMINATED };
            Wish::Terminate { failure: Failure::new(code, reason) }
        }
        Asking::Retry { anew } => Wish::Retry { anew },
        Asking::Redo { step, flow, inputs, task_input, correlation_id } => {
            let back = step.map(|step| back(places, active, &step)).transpose()?;
            let back = back.map(|back| Back { input: given(task_input), ..back });
            Wish::Redo(Box::new(Redo { back, flow, inputs: given(inputs), correlation_id }))
        }
        Asking::Skip { task, input, output } => {
            let known = active.flow.index.task(&task).and_then(|task| task.conductor.as_deref());
            let reference = known.map_or(task.as_str(), |own| own.reference.as_str());
            if active.memory.notes.get(reference).is_some() && !active.state.skips.contains(&task) {
                return Err(format!(
                    "`{reference}` has begun already; only a task that was not reached can be skipped"
                ));
            }
            Wish::Skip { input: given(input), output: given(output), task }
        }
        Asking::Tell { variables, errand } => {
            let told = |told: ErrandTold| {
                let ErrandTold { step, attempt, end, seen } = told;
                Box::new(Told { step, attempt, said: said(end), seen })
            };
            Wish::Tell { variables: given(variables), errand: errand.map(|errand| told(*errand)) }
        }
        Asking::Leave { message } => {
            Wish::Leave { output: stored(&pulled(std::slice::from_ref(&message))), message: stored(&message) }
        }
        Asking::Append { variables } => Wish::Append { variables: stored(&variables) },
        Asking::Jump { task, input } => Wish::Jump { task, input: given(input) },
        Asking::Upgrade { flow, revision, inputs, outputs } => {
            let other = places.flows.revision(&active.workspace, &flow, revision).map_err(|error| error.to_string())?;
            let missed = missed(active, &other, &outputs);
            let was = active.flow.index.clone();
            Wish::Upgrade(Box::new(Upgrade { flow, revision, inputs: given(inputs), missed, was }))
        }
    })
}

/// The groups around a step are found in the journal, which holds all that was committed.
fn back(places: Places<'_>, active: &Active, step: &StepKey) -> Result<Back, String> {
    let mut journal = journal_of(places.services, &active.workspace, active.run).map_err(|error| error.to_string())?;
    if active.committing.is_none() {
        journal.extend(active.pending.events.iter().cloned());
    }
    back_to(&active.flow.index, &journal, step).map_err(|refused| refused.to_string())
}

/// Top-level tasks of another definition before the one that is under way, which the run has never done.
fn missed(active: &Active, other: &Arc<LoadedFlow>, outputs: &Json) -> Vec<(String, Option<Payload>)> {
    let tasks = &other.index.flow.tasks;
    let open = |task: &ir::Task| active.state.steps.contains_key(&StepKey::root().child(&task.id));
    let Some(place) = tasks.iter().rposition(open) else { return Vec::new() };
    let before = tasks.iter().take(place);
    let missed = before.filter_map(|task| {
        let reference = task.conductor.as_ref().map(|own| own.reference.as_str())?;
        let known = active.memory.notes.get(reference).is_some();
        (!known).then(|| (task.id.clone(), outputs.get(reference).map(stored)))
    });
    missed.collect()
}
