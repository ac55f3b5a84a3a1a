//! What a status does not tell by itself: the word that Kestra's states need beside it.

use super::errand::TIMED_OUT;
use super::event::EndStatus;
use super::wish::{TERMINATED, TERMINATED_AS_FAILED};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Queued, and not for a slot: it waits for its date.
    Scheduled,
    /// Cancelled by a rule (a full lane, an SLA, a task), not by a person.
    ByRule,
    /// Failed, and a new run took its place.
    Retried,
    /// A person called it skipped.
    Skipped,
    /// Failed, because it or one of its steps took too long.
    TimedOut,
    /// Paused before a task that it was to stop at.
    Breakpoint,
}

impl Conclusion {
    pub const ALL: [Conclusion; 6] = [
        Conclusion::Scheduled,
        Conclusion::ByRule,
        Conclusion::Retried,
        Conclusion::Skipped,
        Conclusion::TimedOut,
        Conclusion::Breakpoint,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Conclusion::Scheduled => "scheduled",
            Conclusion::ByRule => "by_rule",
            Conclusion::Retried => "retried",
            Conclusion::Skipped => "skipped",
            Conclusion::TimedOut => "timed_out",
            Conclusion::Breakpoint => "breakpoint",
        }
    }

    pub fn parse(word: &str) -> Option<Conclusion> {
        Conclusion::ALL.into_iter().find(|conclusion| conclusion.word() == word)
    }
}

/// The code of the failure of a run whose place a new one took.
pub const RETRIED: &str = "retried";

/// Only a rule says why it cancels, or a person in so many words; else a person is named by the request.
pub fn conclusion_of(status: EndStatus, failure_code: Option<&str>) -> Option<Conclusion> {
    match (status, failure_code) {
        (EndStatus::Cancelled, Some(TERMINATED | TERMINATED_AS_FAILED)) => None,
        (EndStatus::Cancelled, Some(_)) => Some(Conclusion::ByRule),
        (EndStatus::Failed, Some(RETRIED)) => Some(Conclusion::Retried),
        (EndStatus::Failed, Some(TIMED_OUT)) => Some(Conclusion::TimedOut),
        _ => None,
    }
}
