//! What the routes of the Kestra door take and answer.

use super::schema::*;
use super::shapes::{Shape, shows};
use crate::codes::Code;
use crate::routes::{Route, Verb};
use semel_core::run::KestraState;
use serde_json::{Value as Json, json};

/// `None` for a route that nobody described.
pub fn shape(route: &Route) -> Option<Shape> {
    let rest = route.path.strip_prefix("/api/v1/{tenant}")?;
    Some(match (route.method, rest) {
        (Verb::Get, "/executions/{id}") => shows(named("Execution")),
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

/// Where brackets are part of a name, no schema says which names there are.
pub fn refused(why: &str) -> Json {
    json!({"description": why, "content": {"application/json": {"schema": named("KestraError")}}})
}
