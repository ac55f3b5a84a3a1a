//! A workflow tried out: the real driver on a store of its own, which is thrown away, with answers that were thought out.
//!
//! Nothing is stored and nothing leaves: a task that somebody outside would do, or that would call out, gets the next
//! answer that was given for its name; without one the rehearsal ends there. What only computes is computed. Time passes
//! by itself: from one timer to the next, without anybody waiting for it.

use crate::admit::prepare;
use crate::api::{AdmitError, Control, ErrandAnswer, FlowLookupError, Occurrence};
use crate::conductor::WorkflowStory;
use crate::driver::{Born, Driver, Happened, Out};
use crate::flows::LoadedFlow;
use crate::handle::{Engine, Parts};
use crate::ports::{Aside, Clock, Errand};
use parking_lot::Mutex;
use semel_core::admission::PresetName;
use semel_core::ir::{CONDUCTOR_NAMESPACE, EffectClass, ErrandKind, Flow, TaskKind};
use semel_core::run::{By, FlowIndex, Seen, StepKey};
use semel_core::{Door, FlowRef, Millis, RunId, WorkspaceId};
use semel_store::memory::MemoryStore;
use semel_store::{Done, FlowRow, KvRow, PushRule, Reads, Store, StoreError, TASK_DEFINITIONS, Work};
use semel_tasks::{Outcome, Request, effect_class};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Things that may happen in one rehearsal, and rounds in which answers are given.
const STEPS_MAX: usize = 100_000;
const ROUNDS_MAX: usize = 2_000;
const PAGE: u32 = 500;

/// What a task is to come to.
#[derive(Clone, Debug)]
pub struct Mock {
    pub end: ErrandAnswer,
}

/// Answers by the reference name of a task, each for one attempt; and those of the workflows that tasks start.
#[derive(Clone, Debug, Default)]
pub struct Mocks {
    pub answers: BTreeMap<String, VecDeque<Mock>>,
    pub below: BTreeMap<String, Mocks>,
}

