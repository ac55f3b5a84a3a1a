//! The words of a policy: what to do with a twin, per state of its claim.

use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// A twin arrives while the first run is live (or queued).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLive {
    Attach,
    Reject,
}

/// A twin arrives after the run completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDone {
    Replay,
    Reject,
    Rerun,
}

/// A twin arrives after the run failed (or was cancelled).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnEnded {
    Resume,
    Rerun,
    Replay,
    Reject,
}

/// Same key, other fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchPolicy {
    Reject,
    Ignore,
    Split,
}

/// A twin arrives after the window, while the tombstone is still kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatePolicy {
    Start,
    Warn,
    Reject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowFrom {
    FirstSeen,
    Completed,
}

/// How long a claim is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    For { from: WindowFrom, duration_ms: i64 },
    Forever,
    WhileLive,
}

impl Window {
    /// A store that was restored at `restored_at` has lost what it learnt after its backup. Could an
    /// event that it calls new at `now` be one of those? Not once their window would have ended.
    pub fn may_have_been_known(self, restored_at: Millis, now: Millis) -> bool {
        match self {
            Window::Forever => true,
            Window::WhileLive => false,
            Window::For { duration_ms, .. } => now < restored_at.plus(duration_ms),
        }
    }
}

/// What a busy lane does with another event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// Wait in line; at most `max` waiting.
    Queue {
        max: u32,
    },
    /// Fence and cancel what runs, then run this.
    Replace,
    /// Wait for `quiet_ms` without a further event, at most `max_ms` in all; the last payload wins.
    Coalesce {
        quiet_ms: i64,
        max_ms: i64,
    },
    /// Hand the payload to the run that holds the lane.
    Deliver,
    Reject,
    /// Create the run already cancelled (Kestra's CANCEL).
    Cancel,
    /// Create the run already failed (Kestra's FAIL).
    Fail,
    Parallel,
}

/// A whole policy, resolved: nothing is left to a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub live: OnLive,
    pub done: OnDone,
    pub failed: OnEnded,
    pub cancelled: OnEnded,
    pub mismatch: MismatchPolicy,
    pub window: Window,
    pub late: LatePolicy,
    pub require_key: bool,
    /// The claim may expire under a live run (a compatibility switch, off by default).
    #[serde(default)]
    pub expire_live: bool,
}

/// A named policy. The table is [`super::presets::PRESETS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresetName {
    Semel,
    Trigger,
    Ietf,
    StripeV1,
    StripeV2,
    ConductorFail,
    ConductorReturnExisting,
    ConductorFailOnRunning,
    TemporalAllowDuplicate,
    TemporalFailedOnly,
    TemporalReject,
    TemporalUseExisting,
    RestateCall,
    RestateWorkflow,
    DbosId,
    DbosDedup,
    Inngest,
    InngestSingleton,
    TriggerDev,
    StepFunctions,
    LambdaDurable,
    Powertools,
    HatchetTtl,
    HatchetStatus,
    BreytaKeyed,
    KestraGuard,
    OutboxConsumer,
}
