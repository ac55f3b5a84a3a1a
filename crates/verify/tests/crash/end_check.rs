//! The end check of the kill loop finds each kind of violation in records that were doctored.

use semel_verify::kill::check::{Evidence, Kind, violations};
use semel_verify::kill::observe::{Claim, Effect, Run, World};
use semel_verify::kill::records::{Call, Note, Receiver};

#[derive(Clone, Default)]
struct Story {
    calls: Vec<Call>,
    notes: Vec<Note>,
    world: World,
}

impl Story {
    /// One event of `flow`, sent, promised, run and ended as it should.
    fn event(&mut self, flow: &str, event: &str, status: &str, steps: &[(&str, Receiver)]) {
        let run = format!("run-{event}");
        self.notes.push(Note::Offered { flow: flow.into(), event: event.into() });
        self.notes.push(Note::Promised { flow: flow.into(), event: event.into(), run: run.clone(), replayed: false });
        self.world.runs.push(Run {
            id: run.clone(),
            flow: flow.into(),
            status: status.into(),
            key: Some(event.into()),
            door: "trigger".into(),
            generation: 1,
            open_doubts: u64::from(status == "held"),
            ..Run::default()
        });
        self.world.claims.push(Claim { key: event.into(), flow: flow.into(), run: run.clone(), state: "done".into() });
        let mut effects = Vec::new();
        for (step, receiver) in steps {
            let key = (*receiver != Receiver::Read).then(|| format!("key-{event}-{step}"));
            let at_ms = 1_000 + 1_000 * self.calls.len() as i64;
            self.calls.push(Call {
                at_ms,
                receiver: *receiver,
                flow: flow.into(),
                event: event.into(),
                run: run.clone(),
                step: (*step).into(),
                key: key.clone(),
                applied: *receiver != Receiver::Read,
                answer: 200,
            });
            effects.push(Effect {
                step: (*step).into(),
                state: if status == "held" { "in_doubt" } else { "done" }.into(),
                key: key.unwrap_or_default(),
                intents: 1,
                ..Effect::default()
            });
        }
        self.world.effects.insert(run, effects);
    }

    fn found(&self) -> Vec<Kind> {
        let evidence = Evidence { calls: &self.calls, notes: &self.notes, world: &self.world };
        violations(&evidence).into_iter().map(|found| found.kind).collect()
    }

    fn run(&mut self, event: &str) -> &mut Run {
        let id = format!("run-{event}");
        self.world.runs.iter_mut().find(|run| run.id == id).expect("a run")
    }

    fn effect(&mut self, event: &str) -> &mut Effect {
        &mut self.world.effects.get_mut(&format!("run-{event}")).expect("a run")[0]
    }

    fn call(&self, event: &str) -> Call {
        self.calls.iter().find(|call| call.event == event).expect("a call").clone()
    }

    fn forget(&mut self, event: &str) {
        let id = format!("run-{event}");
        self.world.runs.retain(|run| run.id != id);
        self.world.effects.remove(&id);
        self.world.claims.retain(|claim| claim.run != id);
    }
}

fn good() -> Story {
    let mut story = Story::default();
    story.event("pay", "pay-1-L1", "completed", &[("charge", Receiver::Dedupe)]);
    story.event("once", "once-2-L2", "completed", &[("send", Receiver::Naive)]);
    story.event("cut", "cut-3-L0", "held", &[("send", Receiver::Cut)]);
    story.event("upsert", "upsert-4-L1", "completed", &[("put", Receiver::Repeat), ("look", Receiver::Read)]);
    story.event("line", "line-5-L2", "completed", &[("enter", Receiver::Dedupe), ("leave", Receiver::Dedupe)]);
    story.event("line", "line-8-L2", "completed", &[("enter", Receiver::Dedupe), ("leave", Receiver::Dedupe)]);
    let steps = [
        ("first", Receiver::Flaky),
        ("second", Receiver::Dedupe),
        ("each-x", Receiver::Dedupe),
        ("each-y", Receiver::Dedupe),
    ];
    story.event("steps", "steps-9-L0", "completed", &steps);
    story.notes.push(Note::Altered { flow: "pay".into(), event: "pay-1-L1".into(), status: 422, run: None });
    // Two events that were gathered: one run, two claims.
    story.event("gather", "gather-10-L1", "completed", &[("work", Receiver::Dedupe)]);
    let run = "run-gather-10-L1";
    let (flow, event) = ("gather", "gather-13-L1");
    story.notes.push(Note::Offered { flow: flow.into(), event: event.into() });
    story.notes.push(Note::Promised { flow: flow.into(), event: event.into(), run: run.into(), replayed: false });
    story.world.claims.push(Claim { key: event.into(), flow: flow.into(), run: run.into(), state: "done".into() });
    story
}

