//! A small world: the memory store, the driver, a clock that only moves when told, and an outside
//! that counts every call it gets.

use crate::admit::prepare;
use crate::api::{AdmitError, Control, ControlError, Occurrence};
use crate::driver::{Born, Driver, Happened, Out};
use crate::flows::Flows;
use crate::ports::Entropy;
use crate::scope::Services;
use crate::secrets::{MasterKey, Secrets};
use parking_lot::Mutex;
use semel_core::admission::PresetName;
use semel_core::ir::Flow;
use semel_core::limits::Limits;
use semel_core::run::{By, Status};
use semel_core::{Door, Millis, RunId, WorkspaceId};
use semel_expr::Value;
use semel_store::memory::MemoryStore;
use semel_store::{AdmitResult, Done, FlowRow, PushRule, Reads, RunQuery, RunRow, Store, Work};
use semel_tasks::{Outcome, Request};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ids and numbers that only count.
pub struct Counting(pub AtomicU64);

impl Entropy for Counting {
    fn run_id(&self, now: Millis) -> RunId {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        let mut bytes = [0u8; 10];
        bytes[2..].copy_from_slice(&n.to_be_bytes());
        RunId(uuid::Builder::from_unix_timestamp_millis(now.0 as u64, &bytes).into_uuid())
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What the outside saw of one call.
#[derive(Clone, Debug)]
pub struct Call {
    pub uri: String,
    pub key: Option<String>,
    pub config: Json,
}

/// Where the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    BeforeCommit,
    AfterCommit,
    BeforeEffect,
    AfterEffect,
}

pub type Answer = Box<dyn Fn(&Request, usize) -> Outcome>;

pub struct World {
    pub clock: Arc<Mutex<Millis>>,
    pub store: Arc<MemoryStore>,
    pub services: Arc<Services>,
    pub flows: Arc<Flows>,
    pub driver: Driver,
    pub workspace: WorkspaceId,
    pub calls: Vec<Call>,
    pub answer: Answer,
    pub answers: BTreeMap<u64, Result<(), ControlError>>,
    queue: VecDeque<Happened>,
    /// Counts boundaries; dies at the chosen one.
    pub boundary: usize,
    pub die_at: Option<(usize, Death)>,
    /// The second death, after the first.
    pub then_at: Option<(usize, Death)>,
    pub deaths: usize,
    tickets: u64,
}

pub fn ok(output: Json) -> Outcome {
    Outcome::Done { output }
}

impl World {
    pub fn new() -> World {
        let clock = Arc::new(Mutex::new(Millis(1_700_000_000_000)));
        let reading = clock.clone();
        let store = MemoryStore::new(Arc::new(move || *reading.lock()));
        let entropy: Arc<dyn Entropy> = Arc::new(Counting(AtomicU64::new(1)));
        let dynamic: Arc<dyn Store> = store.clone();
        let secrets = Secrets::new(
            dynamic.clone(),
            Some(MasterKey::new([7; 32])),
            [("SECRET_TOKEN".to_owned(), "c2VjcmV0LWNhbmFyeQ==".to_owned())],
            entropy.clone(),
        );
        let services = Arc::new(Services {
            store: dynamic.clone(),
            secrets,
            entropy,
            envs: Value::map(Default::default()),
            url: None,
            polls: Default::default(),
            tasks: Default::default(),
        });
        let flows = Arc::new(Flows::new(dynamic));
        let driver = Driver::new(services.clone(), flows.clone(), Limits::default());
        World {
            clock,
            store,
            services,
            flows,
            driver,
            workspace: WorkspaceId::default(),
            calls: vec![],
            answer: Box::new(|_, _| ok(json!({"code": 200, "body": "ok"}))),
            answers: BTreeMap::new(),
            queue: VecDeque::new(),
            boundary: 0,
            die_at: None,
            then_at: None,
            deaths: 0,
            tickets: 0,
        }
    }

    pub fn push(&self, source: &str) {
        let compiled = match semel_flow::compile(source, &semel_tasks::REGISTRY, &Limits::default()) {
            Ok(compiled) => compiled,
            Err(errors) => panic!("{}", semel_flow::render(&errors, "flow.yaml", source, false)),
        };
        self.put(&compiled.flow, source);
    }

    /// The id of the flow of a Conductor definition.
    pub fn push_workflow(&self, definition: &Json) -> String {
        let compiled = semel_flow::conductor::compile(definition, &Limits::default())
            .unwrap_or_else(|violations| panic!("{violations:#?}"));
        for flow in std::iter::once(&compiled.flow).chain(&compiled.inner) {
            self.put(flow, &definition.to_string());
        }
        compiled.flow.id
    }

