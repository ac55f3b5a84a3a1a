//! `GET /v1/runs/{id}/follow`: the run at each change, as server-sent events.
//!
//! The change feed is subscribed to before the run is read, so nothing falls between. The stream
//! ends with the run (event `end`), with the server, or with the client; it is counted against
//! the limit as long as it is open.

use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use crate::state::AppState;
use crate::view;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use prometheus_client::metrics::gauge::Gauge;
use semel_core::{RunId, WorkspaceId};
use semel_engine::RunChange;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Follower {
    app: AppState,
    workspace: WorkspaceId,
    run: RunId,
    payloads: bool,
    changes: Receiver<RunChange>,
    /// Version of the run as last sent.
    sent: Option<u64>,
    next: Next,
    _open: Open,
}

enum Next {
    Run,
    End,
    Nothing,
}

/// One open stream, counted while it lives.
struct Open {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

pub async fn get(call: Call) -> Answer {
    let (workspace, run) = (call.workspace()?, call.run_id()?);
    let permit = call.app.streams().clone().try_acquire_owned();
    let permit = permit.map_err(|_| {
        Problem::new(
            Code::TooManyStreams,
            "too many event streams are open; close one, or ask for the run from time to time",
        )
        .retry_after(5)
    })?;
    let gauge = call.app.metrics().event_streams.clone();
    gauge.inc();
    let open = Open { gauge, _permit: permit };
    let changes = call.app.engine().changes();
    let owner = workspace.clone();
    call.app.read(move |store| store.run(&owner, run)).await?.ok_or_else(Problem::run_unknown)?;
    let payloads = call.sees_payloads();
    let follower =
        Follower { app: call.app, workspace, run, payloads, changes, sent: None, next: Next::Run, _open: open };
    let events = stream::unfold(follower, |mut follower| async {
        let event = follower.event().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

impl Follower {
    /// The next event; `None` ends the stream.
    async fn event(&mut self) -> Option<Event> {
        match self.next {
            Next::Nothing => None,
            Next::End => {
                self.next = Next::Nothing;
                Some(Event::default().event("end").data("{}"))
            }
            Next::Run => self.changed_run().await,
        }
    }

    /// The run once it differs from what was sent.
    async fn changed_run(&mut self) -> Option<Event> {
        loop {
            if self.sent.is_some() && !self.await_change().await {
                return None;
            }
            let (workspace, id) = (self.workspace.clone(), self.run);
            let found = self.app.read(move |store| store.run(&workspace, id)).await.ok()?;
            let Some((row, values, labels)) = found else {
                // Forgotten in the meantime.
                self.next = Next::Nothing;
                return Some(Event::default().event("end").data("{}"));
            };
            if self.sent == Some(row.version) {
                continue;
            }
            self.sent = Some(row.version);
            if row.status.is_ended() {
                self.next = Next::End;
            }
            let shown = view::run(&row, &values, &labels, self.payloads);
            return Some(Event::default().event("run").id(row.version.to_string()).data(shown.to_string()));
        }
    }

    /// False when the server stops.
    async fn await_change(&mut self) -> bool {
        let look = sleep_or_not(self.app.engine().follow(self.run));
        tokio::pin!(look);
        loop {
            let change = tokio::select! {
                change = self.changes.recv() => change,
                () = &mut look => return true,
                () = self.app.stopping().cancelled() => return false,
            };
            match change {
                Ok(change) if change.run == self.run => return true,
                Ok(_) => {}
                // Missed some; the store knows.
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }
}

/// For ever without a limit.
pub async fn sleep_or_not(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
