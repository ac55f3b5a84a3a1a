//! Replay: a new run that does again what an ended one did, from one of its top-level tasks on.
//!
//! What the old run did before that task is copied into the journal of the new one, so its outputs are there and its
//! steps are seen; its effects are not asked for again. The new run has step ids of its own: each replay is asked for by
//! a person and sends anew. The store checks in the same transaction that the old run is still as it was read here.

use crate::admit::lane_of;
use crate::api::{AdmitError, FlowLookupError};
use crate::away;
use crate::flows::{Flows, LoadedFlow};
use crate::handle::Engine;
use crate::inputs;
use crate::memory::{Memory, trigger_value};
use crate::scope::{ExprScope, Services};
use semel_core::admission::PresetName;
use semel_core::fingerprint::Fingerprint;
use semel_core::run::{By, Event, StepKey, decode_events, step_id};
use semel_core::{Door, Millis, RunId, WorkspaceId};
use semel_expr::Value;
use semel_store::{AdmitRequest, AdmitResult, Done, ReplayTerms, RunRow, StoreError, Terms, WholeRun, Work};
use serde_json::Value as Json;
use tokio::sync::oneshot;

/// What is to be done again.
#[derive(Clone, Debug, Default)]
pub struct ReplayWish {
    /// A top-level task: its id, or the id of its step. `None`: from the start.
    pub from: Option<String>,
    /// `None`: that of the old run.
    pub revision: Option<u32>,
    /// Instead of those of the old run.
    pub inputs: Option<Json>,
    /// The id that the new run gets, if files for its inputs were taken in under it.
    pub run: Option<RunId>,
    /// Tasks that the new run stops before.
    pub breakpoints: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    #[error("no such run")]
    Unknown,
    /// The text says what would be possible.
    #[error("{0}")]
    NotPossible(String),
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> ReplayError {
        ReplayError::Admit(error.into())
    }
}

