//! The driver: advances active runs, one step at a time and without IO of its own.
//!
//! [`Driver::on`] is handed what happened and returns what to do. Reads go to the store at once
//! (they are short and see only committed data); writes are returned as [`Out::Commit`] and their
//! answers come back as [`Happened::Committed`]. One commit per run is in flight at a time, so a
//! run's events are totally ordered; while it is, further inputs wait in the run's queue.
//!
//! | what happens | what the driver does |
//! |---|---|
//! | the guard fails on the version | drops its state, loads again, gives the lost inputs again |
//! | the guard fails on the epoch, or another node has the run | drops the run: somebody else decides now |
//! | the store is full or busy | keeps the commit and hands it out again later |
//! | the store is poisoned | does nothing more |
//! | the process dies | `Happened::Recover` for each active run, on the next start |

mod active;
mod breakpoints;
mod child;
mod commit;
mod control;
mod failures;
mod inbox;
pub(crate) mod outcome;
mod reads;
mod settle;
mod wishes;

use crate::again::run_again;
use crate::api::{Asking, Control, ControlError, RunChange};
use crate::away;
use crate::conductor::moments;
use crate::evaluate::{Evaluator, Family, Found};
use crate::flows::Flows;
use crate::hearing::state_word;
use crate::outside;
use crate::scope::{ExprScope, RunScope, Services};
use active::{Active, InTheAir, Loaded, Origin, Queued};
use control::control_input;
use outcome::{masked, translate};
use semel_core::ir::Moment;
use semel_core::limits::Limits;
use semel_core::planted;
use semel_core::run::{Action, By, EndStatus, Event, FAILED_FOR_GOOD, Input, NotPossible, StepKey, decide};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::{Done, Inbox, OpKind, RunCommit, RunRow, Settle, StoreError};
use semel_tasks::{Outcome, Request};
use serde_json::Value as Json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wishes::{Places, other_flow};

/// A fuse of pure steps ends at this many events or bytes.
const FUSE_EVENTS_MAX: usize = 256;
const FUSE_BYTES_MAX: usize = 64 * 1024;
/// Dormant runs kept in memory, so that a wake-up need not read them again.
const DORMANT_MAX: usize = 1_024;
/// When there is no room for another, the dormant ones are forgotten, this often at most.
const FORGET_MS: i64 = 1_000;

/// Names a control request, so that its answer finds the caller.
pub type Ticket = u64;