/// What is tried out: a definition that is stored, or one that came with the request, with those inside of it.
pub struct Rehearsal {
    pub flows: Vec<Flow>,
    pub source: String,
    pub input: Json,
    pub words: Json,
    pub correlation_id: Option<String>,
    pub mocks: Mocks,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error(transparent)]
    Admit(#[from] AdmitError),
    #[error(transparent)]
    Flow(#[from] FlowLookupError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the workflow does not come to an end within {STEPS_MAX} steps; it may be in an endless loop")]
    TooLong,
}

/// Moved by the rehearsal alone.
#[derive(Clone)]
struct Virtual(Arc<Mutex<Millis>>);

impl Clock for Virtual {
    fn now(&self) -> Millis {
        *self.0.lock()
    }
}

/// Nothing runs beside a rehearsal.
struct Nobody;

impl Aside for Nobody {
    fn run(&self, _: Errand) {}

    fn sleep(&self, _: Duration) -> Errand {
        Box::pin(std::future::pending())
    }
}

struct Stage {
    engine: Arc<Engine>,
    driver: Driver,
    clock: Virtual,
    store: Arc<MemoryStore>,
    workspace: WorkspaceId,
    queue: VecDeque<Happened>,
    /// Whose tasks are answered by what.
    casts: BTreeMap<RunId, Mocks>,
    /// Requests that nobody has answered yet.
    open: Vec<(RunId, StepKey, u32)>,
    scripts: VecDeque<(RunId, StepKey, u32, Box<Request>)>,
    steps: usize,
    tickets: u64,
}

impl Engine {
    /// The workflow as it is when it has ended or nobody has an answer any more.
    pub async fn rehearse(
        &self,
        workspace: &WorkspaceId,
        rehearsal: Rehearsal,
    ) -> Result<Option<WorkflowStory>, RehearsalError> {
        let mut stage = self.stage(workspace)?;
        let Rehearsal { flows, source, input, words, correlation_id, mocks } = rehearsal;
        let Some(first) = flows.first().map(Flow::flow_ref) else { return Ok(None) };
        self.copy_needed(&stage, &flows)?;
        for flow in &flows {
            stage.put(flow, &source)?;
        }
        let run = stage.begin(&first, input, words, correlation_id)?;
        stage.casts.insert(run, mocks);
        stage.play(self, run).await?;
        Ok(stage.engine.story(workspace, run)?)
    }

    fn stage(&self, workspace: &WorkspaceId) -> Result<Stage, StoreError> {
        let clock = Virtual(Arc::new(Mutex::new(self.store().now())));
        let reading = clock.clone();
        let store = MemoryStore::new(Arc::new(move || reading.now()));
        let parts = Parts {
            store: store.clone(),
            clock: Arc::new(clock.clone()),
            entropy: self.services.entropy.clone(),
            performer: self.performer().clone(),
            catalog: self.catalog,
            limits: self.limits().clone(),
            master_key: None,
            environment: Vec::new(),
            url: None,
        };
        let (engine, _) = Engine::build(parts, Arc::new(Nobody));
        let driver = Driver::new(engine.services.clone(), engine.flows.clone(), self.limits().clone());
        Ok(Stage {
            engine,
            driver,
            clock,
            store,
            workspace: workspace.clone(),
            queue: VecDeque::new(),
            casts: BTreeMap::new(),
            open: Vec::new(),
            scripts: VecDeque::new(),
            steps: 0,
            tickets: 0,
        })
    }

    /// Definitions of tasks, and of the workflows that may be started.
    fn copy_needed(&self, stage: &Stage, flows: &[Flow]) -> Result<(), StoreError> {
        let mut after: Option<String> = None;
        loop {
            let page = self.store().kv_list(&stage.workspace, TASK_DEFINITIONS, after.as_deref(), PAGE)?;
            for row in &page {
                stage.define(row)?;
            }
            after = page.last().map(|row| row.key.clone());
            if page.len() < PAGE as usize {
                break;
            }
        }
        let mut seen = BTreeSet::new();
        let mut open: Vec<String> = flows.iter().flat_map(started_by).collect();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for row in self.versions(&stage.workspace, &name)? {
                if let Ok(flow) = serde_json::from_str::<Flow>(&row.ir) {
                    open.extend(started_by(&flow));
                }
                stage.put_row(row)?;
            }
        }
        Ok(())
    }

    fn versions(&self, workspace: &WorkspaceId, name: &str) -> Result<Vec<FlowRow>, StoreError> {
        let prefix = format!("{name}@");
        let (mut found, mut after) = (Vec::new(), FlowRef::new(CONDUCTOR_NAMESPACE, &prefix));
        loop {
            let page = self.store().flows(workspace, Some(&after), PAGE)?;
            let (count, last) = (page.len(), page.last().map(|row| row.flow.clone()));
            let own = |row: &FlowRow| row.flow.namespace == CONDUCTOR_NAMESPACE && row.flow.id.starts_with(&prefix);
            let more = page.last().is_some_and(own);
            found.extend(page.into_iter().filter(own));
            match last {
                Some(last) if more && count == PAGE as usize => after = last,
                _ => return Ok(found),
            }
        }
    }
}

/// Names of workflows that a flow starts, where they are written out.
fn started_by(flow: &Flow) -> Vec<String> {
    let index = FlowIndex::new(flow.clone());
    let names = index.tasks().filter_map(|task| match &task.kind {
        TaskKind::Subflow(spec) => Some(spec.flow_id.replace("$${", "${")),
        _ => None,
    });
    names.filter(|name| !name.contains("${")).collect()
}

impl Stage {
    fn put(&self, flow: &Flow, source: &str) -> Result<(), StoreError> {
        self.put_row(FlowRow {
            workspace: self.workspace.clone(),
            flow: flow.flow_ref(),
            revision: 0,
            source: source.to_owned(),
            ir: serde_json::to_string(flow).map_err(|error| StoreError::Bug(error.to_string()))?,
            disabled: false,
            deleted: false,
            created_at: self.clock.now(),
            created_by: "rehearsal".to_owned(),
        })
    }

