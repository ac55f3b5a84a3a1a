//! `execution.Kill`: asks another run to stop.

use super::{field, required};
use crate::op::KvOp;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.Kill",
    aliases: &[],
    summary: "Ask a run to stop, and the sub-runs that it waits for.",
    mode: LeafMode::Op,
    class: EffectClass::Pure,
    fields: &[
        required("executionId", FieldKind::Text, "The id of the run."),
        field("propagateKill", FieldKind::Bool, "Whether the sub-runs that it waits for are stopped too (true)."),
    ],
    outputs: &[],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    let alone = !config::flag(config, "propagateKill", true)?;
    Ok(KvOp::Kill { run: config::required_text(config, "executionId")?, alone })
}
