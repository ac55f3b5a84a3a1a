//! `POST|GET /webhook/{id}`, `/api/webhook/{id}`: events from outside.
//!
//! The proof is checked over the raw bytes before anything else is looked at or kept. Then, in this order:
//!
//! 1. The key is computed, and every workflow that is to be started is looked up. What fails here refuses the event, and
//!    nothing has happened; why is kept in the webhook's history.
//! 2. Every WAIT_FOR_WEBHOOK task that the event matches is completed.
//! 3. The workflows are started. One that was started with the same key before is not an error of the sender, who is
//!    answered 200: it would send the event again for ever.
//! 4. What came of it is kept, and the sender is answered. All of it is durable then.
//!
//! Whoever dies in between leaves the sender without an answer, and it sends the event again: tasks that were completed
//! are not there any more, and a key finds the workflows that were started.

use super::webhooks::{Starts, expected, receivers, unknown};
use super::{documents, done, text};
use crate::call::{Answer, Call, Query, ok};
use crate::codes::Code;
use crate::doors::webhook::single;
use crate::json;
use crate::problem::Problem;
use axum::http::Method;
use semel_core::admission::{Decision, PresetName, check_key};
use semel_core::ir::{ConductorFlow, ErrandKind};
use semel_core::{Door, Hash16, WorkspaceId};
use semel_engine::flows::LoadedFlow;
use semel_engine::proof::{Expected, Verifier};
use semel_engine::{ErrandAnswer, ErrandError, FlowLookupError, Occurrence, arrived_name, arrived_value};
use semel_store::{ErrandRow, WEBHOOK_EVENTS, WEBHOOKS, newest_first};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// Selects the workspace; every other parameter is the sender's.
const WORKSPACE: &str = "workspace";
const REMEMBERED_MS: i64 = 7 * 86_400_000;
/// As much of a payload as is kept in the history, in bytes.
const PAYLOAD_MAX: usize = 16 << 10;
/// Tasks that wait, read at a time.
const PAGE: u32 = 500;

/// One event whose sender has proved itself.
struct Event {
    id: String,
    webhook: String,
    name: String,
    created_by: Json,
    workspace: WorkspaceId,
    payload: Map<String, Json>,
}

pub async fn get(call: Call) -> Answer {
    receive(call, Method::GET).await
}

pub async fn post(call: Call) -> Answer {
    receive(call, Method::POST).await
}

async fn receive(call: Call, method: Method) -> Answer {
    let id = call.param("name")?.to_owned();
    let workspace = match call.query.one(WORKSPACE)? {
        None => WorkspaceId::default(),
        Some(name) => WorkspaceId::parse(name).ok_or_else(|| unknown(&id))?,
    };
    let document = find(&call, &workspace, &id).await?;
    let expected = expected(call.app.engine(), &workspace, &document)?;
    if let (true, Some(token)) = (method == Method::GET, call.query.one("crc_token")?)
        && let Some(answer) = expected.crc_answer(token)
    {
        verified(&call, &workspace, &id, &document).await?;
        return ok(json!({"response_token": answer}));
    }
    expected.check(&|name| single(&call.headers, name), &call.body, call.now().0)?;
    let body = body(&call, &expected)?;
    if let Some(challenge) = challenge(&expected, &body) {
        verified(&call, &workspace, &id, &document).await?;
        return text(challenge);
    }
    let event = Event {
        id: call.app.engine().fresh_run().to_string(),
        name: document["name"].as_str().unwrap_or_default().to_owned(),
        created_by: document["createdBy"].clone(),
        payload: payload(body, &call.query),
        webhook: id.clone(),
        workspace: workspace.clone(),
    };
    let handled = handle(&call, &event, &document).await;
    note(&call, &event, &handled).await?;
    let (_, conflicts) = handled?;
    verified(&call, &workspace, &id, &document).await?;
    let mut answer = done()?;
    if !conflicts.is_empty() {
        answer.headers_mut().insert("x-idempotent-replayed", axum::http::HeaderValue::from_static("true"));
    }
    Ok(answer)
}

async fn find(call: &Call, workspace: &WorkspaceId, id: &str) -> Result<Json, Problem> {
    let (owner, key) = (workspace.clone(), id.to_owned());
    let row = call.app.read(move |store| documents::live(store, &owner, WEBHOOKS, &key)).await?;
    row.map(|row| row.value).ok_or_else(|| unknown(id))
}

/// The first that proves itself shows that the address is right.
async fn verified(call: &Call, workspace: &WorkspaceId, id: &str, document: &Json) -> Result<(), Problem> {
    if document["urlVerified"] == true {
        return Ok(());
    }
    let mut document = find(call, workspace, id).await?;
    document["urlVerified"] = json!(true);
    let write = documents::written(workspace.clone(), WEBHOOKS, id.to_owned(), document, true, None);
    call.app.write(write).await.map(|_| ())
}

