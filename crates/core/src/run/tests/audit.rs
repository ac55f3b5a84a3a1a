//! What must hold after every decision, whatever the flow and the script.

use crate::ir::{EffectClass, OnDoubt};
use crate::run::*;
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// Structure and values survive the journal's encoding, and structure alone its erasure.
pub fn round_trip(events: &[Event]) {
    let (structure, values) = encode_events(events);
    assert_eq!(decode_events(&structure, values.as_deref()).as_deref(), Ok(events));
    assert_eq!(decode_events(&structure, None).as_deref(), Ok(events), "equal up to erased values");
}

pub fn snapshot(state: &RunState) {
    let text = serde_json::to_vec(state).expect("a state encodes");
    let back: RunState = serde_json::from_slice(&text).expect("a snapshot reads back");
    assert_eq!(&back, state);
}

/// `open` of each group is the number of its open children, and no step is an orphan.
pub fn counters(state: &RunState) {
    for (key, step) in &state.steps {
        if let Some(parent) = key.parent() {
            let parent = state.steps.get(&parent).unwrap_or_else(|| panic!("{key} has no parent"));
            assert!(matches!(parent.work, Work::Group(_)), "the parent of {key} is a group");
        }
        let Work::Group(group) = &step.work else { continue };
        let children = state.steps.keys().filter(|child| child.parent().as_ref() == Some(key));
        let open = children.filter(|child| !group.kept.contains(child)).count();
        assert_eq!(group.open as usize, open, "open children of `{key}`: {state:#?}");
        for kept in &group.kept {
            assert!(state.steps.contains_key(kept), "{kept} is kept");
        }
    }
    for timer in state.timers.values() {
        let waits = timer.step.is_root() || state.steps.contains_key(&timer.step);
        assert!(waits, "a timer of {} outlives its step", timer.step);
    }
}

/// While a run is paused what was sent may settle, and nothing starts.
pub fn nothing_starts(decided: &Decided) {
    for event in &decided.events {
        let starts = match event {
            Event::StepStarted { .. }
            | Event::Intent { .. }
            | Event::ErrandSet { .. }
            | Event::OpRequested { .. }
            | Event::ChildRequested { .. } => true,
            Event::TimerSet { why, .. } => *why == TimerWhy::Sleep,
            _ => false,
        };
        assert!(!starts, "a paused run does not start anything: {event:?}");
    }
    for action in &decided.actions {
        let starts = matches!(action, Action::Evaluate(_) | Action::Perform { .. });
        assert!(!starts, "a paused run does not ask for {action:?}");
    }
}

/// Each action is asked for in a state that waits for its answer.
pub fn action_is_possible(state: &RunState, action: &Action) {
    let work = |step: &StepKey| state.steps.get(step).map(|s| &s.work);
    let fits = match action {
        Action::Evaluate(step) => work(step).is_some_and(Work::is_evaluated),
        Action::EvaluateOutputs => state.phase == Phase::Finishing,
        Action::Perform { step, send } => matches!(work(step), Some(Work::Sending(sending)) if sending.send == *send),
        Action::Op(step) => matches!(work(step), Some(Work::Op | Work::Child { run: None, .. })),
        Action::CancelChild { .. } => true,
        Action::EnterLane | Action::ForceLane => state.phase == Phase::Waiting,
        Action::RunAgain => state.needs_successor(),
        Action::CheckSla(_) => matches!(state.phase, Phase::Open | Phase::Finishing),
    };
    assert!(fits, "{action:?} in {state:#?}");
}

/// Nothing waits for this process, nor for a timer that does not exist.
pub fn at_rest(state: &RunState) {
    match state.phase {
        Phase::Ended(_) => assert!(state.timers.is_empty()),
        Phase::Open => {
            assert!(
                state.steps.values().any(|s| matches!(s.work, Work::Doubtful(_))),
                "open, yet nothing to wait for: {state:#?}"
            );
            assert_eq!(state.status(), Status::Held);
            for (key, step) in &state.steps {
                let rests = matches!(step.work, Work::Doubtful(_) | Work::Group(_) | Work::Failed);
                assert!(rests, "{key} is left open: {state:#?}");
            }
        }
        Phase::Waiting | Phase::Finishing | Phase::RetryLater => panic!("left in {:?}", state.phase),
    }
}

