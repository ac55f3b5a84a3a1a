//! A run as a workflow.

use super::metadata::written;
use super::task;
use super::{body, start};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use crate::state::AppState;
use semel_core::admission::is_callers;
use semel_core::run::{Status, workflow_status};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_engine::{TaskStory, WorkflowStory, public_json};
use semel_store::{RunRow, RunValues};
use serde_json::{Map, Value as Json, json};
use std::time::{Duration, Instant};

/// How long a workflow that was started just now may take to show its first tasks.
const BEGINS: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The story of a run of the caller's workspace. Clients look for the tasks of a workflow, and answer them, as soon as
/// they have its id: where its first tasks are being begun, they are waited for.
pub async fn find(app: &AppState, workspace: &WorkspaceId, id: RunId) -> Result<WorkflowStory, Problem> {
    let until = Instant::now() + BEGINS;
    loop {
        let story = read(app, workspace, id).await?;
        if has_begun(&story.run.0) || Instant::now() >= until || app.stopping().is_cancelled() {
            return Ok(story);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Its admission is the first row of a journal, and what it does at once the second.
fn has_begun(row: &RunRow) -> bool {
    row.version > 1 || row.status != Status::Running
}

async fn read(app: &AppState, workspace: &WorkspaceId, id: RunId) -> Result<WorkflowStory, Problem> {
    let (engine, workspace) = (app.engine().clone(), workspace.clone());
    let read = tokio::task::spawn_blocking(move || engine.story(&workspace, id)).await;
    read.map_err(|_| Problem::internal("a read panicked"))??.ok_or_else(|| unknown(&id.to_string()))
}

/// The answer to an id that no workflow has.
pub fn unknown(id: &str) -> Problem {
    Problem::new(crate::codes::Code::RunUnknown, format!("Workflow with Id: {id} not found."))
}

/// The workflow id of the path. What cannot be an id is answered as one that does not exist.
pub fn id_of(call: &Call) -> Result<RunId, Problem> {
    let text = call.param("id")?;
    text.parse().map_err(|()| unknown(text))
}

pub async fn get(call: Call) -> Answer {
    let include_tasks = body::query_flag(&call, "includeTasks", true)?;
    let story = find(&call.app, &call.workspace()?, id_of(&call)?).await?;
    ok(shown(&story, include_tasks, call.sees_payloads()))
}

/// Conductor's word for how a run stands.
pub fn status(row: &RunRow) -> &'static str {
    workflow_status(row.status, row.ended_at.is_some(), row.conclusion)
}

pub fn is_terminal(status: &str) -> bool {
    !matches!(status, "RUNNING" | "PAUSED")
}

/// The id that the caller gave; a run has its own where none was given, which is not shown.
pub fn correlation(row: &RunRow) -> Option<&str> {
    Some(row.correlation_id.as_str()).filter(|id| *id != row.root.to_string() && *id != row.id.to_string())
}

/// What the run was started with, besides its input.
pub fn started_with(values: &RunValues) -> Map<String, Json> {
    match values.trigger.as_ref().map(public_json) {
        Some(Json::Object(words)) => words,
        _ => Map::new(),
    }
}

pub fn reason(values: &RunValues) -> Option<String> {
    let failure = values.failure.as_ref().map(public_json)?;
    Some(failure["message"].as_str()?.to_owned())
}

fn time(at: Option<Millis>) -> Json {
    at.map_or(0, |at| at.0).into()
}

/// The workflow. `payloads: false` is what a viewer sees.
pub fn shown(story: &WorkflowStory, tasks: bool, payloads: bool) -> Json {
    let (row, values, _) = &story.run;
    let own = story.flow.index.flow.conductor.as_deref();
    let words = started_with(values);
    let hidden = |value: Json| if payloads { value } else { json!({}) };
    let input = values.inputs.as_ref().map_or_else(|| json!({}), public_json);
    let failed = |task: &&TaskStory| {
        matches!(task.status, "FAILED" | "FAILED_WITH_TERMINAL_ERROR" | "TIMED_OUT") && !task.retried
    };
    let failed: Vec<&TaskStory> = story.tasks.iter().filter(failed).collect();
    let mut out = json!({
        "ownerApp": "",
        "createTime": row.created_at.0,
        "updateTime": row.updated_at.0,
        "status": status(row),
        "endTime": time(row.ended_at),
        "startTime": row.started_at.unwrap_or(row.created_at).0,
        "workflowId": row.id.to_string(),
        "workflowName": own.map_or("", |own| own.name.as_str()),
        "workflowVersion": own.map_or(0, |own| own.version),
        "input": hidden(input),
        "output": hidden(start::output(values)),
        "variables": hidden(story.variables.clone()),
        "taskToDomain": words.get("taskToDomain").cloned().unwrap_or_else(|| json!({})),
        "priority": words.get("priority").cloned().unwrap_or_else(|| json!(0)),
        "createdBy": words.get("createdBy").cloned().unwrap_or_default(),
        "failedReferenceTaskNames": failed.iter().map(|task| task.reference.as_str()).collect::<Vec<_>>(),
        "failedTaskNames": failed.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(),
        "lastRetriedTime": time(story.retried_at),
        "workflowDefinition": written(&story.flow.source),
        "history": [],
        "rateLimited": row.lane.is_some(),
        "tasks": [],
    });
    let optional = [
        ("correlationId", correlation(row).map(Json::from)),
        ("idempotencyKey", row.key.as_deref().filter(|key| is_callers(key)).map(Json::from)),
        ("reasonForIncompletion", reason(values).map(Json::from)),
        ("parentWorkflowId", row.parent.as_ref().map(|parent| parent.run.to_string().into())),
        ("parentWorkflowTaskId", words.get("workflowTaskId").cloned()),
        ("event", words.get("event").cloned()),
    ];
    for (name, value) in optional {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            out[name] = value;
        }
    }
    if tasks {
        let all = story.tasks.iter().enumerate();
        out["tasks"] = all.map(|(place, one)| task::shown(story, one, place + 1, payloads)).collect();
    }
    out
}
