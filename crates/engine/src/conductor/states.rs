//! `onStateChange`: events that tasks publish when they come to a state.
//!
//! The name of an event is made of the attempt and the moment. So it may be published twice, by whoever hands a task out
//! and by the run that hears of it later, and what handlers do of it happens once.

use super::roots::task_id;
use crate::evaluate::Evaluator;
use crate::flows::LoadedFlow;
use semel_core::Hash16;
use semel_core::ir::{LeafMode, Moment, Task, TaskKind};
use semel_core::run::{Event, StepKey, StepOutcome};
use semel_expr::Value;
use serde_json::{Map, Value as Json, json};

/// Nothing between its beginning and its end says that it is being done.
fn begins_at_once(task: &Task) -> bool {
    !matches!(task.kind, TaskKind::Leaf { mode: LeafMode::Errand | LeafMode::Effect, .. })
}

/// What of these events a task wants to tell: the step, the moment, and the attempt.
pub(crate) fn moments(flow: &LoadedFlow, events: &[Event]) -> Vec<(StepKey, Moment, u32)> {
    if !flow.is_conductor() {
        return Vec::new();
    }
    let telling = |step: &StepKey| {
        let task = flow.index.task(step.task_id())?;
        task.conductor.as_ref().filter(|own| !own.on_state_change.is_empty()).map(|_| task)
    };
    let mut found: Vec<(StepKey, Moment, u32)> = Vec::new();
    let mut failed: Vec<&StepKey> = Vec::new();
    for event in events {
        match event {
            Event::StepStarted { step, .. } => {
                if let Some(task) = telling(step) {
                    found.push((step.clone(), Moment::Scheduled, 1));
                    if begins_at_once(task) {
                        found.push((step.clone(), Moment::Started, 1));
                    }
                }
            }
            Event::ErrandSet { step, attempt, .. } if *attempt > 1 && telling(step).is_some() => {
                found.push((step.clone(), Moment::Scheduled, *attempt));
            }
            Event::Intent { step, attempt, .. } if telling(step).is_some() => {
                found.push((step.clone(), Moment::Started, *attempt));
            }
            Event::ErrandAnswered { step, attempt, seen, .. } if seen.taken_at.is_some() && telling(step).is_some() => {
                found.push((step.clone(), Moment::Started, *attempt));
            }
            Event::AttemptFailed { step, attempt, .. } if telling(step).is_some() => {
                failed.push(step);
                found.push((step.clone(), Moment::Failed, *attempt));
            }
            Event::StepEnded { step, outcome, .. } if telling(step).is_some() => {
                let moment = match outcome {
                    StepOutcome::Success | StepOutcome::Warning => Moment::Succeeded,
                    StepOutcome::Failed if failed.contains(&step) => continue,
                    StepOutcome::Failed => Moment::Failed,
                    StepOutcome::Cancelled => Moment::Cancelled,
                    StepOutcome::Skipped => continue,
                };
                found.push((step.clone(), moment, 0));
            }
            _ => {}
        }
    }
    found
}

impl Evaluator<'_> {
    /// The events of this moment, as rows for the handlers. A payload that cannot be computed is told without it.
    pub(crate) fn state_events(&self, step: &StepKey, moment: Moment, attempt: u32) -> Vec<Json> {
        let Some(task) = self.flow.index.task(step.task_id()) else { return Vec::new() };
        let Some(own) = task.conductor.as_deref() else { return Vec::new() };
        let Some(run) = self.scope.run else { return Vec::new() };
        let note = self.scope.memory.notes.get(&own.reference);
        let attempt = if attempt > 0 { attempt } else { note.map_or(1, |note| note.retry_count + 1) };
        let step_id = run.state.step_id(step);
        let mut rows = Vec::new();
        for (place, told) in own.on_state_change.iter().filter(|told| told.at == moment).enumerate() {
            let id = Hash16::of(&[
                b"state",
                &step_id.0,
                &attempt.to_be_bytes(),
                moment.status().as_bytes(),
                &(place as u64).to_be_bytes(),
            ]);
            let payload = match self.json(&told.payload) {
                Ok(payload) => payload.to_masked_json(),
                Err(failure) => {
                    tracing::warn!(run = %self.family.run, step = %step, code = failure.code, "a payload of onStateChange does not evaluate");
                    json!({})
                }
            };
            let Json::Object(mut fields) = payload else { continue };
            self.add_own_words(&mut fields);
            let word = task.type_name.strip_prefix("conductor.").unwrap_or(&task.type_name);
            let reason = note.and_then(|note| note.reason.clone()).filter(|_| moment == Moment::Failed);
            let event = format!("conductor:{}:{}", self.own().name, told.event_type);
            for (name, value) in [
                ("taskId", json!(task_id(run.state, step, attempt))),
                ("taskType", json!(if word == "SIMPLE" { own.name.as_str() } else { word })),
                ("taskDefName", json!(own.name)),
                ("referenceTaskName", json!(own.reference)),
                ("status", json!(moment.status())),
                ("reasonForIncompletion", json!(reason)),
                ("event_produced", json!(event)),
            ] {
                fields.insert(name.to_owned(), value);
            }
            rows.push(json!({"id": id.hex(), "event": event, "payload": fields}));
        }
        rows
    }

    /// What every event of a workflow says of it.
    pub(super) fn add_own_words(&self, payload: &mut Map<String, Json>) {
        let (own, run) = (self.own(), self.family.run);
        let correlation = Some(self.family.correlation_id).filter(|id| *id != run.to_string());
        let domains =
            self.scope.memory.trigger.get("taskToDomain").map_or(json!({}), |own| Value::to_masked_json(&own));
        for (name, value) in [
            ("workflowInstanceId", json!(run.to_string())),
            ("workflowType", json!(own.name)),
            ("workflowVersion", json!(own.version)),
            ("correlationId", json!(correlation)),
            ("taskToDomain", domains),
        ] {
            payload.insert(name.to_owned(), value);
        }
    }
}
