//! What workers ask for: tasks to do, one task, its log.

use super::done;
use super::task::{self, handed, id_of, id_text};
use super::{body, listing, task_words, workflow};
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::{Hash16, Millis};
use semel_engine::Errand;
use semel_store::search::RunSearch;
use semel_store::{ErrandQueue, ErrandRow, LogLine, TakeErrands};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// Longest wait for a task, in milliseconds.
const POLL_MS_MAX: u64 = 5_000;
const POLL_COUNT_MAX: u64 = 1_000;
/// Log lines read at a time.
const LOG_PAGE: u32 = 1_000;
/// Workflows that are looked through for a task that was tried again because somebody asked.
const OWN_RUNS_MAX: u32 = 1_000;

/// `GET /tasks/poll/{type}`: one, or 204.
pub async fn poll(call: Call) -> Answer {
    let found = take(&call, call.param("type")?, 1, Duration::ZERO, None).await?;
    match found.into_iter().next() {
        Some(task) => ok(task),
        None => no_content(),
    }
}

/// `GET /tasks/poll/batch/{type}`: a list, empty if none came in time.
pub async fn poll_batch(call: Call) -> Answer {
    let count = body::query_whole(&call, "count")?.unwrap_or(1);
    let timeout = body::query_whole(&call, "timeout")?.unwrap_or(100);
    if timeout > POLL_MS_MAX {
        let message = format!("Long Poll Timeout value cannot be more than {} seconds", POLL_MS_MAX / 1_000);
        return Err(Problem::query("timeout", message));
    }
    let count = u32::try_from(count.clamp(1, POLL_COUNT_MAX)).unwrap_or(1);
    let found = take(&call, call.param("type")?, count, Duration::from_millis(timeout), None).await?;
    ok(found)
}

/// Hands out errands of a queue to whoever asks. `after` is the one that it has just answered.
pub async fn take(
    call: &Call,
    queue: &str,
    count: u32,
    wait: Duration,
    after: Option<Hash16>,
) -> Result<Vec<Json>, Problem> {
    let domain = body::query(call, "domain")?.unwrap_or_default();
    let worker = body::query(call, "workerid")?.unwrap_or_default();
    let from = ErrandQueue { queue: queue.to_owned(), domain };
    take_from(call, from, worker, count, wait, after).await
}

pub async fn take_from(
    call: &Call,
    from: ErrandQueue,
    worker: String,
    count: u32,
    wait: Duration,
    after: Option<Hash16>,
) -> Result<Vec<Json>, Problem> {
    let workspace = call.workspace()?;
    let request = TakeErrands { workspace: workspace.clone(), from, worker, count, limit: None, rate: None, after };
    let taken = tokio::select! {
        taken = call.app.engine().take_errands(request, wait) => taken?,
        () = call.app.stopping().cancelled() => Vec::new(),
    };
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let engine = call.app.engine().clone();
    let shown = move || handed(&engine, &workspace, &taken);
    tokio::task::spawn_blocking(shown).await.map_err(|_| Problem::internal("a read panicked"))?
}

/// The row of a task that someone outside does.
pub async fn row(call: &Call, id: Hash16) -> Result<ErrandRow, Problem> {
    let workspace = call.workspace()?;
    let row = call.app.read(move |store| store.errand(&workspace, id)).await?;
    row.ok_or_else(|| task::unknown(&id_text(id)))
}

/// A task that the server carried out itself is found by the words of its workflow.
async fn own_task(call: &Call, id: Hash16) -> Answer {
    let search = RunSearch { limit: OWN_RUNS_MAX, ..task_words::with_id(id) };
    for (run, _, _) in listing::found(call, search).await?.0 {
        let story = match workflow::find(&call.app, &call.workspace()?, run.id).await {
            Ok(story) => story,
            Err(problem) if problem.code == Code::RunUnknown => continue,
            Err(problem) => return Err(problem),
        };
        if let Some((place, one)) = story.tasks.iter().enumerate().find(|(_, task)| task.id == id) {
            return ok(task::shown(&story, one, place + 1, call.sees_payloads()));
        }
    }
    Err(task::unknown(&id_text(id)))
}

pub async fn get(call: Call) -> Answer {
    let id = id_of(&call)?;
    let row = match row(&call, id).await {
        Err(problem) if problem.code == Code::TaskUnknown => return own_task(&call, id).await,
        row => row?,
    };
    let story = workflow::find(&call.app, &call.workspace()?, row.run).await?;
    let found = story.tasks.iter().enumerate().find(|(_, task)| task.id == row.id);
    match found {
        Some((place, one)) => ok(task::shown(&story, one, place + 1, call.sees_payloads())),
        // Done again since: the attempt is not part of the workflow any more.
        None => {
            let errand = Errand { request: json!({}), row };
            ok(handed(call.app.engine(), &call.workspace()?, &[errand])?.remove(0))
        }
    }
}

pub async fn log(call: Call) -> Answer {
    let row = row(&call, id_of(&call)?).await?;
    let line = LogLine { at: call.now(), message: body::text(&call)? };
    add_lines(&call, &row, vec![line]).await?;
    done()
}

/// Keeps what a worker has to say.
pub async fn add_lines(call: &Call, row: &ErrandRow, lines: Vec<LogLine>) -> Result<(), Problem> {
    if lines.is_empty() {
        return Ok(());
    }
    let step = row.more.step.clone();
    let (engine, workspace, run) = (call.app.engine().clone(), call.workspace()?, row.run);
    let added = tokio::spawn(async move { engine.add_logs(&workspace, run, step, "INFO", lines).await }).await;
    added.map_err(|_| Problem::internal("a write panicked"))??;
    Ok(())
}

/// The lines of one attempt: those of its step between its beginning and that of the next one.
pub async fn logs(call: Call) -> Answer {
    let row = row(&call, id_of(&call)?).await?;
    let (workspace, run, step) = (call.workspace()?, row.run, row.more.step.clone());
    let (id, from) = (id_text(row.id), row.more.set_at);
    let read = call.app.read(move |store| {
        let attempts = store.errands_of(&workspace, run)?;
        let later = attempts.iter().filter(|other| other.more.step == step && other.more.set_at > from);
        let until = later.map(|other| other.more.set_at).min();
        let mut found = Vec::new();
        let mut after = semel_store::OUTSIDE_FROM - 1;
        loop {
            let page = store.logs(&workspace, run, after, LOG_PAGE)?;
            let Some(last) = page.last() else { return Ok((found, until)) };
            after = last.seq;
            found.extend(page.into_iter().filter(|line| line.step == step && line.seq < semel_store::RELEASED_FROM));
        }
    });
    let (lines, until) = read.await?;
    let own = |at: Millis| at >= from && until.is_none_or(|until| at < until);
    let shown = lines.iter().filter(|line| own(line.at));
    let shown: Vec<Json> =
        shown.map(|line| json!({"log": line.message, "taskId": id, "createdTime": line.at.0})).collect();
    ok(shown)
}
