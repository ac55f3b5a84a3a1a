//! Run commits: guards, and everything that follows from events.

use super::bench::{Bench, by, other_ws, same_dump};
use crate::*;
use semel_core::admission::*;
use semel_core::ir::EffectClass;
use semel_core::run::{EndStatus, Event, SNAPSHOT_VERSION, Status, StepKey};
use semel_core::{FlowRef, Hash16, RunId};
use serde_json::{Value as Json, json};

fn refused(b: &Bench, commit: RunCommit) {
    let before = b.dump();
    assert_eq!(b.fail(Work::Commit(Box::new(commit))).code(), "conflict");
    same_dump(&before, &b.dump());
}

/// A commit that would leave a trace everywhere.
fn loud(b: &Bench, run: RunId) -> RunCommit {
    RunCommit {
        events: b"[]".to_vec(),
        timers_set: vec![(9, b.now())],
        logs: vec![log(b, run, 1)],
        labels: Some(vec![("a".into(), "b".into())]),
        outputs: Some(json!(1)),
        snapshot: Some(b"state".to_vec()),
        ops: vec![kv_op("loud")],
        ..b.step(run)
    }
}

fn log(b: &Bench, run: RunId, seq: u64) -> LogRow {
    LogRow { run, seq, at: b.now(), level: "INFO".into(), step: StepKey("log".into()), message: format!("line {seq}") }
}

fn kv_op(key: &str) -> CommitOp {
    let kind = OpKind::KvSet {
        namespace: "shop".into(),
        key: key.into(),
        value: json!(1),
        kv_type: "NUMBER".into(),
        overwrite: false,
        ttl_ms: None,
    };
    CommitOp { step: StepKey("set".into()), kind }
}

pub fn a_commit_needs_the_version(b: &Bench) {
    let run = b.start(b.event());
    for version in [0, 2] {
        refused(b, RunCommit { version, ..loud(b, run) });
    }
}

pub fn a_commit_needs_the_epoch(b: &Bench) {
    let run = b.start(b.event());
    for epoch in [0, 2] {
        refused(b, RunCommit { epoch, ..loud(b, run) });
    }
}

pub fn a_commit_needs_the_run(b: &Bench) {
    let run = b.start(b.event());
    refused(b, RunCommit { run: b.id(), ..loud(b, run) });
    refused(b, RunCommit { workspace: other_ws(), ..loud(b, run) });
}

pub fn a_commit_is_applied_once(b: &Bench) {
    let run = b.start(b.event());
    let commit = loud(b, run);
    b.commit(commit.clone());
    refused(b, commit);
}

pub fn a_commit_appends_to_the_journal(b: &Bench) {
    let run = b.start(b.event());
    b.pass(3);
    let done = b.commit(RunCommit { events: b"[1]".to_vec(), values: Some(vec![0xff, 0x00, 0xfe]), ..b.step(run) });
    assert_eq!((done.version, b.head(run).version), (2, 2));
    let rows = b.store.journal(&b.ws(), run, 1, 10).unwrap();
    let expected = JournalRow {
        run,
        seq: 2,
        at: b.now(),
        format: 1,
        events: b"[1]".to_vec(),
        values: Some(vec![0xff, 0x00, 0xfe]),
    };
    assert_eq!(rows, [expected]);
    assert_eq!(b.head(run).updated_at, b.now());
}

pub fn a_commit_without_events_keeps_the_version(b: &Bench) {
    let run = b.start(b.event());
    assert_eq!(b.commit(b.step(run)).version, 1);
    assert_eq!(b.rows("journal").len(), 1);
}

pub fn the_head_takes_what_the_commit_says(b: &Bench) {
    let run = b.start(b.event());
    let mut commit = b.step(run);
    commit.head = HeadChange {
        status: Status::Waiting,
        active: false,
        open_intents: 2,
        open_doubts: 3,
        take: 4,
        warned: true,
        conclusion: None,
    };
    b.commit(commit);
    let head = b.head(run);
    assert_eq!((head.status, head.active, head.open_intents, head.open_doubts), (Status::Waiting, false, 2, 3));
    assert_eq!((head.take, head.warned), (4, true));
}

