//! The event decision: what a twin gets, by the state of its claim.

use super::policy::*;
use crate::fingerprint::Fingerprint;
use crate::ids::{Hash16, RunId};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// How long a claim's tombstone outlives its window, so that a late duplicate is noticed.
pub const TOMBSTONE_MS: i64 = 90 * 86_400_000;

/// Stored state of a claim. Expiry is not a state: it is read from the clock each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Admitted, waiting for its lane or its quiet period.
    Pending,
    Live,
    /// An effect is in doubt: nothing repeats it without a verdict.
    Held,
    Done,
    Failed,
    Cancelled,
    /// Payloads removed for privacy; only the hash is left.
    Erased,
}

impl ClaimState {
    pub fn word(self) -> &'static str {
        match self {
            ClaimState::Pending => "pending",
            ClaimState::Live => "live",
            ClaimState::Held => "held",
            ClaimState::Done => "done",
            ClaimState::Failed => "failed",
            ClaimState::Cancelled => "cancelled",
            ClaimState::Erased => "erased",
        }
    }

    /// True while the run may still change: such a claim never expires and is never erased.
    pub fn is_open(self) -> bool {
        match self {
            ClaimState::Pending | ClaimState::Live | ClaimState::Held => true,
            ClaimState::Done | ClaimState::Failed | ClaimState::Cancelled | ClaimState::Erased => false,
        }
    }
}

/// The record of an event key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub hash: Hash16,
    /// Shown to people; absent once erased.
    pub key: Option<String>,
    pub scope: String,
    pub run: RunId,
    pub fingerprint: Fingerprint,
    pub state: ClaimState,
    pub generation: u32,
    pub first_seen: Millis,
    pub completed_at: Option<Millis>,
    pub window: Window,
    pub expire_live: bool,
}

impl Claim {
    /// When the window ends; `None` while it cannot end.
    pub fn expires_at(&self) -> Option<Millis> {
        if self.state == ClaimState::Held || (self.state.is_open() && !self.expire_live) {
            return None;
        }
        match self.window {
            Window::Forever => None,
            Window::WhileLive => self.completed_at,
            Window::For { from: WindowFrom::FirstSeen, duration_ms } => {
                // Never before the run ended: a key cannot lapse under its own run.
                let end = self.first_seen.plus(duration_ms);
                match (self.expire_live, self.completed_at) {
                    (false, Some(completed)) => Some(end.max(completed)),
                    (_, _) => Some(end),
                }
            }
            Window::For { from: WindowFrom::Completed, duration_ms } => {
                self.completed_at.map(|at| at.plus(duration_ms))
            }
        }
    }

    /// The claim as the matrix sees it at `now`.
    pub fn prior(&self, now: Millis) -> Prior {
        if let Some(end) = self.expires_at()
            && now >= end
        {
            let forgotten = self.window == Window::WhileLive || now >= end.plus(TOMBSTONE_MS);
            return if forgotten { Prior::Absent } else { Prior::Expired };
        }
        match self.state {
            ClaimState::Pending => Prior::Pending,
            ClaimState::Live => Prior::Live,
            ClaimState::Held => Prior::Held,
            ClaimState::Done => Prior::Done,
            ClaimState::Failed => Prior::Failed,
            ClaimState::Cancelled => Prior::Cancelled,
            ClaimState::Erased => Prior::Erased,
        }
    }
}

/// What is known of the key when an event arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prior {
    Absent,
    /// The window ended; the tombstone is still kept.
    Expired,
    Pending,
    Live,
    Held,
    Done,
    Failed,
    Cancelled,
    Erased,
}

impl Prior {
    /// The word stored: the serde spelling.
    pub fn word(self) -> &'static str {
        match self {
            Prior::Absent => "absent",
            Prior::Expired => "expired",
            Prior::Pending => "pending",
            Prior::Live => "live",
            Prior::Held => "held",
            Prior::Done => "done",
            Prior::Failed => "failed",
            Prior::Cancelled => "cancelled",
            Prior::Erased => "erased",
        }
    }

    pub const ALL: [Prior; 9] = [
        Prior::Absent,
        Prior::Expired,
        Prior::Pending,
        Prior::Live,
        Prior::Held,
        Prior::Done,
        Prior::Failed,
        Prior::Cancelled,
        Prior::Erased,
    ];
}

/// Outcome of the event matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventVerdict {
    /// A run is to be made; the lane decides when. Takes the next generation of the claim.
    Fresh(Reason),
    /// Answer with the run that is under way.
    Attach(Reason),
    /// Answer with the run that ended.
    Replay(Reason),
    Reject(Reason),
    /// Continue the failed run from its failed step.
    Resume(Reason),
    /// Answer with the run that waits for a verdict; nothing is attempted.
    Hold(Reason),
    /// Decide again under the key made of this key and the fingerprint.
    Split,
}

