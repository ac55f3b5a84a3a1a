//! Worlds of workers: workflows whose tasks somebody outside carries out.
//!
//! They have seeds of their own, and no other flows. Clients start workflows under keys; workers ask for tasks, answer,
//! answer twice or for an attempt that is over, put a task back, fall silent; people do what is theirs, and now and then
//! take a workflow back. The faults are those of all worlds.
//!
//! | id | what is watched |
//! |---|---|
//! | R1 | a key has one workflow, or, where its strategy says so, another one after the last has ended |
//! | R2 | a result that a worker was told is recorded is the outcome of that attempt in the journal |
//! | R3 | what is recorded of an attempt was said by somebody who had it |
//! | R5 | an attempt has one outcome, a step at most one that is done |
//! | I18 | an attempt is in one hand at a time; no more of a queue is out than its limit |
//! | R9, R11 | `semel check` of the store; everything ends once workers answer |

use super::actors::{Ending, Job, workspace};
use super::chance::Chance;
use super::check::{Facts, entries};
use super::model::Model;
use super::plan::{Action, Drawing, Script, Wish};
use super::world::{Next, Phase, World};
use semel_core::admission::{Decision, OnDone, OnLive, PresetName};
use semel_core::ir::{ConductorFlow, ErrandKind};
use semel_core::run::{ErrandEnd, Event, Status, StepKey};
use semel_core::{Door, Hash16, RunId, WorkspaceId};
use semel_engine::{AdmitError, Control, Errand, ErrandAnswer, ErrandError, Occurrence};
use semel_store::{AdmitRequest, AdmitResult, ErrandQueue, ErrandRow, ErrandWord, PushRule, Store, TakeErrands};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where the seeds of these worlds begin.
pub const WORKING: u64 = 1 << 41;
const QUEUES: [&str; 3] = ["pack", "send", "bill"];
/// Of this queue no more may be out at once, whoever asks.
const LIMITED: (&str, u32) = ("pack", 2);
/// How long a sign of life is waited for, at most.
const RESPONSE_S: i64 = 30;

/// Who starts what.
#[derive(Clone, Debug)]
pub struct Starting {
    pub workspace: usize,
    pub workflow: usize,
    pub key: Option<String>,
    pub strategy: PresetName,
    pub tries: u32,
}

/// What a worker says of a task that it has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saying {
    Done,
    Failed,
    FailedForGood,
    Alive,
    /// It is not done yet, and somebody else may go on with it after so many milliseconds.
    Later(i64),
}

#[derive(Clone, Debug)]
pub struct Report {
    workspace: WorkspaceId,
    id: Hash16,
    worker: String,
    saying: Saying,
    /// Goes with the result, so that it is known again.
    number: u64,
    tries: u32,
}

/// In whose hand an attempt is.
struct Hand {
    worker: String,
    at: i64,
}

/// What the world knows of its workers.
#[derive(Default)]
pub struct Shop {
    hands: BTreeMap<Hash16, Hand>,
    /// Everything that was handed out: its run, step and attempt.
    seen: BTreeMap<Hash16, (WorkspaceId, RunId, StepKey, u32)>,
    /// What was ever said of an attempt, by number.
    said: BTreeMap<Hash16, BTreeSet<u64>>,
    /// What workers were told is recorded.
    recorded: Vec<(Hash16, Saying, u64)>,
    reports: u64,
}

// ---- drawing

impl Script {
    /// A world of workers.
    pub(super) fn of_workers(seed: u64) -> Script {
        let mut chance = Chance::of(seed, 12, 0);
        let (sqlite, workspaces) = (chance.percent(6), chance.range(1, 2) as usize);
        let count = chance.range(1, 3) as usize;
        let definitions: Vec<Json> =
            (0..count).map(|index| definition(&mut Chance::of(seed, 13, index as u64), index, count)).collect();
        let until = *chance.pick(&[30_000, 120_000, 900_000]);
        let mut drawing = Drawing { chance, flows: &[], workspaces, until, crowd: false, actions: vec![] };
        drawing.work(count);
        drawing.trouble();
        let mut actions = drawing.actions;
        actions.sort_by_key(|(at, _)| *at);
        Script { seed, flows: vec![], definitions, workspaces, sqlite, actions, until, faults: None }
    }
}

