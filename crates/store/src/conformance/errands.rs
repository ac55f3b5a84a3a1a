//! Errands: set out by commits, taken once each, told of when they are late.

use super::bench::Bench;
use crate::*;
use semel_core::admission::Busy;
use semel_core::ir::ErrandKind;
use semel_core::run::{EndStatus, Late, Seen, StepKey};
use semel_core::{Hash16, RunId};
use serde_json::json;

const NONE: [u8; 0] = [];

fn row(b: &Bench, run: RunId, id: u8) -> ErrandRow {
    ErrandRow {
        id: Hash16([id; 16]),
        run,
        queue: "charge".into(),
        domain: String::new(),
        kind: ErrandKind::Simple,
        open: true,
        taken: false,
        priority: 0,
        free_at: b.now(),
        due: None,
        more: ErrandMore {
            step: StepKey(format!("step{id}")),
            attempt: 1,
            set_at: b.now(),
            response_ms: Some(1_000),
            poll_ms: None,
            attempt_ms: None,
            seen: Seen::default(),
            leased_until: None,
            told_late: false,
            request: Some(json!({"amount": id})),
            progress: None,
            on_taken: vec![],
            next: None,
        },
    }
}

fn set(b: &Bench, run: RunId, rows: impl IntoIterator<Item = ErrandRow>) {
    let errands = rows.into_iter().map(|row| ErrandChange::Set(Box::new(row))).collect();
    b.commit(RunCommit { errands, ..b.step(run) });
}

fn asking(b: &Bench, count: u32) -> TakeErrands {
    let from = ErrandQueue { queue: "charge".into(), domain: String::new() };
    TakeErrands { workspace: b.ws(), from, worker: "w1".into(), count, limit: None, rate: None, after: None }
}

fn rows_of(done: Done) -> Vec<ErrandRow> {
    match done {
        Done::Errands(rows) => rows,
        other => panic!("no errands: {other:?}"),
    }
}

fn take(b: &Bench, request: TakeErrands) -> Vec<u8> {
    rows_of(b.call(Work::TakeErrands(Box::new(request)))).iter().map(|row| row.id.0[0]).collect()
}

fn touch(b: &Bench, id: u8, word: ErrandWord) -> Done {
    b.call(Work::TouchErrand { workspace: b.ws(), id: Hash16([id; 16]), worker: None, word })
}

fn get(b: &Bench, id: u8) -> ErrandRow {
    b.store.errand(&b.ws(), Hash16([id; 16])).unwrap().expect("the errand is there")
}

fn late(b: &Bench) -> usize {
    match b.call(Work::TellLate { limit: 10 }) {
        Done::Wake(runs) => runs.len(),
        other => panic!("nobody was told: {other:?}"),
    }
}

pub fn an_errand_is_taken_once(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, [row(b, run, 1), row(b, run, 2), row(b, run, 3)]);
    assert_eq!(take(b, asking(b, 2)), [1, 2]);
    assert_eq!(take(b, asking(b, 9)), [3]);
    assert_eq!(take(b, asking(b, 9)), NONE);
    let taken = get(b, 1);
    assert_eq!((taken.taken, taken.more.seen.worker.as_deref(), taken.more.seen.polls), (true, Some("w1"), 1));
    assert_eq!(taken.more.request, Some(json!({"amount": 1})));
    assert_eq!(taken.due, Some(b.now().plus(1_000)));
}

pub fn errands_are_handed_out_by_queue_domain_priority_and_age(b: &Bench) {
    let run = b.start(b.event());
    let urgent = ErrandRow { priority: 9, ..row(b, run, 1) };
    let older = row(b, run, 3);
    b.pass(5);
    let later = ErrandRow { free_at: b.now().plus(60_000), ..row(b, run, 5) };
    let elsewhere = ErrandRow { domain: "eu".into(), ..row(b, run, 6) };
    let other = ErrandRow { queue: "refund".into(), ..row(b, run, 7) };
    let person = ErrandRow { kind: ErrandKind::Human, ..row(b, run, 8) };
    set(b, run, [row(b, run, 2), urgent, older, later, elsewhere, other, person]);
    let charge = ErrandQueue { queue: "charge".into(), domain: String::new() };
    let has_free = || b.store.has_free_errand(&b.ws(), &charge).unwrap();
    assert!(has_free());
    assert_eq!(take(b, asking(b, 9)), [1, 3, 2]);
    assert!(!has_free(), "one comes later, one is for a person, the others are taken or elsewhere");
    let domain = ErrandQueue { queue: "charge".into(), domain: "eu".into() };
    assert_eq!(take(b, TakeErrands { from: domain, ..asking(b, 9) }), [6]);
    let counts: Vec<(String, String, u64, u64)> = (b.store.errand_counts(&b.ws()).unwrap().into_iter())
        .map(|(at, waiting, taken)| (at.queue, at.domain, waiting, taken))
        .collect();
    let named = |queue: &str, domain: &str, waiting, taken| (queue.to_owned(), domain.to_owned(), waiting, taken);
    assert_eq!(counts, [named("charge", "", 2, 3), named("charge", "eu", 0, 1), named("refund", "", 1, 0)]);
    b.pass(60_000);
    assert!(has_free());
    assert_eq!(take(b, asking(b, 9)), [5]);
    let people = b.store.errands(&b.ws(), ErrandKind::Human, None, 9).unwrap();
    assert_eq!(people.iter().map(|row| row.id.0[0]).collect::<Vec<_>>(), [8]);
}

