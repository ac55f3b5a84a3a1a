//! `SEMEL_*` variables: the path of a setting in the file, in capitals, with `_` for the dot.

use super::file::File;
use crate::failure::Failure;
use semel_core::limits::Limits;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::path::PathBuf;

pub fn apply(file: &mut File, variable: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
    // An empty variable is one that a script did not fill.
    let get = |name: &str| variable(name).filter(|value| !value.is_empty());
    let text = |name: &str, slot: &mut Option<String>| *slot = get(name).or(slot.take());
    let path = |name: &str, slot: &mut Option<PathBuf>| *slot = get(name).map(PathBuf::from).or(slot.take());
    text("SEMEL_LISTEN", &mut file.listen);
    text("SEMEL_STORE", &mut file.store);
    path("SEMEL_DATA_DIR", &mut file.data_dir);
    text("SEMEL_LOG_LEVEL", &mut file.log.level);
    text("SEMEL_NATS_URL", &mut file.nats.url);
    path("SEMEL_SECRETS_KEY_FILE", &mut file.secrets.key_file);
    text("SEMEL_SECRETS_KEY_COMMAND", &mut file.secrets.key_command);
    text("SEMEL_RETENTION_DECISIONS", &mut file.retention.decisions);
    text("SEMEL_RETENTION_HISTORY", &mut file.retention.history);
    if let Some(value) = get("SEMEL_DEV") {
        file.dev = flag("SEMEL_DEV", &value)?;
    }
    path("SEMEL_SCRIPTS_DIRECTORY", &mut file.scripts.directory);
    if let Some(value) = get("SEMEL_SCRIPTS_ENABLED") {
        file.scripts.enabled = flag("SEMEL_SCRIPTS_ENABLED", &value)?;
    }
    if let Some(value) = get("SEMEL_LOG_FORMAT") {
        file.log.format = word("SEMEL_LOG_FORMAT", &value, "text or json")?;
    }
    if let Some(value) = get("SEMEL_OUTBOUND_PRIVATE") {
        file.outbound.private = word("SEMEL_OUTBOUND_PRIVATE", &value, "allow or deny")?;
    }
    if let Some(value) = get("SEMEL_OUTBOUND_ALLOW") {
        file.outbound.allow =
            value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect();
    }
    if let Some(value) = get("SEMEL_TRIGGER_SCOPE") {
        file.trigger.scope = word("SEMEL_TRIGGER_SCOPE", &value, "flow or workspace")?;
    }
    if let Some(value) = get("SEMEL_KESTRA_CORRELATION_GUARD") {
        file.kestra.correlation_guard = word("SEMEL_KESTRA_CORRELATION_GUARD", &value, "off or atomic")?;
    }
    limits(&mut file.limits, get)
}

/// One variable per field, found by the field's own name, so that a new limit needs no line here.
fn limits(limits: &mut Limits, get: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let Ok(Json::Object(mut fields)) = serde_json::to_value(&*limits) else { return Ok(()) };
    for (field, value) in &mut fields {
        let name = format!("SEMEL_LIMITS_{}", field.to_uppercase());
        if let Some(text) = get(&name) {
            let number = text.trim().parse::<u64>();
            *value =
                json!(number.map_err(|_| Failure::config(format!("{name} must be a whole number, not `{text}`")))?);
        }
    }
    *limits = serde_json::from_value(Json::Object(fields))
        .map_err(|error| Failure::config(format!("SEMEL_LIMITS_*: {error}")))?;
    Ok(())
}

fn flag(name: &str, value: &str) -> Result<bool, Failure> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(Failure::config(format!("{name} must be true or false, not `{value}`"))),
    }
}

fn word<T: DeserializeOwned>(name: &str, value: &str, expected: &str) -> Result<T, Failure> {
    serde_json::from_value(json!(value.to_ascii_lowercase()))
        .map_err(|_| Failure::config(format!("{name} must be {expected}, not `{value}`")))
}
