//! `execution.Fail`: ends the run as failed, always or on a condition.

use super::field;
use crate::registry::Work;
use crate::{InlineOutcome, Level, LogLine, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.Fail",
    aliases: &["io.kestra.core.tasks.executions.Fail"],
    summary: "Fail the run, always or when a condition holds.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[
        field("condition", FieldKind::Text, "Fail only when this is true; empty, false, 0 and -0 are not."),
        field("errorMessage", FieldKind::Text, "What the failure says; `Task failure` by default."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let holds = config::text(config, "condition").is_none_or(|text| truthy(&text));
    if !holds {
        return Ok(InlineOutcome::done(json!({})));
    }
    let message = config::text(config, "errorMessage").unwrap_or_else(|| "Task failure".to_owned());
    let logs = vec![LogLine { level: Level::Error, message: message.clone() }];
    Ok(InlineOutcome::Failed { code: "fail_task", message, logs })
}

/// Kestra's rule, which has no trimming and knows only these four false texts.
pub(super) fn truthy(text: &str) -> bool {
    !matches!(text, "" | "false" | "0" | "-0")
}
