//! Changes of runs, and the triggers that hear of them.

use super::bench::Bench;
use super::manage::{flow, push, schedule};
use crate::*;
use semel_core::admission::Busy;
use semel_core::run::EndStatus;
use semel_core::{FlowRef, RunId};
use std::collections::BTreeSet;

/// Ends a run and lets triggers hear of it.
fn announced(b: &Bench, run: RunId, state: &str) -> ChangeRow {
    let ending = b.ending(run, EndStatus::Completed);
    b.commit(RunCommit { announce: Some(state.into()), ..ending });
    let found = b.store.changes(b.now(), 100).unwrap();
    found.into_iter().find(|change| change.run == run).expect("the change is there")
}

fn hearing(change: &ChangeRow, windows: Option<(Windows, Windows)>) -> Hearing {
    Hearing {
        run: change.run,
        version: change.version,
        at: change.at,
        flow: FlowRef::new("shop", "after"),
        trigger: "up".into(),
        windows,
    }
}

fn window(b: &Bench, met: &[&str]) -> Windows {
    let met: BTreeSet<String> = met.iter().map(|name| (*name).to_owned()).collect();
    Windows::from([("both".into(), WindowState { start: b.now(), end: b.now().plus(60), met })])
}

fn listening(b: &Bench) {
    let row = flow(b.ws(), "shop", "after", "one");
    push(b, row.clone(), vec![schedule(&row, "up", None)]);
}

fn remembered(b: &Bench) -> Windows {
    b.store.schedules(&b.ws()).unwrap().remove(0).state.windows
}

pub fn a_change_is_left_by_the_commit_that_makes_it(b: &Bench) {
    let run = b.start(b.event());
    assert!(b.store.changes(b.now(), 9).unwrap().is_empty());
    let change = announced(b, run, "SUCCESS");
    let expected = ChangeRow {
        workspace: b.ws(),
        run,
        version: b.head(run).version,
        at: b.now(),
        state: "SUCCESS".into(),
        heard: vec![],
    };
    assert_eq!(change, expected);
    let refused = RunCommit { version: 99, announce: Some("FAILED".into()), ..b.ending(run, EndStatus::Failed) };
    b.fail(Work::Commit(Box::new(refused)));
    assert_eq!(b.store.changes(b.now(), 9).unwrap(), [expected]);
}

pub fn changes_come_in_order(b: &Bench) {
    let runs = [b.start(b.event()), b.start(b.event()), b.start(b.event())];
    for run in [runs[2], runs[0], runs[1]] {
        announced(b, run, "SUCCESS");
        b.pass(10);
    }
    let order = |before, limit| -> Vec<RunId> {
        b.store.changes(before, limit).unwrap().into_iter().map(|change| change.run).collect()
    };
    assert_eq!(order(b.now(), 9), [runs[2], runs[0], runs[1]]);
    assert_eq!(order(b.now(), 2), [runs[2], runs[0]]);
    assert_eq!(order(b.now().plus(-20), 9), [runs[2], runs[0]]);
}

pub fn a_trigger_hears_of_a_change_once(b: &Bench) {
    listening(b);
    let run = b.start(b.event());
    let change = announced(b, run, "SUCCESS");
    let event =
        || AdmitRequest { flow: FlowRef::new("shop", "after"), hearing: Some(hearing(&change, None)), ..b.event() };
    assert!(b.admit(event()).created);
    assert_eq!(b.store.changes(b.now(), 9).unwrap()[0].heard, ["shop:after up"]);
    // Whoever looked died before it knew: no key helps, for there is none.
    let before = b.dump();
    assert_eq!(b.fail(Work::Admit(Box::new(event()))).code(), "conflict");
    let again = Work::Hear { workspace: b.ws(), hearing: hearing(&change, None) };
    assert_eq!(b.fail(again.clone()).code(), "conflict");
    assert_eq!(b.dump(), before);
    b.call(Work::Heard { workspace: b.ws(), run, version: change.version });
    assert!(b.store.changes(b.now(), 9).unwrap().is_empty());
    assert_eq!(b.fail(again).code(), "conflict", "all have heard");
}

pub fn what_a_trigger_remembers_is_judged_once(b: &Bench) {
    listening(b);
    let (first, second) = (b.start(b.event()), b.start(b.event()));
    let (first, second) = (announced(b, first, "SUCCESS"), announced(b, second, "SUCCESS"));
    let hear = |change: &ChangeRow, from: Windows, to: Windows| Work::Hear {
        workspace: b.ws(),
        hearing: hearing(change, Some((from, to))),
    };
    b.call(hear(&first, Windows::new(), window(b, &["a"])));
    assert_eq!(remembered(b), window(b, &["a"]));
    // Judged before the first was remembered.
    assert_eq!(b.fail(hear(&second, Windows::new(), window(b, &["b"]))).code(), "conflict");
    assert_eq!(b.store.changes(b.now(), 9).unwrap().iter().map(|c| c.heard.len()).sum::<usize>(), 1);
    let fires = AdmitRequest {
        flow: FlowRef::new("shop", "after"),
        hearing: Some(hearing(&second, Some((window(b, &["a"]), Windows::new())))),
        ..b.event()
    };
    assert!(b.admit(fires).created);
    assert_eq!(remembered(b), Windows::new());
}