#[test]
fn a_true_story_has_no_violation() {
    assert_eq!(good().found(), []);
    // A repeat with its key and its intent is allowed where the class allows it.
    let mut story = good();
    let again = Call { applied: false, ..story.call("pay-1-L1") };
    story.calls.push(again);
    story.effect("pay-1-L1").intents = 2;
    assert_eq!(story.found(), []);
    // So is a naked one after a verdict.
    let mut story = good();
    let again = story.call("once-2-L2");
    story.calls.push(again);
    *story.effect("once-2-L2") = Effect { intents: 2, repeats: 1, ..story.effect("once-2-L2").clone() };
    assert_eq!(story.found(), []);
}

#[test]
fn lost_promises_and_runs_that_nobody_asked_for() {
    let mut story = good();
    story.forget("cut-3-L0");
    assert_eq!(story.found(), [Kind::PromiseLost, Kind::PhantomCall]);
    let mut story = good();
    story.notes.retain(|note| !matches!(note, Note::Offered { event, .. } if event == "pay-1-L1"));
    assert_eq!(story.found(), [Kind::PhantomRun]);
    let mut story = good();
    let other = Call { run: "run-unknown".into(), event: "pay-77-L2".into(), ..story.call("pay-1-L1") };
    story.calls.push(other);
    assert_eq!(story.found(), [Kind::PhantomCall]);
}

#[test]
fn two_runs_of_one_event() {
    let mut story = good();
    story.notes.push(Note::Promised {
        flow: "pay".into(),
        event: "pay-1-L1".into(),
        run: "run-cut-3-L0".into(),
        replayed: true,
    });
    assert_eq!(story.found(), [Kind::TwoRuns]);
    let mut story = good();
    story.run("pay-1-L1").generation = 2;
    assert_eq!(story.found(), [Kind::TwoRuns]);
    let mut story = good();
    let twin = Run { id: "run-twin".into(), ..story.run("cut-3-L0").clone() };
    let effects = story.world.effects["run-cut-3-L0"].clone();
    story.world.runs.push(twin);
    story.world.effects.insert("run-twin".into(), effects);
    assert_eq!(story.found(), [Kind::TwoRuns, Kind::ClaimWrong]);
}

#[test]
fn calls_without_intent_and_effects_that_happen_twice() {
    let mut story = good();
    let again = Call { applied: false, ..story.call("pay-1-L1") };
    story.calls.push(again);
    assert_eq!(story.found(), [Kind::CallWithoutIntent]);
    let mut story = good();
    story.calls[0].key = Some("another".into());
    assert_eq!(story.found(), [Kind::CallWithoutIntent]);
    // The key changed from one attempt to the next: the receiver takes it for another payment.
    let mut story = good();
    let again = Call { key: Some("key-2".into()), ..story.call("pay-1-L1") };
    let second = Effect { key: "key-2".into(), ..story.effect("pay-1-L1").clone() };
    story.calls.push(again);
    story.world.effects.get_mut("run-pay-1-L1").expect("a run").push(second);
    assert_eq!(story.found(), [Kind::AppliedTwice]);
    let mut story = good();
    let again = story.call("once-2-L2");
    story.calls.push(again);
    story.effect("once-2-L2").intents = 2;
    assert_eq!(story.found(), [Kind::SentTwice]);
}

