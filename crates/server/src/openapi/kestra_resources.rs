//! What the Kestra door's flows, keys, secrets, logs, triggers and the rest take and answer.

use super::schema::*;
use super::shapes::{Answers, Shape, shows};
use crate::routes::{Route, Verb};
use semel_core::run::KestraState;
use serde_json::{Value as Json, json};

fn results(of: Json) -> Json {
    object([has("results", list(of)), has("total", number())])
}

fn answers(answers: Answers) -> Shape {
    Shape { body: None, body_required: false, answers }
}

/// A text of flows.
fn reads(answer: Json) -> Shape {
    Shape { body: None, body_required: true, answers: Answers::Json(answer) }
}

fn takes(body: Json, answer: Answers) -> Shape {
    Shape { body: Some(body), body_required: true, answers: answer }
}

/// `None` for a route that nobody described.
pub fn shape(route: &Route) -> Option<Shape> {
    let rest = route.path.strip_prefix("/api/v1/{tenant}")?;
    Some(match (route.method, rest) {
        (Verb::Get, "/flows/search") => shows(results(map())),
        (Verb::Get, "/flows/source") => shows(results(object([has("model", map()), has("fragments", list(text()))]))),
        (Verb::Get, "/flows/distinct-namespaces") => shows(list(text())),
        (Verb::Get, "/flows/{namespace}" | "/flows/{namespace}/{id}/revisions") => shows(list(map())),
        (Verb::Get, "/flows/{namespace}/{id}" | "/flows/{namespace}/{id}/tasks/{task}") => shows(map()),
        (Verb::Get, "/flows/{namespace}/{id}/graph") => shows(graph()),
        (Verb::Get, "/flows/{namespace}/{id}/dependencies") => {
            shows(object([has("nodes", list(map())), has("edges", list(map()))]))
        }
        (Verb::Post, "/flows/graph") => reads(graph()),
        (Verb::Post, "/flows") | (Verb::Put, "/flows/{namespace}/{id}") => reads(map()),
        (Verb::Post, "/flows/{namespace}" | "/flows/bulk") => answers(Answers::Json(list(map()))),
        (Verb::Post, "/flows/validate") => answers(Answers::Json(list(judged()))),
        (Verb::Post, "/flows/import") => answers(Answers::Json(list(text()))),
        (Verb::Delete, "/flows/{namespace}/{id}") => answers(Answers::Nothing),
        (Verb::Get, "/flows/export/by-query") => answers(Answers::Text("application/octet-stream")),
        (Verb::Post, "/flows/export/by-ids") => takes(flow_ids(), Answers::Text("application/octet-stream")),
        (Verb::Delete, "/flows/delete/by-query")
        | (Verb::Post, "/flows/disable/by-query" | "/flows/enable/by-query") => shows(count()),
        (Verb::Delete, "/flows/delete/by-ids") | (Verb::Post, "/flows/disable/by-ids" | "/flows/enable/by-ids") => {
            takes(flow_ids(), Answers::Json(count()))
        }

        (Verb::Get, "/namespaces/search") => shows(results(object([has("id", text()), has("disabled", flag())]))),
        (Verb::Get, "/namespaces/{namespace}") => shows(object([has("id", text()), has("deleted", flag())])),
        (Verb::Get, "/namespaces/{namespace}/kv" | "/namespaces/{namespace}/kv/inheritance") => shows(list(kv_entry())),
        (Verb::Get, "/kv") => shows(results(kv_entry())),
        (Verb::Get, "/namespaces/{namespace}/kv/{key}") => shows(object([
            has("type", words(["STRING", "NUMBER", "BOOLEAN", "DATETIME", "DATE", "DURATION", "JSON"])),
            has("value", any()),
            has("revision", number()),
            has("updated", time()),
        ])),
        (Verb::Put, "/namespaces/{namespace}/kv/{key}") => {
            Shape { body: None, body_required: true, answers: Answers::Empty }
        }
        (Verb::Delete, "/namespaces/{namespace}/kv/{key}") => shows(flag()),
        (Verb::Delete, "/namespaces/{namespace}/kv") => {
            takes(object([may("keys", list(text()))]), Answers::Json(object([has("keys", list(text()))])))
        }
        (Verb::Get, "/namespaces/{namespace}/files" | "/namespaces/{namespace}/files/export") => {
            answers(Answers::Text("application/octet-stream"))
        }
        (Verb::Post, "/namespaces/{namespace}/files") => {
            Shape { body: None, body_required: true, answers: Answers::Empty }
        }
        (Verb::Put | Verb::Delete, "/namespaces/{namespace}/files")
        | (Verb::Post, "/namespaces/{namespace}/files/directory") => answers(Answers::Empty),
        (Verb::Get, "/namespaces/{namespace}/files/directory") => shows(list(file_attributes())),
        (Verb::Get, "/namespaces/{namespace}/files/stats") => shows(file_attributes()),
        (Verb::Get, "/namespaces/{namespace}/files/search") => shows(list(text())),
        (Verb::Get, "/secrets" | "/namespaces/{namespace}/secrets") => shows(object([
            has("readOnly", flag()),
            has("results", list(object([has("key", text())]))),
            has("total", number()),
        ])),
        (Verb::Get, "/namespaces/{namespace}/inherited-secrets") => shows(map()),

        (Verb::Get, "/logs/search") => shows(results(log_line())),
        (Verb::Get, "/logs/{id}") => shows(list(log_line())),
        (Verb::Get, "/logs/{id}/download") => answers(Answers::Text("text/plain; charset=utf-8")),
        (Verb::Get, "/logs/{id}/follow") => answers(Answers::Text("text/event-stream")),
        (Verb::Delete, "/logs/{id}" | "/logs/{namespace}/{flow}") => answers(Answers::Empty),

        (Verb::Get, "/triggers/search") => {
            shows(results(object([has("abstractTrigger", nothing_or(map())), has("triggerContext", trigger())])))
        }
        (Verb::Get, "/triggers/{namespace}/{flow}") => shows(results(trigger())),
        (Verb::Put, "/triggers" | "/triggers/backfill/pause" | "/triggers/backfill/unpause")
        | (Verb::Post, "/triggers/backfill/delete") => takes(trigger_named(), Answers::Json(trigger())),
        (
            Verb::Post,
            "/triggers/backfill/pause/by-triggers"
            | "/triggers/backfill/unpause/by-triggers"
            | "/triggers/backfill/delete/by-triggers"
            | "/triggers/unlock/by-triggers",
        ) => takes(list(trigger_named()), Answers::Json(count())),
        (Verb::Post, "/triggers/set-disabled/by-triggers") => {
            takes(object([may("triggers", list(trigger_named())), may("disabled", flag())]), Answers::Json(count()))
        }
        (
            Verb::Post,
            "/triggers/backfill/pause/by-query"
            | "/triggers/backfill/unpause/by-query"
            | "/triggers/backfill/delete/by-query"
            | "/triggers/unlock/by-query"
            | "/triggers/set-disabled/by-query",
        ) => shows(count()),
        (
            Verb::Post,
            "/triggers/{namespace}/{flow}/{trigger}/unlock" | "/triggers/{namespace}/{flow}/{trigger}/restart",
        ) => shows(trigger()),
        (Verb::Delete, "/triggers/{namespace}/{flow}/{trigger}") => answers(Answers::Nothing),
        (Verb::Delete, "/triggers/delete/by-triggers") => takes(list(trigger_named()), Answers::Json(count())),
        (Verb::Delete, "/triggers/delete/by-query") => shows(count()),
        (Verb::Get, "/concurrency-limit/search") => shows(results(limit())),
        (Verb::Put, "/concurrency-limit/{namespace}/{flow}") => {
            takes(object([has("running", number())]), Answers::Json(limit()))
        }
        (Verb::Get, "/metrics/{id}") => shows(results(map())),
        (Verb::Get, path) if path.starts_with("/metrics/") => shows(list(text())),
        (Verb::Get, "/configs") => shows(map()),
        _ => return None,
    })
}

