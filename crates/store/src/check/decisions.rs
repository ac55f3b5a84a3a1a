//! A decision, taken again from what its row says was known.

use crate::rows::DecisionRow;
use semel_core::admission::{Decision, EventVerdict, Prior, RULES_VERSION, Reason, decide_event};

/// True for the one decision that each run has: the one that made it.
pub(super) fn made_a_run(row: &DecisionRow) -> bool {
    match row.decision {
        Decision::Start | Decision::Queue | Decision::Replace => true,
        Decision::Coalesce => row.reason == Reason::CoalescePending,
        Decision::Attach
        | Decision::Replay
        | Decision::Reject
        | Decision::Deliver
        | Decision::Resume
        | Decision::Hold => false,
    }
}

/// True when the decision gave the claim a new generation.
pub(super) fn raised_the_claim(row: &DecisionRow) -> bool {
    !row.decision.is_read_only()
}

/// Why the logged decision is not the one its inputs lead to.
pub(super) fn differs(row: &DecisionRow) -> Option<String> {
    // A later release may know other rules; it recomputes old rows by the old ones.
    if row.rules_version != RULES_VERSION {
        return None;
    }
    if !verdict_allows(row) {
        return Some(format!(
            "`{}` ({}) was decided where the claim was {:?} and the payload {}",
            row.decision.word(),
            row.reason.word(),
            row.prior,
            if row.same_payload { "the same" } else { "another" },
        ));
    }
    let generation = row.prior_generation + u32::from(raised_the_claim(row));
    if row.generation != generation {
        return Some(format!("it gave generation {} where {generation} was next", row.generation));
    }
    if row.run.is_none() && (made_a_run(row) || (raised_the_claim(row) && row.reason != Reason::Resumed)) {
        return Some("it names no run, and its decision makes or changes one".to_owned());
    }
    if row.decision.is_read_only() && row.run.is_some() && row.prior_run.is_some() && row.run != row.prior_run {
        return Some("it names another run than the one that was known".to_owned());
    }
    None
}

fn verdict_allows(row: &DecisionRow) -> bool {
    let (decision, reason) = (row.decision, row.reason);
    let Some(_) = row.claim else {
        let refused = row.policy.require_key;
        return row.prior == Prior::Absent
            && row.same_payload
            && if refused {
                (decision, reason) == (Decision::Reject, Reason::KeyMissing)
            } else {
                fresh_allows(decision, reason, Reason::Keyless)
            };
    };
    match decide_event(row.prior, row.same_payload, &row.policy) {
        EventVerdict::Fresh(why) => fresh_allows(decision, reason, why),
        EventVerdict::Attach(why) => (decision, reason) == (Decision::Attach, why),
        EventVerdict::Replay(why) => (decision, reason) == (Decision::Replay, why),
        EventVerdict::Hold(why) => (decision, reason) == (Decision::Hold, why),
        EventVerdict::Reject(why) => (decision, reason) == (Decision::Reject, why),
        EventVerdict::Resume(why) => {
            (decision, reason) == (Decision::Resume, why)
                || (decision == Decision::Reject && matches!(reason, Reason::NotResumable | Reason::LaneBusy))
        }
        // A split is decided, and logged, under its own identity.
        EventVerdict::Split => false,
    }
}

/// What a lane can make of a fresh event.
fn fresh_allows(decision: Decision, reason: Reason, why: Reason) -> bool {
    match decision {
        Decision::Start | Decision::Queue | Decision::Replace | Decision::Deliver
            if reason == Reason::FirstAfterRestore =>
        {
            why == Reason::First
        }
        Decision::Start => reason == why || matches!(reason, Reason::LaneCancelled | Reason::LaneFailed),
        Decision::Queue => reason == Reason::Queued,
        Decision::Replace => matches!(reason, Reason::Replaced | Reason::ReplaceDeferred),
        Decision::Coalesce => matches!(reason, Reason::Coalesced | Reason::CoalescePending),
        Decision::Deliver => reason == Reason::Delivered,
        Decision::Reject => matches!(reason, Reason::QueueFull | Reason::HeldNoReplace | Reason::LaneBusy),
        Decision::Attach | Decision::Replay | Decision::Resume | Decision::Hold => false,
    }
}