impl From<FlowLookupError> for ReplayError {
    fn from(error: FlowLookupError) -> ReplayError {
        match error {
            FlowLookupError::Store(error) => error.into(),
            other => ReplayError::NotPossible(other.to_string()),
        }
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, ReplayError> {
    Err(ReplayError::NotPossible(text.into()))
}

/// A run that is to be replayed may go on at the same time by somebody else's wish.
const REPLAY_TRIES: u32 = 3;

impl Engine {
    /// A new run that does again what an ended one did.
    pub async fn replay(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        wish: &ReplayWish,
        by: &By,
    ) -> Result<AdmitResult, ReplayError> {
        for _ in 0..REPLAY_TRIES {
            let now = self.store().now();
            let request =
                away::noticed(|| prepare_replay(&self.services, &self.flows, workspace, run, wish, by, now))??;
            let (told, owner) = (self.told.clone(), workspace.clone());
            let (reply, answer) = oneshot::channel();
            self.store().submit(
                Work::Admit(Box::new(request)),
                Box::new(move |done| {
                    if let Ok(Done::Admitted(result)) = &done {
                        told.follow_up(&owner, None, result);
                    }
                    // The caller may have gone away; the run goes on.
                    let _ = reply.send(done);
                }),
            );
            match answer.await.unwrap_or(Err(StoreError::Closed)) {
                Ok(Done::Admitted(result)) => return Ok(*result),
                Ok(other) => return Err(StoreError::Bug(format!("a replay was answered with {other:?}")).into()),
                // The old run has changed since it was read.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ReplayError::NotPossible("the run keeps changing; try again when it has ended".to_owned()))
    }
}

/// Prepares the new run.
pub fn prepare_replay(
    services: &Services,
    flows: &Flows,
    workspace: &WorkspaceId,
    run: RunId,
    wish: &ReplayWish,
    by: &By,
    now: Millis,
) -> Result<AdmitRequest, ReplayError> {
    let (row, values, labels) = possible(services, workspace, run)?;
    let flow = flows.revision(workspace, &row.flow, wish.revision.unwrap_or(row.revision))?;
    let journal = journal_of(services, workspace, run)?;
    let (from, events) = history(&flow, &row, &journal, wish.from.as_deref())?;
    let trigger = values.trigger.unwrap_or(Json::Null);
    let mut memory =
        Memory { trigger: trigger_value(&trigger), labels: labels.iter().cloned().collect(), ..Memory::default() };
    let inputs = match &wish.inputs {
        None => values.inputs.unwrap_or(Json::Null),
        Some(given) => {
            let scope = ExprScope { services, workspace, flow: &flow, memory: &memory, run: None, now };
            inputs::check(&flow.index.flow.inputs, given, &scope).map_err(AdmitError::Inputs)?
        }
    };
    memory.inputs = Value::from_stored(&inputs);
    let scope = ExprScope { services, workspace, flow: &flow, memory: &memory, run: None, now };
    let lane = flow.index.flow.lane.as_ref().map(|spec| lane_of(spec, workspace, &flow, &scope)).transpose()?;
    let replay = ReplayTerms {
        of: row.id,
        original: row.original(),
        version: row.version,
        from,
        events,
        labels: with_label(&labels, "system.replayed"),
    };
    let preset = PresetName::Trigger.preset().policy;
    Ok(AdmitRequest {
        workspace: workspace.clone(),
        flow: row.flow.clone(),
        revision: flow.revision,
        door: Door::Kestra,
        occurrence: format!("{:016x}{:016x}", services.entropy.random(), now.0),
        caller: by.who.clone(),
        key: None,
        fingerprint: Fingerprint::of(&[&Json::String(row.flow.to_string()), &inputs]),
        policy: semel_core::admission::Policy { require_key: false, ..preset },
        lane,
        run: wish.run.unwrap_or_else(|| services.entropy.run_id(now)),
        inputs,
        trigger,
        labels: with_label(&labels, "system.replay"),
        correlation_id: Some(row.correlation_id.clone()),
        parent: None,
        root: None,
        depth: 0,
        tick: None,
        hearing: None,
        announced: flows.is_heard(workspace, &["CANCELLED", "FAILED"]),
        terms: Terms { replay: Some(Box::new(replay)), breakpoints: wish.breakpoints.clone(), ..Terms::default() },
    })
}

fn possible(services: &Services, workspace: &WorkspaceId, run: RunId) -> Result<WholeRun, ReplayError> {
    let Some(whole) = services.store.run(workspace, run)? else { return Err(ReplayError::Unknown) };
    match &whole.0 {
        row if row.open_doubts > 0 => refuse("an effect is in doubt; give a verdict first (semel run verdict)"),
        row if !row.status.is_ended() => refuse("the run has not ended; cancel it first"),
        row if row.erased => refuse("the run was erased: the values it would need are gone; start a new one"),
        _ => Ok(whole),
    }
}

fn with_label(labels: &[(String, String)], name: &str) -> Vec<(String, String)> {
    let others = labels.iter().filter(|(key, _)| key != name).cloned();
    others.chain([(name.to_owned(), "true".to_owned())]).collect()
}

const PAGE: u32 = 1_000;

pub(crate) fn journal_of(services: &Services, workspace: &WorkspaceId, run: RunId) -> Result<Vec<Event>, StoreError> {
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let rows = services.store.journal(workspace, run, after, PAGE)?;
        for row in &rows {
            after = row.seq;
            let read = decode_events(&row.events, row.values.as_deref());
            events.extend(read.map_err(|e| StoreError::Poisoned(format!("run {run}, journal row {}: {e}", row.seq)))?);
        }
        if rows.len() < PAGE as usize {
            return Ok(events);
        }
    }
}

/// The top-level task to begin with, and what was done before it.
fn history(
    flow: &LoadedFlow,
    row: &RunRow,
    journal: &[Event],
    from: Option<&str>,
) -> Result<(u32, Vec<Event>), ReplayError> {
    let Some(name) = from else { return Ok((0, Vec::new())) };
    let tasks = &flow.index.flow.tasks;
    let place = |key: &StepKey| tasks.iter().position(|task| task.id == first_id(key));
    let key = match tasks.iter().any(|task| task.id == name) {
        true => StepKey(name.to_owned()),
        false => step_named(row, journal, name)?,
    };
    let at = match key.parent() {
        Some(parent) if parent.is_root() => place(&key),
        _ => return refuse(format!("step `{key}` is inside another one; a replay begins at a top-level task")),
    };
    let Some(at) = at else { return refuse(format!("`{key}` is not a task of this revision")) };
    let mut kept: Vec<(usize, Event)> = Vec::new();
    // What a task does to the variables stands before its end.
    let mut loose = Vec::new();
    let mut reached = false;
    for event in journal {
        if let Event::Replayed { from, .. } = event {
            kept.retain(|(place, _)| *place < *from as usize);
        }
        if matches!(event, Event::VariablesSet { .. } | Event::VariablesUnset { .. }) {
            loose.push(event.clone());
            continue;
        }
        let Some(found) = step_of(event).and_then(place) else { continue };
        reached |= found == at;
        if found < at {
            kept.extend(loose.drain(..).map(|event| (found, event)));
            kept.push((found, event.clone()));
        }
        loose.clear();
    }
    let done = |place: usize| kept.iter().any(|(found, event)| *found == place && ends(event, &tasks[place].id));
    if at > 0 && (!reached || !(0..at).all(done)) {
        return refuse(format!("`{key}` was never reached; a replay begins at a task that was"));
    }
    Ok((at as u32, kept.into_iter().map(|(_, event)| event).collect()))
}

/// The top-level task that a step belongs to.
fn first_id(key: &StepKey) -> &str {
    key.0.split(['/', '[']).next().unwrap_or_default()
}

fn step_named(row: &RunRow, journal: &[Event], id: &str) -> Result<StepKey, ReplayError> {
    let named = journal.iter().find_map(|event| match event {
        Event::StepStarted { step, take, round, .. } if step_id(row.logical, *take, *round, step).hex() == id => {
            Some(step.clone())
        }
        _ => None,
    });
    named.ok_or_else(|| ReplayError::NotPossible(format!("no step `{id}` in this run")))
}

fn ends(event: &Event, id: &str) -> bool {
    match event {
        Event::StepEnded { step, .. } => step.0 == id,
        Event::OpDone { step, ok, .. } => *ok && step.0 == id,
        _ => false,
    }
}

/// The step of an event that a copy needs: what happened to it, and nothing that would be done or waited for again.
fn step_of(event: &Event) -> Option<&StepKey> {
    match event {
        Event::StepStarted { step, .. }
        | Event::Branched { step, .. }
        | Event::LoopStarted { step, .. }
        | Event::GroupStage { step, .. }
        | Event::OpDone { step, .. }
        | Event::ChildRequested { step, .. }
        | Event::ChildStarted { step, .. }
        | Event::Verdict { step, .. }
        | Event::StepEnded { step, .. } => Some(step).filter(|step| !step.is_root()),
        _ => None,
    }
}
