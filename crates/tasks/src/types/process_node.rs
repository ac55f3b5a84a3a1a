//! `process.Node`: a JavaScript script, run as a process of this machine.

use super::process::{
    self, BEFORE, ENV, FAIL_FAST, IMAGE, INPUT_FILES, INTERPRETER, OLD_RUNNER, OUTPUT_FILES, OUTPUTS, RUNNER, WARNING,
};
use super::required;
use crate::effect::{Performing, Request, Tools};
use crate::registry::Work;
use crate::script::Script;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "process.Node",
    aliases: &["io.kestra.plugin.scripts.node.Script"],
    summary: "Run a JavaScript script with node.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[
        required("script", FieldKind::Text, "The script."),
        BEFORE,
        ENV,
        INTERPRETER,
        FAIL_FAST,
        INPUT_FILES,
        OUTPUT_FILES,
        WARNING,
        RUNNER,
        OLD_RUNNER,
        IMAGE,
    ],
    outputs: OUTPUTS,
};

pub const WORK: Work = Work::Effect(process::work(perform));

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    process::perform(tools, request, plan)
}

fn plan(config: &Json) -> Result<Script, TaskError> {
    let text = config::required_text(config, "script")?;
    process::with_file(config, "script.mjs", text, "node script.mjs")
}
