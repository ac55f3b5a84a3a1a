//! Release, delete, erase, sweep.

use super::bench::{Bench, DAY_MS, KvSet, by, claim_of, other_ws, same_dump};
use crate::*;
use semel_core::admission::*;
use semel_core::run::{EndStatus, StepKey, decode_events};
use semel_core::{Hash16, RunId};
use serde_json::json;

fn is_refused(answer: Done, why: Refusal) {
    assert!(matches!(answer, Done::Refused(given) if given == why), "{answer:?}");
}

fn release(b: &Bench, key: &str) -> Done {
    b.call(Work::ReleaseKey { workspace: b.ws(), hash: claim_of(&b.ws(), key).hash, by: by() })
}

fn delete(b: &Bench, run: RunId) -> Done {
    b.call(Work::DeleteRun { workspace: b.ws(), run })
}

fn erase(b: &Bench, run: RunId) -> Done {
    b.call(Work::EraseRun { workspace: b.ws(), run })
}

pub fn a_live_run_is_not_removed(b: &Bench) {
    let run = b.start(b.keyed("a"));
    let before = b.dump();
    is_refused(release(b, "a"), Refusal::RunLive);
    is_refused(delete(b, run), Refusal::RunLive);
    is_refused(erase(b, run), Refusal::RunLive);
    same_dump(&before, &b.dump());
}

pub fn a_run_in_doubt_is_not_removed(b: &Bench) {
    let run = b.start(b.keyed("a"));
    b.end_in_doubt(run);
    is_refused(release(b, "a"), Refusal::DoubtOpen);
    is_refused(delete(b, run), Refusal::DoubtOpen);
    is_refused(erase(b, run), Refusal::DoubtOpen);
}

pub fn what_is_not_there_is_missing(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    assert!(matches!(release(b, "b"), Done::Missing));
    assert!(matches!(delete(b, b.id()), Done::Missing));
    assert!(matches!(erase(b, b.id()), Done::Missing));
    // Nor is it there for another workspace.
    let hash: Hash16 = claim_of(&b.ws(), "a").hash;
    assert!(matches!(b.call(Work::ReleaseKey { workspace: other_ws(), hash, by: by() }), Done::Missing));
    assert!(matches!(b.call(Work::DeleteRun { workspace: other_ws(), run }), Done::Missing));
    assert!(matches!(b.call(Work::EraseRun { workspace: other_ws(), run }), Done::Missing));
}

pub fn a_log_is_removed_and_the_run_stays(b: &Bench) {
    let line = |run, seq| LogRow {
        run,
        seq,
        at: b.now(),
        level: "INFO".into(),
        step: StepKey("log".into()),
        message: "hello".into(),
    };
    let forget = |workspace, run| b.call(Work::DeleteLogs { workspace, run });
    let other = b.start(b.keyed("b"));
    b.commit(RunCommit { logs: vec![line(other, 1)], ..b.step(other) });
    is_refused(forget(b.ws(), other), Refusal::RunLive);
    let run = b.start(b.keyed("a"));
    b.commit(RunCommit { logs: vec![line(run, 1), line(run, 2)], ..b.step(run) });
    b.end(run, EndStatus::Completed);
    release(b, "a");
    assert!(matches!(forget(other_ws(), run), Done::Missing));
    assert!(matches!(forget(b.ws(), run), Done::Unit));
    let left = b.store.logs(&b.ws(), run, 0, 10).unwrap();
    assert_eq!(left.iter().map(|row| row.level.as_str()).collect::<Vec<_>>(), ["AUDIT"], "who freed the key stays");
    assert_eq!(b.store.logs(&b.ws(), other, 0, 10).unwrap().len(), 1);
}

