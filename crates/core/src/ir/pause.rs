//! Tasks at which a run stands still until somebody says go on.

use super::{Group, InputDef, ReviewSpec, Task, Template};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PauseSpec {
    /// How long at most; without one the task's `timeout` counts, and without that nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Template>,
    /// A word of [`OnTime`], or a template that gives one: what the end of `duration` means.
    #[serde(default = "resume", skip_serializing_if = "is_resume")]
    pub behavior: Template,
    /// What whoever resumes the run may say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_resume: Vec<InputDef>,
    /// What runs before the run stands still; none or one task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_pause: Vec<Task>,
    /// It is approved or denied, not just resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Box<ReviewSpec>>,
    /// What runs once it goes on.
    #[serde(flatten)]
    pub group: Group,
}

fn resume() -> Template {
    OnTime::Resume.word().to_owned()
}

fn is_resume(word: &Template) -> bool {
    word == OnTime::Resume.word()
}

/// How a pause ends: a person resumes it, or what was said about the end of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTime {
    Resume,
    Warn,
    Fail,
    Cancel,
}

impl OnTime {
    pub const ALL: [OnTime; 4] = [OnTime::Resume, OnTime::Warn, OnTime::Fail, OnTime::Cancel];

    pub fn word(self) -> &'static str {
        match self {
            OnTime::Resume => "RESUME",
            OnTime::Warn => "WARN",
            OnTime::Fail => "FAIL",
            OnTime::Cancel => "CANCEL",
        }
    }

    pub fn parse(word: &str) -> Option<OnTime> {
        OnTime::ALL.into_iter().find(|on_time| on_time.word().eq_ignore_ascii_case(word.trim()))
    }
}
