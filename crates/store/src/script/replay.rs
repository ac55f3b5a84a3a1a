//! A run that does again what another one did: what that means for the other one.

use super::admit::append;
use crate::error::StoreError;
use crate::tx::{Result, Tx};
use crate::work::{AdmitRequest, ReplayTerms};
use semel_core::run::{Event, Payload};
use serde_json::Value as Json;

/// The other run must be as it was read, and says from now on that it was replayed.
pub(super) fn mark(tx: &mut dyn Tx, request: &AdmitRequest, replay: &ReplayTerms) -> Result<()> {
    let gone = || StoreError::Conflict(format!("run {} is not as it was read", replay.of));
    let mut run = tx.run(&request.workspace, replay.of)?.ok_or_else(gone)?;
    let same = run.version == replay.version && run.status.is_ended() && run.open_doubts == 0 && !run.erased;
    if !same || tx.is_elsewhere(&request.workspace, run.id) {
        return Err(gone());
    }
    let labels = replay.labels.iter().map(|(key, value)| (key.clone(), Json::String(value.clone()))).collect();
    append(tx, &mut run, &[Event::LabelsSet { labels: Payload::new(Json::Object(labels)) }])?;
    tx.put_labels(&request.workspace, run.id, &replay.labels)?;
    tx.update_run(&run)
}
