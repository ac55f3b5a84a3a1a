//! `GET /executions/{id}/follow` and `/executions/{id}/follow-dependencies`: the execution at each change, or the states
//! of all that belong together, as server-sent events with the ids `start`, `progress` and `end`.

use crate::call::{Answer, Call};
use crate::doors::follow::{self, Look, Next, Teller};
use crate::doors::kestra::execution;
use crate::doors::kestra::flows::show::flag;
use axum::response::sse::Event;
use semel_core::{Door, RunId, WorkspaceId};
use semel_engine::Engine;
use semel_store::{RunQuery, RunRow, Store, StoreError, WholeRun};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Executions that are followed together.
const TOGETHER_MAX: u32 = 1_000;

struct Told {
    workspace: WorkspaceId,
    run: RunId,
    payloads: bool,
    sent: Option<u64>,
    engine: Arc<Engine>,
}

pub async fn get(call: Call) -> Answer {
    let (workspace, engine) = (call.workspace()?, call.app.engine().clone());
    let told = Told { workspace, run: call.run_id()?, payloads: call.sees_payloads(), sent: None, engine };
    follow::run(call, vec![Event::default().id("start").data("{}")], told).await
}

fn event(over: bool, data: &Json) -> Event {
    Event::default().id(if over { "end" } else { "progress" }).data(data.to_string())
}

impl Teller for Told {
    fn look(&mut self, store: &dyn Store) -> Result<Look, StoreError> {
        let Some(whole) = execution::read(store, &self.workspace, self.run)? else {
            return Ok(Look { events: vec![], next: Next::End });
        };
        let row = &whole.run.0;
        if self.sent == Some(row.version) {
            return Ok(Look { events: vec![], next: Next::Wait });
        }
        self.sent = Some(row.version);
        let over = execution::state_of(row).is_terminal();
        let shown = execution::shown(&whole.varied(&self.engine), self.payloads, store.now());
        Ok(Look { events: vec![event(over, &shown)], next: if over { Next::End } else { Next::Wait } })
    }
}

/// Executions that belong together have one correlation id; which of them started which is known of each.
struct Lineage {
    workspace: WorkspaceId,
    run: RunId,
    /// Only what came of the execution.
    downwards: bool,
    /// Also what came of that, and so on.
    all: bool,
    sent: BTreeMap<RunId, u64>,
}

pub async fn dependencies(call: Call) -> Answer {
    let lineage = Lineage {
        workspace: call.workspace()?,
        run: call.run_id()?,
        downwards: flag(&call.query, "destinationOnly", false)?,
        all: flag(&call.query, "expandAll", false)?,
        sent: BTreeMap::new(),
    };
    let start = json!({"executionId": lineage.run.to_string()});
    follow::runs(call, vec![Event::default().id("start").data(start.to_string())], lineage).await
}

/// The execution that made this one, if one did.
fn maker((row, values, _): &WholeRun) -> Option<RunId> {
    if let Some(parent) = &row.parent {
        return Some(parent.run);
    }
    let heard = values.trigger.as_ref().filter(|_| row.door == Door::Flow)?;
    semel_engine::public_json(heard)["executionId"].as_str()?.parse().ok()
}

/// Those that are reached from one execution: in one step or in all, downwards or both ways.
fn reached(run: RunId, made: &[(RunId, RunId)], downwards: bool, all: bool) -> BTreeSet<RunId> {
    let mut found = BTreeSet::from([run]);
    let mut edge: Vec<RunId> = vec![run];
    while !edge.is_empty() {
        let next = |at: &RunId| {
            let down = made.iter().filter(|(maker, _)| maker == at).map(|(_, made)| *made);
            let up = made.iter().filter(|(_, made)| !downwards && made == at).map(|(maker, _)| *maker);
            down.chain(up).collect::<Vec<_>>()
        };
        edge = edge.iter().flat_map(next).filter(|run| !found.contains(run)).collect();
        found.extend(&edge);
        if !all {
            break;
        }
    }
    found
}

impl Lineage {
    fn together(&self, store: &dyn Store) -> Result<Vec<RunRow>, StoreError> {
        let Some((row, _, _)) = store.run(&self.workspace, self.run)? else { return Ok(vec![]) };
        let correlation_id = Some(row.correlation_id);
        let query = RunQuery { correlation_id, limit: TOGETHER_MAX, ..RunQuery::default() };
        let runs = store.runs(&self.workspace, &query)?;
        let made: Vec<(RunId, RunId)> = runs.iter().filter_map(|run| Some((maker(run)?, run.0.id))).collect();
        let wanted = reached(self.run, &made, self.downwards, self.all);
        Ok(runs.into_iter().map(|(row, _, _)| row).filter(|row| wanted.contains(&row.id)).collect())
    }
}

impl Teller for Lineage {
    fn look(&mut self, store: &dyn Store) -> Result<Look, StoreError> {
        let (rows, now) = (self.together(store)?, store.now());
        let mut events = Vec::new();
        // Oldest first, as they came about.
        for row in rows.iter().rev() {
            if self.sent.insert(row.id, row.version) != Some(row.version) {
                events.push(event(execution::state_of(row).is_terminal(), &execution::status(row, now)));
            }
        }
        let over = rows.iter().all(|row| execution::state_of(row).is_terminal());
        Ok(Look { events, next: if over { Next::End } else { Next::Wait } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_followed_is_what_came_of_it_and_what_it_came_of() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|n| RunId::from_bytes([n; 16]));
        // a made b, b made c and d.
        let made = [(a, b), (b, c), (b, d)];
        let of = |run, downwards, all| reached(run, &made, downwards, all).into_iter().collect::<Vec<_>>();
        assert_eq!(of(a, true, false), [a, b]);
        assert_eq!(of(a, true, true), [a, b, c, d]);
        assert_eq!(of(b, true, false), [b, c, d]);
        assert_eq!(of(b, false, false), [a, b, c, d]);
        assert_eq!(of(c, true, true), [c]);
        assert_eq!(of(c, false, true), [a, b, c, d]);
    }
}
