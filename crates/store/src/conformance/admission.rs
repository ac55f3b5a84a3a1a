//! The event matrix, through the store: what a twin gets, and what is written.

use super::bench::{Bench, DAY_MS, by, claim_of, other_payload, other_ws, same_dump};
use crate::*;
use semel_core::admission::*;
use semel_core::run::{EndStatus, Status, decode_events};
use semel_core::{Millis, RunId};
use serde_json::json;

fn with(request: AdmitRequest, change: impl FnOnce(&mut Policy)) -> AdmitRequest {
    let mut request = request;
    change(&mut request.policy);
    request
}

/// (decision, reason) of a twin.
fn verdict(bench: &Bench, request: AdmitRequest) -> (Decision, Reason) {
    let answer = bench.admit(request);
    (answer.decision, answer.reason)
}

pub fn first_event_starts_a_run(b: &Bench) {
    let answer = b.admit(b.keyed("a"));
    assert_eq!((answer.decision, answer.reason, answer.created), (Decision::Start, Reason::First, true));
    assert_eq!((answer.prior, answer.generation, answer.first_seen), (Prior::Absent, 1, Some(b.now())));
    let head = answer.run.unwrap();
    assert_eq!(head, b.head(head.id));
    assert_eq!((head.status, head.active, head.version, head.epoch), (Status::Running, true, 1, 1));
    assert_eq!(
        (head.logical, head.root, head.correlation_id.as_str()),
        (head.id, head.id, head.id.to_string().as_str())
    );
    assert_eq!(head.key.as_deref(), Some("a"));
    let claim = b.claim("a").unwrap();
    assert_eq!((claim.run, claim.state, claim.generation), (head.id, ClaimState::Live, 1));
}

pub fn the_first_journal_row_has_the_payload(b: &Bench) {
    let run = b.start(b.event());
    let rows = b.store.journal(&b.ws(), run, 0, 10).unwrap();
    assert_eq!(rows.len(), 1);
    let events = decode_events(&rows[0].events, rows[0].values.as_deref()).unwrap();
    assert!(matches!(&events[0], semel_core::run::Event::Created { inputs, .. } if *inputs.json() == json!({"n": 1})));
    assert_eq!(b.values(run).inputs, Some(json!({"n": 1})));
}

pub fn keyless_events_each_start(b: &Bench) {
    for _ in 0..3 {
        assert_eq!(verdict(b, b.event()), (Decision::Start, Reason::Keyless));
    }
    assert_eq!((b.rows("runs").len(), b.rows("claims").len()), (3, 0));
}

pub fn a_required_key_is_missed(b: &Bench) {
    assert_eq!(verdict(b, with(b.event(), |p| p.require_key = true)), (Decision::Reject, Reason::KeyMissing));
    assert_eq!((b.rows("runs").len(), b.rows("decisions").len()), (0, 1));
}

pub fn a_twin_attaches_while_live(b: &Bench) {
    let run = b.start(b.keyed("a"));
    let twin = b.admit(b.keyed("a"));
    assert_eq!((twin.decision, twin.reason, twin.created), (Decision::Attach, Reason::Attached, false));
    assert_eq!((twin.run.unwrap().id, twin.prior, twin.same_payload), (run, Prior::Live, true));
    assert_eq!(b.rows("runs").len(), 1);
}

pub fn a_live_twin_is_refused(b: &Bench) {
    b.start(b.keyed("a"));
    let strict = with(b.keyed("a"), |p| p.live = OnLive::Reject);
    assert_eq!(verdict(b, strict), (Decision::Reject, Reason::InProgress));
}

pub fn a_done_twin_follows_the_policy(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    let replayed = b.admit(b.keyed("a"));
    assert_eq!((replayed.reason, replayed.run.unwrap().id), (Reason::Replayed, run));
    assert_eq!(replayed.expires_at, Some(b.now().plus(30 * DAY_MS)));
    assert_eq!(verdict(b, with(b.keyed("a"), |p| p.done = OnDone::Reject)), (Decision::Reject, Reason::AlreadyDone));
    let again = b.admit(with(b.keyed("a"), |p| p.done = OnDone::Rerun));
    assert_eq!((again.decision, again.reason, again.generation), (Decision::Start, Reason::Rerun, 2));
    assert_eq!(b.claim("a").unwrap().run, again.run.unwrap().id);
}

