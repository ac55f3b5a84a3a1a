//! Tasks that are computed in the engine: pure, synchronous, and therefore free to repeat.

use crate::TaskError;
use crate::registry::{self, Work};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Level::Trace => "TRACE",
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = TaskError;

    fn from_str(text: &str) -> Result<Level, TaskError> {
        let word = text.trim();
        [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error]
            .into_iter()
            .find(|level| level.word().eq_ignore_ascii_case(word))
            .ok_or_else(|| {
                TaskError::config(format!("`{word}` is not a log level; use TRACE, DEBUG, INFO, WARN or ERROR"))
            })
    }
}

/// One line of a step's log, not yet cut to the configured length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub level: Level,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum InlineOutcome {
    Done {
        output: Json,
        logs: Vec<LogLine>,
        /// Labels the run gains; a later value of the same key wins.
        labels: Vec<(String, String)>,
    },
    /// The run's variables of these names get the values of the task's own `variables`.
    SetVariables {
        names: Vec<String>,
        overwrite: bool,
    },
    UnsetVariables {
        names: Vec<String>,
        ignore_missing: bool,
    },
    Failed {
        code: &'static str,
        message: String,
        logs: Vec<LogLine>,
    },
}

impl InlineOutcome {
    pub(crate) fn done(output: Json) -> InlineOutcome {
        InlineOutcome::Done { output, logs: Vec::new(), labels: Vec::new() }
    }

    pub(crate) fn failed(error: TaskError) -> InlineOutcome {
        InlineOutcome::Failed { code: error.code, message: error.message, logs: Vec::new() }
    }
}

/// Runs an inline task on its rendered properties.
pub fn run_inline(type_name: &str, config: &Json) -> InlineOutcome {
    match registry::work(type_name) {
        Some(Work::Inline(run)) => run(config).unwrap_or_else(InlineOutcome::failed),
        Some(Work::Op(_) | Work::Effect(_)) | None => InlineOutcome::failed(TaskError::unknown_type(type_name)),
    }
}
