//! A fake engine: it answers what the machine asks for by script, keeps the journal and a virtual
//! clock, and audits every decision.

use super::audit::{self, Ledger};
use super::coverage;
use crate::ids::{FlowRef, RunId};
use crate::ir::{
    AfterReview, EffectClass, ErrandKind, ExitState, Flow, LeafMode, OnTime, PauseSpec, ReviewDecision, TaskKind,
};
use crate::limits::Limits;
use crate::run::*;
use crate::time::Millis;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};

/// What the fake engine answers for one evaluation, call or op of a step.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The default for the kind of task.
    Good,
    Skip,
    /// The expression does not evaluate.
    BadExpression,
    /// An inline task, a call or an op fails cleanly.
    Fail,
    Lost,
    /// No answer at all; the test gives one itself.
    Silence,
    Evaluates(Evaluated),
}

pub struct World {
    pub index: FlowIndex,
    pub state: RunState,
    pub journal: Vec<Event>,
    pub now: Millis,
    pub limits: Limits,
    /// Asked for and not yet answered.
    pub pending: VecDeque<Action>,
    /// Everything asked for.
    pub asked: Vec<Action>,
    pub ledger: Ledger,
    /// Too long to refold and re-encode at each decision.
    pub big: bool,
    evaluations: BTreeMap<String, VecDeque<Answer>>,
    calls: BTreeMap<String, VecDeque<Answer>>,
    next_child: u128,
}

pub fn key(text: &str) -> StepKey {
    StepKey(text.into())
}

pub fn by() -> By {
    By { who: "ann".into(), why: "test".into() }
}

pub fn child_id(n: u128) -> RunId {
    RunId(uuid::Uuid::from_u128(1000 + n))
}

pub fn payload(text: &str) -> Payload {
    Payload::new(json!({ "is": text }))
}

impl World {
    pub fn of(tasks: Vec<crate::ir::Task>) -> World {
        World::new(super::flows::flow(tasks))
    }

    pub fn new(flow: Flow) -> World {
        let logical = RunId(uuid::Uuid::from_u128(7));
        let created = Event::Created {
            flow: FlowRef::new("n", "flow"),
            revision: 1,
            logical,
            inputs: payload("inputs"),
            trigger: payload("trigger"),
            labels: payload("labels"),
            queued: false,
        };
        coverage::saw_event(&created);
        World {
            index: FlowIndex::new(flow),
            state: RunState::new(logical),
            journal: vec![created],
            now: Millis(1_000_000),
            limits: Limits::default(),
            pending: VecDeque::new(),
            asked: vec![],
            ledger: Ledger::default(),
            big: false,
            evaluations: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_child: 0,
        }
    }

    /// Answers to evaluations of a task, in order; then [`Answer::Good`].
    pub fn evals(mut self, task: &str, answers: &[Answer]) -> World {
        self.evaluations.insert(task.into(), answers.iter().cloned().collect());
        self
    }

    /// Answers to calls or ops of a task, in order; then [`Answer::Good`].
    pub fn calls(mut self, task: &str, answers: &[Answer]) -> World {
        self.calls.insert(task.into(), answers.iter().cloned().collect());
        self
    }

    /// One input, decided and committed.
    pub fn input(&mut self, input: Input) -> Result<Decided, NotPossible> {
        let (phase, name) = (self.state.phase, coverage::name_of(&input));
        self.ledger.before(&self.state, &self.index, &input);
        let before = self.state.clone();
        let decided = match decide(&self.index, &mut self.state, input, self.now, &self.limits) {
            Ok(decided) => decided,
            Err(refused) => {
                assert_eq!(self.state, before, "a refusal changes nothing");
                coverage::saw_refusal(phase, &name);
                return Err(refused);
            }
        };
        coverage::saw_row(phase, &name, self.state.phase);
        if before.paused && self.state.paused {
            audit::nothing_starts(&decided);
        }
        self.commit(&decided.events);
        for action in &decided.actions {
            coverage::saw_action(action);
            audit::action_is_possible(&self.state, action);
            self.asked.push(action.clone());
            self.pending.push_back(action.clone());
        }
        Ok(decided)
    }