pub fn timers_are_set_and_cleared(b: &Bench) {
    let run = b.start(b.event());
    let (soon, late) = (b.now().plus(5), b.now().plus(50));
    let done = b.commit(RunCommit { timers_set: vec![(1, late), (2, soon)], ..b.step(run) });
    assert_eq!(done.timer_due, Some(soon));
    b.commit(RunCommit { timers_set: vec![(1, soon)], timers_cleared: vec![2], ..b.step(run) });
    let timer = TimerRow { workspace: b.ws(), run, timer: 1, due: soon };
    assert_eq!(b.store.due_timers(late, 10).unwrap(), [timer]);
}

pub fn effects_are_kept_by_step(b: &Bench) {
    let run = b.start(b.event());
    let effect = |n: u8, state| EffectRow {
        step_id: Hash16([n; 16]),
        run,
        step: StepKey(format!("call{n}")),
        class: EffectClass::Keyed,
        state,
        attempt: 1,
        sends: 1,
        out_key: "key".into(),
        safe_until: Some(b.now()),
        at: b.now(),
    };
    b.commit(RunCommit {
        effects: vec![effect(2, EffectState::Intent), effect(1, EffectState::Intent)],
        ..b.step(run)
    });
    b.commit(RunCommit { effects: vec![effect(1, EffectState::Done)], ..b.step(run) });
    let stored = b.store.effects(&b.ws(), run).unwrap();
    assert_eq!(stored, [effect(1, EffectState::Done), effect(2, EffectState::Intent)]);
}

pub fn logs_come_in_order(b: &Bench) {
    let run = b.start(b.event());
    b.commit(RunCommit { logs: (1..=5).map(|seq| log(b, run, seq)).collect(), ..b.step(run) });
    let seqs =
        |after, limit| b.store.logs(&b.ws(), run, after, limit).unwrap().iter().map(|l| l.seq).collect::<Vec<_>>();
    assert_eq!((seqs(0, 10), seqs(2, 2), seqs(5, 10)), (vec![1, 2, 3, 4, 5], vec![3, 4], vec![]));
    assert_eq!(b.store.logs(&b.ws(), run, 0, 1).unwrap(), [log(b, run, 1)]);
}

pub fn a_log_number_is_used_once(b: &Bench) {
    let run = b.start(b.event());
    b.commit(RunCommit { logs: vec![log(b, run, 1)], ..b.step(run) });
    let again = RunCommit { logs: vec![log(b, run, 1)], ..b.step(run) };
    assert_eq!(b.fail(Work::Commit(Box::new(again))).code(), "store_bug");
}

pub fn labels_are_replaced(b: &Bench) {
    let old: Vec<(String, String)> = vec![("team".into(), "red".into()), ("tier".into(), "1".into())];
    let new: Vec<(String, String)> = vec![("team".into(), "blue".into())];
    let run = b.start(AdmitRequest { labels: old.clone(), ..b.event() });
    b.commit(RunCommit { labels: Some(new.clone()), ..b.step(run) });
    let find = |label: &(String, String)| {
        let query = RunQuery { labels: vec![label.clone()], limit: 10, ..RunQuery::default() };
        b.store.runs(&b.ws(), &query).unwrap().len()
    };
    assert_eq!((find(&old[0]), find(&old[1]), find(&new[0])), (0, 0, 1));
    assert_eq!(b.store.load_run(&b.ws(), run).unwrap().unwrap().labels, new);
}

pub fn messages_are_consumed(b: &Bench) {
    let run = b.start(b.event());
    for _ in 0..2 {
        b.call(Work::Message { workspace: b.ws(), run, message: Inbox::Promoted });
    }
    let seqs: Vec<u64> = b.store.load_run(&b.ws(), run).unwrap().unwrap().inbox.iter().map(|(seq, _)| *seq).collect();
    b.commit(RunCommit { inbox_consumed: vec![seqs[0]], ..b.step(run) });
    assert_eq!(b.inbox(run).len(), 1);
    b.commit(RunCommit { inbox_consumed: vec![seqs[1]], ..b.step(run) });
    // A number is never used again, so a stale commit cannot consume what it has not seen.
    b.call(Work::Message { workspace: b.ws(), run, message: Inbox::Promoted });
    assert!(b.store.load_run(&b.ws(), run).unwrap().unwrap().inbox[0].0 > seqs[1]);
}

