//! What the routes of the Kestra door take and answer.

use super::schema::*;
use super::shapes::{Shape, accepts, removes, says, shows};
use crate::codes::Code;
use crate::routes::{Route, Verb};
use semel_core::run::KestraState;
use serde_json::{Value as Json, json};

/// `None` for a route that nobody described.
pub fn shape(route: &Route) -> Option<Shape> {
    let rest = route.path.strip_prefix("/api/v1/{tenant}")?;
    Some(match (route.method, rest) {
        (Verb::Get, "/executions/{id}") => shows(named("Execution")),
        (Verb::Get, "/executions" | "/executions/search") => {
            shows(object([has("results", list(named("Execution"))), has("total", number())]))
        }
        (Verb::Post, "/executions/latest") => shows(list(named("Execution"))),
        (
            Verb::Post,
            "/executions/{namespace}/{id}" | "/executions/trigger/{namespace}/{id}" | "/executions/{id}/restart",
        ) => shows(named("Execution")),
        (Verb::Post, "/executions/{namespace}/{id}/validate" | "/executions/{id}/resume/validate") => {
            shows(validated())
        }
        // What a webhook answers is for its trigger to say.
        (_, path) if path.starts_with("/executions/webhook/") => shows(any()),
        (Verb::Get, "/executions/{id}/follow" | "/executions/{id}/follow-dependencies") => says("text/event-stream"),
        (Verb::Get, "/executions/namespaces") => shows(list(text())),
        (Verb::Get, "/executions/namespaces/{namespace}/flows") => shows(list(map())),
        (Verb::Get, "/executions/{id}/flow" | "/executions/flows/{namespace}/{flow}") => shows(map()),
        (Verb::Get, "/executions/{id}/graph") => shows(super::kestra_resources::graph()),
        (Verb::Get, "/executions/{id}/file") => says("application/octet-stream"),
        (Verb::Get, "/executions/{id}/file/metas") => shows(object([has("size", number())])),
        (Verb::Get, "/executions/{id}/file/preview") => shows(preview()),
        (Verb::Post, "/executions/{id}/eval" | "/executions/{id}/eval/{taskRunId}") => {
            shows(object([may("result", text()), may("error", text())]))
        }
        (
            Verb::Post,
            "/executions/{id}/replay"
            | "/executions/{id}/replay-with-inputs"
            | "/executions/{id}/force-run"
            | "/executions/{id}/unqueue"
            | "/executions/{id}/change-status"
            | "/executions/{id}/state"
            | "/executions/{id}/labels",
        ) => shows(named("Execution")),
        (Verb::Delete, "/executions/{id}/kill") => accepts(),
        (Verb::Delete, "/executions/{id}") => removes(),
        (
            Verb::Post,
            "/executions/{id}/pause"
            | "/executions/{id}/resume"
            | "/executions/{id}/actions/review"
            | "/executions/{id}/resume-from-breakpoint",
        ) => removes(),
        (_, path) if path.starts_with("/executions/") && (path.ends_with("/by-ids") || path.ends_with("/by-query")) => {
            shows(object([has("count", number())]))
        }
        _ => return super::kestra_resources::shape(route),
    })
}

/// A refusal of this door.
pub fn refusal() -> Json {
    object([
        has("message", text()),
        has("_links", object([has("self", list(object([has("href", text()), has("templated", flag())])))])),
        has("_embedded", object([has("errors", list(object([may("message", any()), may("path", any())])))])),
        has("code", words(Code::ALL.iter().map(|code| code.word()))),
        may("allow", text()),
        may("reason", text()),
        may("invalids", list(any())),
        may("candidates", list(text())),
        may("rendered", text()),
    ])
}

fn state() -> Json {
    let word = || words(KestraState::ALL.map(KestraState::word));
    object([
        has("current", word()),
        has("histories", list(object([has("state", word()), has("date", time())]))),
        may("startDate", time()),
        may("endDate", time()),
        may("duration", text()),
    ])
}

pub fn execution() -> Json {
    object([
        has("id", id()),
        has("namespace", text()),
        has("flowId", text()),
        has("flowRevision", number()),
        may("taskRunList", list(named("TaskRun"))),
        may("inputs", map()),
        may("outputs", map()),
        has("labels", list(object([has("key", text()), has("value", text())]))),
        may("variables", map()),
        has("state", state()),
        may("parentId", id()),
        has("originalId", id()),
        may("trigger", object([may("id", text()), has("type", text()), has("variables", map())])),
        has("deleted", flag()),
        has("metadata", object([has("attemptNumber", number()), has("originalCreatedDate", time())])),
        may("scheduleDate", time()),
        may("kind", text()),
        may("breakpoints", list(object([has("id", text())]))),
        may("url", text()),
        may("tenantId", text()),
    ])
}

pub fn task_run() -> Json {
    object([
        has("id", text()),
        has("executionId", id()),
        has("namespace", text()),
        has("flowId", text()),
        has("taskId", text()),
        may("parentTaskRunId", text()),
        may("value", text()),
        may("iteration", number()),
        may("attempts", list(object([has("state", state())]))),
        may("outputs", any()),
        has("state", state()),
    ])
}

fn preview() -> Json {
    object([
        has("extension", text()),
        has("type", words(["TEXT", "MARKDOWN", "LIST", "IMAGE", "PDF"])),
        has("content", any()),
        has("maxLine", number()),
        has("truncated", flag()),
    ])
}

fn validated() -> Json {
    let input = object([has("id", text()), has("type", text()), has("required", flag()), may("values", list(text()))]);
    let errors = list(object([has("message", text())]));
    let inputs = list(object([
        has("input", input),
        has("enabled", flag()),
        has("isDefault", flag()),
        may("value", any()),
        may("errors", errors),
    ]));
    let check = object([
        has("message", text()),
        has("style", words(["ERROR", "SUCCESS", "WARNING", "INFO"])),
        has("behavior", words(["CREATE_EXECUTION", "FAIL_EXECUTION", "BLOCK_EXECUTION"])),
    ]);
    object([has("id", text()), has("namespace", text()), has("inputs", inputs), has("checks", list(check))])
}

/// Where brackets are part of a name, no schema says which names there are.
pub fn refused(why: &str) -> Json {
    json!({"description": why, "content": {"application/json": {"schema": named("KestraError")}}})
}