    fn commit(&mut self, events: &[Event]) {
        for event in events {
            coverage::saw_event(event);
            self.ledger.event(event, &self.index, self.now);
        }
        self.journal.extend_from_slice(events);
        if !self.big {
            audit::round_trip(events);
            assert_eq!(
                RunState::fold(&self.journal).as_ref(),
                Some(&self.state),
                "the state is the fold of the journal"
            );
            audit::snapshot(&self.state);
            audit::counters(&self.state);
        }
    }

    pub fn must(&mut self, input: Input) -> Decided {
        self.input(input).expect("the input is possible")
    }

    /// Events that the store writes itself: they reach the state by the fold alone.
    pub fn store_writes(&mut self, events: &[Event]) {
        for event in events {
            self.state.evolve(event);
        }
        self.commit(events);
    }

    pub fn start(mut self) -> World {
        self.must(Input::Start);
        self
    }

    /// Answers all that is asked for, until only silence is left. No timer fires.
    pub fn answer_all(&mut self) {
        let mut silent = VecDeque::new();
        while let Some(action) = self.pending.pop_front() {
            if !self.answer(&action) {
                silent.push_back(action);
            }
        }
        self.pending = silent;
    }

    fn answer(&mut self, action: &Action) -> bool {
        let scripted = match action {
            Action::Evaluate(step) => next(&mut self.evaluations, step),
            Action::Perform { step, .. } | Action::Op(step) => next(&mut self.calls, step),
            Action::EvaluateOutputs => next(&mut self.evaluations, &key("outputs")),
            // Whoever ends the child tells so; entering a lane ends in a start.
            Action::CancelChild { .. } | Action::EnterLane | Action::ForceLane => Answer::Good,
            Action::RunAgain => next(&mut self.calls, &key("again")),
            Action::CheckSla(_) => next(&mut self.evaluations, &key("sla")),
        };
        self.answer_with(action, scripted)
    }

    /// Carries out one action; false when nobody answers.
    pub fn answer_with(&mut self, action: &Action, answer: Answer) -> bool {
        if matches!(answer, Answer::Silence) {
            return false;
        }
        match action {
            Action::Evaluate(step) => {
                let result = self.evaluation(step, &answer);
                self.must(Input::Evaluated { step: step.clone(), result, retry: None });
            }
            Action::EvaluateOutputs => {
                let failed = matches!(answer, Answer::Fail | Answer::BadExpression);
                let result = if failed { Err(Failure::new("outputs", "no")) } else { Ok(Some(payload("outputs"))) };
                self.must(Input::OutputsEvaluated(result));
            }
            Action::Perform { step, send } => {
                let outcome = match answer {
                    Answer::Fail => Performed::FailedClean { failure: Failure::new("http_500", "no") },
                    Answer::Lost => Performed::Lost { failure: Failure::new("timeout", "no answer") },
                    _ => Performed::Done { output: payload("done") },
                };
                self.must(Input::Performed { step: step.clone(), send: *send, outcome });
            }
            Action::Op(step) => {
                self.carry_op(step, matches!(answer, Answer::Fail));
                self.must(Input::Continue);
            }
            Action::CancelChild { .. } => {}
            Action::EnterLane | Action::ForceLane => {
                self.must(Input::Start);
            }
            Action::RunAgain => self.run_again(matches!(answer, Answer::Fail)),
            Action::CheckSla(sla) => {
                self.must(Input::SlaChecked { sla: *sla, holds: !matches!(answer, Answer::Fail) });
            }
        }
        true
    }

