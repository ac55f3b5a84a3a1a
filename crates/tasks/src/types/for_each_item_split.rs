//! A part of `flow.ForEachItem`: the file of items becomes several, whose addresses are listed in another file.

use super::storage::{Size, Split};
use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::files::is_address;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, SPLIT_PART, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: SPLIT_PART,
    aliases: &[],
    summary: "Cut a file of items into batches.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("items", FieldKind::Text, "Address of the file."),
        field("batch", FieldKind::Any, "How large a batch is."),
    ],
    outputs: &["splits"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, split)
}

fn split(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let from = config::required_text(&request.config, "items")?;
    if !is_address(&from) {
        return Err(TaskError::config(format!("`items` must be the address of a file (kestra:///…), not `{from}`")));
    }
    let mut batch = request.config.get("batch").cloned().unwrap_or_else(|| json!({}));
    if batch.as_object().is_none_or(|fields| !["bytes", "partitions", "rows"].iter().any(|f| fields.contains_key(*f))) {
        batch["rows"] = json!(1);
    }
    let split = Split {
        from,
        size: Size::read(&batch)?,
        separator: config::text(&batch, "separator").unwrap_or_else(|| "\n".to_owned()),
        files_max: limits.foreach_items_max as usize,
    };
    let list = split.run(desk)?.join("\n");
    Ok(json!({"splits": desk.write("splits.txt", list.as_bytes())?}))
}