pub fn a_failed_twin_follows_the_policy(b: &Bench) {
    b.ended("a", EndStatus::Failed);
    for (word, expected) in [
        (OnEnded::Replay, (Decision::Replay, Reason::ReplayedFailure)),
        (OnEnded::Reject, (Decision::Reject, Reason::AlreadyFailed)),
        (OnEnded::Rerun, (Decision::Start, Reason::RetryFailed)),
    ] {
        assert_eq!(verdict(b, with(b.keyed("a"), |p| p.failed = word)), expected);
    }
}

pub fn a_cancelled_twin_follows_the_policy(b: &Bench) {
    b.ended("a", EndStatus::Cancelled);
    for (word, expected) in [
        (OnEnded::Replay, (Decision::Replay, Reason::ReplayedCancelled)),
        (OnEnded::Reject, (Decision::Reject, Reason::AlreadyCancelled)),
        (OnEnded::Resume, (Decision::Resume, Reason::ResumedCancelled)),
    ] {
        assert_eq!(verdict(b, with(b.keyed("a"), |p| p.cancelled = word)), expected);
    }
}

pub fn a_failed_run_resumes(b: &Bench) {
    let run = b.ended("a", EndStatus::Failed);
    let twin = b.admit(b.keyed("a"));
    assert_eq!((twin.decision, twin.generation, twin.wake.clone()), (Decision::Resume, 2, vec![run]));
    let head = b.head(run);
    assert_eq!((head.status, head.active, head.generation, head.ended_at), (Status::Running, true, 2, None));
    assert_eq!(b.claim_state("a"), ClaimState::Live);
    assert!(matches!(&b.inbox(run)[..], [Inbox::Restart { .. }]));
    assert_eq!(verdict(b, b.keyed("a")), (Decision::Attach, Reason::Attached));
}

pub fn another_payload_is_refused(b: &Bench) {
    b.start(b.keyed("a"));
    let twin = b.admit(other_payload(b.keyed("a")));
    assert_eq!((twin.reason, twin.same_payload), (Reason::PayloadMismatch, false));
}

pub fn another_payload_is_ignored(b: &Bench) {
    let run = b.start(b.keyed("a"));
    let twin = b.admit(with(other_payload(b.keyed("a")), |p| p.mismatch = MismatchPolicy::Ignore));
    assert_eq!((twin.reason, twin.run.unwrap().id), (Reason::AttachedMismatch, run));
}

pub fn another_payload_splits(b: &Bench) {
    let split = || with(other_payload(b.keyed("a")), |p| p.mismatch = MismatchPolicy::Split);
    let first = b.start(b.keyed("a"));
    let second = b.admit(split());
    assert_eq!((second.decision, second.reason), (Decision::Start, Reason::First));
    assert_ne!(second.run.as_ref().unwrap().id, first);
    assert_eq!(verdict(b, split()), (Decision::Attach, Reason::Attached));
    assert_eq!((b.rows("claims").len(), b.rows("runs").len()), (2, 2));
    // Both keep the key as people know it.
    let query = ClaimQuery { key: Some("a".into()), limit: 10, ..ClaimQuery::default() };
    assert_eq!(b.store.claims(&b.ws(), &query).unwrap().len(), 2);
}

pub fn a_held_claim_holds(b: &Bench) {
    let run = b.start(b.keyed("a"));
    b.end_in_doubt(run);
    assert_eq!(b.claim_state("a"), ClaimState::Held);
    assert_eq!(verdict(b, b.keyed("a")), (Decision::Hold, Reason::Held));
    assert_eq!(verdict(b, with(b.keyed("a"), |p| p.live = OnLive::Reject)), (Decision::Reject, Reason::Held));
    b.pass(1_000 * DAY_MS);
    assert_eq!(verdict(b, b.keyed("a")), (Decision::Hold, Reason::Held));
}

