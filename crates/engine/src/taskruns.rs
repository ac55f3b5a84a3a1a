//! A run's history as Kestra tells it: the states it went through and its task runs, projected from the journal.
//!
//! Nothing is decided here. A task run is a step that is a task; the iterations of a loop are not steps of their own
//! but give their value and number to the task runs inside them. Events this page does not know change nothing.

use crate::reviews::with_decision;
use semel_core::run::{Event, KestraState, Stage, StepKey, StepOutcome, TimerWhy, step_id};
use semel_core::{Hash16, Millis, RunId};
use semel_expr::Value;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// States with their instants, oldest first.
pub type History = Vec<(KestraState, Millis)>;

#[derive(Clone, Debug, PartialEq)]
pub struct TaskRun {
    pub id: Hash16,
    pub step: StepKey,
    pub parent: Option<Hash16>,
    /// The item and the number of the loop that it stands in.
    pub value: Option<String>,
    pub iteration: Option<u32>,
    pub attempts: Vec<History>,
    /// As stored: with holes where secrets are.
    pub outputs: Option<Json>,
    pub history: History,
    is_group: bool,
    /// Of `errors`, `finally` or what follows the end: after a restart it may run anew, and is not told of before.
    is_handler: bool,
}

impl TaskRun {
    pub fn state(&self) -> KestraState {
        self.history.last().map_or(KestraState::Created, |(state, _)| *state)
    }

    fn enter(&mut self, state: KestraState, at: Millis) {
        if self.state() != state {
            self.history.push((state, at));
        }
    }

    fn open_attempt(&mut self, at: Millis) {
        if self.attempts.last().is_none_or(|attempt| attempt.last().is_some_and(|(state, _)| state.is_terminal())) {
            self.attempts.push(vec![(KestraState::Created, at), (KestraState::Running, at)]);
        }
        self.enter(KestraState::Running, at);
    }

    fn close_attempt(&mut self, state: KestraState, at: Millis) {
        let open = |attempt: &&mut History| attempt.last().is_none_or(|(state, _)| !state.is_terminal());
        if let Some(attempt) = self.attempts.last_mut().filter(open) {
            attempt.push((state, at));
        }
    }
}

/// What a journal tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    pub history: History,
    pub task_runs: Vec<TaskRun>,
    /// How often the run was begun: once, and once more at each restart or replay.
    pub attempts: u32,
    pub created_at: Option<Millis>,
    /// Tasks that the run stops before.
    pub breakpoints: Vec<String>,
    /// What tasks made of the flow's variables, in their order.
    pub variables: Vec<VariablesChange>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VariablesChange {
    /// Over what is there, map into map; as stored.
    Set(Json),
    Unset(Vec<String>),
}

impl Told {
    /// The variables of the run, given those of its flow, as anybody may see them.
    pub fn variables_over(&self, flow: Json) -> Json {
        self.variables.iter().fold(flow, |mut known, change| {
            match change {
                VariablesChange::Set(given) => merge(&mut known, crate::public_json(given)),
                VariablesChange::Unset(names) => {
                    if let Json::Object(map) = &mut known {
                        map.retain(|name, _| !names.contains(name));
                    }
                }
            }
            known
        })
    }
}

fn merge(known: &mut Json, given: Json) {
    match (known, given) {
        (Json::Object(known), Json::Object(given)) => {
            for (name, value) in given {
                match known.get_mut(&name) {
                    Some(old) => merge(old, value),
                    None => _ = known.insert(name, value),
                }
            }
        }
        (known, given) => *known = given,
    }
}

/// Reads a journal from its first row on.
pub struct Telling {
    logical: RunId,
    told: Told,
    /// Where the newest task run of a step is.
    at: BTreeMap<StepKey, usize>,
    loops: BTreeMap<StepKey, Vec<Value>>,
    /// Groups that are past their bodies.
    handling: BTreeSet<StepKey>,
    outputs: BTreeMap<StepKey, Json>,
    /// A decision cancels what is left, not a person who kills it.
    decided: bool,
}

impl Telling {
    pub fn new(run: RunId) -> Telling {
        Telling {
            logical: run,
            told: Told { attempts: 1, ..Told::default() },
            at: BTreeMap::new(),
            loops: BTreeMap::new(),
            handling: BTreeSet::new(),
            outputs: BTreeMap::new(),
            decided: false,
        }
    }

    pub fn done(self) -> Told {
        self.told
    }

