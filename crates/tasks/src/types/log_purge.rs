//! `log.PurgeLogs`: the logs of ended runs that are old enough go.

use super::field;
use super::purge::{END, FLOW, NAMESPACE, START, read};
use crate::TaskError;
use crate::config;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::{Desk, Purge};
use crate::registry::Work;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "log.PurgeLogs",
    aliases: &[],
    summary: "Remove the logs of ended runs.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[NAMESPACE, FLOW, START, END, field("executionId", FieldKind::Text, "Only this run.")],
    outputs: &["count"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Repeatable, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, run)
}

fn run(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let only = config::text(&request.config, "executionId").filter(|text| !text.is_empty());
    let only =
        only.map(|text| text.parse().map_err(|()| TaskError::config(format!("`{text}` is not the id of a run"))));
    let purge = Purge { logs: true, only: only.transpose()?, ..read(&request.config)? };
    Ok(json!({"count": desk.files.purge(&desk.home, &purge)?.logs}))
}
