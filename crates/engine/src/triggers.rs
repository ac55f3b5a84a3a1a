//! What doors can ask of triggers.

use crate::conductor::is_timetable;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use semel_core::ir::{Trigger, TriggerKind};
use semel_core::{FlowRef, Millis, WorkspaceId};
use semel_store::{Backfill, Done, ScheduleRow, StoreError, TriggerChange, Work};
use serde_json::Value as Json;
use std::sync::Arc;

/// A trigger that the engine looks after by itself, and what is remembered of it.
#[derive(Clone, Debug)]
pub struct TriggerView {
    pub row: ScheduleRow,
    pub flow: Arc<LoadedFlow>,
}

impl TriggerView {
    /// As the newest revision of the flow has it.
    pub fn trigger(&self) -> Option<&Trigger> {
        self.flow.index.flow.triggers.iter().find(|trigger| trigger.id == self.row.trigger)
    }
}

/// Instants to make up for.
#[derive(Clone, Debug, Default)]
pub struct BackfillRequest {
    pub start: Millis,
    /// `None`: now.
    pub end: Option<Millis>,
    pub inputs: Json,
    pub labels: Vec<(String, String)>,
    pub paused: bool,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TriggerError {
    #[error("no such trigger")]
    Unknown,
    #[error("{0}")]
    NotPossible(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Triggers that schedules and polls fire, in order of flow and trigger: webhooks and flow triggers are not among
    /// them.
    pub fn triggers(&self, workspace: &WorkspaceId) -> Result<Vec<TriggerView>, StoreError> {
        let rows = self.store().schedules(workspace)?;
        let view = |row: ScheduleRow| {
            let flow = self.flow(workspace, &row.flow).ok()?;
            Some(TriggerView { row, flow })
        };
        // Conductor's schedules have a door of their own.
        let views = rows.into_iter().filter(|row| !is_timetable(&row.flow)).filter_map(view);
        Ok(views.filter(|view| view.trigger().is_some_and(|trigger| trigger.kind.has_instants())).collect())
    }

    pub fn trigger(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
    ) -> Result<Option<TriggerView>, StoreError> {
        let all = self.triggers(workspace)?;
        Ok(all.into_iter().find(|view| view.row.flow == *flow && view.row.trigger == trigger))
    }

    /// Switches a trigger on or off, whatever its flow says. It goes on from now when it is switched on again.
    pub async fn set_trigger_disabled(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
        disabled: bool,
    ) -> Result<(), TriggerError> {
        let change = if disabled { TriggerChange::Disable } else { TriggerChange::Enable };
        self.asked(workspace, flow, trigger, change).await
    }

    /// Makes up for instants of the past, one run after another. The schedule itself waits meanwhile; a backfill that is
    /// under way is replaced.
    pub async fn start_backfill(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
        wanted: BackfillRequest,
    ) -> Result<(), TriggerError> {
        let view = self.trigger(workspace, flow, trigger)?.ok_or(TriggerError::Unknown)?;
        if !view.trigger().is_some_and(|trigger| matches!(trigger.kind, TriggerKind::Schedule { .. })) {
            return Err(TriggerError::NotPossible("only a Schedule trigger can be backfilled".to_owned()));
        }
        let now = self.store().now();
        let end = wanted.end.unwrap_or(now);
        if wanted.start >= end {
            return Err(TriggerError::NotPossible("the backfill must start before it ends".to_owned()));
        }
        let backfill = Backfill {
            id: format!("backfill {:016x}", self.services().entropy.random()),
            start: wanted.start,
            end,
            current: wanted.start,
            paused: wanted.paused,
            inputs: wanted.inputs,
            labels: wanted.labels,
            resume_due: None,
            last_run: None,
        };
        self.asked(workspace, flow, trigger, TriggerChange::Backfill(Box::new(backfill))).await
    }

    pub async fn pause_backfill(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
        paused: bool,
    ) -> Result<(), TriggerError> {
        self.has_backfill(workspace, flow, trigger)?;
        let change = if paused { TriggerChange::PauseBackfill } else { TriggerChange::ResumeBackfill };
        self.asked(workspace, flow, trigger, change).await
    }

    pub async fn end_backfill(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
    ) -> Result<(), TriggerError> {
        self.has_backfill(workspace, flow, trigger)?;
        self.asked(workspace, flow, trigger, TriggerChange::EndBackfill).await
    }

    /// Lets a poll or a backfill go on without the end of the run that it started last.
    pub async fn unlock_trigger(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
    ) -> Result<(), TriggerError> {
        let view = self.trigger(workspace, flow, trigger)?.ok_or(TriggerError::Unknown)?;
        let waits = view.row.state.backfill.as_ref().map_or(view.row.state.last_run, |backfill| backfill.last_run);
        let live = match waits {
            Some(run) => self.store().run(workspace, run)?.is_some_and(|(run, _, _)| !run.status.is_ended()),
            None => false,
        };
        if !live {
            return Err(TriggerError::NotPossible("the trigger does not wait for a run".to_owned()));
        }
        self.asked(workspace, flow, trigger, TriggerChange::Unlock).await
    }

    /// Lets a trigger begin anew: it waits for no run, and a poll is made at once.
    pub async fn restart_trigger(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
    ) -> Result<(), TriggerError> {
        let view = self.trigger(workspace, flow, trigger)?.ok_or(TriggerError::Unknown)?;
        let polls = view.trigger().is_some_and(|trigger| matches!(trigger.kind, TriggerKind::Http { .. }));
        let change = if polls { TriggerChange::Restart } else { TriggerChange::Unlock };
        self.asked(workspace, flow, trigger, change).await
    }

    /// Forgets all that is remembered of a trigger: that somebody has switched it off, its backfill, the run it waits
    /// for, when it last fired. As long as its flow has it, it goes on from now.
    pub async fn forget_trigger(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
    ) -> Result<(), TriggerError> {
        self.trigger(workspace, flow, trigger)?.ok_or(TriggerError::Unknown)?;
        self.asked(workspace, flow, trigger, TriggerChange::Forget).await
    }

    fn has_backfill(&self, workspace: &WorkspaceId, flow: &FlowRef, trigger: &str) -> Result<(), TriggerError> {
        let view = self.trigger(workspace, flow, trigger)?.ok_or(TriggerError::Unknown)?;
        match view.row.state.backfill {
            Some(_) => Ok(()),
            None => Err(TriggerError::NotPossible("the trigger has no backfill".to_owned())),
        }
    }

    async fn asked(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
        change: TriggerChange,
    ) -> Result<(), TriggerError> {
        match self.change_trigger(workspace, flow, trigger, change).await? {
            true => Ok(()),
            false => Err(TriggerError::Unknown),
        }
    }

    /// False when there is no such trigger.
    pub(crate) async fn change_trigger(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        trigger: &str,
        change: TriggerChange,
    ) -> Result<bool, StoreError> {
        let work = Work::ChangeTrigger {
            workspace: workspace.clone(),
            flow: flow.clone(),
            trigger: trigger.to_owned(),
            change,
        };
        Ok(!matches!(self.write(work).await?, Done::Missing))
    }
}
