//! Runs whose place another one takes, and what a run leaves for others to find.

use super::bench::*;
use crate::*;
use semel_core::admission::{Busy, ClaimState, OnEnded, Policy};
use semel_core::run::{Conclusion, EndStatus, Event, Status, decode_events};
use semel_core::{Hash16, RunId};
use serde_json::json;

const QUEUE: Busy = Busy::Queue { max: 10 };

fn again(b: &Bench, of: RunId, request: AdmitRequest) -> OpKind {
    let row = b.head(of);
    let retry = RetryTerms {
        of,
        original: row.original(),
        logical: row.logical,
        take: row.take,
        warned: row.warned,
        events: vec![Event::Started { at: b.now() }],
    };
    let policy = Policy { failed: OnEnded::Rerun, ..request.policy };
    let terms = Terms { retry: Some(Box::new(retry)), ..Terms::default() };
    OpKind::RunAgain {
        request: Box::new(AdmitRequest { policy, terms, ..request }),
        by: by(),
        round: 1,
        announced: true,
    }
}

pub fn a_failed_run_is_tried_again_in_a_new_one(b: &Bench) {
    let old = b.start(b.keyed("k"));
    let done = b.op(old, again(b, old, b.keyed("k")));
    let new = done.admitted[0].run.clone().expect("a new run");
    assert!(
        matches!(&done.appended[..], [Event::Ended { status: EndStatus::Failed, failure: Some(f), .. }] if f.code == "retried")
    );
    let row = b.head(old);
    assert_eq!((row.status, row.conclusion, row.active), (Status::Failed, Some(Conclusion::Retried), false));
    assert!(
        row.ended_at.is_some()
            && b.values(old).failure.unwrap()["message"].as_str().unwrap().contains(&new.id.to_string())
    );
    assert_eq!((new.logical, new.generation, new.claim), (old, 2, row.claim), "the same logical run, next generation");
    assert_eq!((new.more.replay_of, new.status, done.wake.contains(&new.id)), (Some(old), Status::Running, true));
    let claim = b.claim("k").unwrap();
    assert_eq!((claim.run, claim.state), (new.id, ClaimState::Live), "its key leads to the new one");
    let first = b.store.journal(&b.ws(), new.id, 0, 10).unwrap().remove(0);
    let events = decode_events(&first.events, first.values.as_deref()).unwrap();
    assert!(
        matches!(events[..], [Event::Created { logical, .. }, Event::Started { .. }, Event::RetryOf { run, .. }] if logical == old && run == old)
    );
    let changes = b.store.changes(b.now().plus(1), 10).unwrap();
    assert!(changes.iter().any(|change| change.run == old && change.state == "RETRIED"), "{changes:?}");
    // A twin of the event finds the new run, and the old one cannot be had go on.
    assert_eq!(b.admit(b.keyed("k")).run.map(|run| run.id), Some(new.id));
}

pub fn a_new_try_waits_for_its_slot_like_any_other(b: &Bench) {
    let old = b.start(b.in_lane("k", QUEUE));
    let waiting = b.start(b.in_lane("next", QUEUE));
    let done = b.op(old, again(b, old, b.in_lane("k", QUEUE)));
    let new = done.admitted[0].run.clone().expect("a new run");
    assert_eq!((new.status, b.claim_state("k")), (Status::Queued, ClaimState::Pending));
    assert!(done.wake.contains(&waiting), "who was first has the slot");
    assert!(b.end(waiting, EndStatus::Completed).wake.contains(&new.id));
}

pub fn a_run_that_is_waited_for_is_tried_again_itself(b: &Bench) {
    let parent = b.start(b.event());
    let waits = |waits| Some(ParentRef { run: parent, step: semel_core::run::StepKey("call".into()), waits });
    let child = b.start(AdmitRequest { parent: waits(true), ..b.keyed("k") });
    let done = b.op(child, again(b, child, b.keyed("k")));
    assert!(done.goes_on && done.admitted.is_empty());
    assert!(matches!(done.appended[..], [Event::Restarted { round: 1, .. }]));
    assert_eq!((b.head(child).active, b.claim_state("k")), (true, ClaimState::Live));
    let free = b.start(AdmitRequest { parent: waits(false), ..b.keyed("f") });
    assert!(!b.op(free, again(b, free, b.keyed("f"))).goes_on, "nobody hears of its end");
}

pub fn where_an_answer_is_can_be_found(b: &Bench) {
    let run = b.start(b.event());
    let digest = Hash16::of(&[b"request"]);
    let done = b.op(run, OpKind::Remember { digest, ttl_ms: Some(50) });
    assert!(done.appended.is_empty(), "it says nothing to the run");
    let row = b.store.kv(&b.ws(), CACHE_NAMESPACE, &digest.hex()).unwrap().expect("a row");
    assert_eq!((row.value["run"].clone(), row.value["seq"].clone()), (json!(run), json!(b.head(run).version)));
    assert_eq!(row.expires_at, Some(b.now().plus(50)));
}

pub fn a_question_is_left_for_its_run(b: &Bench) {
    let (asker, asked) = (b.start(b.event()), b.start(b.event()));
    let ended = b.ended("over", EndStatus::Completed);
    let ticket = Hash16::of(&[b"ticket"]);
    let ask = |run| OpKind::Ask { run, ticket, control: json!("resume"), by: by() };
    let ok = |done: &CommitResult| matches!(done.appended[..], [Event::OpDone { ok: true, .. }]);
    let done = b.op(asker, ask(asked));
    assert!(ok(&done) && done.wake == [asked]);
    assert_eq!(b.inbox(asked), [Inbox::Asked { ticket, control: json!("resume"), by: by() }]);
    assert!(!ok(&b.op(asker, ask(ended))), "nothing can be asked of it any more");
    assert!(!ok(&b.op(asker, ask(RunId::from_bytes([9; 16])))));
    assert!(ok(&b.op(asker, ask(asker))) && b.head(asker).active);
}
