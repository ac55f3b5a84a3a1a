//! `kv.Set`: writes a key of the namespace's store.

use super::{field, required};
use crate::registry::Work;
use crate::{KvOp, TaskError, config, op};
use semel_core::duration;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "kv.Set",
    aliases: &[],
    summary: "Write a value to the key-value store.",
    mode: LeafMode::Op,
    class: EffectClass::Transactional,
    fields: &[
        required("key", FieldKind::Text, "The key."),
        required("value", FieldKind::Any, "The value."),
        field("namespace", FieldKind::Text, "The namespace; the flow's own by default."),
        field(
            "overwrite",
            FieldKind::Bool,
            "Replace an existing value; true by default. If false, an existing key fails the step.",
        ),
        field("ttl", FieldKind::Duration, "How long the key lives; for ever by default."),
        field(
            "kvType",
            FieldKind::Choice(&["STRING", "NUMBER", "BOOLEAN", "DATETIME", "DATE", "DURATION", "JSON"]),
            "What the text of the value is to be read as.",
        ),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    let given = config::present(config, "value").ok_or_else(|| TaskError::config("`value` is missing"))?;
    let kv_type = config::text(config, "kvType").map(|word| word.trim().to_ascii_uppercase());
    let value = match kv_type.as_deref() {
        None => given.clone(),
        Some(word) => converted(given, word)?,
    };
    Ok(KvOp::Set {
        namespace: op::namespace(config),
        key: op::key(config)?,
        value,
        kv_type,
        overwrite: config::flag(config, "overwrite", true)?,
        ttl_ms: config::duration_ms(config, "ttl")?,
    })
}

/// Reads a value as its declared type. Times keep their text: JSON has no type for them.
fn converted(value: &Json, kv_type: &str) -> Result<Json, TaskError> {
    let text = config::as_text(value);
    let trimmed = text.trim();
    let read = match kv_type {
        "STRING" => Some(Json::String(text.clone())),
        "NUMBER" => serde_json::from_str(trimmed).ok().filter(Json::is_number),
        "BOOLEAN" => trimmed.to_ascii_lowercase().parse().ok().map(Json::Bool),
        "DATETIME" => trimmed.parse::<jiff::Timestamp>().ok().map(|_| Json::String(trimmed.to_owned())),
        "DATE" => trimmed.parse::<jiff::civil::Date>().ok().map(|_| Json::String(trimmed.to_owned())),
        "DURATION" => duration::parse_ms(trimmed).ok().map(|_| Json::String(trimmed.to_owned())),
        "JSON" if value.is_string() => serde_json::from_str(trimmed).ok(),
        "JSON" => Some(value.clone()),
        _ => {
            return Err(TaskError::config(
                "`kvType` must be STRING, NUMBER, BOOLEAN, DATETIME, DATE, DURATION or JSON",
            ));
        }
    };
    read.ok_or_else(|| TaskError::config(format!("`value` cannot be read as {kv_type}")))
}
