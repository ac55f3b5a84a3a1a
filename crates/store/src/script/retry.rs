//! A run that failed and whose author wants it tried again in a new run.
//!
//! Both ends are written by one transaction: the old run has ended and says so, its claim leads to the new one, and that
//! one has its slot or waits in line. Where somebody waits for the old run, nothing of this happens: it goes on itself.

use super::admit::admit;
use super::ending::{settle_end, watch_hash};
use super::lanes;
use crate::rows::RunRow;
use crate::tx::{Result, Tx};
use crate::work::{AdmitRequest, CommitResult};
use semel_core::run::{By, EndStatus, Event, Failure, RETRIED, Status, conclusion_of};
use serde_json::{Value as Json, json};

/// The event of the old run.
pub(super) fn run_again(
    tx: &mut dyn Tx,
    run: &mut RunRow,
    request: &AdmitRequest,
    by: &By,
    round: u32,
    out: &mut CommitResult,
) -> Result<Event> {
    let watched = !lanes::line(tx, &run.workspace, watch_hash(run.id))?.is_empty();
    if watched || run.parent.as_ref().is_some_and(|parent| parent.waits) {
        out.goes_on = true;
        run.active = true;
        run.status = Status::Running;
        return Ok(Event::Restarted { by: by.clone(), round, at: tx.now(), anew: false, child: None });
    }
    run.status = Status::Failed;
    run.active = false;
    run.ended_at = Some(tx.now());
    tx.update_run(run)?;
    let wake = settle_end(tx, run, EndStatus::Failed, &Json::Null)?;
    out.wake.extend(wake);
    // Somebody may have freed the key, and another event may have taken it.
    let kept = match &request.key {
        Some(key) => tx.claim(&run.workspace, key.hash)?.is_some_and(|claim| claim.run == run.id),
        None => false,
    };
    let key = request.key.clone().filter(|_| kept);
    let admitted = admit(tx, &AdmitRequest { key, ..request.clone() })?;
    let failure = match admitted.created {
        true => Failure::new(RETRIED, format!("run {} takes its place", request.run)),
        false => Failure::new(admitted.reason.word(), "the flow was to be tried again, and no new run was let in"),
    };
    run.conclusion = conclusion_of(EndStatus::Failed, Some(&failure.code));
    let shown = json!({"code": failure.code, "message": failure.message(), "step": null});
    tx.put_run_result(&run.workspace, run.id, None, Some(&shown))?;
    out.wake.extend(&admitted.wake);
    out.fenced.extend(&admitted.fenced);
    if let Some(due) = admitted.timer_due {
        out.timer_due = Some(out.timer_due.map_or(due, |known| known.min(due)));
    }
    out.admitted.push(admitted);
    Ok(Event::Ended { status: EndStatus::Failed, warned: run.warned, outputs: None, failure: Some(failure) })
}