impl Drawing<'_> {
    fn work(&mut self, workflows: usize) {
        let strategies =
            [PresetName::ConductorFail, PresetName::ConductorReturnExisting, PresetName::ConductorFailOnRunning];
        // One strategy for each key, or else nobody could say how many workflows it may have.
        for _ in 0..self.chance.range(2, 14) {
            let number = self.chance.below(5);
            let starting = Starting {
                workspace: self.chance.below(self.workspaces as u64) as usize,
                workflow: self.chance.below(workflows as u64) as usize,
                key: self.chance.percent(75).then(|| format!("k{number}")),
                strategy: strategies[(number % 3) as usize],
                tries: self.chance.range(1, 5) as u32,
            };
            let at = self.at();
            self.actions.push((at, Action::StartWork(Box::new(starting))));
        }
        for _ in 0..self.chance.range(5, 40) {
            let (at, worker) = (self.at(), self.chance.below(4) as u32);
            let (workspace, queue) =
                (self.chance.below(self.workspaces as u64) as usize, self.chance.below(QUEUES.len() as u64) as usize);
            self.actions.push((at, Action::AskForWork { workspace, queue, worker }));
        }
        for _ in 0..self.chance.range(5, 20) {
            let at = self.at();
            self.actions.push((at, Action::Background));
        }
        for _ in 0..self.chance.range(0, 3) {
            let (at, pick) = (self.at(), self.chance.draw());
            let wish = *self.chance.pick(&[Wish::Cancel, Wish::Pause, Wish::Resume]);
            self.actions.push((at, Action::Control { pick, wish }));
        }
    }
}

fn name(index: usize) -> String {
    format!("w{index}")
}

fn definition(chance: &mut Chance, index: usize, count: usize) -> Json {
    let mut drawn = Drawn { chance, index, count, next: 0 };
    let tasks: Vec<Json> = (0..drawn.chance.range(1, 4)).flat_map(|_| drawn.task(0)).collect();
    json!({"name": name(index), "version": 1, "schemaVersion": 2, "ownerEmail": "a@b.c", "tasks": tasks})
}

struct Drawn<'a> {
    chance: &'a mut Chance,
    index: usize,
    count: usize,
    next: u32,
}

