//! One run in memory: its folded state, its values, and what waits to be written.

use super::{Born, FUSE_BYTES_MAX, FUSE_EVENTS_MAX, Ticket, weight};
use crate::api::FlowLookupError;
use crate::cache::digest;
use crate::conductor::words_of;
use crate::flows::{Flows, LoadedFlow};
use crate::hearing::state_word;
use crate::masking::Mask;
use crate::memory::{Memory, trigger_value};
use crate::outside::Answers;
use crate::scope::Services;
use semel_core::admission::Busy;
use semel_core::run::{
    Action, By, EndStatus, Event, Input, Payload, Performed, Phase, RunState, SNAPSHOT_VERSION, Said, Status, StepKey,
    StepOutcome, Wish, Work, decode_events, errand_id,
};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::{Amend, FlowRow, LogRow, OpKind, RunCommit, RunRow, StoreError, TaskWord};
use semel_tasks::{Log, LogLine, Stop};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Where an input came from, so that its end can be told.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    Internal,
    Control(Ticket),
    Inbox(u64),
    /// A message of the inbox whose answer another node waits for.
    Asked {
        seq: u64,
        ticket: Hash16,
    },
}

#[derive(Clone, Debug)]
pub struct Queued {
    pub input: Input,
    pub origin: Origin,
}

#[derive(Clone, Debug, Default)]
pub struct Queue(pub VecDeque<Queued>);

impl std::ops::Deref for Queue {
    type Target = VecDeque<Queued>;
    fn deref(&self) -> &VecDeque<Queued> {
        &self.0
    }
}

impl std::ops::DerefMut for Queue {
    fn deref_mut(&mut self) -> &mut VecDeque<Queued> {
        &mut self.0
    }
}

/// What has been decided since the last commit.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    pub events: Vec<Event>,
    pub bytes: usize,
    pub logs: Vec<LogRow>,
    pub performs: Vec<(StepKey, u32)>,
    pub ops: Vec<StepKey>,
    pub enter_lane: Option<OpKind>,
    /// What the commit is to note besides.
    pub notes: Vec<(StepKey, OpKind)>,
    /// Events of steps that are set out, to be published when somebody takes them.
    pub on_taken: BTreeMap<StepKey, Vec<serde_json::Value>>,
    pub cancels: Vec<(RunId, By)>,
    pub inbox_consumed: Vec<u64>,
    pub answers: Vec<(Hash16, Option<String>)>,
    pub tickets: Vec<Ticket>,
    /// By the id of the step: a handler that runs again has the same path and another id.
    pub effects: BTreeMap<Hash16, semel_store::EffectRow>,
    pub task_words: BTreeSet<TaskWord>,
    pub labels_changed: bool,
    /// The run had ended and goes on.
    pub reopened: bool,
    /// Whoever has whoever waited for it go on too.
    pub lifts: Option<By>,
    /// A sub-run of it goes on already.
    pub lifted: bool,
    pub amend: Option<Box<Amend>>,
    pub by_twin: bool,
    /// Inputs that led here, in case the guard fails.
    pub inputs: Vec<Queued>,
}

/// A request whose answer has not come.
pub struct InTheAir {
    /// The secrets it carries.
    pub masks: Vec<Mask>,
    pub log: Log,
    pub stop: Stop,
}

