//! `/api/event`: what is to happen when an event arrives. Handlers are kept as they were written; the engine acts on them.

use super::tags::{self, Kind};
use super::{body, documents, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::subject::listenable;
use semel_engine::nats_source;
use semel_store::{EVENT_HANDLERS, KvRow};
use serde_json::{Map, Value as Json, json};

/// What an action may be.
const ACTIONS: &[&str] =
    &["start_workflow", "complete_task", "fail_task", "terminate_workflow", "update_workflow_variables"];
const ACTIONS_MAX: usize = 100;
/// Queues outside that nothing is heard from: a handler of one would wait for ever.
const OUTSIDE: &[&str] =
    &["kafka:", "kafka_consumer:", "sqs:", "amqp:", "amqp_queue:", "amqp_exchange:", "nats_stream:", "jsm:"];

fn unknown(name: &str) -> Problem {
    Problem::new(Code::DefinitionUnknown, format!("EventHandler with name {name} not found!"))
}

pub async fn check(call: &Call, name: &str) -> Result<(), Problem> {
    documents::find(call, EVENT_HANDLERS, name).await?.map(|_| ()).ok_or_else(|| unknown(name))
}

fn checked(given: Json) -> Result<(String, Map<String, Json>), Problem> {
    let Json::Object(mut fields) = given else {
        return Err(Problem::new(Code::BodyInvalid, "an event handler is an object"));
    };
    fields.retain(|_, value| !value.is_null());
    let name = body::field(&fields, "name")?.unwrap_or_default();
    if name.trim().is_empty() || name.len() > 255 {
        return Err(Problem::field("name", "Missing event handler name"));
    }
    let event = body::field(&fields, "event")?.filter(|event| !event.trim().is_empty());
    let event = event.ok_or_else(|| Problem::field("event", "Missing event location"))?;
    if let Some(queue) = OUTSIDE.iter().find(|queue| event.starts_with(**queue)) {
        let message = format!("`{event}`: events of {queue} queues are not built; there are conductor: and nats:");
        return Err(Problem::field("event", message));
    }
    if let Some((subject, group)) = nats_source(&event) {
        if subject.is_empty() || group.is_empty() {
            return Err(Problem::field("event", format!("`{event}`: write nats:subject, or nats:subject:group")));
        }
        listenable(subject).map_err(|message| Problem::field("event", message))?;
    }
    fields.insert("active".to_owned(), body::flag(&fields, "active")?.into());
    let Some(Json::Array(actions)) = fields.get("actions") else {
        return Err(Problem::field("actions", "No actions specified. Please specify at-least one action"));
    };
    if actions.len() > ACTIONS_MAX {
        return Err(Problem::field("actions", format!("an event handler has at most {ACTIONS_MAX} actions")));
    }
    for (place, action) in actions.iter().enumerate() {
        let word = action["action"].as_str().unwrap_or_default();
        if !ACTIONS.contains(&word) {
            let message = format!("actions[{place}].action: `{word}` is none of {}", ACTIONS.join(", "));
            return Err(Problem::field("actions", message));
        }
        if !action[word].is_object() {
            return Err(Problem::field("actions", format!("actions[{place}].{word} must be an object")));
        }
        if !matches!(action[word]["appendArray"], Json::Null | Json::Bool(_)) {
            let message = format!("actions[{place}].{word}.appendArray must be true or false");
            return Err(Problem::field("actions", message));
        }
    }
    Ok((name, fields))
}

/// Registers handlers that are new.
pub async fn create(call: Call) -> Answer {
    let handlers: Vec<_> = body::one_or_more(&call)?.into_iter().map(checked).collect::<Result<_, _>>()?;
    // Whoever has a key and a secret is an application there.
    let by = format!("app:{}", call.principal()?.name);
    for (name, mut fields) in handlers {
        fields.entry("createdBy").or_insert_with(|| json!(by));
        let listed = fields.remove("tags");
        if !documents::add(&call, EVENT_HANDLERS, name.clone(), Json::Object(fields)).await? {
            let detail = format!("EventHandler with name {name} already exists!");
            return Err(Problem::new(Code::Exists, detail));
        }
        keep_tags(&call, &name, listed).await?;
    }
    done()
}

async fn keep_tags(call: &Call, name: &str, listed: Option<Json>) -> Result<(), Problem> {
    match listed {
        Some(Json::Array(listed)) => tags::put(call, Kind::Event, name, &listed).await,
        _ => Ok(()),
    }
}

/// Takes the place of one that is there.
pub async fn update(call: Call) -> Answer {
    let handlers: Vec<_> = body::one_or_more(&call)?.into_iter().map(checked).collect::<Result<_, _>>()?;
    for (name, _) in &handlers {
        check(&call, name).await?;
    }
    for (name, mut fields) in handlers {
        let listed = fields.remove("tags");
        documents::put(&call, EVENT_HANDLERS, name.clone(), Json::Object(fields)).await?;
        keep_tags(&call, &name, listed).await?;
    }
    done()
}

async fn shown(call: &Call, row: KvRow) -> Result<Json, Problem> {
    let fields = row.value.as_object().cloned().unwrap_or_default();
    tags::shown_with(call, Kind::Event, &row.key, fields).await
}

async fn those(call: &Call, wanted: impl Fn(&Json) -> bool) -> Answer {
    let mut found = Vec::new();
    for row in documents::all(call, EVENT_HANDLERS, "").await? {
        if wanted(&row.value) {
            found.push(shown(call, row).await?);
        }
    }
    ok(found)
}

pub async fn list(call: Call) -> Answer {
    those(&call, |_| true).await
}

/// The handlers of an event.
pub async fn of_event(call: Call) -> Answer {
    let (event, active) = (call.param("name")?, body::query_flag(&call, "activeOnly", true)?);
    those(&call, |handler| handler["event"] == event && (!active || handler["active"] == true)).await
}

pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?;
    let row = documents::find(&call, EVENT_HANDLERS, name).await?.ok_or_else(|| unknown(name))?;
    ok(shown(&call, row).await?)
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    tags::forget(&call, Kind::Event, &name).await?;
    match documents::delete(&call, EVENT_HANDLERS, &name).await? {
        true => done(),
        false => Err(unknown(&name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_checked_before_any_is_kept() {
        let action = json!([{"action": "start_workflow", "start_workflow": {"name": "w"}}]);
        assert!(checked(json!({"name": "h", "event": "conductor:x", "actions": action, "active": true})).is_ok());
        assert!(
            checked(json!({"name": "h", "event": "e", "actions": []})).is_ok(),
            "clients register what comes later"
        );
        for (wrong, field) in [
            (json!({"event": "e", "actions": action}), "name"),
            (json!({"name": "h", "actions": action}), "event"),
            (json!({"name": "h", "event": "e"}), "actions"),
            (json!({"name": "h", "event": "e", "actions": 5}), "actions"),
            (json!({"name": "h", "event": "kafka:orders", "actions": action}), "event"),
            (json!({"name": "h", "event": "nats:", "actions": action}), "event"),
            (json!({"name": "h", "event": "nats:>", "actions": action}), "event"),
            (json!({"name": "h", "event": "nats:$JS.API.>", "actions": action}), "event"),
            (json!({"name": "h", "event": "nats:_INBOX.>:g", "actions": action}), "event"),
            (json!({"name": "h", "event": "e", "actions": [{"action": "dance", "dance": {}}]}), "actions"),
            (json!({"name": "h", "event": "e", "actions": [{"action": "fail_task"}]}), "actions"),
            (
                json!({"name": "h", "event": "e", "actions": [{"action": "update_workflow_variables",
                    "update_workflow_variables": {"workflowId": "w", "appendArray": "always"}}]}),
                "actions",
            ),
        ] {
            assert_eq!(checked(wrong).unwrap_err().more.errors[0]["field"], field);
        }
    }
}
