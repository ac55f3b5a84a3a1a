//! Presets as data: the policies of the systems people come from, and our own.

use super::policy::*;

const DAY_MS: i64 = 86_400_000;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: PresetName,
    /// The word used in flows and in the API.
    pub word: &'static str,
    pub policy: Policy,
}

const fn first_seen(duration_ms: i64) -> Window {
    Window::For { from: WindowFrom::FirstSeen, duration_ms }
}

const fn completed(duration_ms: i64) -> Window {
    Window::For { from: WindowFrom::Completed, duration_ms }
}

#[allow(clippy::too_many_arguments)] // one argument per column of the table below
const fn row(
    name: PresetName,
    word: &'static str,
    live: OnLive,
    done: OnDone,
    failed: OnEnded,
    cancelled: OnEnded,
    mismatch: MismatchPolicy,
    window: Window,
) -> Preset {
    Preset {
        name,
        word,
        policy: Policy {
            live,
            done,
            failed,
            cancelled,
            mismatch,
            window,
            late: LatePolicy::Start,
            require_key: false,
            expire_live: false,
        },
    }
}

use MismatchPolicy::{Ignore, Reject as Refuse};
use OnDone as D;
use OnEnded as E;
use OnLive::{Attach, Reject};
use PresetName as P;
use Window::{Forever, WhileLive};

/// Every preset. Columns: name, word, live, done, failed, cancelled, mismatch, window.
#[rustfmt::skip]
pub const PRESETS: &[Preset] = &[
    row(P::Semel,                  "semel",                    Attach, D::Replay, E::Resume, E::Replay, Refuse, completed(30 * DAY_MS)),
    row(P::Trigger,                "trigger",                  Attach, D::Replay, E::Replay, E::Replay, Ignore, first_seen(DAY_MS)),
    row(P::Ietf,                   "ietf",                     Reject, D::Replay, E::Replay, E::Replay, Refuse, first_seen(DAY_MS)),
    row(P::StripeV1,               "stripe_v1",                Reject, D::Replay, E::Replay, E::Replay, Refuse, first_seen(DAY_MS)),
    row(P::StripeV2,               "stripe_v2",                Reject, D::Replay, E::Resume, E::Resume, Refuse, first_seen(30 * DAY_MS)),
    row(P::ConductorFail,          "conductor_fail",           Reject, D::Reject, E::Reject, E::Reject, Ignore, Forever),
    row(P::ConductorReturnExisting,"conductor_return_existing",Attach, D::Replay, E::Replay, E::Replay, Ignore, Forever),
    row(P::ConductorFailOnRunning, "conductor_fail_on_running",Reject, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, Forever),
    row(P::TemporalAllowDuplicate, "temporal_allow_duplicate", Reject, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, completed(3 * DAY_MS)),
    row(P::TemporalFailedOnly,     "temporal_failed_only",     Reject, D::Reject, E::Rerun,  E::Rerun,  Ignore, completed(3 * DAY_MS)),
    row(P::TemporalReject,         "temporal_reject",          Reject, D::Reject, E::Reject, E::Reject, Ignore, completed(3 * DAY_MS)),
    row(P::TemporalUseExisting,    "temporal_use_existing",    Attach, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, completed(3 * DAY_MS)),
    row(P::RestateCall,            "restate_call",             Attach, D::Replay, E::Replay, E::Replay, Ignore, completed(DAY_MS)),
    row(P::RestateWorkflow,        "restate_workflow",         Reject, D::Reject, E::Replay, E::Replay, Ignore, completed(DAY_MS)),
    row(P::DbosId,                 "dbos_id",                  Attach, D::Replay, E::Replay, E::Replay, Ignore, Forever),
    row(P::DbosDedup,              "dbos_dedup",               Reject, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, WhileLive),
    row(P::Inngest,                "inngest",                  Attach, D::Replay, E::Replay, E::Replay, Ignore, first_seen(DAY_MS)),
    row(P::InngestSingleton,       "inngest_singleton",        Reject, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, WhileLive),
    row(P::TriggerDev,             "trigger_dev",              Attach, D::Replay, E::Rerun,  E::Replay, Ignore, first_seen(30 * DAY_MS)),
    row(P::StepFunctions,          "step_functions",           Attach, D::Reject, E::Reject, E::Reject, Refuse, completed(90 * DAY_MS)),
    row(P::LambdaDurable,          "lambda_durable",           Attach, D::Replay, E::Replay, E::Replay, Refuse, completed(14 * DAY_MS)),
    row(P::Powertools,             "powertools",               Reject, D::Replay, E::Rerun,  E::Rerun,  Refuse, first_seen(3_600_000)),
    row(P::HatchetTtl,             "hatchet_ttl",              Reject, D::Reject, E::Reject, E::Reject, Ignore, first_seen(DAY_MS)),
    row(P::HatchetStatus,          "hatchet_status",           Reject, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, WhileLive),
    row(P::BreytaKeyed,            "breyta_keyed",             Attach, D::Rerun,  E::Rerun,  E::Rerun,  Ignore, WhileLive),
    row(P::KestraGuard,            "kestra_guard",             Attach, D::Replay, E::Rerun,  E::Rerun,  Ignore, Forever),
    row(P::OutboxConsumer,         "outbox_consumer",          Attach, D::Replay, E::Rerun,  E::Rerun,  Ignore, completed(7 * DAY_MS)),
];

impl PresetName {
    pub fn preset(self) -> &'static Preset {
        // The test `every_preset_name_has_its_row` makes this total.
        PRESETS.iter().find(|p| p.name == self).unwrap_or(&PRESETS[0])
    }

    pub fn parse(word: &str) -> Option<PresetName> {
        PRESETS.iter().find(|p| p.word == word).map(|p| p.name)
    }
}
