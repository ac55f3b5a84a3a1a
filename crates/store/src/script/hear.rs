//! Changes of runs that flow triggers hear of.
//!
//! The transaction that changes a run's state leaves a row. A trigger settles it once, together with what it does about
//! it: the run that it starts, or what it remembers until others have happened as well. So a trigger fires once for a
//! change, however often somebody looks and whoever dies in between.

use crate::error::StoreError;
use crate::rows::*;
use crate::tx::{Result, Tx};
use crate::work::{Done, Hearing};
use semel_core::{FlowRef, RunId, WorkspaceId};

/// The name under which a trigger is in [`ChangeRow::heard`].
pub fn listener(flow: &FlowRef, trigger: &str) -> String {
    format!("{flow} {trigger}")
}

/// Leaves the row for whoever listens.
pub(super) fn announce(tx: &mut dyn Tx, run: &RunRow, state: &str) -> Result<()> {
    tx.insert_change(&ChangeRow {
        workspace: run.workspace.clone(),
        run: run.id,
        version: run.version,
        at: tx.now(),
        state: state.to_owned(),
        heard: vec![],
    })
}

/// Settles a change for one trigger; a conflict when somebody else has, or when what the trigger remembers is not what
/// it was judged by.
pub(super) fn hear(tx: &mut dyn Tx, workspace: &WorkspaceId, hearing: &Hearing) -> Result<()> {
    let name = listener(&hearing.flow, &hearing.trigger);
    let stored = tx.change(workspace, hearing.run, hearing.version)?;
    let Some(mut change) = stored.filter(|change| !change.heard.contains(&name)) else {
        return Err(StoreError::Conflict(format!("{name} has heard of this change of {}", hearing.run)));
    };
    if let Some((before, after)) = &hearing.windows {
        let rows = tx.flow_schedules(workspace, &hearing.flow)?;
        let Some(row) = rows.into_iter().find(|row| row.trigger == hearing.trigger) else {
            return Err(StoreError::Conflict(format!("{name} is gone")));
        };
        if row.state.windows != *before {
            return Err(StoreError::Conflict(format!("{name} has heard of something else meanwhile")));
        }
        let state = TriggerState { windows: after.clone(), ..row.state };
        tx.update_schedule(&ScheduleRow { state, ..row })?;
    }
    change.heard.push(name);
    tx.put_change(&change)
}

pub(super) fn heard(tx: &mut dyn Tx, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<Done> {
    tx.delete_change(workspace, run, version)?;
    Ok(Done::Unit)
}
