//! `state.Get`: reads what `state.Set` has kept for the flow.

use super::field;
use crate::registry::Work;
use crate::{KvOp, TaskError, config, op};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "state.Get",
    aliases: &["io.kestra.core.tasks.states.Get"],
    summary: "Read a state of the flow.",
    mode: LeafMode::Op,
    class: EffectClass::Transactional,
    fields: &[
        field("name", FieldKind::Text, "The name of the state; `default` if none is given."),
        field("namespace", FieldKind::Bool, "Share it with all flows of the namespace; false by default."),
        field("taskrunValue", FieldKind::Bool, "In a loop, keep one for each of its values; true by default."),
        field("errorOnMissing", FieldKind::Bool, "Fail when there is no such state; false by default."),
    ],
    outputs: &["count", "data"],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    Ok(KvOp::StateGet { at: op::state(config)?, error_on_missing: config::flag(config, "errorOnMissing", false)? })
}
