//! The parent: a few children, each asked by one script at a time.

use super::{Answer, Question};
use crate::TaskError;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;

/// How scripts are run.
#[derive(Clone, Debug)]
pub struct JavascriptConfig {
    /// Our own program, and how it is told to be a child.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub children_max: usize,
    pub time_ms: u64,
    pub memory_bytes: usize,
    /// The longest answer that is read.
    pub answer_bytes_max: usize,
}

impl JavascriptConfig {
    /// Conductor's four seconds, and bounds that a definition's script does not meet.
    pub fn new(program: PathBuf, arguments: Vec<String>) -> JavascriptConfig {
        JavascriptConfig {
            program,
            arguments,
            children_max: 2,
            time_ms: 4_000,
            memory_bytes: 64 << 20,
            answer_bytes_max: 8 << 20,
        }
    }
}

/// Beyond a script's time, before its child is killed: the engine interrupts itself as a rule.
const GRACE_MS: u64 = 1_000;

struct Running {
    /// Ends with this record.
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Evaluates scripts. Children are started when they are needed, and stay.
pub struct Javascript {
    config: JavascriptConfig,
    places: Semaphore,
    idle: Mutex<Vec<Running>>,
}

fn failed(message: impl Into<String>) -> TaskError {
    TaskError { code: "script", message: message.into() }
}

impl Javascript {
    pub fn new(config: JavascriptConfig) -> Javascript {
        let places = Semaphore::new(config.children_max.max(1));
        Javascript { config, places, idle: Mutex::default() }
    }

    /// The value of a script on its input.
    pub async fn evaluate(&self, script: &str, input: &Json) -> Result<Json, TaskError> {
        let _place = self.places.acquire().await.map_err(|_| failed("no scripts are run any more"))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut child = match idle {
            Some(child) => child,
            None => self.start()?,
        };
        let question = Question {
            script: Cow::Borrowed(script),
            input: Cow::Borrowed(input),
            time_ms: self.config.time_ms,
            memory_bytes: self.config.memory_bytes,
        };
        let time = Duration::from_millis(self.config.time_ms + GRACE_MS);
        // A child that did not answer as it should is dropped, and with that killed.
        let answer = match tokio::time::timeout(time, child.ask(&question, self.config.answer_bytes_max)).await {
            Ok(answer) => answer?,
            Err(_) => {
                let text = format!("Script not evaluated within {} ms, interrupted.", self.config.time_ms);
                return Err(failed(text));
            }
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        match answer {
            Answer::Failed(message) => Err(failed(message)),
            Answer::Done(text) => serde_json::from_str(&text).map_err(|_| failed("the script gave no JSON")),
        }
    }

    fn start(&self) -> Result<Running, TaskError> {
        let cannot = |error: std::io::Error| failed(format!("the process for scripts does not start: {error}"));
        let mut child = Command::new(&self.config.program)
            .args(&self.config.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Running { _child: child, input, output: BufReader::new(output) }),
            _ => Err(failed("the process for scripts has no pipes")),
        }
    }
}

impl Running {
    async fn ask(&mut self, question: &Question<'_>, answer_bytes_max: usize) -> Result<Answer, TaskError> {
        let gone = |_| failed("the process for scripts ended while it worked on this one");
        let mut line = serde_json::to_string(question).map_err(|error| failed(error.to_string()))?;
        line.push('\n');
        self.input.write_all(line.as_bytes()).await.map_err(gone)?;
        self.input.flush().await.map_err(gone)?;
        let mut answer = Vec::new();
        let most = answer_bytes_max as u64;
        let read = (&mut self.output).take(most).read_until(b'\n', &mut answer).await.map_err(gone)?;
        match answer.last() {
            Some(b'\n') => serde_json::from_slice(&answer).map_err(|_| failed("the process for scripts said nonsense")),
            _ if read as u64 >= most => Err(failed(format!("the script gave more than {answer_bytes_max} bytes"))),
            _ => Err(failed("the process for scripts ended while it worked on this one")),
        }
    }
}
