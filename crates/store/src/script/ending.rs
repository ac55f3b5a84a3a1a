//! What the end of a run means for its claims, its lane, its parent and its tree.

use super::admit::append;
use crate::rows::*;
use crate::tx::{Result, Tx};
use semel_core::admission::{ClaimState, Lane};
use semel_core::run::{By, EndStatus, Event, Status};
use semel_core::{Hash16, RunId, WorkspaceId};
use serde_json::Value as Json;

/// Does the run or any live descendant have a request in flight?
pub(super) fn tree_has_open_intents(tx: &mut dyn Tx, run: &RunRow) -> Result<bool> {
    if run.open_intents > 0 {
        return Ok(true);
    }
    for child in tx.children(&run.workspace, run.id)? {
        if !child.status.is_ended() && child.depth > run.depth && tree_has_open_intents(tx, &child)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fences and cancels a run none of whose tree has anything in flight. Its driver's next commit
/// fails on the epoch, and it was never allowed to send without a commit.
pub(super) fn cancel_quiet_tree(tx: &mut dyn Tx, workspace: &WorkspaceId, id: RunId, by: &By) -> Result<Vec<RunId>> {
    let Some(mut run) = tx.run(workspace, id)? else { return Ok(vec![]) };
    let mut fenced = vec![id];
    for child in tx.children(workspace, id)? {
        if !child.status.is_ended() {
            fenced.extend(cancel_quiet_tree(tx, workspace, child.id, by)?);
        }
    }
    let events = [
        Event::CancelRequested { by: by.clone() },
        Event::Ended { status: EndStatus::Cancelled, warned: false, outputs: None, failure: None },
    ];
    append(tx, &mut run, &events)?;
    run.epoch += 1;
    run.status = Status::Cancelled;
    run.active = false;
    run.ended_at = Some(tx.now());
    tx.update_run(&run)?;
    settle_claims(tx, &run, ClaimState::Cancelled)?;
    tx.delete_timers(workspace, id)?;
    if let Some(lane_ref) = run.lane {
        let mut lane = tx.lane(workspace, lane_ref.hash)?;
        lane.remove(id);
        tx.put_lane(workspace, lane_ref.hash, &lane)?;
    }
    Ok(fenced)
}

pub(super) fn settle_claims(tx: &mut dyn Tx, run: &RunRow, state: ClaimState) -> Result<()> {
    let now = tx.now();
    for mut claim in tx.claims_of_run(&run.workspace, run.id)? {
        if claim.state == ClaimState::Erased {
            continue;
        }
        claim.state = state;
        claim.completed_at = Some(now);
        tx.put_claim(&run.workspace, &claim)?;
    }
    Ok(())
}

/// Runs to look at after a run has ended.
pub(super) fn settle_end(tx: &mut dyn Tx, run: &RunRow, status: EndStatus, outputs: &Json) -> Result<Vec<RunId>> {
    let state = match status {
        _ if run.open_doubts > 0 => ClaimState::Held,
        EndStatus::Completed => ClaimState::Done,
        EndStatus::Failed => ClaimState::Failed,
        EndStatus::Cancelled => ClaimState::Cancelled,
    };
    settle_claims(tx, run, state)?;
    tx.delete_timers(&run.workspace, run.id)?;
    let mut wake = Vec::new();
    if run.open_doubts == 0 {
        // A held run keeps its slot: nothing may take its place before a verdict.
        wake.extend(release_slot(tx, run)?);
    }
    let message = Inbox::ChildEnded { run: run.id, status, outputs: outputs.clone(), doubts: run.open_doubts };
    let mut listeners = Vec::new();
    if let Some(parent) = run.parent.as_ref().filter(|p| p.waits || run.open_doubts > 0) {
        listeners.push(parent.run);
    }
    let watch = watch_hash(run.id);
    listeners.extend(tx.lane(&run.workspace, watch)?.queue);
    tx.put_lane(&run.workspace, watch, &Lane::default())?;
    for listener in listeners {
        notify(tx, &run.workspace, listener, &message)?;
        wake.push(listener);
    }
    Ok(wake)
}

/// Runs that wait for the end of a run which is not their child stand in a lane of their own.
pub(super) fn watch_hash(run: RunId) -> Hash16 {
    Hash16::of(&[b"watch", run.as_bytes()])
}

/// Leaves a message and makes a node look at the run.
pub(super) fn notify(tx: &mut dyn Tx, workspace: &WorkspaceId, to: RunId, message: &Inbox) -> Result<()> {
    let Some(mut run) = tx.run(workspace, to)? else { return Ok(()) };
    tx.push_inbox(workspace, to, message)?;
    run.active = true;
    tx.update_run(&run)
}

/// Gives the slot back and promotes who waits.
pub(super) fn release_slot(tx: &mut dyn Tx, run: &RunRow) -> Result<Vec<RunId>> {
    let Some(lane_ref) = run.lane else { return Ok(vec![]) };
    let mut lane = tx.lane(&run.workspace, lane_ref.hash)?;
    lane.remove(run.id);
    let promoted = lane.promote(lane_ref.limit);
    tx.put_lane(&run.workspace, lane_ref.hash, &lane)?;
    for id in &promoted {
        notify(tx, &run.workspace, *id, &Inbox::Promoted)?;
        for mut claim in tx.claims_of_run(&run.workspace, *id)? {
            claim.state = ClaimState::Live;
            tx.put_claim(&run.workspace, &claim)?;
        }
    }
    Ok(promoted)
}
