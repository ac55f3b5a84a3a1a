//! `storage.Split`: a file becomes several, each with whole rows.

use super::storage::{Size, Split};
use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.Split",
    aliases: &["io.kestra.core.tasks.storages.Split"],
    summary: "Split a file into several, by size, number or rows.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("from", FieldKind::Text, "Address of the file."),
        field("bytes", FieldKind::Text, "A part ends with the row that makes it as large as this, for example 10MB."),
        field("partitions", FieldKind::Int, "Deal the rows out to so many parts."),
        field("rows", FieldKind::Int, "A part has so many rows."),
        field("separator", FieldKind::Text, "Written after each row; a line break by default."),
    ],
    outputs: &["uris"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, split)
}

fn split(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let split = Split {
        from: config::required_text(&request.config, "from")?,
        size: Size::read(&request.config)?,
        separator: config::text(&request.config, "separator").unwrap_or_else(|| "\n".to_owned()),
        files_max: limits.step_files_max,
    };
    Ok(json!({"uris": split.run(desk)?}))
}
