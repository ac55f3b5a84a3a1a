//! Scripts: processes of this machine, started for a step and gone with it.
//!
//! Off unless the operator turns them on: whoever may push a flow can then run programs as the server's user.
//!
//! | file | what it holds |
//! |---|---|
//! | `directory` | the working directory of a step: made, filled from files, emptied into files, removed |
//! | `glob` | which files a pattern means |
//! | `process` | one process group: started, listened to, ended whatever happens |
//! | `lines` | what a line of output means |
//!
//! Each process leads a group of its own, and the group is killed when the step ends in any way: it is done, its time is
//! over, the server stops. Of the server's environment a process sees only the search path.

mod directory;
pub(crate) mod glob;
mod lines;
mod process;

pub(crate) use directory::{Directory, bring, restore, save};
pub(crate) use directory::{collect, collect_all, fill, fill_from_namespaces, input_files};

use crate::TaskError;
use crate::effect::{Outcome, Request, Tools};
use crate::files::Desk;
use crate::inline::Level;
use crate::namespace_files::NamespaceFiles;
use process::{Ended, Program};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Where scripts run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptConfig {
    /// Working directories are made in here.
    pub directory: PathBuf,
}

/// The folder of the working directory that is `{{ outputDir }}`.
const OUTPUTS: &str = "outputs";

pub(crate) struct Scripts {
    pub config: ScriptConfig,
    places: Semaphore,
}

impl Scripts {
    pub fn new(config: ScriptConfig, places: usize) -> Scripts {
        Scripts { config, places: Semaphore::new(places.max(1)) }
    }
}

/// What a task type makes of its properties.
pub(crate) struct Script {
    /// The program and its arguments. Addresses of files in them become names of local copies.
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The script itself where it is run from a file: its name and text, with addresses as in the command.
    pub source: Option<(String, String)>,
    /// Names in the working directory, and an address or the text itself.
    pub input_files: Vec<(String, String)>,
    /// Patterns of what is kept.
    pub output_files: Vec<String>,
    pub namespace_files: Option<NamespaceFiles>,
    /// All of a folder that is made for it is kept.
    pub output_directory: bool,
}

/// Runs a script to its end.
pub(crate) async fn run(tools: &Tools, request: Request, plan: fn(&Json) -> Result<Script, TaskError>) -> Outcome {
    match tried(tools, request, plan).await {
        Ok(outcome) => outcome,
        Err(error) => error.into(),
    }
}

async fn tried(
    tools: &Tools,
    request: Request,
    plan: fn(&Json) -> Result<Script, TaskError>,
) -> Result<Outcome, TaskError> {
    let scripts = tools.scripts.clone().ok_or_else(|| {
        TaskError::not_built("scripts are turned off; the operator turns them on with `scripts.enabled = true`")
    })?;
    let script = plan(&request.config)?;
    let desk = tools.desk(&request)?;
    let until = Instant::now() + Duration::from_millis(request.timeout_ms);
    let place = tokio::time::timeout_at(until.into(), scripts.places.acquire()).await;
    let Ok(Ok(_place)) = place else {
        return Err(TaskError { code: "no_slot", message: "no place for another script became free in time".into() });
    };
    let files_max = tools.limits.step_files_max;
    let (directory, script, taken) = prepare(&scripts, desk.clone(), script, &request.step_id, files_max).await?;
    for name in taken {
        request.log.say(Level::Warn, format!("the working directory has a file `{name}` already; it stays as it is"));
    }
    if request.send_before.is_some_and(|before| Instant::now() >= before) {
        return Err(TaskError {
            code: "lease_lapsed",
            message: "the node lost its lease before the script began".into(),
        });
    }
    let program = Program {
        command: &script.command,
        env: &script.env,
        directory: directory.path(),
        until,
        line_bytes_max: tools.limits.log_line_bytes_max,
        lines_max: tools.limits.step_log_lines_max,
    };
    let (ended, vars) = process::run(program, &request.log, &request.stop).await?;
    let files = aside(move || {
        save(&desk, &directory, files_max)?;
        let mut kept = collect(&desk, &directory, &script.output_files, files_max)?;
        if script.output_directory {
            kept.extend(collect_all(&desk, &directory, OUTPUTS, files_max)?);
        }
        Ok(kept)
    });
    let files = files.await?;
    Ok(judge(ended, vars, files, request.timeout_ms))
}

async fn prepare(
    scripts: &Arc<Scripts>,
    desk: Desk,
    mut script: Script,
    step_id: &str,
    files_max: usize,
) -> Result<(Arc<Directory>, Script, Vec<String>), TaskError> {
    let (home, step_id) = (scripts.config.directory.clone(), step_id.to_owned());
    aside(move || {
        let mut directory = Directory::make(&home, &step_id)?;
        restore(&desk, &mut directory, files_max)?;
        let taken = match &script.namespace_files {
            Some(wanted) => fill_from_namespaces(&desk, &directory, wanted, files_max)?,
            None => Vec::new(),
        };
        if script.output_directory {
            directory.make_folder(OUTPUTS)?;
        }
        for (_, value) in &mut script.input_files {
            *value = directory.located(value);
        }
        fill(&desk, &directory, &script.input_files)?;
        if let Some((name, text)) = &script.source {
            let text = bring(&desk, &directory, text)?;
            fill(&desk, &directory, &[(name.clone(), text)])?;
        }
        for text in &mut script.command {
            *text = bring(&desk, &directory, text)?;
        }
        for (_, text) in &mut script.env {
            *text = bring(&desk, &directory, text)?;
        }
        Ok((Arc::new(directory), script, taken))
    })
    .await
}

/// Runs what waits for disks on a thread that may.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(TaskError { code: "internal", message: error.to_string() }),
    }
}

fn judge(ended: Ended, vars: Map<String, Json>, files: Map<String, Json>, timeout_ms: u64) -> Outcome {
    let output = |code: Json| json!({"vars": vars, "exitCode": code, "outputFiles": files});
    match ended {
        Ended::Code(0) => Outcome::Done { output: output(json!(0)) },
        Ended::Code(code) => Outcome::FailedClean {
            code: "script_failed",
            message: format!("Command failed with exit code {code}"),
            output: Some(output(json!(code))),
            retryable: true,
        },
        Ended::Killed => Outcome::FailedClean {
            code: "script_killed",
            message: "the script was killed".to_owned(),
            output: Some(output(Json::Null)),
            retryable: true,
        },
        Ended::OutOfTime => Outcome::FailedClean {
            code: "timeout",
            message: format!("the script did not end within {timeout_ms} ms and was killed"),
            output: Some(output(Json::Null)),
            retryable: true,
        },
    }
}