#[test]
fn doubts_that_are_not_held_and_outcomes_that_are_not_true() {
    let mut story = good();
    story.effect("once-2-L2").state = "in_doubt".into();
    assert_eq!(story.found(), [Kind::DoubtNotHeld]);
    let mut story = good();
    story.effect("cut-3-L0").state = "done".into();
    assert_eq!(story.found(), [Kind::DoubtNotHeld]);
    let mut story = good();
    story.effect("pay-1-L1").state = "intent".into();
    assert_eq!(story.found(), [Kind::DoubtNotHeld]);
    let mut story = good();
    (story.run("cut-3-L0").status, story.run("cut-3-L0").open_doubts) = ("failed".into(), 0);
    let clean = Effect { state: "failed_clean".into(), class: "naked".into(), ..story.effect("cut-3-L0").clone() };
    *story.effect("cut-3-L0") = clean;
    assert_eq!(story.found(), [Kind::DoubtNotHeld], "it was sent");
    story.calls.retain(|call| call.event != "cut-3-L0");
    assert_eq!(story.found(), [], "it never left");
    // A cancelled run does not repeat what a person let be repeated: that stays unknown, and nothing is open.
    let mut story = good();
    story.event("swap", "swap-11-L2", "cancelled", &[("work", Receiver::Dedupe)]);
    let decided = Effect { state: "in_doubt".into(), repeats: 1, ..story.effect("swap-11-L2").clone() };
    *story.effect("swap-11-L2") = decided;
    assert_eq!(story.found(), []);
    story.effect("swap-11-L2").repeats = 0;
    assert_eq!(story.found(), [Kind::DoubtNotHeld]);
    let mut story = good();
    story.calls.remove(0);
    assert_eq!(story.found(), [Kind::OutcomeInvented, Kind::EffectMissing]);
    let mut story = good();
    story.calls.remove(0);
    story.world.effects.insert("run-pay-1-L1".into(), vec![]);
    assert_eq!(story.found(), [Kind::EffectMissing]);
}

#[test]
fn runs_that_do_not_end_or_end_badly() {
    let mut story = good();
    story.run("pay-1-L1").status = "running".into();
    assert_eq!(story.found(), [Kind::NotSettled]);
    let mut story = good();
    story.run("pay-1-L1").status = "failed".into();
    assert_eq!(story.found(), [Kind::EndedBadly]);
    let mut story = good();
    story.notes.push(Note::GaveUp { flow: "pay".into(), event: "pay-1-L1".into() });
    assert_eq!(story.found(), [Kind::NotTaken]);
    let mut story = good();
    let refused = Note::Refused { flow: "pay".into(), event: "pay-1-L1".into(), status: 404, code: "x".into() };
    story.notes.push(refused);
    assert_eq!(story.found(), [Kind::Refused]);
}

#[test]
fn payloads_claims_lanes_and_timers() {
    let mut story = good();
    let run = Some("run-pay-1-L1".into());
    story.notes.push(Note::Altered { flow: "pay".into(), event: "pay-1-L1".into(), status: 200, run });
    assert_eq!(story.found(), [Kind::AlteredTaken]);
    let mut story = good();
    story.world.claims[0].run = "run-cut-3-L0".into();
    assert_eq!(story.found(), [Kind::ClaimWrong, Kind::ClaimWrong]);
    let mut story = good();
    story.world.claims.last_mut().expect("the gathered one").run = "run-pay-1-L1".into();
    assert_eq!(story.found(), [Kind::ClaimWrong]);
    let mut story = good();
    let leave = story.calls.iter().position(|call| call.event == "line-5-L2" && call.step == "leave").expect("a call");
    let leave = story.calls.remove(leave);
    let enter = story.calls.iter().position(|call| call.event == "line-8-L2").expect("a call");
    story.calls.insert(enter + 1, leave);
    assert_eq!(story.found(), [Kind::LaneOverlap]);
    let mut story = good();
    let first = story.call("steps-9-L0").at_ms;
    story.calls.iter_mut().filter(|call| call.step == "second").for_each(|call| call.at_ms = first + 150);
    assert_eq!(story.found(), [Kind::TimerEarly]);
}