pub fn an_errand_that_was_put_back_is_not_taken_from_who_has_it_now(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, [row(b, run, 1)]);
    let by = |worker: &str, word: ErrandWord| {
        let worker = Some(worker.to_owned());
        rows_of(b.call(Work::TouchErrand { workspace: b.ws(), id: Hash16([1; 16]), worker, word })).remove(0)
    };
    let put_back = || ErrandWord::Later { progress: None, after_ms: 0 };
    assert_eq!(take(b, asking(b, 1)), [1]);
    assert!(!by("w1", put_back()).taken);
    assert_eq!(take(b, TakeErrands { worker: "w2".into(), ..asking(b, 1) }), [1]);
    b.pass(500);
    for word in [put_back(), ErrandWord::Alive] {
        let kept = by("w1", word);
        assert_eq!((kept.taken, kept.more.seen.worker.as_deref()), (true, Some("w2")));
        assert_eq!(kept.due, Some(b.now().plus(500)));
    }
    assert_eq!(by("w2", ErrandWord::Alive).due, Some(b.now().plus(1_000)));
    assert!(!by("w2", put_back()).taken);
}

pub fn no_more_of_a_queue_are_out_than_its_limit(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, (1..=5).map(|id| row(b, run, id)).collect::<Vec<_>>());
    let limited = |count| TakeErrands { limit: Some(2), ..asking(b, count) };
    assert_eq!(take(b, limited(9)), [1, 2]);
    assert_eq!(take(b, limited(9)), NONE);
    b.commit(RunCommit { errands: vec![ErrandChange::End(Hash16([1; 16]))], ..b.step(run) });
    assert_eq!(take(b, limited(9)), [3]);
}

pub fn no_more_of_a_queue_are_taken_within_a_time_than_its_rate(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, (1..=6).map(|id| row(b, run, id)).collect::<Vec<_>>());
    let rated = |count| {
        let rate = Some(TakeRate { count: 3, window_ms: 1_000 });
        TakeErrands { rate, ..asking(b, count) }
    };
    assert_eq!(take(b, rated(2)), [1, 2]);
    b.pass(600);
    assert_eq!(take(b, rated(9)), [3]);
    assert_eq!(take(b, rated(9)), NONE, "three within a second");
    b.pass(400);
    assert_eq!(take(b, rated(9)), [4, 5], "the first two are a second old");
    assert_eq!(take(b, rated(9)), NONE);
    b.pass(600);
    assert_eq!(take(b, rated(9)), [6]);
}

pub fn whoever_asks_again_in_the_same_breath_gets_the_same(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, (1..=3).map(|id| row(b, run, id)).collect::<Vec<_>>());
    assert_eq!(take(b, asking(b, 1)), [1]);
    b.commit(RunCommit { errands: vec![ErrandChange::End(Hash16([1; 16]))], ..b.step(run) });
    let next = || TakeErrands { after: Some(Hash16([1; 16])), ..asking(b, 1) };
    assert_eq!(take(b, next()), [2]);
    assert_eq!(take(b, next()), [2], "the answer was lost");
    assert_eq!(get(b, 2).more.seen.polls, 1);
    assert_eq!(take(b, TakeErrands { worker: "w2".into(), ..next() }), [3], "another worker has not heard of it");
    b.commit(RunCommit { errands: vec![ErrandChange::End(Hash16([3; 16]))], ..b.step(run) });
    assert_eq!(take(b, TakeErrands { worker: "w2".into(), ..next() }), NONE, "it is done, and there is no other");
}