    fn put_row(&self, row: FlowRow) -> Result<(), StoreError> {
        let work = Work::PutFlow { row: Box::new(row), schedules: Vec::new(), rule: PushRule::Any };
        self.store.call(work).map(|_| ())
    }

    fn define(&self, row: &KvRow) -> Result<(), StoreError> {
        let work = Work::KvSet {
            workspace: self.workspace.clone(),
            namespace: row.namespace.clone(),
            key: row.key.clone(),
            value: row.value.clone(),
            kv_type: row.kv_type.clone(),
            overwrite: true,
            ttl_ms: None,
        };
        self.store.call(work).map(|_| ())
    }

    fn begin(
        &mut self,
        flow: &FlowRef,
        inputs: Json,
        words: Json,
        correlation_id: Option<String>,
    ) -> Result<RunId, RehearsalError> {
        let flow: Arc<LoadedFlow> = self.engine.flow_head(&self.workspace, flow)?;
        let occurrence = Occurrence {
            workspace: self.workspace.clone(),
            flow,
            door: Door::Conductor,
            caller: "rehearsal".to_owned(),
            caller_key: None,
            intrinsic_key: None,
            door_preset: PresetName::ConductorFail,
            request_preset: None,
            scope: None,
            inputs,
            trigger: words.into(),
            trigger_id: None,
            labels: Vec::new(),
            correlation_id,
            run: None,
            start_at: None,
            breakpoints: Vec::new(),
        };
        let request = prepare(&self.engine.services, occurrence, None, None, self.clock.now())?;
        let Done::Admitted(result) = self.store.call(Work::Admit(Box::new(request.clone())))? else {
            return Err(StoreError::Bug("an admission was answered otherwise".to_owned()).into());
        };
        let row = result.run.clone().ok_or_else(|| StoreError::Bug("an admission without a run".to_owned()))?;
        if let Some(row) = result.born() {
            let born =
                Born { row: row.clone(), inputs: request.inputs, trigger: request.trigger, labels: request.labels };
            self.queue.push_back(Happened::Born(Box::new(born)));
        }
        Ok(row.id)
    }

