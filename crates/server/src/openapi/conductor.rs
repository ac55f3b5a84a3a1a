//! What the routes of the Conductor door take and answer.

use super::conductor_resources;
use super::schema::*;
use super::shapes::{Shape, may_show, removes, says, shows, stays_silent};
use crate::codes::Code;
use crate::routes::{Route, Verb};
use serde_json::{Value as Json, json};

/// Ids and versions are plain text.
const TEXT: &str = "text/plain";

/// `None` for a route that nobody described.
pub fn shape(route: &Route) -> Option<Shape> {
    let list_of_maps = || shows(list(map()));
    Some(match (route.method, route.path) {
        (Verb::Get, "/health") => shows(object([
            has("healthy", flag()),
            has("healthResults", list(any())),
            has("suppressedHealthResults", list(any())),
        ])),
        (Verb::Post, "/api/token") => shows(object([has("token", text()), has("userId", text())])),
        (Verb::Get, "/api/token/userInfo") => shows(map()),
        (Verb::Get, "/api/version") => says(TEXT),
        (Verb::Get, "/api/metadata/taskdefs" | "/api/metadata/workflow" | "/api/metadata/workflow/latest-versions") => {
            list_of_maps()
        }
        (Verb::Get, "/api/metadata/taskdefs/{name}" | "/api/metadata/workflow/{name}") => shows(map()),
        (Verb::Get, "/api/metadata/workflow/names-and-versions") => shows(map()),
        (Verb::Get, "/api/metadata/workflow/names") => shows(list(text())),
        (Verb::Get, "/api/metadata/workflow/{name}/versions") => shows(list(map())),
        (Verb::Put, "/api/metadata/workflow") => shows(bulk()),
        (_, path) if conductor_resources::is_own(path) => return conductor_resources::shape(route),
        (_, path) if path.starts_with("/api/metadata/") => stays_silent(),
        (Verb::Post, "/api/workflow" | "/api/workflow/{id}" | "/api/workflow/start/{name}/{version}") => says(TEXT),
        (Verb::Post, "/api/workflow/execute/{name}/{version}") => shows(any()),
        (_, "/api/workflow/execute/{name}") => shows(map()),
        (Verb::Get, "/api/workflow/{id}") => shows(workflow()),
        (Verb::Post, "/api/workflow/test") => shows(workflow()),
        (Verb::Get, "/api/workflow/{id}/status") => shows(object([
            has("workflowId", id()),
            has("correlationId", nothing_or(text())),
            has("status", text()),
            has("output", map()),
            has("variables", map()),
        ])),
        (Verb::Get, "/api/workflow/{id}/tasks") => shows(hits(task())),
        (Verb::Get, "/api/workflow/running/{name}") => shows(list(id())),
        (Verb::Get, "/api/workflow/{id}/correlated/{correlation}") => shows(list(workflow())),
        (Verb::Post, "/api/workflow/{id}/correlated" | "/api/workflow/correlated/batch") => shows(map()),
        (Verb::Get, "/api/workflow/search" | "/api/workflow/search-by-tasks") => shows(hits(map())),
        (Verb::Get, "/api/workflow/search-v2" | "/api/workflow/search-by-tasks-v2") => shows(hits(workflow())),
        (Verb::Get, "/api/tasks/search") => shows(hits(map())),
        (Verb::Get, "/api/tasks/search-v2") => shows(hits(task())),
        (Verb::Post, "/api/workflow/bulk/search") => {
            shows(object([has("bulkErrorResults", map()), has("bulkSuccessfulResults", list(workflow()))]))
        }
        (_, path) if path.starts_with("/api/workflow/bulk/") => shows(bulk()),
        (Verb::Post, "/api/workflow/{id}/rerun" | "/api/workflow/{id}/messages") => says(TEXT),
        (Verb::Post, "/api/workflow/{id}/variables" | "/api/workflow/{id}/state") => shows(workflow()),
        (
            Verb::Post,
            "/api/workflow/{id}/restart" | "/api/workflow/{id}/retry" | "/api/workflow/{id}/resetcallbacks",
        ) => removes(),
        (_, path) if path.starts_with("/api/workflow/{id}") || path == "/api/workflow/decide/{id}" => stays_silent(),
        (Verb::Get, "/api/tasks/poll/{type}") => may_show(task()),
        (Verb::Get, "/api/tasks/{id}") => shows(task()),
        (Verb::Get, "/api/tasks/poll/batch/{type}") => shows(list(task())),
        (Verb::Post, "/api/tasks" | "/api/tasks/{id}/{ref}/{status}" | "/api/tasks/queue/requeue/{type}") => says(TEXT),
        (Verb::Post, "/api/tasks/update-v2") => may_show(task()),
        (Verb::Get, "/api/tasks/{id}/log") => {
            shows(list(object([has("log", text()), has("taskId", text()), has("createdTime", number())])))
        }
        (Verb::Post, "/api/tasks/{id}/log" | "/api/tasks/{id}/{ref}/signal") => stays_silent(),
        (Verb::Post, "/api/tasks/{id}/{ref}/{status}/sync") => shows(workflow()),
        (Verb::Post, "/api/tasks/{id}/{ref}/signal/sync") => shows(any()),
        (Verb::Get, "/api/tasks/queue/size") => shows(number()),
        (Verb::Get, "/api/tasks/queue/polldata" | "/api/tasks/queue/polldata/all") => list_of_maps(),
        (Verb::Get, path) if path.starts_with("/api/tasks/queue/") => shows(map()),
        _ => return None,
    })
}

/// One page, and how many there are on all of them.
fn hits(of: Json) -> Json {
    object([has("totalHits", number()), has("results", list(of))])
}

/// What became of each of several.
pub fn bulk() -> Json {
    object([has("bulkErrorResults", map()), has("bulkSuccessfulResults", list(text()))])
}

/// As much of a workflow as clients rely on; there is more.
pub fn workflow() -> Json {
    json!({"type": "object", "required": ["workflowId", "workflowName", "status", "tasks"],
        "properties": {"workflowId": id(), "workflowName": text(), "status": text(), "tasks": list(task())}})
}

pub fn task() -> Json {
    json!({"type": "object", "required": ["taskId", "workflowInstanceId", "status"],
        "properties": {"taskId": id(), "workflowInstanceId": id(), "status": text(), "referenceTaskName": text()}})
}

/// A refusal of this door.
pub fn refusal() -> Json {
    object([
        has("status", number()),
        has("message", text()),
        has("instance", text()),
        has("retryable", flag()),
        has("code", words(Code::ALL.iter().map(|code| code.word()))),
        may("error", text()),
        may("metadata", map()),
        may("validationErrors", list(map())),
    ])
}

pub fn refused(why: &str) -> Json {
    json!({"description": why, "content": {"application/json": {"schema": named("ConductorError")}}})
}
