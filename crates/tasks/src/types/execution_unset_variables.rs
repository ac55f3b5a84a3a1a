//! `execution.UnsetVariables`: takes variables away from the run.

use super::{field, required};
use crate::registry::Work;
use crate::{InlineOutcome, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.UnsetVariables",
    aliases: &[],
    summary: "Take variables away from the run.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[
        required("variables", FieldKind::Any, "A list of names."),
        field("ignoreMissing", FieldKind::Bool, "true: names that are not there are no mistake (false)."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let given = config::present(config, "variables").ok_or_else(|| TaskError::config("`variables` is missing"))?;
    match config::decoded(given) {
        Json::Array(names) => Ok(InlineOutcome::UnsetVariables {
            names: names.iter().map(config::as_text).collect(),
            ignore_missing: config::flag(config, "ignoreMissing", false)?,
        }),
        _ => Err(TaskError::config("`variables` must be a list of names, or JSON text of one")),
    }
}