    /// Until it has ended, or nobody knows what comes next.
    async fn play(&mut self, outside: &Engine, run: RunId) -> Result<(), RehearsalError> {
        for _ in 0..ROUNDS_MAX {
            self.drain()?;
            if let Some((run, step, send, request)) = self.scripts.pop_front() {
                let outcome = outside.performer().perform(*request).await;
                self.queue.push_back(Happened::Performed { run, step, send, outcome });
                continue;
            }
            let ended = self.store.run(&self.workspace, run)?.is_none_or(|(row, _, _)| row.status.is_ended());
            if ended || !(self.answer()? || self.let_time_pass()?) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), RehearsalError> {
        while let Some(happened) = self.queue.pop_front() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(RehearsalError::TooLong);
            }
            for out in self.driver.on(self.clock.now(), happened) {
                self.carry_out(out)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, out: Out) -> Result<(), StoreError> {
        match out {
            Out::Commit { no, commit } | Out::CommitLater { no, commit } => {
                let (workspace, run) = (commit.workspace.clone(), commit.run);
                let answer = self.store.call(Work::Commit(commit));
                self.queue.push_back(Happened::Committed { workspace, run, no, answer });
            }
            Out::Perform { run, step, send, request } if only_computes(&request) => {
                self.scripts.push_back((run, step, send, request));
            }
            Out::Perform { run, step, send, .. } => self.open.push((run, step, send)),
            Out::Read { run, place, key, .. } => {
                let message = "a rehearsal asks nobody outside".to_owned();
                let outcome = Outcome::FailedClean { code: "rehearsal", message, output: None, retryable: false };
                self.queue.push_back(Happened::Read { run, place, key, outcome });
            }
            Out::Again(happened) => self.queue.push_back(*happened),
            Out::Wake { workspace, run } => self.queue.push_back(Happened::Wake { workspace, run }),
            Out::Fenced(run) => self.queue.push_back(Happened::Fenced(run)),
            Out::Answer { .. }
            | Out::Changed(_)
            | Out::TimerAt(_)
            | Out::Errands { .. }
            | Out::Nudge { .. }
            | Out::AskElsewhere { .. } => {}
        }
        Ok(())
    }

    /// Gives the answers that there are for what waits; false if there are none.
    fn answer(&mut self) -> Result<bool, StoreError> {
        let mut given = false;
        let mut looked: VecDeque<RunId> = self.casts.keys().copied().collect();
        while let Some(run) = looked.pop_front() {
            let Some(story) = self.engine.story(&self.workspace, run)? else { continue };
            for task in story.tasks.iter().filter(|task| task.is_open()) {
                let plain = task.plain_reference().to_owned();
                if let Some(child) = task.child {
                    if !self.casts.contains_key(&child) {
                        let below = self.casts.get(&run).and_then(|cast| cast.below.get(&plain)).cloned();
                        self.casts.insert(child, below.unwrap_or_default());
                        looked.push_back(child);
                    }
                    continue;
                }
                let Some(cast) = self.casts.get_mut(&run) else { continue };
                let named = if cast.answers.contains_key(&task.reference) { &task.reference } else { &plain };
                let sent = self.open.iter().position(|(of, step, _)| *of == run && *step == task.step);
                if sent.is_none() && task.terms.is_none() {
                    continue;
                }
                let Some(mock) = cast.answers.get_mut(named).and_then(VecDeque::pop_front) else { continue };
                given = true;
                match sent {
                    Some(place) => {
                        let (run, step, send) = self.open.remove(place);
                        self.queue.push_back(Happened::Performed { run, step, send, outcome: outcome(mock) });
                    }
                    None => {
                        let (step, attempt) = (task.step.clone(), task.retry_count + 1);
                        let control = Control::Errand { step, attempt, end: mock.end, seen: Seen::default() };
                        self.tickets += 1;
                        let (workspace, ticket) = (self.workspace.clone(), self.tickets);
                        let by = By { who: "rehearsal".to_owned(), why: String::new() };
                        self.queue.push_back(Happened::Control { workspace, run, control, by, ticket });
                    }
                }
            }
        }
        Ok(given)
    }

    /// Moves the clock to what is due next; false if nothing is.
    fn let_time_pass(&mut self) -> Result<bool, StoreError> {
        let next = [self.store.next_timer()?, self.waits_until()?].into_iter().flatten().min();
        let Some(due) = next else { return Ok(false) };
        {
            let mut now = self.clock.0.lock();
            *now = (*now).max(due);
        }
        for row in self.store.due_timers(self.clock.now(), PAGE)? {
            self.queue.push_back(Happened::Timer { workspace: row.workspace, run: row.run, timer: row.timer });
        }
        if let Done::Wake(runs) = self.store.call(Work::TellLate { limit: PAGE })? {
            for (workspace, run) in runs {
                self.queue.push_back(Happened::Wake { workspace, run });
            }
        }
        Ok(!self.queue.is_empty())
    }

    /// When a wait is over. That nobody does a task in time is not played: nobody was asked.
    fn waits_until(&self) -> Result<Option<Millis>, StoreError> {
        let waits = self.store.errands(&self.workspace, ErrandKind::Wait, None, PAGE)?;
        Ok(waits.iter().filter_map(|row| row.due).min())
    }
}

/// A script: nothing leaves.
fn only_computes(request: &Request) -> bool {
    effect_class(&request.type_name, &request.config) == EffectClass::Pure
}

fn outcome(mock: Mock) -> Outcome {
    match mock.end {
        ErrandAnswer::Done { output } => Outcome::Done { output },
        ErrandAnswer::Failed { message, output, .. } => {
            Outcome::FailedClean { code: "mocked", message, output, retryable: true }
        }
        ErrandAnswer::Cancelled { message, output } => {
            Outcome::FailedClean { code: "mocked", message, output, retryable: false }
        }
    }
}
