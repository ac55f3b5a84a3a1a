//! `GET /logs/{id}/follow`: lines as they are written, as server-sent events with the ids `start`, `progress` and `end`.

use super::logs::{Ids, Wanted, entry, known};
use crate::call::{Answer, Call};
use crate::doors::native::follow::{Changes, Open};
use crate::problem::Problem;
use crate::state::AppState;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_store::{LogRow, Store, StoreError};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Lines read at a time.
const ROWS: u32 = 500;

struct Follower {
    app: AppState,
    workspace: WorkspaceId,
    run: RunId,
    wanted: Wanted,
    payloads: bool,
    changes: Changes,
    /// The number of the last line that was read.
    seen: u64,
    ready: VecDeque<Event>,
    looked: bool,
    over: bool,
    _open: Open,
}

/// What a look finds: lines, how to show them, and whether there will be no more.
struct Look {
    flow: FlowRef,
    ids: Ids,
    rows: Vec<LogRow>,
    ended: bool,
}

pub async fn get(call: Call) -> Answer {
    let (workspace, run, wanted) = (call.workspace()?, call.run_id()?, Wanted::read(&call)?);
    let open = Open::new(&call.app)?;
    let changes = Changes::of(&call.app, run);
    let owner = workspace.clone();
    call.app.read(move |store| store.run(&owner, run)).await?.ok_or_else(Problem::run_unknown)?;
    let follower = Follower {
        payloads: call.sees_payloads(),
        app: call.app,
        workspace,
        run,
        wanted,
        changes,
        seen: 0,
        ready: VecDeque::from([Event::default().id("start").data("{}")]),
        looked: false,
        over: false,
        _open: open,
    };
    let events = stream::unfold(follower, |mut follower| async {
        let event = follower.event().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn look(store: &dyn Store, workspace: &WorkspaceId, run: RunId, seen: u64) -> Result<Option<Look>, StoreError> {
    // The head comes first: what is written before the end is then among the lines.
    let Some((head, _, _)) = store.run(workspace, run)? else { return Ok(None) };
    let rows = store.logs(workspace, run, seen, ROWS)?;
    let ended = head.status.is_ended() && rows.len() < ROWS as usize;
    let ids = if rows.is_empty() {
        Ids::new()
    } else {
        known(store, workspace, run)?.map(|(_, ids)| ids).unwrap_or_default()
    };
    Ok(Some(Look { flow: head.flow, ids, rows, ended }))
}

impl Follower {
    /// The next event; `None` ends the stream.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over || (self.looked && !self.changes.next().await) {
                return None;
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Option<()> {
        let (workspace, run, seen) = (self.workspace.clone(), self.run, self.seen);
        let found = self.app.read(move |store| look(store, &workspace, run, seen)).await.ok()??;
        // A full page means that there is more to read at once.
        self.looked = found.rows.len() < ROWS as usize;
        for row in &found.rows {
            self.seen = row.seq;
            if self.wanted.passes(row, &found.ids) {
                let line = entry(&found.flow, row, &found.ids, self.payloads);
                self.ready.push_back(Event::default().id("progress").data(line.to_string()));
            }
        }
        if found.ended {
            self.over = true;
            self.ready.push_back(Event::default().id("end").data("{}"));
        }
        Some(())
    }
}
