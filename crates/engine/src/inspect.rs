//! Looks that change nothing: a revision of a flow, what inputs would come to, an expression in the light of a run.

use crate::api::FlowLookupError;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::inputs;
use crate::memory::Memory;
use crate::outside;
use crate::scope::{ExprScope, RunScope};
use semel_core::ir::InputDef;
use semel_core::run::{RunState, StepKey, decode_events};
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_expr::{Budget, Template, Value, render};
use semel_store::StoreError;
use serde_json::Value as Json;
use std::sync::Arc;

/// Journal rows read at a time.
const ROWS: u32 = 1_000;

/// What one declared input would come to.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedInput {
    pub id: String,
    /// The word of its type.
    pub kind: String,
    pub required: bool,
    /// Nothing was given for it and it has a default.
    pub is_default: bool,
    /// False: what it depends on says that it is not asked for.
    pub enabled: bool,
    /// The choices there are, where they were computed.
    pub values: Option<Vec<String>>,
    /// Secrets are masked.
    pub value: Option<Json>,
    pub errors: Vec<String>,
}

impl Engine {
    /// The newest revision of a flow that was not deleted.
    pub fn flow_head(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        self.flows.head(workspace, flow)
    }

    pub fn flow_revision(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        revision: u32,
    ) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        self.flows.revision(workspace, flow, revision)
    }

    /// The registered definition of a task, if there is one.
    pub fn task_definition(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<Arc<Json>>, StoreError> {
        self.services().task_definition(workspace, name)
    }

    /// Checks each declared input by itself.
    pub async fn check_inputs(&self, workspace: &WorkspaceId, flow: &LoadedFlow, given: &Json) -> Vec<CheckedInput> {
        let memory = Memory::default();
        let now = self.store().now();
        let act = || {
            let scope = ExprScope { services: &self.services, workspace, flow, memory: &memory, run: None, now };
            each_by_itself(&flow.index.flow.inputs, given, &scope)
        };
        outside::answered(self, workspace, None, act).await
    }

    /// Evaluates a text as a task of the run would, at a step of it or at none. `None`: there is no such run. What the
    /// text says of secrets is masked.
    pub fn eval(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        step: Option<&StepKey>,
        text: &str,
    ) -> Result<Option<Result<String, String>>, StoreError> {
        let Some((row, _, _)) = self.store().run(workspace, run)? else { return Ok(None) };
        let flow = self.flows.revision(workspace, &row.flow, row.revision).map_err(|error| match error {
            FlowLookupError::Store(error) => error,
            other => StoreError::Bug(other.to_string()),
        })?;
        let (mut state, mut memory, mut after) =
            (RunState::new(row.logical), Memory { keeps_all: true, ..Memory::default() }, 0);
        loop {
            let rows = self.store().journal(workspace, run, after, ROWS)?;
            for entry in &rows {
                after = entry.seq;
                let events = decode_events(&entry.events, entry.values.as_deref())
                    .map_err(|error| StoreError::Bug(format!("journal of {run}: {error}")))?;
                for event in &events {
                    state.evolve(event);
                    memory.fold(run, event, &state, &flow, entry.at);
                }
            }
            if rows.len() < ROWS as usize {
                break;
            }
        }
        let seen = RunScope {
            id: run,
            original: row.original(),
            correlation_id: &row.correlation_id,
            created_at: row.created_at,
            state: &state,
            step,
        };
        let (services, now) = (&*self.services, self.store().now());
        let scope = ExprScope { services, workspace, flow: &flow, memory: &memory, run: Some(seen), now };
        let parsed = match Template::parse(text) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Some(Err(error.message))),
        };
        let rendered: Result<Value, _> = render(&parsed, &scope, &mut Budget::default());
        Ok(Some(rendered.map(|value| value.to_text()).map_err(|error| error.message)))
    }
}

/// What each input would come to.
pub(crate) fn each_by_itself(defs: &[InputDef], given: &Json, scope: &ExprScope<'_>) -> Vec<CheckedInput> {
    let one = |(def, resolved): (&InputDef, inputs::Resolved)| {
        let mut out = CheckedInput {
            id: def.id.clone(),
            kind: serde_json::json!(def.input_type).as_str().unwrap_or_default().to_owned(),
            required: def.required,
            is_default: resolved.is_default,
            enabled: resolved.enabled,
            values: resolved.values,
            value: None,
            errors: Vec::new(),
        };
        match resolved.value {
            Ok(stored) => out.value = Some(crate::public_json(&stored)).filter(|value| !value.is_null()),
            Err(message) => out.errors.push(message),
        }
        out
    };
    inputs::resolve(defs, given, scope).into_iter().map(one).collect()
}
