//! Triggers that the clock fires. Looking twice at once does no harm: a tick is an occurrence keyed by its nominal
//! instant, and it moves its schedule on in the transaction that admits it.

use crate::api::{AdmitError, Occurrence};
use crate::conductor::is_timetable;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use semel_core::admission::PresetName;
use semel_core::ir::{RecoverMissed, TriggerKind};
use semel_core::{Door, Millis, date};
use semel_store::{Backfill, ScheduleRow, StoreError, Tick, TriggerChange, Work};
use semel_tasks::schedule::next_after;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Missed instants made up for at most, per schedule and look.
const CATCH_UP_MAX: usize = 1_000;
/// Instants of a backfill that are settled in one look.
const BACKFILL_MAX: usize = 100;
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

    pub(crate) fn is_first(&self) -> bool {
        self.store().cluster().is_none_or(|cluster| cluster.is_first())
    }

    async fn fire_schedule(&self, row: ScheduleRow, now: Millis) -> Result<(), StoreError> {
        let Ok(flow) = self.flow(&row.workspace, &row.flow) else {
            return self.advance(ScheduleRow { next_due: None, ..row }).await;
        };
        if is_timetable(&row.flow) {
            return self.fire_timetable(row, &flow, now).await;
        }
        let polled = flow.index.flow.triggers.iter().find(|t| t.id == row.trigger);
        if let Some(TriggerKind::Http { interval_ms, .. }) = polled.map(|t| &t.kind) {
            return self.turn(row, flow.clone(), *interval_ms, now).await;
        }
        let Some(timed) = Timed::of(&flow, &row.trigger) else {
            return self.advance(ScheduleRow { next_due: None, ..row }).await;
        };
        if row.state.woken {
            return self.advance(ScheduleRow { next_due: timed.after(now), ..row }).await;
        }
        if let Some(backfill) = &row.state.backfill {
            return self.make_up(&row, backfill, &flow, timed, now).await;
        }
        let mut due = Vec::new();
        let mut next = row.next_due;
        while let Some(at) = next.filter(|at| *at <= now && due.len() < CATCH_UP_MAX) {
            due.push(at);
            next = timed.after(at);
        }
        // More than a look can hold are due: which one is the last shows when all have been seen.
        let more = next.is_some_and(|at| at <= now);
        due.retain(|at| self.is_wanted(&self.tick(&row, &flow, timed, *at, None)));
        let missed = if more && timed.recover != RecoverMissed::All {
            vec![]
        } else {
            missed_rule(&due, timed.recover, timed.late_max_ms, now)
        };
        let mut last = row.last_fired;
        for at in missed {
            let occurrence = self.tick(&row, &flow, timed, at, last);
            let tick =
                Tick { trigger: row.trigger.clone(), at, next: timed.after(at), backfill: false, schedule: None };
            if !self.fire(occurrence, tick).await? {
                // Not admitted for now (the store is full or stopping): this instant stays due.
                return self.advance(ScheduleRow { next_due: Some(at), last_fired: last, ..row }).await;
            }
            last = Some(at);
        }
        self.advance(ScheduleRow { next_due: next, last_fired: last, ..row }).await
    }

    /// The next instants of a backfill, one run after another unless they may overlap. The row stays due until the end.
    async fn make_up(
        &self,
        row: &ScheduleRow,
        backfill: &Backfill,
        flow: &Arc<LoadedFlow>,
        timed: Timed<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let change = |change| Work::ChangeTrigger {
            workspace: row.workspace.clone(),
            flow: row.flow.clone(),
            trigger: row.trigger.clone(),
            change,
        };
        if let Some(run) = backfill.last_run.filter(|_| !timed.allow_concurrent)
            && self.store().run(&row.workspace, run)?.is_some_and(|(run, _, _)| !run.status.is_ended())
        {
            return Ok(());
        }
        let mut current = backfill.current;
        for _ in 0..BACKFILL_MAX {
            let next = timed.after(current.plus(-1)).filter(|at| *at <= backfill.end && *at <= now);
            let Some(at) = next else {
                return self.write(change(TriggerChange::EndBackfill)).await.map(|_| ());
            };
            current = at.plus(1);
            let tick = self.tick(row, flow, timed, at, None);
            let occurrence = Occurrence {
                // What was run at this instant before is run again.
                intrinsic_key: tick.intrinsic_key.as_ref().map(|key| format!("{key} {}", backfill.id)),
                inputs: if backfill.inputs.is_object() { backfill.inputs.clone() } else { json!({}) },
                labels: backfill.labels.clone(),
                ..tick
            };
            if !self.is_wanted(&occurrence) {
                self.write(change(TriggerChange::SkipBackfill { at })).await?;
                continue;
            }
            let tick = Tick { trigger: row.trigger.clone(), at, next: None, backfill: true, schedule: None };
            if !self.fire(occurrence, tick).await? || !timed.allow_concurrent {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What arrives at this instant.
    fn tick(
        &self,
        row: &ScheduleRow,
        flow: &Arc<LoadedFlow>,
        timed: Timed<'_>,
        at: Millis,
        previous: Option<Millis>,
    ) -> Occurrence {
        let date = |at: Millis| date::in_zone(at, timed.timezone);
        let trigger = json!({
            "date": date(at),
            "previous": previous.map(date),
            "next": timed.after(at).map(date),
            "id": row.trigger,
        });
        arrival(row, flow, "schedule", at, trigger)
    }

    /// Admits one tick; true when it is settled, whatever was decided.
    async fn fire(&self, occurrence: Occurrence, tick: Tick) -> Result<bool, StoreError> {
        let (flow, trigger) = (occurrence.flow.flow_ref.clone(), tick.trigger.clone());
        match self.admit_at(occurrence, Some(tick)).await {
            Ok(_) => Ok(true),
            // Another node was faster, or an earlier process that could not say so any more.
            Err(AdmitError::Store(StoreError::Conflict(_))) => Ok(true),
            Err(AdmitError::Store(error)) => {
                tracing::warn!(schedule = trigger, %error, "a tick could not be admitted yet");
                Ok(false)
            }
            Err(error) => {
                tracing::error!(%flow, schedule = trigger, %error, "a tick cannot be admitted; it is skipped");
                Ok(true)
            }
        }
    }

    pub(crate) async fn advance(&self, row: ScheduleRow) -> Result<(), StoreError> {
        self.write(Work::AdvanceSchedule(row)).await.map(|_| ())
    }
}

/// What a trigger that looks by itself brings at an instant. `what` is how it is called.
pub(crate) fn arrival(row: &ScheduleRow, flow: &Arc<LoadedFlow>, what: &str, at: Millis, trigger: Json) -> Occurrence {
    Occurrence {
        workspace: row.workspace.clone(),
        flow: flow.clone(),
        door: Door::Schedule,
        caller: format!("{what} {}", row.trigger),
        caller_key: None,
        intrinsic_key: Some(format!("{} {}", row.trigger, at.to_rfc3339())),
        door_preset: PresetName::Semel,
        request_preset: None,
        scope: None,
        inputs: json!({}),
        trigger: trigger.into(),
        trigger_id: Some(row.trigger.clone()),
        labels: vec![],
        correlation_id: None,
        run: None,
        start_at: None,
        breakpoints: vec![],
    }
}

/// When a trigger fires.
#[derive(Clone, Copy)]
struct Timed<'a> {
    kind: &'a TriggerKind,
    timezone: &'a str,
    recover: RecoverMissed,
    late_max_ms: Option<i64>,
    allow_concurrent: bool,
}

impl<'a> Timed<'a> {
    fn of(flow: &'a LoadedFlow, trigger: &str) -> Option<Timed<'a>> {
        let trigger = flow.index.flow.triggers.iter().find(|t| t.id == trigger)?;
        let (timezone, recover, late_max_ms) = match &trigger.kind {
            TriggerKind::Schedule { timezone, recover, late_max_ms, .. } => (timezone, *recover, *late_max_ms),
            TriggerKind::ScheduleOnDates { timezone, recover, .. } => (timezone, *recover, None),
            TriggerKind::Webhook { .. } | TriggerKind::Flow { .. } | TriggerKind::Http { .. } => return None,
        };
        let allow_concurrent = trigger.allow_concurrent;
        Some(Timed { kind: &trigger.kind, timezone, recover, late_max_ms, allow_concurrent })
    }

    fn after(&self, at: Millis) -> Option<Millis> {
        first_after(self.kind, at)
    }
}

/// The first instant strictly after another.
pub(crate) fn first_after(kind: &TriggerKind, at: Millis) -> Option<Millis> {
    match kind {
        TriggerKind::Schedule { cron, timezone, with_seconds, .. } => {
            next_after(cron, timezone, *with_seconds, at.0).ok().flatten().map(Millis)
        }
        TriggerKind::ScheduleOnDates { dates, .. } => dates.iter().copied().find(|date| *date > at),
        TriggerKind::Http { interval_ms, .. } => Some(at.plus(*interval_ms)),
        TriggerKind::Webhook { .. } | TriggerKind::Flow { .. } => None,
    }
}

/// Which of the due instants are made up for.
pub(crate) fn missed_rule(
    due: &[Millis],
    recover: RecoverMissed,
    late_max_ms: Option<i64>,
    now: Millis,
) -> Vec<Millis> {
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
