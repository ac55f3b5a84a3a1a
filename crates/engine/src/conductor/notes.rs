//! What a run knows about its tasks. In a loop the latest round wins, so this is bounded by the definition; the outputs
//! of rounds gather at their loop, as Conductor has it, unless its author keeps only the last ones.

use crate::flows::LoadedFlow;
use indexmap::IndexMap;
use semel_core::Millis;
use semel_core::ir::{DoWhile, FORKED_REFERENCE, Task, TaskKind, UntilSpec};
use semel_core::run::{Back, Event, StepKey, task_status};
use semel_expr::Value;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By reference name; companions by their id.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    tasks: IndexMap<String, Note>,
    /// The task whose output is that of the run, where its definition names none: the one that started last.
    last: Option<String>,
    /// The task that has ended the run by itself.
    exit: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Note {
    pub step: StepKey,
    pub status: &'static str,
    pub started: Millis,
    pub ended: Option<Millis>,
    pub retry_count: u32,
    /// The round of the innermost DO_WHILE, from 1; 0 outside.
    pub iteration: u32,
    pub reason: Option<String>,
    pub output: Value,
}

type Loops = BTreeMap<StepKey, Arc<Vec<Value>>>;

fn empty() -> Value {
    Value::map(IndexMap::new())
}

fn do_while<'a>(step: &StepKey, flow: &'a LoadedFlow) -> Option<&'a DoWhile> {
    match flow.index.task(step.task_id()).map(|task| &task.kind) {
        Some(TaskKind::LoopUntil(UntilSpec { do_while, .. })) => do_while.as_ref(),
        _ => None,
    }
}

/// The name expressions use for a step.
fn name_of(step: &StepKey, task: &Task, loops: &Loops) -> String {
    match &task.conductor {
        None => task.id.clone(),
        Some(own) if own.reference == FORKED_REFERENCE => {
            let item = |(key, n): &(StepKey, u32)| loops.get(key)?.get(*n as usize)?.get("reference");
            let name = step.iterations().last().and_then(item);
            name.map_or_else(|| task.id.clone(), |name| name.to_text())
        }
        Some(own) => own.reference.clone(),
    }
}

impl Notes {
    pub fn get(&self, name: &str) -> Option<&Note> {
        self.tasks.get(name)
    }

    /// What the run gives by a task of its own: the one that has ended it, else the one that started last, where the
    /// definition names no outputs.
    pub fn run_output(&self, flow: &LoadedFlow) -> Option<Value> {
        if let Some(ended_it) = self.terminated(flow) {
            return Some(ended_it.output.clone());
        }
        let last = || self.last.as_ref().and_then(|name| self.tasks.get(name));
        flow.index.flow.outputs.is_empty().then(|| last().map_or_else(empty, |note| note.output.clone()))
    }

    /// The TERMINATE that has ended the run.
    fn terminated(&self, flow: &LoadedFlow) -> Option<&Note> {
        if let Some(note) = self.exit.as_ref().and_then(|name| self.tasks.get(name)) {
            return Some(note);
        }
        let ends = |note: &Note| {
            let task = flow.index.task(note.step.task_id());
            task.is_some_and(|task| task.type_name == "conductor.TERMINATE")
        };
        self.tasks.values().rev().find(|note| note.status == "COMPLETED" && ends(note))
    }

