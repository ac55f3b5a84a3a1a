//! Lanes, as the oracle sees them: who holds a slot, who stands in line, what a busy lane does.

use super::{BusySpec, Expected, Incoming, LaneId, LaneState, Model};
use semel_core::RunId;
use semel_core::admission::Decision;
use semel_core::run::Status;
use semel_store::{AdmitResult, RunRow, Store};

impl Model {
    pub(super) fn expect_lane(&self, incoming: &Incoming, store: &dyn Store, expected: &mut Expected) {
        let start = |expected: &mut Expected| {
            expected.decision = "start".into();
            (expected.run, expected.created) = (None, true);
        };
        let Some((id, limit, busy)) = &incoming.lane else { return start(expected) };
        let empty = LaneState { limit: *limit, ..LaneState::default() };
        let lane = self.lanes.get(id).unwrap_or(&empty);
        let free = lane.holders.len() < *limit as usize && lane.line.is_empty();
        let mut say = |decision: &str, reason: &str, run: Option<RunId>, created: bool| {
            (expected.decision, expected.reason) = (decision.into(), reason.into());
            (expected.run, expected.created) = (run, created);
        };
        match (busy, lane.holders.first()) {
            (BusySpec::Parallel, _) => start(expected),
            (BusySpec::Coalesce { .. }, _) => match lane.gathering {
                Some(run) => say("coalesce", "coalesced", Some(run), false),
                None => say("coalesce", "coalesce_pending", None, true),
            },
            _ if free => start(expected),
            (BusySpec::Queue(max), _) if lane.line.len() >= *max as usize => say("reject", "queue_full", None, false),
            (BusySpec::Queue(_), _) | (BusySpec::Replace | BusySpec::Deliver, None) => {
                say("queue", "queued", None, true)
            }
            (BusySpec::Deliver, Some(holder)) => say("deliver", "delivered", Some(*holder), false),
            (BusySpec::Reject, _) => say("reject", "lane_busy", None, false),
            (BusySpec::Cancel, _) => say("start", "lane_cancelled", None, true),
            (BusySpec::Fail, _) => say("start", "lane_failed", None, true),
            (BusySpec::Replace, Some(holder)) => {
                let mut above = incoming.parent;
                while let Some(run) = above.filter(|run| run != holder) {
                    above = Model::row(store, &incoming.workspace, run).and_then(|r| r.parent).map(|p| p.run);
                }
                match Model::row(store, &incoming.workspace, *holder) {
                    _ if above.is_some() => say("reject", "lane_busy", None, false),
                    None => say("replace", "replaced", None, true),
                    Some(row) => match tree(store, &row) {
                        2 => say("reject", "held_no_replace", None, false),
                        1 => say("replace", "replace_deferred", None, true),
                        _ => say("replace", "replaced", None, true),
                    },
                }
            }
        }
    }

    pub(super) fn enters(&mut self, id: LaneId, limit: u32, run: RunId, result: &AdmitResult, deferred: bool) {
        let lane = self.lanes.entry(id).or_default();
        lane.limit = limit;
        match (result.decision, result.reason.word()) {
            (Decision::Start, "lane_cancelled" | "lane_failed") => {}
            (Decision::Start, _) => lane.holders.push(run),
            (Decision::Queue, _) => lane.line.push(run),
            (Decision::Coalesce, _) => lane.gathering = Some(run),
            (Decision::Replace, _) if deferred => lane.line = vec![run],
            (Decision::Replace, _) => {
                lane.line.clear();
                if !lane.holders.is_empty() {
                    lane.holders.remove(0);
                }
                lane.holders.push(run);
            }
            _ => {}
        }
        if lane.holders.len() > limit as usize {
            let text = format!("{} runs at once, {limit} may", lane.holders.len());
            self.broken("I18", text);
        }
    }

    /// A quiet period begins again with each event, and no event puts its end off beyond the longest that its flow allows.
    pub(super) fn gathers(&mut self, incoming: &Incoming, run: RunId, result: &AdmitResult, now: i64) {
        let Some((_, _, BusySpec::Coalesce { quiet_ms, max_ms })) = &incoming.lane else { return };
        let since = *self.gathers_since.entry(run).or_insert(now);
        let due = (now + quiet_ms).min(since + max_ms);
        // One that a restore holds has no end before its release.
        if let Some(given) = result.timer_due.filter(|given| given.0 != due) {
            self.broken("I18", format!("the quiet period of run {run} ends at {}, not at {due}", given.0));
        }
    }

    pub(super) fn enter_lane(&mut self, run: RunId, entered: Option<bool>) {
        let Some(id) = self.runs.get(&run).and_then(|r| r.lane.clone()) else { return };
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if lane.gathering == Some(run) {
            lane.gathering = None;
        }
        lane.line.retain(|other| *other != run);
        let free = lane.holders.len() < lane.limit as usize && lane.line.is_empty();
        if free {
            lane.holders.push(run);
        } else {
            lane.line.push(run);
        }
        if entered != Some(free) {
            self.broken("I18", format!("run {run} entered its lane: {entered:?}, but a slot was free: {free}"));
        }
    }
}

/// 0: quiet, 1: something is in flight, 2: a doubt is open; of the run or anything live below it.
fn tree(store: &dyn Store, row: &RunRow) -> u8 {
    if row.status == Status::Held || row.open_doubts > 0 {
        return 2;
    }
    let mut state = u8::from(row.open_intents > 0);
    let query = semel_store::RunQuery { parent: Some(row.id), limit: 500, ..Default::default() };
    for (child, _, _) in store.runs(&row.workspace, &query).unwrap_or_default() {
        if !child.status.is_ended() {
            state = state.max(tree(store, &child));
        }
    }
    state
}