/// The body as JSON where it is, else as a text.
fn body(call: &Call, expected: &Expected) -> Result<Json, Problem> {
    let text = json::utf8(&call.body)?;
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    json::check_depth(&call.body, call.app.limits().json_depth_max)?;
    let read: Option<Json> = serde_json::from_str(text).ok();
    match (read, expected.verifier) {
        (Some(Json::Object(fields)), _) => Ok(Json::Object(fields)),
        // The signature of other texts can be had for the asking: see `crc_answer`.
        (_, Verifier::Twitter) => Err(Problem::new(Code::BodyInvalid, "the body must be a JSON object")),
        (Some(other), _) => Ok(other),
        (None, _) => Ok(text.into()),
    }
}

/// What Slack asks of an address before it sends anything there.
fn challenge(expected: &Expected, body: &Json) -> Option<String> {
    let asked = expected.verifier == Verifier::SlackBased && body["type"] == "url_verification";
    body["challenge"].as_str().filter(|_| asked).map(str::to_owned)
}

/// What workflows get. Parameters are signed by nobody, so they stand beside the body and never over it.
fn payload(body: Json, query: &Query) -> Map<String, Json> {
    let mut payload = match body {
        Json::Object(fields) => fields,
        other => Map::from_iter([("request".to_owned(), other)]),
    };
    for (name, value) in query.0.iter().filter(|(name, _)| name != WORKSPACE) {
        payload.entry(name.clone()).or_insert_with(|| value.as_str().into());
    }
    payload
}

/// The workflows that were started or went on, and what was refused for its key.
type Handled = Result<(Vec<String>, Vec<String>), Problem>;

async fn handle(call: &Call, event: &Event, document: &Json) -> Handled {
    let document = document.as_object().cloned().unwrap_or_default();
    if !is_meant(call, event, &document).await? {
        return Ok((Vec::new(), Vec::new()));
    }
    let starts = Starts::read(&document)?;
    let key = key(&starts, event)?;
    let flows: Vec<(String, Arc<LoadedFlow>)> =
        starts.workflows.iter().map(|(name, version)| flow(call, event, name, *version)).collect::<Result<_, _>>()?;
    let mut ids = complete(call, event, &receivers(&document)?).await?;
    let mut conflicts = Vec::new();
    for (name, flow) in flows {
        let occurrence = occurrence(event, &name, flow, key.clone(), starts.strategy);
        let result = call.app.admit(occurrence).await?;
        let run = result.run.map(|run| run.id.to_string()).unwrap_or_default();
        match result.decision {
            Decision::Reject => {
                let key = key.as_deref().unwrap_or_default();
                conflicts.push(format!("{name}: Workflow with the idempotency key {key} already exists: {run}"));
            }
            _ => ids.push(run),
        }
    }
    Ok((ids, conflicts))
}

/// Whether the webhook's `expression`, if it has one, holds of the payload.
async fn is_meant(call: &Call, event: &Event, document: &Map<String, Json>) -> Result<bool, Problem> {
    let text = |name: &str| document.get(name).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let Some(expression) = text("expression") else { return Ok(true) };
    let payload = Json::Object(event.payload.clone());
    let evaluator = text("evaluatorType");
    let judged = call.app.engine().condition_holds(&event.workspace, expression, evaluator, &event.id, &payload).await;
    judged.map_err(|error| {
        Problem::new(Code::ExpressionFailed, format!("the expression of the webhook cannot be judged: {error}"))
    })
}

fn key(starts: &Starts, event: &Event) -> Result<Option<String>, Problem> {
    let Some(template) = &starts.key else { return Ok(None) };
    let roots = Map::from_iter([("workflow".to_owned(), json!({"input": event.payload}))]);
    let unresolved = |error: String| {
        let detail = format!("the idempotencyKey `{template}` did not resolve, and nothing was started: {error}");
        Problem::new(Code::KeyUnresolved, detail)
    };
    let key = arrived_name(template, &roots).map_err(unresolved)?;
    check_key(&key)?;
    Ok(Some(key))
}

fn flow(call: &Call, event: &Event, name: &str, version: Option<u32>) -> Result<(String, Arc<LoadedFlow>), Problem> {
    match call.app.engine().workflow(&event.workspace, name, version) {
        Ok(flow) => Ok((name.to_owned(), flow)),
        Err(FlowLookupError::Store(error)) => Err(error.into()),
        Err(FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. }) => {
            Err(super::metadata::unknown(name, version))
        }
    }
}

fn occurrence(
    event: &Event,
    name: &str,
    flow: Arc<LoadedFlow>,
    key: Option<String>,
    strategy: Option<PresetName>,
) -> Occurrence {
    Occurrence {
        workspace: event.workspace.clone(),
        flow,
        door: Door::Webhook,
        caller: format!("webhook {}", event.name),
        request_preset: strategy.filter(|_| key.is_some()),
        caller_key: key,
        intrinsic_key: None,
        door_preset: PresetName::ConductorFail,
        scope: Some(ConductorFlow::key_scope(name)),
        inputs: Json::Object(event.payload.clone()),
        trigger: json!({"event": format!("{}:{}", event.name, event.id), "createdBy": event.created_by}).into(),
        trigger_id: None,
        labels: Vec::new(),
        correlation_id: None,
        run: None,
        start_at: None,
        breakpoints: Vec::new(),
    }
}

