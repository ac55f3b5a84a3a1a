//! `/v1/workflows`: flows and their revisions.

use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use crate::refused::FLOW_FILE;
use crate::view;
use semel_core::{FlowRef, WorkspaceId};
use semel_flow::{Diagnostic, render};
use semel_store::FlowRow;
use serde_json::{Value as Json, json};
use std::sync::Arc;

pub async fn list(call: Call) -> Answer {
    let page = call.page("workflows")?;
    let after = page.after_as(view::parse_flow_ref)?;
    let (workspace, fetch) = (call.workspace()?, page.fetch());
    let rows = call.app.read(move |store| store.flows(&workspace, after.as_ref(), fetch)).await?;
    ok(page.answer(rows, |row| row.flow.to_string(), view::flow))
}

pub async fn show(call: Call) -> Answer {
    let revision = call.query.read("revision", "a revision number", |text| text.parse().ok().filter(|n| *n > 0))?;
    let (workspace, flow) = address(&call)?;
    let row = call.app.read(move |store| store.flow(&workspace, &flow, revision)).await?;
    let row = row.ok_or_else(|| {
        Problem::new(Code::FlowUnknown, "the flow has no such revision; `GET /v1/workflows/{id}/revisions` lists them")
    })?;
    let mut out = view::flow(&row);
    // A source may have secrets written into it; viewers get the shape only.
    out["source"] = if call.sees_payloads() { row.source.into() } else { Json::Null };
    ok(out)
}

pub async fn revisions(call: Call) -> Answer {
    let page = call.page("revisions")?;
    let (workspace, flow) = address(&call)?;
    let mut rows: Vec<FlowRow> = call.app.read(move |store| store.flow_revisions(&workspace, &flow)).await?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.revision));
    ok(page.answer_slice(&rows, view::flow)?)
}

fn address(call: &Call) -> Result<(WorkspaceId, FlowRef), Problem> {
    let workspace = call.workspace()?;
    let flow = call.app.engine().resolve_flow(&workspace, call.param("id")?)?.flow_ref.clone();
    Ok((workspace, flow))
}

fn source(call: &Call) -> Result<Arc<str>, Problem> {
    let max = call.app.limits().flow_bytes_max;
    if call.body.len() > max {
        return Err(Problem::new(Code::BodyTooLarge, format!("a flow may have at most {max} bytes")));
    }
    let text = json::utf8(&call.body)?;
    if text.trim().is_empty() {
        return Err(Problem::new(Code::BodyInvalid, "the body is empty; send the flow's YAML text"));
    }
    Ok(text.into())
}

pub async fn push(call: Call) -> Answer {
    let source = source(&call)?;
    let by = call.principal()?.name.clone();
    let pushed = call.app.push_flow(call.workspace()?, source, by).await?;
    ok(json!({
        "workflow_id": pushed.workflow_id,
        "revision": pushed.revision,
        "changed": pushed.changed,
        "warnings": pushed.warnings.iter().map(Diagnostic::to_json).collect::<Vec<_>>(),
    }))
}

pub async fn validate(call: Call) -> Answer {
    let source = source(&call)?;
    let workspace = call.workspace()?;
    let (engine, text) = (call.app.engine().clone(), source.clone());
    // Compiling half a megabyte takes a while, and it may look up other flows.
    let checked = tokio::task::spawn_blocking(move || engine.validate_flow(&workspace, &text)).await;
    let checked = checked.map_err(|_| Problem::internal("the compiler panicked"))?;
    let (valid, found) = match checked {
        Ok(compiled) => (true, compiled.warnings),
        Err(found) => (false, found),
    };
    let (errors, warnings): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        found.iter().partition(|diagnostic| diagnostic.is_error());
    let shown = |list: Vec<&Diagnostic>| list.into_iter().map(Diagnostic::to_json).collect::<Vec<_>>();
    let rendered = if found.is_empty() { String::new() } else { render(&found, FLOW_FILE, &source, false) };
    ok(json!({"valid": valid, "errors": shown(errors), "warnings": shown(warnings), "rendered": rendered}))
}
