//! The rows of the matrix that control, list and search for Conductor's workflows. The workflow of the world runs, so
//! what wants one that has ended is refused to whoever may ask.

use crate::matrix::{Elsewhere, World};
use crate::matrix_conductor::WORKFLOW;
use crate::matrix_kestra::Row;
use semel_server::routes::{Route, Verb};
use serde_json::json;

/// The sample of a route; `None` for a route that nobody thought about.
pub fn sample(route: &Route, world: &World) -> Option<Row> {
    use Elsewhere::{Missing, Own};
    let of = |rest: &str| format!("/api/workflow/{}{rest}", world.workflow);
    let asked = |rest: &str, body: &str, status: u16, writes: bool| {
        (of(rest), body.to_owned(), status, writes, Missing("run_unknown"))
    };
    let read = |path: &str| (path.to_owned(), String::new(), 200, false, Own);
    let ids = json!([world.workflow]).to_string();
    let bulk = |writes: bool| (route.path.to_owned(), ids.clone(), 200, writes, Own);
    Some(match (route.method, route.path) {
        (Verb::Post, "/api/workflow/test") => {
            (route.path.to_owned(), json!({"name": WORKFLOW}).to_string(), 200, false, Missing("flow_unknown"))
        }
        (Verb::Get, "/api/workflow/{id}/status") => asked("/status?includeVariables=true", "", 200, false),
        (Verb::Get, "/api/workflow/{id}/tasks") => asked("/tasks?count=1", "", 200, false),
        (Verb::Get, "/api/workflow/running/{name}") => read(&format!("/api/workflow/running/{WORKFLOW}")),
        (Verb::Get, "/api/workflow/{id}/correlated/{correlation}") => {
            read(&format!("/api/workflow/{WORKFLOW}/correlated/mark-of-main"))
        }
        (Verb::Post, "/api/workflow/{id}/correlated") => {
            (format!("/api/workflow/{WORKFLOW}/correlated"), json!(["nobody"]).to_string(), 200, false, Own)
        }
        (Verb::Post, "/api/workflow/correlated/batch") => {
            let body = json!({"workflowNames": [WORKFLOW], "correlationIds": ["nobody"]}).to_string();
            (route.path.to_owned(), body, 200, false, Own)
        }
        (
            Verb::Get,
            "/api/workflow/search"
            | "/api/workflow/search-v2"
            | "/api/workflow/search-by-tasks"
            | "/api/workflow/search-by-tasks-v2"
            | "/api/tasks/search"
            | "/api/tasks/search-v2",
        ) => read(&format!("{}?size=10", route.path)),
        (Verb::Put, "/api/workflow/{id}/pause") => asked("/pause", "{}", 200, true),
        (Verb::Put, "/api/workflow/{id}/resume") => asked("/resume", "{}", 200, true),
        (Verb::Delete, "/api/workflow/{id}") => asked("?reason=x", "{}", 200, true),
        (Verb::Delete, "/api/workflow/{id}/remove") => asked("/remove", "{}", 200, true),
        (Verb::Delete, "/api/workflow/{id}/terminate-remove") => asked("/terminate-remove", "{}", 200, true),
        (Verb::Post, "/api/workflow/{id}/restart") => asked("/restart", "{}", 409, false),
        (Verb::Post, "/api/workflow/{id}/retry") => asked("/retry", "{}", 404, false),
        (Verb::Post, "/api/workflow/{id}/rerun") => asked("/rerun", "{}", 409, false),
        (Verb::Post, "/api/workflow/{id}/resetcallbacks") => asked("/resetcallbacks", "{}", 204, false),
        (Verb::Put, "/api/workflow/{id}/skiptask/{ref}") => asked("/skiptask/join", "{}", 200, true),
        (Verb::Put, "/api/workflow/decide/{id}") => {
            (format!("/api/workflow/decide/{}", world.workflow), "{}".into(), 200, false, Missing("run_unknown"))
        }
        (Verb::Post, "/api/workflow/{id}/variables") => asked("/variables", r#"{"v":1}"#, 200, true),
        (Verb::Post, "/api/workflow/{id}/state") => {
            asked("/state?waitForSeconds=1&requestId=r", r#"{"variables":{"v":1}}"#, 200, true)
        }
        (Verb::Post, "/api/workflow/{id}/messages") => asked("/messages", "{}", 200, true),
        (Verb::Post, "/api/workflow/{id}/jump/{ref}") => asked("/jump/fork", "{}", 200, true),
        (Verb::Post, "/api/workflow/{id}/upgrade") => asked("/upgrade", r#"{"version":1}"#, 200, true),
        (Verb::Put, "/api/workflow/bulk/pause") => bulk(true),
        (Verb::Post, "/api/workflow/bulk/terminate") => bulk(true),
        (Verb::Delete, "/api/workflow/bulk/terminate-remove" | "/api/workflow/bulk/remove") => bulk(true),
        (Verb::Post, "/api/workflow/bulk/delete") => bulk(true),
        (_, path) if path.starts_with("/api/workflow/bulk/") => bulk(false),
        _ => return None,
    })
}
