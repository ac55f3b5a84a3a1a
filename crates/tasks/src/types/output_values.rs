//! `output.OutputValues`: names values for later steps.

use super::required;
use crate::registry::Work;
use crate::{InlineOutcome, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "output.OutputValues",
    aliases: &["io.kestra.core.tasks.outputs.OutputValues"],
    summary: "Give a map of values as output.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[required("values", FieldKind::Any, "A map; its values keep their types.")],
    outputs: &["values"],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let values = config::map(config, "values")?.ok_or_else(|| TaskError::config("`values` is missing"))?;
    Ok(InlineOutcome::done(json!({ "values": values })))
}
