//! `GET /logs/{id}/follow`: lines as they are written, as server-sent events with the ids `start`, `progress` and `end`.

use super::logs::{Steps, Wanted, entry, known};
use crate::call::{Answer, Call};
use crate::doors::follow::{self, Look, Next, Teller};
use axum::response::sse::Event;
use semel_core::{RunId, WorkspaceId};
use semel_store::{Store, StoreError};

/// Lines read at a time.
const ROWS: u32 = 500;

struct Told {
    workspace: WorkspaceId,
    run: RunId,
    wanted: Wanted,
    payloads: bool,
    /// The number of the last line that was read.
    seen: u64,
}

pub async fn get(call: Call) -> Answer {
    let (workspace, run, wanted) = (call.workspace()?, call.run_id()?, Wanted::read(&call)?);
    let told = Told { workspace, run, wanted, payloads: call.sees_payloads(), seen: 0 };
    follow::run(call, vec![Event::default().id("start").data("{}")], told).await
}

impl Teller for Told {
    fn look(&mut self, store: &dyn Store) -> Result<Look, StoreError> {
        // The head comes first: what is written before the end is then among the lines.
        let Some((head, _, _)) = store.run(&self.workspace, self.run)? else {
            return Ok(Look { events: vec![], next: Next::End });
        };
        let rows = store.logs(&self.workspace, self.run, self.seen, ROWS)?;
        let steps = if rows.is_empty() {
            Steps::default()
        } else {
            known(store, &self.workspace, self.run)?.map(|(_, steps)| steps).unwrap_or_default()
        };
        self.seen = rows.last().map_or(self.seen, |row| row.seq);
        let wanted = rows.iter().filter(|row| self.wanted.passes(row, &steps));
        let line =
            |row| Event::default().id("progress").data(entry(&head.flow, row, &steps, self.payloads).to_string());
        let mut events: Vec<Event> = wanted.map(line).collect();
        let next = match (rows.len() < ROWS as usize, head.status.is_ended()) {
            // A full page means that there is more to read at once.
            (false, _) => Next::Look,
            (true, false) => Next::Wait,
            (true, true) => {
                events.push(Event::default().id("end").data("{}"));
                Next::End
            }
        };
        Ok(Look { events, next })
    }
}
