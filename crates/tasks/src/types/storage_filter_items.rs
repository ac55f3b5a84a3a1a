//! `storage.FilterItems`: the rows of a file that a condition holds for, or those it does not.

use super::storage::{item, named, rows};
use super::{field, required};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

const WAYS: &[&str] = &["INCLUDE", "EXCLUDE"];
const ON_ERROR: &[&str] = &["FAIL", "INCLUDE", "EXCLUDE"];

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.FilterItems",
    aliases: &["io.kestra.core.tasks.storages.FilterItems"],
    summary: "Keep the rows of a file that a condition holds for.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        required("from", FieldKind::Text, "Address of the file: one JSON object in each row."),
        required(
            "filterCondition",
            FieldKind::Expression,
            "Evaluated for each row; its variables are the row's fields.",
        ),
        field(
            "filterType",
            FieldKind::Choice(WAYS),
            "INCLUDE keeps the rows it holds for (default), EXCLUDE drops them.",
        ),
        field(
            "errorOrNullBehavior",
            FieldKind::Choice(ON_ERROR),
            "What to do where it cannot be evaluated; FAIL by default.",
        ),
    ],
    outputs: &["uri", "processedItemsTotal", "droppedItemsTotal"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, filter)
}

fn word(config: &Json, name: &str, words: &[&'static str]) -> Result<&'static str, TaskError> {
    let Some(text) = config::text(config, name) else { return Ok(words[0]) };
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(text.trim()));
    found.copied().ok_or_else(|| TaskError::config(format!("`{name}` must be one of {}", words.join(", "))))
}

fn filter(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let condition = config::required_text(&request.config, "filterCondition")?;
    let includes = word(&request.config, "filterType", WAYS)? == "INCLUDE";
    let on_error = word(&request.config, "errorOrNullBehavior", ON_ERROR)?;
    let expressions = desk.expressions()?;
    let mut writer = desk.create(&named("filtered", Some(".ion")))?;
    let (mut processed, mut dropped) = (0_u64, 0_u64);
    rows(desk.open(&config::required_text(&request.config, "from")?)?, |row| {
        processed += 1;
        let found = item(row).and_then(|item| expressions.render(&condition, &item));
        let keeps = match (found, on_error) {
            (Ok(text), _) => is_true(text.trim()) == includes,
            (Err(message), "FAIL") => return Err(TaskError { code: "expression", message }),
            (Err(_), behaviour) => behaviour == "INCLUDE",
        };
        if keeps {
            writer.write(row)?;
            writer.write(b"\n")?;
        } else {
            dropped += 1;
        }
        Ok(())
    })?;
    Ok(json!({"uri": writer.finish()?, "processedItemsTotal": processed, "droppedItemsTotal": dropped}))
}

fn is_true(text: &str) -> bool {
    !matches!(text, "" | "false" | "0" | "-0")
}
