//! `execution.SetVariables`: gives variables of the run new values.

use super::{field, required};
use crate::registry::Work;
use crate::{InlineOutcome, TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.SetVariables",
    aliases: &[],
    summary: "Set variables of the run; what follows reads them as `vars`.",
    mode: LeafMode::Inline,
    class: EffectClass::Pure,
    fields: &[
        required("variables", FieldKind::Any, "A map of names to values; maps are merged with what is there."),
        field("overwrite", FieldKind::Bool, "false: fail if one of them exists (true)."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Inline(run);

fn run(config: &Json) -> Result<InlineOutcome, TaskError> {
    let given = config::present(config, "variables").ok_or_else(|| TaskError::config("`variables` is missing"))?;
    match config::decoded(given) {
        Json::Object(map) => Ok(InlineOutcome::SetVariables {
            names: map.keys().cloned().collect(),
            overwrite: config::flag(config, "overwrite", true)?,
        }),
        _ => Err(TaskError::config("`variables` must be a map, or JSON text of one")),
    }
}
