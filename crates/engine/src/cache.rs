//! `taskCache`: what another run got for the same request.
//!
//! Only where the answer is is kept: the journal row of the run that asked. So it goes with that run, and an erased one
//! gives nothing. Only steps that were done are remembered, in the transaction that records it; two runs that ask at the
//! same time may both ask.

use crate::away;
use crate::evaluate::Evaluator;
use crate::flows::LoadedFlow;
use semel_core::ir::Task;
use semel_core::run::{Event, Payload, StepOutcome, decode_events};
use semel_core::{Hash16, RunId};
use semel_store::{CACHE_NAMESPACE, StoreError};
use serde_json::Value as Json;

/// What a request is remembered by: the flow, the task, and all that is asked for. Secrets are in it by their names.
pub(crate) fn digest(flow: &LoadedFlow, task: &Task, request: &Payload) -> Hash16 {
    let (of, id) = (flow.flow_ref.to_string(), &task.id);
    Hash16::of(&[b"cache", of.as_bytes(), id.as_bytes(), task.type_name.as_bytes(), &request.digest.0])
}

impl Evaluator<'_> {
    /// The answer to the same request, and the run that got it.
    pub(crate) fn cached(&self, task: &Task, request: &Payload) -> Option<(RunId, Payload)> {
        task.cache.as_ref()?;
        let key = digest(self.flow, task, request).hex();
        let noted = |error: StoreError| away::note(&error);
        let row = self.services.store.kv(self.workspace, CACHE_NAMESPACE, &key).map_err(noted).ok()??;
        if row.expires_at.is_some_and(|at| at <= self.now) {
            return None;
        }
        let run: RunId = serde_json::from_value(row.value["run"].clone()).ok()?;
        let after = row.value["seq"].as_u64()?.checked_sub(1)?;
        let journal = self.services.store.journal(self.workspace, run, after, 1).map_err(noted).ok()?;
        let entry = journal.first()?;
        let events = decode_events(&entry.events, entry.values.as_deref()).ok()?;
        events.into_iter().find_map(|event| match event {
            Event::StepEnded { step, outcome: StepOutcome::Success | StepOutcome::Warning, output, .. }
                if Json::String(step.0.clone()) == row.value["step"] =>
            {
                // An erased run has no values any more.
                Some((run, output.filter(|output| output.value.is_some())?))
            }
            _ => None,
        })
    }
}
