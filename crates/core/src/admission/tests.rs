//! Every cell of the matrices, against tables written by hand.

use super::*;
use crate::fingerprint::Fingerprint;
use crate::ids::{FlowRef, Hash16, RunId, WorkspaceId};
use crate::ir::KeyScope;
use crate::time::Millis;
use std::collections::BTreeSet;

const LIVE: [OnLive; 2] = [OnLive::Attach, OnLive::Reject];
const DONE: [OnDone; 3] = [OnDone::Replay, OnDone::Reject, OnDone::Rerun];
const ENDED: [OnEnded; 4] = [OnEnded::Resume, OnEnded::Rerun, OnEnded::Replay, OnEnded::Reject];
const MISMATCH: [MismatchPolicy; 3] = [MismatchPolicy::Reject, MismatchPolicy::Ignore, MismatchPolicy::Split];
const LATE: [LatePolicy; 3] = [LatePolicy::Start, LatePolicy::Warn, LatePolicy::Reject];

/// The value of the policy that a prior state looks at, as a word.
fn relevant(prior: Prior, policy: &Policy) -> String {
    let word = |v: serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    match prior {
        Prior::Absent => "any".to_owned(),
        Prior::Expired => word(serde_json::json!(policy.late)),
        Prior::Pending | Prior::Live | Prior::Held => word(serde_json::json!(policy.live)),
        Prior::Done | Prior::Erased => word(serde_json::json!(policy.done)),
        Prior::Failed => word(serde_json::json!(policy.failed)),
        Prior::Cancelled => word(serde_json::json!(policy.cancelled)),
    }
}

