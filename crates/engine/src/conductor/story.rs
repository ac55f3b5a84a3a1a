//! A run as Conductor tells it: its tasks, one entry for each attempt, projected from the journal.
//!
//! Nothing is decided here. What a task was given is rendered again at the place of the journal where it began, with
//! what was known there; of an errand that is out its row says who has it. Companions are not told of, and a JOIN is
//! shown from the moment its fork begins, as there.

use super::dynamic::DYNAMIC;
use super::places::put_in_order;
use crate::api::FlowLookupError;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::memory::Memory;
use crate::scope::{ExprScope, RunScope};
use semel_core::ir::{ConductorTask, ErrandKind, Task, TaskKind, companion};
use semel_core::run::{
    ErrandEnd, ErrandTerms, Event, Failure, RunState, StepKey, StepOutcome, TimerWhy, Work, decode_events, errand_id,
    task_status,
};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_expr::Value;
use semel_expr::conductor::{print, render_text, render_tree};
use semel_store::{ErrandRow, StoreError, WholeRun};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Journal rows read at a time.
const ROWS: u32 = 1_000;

/// A run and all that its journal tells.
pub struct WorkflowStory {
    pub run: WholeRun,
    pub flow: Arc<LoadedFlow>,
    pub tasks: Vec<TaskStory>,
    pub variables: Json,
    /// Registered task definitions by name, of those tasks that have one.
    pub definitions: BTreeMap<String, Arc<Json>>,
    /// When failed tasks were last tried again because somebody asked.
    pub retried_at: Option<Millis>,
}

/// One attempt at a task.
#[derive(Clone, Debug)]
pub struct TaskStory {
    /// Of the attempt.
    pub id: Hash16,
    /// Of the step: the same for all attempts.
    pub step_id: Hash16,
    pub step: StepKey,
    /// Inside a loop with its round behind it, as `ref__2`.
    pub reference: String,
    pub name: String,
    /// Conductor's word: `HTTP`, `FORK`; for a worker's task its name.
    pub kind: String,
    /// What the definition says its type is.
    pub type_word: String,
    pub status: &'static str,
    /// From 0 on.
    pub retry_count: u32,
    /// Another attempt has followed.
    pub retried: bool,
    pub retried_id: Option<Hash16>,
    /// The round of the innermost DO_WHILE, from 1; 0 outside.
    pub iteration: u32,
    pub input: Json,
    pub output: Json,
    pub reason: Option<String>,
    pub scheduled_at: Millis,
    pub started_at: Option<Millis>,
    pub updated_at: Millis,
    pub ended_at: Option<Millis>,
    pub worker: Option<String>,
    pub polls: u32,
    pub child: Option<RunId>,
    pub terms: Option<ErrandTerms>,
    /// Seconds until it can be taken, where that is not at once.
    pub callback_after_s: i64,
}

impl TaskStory {
    pub fn is_open(&self) -> bool {
        matches!(self.status, "SCHEDULED" | "IN_PROGRESS")
    }

    /// The name without the round of a loop.
    pub fn plain_reference(&self) -> &str {
        match self.reference.rsplit_once("__") {
            Some((plain, round)) if self.iteration > 0 && round.parse() == Ok(self.iteration) => plain,
            _ => &self.reference,
        }
    }

    fn end(&mut self, status: &'static str, at: Millis) {
        self.status = status;
        self.ended_at = Some(at);
        self.updated_at = at;
        self.started_at.get_or_insert(at);
    }
}

