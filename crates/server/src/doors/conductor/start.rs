//! Workflows that are started, in every form there is, with the key that makes a start happen once.
//!
//! | key | strategy | a workflow with this key | answer |
//! |---|---|---|---|
//! | none | any | | a new workflow |
//! | given | none, FAIL | is there | 409 |
//! | given | RETURN_EXISTING | is there | its id |
//! | given | FAIL_ON_RUNNING | is running or paused | 409 |
//! | given | FAIL_ON_RUNNING | has ended | a new workflow |
//!
//! The key belongs to the name of the workflow, whatever its version, and is claimed in the transaction that creates
//! the workflow. It may stand in the headers and in the body; two that differ are refused.

use super::metadata::{find, not_stored, version};
use super::{body, text};
use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use crate::refused::rejected;
use axum::http::{HeaderMap, HeaderValue};
use semel_core::admission::{Decision, PresetName, check_key};
use semel_core::ir::ConductorFlow;
use semel_core::{Door, RunId};
use semel_engine::Occurrence;
use semel_engine::flows::LoadedFlow;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// What a request to start a workflow says.
#[derive(Clone, Debug, Default)]
pub struct Start {
    pub name: String,
    pub version: Option<u32>,
    pub correlation_id: Option<String>,
    pub input: Map<String, Json>,
    pub domains: Option<Map<String, Json>>,
    /// A definition that comes with the request.
    pub definition: Option<Json>,
    pub priority: u64,
    pub created_by: Option<String>,
    pub key: Option<String>,
    pub strategy: Option<PresetName>,
}

/// `POST /workflow`: all of it in the body.
pub async fn request(call: Call) -> Answer {
    let start = Start::read(&body::object(&call)?, &call.headers)?;
    answer(&call, start).await
}

/// `POST /workflow/{name}`: the body is the input.
pub async fn named(call: Call) -> Answer {
    let start = of_input(&call, call.param("id")?.to_owned(), version(&call)?)?;
    answer(&call, start).await
}

/// `POST /workflow/start/{name}/{version}`: likewise.
pub async fn versioned(call: Call) -> Answer {
    let start = of_input(&call, call.param("name")?.to_owned(), path_version(&call)?)?;
    answer(&call, start).await
}

/// The version of the path; 0 is the newest.
pub fn path_version(call: &Call) -> Result<Option<u32>, Problem> {
    let version = call.param("version")?;
    let number: u32 =
        version.parse().map_err(|_| Problem::query("version", "must be a version, or 0 for the newest"))?;
    Ok(Some(number).filter(|number| *number > 0))
}

/// A start whose body is the input; the rest is in the query and the headers.
pub fn of_input(call: &Call, name: String, version: Option<u32>) -> Result<Start, Problem> {
    let (key, strategy) = header_key(&call.headers)?;
    Ok(Start {
        name,
        version,
        correlation_id: body::query(call, "correlationId")?,
        input: body::object(call)?,
        priority: priority(body::query_whole(call, "priority")?)?,
        key,
        strategy,
        ..Start::default()
    })
}

async fn answer(call: &Call, start: Start) -> Answer {
    let (id, replayed) = begin(call, start).await?;
    marked(text(id.to_string())?, replayed)
}

/// Says that an earlier start was answered with this.
pub fn marked(mut response: axum::response::Response, replayed: bool) -> Answer {
    if replayed {
        response.headers_mut().insert("x-idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn priority(given: Option<u64>) -> Result<u64, Problem> {
    match given.unwrap_or(0) {
        priority @ 0..=99 => Ok(priority),
        _ => Err(Problem::field("priority", "priority: must be between 0 and 99")),
    }
}

/// The strategy of this word; none for an empty one.
pub fn strategy(word: &str) -> Result<Option<PresetName>, Problem> {
    match word {
        "" => Ok(None),
        "FAIL" => Ok(Some(PresetName::ConductorFail)),
        "RETURN_EXISTING" => Ok(Some(PresetName::ConductorReturnExisting)),
        "FAIL_ON_RUNNING" => Ok(Some(PresetName::ConductorFailOnRunning)),
        other => {
            let message = format!("`{other}` is none of FAIL, RETURN_EXISTING and FAIL_ON_RUNNING");
            Err(Problem::field("idempotencyStrategy", message))
        }
    }
}

/// Key and strategy of the headers.
fn header_key(headers: &HeaderMap) -> Result<(Option<String>, Option<PresetName>), Problem> {
    let header = |name: &str| -> Result<Option<String>, Problem> {
        let mut given = headers.get_all(name).iter();
        let Some(first) = given.next() else { return Ok(None) };
        if given.any(|other| other != first) {
            return Err(Problem::new(Code::KeyRepeated, format!("the header {name} is there twice; send one")));
        }
        let text = std::str::from_utf8(first.as_bytes())
            .map_err(|_| Problem::new(Code::KeyNotUtf8, format!("the header {name} is not UTF-8")))?;
        Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
    };
    let (own, usual) = (header("x-idempotency-key")?, header("idempotency-key")?);
    let key = agreed(own, usual, "X-Idempotency-key", "Idempotency-Key")?;
    Ok((key, strategy(header("x-on-conflict")?.as_deref().unwrap_or_default())?))
}

/// What two places say, if they do not contradict each other.
fn agreed<T: PartialEq>(one: Option<T>, other: Option<T>, first: &str, second: &str) -> Result<Option<T>, Problem> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            let detail = format!("{first} and {second} of the request differ; send one of them, or the same in both");
            Err(Problem::new(Code::BodyInvalid, detail))
        }
        (one, other) => Ok(one.or(other)),
    }
}

