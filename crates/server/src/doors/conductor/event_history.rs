//! Events that are sent to the server, and what came of events: which a handler was there for, and what each action did.

use super::{body, documents, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::Hash16;
use semel_engine::NATS;
use semel_store::{EVENT_EXECUTIONS, EVENT_HANDLERS, EVENT_MESSAGES, KvRow, Store};
use serde_json::{Value as Json, json};

/// Entries that one answer shows.
const SHOWN_MAX: usize = 100;
/// Events of one name that are counted.
const COUNTED_MAX: usize = 1_000;

/// `POST /event/handleIncomingEvent`: the body is the payload, and its field `event` the name. With an
/// `X-Idempotency-key` the same event sent again is acted on once.
pub async fn send(call: Call) -> Answer {
    let payload = body::object(&call)?;
    let name = body::field(&payload, "event")?.filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| Problem::field("event", "Missing event: the name that handlers listen to"))?;
    let key = call.headers.get("x-idempotency-key").or_else(|| call.headers.get("idempotency-key"));
    let id = match key {
        Some(key) => Hash16::of(&[b"event", name.as_bytes(), key.as_bytes()]).hex(),
        None => {
            let mut bytes = [0u8; 16];
            (call.app.config().random)(&mut bytes);
            Hash16(bytes).hex()
        }
    };
    let (engine, workspace) = (call.app.engine().clone(), call.workspace()?);
    let sent = tokio::spawn(async move { engine.publish_event(&workspace, &id, &name, Json::Object(payload)).await });
    sent.await.map_err(|_| Problem::internal("a write panicked"))??;
    done()
}

/// Those that are not older than `from` (milliseconds).
async fn entries(call: &Call, namespace: &'static str, name: &str) -> Result<Vec<Json>, Problem> {
    let from = body::query_whole(call, "from")?.unwrap_or(0);
    let (workspace, prefix) = (call.workspace()?, format!("{name}\n"));
    let read = move |store: &dyn Store| documents::under(store, &workspace, namespace, &prefix, SHOWN_MAX);
    let rows = call.app.read(read).await?;
    let time = |entry: &Json| entry["created"].as_u64().or(entry["createdAt"].as_u64()).unwrap_or(0);
    let payloads = call.sees_payloads();
    let shown = |row: KvRow| {
        let mut entry = row.value;
        for field in ["fullPayload", "payload", "fullMessagePayload", "output"] {
            if !payloads && entry.get(field).is_some() {
                entry[field] = if field == "payload" { json!("") } else { json!({}) };
            }
        }
        entry
    };
    Ok(rows.into_iter().map(shown).filter(|entry| time(entry) >= from).collect())
}

/// `GET /event/message/{event}`: newest first.
pub async fn messages(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    ok(entries(&call, EVENT_MESSAGES, &name).await?)
}

/// `GET /event/execution/{handler}`: newest first.
pub async fn executions(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    ok(entries(&call, EVENT_EXECUTIONS, &name).await?)
}

/// `GET /event/execution` and `GET /event/message`: handlers that are active, and how many events there were for each.
pub async fn overview(call: Call) -> Answer {
    let workspace = call.workspace()?;
    let read = move |store: &dyn Store| {
        let handlers = documents::under(store, &workspace, EVENT_HANDLERS, "", usize::MAX)?;
        let mut results = Vec::new();
        for handler in handlers.into_iter().map(|row| row.value).filter(|handler| handler["active"] == true) {
            let prefix = format!("{}\n", handler["event"].as_str().unwrap_or_default());
            let messages = documents::under(store, &workspace, EVENT_MESSAGES, &prefix, COUNTED_MAX)?;
            results.push(json!({"name": handler["name"], "event": handler["event"], "active": true,
                "numberOfActions": handler["actions"].as_array().map_or(0, Vec::len),
                "numberOfMessages": messages.len()}));
        }
        Ok(results)
    };
    let results = call.app.read(read).await?;
    ok(json!({"totalHits": results.len(), "results": results}))
}

/// `GET /event/queue/config`: queues outside that events come from or go to. There are none.
pub async fn queues(_: Call) -> Answer {
    ok(json!({}))
}

/// One of them.
pub async fn queue(call: Call) -> Answer {
    Err(no_queue(&call, Code::DefinitionUnknown)?)
}

/// A queue outside cannot be registered.
pub async fn put_queue(call: Call) -> Answer {
    Err(no_queue(&call, Code::IllegalArgument)?)
}

fn no_queue(call: &Call, code: Code) -> Result<Problem, Problem> {
    let (kind, name) = (call.param("type")?, call.param("name")?);
    let text = format!("no queue `{kind}:{name}`: events come from EVENT tasks, webhooks and handleIncomingEvent");
    Ok(Problem::new(code, text))
}

/// `POST /event/queue/connectivity`: whether a sink can be reached.
pub async fn connectivity(call: Call) -> Answer {
    let sink = body::field(&body::object(&call)?, "sink")?.filter(|sink| !sink.trim().is_empty());
    let sink = sink.ok_or_else(|| Problem::field("sink", "Missing sink"))?;
    let found = match sink.as_str() {
        own if own == "conductor" || own.starts_with("conductor:") => Ok(()),
        outside if outside.starts_with(NATS) => call.app.engine().check_nats().await,
        other => Err(format!("`{other}`: there are the sinks conductor, conductor:name and nats:subject")),
    };
    ok(json!({"successful": found.is_ok(), "reason": found.err().unwrap_or_default()}))
}