pub fn lines_from_outside_stand_past_those_of_the_run_and_go_with_it(b: &Bench) {
    let run = b.start(b.keyed("a"));
    let add = |workspace, run, texts: &[&str], nonce| {
        let lines = texts.iter().map(|text| LogLine { at: b.now(), message: (*text).into() }).collect();
        b.call(Work::AddLogs { workspace, run, step: StepKey("s".into()), level: "INFO".into(), lines, nonce })
    };
    assert!(matches!(add(b.ws(), run, &["one", "two"], 7), Done::Unit));
    assert!(matches!(add(b.ws(), run, &["three"], 9), Done::Unit), "in the same millisecond");
    assert!(matches!(add(other_ws(), run, &["no"], 1), Done::Missing));
    let lines = b.store.logs(&b.ws(), run, crate::OUTSIDE_FROM - 1, 10).unwrap();
    assert_eq!(lines.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
    assert!(lines.iter().all(|line| line.seq < crate::RELEASED_FROM));
    b.end(run, EndStatus::Completed);
    assert!(matches!(b.call(Work::EraseRun { workspace: b.ws(), run }), Done::Unit));
    assert!(matches!(add(b.ws(), run, &["late"], 20), Done::Missing), "nothing is added to what was erased");
    assert_eq!(b.store.logs(&b.ws(), run, 0, 10).unwrap(), []);
}

pub fn a_release_says_who_and_why(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    release(b, "a");
    let logs = b.store.logs(&b.ws(), run, 0, 10).unwrap();
    assert!(logs[0].message.contains("operator") && logs[0].message.contains("asked"), "{logs:?}");
}

/// A run with something in every table.
fn rich(b: &Bench, key: &str) -> RunId {
    let run = b.start(AdmitRequest { labels: vec![("team".into(), "red".into())], ..b.keyed(key) });
    let effect = EffectRow {
        step_id: Hash16([1; 16]),
        run,
        step: StepKey("call".into()),
        class: semel_core::ir::EffectClass::Naked,
        state: EffectState::Done,
        attempt: 1,
        sends: 1,
        out_key: "k".into(),
        safe_until: None,
        at: b.now(),
    };
    let log =
        LogRow { run, seq: 1, at: b.now(), level: "INFO".into(), step: StepKey("log".into()), message: "hello".into() };
    b.commit(RunCommit {
        events: b"[]".to_vec(),
        snapshot: Some(b"{}".to_vec()),
        timers_set: vec![(1, b.now())],
        effects: vec![effect],
        task_words: vec![TaskWord { of: WordOf::Name, text: "charge".into() }],
        logs: vec![log],
        ..b.step(run)
    });
    b.end(run, EndStatus::Completed);
    b.call(Work::Message { workspace: b.ws(), run, message: Inbox::Promoted });
    run
}

pub fn a_deleted_run_leaves_only_decisions(b: &Bench) {
    let (gone, kept) = (rich(b, "gone"), rich(b, "kept"));
    assert!(matches!(delete(b, gone), Done::Unit));
    for table in ["claims", "runs", "run_values", "labels", "snapshots", "effects", "task_words", "logs", "inbox"] {
        let rows = b.rows(table);
        assert_eq!(rows.len(), 1, "{table}: {rows:?}");
        assert!(!rows[0].to_string().contains(&gone.to_string()), "{table}");
    }
    assert!(b.store.journal(&b.ws(), gone, 0, 10).unwrap().is_empty());
    assert_eq!(b.store.journal(&b.ws(), kept, 0, 10).unwrap().len(), 3);
    assert_eq!(b.rows("decisions").len(), 2);
    let query = RunQuery { labels: vec![("team".into(), "red".into())], limit: 10, ..RunQuery::default() };
    assert_eq!(b.store.runs(&b.ws(), &query).unwrap().len(), 1);
}

pub fn an_erased_run_keeps_its_shape(b: &Bench) {
    let run = rich(b, "secret-key");
    assert!(matches!(erase(b, run), Done::Unit));
    let (head, values, labels) = b.store.run(&b.ws(), run).unwrap().unwrap();
    assert_eq!((head.erased, head.key, values, labels), (true, None, RunValues::default(), vec![]));
    let rows = b.store.journal(&b.ws(), run, 0, 10).unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.values.is_none()));
    assert!(decode_events(&rows[0].events, None).is_ok());
    assert!(b.store.logs(&b.ws(), run, 0, 10).unwrap().is_empty());
    let claim = b.claim("secret-key").unwrap();
    assert_eq!((claim.state, claim.key), (ClaimState::Erased, None));
    assert!(b.rows("task_words").is_empty(), "they may be made of values");
    assert_eq!(b.store.effects(&b.ws(), run).unwrap().len(), 1);
}

pub fn an_erased_key_is_still_known(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    erase(b, run);
    let twin = b.admit(b.keyed("a"));
    assert_eq!((twin.decision, twin.reason), (Decision::Reject, Reason::Erased));
}