/// The history of one step id, as the outside could see it.
#[derive(Default)]
struct Sent {
    /// A request may have arrived and no answer to it was recorded.
    unknown: bool,
    /// So it was of a send before the last one.
    lost: bool,
    done: bool,
    safe_until: Option<Millis>,
    keys: BTreeSet<String>,
    last_key: Option<String>,
    /// A person allowed one more send.
    repeat: bool,
    new_key: bool,
    called_failed: bool,
}

/// Follows the effects of a run by step id (R5 to R7).
#[derive(Default)]
pub struct Ledger {
    ids: BTreeMap<StepKey, (u32, u32)>,
    sent: BTreeMap<(StepKey, u32, u32), Sent>,
    fired: BTreeSet<u64>,
    restart_by_person: bool,
}

impl Ledger {
    fn of(&mut self, step: &StepKey) -> &mut Sent {
        let (take, round) = self.ids.get(step).copied().unwrap_or_default();
        self.sent.entry((step.clone(), take, round)).or_default()
    }

    pub fn before(&mut self, state: &RunState, _index: &FlowIndex, input: &Input) {
        self.restart_by_person = match input {
            Input::Restart { .. } => true,
            Input::Wish { wish, .. } => matches!(wish, Wish::Retry { .. } | Wish::Redo(_)),
            _ => false,
        };
        if let Input::Performed { step, send, outcome } = input
            && matches!(state.steps.get(step).map(|s| &s.work), Some(Work::Sending(sending)) if sending.send == *send)
            && !matches!(outcome, Performed::Lost { .. })
        {
            self.of(step).unknown = self.of(step).lost;
        }
    }

    pub fn event(&mut self, event: &Event, index: &FlowIndex, now: Millis) {
        match event {
            Event::StepStarted { step, take, round, .. } => {
                self.ids.insert(step.clone(), (*take, *round));
            }
            Event::Intent { step, class, out_key, safe_until, .. } => {
                let on_doubt = index.task(step.task_id()).expect("a task").effect.on_doubt;
                self.intent(step, *class, on_doubt, out_key, *safe_until, now);
            }
            Event::Verdict { step, verdict, .. } => {
                let sent = self.of(step);
                match verdict {
                    VerdictKind::Done => sent.done = true,
                    VerdictKind::Repeat => sent.repeat = true,
                    VerdictKind::RepeatNewKey => (sent.repeat, sent.new_key) = (true, true),
                    VerdictKind::Fail => sent.called_failed = true,
                }
            }
            Event::StepEnded { step, outcome: StepOutcome::Success, .. } if self.of(step).last_key.is_some() => {
                self.of(step).done = true;
            }
            Event::Restarted { .. } | Event::Replayed { back: Some(_), .. } if self.restart_by_person => {
                for sent in self.sent.values_mut().filter(|sent| sent.called_failed) {
                    sent.repeat = true;
                }
            }
            Event::TimerFired { timer } => assert!(self.fired.insert(*timer), "timer {timer} fires once"),
            _ => {}
        }
    }

    fn intent(
        &mut self,
        step: &StepKey,
        class: EffectClass,
        on_doubt: OnDoubt,
        key: &str,
        safe_until: Option<Millis>,
        now: Millis,
    ) {
        let sent = self.of(step);
        assert!(!sent.done, "{step} was done and is sent again");
        let allowed = match class {
            EffectClass::Pure | EffectClass::Read | EffectClass::Repeatable => true,
            EffectClass::Keyed => sent.safe_until.is_some_and(|until| now < until),
            EffectClass::Naked | EffectClass::Probed | EffectClass::Transactional => false,
        };
        assert!(
            !sent.unknown || allowed || sent.repeat || on_doubt == OnDoubt::Repeat,
            "{step} ({class:?}) is in doubt and is sent again unasked",
        );
        assert!(safe_until.is_none_or(|until| now < until), "{step} is sent after its window");
        assert_eq!(class == EffectClass::Keyed, safe_until.is_some());
        match (&sent.last_key, sent.new_key) {
            (Some(last), false) => assert_eq!(last, key, "one key for all sends of {step}"),
            (Some(_), true) => assert!(!sent.keys.contains(key), "a new key for {step}"),
            (None, _) => {}
        }
        sent.keys.insert(key.to_owned());
        *sent = Sent {
            lost: sent.unknown && !sent.repeat,
            unknown: true,
            done: false,
            safe_until,
            keys: std::mem::take(&mut sent.keys),
            last_key: Some(key.to_owned()),
            repeat: false,
            new_key: false,
            called_failed: false,
        };
    }
}
