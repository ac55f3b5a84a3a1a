//! An attempt at a step as a task: as workers are handed it, and as a workflow shows it.

use super::task_defs;
use super::workflow::{correlation, started_with};
use crate::call::Call;
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::ir::{ErrandKind, FORKED_REFERENCE, TaskKind};
use semel_core::run::{StepKey, errand_id, step_id};
use semel_core::{Hash16, RunId, WorkspaceId};
use semel_engine::flows::LoadedFlow;
use semel_engine::{Engine, Errand, TaskStory, WorkflowStory, renamed};
use semel_store::{ErrandRow, RunRow, WholeRun};
use serde_json::{Value as Json, json};

/// Ids are shown as UUIDs: clients that try every text as JSON must not take one for a number.
pub fn id_text(id: Hash16) -> String {
    id.uuid().to_string()
}

/// The task id of the path.
pub fn id_of(call: &Call) -> Result<Hash16, Problem> {
    let text = call.param("id")?;
    read_id(text).ok_or_else(|| unknown(text))
}

pub fn read_id(text: &str) -> Option<Hash16> {
    Hash16::from_uuid(text).or_else(|| Hash16::from_hex(text))
}

pub fn unknown(id: &str) -> Problem {
    Problem::new(Code::TaskUnknown, format!("Task not found for taskId: {id}"))
}

/// What a definition says of a task, by its reference name.
fn workflow_task(source: &str, reference: &str) -> Option<Json> {
    fn look(json: &Json, reference: &str) -> Option<Json> {
        match json {
            Json::Object(fields) if fields.get("taskReferenceName").and_then(Json::as_str) == Some(reference) => {
                Some(json.clone())
            }
            Json::Object(fields) => fields.values().find_map(|field| look(field, reference)),
            Json::Array(items) => items.iter().find_map(|item| look(item, reference)),
            _ => None,
        }
    }
    look(&serde_json::from_str(source).ok()?, reference)
}

/// A task of a workflow that is shown. `payloads: false` is what a viewer sees.
pub fn shown(story: &WorkflowStory, task: &TaskStory, seq: usize, payloads: bool) -> Json {
    let (row, values, _) = &story.run;
    let own = story.flow.index.flow.conductor.as_deref();
    let hidden = |value: &Json| if payloads { value.clone() } else { json!({}) };
    let plain = task.plain_reference();
    let mut own_task = workflow_task(&story.flow.source, plain)
        .unwrap_or_else(|| json!({"name": task.name, "taskReferenceName": plain, "type": task.type_word}));
    let registered = story.definitions.get(&task.name).map(|found| &**found);
    let definition =
        task_defs::of_task(&own_task["taskDefinition"], registered, &task.name, task.type_word == "SIMPLE");
    own_task["taskDefinition"] = definition.clone();
    let terms = task.terms.as_ref();
    let seconds = |ms: Option<i64>| ms.map_or(0, |ms| ms / 1_000);
    let mut out = json!({
        "taskType": task.kind,
        "status": task.status,
        "inputData": hidden(&task.input),
        "outputData": hidden(&task.output),
        "referenceTaskName": task.reference,
        "retryCount": task.retry_count,
        "seq": seq,
        "pollCount": task.polls,
        "taskDefName": task.name,
        "scheduledTime": task.scheduled_at.0,
        "startTime": task.started_at.map_or(0, |at| at.0),
        "endTime": task.ended_at.map_or(0, |at| at.0),
        "updateTime": task.updated_at.0,
        "startDelayInSeconds": task.callback_after_s.max(0),
        "retried": task.retried,
        "executed": !task.is_open(),
        "callbackFromWorker": true,
        "responseTimeoutSeconds": seconds(terms.and_then(|terms| terms.response_ms)),
        "workflowInstanceId": row.id.to_string(),
        "workflowType": own.map_or("", |own| own.name.as_str()),
        "taskId": id_text(task.id),
        "callbackAfterSeconds": task.callback_after_s.max(0),
        "workflowTask": own_task,
        "taskDefinition": definition,
        "workflowPriority": started_with(values).get("priority").cloned().unwrap_or_else(|| json!(0)),
        "iteration": task.iteration,
        "loopOverTask": task.iteration > 0,
        "queueWaitTime": task.started_at.map_or(0, |at| at.since(task.scheduled_at).max(0)),
        "rateLimitPerFrequency": 0,
        "rateLimitFrequencyInSeconds": 1,
        "subworkflowChanged": false,
        "stepId": task.step_id.hex(),
        "idempotencyKey": task.step_id.hex(),
    });
    let optional = [
        ("correlationId", correlation(row).map(Json::from)),
        ("reasonForIncompletion", task.reason.as_deref().map(Json::from)),
        ("workerId", task.worker.as_deref().map(Json::from)),
        ("domain", terms.and_then(|terms| terms.domain.as_deref()).map(Json::from)),
        ("retriedTaskId", task.retried_id.map(|id| id_text(id).into())),
        ("subWorkflowId", task.child.map(|run| run.to_string().into())),
        ("firstStartTime", task.started_at.map(|at| at.0.into())),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            out[name] = value;
        }
    }
    out
}

/// The id of the step that an errand is an attempt at.
pub fn step_of(run: &RunRow, row: &ErrandRow) -> Option<Hash16> {
    let of_take = |take: u32| step_id(run.logical, take, 0, &row.more.step);
    (0..=run.take).rev().map(of_take).find(|id| errand_id(*id, row.more.attempt) == row.id)
}

