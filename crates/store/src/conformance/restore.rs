//! A store that was made from a backup.

use super::Bench;
use super::bench::{DAY_MS, by, claim_of};
use crate::*;
use semel_core::admission::*;
use semel_core::run::{EndStatus, Status};
use semel_core::{Door, Millis};
use serde_json::json;

fn restore(b: &Bench, accepted: bool) -> u64 {
    let row = RestoredRow { incarnation: "second".into(), backup_at: b.now(), restored_at: b.now() };
    match b.call(Work::Restored { row, accepted: accepted.then(by) }) {
        Done::Count(count) => count,
        other => panic!("not a restore: {other:?}"),
    }
}

pub fn a_restore_holds_what_was_open(b: &Bench) {
    let open = b.start(b.keyed("open"));
    let ended = b.ended("ended", EndStatus::Completed);
    let mut commit = b.step(open);
    commit.timers_set.push((1, b.now().plus(DAY_MS)));
    b.commit(commit);
    assert_eq!(restore(b, false), 1);
    let (head, before) = (b.head(open), b.head(ended));
    assert_eq!((head.status, head.epoch, before.status), (Status::Held, 2, Status::Completed));
    assert_eq!((b.claim_state("open"), b.claim_state("ended")), (ClaimState::Held, ClaimState::Done));
    assert_eq!(b.store.next_timer().unwrap(), None, "its timers do not fire");
    assert_eq!(b.inbox(open), [Inbox::Promoted], "and it will be told that it has its slot");
    let twin = b.admit(b.keyed("open"));
    assert_eq!((twin.decision, twin.reason), (Decision::Hold, Reason::Held));
}

pub fn a_run_that_had_not_started_is_live_once_released(b: &Bench) {
    let run = b.start(b.keyed("a"));
    restore(b, false);
    let mut released = b.step(run);
    released.head.status = Status::Queued;
    b.commit(released);
    assert_eq!(b.claim_state("a"), ClaimState::Live, "it waits for no slot");
}

pub fn a_restore_leaves_a_line_as_it_stands(b: &Bench) {
    let first = b.start(b.in_lane("one", Busy::Queue { max: 9 }));
    let second = b.start(b.in_lane("two", Busy::Queue { max: 9 }));
    assert_eq!(restore(b, false), 2);
    assert_eq!((b.head(second).status, b.head(second).active), (Status::Held, false));
    assert!(b.inbox(second).is_empty());
    let lane = &b.rows("lanes")[0];
    assert_eq!((&lane["holders"], &lane["queue"]), (&json!([first]), &json!([second])));
    // Released, it waits as before, and so does its claim.
    let mut commit = b.step(second);
    commit.head.status = Status::Queued;
    b.commit(commit);
    assert_eq!(b.claim_state("two"), ClaimState::Pending);
}

pub fn an_accepted_restore_holds_nothing(b: &Bench) {
    let open = b.start(b.keyed("open"));
    let mut commit = b.step(open);
    commit.timers_set.push((1, b.now().plus(DAY_MS)));
    b.commit(commit);
    let before = b.head(open);
    assert_eq!(restore(b, true), 1);
    let head = b.head(open);
    assert_eq!((head.status, head.active, head.epoch), (before.status, before.active, before.epoch + 1));
    assert!(b.store.next_timer().unwrap().is_some());
    let rows = b.store.journal(&b.ws(), open, before.version, 9).unwrap();
    let text = String::from_utf8(rows[0].events.clone()).unwrap();
    assert!(text.contains("released") && text.contains("operator"), "who accepted it is in the journal: {text}");
}

