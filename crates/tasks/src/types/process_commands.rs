//! `process.Commands`: shell commands, run as a process of this machine.

use super::process::{
    self, BEFORE, ENV, FAIL_FAST, IMAGE, INPUT_FILES, INTERPRETER, OLD_RUNNER, OUTPUT_FILES, OUTPUTS, RUNNER, WARNING,
};
use super::required;
use crate::TaskError;
use crate::effect::{Performing, Request, Tools};
use crate::registry::Work;
use crate::script::Script;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::Value as Json;

pub const SPEC: TaskSpec = TaskSpec {
    name: "process.Commands",
    aliases: &[
        "io.kestra.plugin.scripts.shell.Commands",
        "io.kestra.plugin.scripts.python.Commands",
        "io.kestra.plugin.scripts.node.Commands",
    ],
    summary: "Run shell commands.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[
        required("commands", FieldKind::TextOrList, "The commands, one after the other."),
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
    process::script(config, process::texts(config, "commands")?)
}
