//! Changes to a lane: its head and its line together.

use crate::rows::*;
use crate::tx::{Result, Tx};
use semel_core::{Hash16, RunId, WorkspaceId};

/// Gives a run a slot.
pub(super) fn hold(tx: &mut dyn Tx, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()> {
    let mut lane = tx.lane(workspace, hash)?;
    lane.holders.push(run);
    tx.put_lane(workspace, hash, &lane)
}

/// Puts a run at the end of the line.
pub(super) fn wait(tx: &mut dyn Tx, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()> {
    let mut lane = tx.lane(workspace, hash)?;
    lane.waiting += 1;
    tx.push_queue(workspace, hash, run)?;
    tx.put_lane(workspace, hash, &lane)
}

/// Removes a run wherever it is.
pub(super) fn leave(tx: &mut dyn Tx, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()> {
    let mut lane = tx.lane(workspace, hash)?;
    if !lane.release(run) && lane.waiting > 0 && tx.leave_queue(workspace, hash, run)? {
        lane.waiting -= 1;
    }
    tx.put_lane(workspace, hash, &lane)
}

/// Moves waiting runs into free slots, first come first, and names them.
pub(super) fn promote(tx: &mut dyn Tx, workspace: &WorkspaceId, lane_ref: LaneRef) -> Result<Vec<RunId>> {
    let mut promoted = Vec::new();
    let mut lane = tx.lane(workspace, lane_ref.hash)?;
    while lane.waiting > 0 && lane.has_slot(lane_ref.limit) {
        let Some(run) = tx.queue(workspace, lane_ref.hash, 1)?.pop() else { break };
        tx.leave_queue(workspace, lane_ref.hash, run)?;
        lane.waiting -= 1;
        lane.holders.push(run);
        promoted.push(run);
    }
    if !promoted.is_empty() {
        tx.put_lane(workspace, lane_ref.hash, &lane)?;
    }
    Ok(promoted)
}

/// Whether the run has a slot of its lane, or needs none.
pub(super) fn has_slot(tx: &mut dyn Tx, run: &RunRow) -> Result<bool> {
    let Some(lane_ref) = run.lane else { return Ok(true) };
    Ok(tx.lane(&run.workspace, lane_ref.hash)?.holders.contains(&run.id))
}

/// Everyone who waits.
pub(super) fn line(tx: &mut dyn Tx, workspace: &WorkspaceId, hash: Hash16) -> Result<Vec<RunId>> {
    if tx.lane(workspace, hash)?.waiting == 0 { Ok(vec![]) } else { tx.queue(workspace, hash, u32::MAX) }
}
