//! `storage.Size`: how many bytes a file has.

use super::required;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.Size",
    aliases: &["io.kestra.core.tasks.storages.Size"],
    summary: "The size of a file in bytes.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[required("uri", FieldKind::Text, "Address of the file.")],
    outputs: &["size"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, size)
}

fn size(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    Ok(json!({"size": desk.open(&config::required_text(&request.config, "uri")?)?.at.bytes}))
}
