//! The rows of the matrix that are the Conductor door's.

use crate::matrix::{Elsewhere, World};
use crate::matrix_kestra::Row;
use semel_server::routes::{Route, Verb};
use serde_json::{Value as Json, json};

/// Names that only the workspace `main` has.
pub const WORKFLOW: &str = "marked-workflow";
pub const TASK: &str = "marked-task";

/// A workflow that waits for a worker and for somebody at once.
pub fn definition(name: &str, mark: &str) -> Json {
    json!({"name": name, "version": 1, "description": mark, "tasks": [
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [
            [{"name": TASK, "taskReferenceName": "a", "type": "SIMPLE"}],
            [{"name": "wait", "taskReferenceName": "w", "type": "WAIT"}]]},
        {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["a", "w"]}]})
}

fn result(world: &World) -> String {
    json!({"taskId": world.task, "workflowInstanceId": world.workflow, "status": "COMPLETED", "outputData": {}})
        .to_string()
}

/// The sample of a route; `None` for a route that nobody thought about.
pub fn sample(route: &Route, world: &World) -> Option<Row> {
    use Elsewhere::{Missing, Own};
    let read = |path: &str, elsewhere| (path.to_owned(), String::new(), 200, false, elsewhere);
    let write = |path: &str, body: String, elsewhere| (path.to_owned(), body, 200, true, elsewhere);
    let workflow = |rest: &str| format!("/api/workflow/{}{rest}", world.workflow);
    let task = |rest: &str| format!("/api/tasks/{}{rest}", world.task);
    let of_workflow = |rest: &str| format!("/api/tasks/{}{rest}", world.workflow);
    Some(match (route.method, route.path) {
        (Verb::Get, "/health" | "/api/version" | "/api/token/userInfo") => read(route.path, Own),
        (Verb::Post, "/api/token") => ("/api/token".into(), "{}".into(), 401, false, Own),
        (Verb::Get, "/api/metadata/taskdefs" | "/api/metadata/workflow") => read(route.path, Own),
        (
            Verb::Get,
            "/api/metadata/workflow/names"
            | "/api/metadata/workflow/names-and-versions"
            | "/api/metadata/workflow/latest-versions",
        ) => read(route.path, Own),
        (Verb::Get, "/api/metadata/workflow/{name}/versions") => {
            read(&format!("/api/metadata/workflow/{WORKFLOW}/versions"), Own)
        }
        (Verb::Post, "/api/metadata/taskdefs") => write(route.path, json!([{"name": "new"}]).to_string(), Own),
        (Verb::Put, "/api/metadata/taskdefs") => {
            let body = json!({"name": TASK, "retryCount": 1}).to_string();
            write(route.path, body, Missing("definition_unknown"))
        }
        (Verb::Get, "/api/metadata/taskdefs/{name}") => {
            read(&format!("/api/metadata/taskdefs/{TASK}"), Missing("definition_unknown"))
        }
        (Verb::Delete, "/api/metadata/taskdefs/{name}") => {
            write(&format!("/api/metadata/taskdefs/{TASK}"), String::new(), Missing("definition_unknown"))
        }
        (Verb::Post, "/api/metadata/workflow") => write(route.path, definition("new", "").to_string(), Own),
        (Verb::Put, "/api/metadata/workflow") => write(route.path, json!([definition("new", "")]).to_string(), Own),
        (Verb::Post, "/api/metadata/workflow/validate") => {
            (route.path.to_owned(), definition("new", "").to_string(), 200, false, Own)
        }
        (Verb::Get, "/api/metadata/workflow/{name}") => {
            read(&format!("/api/metadata/workflow/{WORKFLOW}"), Missing("flow_unknown"))
        }
        (Verb::Delete, "/api/metadata/workflow/{name}/{version}") => {
            write(&format!("/api/metadata/workflow/{WORKFLOW}/1"), String::new(), Missing("flow_unknown"))
        }
        (Verb::Post, "/api/workflow") => {
            write(route.path, json!({"name": WORKFLOW}).to_string(), Missing("flow_unknown"))
        }
        (Verb::Post, "/api/workflow/{id}") => {
            write(&format!("/api/workflow/{WORKFLOW}"), "{}".into(), Missing("flow_unknown"))
        }
        (Verb::Post, "/api/workflow/start/{name}/{version}") => {
            write(&format!("/api/workflow/start/{WORKFLOW}/1"), "{}".into(), Missing("flow_unknown"))
        }
        (Verb::Post, "/api/workflow/execute/{name}/{version}") => {
            let path = format!("/api/workflow/execute/{WORKFLOW}/1?waitForSeconds=1");
            write(&path, "{}".into(), Missing("flow_unknown"))
        }
        (_, "/api/workflow/execute/{name}") => {
            write(&format!("/api/workflow/execute/{WORKFLOW}"), String::new(), Missing("flow_unknown"))
        }
        (Verb::Get, "/api/workflow/{id}") => read(&workflow(""), Missing("run_unknown")),
        (Verb::Get, "/api/tasks/poll/{type}") => {
            let (path, body, _, writes, _) = write(&format!("/api/tasks/poll/{TASK}"), String::new(), Own);
            (path, body, 200, writes, Own)
        }
        (Verb::Get, "/api/tasks/poll/batch/{type}") => {
            write(&format!("/api/tasks/poll/batch/{TASK}?timeout=0"), String::new(), Own)
        }
        (Verb::Post, "/api/tasks") => write(route.path, result(world), Missing("task_unknown")),
        (Verb::Post, "/api/tasks/update-v2") => {
            // Another task of its kind is not there.
            (route.path.to_owned(), result(world), 204, true, Missing("body_invalid"))
        }
        (Verb::Get, "/api/tasks/{id}" | "/api/tasks/{id}/log") => {
            read(&task(route.path.trim_start_matches("/api/tasks/{id}")), Missing("task_unknown"))
        }
        (Verb::Post, "/api/tasks/{id}/log") => write(&task("/log"), "line".into(), Missing("task_unknown")),
        (Verb::Post, "/api/tasks/{id}/{ref}/{status}" | "/api/tasks/{id}/{ref}/{status}/sync") => {
            let rest = if route.path.ends_with("/sync") { "/w/COMPLETED/sync" } else { "/w/COMPLETED" };
            write(&of_workflow(rest), "{}".into(), Missing("run_unknown"))
        }
        (Verb::Post, "/api/tasks/{id}/{ref}/signal") => {
            write(&of_workflow("/COMPLETED/signal"), "{}".into(), Missing("run_unknown"))
        }
        (Verb::Post, "/api/tasks/{id}/{ref}/signal/sync") => {
            let path = of_workflow("/COMPLETED/signal/sync?timeoutMillis=1");
            write(&path, "{}".into(), Missing("run_unknown"))
        }
        (Verb::Get, "/api/tasks/queue/size" | "/api/tasks/queue/polldata") => {
            read(&format!("{}?taskType={TASK}", route.path), Own)
        }
        (Verb::Get, path) if path.starts_with("/api/tasks/queue/") => read(path, Own),
        (Verb::Post, "/api/tasks/queue/requeue/{type}") => {
            (format!("/api/tasks/queue/requeue/{TASK}"), String::new(), 200, false, Own)
        }
        _ => return crate::matrix_conductor_control::sample(route, world),
    })
}