/// What happened.
pub enum Happened {
    /// An admission created this run and it has its slot.
    Born(Box<Born>),
    /// Something was left for the run, or it must be driven.
    Wake {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// The process that drove the run is gone.
    Recover {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// Somebody else took the run over.
    Fenced(RunId),
    /// What this run could not read may be readable again.
    Later(RunId),
    /// What an expression asked for is there.
    Read {
        run: RunId,
        place: Option<StepKey>,
        key: Hash16,
        outcome: Outcome,
    },
    Timer {
        workspace: WorkspaceId,
        run: RunId,
        timer: u64,
    },
    /// The answer to the commit of this number.
    Committed {
        workspace: WorkspaceId,
        run: RunId,
        no: u64,
        answer: Result<Done, StoreError>,
    },
    Performed {
        run: RunId,
        step: StepKey,
        send: u32,
        outcome: Outcome,
    },
    Control {
        workspace: WorkspaceId,
        run: RunId,
        control: Control,
        by: By,
        ticket: Ticket,
    },
}

/// A run fresh from its admission: nothing needs to be read back.
pub struct Born {
    pub row: RunRow,
    pub inputs: Json,
    pub trigger: Json,
    pub labels: Vec<(String, String)>,
}

/// What to do.
pub enum Out {
    /// Write, then tell by [`Happened::Committed`].
    Commit {
        no: u64,
        commit: Box<RunCommit>,
    },
    /// The store refused for now: hand the same commit to it again after a while.
    CommitLater {
        no: u64,
        commit: Box<RunCommit>,
    },
    /// The store could not be read for now: let this happen again after a while.
    Again(Box<Happened>),
    /// Send, then tell by [`Happened::Performed`].
    Perform {
        run: RunId,
        step: StepKey,
        send: u32,
        request: Box<Request>,
    },
    /// Read, then tell by [`Happened::Read`].
    Read {
        run: RunId,
        place: Option<StepKey>,
        key: Hash16,
        request: Box<Request>,
    },
    Answer {
        ticket: Ticket,
        answer: Result<(), ControlError>,
    },
    Changed(RunChange),
    /// Look at this run next.
    Wake {
        workspace: WorkspaceId,
        run: RunId,
    },
    Fenced(RunId),
    /// A timer was set for this instant.
    TimerAt(Millis),
    /// Errands were set out in this queue.
    Errands {
        workspace: WorkspaceId,
        queue: String,
    },
    /// Another node drives the run: it must look at what was left for it.
    Nudge {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// Another node drives the run: it must be asked.
    AskElsewhere {
        ticket: Ticket,
    },
}

pub struct Driver {
    services: Arc<Services>,
    flows: Arc<Flows>,
    limits: Limits,
    runs: BTreeMap<RunId, Active>,
    out: Vec<Out>,
    /// Numbers commits, so that an answer is never taken for another one's.
    commits: u64,
    /// Nothing new is begun; what is in flight settles.
    stopping: bool,
    fatal: Option<StoreError>,
    /// Runs that could not be brought into memory: until when they are left alone, and how long that is.
    resting: BTreeMap<RunId, (Millis, i64)>,
    /// When dormant runs were forgotten last.
    forgot: Millis,
}

/// Where a run is.
enum Place {
    Here,
    Elsewhere,
    Missing,
}

/// A timer that is due stays due: a run that cannot be loaded would be tried, and logged, at every look.
const REST_MS_MIN: i64 = 1_000;
const REST_MS_MAX: i64 = 600_000;

impl Driver {
    pub fn new(services: Arc<Services>, flows: Arc<Flows>, limits: Limits) -> Driver {
        Driver {
            services,
            flows,
            limits,
            runs: BTreeMap::new(),
            out: Vec::new(),
            commits: 0,
            stopping: false,
            fatal: None,
            resting: BTreeMap::new(),
            forgot: Millis(0),
        }
    }

    /// Whether the run is left alone for now.
    pub(crate) fn rests(&self, run: RunId, now: Millis) -> bool {
        self.resting.get(&run).is_some_and(|(until, _)| now < *until)
    }

    /// Leaves a run alone, each time twice as long.
    fn rest(&mut self, run: RunId, now: Millis) {
        let gap = self.resting.get(&run).map_or(REST_MS_MIN, |(_, gap)| (gap * 2).min(REST_MS_MAX));
        self.resting.insert(run, (now.plus(gap), gap));
    }

    /// Runs with a commit or a request in the air.
    pub fn in_flight(&self) -> usize {
        self.runs.values().filter(|run| run.committing.is_some() || !run.performing.is_empty()).count()
    }

    /// A name for a request that no other node gives to another.
    pub fn fresh_ticket(&self) -> Hash16 {
        let (first, second) = (self.services.entropy.random(), self.services.entropy.random());
        Hash16((u128::from(first) << 64 | u128::from(second)).to_be_bytes())
    }

    /// Whether it drives the run. What it only remembers, another node may drive by now.
    pub fn drives(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|active| !self.is_one_of_several() || !active.is_idle())
    }

    /// Runs kept in memory.
    pub fn in_memory(&self) -> usize {
        self.runs.len()
    }

    /// From now on nothing new is begun: steps that would start are left for the next start.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// All that a run will ever do, if it can do all of it at once: decided before the run exists, and worth nothing
    /// if it comes not to exist. `None` when something must be durable first, or waits for time or the outside.
    pub fn whole_run(
        services: &Arc<Services>,
        flows: &Arc<Flows>,
        limits: &Limits,
        born: Born,
        now: Millis,
    ) -> Option<RunCommit> {
        let run = born.row.id;
        let mut driver = Driver::new(services.clone(), flows.clone(), limits.clone());
        let mut first = None;
        for out in driver.on(now, Happened::Born(Box::new(born))) {
            match out {
                Out::Commit { commit, .. } if first.is_none() => first = Some(*commit),
                Out::Changed(_) => {}
                _ => return None,
            }
        }
        let active = driver.runs.get(&run)?;
        let waits = !active.queue.is_empty() || !active.committed.performs.is_empty();
        first.filter(|first| {
            matches!(first.settle, Settle::Ended { .. }) && first.ops.is_empty() && first.cancels.is_empty() && !waits
        })
    }

    /// One step of the engine.
    pub fn on(&mut self, now: Millis, happened: Happened) -> Vec<Out> {
        match happened {
            Happened::Born(born) => self.born(*born, now),
            Happened::Wake { workspace, run } => self.wake(&workspace, run, now),
            Happened::Recover { workspace, run } => self.recover(&workspace, run, now),
            Happened::Fenced(run) => self.fenced(run),
            Happened::Timer { workspace, run, timer } => self.timer(&workspace, run, timer, now),
            Happened::Committed { workspace, run, no, answer } => self.committed(&workspace, run, no, answer, now),
            Happened::Later(run) => self.later(run, now),
            Happened::Read { run, place, key, outcome } => self.read(run, place, key, outcome, now),
            Happened::Performed { run, step, send, outcome } => self.performed(run, step, send, outcome, now),
            Happened::Control { workspace, run, control, by, ticket } => {
                self.control(&workspace, run, control, by, ticket, now)
            }
        }
        std::mem::take(&mut self.out)
    }

    fn born(&mut self, born: Born, now: Millis) {
        let run = born.row.id;
        if self.stopping {
            return; // the next start finds it
        }
        if self.runs.contains_key(&run) {
            // Somebody was faster (a recovery, a person): what is in memory knows more.
            return self.wake(&born.row.workspace, run, now);
        }
        let workspace = born.row.workspace.clone();
        match Active::born(&self.flows, born) {
            Ok(active) => {
                self.runs.insert(run, active);
                self.push(run, Queued::new(Input::Start));
                self.advance(run, now);
            }
            Err(error) => self.trouble_with(run, error, Happened::Wake { workspace, run }),
        }
    }

    /// Brings a run into memory.
    fn load(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Place, StoreError> {
        if self.drives(run) {
            return Ok(Place::Here);
        }
        self.runs.remove(&run);
        match Active::load(&self.services, &self.flows, workspace, run)? {
            Loaded::Here(active) => {
                self.runs.insert(run, *active);
                self.resting.remove(&run);
                Ok(Place::Here)
            }
            Loaded::Elsewhere => Ok(Place::Elsewhere),
            Loaded::Missing => Ok(Place::Missing),
        }
    }

    /// As [`Driver::load`], for an answer that can only be right: what is remembered says that it is waited for. If that
    /// is no longer so the commit fails on its guard, and the answer is judged by what the store has.
    fn load_for(&mut self, workspace: &WorkspaceId, run: RunId, control: &Control) -> Result<Place, StoreError> {
        let awaits = |active: &Active| match control {
            Control::Errand { step, attempt, .. } => active.state.awaits_errand(step, *attempt),
            _ => false,
        };
        match self.runs.get(&run) {
            Some(active) if active.workspace == *workspace && awaits(active) => Ok(Place::Here),
            _ => self.load(workspace, run),
        }
    }

    /// Other nodes advance the runs that only wait: what is remembered of them may be old.
    fn is_one_of_several(&self) -> bool {
        self.services.store.cluster().is_some()
    }

    fn push(&mut self, run: RunId, queued: Queued) {
        if let Some(active) = self.runs.get_mut(&run) {
            active.queue.push_back(queued);
        }
    }

    /// The word of a fence may come late: a run that was loaded after it stays.
    fn fenced(&mut self, run: RunId) {
        let Some(active) = self.runs.get(&run) else { return };
        match self.services.store.load_run(&active.workspace, run) {
            Ok(Some(loaded)) if loaded.row.epoch == active.epoch => {}
            Ok(_) => {
                if let Some(active) = self.runs.remove(&run) {
                    self.replaced(&active);
                }
            }
            // Its next commit finds the fence.
            Err(error) => self.trouble(run, error),
        }
    }

    fn wake(&mut self, workspace: &WorkspaceId, run: RunId, now: Millis) {
        match self.load(workspace, run) {
            Ok(Place::Here) => {}
            Ok(Place::Elsewhere) => return self.out.push(Out::Nudge { workspace: workspace.clone(), run }),
            Ok(Place::Missing) => return,
            Err(error) => return self.trouble_with(run, error, Happened::Wake { workspace: workspace.clone(), run }),
        }
        self.read_inbox(workspace, run);
        // A sub-run is admitted by its parent's commit, with its slot: no message tells it to start. Nor is there one
        // when something was left for a run before the word of its birth came.
        let begun = |a: &Active| a.queue.iter().any(|queued| matches!(queued.input, Input::Start));
        if self.runs.get(&run).is_some_and(|a| a.is_unstarted() && !begun(a)) {
            self.push(run, Queued::new(Input::Start));
        }
        self.advance(run, now);
    }

    /// Queues what was left for the run and is not queued yet.
    fn read_inbox(&mut self, workspace: &WorkspaceId, run: RunId) {
        let loaded = match self.services.store.load_run(workspace, run) {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return,
            Err(error) => return self.trouble_with(run, error, Happened::Wake { workspace: workspace.clone(), run }),
        };
        let Some(active) = self.runs.get_mut(&run) else { return };
        for (seq, message) in loaded.inbox {
            // What a restore holds reads its messages when it is released.
            let waits = active.state.restored
                && !matches!(message, Inbox::Cancel { .. } | Inbox::CancelAlone { .. } | Inbox::Asked { .. });
            if waits || !active.inbox_seen.insert(seq) {
                continue;
            }
            active.take_in(Places { services: &self.services, flows: &self.flows, limits: &self.limits }, seq, message);
        }
    }

    fn recover(&mut self, workspace: &WorkspaceId, run: RunId, now: Millis) {
        // What a node remembers of a run from before it lost its lease, and has adopted like anybody else.
        self.fenced(run);
        match self.load(workspace, run) {
            Ok(Place::Here) => {}
            Ok(Place::Elsewhere | Place::Missing) => return,
            Err(error) => {
                return self.trouble_with(run, error, Happened::Recover { workspace: workspace.clone(), run });
            }
        }
        let unstarted = self.runs.get(&run).is_some_and(Active::is_unstarted);
        self.push(run, Queued::new(if unstarted { Input::Start } else { Input::Recover }));
        self.read_inbox(workspace, run);
        self.advance(run, now);
    }

    fn timer(&mut self, workspace: &WorkspaceId, run: RunId, timer: u64, now: Millis) {
        if self.rests(run, now) {
            return;
        }
        match self.load(workspace, run) {
            Ok(Place::Here) => {}
            // Its node sees the timer too.
            Ok(Place::Elsewhere | Place::Missing) => return,
            Err(error) => {
                self.rest(run, now);
                return self.trouble(run, error);
            }
        }
        let Some(active) = self.runs.get_mut(&run) else { return };
        match active.state.timers.get(&timer) {
            Some(found) if found.due > now => {} // the row is older than the state
            Some(_) if active.timers_queued.insert(timer) => {
                active.queue.push_back(Queued::new(Input::TimerFired { timer }))
            }
            Some(_) => {}
            None if active.committing.is_none() => active.stale_timers.push(timer),
            None => {}
        }
        self.advance(run, now);
    }

    fn performed(&mut self, run: RunId, step: StepKey, send: u32, outcome: Outcome, now: Millis) {
        let outcome = match away::noticed(|| self.held(run, &step, &outcome, now)) {
            Ok(None) => outcome,
            Ok(Some(other)) => other,
            Err(_) => return self.out.push(Out::Again(Box::new(Happened::Performed { run, step, send, outcome }))),
        };
        let Some(active) = self.runs.get_mut(&run) else { return };
        // The answer to a request of a life that is over: what became of it was judged when the run was taken over.
        let Some(InTheAir { masks, log, .. }) = active.performing.remove(&(step.clone(), send)) else { return };
        let seal = |text: &str| self.services.secrets.seal(&active.workspace, text).ok();
        let outcome = translate(outcome, &masks, &seal);
        active.logs_ready.insert(step.clone(), masked(log.take(), &masks, &seal));
        active.queue.push_back(Queued::new(Input::Performed { step, send, outcome }));
        self.advance(run, now);
    }

    /// What counts instead of an output that the task is not allowed to have.
    fn held(&self, run: RunId, step: &StepKey, outcome: &Outcome, now: Millis) -> Option<Outcome> {
        let Outcome::Done { output } = outcome else { return None };
        let active = self.runs.get(&run).filter(|active| active.flow.is_conductor())?;
        let task = active.flow.index.task(step.task_id())?;
        let refused = self.evaluator(active, Some(step), now).hold_output(task, output).err()?;
        let message = refused.message().to_owned();
        Some(Outcome::FailedClean { code: FAILED_FOR_GOOD, message, output: None, retryable: false })
    }

    fn control(&mut self, workspace: &WorkspaceId, run: RunId, control: Control, by: By, ticket: Ticket, now: Millis) {
        let answer = match self.load_for(workspace, run, &control) {
            Ok(Place::Here) => None,
            Ok(Place::Elsewhere) => return self.out.push(Out::AskElsewhere { ticket }),
            Ok(Place::Missing) => Some(ControlError::Unknown),
            Err(error) => Some(error.into()),
        };
        if let Some(error) = answer {
            return self.out.push(Out::Answer { ticket, answer: Err(error) });
        }
        let Some(active) = self.runs.get_mut(&run).filter(|a| a.workspace == *workspace) else {
            return self.out.push(Out::Answer { ticket, answer: Err(ControlError::Unknown) });
        };
        if active.committing.is_some()
            && matches!(&control, Control::Wish { wish } if matches!(**wish, Asking::Redo { .. }))
        {
            // What is looked up in the journal must be there.
            let workspace = workspace.clone();
            return self.out.push(Out::Again(Box::new(Happened::Control { workspace, run, control, by, ticket })));
        }
        let places = Places { services: &self.services, flows: &self.flows, limits: &self.limits };
        match control_input(places, active, control, by) {
            Ok(input) => active.queue.push_back(Queued { input, origin: Origin::Control(ticket) }),
            Err(text) => self.out.push(Out::Answer { ticket, answer: Err(ControlError::NotPossible(text)) }),
        }
        self.advance(run, now);
    }

    /// Works the run's queue until something must be durable first.
    fn advance(&mut self, run: RunId, now: Millis) {
        let Some(mut active) = self.runs.remove(&run) else { return };
        if active.committing.is_none() {
            active.outside_first();
            while let Some(queued) = active.queue.pop_front() {
                self.apply(&mut active, queued, now);
                if active.must_commit() {
                    break;
                }
            }
            if let Some(mut commit) = active.take_commit() {
                commit.announce = self.announcement(&mut active, &commit);
                self.commits += 1;
                active.committing = Some((self.commits, commit.clone()));
                self.out.push(Out::Commit { no: self.commits, commit: Box::new(commit) });
            }
        }
        if active.is_idle() && (active.state.is_ended() || !self.has_room(now)) {
            return; // leaves memory; the store has it all
        }
        self.runs.insert(run, active);
    }

    /// Whether another dormant run can be kept. Those that were are forgotten for it: of several nodes, another may have
    /// ended them long ago.
    fn has_room(&mut self, now: Millis) -> bool {
        if self.runs.len() >= DORMANT_MAX && now.since(self.forgot) >= FORGET_MS {
            self.forgot = now;
            self.runs.retain(|_, active| !active.is_idle());
        }
        self.runs.len() < DORMANT_MAX
    }

    /// The state that flow triggers are to hear of, if it is a new one and somebody wants to.
    fn announcement(&self, active: &mut Active, commit: &RunCommit) -> Option<String> {
        // What has no events tells nobody: the state is still to be told of.
        if commit.events.is_empty() {
            return None;
        }
        let state = state_word(&active.state);
        // A run that was restarted may end as before within one commit.
        let ends = active.committed.events.iter().any(|event| matches!(event, Event::Ended { .. }));
        let changed = std::mem::replace(&mut active.said, state) != state;
        if !(changed || ends) {
            return None;
        }
        self.flows.is_heard(&active.workspace, &[state]).then(|| state.to_owned())
    }

    fn apply(&mut self, active: &mut Active, queued: Queued, now: Millis) {
        let was_ended = active.state.is_ended();
        let was_restored = active.state.restored;
        let input = queued.input.clone();
        active.went_on |= matches!(input, Input::Continue | Input::Recover);
        let logs = match &input {
            Input::Evaluated { step, .. } | Input::Performed { step, .. } => {
                active.logs_ready.remove(step).map(|lines| (step.clone(), lines))
            }
            _ => None,
        };
        let other = other_flow(&input).map(|(flow, revision)| self.flows.revision(&active.workspace, flow, revision));
        let other = other.transpose();
        let decided = match &other {
            Ok(other) => {
                let flow = other.as_ref().unwrap_or(&active.flow).clone();
                decide(&flow.index, &mut active.state, input, now, &self.limits)
            }
            Err(error) => Err(NotPossible(error.to_string())),
        };
        match decided {
            Err(refused) => {
                match queued.origin {
                    Origin::Control(ticket) => {
                        let answer = Err(ControlError::NotPossible(refused.to_string()));
                        self.out.push(Out::Answer { ticket, answer });
                    }
                    // The message cannot be acted on: it is removed all the same.
                    Origin::Inbox(seq) => active.pending.inbox_consumed.push(seq),
                    Origin::Asked { seq, ticket } => active.answer(seq, ticket, Some(refused.to_string())),
                    Origin::Internal => {}
                }
            }
            Ok(decided) => {
                match queued.origin {
                    Origin::Control(ticket) if planted!(AnsweredBeforeDurable) => {
                        self.out.push(Out::Answer { ticket, answer: Ok(()) });
                    }
                    Origin::Control(ticket) => active.pending.tickets.push(ticket),
                    Origin::Inbox(seq) => active.pending.inbox_consumed.push(seq),
                    Origin::Asked { seq, ticket } => active.answer(seq, ticket, None),
                    Origin::Internal => {}
                }
                if was_ended && !active.state.is_ended() {
                    active.pending.reopened = true;
                    active.pending.lifts = lifter(&queued.input).cloned();
                    active.pending.lifted = matches!(queued.input, Input::ChildReopened { .. });
                }
                if let Ok(Some(other)) = other
                    && decided.events.iter().any(|event| matches!(event, Event::FlowChanged { .. }))
                {
                    active.flow = other;
                }
                if was_restored && !active.state.restored {
                    // Its messages have waited.
                    self.out.push(Out::Wake { workspace: active.workspace.clone(), run: active.run });
                }
                active.pending.by_twin |=
                    matches!((&queued.origin, &queued.input), (Origin::Inbox(_), Input::Restart { .. }));
                active.remember(&queued.input, &decided.events);
                let failures = failures::lines(&active.flow, &queued.input, &decided.events, logs.as_ref());
                if let Some((step, lines)) = logs.filter(|_| !decided.events.is_empty()) {
                    // With what the step came to, not before: a crash in between would write them twice.
                    active.log(&step, lines, self.limits.log_line_bytes_max, now);
                }
                for (step, line) in failures {
                    active.log(&step, vec![line], self.limits.log_line_bytes_max, now);
                }
                let moments = moments(&active.flow, &decided.events);
                active.record(decided.events, now);
                for (step, moment, attempt) in moments {
                    self.announce(active, &step, moment, attempt, now);
                }
                for action in decided.actions {
                    self.act(active, action, now);
                }
                active.pending.inputs.push(queued);
            }
        }
    }

    /// What the author wants told of this moment of a step is left for the handlers in the commit that records it. That a
    /// worker has it is known when it takes it: whoever hands it out tells, and the run once more when it hears of it.
    fn announce(&self, active: &mut Active, step: &StepKey, moment: Moment, attempt: u32, now: Millis) {
        let events = self.evaluator(active, Some(step), now).state_events(step, moment, attempt);
        for event in events {
            let key = format!("{:013}-{}", now.0, event["id"].as_str().unwrap_or_default());
            active.pending.notes.push((step.clone(), OpKind::Announce { key, event }));
        }
        if moment == Moment::Scheduled {
            let taken = self.evaluator(active, Some(step), now).state_events(step, Moment::Started, attempt);
            active.pending.on_taken.insert(step.clone(), taken);
        }
    }

    fn act(&mut self, active: &mut Active, action: Action, now: Millis) {
        match action {
            Action::Evaluate(_) | Action::EvaluateOutputs if self.stopping => {}
            Action::Evaluate(step) => {
                let mut found = Found::default();
                let place = Some(step.clone());
                let evaluate = || self.evaluator(active, Some(&step), now).step(&step, &mut found);
                let result = away::noticed(|| outside::asking(&active.answers_at(&place), evaluate));
                let Ok(result) = result else { return self.act_later(active, Action::Evaluate(step)) };
                let result = match result {
                    Ok(result) => result,
                    Err(need) => return self.ask(active, place, need, Action::Evaluate(step)),
                };
                active.answers.remove(&place);
                let result = result.map(|found| breakpoints::marked(found, &step, active));
                active.logs_ready.insert(step.clone(), found.logs);
                if let Some(op) = found.op {
                    active.ops_ready.insert(step.clone(), op);
                }
                if !found.definitions.is_empty() {
                    active.definitions_ready.insert(step.clone(), found.definitions);
                }
                let retry = found.retry;
                active.queue.push_front(Queued::new(Input::Evaluated { step, result, retry }));
            }
            Action::EvaluateOutputs => {
                let evaluate = || self.evaluator(active, None, now).outputs();
                let result = away::noticed(|| outside::asking(&active.answers_at(&None), evaluate));
                let Ok(result) = result else { return self.act_later(active, Action::EvaluateOutputs) };
                let result = match result {
                    Ok(result) => result,
                    Err(need) => return self.ask(active, None, need, Action::EvaluateOutputs),
                };
                active.answers.remove(&None);
                active.queue.push_front(Queued::new(Input::OutputsEvaluated(result)));
            }
            Action::Perform { step, send } if planted!(SentBeforeIntent) => self.perform(active, step, send, now),
            Action::Perform { step, send } => active.pending.performs.push((step, send)),
            Action::Op(step) => {
                if !active.ops_ready.contains_key(&step) {
                    let mut found = Found::default();
                    // Only after a crash: the op was decided but never carried out.
                    let place = Some(step.clone());
                    let evaluate = || self.evaluator(active, Some(&step), now).step(&step, &mut found);
                    let result = away::noticed(|| outside::asking(&active.answers_at(&place), evaluate));
                    let Ok(result) = result else { return self.act_later(active, Action::Op(step)) };
                    let result = match result {
                        Ok(result) => result,
                        Err(need) => return self.ask(active, place, need, Action::Op(step)),
                    };
                    active.answers.remove(&place);
                    if let Err(failure) = result {
                        tracing::warn!(run = %active.run, step = %step, code = failure.code, "an op no longer evaluates");
                    }
                    if let Some(op) = found.op {
                        active.ops_ready.insert(step.clone(), op);
                    }
                    if !found.definitions.is_empty() {
                        active.definitions_ready.insert(step.clone(), found.definitions);
                    }
                }
                active.pending.ops.push(step);
            }
            Action::CancelChild { run, by } => active.pending.cancels.push((run, by)),
            Action::EnterLane => active.pending.enter_lane = Some(active.entry()),
            Action::ForceLane => active.pending.enter_lane = Some(OpKind::ForceLane),
            Action::RunAgain if self.stopping => {}
            Action::RunAgain => {
                let (flow, round) = (active.flow.clone(), active.state.round);
                let found = away::noticed(|| {
                    run_again(&self.services, &self.flows, &active.workspace, &flow, active.run, round, now)
                });
                match found {
                    Err(_) => self.act_later(active, Action::RunAgain),
                    Ok(Ok(op)) => active.pending.enter_lane = Some(op),
                    Ok(Err(failure)) => {
                        let by = By { who: "flow retry".into(), why: "no new run could be made".into() };
                        let input = Input::Stop { by, status: EndStatus::Failed, failure };
                        active.queue.push_front(Queued::new(input));
                    }
                }
            }
            Action::CheckSla(_) if self.stopping => {}
            Action::CheckSla(sla) => {
                let holds = away::noticed(|| self.evaluator(active, None, now).assertion(sla));
                let Ok(holds) = holds else { return self.act_later(active, Action::CheckSla(sla)) };
                active.queue.push_front(Queued::new(Input::SlaChecked { sla, holds }));
            }
        }
    }

    /// The store could not be read for now: the same is to be done again, and nothing is written down.
    pub(super) fn act_later(&mut self, active: &mut Active, action: Action) {
        if active.later.is_empty() {
            self.out.push(Out::Again(Box::new(Happened::Later(active.run))));
        }
        active.later.push(action);
    }

    /// Does what could not be done for now. A run that was dropped meanwhile is asked for all of it when it is loaded.
    fn later(&mut self, run: RunId, now: Millis) {
        let Some(mut active) = self.runs.remove(&run) else { return };
        for action in std::mem::take(&mut active.later) {
            match action {
                // Its intent is durable already.
                Action::Perform { step, send } => self.perform(&mut active, step, send, now),
                action => self.act(&mut active, action, now),
            }
        }
        self.runs.insert(run, active);
        self.advance(run, now);
    }

    fn evaluator<'a>(&'a self, active: &'a Active, step: Option<&'a StepKey>, now: Millis) -> Evaluator<'a> {
        let run = RunScope {
            id: active.run,
            original: active.original,
            correlation_id: &active.correlation_id,
            created_at: active.created_at,
            state: &active.state,
            step,
        };
        Evaluator {
            services: &self.services,
            flows: &self.flows,
            limits: &self.limits,
            workspace: &active.workspace,
            flow: &active.flow,
            scope: ExprScope {
                services: &self.services,
                workspace: &active.workspace,
                flow: &active.flow,
                memory: &active.memory,
                run: Some(run),
                now,
            },
            family: Family {
                run: active.run,
                root: active.root,
                depth: active.depth,
                correlation_id: &active.correlation_id,
            },
            now,
        }
    }

    /// A run cannot be read or written. If the store is damaged, the node must stop.
    fn trouble(&mut self, run: RunId, error: StoreError) {
        tracing::error!(%run, %error, "a run cannot be driven; it stays as the store has it");
        if error.is_fatal() {
            self.fatal.get_or_insert(error);
        }
    }

    /// As [`Self::trouble`], but what the store only refuses for now happens again.
    fn trouble_with(&mut self, run: RunId, error: StoreError, again: Happened) {
        match error {
            StoreError::Full(_) | StoreError::Busy(_) => self.out.push(Out::Again(Box::new(again))),
            error => self.trouble(run, error),
        }
    }

    fn replaced(&mut self, active: &Active) {
        self.fail_tickets(active, &ControlError::NotPossible("the run was replaced or cancelled meanwhile".to_owned()));
    }

    /// Why nothing should go on, if so.
    pub fn fatal(&self) -> Option<&StoreError> {
        self.fatal.as_ref()
    }

    fn fail_tickets(&mut self, active: &Active, error: &ControlError) {
        for ticket in active.tickets() {
            self.out.push(Out::Answer { ticket, answer: Err(error.clone()) });
        }
    }
}

/// Who has a run go on in such a way that whoever waited for it goes on too.
fn lifter(input: &Input) -> Option<&By> {
    match input {
        Input::Wish { by, .. } | Input::ChildReopened { by, .. } => Some(by),
        _ => None,
    }
}

impl Queued {
    fn new(input: Input) -> Queued {
        Queued { input, origin: Origin::Internal }
    }
}

/// Used by the queue of a reloaded run.
impl From<Vec<Queued>> for active::Queue {
    fn from(inputs: Vec<Queued>) -> active::Queue {
        active::Queue(VecDeque::from(inputs))
    }
}

/// What an event does to the fuse: only its size matters here.
fn weight(event: &Event) -> usize {
    match event {
        Event::LoopStarted { items, .. } => items.json().as_array().map_or(64, |a| 64 + a.len() * 16),
        Event::StepEnded { output: Some(output), .. } => 64 + rough_size(output.json()),
        _ => 64,
    }
}

fn rough_size(value: &Json) -> usize {
    match value {
        Json::String(s) => s.len(),
        Json::Array(items) => items.iter().map(rough_size).sum::<usize>() + 8,
        Json::Object(map) => map.values().map(rough_size).sum::<usize>() + 8,
        Json::Null | Json::Bool(_) | Json::Number(_) => 8,
    }
}
