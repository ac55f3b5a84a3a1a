//! What happened in one run: journal, logs, effects, children, and the twins it met.

use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use crate::view;
use semel_core::RunId;
use semel_core::admission::{Decision, Reason};
use semel_store::{DecisionQuery, DecisionRow, RunQuery};

/// The run must exist in the caller's workspace, so that a foreign run looks like a missing one.
async fn known(call: &Call) -> Result<RunId, Problem> {
    let (workspace, id) = (call.workspace()?, call.run_id()?);
    let found = call.app.read(move |store| store.run(&workspace, id)).await?;
    found.map(|_| id).ok_or_else(Problem::run_unknown)
}

pub async fn journal(call: Call) -> Answer {
    let page = call.page("journal")?;
    let (after, fetch, id) = (page.after_as(|text| text.parse().ok())?.unwrap_or(0), page.fetch(), known(&call).await?);
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.journal(&workspace, id, after, fetch)).await?;
    let payloads = call.sees_payloads();
    let shown: Option<Vec<_>> =
        rows.iter().map(|row| view::journal(row, payloads).map(|json| (row.seq, json))).collect();
    let shown = shown.ok_or_else(|| Problem::internal("a journal row cannot be read"))?;
    ok(page.answer(shown, |(seq, _)| seq.to_string(), |(_, json)| json.clone()))
}

pub async fn logs(call: Call) -> Answer {
    let page = call.page("logs")?;
    let (after, fetch, id) = (page.after_as(|text| text.parse().ok())?.unwrap_or(0), page.fetch(), known(&call).await?);
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.logs(&workspace, id, after, fetch)).await?;
    let payloads = call.sees_payloads();
    ok(page.answer(rows, |row| row.seq.to_string(), |row| view::log(row, payloads)))
}

pub async fn steps(call: Call) -> Answer {
    let page = call.page("steps")?;
    let (workspace, id) = (call.workspace()?, known(&call).await?);
    let rows = call.app.read(move |store| store.effects(&workspace, id)).await?;
    ok(page.answer_slice(&rows, view::effect)?)
}

pub async fn children(call: Call) -> Answer {
    let page = call.page("children")?;
    let (workspace, id) = (call.workspace()?, known(&call).await?);
    let before = page.after_as(|text| text.parse().ok())?;
    let query = RunQuery { parent: Some(id), before, limit: page.fetch(), ..RunQuery::default() };
    let rows = call.app.read(move |store| store.runs(&workspace, &query)).await?;
    let payloads = call.sees_payloads();
    ok(page.answer(
        rows,
        |(row, _, _)| row.id.to_string(),
        |(row, values, labels)| view::run(row, values, labels, payloads),
    ))
}

/// Decisions other than the one that made the run.
pub async fn replays(call: Call) -> Answer {
    let page = call.page("replays")?;
    let (workspace, id) = (call.workspace()?, known(&call).await?);
    let decisions = vec![
        Decision::Attach,
        Decision::Replay,
        Decision::Reject,
        Decision::Resume,
        Decision::Hold,
        Decision::Deliver,
        Decision::Coalesce,
    ];
    let before = page.after_as(|text| text.parse().ok())?;
    let query = DecisionQuery { run: Some(id), decisions, before, limit: page.fetch(), ..DecisionQuery::default() };
    let mut rows = call.app.read(move |store| store.decisions(&workspace, &query)).await?;
    rows.retain(met);
    ok(page.answer(rows, |row| row.seq.to_string(), view::replay))
}

/// A run made by a quiet period has a Coalesce row for its start as well as for its joiners.
fn met(row: &DecisionRow) -> bool {
    !matches!(row.reason, Reason::CoalescePending | Reason::CoalesceNext)
}
