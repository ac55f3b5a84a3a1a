//! `storage.Write`: a text becomes a file.

use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.Write",
    aliases: &[],
    summary: "Write a text to a file.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("content", FieldKind::Any, "What the file holds; what is not a text is written as JSON."),
        field("extension", FieldKind::Text, "Ending of the file's name, for example .txt."),
    ],
    outputs: &["uri"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, write)
}

fn write(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let content = config::text(&request.config, "content").unwrap_or_default();
    let name = super::storage::named("file", config::text(&request.config, "extension").as_deref());
    Ok(json!({"uri": desk.write(&name, content.as_bytes())?}))
}
