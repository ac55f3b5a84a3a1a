//! The lane matrix, through the store.

use super::bench::{Bench, other_payload};
use crate::*;
use semel_core::admission::*;
use semel_core::run::{EndStatus, Status};
use semel_core::{Millis, RunId};
use serde_json::json;

const QUEUE: Busy = Busy::Queue { max: 2 };
const COALESCE: Busy = Busy::Coalesce { quiet_ms: 100, max_ms: 250 };

fn verdict(answer: &AdmitResult) -> (Decision, Reason) {
    (answer.decision, answer.reason)
}

fn lane(b: &Bench) -> serde_json::Value {
    b.rows("lanes").pop().unwrap_or_default()
}

/// The holder has sent something and has no answer yet.
fn open_intent(b: &Bench, run: RunId) {
    let mut commit = b.step(run);
    commit.head.open_intents = 1;
    b.commit(commit);
}

pub fn a_free_lane_lets_run(b: &Bench) {
    for (i, busy) in
        [QUEUE, Busy::Replace, Busy::Deliver, Busy::Reject, Busy::Cancel, Busy::Fail].into_iter().enumerate()
    {
        let answer = b.admit(b.in_lane(&format!("k{i}"), busy));
        assert_eq!(verdict(&answer), (Decision::Start, Reason::First), "{busy:?}");
        b.end(answer.run.unwrap().id, EndStatus::Completed);
        assert!(b.rows("lanes").is_empty(), "an empty lane is not kept");
    }
}

pub fn a_busy_lane_queues(b: &Bench) {
    let first = b.start(b.in_lane("1", QUEUE));
    let second = b.admit(b.in_lane("2", QUEUE));
    assert_eq!(verdict(&second), (Decision::Queue, Reason::Queued));
    let waiting = second.run.unwrap();
    assert_eq!((waiting.status, waiting.active, waiting.started_at), (Status::Queued, false, None));
    assert_eq!(b.claim_state("2"), ClaimState::Pending);
    assert_eq!(lane(b)["queue"], json!([waiting.id]));
    let ended = b.end(first, EndStatus::Completed);
    assert_eq!(ended.wake, [waiting.id]);
    assert_eq!(b.inbox(waiting.id), [Inbox::Promoted]);
    assert_eq!((b.claim_state("2"), b.head(waiting.id).active), (ClaimState::Live, true));
    assert_eq!(lane(b)["holders"], json!([waiting.id]));
}

pub fn a_line_is_first_come_first_and_may_be_left(b: &Bench) {
    let wide = Busy::Queue { max: 100 };
    let first = b.start(b.in_lane("0", wide));
    let waiting: Vec<RunId> = (1..6).map(|n| b.start(b.in_lane(&n.to_string(), wide))).collect();
    assert_eq!((lane(b)["queue"].clone(), lane(b)["waiting"].clone()), (json!(waiting), json!(5)));
    b.end(waiting[2], EndStatus::Cancelled);
    b.end(waiting[0], EndStatus::Cancelled);
    assert_eq!(
        (lane(b)["queue"].clone(), lane(b)["waiting"].clone()),
        (json!([waiting[1], waiting[3], waiting[4]]), json!(3))
    );
    let mut holder = first;
    for next in [waiting[1], waiting[3], waiting[4]] {
        assert_eq!(b.end(holder, EndStatus::Completed).wake[0], next);
        holder = next;
    }
    b.end(holder, EndStatus::Completed);
    assert!(b.rows("lanes").is_empty());
}

pub fn a_full_queue_refuses(b: &Bench) {
    for key in ["1", "2", "3"] {
        b.start(b.in_lane(key, QUEUE));
    }
    let answer = b.admit(b.in_lane("4", QUEUE));
    assert_eq!(verdict(&answer), (Decision::Reject, Reason::QueueFull));
    // A refused event spends no key.
    assert!(answer.run.is_none() && b.claim("4").is_none());
    assert_eq!(b.rows("runs").len(), 3);
}

pub fn a_redelivered_event_is_not_queued_twice(b: &Bench) {
    b.start(b.in_lane("1", QUEUE));
    let waiting = b.start(b.in_lane("2", QUEUE));
    let twin = b.admit(b.in_lane("2", QUEUE));
    assert_eq!((verdict(&twin), twin.run.unwrap().id), ((Decision::Attach, Reason::AttachedPending), waiting));
    assert_eq!(lane(b)["queue"], json!([waiting]));
}

