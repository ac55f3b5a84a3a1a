//! `/v1/runs`: lists, one run, and its end.

use crate::call::{Answer, Call, no_content, ok};
use crate::problem::Problem;
use crate::view;
use semel_core::run::Status;
use semel_core::{Millis, RunId};
use semel_store::{RunQuery, Work};

pub async fn list(call: Call) -> Answer {
    let page = call.page("runs")?;
    let mut query = query(&call)?;
    query.before = page.after_as(|text| text.parse().ok())?;
    query.limit = page.fetch();
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.runs(&workspace, &query)).await?;
    let payloads = call.sees_payloads();
    ok(page.answer(
        rows,
        |(row, _, _)| row.id.to_string(),
        |(row, values, labels)| view::run(row, values, labels, payloads),
    ))
}

fn query(call: &Call) -> Result<RunQuery, Problem> {
    let query = &call.query;
    let (mut namespace, mut flow_id) = (query.text("namespace")?, None);
    if let Some(name) = query.one("workflow_id")? {
        match view::parse_flow_ref(name) {
            Some(flow) => (namespace, flow_id) = (Some(flow.namespace), Some(flow.id)),
            None => flow_id = Some(name.to_owned()),
        }
    }
    let labels = query.all("label").map(|text| {
        let pair = text.split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| Problem::query("label", "must be name:value"))
    });
    let time = |name| query.read(name, "an RFC 3339 time", Millis::parse_rfc3339);
    Ok(RunQuery {
        namespace,
        flow_id,
        statuses: query.words(
            "status",
            "one of queued, running, waiting, paused, held, completed, failed, cancelled",
            Status::parse,
        )?,
        labels: labels.collect::<Result<_, _>>()?,
        key: query.text("key")?,
        correlation_id: query.text("correlation_id")?,
        parent: query.read("parent_run_id", "a run id", |text| text.parse::<RunId>().ok())?,
        created_from: time("created_from")?,
        created_to: time("created_to")?,
        before: None,
        limit: 0,
    })
}

pub async fn show(call: Call) -> Answer {
    shown(&call, call.run_id()?).await
}

/// The run as it is stored now.
pub async fn shown(call: &Call, id: RunId) -> Answer {
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| store.run(&workspace, id)).await?;
    let (row, values, labels) = found.ok_or_else(Problem::run_unknown)?;
    ok(view::run(&row, &values, &labels, call.sees_payloads()))
}

pub async fn delete(call: Call) -> Answer {
    let work = Work::DeleteRun { workspace: call.workspace()?, run: call.run_id()? };
    super::done(call.app.write(work).await?, Problem::run_unknown)?;
    no_content()
}

pub async fn erase(call: Call) -> Answer {
    let work = Work::EraseRun { workspace: call.workspace()?, run: call.run_id()? };
    super::done(call.app.write(work).await?, Problem::run_unknown)?;
    no_content()
}