/// The round of the innermost DO_WHILE, from 1; 0 outside.
fn iteration(flow: &LoadedFlow, step: &StepKey) -> u32 {
    let is_round = |(key, _): &&(StepKey, u32)| {
        flow.index.task(key.task_id()).is_some_and(|around| matches!(around.kind, TaskKind::LoopUntil(_)))
    };
    step.iterations().iter().rev().find(is_round).map_or(0, |(_, n)| n + 1)
}

/// The reference name of an errand, with its round; the journal is read only where a fork has computed it.
pub fn reference(
    engine: &Engine,
    workspace: &WorkspaceId,
    flow: &LoadedFlow,
    row: &ErrandRow,
) -> Result<String, Problem> {
    let task = flow.index.task(row.more.step.task_id());
    let own = task.and_then(|task| task.conductor.as_ref()).map_or("", |own| own.reference.as_str());
    if own == FORKED_REFERENCE {
        let story = engine.story(workspace, row.run)?;
        let found = story.as_ref().and_then(|story| story.tasks.iter().find(|task| task.id == row.id));
        return Ok(found.map(|task| task.reference.clone()).unwrap_or_default());
    }
    Ok(match iteration(flow, &row.more.step) {
        0 => own.to_owned(),
        round => format!("{own}__{round}"),
    })
}

/// Errands as whoever takes them is handed them.
pub fn handed(engine: &Engine, workspace: &WorkspaceId, errands: &[Errand]) -> Result<Vec<Json>, Problem> {
    let mut ids: Vec<RunId> = errands.iter().map(|errand| errand.row.run).collect();
    ids.sort_unstable();
    ids.dedup();
    let runs = engine.store().runs_named(workspace, &ids)?;
    let of = |id: RunId| runs.iter().find(|(run, _, _)| run.id == id);
    let shown = |errand: &Errand| match of(errand.row.run) {
        Some(run) => handed_of(engine, workspace, errand, run),
        None => Err(unknown(&id_text(errand.row.id))),
    };
    errands.iter().map(shown).collect()
}

fn handed_of(
    engine: &Engine,
    workspace: &WorkspaceId,
    errand: &Errand,
    (run, values, _): &WholeRun,
) -> Result<Json, Problem> {
    let row = &errand.row;
    let flow = engine.flow_revision(workspace, &run.flow, run.revision)?;
    let own = flow.index.flow.conductor.as_deref();
    let reference = reference(engine, workspace, &flow, row)?;
    let more = &row.more;
    let step = step_of(run, row).unwrap_or(row.id);
    let earlier: Vec<Hash16> = (1..more.attempt).map(|attempt| errand_id(step, attempt)).collect();
    let request = renamed(&errand.request, &earlier, row.id);
    let step = step.hex();
    let round = iteration(&flow, &more.step);
    let plain = flow.index.task(more.step.task_id()).and_then(|task| task.conductor.as_ref());
    let plain = plain.map_or(reference.as_str(), |own| own.reference.as_str());
    let mut own_task = workflow_task(&flow.source, plain)
        .unwrap_or_else(|| json!({"name": row.queue, "taskReferenceName": plain, "type": "SIMPLE"}));
    let registered = engine.task_definition(workspace, &row.queue)?;
    let is_simple = row.kind == ErrandKind::Simple;
    let definition = task_defs::of_task(&own_task["taskDefinition"], registered.as_deref(), &row.queue, is_simple);
    own_task["taskDefinition"] = definition.clone();
    let mut out = json!({
        "taskType": row.queue,
        "status": if row.taken { "IN_PROGRESS" } else { "SCHEDULED" },
        "inputData": request,
        "outputData": more.progress.as_ref().map_or_else(|| json!({}), semel_engine::public_json),
        "referenceTaskName": reference,
        "retryCount": more.attempt.saturating_sub(1),
        "seq": 1,
        "pollCount": more.seen.polls,
        "taskDefName": row.queue,
        "scheduledTime": more.set_at.0,
        "startTime": more.seen.taken_at.map_or(0, |at| at.0),
        "endTime": 0,
        "updateTime": more.seen.taken_at.map_or(more.set_at.0, |at| at.0),
        "startDelayInSeconds": 0,
        "retried": false,
        "executed": false,
        "callbackFromWorker": true,
        "responseTimeoutSeconds": more.response_ms.map_or(0, |ms| ms / 1_000),
        "workflowInstanceId": row.run.to_string(),
        "workflowType": own.map_or("", |own| own.name.as_str()),
        "taskId": id_text(row.id),
        "callbackAfterSeconds": 0,
        "workerId": more.seen.worker,
        "workflowTask": own_task,
        "taskDefinition": definition,
        "workflowPriority": started_with(values).get("priority").cloned().unwrap_or_else(|| json!(0)),
        "iteration": round,
        "loopOverTask": round > 0,
        "queueWaitTime": more.seen.taken_at.map_or(0, |at| at.since(more.set_at).max(0)),
        "rateLimitPerFrequency": 0,
        "rateLimitFrequencyInSeconds": 1,
        "stepId": step,
        "idempotencyKey": step,
    });
    if let Some(id) = correlation(run) {
        out["correlationId"] = id.into();
    }
    if !row.domain.is_empty() {
        out["domain"] = row.domain.as_str().into();
    }
    Ok(out)
}
