//! A run's state as Kestra names it. One table for the door, its search and `execution.state`.
//!
//! | status | and | state |
//! |---|---|---|
//! | queued | waits for its date | CREATED |
//! | queued | waits for its slot | QUEUED |
//! | running, waiting | | RUNNING |
//! | paused | | PAUSED |
//! | paused | before a task that it was to stop at | BREAKPOINT |
//! | held | not ended | PAUSED |
//! | held | ended with a doubt | FAILED |
//! | completed | no warning | SUCCESS |
//! | completed | a warning | WARNING |
//! | failed | | FAILED |
//! | failed | a new run took its place | RETRIED |
//! | cancelled | by a person | KILLED |
//! | cancelled | by a rule | CANCELLED |
//! | ended in any way | a person called it skipped | SKIPPED |
//!
//! A run that is being cancelled is KILLING, and one whose flow waits to be tried again RETRYING, as long as its
//! journal says so; lists, which know heads only, show both as RUNNING.

use super::conclusion::Conclusion;
use super::state::Status;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KestraState {
    Created,
    Submitted,
    Running,
    Paused,
    Restarted,
    Killing,
    Success,
    Warning,
    Failed,
    Killed,
    Cancelled,
    Queued,
    Retrying,
    Retried,
    Skipped,
    Breakpoint,
    Resubmitted,
}

impl KestraState {
    pub const ALL: [KestraState; 17] = [
        KestraState::Created,
        KestraState::Submitted,
        KestraState::Running,
        KestraState::Paused,
        KestraState::Restarted,
        KestraState::Killing,
        KestraState::Success,
        KestraState::Warning,
        KestraState::Failed,
        KestraState::Killed,
        KestraState::Cancelled,
        KestraState::Queued,
        KestraState::Retrying,
        KestraState::Retried,
        KestraState::Skipped,
        KestraState::Breakpoint,
        KestraState::Resubmitted,
    ];

    pub fn word(self) -> &'static str {
        match self {
            KestraState::Created => "CREATED",
            KestraState::Submitted => "SUBMITTED",
            KestraState::Running => "RUNNING",
            KestraState::Paused => "PAUSED",
            KestraState::Restarted => "RESTARTED",
            KestraState::Killing => "KILLING",
            KestraState::Success => "SUCCESS",
            KestraState::Warning => "WARNING",
            KestraState::Failed => "FAILED",
            KestraState::Killed => "KILLED",
            KestraState::Cancelled => "CANCELLED",
            KestraState::Queued => "QUEUED",
            KestraState::Retrying => "RETRYING",
            KestraState::Retried => "RETRIED",
            KestraState::Skipped => "SKIPPED",
            KestraState::Breakpoint => "BREAKPOINT",
            KestraState::Resubmitted => "RESUBMITTED",
        }
    }

    pub fn parse(word: &str) -> Option<KestraState> {
        KestraState::ALL.into_iter().find(|state| state.word() == word)
    }

    pub fn is_terminal(self) -> bool {
        match self {
            KestraState::Success
            | KestraState::Warning
            | KestraState::Failed
            | KestraState::Killed
            | KestraState::Cancelled
            | KestraState::Retried
            | KestraState::Skipped => true,
            KestraState::Created
            | KestraState::Submitted
            | KestraState::Running
            | KestraState::Paused
            | KestraState::Restarted
            | KestraState::Killing
            | KestraState::Queued
            | KestraState::Retrying
            | KestraState::Breakpoint
            | KestraState::Resubmitted => false,
        }
    }
}

/// As much of a run's head as its state is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateOf {
    pub status: Status,
    pub warned: bool,
    /// It has an end, if perhaps one with a doubt.
    pub ended: bool,
    pub conclusion: Option<Conclusion>,
}