pub fn a_busy_lane_refuses(b: &Bench) {
    b.start(b.in_lane("1", Busy::Reject));
    assert_eq!(verdict(&b.admit(b.in_lane("2", Busy::Reject))), (Decision::Reject, Reason::LaneBusy));
    assert!(b.claim("2").is_none());
}

pub fn a_busy_lane_makes_ended_runs(b: &Bench) {
    b.start(b.in_lane("1", Busy::Reject));
    for (key, busy, status, reason) in [
        ("c", Busy::Cancel, Status::Cancelled, Reason::LaneCancelled),
        ("f", Busy::Fail, Status::Failed, Reason::LaneFailed),
    ] {
        let answer = b.admit(b.in_lane(key, busy));
        assert_eq!(verdict(&answer), (Decision::Start, reason));
        let head = answer.run.unwrap();
        assert_eq!((head.status, head.active, head.ended_at), (status, false, Some(b.now())));
    }
    assert_eq!((b.claim_state("c"), b.claim_state("f")), (ClaimState::Cancelled, ClaimState::Failed));
}

pub fn a_run_that_was_born_ended_never_starts(b: &Bench) {
    b.start(b.in_lane("1", Busy::Reject));
    let run = b.start(b.in_lane("f", Busy::Fail));
    b.pass(5);
    b.commit(b.step(run));
    b.commit(RunCommit { events: b"[]".to_vec(), ..b.step(run) });
    assert_eq!(b.head(run).started_at, None, "neither a message nor labels start it");
}

pub fn a_parallel_lane_is_none(b: &Bench) {
    for key in ["1", "2"] {
        assert_eq!(verdict(&b.admit(b.in_lane(key, Busy::Parallel))), (Decision::Start, Reason::First));
    }
    assert!(b.rows("lanes").is_empty());
}

pub fn a_quiet_holder_is_replaced(b: &Bench) {
    let old = b.start(b.in_lane("1", Busy::Replace));
    let stale = b.step(old);
    let answer = b.admit(b.in_lane("2", Busy::Replace));
    assert_eq!((verdict(&answer), answer.fenced.clone()), ((Decision::Replace, Reason::Replaced), vec![old]));
    let (victim, winner) = (b.head(old), answer.run.unwrap());
    assert_eq!((victim.status, victim.active, victim.epoch), (Status::Cancelled, false, 2));
    assert_eq!((b.claim_state("1"), winner.status), (ClaimState::Cancelled, Status::Running));
    assert_eq!(lane(b)["holders"], json!([winner.id]));
    // Whoever drove the victim is fenced.
    assert_eq!(b.fail(Work::Commit(Box::new(stale))).code(), "conflict");
}

pub fn a_holder_in_flight_is_asked_to_stop(b: &Bench) {
    let old = b.start(b.in_lane("1", Busy::Replace));
    open_intent(b, old);
    let second = b.admit(b.in_lane("2", Busy::Replace));
    assert_eq!((verdict(&second), second.wake.clone()), ((Decision::Replace, Reason::ReplaceDeferred), vec![old]));
    assert!(matches!(&b.inbox(old)[..], [Inbox::Cancel { .. }]));
    assert_eq!(second.run.as_ref().unwrap().status, Status::Queued);
    // A third supersedes the second, which nobody started.
    let third = b.admit(b.in_lane("3", Busy::Replace));
    assert_eq!(third.fenced, [second.run.unwrap().id]);
    assert_eq!(b.claim_state("2"), ClaimState::Cancelled);
    assert_eq!(lane(b)["queue"], json!([third.run.unwrap().id]));
}

pub fn a_held_holder_stays(b: &Bench) {
    let old = b.start(b.in_lane("1", Busy::Replace));
    b.end_in_doubt(old);
    assert_eq!(lane(b)["holders"], json!([old]), "a held run keeps its slot");
    assert_eq!(verdict(&b.admit(b.in_lane("2", Busy::Replace))), (Decision::Reject, Reason::HeldNoReplace));
}

