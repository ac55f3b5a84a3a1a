//! What the tasks that run scripts have in common: their properties, and the command line made of them.

use super::field;
use crate::TaskError;
use crate::config::{self, texts};
use crate::effect::{EffectWork, Performing, Request, Tools};
use crate::namespace_files::NamespaceFiles;
use crate::script::{self, Script, input_files};
use semel_core::ir::{EffectClass, FieldKind, FieldSpec, NAMESPACE_FILES};
use serde_json::Value as Json;

const NO_WARNING: &str = "is not offered: a script that ends with 0 is a success";

pub const ENV: FieldSpec = field("env", FieldKind::TextMap, "Variables of the process.");
pub const BEFORE: FieldSpec = field("beforeCommands", FieldKind::TextOrList, "Run before the rest.");
pub const INTERPRETER: FieldSpec =
    field("interpreter", FieldKind::TextOrList, "Program that is given the commands; /bin/sh -c by default.");
pub const FAIL_FAST: FieldSpec =
    field("failFast", FieldKind::Bool, "End with the first command that fails; true by default.");
pub const INPUT_FILES: FieldSpec =
    field("inputFiles", FieldKind::Any, "Files to put into the working directory: names, and addresses or texts.");
pub const OUTPUT_FILES: FieldSpec =
    field("outputFiles", FieldKind::TextOrList, "Files to keep: patterns in the working directory.");
pub const WARNING: FieldSpec = field("warningOnStdErr", FieldKind::Only(false, NO_WARNING), "Only false.");
pub const RUNNER: FieldSpec = field("taskRunner", FieldKind::Any, "Only core.runner.Process.");
pub const OLD_RUNNER: FieldSpec = field("runner", FieldKind::Choice(&["PROCESS"]), "Only PROCESS.");
pub const NAMESPACE: FieldSpec = field(
    "namespaceFiles",
    FieldKind::Object(NAMESPACE_FILES),
    "Files of the namespace to put into the working directory.",
);
pub const OUTPUT_DIRECTORY: FieldSpec =
    field("outputDirectory", FieldKind::Bool, "Keep what is in the folder `{{ outputDir }}`; false by default.");
pub const IMAGE: FieldSpec =
    field("containerImage", FieldKind::Text, "Accepted: scripts run as processes of this machine.");
pub const OLD_IMAGE: FieldSpec =
    field("docker", FieldKind::Any, "Accepted and not used: nothing here runs in a container.");

pub const OUTPUTS: &[&str] = &["vars", "exitCode", "outputFiles"];

/// A script may do anything, so after a crash nobody knows what it has done.
pub const fn work(perform: for<'a> fn(&'a Tools, Request) -> Performing<'a>) -> EffectWork {
    EffectWork { class: |_| EffectClass::Naked, sends_key: |_| false, timeout_ms: |_| Some(TIMEOUT_MS), perform }
}

/// For a task without `timeout`.
const TIMEOUT_MS: u64 = 3_600_000;

pub fn perform(tools: &Tools, request: Request, plan: fn(&Json) -> Result<Script, TaskError>) -> Performing<'_> {
    Box::pin(script::run(tools, request, plan))
}

/// The script that runs these commands, one after the other.
pub fn script(config: &Json, commands: Vec<String>) -> Result<Script, TaskError> {
    process_only(config)?;
    let mut command = texts(config, "interpreter")?;
    if command.is_empty() {
        command = vec!["/bin/sh".to_owned(), "-c".to_owned()];
    }
    let mut lines = Vec::new();
    if config::flag(config, "failFast", true)? {
        lines.push("set -e".to_owned());
    }
    let packages = texts(config, "dependencies")?;
    if !packages.is_empty() {
        if config::present(config, "interpreter").is_some() {
            return Err(TaskError::config("`dependencies` are installed by the shell: leave out `interpreter`"));
        }
        lines.extend(installed(&packages));
    }
    lines.extend(texts(config, "beforeCommands")?);
    lines.extend(commands);
    command.push(lines.join("\n"));
    let env = config::map(config, "env")?.unwrap_or_default();
    let env: Vec<(String, String)> = env.iter().map(|(name, value)| (name.clone(), config::as_text(value))).collect();
    if let Some((name, _)) = env.iter().find(|(name, value)| !is_variable(name) || value.contains('\0')) {
        return Err(TaskError::config(format!("`env`: `{name}` is not a variable that a process can have")));
    }
    if command.iter().any(|text| text.contains('\0')) {
        return Err(TaskError::config("a command cannot hold a zero byte"));
    }
    Ok(Script {
        command,
        env,
        source: None,
        input_files: input_files(config, "inputFiles")?,
        output_files: texts(config, "outputFiles")?,
        namespace_files: NamespaceFiles::read(config)?,
        output_directory: config::flag(config, "outputDirectory", false)?,
    })
}

/// Python finds what is installed into a folder of the working directory.
fn installed(packages: &[String]) -> [String; 2] {
    let quoted: Vec<String> = packages.iter().map(|name| format!("'{}'", name.replace('\'', "'\\''"))).collect();
    let install = "python3 -m pip install --quiet --disable-pip-version-check --target \"$WORKING_DIR/.packages\" --";
    [
        format!("{install} {} || exit 1", quoted.join(" ")),
        "export PYTHONPATH=\"$WORKING_DIR/.packages${PYTHONPATH:+:$PYTHONPATH}\"".to_owned(),
    ]
}

/// The script that is written to a file and run from it.
pub fn with_file(config: &Json, name: &str, text: String, command: &str) -> Result<Script, TaskError> {
    let mut script = script(config, vec![command.to_owned()])?;
    script.source = Some((name.to_owned(), text));
    Ok(script)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn process_only(config: &Json) -> Result<(), TaskError> {
    let Some(runner) = config::present(config, "taskRunner") else { return Ok(()) };
    let kind = runner.get("type").map(config::as_text).unwrap_or_default();
    if kind.ends_with("runner.Process") {
        return Ok(());
    }
    Err(TaskError::not_built(format!(
        "the task runner `{kind}` is not offered; scripts run as processes of this machine"
    )))
}
