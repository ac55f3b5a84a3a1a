//! Names of steps, kinds of events, and how long a retry waits.

use crate::sim::flows::RetrySpec;
use semel_core::run::{Event, TimerWhy};

/// `a/each[3]/b` → `a/each[3]`, and the last name.
pub(super) fn parent(step: &str) -> Option<String> {
    if step.is_empty() {
        return None;
    }
    if step.ends_with(']') {
        return step.rfind('[').map(|at| step[..at].to_owned());
    }
    Some(step.rfind('/').map_or(String::new(), |at| step[..at].to_owned()))
}

pub(super) fn task_id(step: &str) -> &str {
    let last = step.rsplit('/').next().unwrap_or("");
    last.split('[').next().unwrap_or("")
}

pub(super) fn is_iteration(step: &str) -> bool {
    step.ends_with(']')
}

pub(super) fn join(group: &str, task: &str) -> String {
    if group.is_empty() { task.to_owned() } else { format!("{group}/{task}") }
}

pub(super) fn may_follow_an_end(event: &Event) -> bool {
    matches!(
        event,
        Event::Restarted { .. }
            | Event::Replayed { .. }
            | Event::Verdict { .. }
            | Event::Delivered { .. }
            | Event::DoubtsBelow { .. }
            | Event::ChildEnded { .. }
            | Event::Restored { .. }
            | Event::Released { .. }
    )
}

/// The store may end it for a newer event of its lane, or have it gather another one.
pub(super) fn may_happen_while_held(event: &Event) -> bool {
    matches!(
        event,
        Event::Restored { .. }
            | Event::Released { .. }
            | Event::InputsReplaced { .. }
            | Event::TimerSet { why: TimerWhy::Quiet, .. }
            | Event::CancelRequested { .. }
            | Event::Ended { .. }
    )
}

pub(super) fn name(event: &Event) -> String {
    let text = format!("{event:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

/// Shortest and longest wait before the attempt after this one.
pub(super) fn wait_of(retry: &RetrySpec, failed: u32) -> (i64, i64) {
    match retry.kind {
        "exponential" => {
            let grown = retry.interval_ms.saturating_mul(1 << failed.saturating_sub(1).min(20)).min(retry.max_ms);
            (grown, grown)
        }
        "random" => (retry.interval_ms, retry.max_ms),
        _ => (retry.interval_ms, retry.interval_ms),
    }
}
