//! A store made from a backup: what was open then may have gone on since, and nobody knows how far.

use super::admit::append;
use super::errands;
use crate::rows::*;
use crate::tx::{Result, Tx};
use crate::work::{AdmitRequest, Done};
use semel_core::admission::{ClaimState, Reason};
use semel_core::planted;
use semel_core::run::{By, Event, Status};
use semel_core::{Door, Millis};

pub(super) fn restored(tx: &mut dyn Tx, row: &RestoredRow, accepted: Option<&By>) -> Result<Done> {
    tx.put_restored(row)?;
    let mut count = 0;
    for mut run in tx.open_runs()? {
        match accepted {
            None if planted!(RestoreHoldsNothing) => {}
            None => hold(tx, &mut run)?,
            Some(by) => accept(tx, &mut run, by)?,
        }
        count += 1;
    }
    Ok(Done::Count(count))
}

/// Nothing happens to the run any more before it is released: its timers have no rows, nobody gets its errands, its claims
/// are held, and whoever drove it is fenced.
pub(super) fn hold(tx: &mut dyn Tx, run: &mut RunRow) -> Result<()> {
    let at = tx.now();
    append(tx, run, &[Event::Restored { at }])?;
    tx.delete_timers(&run.workspace, run.id)?;
    errands::end_all(tx, &run.workspace, run.id)?;
    if run.status == Status::Running {
        // It may not have started yet; one that has does not mind being told.
        tx.push_inbox(&run.workspace, run.id, &Inbox::Promoted)?;
    }
    run.active = !tx.inbox(&run.workspace, run.id)?.is_empty();
    run.status = Status::Held;
    run.epoch += 1;
    tx.update_run(run)?;
    for mut claim in tx.claims_of_run(&run.workspace, run.id)? {
        claim.state = ClaimState::Held;
        tx.put_claim(&run.workspace, &claim)?;
    }
    Ok(())
}

/// The run goes on as after a crash; that somebody wanted it so stays in its journal.
fn accept(tx: &mut dyn Tx, run: &mut RunRow, by: &By) -> Result<()> {
    let at = tx.now();
    append(tx, run, &[Event::Restored { at }, Event::Released { by: by.clone() }])?;
    run.epoch += 1;
    tx.update_run(run)
}

/// The reason of a fresh event: a key that is unknown soon after a restore may have been known.
pub(super) fn flagged(tx: &dyn Tx, request: &AdmitRequest, reason: Reason) -> Reason {
    let known = |at: Millis| request.policy.window.may_have_been_known(at, tx.now());
    if reason == Reason::First && request.key.is_some() && tx.restored_at().is_some_and(known) {
        return Reason::FirstAfterRestore;
    }
    reason
}

/// A tick for an instant before the restore may have been run by the lost part of the store, and so may what followed
/// a change of another run.
pub(super) fn must_be_held(tx: &dyn Tx, request: &AdmitRequest) -> bool {
    let nominal = request.trigger.get("date").and_then(|date| Millis::parse_rfc3339(date.as_str()?));
    let nominal = match &request.hearing {
        Some(hearing) => Some(hearing.at),
        None => nominal.filter(|_| request.door == Door::Schedule),
    };
    tx.restored_at().is_some_and(|restored| nominal.is_some_and(|nominal| nominal <= restored))
}
