//! What the checker must find in a history that breaks a rule. The rows are written through the
//! store's own verbs, so that only the rule is broken and not a checksum.

use super::Bench;
use super::bench::DAY_MS;
use crate::check::{Code, Options, Report, check};
use crate::*;
use semel_core::admission::*;
use semel_core::ir::{EffectClass, ErrandKind};
use semel_core::run::{
    By, EndStatus, ErrandTerms, Event, Failure, Payload, RunState, Seen, StepKey, StepOutcome, VerdictKind, WhenLate,
    decode_events, encode_events, errand_id, step_id,
};
use semel_core::{FlowRef, Millis, RunId};
use serde_json::json;

fn report(b: &Bench) -> Report {
    check(&*b.store, &Options { page: 2, ..Options::default() }).expect("the store can be read")
}

/// Clean before, and this afterwards.
fn finds(b: &Bench, code: Code, damage: impl FnOnce()) {
    let before = report(b);
    assert!(before.is_clean(), "{before:#?}");
    damage();
    let after = report(b);
    assert!(after.has(code), "{code:?} is not among {after:#?}");
    assert!(after.violations.iter().all(|v| !v.message.is_empty() && !v.advice.is_empty()));
}

fn put_flow(b: &Bench) {
    let row = FlowRow {
        workspace: b.ws(),
        flow: FlowRef::new("shop", "order"),
        revision: 0,
        source: String::new(),
        ir: json!({"ir_version": 1, "id": "order", "namespace": "shop", "tasks": []}).to_string(),
        disabled: false,
        deleted: false,
        created_at: Millis(0),
        created_by: "test".into(),
    };
    b.call(Work::PutFlow { row: Box::new(row), schedules: vec![], rule: PushRule::Any });
}

/// Commits events with the head that follows from them.
fn write(b: &Bench, run: RunId, events: &[Event], change: impl FnOnce(&mut RunCommit)) {
    let mut state: Option<RunState> = None;
    for row in b.store.journal(&b.ws(), run, 0, 1_000).unwrap() {
        let known = decode_events(&row.events, row.values.as_deref()).unwrap();
        match &mut state {
            None => state = RunState::fold(&known),
            Some(state) => known.iter().for_each(|event| state.evolve(event)),
        }
    }
    let mut state = state.expect("a journal");
    events.iter().for_each(|event| state.evolve(event));
    let mut commit = b.step(run);
    (commit.events, commit.values) = encode_events(events);
    commit.head = HeadChange {
        status: state.status(),
        active: state.is_active(),
        open_intents: state.open_intents(),
        open_doubts: state.open_doubts(),
        take: state.take,
        warned: state.warned,
        conclusion: state.conclusion,
    };
    change(&mut commit);
    b.commit(commit);
}

fn started(b: &Bench) -> RunId {
    put_flow(b);
    let run = b.start(b.keyed("k"));
    let step = StepKey("pay".into());
    let events = [Event::Started { at: b.now() }, Event::StepStarted { step, take: 0, round: 0, at: b.now() }];
    write(b, run, &events, |_| {});
    run
}

fn intent(send: u32, class: EffectClass, key: &str, safe_until: Option<Millis>) -> Event {
    Event::Intent {
        step: StepKey("pay".into()),
        attempt: 1,
        send,
        class,
        out_key: key.into(),
        safe_until,
        timeout_ms: 1_000,
        request: None,
    }
}

/// Sends the effect, with its row in the ledger.
fn send(b: &Bench, run: RunId, before: &[Event], event: Event) {
    let Event::Intent { send, class, out_key, safe_until, step, .. } = &event else { return };
    let row = EffectRow {
        step_id: step_id(run, 0, 0, step),
        run,
        step: step.clone(),
        class: *class,
        state: EffectState::Intent,
        attempt: 1,
        sends: *send,
        out_key: out_key.clone(),
        safe_until: *safe_until,
        at: b.now(),
    };
    let events: Vec<Event> = before.iter().cloned().chain([event]).collect();
    write(b, run, &events, |commit| commit.effects.push(row));
}

pub fn a_journal_that_does_not_parse_is_found(b: &Bench) {
    let run = started(b);
    finds(b, Code::JournalDamaged, || write(b, run, &[], |commit| commit.events = b"nonsense".to_vec()));
}

fn errand_set(b: &Bench) -> Event {
    let terms = ErrandTerms {
        queue: "charge".into(),
        kind: ErrandKind::Simple,
        domain: None,
        priority: 0,
        retry: None,
        jitter_ms: None,
        delay_ms: None,
        response_ms: None,
        poll_ms: None,
        attempt_ms: None,
        when_late: WhenLate::EndRun,
        output_schema: serde_json::Value::Null,
    };
    Event::ErrandSet {
        step: StepKey("pay".into()),
        attempt: 1,
        at: b.now(),
        free_at: b.now(),
        terms: Some(Box::new(terms)),
        request: None,
    }
}

/// The row of the errand of [`errand_set`].
fn errand_row(b: &Bench, run: RunId) -> ErrandChange {
    let step = StepKey("pay".into());
    let more = ErrandMore {
        attempt: 1,
        set_at: b.now(),
        response_ms: None,
        poll_ms: None,
        attempt_ms: None,
        seen: Seen::default(),
        leased_until: None,
        told_late: false,
        request: None,
        progress: None,
        on_taken: vec![],
        next: None,
        step: step.clone(),
    };
    ErrandChange::Set(Box::new(ErrandRow {
        id: errand_id(step_id(run, 0, 0, &step), 1),
        run,
        queue: "charge".into(),
        domain: String::new(),
        kind: ErrandKind::Simple,
        open: true,
        taken: false,
        priority: 0,
        free_at: b.now(),
        due: None,
        more,
    }))
}

