//! Clients that resend on doubt, operators, and what they were answered.

use super::faults::Fault;
use super::flows::{Flow, Payload};
use super::garden;
use super::hub::NodeId;
use super::plan::{Action, Sending, WORKSPACES, Wish};
use super::works::{Report, Starting};
use super::world::{Next, Phase, World};
use semel_core::admission::{Decision, KeyError, PresetName};
use semel_core::run::{By, Event, Status, VerdictKind, decode_events};
use semel_core::{Door, FlowRef, RunId, WorkspaceId};
use semel_engine::{AdmitError, Control, ControlError, Errand, ErrandError, Occurrence, PushError};
use semel_store::{AdmitResult, ClaimQuery, Done, EffectState, RunCommit, StoreError, SweepRules, Work};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// What somebody waits for.
pub(super) enum Job {
    Errand,
    Client { caller: u64, sending: Box<Sending>, tried: u32 },
    Waiter { workspace: WorkspaceId, run: RunId },
    Person(String),
    Wish { run: RunId, wish: Wish },
    Push { workspace: usize, flow: usize, spec: Box<Flow> },
    Background,
    Start { caller: u64, starting: Box<Starting>, tried: u32 },
    Ask { workspace: WorkspaceId, worker: String },
    Report(Box<Report>),
}

/// What came of it.
pub(super) enum Ending {
    Nothing,
    Admitted(Box<std::result::Result<AdmitResult, AdmitError>>),
    Waited(std::result::Result<bool, StoreError>),
    Controlled(std::result::Result<(), ControlError>),
    Written(std::result::Result<Done, StoreError>),
    Pushed(std::result::Result<u32, PushError>),
    Taken(std::result::Result<Vec<Errand>, StoreError>),
    Reported(std::result::Result<(), ErrandError>),
}

/// What a client was told.
#[derive(Clone, Debug)]
pub struct Answered {
    pub caller: u64,
    /// When it was decided, by the store's clock; the answer may come a jump of the clock later.
    pub at: i64,
    pub workspace: WorkspaceId,
    pub flow: usize,
    pub payload: Payload,
    pub decision: Decision,
    pub run: Option<RunId>,
    /// For a replay: what the run showed then.
    pub shown: Option<(u32, Status, Option<Json>)>,
}

/// What was written about an effect; it outlives the run's rows.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub intents: usize,
    pub keys: BTreeSet<String>,
    /// The latest instant at which one of its intents may be sent.
    pub safe_until: Option<i64>,
    /// Verdicts that it is to be sent again, or has failed.
    pub verdicts: usize,
    /// A verdict said that it was done.
    pub done_by_hand: bool,
}

/// Decisions are kept this long.
pub const DECISIONS_MS: i64 = 400 * 86_400_000;

pub(super) fn workspace(index: usize) -> WorkspaceId {
    WorkspaceId(WORKSPACES[index].to_owned())
}

pub(super) fn by(who: &str) -> By {
    By { who: who.to_owned(), why: "simulated".into() }
}