impl StateOf {
    pub fn kestra(self) -> KestraState {
        match self.status {
            status if status.is_ended() && self.conclusion == Some(Conclusion::Skipped) => KestraState::Skipped,
            Status::Queued if self.conclusion == Some(Conclusion::Scheduled) => KestraState::Created,
            Status::Queued => KestraState::Queued,
            Status::Running | Status::Waiting => KestraState::Running,
            Status::Paused if self.conclusion == Some(Conclusion::Breakpoint) => KestraState::Breakpoint,
            Status::Paused => KestraState::Paused,
            Status::Held if self.ended => KestraState::Failed,
            Status::Held => KestraState::Paused,
            Status::Completed if self.warned => KestraState::Warning,
            Status::Completed => KestraState::Success,
            Status::Failed if self.conclusion == Some(Conclusion::Retried) => KestraState::Retried,
            Status::Failed => KestraState::Failed,
            Status::Cancelled if self.conclusion == Some(Conclusion::ByRule) => KestraState::Cancelled,
            Status::Cancelled => KestraState::Killed,
        }
    }

    /// Every head there can be; what a store searches for a state is chosen from these.
    pub fn all() -> impl Iterator<Item = StateOf> {
        let heads = Status::ALL.into_iter().flat_map(|status| {
            std::iter::once(None).chain(conclusions(status).iter().copied().map(Some)).map(move |known| (status, known))
        });
        heads.flat_map(|(status, conclusion)| {
            [(false, false), (false, true), (true, false), (true, true)].map(|(warned, ended)| StateOf {
                status,
                warned,
                ended,
                conclusion,
            })
        })
    }
}

/// What a run of this status may have concluded.
fn conclusions(status: Status) -> &'static [Conclusion] {
    match status {
        Status::Queued => &[Conclusion::Scheduled],
        Status::Completed => &[Conclusion::Skipped],
        Status::Failed => &[Conclusion::Retried, Conclusion::Skipped, Conclusion::TimedOut],
        Status::Cancelled => &[Conclusion::ByRule, Conclusion::Skipped],
        // What was sent before the stop may still be out.
        Status::Running | Status::Waiting | Status::Paused | Status::Held => &[Conclusion::Breakpoint],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        let state = |status, warned, ended| StateOf { status, warned, ended, conclusion: None }.kestra().word();
        for (status, warned, ended, expected) in [
            (Status::Queued, false, false, "QUEUED"),
            (Status::Running, true, false, "RUNNING"),
            (Status::Waiting, false, false, "RUNNING"),
            (Status::Paused, false, false, "PAUSED"),
            (Status::Held, false, false, "PAUSED"),
            (Status::Held, false, true, "FAILED"),
            (Status::Completed, false, true, "SUCCESS"),
            (Status::Completed, true, true, "WARNING"),
            (Status::Failed, true, true, "FAILED"),
            (Status::Cancelled, false, true, "KILLED"),
        ] {
            assert_eq!(state(status, warned, ended), expected);
        }
    }

    #[test]
    fn a_conclusion_tells_what_the_status_does_not() {
        for (status, conclusion, expected) in [
            (Status::Queued, Conclusion::Scheduled, "CREATED"),
            (Status::Cancelled, Conclusion::ByRule, "CANCELLED"),
            (Status::Failed, Conclusion::Retried, "RETRIED"),
            (Status::Completed, Conclusion::Skipped, "SKIPPED"),
            (Status::Running, Conclusion::Skipped, "RUNNING"),
            (Status::Running, Conclusion::Breakpoint, "RUNNING"),
            (Status::Paused, Conclusion::Breakpoint, "BREAKPOINT"),
        ] {
            let head = StateOf { status, warned: false, ended: true, conclusion: Some(conclusion) };
            assert_eq!(head.kestra().word(), expected);
        }
    }

    #[test]
    fn words_are_their_own_and_an_ended_run_is_terminal() {
        for state in KestraState::ALL {
            assert_eq!(KestraState::parse(state.word()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
        for head in StateOf::all() {
            assert!(!head.status.is_ended() || head.kestra().is_terminal(), "{head:?}");
        }
    }
}
