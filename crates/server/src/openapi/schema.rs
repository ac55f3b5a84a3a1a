//! Small words to write JSON schemas with, and the schemas that several answers share.

use crate::codes::Code;
use semel_core::admission::{Decision, PRESETS};
use semel_core::run::Status;
use serde_json::{Map, Value as Json, json};

/// A member of an object.
pub struct Field(&'static str, Json, bool);

/// A member that is always there.
pub fn has(name: &'static str, schema: Json) -> Field {
    Field(name, schema, true)
}

/// A member that may be left out.
pub fn may(name: &'static str, schema: Json) -> Field {
    Field(name, schema, false)
}

/// An object with these members. Answers may grow: who reads them must not mind new members.
pub fn object<const N: usize>(fields: [Field; N]) -> Json {
    let required: Vec<&str> = fields.iter().filter(|field| field.2).map(|field| field.0).collect();
    let properties: Map<String, Json> = fields.into_iter().map(|field| (field.0.to_owned(), field.1)).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// A body: a member it does not know is refused.
pub fn body<const N: usize>(fields: [Field; N]) -> Json {
    let mut out = object(fields);
    out["additionalProperties"] = false.into();
    out
}

pub fn text() -> Json {
    json!({"type": "string"})
}

pub fn nothing_or(schema: Json) -> Json {
    match schema.get("type") {
        Some(Json::String(kind)) if schema.get("enum").is_none() => {
            let mut out = schema.clone();
            out["type"] = json!([kind, "null"]);
            out
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

pub fn time() -> Json {
    json!({"type": "string", "format": "date-time"})
}

pub fn id() -> Json {
    json!({"type": "string", "format": "uuid"})
}

pub fn number() -> Json {
    json!({"type": "integer", "minimum": 0})
}

/// A sequence number as callers name it.
pub fn sequence() -> Json {
    json!({"type": "integer", "minimum": 0, "maximum": i64::MAX})
}

pub fn flag() -> Json {
    json!({"type": "boolean"})
}

/// Any JSON value.
pub fn any() -> Json {
    json!({})
}

pub fn map() -> Json {
    json!({"type": "object"})
}

pub fn list(items: Json) -> Json {
    json!({"type": "array", "items": items})
}

pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Json {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

/// Days and smaller units, whose length is fixed; at most ten years, and more than nothing.
pub fn duration() -> Json {
    let days = "[1-9][0-9]{0,2}D";
    let time = "T([1-9][0-9]{0,3}H([1-9][0-9]{0,3}M)?([1-9][0-9]{0,3}S)?|[1-9][0-9]{0,3}M([1-9][0-9]{0,3}S)?|[1-9][0-9]{0,3}S)";
    json!({"type": "string", "pattern": format!("^P({days}({time})?|{time})$"), "examples": ["PT1H", "P30D"]})
}

/// Names that become keys of rows: not blank, no control characters.
pub fn name() -> Json {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"})
}

pub fn key() -> Json {
    json!({"type": "string", "minLength": 1, "maxLength": 255})
}

pub fn why() -> Json {
    nothing_or(json!({"type": "string", "maxLength": crate::call::WHY_CHARS_MAX}))
}

pub fn status() -> Json {
    words(Status::ALL.map(Status::word))
}

pub fn decision() -> Json {
    words(Decision::ALL.map(Decision::word))
}

pub fn strategy() -> Json {
    words(PRESETS.iter().map(|preset| preset.word))
}

pub fn named(schema: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// A page of a list.
pub fn page(of: &str) -> Json {
    object([has("items", list(named(of))), has("next_cursor", nothing_or(text()))])
}

/// All schemas that are referred to by name.
pub fn components() -> Json {
    json!({
        "Problem": problem(),
        "Run": run(),
        "Admitted": admitted(),
        "JournalEntry": object([has("seq", number()), has("at", time()), has("events", list(object([has("event", text())])))]),
        "LogLine": object([
            has("seq", number()), has("at", time()), has("level", text()), has("step", text()), has("message", nothing_or(text())),
        ]),
        "Effect": object([
            has("step_id", text()), has("step", text()), has("class", text()),
            has("state", words(["intent", "done", "failed_clean", "in_doubt"])), has("attempt", number()),
            has("sends", number()), has("key", text()), has("safe_until", nothing_or(time())), has("at", time()),
        ]),
        "Decision": decided(),
        "Replay": object([
            has("seq", number()), has("at", time()), has("door", text()), has("decision", decision()), has("reason", text()),
            has("same_payload", flag()), has("caller", text()),
        ]),
        "Claim": claim(),
        "Workflow": workflow(),
        "Diagnostic": diagnostic(),
        "KeyValue": object([
            has("namespace", text()), has("key", text()), has("value", any()), has("type", text()), has("revision", number()),
            has("updated_at", time()), has("expires_at", nothing_or(time())), may("withheld", flag()),
        ]),
        "Secret": object([has("name", text()), has("version", number()), has("created_at", time())]),
        "Token": object([
            has("id", text()), has("name", text()), has("role", text()), has("workspace", text()), has("created_at", time()),
            has("expires_at", nothing_or(time())), has("revoked_at", nothing_or(time())),
        ]),
        "Workspace": object([has("id", text()), has("created_at", time())]),
        "Schedule": object([
            has("workflow_id", text()), has("trigger", text()), has("next_due", nothing_or(time())),
            has("last_fired", nothing_or(time())),
        ]),
        "Node": object([
            has("epoch", number()), has("name", text()), has("version", text()),
            has("state", words(["alive", "lapsed", "left"])), has("started_at", time()),
            has("seen_at", time()), has("lease_until", nothing_or(time())), has("runs_owned", number()), has("is_self", flag()),
        ]),
        "KestraError": super::kestra::refusal(),
        "ConductorError": super::conductor::refusal(),
        "Execution": super::kestra::execution(),
        "TaskRun": super::kestra::task_run(),
        "Refusal": object([has("at", time()), has("door", text()), has("code", text()), has("path", text())]),
    })
}

fn problem() -> Json {
    object([
        has("type", json!({"type": "string", "format": "uri"})),
        has("title", text()),
        has("status", json!({"type": "integer", "minimum": 400, "maximum": 599})),
        has("code", words(Code::ALL.iter().map(|code| code.word()))),
        has("detail", text()),
        may("hint", text()),
        may("errors", list(map())),
        may("run_id", id()),
        may("reason", text()),
        may("allow", text()),
        may("candidates", list(text())),
        may("rendered", text()),
    ])
}

fn failure() -> Json {
    nothing_or(object([has("code", any()), has("message", any()), has("step", any())]))
}

fn run() -> Json {
    object([
        has("run_id", id()),
        has("workflow_id", text()),
        has("revision", number()),
        has("status", status()),
        has("key", nothing_or(text())),
        has("correlation_id", text()),
        has("labels", json!({"type": "object", "additionalProperties": {"type": "string"}})),
        has("inputs", any()),
        has("outputs", any()),
        has("error", failure()),
        has("created_at", time()),
        has("started_at", nothing_or(time())),
        has("ended_at", nothing_or(time())),
        has("parent_run_id", nothing_or(id())),
        has("root_run_id", id()),
        has("door", text()),
        has("generation", number()),
        has("take", number()),
        has("open_doubts", number()),
        has("open_intents", number()),
        has("warnings", flag()),
        has("erased", flag()),
    ])
}

fn admitted() -> Json {
    let mut told: Vec<&str> = Status::ALL.map(Status::word).to_vec();
    told.push("started");
    object([
        has("run_id", id()),
        has("status", words(told)),
        has("workflow_id", text()),
        has("idempotent_replayed", flag()),
        may("outputs", any()),
        may("error", failure()),
        may("decision", decision()),
        may("reason", text()),
    ])
}

fn decided() -> Json {
    object([
        has("seq", number()),
        has("at", time()),
        has("door", text()),
        has("occurrence", text()),
        has("workflow_id", text()),
        has("scope", nothing_or(text())),
        has("key", nothing_or(text())),
        has("key_source", nothing_or(text())),
        has("claim", nothing_or(text())),
        has("fingerprint", text()),
        has("prior", text()),
        has("prior_run_id", nothing_or(id())),
        has("same_payload", flag()),
        has("decision", decision()),
        has("reason", text()),
        has("run_id", nothing_or(id())),
        has("generation", number()),
        has("caller", text()),
        has("policy", map()),
        has("rules_version", number()),
    ])
}

fn claim() -> Json {
    object([
        has("key", nothing_or(text())),
        has("scope", text()),
        has("state", words(["pending", "live", "held", "done", "failed", "cancelled", "erased"])),
        has("run_id", id()),
        has("workflow_id", nothing_or(text())),
        has("generation", number()),
        has("first_seen", time()),
        has("completed_at", nothing_or(time())),
        has("expires_at", nothing_or(time())),
        has("claim", text()),
        has("fingerprint", text()),
    ])
}

fn workflow() -> Json {
    let trigger = object([
        has("id", text()),
        has("type", text()),
        has("disabled", any()),
        may("cron", any()),
        may("timezone", any()),
        may("wait", any()),
        may("signature", any()),
    ]);
    object([
        has("workflow_id", text()),
        has("namespace", text()),
        has("id", text()),
        has("revision", number()),
        has("description", nothing_or(text())),
        has("disabled", flag()),
        has("created_at", time()),
        has("created_by", text()),
        has("triggers", list(trigger)),
        may("source", nothing_or(text())),
    ])
}

fn diagnostic() -> Json {
    object([
        has("severity", text()),
        has("code", text()),
        has("message", text()),
        has("line", number()),
        has("column", number()),
        has("start", number()),
        has("end", number()),
        has("expected", nothing_or(text())),
        has("suggestion", nothing_or(text())),
        may("related", object([has("line", number()), has("column", number()), has("message", text())])),
    ])
}