pub fn an_errand_without_its_row_is_found(b: &Bench) {
    let run = started(b);
    finds(b, Code::ErrandMissing, || write(b, run, &[errand_set(b)], |_| {}));
    write(b, run, &[], |commit| commit.errands.push(errand_row(b, run)));
    assert!(report(b).is_clean(), "the row is there now");
}

pub fn an_errand_that_no_run_waits_for_is_found(b: &Bench) {
    let run = started(b);
    finds(b, Code::ErrandStray, || write(b, run, &[], |commit| commit.errands.push(errand_row(b, run))));
}

pub fn work_after_the_end_is_found(b: &Bench) {
    put_flow(b);
    let run = b.ended("k", EndStatus::Completed);
    let step = StepKey("pay".into());
    let late = Event::StepStarted { step, take: 0, round: 0, at: b.now() };
    finds(b, Code::JournalAfterEnd, || write(b, run, &[late], |_| {}));
}

pub fn a_snapshot_of_another_state_is_found(b: &Bench) {
    let run = started(b);
    let other = serde_json::to_vec(&RunState::new(run)).expect("a state");
    let label = Event::LabelsSet { labels: Payload::new(json!({})) };
    finds(b, Code::SnapshotDiffers, || write(b, run, &[label], |commit| commit.snapshot = Some(other)));
}

pub fn values_and_labels_that_no_event_gave_are_found(b: &Bench) {
    put_flow(b);
    let run = b.ended("k", EndStatus::Failed);
    finds(b, Code::ValuesDiffer, || write(b, run, &[], |commit| commit.failure = Some(json!({"code": "another"}))));
    write(b, run, &[], |commit| commit.failure = Some(json!({"code": "task_failed"})));
    finds(b, Code::LabelsDiffer, || write(b, run, &[], |commit| commit.labels = Some(vec![("a".into(), "b".into())])));
}

pub fn an_effect_that_is_done_and_sent_again_is_found(b: &Bench) {
    let run = started(b);
    send(b, run, &[], intent(1, EffectClass::Keyed, "one", None));
    let step = StepKey("pay".into());
    let done = Event::StepEnded {
        step: step.clone(),
        outcome: StepOutcome::Success,
        at: b.now(),
        tolerated: false,
        output: None,
        failure: None,
    };
    let again = Event::StepStarted { step, take: 0, round: 0, at: b.now() };
    finds(b, Code::EffectDoneTwice, || send(b, run, &[done, again], intent(2, EffectClass::Keyed, "one", None)));
}

pub fn an_effect_that_changes_its_key_is_found(b: &Bench) {
    let run = started(b);
    send(b, run, &[], intent(1, EffectClass::Repeatable, "one", None));
    finds(b, Code::EffectKeyChanged, || send(b, run, &[], intent(2, EffectClass::Repeatable, "two", None)));
}

pub fn a_naked_effect_sent_twice_is_found(b: &Bench) {
    let run = started(b);
    send(b, run, &[], intent(1, EffectClass::Naked, "one", None));
    finds(b, Code::EffectRepeated, || send(b, run, &[], intent(2, EffectClass::Naked, "one", None)));
}

pub fn a_keyed_effect_sent_after_its_window_is_found(b: &Bench) {
    let run = started(b);
    send(b, run, &[], intent(1, EffectClass::Keyed, "one", Some(b.now())));
    send(b, run, &[], intent(2, EffectClass::Keyed, "one", Some(b.now())));
    let later = Some(b.now().plus(DAY_MS));
    finds(b, Code::EffectRepeated, || send(b, run, &[], intent(3, EffectClass::Keyed, "one", later)));
}

pub fn a_naked_effect_that_a_person_has_repeated_is_not_a_finding(b: &Bench) {
    let run = started(b);
    send(b, run, &[], intent(1, EffectClass::Naked, "one", None));
    let step = StepKey("pay".into());
    let doubt = Event::DoubtRaised { step: step.clone(), failure: Failure::new("crashed", "it stopped") };
    let verdict = Event::Verdict {
        step,
        verdict: VerdictKind::Repeat,
        by: By { who: "ann".into(), why: "not there".into() },
        result: None,
    };
    send(b, run, &[doubt, verdict], intent(2, EffectClass::Naked, "one", None));
    assert!(report(b).is_clean(), "{:#?}", report(b));
}

pub fn a_generation_given_twice_is_found(b: &Bench) {
    put_flow(b);
    b.ended("k", EndStatus::Completed);
    let mut rerun = b.keyed("k");
    rerun.policy.done = OnDone::Rerun;
    let second = b.start(rerun);
    b.end(second, EndStatus::Completed);
    let logged = b.decisions().into_iter().next().expect("the newest");
    assert_eq!(logged.generation, 2);
    let twice = DecisionRow { run: Some(b.id()), ..logged };
    finds(b, Code::DecisionGeneration, || {
        b.call(Work::LogDecision(Box::new(twice)));
    });
}

pub fn a_check_sees_one_workspace_when_asked(b: &Bench) {
    put_flow(b);
    let run = b.start(b.keyed("k"));
    write(b, run, &[], |commit| commit.head.take = 9);
    let other = Options { workspace: Some(super::bench::other_ws()), ..Options::default() };
    assert!(check(&*b.store, &other).unwrap().is_clean());
    assert!(!report(b).is_clean());
}
