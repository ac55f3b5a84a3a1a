//! `taskCache` and `cacheConfig`: what another run got for the same request.
//!
//! Only where the answer is is kept: the journal row of the run that asked. So it goes with that run, and an erased one
//! gives nothing. Only steps that were done are remembered, in the transaction that records it; two runs that ask at the
//! same time may both ask.

use crate::away;
use crate::conductor::arrived_name;
use crate::evaluate::Evaluator;
use crate::flows::LoadedFlow;
use semel_core::ir::Task;
use semel_core::run::{Event, Payload, StepOutcome, decode_events};
use semel_core::{Hash16, RunId};
use semel_expr::Value;
use semel_store::{CACHE_NAMESPACE, StoreError};
use serde_json::{Map, Value as Json};

/// What a request is remembered by. Its author's key, which all tasks of the name share; else the flow, the task, and all
/// that is asked for. Secrets are in it by their names. `None`: it is not to be remembered, or its key gives nothing.
pub(crate) fn digest(flow: &LoadedFlow, task: &Task, request: &Payload) -> Option<Hash16> {
    let Some(template) = &task.cache.as_ref()?.key else {
        let (of, id) = (flow.flow_ref.to_string(), &task.id);
        let parts: [&[u8]; 5] = [b"cache", of.as_bytes(), id.as_bytes(), task.type_name.as_bytes(), &request.digest.0];
        return Some(Hash16::of(&parts));
    };
    let name = task.conductor.as_ref().map_or(task.id.as_str(), |own| own.name.as_str());
    let input = match without_secrets(&Value::from_stored(request.json())) {
        Json::Object(input) => input,
        _ => Map::new(),
    };
    // What is not there would be the same for all that lack it.
    let key = arrived_name(template, &input).ok()?;
    Some(Hash16::of(&[b"cache by key", name.as_bytes(), key.as_bytes()]))
}

/// A secret is not there: a key that is made of one would be the same for all of them.
fn without_secrets(value: &Value) -> Json {
    match value {
        Value::Tainted(_) => Json::Null,
        Value::List(items) => Json::Array(items.iter().map(without_secrets).collect()),
        Value::Map(map) => {
            Json::Object(map.iter().map(|(name, value)| (name.clone(), without_secrets(value))).collect())
        }
        plain => plain.to_masked_json(),
    }
}

impl Evaluator<'_> {
    /// The answer to the same request, and the run that got it.
    pub(crate) fn cached(&self, task: &Task, request: &Payload) -> Option<(RunId, Payload)> {
        let key = digest(self.flow, task, request)?.hex();
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