pub fn a_late_twin_follows_the_policy(b: &Bench) {
    b.ended("a", EndStatus::Completed);
    b.pass(30 * DAY_MS);
    let late = |word| with(b.keyed("a"), move |p| p.late = word);
    assert_eq!(verdict(b, late(LatePolicy::Reject)), (Decision::Reject, Reason::LateRejected));
    assert_eq!(verdict(b, late(LatePolicy::Warn)), (Decision::Start, Reason::LateWarned));
}

pub fn a_late_twin_starts_the_next_generation(b: &Bench) {
    b.ended("a", EndStatus::Completed);
    b.pass(30 * DAY_MS);
    let answer = b.admit(b.keyed("a"));
    assert_eq!((answer.reason, answer.prior, answer.generation), (Reason::LateDuplicate, Prior::Expired, 2));
}

pub fn a_forgotten_key_is_new(b: &Bench) {
    b.ended("a", EndStatus::Completed);
    b.pass(30 * DAY_MS + TOMBSTONE_MS);
    assert_eq!(verdict(b, with(b.keyed("a"), |p| p.late = LatePolicy::Reject)), (Decision::Start, Reason::First));
}

pub fn a_key_lives_as_long_as_its_run(b: &Bench) {
    let while_live = || with(b.keyed("a"), |p| p.window = Window::WhileLive);
    let run = b.start(while_live());
    assert_eq!(verdict(b, while_live()), (Decision::Attach, Reason::Attached));
    b.end(run, EndStatus::Completed);
    assert_eq!(verdict(b, while_live()), (Decision::Start, Reason::First));
}

pub fn a_window_never_lapses_under_its_run(b: &Bench) {
    let short = || with(b.keyed("a"), |p| p.window = Window::For { from: WindowFrom::FirstSeen, duration_ms: 10 });
    b.start(short());
    b.pass(DAY_MS);
    assert_eq!(verdict(b, short()), (Decision::Attach, Reason::Attached));
}

pub fn a_deleted_run_frees_its_key(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    b.call(Work::DeleteRun { workspace: b.ws(), run });
    assert_eq!(verdict(b, b.keyed("a")), (Decision::Start, Reason::First));
}

pub fn every_occurrence_is_logged(b: &Bench) {
    let run = b.start(b.keyed("a"));
    b.pass(5);
    b.admit(b.keyed("a"));
    let rows = b.decisions();
    assert_eq!(rows.iter().map(|r| r.seq).collect::<Vec<_>>(), [2, 1]);
    let twin = &rows[0];
    assert_eq!(
        (twin.decision, twin.reason, twin.run, twin.prior_run),
        (Decision::Attach, Reason::Attached, Some(run), Some(run))
    );
    assert_eq!((twin.at, twin.key.as_deref(), twin.key_source), (b.now(), Some("a"), Some(KeySource::Caller)));
    assert_eq!(twin.scope.as_deref(), Some("flow:shop:order"));
    assert_eq!(twin.claim, Some(claim_of(&b.ws(), "a").hash));
    assert_eq!((twin.policy, twin.rules_version), (PresetName::Semel.preset().policy, RULES_VERSION));
    assert_eq!((rows[1].prior, rows[1].prior_run), (Prior::Absent, None));
}

pub fn a_decision_taken_elsewhere_is_logged(b: &Bench) {
    b.start(b.keyed("a"));
    let (answer, row) = b.store.peek(&b.keyed("a")).unwrap().expect("nothing changes");
    assert_eq!(answer.decision, Decision::Attach);
    b.call(Work::LogDecision(Box::new(row.clone())));
    assert_eq!(b.decisions()[0], DecisionRow { seq: 2, ..row });
}

pub fn a_peek_agrees_and_writes_nothing(b: &Bench) {
    b.start(b.keyed("live"));
    b.ended("done", EndStatus::Completed);
    let held = b.start(b.keyed("held"));
    b.end_in_doubt(held);
    let quiet = b.rows("decisions").len();
    for (i, request) in
        [b.keyed("live"), b.keyed("done"), b.keyed("held"), other_payload(b.keyed("live"))].into_iter().enumerate()
    {
        let before = b.dump();
        let (peeked, _) = b.store.peek(&request).unwrap().expect("a decision that changes nothing");
        same_dump(&before, &b.dump());
        let admitted = b.admit(request);
        assert_eq!(format!("{peeked:?}"), format!("{admitted:?}"));
        // Only the log grew.
        let (mut after, mut known) = (b.dump(), before);
        assert_eq!(after["decisions"].as_array().map(Vec::len), Some(quiet + i + 1));
        (after["decisions"], known["decisions"]) = (json!(null), json!(null));
        same_dump(&known, &after);
    }
}

