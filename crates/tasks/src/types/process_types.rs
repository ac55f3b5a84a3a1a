//! `process.Commands`, `process.Script`, `process.Python` and `process.Node`: scripts, run as processes of this machine.
//! They differ in their names and in what they run; the rest is one list of properties.

use super::process::{
    BEFORE, ENV, FAIL_FAST, IMAGE, INPUT_FILES, INTERPRETER, NAMESPACE, OLD_IMAGE, OLD_RUNNER, OUTPUT_DIRECTORY,
    OUTPUT_FILES, OUTPUTS, RUNNER, WARNING, perform, script, with_file, work,
};
use super::{field, required};
use crate::config::{required_text, texts};
use crate::registry::Work;
use semel_core::ir::{EffectClass, FieldKind, FieldSpec, LeafMode, TaskSpec};

const COMMANDS: FieldSpec = required("commands", FieldKind::TextOrList, "The commands, one after the other.");
const SCRIPT: FieldSpec = required("script", FieldKind::Text, "The script.");

const DEPENDENCIES: FieldSpec =
    field("dependencies", FieldKind::TextOrList, "Python packages that pip installs into the working directory first.");

macro_rules! script_types {
    ($($module:ident: $name:literal, $aliases:expr, $summary:literal, [$($what:expr),*], $plan:expr;)*) => {$(
        pub mod $module {
            use super::*;

            pub const SPEC: TaskSpec = TaskSpec {
                name: $name,
                aliases: $aliases,
                summary: $summary,
                mode: LeafMode::Effect,
                class: EffectClass::Naked,
                fields: &[
                    $($what,)* BEFORE, ENV, INTERPRETER, FAIL_FAST, INPUT_FILES, OUTPUT_FILES, WARNING, RUNNER, OLD_RUNNER,
                    IMAGE, OLD_IMAGE, NAMESPACE, OUTPUT_DIRECTORY,
                ],
                outputs: OUTPUTS,
            };

            pub const WORK: Work = Work::Effect(work(|tools, request| perform(tools, request, $plan)));
        }
    )*};
}

script_types! {
    process_commands: "process.Commands", &[
        "io.kestra.plugin.scripts.shell.Commands",
        "io.kestra.plugin.scripts.python.Commands",
        "io.kestra.plugin.scripts.node.Commands",
    ], "Run shell commands.", [COMMANDS, DEPENDENCIES], |config| script(config, texts(config, "commands")?);
    process_script: "process.Script", &["io.kestra.plugin.scripts.shell.Script"],
        "Run a shell script.", [SCRIPT], |config| script(config, vec![required_text(config, "script")?]);
    process_python: "process.Python", &["io.kestra.plugin.scripts.python.Script"],
        "Run a Python script with python3.", [SCRIPT, DEPENDENCIES],
        |config| with_file(config, "script.py", required_text(config, "script")?, "python3 script.py");
    process_node: "process.Node", &["io.kestra.plugin.scripts.node.Script"],
        "Run a JavaScript script with node.", [SCRIPT],
        |config| with_file(config, "script.mjs", required_text(config, "script")?, "node script.mjs");
}
