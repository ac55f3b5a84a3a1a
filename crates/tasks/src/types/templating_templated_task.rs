//! `templating.TemplatedTask`: a task whose definition is written by an expression. What it is, the engine knows when it
//! has evaluated that; it is performed as what it turns out to be.

use super::required;
use crate::effect::{EffectWork, pure};
use crate::registry::Work;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};

pub const SPEC: TaskSpec = TaskSpec {
    name: "templating.TemplatedTask",
    aliases: &["io.kestra.core.tasks.templating.TemplatedTask"],
    summary: "Do what a text says that is known only when the task starts.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[required("spec", FieldKind::Text, "The definition of a task, as YAML.")],
    outputs: &[],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Naked, ..pure() });