pub struct Active {
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub flow: Arc<LoadedFlow>,
    pub epoch: u64,
    pub version: u64,
    pub root: RunId,
    pub depth: u32,
    pub correlation_id: String,
    /// The claim that it was admitted by.
    pub claim: Option<Hash16>,
    /// The first of the runs that replay one another.
    pub original: RunId,
    pub created_at: Millis,
    pub status_on_load: Status,
    /// What the head says of `is_active`, as it was read or written last.
    pub head_active: bool,
    /// Whether this driver has asked the run to go on. One that was loaded may have the result of an op in its journal
    /// from which nothing has followed yet.
    pub went_on: bool,
    /// Kestra's word for the state, as of the last commit.
    pub said: &'static str,
    pub erased: bool,
    pub state: RunState,
    pub memory: Memory,
    pub queue: Queue,
    pub pending: Pending,
    /// What the commit in flight will release.
    pub committed: Pending,
    /// With its number.
    pub committing: Option<(u64, RunCommit)>,
    /// Requests in the air.
    pub performing: BTreeMap<(StepKey, u32), InTheAir>,
    pub ops_ready: BTreeMap<StepKey, OpKind>,
    /// Definitions that are to be stored with them.
    pub definitions_ready: BTreeMap<StepKey, Vec<FlowRow>>,
    /// Lines of steps that were evaluated and whose result is not recorded yet.
    pub logs_ready: BTreeMap<StepKey, Vec<LogLine>>,
    pub inbox_seen: BTreeSet<u64>,
    pub timers_queued: BTreeSet<u64>,
    /// Errands that have a row which is open, by step.
    pub errands_out: BTreeMap<StepKey, Hash16>,
    /// Words, but ids, that earlier commits of this process have written.
    pub task_words_told: BTreeSet<TaskWord>,
    /// Rows of timers that the state no longer has.
    pub stale_timers: Vec<u64>,
    pub events_since_snapshot: usize,
    /// What needs a read that the store has refused for now.
    pub later: Vec<Action>,
    /// What the evaluation of a step (none: of the outputs) has read so far, until it has come to its end.
    pub answers: BTreeMap<Option<StepKey>, Answers>,
    /// Reads that are out, with what to mask in their answers.
    pub reading: BTreeMap<(Option<StepKey>, Hash16), Vec<Mask>>,
}

/// A store that is away for now is not a flow that cannot be read.
fn cannot_load(run: RunId, error: FlowLookupError) -> StoreError {
    match error {
        FlowLookupError::Store(error @ (StoreError::Busy(_) | StoreError::Full(_))) => error,
        error => StoreError::Bug(format!("run {run} pins a flow that does not load: {error}")),
    }
}

impl Active {
    /// A run as its admission left it.
    pub fn born(flows: &Flows, born: Born) -> Result<Active, StoreError> {
        let Born { row, inputs, trigger, labels } = born;
        let flow =
            flows.revision(&row.workspace, &row.flow, row.revision).map_err(|error| cannot_load(row.id, error))?;
        let memory = Memory {
            inputs: semel_expr::Value::from_stored(&inputs),
            trigger: trigger_value(&trigger),
            labels: labels.into_iter().collect(),
            ..Memory::default()
        };
        let state = RunState::new(row.logical);
        Ok(Active::new(row, flow, state, memory, 1))
    }

    fn new(
        row: RunRow,
        flow: Arc<LoadedFlow>,
        state: RunState,
        memory: Memory,
        events_since_snapshot: usize,
    ) -> Active {
        let errands_out = out_now(&state);
        Active {
            run: row.id,
            original: row.original(),
            workspace: row.workspace,
            flow,
            epoch: row.epoch,
            version: row.version,
            root: row.root,
            depth: row.depth,
            correlation_id: row.correlation_id,
            claim: row.claim,
            created_at: row.created_at,
            status_on_load: row.status,
            head_active: row.active,
            went_on: false,
            said: state_word(&state),
            erased: row.erased,
            state,
            memory,
            queue: Queue::default(),
            pending: Pending::default(),
            committed: Pending::default(),
            committing: None,
            performing: BTreeMap::new(),
            ops_ready: BTreeMap::new(),
            definitions_ready: BTreeMap::new(),
            logs_ready: BTreeMap::new(),
            inbox_seen: BTreeSet::new(),
            errands_out,
            task_words_told: BTreeSet::new(),
            timers_queued: BTreeSet::new(),
            stale_timers: Vec::new(),
            events_since_snapshot,
            later: Vec::new(),
            answers: BTreeMap::new(),
            reading: BTreeMap::new(),
        }
    }
}