impl Drawn<'_> {
    fn reference(&mut self) -> String {
        self.next += 1;
        format!("t{}", self.next)
    }

    fn task(&mut self, depth: u32) -> Vec<Json> {
        let reference = self.reference();
        let inputs = json!({"id": "${workflow.input.id}"});
        match self.chance.below(12) {
            8 => {
                let duration = format!("{} seconds", self.chance.range(1, 40));
                vec![json!({"name": "wait", "taskReferenceName": reference, "type": "WAIT",
                    "inputParameters": {"duration": duration}})]
            }
            9 => vec![
                json!({"name": "person", "taskReferenceName": reference, "type": "HUMAN", "inputParameters": inputs}),
            ],
            10 if depth < 2 => {
                let branches: Vec<Vec<Json>> = (0..2).map(|_| self.task(depth + 1)).collect();
                let ends: Vec<Json> =
                    branches.iter().map(|branch| branch[branch.len() - 1]["taskReferenceName"].clone()).collect();
                let join = self.reference();
                vec![
                    json!({"name": "fork", "taskReferenceName": reference, "type": "FORK_JOIN", "forkTasks": branches}),
                    json!({"name": "join", "taskReferenceName": join, "type": "JOIN", "joinOn": ends}),
                ]
            }
            11 if self.index + 1 < self.count => {
                let below = self.chance.range(self.index as i64 + 1, self.count as i64 - 1) as usize;
                let mut param = json!({"name": name(below), "version": 1});
                if self.chance.percent(40) {
                    param["idempotencyKey"] = "sub-${workflow.input.id}".into();
                    param["idempotencyStrategy"] = self.chance.word(&["RETURN_EXISTING", "FAIL_ON_RUNNING"]).into();
                }
                vec![json!({"name": "sub", "taskReferenceName": reference, "type": "SUB_WORKFLOW",
                    "inputParameters": inputs, "subWorkflowParam": param})]
            }
            _ => vec![self.simple(reference, inputs)],
        }
    }

    fn simple(&mut self, reference: String, inputs: Json) -> Json {
        let response = self.chance.range(2, RESPONSE_S);
        let mut terms = json!({
            "name": "own", "retryCount": self.chance.below(4), "retryDelaySeconds": self.chance.below(6),
            "retryLogic": self.chance.word(&["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"]),
            "responseTimeoutSeconds": response, "timeoutSeconds": 0, "ownerEmail": "a@b.c",
        });
        if self.chance.percent(25) {
            terms["timeoutSeconds"] = (response + self.chance.range(1, 60)).into();
            terms["timeoutPolicy"] = self.chance.word(&["RETRY", "TIME_OUT_WF", "ALERT_ONLY"]).into();
        }
        if self.chance.percent(15) {
            terms["pollTimeoutSeconds"] = self.chance.range(5, 60).into();
        }
        let queue = self.chance.word(&QUEUES);
        terms["name"] = queue.into();
        json!({"name": queue, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": inputs,
            "optional": self.chance.percent(15), "taskDefinition": terms})
    }
}

// ---- what happens

impl World {
    pub(super) fn is_of_workers(&self) -> bool {
        !self.script.definitions.is_empty()
    }

    pub(super) fn push_definition(&mut self, index: usize, definition: Json) {
        let Some(node) = self.current else { return };
        let engine = self.nodes[&node].node.engine().clone();
        let ws = workspace(index);
        let future = Box::pin(async move {
            let pushed = engine.push_workflow(&ws, &definition, "author", PushRule::Any).await;
            if let Err(error) = pushed {
                panic!("a drawn definition does not compile: {error:?} {definition}");
            }
            Ending::Nothing
        });
        self.spawn(node, Job::Background, future);
    }

    pub(super) fn start_work(&mut self, starting: Starting, tried: u32) {
        self.callers += 1;
        let caller = self.callers;
        let Some(node) = self.current else { return self.start_again(starting, tried) };
        let engine = self.nodes[&node].node.engine().clone();
        let (ws, name) = (workspace(starting.workspace), name(starting.workflow));
        let Ok(flow) = engine.workflow(&ws, &name, None) else { return self.start_again(starting, tried) };
        let id = starting.key.clone().unwrap_or_else(|| format!("n{caller}"));
        let occurrence = Occurrence {
            workspace: ws,
            flow,
            door: Door::Conductor,
            caller: format!("client {caller}"),
            caller_key: starting.key.clone(),
            intrinsic_key: None,
            door_preset: PresetName::ConductorFail,
            request_preset: starting.key.is_some().then_some(starting.strategy),
            scope: Some(ConductorFlow::key_scope(&name)),
            trigger: json!({}).into(),
            inputs: json!({"id": id}),
            trigger_id: None,
            labels: vec![],
            correlation_id: None,
            run: None,
            start_at: None,
            breakpoints: vec![],
        };
        self.note(|| format!("client {caller} starts {starting:?} try {tried}"));
        let job = Job::Start { caller, starting: Box::new(starting), tried };
        let future = Box::pin(async move { Ending::Admitted(Box::new(engine.admit(occurrence).await)) });
        self.spawn(node, job, future);
    }

    pub(super) fn start_again(&mut self, starting: Starting, tried: u32) {
        if tried + 1 >= starting.tries {
            return;
        }
        let wait = self.dice().range(1, 4_000) << tried.min(5);
        self.at(self.now + wait, Next::StartWork(Box::new(starting), tried + 1));
    }

