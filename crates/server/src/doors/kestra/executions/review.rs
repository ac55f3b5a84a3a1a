//! `POST /executions/{id}/actions/review`: somebody approves or denies at a step that asks for it.

use super::uploads::Uploads;
use crate::call::{Answer, Call, no_content};
use crate::doors::form;
use crate::problem::Problem;
use semel_core::ir::{ReviewDecision, Reviewed};
use serde_json::Value as Json;

/// The field of the form that is no input.
const COMMENT: &str = "kestra_review_comment";

/// A person's word; that nobody gave one is for the clock to say.
pub(crate) fn decision_of(word: &str) -> Option<ReviewDecision> {
    match word.to_ascii_uppercase().as_str() {
        "APPROVE" | "APPROVED" => Some(ReviewDecision::Approved),
        "DENY" | "DENIED" => Some(ReviewDecision::Denied),
        _ => None,
    }
}

pub async fn post(call: Call) -> Answer {
    let (workspace, id) = (call.workspace()?, call.run_id()?);
    let decision = call.query.read("decision", "APPROVE or DENY", decision_of)?;
    let decision = decision.ok_or_else(|| Problem::query("decision", "must be given: APPROVE or DENY"))?;
    let step = call.query.text("taskRunId")?;
    let row = super::act::head(&call, id).await?.ok_or_else(Problem::run_unknown)?;
    let engine = call.app.engine().clone();
    let pauses = tokio::task::spawn_blocking(move || engine.pauses(&workspace, id)).await;
    let pauses = pauses.map_err(|_| Problem::internal("a look at a run panicked"))??;
    let asks = pauses.iter().filter(|pause| pause.review.is_some());
    let is_meant = |name: &str, pause: &semel_engine::OpenPause| pause.step_id == name || pause.task_id == name;
    let mut asks = asks.filter(|pause| step.as_ref().is_none_or(|name| is_meant(name, pause)));
    let asked = asks.next().map(|pause| pause.inputs.as_slice()).unwrap_or_default();
    let mut uploads = Uploads::new(&call, &row.flow, Some(id), asked)?;
    let mut inputs = form::read(&call, &mut uploads).await?.inputs();
    uploads.into_inputs(&mut inputs);
    let comment = inputs.remove(COMMENT).and_then(|text| text.as_str().map(str::to_owned));
    let comment = comment.filter(|text| !text.is_empty());
    let inputs = if inputs.is_empty() { Json::Null } else { Json::Object(inputs) };
    call.app.review(call.workspace()?, id, step, Reviewed { decision, comment }, inputs, call.by(None)?).await?;
    no_content()
}