/// Completes every task that waits for this event; the workflows that go on.
async fn complete(call: &Call, event: &Event, receivers: &[(String, Option<u32>)]) -> Result<Vec<String>, Problem> {
    if receivers.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    let mut after: Option<Hash16> = None;
    loop {
        let workspace = event.workspace.clone();
        let read = move |store: &dyn semel_store::Store| store.errands(&workspace, ErrandKind::Webhook, after, PAGE);
        let rows = call.app.read(read).await?;
        let Some(last) = rows.last() else { return Ok(ids) };
        after = Some(last.id);
        for row in rows {
            if waits_for(call, event, receivers, &row).await? {
                ids.extend(answer(call, event, row).await?);
            }
        }
    }
}

async fn waits_for(
    call: &Call,
    event: &Event,
    receivers: &[(String, Option<u32>)],
    row: &ErrandRow,
) -> Result<bool, Problem> {
    let (workspace, run) = (event.workspace.clone(), row.run);
    let Some((run, _, _)) = call.app.read(move |store| store.run(&workspace, run)).await? else { return Ok(false) };
    let name = run.flow.id.split(['~', '@']).next().unwrap_or_default();
    let version = run.flow.id.rsplit_once('@').and_then(|(_, version)| version.parse::<u32>().ok());
    let is_meant = |(wanted, of): &(String, Option<u32>)| wanted == name && (of.is_none() || *of == version);
    if !receivers.iter().any(is_meant) {
        return Ok(false);
    }
    let errand = call.app.engine().errand_of(&event.workspace, row.clone())?;
    Ok(matches(&errand.request["matches"], &Json::Object(event.payload.clone())))
}

/// All of what a task waits for is there. A task that names nothing is meant by no event.
fn matches(wanted: &Json, payload: &Json) -> bool {
    let text = |json: &Json| match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let Json::Object(wanted) = wanted else { return false };
    let found =
        |(path, value): (&String, &Json)| arrived_value(path, payload).is_some_and(|found| text(&found) == text(value));
    !wanted.is_empty() && wanted.iter().all(found)
}

/// The workflow that goes on; none if somebody else was faster.
async fn answer(call: &Call, event: &Event, row: ErrandRow) -> Result<Option<String>, Problem> {
    let (engine, workspace) = (call.app.engine().clone(), event.workspace.clone());
    let end = ErrandAnswer::Done { output: Json::Object(event.payload.clone()) };
    let by = Some(format!("webhook {}", event.name));
    let telling = tokio::spawn(async move { engine.answer_errand(&workspace, row, end, by).await });
    match telling.await.map_err(|_| Problem::internal("a write panicked"))? {
        Ok(row) => Ok(Some(row.run.to_string())),
        Err(ErrandError::Over(_) | ErrandError::Unknown) => Ok(None),
        Err(ErrandError::Store(error)) => Err(error.into()),
    }
}

/// Keeps what came of an event, also where that is nothing.
async fn note(call: &Call, event: &Event, handled: &Handled) -> Result<(), Problem> {
    let mut payload = Json::Object(event.payload.clone()).to_string();
    if payload.len() > PAYLOAD_MAX {
        let end = (0..=PAYLOAD_MAX).rev().find(|end| payload.is_char_boundary(*end)).unwrap_or(0);
        payload.truncate(end);
    }
    let now = call.now();
    let mut entry = json!({"eventId": event.id, "matched": false, "payload": payload, "timeStamp": now.0,
        "workflowIds": []});
    match handled {
        Ok((ids, conflicts)) => {
            entry["matched"] = json!(!ids.is_empty());
            entry["workflowIds"] = json!(ids);
            if !conflicts.is_empty() {
                entry["errors"] = json!(conflicts);
            }
        }
        Err(problem) => entry["errors"] = json!([problem.detail]),
    }
    let key = format!("{}\n{}\n{}", event.webhook, newest_first(now), event.id);
    let write = documents::written(event.workspace.clone(), WEBHOOK_EVENTS, key, entry, true, Some(REMEMBERED_MS));
    call.app.write(write).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_meant_when_all_it_waits_for_is_there() {
        let payload = json!({"event": {"type": "paid"}, "n": 7});
        assert!(matches(&json!({"$['event']['type']": "paid", "$.n": "7"}), &payload));
        assert!(matches(&json!({"$.n": 7}), &payload));
        for wrong in [json!({"$.n": 8}), json!({"$.n": 7, "$.gone": "x"}), json!({}), json!(null)] {
            assert!(!matches(&wrong, &payload), "{wrong}");
        }
    }

    #[test]
    fn nobody_writes_over_what_is_signed() {
        let query =
            Query(vec![("id".into(), "forged".into()), ("more".into(), "x".into()), ("workspace".into(), "w".into())]);
        let given = payload(json!({"id": "real"}), &query);
        assert_eq!(Json::Object(given), json!({"id": "real", "more": "x"}));
        assert_eq!(Json::Object(payload(json!([1]), &Query::default())), json!({"request": [1]}));
    }
}
