//! One process group: started, listened to, and ended whatever happens.

use super::lines::{self, Line};
use crate::TaskError;
use crate::effect::{Log, Stop};
use crate::inline::Level;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value as Json};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// How long the output of what a script has left behind is waited for.
const LINGER: Duration = Duration::from_secs(2);
/// What the lines of a step's log may take in all: they are committed together.
const LOG_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What the outputs of a script may take in all.
const OUTPUTS_BYTES_MAX: usize = 1024 * 1024;

pub struct Program<'a> {
    pub command: &'a [String],
    pub env: &'a [(String, String)],
    pub directory: &'a Path,
    pub until: Instant,
    pub line_bytes_max: usize,
    pub lines_max: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    /// By a signal, of its own or because its run is being cancelled.
    Killed,
    OutOfTime,
}

/// Kills what is left of a group when the step is over.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Nothing is left of most groups by then, and that is said as an error.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

pub async fn run(program: Program<'_>, log: &Log, stop: &Stop) -> Result<(Ended, Map<String, Json>), TaskError> {
    let mut child = start(&program)?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let group = Group(leader);
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut heard = Heard { log, outputs: Map::new(), lines: 0, log_bytes: 0, bytes: 0, lines_max: program.lines_max };
    let (say, mut hear) = tokio::sync::mpsc::channel(64);
    let readers = [
        out.map(|out| tokio::spawn(read(out, false, say.clone(), program.line_bytes_max))),
        err.map(|err| tokio::spawn(read(err, true, say.clone(), program.line_bytes_max))),
    ];
    drop(say);
    let ended = {
        let deadline = tokio::time::sleep_until(program.until.into());
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                line = hear.recv() => match line {
                    Some((text, is_error)) => heard.take(&text, is_error),
                    // It has closed both: only its end is left to wait for.
                    None => break wait(&mut child, program.until, stop).await?,
                },
                status = child.wait() => break ended(status)?,
                () = &mut deadline => break Ended::OutOfTime,
                () = stop.asked() => break Ended::Killed,
            }
        }
    };
    // What it started in the background ends with it, and with that the pipes.
    drop(group);
    let rest = async {
        while let Some((text, is_error)) = hear.recv().await {
            heard.take(&text, is_error);
        }
    };
    let _ = tokio::time::timeout(LINGER, rest).await;
    readers.into_iter().flatten().for_each(|reader| reader.abort());
    Ok((ended, heard.outputs))
}

fn start(program: &Program<'_>) -> Result<Child, TaskError> {
    let [name, arguments @ ..] = program.command else {
        return Err(TaskError::config("there is no command to run"));
    };
    let mut command = Command::new(name);
    command
        .args(arguments)
        .current_dir(program.directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()))
        .env("HOME", program.directory)
        .env("LANG", "C.UTF-8")
        .env("WORKING_DIR", program.directory)
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|error| TaskError {
        code: "script_failed",
        message: format!("`{}` could not be started: {error}", name.chars().take(200).collect::<String>()),
    })
}

async fn wait(child: &mut Child, until: Instant, stop: &Stop) -> Result<Ended, TaskError> {
    tokio::select! {
        status = child.wait() => ended(status),
        () = tokio::time::sleep_until(until.into()) => Ok(Ended::OutOfTime),
        () = stop.asked() => Ok(Ended::Killed),
    }
}

fn ended(status: std::io::Result<std::process::ExitStatus>) -> Result<Ended, TaskError> {
    let status = status.map_err(|error| TaskError { code: "internal", message: error.to_string() })?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, _) => Ended::Killed,
    })
}

/// What was said so far, within its bounds.
struct Heard<'a> {
    log: &'a Log,
    outputs: Map<String, Json>,
    lines: usize,
    log_bytes: usize,
    bytes: usize,
    lines_max: usize,
}

impl Heard<'_> {
    fn take(&mut self, text: &str, is_error: bool) {
        match lines::read(text, is_error) {
            Line::Said(level, text) => self.say(level, text),
            Line::Given { outputs, said } => {
                said.into_iter().for_each(|(level, text)| self.say(level, text));
                self.bytes += text.len();
                if self.bytes > OUTPUTS_BYTES_MAX {
                    return self.say(Level::Warn, format!("outputs past {OUTPUTS_BYTES_MAX} bytes are dropped"));
                }
                self.outputs.extend(outputs);
            }
        }
    }

    fn say(&mut self, level: Level, text: String) {
        self.log_bytes += text.len();
        if self.log_bytes > LOG_BYTES_MAX && self.lines < self.lines_max {
            // The next one says that there are more.
            self.lines = self.lines_max.saturating_sub(1);
        }
        self.lines += 1;
        match self.lines.cmp(&self.lines_max) {
            std::cmp::Ordering::Less => self.log.say(level, text),
            std::cmp::Ordering::Equal => self.log.say(Level::Warn, "further lines of this step are dropped"),
            std::cmp::Ordering::Greater => {}
        }
    }
}

type Said = tokio::sync::mpsc::Sender<(String, bool)>;

/// Cuts a stream into lines. A line that is too long is cut too, and what it holds beyond that is dropped.
async fn read(mut from: impl AsyncRead + Unpin, is_error: bool, say: Said, line_bytes_max: usize) {
    let mut line: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        for part in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = line_bytes_max.saturating_sub(line.len());
            line.extend_from_slice(&text[..text.len().min(room)]);
            if ends && say.send((to_text(&mut line), is_error)).await.is_err() {
                return;
            }
        }
    }
    if !line.is_empty() {
        // Nobody listens any more when the step is over.
        let _ = say.send((to_text(&mut line), is_error)).await;
    }
}

fn to_text(line: &mut Vec<u8>) -> String {
    let text = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
    line.clear();
    text
}
