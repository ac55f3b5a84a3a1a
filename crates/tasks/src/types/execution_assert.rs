//! `execution.Assert`: fails the run unless all of its conditions hold.

use super::{execution_fail::truthy, field, required};
use crate::registry::Work;
use crate::{InlineOutcome, Level, LogLine, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.Assert",
    aliases: &["io.kestra.core.tasks.executions.Assert"],
    summary: "Fail the run unless all conditions hold.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[
        required("conditions", FieldKind::TextOrList, "What must hold; empty, false, 0 and -0 do not."),
        field("errorMessage", FieldKind::Text, "What the failure says besides how many did not hold."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let conditions = match config::present(config, "conditions") {
        Some(Json::Array(items)) => items.iter().map(config::as_text).collect(),
        Some(one) => vec![config::as_text(one)],
        None => vec![],
    };
    let broken: Vec<usize> = (0..conditions.len()).filter(|at| !truthy(&conditions[*at])).collect();
    if broken.is_empty() {
        return Ok(InlineOutcome::done(json!({})));
    }
    let mut message = format!("{} assertion{} failed!", broken.len(), if broken.len() > 1 { "s" } else { "" });
    if let Some(text) = config::text(config, "errorMessage") {
        message = format!("{message}\n{text}");
    }
    let line = |at: &usize| LogLine { level: Level::Error, message: format!("Assertion {} does not hold", at + 1) };
    Ok(InlineOutcome::Failed { code: "assertion_failed", message, logs: broken.iter().map(line).collect() })
}
