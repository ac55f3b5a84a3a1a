//! What people and tasks want of triggers.

use crate::error::StoreError;
use crate::rows::*;
use crate::tx::{Result, Tx};
use crate::work::*;
use semel_core::{FlowRef, WorkspaceId};

/// False when there is no such trigger.
pub(super) fn change(
    tx: &mut dyn Tx,
    workspace: &WorkspaceId,
    flow: &FlowRef,
    trigger: &str,
    change: &TriggerChange,
) -> Result<bool> {
    let rows = tx.flow_schedules(workspace, flow)?;
    let Some(mut row) = rows.into_iter().find(|row| row.trigger == trigger) else { return Ok(false) };
    let now = tx.now();
    match change {
        TriggerChange::Disable => {
            row.state.disabled = true;
            row.state.woken = false;
            row.next_due = None;
        }
        TriggerChange::Enable if row.state.disabled => {
            row.state.disabled = false;
            // Only who knows the timetable can say when it is due; it is looked at, and nothing is fired.
            row.state.woken = true;
            row.next_due = Some(now);
        }
        TriggerChange::Enable => {}
        TriggerChange::Backfill(backfill) => {
            let resume_due = match &row.state.backfill {
                Some(before) => before.resume_due,
                None => row.next_due,
            };
            row.state.backfill = Some(Backfill { resume_due, ..(**backfill).clone() });
            row.next_due = (!backfill.paused && !row.state.disabled).then_some(now);
        }
        TriggerChange::PauseBackfill => {
            if let Some(backfill) = &mut row.state.backfill {
                backfill.paused = true;
                row.next_due = None;
            }
        }
        TriggerChange::ResumeBackfill => {
            if let Some(backfill) = &mut row.state.backfill {
                backfill.paused = false;
                row.next_due = (!row.state.disabled).then_some(now);
            }
        }
        TriggerChange::EndBackfill => {
            if let Some(backfill) = row.state.backfill.take() {
                row.next_due = backfill.resume_due.filter(|_| !row.state.disabled);
            }
        }
        TriggerChange::Started { run } => row.state.last_run = Some(*run),
        TriggerChange::Unlock | TriggerChange::Restart => {
            row.state.last_run = None;
            if let Some(backfill) = &mut row.state.backfill {
                backfill.last_run = None;
            } else if *change == TriggerChange::Restart && !row.state.disabled {
                row.next_due = Some(now);
            }
        }
        TriggerChange::Forget => {
            // When it is due next is for whoever knows its timetable, as when it is switched on.
            row.state = TriggerState { woken: true, ..TriggerState::default() };
            row.last_fired = None;
            row.next_due = Some(now);
        }
        TriggerChange::SkipBackfill { at } => {
            if let Some(backfill) = row.state.backfill.as_mut().filter(|backfill| backfill.current <= *at) {
                backfill.current = at.plus(1);
            }
        }
    }
    tx.update_schedule(&row)?;
    Ok(true)
}

/// An instant that is not due any more was settled before, however long its key is remembered.
pub(super) fn take_tick(tx: &mut dyn Tx, request: &AdmitRequest, tick: &Tick) -> Result<()> {
    let stored = tx.flow_schedules(&request.workspace, tick.schedule.as_ref().unwrap_or(&request.flow))?;
    let row = stored.into_iter().find(|row| row.trigger == tick.trigger);
    let taken = row.and_then(|mut row| match (&mut row.state.backfill, tick.backfill) {
        (Some(backfill), true) if !backfill.paused && backfill.current <= tick.at => {
            backfill.current = tick.at.plus(1);
            backfill.last_run = Some(request.run);
            Some(row)
        }
        (None, false) if row.next_due.is_some_and(|due| due <= tick.at) => {
            Some(ScheduleRow { next_due: tick.next, last_fired: Some(tick.at), ..row })
        }
        _ => None,
    });
    match taken {
        Some(row) => tx.update_schedule(&row),
        None => Err(StoreError::Conflict(format!("{} of {} is not due any more", tick.at.to_rfc3339(), tick.trigger))),
    }
}