pub fn who_frees_the_key_of_an_erased_run_is_no_residue(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    erase(b, run);
    assert!(matches!(release(b, "a"), Done::Unit));
    assert_eq!(b.store.logs(&b.ws(), run, 0, 10).unwrap().len(), 1, "who, and why");
    let report = check::check(&*b.store, &check::Options::default()).expect("the store can be read");
    assert!(!report.has(check::Code::ErasedResidue), "{report:#?}");
}

/// It was decided on a snapshot before the erasure, and its row comes after it.
pub fn a_twin_logged_after_the_erasure_names_nothing(b: &Bench) {
    let run = b.ended("secret-key", EndStatus::Completed);
    let (_, row) = b.store.peek(&b.keyed("secret-key")).unwrap().expect("a replay is decided on a snapshot");
    assert_eq!(row.key.as_deref(), Some("secret-key"));
    erase(b, run);
    b.call(Work::LogDecision(Box::new(row)));
    assert!(!b.store.dump().unwrap().to_string().contains("secret-key"));
}

/// A driver that has the run in memory, for a person who wants it to go on, must find that it is another one now.
pub fn an_erasure_fences_who_has_the_values(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    let stale = b.step(run);
    erase(b, run);
    assert!(b.store.call(Work::Commit(Box::new(stale))).is_err());
}

pub fn a_sweep_forgets_claims_after_the_tombstone(b: &Bench) {
    b.ended("a", EndStatus::Completed);
    let live = b.start(b.keyed("live"));
    b.pass(30 * DAY_MS + TOMBSTONE_MS - 1);
    b.sweep(100);
    assert!(b.claim("a").is_some());
    b.pass(1);
    b.sweep(100);
    assert!(b.claim("a").is_none());
    assert_eq!(b.claim("live").unwrap().run, live, "a live claim never expires");
}

pub fn a_sweep_leaves_what_is_for_ever(b: &Bench) {
    let mut request = b.keyed("a");
    request.policy.window = Window::Forever;
    let run = b.start(request);
    b.end(run, EndStatus::Completed);
    b.pass(10_000 * DAY_MS);
    b.sweep(100);
    assert!(b.claim("a").is_some());
    assert_eq!(b.head(run).id, run, "the answer stays with its claim");
}

pub fn a_sweep_is_bounded(b: &Bench) {
    for key in ["a", "b", "c"] {
        b.call(KvSet { ttl_ms: Some(10), ..b.kv_set(key, json!(1)) }.work());
    }
    b.call(b.kv_set("kept", json!(1)).work());
    assert_eq!(b.sweep(2), 0);
    b.pass(10);
    assert_eq!(b.sweep(2), 2);
    assert_eq!(
        b.store.kv_list(&b.ws(), "shop", None, 9).unwrap().iter().map(|r| r.key.as_str()).collect::<Vec<_>>(),
        ["c", "kept"]
    );
    assert_eq!(b.sweep(2), 1);
}

pub fn a_sweep_drops_old_decisions(b: &Bench) {
    b.start(b.event());
    b.pass(20 * DAY_MS);
    b.start(b.event());
    b.pass(11 * DAY_MS);
    assert_eq!(b.sweep(100), 1);
    assert_eq!(b.decisions().iter().map(|d| d.seq).collect::<Vec<_>>(), [2]);
    b.pass(40 * DAY_MS);
    b.sweep(100);
    assert!(b.decisions().is_empty());
    b.start(b.event());
    assert_eq!(b.decisions()[0].seq, 3, "a number is never used again");
}

pub fn a_sweep_drops_old_history(b: &Bench) {
    let old = b.start(b.event());
    b.end(old, EndStatus::Completed);
    let keyed = b.ended("a", EndStatus::Completed);
    let open = b.start(b.event());
    b.pass(31 * DAY_MS);
    b.sweep(100);
    assert!(b.store.run(&b.ws(), old).unwrap().is_none());
    assert_eq!((b.head(keyed).id, b.head(open).id), (keyed, open));
    b.pass(TOMBSTONE_MS);
    b.sweep(100);
    assert!(b.store.run(&b.ws(), keyed).unwrap().is_none(), "its claim was forgotten first");
}
