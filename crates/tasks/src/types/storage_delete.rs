//! `storage.Delete`: a file goes.

use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::{Desk, FileError};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.Delete",
    aliases: &["io.kestra.core.tasks.storages.Delete"],
    summary: "Delete a file.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[
        required("uri", FieldKind::Text, "Address of the file."),
        field("errorOnMissing", FieldKind::Bool, "Fail if there is no such file; false by default."),
    ],
    outputs: &["uri", "deleted"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Repeatable, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, delete)
}

fn delete(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let uri = config::required_text(&request.config, "uri")?;
    let deleted = desk.files.delete(&desk.home.workspace, &uri)?;
    if !deleted && config::flag(&request.config, "errorOnMissing", false)? {
        return Err(FileError::Missing(uri).into());
    }
    Ok(json!({"uri": uri, "deleted": deleted}))
}