    /// One event of a row written at `at`.
    pub fn hear(&mut self, event: &Event, at: Millis) {
        match event {
            Event::Created { logical, queued, .. } => {
                self.logical = *logical;
                self.told.created_at = Some(at);
                self.enter(KestraState::Created, at);
                if *queued {
                    self.enter(KestraState::Queued, at);
                }
            }
            Event::RetryOf { .. } => {
                self.told.attempts += 1;
                self.told.history = vec![(KestraState::Created, at)];
                self.told.created_at = Some(at);
                for run in self.told.task_runs.iter_mut().filter(|run| run.state() == KestraState::Failed) {
                    run.enter(KestraState::Restarted, at);
                }
            }
            Event::Started { at } => self.enter(KestraState::Running, *at),
            Event::Paused { .. } => self.enter(KestraState::Paused, at),
            Event::BreakpointsSet { tasks, .. } => self.told.breakpoints = tasks.clone(),
            Event::VariablesSet { variables, .. } => {
                self.told.variables.push(VariablesChange::Set(variables.json().clone()));
            }
            Event::VariablesUnset { names } => {
                let names = names.json().as_array().into_iter().flatten().filter_map(Json::as_str);
                self.told.variables.push(VariablesChange::Unset(names.map(str::to_owned).collect()));
            }
            Event::StoppedAt { .. } => self.enter(KestraState::Breakpoint, at),
            Event::Resumed { .. } | Event::Released { .. } => self.enter(KestraState::Running, at),
            Event::Restored { at } => self.enter(KestraState::Paused, *at),
            Event::CancelRequested { .. } | Event::StopRequested { .. } => {
                self.decided = false;
                self.enter(KestraState::Killing, at);
            }
            Event::BodiesEnd { failure, .. } => self.decided = failure.is_some(),
            Event::Restarted { at, .. } => self.begin_again(*at),
            Event::Replayed { at, from, .. } => {
                self.drop_from(*from);
                self.begin_again(*at);
            }
            Event::Ended { .. } => self.end_open(at),
            Event::StepStarted { step, take, round, at } => self.start(step, *take, *round, *at),
            Event::LoopStarted { step, items, each_asks, .. } => {
                self.group(step, at);
                if let Value::List(items) = Value::from_stored(items.json()) {
                    self.loops.insert(step.clone(), items.iter().map(|item| round_value(item, *each_asks)).collect());
                }
            }
            Event::GroupAnswered { step, output: Some(output), .. } => {
                self.outputs.insert(step.clone(), output.json().clone());
            }
            Event::Branched { step, output, .. } => {
                self.group(step, at);
                if let Some(output) = output {
                    self.outputs.insert(step.clone(), output.json().clone());
                }
            }
            Event::GroupStage { step, stage } => {
                if *stage != Stage::Body {
                    self.handling.insert(step.clone());
                }
                self.group(step, at);
            }
            Event::Intent { step, .. } | Event::OpRequested { step } | Event::ChildRequested { step, .. } => {
                self.with(step, |run| run.open_attempt(at));
            }
            Event::TimerSet { step, why, .. } => match why {
                TimerWhy::FlowRetry => self.enter(KestraState::Retrying, at),
                TimerWhy::Sleep | TimerWhy::CutShort => self.with(step, |run| run.open_attempt(at)),
                TimerWhy::Backoff => self.with(step, |run| run.enter(KestraState::Retrying, at)),
                _ => {}
            },
            Event::AttemptFailed { step, .. } => self.with(step, |run| {
                run.open_attempt(at);
                run.close_attempt(KestraState::Failed, at);
            }),
            Event::StepPaused { step, at, .. } => {
                self.enter(KestraState::Paused, *at);
                self.with(step, |run| {
                    run.is_group = true;
                    run.enter(KestraState::Paused, *at);
                });
            }
            Event::StepResumed { step, at, output, review, .. } => {
                self.enter(KestraState::Running, *at);
                self.with(step, |run| run.enter(KestraState::Running, *at));
                if let Some(output) = output {
                    let before = self.outputs.remove(step).filter(|_| review.is_some());
                    self.outputs.insert(step.clone(), with_decision(before, output.json()));
                }
            }
            Event::OpDone { step, ok: true, output, .. } => {
                self.end(step, KestraState::Success, at, output.as_ref().map(|output| output.json().clone()));
            }
            Event::ChildStarted { step, run } => {
                self.outputs.insert(step.clone(), serde_json::json!({"executionId": run.to_string()}));
            }
            Event::StepEnded { step, outcome, at, tolerated, output, .. } => {
                let state = match outcome_state(*outcome, *tolerated) {
                    KestraState::Killed if self.decided => KestraState::Cancelled,
                    state => state,
                };
                self.end(step, state, *at, output.as_ref().map(|o| o.json().clone()));
            }
            _ => {}
        }
    }

    fn enter(&mut self, state: KestraState, at: Millis) {
        if self.told.history.last().is_none_or(|(last, _)| *last != state) {
            self.told.history.push((state, at));
        }
    }

    fn begin_again(&mut self, at: Millis) {
        self.told.attempts += 1;
        self.enter(KestraState::Restarted, at);
        self.enter(KestraState::Running, at);
        self.handling.clear();
        self.told.task_runs.retain(|run| !run.is_handler);
        self.at = self.told.task_runs.iter().enumerate().map(|(at, run)| (run.step.clone(), at)).collect();
        for run in self.told.task_runs.iter_mut().filter(|run| run.state() == KestraState::Failed) {
            run.enter(KestraState::Restarted, at);
        }
    }

