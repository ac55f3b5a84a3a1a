//! Runs that stand still at a step: what they wait for, and how they are told to go on.
//!
//! What somebody says to a step is checked, and its secrets sealed, before anything is left for the run: the driver
//! (here or at another node) only looks whether the run still stands there.

use crate::api::{Control, ControlError};
use crate::flows::{Flows, LoadedFlow};
use crate::handle::Engine;
use crate::inputs;
use crate::inspect::{CheckedInput, each_by_itself};
use crate::memory::Memory;
use crate::scope::{ExprScope, RunScope, Services};
use semel_core::ir::{InputDef, ReviewSpec, TaskKind};
use semel_core::run::{By, RunState, StepKey, decode_events};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_store::{RunRow, StoreError};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// A step at which a run stands still.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenPause {
    pub step: StepKey,
    /// The step's id in hex.
    pub step_id: String,
    pub task_id: String,
    /// What whoever resumes it may say.
    pub inputs: Vec<InputDef>,
    /// It is approved or denied, not resumed.
    pub review: Option<Box<ReviewSpec>>,
}

/// A run as its journal tells it.
pub(crate) struct Told {
    row: RunRow,
    flow: Arc<LoadedFlow>,
    pub state: RunState,
    memory: Memory,
}

/// Journal rows read at a time.
const PAGE: u32 = 1_000;

impl Engine {
    /// Where the run stands still, in the order in which it came there.
    pub fn pauses(&self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<OpenPause>, ControlError> {
        Ok(told_of(&self.services, &self.flows, workspace, run)?.pauses())
    }

    /// Checks what is to be said to a step, and says to which: the one that is named by id or path, else the first.
    /// Nothing changes.
    pub fn check_resume(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        step: Option<&str>,
        given: &Json,
    ) -> Result<OpenPause, ControlError> {
        let told = told_of(&self.services, &self.flows, workspace, run)?;
        let pause = find(told.pauses(), step)?;
        said(&told.scope(&self.services, workspace, run, &pause.step, self.store().now()), &pause, given)?;
        Ok(pause)
    }

    /// What each input of the step at which the run stands still first would come to. Nothing changes.
    pub fn check_resume_inputs(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        given: &Json,
    ) -> Result<Vec<CheckedInput>, ControlError> {
        let told = told_of(&self.services, &self.flows, workspace, run)?;
        let pause = find(told.pauses(), None)?;
        let scope = told.scope(&self.services, workspace, run, &pause.step, self.store().now());
        Ok(each_by_itself(&pause.inputs, given, &scope))
    }

    /// Lets a run go on: one that a person paused, or one that stands still at a step.
    pub async fn resume(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        step: Option<&str>,
        given: &Json,
        by: By,
    ) -> Result<(), ControlError> {
        let told = told_of(&self.services, &self.flows, workspace, run)?;
        let control = resume_control(&told.state, told.pauses(), step, |pause| {
            said(&told.scope(&self.services, workspace, run, &pause.step, self.store().now()), pause, given)
        })?;
        self.control(workspace, run, control, by).await
    }
}

/// What lets a run go on. Without a step, a run that a person paused is no longer so, and else the first one.
pub(crate) fn resume_control(
    state: &RunState,
    pauses: Vec<OpenPause>,
    step: Option<&str>,
    say: impl FnOnce(&OpenPause) -> Result<Option<Json>, ControlError>,
) -> Result<Control, ControlError> {
    match step {
        None if state.paused || pauses.is_empty() => Ok(Control::Resume),
        step => {
            let pause = find(pauses, step)?;
            if pause.review.is_some() {
                let text = format!("step `{}` waits for a review: approve or deny it", pause.step);
                return Err(ControlError::NotPossible(text));
            }
            let inputs = say(&pause)?;
            Ok(Control::ResumeStep { step: pause.step_id, inputs, review: None })
        }
    }
}

/// The values in stored form; `None` for a step that asks for nothing.
pub(crate) fn said(scope: &ExprScope, pause: &OpenPause, given: &Json) -> Result<Option<Json>, ControlError> {
    if pause.inputs.is_empty() {
        return Ok(None);
    }
    let nothing = json!({});
    let given = if given.is_null() { &nothing } else { given };
    inputs::check(&pause.inputs, given, scope).map(Some).map_err(ControlError::Inputs)
}

/// Where a run stands still, in the order in which it came there.
pub(crate) fn open_pauses(flow: &LoadedFlow, state: &RunState) -> Vec<OpenPause> {
    let open = |step: StepKey| {
        let task = flow.index.task(step.task_id())?;
        let (inputs, review) = match &task.kind {
            TaskKind::Pause(spec) => (spec.on_resume.clone(), spec.review.clone()),
            _ => (vec![], None),
        };
        Some(OpenPause { step_id: state.step_id(&step).hex(), task_id: task.id.clone(), step, inputs, review })
    };
    // A run that was replaced ended with its steps open.
    let steps = if state.is_ended() { vec![] } else { state.paused_steps() };
    steps.into_iter().filter_map(open).collect()
}

/// The one with this name; without a name the first that needs no decision, if there is one.
pub(crate) fn find(pauses: Vec<OpenPause>, name: Option<&str>) -> Result<OpenPause, ControlError> {
    let bare = pauses.iter().any(|pause| pause.review.is_none());
    let found = pauses.into_iter().find(|pause| match name {
        None => pause.review.is_none() || !bare,
        Some(name) => pause.step.0 == name || pause.step_id == name || pause.task_id == name,
    });
    found.ok_or_else(|| {
        ControlError::NotPossible(match name {
            None => "the run does not stand still at any step".to_owned(),
            Some(name) => format!("the run does not stand still at step `{name}`"),
        })
    })
}

pub(crate) fn told_of(
    services: &Services,
    flows: &Flows,
    workspace: &WorkspaceId,
    run: RunId,
) -> Result<Told, ControlError> {
    let Some((row, _, _)) = services.store.run(workspace, run)? else { return Err(ControlError::Unknown) };
    let flow = flows.revision(workspace, &row.flow, row.revision);
    let flow = flow.map_err(|error| StoreError::Bug(format!("run {run} pins a flow that does not load: {error}")))?;
    let (mut state, mut memory, mut after) =
        (RunState::new(row.logical), Memory { keeps_all: true, ..Memory::default() }, 0);
    loop {
        let rows = services.store.journal(workspace, run, after, PAGE)?;
        let last = rows.len() < PAGE as usize;
        for entry in rows {
            after = entry.seq;
            let events = decode_events(&entry.events, entry.values.as_deref());
            let events = events.map_err(|e| StoreError::Poisoned(format!("run {run}, row {}: {e}", entry.seq)))?;
            for event in &events {
                state.evolve(event);
                memory.fold(run, event, &state, &flow, entry.at);
            }
        }
        if last {
            return Ok(Told { row, flow, state, memory });
        }
    }
}

impl Told {
    pub fn pauses(&self) -> Vec<OpenPause> {
        open_pauses(&self.flow, &self.state)
    }

    /// What an expression at a step of the run can see.
    pub fn scope<'a>(
        &'a self,
        services: &'a Services,
        workspace: &'a WorkspaceId,
        id: RunId,
        step: &'a StepKey,
        now: Millis,
    ) -> ExprScope<'a> {
        let run = RunScope {
            id,
            original: self.row.original(),
            correlation_id: &self.row.correlation_id,
            created_at: self.row.created_at,
            state: &self.state,
            step: Some(step),
        };
        ExprScope { services, workspace, flow: &self.flow, memory: &self.memory, run: Some(run), now }
    }
}
