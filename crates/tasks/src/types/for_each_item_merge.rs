//! A part of `flow.ForEachItem`: what the sub-runs gave becomes a file, one row for each, and a file for each.

use super::required;
use crate::TaskError;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, MERGE_PART, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: MERGE_PART,
    aliases: &[],
    summary: "Gather what sub-runs gave.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[required("items", FieldKind::Text, "The task whose sub-runs they are.")],
    outputs: &["subflowOutputs"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, merge)
}

/// `outputs` holds pairs of a number and what that sub-run gave, in order. Sub-runs of a flow without outputs give none.
fn merge(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let rows = request.config["outputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return Ok(json!({}));
    }
    let base = request.config["base"].as_str().unwrap_or_default();
    let mut all = desk.create("outputs.ion")?;
    for row in rows {
        let line = format!("{}\n", row[1]);
        let mut one = desk.create_at(&format!("{base}/{}/outputs.ion", row[0]))?;
        one.write(line.as_bytes())?;
        one.finish()?;
        all.write(line.as_bytes())?;
    }
    Ok(json!({"subflowOutputs": all.finish()?}))
}