impl Engine {
    /// `None`: there is no such run, or it is not one of a Conductor workflow.
    pub fn story(&self, workspace: &WorkspaceId, run: RunId) -> Result<Option<WorkflowStory>, StoreError> {
        let Some(whole) = self.store().run(workspace, run)? else { return Ok(None) };
        let row = &whole.0;
        let flow = self.flows.revision(workspace, &row.flow, row.revision).map_err(|error| match error {
            FlowLookupError::Store(error) => error,
            other => StoreError::Bug(other.to_string()),
        })?;
        if !flow.is_conductor() {
            return Ok(None);
        }
        let mut teller = Teller {
            engine: self,
            workspace,
            whole: &whole,
            flow: &flow,
            joins: joins(&flow),
            state: RunState::new(row.logical),
            memory: Memory::default(),
            tasks: Vec::new(),
            newest: BTreeMap::new(),
            shown_early: Vec::new(),
            rounds: BTreeMap::new(),
            retried_at: None,
        };
        teller.read()?;
        teller.look_at_errands()?;
        let variables = teller.memory.variables.as_ref().unwrap_or(&flow.vars).to_masked_json();
        let (mut tasks, early, retried_at) = (teller.tasks, teller.shown_early, teller.retried_at);
        // What is open belongs to a round that is done again.
        tasks.retain(|task| task.is_open() || !is_dropped(&task.step, &flow, &teller.rounds));
        early.iter().for_each(|(fork, join)| put_in_order(&mut tasks, &flow, fork, join));
        let mut definitions = BTreeMap::new();
        for name in tasks.iter().map(|task| task.name.as_str()).collect::<BTreeSet<_>>() {
            if let Some(found) = self.task_definition(workspace, name)? {
                definitions.insert(name.to_owned(), found);
            }
        }
        Ok(Some(WorkflowStory { run: whole, flow, tasks, variables, definitions, retried_at }))
    }
}

