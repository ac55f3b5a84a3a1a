//! `/v1/decisions`: the log of what was decided for each event.

use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use crate::view;
use semel_core::FlowRef;
use semel_core::admission::Decision;
use semel_store::DecisionQuery;

pub async fn list(call: Call) -> Answer {
    let page = call.page("decisions")?;
    let parse = |word: &str| Decision::ALL.into_iter().find(|decision| decision.word() == word);
    let query = DecisionQuery {
        run: call.query.read("run_id", "a run id", |text| text.parse().ok())?,
        claim: None,
        key: call.query.text("key")?,
        flow: flow_filter(&call)?,
        decisions: call.query.words(
            "decision",
            "one of start, attach, replay, reject, queue, replace, coalesce, deliver, resume, hold",
            parse,
        )?,
        before: page.after_as(|text| text.parse().ok())?,
        limit: page.fetch(),
    };
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.decisions(&workspace, &query)).await?;
    ok(page.answer(rows, |row| row.seq.to_string(), view::decision))
}

/// The flow of the `workflow_id` parameter. `namespace:id` may name a flow that is gone; a bare id
/// must be one that exists.
pub fn flow_filter(call: &Call) -> Result<Option<FlowRef>, Problem> {
    call.query.one("workflow_id")?.map(|name| flow_named(call, name)).transpose()
}

pub fn flow_named(call: &Call, name: &str) -> Result<FlowRef, Problem> {
    match view::parse_flow_ref(name) {
        Some(flow) => Ok(flow),
        None => Ok(call.app.engine().resolve_flow(&call.workspace()?, name)?.flow_ref.clone()),
    }
}
