//! `state.Set`: keeps values for later runs of the flow, merged with those that are there.

use super::field;
use crate::registry::Work;
use crate::{KvOp, TaskError, config, op};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "state.Set",
    aliases: &["io.kestra.core.tasks.states.Set"],
    summary: "Keep values for later runs of the flow.",
    mode: LeafMode::Op,
    class: EffectClass::Transactional,
    fields: &[
        field("name", FieldKind::Text, "The name of the state; `default` if none is given."),
        field("namespace", FieldKind::Bool, "Share it with all flows of the namespace; false by default."),
        field("taskrunValue", FieldKind::Bool, "In a loop, keep one for each of its values; true by default."),
        field("data", FieldKind::Any, "A map; maps in it are merged with what is there, all else replaces it."),
    ],
    outputs: &["count", "key"],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    Ok(KvOp::StateSet { at: op::state(config)?, data: config::map(config, "data")?.unwrap_or_default() })
}
