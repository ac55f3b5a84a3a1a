//! `storage.Concat`: several files become one.

use super::storage::{list, named};
use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::{Desk, FileError};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};
use std::io::BufRead;

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.Concat",
    aliases: &["io.kestra.core.tasks.storages.Concat"],
    summary: "Join files, one after the other.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("files", FieldKind::Any, "Addresses of the files: a list, or JSON text of one."),
        field("separator", FieldKind::Text, "Written after each file."),
        field("extension", FieldKind::Text, "Ending of the new file's name; .tmp by default."),
    ],
    outputs: &["uri"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, concat)
}

fn concat(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let files = list(&request.config, "files", limits.step_files_max)?;
    let separator = config::text(&request.config, "separator").unwrap_or_default();
    let extension = config::text(&request.config, "extension").unwrap_or_else(|| ".tmp".to_owned());
    let mut writer = desk.create(&named("concat", Some(&extension)))?;
    for uri in files {
        let mut reader = desk.open(&uri)?;
        loop {
            let ready = reader.fill_buf().map_err(|error| FileError::Store(error.to_string()))?;
            if ready.is_empty() {
                break;
            }
            writer.write(ready)?;
            let count = ready.len();
            reader.consume(count);
        }
        writer.write(separator.as_bytes())?;
    }
    Ok(json!({"uri": writer.finish()?}))
}
