//! `debug.Return`: gives its rendered text back as an output.

use super::field;
use crate::registry::Work;
use crate::{InlineOutcome, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "debug.Return",
    aliases: &["io.kestra.core.tasks.debugs.Return"],
    summary: "Give a rendered text back as output.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[field("format", FieldKind::Text, "The text to render.")],
    outputs: &["value"],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let output = match config::text(config, "format") {
        None => json!({}),
        Some(value) => json!({ "value": value }),
    };
    Ok(InlineOutcome::done(output))
}