/// Stable reason codes: stored in every decision row and shown in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Keyless,
    KeyMissing,
    First,
    /// The key is unknown, but the store was restored less than a window ago: it may have been known.
    FirstAfterRestore,
    LateDuplicate,
    LateWarned,
    LateRejected,
    AttachedPending,
    Attached,
    AttachedMismatch,
    InProgress,
    PayloadMismatch,
    Held,
    HeldMismatch,
    Replayed,
    ReplayedMismatch,
    ReplayedFailure,
    ReplayedCancelled,
    AlreadyDone,
    AlreadyFailed,
    AlreadyCancelled,
    Rerun,
    RetryFailed,
    RetryCancelled,
    Resumed,
    ResumedMismatch,
    ResumedCancelled,
    NotResumable,
    Erased,
    Queued,
    QueueFull,
    Replaced,
    ReplaceDeferred,
    HeldNoReplace,
    Coalesced,
    CoalescePending,
    CoalesceNext,
    Delivered,
    LaneBusy,
    LaneCancelled,
    LaneFailed,
}

impl Reason {
    /// The word stored and shown: the serde spelling.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Keyless => "keyless",
            Reason::KeyMissing => "key_missing",
            Reason::First => "first",
            Reason::FirstAfterRestore => "first_after_restore",
            Reason::LateDuplicate => "late_duplicate",
            Reason::LateWarned => "late_warned",
            Reason::LateRejected => "late_rejected",
            Reason::AttachedPending => "attached_pending",
            Reason::Attached => "attached",
            Reason::AttachedMismatch => "attached_mismatch",
            Reason::InProgress => "in_progress",
            Reason::PayloadMismatch => "payload_mismatch",
            Reason::Held => "held",
            Reason::HeldMismatch => "held_mismatch",
            Reason::Replayed => "replayed",
            Reason::ReplayedMismatch => "replayed_mismatch",
            Reason::ReplayedFailure => "replayed_failure",
            Reason::ReplayedCancelled => "replayed_cancelled",
            Reason::AlreadyDone => "already_done",
            Reason::AlreadyFailed => "already_failed",
            Reason::AlreadyCancelled => "already_cancelled",
            Reason::Rerun => "rerun",
            Reason::RetryFailed => "retry_failed",
            Reason::RetryCancelled => "retry_cancelled",
            Reason::Resumed => "resumed",
            Reason::ResumedMismatch => "resumed_mismatch",
            Reason::ResumedCancelled => "resumed_cancelled",
            Reason::NotResumable => "not_resumable",
            Reason::Erased => "erased",
            Reason::Queued => "queued",
            Reason::QueueFull => "queue_full",
            Reason::Replaced => "replaced",
            Reason::ReplaceDeferred => "replace_deferred",
            Reason::HeldNoReplace => "held_no_replace",
            Reason::Coalesced => "coalesced",
            Reason::CoalescePending => "coalesce_pending",
            Reason::CoalesceNext => "coalesce_next",
            Reason::Delivered => "delivered",
            Reason::LaneBusy => "lane_busy",
            Reason::LaneCancelled => "lane_cancelled",
            Reason::LaneFailed => "lane_failed",
        }
    }
}