fn count() -> Json {
    object([has("count", number())])
}

fn flow_ids() -> Json {
    list(object([has("namespace", text()), has("id", text())]))
}

pub fn graph() -> Json {
    object([
        has("nodes", list(map())),
        has("edges", list(map())),
        has("clusters", list(map())),
        has("flowables", list(text())),
    ])
}

fn judged() -> Json {
    object([
        has("index", number()),
        may("flow", text()),
        may("namespace", text()),
        may("constraints", text()),
        has("outdated", flag()),
        has("deprecationPaths", list(text())),
        has("warnings", list(text())),
        has("infos", list(text())),
    ])
}

fn kv_entry() -> Json {
    object([
        has("namespace", text()),
        has("key", text()),
        has("version", number()),
        may("creationDate", time()),
        has("updateDate", time()),
        may("expirationDate", time()),
    ])
}

fn file_attributes() -> Json {
    object([
        has("type", words(["File", "Directory"])),
        has("fileName", text()),
        has("size", number()),
        has("lastModifiedTime", number()),
        has("creationTime", number()),
    ])
}

fn log_line() -> Json {
    object([
        has("namespace", text()),
        has("flowId", text()),
        may("taskId", text()),
        has("executionId", id()),
        may("taskRunId", text()),
        may("attemptNumber", number()),
        has("timestamp", time()),
        has("level", words(["TRACE", "DEBUG", "INFO", "WARN", "ERROR"])),
        has("thread", text()),
        may("message", text()),
        has("deleted", flag()),
    ])
}

fn trigger() -> Json {
    object([
        has("namespace", text()),
        has("flowId", text()),
        has("triggerId", text()),
        may("date", time()),
        may("nextExecutionDate", time()),
        may("backfill", map()),
        may("executionId", id()),
        has("disabled", flag()),
    ])
}

fn trigger_named() -> Json {
    object([
        has("namespace", text()),
        has("flowId", text()),
        has("triggerId", text()),
        may("disabled", nothing_or(flag())),
        may(
            "backfill",
            nothing_or(object([
                has("start", time()),
                may("end", nothing_or(time())),
                may("inputs", any()),
                may("labels", any()),
                may("paused", flag()),
            ])),
        ),
    ])
}

fn limit() -> Json {
    object([has("tenantId", text()), has("namespace", text()), has("flowId", text()), has("running", number())])
}

/// Where a page is asked for.
pub fn parameter(name: &str) -> Option<Json> {
    Some(match name {
        "page" | "size" | "maxRows" => json!({"type": "integer", "minimum": 1}),
        "sort" => json!({"type": "string", "pattern": "^[a-zA-Z.]+:"}),
        "source"
        | "allowDeleted"
        | "delete"
        | "destinationOnly"
        | "allowNamespaceChild"
        | "expandAll"
        | "wait"
        | "latestRevision"
        | "isOnKillCascade" => flag(),
        // The other word is refused, with what to do instead.
        "deleteLogs" | "deleteMetrics" | "deleteStorage" => json!({"const": true}),
        "override" => json!({"const": false}),
        "kind" => words(["NORMAL", "TEST", "PLAYGROUND"]),
        "encoding" => words(["UTF-8", "ISO-8859-1"]),
        "state" | "status" | "newStatus" => words(KestraState::ALL.map(KestraState::word)),
        _ => return None,
    })
}