    /// The transaction that has another run take the place of this one, or this one go on because it is waited for.
    fn run_again(&mut self, waited_for: bool) {
        if waited_for {
            let (round, at) = (self.state.round + 1, self.now);
            self.store_writes(&[Event::Restarted { by: by(), round, at, anew: false, child: None }]);
            self.must(Input::Recover);
        } else {
            let failure = Some(Failure::new(RETRIED, "another takes its place"));
            self.store_writes(&[Event::Ended { status: EndStatus::Failed, warned: false, outputs: None, failure }]);
        }
    }

    /// The run that takes the place of this one, as the store makes it.
    pub fn successor(&self) -> World {
        let mut next = World::new(self.index.flow.clone());
        (next.now, next.next_child) = (self.now, self.next_child);
        let told = |event: &&Event| {
            let last = matches!(event, Event::Ended { failure: Some(failure), .. } if failure.code == RETRIED);
            !last && !matches!(event, Event::Created { .. } | Event::Intent { .. })
        };
        let mut events: Vec<Event> = self.journal.iter().filter(told).cloned().collect();
        // The timer that had fired is in the transaction itself.
        events.truncate(events.iter().rposition(|e| matches!(e, Event::TimerFired { .. })).unwrap_or(events.len()));
        events.push(Event::RetryOf { run: child_id(99), original: child_id(99) });
        next.big = true;
        next.store_writes(&events);
        next.big = false;
        next
    }

    /// The transaction of an op or of a child's admission.
    pub fn carry_op(&mut self, step: &StepKey, fails: bool) {
        let event = match self.state.steps.get(step).map(|s| &s.work) {
            _ if fails => {
                let failure = Some(Failure::new("op", "no"));
                Event::OpDone { step: step.clone(), ok: false, at: self.now, output: None, failure }
            }
            Some(Work::Child { run: None, .. }) => {
                self.next_child += 1;
                Event::ChildStarted { step: step.clone(), run: child_id(self.next_child) }
            }
            Some(Work::Op) => {
                let output = Some(payload("op"));
                Event::OpDone { step: step.clone(), ok: true, at: self.now, output, failure: None }
            }
            other => panic!("an op was asked for at {step}: {other:?}"),
        };
        self.store_writes(&[event]);
    }

