//! Conductor's door at the real binary: its guide to idempotency, workers that die, a server that is killed, and the
//! clients that its users have.

mod clients;
mod crashes;
mod keys;
mod line;
mod nats;
mod workers;

use crate::harness::{Answer, Api, PATIENCE, eventually};
use serde_json::{Value as Json, json};

/// A workflow with one task for workers, which has this name.
pub fn of_one_task(name: &str, task: &str) -> Json {
    json!({"name": name, "version": 1, "ownerEmail": "ann@example.com",
        "tasks": [{"name": task, "taskReferenceName": "c", "type": "SIMPLE",
            "inputParameters": {"amount": "${workflow.input.amount}"}}],
        "outputParameters": {"paid": "${c.output.paid}"}})
}

pub async fn register(api: &Api, workflow: Json) {
    api.post("/api/metadata/workflow?overwrite=true", workflow).await.ok();
}

/// A task definition: how long a worker may be silent, and how often another one may try.
pub async fn define(api: &Api, name: &str, response_seconds: u64, retries: u32) {
    let task = json!([{"name": name, "retryCount": retries, "retryLogic": "FIXED", "retryDelaySeconds": 0,
        "timeoutSeconds": 0, "responseTimeoutSeconds": response_seconds, "ownerEmail": "ann@example.com"}]);
    api.post("/api/metadata/taskdefs", task).await.ok();
}

pub async fn workflow(api: &Api, id: &str) -> Json {
    api.get(&format!("/api/workflow/{id}")).await.ok()
}

/// Waits until the workflow has this status.
pub async fn until(api: &Api, id: &str, status: &str) -> Json {
    eventually(PATIENCE, &format!("workflow {id} is {status}"), || async {
        let found = workflow(api, id).await;
        (found["status"] == status).then_some(found)
    })
    .await
}

/// Asks for a task until there is one.
pub async fn take(api: &Api, kind: &str, worker: &str) -> Json {
    let path = format!("/api/tasks/poll/batch/{kind}?workerid={worker}&count=1&timeout=100");
    eventually(PATIENCE, &format!("there is a task {kind}"), || async {
        let found = api.get(&path).await.ok();
        found.as_array().expect("a list").first().cloned()
    })
    .await
}

pub fn result(task: &Json, status: &str, output: Json) -> Json {
    json!({"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": task["workerId"],
        "status": status, "outputData": output, "reasonForIncompletion": "because", "callbackAfterSeconds": 0,
        "logs": []})
}

/// Answers a task by its name in the workflow, as people and other systems do.
pub async fn answer(api: &Api, id: &str, reference: &str, status: &str) {
    let path = format!("/api/tasks/{id}/{reference}/{status}");
    let answer = eventually(PATIENCE, "the task is there", || async {
        let answer = api.post(&path, json!({})).await;
        (answer.status != 404).then_some(answer)
    })
    .await;
    answer.ok();
}

/// The id that a start was answered with, as plain text.
#[track_caller]
pub fn started(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.header("content-type").starts_with("text/plain"), "{:?}", answer.headers);
    assert_eq!(answer.text.len(), 36, "{}", answer.text);
    answer.text.clone()
}

/// Refused because the key is taken, in the words that Conductor's clients look for.
#[track_caller]
pub fn taken(answer: &Answer, key: &str) {
    assert_eq!(answer.status, 409, "{}", answer.text);
    let message = answer.json["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("Workflow with the idempotency key {key} already exists")), "{message}");
    assert_eq!((&answer.json["status"], &answer.json["retryable"]), (&json!(409), &json!(false)));
}

/// The attempts at one task of a workflow, in their order.
pub fn attempts<'w>(workflow: &'w Json, reference: &str) -> Vec<&'w Json> {
    let tasks = workflow["tasks"].as_array().expect("tasks");
    tasks.iter().filter(|task| task["referenceTaskName"] == reference).collect()
}