pub fn a_peek_leaves_changes_to_the_writer(b: &Bench) {
    b.ended("failed", EndStatus::Failed);
    for request in [b.event(), b.keyed("new"), b.keyed("failed")] {
        assert!(b.store.peek(&request).unwrap().is_none());
    }
}

pub fn keys_of_two_workspaces_never_meet(b: &Bench) {
    let run = b.start(b.keyed("a"));
    let theirs = AdmitRequest { workspace: other_ws(), ..b.keyed("a") };
    // Even with the very same hash.
    let answer = b.admit(theirs);
    assert_eq!((answer.decision, answer.reason), (Decision::Start, Reason::First));
    assert_eq!(b.claim("a").unwrap().run, run);
    assert_ne!(b.store.claim(&other_ws(), claim_of(&b.ws(), "a").hash).unwrap().unwrap().run, run);
}

pub fn what_the_request_carries_is_kept(b: &Bench) {
    let parent = b.start(b.event());
    let request = AdmitRequest {
        labels: vec![("team".into(), "red".into()), ("tier".into(), "1".into())],
        correlation_id: Some("batch-7".into()),
        parent: Some(ParentRef { run: parent, step: semel_core::run::StepKey("call".into()), waits: true }),
        root: Some(parent),
        depth: 1,
        trigger: json!({"type": "webhook"}),
        ..b.event()
    };
    let run = b.start(request.clone());
    let (head, values, labels) = b.store.run(&b.ws(), run).unwrap().unwrap();
    assert_eq!((head.correlation_id.as_str(), head.root, head.depth), ("batch-7", parent, 1));
    assert_eq!((head.parent, labels, values.trigger), (request.parent, request.labels, Some(request.trigger)));
}

pub fn values_come_back_exactly(b: &Bench) {
    let inputs = json!({
        "big": 12_345_678_901_234_567_890_u64, "negative": -9_007_199_254_740_993_i64, "text": "ünïcödé \u{1F980} \u{0}",
        "nested": {"z": [1, null, {"y": []}], "a": ""}, "floats": [0.5, 183.64207777613782, 5e-324, 1e300]
    });
    let run = b.start(AdmitRequest { inputs: inputs.clone(), ..b.event() });
    let stored = b.values(run).inputs.unwrap();
    assert_eq!(stored, inputs);
    assert_eq!(stored.to_string(), inputs.to_string());
    let row = &b.store.journal(&b.ws(), run, 0, 1).unwrap()[0];
    assert!(decode_events(&row.events, row.values.as_deref()).is_ok(), "the values match their digests");
}

pub fn a_released_key_starts_anew(b: &Bench) {
    b.ended("a", EndStatus::Completed);
    let hash = claim_of(&b.ws(), "a").hash;
    assert!(matches!(b.call(Work::ReleaseKey { workspace: b.ws(), hash, by: by() }), Done::Unit));
    assert!(b.claim("a").is_none());
    assert_eq!(verdict(b, b.keyed("a")), (Decision::Start, Reason::First));
}

pub fn one_run_id_is_used_once(b: &Bench) {
    let run: RunId = b.start(b.event());
    let before = b.dump();
    let error = b.fail(Work::Admit(Box::new(AdmitRequest { run, ..b.keyed("a") })));
    assert_eq!(error.code(), "store_bug");
    same_dump(&before, &b.dump());
}

pub fn time_never_goes_back(b: &Bench) {
    let before = b.store.now();
    b.pass(-DAY_MS);
    assert!(b.store.now() >= before);
    let run = b.start(b.event());
    assert_eq!(b.head(run).created_at, before);
    b.pass(2 * DAY_MS);
    assert_eq!(b.store.now(), Millis(before.0 + DAY_MS));
}
