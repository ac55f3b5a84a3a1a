//! Conductor's workflow definitions: checked, stored as flows, found again by name and version.
//!
//! A definition that comes with the request that starts it is stored too, under the digest of its text, so that its run
//! is pinned to it like any other; lists of definitions leave it out.

use crate::api::{FlowLookupError, Pushed};
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use semel_core::ir::{CONDUCTOR_NAMESPACE, ConductorFlow, Flow, is_companion};
use semel_core::{FlowRef, Hash16, WorkspaceId};
use semel_flow::conductor::{CompiledWorkflow, Violation};
use semel_store::{Done, FlowRow, PushRule, Refusal, StoreError, Work};
use serde_json::Value as Json;
use std::sync::Arc;

/// Definitions read at a time.
const PAGE: u32 = 500;

/// Why a definition was not stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error("the definition breaks {} rule{}", .0.len(), if .0.len() == 1 { "" } else { "s" })]
    Invalid(Vec<Violation>),
    #[error("a definition of this name and version exists")]
    Exists,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The name and the version of a stored definition; none for one that came with its start, or stands inside another.
pub fn name_and_version(flow: &FlowRef) -> Option<(&str, u32)> {
    let (name, version) = flow.id.rsplit_once('@')?;
    let is_own = flow.namespace == CONDUCTOR_NAMESPACE && !is_companion(&flow.id);
    Some((name, version.parse().ok()?)).filter(|_| is_own)
}

/// The id of a definition that has no place of its own: the digest of its text.
pub(crate) fn inline_id(definition: &Json) -> String {
    let text = definition.to_string();
    let (name, digest) = (definition["name"].as_str().unwrap_or_default(), Hash16::of(&[text.as_bytes()]).hex());
    let version = definition["version"].as_u64().and_then(|version| u32::try_from(version).ok()).unwrap_or(1);
    ConductorFlow::flow_id(&format!("{name}~{digest}"), version)
}

impl Engine {
    pub fn validate_workflow(&self, definition: &Json) -> Result<CompiledWorkflow, Vec<Violation>> {
        semel_flow::conductor::compile(definition, self.limits())
    }

    /// Stores a definition under its name and version.
    pub async fn push_workflow(
        &self,
        workspace: &WorkspaceId,
        definition: &Json,
        by: &str,
        rule: PushRule,
    ) -> Result<Pushed, WorkflowError> {
        let compiled = self.validate_workflow(definition).map_err(WorkflowError::Invalid)?;
        self.put_workflow(workspace, compiled, definition, by, rule).await
    }

    /// The flow of a definition that comes with the request that starts it.
    pub async fn inline_workflow(
        &self,
        workspace: &WorkspaceId,
        definition: &Json,
        by: &str,
    ) -> Result<Arc<LoadedFlow>, WorkflowError> {
        let id = inline_id(definition);
        let address = FlowRef::new(CONDUCTOR_NAMESPACE, &id);
        match self.flows.head(workspace, &address) {
            Ok(known) => return Ok(known),
            Err(FlowLookupError::Store(error)) => return Err(error.into()),
            Err(FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. }) => {}
        }
        let compiled = semel_flow::conductor::compile_under(definition, self.limits(), id);
        self.put_workflow(workspace, compiled.map_err(WorkflowError::Invalid)?, definition, by, PushRule::Any).await?;
        self.flows.head(workspace, &address).map_err(|error| match error {
            FlowLookupError::Store(error) => error.into(),
            other => StoreError::Bug(other.to_string()).into(),
        })
    }

    /// What stands inside comes first: a definition that is there can be run.
    async fn put_workflow(
        &self,
        workspace: &WorkspaceId,
        compiled: CompiledWorkflow,
        definition: &Json,
        by: &str,
        rule: PushRule,
    ) -> Result<Pushed, WorkflowError> {
        let source = definition.to_string();
        for inner in &compiled.inner {
            self.put_definition(workspace, inner, &source, by, PushRule::Any).await?;
        }
        self.put_definition(workspace, &compiled.flow, &source, by, rule).await
    }

    async fn put_definition(
        &self,
        workspace: &WorkspaceId,
        flow: &Flow,
        source: &str,
        by: &str,
        rule: PushRule,
    ) -> Result<Pushed, WorkflowError> {
        let address = flow.flow_ref();
        let row = FlowRow {
            workspace: workspace.clone(),
            flow: address.clone(),
            revision: 0,
            source: source.to_owned(),
            ir: serde_json::to_string(flow).map_err(|error| StoreError::Bug(error.to_string()))?,
            disabled: false,
            deleted: false,
            created_at: self.store().now(),
            created_by: by.to_owned(),
        };
        let work = Work::PutFlow { row: Box::new(row), schedules: Vec::new(), rule };
        match self.write_flow(workspace, &address, work).await? {
            Done::Flow { revision, changed } => {
                Ok(Pushed { workflow_id: address.to_string(), revision, changed, warnings: Vec::new() })
            }
            Done::Refused(Refusal::Exists) => Err(WorkflowError::Exists),
            other => Err(StoreError::Bug(format!("a push was answered with {other:?}")).into()),
        }
    }

    /// The definition of this version, or of the newest; a version 0 is none.
    pub fn workflow(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        version: Option<u32>,
    ) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        let version = match version.filter(|version| *version > 0) {
            Some(version) => version,
            None => self
                .flows
                .newest_version(workspace, CONDUCTOR_NAMESPACE, name)?
                .ok_or_else(|| FlowLookupError::Unknown(name.to_owned()))?,
        };
        self.flows.head(workspace, &FlowRef::new(CONDUCTOR_NAMESPACE, ConductorFlow::flow_id(name, version)))
    }

    /// All definitions that have a name, in order of it.
    pub fn workflows(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRow>, StoreError> {
        let mut found = Vec::new();
        let mut after = FlowRef::new(CONDUCTOR_NAMESPACE, "");
        loop {
            let page = self.store().flows(workspace, Some(&after), PAGE)?;
            let Some(last) = page.last() else { return Ok(found) };
            let (full, next) = (page.len() == PAGE as usize, last.flow.clone());
            let is_over = next.namespace != CONDUCTOR_NAMESPACE;
            found.extend(page.into_iter().filter(|row| name_and_version(&row.flow).is_some()));
            if !full || is_over {
                return Ok(found);
            }
            after = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_without_a_name_of_their_own_have_none() {
        let named =
            |id: &str| name_and_version(&FlowRef::new(CONDUCTOR_NAMESPACE, id)).map(|(name, v)| (name.to_owned(), v));
        assert_eq!(named("a b@12"), Some(("a b".to_owned(), 12)));
        assert_eq!(named("order@2~pay@1"), None);
        assert_eq!(named("order~0011@1"), None);
        assert_eq!(named("order"), None);
        assert_eq!(name_and_version(&FlowRef::new("shop", "a@1")), None);
    }
}
