//! `kv.Get`: reads a key of the namespace's store.

use super::{field, required};
use crate::registry::Work;
use crate::{KvOp, TaskError, config, op};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "kv.Get",
    aliases: &[],
    summary: "Read a value from the key-value store.",
    mode: LeafMode::Op,
    class: EffectClass::Transactional,
    fields: &[
        required("key", FieldKind::Text, "The key."),
        field("namespace", FieldKind::Text, "The namespace; the flow's own by default."),
        field("errorOnMissing", FieldKind::Bool, "Fail when the key is missing or expired; true by default."),
    ],
    outputs: &["value"],
};

pub const WORK: Work = Work::Op(plan);

fn plan(config: &Json) -> Result<KvOp, TaskError> {
    Ok(KvOp::Get {
        namespace: op::namespace(config),
        key: op::key(config)?,
        error_on_missing: config::flag(config, "errorOnMissing", true)?,
    })
}
