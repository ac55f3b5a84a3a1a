//! `execution.Resume`: lets a run go on that stands still.

use super::field;
use crate::op::{self, KvOp};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.Resume",
    aliases: &["io.kestra.core.tasks.executions.Resume"],
    summary: "Let a paused run go on.",
    mode: LeafMode::Op,
    class: EffectClass::Transactional,
    fields: &[
        field("executionId", FieldKind::Text, "The id of the run; this one by default."),
        field(
            "namespace",
            FieldKind::Text,
            "With `flowId` and without `executionId`: the one paused run of that flow.",
        ),
        field("flowId", FieldKind::Text, "See `namespace`."),
        field("inputs", FieldKind::Any, "What is said to the step at which the run stands still."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    let text = |name: &str| config::text(config, name).filter(|text| !text.trim().is_empty());
    Ok(KvOp::Resume {
        run: text("executionId"),
        namespace: op::namespace(config),
        flow_id: text("flowId"),
        inputs: config::map(config, "inputs")?.map_or(Json::Null, Json::Object),
    })
}