    pub(super) fn work_started(
        &mut self,
        caller: u64,
        starting: Starting,
        tried: u32,
        result: Result<AdmitResult, AdmitError>,
    ) {
        match result {
            Ok(result) => {
                let run = result.run.as_ref().map(|run| run.id);
                self.note(|| format!("client {caller} is told {} {run:?}", result.decision.word()));
                let ws = workspace(starting.workspace);
                if let Some(run) = run.filter(|run| self.hub.inner().run(&ws, *run).ok().flatten().is_none()) {
                    self.broken("R2", format!("client {caller} was told of run {run}, and the store has no such run"));
                }
            }
            Err(AdmitError::Store(error)) => {
                self.note(|| format!("client {caller} is not answered: {error}"));
                self.start_again(starting, tried);
            }
            Err(other) => self.broken("I17", format!("client {caller} was refused: {other}")),
        }
    }

    pub(super) fn ask_for_work(&mut self, index: usize, queue: usize, worker: u32) {
        let Some(node) = self.current else { return };
        let engine = self.nodes[&node].node.engine().clone();
        let (ws, queue, worker) = (workspace(index), QUEUES[queue].to_owned(), format!("worker {worker}"));
        let request = TakeErrands {
            workspace: ws.clone(),
            limit: (queue == LIMITED.0).then_some(LIMITED.1),
            from: ErrandQueue { queue, domain: String::new() },
            worker: worker.clone(),
            count: self.dice().range(1, 3) as u32,
            rate: None,
            after: None,
        };
        let future = Box::pin(async move { Ending::Taken(engine.take_errands(request, Duration::ZERO).await) });
        self.spawn(node, Job::Ask { workspace: ws, worker }, future);
    }

    pub(super) fn taken(&mut self, workspace: &WorkspaceId, worker: &str, taken: Vec<Errand>) {
        for errand in taken {
            let row = errand.row;
            self.note(|| format!("{worker} takes {} of {}: attempt {}", row.more.step, row.run, row.more.attempt));
            if let Some(hand) = self.shop.hands.get(&row.id) {
                let text =
                    format!("{worker} was given attempt {}, which {} has since {}", row.id.hex(), hand.worker, hand.at);
                self.broken("I18", text);
            }
            let hand = Hand { worker: worker.to_owned(), at: self.now };
            self.shop.hands.insert(row.id, hand);
            let place = (workspace.clone(), row.run, row.more.step.clone(), row.more.attempt);
            self.shop.seen.insert(row.id, place);
            self.fate(workspace, worker, row.id);
        }
        let out = self.hub.inner().errand_counts(workspace).unwrap_or_default();
        let limited = out.iter().filter(|(from, _, _)| from.queue == LIMITED.0).map(|(_, _, taken)| taken).sum::<u64>();
        if limited > u64::from(LIMITED.1) {
            self.broken("I18", format!("{limited} tasks of {} are out, {} may be", LIMITED.0, LIMITED.1));
        }
    }

    /// What becomes of a task in a worker's hand. In the healed world workers are diligent.
    fn fate(&mut self, ws: &WorkspaceId, worker: &str, id: Hash16) {
        let mut dice = self.dice();
        let soon = dice.range(1, 1_500);
        let sayings: Vec<(i64, Saying)> = if self.phase != Phase::Safety {
            vec![(soon, Saying::Done)]
        } else {
            match dice.below(20) {
                0..=8 => vec![(soon, Saying::Done)],
                9 => vec![(soon, Saying::Done), (soon + dice.range(0, 9_000), Saying::Done)],
                10 | 11 => vec![(soon, Saying::Failed)],
                12 => vec![(soon, Saying::FailedForGood)],
                // Nobody hears of it again.
                13 | 14 => vec![],
                // Somebody else has it by then, or it was given up.
                15 => vec![(RESPONSE_S * 1_000 + dice.range(0, 60_000), Saying::Done)],
                16 | 17 => {
                    let later = Saying::Later(dice.range(0, 2_000));
                    // Said once more, as by a client that heard no answer: somebody else may have it by then.
                    let again = dice.percent(60).then(|| (soon + dice.range(1, 20_000), later));
                    [(soon, later)].into_iter().chain(again).collect()
                }
                _ => vec![(soon, Saying::Alive), (soon + dice.range(1, 3_000), Saying::Done)],
            }
        };
        for (after, saying) in sayings {
            self.shop.reports += 1;
            let (workspace, worker, number) = (ws.clone(), worker.to_owned(), self.shop.reports);
            let report = Report { workspace, id, worker, saying, number, tries: 4 };
            self.at(self.now + after, Next::Report(Box::new(report)));
        }
    }