impl Start {
    /// A StartWorkflowRequest; its key may stand in the headers as well.
    pub fn read(fields: &Map<String, Json>, headers: &HeaderMap) -> Result<Start, Problem> {
        let (key, on_conflict) = header_key(headers)?;
        let own = Start::of_request(fields)?;
        let key = agreed(key, own.key.clone(), "the key of the headers", "the key of the body")?;
        let strategy = agreed(on_conflict, own.strategy, "the strategy of the headers", "the strategy of the body")?;
        Ok(Start { key, strategy, ..own })
    }

    /// A StartWorkflowRequest as schedules, handlers and bodies hold it.
    pub fn of_request(fields: &Map<String, Json>) -> Result<Start, Problem> {
        if fields.get("input").is_some_and(Json::is_null) {
            return Err(Problem::field("input", "input cannot be null; leave it out, or send {}"));
        }
        body::refuse_stored(fields, "externalInputPayloadStoragePath", "input")?;
        let definition = body::map(fields, "workflowDef")?.map(Json::Object);
        let defined = definition.as_ref().and_then(|definition| definition["name"].as_str()).map(str::to_owned);
        let name = body::field(fields, "name")?.filter(|name| !name.is_empty()).or(defined);
        let version = body::whole(fields, "version")?.filter(|version| *version > 0);
        Ok(Start {
            name: name.ok_or_else(|| Problem::field("name", "Workflow name cannot be null or empty"))?,
            version: version
                .map(|version| u32::try_from(version).map_err(|_| Problem::field("version", "is too large")))
                .transpose()?,
            correlation_id: body::field(fields, "correlationId")?.filter(|id| !id.is_empty()),
            input: body::map(fields, "input")?.unwrap_or_default(),
            domains: body::map(fields, "taskToDomain")?.filter(|domains| !domains.is_empty()),
            definition,
            priority: priority(body::whole(fields, "priority")?)?,
            created_by: body::field(fields, "createdBy")?,
            key: body::field(fields, "idempotencyKey")?.filter(|key| !key.is_empty()),
            strategy: strategy(body::field(fields, "idempotencyStrategy")?.as_deref().unwrap_or_default())?,
        })
    }

    /// The definition that comes with the request, by the name of the request if it has none.
    pub fn named_definition(&self) -> Option<Json> {
        let mut definition = self.definition.clone()?;
        if definition["name"].as_str().is_none_or(str::is_empty) {
            definition["name"] = self.name.as_str().into();
        }
        Some(definition)
    }

    /// What the run keeps of the request besides its input.
    pub fn words(&self) -> Json {
        let mut words = Map::new();
        if self.priority > 0 {
            words.insert("priority".to_owned(), self.priority.into());
        }
        if let Some(domains) = &self.domains {
            words.insert("taskToDomain".to_owned(), Json::Object(domains.clone()));
        }
        // What a sub-workflow inherits that has a strategy and no key.
        if let Some(key) = &self.key {
            words.insert("key".to_owned(), key.as_str().into());
        }
        if let Some(by) = &self.created_by {
            words.insert("createdBy".to_owned(), by.as_str().into());
        }
        Json::Object(words)
    }
}

/// The definition that the request names or brings.
pub async fn definition(call: &Call, start: &Start) -> Result<Arc<LoadedFlow>, Problem> {
    let Some(definition) = start.named_definition() else { return find(call, &start.name, start.version) };
    let (workspace, by) = (call.workspace()?, call.principal()?.name.clone());
    let (engine, own) = (call.app.engine().clone(), definition.clone());
    let stored = tokio::spawn(async move { engine.inline_workflow(&workspace, &own, &by).await });
    let stored = stored.await.map_err(|_| Problem::internal("a push panicked"))?;
    stored.map_err(|error| not_stored(error, &definition))
}