pub fn events_coalesce(b: &Bench) {
    let first = b.admit(b.in_lane("1", COALESCE));
    assert_eq!(verdict(&first), (Decision::Coalesce, Reason::CoalescePending));
    let run = first.run.unwrap().id;
    let start = b.now();
    assert_eq!((first.timer_due, b.head(run).status), (Some(start.plus(100)), Status::Queued));
    b.pass(90);
    let second = b.admit(other_payload(b.in_lane("2", COALESCE)));
    assert_eq!((verdict(&second), second.timer_due), ((Decision::Coalesce, Reason::Coalesced), Some(start.plus(190))));
    assert_eq!((second.run.unwrap().id, second.created), (run, false));
    assert_eq!(b.values(run).inputs, Some(json!({"n": 2})), "the last payload wins");
    b.pass(90);
    assert_eq!(b.admit(b.in_lane("3", COALESCE)).timer_due, Some(start.plus(250)), "but not for ever");
    assert_eq!(b.store.next_timer().unwrap(), Some(start.plus(250)));
    assert_eq!((b.rows("runs").len(), b.rows("timers").len(), b.head(run).version), (1, 1, 3));
    // Each event keeps its claim, and the claims live and end with the one run.
    assert_eq!(b.claim("2").unwrap().run, run);
    b.end(run, EndStatus::Completed);
    for key in ["1", "2", "3"] {
        assert_eq!(b.claim_state(key), ClaimState::Done);
    }
    assert!(b.rows("timers").is_empty());
}

pub fn a_gathered_run_enters_its_lane(b: &Bench) {
    let run = b.start(b.in_lane("1", COALESCE));
    assert_eq!(b.op(run, OpKind::EnterLane).entered, Some(true));
    assert_eq!(lane(b)["holders"], json!([run]));
    // The next quiet period begins behind it, and then waits in line.
    let next = b.start(b.in_lane("2", COALESCE));
    assert_eq!(b.op(next, OpKind::EnterLane).entered, Some(false));
    assert_eq!(lane(b)["queue"], json!([next]));
    assert_eq!(b.end(run, EndStatus::Completed).wake, [next]);
}

pub fn a_busy_lane_delivers(b: &Bench) {
    let holder = b.start(b.in_lane("1", Busy::Deliver));
    let answer = b.admit(other_payload(b.in_lane("2", Busy::Deliver)));
    assert_eq!((verdict(&answer), answer.wake.clone()), ((Decision::Deliver, Reason::Delivered), vec![holder]));
    let payload = json!({"inputs": {"n": 2}, "trigger": {}});
    assert_eq!(b.inbox(holder), [Inbox::Delivered { payload }]);
    assert_eq!(b.claim("2").unwrap().run, holder);
    // Delivered again it is a twin, not a second delivery.
    assert_eq!(verdict(&b.admit(other_payload(b.in_lane("2", Busy::Deliver)))), (Decision::Attach, Reason::Attached));
    assert_eq!(b.inbox(holder).len(), 1);
}

pub fn a_resumed_run_needs_its_slot(b: &Bench) {
    let failed = b.start(b.in_lane("1", Busy::Reject));
    b.end(failed, EndStatus::Failed);
    let other = b.start(b.in_lane("2", Busy::Reject));
    assert_eq!(verdict(&b.admit(b.in_lane("1", Busy::Reject))), (Decision::Reject, Reason::LaneBusy));
    b.end(other, EndStatus::Completed);
    assert_eq!(verdict(&b.admit(b.in_lane("1", Busy::Reject))), (Decision::Resume, Reason::Resumed));
    assert_eq!(lane(b)["holders"], json!([failed]));
}

pub fn a_lane_has_as_many_slots_as_its_limit(b: &Bench) {
    let wide = |key: &str| {
        let mut request = b.in_lane(key, QUEUE);
        request.lane = request.lane.map(|l| LaneRequest { limit: 2, ..l });
        request
    };
    let decisions: Vec<Decision> = ["1", "2", "3"].map(|key| b.admit(wide(key)).decision).into();
    assert_eq!(decisions, [Decision::Start, Decision::Start, Decision::Queue]);
}

pub fn timers_are_due_in_order(b: &Bench) {
    let runs: Vec<RunId> = (0..3).map(|_| b.start(b.event())).collect();
    for (run, delays) in runs.iter().zip([[30, 50], [10, 40], [20, 20]]) {
        let set = delays.iter().enumerate().map(|(i, ms)| (i as u64 + 1, b.now().plus(*ms))).collect();
        b.commit(RunCommit { timers_set: set, ..b.step(*run) });
    }
    let due = |ms: i64, limit: u32| -> Vec<i64> {
        let timers = b.store.due_timers(b.now().plus(ms), limit).unwrap();
        timers.iter().map(|t| t.due.since(b.now())).collect()
    };
    assert_eq!(due(9, 10), [0_i64; 0]);
    assert_eq!(due(30, 10), [10, 20, 20, 30]);
    assert_eq!(due(1_000, 3), [10, 20, 20]);
    assert_eq!(b.store.next_timer().unwrap(), Some(Millis(b.now().0 + 10)));
}