/// Errands that are out, each with the name of its attempt.
pub(super) fn out_now(state: &RunState) -> BTreeMap<StepKey, Hash16> {
    let out = state.errands().filter(|_| !state.restored && !state.is_ended());
    out.map(|(step, attempt, _)| (step.clone(), errand_id(state.step_id(step), attempt))).collect()
}

/// What became of the wish to have a run in memory.
pub enum Loaded {
    Here(Box<Active>),
    /// Another node drives it.
    Elsewhere,
    Missing,
}

/// Journal rows read at a time.
const PAGE: u32 = 1_000;

impl Active {
    /// Reads a run: its snapshot if there is one, its journal for the rest.
    pub fn load(services: &Services, flows: &Flows, workspace: &WorkspaceId, run: RunId) -> Result<Loaded, StoreError> {
        let Some(loaded) = services.store.load_run(workspace, run)? else { return Ok(Loaded::Missing) };
        if loaded.elsewhere {
            return Ok(Loaded::Elsewhere);
        }
        let row = loaded.row;
        let flow = flows.revision(workspace, &row.flow, row.revision).map_err(|error| cannot_load(run, error))?;
        let snapshot: Option<(u64, RunState)> = loaded
            .snapshot
            .filter(|s| s.format == SNAPSHOT_VERSION && s.version <= row.version)
            .and_then(|s| Some((s.version, serde_json::from_slice(&s.state).ok()?)));
        let mut state = RunState::new(row.logical);
        let mut memory = Memory::default();
        let mut failures = BTreeMap::new();
        let mut after = 0;
        let mut since = 0;
        loop {
            let rows = services.store.journal(workspace, run, after, PAGE)?;
            let last = rows.len() < PAGE as usize;
            for entry in rows {
                after = entry.seq;
                let events = decode_events(&entry.events, entry.values.as_deref())
                    .map_err(|e| StoreError::Poisoned(format!("run {run}, journal row {}: {e}", entry.seq)))?;
                for event in &events {
                    note_failure(event, &mut failures);
                    // Values are folded from every row; structure only after the snapshot.
                    match &snapshot {
                        Some((version, cached)) if entry.seq <= *version => {
                            if entry.seq == *version {
                                state = cached.clone();
                            }
                        }
                        _ => {
                            state.evolve(event);
                            since += 1;
                        }
                    }
                    memory.fold(run, event, &state, &flow, entry.at);
                }
            }
            if last {
                break;
            }
        }
        memory.forget_settled(&state);
        memory.name_effects(&state);
        refill(&mut state, &failures);
        Ok(Loaded::Here(Box::new(Active::new(row, flow, state, memory, since))))
    }