/// Starts it, or finds the one that was started with its key: which one, and whether it was there.
pub async fn begin(call: &Call, start: Start) -> Result<(RunId, bool), Problem> {
    let flow = definition(call, &start).await?;
    let who = call.principal()?;
    if let Some(key) = &start.key {
        check_key(key)?;
    }
    let key = start.key.clone();
    let occurrence = Occurrence {
        workspace: who.workspace.clone(),
        door: Door::Conductor,
        caller: who.name.clone(),
        intrinsic_key: None,
        door_preset: PresetName::ConductorFail,
        // Without a key there is nothing that a strategy could be about.
        request_preset: start.strategy.filter(|_| key.is_some()),
        scope: Some(scope(&flow, &start.name)),
        trigger: start.words().into(),
        inputs: Json::Object(start.input),
        caller_key: start.key,
        flow,
        trigger_id: None,
        labels: Vec::new(),
        correlation_id: start.correlation_id,
        run: None,
        start_at: None,
        breakpoints: Vec::new(),
    };
    let result = call.app.admit(occurrence).await?;
    let (decision, reason) = (result.decision, result.reason);
    if decision == Decision::Reject {
        let refusal = rejected(reason, result.run.map(|run| run.id));
        return Err(match key {
            Some(key) if refusal.code.status().as_u16() == 409 => {
                let detail = format!("Workflow with the idempotency key {key} already exists");
                Problem { detail, ..refusal }
            }
            _ => refusal,
        });
    }
    let run = result.run.ok_or_else(|| Problem::internal("a decision without a run"))?;
    Ok((run.id, matches!(decision, Decision::Attach | Decision::Replay | Decision::Hold | Decision::Resume)))
}

/// Who shares the key: all versions of the workflow.
fn scope(flow: &LoadedFlow, name: &str) -> semel_core::ir::KeyScope {
    ConductorFlow::key_scope(flow.index.flow.conductor.as_ref().map_or(name, |own| &own.name))
}

/// A bare output map, `{}` for none.
pub fn output(values: &semel_store::RunValues) -> Json {
    match values.outputs.as_ref().map(semel_engine::public_json) {
        Some(Json::Object(fields)) => Json::Object(fields),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: Json, headers: &[(&'static str, &'static str)]) -> Result<Start, Problem> {
        let mut given = HeaderMap::new();
        for (name, value) in headers {
            given.append(*name, HeaderValue::from_static(value));
        }
        let Json::Object(fields) = body else { panic!() };
        Start::read(&fields, &given)
    }

    #[test]
    fn key_and_strategy_come_from_headers_or_body_and_must_agree() {
        let start = read(json!({"name": "w", "idempotencyKey": "k", "idempotencyStrategy": "FAIL"}), &[]).unwrap();
        assert_eq!((start.key.as_deref(), start.strategy), (Some("k"), Some(PresetName::ConductorFail)));
        let start = read(json!({"name": "w"}), &[("x-idempotency-key", "k"), ("x-on-conflict", "RETURN_EXISTING")]);
        let start = start.unwrap();
        assert_eq!((start.key.as_deref(), start.strategy), (Some("k"), Some(PresetName::ConductorReturnExisting)));
        assert!(read(json!({"name": "w", "idempotencyKey": "k"}), &[("x-idempotency-key", "other")]).is_err());
        assert!(read(json!({"name": "w", "idempotencyKey": "k"}), &[("x-idempotency-key", "k")]).is_ok());
        assert!(read(json!({"name": "w", "idempotencyStrategy": "SOMETIMES"}), &[]).is_err());
        assert_eq!(read(json!({"name": "w", "idempotencyKey": ""}), &[]).unwrap().key, None);
    }

    #[test]
    fn a_request_is_read_as_clients_write_it() {
        let start = read(json!({"name": "w", "version": "", "input": {"a": 1}, "priority": null}), &[]).unwrap();
        assert_eq!((start.version, start.priority, start.input.len()), (None, 0, 1));
        assert!(read(json!({"name": "w", "input": null}), &[]).is_err());
        assert!(read(json!({"name": "w", "externalInputPayloadStoragePath": "s3/x.json"}), &[]).is_err());
        assert!(read(json!({"name": "w", "externalInputPayloadStoragePath": ""}), &[]).is_ok());
        assert!(read(json!({"version": 1}), &[]).is_err());
        assert!(read(json!({"name": "w", "priority": 100}), &[]).is_err());
        assert_eq!(read(json!({"workflowDef": {"name": "own", "tasks": []}}), &[]).unwrap().name, "own");
    }
}
