//! `trigger.Toggle`: switches a trigger on or off.

use super::{field, required};
use crate::registry::Work;
use crate::{KvOp, TaskError, config, op};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "trigger.Toggle",
    aliases: &["io.kestra.core.tasks.trigger.Toggle", "io.kestra.core.tasks.triggers.Toggle"],
    summary: "Switch a trigger on or off.",
    mode: LeafMode::Op,
    class: EffectClass::Transactional,
    fields: &[
        required("trigger", FieldKind::Text, "The id of the trigger."),
        field("flowId", FieldKind::Text, "The flow it belongs to; this one by default."),
        field("namespace", FieldKind::Text, "The namespace of that flow; the flow's own by default."),
        field("enabled", FieldKind::Bool, "Whether it is to fire; false by default."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    Ok(KvOp::Toggle {
        namespace: op::namespace(config),
        flow_id: config::text(config, "flowId").filter(|id| !id.trim().is_empty()),
        trigger: config::required_text(config, "trigger")?,
        enabled: config::flag(config, "enabled", false)?,
    })
}
