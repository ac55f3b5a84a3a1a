//! `kv.GetKeys`: the names of a namespace's keys.

use super::field;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config, op};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "kv.GetKeys",
    aliases: &[],
    summary: "List the keys of a namespace.",
    mode: LeafMode::Effect,
    class: EffectClass::Read,
    fields: &[
        field("prefix", FieldKind::Text, "Only keys that begin so."),
        field("namespace", FieldKind::Text, "The namespace; the flow's own by default."),
    ],
    outputs: &["keys"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Read, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, list)
}

fn list(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let namespace = op::namespace(&request.config).unwrap_or_else(|| desk.home.namespace.clone());
    let prefix = config::text(&request.config, "prefix").unwrap_or_default();
    let keys = desk.files.keys(&desk.home.workspace, &namespace)?.into_iter().filter(|key| !key.is_over);
    Ok(json!({"keys": keys.map(|key| key.name).filter(|name| name.starts_with(&prefix)).collect::<Vec<_>>()}))
}
