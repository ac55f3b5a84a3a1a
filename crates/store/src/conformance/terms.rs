//! Runs that do not begin at once and from the start, and what is done to them and by them.

use super::bench::*;
use crate::*;
use semel_core::RunId;
use semel_core::admission::{Busy, ClaimState, Decision, Reason};
use semel_core::run::{Conclusion, EndStatus, Event, Failure, Payload, Status, StepKey, StepOutcome, decode_events};
use serde_json::json;

const QUEUE: Busy = Busy::Queue { max: 10 };

fn later(b: &Bench, request: AdmitRequest, ms: i64) -> AdmitRequest {
    AdmitRequest { terms: Terms { start_at: Some(b.now().plus(ms)), ..Terms::default() }, ..request }
}

pub fn a_run_with_a_date_waits_for_it(b: &Bench) {
    let answer = b.admit(later(b, b.keyed("k"), 50));
    let due = b.now().plus(50);
    assert_eq!((answer.decision, answer.reason), (Decision::Queue, Reason::Queued));
    assert_eq!((answer.timer_due, answer.created, answer.born().is_some()), (Some(due), true, false));
    let row = answer.run.unwrap();
    assert_eq!((row.status, row.conclusion, row.active), (Status::Queued, Some(Conclusion::Scheduled), false));
    assert_eq!(b.head(row.id), row, "all of it is stored");
    assert_eq!((row.more.start_at, b.claim_state("k")), (Some(due), ClaimState::Pending));
    assert_eq!(b.store.due_timers(due, 10).unwrap().len(), 1);
    // Its date comes: without a lane it has all it needs.
    assert_eq!(b.op(row.id, OpKind::EnterLane).entered, Some(true));
    let row = b.head(row.id);
    assert_eq!((row.status, row.active, b.claim_state("k")), (Status::Running, true, ClaimState::Live));
    // A date that has passed is no reason to wait.
    assert_eq!(b.admit(later(b, b.event(), 0)).decision, Decision::Start);
}

pub fn a_late_run_finds_no_slot(b: &Bench) {
    let holder = b.start(b.in_lane("1", Busy::Fail));
    let late = b.start(later(b, b.in_lane("2", Busy::Fail), 50));
    let done = b.op(late, OpKind::EnterLaneOrEnd { status: EndStatus::Failed });
    assert_eq!((done.entered, done.wake.as_slice()), (Some(false), &[late][..]));
    assert!(matches!(b.inbox(late)[..], [Inbox::Stop { status: EndStatus::Failed, .. }]), "its end is certain");
    assert!(b.head(late).active, "and somebody is told to write it down");
    b.end(holder, EndStatus::Completed);
    let next = b.start(later(b, b.in_lane("3", Busy::Fail), 50));
    assert_eq!(b.op(next, OpKind::EnterLaneOrEnd { status: EndStatus::Failed }).entered, Some(true));
}

pub fn a_run_may_be_born_ended(b: &Bench) {
    for (status, conclusion, claim) in [
        (EndStatus::Failed, None, ClaimState::Failed),
        (EndStatus::Cancelled, Some(Conclusion::ByRule), ClaimState::Cancelled),
    ] {
        let key = format!("{status:?}");
        let ended = Some((status, Failure::new("check_failed", "too small")));
        let answer = b.admit(AdmitRequest { terms: Terms { ended, ..Terms::default() }, ..b.keyed(&key) });
        let row = answer.run.unwrap();
        assert!(row.status.is_ended() && row.ended_at.is_some() && answer.created);
        assert_eq!((row.conclusion, b.claim_state(&key)), (conclusion, claim));
        assert_eq!(b.values(row.id).failure.unwrap()["code"], "check_failed");
    }
}

pub fn a_run_is_forced_past_the_limit(b: &Bench) {
    let holder = b.start(b.in_lane("1", QUEUE));
    let waiting = b.start(b.in_lane("2", QUEUE));
    let next = b.start(b.in_lane("3", QUEUE));
    assert_eq!(b.op(waiting, OpKind::ForceLane).entered, Some(true));
    let row = b.head(waiting);
    assert_eq!((row.status, row.active, row.more.forced), (Status::Running, true, true));
    assert_eq!(b.claim_state("2"), ClaimState::Live);
    assert_eq!(b.end(holder, EndStatus::Completed).wake, [], "there is still no slot");
    assert_eq!(b.end(waiting, EndStatus::Completed).wake, [next]);
}

