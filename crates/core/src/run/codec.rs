//! Journal rows: the structure of events, and the user's values in a column of their own.

use super::event::{Event, Payload};
use crate::planted;
use serde_json::Value as Json;
use std::sync::Arc;

/// Encodes events as (structure, values). The values text is `None` when there are none.
pub fn encode_events(events: &[Event]) -> (Vec<u8>, Option<Vec<u8>>) {
    // Serialising these types into memory cannot fail: all map keys are strings.
    let structure = serde_json::to_vec(events).unwrap_or_default();
    let mut values: Vec<Option<Arc<Json>>> = Vec::new();
    for event in events {
        // Payloads are shared by reference count, so this copy is shallow.
        for payload in event.clone().payloads_mut() {
            values.push(payload.value.clone());
        }
    }
    let text = (!values.is_empty()).then(|| serde_json::to_vec(&values).unwrap_or_default());
    (structure, text)
}

/// Why a journal row cannot be read. Both mean the store is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("journal row does not parse: {0}")]
    Malformed(String),
    #[error("a value in the journal does not match its digest")]
    Digest,
}

/// Decodes a journal row; `values` is `None` after erasure.
pub fn decode_events(structure: &[u8], values: Option<&[u8]>) -> Result<Vec<Event>, DecodeError> {
    let malformed = |e: serde_json::Error| DecodeError::Malformed(e.to_string());
    let mut events: Vec<Event> = serde_json::from_slice(structure).map_err(malformed)?;
    let Some(values) = values else { return Ok(events) };
    let values: Vec<Option<Json>> = serde_json::from_slice(values).map_err(malformed)?;
    let mut values = values.into_iter();
    for event in &mut events {
        for payload in event.payloads_mut() {
            let Some(value) = values.next().ok_or(DecodeError::Digest)? else { continue };
            let found = Payload::new(value);
            if found.digest != payload.digest && !planted!(DamageBelieved) {
                return Err(DecodeError::Digest);
            }
            *payload = found;
        }
    }
    if values.next().is_some() { Err(DecodeError::Digest) } else { Ok(events) }
}
