//! `GET /executions/{id}/flow`, `/executions/{id}/graph`, `/executions/flows/{namespace}/{flow}` and
//! `/executions/namespaces/…`: flows as whoever runs them needs to know them: their inputs, and which tasks and triggers
//! there are.

use crate::call::{Answer, Call, ok};
use crate::doors::kestra::flows::graph::Graph;
use crate::doors::kestra::flows::{self, show};
use crate::doors::kestra::{execution, flow_json};
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_store::FlowRow;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// The flow in the revision that the execution has, deleted or not.
async fn of_run(call: &Call, flow: FlowRef, revision: u32) -> Result<FlowRow, Problem> {
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| store.flow(&workspace, &flow, Some(revision))).await?;
    found.ok_or_else(flows::unknown)
}

fn shown(call: &Call, row: &FlowRow) -> Json {
    flow_json::for_execution(&flow_json::flow(row, call.app.limits(), call.sees_payloads()))
}

pub async fn of_execution(call: Call) -> Answer {
    let whole = execution::find(&call.app, &call.workspace()?, call.run_id()?).await?;
    let row = of_run(&call, whole.run.0.flow, whole.run.0.revision).await?;
    ok(shown(&call, &row))
}

pub async fn of_flow(call: Call) -> Answer {
    let flow = FlowRef::new(call.param("namespace")?, call.param("flow")?);
    let (workspace, revision) = (call.workspace()?, show::revision(&call.query)?);
    let found = call.app.read(move |store| store.flow(&workspace, &flow, revision)).await?;
    let row = found.filter(|row| !row.deleted).ok_or_else(flows::unknown)?;
    ok(shown(&call, &row))
}

/// Namespaces with flows that can be run.
pub async fn namespaces(call: Call) -> Answer {
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| flows::all(store, &workspace, |row| !row.disabled)).await?;
    let names: BTreeSet<String> = rows.into_iter().map(|row| row.flow.namespace).collect();
    ok(names)
}

/// The flows of a namespace that can be run.
pub async fn of_namespace(call: Call) -> Answer {
    let (workspace, namespace) = (call.workspace()?, call.param("namespace")?.to_owned());
    let passes = move |row: &FlowRow| row.flow.namespace == namespace && !row.disabled;
    let rows = call.app.read(move |store| flows::all(store, &workspace, passes)).await?;
    ok(rows.iter().map(|row| shown(&call, row)).collect::<Vec<Json>>())
}

/// The flow as nodes and edges, each node with the first task run of its task.
pub async fn graph(call: Call) -> Answer {
    let whole = execution::find(&call.app, &call.workspace()?, call.run_id()?).await?;
    let row = of_run(&call, whole.run.0.flow.clone(), whole.run.0.revision).await?;
    let mut graph = Graph::of(&flow_json::flow(&row, call.app.limits(), call.sees_payloads()));
    let (payloads, now) = (call.sees_payloads(), call.now());
    for node in graph["nodes"].as_array_mut().into_iter().flatten() {
        for part in ["task", "triggerDeclaration"] {
            if node[part].is_object() {
                node[part] = flow_json::task_for_execution(&node[part]);
            }
        }
        let first = whole.told.task_runs.iter().find(|run| node["task"]["id"] == run.step.task_id());
        if let Some(run) = first {
            node["taskRun"] = execution::task_run(&whole.run.0, run, payloads, now);
        }
    }
    ok(graph)
}
