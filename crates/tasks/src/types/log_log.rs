//! `log.Log`: writes lines to the step's log.

use super::{field, required};
use crate::registry::Work;
use crate::{InlineOutcome, Level, LogLine, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "log.Log",
    aliases: &["io.kestra.core.tasks.log.Log"],
    summary: "Write one or more lines to the log.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[
        required("message", FieldKind::TextOrList, "The line, or a list of lines."),
        field(
            "level",
            FieldKind::Choice(&["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]),
            "Level of the lines; INFO by default.",
        ),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let level = config::text(config, "level").map_or(Ok(Level::Info), |text| text.parse())?;
    let messages = match config.get("message") {
        None => return Err(TaskError::config("`message` is missing")),
        Some(Json::Array(lines)) => lines.iter().map(config::as_text).collect(),
        // An expression may come to nothing.
        Some(line) => vec![config::as_text(line)],
    };
    let logs = messages.into_iter().map(|message| LogLine { level, message }).collect();
    Ok(InlineOutcome::Done { output: json!({}), logs, labels: Vec::new() })
}