pub fn an_unread_message_keeps_a_run_active(b: &Bench) {
    let run = b.start(b.event());
    b.call(Work::Message { workspace: b.ws(), run, message: Inbox::Promoted });
    let mut commit = b.step(run);
    commit.head.active = false;
    let done = b.commit(commit);
    assert_eq!((done.wake, b.head(run).active), (vec![run], true));
}

pub fn outputs_and_failure_are_kept(b: &Bench) {
    let run = b.start(b.event());
    b.commit(RunCommit { outputs: Some(json!({"x": 1})), ..b.ending(run, EndStatus::Completed) });
    b.commit(RunCommit { failure: Some(json!({"code": "c"})), ..b.step(run) });
    let values = b.values(run);
    assert_eq!((values.outputs, values.failure), (Some(json!({"x": 1})), Some(json!({"code": "c"}))));
    assert_eq!(values.inputs, Some(json!({"n": 1})));
}

pub fn a_snapshot_is_loaded(b: &Bench) {
    let run = b.start(b.event());
    assert!(b.store.load_run(&b.ws(), run).unwrap().unwrap().snapshot.is_none());
    b.commit(RunCommit { events: b"[]".to_vec(), snapshot: Some(vec![1, 2, 255]), ..b.step(run) });
    let loaded = b.store.load_run(&b.ws(), run).unwrap().unwrap();
    assert_eq!(
        loaded.snapshot,
        Some(SnapshotRow { run, version: 2, format: SNAPSHOT_VERSION, state: vec![1, 2, 255] })
    );
    assert_eq!(loaded.row, b.head(run));
}

pub fn the_end_settles_the_claim(b: &Bench) {
    for (key, status, state) in [
        ("c", EndStatus::Completed, ClaimState::Done),
        ("f", EndStatus::Failed, ClaimState::Failed),
        ("x", EndStatus::Cancelled, ClaimState::Cancelled),
    ] {
        let run = b.ended(key, status);
        assert_eq!((b.claim_state(key), b.claim(key).unwrap().completed_at), (state, Some(b.now())));
        assert_eq!((b.head(run).ended_at, b.head(run).active), (Some(b.now()), false));
    }
}

pub fn the_end_clears_timers(b: &Bench) {
    let run = b.start(b.event());
    b.commit(RunCommit { timers_set: vec![(1, b.now()), (2, b.now())], ..b.step(run) });
    b.end(run, EndStatus::Completed);
    assert_eq!(b.store.next_timer().unwrap(), None);
}

pub fn an_ended_run_reopens(b: &Bench) {
    let run = b.ended("a", EndStatus::Failed);
    let mut commit = b.step(run);
    commit.head.status = Status::Running;
    b.commit(RunCommit { settle: Settle::Reopened, ..commit });
    let head = b.head(run);
    assert_eq!((head.generation, head.ended_at, head.status), (2, None, Status::Running));
    assert_eq!((b.claim_state("a"), b.claim("a").unwrap().generation), (ClaimState::Live, 2));
    assert_eq!((b.values(run).outputs, b.values(run).failure), (None, None));
}

pub fn a_twin_reopens_without_a_second_generation(b: &Bench) {
    let run = b.ended("a", EndStatus::Failed);
    b.admit(b.keyed("a"));
    b.commit(RunCommit { settle: Settle::ReopenedByTwin, ..b.step(run) });
    assert_eq!((b.head(run).generation, b.claim("a").unwrap().generation), (2, 2));
}

pub fn a_twin_and_a_person_reopen_a_run_once(b: &Bench) {
    let run = b.ended("a", EndStatus::Failed);
    let restart = RunCommit { settle: Settle::Reopened, ..b.step(run) };
    b.admit(b.keyed("a"));
    b.commit(restart);
    assert_eq!((b.head(run).generation, b.claim("a").unwrap().generation), (2, 2));
}