    /// What stands for tasks of the definition, in the order in which they started first.
    pub fn shown<'a>(&'a self, flow: &'a LoadedFlow) -> impl Iterator<Item = (&'a str, &'a Note, &'a Task)> {
        let own = |(name, note): (&'a String, &'a Note)| {
            let task = flow.index.task(note.step.task_id()).filter(|task| task.conductor.is_some())?;
            Some((name.as_str(), note, task))
        };
        self.tasks.iter().filter_map(own)
    }

    /// The attempt at a step that was made last.
    pub fn attempt_of(&self, step: &StepKey) -> u32 {
        self.tasks.values().find(|note| note.step == *step).map_or(1, |note| note.retry_count + 1)
    }

    /// No other dynamic fork has computed its tasks before.
    pub fn is_first_fork(&self, task: &Task, flow: &LoadedFlow) -> bool {
        let forks = |note: &Note| {
            let other = flow.index.task(note.step.task_id());
            other.is_some_and(|other| other.type_name == task.type_name && other.id != task.id)
        };
        !self.tasks.values().any(forks)
    }

    pub fn fold(&mut self, event: &Event, loops: &Loops, flow: &LoadedFlow) {
        match event {
            Event::StepStarted { step, .. } if step.iteration_number().is_some() => {
                self.round_started(step, loops, flow);
            }
            Event::StepStarted { step, at, .. } => self.started(step, *at, loops, flow),
            Event::AttemptFailed { step, attempt, failure, .. } => {
                if let Some(note) = self.of(step, loops, flow) {
                    note.retry_count = attempt.saturating_sub(1);
                    note.reason = Some(failure.message().to_owned());
                }
            }
            Event::Intent { step, attempt, .. } | Event::ErrandSet { step, attempt, .. } => {
                if let Some(note) = self.of(step, loops, flow) {
                    note.retry_count = attempt.saturating_sub(1);
                }
            }
            Event::StepEnded { step, outcome, at, tolerated, failure, .. } => {
                if step.iteration_number().is_some() {
                    return self.round_ended(step, loops, flow);
                }
                if let Some(note) = self.of(step, loops, flow) {
                    note.status =
                        task_status(*outcome, *tolerated, failure.as_ref().map(|failure| failure.code.as_str()));
                    note.ended = Some(*at);
                    note.reason = failure.as_ref().map(|failure| failure.message().to_owned());
                }
            }
            Event::Exited { step, .. } => {
                let own = flow.index.task(step.task_id()).filter(|task| task.conductor.is_some());
                self.exit = own.map(|task| name_of(step, task, loops));
            }
            Event::Restarted { .. } => self.exit = None,
            Event::Replayed { back: Some(back), .. } => self.go_back(back, flow),
            Event::Replayed { from, .. } => {
                let kept: Vec<&str> =
                    flow.index.flow.tasks.iter().take(*from as usize).map(|task| task.id.as_str()).collect();
                self.tasks.retain(|_, note| kept.iter().any(|top| note.step.is_under(&StepKey((*top).to_owned()))));
                (self.last, self.exit) = (None, None);
            }
            _ => {}
        }
    }

    /// What is done again is forgotten. Of a task in a loop only the latest round is known: where that is done again,
    /// the round that stays done is what its loop has gathered.
    fn go_back(&mut self, back: &Back, flow: &LoadedFlow) {
        let keeps = |step: &StepKey| back.keeps(&flow.index, step);
        let gone = self.tasks.iter().filter(|(_, note)| !keeps(&note.step));
        let earlier: Vec<(String, Note)> =
            gone.filter_map(|(name, note)| Some((name.clone(), self.in_round_of(back, name, note)?))).collect();
        self.tasks.retain(|_, note| keeps(&note.step));
        self.tasks.extend(earlier.into_iter().filter(|(_, note)| keeps(&note.step)));
        (self.last, self.exit) = (None, None);
    }

    /// The same task in the round that the run goes back to.
    fn in_round_of(&self, back: &Back, name: &str, note: &Note) -> Option<Note> {
        let rounds = note.step.iterations();
        let (around, n, later) = back.step.iterations().into_iter().find_map(|(around, n)| {
            let later = rounds.iter().find(|(key, later)| *key == around && *later > n)?.1;
            Some((around, n, later))
        })?;
        let rest = note.step.0.strip_prefix(&around.iteration(later).0)?;
        let step = StepKey(format!("{}{rest}", around.iteration(n)));
        let gathered = self.tasks.values().find(|note| note.step == around)?;
        let output = gathered.output.get(&(n + 1).to_string())?.get(name)?;
        Some(Note { step, status: "COMPLETED", iteration: n + 1, reason: None, output, ..note.clone() })
    }

    fn of(&mut self, step: &StepKey, loops: &Loops, flow: &LoadedFlow) -> Option<&mut Note> {
        let task = flow.index.task(step.task_id())?;
        self.tasks.get_mut(&name_of(step, task, loops)).filter(|note| note.step == *step)
    }

    fn started(&mut self, step: &StepKey, at: Millis, loops: &Loops, flow: &LoadedFlow) {
        let Some(task) = flow.index.task(step.task_id()) else { return };
        let round = step.iterations().into_iter().rev().find(|(key, _)| do_while(key, flow).is_some());
        let name = name_of(step, task, loops);
        let note = Note {
            step: step.clone(),
            status: "IN_PROGRESS",
            started: at,
            ended: None,
            retry_count: 0,
            iteration: round.map_or(0, |(_, n)| n + 1),
            reason: None,
            output: empty(),
        };
        if task.conductor.is_some() {
            self.last = Some(name.clone());
        }
        self.tasks.insert(name, note);
    }

    pub fn set_output(&mut self, step: &StepKey, output: &Json, loops: &Loops, flow: &LoadedFlow) {
        let Some(note) = self.of(step, loops, flow) else { return };
        note.output = match Value::from_stored(output) {
            Value::Null => empty(),
            given => given,
        };
    }

    fn put(&mut self, step: &StepKey, name: String, value: Value, loops: &Loops, flow: &LoadedFlow) {
        if let Some(Note { output: Value::Map(known), .. }) = self.of(step, loops, flow) {
            Arc::make_mut(known).insert(name, value);
        }
    }

    fn round_started(&mut self, round: &StepKey, loops: &Loops, flow: &LoadedFlow) {
        let (Some(n), Some(around)) = (round.iteration_number(), round.parent()) else { return };
        let Some(spec) = do_while(&around, flow) else { return };
        self.put(&around, "iteration".to_owned(), Value::Int(i128::from(n) + 1), loops, flow);
        if spec.items.is_some() {
            let item = loops.get(&around).and_then(|items| items.get(n as usize)).cloned().unwrap_or(Value::Null);
            self.put(&around, "loopIndex".to_owned(), Value::Int(i128::from(n)), loops, flow);
            self.put(&around, "loopItem".to_owned(), item, loops, flow);
        }
    }

    fn round_ended(&mut self, round: &StepKey, loops: &Loops, flow: &LoadedFlow) {
        let (Some(n), Some(around)) = (round.iteration_number(), round.parent()) else { return };
        let Some(spec) = do_while(&around, flow) else { return };
        let shown = |note: &Note| flow.index.task(note.step.task_id()).is_some_and(|task| task.conductor.is_some());
        let inside = self.tasks.iter().filter(|(_, note)| note.step.is_under(round) && shown(note));
        let outputs = inside.map(|(name, note)| (name.clone(), note.output.clone())).collect();
        self.put(&around, (n + 1).to_string(), Value::map(outputs), loops, flow);
        let dropped = spec.keep_last.and_then(|keep| (n + 1).checked_sub(keep)).filter(|old| *old > 0);
        if let (Some(old), Some(Note { output: Value::Map(known), .. })) = (dropped, self.of(&around, loops, flow)) {
            Arc::make_mut(known).shift_remove(&old.to_string());
        }
    }
}
