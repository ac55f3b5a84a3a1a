//! What doors see of the engine.

use crate::api::*;
use crate::flows::LoadedFlow;
use semel_core::run::By;
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_store::{AdmitResult, Done, Store, StoreError, Work};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// The engine. Shared by all doors.
pub struct Engine {
    store: Arc<dyn Store>,
    changes: broadcast::Sender<RunChange>,
}

impl Engine {
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Finds a flow by `id` (unique in the workspace) or `namespace:id`.
    pub fn resolve_flow(&self, _workspace: &WorkspaceId, name: &str) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        Err(FlowLookupError::Unknown(name.to_owned()))
    }

    pub fn flow(&self, _workspace: &WorkspaceId, flow: &FlowRef) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        Err(FlowLookupError::Unknown(flow.to_string()))
    }

    /// The webhook trigger of the flow that has this URL key; compares in constant time.
    pub fn find_webhook(&self, _workspace: &WorkspaceId, _flow: &LoadedFlow, _key: &str) -> Result<Option<Webhook>, StoreError> {
        Ok(None)
    }

    /// The one way in.
    pub async fn admit(&self, _occurrence: Occurrence) -> Result<AdmitResult, AdmitError> {
        Err(AdmitError::Disabled)
    }

    pub async fn control(&self, _workspace: &WorkspaceId, _run: RunId, _control: Control, _by: By) -> Result<(), ControlError> {
        Err(ControlError::Unknown)
    }

    /// Waits until the run has ended or is held, at most `limit`. True when it has.
    pub async fn wait_ended(&self, _workspace: &WorkspaceId, _run: RunId, _limit: Duration) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Every change of every run from now on; a lagging receiver re-reads the store.
    pub fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.changes.subscribe()
    }

    /// Compiles and checks without storing.
    pub fn validate_flow(&self, _workspace: &WorkspaceId, _source: &str) -> Result<semel_flow::Compiled, Vec<semel_flow::Diagnostic>> {
        Err(vec![])
    }

    pub async fn push_flow(&self, _workspace: &WorkspaceId, _source: &str, _by: &str) -> Result<Pushed, PushError> {
        Err(PushError::Invalid(vec![]))
    }

    pub async fn put_secret(&self, _workspace: &WorkspaceId, _name: &str, _value: &str) -> Result<u64, SecretError> {
        Err(SecretError::NoKey)
    }

    /// Any management write (kv, tokens, workspaces, release, erase, …).
    pub async fn write(&self, _work: Work) -> Result<Done, StoreError> {
        Err(StoreError::Closed)
    }

    /// True once recovery has read every active run.
    pub fn is_ready(&self) -> bool {
        false
    }

    /// Stops taking work, lets what is in flight settle (at most `limit`), closes the store.
    pub async fn shutdown(&self, _limit: Duration) {}
}