pub fn an_unknown_key_is_marked_for_one_window_after_a_restore(b: &Bench) {
    let event = |key: &str, window: Window| {
        let mut request = b.keyed(key);
        request.policy.window = window;
        request
    };
    let day = Window::For { from: WindowFrom::FirstSeen, duration_ms: DAY_MS };
    b.ended("known", EndStatus::Completed);
    restore(b, false);
    assert_eq!(b.admit(event("a", day)).reason, Reason::FirstAfterRestore);
    assert_eq!(b.admit(event("a", day)).reason, Reason::Attached, "a twin is a twin");
    assert_eq!(b.admit(b.keyed("known")).reason, Reason::Replayed, "what the backup knew is known");
    assert_eq!(b.admit(b.event()).reason, Reason::Keyless);
    assert_eq!(b.admit(event("b", Window::WhileLive)).reason, Reason::First);
    b.pass(DAY_MS);
    assert_eq!(b.admit(event("c", day)).reason, Reason::First, "the window is over");
    assert_eq!(b.admit(event("d", Window::Forever)).reason, Reason::FirstAfterRestore);
}

pub fn a_lane_does_not_hide_the_mark_of_a_restore(b: &Bench) {
    for (busy, decision) in [
        (Busy::Queue { max: 9 }, Decision::Queue),
        (Busy::Replace, Decision::Replace),
        (Busy::Deliver, Decision::Deliver),
    ] {
        restore(b, true);
        let event = |key: &str| {
            let mut request = b.in_lane(&format!("{key} {decision:?}"), busy);
            request.lane =
                request.lane.map(|lane| LaneRequest { hash: claim_of(&b.ws(), decision.word()).hash, ..lane });
            request
        };
        assert_eq!(b.admit(event("first")).reason, Reason::FirstAfterRestore);
        let second = b.admit(event("second"));
        assert_eq!((second.decision, second.reason), (decision, Reason::FirstAfterRestore));
    }
}

pub fn what_is_held_in_a_lane_stays_held(b: &Bench) {
    let first = b.start(b.in_lane("one", Busy::Queue { max: 9 }));
    let second = b.start(b.in_lane("two", Busy::Queue { max: 9 }));
    restore(b, false);
    b.end(first, EndStatus::Cancelled);
    assert_eq!(b.inbox(second), [Inbox::Promoted], "it has its slot");
    assert_eq!((b.head(second).status, b.claim_state("two")), (Status::Held, ClaimState::Held));
    let mut released = b.step(second);
    released.head.status = Status::Queued;
    b.commit(released);
    assert_eq!(b.claim_state("two"), ClaimState::Live, "its turn has come meanwhile");

    let quiet = Busy::Coalesce { quiet_ms: 1_000, max_ms: 9_000 };
    let gathers = |key: &str| {
        let mut request = b.in_lane(key, quiet);
        request.lane = request.lane.map(|lane| LaneRequest { hash: claim_of(&b.ws(), "quiet").hash, ..lane });
        request
    };
    let run = b.start(gathers("three"));
    restore(b, false);
    let joined = b.admit(gathers("four"));
    assert_eq!((joined.reason, joined.run.expect("a run").id), (Reason::Coalesced, run));
    assert_eq!((joined.timer_due, b.store.next_timer().unwrap()), (None, None), "its quiet period waits too");
    assert_eq!(b.claim_state("four"), ClaimState::Held);
}

pub fn a_tick_from_before_a_restore_is_held(b: &Bench) {
    restore(b, false);
    let tick = |key: &str, at: Millis| AdmitRequest {
        door: Door::Schedule,
        trigger: json!({"date": at.to_rfc3339()}),
        ..b.keyed(key)
    };
    let old = b.admit(tick("old", b.now().plus(-60_000)));
    assert_eq!((old.decision, old.reason), (Decision::Start, Reason::FirstAfterRestore));
    assert!(old.created && old.born().is_none(), "nobody starts it");
    let head = b.head(old.run.expect("a run").id);
    assert_eq!((head.status, b.claim_state("old")), (Status::Held, ClaimState::Held));
    b.pass(60_000);
    let new = b.admit(tick("new", b.now()));
    assert!(new.born().is_some_and(|run| run.status == Status::Running), "what is due since runs");
}
