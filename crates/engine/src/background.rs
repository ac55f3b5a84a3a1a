//! What happens by itself: schedules and clean-up. Both are safe to run twice at once, since a
//! tick is an occurrence keyed by its nominal instant and a sweep only deletes what is over.

use crate::api::Occurrence;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use semel_core::admission::PresetName;
use semel_core::ir::{RecoverMissed, TriggerKind};
use semel_core::{Door, Millis};
use semel_store::{ScheduleRow, StoreError, SweepRules, Tick, Work};
use semel_tasks::schedule::next_after;
use serde_json::json;
use std::sync::Arc;

/// Missed instants made up for at most, per schedule and look.
const CATCH_UP_MAX: usize = 1_000;
/// A schedule that has been due for so long is not being seen to by the first of the nodes.
const LEFT_BY_FIRST_MS: i64 = 2_000;

impl Engine {
    /// Fires every schedule that is due; returns when to look again.
    pub async fn tick_schedules(&self) -> Result<Option<Millis>, StoreError> {
        let now = self.store().now();
        // One node is the first to look; the others see to what it has left.
        let before = if self.is_first() { now } else { now.plus(-LEFT_BY_FIRST_MS) };
        for row in self.store().due_schedules(before, 100)? {
            self.fire_schedule(row, now).await?;
        }
        self.store().next_schedule()
    }

    fn is_first(&self) -> bool {
        self.store().cluster().is_none_or(|cluster| cluster.is_first())
    }

    async fn fire_schedule(&self, row: ScheduleRow, now: Millis) -> Result<(), StoreError> {
        let Ok(flow) = self.flow(&row.workspace, &row.flow) else {
            return self.advance(ScheduleRow { next_due: None, ..row }).await;
        };
        let trigger = flow.index.flow.triggers.iter().find(|t| t.id == row.trigger);
        let Some(TriggerKind::Schedule { cron, timezone, with_seconds, recover, late_max_ms }) =
            trigger.map(|t| &t.kind)
        else {
            return self.advance(ScheduleRow { next_due: None, ..row }).await;
        };
        let after = |at: Millis| next_after(cron, timezone, *with_seconds, at.0).ok().flatten().map(Millis);
        let mut due = Vec::new();
        let mut next = row.next_due;
        while let Some(at) = next.filter(|at| *at <= now && due.len() < CATCH_UP_MAX) {
            due.push(at);
            next = after(at);
        }
        // More than a look can hold are due: which one is the last shows when all have been seen.
        let more = next.is_some_and(|at| at <= now);
        let missed = if more && *recover != RecoverMissed::All {
            vec![]
        } else {
            missed_rule(&due, *recover, *late_max_ms, now)
        };
        let mut last = row.last_fired;
        for at in missed {
            if !self.fire(&row, &flow, at, last, after(at)).await? {
                // Not admitted for now (the store is full or stopping): this instant stays due.
                return self.advance(ScheduleRow { next_due: Some(at), last_fired: last, ..row }).await;
            }
            last = Some(at);
        }
        self.advance(ScheduleRow { next_due: next, last_fired: last, ..row }).await
    }

    /// Admits one tick; true when it is settled, whatever was decided.
    async fn fire(
        &self,
        row: &ScheduleRow,
        flow: &Arc<LoadedFlow>,
        at: Millis,
        previous: Option<Millis>,
        next: Option<Millis>,
    ) -> Result<bool, StoreError> {
        let date = |m: Option<Millis>| m.map(Millis::to_rfc3339);
        let occurrence = Occurrence {
            workspace: row.workspace.clone(),
            flow: flow.clone(),
            door: Door::Schedule,
            caller: format!("schedule {}", row.trigger),
            caller_key: None,
            intrinsic_key: Some(format!("{} {}", row.trigger, at.to_rfc3339())),
            door_preset: PresetName::Semel,
            request_preset: None,
            scope: None,
            inputs: json!({}),
            trigger:
                json!({"date": at.to_rfc3339(), "previous": date(previous), "next": date(next), "id": row.trigger})
                    .into(),
            trigger_id: Some(row.trigger.clone()),
            labels: vec![],
            correlation_id: None,
        };
        let tick = Tick { trigger: row.trigger.clone(), at, next };
        match self.admit_at(occurrence, Some(tick)).await {
            Ok(_) => Ok(true),
            // Another node was faster, or an earlier process that could not say so any more.
            Err(crate::api::AdmitError::Store(StoreError::Conflict(_))) => Ok(true),
            Err(crate::api::AdmitError::Store(error)) => {
                tracing::warn!(schedule = row.trigger, %error, "a tick could not be admitted yet");
                Ok(false)
            }
            Err(error) => {
                tracing::error!(flow = %row.flow, schedule = row.trigger, %error, "a tick cannot be admitted; it is skipped");
                Ok(true)
            }
        }
    }

    async fn advance(&self, row: ScheduleRow) -> Result<(), StoreError> {
        self.write(Work::AdvanceSchedule(row)).await.map(|_| ())
    }

    /// Runs schedules and sweeps until the engine stops.
    pub async fn run_background(self: Arc<Self>, rules: SweepRules) {
        let mut sweep_at = Millis(0);
        while !self.is_stopping() {
            if self.is_ready() {
                if let Err(error) = self.tick_schedules().await {
                    tracing::error!(%error, "schedules cannot be read");
                }
                let now = self.store().now();
                if now >= sweep_at && self.is_first() {
                    match self.sweep(rules).await {
                        // A full batch means there is more.
                        Ok(count) if count >= u64::from(rules.limit) => sweep_at = now.plus(100),
                        Ok(_) => sweep_at = now.plus(60_000),
                        Err(error) => {
                            tracing::warn!(%error, "the sweep failed");
                            sweep_at = now.plus(60_000);
                        }
                    }
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

/// Which of the due instants are made up for.
fn missed_rule(due: &[Millis], recover: RecoverMissed, late_max_ms: Option<i64>, now: Millis) -> Vec<Millis> {
    // An instant is missed, not merely due, when a later one is due as well.
    let kept: Vec<Millis> = match recover {
        RecoverMissed::All => due.to_vec(),
        RecoverMissed::Last => due.last().copied().into_iter().collect(),
        RecoverMissed::None => due.last().copied().filter(|at| now.since(*at) < 10_000).into_iter().collect(),
    };
    kept.into_iter().filter(|at| late_max_ms.is_none_or(|max| now.since(*at) <= max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_instants_follow_the_rule() {
        let due = [Millis(0), Millis(60_000), Millis(120_000)];
        let now = Millis(125_000);
        assert_eq!(missed_rule(&due, RecoverMissed::All, None, now), due);
        assert_eq!(missed_rule(&due, RecoverMissed::Last, None, now), [Millis(120_000)]);
        assert_eq!(missed_rule(&due, RecoverMissed::None, None, now), [Millis(120_000)]);
        assert_eq!(missed_rule(&due, RecoverMissed::None, None, Millis(300_000)), []);
        assert_eq!(missed_rule(&due, RecoverMissed::All, Some(70_000), now), [Millis(60_000), Millis(120_000)]);
    }
}
