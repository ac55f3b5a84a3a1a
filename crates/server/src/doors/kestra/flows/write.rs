//! Creating, changing and deleting one flow.

use super::super::flow_json;
use super::{address, head, invalid, text, unknown, violated};
use crate::call::{Answer, Call, no_content, ok};
use crate::problem::Problem;
use semel_core::{FlowRef, WorkspaceId};
use semel_engine::PushError;
use semel_store::{FlowRow, PushRule};
use std::sync::Arc;

/// Stores a text and gives the revision that is then in force.
pub async fn push(call: &Call, source: &str, rule: PushRule) -> Result<FlowRow, Problem> {
    let max = call.app.limits().flow_bytes_max;
    if source.len() > max {
        return Err(violated("flow", &format!("a flow may have at most {max} bytes")));
    }
    let (workspace, by) = (call.workspace()?, call.principal()?.name.clone());
    let flow = compiled(call, source).await?;
    let pushed = call.app.push_flow_if(workspace.clone(), Arc::from(source), by, rule).await;
    let revision = match pushed {
        Ok(pushed) => pushed.revision,
        Err(PushError::Invalid(found)) => return Err(invalid(&found, source, call.app.limits())),
        Err(PushError::Exists) => return Err(violated("flow.id", "Flow id already exists")),
        Err(PushError::Unknown) => return Err(unknown()),
        Err(PushError::Store(error)) => return Err(error.into()),
    };
    let row = call.app.read(move |store| store.flow(&workspace, &flow, Some(revision))).await?;
    row.ok_or_else(|| Problem::internal("a pushed flow is not there"))
}

/// Whose text this is. Compiling half a megabyte takes a while, and it may look up other flows.
pub async fn compiled(call: &Call, source: &str) -> Result<FlowRef, Problem> {
    let (engine, workspace, text) = (call.app.engine().clone(), call.workspace()?, source.to_owned());
    let checked = tokio::task::spawn_blocking(move || engine.validate_flow(&workspace, &text)).await;
    match checked.map_err(|_| Problem::internal("the compiler panicked"))? {
        Ok(compiled) => Ok(compiled.flow.flow_ref()),
        Err(found) => Err(invalid(&found, source, call.app.limits())),
    }
}

fn shown(call: &Call, row: &FlowRow) -> Answer {
    ok(flow_json::with_source(row, call.app.limits(), call.sees_payloads()))
}

pub async fn create(call: Call) -> Answer {
    let row = push(&call, text(&call)?, PushRule::New).await?;
    shown(&call, &row)
}

pub async fn update(call: Call) -> Answer {
    let (workspace, flow) = (call.workspace()?, address(&call)?);
    head(&call.app, &workspace, &flow).await?;
    let source = text(&call)?;
    let given = compiled(&call, source).await?;
    if given.id != flow.id {
        return Err(violated("flow.id", "Illegal flow id update"));
    }
    if given.namespace != flow.namespace {
        return Err(violated("flow.namespace", "Illegal namespace update"));
    }
    let row = push(&call, source, PushRule::Known).await?;
    shown(&call, &row)
}

pub async fn delete(call: Call) -> Answer {
    let (workspace, flow) = (call.workspace()?, address(&call)?);
    if gone(&call, workspace, flow).await? { no_content() } else { Err(unknown()) }
}

/// Deletes; false when there is nothing to delete.
pub async fn gone(call: &Call, workspace: WorkspaceId, flow: FlowRef) -> Result<bool, Problem> {
    let by = call.principal()?.name.clone();
    Ok(call.app.delete_flow(workspace, flow, by).await?.is_some())
}