/// The whole table: prior, fingerprint, policy value, mismatch policy (`*` = any) → verdict.
#[rustfmt::skip]
const TABLE: &[(&str, &str, &str, &str, &str)] = &[
    ("absent",    "*",    "any",    "*",      "fresh first"),
    ("expired",   "*",    "start",  "*",      "fresh late_duplicate"),
    ("expired",   "*",    "warn",   "*",      "fresh late_warned"),
    ("expired",   "*",    "reject", "*",      "reject late_rejected"),
    ("pending",   "same", "attach", "*",      "attach attached_pending"),
    ("pending",   "same", "reject", "*",      "reject in_progress"),
    ("pending",   "diff", "attach", "reject", "reject payload_mismatch"),
    ("pending",   "diff", "attach", "ignore", "attach attached_mismatch"),
    ("pending",   "diff", "attach", "split",  "split"),
    ("pending",   "diff", "reject", "reject", "reject payload_mismatch"),
    ("pending",   "diff", "reject", "ignore", "reject in_progress"),
    ("pending",   "diff", "reject", "split",  "split"),
    ("live",      "same", "attach", "*",      "attach attached"),
    ("live",      "same", "reject", "*",      "reject in_progress"),
    ("live",      "diff", "attach", "reject", "reject payload_mismatch"),
    ("live",      "diff", "attach", "ignore", "attach attached_mismatch"),
    ("live",      "diff", "attach", "split",  "split"),
    ("live",      "diff", "reject", "reject", "reject payload_mismatch"),
    ("live",      "diff", "reject", "ignore", "reject in_progress"),
    ("live",      "diff", "reject", "split",  "split"),
    ("held",      "same", "attach", "*",      "hold held"),
    ("held",      "same", "reject", "*",      "reject held"),
    ("held",      "diff", "attach", "reject", "reject payload_mismatch"),
    ("held",      "diff", "attach", "ignore", "hold held_mismatch"),
    ("held",      "diff", "attach", "split",  "split"),
    ("held",      "diff", "reject", "reject", "reject payload_mismatch"),
    ("held",      "diff", "reject", "ignore", "reject held"),
    ("held",      "diff", "reject", "split",  "split"),
    ("done",      "same", "replay", "*",      "replay replayed"),
    ("done",      "diff", "replay", "reject", "reject payload_mismatch"),
    ("done",      "diff", "replay", "ignore", "replay replayed_mismatch"),
    ("done",      "diff", "replay", "split",  "split"),
    ("done",      "same", "reject", "*",      "reject already_done"),
    ("done",      "diff", "reject", "reject", "reject payload_mismatch"),
    ("done",      "diff", "reject", "ignore", "reject already_done"),
    ("done",      "diff", "reject", "split",  "split"),
    ("done",      "*",    "rerun",  "*",      "fresh rerun"),
    ("failed",    "same", "resume", "*",      "resume resumed"),
    ("failed",    "diff", "resume", "reject", "reject payload_mismatch"),
    ("failed",    "diff", "resume", "ignore", "resume resumed_mismatch"),
    ("failed",    "diff", "resume", "split",  "split"),
    ("failed",    "*",    "rerun",  "*",      "fresh retry_failed"),
    ("failed",    "same", "replay", "*",      "replay replayed_failure"),
    ("failed",    "diff", "replay", "reject", "reject payload_mismatch"),
    ("failed",    "diff", "replay", "ignore", "replay replayed_mismatch"),
    ("failed",    "diff", "replay", "split",  "split"),
    ("failed",    "same", "reject", "*",      "reject already_failed"),
    ("failed",    "diff", "reject", "reject", "reject payload_mismatch"),
    ("failed",    "diff", "reject", "ignore", "reject already_failed"),
    ("failed",    "diff", "reject", "split",  "split"),
    ("cancelled", "same", "resume", "*",      "resume resumed_cancelled"),
    ("cancelled", "diff", "resume", "reject", "reject payload_mismatch"),
    ("cancelled", "diff", "resume", "ignore", "resume resumed_mismatch"),
    ("cancelled", "diff", "resume", "split",  "split"),
    ("cancelled", "*",    "rerun",  "*",      "fresh retry_cancelled"),
    ("cancelled", "same", "replay", "*",      "replay replayed_cancelled"),
    ("cancelled", "diff", "replay", "reject", "reject payload_mismatch"),
    ("cancelled", "diff", "replay", "ignore", "replay replayed_mismatch"),
    ("cancelled", "diff", "replay", "split",  "split"),
    ("cancelled", "same", "reject", "*",      "reject already_cancelled"),
    ("cancelled", "diff", "reject", "reject", "reject payload_mismatch"),
    ("cancelled", "diff", "reject", "ignore", "reject already_cancelled"),
    ("cancelled", "diff", "reject", "split",  "split"),
    ("erased",    "*",    "replay", "*",      "reject erased"),
    ("erased",    "*",    "reject", "*",      "reject already_done"),
    ("erased",    "*",    "rerun",  "*",      "fresh rerun"),
];

fn verdict_text(verdict: EventVerdict) -> String {
    match verdict {
        EventVerdict::Fresh(r) => format!("fresh {}", r.word()),
        EventVerdict::Attach(r) => format!("attach {}", r.word()),
        EventVerdict::Replay(r) => format!("replay {}", r.word()),
        EventVerdict::Reject(r) => format!("reject {}", r.word()),
        EventVerdict::Resume(r) => format!("resume {}", r.word()),
        EventVerdict::Hold(r) => format!("hold {}", r.word()),
        EventVerdict::Split => "split".to_owned(),
    }
}