    fn put(&self, flow: &Flow, source: &str) {
        let row = FlowRow {
            workspace: self.workspace.clone(),
            flow: flow.flow_ref(),
            revision: 0,
            source: source.to_owned(),
            ir: serde_json::to_string(flow).unwrap(),
            disabled: false,
            deleted: false,
            created_at: Millis(0),
            created_by: "test".into(),
        };
        self.store.call(Work::PutFlow { row: Box::new(row), schedules: vec![], rule: PushRule::Any }).unwrap();
        self.flows.forget(&self.workspace, &flow.flow_ref());
    }

    pub fn occurrence(&self, flow: &str, key: Option<&str>, inputs: Json) -> Occurrence {
        Occurrence {
            workspace: self.workspace.clone(),
            flow: self.flows.resolve(&self.workspace, flow).unwrap(),
            door: Door::Trigger,
            caller: "test".into(),
            caller_key: key.map(str::to_owned),
            intrinsic_key: None,
            door_preset: PresetName::Trigger,
            request_preset: None,
            scope: None,
            trigger: json!({"data": inputs}).into(),
            inputs,
            trigger_id: None,
            labels: vec![],
            correlation_id: None,
            run: None,
            start_at: None,
            breakpoints: vec![],
        }
    }

    pub fn try_admit(&mut self, occurrence: Occurrence) -> Result<AdmitResult, AdmitError> {
        let now = self.store.now();
        let request = prepare(&self.services, occurrence, None, None, now)?;
        let Done::Admitted(result) = self.store.call(Work::Admit(Box::new(request.clone())))? else {
            panic!("not an admission")
        };
        self.checked();
        for run in &result.fenced {
            self.queue.push_back(Happened::Fenced(*run));
        }
        for run in &result.wake {
            self.queue.push_back(Happened::Wake { workspace: self.workspace.clone(), run: *run });
        }
        if let Some(row) = result.born() {
            let born =
                Born { row: row.clone(), inputs: request.inputs, trigger: request.trigger, labels: request.labels };
            self.queue.push_back(Happened::Born(Box::new(born)));
        }
        Ok(*result)
    }

    pub fn admit(&mut self, flow: &str, key: Option<&str>, inputs: Json) -> AdmitResult {
        let occurrence = self.occurrence(flow, key, inputs);
        self.try_admit(occurrence).unwrap()
    }

    pub fn control(&mut self, run: RunId, control: Control) -> Result<(), ControlError> {
        self.tickets += 1;
        let ticket = self.tickets;
        let by = By { who: "tester".into(), why: "because".into() };
        self.queue.push_back(Happened::Control { workspace: self.workspace.clone(), run, control, by, ticket });
        self.drain();
        self.answers.remove(&ticket).expect("every control is answered")
    }

    /// Asks for something before anything else that waits; the answer comes with the draining.
    pub fn interrupt(&mut self, run: RunId, control: Control) -> u64 {
        self.tickets += 1;
        let by = By { who: "tester".into(), why: "because".into() };
        let happened = Happened::Control { workspace: self.workspace.clone(), run, control, by, ticket: self.tickets };
        self.queue.push_front(happened);
        self.tickets
    }

    pub fn happen(&mut self, happened: Happened) {
        self.queue.push_back(happened);
    }

    /// A timer row was read as due, and is handed over now.
    pub fn timer(&mut self, run: RunId, timer: u64) {
        self.queue.push_back(Happened::Timer { workspace: self.workspace.clone(), run, timer });
    }

    /// What waits happens in the opposite order.
    pub fn reverse(&mut self) {
        self.queue.make_contiguous().reverse();
    }

    /// Lets `n` things happen.
    pub fn step(&mut self, n: usize) {
        for _ in 0..n {
            let Some(happened) = self.queue.pop_front() else { return };
            let now = self.store.now();
            for out in self.driver.on(now, happened) {
                if self.carry_out(out) {
                    self.restart();
                    break;
                }
            }
        }
    }

    /// Works until nothing happens without time passing.
    pub fn drain(&mut self) {
        while let Some(happened) = self.queue.pop_front() {
            let now = self.store.now();
            for out in self.driver.on(now, happened) {
                if self.carry_out(out) {
                    self.restart();
                    break;
                }
            }
        }
    }