    fn evaluation(&self, step: &StepKey, answer: &Answer) -> Result<Evaluated, Failure> {
        let task = self.index.task(step.task_id()).expect("the task exists");
        let asking = match self.state.steps.get(step).map(|s| &s.work) {
            Some(Work::Group(group)) => Some(group),
            _ => None,
        };
        let evaluated = match (answer, &task.kind) {
            (Answer::BadExpression, _) => return Err(Failure::new("expression", "no such variable")),
            (Answer::Skip, _) if asking.is_none() => Evaluated::Skip,
            (Answer::Evaluates(evaluated), _) => evaluated.clone(),
            (Answer::Fail, TaskKind::LoopUntil(_) | TaskKind::Loop(_)) if asking.is_some() => {
                Evaluated::Answered { output: None, failure: Some(Failure::new("max_reached", "no")), stop: false }
            }
            (_, TaskKind::LoopUntil(spec)) => match asking {
                None => Evaluated::items(1, payload("items")),
                Some(group) if group.count < spec.condition.parse().ok() => {
                    Evaluated::Again { ms: spec.interval.parse().expect("milliseconds") }
                }
                Some(_) => Evaluated::Answered { output: Some(payload("rounds")), failure: None, stop: false },
            },
            (_, TaskKind::Loop(_)) if asking.is_some() => {
                Evaluated::Answered { output: Some(payload("round")), failure: None, stop: false }
            }
            (_, TaskKind::Loop(spec)) => Evaluated::items(spec.values.as_u64().unwrap_or(0) as u32, payload("items")),
            (_, TaskKind::Batches(_)) if step.iteration_number().is_some() => Evaluated::Child { alone: false },
            (_, TaskKind::Batches(_)) if asking.is_some() => {
                Evaluated::Answered { output: Some(payload("batches")), failure: None, stop: false }
            }
            (_, TaskKind::Batches(spec)) => Evaluated::items(spec.split.parse().expect("a number"), payload("items")),
            (_, TaskKind::Exit { state }) => {
                Evaluated::Exit { state: ExitState::parse(state).expect("a word"), reason: None, output: None }
            }
            (_, TaskKind::WorkingDirectory { .. }) if asking.is_some() => {
                Evaluated::Answered { output: Some(payload("files")), failure: None, stop: false }
            }
            (
                _,
                TaskKind::Sequential(_)
                | TaskKind::AllowFailure(_)
                | TaskKind::WorkingDirectory { .. }
                | TaskKind::Dag { .. }
                | TaskKind::Parallel { .. },
            ) => Evaluated::Group,
            (_, TaskKind::If { condition, .. }) => {
                let list = if condition == "true" { ListName::Then } else { ListName::Else };
                Evaluated::Branch { list, output: Some(payload(condition)) }
            }
            (_, TaskKind::Switch { value, cases, .. }) => {
                let found = cases.contains_key(value);
                let list = if found { ListName::Case(value.clone()) } else { ListName::Defaults };
                Evaluated::Branch { list, output: None }
            }
            (_, TaskKind::ForEach { values, .. }) => {
                Evaluated::items(values.as_u64().unwrap_or(0) as u32, payload("items"))
            }
            (_, TaskKind::Sleep { duration }) => Evaluated::Sleep { ms: duration.parse().expect("milliseconds") },
            (_, TaskKind::Pause(PauseSpec { review: Some(review), .. })) if asking.is_none() => {
                let list = if review.auto == "true" { ListName::Tasks } else { ListName::OnPause };
                Evaluated::Branch { list, output: Some(payload("asked")) }
            }
            (_, TaskKind::Pause(PauseSpec { review: Some(review), .. }))
                if asking.is_some_and(|group| group.list != ListName::OnPause) =>
            {
                let decision = match asking.map(|group| &group.list) {
                    Some(ListName::OnDeny) => ReviewDecision::Denied,
                    Some(ListName::OnExpire) => ReviewDecision::Expired,
                    _ => ReviewDecision::Approved,
                };
                Evaluated::Reviewed { then: AfterReview::parse(review.behavior(decision)).expect("a word") }
            }
            (_, TaskKind::Pause(spec)) => {
                let before = matches!(self.state.steps.get(step).map(|s| &s.work), Some(Work::Evaluating));
                match &spec.duration {
                    _ if before && !spec.on_pause.is_empty() => {
                        Evaluated::Branch { list: ListName::OnPause, output: None }
                    }
                    duration => Evaluated::Pause {
                        ms: duration.as_ref().map(|ms| ms.parse().expect("milliseconds")),
                        late: OnTime::parse(&spec.behavior).expect("a word"),
                    },
                }
            }
            (_, TaskKind::Subflow(_)) => Evaluated::Child { alone: false },
            (Answer::Fail, TaskKind::Leaf { mode: LeafMode::Inline, .. }) => {
                Evaluated::Inline { result: Err(Failure::new("inline", "no")), labels: None }
            }
            (_, TaskKind::Leaf { mode: LeafMode::Inline, .. }) => {
                Evaluated::Inline { result: Ok(Some(payload("inline"))), labels: None }
            }
            (_, TaskKind::Leaf { mode: LeafMode::Op, .. }) => Evaluated::Op,
            (_, TaskKind::Leaf { mode: LeafMode::Errand, .. }) => Evaluated::Errand {
                terms: Box::new(super::errands::terms(ErrandKind::Simple)),
                request: payload("errand"),
            },
            (_, TaskKind::Leaf { mode: LeafMode::Effect, .. }) => Evaluated::Effect {
                class: task.effect.class.unwrap_or(EffectClass::Naked),
                out_key: task.effect.key.clone(),
                window_ms: task.effect.window_ms.unwrap_or(86_400_000),
                timeout_ms: 30_000,
                request: payload("request"),
            },
        };
        Ok(evaluated)
    }