    pub(super) fn report(&mut self, report: Report) {
        let Some(node) = self.current else { return self.report_again(report) };
        let engine = self.nodes[&node].node.engine().clone();
        self.note(|| {
            format!("{} says {:?} of {} (number {})", report.worker, report.saying, report.id.hex(), report.number)
        });
        if matches!(report.saying, Saying::Later(_)) {
            // From now on nobody knows in whose hand it is until it is handed out; whoever has it by then keeps it.
            let own = |hand: &Hand| hand.worker == report.worker;
            if self.shop.hands.get(&report.id).is_some_and(own) {
                self.shop.hands.remove(&report.id);
            }
        }
        self.shop.said.entry(report.id).or_default().insert(report.number);
        let own = report.clone();
        let future = Box::pin(async move { Ending::Reported(say(&engine, own).await) });
        self.spawn(node, Job::Report(Box::new(report)), future);
    }

    pub(super) fn report_again(&mut self, report: Report) {
        if report.tries == 0 {
            return;
        }
        let wait = self.dice().range(100, 10_000);
        let again = Report { tries: report.tries - 1, ..report };
        self.at(self.now + wait, Next::Report(Box::new(again)));
    }

    pub(super) fn reported(&mut self, report: Report, told: Result<(), ErrandError>) {
        self.note(|| format!("{} is told of number {}: {told:?}", report.worker, report.number).replace('\n', " "));
        match told {
            Ok(()) => self.shop.recorded.push((report.id, report.saying, report.number)),
            Err(ErrandError::Over(_)) => {}
            // What is over for long goes with the sweep.
            Err(ErrandError::Unknown) if self.is_gone(report.id) => {}
            Err(ErrandError::Unknown) => {
                let text = format!("{} was given {}, and nobody knows of it", report.worker, report.id.hex());
                self.broken("R2", text);
            }
            Err(ErrandError::Store(_)) => self.report_again(report),
        }
    }

    fn is_gone(&self, id: Hash16) -> bool {
        let run = self.shop.seen.get(&id).map(|(workspace, run, _, _)| self.hub.inner().run(workspace, *run));
        matches!(run, Some(Ok(None)))
    }

    /// People do what is theirs, workers ask everywhere, what is paused goes on.
    pub(super) fn tend(&mut self) {
        self.background();
        for index in 0..self.script.workspaces {
            let ws = workspace(index);
            for row in self.hub.inner().errands(&ws, ErrandKind::Human, None, 100).unwrap_or_default() {
                self.hand_to_a_person(&ws, &row);
            }
            for queue in 0..QUEUES.len() {
                self.ask_for_work(index, queue, 9);
            }
        }
    }

    fn hand_to_a_person(&mut self, ws: &WorkspaceId, row: &ErrandRow) {
        if !row.open || self.shop.hands.contains_key(&row.id) {
            return;
        }
        let place = (ws.clone(), row.run, row.more.step.clone(), row.more.attempt);
        self.shop.hands.insert(row.id, Hand { worker: "person".into(), at: self.now });
        self.shop.seen.insert(row.id, place);
        self.fate(ws, "person", row.id);
    }

