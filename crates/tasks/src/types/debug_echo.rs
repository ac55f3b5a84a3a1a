//! `debug.Echo`: the old way to write a line to the log.

use super::field;
use crate::registry::Work;
use crate::{InlineOutcome, Level, LogLine, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "debug.Echo",
    aliases: &["io.kestra.core.tasks.debugs.Echo"],
    summary: "Write a line to the log; log.Log is its newer name.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[
        field("format", FieldKind::Text, "The line."),
        field(
            "level",
            FieldKind::Choice(&["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]),
            "Level of the line; INFO by default.",
        ),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let level = config::text(config, "level").map_or(Ok(Level::Info), |text| text.parse())?;
    let logs = config::text(config, "format").map(|message| LogLine { level, message });
    Ok(InlineOutcome::Done { output: json!({}), logs: logs.into_iter().collect(), labels: Vec::new() })
}
