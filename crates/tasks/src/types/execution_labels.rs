//! `execution.Labels`: adds labels to the run.

use super::required;
use crate::registry::Work;
use crate::{InlineOutcome, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.Labels",
    aliases: &["io.kestra.core.tasks.executions.Labels"],
    summary: "Add labels to the run, or give existing ones new values.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[required("labels", FieldKind::Any, "A map, a list of key and value pairs, or JSON text of either.")],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let given = config::present(config, "labels").ok_or_else(|| TaskError::config("`labels` is missing"))?;
    let labels = match config::decoded(given) {
        Json::Object(map) => map.iter().map(|(key, value)| label(key, value)).collect::<Result<Vec<_>, _>>()?,
        Json::Array(pairs) => pairs.iter().map(pair).collect::<Result<Vec<_>, _>>()?,
        _ => {
            return Err(TaskError::config(
                "`labels` must be a map, a list of key and value pairs, or JSON text of either",
            ));
        }
    };
    Ok(InlineOutcome::Done { output: json!({}), logs: Vec::new(), labels })
}

fn pair(item: &Json) -> Result<(String, String), TaskError> {
    match (item.get("key"), item.get("value")) {
        (Some(key), Some(value)) => label(&config::as_text(key), value),
        _ => Err(TaskError::config("each label of a list needs `key` and `value`")),
    }
}

fn label(key: &str, value: &Json) -> Result<(String, String), TaskError> {
    if key.is_empty() {
        return Err(TaskError::config("a label has an empty key"));
    }
    if value.is_object() || value.is_array() || value.is_null() {
        return Err(TaskError::config(format!("the label `{key}` must have a text, a number or a boolean as value")));
    }
    let value = config::as_text(value);
    if key.starts_with("system.") {
        return Err(TaskError::config(format!(
            "System labels can only be set by Semel itself, offending label: {key}={value}"
        )));
    }
    Ok((key.to_owned(), value))
}