    /// True when the process died.
    fn carry_out(&mut self, out: Out) -> bool {
        match out {
            Out::Commit { no, commit } | Out::CommitLater { no, commit } => {
                if self.dies(Death::BeforeCommit) {
                    return true;
                }
                let (workspace, run) = (commit.workspace.clone(), commit.run);
                let answer = self.store.call(Work::Commit(commit));
                self.checked();
                if self.dies(Death::AfterCommit) {
                    return true;
                }
                self.boundary += 1;
                self.queue.push_back(Happened::Committed { workspace, run, no, answer });
            }
            Out::Perform { run, step, send, request } => {
                if self.dies(Death::BeforeEffect) {
                    return true;
                }
                let uri = request.config["uri"].as_str().unwrap_or_default().to_owned();
                let before = self.calls.iter().filter(|c| c.uri == uri).count();
                self.calls.push(Call { uri, key: request.idempotency_key.clone(), config: request.config.clone() });
                let outcome = (self.answer)(&request, before);
                if self.dies(Death::AfterEffect) {
                    return true;
                }
                self.boundary += 1;
                self.queue.push_back(Happened::Performed { run, step, send, outcome });
            }
            Out::Read { run, place, key, request } => {
                let uri = request.config["uri"].as_str().unwrap_or_default().to_owned();
                let before = self.calls.iter().filter(|call| call.uri == uri).count();
                self.calls.push(Call { uri, key: None, config: request.config.clone() });
                let outcome = (self.answer)(&request, before);
                self.queue.push_back(Happened::Read { run, place, key, outcome });
            }
            Out::Answer { ticket, answer } => {
                self.answers.insert(ticket, answer);
            }
            Out::Again(happened) => self.queue.push_back(*happened),
            Out::Wake { workspace, run } => self.queue.push_back(Happened::Wake { workspace, run }),
            Out::Fenced(run) => self.queue.push_back(Happened::Fenced(run)),
            Out::Changed(_) | Out::TimerAt(_) | Out::Errands { .. } => {}
            Out::Nudge { .. } | Out::AskElsewhere { .. } => panic!("there is no other node"),
        }
        false
    }

    fn dies(&mut self, death: Death) -> bool {
        if self.die_at == Some((self.boundary, death)) {
            self.die_at = self.then_at.take();
            self.deaths += 1;
            return true;
        }
        false
    }

    /// The process dies and starts again on the same store.
    pub fn restart(&mut self) {
        self.queue.clear();
        self.driver = Driver::new(self.services.clone(), self.flows.clone(), Limits::default());
        for (workspace, run) in self.store.active_runs(None, 1_000).unwrap() {
            self.queue.push_back(Happened::Recover { workspace, run });
        }
    }

    /// Works on, letting time pass from timer to timer, until nothing is left to do.
    pub fn run_down(&mut self) {
        for _ in 0..10_000 {
            self.drain();
            let Some(due) = self.store.next_timer().unwrap() else { return };
            {
                let mut now = self.clock.lock();
                *now = (*now).max(due);
            }
            let now = self.store.now();
            for row in self.store.due_timers(now, 100).unwrap() {
                self.queue.push_back(Happened::Timer { workspace: row.workspace, run: row.run, timer: row.timer });
            }
        }
        panic!("the world does not come to rest");
    }

    pub fn pass(&self, ms: i64) {
        let mut now = self.clock.lock();
        *now = now.plus(ms);
    }

    /// The store obeys its rules after every write, whatever dies next.
    pub fn checked(&self) {
        let report = semel_store::check::check(&*self.store, &Default::default()).unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
    }

    /// Rows of one table.
    pub fn rows(&self, table: &str) -> Vec<Json> {
        self.store.dump().unwrap()[table].as_array().cloned().unwrap_or_else(|| panic!("no table `{table}`"))
    }

    pub fn row(&self, run: RunId) -> RunRow {
        self.store.run(&self.workspace, run).unwrap().expect("the run exists").0
    }

    pub fn status(&self, run: RunId) -> Status {
        self.row(run).status
    }

    pub fn outputs(&self, run: RunId) -> Json {
        self.store.run(&self.workspace, run).unwrap().unwrap().1.outputs.unwrap_or(Json::Null)
    }

    pub fn failure(&self, run: RunId) -> Json {
        self.store.run(&self.workspace, run).unwrap().unwrap().1.failure.unwrap_or(Json::Null)
    }

    pub fn runs(&self) -> Vec<RunRow> {
        let query = RunQuery { limit: 500, ..RunQuery::default() };
        self.store.runs(&self.workspace, &query).unwrap().into_iter().map(|(row, _, _)| row).collect()
    }

    pub fn logs(&self, run: RunId) -> Vec<String> {
        self.store.logs(&self.workspace, run, 0, 1_000).unwrap().into_iter().map(|l| l.message).collect()
    }

    pub fn calls_to(&self, uri: &str) -> usize {
        self.calls.iter().filter(|c| c.uri.ends_with(uri)).count()
    }
}
