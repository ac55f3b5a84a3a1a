//! The limit of the disk on this machine: the rows of a fresh run, written straight through the store.
//!
//! The rows are those of a run that the server has done: its admission, and the commit that ended it, written as the
//! server writes them. Callers are in a closed loop, as clients of the server are. On PostgreSQL the store itself is
//! left out too: the rows of its batches are made beforehand, put into its statements and sent, over as many connections
//! as it writes with.

use super::figure::Figure;
use super::place::Place;
use super::usage::{Meter, Used};
use crate::failure::Failure;
use semel_core::admission::{Decision, KeySource, claim_hash};
use semel_core::fingerprint::Fingerprint;
use semel_core::run::EndStatus;
use semel_core::{Millis, RunId, WorkspaceId};
use semel_store::{
    AdmitRequest, DecisionQuery, DecisionRow, Done, HeadChange, JournalRow, KeyClaim, LogRow, RunCommit, RunQuery,
    RunRow, RunValues, Settle, Store, Work,
};
use semel_store_postgres::raw::Scratch;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Runs under way at once while a store is filled.
const FILL_WINDOW: usize = 1_024;
/// Transactions on each connection whose rows are made at once, before they are sent.
const BATCHES_AHEAD: usize = 32;

/// A finished run to write again and again, and the store to write it to.
pub struct RawStore<'a> {
    place: &'a Place,
    store: Arc<dyn Store>,
    runs_before: u64,
    model: Model,
    prefix: String,
    next: u64,
    answers: Receiver<Instant>,
    tell: Sender<Instant>,
}

/// What the server wrote for one run.
struct Model {
    run: RunRow,
    values: RunValues,
    decision: DecisionRow,
    ending: JournalRow,
    logs: Vec<LogRow>,
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::refused("bench_failed", error.to_string())
}

impl RawStore<'_> {
    /// Opens the store that a server has used; `flow` has one finished run at least.
    pub fn open<'a>(place: &'a Place, namespace: &str, flow: &str, prefix: String) -> Result<RawStore<'a>, Failure> {
        let (store, runs_before) = place.open()?;
        let model = Model::read(store.as_ref(), namespace, flow)?;
        let (tell, answers) = channel();
        Ok(RawStore { place, store, runs_before, model, prefix, next: 0, answers, tell })
    }

    pub fn measure(&mut self, callers: usize, time: Duration) -> Result<Figure, Failure> {
        match self.place {
            Place::File(_) => self.measure_store(callers, time),
            Place::Database(scratch) => self.measure_database(scratch, callers, time),
        }
    }

    /// A closed loop of `callers` for `time`.
    fn measure_store(&mut self, callers: usize, time: Duration) -> Result<Figure, Failure> {
        let meter = Meter { processes: vec![std::process::id()], database: None };
        let (began, before) = (Instant::now(), meter.read());
        let took = self.go(callers, |_| began.elapsed() < time)?;
        Ok(Figure::new(took, began.elapsed()).used(meter.read().since(before)))
    }

    /// Batches of all that `callers` could have waiting, for `time`. The clock stands while rows are made.
    fn measure_database(&mut self, scratch: &Scratch, callers: usize, time: Duration) -> Result<Figure, Failure> {
        let connections = semel_store_postgres::Options::default().writers;
        let mut raw = scratch.raw(connections).map_err(broken)?;
        let meter = Meter { processes: vec![std::process::id()], database: self.place.database() };
        let batch = callers.div_ceil(connections);
        let mut figure = Figure::default();
        let mut flown = Duration::ZERO;
        while flown < time {
            let now = raw.now().map_err(broken)?;
            let mut work = || {
                let (request, ending) = self.next(now);
                Work::AdmitAndRun(Box::new((request, ending)))
            };
            let count = BATCHES_AHEAD * connections;
            let batches: Vec<Vec<Work>> = (0..count).map(|_| (0..batch).map(|_| work()).collect()).collect();
            let flight = raw.prepare(now, &batches).map_err(broken)?;
            let before: Used = meter.read();
            let landed = raw.fly(flight).map_err(broken)?;
            let used = meter.read().since(before);
            let each = landed.each.iter().map(|took| u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            let took = each.flat_map(|took| std::iter::repeat_n(took, batch)).collect();
            figure.add(Figure::new(took, landed.time).used(used));
            flown += landed.time;
        }
        Ok(figure)
    }

    /// The next run, from its admission to its end.
    fn next(&mut self, now: Millis) -> (AdmitRequest, RunCommit) {
        let request = self.model.request(format!("{}-{}", self.prefix, self.next), now);
        self.next += 1;
        let ending = self.model.ending(request.run);
        (request, ending)
    }

    pub fn fill(&mut self, runs: u64, progress: impl Fn(u64)) -> Result<(), Failure> {
        self.go(FILL_WINDOW, |begun| {
            if begun % 10_000 == 0 {
                progress(begun);
            }
            begun < runs
        })?;
        Ok(())
    }

    fn go(&mut self, callers: usize, more: impl Fn(u64) -> bool) -> Result<Vec<u32>, Failure> {
        let (mut begun, mut waiting, mut took) = (0, 0, Vec::new());
        loop {
            while waiting < callers && more(begun) {
                self.submit();
                begun += 1;
                waiting += 1;
            }
            if waiting == 0 {
                return Ok(took);
            }
            let sent = self.answers.recv().map_err(broken)?;
            took.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
            waiting -= 1;
        }
    }

    fn submit(&mut self) {
        let (request, ending) = self.next(self.store.now());
        let (tell, sent) = (self.tell.clone(), Instant::now());
        self.store.submit(
            Work::AdmitAndRun(Box::new((request, ending))),
            Box::new(move |answer| match answer {
                Ok(Done::Admitted(result)) if result.created => {
                    // The receiver is gone only when the measurement is over.
                    let _ = tell.send(sent);
                }
                // The loop then waits in vain, and says so.
                other => tracing::error!("an admission was answered with {other:?}"),
            }),
        );
    }

    pub fn runs_stored(&self) -> u64 {
        self.runs_before + self.next
    }

    pub fn close(self) {
        self.store.close();
    }
}