    /// Nothing in flight and nothing to do.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.committing.is_none() && self.performing.is_empty() && !self.state.is_active()
    }

    /// Admitted with its slot, and never started by a driver.
    pub fn is_unstarted(&self) -> bool {
        self.state.phase == Phase::Waiting && self.status_on_load == Status::Running
    }

    /// Folds values of events that the machine has already folded into the state.
    pub fn record(&mut self, events: Vec<Event>, now: Millis) {
        for event in events {
            if self.flow.is_conductor() {
                words_of(&event, &self.flow, &self.state, &self.memory, &mut self.pending.task_words);
            }
            self.memory.fold(self.run, &event, &self.state, &self.flow, now);
            self.note(&event);
            self.pending.bytes += weight(&event);
            self.pending.events.push(event);
        }
    }

    /// A request that was answered well is remembered, where its author wants that. Call before the events are recorded.
    pub fn remember(&mut self, input: &Input, events: &[Event]) {
        let step = match input {
            Input::Performed { step, outcome: Performed::Done { .. }, .. } => step,
            Input::Errand { step, said: Said::Done { .. }, .. } => step,
            Input::Wish { wish: Wish::Tell { errand: Some(told), .. }, .. } => &told.step,
            _ => return,
        };
        let Some(task) = self.flow.index.task(step.task_id()) else { return };
        let done = |event: &Event| match event {
            Event::StepEnded { step: ended, outcome: StepOutcome::Success | StepOutcome::Warning, .. } => ended == step,
            _ => false,
        };
        if let (Some(cache), Some(request)) = (&task.cache, self.memory.requests.get(step))
            && events.iter().any(done)
        {
            let digest = digest(&self.flow, task, &Payload::new(request.clone()));
            let remember = digest.map(|digest| OpKind::Remember { digest, ttl_ms: cache.ttl_ms });
            self.pending.notes.extend(remember.map(|op| (step.clone(), op)));
        }
    }

    /// How the run asks for its slot: what Kestra's CANCEL and FAIL say holds also for one that comes late.
    pub fn entry(&self) -> OpKind {
        match self.flow.index.flow.lane.as_ref().map(|lane| lane.busy) {
            Some(Busy::Cancel) => OpKind::EnterLaneOrEnd { status: EndStatus::Cancelled },
            Some(Busy::Fail) => OpKind::EnterLaneOrEnd { status: EndStatus::Failed },
            _ => OpKind::EnterLane,
        }
    }

    /// Folds an event that a transaction appended.
    pub fn fold(&mut self, event: &Event, now: Millis) {
        self.state.evolve(event);
        self.memory.fold(self.run, event, &self.state, &self.flow, now);
        self.events_since_snapshot += 1;
    }

    fn note(&mut self, event: &Event) {
        if let Some(row) = self.memory.ledger_row(event) {
            self.pending.effects.insert(row.step_id, row);
        }
        match event {
            Event::LabelsSet { .. } | Event::LabelsReplaced { .. } => self.pending.labels_changed = true,
            Event::FlowChanged { flow, revision, .. } => self.amend().flow = Some((flow.clone(), *revision)),
            Event::InputsGiven { inputs, correlation_id, .. } => {
                self.amend().inputs = inputs.as_ref().map(|inputs| inputs.json().clone());
                self.amend().correlation_id = correlation_id.clone();
                if let Some(correlation_id) = correlation_id {
                    self.correlation_id = correlation_id.clone();
                }
            }
            Event::TimerFired { timer } | Event::TimerCleared { timer } => {
                self.timers_queued.remove(timer);
            }
            _ => {}
        }
    }

    fn amend(&mut self) -> &mut Amend {
        self.pending.amend.get_or_insert_default()
    }

    pub fn log(&mut self, step: &StepKey, lines: Vec<LogLine>, bytes_max: usize, now: Millis) {
        for line in lines {
            // Unique and increasing without being counted: the version only grows.
            let seq = ((self.version + 1) << 20) | self.pending.logs.len() as u64;
            let message = truncate(line.message, bytes_max);
            let level = line.level.word().to_owned();
            self.pending.logs.push(LogRow { run: self.run, seq, at: now, level, step: step.clone(), message });
        }
    }

    /// What came from outside goes before the run's own next steps, or a long loop of pure steps
    /// would not hear that it is to stop.
    pub fn outside_first(&mut self) {
        let own = |queued: &Queued| {
            matches!(queued.input, Input::Evaluated { .. } | Input::OutputsEvaluated(_))
                && matches!(queued.origin, Origin::Internal)
        };
        if self.queue.len() > 1 {
            let (inside, outside): (Vec<Queued>, Vec<Queued>) = self.queue.drain(..).partition(own);
            self.queue.extend(outside);
            self.queue.extend(inside);
        }
    }

    /// The fuse is full, or something must be durable before anything else happens. An end gives up the run's slot and
    /// settles its claim, so it is written down before the run is asked to go on: within one commit nobody would see it.
    pub fn must_commit(&self) -> bool {
        let full = self.pending.events.len() >= FUSE_EVENTS_MAX || self.pending.bytes >= FUSE_BYTES_MAX;
        full || self.pending.reopened || (self.state.is_ended() && !self.pending.events.is_empty())
    }

    /// Inputs that came from outside and whose events were not written, in their order.
    pub fn lost_inputs(&self) -> Vec<Queued> {
        let outside = |queued: &&Queued| match queued.input {
            Input::Evaluated { .. } | Input::OutputsEvaluated(_) | Input::Continue => false,
            // Inbox messages are still in the store.
            _ => !matches!(queued.origin, Origin::Inbox(_) | Origin::Asked { .. }),
        };
        let mut inputs: Vec<Queued> = self
            .committed
            .inputs
            .iter()
            .chain(&self.pending.inputs)
            .chain(self.queue.iter())
            .filter(outside)
            .cloned()
            .collect();
        // What was pure and open is asked for again by the machine, also where a start is lost that another driver has made.
        if !inputs.iter().any(|q| matches!(q.input, Input::Recover)) {
            inputs.insert(0, Queued { input: Input::Continue, origin: Origin::Internal });
        }
        inputs
    }

    pub fn tickets(&self) -> Vec<Ticket> {
        let queued = self.queue.iter().filter_map(|q| match q.origin {
            Origin::Control(ticket) => Some(ticket),
            Origin::Internal | Origin::Inbox(_) | Origin::Asked { .. } => None,
        });
        self.committed.tickets.iter().chain(&self.pending.tickets).copied().chain(queued).collect()
    }

    /// The trace context the event arrived with.
    pub fn traceparent(&self) -> Option<String> {
        let header = self.memory.trigger.get("headers")?.get("traceparent")?;
        match header {
            semel_expr::Value::List(items) => items.first().map(semel_expr::Value::to_text),
            other => Some(other.to_text()),
        }
    }
}

