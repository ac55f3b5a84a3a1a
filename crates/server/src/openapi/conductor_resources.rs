//! What the routes of Conductor's resources take and answer.

use super::schema::*;
use super::shapes::{Shape, says, shows, stays_silent};
use crate::routes::{Route, Verb};
use serde_json::{Value as Json, json};

const TEXT: &str = "text/plain";

/// Whether the path is described here.
pub fn is_own(path: &str) -> bool {
    let bases = [
        "/api/metadata/tags",
        "/api/metadata/webhook",
        "/api/secrets",
        "/api/environment",
        "/api/scheduler",
        "/api/schema",
        "/api/event",
        "/api/human",
        "/api/webhook",
        "/webhook",
    ];
    bases.iter().any(|base| path.starts_with(base)) || path.ends_with("/tags") || path.ends_with("/rate-limit")
}

pub fn shape(route: &Route) -> Option<Shape> {
    Some(match (route.method, route.path) {
        (Verb::Get, path) if path.ends_with("/tags") && path != "/api/scheduler/schedules/tags" => shows(list(tag())),
        (_, path) if path.ends_with("}/tags") => stays_silent(),
        (Verb::Get, "/api/metadata/workflow/{name}/rate-limit") => {
            shows(object([has("concurrentExecLimit", number()), has("rateLimitKey", text())]))
        }
        (Verb::Get | Verb::Post, "/api/secrets") => shows(list(text())),
        (Verb::Get, "/api/secrets-v2") => shows(list(object([has("name", text()), has("tags", list(tag()))]))),
        (Verb::Get, "/api/secrets/{name}" | "/api/environment/{name}") => says(TEXT),
        (Verb::Get, "/api/secrets/{name}/exists") => shows(flag()),
        (Verb::Get, "/api/environment") => {
            shows(list(object([has("name", text()), has("value", text()), has("tags", list(tag()))])))
        }
        (Verb::Post, "/api/scheduler/schedules") => shows(map()),
        (Verb::Get, "/api/scheduler/schedules/{name}") => shows(map()),
        (Verb::Get, "/api/scheduler/schedules" | "/api/scheduler/schedules/tags") => shows(list(map())),
        (Verb::Get, "/api/scheduler/schedules/search" | "/api/scheduler/search/executions") => {
            shows(object([has("totalHits", number()), has("results", list(map()))]))
        }
        (Verb::Put, "/api/scheduler/bulk/pause" | "/api/scheduler/bulk/resume") => shows(super::conductor::bulk()),
        (Verb::Get, "/api/scheduler/nextFewSchedules") => shows(list(number())),
        (Verb::Get, path) if path.starts_with("/api/scheduler/admin/") => shows(map()),
        (Verb::Get, "/api/metadata/webhook") => shows(list(map())),
        (Verb::Post, "/api/metadata/webhook") => shows(map()),
        (Verb::Get | Verb::Put, "/api/metadata/webhook/{name}") => shows(map()),
        // Nothing, or what the sender wants to know of the address.
        (_, "/webhook/{name}" | "/api/webhook/{name}") => shows(any()),
        (
            Verb::Get,
            "/api/schema" | "/api/event" | "/api/event/handler/" | "/api/event/{name}" | "/api/human/template",
        ) => shows(list(map())),
        (Verb::Get, "/api/event/execution" | "/api/event/message") => {
            shows(object([has("totalHits", number()), has("results", list(map()))]))
        }
        (Verb::Get, "/api/event/execution/{name}" | "/api/event/message/{name}") => shows(list(map())),
        (Verb::Get, path) if path.starts_with("/api/event/queue/config") => shows(map()),
        (Verb::Post, "/api/event/queue/connectivity") => {
            shows(object([has("successful", flag()), has("reason", text())]))
        }
        (Verb::Get, "/api/schema/{name}" | "/api/schema/{name}/{version}" | "/api/event/handler/{name}") => {
            shows(map())
        }
        (Verb::Post, "/api/human/tasks/search") => shows(object([
            has("start", number()),
            has("pageSizeLimit", number()),
            has("hits", number()),
            has("totalHits", number()),
            has("results", list(human())),
        ])),
        (Verb::Get, "/api/human/tasks/{id}") => shows(human()),
        (Verb::Get, "/api/human/tasks/{id}/conductorTask") => shows(map()),
        (Verb::Get, "/api/human/tasks/getTaskDisplayNames") => shows(list(text())),
        (Verb::Post, "/api/human/tasks/{id}/claim" | "/api/human/tasks/{id}/externalUser/{user}") => shows(human()),
        (Verb::Post, "/api/human/template") => shows(any()),
        (Verb::Post, "/api/human/template/bulk") => shows(list(map())),
        (Verb::Get, path) if path.starts_with("/api/human/template/") => shows(map()),
        (Verb::Get, "/api/scheduler/schedules/{name}/pause" | "/api/scheduler/schedules/{name}/resume") => {
            stays_silent()
        }
        (Verb::Get, _) => return None,
        _ => stays_silent(),
    })
}

fn tag() -> Json {
    json!({"type": "object", "required": ["key", "type"], "properties": {"key": text(), "type": text()}})
}

fn human() -> Json {
    json!({"type": "object", "required": ["taskId", "workflowId", "state"],
        "properties": {"taskId": id(), "workflowId": id(), "state": text()}})
}
