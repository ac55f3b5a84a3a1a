//! Runs that stand still at a step: what they wait for, and how they are told to go on.
//!
//! What somebody says to a step is checked, and its secrets sealed, before anything is left for the run: the driver
//! (here or at another node) only looks whether the run still stands there.

use crate::api::{Control, ControlError};
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::inputs;
use crate::inspect::{CheckedInput, each_by_itself};
use crate::memory::Memory;
use crate::scope::{ExprScope, RunScope};
use semel_core::ir::{InputDef, TaskKind};
use semel_core::run::{By, RunState, StepKey, decode_events};
use semel_core::{RunId, WorkspaceId};
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
}

/// A run as its journal tells it.
struct Told {
    row: RunRow,
    flow: Arc<LoadedFlow>,
    state: RunState,
    memory: Memory,
}

/// Journal rows read at a time.
const PAGE: u32 = 1_000;

impl Engine {
    /// Where the run stands still, in the order in which it came there.
    pub fn pauses(&self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<OpenPause>, ControlError> {
        Ok(self.told_of(workspace, run)?.pauses())
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
        let told = self.told_of(workspace, run)?;
        let pause = told.find(step)?;
        self.said(workspace, run, &told, &pause, given)?;
        Ok(pause)
    }

    /// What each input of the step at which the run stands still first would come to. Nothing changes.
    pub fn check_resume_inputs(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        given: &Json,
    ) -> Result<Vec<CheckedInput>, ControlError> {
        let told = self.told_of(workspace, run)?;
        let pause = told.find(None)?;
        Ok(each_by_itself(&pause.inputs, given, &self.scope_at(workspace, run, &told, &pause)))
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
        let told = self.told_of(workspace, run)?;
        let control = match step {
            None if told.state.paused || told.pauses().is_empty() => Control::Resume,
            step => {
                let pause = told.find(step)?;
                let inputs = self.said(workspace, run, &told, &pause, given)?;
                Control::ResumeStep { step: pause.step_id, inputs }
            }
        };
        self.control(workspace, run, control, by).await
    }

    /// The values in stored form; `None` for a step that asks for nothing.
    fn said(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        told: &Told,
        pause: &OpenPause,
        given: &Json,
    ) -> Result<Option<Json>, ControlError> {
        if pause.inputs.is_empty() {
            return Ok(None);
        }
        let scope = self.scope_at(workspace, run, told, pause);
        let nothing = json!({});
        let given = if given.is_null() { &nothing } else { given };
        inputs::check(&pause.inputs, given, &scope).map(Some).map_err(ControlError::Inputs)
    }

    /// What expressions of the step see.
    fn scope_at<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        run: RunId,
        told: &'a Told,
        pause: &'a OpenPause,
    ) -> ExprScope<'a> {
        let run = RunScope {
            id: run,
            original: told.row.original(),
            correlation_id: &told.row.correlation_id,
            created_at: told.row.created_at,
            state: &told.state,
            step: Some(&pause.step),
        };
        ExprScope {
            services: &self.services,
            workspace,
            flow: &told.flow,
            memory: &told.memory,
            run: Some(run),
            now: self.store().now(),
        }
    }

    fn told_of(&self, workspace: &WorkspaceId, run: RunId) -> Result<Told, ControlError> {
        let Some((row, _, _)) = self.store().run(workspace, run)? else { return Err(ControlError::Unknown) };
        let flow = self.flows.revision(workspace, &row.flow, row.revision);
        let flow =
            flow.map_err(|error| StoreError::Bug(format!("run {run} pins a flow that does not load: {error}")))?;
        let (mut state, mut memory, mut after) = (RunState::new(row.logical), Memory::default(), 0);
        loop {
            let rows = self.store().journal(workspace, run, after, PAGE)?;
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
}

impl Told {
    fn pauses(&self) -> Vec<OpenPause> {
        let open = |step: StepKey| {
            let task = self.flow.index.task(step.task_id())?;
            let inputs = match &task.kind {
                TaskKind::Pause(spec) => spec.on_resume.clone(),
                _ => vec![],
            };
            Some(OpenPause { step_id: self.state.step_id(&step).hex(), task_id: task.id.clone(), step, inputs })
        };
        // A run that was replaced ended with its steps open.
        let steps = if self.state.is_ended() { vec![] } else { self.state.paused_steps() };
        steps.into_iter().filter_map(open).collect()
    }

    fn find(&self, name: Option<&str>) -> Result<OpenPause, ControlError> {
        let found = self.pauses().into_iter().find(|pause| match name {
            None => true,
            Some(name) => pause.step.0 == name || pause.step_id == name || pause.task_id == name,
        });
        found.ok_or_else(|| {
            ControlError::NotPossible(match name {
                None => "the run does not stand still at any step".to_owned(),
                Some(name) => format!("the run does not stand still at step `{name}`"),
            })
        })
    }
}