/// The key went to another event since: two runs of it must not go on at once.
pub fn a_key_that_another_has_keeps_a_run_closed(b: &Bench) {
    let policy = PresetName::ConductorFailOnRunning.preset().policy;
    let first = b.start(AdmitRequest { policy, ..b.keyed("a") });
    b.end(first, EndStatus::Failed);
    let second = b.start(AdmitRequest { policy, ..b.keyed("a") });
    assert_ne!(first, second, "a new event under the old key");
    let claim = b.head(first).claim;
    assert!(claim.is_some());
    let reopen = || Some(Reopen { claim, lifts: None, forced: false });
    let before = b.dump();
    let answer =
        b.call(Work::Commit(Box::new(RunCommit { settle: Settle::Reopened, reopen: reopen(), ..loud(b, first) })));
    assert!(matches!(answer, Done::Refused(Refusal::KeyLive)));
    same_dump(&before, &b.dump());
    b.end(second, EndStatus::Completed);
    let mut commit = b.step(first);
    commit.head.status = Status::Running;
    b.commit(RunCommit { settle: Settle::Reopened, reopen: reopen(), ..commit });
    let (head, claim) = (b.head(first), b.claim("a").unwrap());
    assert_eq!((head.status, head.generation), (Status::Running, 3));
    assert_eq!((claim.run, claim.state, claim.generation), (first, ClaimState::Live, 3));
    let twin = b.admit(AdmitRequest { policy, ..b.keyed("a") });
    assert_eq!((twin.decision, twin.reason), (Decision::Reject, Reason::InProgress), "a third beside it");
    b.end(first, EndStatus::Completed);
    let next = b.admit(AdmitRequest { policy, ..b.keyed("a") });
    assert_eq!((next.decision, next.generation), (Decision::Start, 4));
}

/// Between the two runs the key was freed, and its generations began anew.
pub fn a_key_that_is_taken_back_counts_on(b: &Bench) {
    let policy = PresetName::ConductorFailOnRunning.preset().policy;
    let again = || {
        let run = b.start(AdmitRequest { policy, ..b.keyed("a") });
        b.end(run, EndStatus::Failed);
        run
    };
    let third = [again(), again(), again()][2];
    let claim = b.head(third).claim;
    b.call(Work::ReleaseKey { workspace: b.ws(), hash: claim.unwrap(), by: by() });
    again();
    assert_eq!(b.claim("a").unwrap().generation, 1);
    let mut commit = b.step(third);
    commit.head.status = Status::Running;
    let reopen = Some(Reopen { claim, lifts: None, forced: false });
    b.commit(RunCommit { settle: Settle::Reopened, reopen, ..commit });
    assert_eq!((b.head(third).generation, b.claim("a").unwrap().generation), (4, 4));
}

pub fn a_run_that_goes_on_takes_its_parent_with_it(b: &Bench) {
    for (waits, lifts) in [(true, true), (true, false), (false, true)] {
        let parent = b.start(b.event());
        let child = b.start(child_of(b, parent, waits));
        b.end(child, EndStatus::Failed);
        let heard = b.inbox(parent).len();
        b.end(parent, EndStatus::Failed);
        let reopen = Some(Reopen { claim: None, lifts: lifts.then(by), forced: false });
        let result = b.commit(RunCommit { settle: Settle::Reopened, reopen, ..b.step(child) });
        let told = waits && lifts;
        assert_eq!(result.wake.contains(&parent), told);
        assert_eq!(b.inbox(parent).len(), heard + usize::from(told));
        if told {
            assert_eq!(b.inbox(parent).last(), Some(&Inbox::ChildReopened { run: child, by: by() }));
        }
    }
}

