//! What a step has of the sub-run it has waited for.

use super::Places;
use super::active::Active;
use crate::children::outputs_of_child;
use semel_core::RunId;
use semel_core::ir::TaskKind;
use semel_core::run::{EndStatus, Payload, Step, StepKey, Work};
use semel_tasks::{Level, LogLine};
use serde_json::{Value as Json, json};

impl Active {
    /// What a step has of its sub-run. Where its old property `outputs` cannot be rendered, the step has failed.
    pub(super) fn child_gives(
        &mut self,
        places: &Places<'_>,
        run: RunId,
        (status, warned): (EndStatus, bool),
        outputs: Json,
    ) -> (EndStatus, Payload) {
        let asks = |key: &&StepKey| {
            let kind = self.flow.index.task(key.task_id()).map(|task| &task.kind);
            matches!(kind, Some(TaskKind::Subflow(spec)) if !spec.outputs.is_null())
        };
        let waits = |(_, step): &(&StepKey, &Step)| matches!(step.work, Work::Child { run: Some(of), .. } if of == run);
        let asked = self.state.steps.iter().filter(waits).map(|(key, _)| key.clone()).find(|key| asks(&key));
        let flow = self.flow.clone();
        let spec = asked.as_ref().and_then(|key| flow.index.task(key.task_id())).map(|task| &task.kind);
        let (Some(key), Some(TaskKind::Subflow(spec))) = (&asked, spec) else {
            return (status, child_outputs(run, status, warned, &outputs));
        };
        match outputs_of_child(places.services, places.flows, &self.workspace, run, &spec.outputs) {
            Ok(asked) => (status, child_outputs(run, status, warned, &asked)),
            Err(message) => {
                let now = places.services.store.now();
                let message = format!("`outputs` cannot be rendered: {message}");
                self.log(key, vec![LogLine { level: Level::Error, message }], places.limits.log_line_bytes_max, now);
                (EndStatus::Failed, child_outputs(run, status, warned, &Json::Null))
            }
        }
    }
}

/// The output a parent sees of a sub-run.
fn child_outputs(run: RunId, status: EndStatus, warned: bool, outputs: &Json) -> Payload {
    let state = match status {
        EndStatus::Completed if warned => "WARNING",
        EndStatus::Completed => "SUCCESS",
        EndStatus::Failed => "FAILED",
        EndStatus::Cancelled => "KILLED",
    };
    let outputs = if outputs.is_null() { json!({}) } else { outputs.clone() };
    // `outputs` is in stored form already; the other two need no escaping.
    Payload::new(json!({"executionId": run.to_string(), "state": state, "outputs": outputs}))
}
