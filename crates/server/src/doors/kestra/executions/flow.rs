//! `GET /executions/{id}/flow`, `/executions/{id}/graph` and `/executions/flows/{namespace}/{flow}`: a flow as whoever
//! runs it needs to know it: its inputs, and which tasks and triggers there are.

use crate::call::{Answer, Call, ok};
use crate::doors::kestra::flows::graph::Graph;
use crate::doors::kestra::flows::{self, show};
use crate::doors::kestra::{execution, flow_json};
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_store::FlowRow;
use serde_json::Value as Json;

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