/// The event matrix. Pure and total.
///
/// Precedence: Held first, then a mismatch refusal, then the policy's value. The fingerprint
/// matters only where another request's run would be handed over (attach, replay, resume, hold)
/// or where the event is refused as a twin; a rerun expects a new payload.
///
/// | prior | same payload | other payload |
/// |---|---|---|
/// | Absent | Fresh `first` | – |
/// | Expired | late: start Fresh `late_duplicate` · warn Fresh `late_warned` · reject Reject `late_rejected` | same |
/// | Pending | live: attach Attach `attached_pending` · reject Reject `in_progress` | mismatch rule, else Attach `attached_mismatch` / Reject `in_progress` |
/// | Live | live: attach Attach `attached` · reject Reject `in_progress` | as Pending |
/// | Held | live: attach Hold `held` · reject Reject `held` | mismatch rule, else Hold `held_mismatch` / Reject `held` |
/// | Done | done: replay Replay `replayed` · reject Reject `already_done` · rerun Fresh `rerun` | mismatch rule (not for rerun), else Replay `replayed_mismatch` |
/// | Failed | failed: resume Resume `resumed` · rerun Fresh `retry_failed` · replay Replay `replayed_failure` · reject Reject `already_failed` | mismatch rule (not for rerun), else Resume `resumed_mismatch` / Replay `replayed_mismatch` |
/// | Cancelled | cancelled: the same four with `…_cancelled` | as Failed |
/// | Erased | done: replay Reject `erased` · reject Reject `already_done` · rerun Fresh `rerun` | same (the payload is gone) |
///
/// Mismatch rule: `reject` → Reject `payload_mismatch`; `split` → Split; `ignore` → go on.
pub fn decide_event(prior: Prior, same_payload: bool, policy: &Policy) -> EventVerdict {
    use EventVerdict as V;
    let guarded = |verdict: EventVerdict| -> EventVerdict {
        if same_payload {
            return verdict;
        }
        match policy.mismatch {
            MismatchPolicy::Reject => V::Reject(Reason::PayloadMismatch),
            MismatchPolicy::Split => V::Split,
            MismatchPolicy::Ignore => verdict,
        }
    };
    let pick = |same: Reason, other: Reason| if same_payload { same } else { other };
    match prior {
        Prior::Absent => V::Fresh(Reason::First),
        Prior::Expired => match policy.late {
            LatePolicy::Start => V::Fresh(Reason::LateDuplicate),
            LatePolicy::Warn => V::Fresh(Reason::LateWarned),
            LatePolicy::Reject => V::Reject(Reason::LateRejected),
        },
        Prior::Pending => guarded(match policy.live {
            OnLive::Attach => V::Attach(pick(Reason::AttachedPending, Reason::AttachedMismatch)),
            OnLive::Reject => V::Reject(Reason::InProgress),
        }),
        Prior::Live => guarded(match policy.live {
            OnLive::Attach => V::Attach(pick(Reason::Attached, Reason::AttachedMismatch)),
            OnLive::Reject => V::Reject(Reason::InProgress),
        }),
        Prior::Held => guarded(match policy.live {
            OnLive::Attach => V::Hold(pick(Reason::Held, Reason::HeldMismatch)),
            OnLive::Reject => V::Reject(Reason::Held),
        }),
        Prior::Done => match policy.done {
            OnDone::Replay => guarded(V::Replay(pick(Reason::Replayed, Reason::ReplayedMismatch))),
            OnDone::Reject => guarded(V::Reject(Reason::AlreadyDone)),
            OnDone::Rerun => V::Fresh(Reason::Rerun),
        },
        Prior::Failed => match policy.failed {
            OnEnded::Resume => guarded(V::Resume(pick(Reason::Resumed, Reason::ResumedMismatch))),
            OnEnded::Rerun => V::Fresh(Reason::RetryFailed),
            OnEnded::Replay => guarded(V::Replay(pick(Reason::ReplayedFailure, Reason::ReplayedMismatch))),
            OnEnded::Reject => guarded(V::Reject(Reason::AlreadyFailed)),
        },
        Prior::Cancelled => match policy.cancelled {
            OnEnded::Resume => guarded(V::Resume(pick(Reason::ResumedCancelled, Reason::ResumedMismatch))),
            OnEnded::Rerun => V::Fresh(Reason::RetryCancelled),
            OnEnded::Replay => guarded(V::Replay(pick(Reason::ReplayedCancelled, Reason::ReplayedMismatch))),
            OnEnded::Reject => guarded(V::Reject(Reason::AlreadyCancelled)),
        },
        Prior::Erased => match policy.done {
            OnDone::Replay => V::Reject(Reason::Erased),
            OnDone::Reject => V::Reject(Reason::AlreadyDone),
            OnDone::Rerun => V::Fresh(Reason::Rerun),
        },
    }
}

/// What was decided for an occurrence: the word of the decision log and of every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Start,
    Attach,
    Replay,
    Reject,
    Queue,
    Replace,
    Coalesce,
    Deliver,
    Resume,
    Hold,
}

impl Decision {
    pub const ALL: [Decision; 10] = [
        Decision::Start,
        Decision::Attach,
        Decision::Replay,
        Decision::Reject,
        Decision::Queue,
        Decision::Replace,
        Decision::Coalesce,
        Decision::Deliver,
        Decision::Resume,
        Decision::Hold,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Decision::Start => "start",
            Decision::Attach => "attach",
            Decision::Replay => "replay",
            Decision::Reject => "reject",
            Decision::Queue => "queue",
            Decision::Replace => "replace",
            Decision::Coalesce => "coalesce",
            Decision::Deliver => "deliver",
            Decision::Resume => "resume",
            Decision::Hold => "hold",
        }
    }

    /// True when the decision changes nothing but the log, so it may be taken on a committed snapshot.
    pub fn is_read_only(self) -> bool {
        match self {
            Decision::Attach | Decision::Replay | Decision::Reject | Decision::Hold => true,
            Decision::Start
            | Decision::Queue
            | Decision::Replace
            | Decision::Coalesce
            | Decision::Deliver
            | Decision::Resume => false,
        }
    }
}