    /// Everything that was started and has not ended, with what a run is that is paused asked to go on.
    pub(super) fn open_work(&mut self) -> usize {
        let worked = self.hub.model.lock().worked.clone();
        let mut open = 0;
        for one in worked {
            let Some((row, _, _)) = self.hub.inner().run(&one.workspace, one.run).ok().flatten() else { continue };
            if row.status.is_ended() {
                continue;
            }
            open += 1;
            if row.status == Status::Paused {
                self.control(one.workspace, one.run, Control::Resume, Wish::Resume);
            }
        }
        open
    }
}

async fn say(engine: &semel_engine::Engine, report: Report) -> Result<(), ErrandError> {
    let Report { workspace, id, worker, saying, number, .. } = report;
    let output = json!({"said": number});
    let message = "it did not work".to_owned();
    let end = match saying {
        Saying::Done => ErrandAnswer::Done { output },
        Saying::Failed => ErrandAnswer::Failed { message, output: Some(output), for_good: false },
        Saying::FailedForGood => ErrandAnswer::Failed { message, output: Some(output), for_good: true },
        Saying::Alive => return engine.touch_errand(&workspace, id, Some(worker), ErrandWord::Alive).await.map(|_| ()),
        Saying::Later(after_ms) => {
            let word = ErrandWord::Later { progress: Some(output), after_ms };
            return engine.touch_errand(&workspace, id, Some(worker), word).await.map(|_| ());
        }
    };
    let row = engine.store().errand(&workspace, id)?.ok_or(ErrandError::Unknown)?;
    engine.answer_errand(&workspace, row, end, Some(worker)).await.map(|_| ())
}

// ---- what must hold

/// A decision about a workflow of Conductor's.
#[derive(Clone, Debug)]
pub struct Worked {
    pub workspace: WorkspaceId,
    pub run: RunId,
    /// Scope and key.
    pub key: Option<(String, String)>,
    pub created: bool,
    pub decision: Decision,
    /// What its strategy says of a workflow that is there.
    pub live_rejects: bool,
    pub done: OnDone,
}

impl Model {
    pub(super) fn worked(&mut self, request: &AdmitRequest, result: &AdmitResult, store: &dyn Store) {
        let one = Worked {
            workspace: request.workspace.clone(),
            run: result.run.as_ref().map_or(request.run, |run| run.id),
            key: request.key.as_ref().map(|key| (key.scope.clone(), key.key.clone())),
            created: result.created,
            decision: result.decision,
            live_rejects: request.policy.live == OnLive::Reject,
            done: request.policy.done,
        };
        let is_open = |run| Model::row(store, &one.workspace, run).is_some_and(|row| !row.status.is_ended());
        if let Some(text) = judge(&self.worked, &one, is_open) {
            self.broken("R1", text);
        }
        self.worked.push(one);
    }
}

/// R1, as each start is decided: what a key has, by what was decided before.
fn judge(known: &[Worked], one: &Worked, is_open: impl Fn(RunId) -> bool) -> Option<String> {
    let Some(key) = &one.key else {
        return (one.decision != Decision::Start)
            .then(|| format!("a start without a key was answered {:?}", one.decision));
    };
    let mut same = known
        .iter()
        .filter(|other| other.created && other.workspace == one.workspace && other.key.as_ref() == Some(key));
    let newest = same.next_back();
    let expected = match (newest, one.live_rejects, one.done) {
        (None, _, _) => Decision::Start,
        (Some(prior), rejects, _) if is_open(prior.run) => {
            if rejects {
                Decision::Reject
            } else {
                Decision::Attach
            }
        }
        (Some(_), _, OnDone::Rerun) => Decision::Start,
        (Some(_), _, OnDone::Replay) => Decision::Replay,
        (Some(_), _, OnDone::Reject) => Decision::Reject,
    };
    if one.decision != expected {
        return Some(format!("{key:?} must be answered with {expected:?}, and was with {:?}", one.decision));
    }
    let names_it = newest.is_none_or(|prior| prior.run == one.run);
    (matches!(expected, Decision::Attach | Decision::Replay) && !names_it).then(|| {
        format!("{key:?} was answered with run {}, and is that of {:?}", one.run, newest.map(|prior| prior.run))
    })
}