fn replay(b: &Bench, of: RunId, version: u64) -> AdmitRequest {
    let done = Event::StepEnded {
        step: StepKey("pay".into()),
        outcome: StepOutcome::Success,
        at: b.now(),
        tolerated: false,
        output: Some(Payload::new(json!({"code": 200}))),
        failure: None,
    };
    let labels = vec![("a".to_owned(), "1".to_owned()), ("system.replayed".to_owned(), "true".to_owned())];
    let replay = ReplayTerms { of, original: b.head(of).original(), version, from: 1, events: vec![done], labels };
    AdmitRequest { terms: Terms { replay: Some(Box::new(replay)), ..Terms::default() }, ..b.event() }
}

pub fn a_replay_marks_the_run_that_it_repeats(b: &Bench) {
    let old = b.start(AdmitRequest { labels: vec![("a".into(), "1".into())], ..b.keyed("k") });
    let open = b.fail(Work::Admit(Box::new(replay(b, old, b.head(old).version))));
    assert!(matches!(open, StoreError::Conflict(_)), "it has not ended: {open:?}");
    b.end(old, EndStatus::Failed);
    let version = b.head(old).version;
    let stale = b.fail(Work::Admit(Box::new(replay(b, old, version - 1))));
    assert!(matches!(stale, StoreError::Conflict(_)), "{stale:?}");
    let answer = b.admit(replay(b, old, version));
    let new = answer.run.clone().unwrap();
    assert_eq!((answer.wake.as_slice(), new.more.replay_of, new.original()), (&[new.id][..], Some(old), old));
    assert_eq!((b.head(old).version, b.claim_state("k")), (version + 1, ClaimState::Failed));
    let labels = b.store.run(&b.ws(), old).unwrap().unwrap().2;
    assert!(labels.contains(&("system.replayed".to_owned(), "true".to_owned())));
    let first = b.store.journal(&b.ws(), new.id, 0, 10).unwrap().remove(0);
    let events = decode_events(&first.events, first.values.as_deref()).unwrap();
    assert!(matches!(events[..], [Event::Created { .. }, Event::ReplayOf { from: 1, .. }, Event::StepEnded { .. }]));
    b.end(new.id, EndStatus::Completed);
    let again = b.start(replay(b, new.id, b.head(new.id).version));
    assert_eq!((b.head(again).more.replay_of, b.head(again).original()), (Some(new.id), old));
}

pub fn a_run_knows_from_its_first_row_what_it_stops_before(b: &Bench) {
    let terms = Terms { breakpoints: vec!["pay".to_owned()], ..Terms::default() };
    let answer = b.admit(AdmitRequest { terms, ..b.event() });
    let run = answer.run.clone().unwrap();
    assert_eq!(answer.wake, [run.id], "its driver reads that from the journal");
    let first = b.store.journal(&b.ws(), run.id, 0, 10).unwrap().remove(0);
    let events = decode_events(&first.events, first.values.as_deref()).unwrap();
    assert!(matches!(&events[..], [Event::Created { .. }, Event::BreakpointsSet { tasks, .. }] if tasks == &["pay"]));
}

pub fn a_kill_reaches_its_run(b: &Bench) {
    let (killer, victim) = (b.start(b.event()), b.start(b.event()));
    let ended = b.ended("over", EndStatus::Completed);
    let kill = |run| OpKind::Kill { run, by: by(), alone: false };
    let ok = |done: &CommitResult| matches!(done.appended[..], [Event::OpDone { ok: true, .. }]);
    let done = b.op(killer, kill(victim));
    assert!(ok(&done) && done.wake == [victim]);
    assert_eq!(b.inbox(victim), [Inbox::Cancel { by: by() }]);
    let spared = b.start(b.event());
    assert!(ok(&b.op(killer, OpKind::Kill { run: spared, by: by(), alone: true })));
    assert_eq!(b.inbox(spared), [Inbox::CancelAlone { by: by() }], "what it has started goes on");
    assert!(ok(&b.op(killer, kill(ended))) && b.inbox(ended).is_empty(), "it is what was wanted");
    assert!(!ok(&b.op(killer, kill(RunId::from_bytes([9; 16])))));
    let own = b.op(killer, kill(killer));
    assert!(ok(&own) && own.wake == [killer] && b.head(killer).active);
}