impl Model {
    fn read(store: &dyn Store, namespace: &str, flow: &str) -> Result<Model, Failure> {
        let workspace = WorkspaceId::default();
        let query = RunQuery {
            namespace: Some(namespace.to_owned()),
            flow_id: Some(flow.to_owned()),
            limit: 1,
            ..RunQuery::default()
        };
        let missing = || broken("the server's run is not in the store");
        let (run, values, _) =
            store.runs(&workspace, &query).map_err(broken)?.into_iter().next().ok_or_else(missing)?;
        let decisions =
            DecisionQuery { run: Some(run.id), decisions: vec![Decision::Start], limit: 1, ..DecisionQuery::default() };
        let decision = store.decisions(&workspace, &decisions).map_err(broken)?.pop().ok_or_else(missing)?;
        let ending = store.journal(&workspace, run.id, 1, 10).map_err(broken)?.pop().ok_or_else(missing)?;
        let logs = store.logs(&workspace, run.id, 0, 100).map_err(broken)?;
        Ok(Model { run, values, decision, ending, logs })
    }

    fn request(&self, key: String, now: Millis) -> AdmitRequest {
        let workspace = WorkspaceId::default();
        let scope = self.decision.scope.clone().unwrap_or_default();
        let inputs = json!({"order": key, "amount": 4200, "currency": "EUR"});
        let trigger = with_data(&self.values.trigger, &inputs);
        let entropy: [u8; 10] = rand::random();
        AdmitRequest {
            flow: self.run.flow.clone(),
            revision: self.run.revision,
            door: self.run.door,
            occurrence: self.decision.occurrence.clone(),
            caller: self.decision.caller.clone(),
            fingerprint: Fingerprint::of(&[&inputs]),
            key: Some(KeyClaim { hash: claim_hash(&workspace, &scope, &key), key, scope, source: KeySource::Caller }),
            policy: self.decision.policy,
            lane: None,
            run: RunId(uuid::Builder::from_unix_timestamp_millis(now.0 as u64, &entropy).into_uuid()),
            inputs,
            trigger,
            labels: vec![],
            correlation_id: None,
            parent: None,
            root: None,
            depth: 0,
            tick: None,
            hearing: None,
            announced: false,
            terms: Default::default(),
            workspace,
        }
    }

    fn ending(&self, run: RunId) -> RunCommit {
        let logs = self.logs.iter().map(|row| LogRow { run, ..row.clone() }).collect();
        RunCommit {
            workspace: WorkspaceId::default(),
            run,
            epoch: self.run.epoch,
            version: 1,
            events: self.ending.events.clone(),
            values: self.ending.values.clone(),
            head: HeadChange {
                status: self.run.status,
                active: false,
                open_intents: 0,
                open_doubts: 0,
                take: self.run.take,
                warned: self.run.warned,
                conclusion: None,
            },
            timers_set: vec![],
            timers_cleared: vec![],
            errands: vec![],
            effects: vec![],
            task_words: vec![],
            logs,
            labels: None,
            inbox_consumed: vec![],
            answers: vec![],
            outputs: self.values.outputs.clone(),
            failure: None,
            snapshot: None,
            ops: vec![],
            settle: Settle::Ended { status: EndStatus::Completed },
            cancels: vec![],
            announce: None,
            amend: None,
            reopen: None,
        }
    }
}

/// The trigger as the door would store it for these inputs.
fn with_data(trigger: &Option<Json>, inputs: &Json) -> Json {
    let mut trigger = trigger.clone().unwrap_or_default();
    if let Some(data) = trigger.get_mut("data") {
        *data = inputs.clone();
    }
    trigger
}
