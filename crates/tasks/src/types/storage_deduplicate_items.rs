//! `storage.DeduplicateItems`: of the rows of a file with one key, the last.

use super::required;
use super::storage::{item, named, rows};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::Hash16;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};
use std::collections::HashMap;

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.DeduplicateItems",
    aliases: &["io.kestra.core.tasks.storages.DeduplicateItems"],
    summary: "Keep the last row of each key.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("from", FieldKind::Text, "Address of the file: one JSON object in each row."),
        required("expr", FieldKind::Expression, "Gives the key of a row; its variables are the row's fields."),
    ],
    outputs: &["uri", "numKeys", "processedItemsTotal", "droppedItemsTotal"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, deduplicate)
}

fn deduplicate(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let from = config::required_text(&request.config, "from")?;
    let key = config::required_text(&request.config, "expr")?;
    let expressions = desk.expressions()?;
    // Where each key was seen last. Of a key only a digest is kept: there may be as many as rows.
    let mut last: HashMap<Hash16, u64> = HashMap::new();
    let mut keys: Vec<Hash16> = Vec::new();
    rows(desk.open(&from)?, |row| {
        let found = item(row).and_then(|item| expressions.render(&key, &item));
        let text = found.map_err(|message| TaskError { code: "expression", message })?;
        let digest = Hash16::of(&[text.as_bytes()]);
        last.insert(digest, keys.len() as u64);
        keys.push(digest);
        Ok(())
    })?;
    let mut writer = desk.create(&named("deduplicated", Some(".ion")))?;
    let mut at = 0;
    rows(desk.open(&from)?, |row| {
        if keys.get(at).and_then(|key| last.get(key)) == Some(&(at as u64)) {
            writer.write(row)?;
            writer.write(b"\n")?;
        }
        at += 1;
        Ok(())
    })?;
    let (processed, distinct) = (keys.len(), last.len());
    Ok(json!({
        "uri": writer.finish()?, "numKeys": distinct, "processedItemsTotal": processed,
        "droppedItemsTotal": processed - distinct,
    }))
}
