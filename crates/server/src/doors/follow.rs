//! Streams of server-sent events: one follower for all that is told as it happens.
//!
//! The change feed is subscribed to before the store is looked at, so nothing falls between. What is told, and in whose
//! shape, is the [`Teller`]'s matter. A stream ends when its teller says so, with the server, or with the client; it is
//! counted against the limit as long as it is open.

use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use crate::state::AppState;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use prometheus_client::metrics::gauge::Gauge;
use semel_core::RunId;
use semel_engine::RunChange;
use semel_store::{Store, StoreError};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Who follows many runs hears of their changes together.
const TOGETHER: Duration = Duration::from_millis(200);
/// How soon who follows many runs looks, whatever was heard.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Knows what was told, and tells what is new.
pub trait Teller: Send + 'static {
    fn look(&mut self, store: &dyn Store) -> Result<Look, StoreError>;
}

/// What a look has found.
pub struct Look {
    pub events: Vec<Event>,
    pub next: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more already.
    Look,
    /// When something has changed.
    Wait,
    End,
}

/// Changes of one run, or of all.
pub struct Changes {
    app: AppState,
    run: Option<RunId>,
    feed: Receiver<RunChange>,
}

/// One open stream, counted while it lives.
struct Open {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Open {
    fn new(app: &AppState) -> Result<Open, Problem> {
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

struct Follower<T> {
    app: AppState,
    changes: Changes,
    /// Away while it looks.
    teller: Option<T>,
    ready: VecDeque<Event>,
    next: Next,
    _open: Open,
}

/// Follows the run of the path, which must be there. `first` is told before anything else.
pub async fn run<T: Teller>(call: Call, first: Vec<Event>, teller: T) -> Answer {
    let changes = Changes::of(&call.app, Some(call.run_id()?));
    streamed(call, changes, first, teller).await
}

/// Follows whatever changes, for the sake of the run of the path.
pub async fn runs<T: Teller>(call: Call, first: Vec<Event>, teller: T) -> Answer {
    let changes = Changes::of(&call.app, None);
    streamed(call, changes, first, teller).await
}

async fn streamed<T: Teller>(call: Call, changes: Changes, first: Vec<Event>, teller: T) -> Answer {
    let open = Open::new(&call.app)?;
    let (workspace, run) = (call.workspace()?, call.run_id()?);
    call.app.read(move |store| store.run(&workspace, run)).await?.ok_or_else(Problem::run_unknown)?;
    let follower =
        Follower { app: call.app, changes, teller: Some(teller), ready: first.into(), next: Next::Look, _open: open };
    let events = stream::unfold(follower, |mut follower| async {
        let event = follower.event().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

impl<T: Teller> Follower<T> {
    /// The next event; `None` ends the stream.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let goes_on = match self.next {
                Next::End => false,
                Next::Look => true,
                Next::Wait => self.changes.next().await,
            };
            if !goes_on {
                return None;
            }
            let mut teller = self.teller.take()?;
            let looked = self.app.read(move |store| {
                let look = teller.look(store)?;
                Ok((teller, look))
            });
            let (teller, look) = looked.await.ok()?;
            self.teller = Some(teller);
            self.ready.extend(look.events);
            self.next = look.next;
        }
    }
}

impl Changes {
    /// Subscribes; whoever reads afterwards misses nothing.
    fn of(app: &AppState, run: Option<RunId>) -> Changes {
        Changes { app: app.clone(), run, feed: app.engine().changes() }
    }

    /// False when the server stops.
    async fn next(&mut self) -> bool {
        let soon = match self.run {
            Some(run) => self.app.engine().follow(run),
            None => Some(LOOK_AGAIN),
        };
        let look = sleep_or_not(soon);
        tokio::pin!(look);
        loop {
            let change = tokio::select! {
                change = self.feed.recv() => change,
                () = &mut look => return true,
                () = self.app.stopping().cancelled() => return false,
            };
            match change {
                Ok(change) if self.run == Some(change.run) => return true,
                Ok(_) if self.run.is_none() => return self.gather().await,
                Ok(_) => {}
                // Missed some; the store knows.
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }

    /// What changes now changes on in a moment.
    async fn gather(&mut self) -> bool {
        tokio::select! {
            () = tokio::time::sleep(TOGETHER) => true,
            () = self.app.stopping().cancelled() => false,
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