/// Remembers a text that the state needs by its digest: a snapshot keeps structure only.
fn note_failure(event: &Event, failures: &mut BTreeMap<Hash16, Payload>) {
    match event {
        Event::StepEnded { failure: Some(failure), .. }
        | Event::OpDone { failure: Some(failure), .. }
        | Event::StepResumed { failure: Some(failure), .. }
        | Event::GroupAnswered { failure: Some(failure), .. }
        | Event::Exited { failure: Some(failure), .. }
        | Event::StopRequested { failure, .. } => {
            failures.insert(failure.message.digest, failure.message.clone());
        }
        Event::Concluded { outputs, failure, .. } => {
            let texts = failure.as_ref().map(|failure| &failure.message).into_iter().chain(outputs);
            failures.extend(texts.map(|payload| (payload.digest, payload.clone())));
        }
        _ => {}
    }
}

/// Gives a state read from a snapshot its failure texts back.
fn refill(state: &mut RunState, failures: &BTreeMap<Hash16, Payload>) {
    let stop = state.stop.as_mut().map(|(_, failure)| &mut failure.message);
    let (outputs, failure) = match &mut state.concluded {
        Some(end) => (end.outputs.as_mut(), end.failure.as_mut().map(|failure| &mut failure.message)),
        None => (None, None),
    };
    let exit = state.exit.as_mut().and_then(|exit| exit.failure.as_mut()).map(|failure| &mut failure.message);
    for slot in [stop, outputs, failure, exit].into_iter().flatten() {
        if let Some(text) = failures.get(&slot.digest) {
            *slot = text.clone();
        }
    }
    for step in state.steps.values_mut() {
        let slot = match &mut step.work {
            Work::Group(group) => group.failure.as_mut().map(|(_, failure)| failure),
            Work::OpFailed { failure } => Some(failure),
            _ => None,
        };
        if let Some(failure) = slot
            && let Some(text) = failures.get(&failure.message.digest)
        {
            failure.message = text.clone();
        }
    }
}

fn truncate(message: String, bytes_max: usize) -> String {
    if message.len() <= bytes_max {
        return message;
    }
    let mut end = bytes_max;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… (cut at {bytes_max} bytes)", &message[..end])
}