pub fn what_is_over_is_not_taken_and_keeps_no_values(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, [row(b, run, 1), row(b, run, 2)]);
    assert!(matches!(touch(b, 2, ErrandWord::Later { progress: Some(json!("half")), after_ms: 0 }), Done::Errands(_)));
    let ends = [1, 2].map(|id| ErrandChange::End(Hash16([id; 16]))).to_vec();
    b.commit(RunCommit { errands: ends, ..b.step(run) });
    assert_eq!(take(b, asking(b, 9)), NONE);
    for id in [1, 2] {
        let row = get(b, id);
        assert_eq!((row.open, row.due, row.more.request, row.more.progress), (false, None, None, None));
    }
    assert!(matches!(touch(b, 1, ErrandWord::Alive), Done::Missing));
    assert!(matches!(touch(b, 9, ErrandWord::Alive), Done::Missing));
    assert_eq!(b.store.errands_of(&b.ws(), run).unwrap().len(), 2);
}

pub fn a_sign_of_life_is_worth_another_lease(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, [row(b, run, 1)]);
    take(b, asking(b, 1));
    b.pass(900);
    touch(b, 1, ErrandWord::Alive);
    b.pass(900);
    assert_eq!(late(b), 0);
    b.pass(100);
    assert_eq!(b.store.next_errand().unwrap(), Some(b.now()));
    assert_eq!(late(b), 1);
    assert_eq!(late(b), 0, "it is told once");
    let seen = get(b, 1).more.seen;
    let message = Inbox::ErrandLate { step: StepKey("step1".into()), attempt: 1, late: Late::Response, seen };
    assert_eq!(b.inbox(run), [message]);
    assert!(b.head(run).active, "somebody must look at the run");
    assert_eq!(take(b, asking(b, 9)), NONE, "the attempt is given up, not handed on");
}

pub fn what_is_not_done_yet_can_be_taken_again_later(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, [row(b, run, 1)]);
    take(b, asking(b, 1));
    touch(b, 1, ErrandWord::Later { progress: Some(json!({"done": 3})), after_ms: 5_000 });
    assert_eq!(take(b, asking(b, 1)), NONE);
    b.pass(5_000);
    assert_eq!(late(b), 0, "nobody has it, so nobody is silent");
    assert_eq!(take(b, asking(b, 1)), [1]);
    let row = get(b, 1);
    assert_eq!((row.more.progress, row.more.seen.polls), (Some(json!({"done": 3})), 2));
}

pub fn an_errand_that_nobody_takes_or_ends_is_late(b: &Bench) {
    let run = b.start(b.event());
    let alone = |mut row: ErrandRow| {
        row.more.poll_ms = Some(2_000);
        row.more.attempt_ms = Some(3_000);
        row
    };
    set(b, run, [alone(row(b, run, 1)), ErrandRow { kind: ErrandKind::Wait, ..alone(row(b, run, 2)) }]);
    b.pass(2_000);
    assert_eq!(late(b), 2);
    assert_eq!(take(b, asking(b, 1)), [1], "it can still be taken");
    b.pass(1_000);
    touch(b, 1, ErrandWord::Alive);
    b.pass(2_500);
    let why: Vec<Late> = (b.inbox(run).into_iter())
        .filter_map(|message| match message {
            Inbox::ErrandLate { late, .. } => Some(late),
            _ => None,
        })
        .collect();
    assert_eq!(why, [Late::Poll, Late::Poll]);
    assert_eq!(late(b), 1, "the worker is silent");
}

pub fn errands_end_with_their_run(b: &Bench) {
    let old = b.start(b.in_lane("one", Busy::Replace));
    set(b, old, [row(b, old, 1)]);
    let mut quiet = b.step(old);
    (quiet.head.active, quiet.head.status) = (false, semel_core::run::Status::Waiting);
    b.commit(quiet);
    let new = b.start(b.in_lane("two", Busy::Replace));
    assert_eq!((get(b, 1).open, take(b, asking(b, 9)).len()), (false, 0), "the run was replaced");
    set(b, new, [row(b, new, 2)]);
    let row = RestoredRow { incarnation: "second".into(), backup_at: b.now(), restored_at: b.now() };
    b.call(Work::Restored { row, accepted: None });
    assert_eq!((get(b, 2).open, take(b, asking(b, 9)).len()), (false, 0), "the run is held");
}

pub fn errands_go_with_their_run(b: &Bench) {
    let run = b.start(b.event());
    set(b, run, [row(b, run, 1)]);
    b.commit(RunCommit { errands: vec![ErrandChange::End(Hash16([1; 16]))], ..b.step(run) });
    b.end(run, EndStatus::Completed);
    b.call(Work::DeleteRun { workspace: b.ws(), run });
    assert_eq!((b.store.errands_of(&b.ws(), run).unwrap(), b.rows("errands").len()), (vec![], 0));
}
