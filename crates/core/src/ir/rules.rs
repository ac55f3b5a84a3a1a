//! Rules about a whole run: what it must keep while it runs, and what must hold before there is one.

use super::Template;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// What a run must keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sla {
    pub id: String,
    pub rule: SlaRule,
    pub behavior: SlaBehavior,
    /// Labels that a run gets which breaks it.
    #[serde(default)]
    pub labels: IndexMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SlaRule {
    MaxDuration {
        ms: i64,
    },
    /// True after each step.
    Assertion {
        assert: Template,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SlaBehavior {
    Fail,
    Cancel,
    None,
}

/// What must hold before a run is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCheck {
    pub condition: Template,
    pub message: String,
    pub style: CheckStyle,
    pub behavior: CheckBehavior,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CheckStyle {
    Error,
    Success,
    Warning,
    Info,
}

/// In the order of what they forbid: the last one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CheckBehavior {
    CreateExecution,
    FailExecution,
    BlockExecution,
}