fn policies() -> Vec<Policy> {
    let mut all = Vec::new();
    for live in LIVE {
        for done in DONE {
            for failed in ENDED {
                for cancelled in ENDED {
                    for mismatch in MISMATCH {
                        for late in LATE {
                            all.push(Policy {
                                live,
                                done,
                                failed,
                                cancelled,
                                mismatch,
                                late,
                                window: Window::Forever,
                                require_key: false,
                                expire_live: false,
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn every_cell_of_the_event_matrix_is_named_and_agrees() {
    let mut hit = BTreeSet::new();
    let mut cells = 0;
    for prior in Prior::ALL {
        let prior_word = serde_json::json!(prior).as_str().unwrap().to_owned();
        for same in [true, false] {
            for policy in policies() {
                cells += 1;
                let value = relevant(prior, &policy);
                let mismatch = serde_json::json!(policy.mismatch).as_str().unwrap().to_owned();
                let rows: Vec<usize> = TABLE
                    .iter()
                    .enumerate()
                    .filter(|(_, row)| {
                        row.0 == prior_word
                            && (row.1 == "*" || row.1 == if same { "same" } else { "diff" })
                            && row.2 == value
                            && (row.3 == "*" || row.3 == mismatch)
                    })
                    .map(|(i, _)| i)
                    .collect();
                assert_eq!(rows.len(), 1, "{prior_word} same={same} {value} {mismatch}: rows {rows:?}");
                assert_eq!(
                    verdict_text(decide_event(prior, same, &policy)),
                    TABLE[rows[0]].4,
                    "{prior_word} {value} {mismatch}"
                );
                hit.insert(rows[0]);
            }
        }
    }
    assert_eq!(cells, 9 * 2 * 2 * 3 * 4 * 4 * 3 * 3);
    assert_eq!(hit.len(), TABLE.len(), "a row of the table that no cell reaches");
}

fn run(n: u128) -> RunId {
    RunId(uuid::Uuid::from_u128(n))
}

#[test]
fn every_cell_of_the_lane_matrix() {
    let now = Millis(1_000);
    let idle = Lane::default();
    let busy = Lane { holders: vec![run(1)], ..Lane::default() };
    let full = Lane { holders: vec![run(1)], waiting: 1, ..Lane::default() };
    let gathering = Lane { gathering: Some(Gathering { run: run(3), since: Millis(0) }), ..Lane::default() };
    let coalesce = Busy::Coalesce { quiet_ms: 500, max_ms: 1_200 };
    let at = |lane: &Lane, rule: Busy, holder: HolderState| decide_lane(lane, 1, rule, holder, now);
    use HolderState::*;
    for rule in
        [Busy::Queue { max: 1 }, Busy::Replace, Busy::Deliver, Busy::Reject, Busy::Cancel, Busy::Fail, Busy::Parallel]
    {
        assert_eq!(at(&idle, rule, Quiet), LaneVerdict::Run, "{rule:?} on an idle lane");
    }
    assert_eq!(at(&idle, coalesce, Quiet), LaneVerdict::Gather { due: Millis(1_500) });
    assert_eq!(at(&busy, coalesce, Quiet), LaneVerdict::Gather { due: Millis(1_500) });
    assert_eq!(at(&gathering, coalesce, Quiet), LaneVerdict::Coalesce { into: run(3), due: Millis(1_200) });
    assert_eq!(at(&busy, Busy::Queue { max: 1 }, Quiet), LaneVerdict::Queue(Reason::Queued));
    assert_eq!(at(&full, Busy::Queue { max: 1 }, Quiet), LaneVerdict::Reject(Reason::QueueFull));
    assert_eq!(at(&busy, Busy::Replace, Quiet), LaneVerdict::Replace { victim: run(1) });
    assert_eq!(at(&busy, Busy::Replace, OpenIntent), LaneVerdict::ReplaceDeferred { victim: run(1) });
    assert_eq!(at(&busy, Busy::Replace, Held), LaneVerdict::Reject(Reason::HeldNoReplace));
    assert_eq!(at(&busy, Busy::Replace, Ancestor), LaneVerdict::Reject(Reason::LaneBusy));
    assert_eq!(at(&busy, Busy::Deliver, Quiet), LaneVerdict::Deliver { to: run(1) });
    assert_eq!(at(&busy, Busy::Reject, Quiet), LaneVerdict::Reject(Reason::LaneBusy));
    assert_eq!(at(&busy, Busy::Cancel, Quiet), LaneVerdict::StartCancelled);
    assert_eq!(at(&busy, Busy::Fail, Quiet), LaneVerdict::StartFailed);
    assert_eq!(at(&full, Busy::Parallel, Quiet), LaneVerdict::Run);
}

#[test]
fn a_slot_is_free_only_when_nobody_waits_for_it() {
    let mut lane = Lane { holders: vec![run(1)], waiting: 1, gathering: None };
    assert!(!lane.release(run(2)) && !lane.has_slot(1));
    assert!(lane.release(run(1)) && lane.has_slot(1) && !lane.is_free(1));
    lane.waiting = 0;
    assert!(lane.is_free(1) && lane.is_empty());
    lane.gathering = Some(Gathering { run: run(3), since: Millis(0) });
    assert!(!lane.is_empty() && lane.release(run(3)) && lane.is_empty());
}

#[test]
fn every_preset_name_has_its_row_and_words_are_unique() {
    let words: BTreeSet<&str> = PRESETS.iter().map(|p| p.word).collect();
    assert_eq!(words.len(), PRESETS.len());
    for preset in PRESETS {
        assert_eq!(serde_json::json!(preset.name), serde_json::json!(preset.word));
        assert_eq!(PresetName::parse(preset.word), Some(preset.name));
        assert_eq!(preset.name.preset().word, preset.word);
    }
}

fn claim(state: ClaimState, window: Window) -> Claim {
    Claim {
        hash: Hash16([0; 16]),
        key: Some("k".into()),
        scope: "flow:a:b".into(),
        run: run(1),
        fingerprint: Fingerprint([0; 32]),
        state,
        generation: 1,
        first_seen: Millis(0),
        completed_at: if state.is_open() { None } else { Some(Millis(100)) },
        window,
        expire_live: false,
    }
}

#[test]
fn a_window_counts_from_its_start_point_and_leaves_a_tombstone() {
    let from_first = Window::For { from: WindowFrom::FirstSeen, duration_ms: 1_000 };
    let from_end = Window::For { from: WindowFrom::Completed, duration_ms: 1_000 };
    let done = claim(ClaimState::Done, from_first);
    assert_eq!(done.prior(Millis(999)), Prior::Done);
    assert_eq!(done.prior(Millis(1_000)), Prior::Expired);
    assert_eq!(done.prior(Millis(1_000 + TOMBSTONE_MS)), Prior::Absent);
    let done = claim(ClaimState::Done, from_end);
    assert_eq!(done.prior(Millis(1_099)), Prior::Done);
    assert_eq!(done.prior(Millis(1_100)), Prior::Expired);
    assert_eq!(claim(ClaimState::Done, Window::WhileLive).prior(Millis(101)), Prior::Absent);
    assert_eq!(claim(ClaimState::Done, Window::Forever).prior(Millis(i64::MAX)), Prior::Done);
}

#[test]
fn a_live_or_held_claim_never_expires() {
    let short = Window::For { from: WindowFrom::FirstSeen, duration_ms: 1 };
    for (state, prior) in
        [(ClaimState::Pending, Prior::Pending), (ClaimState::Live, Prior::Live), (ClaimState::Held, Prior::Held)]
    {
        for window in [short, Window::WhileLive] {
            assert_eq!(claim(state, window).prior(Millis(i64::MAX)), prior);
        }
    }
    // A run longer than its window: the claim lapses when the run has ended, not before.
    let mut late = claim(ClaimState::Done, short);
    late.completed_at = Some(Millis(500));
    assert_eq!(late.prior(Millis(499)), Prior::Done);
    // The compatibility switch copies the literal text, but never for a doubt.
    let mut literal = claim(ClaimState::Live, short);
    literal.expire_live = true;
    assert_eq!(literal.prior(Millis(2)), Prior::Expired);
    literal.state = ClaimState::Held;
    assert_eq!(literal.prior(Millis(2)), Prior::Held);
}

#[test]
fn keys_are_opaque_case_kept_and_bounded() {
    for good in ["k", "evt_1", "gh_push_sha_0a", &"k".repeat(255), "ключ", "a b"] {
        assert_eq!(check_key(good), Ok(()), "{good}");
    }
    assert_eq!(check_key(&"é".repeat(256)), Err(KeyError::TooLong(256)));
    assert_eq!(check_key(""), Err(KeyError::Empty));
    assert_eq!(check_key("   "), Err(KeyError::Empty));
    assert_eq!(check_key(" k"), Err(KeyError::OuterBlanks));
    assert_eq!(check_key("a\u{0}b"), Err(KeyError::Control));
    let ws = WorkspaceId::default();
    assert_ne!(claim_hash(&ws, "flow:a:b", "K"), claim_hash(&ws, "flow:a:b", "k"));
    assert_ne!(claim_hash(&ws, "flow:a:b", "k"), claim_hash(&WorkspaceId("other".into()), "flow:a:b", "k"));
}

#[test]
fn the_first_present_key_wins_and_a_contradiction_is_refused() {
    let some = |s: &str| Some(s.to_owned());
    let source = |c: Option<ChosenKey>| c.map(|c| (c.key, c.source));
    assert_eq!(source(choose_key(some("a"), None, some("i")).unwrap()), Some(("a".into(), KeySource::Caller)));
    assert_eq!(source(choose_key(None, some("f"), some("i")).unwrap()), Some(("f".into(), KeySource::Flow)));
    assert_eq!(source(choose_key(None, None, some("i")).unwrap()), Some(("i".into(), KeySource::Intrinsic)));
    assert_eq!(choose_key(None, None, None).unwrap(), None);
    assert_eq!(source(choose_key(some("a"), some("a"), None).unwrap()), Some(("a".into(), KeySource::Caller)));
    assert!(matches!(choose_key(some("a"), some("b"), None), Err(KeyError::Conflict { .. })));
    let flow = FlowRef::new("n", "f");
    assert_ne!(
        scope_text(&KeyScope::Flow, &flow, KeySource::Caller),
        scope_text(&KeyScope::Flow, &flow, KeySource::Intrinsic)
    );
}

#[test]
fn words_are_the_serde_spelling() {
    for reason in [
        Reason::Keyless,
        Reason::KeyMissing,
        Reason::First,
        Reason::LateDuplicate,
        Reason::LateWarned,
        Reason::LateRejected,
        Reason::AttachedPending,
        Reason::Attached,
        Reason::AttachedMismatch,
        Reason::InProgress,
        Reason::PayloadMismatch,
        Reason::Held,
        Reason::HeldMismatch,
        Reason::Replayed,
        Reason::ReplayedMismatch,
        Reason::ReplayedFailure,
        Reason::ReplayedCancelled,
        Reason::AlreadyDone,
        Reason::AlreadyFailed,
        Reason::AlreadyCancelled,
        Reason::Rerun,
        Reason::RetryFailed,
        Reason::RetryCancelled,
        Reason::Resumed,
        Reason::ResumedMismatch,
        Reason::ResumedCancelled,
        Reason::NotResumable,
        Reason::Erased,
        Reason::Queued,
        Reason::QueueFull,
        Reason::Replaced,
        Reason::ReplaceDeferred,
        Reason::HeldNoReplace,
        Reason::Coalesced,
        Reason::CoalescePending,
        Reason::CoalesceNext,
        Reason::Delivered,
        Reason::LaneBusy,
        Reason::LaneCancelled,
        Reason::LaneFailed,
    ] {
        assert_eq!(serde_json::json!(reason), reason.word());
    }
    for prior in Prior::ALL {
        assert_eq!(serde_json::json!(prior), prior.word());
    }
}
