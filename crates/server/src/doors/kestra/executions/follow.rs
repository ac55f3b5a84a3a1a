//! `GET /executions/{id}/follow`: the execution at each change, as server-sent events with the ids `start`, `progress`
//! and `end`.

use crate::call::{Answer, Call};
use crate::doors::kestra::execution;
use crate::doors::native::follow::{Changes, Open};
use crate::problem::Problem;
use crate::state::AppState;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use semel_core::{RunId, WorkspaceId};
use std::convert::Infallible;
use std::time::Duration;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Follower {
    app: AppState,
    workspace: WorkspaceId,
    run: RunId,
    payloads: bool,
    changes: Changes,
    sent: Option<u64>,
    next: Next,
    _open: Open,
}

enum Next {
    Start,
    Progress,
    Nothing,
}

pub async fn get(call: Call) -> Answer {
    let (workspace, run) = (call.workspace()?, call.run_id()?);
    let open = Open::new(&call.app)?;
    let changes = Changes::of(&call.app, run);
    let owner = workspace.clone();
    call.app.read(move |store| store.run(&owner, run)).await?.ok_or_else(Problem::run_unknown)?;
    let payloads = call.sees_payloads();
    let follower =
        Follower { app: call.app, workspace, run, payloads, changes, sent: None, next: Next::Start, _open: open };
    let events = stream::unfold(follower, |mut follower| async {
        let event = follower.event().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

impl Follower {
    async fn event(&mut self) -> Option<Event> {
        match self.next {
            Next::Nothing => None,
            Next::Start => {
                self.next = Next::Progress;
                Some(Event::default().id("start").data("{}"))
            }
            Next::Progress => self.changed().await,
        }
    }

    /// The execution once it differs from what was sent; the last time as `end`.
    async fn changed(&mut self) -> Option<Event> {
        loop {
            if self.sent.is_some() && !self.changes.next().await {
                return None;
            }
            let (workspace, id) = (self.workspace.clone(), self.run);
            let whole = self.app.read(move |store| execution::read(store, &workspace, id)).await.ok()??;
            let version = whole.run.0.version;
            if self.sent == Some(version) {
                continue;
            }
            self.sent = Some(version);
            let shown = execution::shown(&whole, self.payloads, self.app.store().now());
            let over = execution::state_of(&whole.run.0).is_terminal();
            if over {
                self.next = Next::Nothing;
            }
            return Some(Event::default().id(if over { "end" } else { "progress" }).data(shown.to_string()));
        }
    }
}
