//! What Conductor's door keeps beside definitions: limits by tag, variables, secrets that it may show.

use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::scope::Services;
use crate::workflows::name_and_version;
use indexmap::IndexMap;
use semel_core::WorkspaceId;
use semel_core::admission::Busy;
use semel_core::ir::LaneSpec;
use semel_expr::{Part, SecretRef, Value};
use semel_store::{ENVIRONMENT, Note, Store, StoreError, TAGS, tag_key};

/// The type of a tag that limits how many runs of a workflow go on at once.
pub const RATE_LIMIT: &str = "RATE_LIMIT";
/// Runs of a workflow that may wait for a slot.
const WAITING_MAX: u32 = 1_000_000;
/// Tags of one thing and variables of one workspace that are looked at.
const ROWS_MAX: u32 = 1_000;

/// What becomes of a question for the value of a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretValue {
    Known(String),
    /// It is the operator's, who gave it to the process.
    Withheld,
    Missing,
}

/// The limit that a tag of the workflow sets for its runs; a definition that has one of its own keeps it.
pub(crate) fn limit_by_tag(
    store: &dyn Store,
    workspace: &WorkspaceId,
    flow: &LoadedFlow,
) -> Result<Option<LaneSpec>, StoreError> {
    let own = &flow.index.flow;
    let Some(conductor) = own.conductor.as_deref().filter(|_| own.lane.is_none()) else { return Ok(None) };
    let prefix = tag_key("workflow", &conductor.name, "");
    let rows = store.kv_list(workspace, TAGS, Some(&prefix), ROWS_MAX)?;
    let tags = rows.iter().take_while(|row| row.key.starts_with(&prefix)).map(|row| &row.value);
    let limits = tags.filter(|tag| tag["type"] == RATE_LIMIT).filter_map(|tag| match &tag["value"] {
        serde_json::Value::String(text) => text.trim().parse::<u32>().ok(),
        other => other.as_u64().and_then(|limit| u32::try_from(limit).ok()),
    });
    let limit = limits.filter(|limit| *limit > 0).min();
    Ok(limit.map(|limit| LaneSpec { key: None, limit, busy: Busy::Queue { max: WAITING_MAX } }))
}

/// `workflow.env`: what was set for the workspace, over what the operator gave to the process.
pub(crate) fn environment(services: &Services, workspace: &WorkspaceId) -> Value {
    let given = match (workspace.0.as_str(), &services.envs) {
        (WorkspaceId::DEFAULT, Value::Map(envs)) => envs.as_ref().clone(),
        _ => IndexMap::new(),
    };
    let rows = services.store.kv_list(workspace, ENVIRONMENT, None, ROWS_MAX).unwrap_or_else(|error| {
        crate::away::note(&error);
        Vec::new()
    });
    let set = rows.into_iter().map(|row| (row.key, Value::from_json(&row.value)));
    Value::map(given.into_iter().chain(set).collect())
}

impl Engine {
    /// The value of a secret, for a door that may show it.
    pub fn secret_value(&self, workspace: &WorkspaceId, name: &str) -> Result<SecretValue, crate::SecretError> {
        let Some(row) = self.store().secret(workspace, name, None)? else {
            let known = self.secret_names(workspace)?.iter().any(|known| known == name);
            return Ok(if known { SecretValue::Withheld } else { SecretValue::Missing });
        };
        let part = Part::Secret(SecretRef { name: row.name, version: row.version });
        let revealed = self.services().secrets.reveal(workspace, &part);
        revealed.map(SecretValue::Known).map_err(|_| crate::SecretError::Undecryptable)
    }

    /// Encrypts a text that is to be kept in a document, and nowhere else.
    pub fn seal(&self, workspace: &WorkspaceId, plain: &str) -> Result<String, crate::SecretError> {
        self.services().secrets.seal(workspace, plain).map_err(|_| crate::SecretError::NoKey)
    }

    pub fn unseal(&self, workspace: &WorkspaceId, sealed: &str) -> Result<String, crate::SecretError> {
        let part = Part::Sealed(sealed.to_owned());
        self.services().secrets.reveal(workspace, &part).map_err(|_| crate::SecretError::Undecryptable)
    }

    /// What is remembered of a workflow's definitions is read again, here and at the other nodes: a tag has changed.
    pub fn reread_workflow(&self, workspace: &WorkspaceId, name: &str) -> Result<(), StoreError> {
        for row in self.workflows(workspace)? {
            if name_and_version(&row.flow).is_some_and(|(known, _)| known == name) {
                self.flows().forget(workspace, &row.flow);
                if let Some(cluster) = self.store().cluster() {
                    cluster.tell(Note::Pushed { workspace: workspace.clone(), flow: row.flow });
                }
            }
        }
        Ok(())
    }
}
