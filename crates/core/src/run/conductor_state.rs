//! States as Conductor names them. One table for its door, its search and its expressions.
//!
//! | run | and | workflow |
//! |---|---|---|
//! | queued, running, waiting, held and not ended | | RUNNING |
//! | paused | | PAUSED |
//! | completed | | COMPLETED |
//! | failed, held and ended | | FAILED |
//! | failed | it or a task took too long | TIMED_OUT |
//! | cancelled | | TERMINATED |
//!
//! | step | and | task |
//! |---|---|---|
//! | success, warning | | COMPLETED |
//! | skipped | | SKIPPED |
//! | failed | may fail (`optional`) | COMPLETED_WITH_ERRORS |
//! | failed | code `timed_out`, `timeout` | TIMED_OUT |
//! | failed | code `cancelled` | CANCELED |
//! | failed | code `failed_for_good` | FAILED_WITH_TERMINAL_ERROR |
//! | failed | | FAILED |
//! | cancelled | | CANCELED |

use super::conclusion::Conclusion;
use super::errand::{CANCELLED, FAILED_FOR_GOOD, TIMED_OUT};
use super::event::{EndStatus, StepOutcome};
use super::state::Status;

/// A workflow that has ended.
pub fn ended_status(status: EndStatus, conclusion: Option<Conclusion>) -> &'static str {
    match status {
        EndStatus::Completed => "COMPLETED",
        EndStatus::Failed if conclusion == Some(Conclusion::TimedOut) => "TIMED_OUT",
        EndStatus::Failed => "FAILED",
        EndStatus::Cancelled => "TERMINATED",
    }
}

/// A workflow, by the head of its run.
pub fn workflow_status(status: Status, ended: bool, conclusion: Option<Conclusion>) -> &'static str {
    match status {
        Status::Completed => ended_status(EndStatus::Completed, conclusion),
        Status::Failed => ended_status(EndStatus::Failed, conclusion),
        Status::Held if ended => ended_status(EndStatus::Failed, conclusion),
        Status::Cancelled => ended_status(EndStatus::Cancelled, conclusion),
        Status::Paused => "PAUSED",
        Status::Queued | Status::Running | Status::Waiting | Status::Held => "RUNNING",
    }
}

/// A task that has ended. `code` is that of its failure.
pub fn task_status(outcome: StepOutcome, tolerated: bool, code: Option<&str>) -> &'static str {
    match (outcome, code) {
        (StepOutcome::Success | StepOutcome::Warning, _) => "COMPLETED",
        (StepOutcome::Skipped, _) => "SKIPPED",
        (StepOutcome::Failed, _) if tolerated => "COMPLETED_WITH_ERRORS",
        (StepOutcome::Failed, Some(TIMED_OUT | "timeout")) => "TIMED_OUT",
        (StepOutcome::Failed, Some(CANCELLED)) => "CANCELED",
        (StepOutcome::Failed, Some(FAILED_FOR_GOOD)) => "FAILED_WITH_TERMINAL_ERROR",
        (StepOutcome::Failed, _) => "FAILED",
        (StepOutcome::Cancelled, _) => "CANCELED",
    }
}
