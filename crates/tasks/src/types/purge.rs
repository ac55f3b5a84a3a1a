//! What the tasks that remove old runs and logs have in common: which runs they mean.

use super::field;
use crate::config::texts;
use crate::files::{CountOf, Purge};
use crate::{TaskError, config};
use semel_core::Millis;
use semel_core::ir::{FieldKind, FieldSpec};
use semel_core::run::KestraState;
use serde_json::Value as Json;

pub const NAMESPACE: FieldSpec =
    field("namespace", FieldKind::Text, "The namespace with those below it; with `flowId` that of the flow.");
pub const FLOW: FieldSpec = field("flowId", FieldKind::Text, "The flow.");
pub const START: FieldSpec = field("startDate", FieldKind::Text, "Only runs that began at this instant or later.");
pub const END: FieldSpec = field("endDate", FieldKind::Text, "Only runs that had ended by this instant.");
pub const BATCH: FieldSpec = field("batchSize", FieldKind::Int, "Accepted: runs are removed one by one.");

pub fn states(config: &Json, name: &str) -> Result<Vec<KestraState>, TaskError> {
    let states = texts(config, name)?.into_iter().map(|word| {
        let unknown = || TaskError::config(format!("`{name}`: `{word}` is not the state of a run"));
        KestraState::parse(word.trim()).ok_or_else(unknown)
    });
    states.collect()
}

pub fn instant(config: &Json, name: &str) -> Result<Option<Millis>, TaskError> {
    let wrong = || TaskError::config(format!("`{name}` must be a date such as 2026-05-01T08:00:00Z"));
    let text = config::text(config, name).filter(|text| !text.trim().is_empty());
    text.map(|text| Millis::parse_rfc3339(text.trim()).ok_or_else(wrong)).transpose()
}

/// The runs that are meant; what of them goes is for the task to say.
pub fn read(config: &Json) -> Result<Purge, TaskError> {
    let given = |name: &str| config::text(config, name).filter(|text| !text.trim().is_empty());
    let to = instant(config, "endDate")?.ok_or_else(|| TaskError::config("`endDate` is missing"))?;
    let of = CountOf {
        namespace: given("namespace").unwrap_or_default(),
        flow_id: given("flowId"),
        states: states(config, "states")?,
        from: instant(config, "startDate")?,
        to: Some(to),
    };
    if of.flow_id.is_some() && of.namespace.is_empty() {
        return Err(TaskError::config("`flowId` needs `namespace`"));
    }
    Ok(Purge { of, ..Purge::default() })
}
