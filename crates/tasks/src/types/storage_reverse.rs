//! `storage.Reverse`: the last row of a file first.

use super::storage::{named, rows};
use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::files::extension;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.Reverse",
    aliases: &["io.kestra.core.tasks.storages.Reverse"],
    summary: "Write the rows of a file in the opposite order.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("from", FieldKind::Text, "Address of the file."),
        field("separator", FieldKind::Text, "Written after each row; a line break by default."),
        field("charset", FieldKind::Choice(&["UTF-8"]), "Only UTF-8."),
    ],
    outputs: &["uri"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, reverse)
}

fn reverse(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let from = config::required_text(&request.config, "from")?;
    let separator = config::text(&request.config, "separator").unwrap_or_else(|| "\n".to_owned());
    let mut all: Vec<Vec<u8>> = Vec::new();
    rows(desk.open(&from)?, |row| {
        all.push(row.to_vec());
        Ok(())
    })?;
    let mut writer = desk.create(&named("reversed", extension(&from)))?;
    for row in all.iter().rev() {
        writer.write(row)?;
        writer.write(separator.as_bytes())?;
    }
    Ok(json!({"uri": writer.finish()?}))
}
