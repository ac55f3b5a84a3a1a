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
    changes: Changes,
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

/// The changes of one run.
pub struct Changes {
    app: AppState,
    run: RunId,
    feed: Receiver<RunChange>,
}

/// One open stream, counted while it lives.
pub struct Open {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Open {
    pub fn new(app: &AppState) -> Result<Open, Problem> {
        let permit = app.streams().clone().try_acquire_owned().map_err(|_| {
            Problem::new(
                Code::TooManyStreams,
                "too many event streams are open; close one, or ask for the run from time to time",
            )
            .retry_after(5)
        })?;
        let gauge = app.metrics().event_streams.clone();
        gauge.inc();
        Ok(Open { gauge, _permit: permit })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

pub async fn get(call: Call) -> Answer {
    let (workspace, run) = (call.workspace()?, call.run_id()?);
    let open = Open::new(&call.app)?;
    let changes = Changes::of(&call.app, run);
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
            if self.sent.is_some() && !self.changes.next().await {
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
}

impl Changes {
    /// Subscribes; whoever reads the run afterwards misses nothing.
    pub fn of(app: &AppState, run: RunId) -> Changes {
        Changes { app: app.clone(), run, feed: app.engine().changes() }
    }

    /// False when the server stops.
    pub async fn next(&mut self) -> bool {
        let look = sleep_or_not(self.app.engine().follow(self.run));
        tokio::pin!(look);
        loop {
            let change = tokio::select! {
                change = self.feed.recv() => change,
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