pub fn a_push_forgets_what_a_trigger_remembers_of_other_conditions(b: &Bench) {
    listening(b);
    let run = b.start(b.event());
    let change = announced(b, run, "SUCCESS");
    let hearing = hearing(&change, Some((Windows::new(), window(b, &["a"]))));
    b.call(Work::Hear { workspace: b.ws(), hearing });
    let row = flow(b.ws(), "shop", "after", "two");
    push(b, row.clone(), vec![schedule(&row, "up", None)]);
    assert_eq!(remembered(b), Windows::new());
}

pub fn a_schedule_that_moves_on_keeps_what_is_remembered(b: &Bench) {
    let row = flow(b.ws(), "shop", "after", "one");
    push(b, row.clone(), vec![schedule(&row, "up", Some(b.now()))]);
    let run = b.start(b.event());
    let change = announced(b, run, "SUCCESS");
    let hearing = hearing(&change, Some((Windows::new(), window(b, &["a"]))));
    b.call(Work::Hear { workspace: b.ws(), hearing });
    b.call(Work::AdvanceSchedule(schedule(&row, "up", Some(b.now().plus(60)))));
    assert_eq!(remembered(b), window(b, &["a"]));
}

pub fn runs_that_an_admission_ends_are_announced(b: &Bench) {
    let first = b.start(b.in_lane("a", Busy::Replace));
    let second = AdmitRequest { announced: true, ..b.in_lane("b", Busy::Replace) };
    b.start(second);
    let found = b.store.changes(b.now(), 9).unwrap();
    assert_eq!(found.iter().map(|c| (c.run, c.state.as_str())).collect::<Vec<_>>(), [(first, "CANCELLED")]);
    let third = AdmitRequest { announced: true, ..b.in_lane("c", Busy::Fail) };
    let third = b.start(third);
    let found = b.store.changes(b.now(), 9).unwrap();
    assert!(found.iter().any(|c| (c.run, c.state.as_str()) == (third, "FAILED")), "{found:?}");
}

pub fn a_trigger_is_switched_off_and_on(b: &Bench) {
    let row = flow(b.ws(), "shop", "after", "one");
    push(b, row.clone(), vec![schedule(&row, "up", Some(b.now().plus(60)))]);
    let change = |change| Work::ChangeTrigger {
        workspace: b.ws(),
        flow: FlowRef::new("shop", "after"),
        trigger: "up".into(),
        change,
    };
    let stored = || b.store.schedules(&b.ws()).unwrap().remove(0);
    b.call(change(TriggerChange::Enable));
    assert_eq!(stored().next_due, Some(b.now().plus(60)), "it was on");
    b.call(change(TriggerChange::Disable));
    assert_eq!((stored().next_due, stored().state.disabled), (None, true));
    let pushed = flow(b.ws(), "shop", "after", "two");
    push(b, pushed.clone(), vec![schedule(&pushed, "up", Some(b.now()))]);
    assert_eq!((stored().next_due, stored().state.disabled), (None, true), "a push leaves it off");
    b.call(change(TriggerChange::Enable));
    assert_eq!((stored().next_due, stored().state.woken), (Some(b.now()), true));
    b.call(Work::AdvanceSchedule(schedule(&row, "up", Some(b.now().plus(90)))));
    assert_eq!((stored().next_due, stored().state), (Some(b.now().plus(90)), TriggerState::default()));
    let other = Work::ChangeTrigger {
        workspace: b.ws(),
        flow: FlowRef::new("shop", "after"),
        trigger: "x".into(),
        change: TriggerChange::Disable,
    };
    assert!(matches!(b.call(other), Done::Missing));
}

pub fn a_backfill_settles_each_instant_once(b: &Bench) {
    let row = flow(b.ws(), "shop", "order", "one");
    push(b, row.clone(), vec![schedule(&row, "up", Some(b.now().plus(60)))]);
    let change = |change| {
        b.call(Work::ChangeTrigger { workspace: b.ws(), flow: row.flow.clone(), trigger: "up".into(), change })
    };
    let start = b.now().plus(-1_000);
    let backfill = Backfill {
        id: "b".into(),
        start,
        end: b.now(),
        current: start,
        paused: false,
        inputs: serde_json::json!({}),
        labels: vec![],
        resume_due: None,
        last_run: None,
    };
    change(TriggerChange::Backfill(Box::new(backfill)));
    let stored = || b.store.schedules(&b.ws()).unwrap().remove(0);
    assert_eq!(stored().next_due, Some(b.now()));
    let tick = |at, backfill| Tick { trigger: "up".into(), at, next: None, backfill, schedule: None };
    let event = |tick| AdmitRequest { tick: Some(tick), ..b.event() };
    let run = b.start(event(tick(start, true)));
    assert_eq!(stored().state.backfill.unwrap().last_run, Some(run));
    assert_eq!(b.fail(Work::Admit(Box::new(event(tick(start, true))))).code(), "conflict");
    assert_eq!(b.fail(Work::Admit(Box::new(event(tick(b.now(), false))))).code(), "conflict", "the schedule waits");
    change(TriggerChange::PauseBackfill);
    assert_eq!(stored().next_due, None);
    assert_eq!(b.fail(Work::Admit(Box::new(event(tick(b.now(), true))))).code(), "conflict");
    change(TriggerChange::ResumeBackfill);
    change(TriggerChange::EndBackfill);
    assert_eq!((stored().next_due, stored().state), (Some(b.now().plus(60)), TriggerState::default()));
}

pub fn a_deleted_run_takes_its_changes_with_it(b: &Bench) {
    let run = b.start(b.event());
    announced(b, run, "SUCCESS");
    b.call(Work::DeleteRun { workspace: b.ws(), run });
    assert!(b.store.changes(b.now(), 9).unwrap().is_empty());
}