impl World {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Send(sending) => {
                let faults = [
                    (sending.again, Fault::DeliveryDuplicated),
                    (sending.edited, Fault::DeliveryEdited),
                    (sending.late, Fault::DeliveryLate),
                ];
                for (yes, fault) in faults {
                    if yes {
                        self.hub.faults.lock().count(fault);
                    }
                }
                self.send(*sending, 0);
            }
            Action::Control { pick, wish } => self.wish(pick, wish),
            Action::Release { pick } => self.release(pick),
            Action::Delete { pick } => self.remove(pick, true),
            Action::Erase { pick } => self.remove(pick, false),
            Action::Push { workspace, flow, dice } => {
                let head = self.heads[&(workspace, flow)].clone();
                let edited = garden::edit(&head, &mut super::chance::Chance::new(dice));
                self.hub.faults.lock().count(Fault::FlowEdited);
                self.push_flow(workspace, edited, flow);
            }
            Action::Background => self.background(),
            Action::StartWork(starting) => self.start_work(*starting, 0),
            Action::AskForWork { workspace, queue, worker } => self.ask_for_work(workspace, queue, worker),
            trouble => self.trouble(&trouble),
        }
    }

    pub(super) fn send(&mut self, sending: Sending, tried: u32) {
        self.callers += 1;
        let caller = self.callers;
        let Some(node) = self.current else {
            // Nobody listens.
            return self.again(sending, tried);
        };
        let engine = self.nodes[&node].node.engine().clone();
        let ws = workspace(sending.workspace);
        let spec = &self.script.flows[sending.flow];
        let found = engine.flow(&ws, &FlowRef::new(spec.namespace, &spec.id));
        let Ok(flow) = found else { return self.again(sending, tried) };
        let name = format!("client {caller}");
        let incoming = {
            let model = self.hub.model.lock();
            model.incoming(&ws, sending.flow, sending.key.as_deref(), &sending.payload, sending.preset, sending.door)
        };
        self.hub.model.lock().callers.insert(name.clone(), incoming);
        let inputs = sending.payload.json();
        let occurrence = Occurrence {
            workspace: ws,
            flow,
            door: match sending.door {
                "webhook" => Door::Webhook,
                "cli" => Door::Cli,
                _ => Door::Trigger,
            },
            caller: name,
            caller_key: sending.key.clone(),
            intrinsic_key: None,
            door_preset: if sending.door == "cli" { PresetName::Semel } else { PresetName::Trigger },
            request_preset: sending.preset.and_then(PresetName::parse),
            scope: None,
            trigger: json!({"data": inputs, "headers": {"x-try": [tried.to_string()]}}).into(),
            inputs,
            trigger_id: None,
            labels: vec![],
            correlation_id: None,
            run: None,
            start_at: None,
            breakpoints: vec![],
        };
        let (flow, key) = (sending.flow, sending.key.clone());
        self.note(|| {
            format!(
                "client {caller} sends {:?} to f{flow} in {} key {key:?} try {tried}",
                sending.payload, sending.workspace
            )
        });
        let gone = self.hub.faults.lock().strikes(Fault::ClientGoesAway);
        let job = Job::Client { caller, sending: Box::new(sending.clone()), tried };
        let future = Box::pin(async move { Ending::Admitted(Box::new(engine.admit(occurrence).await)) });
        if gone {
            // The connection closes in the middle; the client asks again.
            let waker = std::task::Waker::noop();
            let mut future = future;
            let first = future.as_mut().poll(&mut std::task::Context::from_waker(waker));
            if let std::task::Poll::Ready(ending) = first {
                return self.ended(node, job, ending);
            }
            self.note(|| format!("client {caller} goes away"));
            return self.again(sending, tried);
        }
        self.spawn(node, job, future);
    }

    /// A client without an answer sends the same again.
    fn again(&mut self, sending: Sending, tried: u32) {
        if tried + 1 >= sending.tries {
            return;
        }
        let wait = self.dice().range(1, 4_000) << tried.min(5);
        self.hub.faults.lock().count(Fault::DeliveryReordered);
        self.at(self.now + wait, Next::Send(Box::new(sending), tried + 1));
    }

    /// The node died with this open.
    pub(super) fn unanswered(&mut self, job: Job) {
        match job {
            Job::Client { sending, tried, .. } => self.again(*sending, tried),
            Job::Start { starting, tried, .. } => self.start_again(*starting, tried),
            Job::Report(report) => self.report_again(*report),
            _ => {}
        }
    }

    pub(super) fn ended(&mut self, node: NodeId, job: Job, ending: Ending) {
        match (job, ending) {
            (Job::Client { caller, sending, tried }, Ending::Admitted(result)) => {
                self.answered(node, caller, *sending, tried, *result);
            }
            (Job::Start { caller, starting, tried }, Ending::Admitted(result)) => {
                self.work_started(caller, *starting, tried, *result);
            }
            (Job::Ask { workspace, worker }, Ending::Taken(Ok(taken))) => self.taken(&workspace, &worker, taken),
            (Job::Report(report), Ending::Reported(told)) => self.reported(*report, told),
            (Job::Waiter { workspace, run }, Ending::Waited(Ok(true))) => {
                let row = self.hub.inner().run(&workspace, run).ok().flatten().map(|(row, _, _)| row);
                self.note(|| format!("the wait for {run} is over"));
                if let Some(row) = row.filter(|r| !r.status.is_ended() && r.status != Status::Held && r.generation == 1)
                {
                    self.broken("I24", format!("a waiter was let go while run {run} is {:?}", row.status));
                }
            }
            (Job::Wish { run, wish }, Ending::Controlled(result)) => {
                self.note(|| format!("{wish:?} {run}: {result:?}"));
                match result {
                    Ok(()) => self.granted.push((run, wish)),
                    Err(ControlError::Store(StoreError::Bug(why))) => {
                        self.broken("R13", format!("{wish:?} {run}: {why}"));
                    }
                    Err(_) => {}
                }
            }
            (Job::Person(what), Ending::Written(result)) => self.note(|| format!("{what}: {result:?}")),
            (Job::Push { workspace: index, flow, spec }, Ending::Pushed(result)) => match result {
                Ok(revision) => {
                    let name = format!("{}:{}", spec.namespace, spec.id);
                    self.pushed.insert((WORKSPACES[index].to_owned(), name, revision), (*spec).clone());
                    self.heads.insert((index, flow), *spec);
                }
                Err(PushError::Invalid(errors)) => {
                    let text = semel_flow::render(&errors, "flow", &spec.source(&self.script.flows), false);
                    panic!("a drawn flow does not compile: {text}");
                }
                Err(PushError::Exists | PushError::Unknown | PushError::Store(_)) => {
                    // Applied or not: only a revision says, and it is read at the end.
                    self.note(|| "a push was not answered".into());
                }
            },
            _ => {}
        }
    }

    fn answered(
        &mut self,
        node: NodeId,
        caller: u64,
        sending: Sending,
        tried: u32,
        result: std::result::Result<AdmitResult, AdmitError>,
    ) {
        let result = match result {
            Ok(result) => result,
            Err(error) => return self.refused(caller, sending, tried, &error),
        };
        let ws = workspace(sending.workspace);
        let run = result.run.as_ref().map(|r| r.id);
        self.note(|| format!("client {caller} is told {} {} {run:?}", result.decision.word(), result.reason.word()));
        let stored = run.and_then(|run| self.hub.inner().run(&ws, run).ok().flatten());
        let mut shown = None;
        match (&stored, run) {
            (None, Some(run)) if !self.hub.model.lock().deleted.contains(&run) => {
                let text = format!("client {caller} was told of run {run}, and the store has no such run");
                self.broken("R2", text);
            }
            (Some((row, values, _)), _) if result.decision == Decision::Replay => {
                // Between the decision and the answer a person may have had the run go on: its values are new ones then.
                let decided = result.run.as_ref().unwrap_or(row);
                let outputs = values.outputs.clone().filter(|_| decided.version == row.version);
                shown = Some((decided.generation, decided.status, outputs));
            }
            _ => {}
        }
        if let Some(run) = run.filter(|_| sending.waits && result.decision != Decision::Reject) {
            let engine = self.nodes.get(&node).map(|n| n.node.engine().clone());
            if let Some(engine) = engine {
                let (of, limit) = (ws.clone(), Duration::from_secs(1 << 30));
                let future = Box::pin(async move { Ending::Waited(engine.wait_ended(&of, run, limit).await) });
                self.spawn(node, Job::Waiter { workspace: ws.clone(), run }, future);
            }
        }
        self.fresh.remove(&caller);
        self.answers.push(Answered {
            caller,
            at: result.run.as_ref().map_or_else(|| self.store_now(), |row| row.updated_at.0),
            workspace: ws,
            flow: sending.flow,
            payload: sending.payload,
            decision: result.decision,
            run,
            shown,
        });
    }

    /// Refused before anything was decided: right or wrong?
    fn refused(&mut self, caller: u64, sending: Sending, tried: u32, error: &AdmitError) {
        self.note(|| format!("client {caller} is refused: {error}"));
        let block = self.script.flows[sending.flow].block.as_ref();
        let own = block.is_some_and(|b| b.keyed).then_some(&sending.payload.id);
        let conflict = sending.key.as_ref().is_some_and(|key| own.is_some_and(|own| own != key));
        let missing = block.is_some_and(|b| b.require_key) && sending.key.is_none() && own.is_none();
        match error {
            AdmitError::Store(StoreError::Bug(why)) => self.broken("R13", format!("client {caller}: {why}")),
            AdmitError::Store(_) => self.again(sending, tried),
            AdmitError::Key(KeyError::Conflict { .. }) if conflict => {}
            AdmitError::Key(KeyError::Missing) if missing => {}
            other => self.broken("I17", format!("client {caller} was refused: {other}")),
        }
    }

    /// Picks a run that the wish could fit, else any.
    fn pick(&self, pick: u64, fits: &[Status]) -> Option<(WorkspaceId, RunId)> {
        let born: Vec<(WorkspaceId, RunId)> = {
            let model = self.hub.model.lock();
            let worked = model.worked.iter().filter(|one| one.created).map(|one| (one.workspace.clone(), one.run));
            model.born.iter().cloned().chain(worked).collect()
        };
        let fitting: Vec<&(WorkspaceId, RunId)> = born
            .iter()
            .filter(|(ws, run)| {
                let row = self.hub.inner().run(ws, *run).ok().flatten();
                row.is_some_and(|(row, _, _)| fits.contains(&row.status))
            })
            .collect();
        let chosen = if fitting.is_empty() { born.iter().collect() } else { fitting };
        (!chosen.is_empty()).then(|| chosen[(pick % chosen.len() as u64) as usize].clone())
    }

    fn wish(&mut self, pick: u64, wish: Wish) {
        let fits: &[Status] = match wish {
            Wish::Cancel => &[Status::Queued, Status::Running, Status::Waiting, Status::Paused, Status::Held],
            Wish::Pause => &[Status::Running, Status::Waiting],
            Wish::Resume => &[Status::Paused],
            Wish::Release => &[Status::Held],
            Wish::Restart => &[Status::Failed, Status::Cancelled],
            Wish::Replay(_) => &[Status::Completed, Status::Failed, Status::Cancelled],
            _ => &[Status::Held],
        };
        let Some((ws, run)) = self.pick(pick, fits) else { return };
        if let Some(fault) = match wish {
            Wish::Cancel => Some(Fault::RunCancelled),
            Wish::Pause => Some(Fault::RunPaused),
            Wish::Resume => Some(Fault::RunResumed),
            _ => None,
        } {
            self.hub.faults.lock().count(fault);
        }
        let step = self.doubt_of(&ws, run, pick);
        let verdict = |verdict, result| Control::Verdict { step: step.clone(), verdict, result };
        let control = match wish {
            Wish::Cancel => Control::Cancel,
            Wish::Pause => Control::Pause,
            Wish::Resume => Control::Resume,
            Wish::Release => Control::Release,
            Wish::Restart => Control::Restart,
            Wish::Replay(None) => Control::Replay { from: None },
            Wish::Replay(Some(n)) => {
                let row = self.hub.inner().run(&ws, run).ok().flatten().map(|(row, _, _)| row);
                let tasks = row.and_then(|r| self.spec_of(&r)).map(|f| f.tasks).unwrap_or_default();
                Control::Replay { from: tasks.get(n as usize % tasks.len().max(1)).map(|t| t.id.clone()) }
            }
            Wish::VerdictDone => verdict(VerdictKind::Done, Some(json!({"code": 200, "body": "by hand"}))),
            Wish::VerdictRepeat => verdict(VerdictKind::Repeat, None),
            Wish::VerdictNewKey => verdict(VerdictKind::RepeatNewKey, None),
            Wish::VerdictFail => verdict(VerdictKind::Fail, None),
        };
        self.control(ws, run, control, wish);
    }

    /// An open doubt of the run, by its step.
    fn doubt_of(&self, ws: &WorkspaceId, run: RunId, pick: u64) -> Option<String> {
        let rows = self.hub.inner().effects(ws, run).unwrap_or_default();
        let open: Vec<String> = rows
            .into_iter()
            .filter(|r| r.state == semel_store::EffectState::InDoubt)
            .map(|r| r.step_id.hex())
            .collect();
        (!open.is_empty()).then(|| open[(pick % open.len() as u64) as usize].clone())
    }

    pub(super) fn control(&mut self, ws: WorkspaceId, run: RunId, control: Control, wish: Wish) {
        let Some(node) = self.current else { return };
        let engine = self.nodes[&node].node.engine().clone();
        self.note(|| format!("an operator asks {run}: {wish:?}"));
        let job = Job::Wish { run, wish };
        let future =
            Box::pin(async move { Ending::Controlled(engine.control(&ws, run, control, by("operator")).await) });
        self.spawn(node, job, future);
    }

    fn write_by_hand(&mut self, work: Work, what: String) {
        let Some(node) = self.current else { return };
        let engine = self.nodes[&node].node.engine().clone();
        let future = Box::pin(async move { Ending::Written(engine.write(work).await) });
        self.spawn(node, Job::Person(what), future);
    }

    fn release(&mut self, pick: u64) {
        let ws = workspace((pick % self.script.workspaces as u64) as usize);
        let claims =
            self.hub.inner().claims(&ws, &ClaimQuery { limit: 100, ..ClaimQuery::default() }).unwrap_or_default();
        if claims.is_empty() {
            return;
        }
        let hash = claims[(pick / 7 % claims.len() as u64) as usize].hash;
        self.write_by_hand(Work::ReleaseKey { workspace: ws, hash, by: by("operator") }, "release".into());
    }

    fn remove(&mut self, pick: u64, delete: bool) {
        let ended = [Status::Completed, Status::Failed, Status::Cancelled];
        let Some((ws, run)) = self.pick(pick, &ended) else { return };
        let work = match delete {
            true => Work::DeleteRun { workspace: ws, run },
            false => Work::EraseRun { workspace: ws, run },
        };
        self.write_by_hand(work, if delete { "delete".into() } else { "erase".into() });
    }

    pub(super) fn push_flow(&mut self, index: usize, spec: Flow, flow: usize) {
        let Some(node) = self.current else { return };
        let engine = self.nodes[&node].node.engine().clone();
        let source = spec.source(&self.script.flows);
        let ws = workspace(index);
        let future = Box::pin(async move {
            Ending::Pushed(engine.push_flow(&ws, &source, "author").await.map(|pushed| pushed.revision))
        });
        self.spawn(node, Job::Push { workspace: index, flow, spec: Box::new(spec) }, future);
    }

    pub(super) fn background(&mut self) {
        let Some(node) = self.current else { return };
        let engine = self.nodes[&node].node.engine().clone();
        let (other, third) = (engine.clone(), engine.clone());
        let ticks = Box::pin(async move {
            let _ = engine.tick_schedules().await;
            Ending::Nothing
        });
        let rules = SweepRules { limit: 100, decisions_ms: DECISIONS_MS, uploads_ms: 60_000, history_ms: Some(60_000) };
        let sweep = Box::pin(async move {
            let _ = other.sweep(rules).await;
            Ending::Nothing
        });
        if self.phase == Phase::Safety {
            self.spawn(node, Job::Background, ticks);
        }
        if self.is_of_workers() {
            let late = Box::pin(async move {
                let _ = third.tell_late_errands().await;
                Ending::Nothing
            });
            self.spawn(node, Job::Background, late);
        }
        self.spawn(node, Job::Background, sweep);
    }

    // ---- the liveness phase

    /// The operator of the healed world: resumes what is paused, gives verdicts, and looks whether
    /// all is at rest.
    pub(super) fn operate(&mut self, gap: i64) {
        let born = self.hub.model.lock().born.clone();
        let mut open = self.open_work();
        if open > 0 {
            self.tend();
        }
        for (ws, run) in born {
            let Some((row, _, _)) = self.hub.inner().run(&ws, run).ok().flatten() else { continue };
            if row.status.is_ended() {
                continue;
            }
            open += 1;
            self.check_above(&row);
            match row.status {
                Status::Paused => self.control(ws, run, Control::Resume, Wish::Resume),
                Status::Held if self.hub.model.lock().held.contains(&run) => {
                    self.control(ws, run, Control::Release, Wish::Release);
                }
                Status::Held => {
                    // One after the other: a doubt that was decided stays in the ledger until all are.
                    if let Some(step) = self.doubt_of(&ws, run, self.events) {
                        let verdict = VerdictKind::Done;
                        let result = Some(json!({"code": 200, "body": "by hand"}));
                        self.control(
                            ws,
                            run,
                            Control::Verdict { step: Some(step), verdict, result },
                            Wish::VerdictDone,
                        );
                    }
                }
                _ => {}
            }
        }
        let waiting = self.open_jobs().any(|job| !matches!(job, Job::Errand | Job::Waiter { .. }));
        if open > 0 || waiting || self.script_left() || self.on_its_way() {
            let next = if self.script_left() { gap } else { gap.min(86_400_000) };
            // Workers do not grow tired of asking.
            let later = if self.is_of_workers() { 1_000 } else { (gap * 2).min(40 * 86_400_000) };
            return self.at(self.now + next, Next::Operate(later));
        }
        if self.phase == Phase::Liveness {
            self.phase = Phase::Fresh;
            self.send_fresh();
            return self.at(self.now + 1_000, Next::Operate(60_000));
        }
        if !self.fresh.is_empty() {
            let text = format!("{} fresh events were not answered", self.fresh.len());
            self.broken("R11", text);
        }
        self.phase = Phase::Over;
    }

    /// Whatever the outside sees was committed as an intent before it left.
    pub(super) fn check_intent(&mut self, index: usize) {
        let seen = &self.outside.seen[index];
        let calls = self.outside.seen.iter().filter(|other| other.step_id == seen.step_id).count();
        let intents = self.told.get(&seen.step_id).map_or(0, |told| told.intents);
        if intents < calls {
            let text = format!("{} left {calls} times with {intents} durable intents", seen.uri);
            self.broken("R6", text);
        }
    }

    /// I15: a doubt below holds all above it. Looked at when nothing is on its way.
    fn check_above(&mut self, row: &semel_store::RunRow) {
        let quiet = self.current.is_some_and(|node| self.nodes[&node].node.in_flight() == 0);
        let Some(parent) = row.parent.as_ref().filter(|_| row.status == Status::Held && row.open_doubts > 0 && quiet)
        else {
            return;
        };
        let above = self.hub.inner().run(&row.workspace, parent.run).ok().flatten();
        if let Some((above, _, _)) = above.filter(|(above, _, _)| above.status.is_ended() && !above.active) {
            let text = format!("run {} has a doubt, and its parent {} is {:?}", row.id, above.id, above.status);
            self.broken("I15", text);
        }
    }

    /// After all that, a new event of each flow must complete.
    fn send_fresh(&mut self) {
        for flow in 0..self.script.flows.len() {
            let id = format!("fresh{flow}");
            let sending = Sending {
                workspace: 0,
                flow,
                key: Some(id.clone()),
                payload: Payload { id, n: 0, flag: true, kind: "a" },
                preset: None,
                door: "trigger",
                again: false,
                edited: false,
                late: false,
                tries: 1,
                waits: true,
            };
            self.send(sending, 0);
            self.fresh.insert(self.callers);
        }
    }

    /// Not everything came to rest.
    pub(super) fn stuck(&mut self) {
        let born = self.hub.model.lock().born.clone();
        let open: Vec<String> = born
            .iter()
            .filter_map(|(ws, run)| self.hub.inner().run(ws, *run).ok().flatten())
            .filter(|(row, _, _)| !row.status.is_ended())
            .map(|(row, _, _)| format!("{} {} {:?} active {}", row.flow, row.id, row.status, row.active))
            .collect();
        for (ws, run) in &born {
            let rows = self.hub.inner().journal(ws, *run, 0, 100_000).unwrap_or_default();
            let waits: Vec<String> = rows
                .iter()
                .flat_map(|row| decode_events(&row.events, None).unwrap_or_default())
                .filter(|event| matches!(event, Event::ChildStarted { .. } | Event::ChildEnded { .. }))
                .map(|event| format!("{event:?}"))
                .collect();
            self.note(|| format!("{run}: {}", waits.join(" ")));
        }
        for table in ["lanes", "inbox", "timers"] {
            let rows = self.hub.inner().dump().unwrap_or_default()[table].to_string();
            self.note(|| format!("left in {table}: {rows}"));
        }
        let text = format!("after {} events it does not come to rest: {}", self.events, open.join("; "));
        self.broken("R11", text);
    }

    /// The text a run was admitted with.
    pub fn spec_of(&self, row: &semel_store::RunRow) -> Option<Flow> {
        self.pushed.get(&(row.workspace.0.clone(), row.flow.to_string(), row.revision)).cloned()
    }

    /// What can be checked right after each write.
    pub(super) fn after_write(&mut self, work: &Work, answer: &std::result::Result<Done, StoreError>) {
        if let Err(StoreError::Bug(why) | StoreError::Poisoned(why)) = answer {
            self.broken("R13", format!("the store says: {why}"));
        }
        if let (Work::Commit(commit), Ok(Done::Committed(_))) = (work, answer) {
            self.note_events(commit);
        }
        if let (Work::PutFlow { row, .. }, Ok(Done::Flow { revision, .. })) = (work, answer) {
            // Also a push whose answer was lost counts.
            let index = WORKSPACES.iter().position(|w| *w == row.workspace.0).unwrap_or(0);
            let known = self.open_jobs().find_map(|job| match job {
                Job::Push { workspace, spec, .. }
                    if *workspace == index && spec.source(&self.script.flows) == row.source =>
                {
                    Some((**spec).clone())
                }
                _ => None,
            });
            if let Some(spec) = known {
                self.pushed.insert((row.workspace.0.clone(), row.flow.to_string(), *revision), spec);
            }
        }
    }

    fn note_events(&mut self, commit: &RunCommit) {
        *self.statuses.entry(commit.head.status.word().to_owned()).or_insert(0) += 1;
        if commit.events.is_empty() {
            return;
        }
        let Ok(events) = decode_events(&commit.events, None) else {
            return self.broken("R13", format!("run {} wrote events that do not read back", commit.run));
        };
        for event in &events {
            let kind = format!("{event:?}");
            let kind = kind.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
            *self.kinds.entry(kind).or_insert(0) += 1;
            self.note_effect(commit, event);
            self.note_word(commit.run, event);
        }
    }

    /// That a run goes on from what a backup knew is somebody's word, and so is what it then does again.
    pub(super) fn note_word(&mut self, run: RunId, event: &Event) {
        let somebody = match event {
            Event::Released { .. } | Event::Replayed { .. } => true,
            Event::Restarted { by, .. } => by.who != "flow retry",
            _ => false,
        };
        if somebody && self.restored {
            *self.words.entry(run).or_insert(0) += 1;
        }
        if somebody || matches!(event, Event::Restarted { .. } | Event::Verdict { .. }) {
            *self.said.entry(run).or_insert(0) += 1;
        }
    }

    fn note_effect(&mut self, commit: &RunCommit, event: &Event) {
        let (Event::Intent { step, .. } | Event::Verdict { step, .. }) = event else { return };
        // A handler that ended and was begun again in this commit has two rows; what is new is what was intended.
        let is_intent = matches!(event, Event::Intent { .. });
        let mut rows = commit.effects.iter().filter(|row| row.step == *step);
        let found = rows.clone().find(|row| (row.state == EffectState::Intent) == is_intent).or_else(|| rows.next());
        let Some(row) = found else { return };
        let told = self.told.entry(row.step_id.hex()).or_default();
        match event {
            Event::Intent { out_key, safe_until, .. } => {
                told.intents += 1;
                told.keys.insert(out_key.clone());
                told.safe_until = told.safe_until.max(safe_until.map(|until| until.0));
            }
            Event::Verdict { verdict: VerdictKind::Done, .. } => told.done_by_hand = true,
            _ => told.verdicts += 1,
        }
    }
}
