//! `GET /v1/runs/{id}/follow`: the run at each change (event `run`), then `end`.

use crate::call::{Answer, Call};
use crate::doors::follow::{self, Look, Next, Teller};
use crate::view;
use axum::response::sse::Event;
use semel_core::{RunId, WorkspaceId};
use semel_store::{Store, StoreError};

struct Told {
    workspace: WorkspaceId,
    run: RunId,
    payloads: bool,
    /// Version of the run as last told.
    sent: Option<u64>,
}

pub async fn get(call: Call) -> Answer {
    let told = Told { workspace: call.workspace()?, run: call.run_id()?, payloads: call.sees_payloads(), sent: None };
    follow::run(call, vec![], told).await
}

fn end() -> Event {
    Event::default().event("end").data("{}")
}

impl Teller for Told {
    fn look(&mut self, store: &dyn Store) -> Result<Look, StoreError> {
        // Forgotten in the meantime.
        let Some((row, values, labels)) = store.run(&self.workspace, self.run)? else {
            return Ok(Look { events: vec![end()], next: Next::End });
        };
        if self.sent == Some(row.version) {
            return Ok(Look { events: vec![], next: Next::Wait });
        }
        self.sent = Some(row.version);
        let shown = view::run(&row, &values, &labels, self.payloads);
        let mut events = vec![Event::default().event("run").id(row.version.to_string()).data(shown.to_string())];
        if row.status.is_ended() {
            events.push(end());
            return Ok(Look { events, next: Next::End });
        }
        Ok(Look { events, next: Next::Wait })
    }
}