pub fn a_run_can_be_amended(b: &Bench) {
    let run = b.start(b.keyed("a"));
    let other = FlowRef::new("shop", "order-2");
    let amend =
        Amend { flow: Some((other.clone(), 7)), inputs: Some(json!({"n": 2})), correlation_id: Some("c-1".into()) };
    b.commit(RunCommit { amend: Some(Box::new(amend)), ..b.step(run) });
    let head = b.head(run);
    assert_eq!((head.flow, head.revision, head.correlation_id.as_str()), (other, 7, "c-1"));
    assert_eq!((b.values(run).inputs, b.values(run).trigger), (Some(json!({"n": 2})), Some(json!({}))));
}

pub fn a_full_lane_keeps_a_run_closed(b: &Bench) {
    let run = b.start(b.in_lane("1", Busy::Reject));
    b.end(run, EndStatus::Failed);
    b.start(b.in_lane("2", Busy::Reject));
    let before = b.dump();
    let answer = b.call(Work::Commit(Box::new(RunCommit { settle: Settle::Reopened, ..loud(b, run) })));
    assert!(matches!(answer, Done::Refused(Refusal::LaneBusy)));
    same_dump(&before, &b.dump());
}

fn child_of(b: &Bench, parent: RunId, waits: bool) -> AdmitRequest {
    below(parent, waits, b.event())
}

fn below(parent: RunId, waits: bool, request: AdmitRequest) -> AdmitRequest {
    let parent_ref = ParentRef { run: parent, step: StepKey("call".into()), waits };
    AdmitRequest { parent: Some(parent_ref), root: Some(parent), depth: 1, ..request }
}

pub fn a_parent_hears_of_the_end(b: &Bench) {
    let parent = b.start(b.event());
    let child = b.start(child_of(b, parent, true));
    assert_eq!(b.end(child, EndStatus::Completed).wake, [parent]);
    let message = Inbox::ChildEnded {
        run: child,
        status: EndStatus::Completed,
        conclusion: None,
        warned: false,
        outputs: json!({"total": 7}),
        doubts: 0,
    };
    assert_eq!(b.inbox(parent), [message]);
}

pub fn a_parent_that_does_not_wait_hears_only_of_doubts(b: &Bench) {
    let parent = b.start(b.event());
    let child = b.start(child_of(b, parent, false));
    assert!(b.end(child, EndStatus::Completed).wake.is_empty());
    let other = b.start(child_of(b, parent, false));
    b.end_in_doubt(other);
    assert!(matches!(&b.inbox(parent)[..], [Inbox::ChildEnded { doubts: 1, .. }]));
}

pub fn cancels_reach_the_children(b: &Bench) {
    let parent = b.start(b.event());
    let child = b.start(child_of(b, parent, true));
    assert_eq!(b.commit(RunCommit { cancels: vec![(child, by())], ..b.step(parent) }).wake, [child]);
    assert_eq!(b.inbox(child), [Inbox::Cancel { by: by() }]);
}

pub fn a_child_is_admitted_by_a_commit(b: &Bench) {
    let parent = b.start(b.event());
    let request = AdmitRequest { parent: child_of(b, parent, true).parent, ..b.keyed("child") };
    let done = b.op(parent, OpKind::Admit(Box::new(request)));
    let child = done.admitted[0].run.as_ref().unwrap().id;
    assert!(matches!(&done.appended[..], [Event::ChildStarted { run, .. }] if *run == child));
    assert_eq!((done.version, b.rows("journal").len()), (2, 3));
    assert_eq!(b.claim("child").unwrap().run, child);
}

pub fn a_refused_child_fails_its_step(b: &Bench) {
    b.start(b.in_lane("1", Busy::Reject));
    let parent = b.start(b.event());
    let done = b.op(parent, OpKind::Admit(Box::new(b.in_lane("2", Busy::Reject))));
    assert!(matches!(&done.appended[..], [Event::OpDone { ok: false, .. }]));
}

pub fn a_child_that_ended_before_is_heard_of(b: &Bench) {
    let child = b.ended("a", EndStatus::Completed);
    let parent = b.start(b.event());
    let done = b.op(parent, OpKind::Admit(Box::new(b.keyed("a"))));
    assert_eq!(done.wake, [parent]);
    assert!(matches!(&b.inbox(parent)[..], [Inbox::ChildEnded { run, .. }] if *run == child));
}

