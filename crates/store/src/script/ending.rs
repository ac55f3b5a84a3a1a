//! What the end of a run means for its claims, its lane, its parent and its tree.

use super::admit::append;
use super::errands;
use super::hear::announce;
use super::lanes;
use crate::rows::*;
use crate::tx::{Result, Tx};
use semel_core::admission::{ClaimState, HolderState};
use semel_core::planted;
use semel_core::run::{By, EndStatus, Event, Status};
use semel_core::{Hash16, RunId, WorkspaceId};
use serde_json::Value as Json;

/// What the run and its live descendants allow: a doubt anywhere below weighs most, even one that
/// its parent has not heard of yet.
pub(super) fn tree_state(tx: &mut dyn Tx, run: &RunRow) -> Result<HolderState> {
    if run.status == Status::Held || run.open_doubts > 0 {
        return Ok(HolderState::Held);
    }
    let mut state = if run.open_intents > 0 { HolderState::OpenIntent } else { HolderState::Quiet };
    for child in tx.children(&run.workspace, run.id)? {
        if child.status.is_ended() || child.depth <= run.depth {
            continue;
        }
        match tree_state(tx, &child)? {
            HolderState::Held => return Ok(HolderState::Held),
            HolderState::OpenIntent => state = HolderState::OpenIntent,
            HolderState::Quiet | HolderState::Ancestor => {}
        }
    }
    Ok(state)
}

/// Kestra's word for a run that had to make way.
const REPLACED: &str = "CANCELLED";

/// What a fence left behind.
#[derive(Default)]
pub(super) struct Fence {
    /// Runs whose drivers must drop them.
    pub fenced: Vec<RunId>,
    /// Runs that a node must look at.
    pub wake: Vec<RunId>,
    /// Flow triggers are to hear of it.
    pub announced: bool,
}

/// Fences and cancels a run none of whose tree has anything in flight. Its driver's next commit
/// fails on the epoch, and it was never allowed to send without a commit. Whoever waits for the
/// run hears of it. `lane` is the lane the caller fills itself; all others go to who waits there.
pub(super) fn cancel_quiet(
    tx: &mut dyn Tx,
    workspace: &WorkspaceId,
    id: RunId,
    by: &By,
    lane: Hash16,
    out: &mut Fence,
) -> Result<()> {
    let Some(run) = cancel_quiet_tree(tx, workspace, id, by, lane, out)? else { return Ok(()) };
    if let Some(parent) = run.parent.as_ref().filter(|p| p.waits) {
        notify(tx, workspace, parent.run, &ended_message(&run, EndStatus::Cancelled, &Json::Null))?;
        out.wake.push(parent.run);
    }
    Ok(())
}

/// Children first: a parent that goes as well need not hear of them.
fn cancel_quiet_tree(
    tx: &mut dyn Tx,
    workspace: &WorkspaceId,
    id: RunId,
    by: &By,
    lane: Hash16,
    out: &mut Fence,
) -> Result<Option<RunRow>> {
    if tx.run(workspace, id)?.is_none() {
        return Ok(None);
    }
    for child in tx.children(workspace, id)? {
        if !child.status.is_ended() && !planted!(ReplacedWithoutChildren) {
            cancel_quiet_tree(tx, workspace, child.id, by, lane, out)?;
        }
    }
    // Read after the children: the end of one may have been told to this run.
    let Some(mut run) = tx.run(workspace, id)? else { return Ok(None) };
    let events = [
        Event::CancelRequested { by: by.clone(), alone: false },
        Event::Ended { status: EndStatus::Cancelled, warned: false, outputs: None, failure: None },
    ];
    append(tx, &mut run, &events)?;
    run.epoch += 1;
    run.status = Status::Cancelled;
    run.conclusion = None;
    run.active = false;
    run.ended_at = Some(tx.now());
    tx.update_run(&run)?;
    if out.announced {
        announce(tx, &run, REPLACED)?;
    }
    out.fenced.push(id);
    settle_claims(tx, &run, ClaimState::Cancelled)?;
    tx.delete_timers(workspace, id)?;
    errands::end_all(tx, workspace, id)?;
    // Nobody will act on what was left for it.
    for (seq, _) in tx.inbox(workspace, id)? {
        tx.delete_inbox(workspace, id, seq)?;
    }
    match run.lane {
        Some(own) if own.hash == lane => lanes::leave(tx, workspace, lane, id)?,
        _ => out.wake.extend(release_slot(tx, &run)?),
    }
    out.wake.extend(tell_watchers(tx, &run, &ended_message(&run, EndStatus::Cancelled, &Json::Null))?);
    Ok(Some(run))
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
    let message = ended_message(run, status, outputs);
    if let Some(parent) = run.parent.as_ref().filter(|p| p.waits || run.open_doubts > 0) {
        notify(tx, &run.workspace, parent.run, &message)?;
        wake.push(parent.run);
    }
    wake.extend(tell_watchers(tx, run, &message)?);
    Ok(wake)
}

fn ended_message(run: &RunRow, status: EndStatus, outputs: &Json) -> Inbox {
    let (conclusion, warned, outputs) = (run.conclusion, run.warned, outputs.clone());
    Inbox::ChildEnded { run: run.id, status, conclusion, warned, outputs, doubts: run.open_doubts }
}

/// Tells everyone who watches the run. While a doubt is open they stay: the verdict is for them too.
fn tell_watchers(tx: &mut dyn Tx, run: &RunRow, message: &Inbox) -> Result<Vec<RunId>> {
    if tx.is_new(&run.workspace, run.id) {
        return Ok(vec![]);
    }
    let watch = watch_hash(run.id);
    let watchers = lanes::line(tx, &run.workspace, watch)?;
    for watcher in &watchers {
        if run.open_doubts == 0 {
            lanes::leave(tx, &run.workspace, watch, *watcher)?;
        }
        // One that was replaced ended with its steps open: nothing happens to them any more.
        let over = |row: RunRow| row.status.is_ended() && row.open_doubts == 0;
        if run.open_doubts > 0 || !tx.run(&run.workspace, *watcher)?.is_some_and(over) {
            notify(tx, &run.workspace, *watcher, message)?;
        }
    }
    Ok(watchers)
}

/// Runs that wait for the end of a run which is not their child stand in a lane of their own.
pub fn watch_hash(run: RunId) -> Hash16 {
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
    lanes::leave(tx, &run.workspace, lane_ref.hash, run.id)?;
    let promoted = lanes::promote(tx, &run.workspace, lane_ref)?;
    for id in &promoted {
        notify(tx, &run.workspace, *id, &Inbox::Promoted)?;
        for mut claim in tx.claims_of_run(&run.workspace, *id)? {
            // One that a restore holds has its slot, and waits for its release.
            if claim.state == ClaimState::Pending {
                claim.state = ClaimState::Live;
                tx.put_claim(&run.workspace, &claim)?;
            }
        }
    }
    Ok(promoted)
}