/// How an attempt ended, as the journal has it.
struct Recorded {
    end: ErrandEnd,
    /// What was said with it.
    number: Option<u64>,
}

fn number(output: Option<&semel_core::run::Payload>) -> Option<u64> {
    output?.value.as_deref()?.get("said")?.as_u64()
}

pub fn check(facts: &mut Facts<'_>) {
    let worked = facts.world.hub.model.lock().worked.clone();
    let store = facts.world.hub.inner();
    let mut wrong: Vec<(&'static str, String)> = Vec::new();
    let mut found: BTreeMap<(RunId, StepKey, u32), Recorded> = BTreeMap::new();
    for one in worked.iter().filter(|one| one.created) {
        let mut done: BTreeMap<StepKey, Option<u64>> = BTreeMap::new();
        let mut last: Option<(StepKey, u32)> = None;
        let journal = match entries(store.as_ref(), &one.workspace, one.run) {
            Ok(journal) => journal,
            Err(text) => {
                wrong.push(("R13", text));
                continue;
            }
        };
        for entry in journal {
            match &entry.event {
                Event::ErrandAnswered { step, attempt, end, output, .. } => {
                    let place = (one.run, step.clone(), *attempt);
                    last = Some((step.clone(), *attempt));
                    let recorded = Recorded { end: *end, number: number(output.as_ref()) };
                    if found.insert(place, recorded).is_some() {
                        wrong
                            .push(("R5", format!("attempt {attempt} of {step} of run {} was answered twice", one.run)));
                    }
                }
                Event::StepEnded { step, output, .. } => {
                    let said = number(output.as_ref());
                    if let Some((answered, attempt)) = last.take().filter(|(answered, _)| answered == step)
                        && let Some(recorded) =
                            found.get_mut(&(one.run, answered, attempt)).filter(|r| r.end == ErrandEnd::Done)
                    {
                        recorded.number = said;
                    }
                    if said.is_some() && done.insert(step.clone(), said).is_some() {
                        wrong.push(("R5", format!("step {step} of run {} was done twice", one.run)));
                    }
                }
                _ => {}
            }
        }
    }
    let shop = &facts.world.shop;
    let ended = [Saying::Done, Saying::Failed, Saying::FailedForGood];
    for (id, saying, said) in shop.recorded.iter().filter(|(_, saying, _)| ended.contains(saying)) {
        let Some((workspace, run, step, attempt)) = shop.seen.get(id) else { continue };
        // What is over for long goes with the sweep.
        if store.run(workspace, *run).ok().flatten().is_none() {
            continue;
        }
        let wanted = match saying {
            Saying::Done => ErrandEnd::Done,
            Saying::Failed => ErrandEnd::Failed,
            _ => ErrandEnd::FailedForGood,
        };
        match found.get(&(*run, step.clone(), *attempt)) {
            Some(recorded) if recorded.end == wanted && recorded.number == Some(*said) => {}
            other => {
                let other = other.map(|recorded| (recorded.end, recorded.number));
                let text = format!(
                    "{saying:?} number {said} of attempt {attempt} of {step} of run {run} was recorded, its journal has {other:?}"
                );
                wrong.push(("R2", text));
            }
        }
    }
    let mut by_place: BTreeMap<(RunId, &StepKey, u32), Hash16> = BTreeMap::new();
    for (id, (_, run, step, attempt)) in &shop.seen {
        by_place.insert((*run, step, *attempt), *id);
    }
    for ((run, step, attempt), recorded) in &found {
        let Some(said) = recorded.number else { continue };
        let known = by_place.get(&(*run, step, *attempt)).and_then(|id| shop.said.get(id));
        if !known.is_some_and(|known| known.contains(&said)) {
            wrong.push((
                "R3",
                format!("attempt {attempt} of {step} of run {run} has result {said}, which nobody said of it"),
            ));
        }
    }
    for (id, text) in wrong {
        facts.broken(id, text);
    }
}