    /// Task runs of top-level tasks from the given one on are made anew.
    fn drop_from(&mut self, from: u32) {
        let mut tops: Vec<&str> = Vec::new();
        for run in &self.told.task_runs {
            let top = top_of(&run.step);
            if !tops.contains(&top) {
                tops.push(top);
            }
        }
        let kept: Vec<String> = tops.into_iter().take(from as usize).map(str::to_owned).collect();
        self.told.task_runs.retain(|run| kept.iter().any(|top| top == top_of(&run.step)));
        self.at = self.told.task_runs.iter().enumerate().map(|(at, run)| (run.step.clone(), at)).collect();
    }

    /// What had not ended when the run did, ended with it.
    fn end_open(&mut self, at: Millis) {
        for run in self.told.task_runs.iter_mut().filter(|run| !run.state().is_terminal()) {
            run.close_attempt(KestraState::Killed, at);
            run.enter(KestraState::Killed, at);
        }
    }

    fn with(&mut self, step: &StepKey, change: impl FnOnce(&mut TaskRun)) {
        if let Some(run) = self.at.get(step).and_then(|at| self.told.task_runs.get_mut(*at)) {
            change(run);
        }
    }

    fn group(&mut self, step: &StepKey, at: Millis) {
        self.with(step, |run| {
            run.is_group = true;
            run.enter(KestraState::Running, at);
        });
    }

    fn start(&mut self, step: &StepKey, take: u32, round: u32, at: Millis) {
        if step.is_root() || step.iteration_number().is_some() {
            return;
        }
        let id = step_id(self.logical, take, round, step);
        if let Some(known) = self.at.get(step).and_then(|at| self.told.task_runs.get_mut(*at))
            && known.id == id
        {
            known.enter(KestraState::Running, at);
            return;
        }
        // Only the tasks right below a loop carry its value.
        let below = step.parent().is_some_and(|parent| parent.iteration_number().is_some());
        let nearest = step.iterations().pop().filter(|_| below);
        let value = nearest.as_ref().and_then(|(key, n)| self.loops.get(key)?.get(*n as usize).map(Value::to_text));
        let run = TaskRun {
            id,
            parent: self.parent_of(step),
            step: step.clone(),
            value,
            iteration: nearest.map(|(_, n)| n),
            attempts: Vec::new(),
            outputs: None,
            history: vec![(KestraState::Created, at), (KestraState::Running, at)],
            is_group: false,
            is_handler: self.is_handler(step),
        };
        self.at.insert(step.clone(), self.told.task_runs.len());
        self.told.task_runs.push(run);
    }

    fn is_handler(&self, step: &StepKey) -> bool {
        let mut parent = step.parent();
        while let Some(key) = parent {
            if self.handling.contains(&key) {
                return true;
            }
            if let Some(run) = self.at.get(&key).and_then(|at| self.told.task_runs.get(*at)) {
                return run.is_handler;
            }
            parent = key.parent();
        }
        false
    }

    fn parent_of(&self, step: &StepKey) -> Option<Hash16> {
        let mut parent = step.parent();
        while let Some(key) = parent.filter(|key| !key.is_root()) {
            if let Some(at) = self.at.get(&key) {
                return self.told.task_runs.get(*at).map(|run| run.id);
            }
            parent = key.parent();
        }
        None
    }

    fn end(&mut self, step: &StepKey, state: KestraState, at: Millis, output: Option<Json>) {
        let output = output.or_else(|| self.outputs.remove(step));
        self.with(step, |run| {
            // After a restart or a retry it is another attempt that has ended; else the last one did, whatever that
            // means for the task run.
            let another = match run.state() {
                KestraState::Restarted => true,
                KestraState::Retrying => state != KestraState::Killed,
                _ => false,
            };
            let ended_already = !another && run.attempts.last().is_some_and(ended);
            if !run.is_group && state != KestraState::Skipped && !ended_already {
                run.open_attempt(run.history.last().map_or(at, |(_, at)| *at));
                run.close_attempt(state, at);
            }
            if output.is_some() {
                run.outputs = output;
            }
            run.enter(state, at);
        });
    }
}

/// The value of a round that was begun for `item`. `wrapped`: a loop whose rounds are their own wraps what it goes over.
pub(crate) fn round_value(item: &Value, wrapped: bool) -> Value {
    let value = if wrapped { item.get("value") } else { None };
    value.unwrap_or_else(|| item.clone())
}

fn ended(attempt: &History) -> bool {
    attempt.last().is_some_and(|(state, _)| state.is_terminal())
}

fn top_of(step: &StepKey) -> &str {
    let first = step.0.split('/').next().unwrap_or_default();
    first.split('[').next().unwrap_or_default()
}

fn outcome_state(outcome: StepOutcome, tolerated: bool) -> KestraState {
    match outcome {
        StepOutcome::Success => KestraState::Success,
        StepOutcome::Warning => KestraState::Warning,
        StepOutcome::Skipped => KestraState::Skipped,
        StepOutcome::Failed if tolerated => KestraState::Warning,
        StepOutcome::Failed => KestraState::Failed,
        StepOutcome::Cancelled => KestraState::Killed,
    }
}