/// Which JOIN belongs to a fork, by reference name, from the definition as it was written.
fn joins(flow: &LoadedFlow) -> BTreeMap<String, String> {
    fn look(json: &Json, found: &mut BTreeMap<String, String>) {
        match json {
            Json::Array(items) => {
                for pair in items.windows(2) {
                    let word = |task: &Json, name: &str| task[name].as_str().unwrap_or_default().to_owned();
                    if word(&pair[0], "type").starts_with("FORK_JOIN") && word(&pair[1], "type") == "JOIN" {
                        found.insert(word(&pair[0], "taskReferenceName"), word(&pair[1], "taskReferenceName"));
                    }
                }
                items.iter().for_each(|item| look(item, found));
            }
            Json::Object(fields) => fields.values().for_each(|field| look(field, found)),
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    if let Ok(definition) = serde_json::from_str(&flow.source) {
        look(&definition, &mut found);
    }
    found
}

struct Teller<'a> {
    engine: &'a Engine,
    workspace: &'a WorkspaceId,
    whole: &'a WholeRun,
    flow: &'a LoadedFlow,
    joins: BTreeMap<String, String>,
    state: RunState,
    memory: Memory,
    tasks: Vec<TaskStory>,
    /// Where the newest attempt at a step is.
    newest: BTreeMap<StepKey, usize>,
    /// Forks, each with the JOIN that is shown from its beginning on.
    shown_early: Vec<(StepKey, StepKey)>,
    /// How many rounds of each loop have ended.
    rounds: BTreeMap<StepKey, u32>,
    retried_at: Option<Millis>,
}

impl Teller<'_> {
    fn read(&mut self) -> Result<(), StoreError> {
        let (row, _, _) = self.whole;
        let mut after = 0;
        loop {
            let rows = self.engine.store().journal(self.workspace, row.id, after, ROWS)?;
            for entry in &rows {
                after = entry.seq;
                let events = decode_events(&entry.events, entry.values.as_deref())
                    .map_err(|error| StoreError::Bug(format!("journal of {}: {error}", row.id)))?;
                for event in &events {
                    self.state.evolve(event);
                    self.memory.fold(row.id, event, &self.state, self.flow, entry.at);
                    self.hear(event, entry.at);
                }
            }
            if rows.len() < ROWS as usize {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, event: &Event, at: Millis) {
        match event {
            Event::StepStarted { step, at, .. } if step.iteration_number().is_none() => self.begin(step, *at),
            Event::Branched { step, output, .. } => {
                let output = output.as_ref().map(|output| public(output.json()));
                if let Some(task) = self.entry(step, at) {
                    if let Some(output) = output {
                        task.output = output;
                    }
                    if is_passed_at_once(task) {
                        task.end("COMPLETED", at);
                    }
                }
            }
            Event::LoopStarted { step, .. } => {
                if let Some(task) = self.entry(step, at).filter(|task| is_passed_at_once(task)) {
                    task.end("COMPLETED", at);
                }
            }
            Event::Intent { step, attempt, .. } => {
                if let Some(task) = self.attempt(step, *attempt, at) {
                    task.status = "IN_PROGRESS";
                    task.started_at.get_or_insert(at);
                    task.updated_at = at;
                }
            }
            Event::AttemptFailed { step, attempt, failure, .. } => {
                if let Some(task) = self.attempt(step, *attempt, at) {
                    // Of an errand its own event has told already how it ended.
                    if task.is_open() {
                        task.end(failed_status(failure), at);
                    }
                    task.reason = Some(failure.message().to_owned());
                }
            }
            Event::TimerSet { step, why: TimerWhy::Backoff, due, .. } => {
                let next = self.newest_of(step).filter(|task| !task.is_open()).map(|task| task.retry_count + 2);
                if let Some(task) = next.and_then(|attempt| self.attempt(step, attempt, at)) {
                    task.status = "SCHEDULED";
                    task.callback_after_s = due.since(at) / 1_000;
                }
            }
            Event::ErrandSet { step, attempt, at, free_at, terms, request } => {
                let (terms, request) = (terms.clone(), request.as_ref().map(|request| public(request.json())));
                let given = terms.as_ref().filter(|terms| terms.kind == ErrandKind::Simple).map(|t| t.queue.clone());
                if let Some(task) = self.attempt(step, *attempt, *at) {
                    task.scheduled_at = *at;
                    task.callback_after_s = free_at.since(*at) / 1_000;
                    if let Some(terms) = terms {
                        task.terms = Some(*terms);
                    }
                    if let Some(request) = request {
                        task.input = request;
                    }
                    if let Some(name) = given {
                        (task.kind, task.name) = (name.clone(), name);
                    }
                    let simple = task.terms.as_ref().is_none_or(|terms| terms.kind == ErrandKind::Simple);
                    task.status = if simple { "SCHEDULED" } else { "IN_PROGRESS" };
                    if !simple {
                        task.started_at = Some(*at);
                    }
                }
            }
            Event::ErrandAnswered { step, attempt, at, end, seen, output } => {
                let output = output.as_ref().map(|output| public(output.json()));
                if let Some(task) = self.attempt(step, *attempt, *at) {
                    task.worker = seen.worker.clone().or(task.worker.take());
                    task.polls = seen.polls;
                    task.started_at = seen.taken_at.or(task.started_at);
                    if let Some(output) = output {
                        task.output = output;
                    }
                    task.end(errand_status(*end), *at);
                }
            }
            Event::ChildStarted { step, run } => {
                if let Some(task) = self.entry(step, at) {
                    task.child = Some(*run);
                    let name = if task.kind == "START_WORKFLOW" { "workflowId" } else { "subWorkflowId" };
                    task.output = json!({ name: run.to_string() });
                    task.status = "IN_PROGRESS";
                    task.started_at.get_or_insert(at);
                }
            }
            Event::GroupAnswered { step, output: Some(output), .. } if step.iteration_number().is_none() => {
                let output = public(output.json());
                if let Some(task) = self.entry(step, at) {
                    task.output = output;
                }
            }
            Event::StepEnded { step, .. } if step.iteration_number().is_some() => {
                if let (Some(round), Some(around)) = (step.iteration_number(), step.parent()) {
                    self.rounds.insert(around, round + 1);
                }
            }
            Event::StepEnded { step, outcome, at, tolerated, output, failure } => {
                let output = output.as_ref().map(|output| public(output.json()));
                self.ended(step, (*outcome, *tolerated, failure.as_ref()), output, *at);
                if *outcome == StepOutcome::Skipped {
                    // A jump leaves what was under way inside.
                    let inside =
                        |task: &&mut TaskStory| task.is_open() && task.step.is_under(step) && task.step != *step;
                    self.tasks.iter_mut().filter(inside).for_each(|task| task.end("CANCELED", *at));
                }
            }
            Event::Restarted { at, .. } => {
                self.retried_at = Some(*at);
                self.go_on(*at);
            }
            Event::Replayed { back: Some(back), at, .. } => {
                self.retried_at = Some(*at);
                self.tasks.retain(|task| back.keeps(&self.flow.index, &task.step));
                self.newest = self.tasks.iter().enumerate().map(|(at, task)| (task.step.clone(), at)).collect();
                self.go_on(*at);
            }
            Event::Replayed { from, .. } => {
                let kept: Vec<StepKey> =
                    self.flow.index.flow.tasks.iter().take(*from as usize).map(|t| StepKey(t.id.clone())).collect();
                self.tasks.retain(|task| kept.iter().any(|top| task.step.is_under(top)));
                self.newest = self.tasks.iter().enumerate().map(|(at, task)| (task.step.clone(), at)).collect();
            }
            Event::Ended { .. } => {
                for task in self.tasks.iter_mut().filter(|task| task.is_open()) {
                    task.end("CANCELED", at);
                }
            }
            _ => {}
        }
    }

    fn ended(
        &mut self,
        step: &StepKey,
        (outcome, tolerated, failure): (StepOutcome, bool, Option<&Failure>),
        output: Option<Json>,
        at: Millis,
    ) {
        let gathered = self.gathered(step);
        let Some(task) = self.entry(step, at) else { return };
        if is_passed_at_once(task) && task.ended_at.is_some() {
            return; // what went wrong inside it is told of there
        }
        if let Some(output) = output.or(gathered) {
            task.output = output;
        }
        if let Some(failure) = failure {
            task.reason = Some(failure.message().to_owned());
        }
        let told = task.ended_at.is_some();
        let status = match outcome {
            StepOutcome::Failed if told && !tolerated => task.status,
            outcome => task_status(outcome, tolerated, failure.map(|failure| failure.code.as_str())),
        };
        let ended_at = task.ended_at.unwrap_or(at);
        task.end(status, ended_at);
    }

    /// What had failed or was withdrawn is tried once more; what only holds tasks goes on.
    fn go_on(&mut self, at: Millis) {
        let again: Vec<(StepKey, bool)> = self
            .newest
            .iter()
            .filter(|(_, place)| self.tasks.get(**place).is_some_and(|task| is_unsuccessful(task.status)))
            .map(|(step, _)| {
                // One without a step is a JOIN that was shown before its time.
                let work = self.state.steps.get(step).map(|step| &step.work);
                (step.clone(), matches!(work, Some(Work::Evaluating | Work::Child { .. })))
            })
            .collect();
        for (step, anew) in again {
            let Some(known) = self.newest_of(&step) else { continue };
            if anew {
                let attempt = known.retry_count + 2;
                self.attempt(&step, attempt, at);
            } else if let Some(task) = self.newest.get(&step).and_then(|place| self.tasks.get_mut(*place)) {
                (task.status, task.ended_at, task.reason, task.updated_at) = ("IN_PROGRESS", None, None, at);
            }
        }
    }

    /// What the rounds of a DO_WHILE have left.
    fn gathered(&self, step: &StepKey) -> Option<Json> {
        let task = self.flow.index.task(step.task_id())?;
        let own = task.conductor.as_ref().filter(|_| matches!(task.kind, TaskKind::LoopUntil(_)))?;
        let note = self.memory.notes.get(&own.reference).filter(|note| note.step == *step)?;
        Some(note.output.to_masked_json())
    }

    fn begin(&mut self, step: &StepKey, at: Millis) {
        let Some(mut task) = self.make(step, at) else { return };
        if let Some(known) = self.newest_of(step) {
            if known.is_open() {
                return; // a JOIN that was shown before its time
            }
            task.retry_count = known.retry_count + 1;
            task.id = errand_id(task.step_id, task.retry_count + 1);
            task.retried_id = Some(known.id);
        }
        let join = self.joins.get(task.plain_reference()).cloned();
        let is_partial = self.flow.index.task(step.task_id()).is_some_and(|t| matches!(t.kind, TaskKind::Dag { .. }));
        self.push(task);
        if let (Some(join), Some(parent)) = (join, step.parent()) {
            let name = semel_core::ir::step_name(&join);
            let key = match is_partial {
                true => step.child(&companion(step.task_id(), "rest")).child(&name),
                false => parent.child(&name),
            };
            if let Some(mut shown) = self.make(&key, at).filter(|_| !self.newest.contains_key(&key)) {
                shown.status = "IN_PROGRESS";
                self.push(shown);
                self.shown_early.push((step.clone(), key));
            }
        }
    }

    fn push(&mut self, task: TaskStory) {
        if let Some(before) = self.newest.get(&task.step).and_then(|at| self.tasks.get_mut(*at)) {
            before.retried = true;
        }
        self.newest.insert(task.step.clone(), self.tasks.len());
        self.tasks.push(task);
    }

    fn newest_of(&self, step: &StepKey) -> Option<&TaskStory> {
        self.newest.get(step).and_then(|at| self.tasks.get(*at))
    }

    /// The newest attempt at a step; one that has begun without a word is made.
    fn entry(&mut self, step: &StepKey, at: Millis) -> Option<&mut TaskStory> {
        // A round of a loop is no task: those in it are.
        if !self.newest.contains_key(step) && step.iteration_number().is_none() {
            self.begin(step, at);
        }
        let place = *self.newest.get(step)?;
        self.tasks.get_mut(place)
    }

    /// The attempt of this number, from 1.
    fn attempt(&mut self, step: &StepKey, attempt: u32, at: Millis) -> Option<&mut TaskStory> {
        let known = self.entry(step, at)?;
        if known.retry_count + 1 < attempt {
            let id = errand_id(known.step_id, attempt);
            let next = TaskStory {
                id,
                input: renamed(&known.input, &[known.id], id),
                status: "SCHEDULED",
                retry_count: attempt - 1,
                retried: false,
                retried_id: Some(known.id),
                output: json!({}),
                reason: None,
                scheduled_at: at,
                started_at: None,
                updated_at: at,
                ended_at: None,
                worker: None,
                polls: 0,
                child: None,
                callback_after_s: 0,
                ..known.clone()
            };
            self.push(next);
        }
        self.entry(step, at)
    }

    fn make(&self, step: &StepKey, at: Millis) -> Option<TaskStory> {
        let task = self.flow.index.task(step.task_id())?;
        let own = task.conductor.as_deref()?;
        let (row, _, _) = self.whole;
        let run = RunScope {
            id: row.id,
            original: row.original(),
            correlation_id: &row.correlation_id,
            created_at: row.created_at,
            state: &self.state,
            step: Some(step),
        };
        let (services, workspace) = (&**self.engine.services(), self.workspace);
        let scope = ExprScope { services, workspace, flow: self.flow, memory: &self.memory, run: Some(run), now: at };
        let text = |template: &str| {
            let value = render_text(template, &scope, &mut Default::default()).unwrap_or(Value::Null);
            print(&value)
        };
        let input = match &own.input {
            Json::Null => json!({}),
            tree => {
                render_tree(tree, &scope, &mut Default::default()).map_or(Json::Null, |value| value.to_masked_json())
            }
        };
        let rounds = step.iterations();
        let is_round = |(key, _): &&(StepKey, u32)| {
            let around = self.flow.index.task(key.task_id());
            around.is_some_and(|around| matches!(around.kind, TaskKind::LoopUntil(_)))
        };
        let iteration = rounds.iter().rev().find(is_round).map_or(0, |(_, n)| n + 1);
        let plain = text(&own.reference);
        let type_word = task.type_name.strip_prefix("conductor.").unwrap_or(&task.type_name).to_owned();
        let name = text(shown_name(task, own));
        let kind = match type_word.as_str() {
            "SIMPLE" | "DYNAMIC" => name.clone(),
            "FORK_JOIN" | "FORK_JOIN_DYNAMIC" => "FORK".to_owned(),
            word => word.to_owned(),
        };
        let step_id = self.state.step_id(step);
        Some(TaskStory {
            id: errand_id(step_id, 1),
            step_id,
            step: step.clone(),
            reference: if iteration > 0 { format!("{plain}__{iteration}") } else { plain },
            name,
            kind,
            type_word,
            status: "SCHEDULED",
            retry_count: 0,
            retried: false,
            retried_id: None,
            iteration,
            input,
            output: Json::Object(Map::new()),
            reason: None,
            scheduled_at: at,
            started_at: None,
            updated_at: at,
            ended_at: None,
            worker: None,
            polls: 0,
            child: None,
            terms: None,
            callback_after_s: 0,
        })
    }

    /// Who has what is out.
    fn look_at_errands(&mut self) -> Result<(), StoreError> {
        let out = |task: &TaskStory| task.terms.is_some() && task.is_open();
        if !self.tasks.iter().any(out) {
            // Nothing else is in progress without a word: what has begun goes on.
            self.tasks.iter_mut().filter(|task| task.is_open() && task.status == "SCHEDULED").for_each(begun);
            return Ok(());
        }
        let rows: BTreeMap<Hash16, ErrandRow> = self
            .engine
            .store()
            .errands_of(self.workspace, self.whole.0.id)?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        for task in self.tasks.iter_mut().filter(|task| task.is_open()) {
            match rows.get(&task.id).filter(|row| row.open) {
                Some(row) => with_row(task, row),
                None if task.terms.is_none() && task.status == "SCHEDULED" => begun(task),
                None => {}
            }
        }
        Ok(())
    }
}

/// What is not waited for by anybody outside is under way, unless it waits for another attempt.
fn begun(task: &mut TaskStory) {
    if task.retry_count == 0 {
        task.status = "IN_PROGRESS";
        task.started_at.get_or_insert(task.scheduled_at);
    }
}

fn with_row(task: &mut TaskStory, row: &ErrandRow) {
    let more = &row.more;
    task.worker = more.seen.worker.clone().or(task.worker.take());
    task.polls = more.seen.polls;
    task.started_at = more.seen.taken_at.or(task.started_at);
    if row.taken {
        task.status = "IN_PROGRESS";
    }
    if let Some(progress) = &more.progress {
        task.output = public(progress);
    }
    task.callback_after_s = (row.free_at.since(more.set_at) / 1_000).max(0);
}

/// Whether a step is part of a round that its loop does not keep: `keepLastN` drops the tasks of older rounds.
fn is_dropped(step: &StepKey, flow: &LoadedFlow, rounds: &BTreeMap<StepKey, u32>) -> bool {
    step.iterations().iter().any(|(around, round)| {
        let keeps = match flow.index.task(around.task_id()).map(|task| &task.kind) {
            Some(TaskKind::LoopUntil(spec)) => spec.do_while.as_ref().and_then(|own| own.keep_last),
            _ => None,
        };
        let ended = rounds.get(around).copied().unwrap_or(0);
        keeps.is_some_and(|keeps| round + keeps < ended)
    })
}

/// A request with the name of this attempt where that of an earlier one stands: it is computed once for all of them.
pub fn renamed(request: &Json, earlier: &[Hash16], own: Hash16) -> Json {
    match request {
        Json::String(text) => {
            let named = |text: String, id: &Hash16| text.replace(&id.uuid().to_string(), &own.uuid().to_string());
            Json::String(earlier.iter().fold(text.clone(), named))
        }
        Json::Array(items) => items.iter().map(|item| renamed(item, earlier, own)).collect(),
        Json::Object(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), renamed(value, earlier, own))).collect())
        }
        other => other.clone(),
    }
}