    /// Moves the clock to the next timer and fires it; false when there is none.
    pub fn fire_next(&mut self) -> bool {
        let next = self.state.timers.iter().map(|(id, timer)| (timer.due, *id)).min();
        let Some((due, timer)) = next else { return false };
        self.now = self.now.max(due);
        self.must(Input::TimerFired { timer });
        true
    }

    /// Answers and fires until nothing moves.
    pub fn finish(&mut self) {
        for _ in 0..100_000 {
            self.answer_all();
            if !self.fire_next() {
                return;
            }
        }
        panic!("the run does not end: {:?}", self.state);
    }

    pub fn finished(mut self) -> World {
        self.finish();
        self
    }

    /// The process dies: what was in flight is lost, and the state is loaded from the journal.
    pub fn crash(&mut self) {
        self.pending.clear();
        let (structure, values) = encode_events(&self.journal);
        let journal = decode_events(&structure, values.as_deref()).expect("the journal reads back");
        self.state = RunState::fold(&journal).expect("the journal folds");
        self.must(Input::Recover);
    }

    /// A newer event takes this run's place: the store ends it, as it may when nothing is in flight.
    pub fn replaced(&mut self) -> bool {
        if self.state.is_ended() || self.state.open_intents() > 0 || self.state.open_doubts() > 0 {
            return false;
        }
        self.pending.clear();
        let ended = Event::Ended { status: EndStatus::Cancelled, warned: false, outputs: None, failure: None };
        self.store_writes(&[Event::CancelRequested { by: by(), alone: false }, ended]);
        true
    }

    pub fn child_ends(&mut self, n: u128, status: EndStatus, doubts: u32) {
        self.must(Input::ChildEnded {
            run: child_id(n),
            status,
            conclusion: None,
            warned: false,
            outputs: payload("child"),
            doubts,
        });
    }

    pub fn verdict(&mut self, step: &str, verdict: VerdictKind) -> Result<Decided, NotPossible> {
        let result = (verdict == VerdictKind::Done).then(|| payload("found"));
        self.input(Input::Verdict { step: key(step), verdict, by: by(), result })
    }

    /// How steps ended, in order: `a:success`. An op that went well ends its step by itself.
    pub fn ends(&self) -> Vec<String> {
        let word = |outcome: &StepOutcome| json!(outcome).as_str().expect("a word").to_owned();
        let ended = self.journal.iter().filter_map(|event| match event {
            Event::StepEnded { step, outcome, tolerated: true, .. } => Some(format!("{step}:{}?", word(outcome))),
            Event::StepEnded { step, outcome, .. } => Some(format!("{step}:{}", word(outcome))),
            Event::OpDone { step, ok: true, .. } => Some(format!("{step}:success")),
            _ => None,
        });
        ended.collect()
    }

    pub fn assert_ends(&self, expected: &[&str]) {
        assert_eq!(self.ends(), expected);
    }

    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// The intents of a step: (attempt, send, out_key).
    pub fn intents(&self, step: &str) -> Vec<(u32, u32, String)> {
        let intents = self.journal.iter().filter_map(|event| match event {
            Event::Intent { step: found, attempt, send, out_key, .. } if found.0 == step => {
                Some((*attempt, *send, out_key.clone()))
            }
            _ => None,
        });
        intents.collect()
    }

    pub fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.journal.iter().filter(|event| which(event)).count()
    }
}

fn next(script: &mut BTreeMap<String, VecDeque<Answer>>, step: &StepKey) -> Answer {
    // A script for one iteration's step wins over the one for its task.
    for name in [step.0.as_str(), step.task_id()] {
        if let Some(answer) = script.get_mut(name).and_then(|answers| answers.pop_front()) {
            return answer;
        }
    }
    Answer::Good
}