pub fn a_run_of_others_is_watched(b: &Bench) {
    let theirs = b.start(b.keyed("a"));
    let (watcher, other) = (b.start(b.event()), b.start(b.event()));
    b.op(watcher, OpKind::Admit(Box::new(below(watcher, true, b.keyed("a")))));
    // Who does not wait for it hears nothing: it is not theirs.
    b.op(other, OpKind::Admit(Box::new(below(other, false, b.keyed("a")))));
    assert_eq!(b.end(theirs, EndStatus::Failed).wake, [watcher]);
    assert!(matches!(&b.inbox(watcher)[..], [Inbox::ChildEnded { status: EndStatus::Failed, .. }]));
    assert!(b.inbox(other).is_empty());
    assert!(b.rows("lanes").is_empty());
}

pub fn kv_ops_are_journaled(b: &Bench) {
    let run = b.start(b.event());
    let ok = |done: CommitResult| match &done.appended[..] {
        [Event::OpDone { ok, output, .. }] => (*ok, output.as_ref().map(|o| o.json().clone())),
        other => panic!("one result expected: {other:?}"),
    };
    let get = |error_on_missing| OpKind::KvGet { namespace: "shop".into(), key: "k".into(), error_on_missing };
    let delete = |error_on_missing| OpKind::KvDelete { namespace: "shop".into(), key: "k".into(), error_on_missing };
    assert_eq!(ok(b.op(run, get(false))), (true, Some(json!({"value": null}))));
    assert_eq!(ok(b.op(run, get(true))), (false, None));
    assert_eq!(ok(b.op(run, kv_op("k").kind)), (true, Some(json!({}))));
    assert_eq!(ok(b.op(run, kv_op("k").kind)), (false, None), "overwrite is false");
    assert_eq!(ok(b.op(run, get(true))), (true, Some(json!({"value": 1}))));
    assert_eq!(ok(b.op(run, delete(true))), (true, Some(json!({"deleted": true}))));
    assert_eq!(ok(b.op(run, delete(false))), (true, Some(json!({"deleted": false}))));
    assert_eq!(ok(b.op(run, delete(true))), (false, None));
    assert_eq!(b.head(run).version, 9);
}

pub fn a_state_is_merged_where_it_is_kept(b: &Bench) {
    let run = b.start(b.event());
    let ok = |done: CommitResult| match &done.appended[..] {
        [Event::OpDone { ok, output, .. }] => (*ok, output.as_ref().map(|o| o.json().clone())),
        other => panic!("one result expected: {other:?}"),
    };
    let get = |error_on_missing| OpKind::StateGet { namespace: "shop".into(), key: "s".into(), error_on_missing };
    let set = |data: Json| OpKind::StateSet {
        namespace: "shop".into(),
        key: "s".into(),
        data: data.as_object().cloned().unwrap_or_default(),
    };
    assert_eq!(ok(b.op(run, get(false))), (true, Some(json!({"count": 0, "data": {}}))));
    assert_eq!(ok(b.op(run, get(true))), (false, None));
    assert_eq!(ok(b.op(run, set(json!({"a": {"x": 1}, "b": 1})))), (true, Some(json!({"count": 2, "key": "s"}))));
    assert_eq!(ok(b.op(run, set(json!({"a": {"y": 2}, "b": [2]})))), (true, Some(json!({"count": 2, "key": "s"}))));
    let data = json!({"a": {"x": 1, "y": 2}, "b": [2]});
    assert_eq!(ok(b.op(run, get(true))), (true, Some(json!({"count": 2, "data": data}))));
}

pub fn a_failing_op_rolls_the_whole_commit_back(b: &Bench) {
    let run = b.start(b.event());
    // The id is taken, which no script can allow: everything of this commit must go.
    let mut commit = loud(b, run);
    commit.ops.push(CommitOp {
        step: StepKey("call".into()),
        kind: OpKind::Admit(Box::new(AdmitRequest { run, ..b.event() })),
    });
    let before = b.dump();
    assert_eq!(b.fail(Work::Commit(Box::new(commit))).code(), "store_bug");
    same_dump(&before, &b.dump());
}