/// The template of the name that a task shows: a DYNAMIC has that which it runs as.
pub(super) fn shown_name<'a>(task: &'a Task, own: &'a ConductorTask) -> &'a str {
    match &task.kind {
        TaskKind::Leaf { config, .. } if task.type_name == DYNAMIC => config["queue"].as_str().unwrap_or(&own.name),
        _ => &own.name,
    }
}

/// Conductor passes by what only chooses or forks.
fn is_passed_at_once(task: &TaskStory) -> bool {
    matches!(task.type_word.as_str(), "SWITCH" | "DECISION" | "FORK_JOIN" | "FORK_JOIN_DYNAMIC")
}

fn errand_status(end: ErrandEnd) -> &'static str {
    match end {
        ErrandEnd::Done => "COMPLETED",
        ErrandEnd::Failed => "FAILED",
        ErrandEnd::FailedForGood => "FAILED_WITH_TERMINAL_ERROR",
        ErrandEnd::TimedOut => "TIMED_OUT",
        ErrandEnd::Withdrawn => "CANCELED",
    }
}

fn failed_status(failure: &Failure) -> &'static str {
    task_status(StepOutcome::Failed, false, Some(&failure.code))
}

/// A stored value as people see it.
fn public(stored: &Json) -> Json {
    match Value::from_stored(stored) {
        Value::Null => Json::Object(Map::new()),
        value => value.to_masked_json(),
    }
}

fn is_unsuccessful(status: &str) -> bool {
    matches!(status, "FAILED" | "FAILED_WITH_TERMINAL_ERROR" | "TIMED_OUT" | "CANCELED")
}
