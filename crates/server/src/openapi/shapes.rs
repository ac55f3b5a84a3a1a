//! What each route takes and answers. A test holds this list and the route table together.

use super::schema::*;
use crate::auth::Role;
use crate::routes::{Route, Verb};
use serde_json::{Value as Json, json};

/// What a route answers when it does not refuse.
pub enum Answers {
    /// 200 with JSON of this schema.
    Json(Json),
    /// 200 with JSON of this schema, or 204.
    JsonOrNothing(Json),
    /// 204.
    Nothing,
    /// 200 without a body.
    Empty,
    /// 202.
    Accepted,
    /// 200 with text of this media type.
    Text(&'static str),
}

pub struct Shape {
    /// Schema of a JSON body; what others take is said by their media type.
    pub body: Option<Json>,
    /// Whether a request without a body can be right.
    pub body_required: bool,
    pub answers: Answers,
}

pub fn shows(schema: Json) -> Shape {
    Shape { body: None, body_required: false, answers: Answers::Json(schema) }
}

fn pages(of: &str) -> Shape {
    shows(page(of))
}

pub fn removes() -> Shape {
    Shape { body: None, body_required: false, answers: Answers::Nothing }
}

pub fn accepts() -> Shape {
    Shape { body: None, body_required: false, answers: Answers::Accepted }
}

pub fn may_show(schema: Json) -> Shape {
    Shape { body: None, body_required: false, answers: Answers::JsonOrNothing(schema) }
}

/// 200 and nothing more.
pub fn stays_silent() -> Shape {
    Shape { body: None, body_required: false, answers: Answers::Empty }
}

pub fn says(kind: &'static str) -> Shape {
    Shape { body: None, body_required: false, answers: Answers::Text(kind) }
}

/// A body that must be there.
fn takes(body: Json, answer: Json) -> Shape {
    Shape { body: Some(body), body_required: true, answers: Answers::Json(answer) }
}

/// A body all of whose members may be left out, and itself too.
fn may_take(body: Json, answer: Json) -> Shape {
    Shape { body: Some(body), body_required: false, answers: Answers::Json(answer) }
}

/// A flow's text.
fn reads_flow(answer: Json) -> Shape {
    Shape { body: None, body_required: true, answers: Answers::Json(answer) }
}

/// `None` for a route that nobody described.
pub fn shape(route: &Route) -> Option<Shape> {
    Some(match (route.method, route.path) {
        (Verb::Get, "/health/live" | "/health/ready") => shows(object([has("status", words(["ok"]))])),
        (Verb::Get, "/metrics") => says(crate::metrics::CONTENT_TYPE),
        (Verb::Get, "/openapi.json") => shows(map()),

        (Verb::Post, "/v1/workflows/{id}/trigger") => may_take(body([may("data", map())]), named("Admitted")),
        (_, "/v1/webhooks/{namespace}/{flow}/{key}") => shows(named("Admitted")),

        (Verb::Get, "/v1/workflows" | "/v1/workflows/{id}/revisions") => pages("Workflow"),
        (Verb::Put, "/v1/workflows") => reads_flow(pushed()),
        (Verb::Post, "/v1/workflows/validate") => reads_flow(validated()),
        (Verb::Get, "/v1/workflows/{id}") => shows(named("Workflow")),

        (Verb::Post, "/v1/runs") => takes(start(), named("Admitted")),
        (Verb::Get, "/v1/runs" | "/v1/runs/{id}/children") => pages("Run"),
        (Verb::Get, "/v1/runs/{id}") => shows(named("Run")),
        (Verb::Delete, "/v1/runs/{id}") | (Verb::Post, "/v1/runs/{id}/erase") => removes(),
        (Verb::Get, "/v1/runs/{id}/journal") => pages("JournalEntry"),
        (Verb::Get, "/v1/runs/{id}/logs") => pages("LogLine"),
        (Verb::Get, "/v1/runs/{id}/steps") => pages("Effect"),
        (Verb::Get, "/v1/runs/{id}/replays") => pages("Replay"),
        (Verb::Get, "/v1/runs/{id}/follow") => says("text/event-stream"),
        (
            Verb::Post,
            "/v1/runs/{id}/cancel" | "/v1/runs/{id}/pause" | "/v1/runs/{id}/release" | "/v1/runs/{id}/restart",
        ) => may_take(body([may("why", why())]), named("Run")),
        (Verb::Post, "/v1/runs/{id}/resume") => {
            let decision = nothing_or(words(["approve", "deny"]));
            let comment = nothing_or(text());
            let said = [
                may("step_id", nothing_or(text())),
                may("inputs", any()),
                may("decision", decision),
                may("comment", comment),
                may("why", why()),
            ];
            may_take(body(said), named("Run"))
        }
        (Verb::Post, "/v1/runs/{id}/replay") => {
            may_take(body([may("from", nothing_or(text())), may("why", why())]), named("Run"))
        }
        (Verb::Post, "/v1/runs/{id}/verdict") => takes(verdict(), named("Run")),

        (Verb::Get, "/v1/keys") => pages("Claim"),
        (Verb::Get, "/v1/keys/show") => {
            shows(object([has("items", list(named("Claim"))), has("decisions", list(named("Decision")))]))
        }
        (Verb::Post, "/v1/keys/explain") => takes(explain(), explained()),
        (Verb::Post, "/v1/keys/release") => takes(release(), released()),
        (Verb::Post, "/v1/check") => may_take(body([]), checked()),
        (Verb::Get, "/v1/decisions") => pages("Decision"),
        (Verb::Get, "/v1/refusals") => pages("Refusal"),
        (Verb::Get, "/v1/schedules") => pages("Schedule"),
        (Verb::Get, "/v1/nodes") => pages("Node"),

        (Verb::Get, "/v1/kv/{namespace}") => pages("KeyValue"),
        (Verb::Get, "/v1/kv/{namespace}/{key}") => shows(named("KeyValue")),
        (Verb::Put, "/v1/kv/{namespace}/{key}") => takes(
            body([has("value", any()), may("ttl", nothing_or(duration())), may("overwrite", nothing_or(flag()))]),
            object([has("namespace", text()), has("key", text()), has("revision", number())]),
        ),
        (Verb::Delete, "/v1/kv/{namespace}/{key}" | "/v1/secrets/{name}" | "/v1/tokens/{id}") => removes(),
        (Verb::Get, "/v1/secrets") => pages("Secret"),
        (Verb::Put, "/v1/secrets/{name}") => {
            takes(body([has("value", text())]), object([has("name", text()), has("version", number())]))
        }

        (Verb::Get, "/v1/tokens") => pages("Token"),
        (Verb::Post, "/v1/tokens") => takes(new_token(), made_token()),
        (Verb::Get, "/v1/workspaces") => pages("Workspace"),
        (Verb::Post, "/v1/workspaces") => takes(body([has("id", workspace())]), named("Workspace")),
        _ => return super::kestra::shape(route).or_else(|| super::conductor::shape(route)),
    })
}

fn workspace() -> Json {
    json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"})
}

fn pushed() -> Json {
    object([
        has("workflow_id", text()),
        has("revision", number()),
        has("changed", flag()),
        has("warnings", list(named("Diagnostic"))),
    ])
}

fn validated() -> Json {
    object([
        has("valid", flag()),
        has("errors", list(named("Diagnostic"))),
        has("warnings", list(named("Diagnostic"))),
        has("rendered", text()),
    ])
}

fn start() -> Json {
    body([
        has("workflow_id", text()),
        may("inputs", map()),
        may(
            "labels",
            json!({"type": "object", "propertyNames": name(), "additionalProperties": {"type": ["string", "number", "boolean"]}}),
        ),
        may("key", nothing_or(key())),
        may("correlation_id", nothing_or(name())),
        may("strategy", nothing_or(strategy())),
    ])
}

fn verdict() -> Json {
    let step = || may("step_id", nothing_or(text()));
    let done = body([step(), has("verdict", words(["done"])), may("result", any()), may("why", why())]);
    let other = body([step(), has("verdict", words(["repeat", "repeat_new_key", "fail"])), may("why", why())]);
    json!({"anyOf": [done, other]})
}

fn explain() -> Json {
    let by_key =
        body([may("workflow_id", nothing_or(text())), has("key", text()), may("other_key", nothing_or(text()))]);
    json!({"anyOf": [by_key, body([has("decision", sequence()), has("other", sequence())])]})
}

fn explained() -> Json {
    object([
        has("met", flag()),
        has("explanation", list(text())),
        has("a", nothing_or(named("Decision"))),
        has("b", nothing_or(named("Decision"))),
        has("claims", list(named("Claim"))),
        has("decisions", list(named("Decision"))),
    ])
}

fn checked() -> Json {
    let violation = object([
        has("code", text()),
        has("invariant", text()),
        has("workspace", text()),
        has("what", text()),
        has("message", text()),
        has("advice", text()),
    ]);
    object([
        has("counts", map()),
        has("restored", nothing_or(map())),
        has("violations", list(violation)),
        has("found", number()),
    ])
}

fn release() -> Json {
    let why = || {
        has("why", json!({"type": "string", "minLength": 1, "maxLength": crate::call::WHY_CHARS_MAX, "pattern": r"\S"}))
    };
    let by_claim = body([
        has("claim", json!({"type": "string", "pattern": "^[0-9a-fA-F]{32}$"})),
        may("key", nothing_or(text())),
        may("workflow_id", nothing_or(text())),
        may("scope", nothing_or(text())),
        why(),
    ]);
    let by_flow = body([has("key", text()), has("workflow_id", text()), why()]);
    let by_scope = body([has("key", text()), has("scope", text()), may("workflow_id", nothing_or(text())), why()]);
    json!({"anyOf": [by_claim, by_flow, by_scope]})
}

fn released() -> Json {
    object([
        has("released", flag()),
        has("key", nothing_or(text())),
        has("scope", text()),
        has("claim", text()),
        has("run_id", id()),
    ])
}

fn new_token() -> Json {
    body([
        has("name", name()),
        has("role", words(Role::ALL.map(Role::word))),
        may("workspace", nothing_or(workspace())),
        may("expires_in", nothing_or(duration())),
    ])
}

fn made_token() -> Json {
    object([
        has("token", text()),
        has("id", text()),
        has("name", text()),
        has("role", text()),
        has("workspace", text()),
        has("expires_at", nothing_or(time())),
    ])
}
