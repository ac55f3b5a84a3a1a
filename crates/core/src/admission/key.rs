//! Which key an occurrence carries, and what makes a key acceptable.

use crate::ids::{FlowRef, Hash16, WorkspaceId};
use crate::ir::KeyScope;
use crate::planted;
use serde::{Deserialize, Serialize};

/// Longest key, in characters.
pub const KEY_CHARS_MAX: usize = 255;

/// Why a key cannot be used. Nothing is stored for such a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the idempotency key is empty; send 1 to 255 characters or leave it out")]
    Empty,
    #[error("the idempotency key has {0} characters; at most 255 are allowed: send a hash of the long value instead")]
    TooLong(usize),
    #[error("the idempotency key begins or ends with blanks; keys are compared as they are, so send it without them")]
    OuterBlanks,
    #[error("the idempotency key holds a control character")]
    Control,
    #[error("the request names the key `{caller}`, but the flow's idempotency.key gives `{flow}`; send one of them")]
    Conflict { caller: String, flow: String },
    #[error("the flow's idempotency.key did not resolve: {0}")]
    Unresolved(String),
    #[error("this flow requires an idempotency key and the request has none; send the header Idempotency-Key")]
    Missing,
}

impl KeyError {
    pub fn code(&self) -> &'static str {
        match self {
            KeyError::Empty => "key_empty",
            KeyError::TooLong(_) => "key_too_long",
            KeyError::OuterBlanks => "key_outer_blanks",
            KeyError::Control => "key_control_character",
            KeyError::Conflict { .. } => "key_conflict",
            KeyError::Unresolved(_) => "key_unresolved",
            KeyError::Missing => "key_missing",
        }
    }
}

/// Where the chosen key came from; each source has its own namespace where it could collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// The caller's header, body or parameter.
    Caller,
    /// The flow's `idempotency.key`.
    Flow,
    /// The door's own identity: schedule instant, parent step, message id.
    Intrinsic,
}

/// The key of one occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenKey {
    pub key: String,
    pub source: KeySource,
}

/// Accepts 1–255 characters, case kept, no outer blanks, no control characters.
pub fn check_key(key: &str) -> Result<(), KeyError> {
    if key.trim().is_empty() {
        return Err(KeyError::Empty);
    }
    if key.trim() != key {
        return Err(KeyError::OuterBlanks);
    }
    if key.chars().any(char::is_control) {
        return Err(KeyError::Control);
    }
    let chars = key.chars().count();
    if chars > KEY_CHARS_MAX {
        return Err(KeyError::TooLong(chars));
    }
    Ok(())
}

/// First present wins: caller, flow, door. A caller's key that contradicts the flow's is refused.
pub fn choose_key(
    caller: Option<String>,
    flow: Option<String>,
    intrinsic: Option<String>,
) -> Result<Option<ChosenKey>, KeyError> {
    for key in [&caller, &flow].into_iter().flatten() {
        check_key(key)?;
    }
    match (caller, flow, intrinsic) {
        (Some(caller), Some(flow), _) if caller != flow => Err(KeyError::Conflict { caller, flow }),
        (Some(key), _, _) => Ok(Some(ChosenKey { key, source: KeySource::Caller })),
        (None, Some(key), _) => Ok(Some(ChosenKey { key, source: KeySource::Flow })),
        (None, None, Some(key)) => Ok(Some(ChosenKey { key, source: KeySource::Intrinsic })),
        (None, None, None) => Ok(None),
    }
}

/// The scope as text, part of the claim's identity and shown to people.
pub fn scope_text(scope: &KeyScope, flow: &FlowRef, source: KeySource) -> String {
    let base = match scope {
        KeyScope::Flow => format!("flow:{flow}"),
        KeyScope::Namespace => format!("namespace:{}", flow.namespace),
        KeyScope::Workspace => "workspace".to_owned(),
        KeyScope::Group(name) => format!("group:{name}"),
    };
    match source {
        KeySource::Caller | KeySource::Flow => base,
        // A caller must not be able to spell a schedule's or a parent step's key.
        KeySource::Intrinsic => format!("door:{base}"),
    }
}

/// The key of what a flow itself remembers its answers by. Nobody sends such a one: it begins with a blank.
pub fn remembered_key(text: &str) -> String {
    format!(" {}", Hash16::of(&[text.as_bytes()]).hex())
}

/// Whether a caller may have sent it, so that people know it.
pub fn is_callers(key: &str) -> bool {
    !key.starts_with(' ')
}

/// The claim's identity: (workspace, environment, scope, key).
pub fn claim_hash(workspace: &WorkspaceId, scope: &str, key: &str) -> Hash16 {
    if planted!(KeyFoldedCase) {
        return Hash16::of(&[workspace.0.as_bytes(), scope.as_bytes(), key.to_lowercase().as_bytes()]);
    }
    Hash16::of(&[workspace.0.as_bytes(), b"live", scope.as_bytes(), key.as_bytes()])
}

/// The identity a mismatched twin gets under `mismatch: split`.
pub fn split_hash(claim: Hash16, fingerprint: &crate::fingerprint::Fingerprint) -> Hash16 {
    Hash16::of(&[&claim.0, b"split", &fingerprint.0])
}

/// The lane's identity: (workspace, flow, lane key).
pub fn lane_hash(workspace: &WorkspaceId, flow: &FlowRef, key: &str) -> Hash16 {
    Hash16::of(&[workspace.0.as_bytes(), b"lane", flow.to_string().as_bytes(), key.as_bytes()])
}
