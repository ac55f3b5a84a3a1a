//! `/api/metadata/webhook`: where events arrive from outside, who may send them, and what they set going.
//!
//! What proves a sender is kept encrypted and shown as `***`; `***` that is written back keeps it.

use super::start::strategy;
use super::tags::{self, Kind};
use super::{body, documents, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::WorkspaceId;
use semel_core::admission::PresetName;
use semel_engine::proof::{Expected, Verifier, public_point};
use semel_engine::{EVALUATORS, Engine, SecretValue};
use semel_store::{KvRow, WEBHOOK_EVENTS, WEBHOOKS};
use serde_json::{Map, Value as Json, json};

pub const MASK: &str = "***";
/// Entries of `workflowsToStart` that are no workflows.
const KEY: &str = "idempotencyKey";
const STRATEGY: &str = "idempotencyStrategy";
/// Workflows of one webhook.
const WORKFLOWS_MAX: usize = 100;
/// What has arrived lately, as much of it as is shown.
const SHOWN_MAX: usize = 50;

pub fn unknown(id: &str) -> Problem {
    Problem::new(Code::WebhookUnknown, format!("Webhook with id {id} does not exist"))
}

pub async fn check(call: &Call, id: &str) -> Result<(), Problem> {
    documents::find(call, WEBHOOKS, id).await?.map(|_| ()).ok_or_else(|| unknown(id))
}

/// What the events of a webhook start, and under which key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Starts {
    pub workflows: Vec<(String, Option<u32>)>,
    pub key: Option<String>,
    /// FAIL where nothing else is said.
    pub strategy: Option<PresetName>,
}

fn version(name: &str, given: &Json) -> Result<Option<u32>, Problem> {
    let number = match given {
        Json::Null => Some(0),
        Json::String(text) if text.trim().is_empty() => Some(0),
        Json::String(text) => text.trim().parse::<u64>().ok(),
        other => other.as_u64(),
    };
    let number = number.and_then(|number| u32::try_from(number).ok());
    let wrong = || Problem::field("workflowsToStart", format!("{name}: `{given}` is not the version of a workflow"));
    Ok(Some(number.ok_or_else(wrong)?).filter(|version| *version > 0))
}

impl Starts {
    pub fn read(document: &Map<String, Json>) -> Result<Starts, Problem> {
        let listed = body::map(document, "workflowsToStart")?.unwrap_or_default();
        let mut starts = Starts::default();
        for (name, given) in &listed {
            match name.as_str() {
                KEY => starts.key = body::field(&listed, KEY)?.filter(|key| !key.trim().is_empty()),
                STRATEGY => starts.strategy = strategy(&body::field(&listed, STRATEGY)?.unwrap_or_default())?,
                name => starts.workflows.push((name.to_owned(), version(name, given)?)),
            }
        }
        Ok(starts)
    }
}

/// Workflows whose WAIT_FOR_WEBHOOK tasks the events are for.
pub fn receivers(document: &Map<String, Json>) -> Result<Vec<(String, Option<u32>)>, Problem> {
    let listed = body::map(document, "receiverWorkflowNamesToVersions")?.unwrap_or_default();
    listed.iter().map(|(name, given)| Ok((name.clone(), version(name, given)?))).collect()
}

/// The name of the secret that a text stands for, as `${workflow.secrets.NAME}`.
fn reference(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${workflow.secrets.")?.strip_suffix('}').filter(|name| !name.contains(['$', '{', '}']))
}

/// What a sender of the webhook must show.
pub fn expected(engine: &Engine, workspace: &WorkspaceId, document: &Json) -> Result<Expected, Problem> {
    let unseal = |name: &str| match document["sealed"][name].as_str() {
        Some(sealed) => engine.unseal(workspace, sealed).map_err(Problem::from),
        None => Ok(String::new()),
    };
    let mut secret = unseal("secretValue")?;
    if let Some(name) = reference(&secret) {
        secret = match engine.secret_value(workspace, name)? {
            SecretValue::Known(value) => value,
            // Nothing that is empty proves anything.
            SecretValue::Withheld | SecretValue::Missing => String::new(),
        };
    }
    let headers: Map<String, Json> = serde_json::from_str(&unseal("headers")?).unwrap_or_default();
    let word = document["verifier"].as_str().unwrap_or_default();
    let verifier = Verifier::parse(word).ok_or_else(|| Problem::internal("a webhook without a verifier"))?;
    let own = document["secretKey"].as_str().filter(|_| verifier == Verifier::SendGrid && secret.is_empty());
    Ok(Expected {
        verifier,
        header: document["headerKey"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
        secret: own.map_or(secret, str::to_owned),
        headers: headers.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect(),
    })
}

/// The document as it is kept; `before` has what is written back as `***`.
fn sealed(call: &Call, mut given: Map<String, Json>, before: Option<&Json>) -> Result<Map<String, Json>, Problem> {
    let (engine, workspace) = (call.app.engine(), call.workspace()?);
    let mut kept = before.map(|before| before["sealed"].clone()).filter(Json::is_object).unwrap_or_else(|| json!({}));
    match body::field(&given, "secretValue")? {
        Some(value) if value == MASK => {}
        Some(value) if !value.is_empty() => kept["secretValue"] = engine.seal(&workspace, &value)?.into(),
        _ => {
            if let Json::Object(kept) = &mut kept {
                kept.remove("secretValue");
            }
        }
    }
    let old: Map<String, Json> = match kept["headers"].as_str() {
        Some(sealed) => serde_json::from_str(&engine.unseal(&workspace, sealed)?).unwrap_or_default(),
        None => Map::new(),
    };
    let mut headers = Map::new();
    for (name, value) in body::map(&given, "headers")?.unwrap_or_default() {
        let Json::String(value) = value else {
            return Err(Problem::field("headers", "the values of headers are texts"));
        };
        let value = match value == MASK {
            true => old.get(&name).cloned().unwrap_or_default(),
            false => value.into(),
        };
        headers.insert(name, value);
    }
    let names: Vec<String> = headers.keys().cloned().collect();
    kept["headers"] = engine.seal(&workspace, &Json::Object(headers).to_string())?.into();
    given.insert("headers".to_owned(), names.into_iter().map(|name| (name, json!(MASK))).collect::<Map<_, _>>().into());
    given.remove("secretValue");
    given.insert("sealed".to_owned(), kept);
    Ok(given)
}

/// Refuses what could not be served: nothing is kept that would refuse every event.
fn checked(given: &Map<String, Json>, has_secret: bool) -> Result<(), Problem> {
    let text = |name: &str| -> Result<Option<String>, Problem> {
        Ok(body::field(given, name)?.filter(|text| !text.trim().is_empty()))
    };
    if text("name")?.is_none_or(|name| name.len() > 255) {
        return Err(Problem::field("name", "the name of a webhook has 1 to 255 bytes"));
    }
    let word = text("verifier")?.unwrap_or_default();
    let Some(verifier) = Verifier::parse(&word) else {
        let words: Vec<&str> = Verifier::ALL.iter().map(|verifier| verifier.word()).collect();
        return Err(Problem::field("verifier", format!("`{word}` is none of {}", words.join(", "))));
    };
    let headers = body::map(given, "headers")?.unwrap_or_default();
    match verifier {
        Verifier::HeaderBased
            if headers.values().any(|value| value.as_str().is_none_or(str::is_empty)) || headers.is_empty() =>
        {
            return Err(Problem::field("headers", "HEADER_BASED needs at least one header, each with a value"));
        }
        Verifier::SignatureBased | Verifier::HmacBased if text("headerKey")?.is_none() => {
            return Err(Problem::field("headerKey", "names the header that has the signature"));
        }
        Verifier::HeaderBased => {}
        Verifier::SendGrid if text("secretKey")?.is_some_and(|key| public_point(&key).is_some()) => {}
        _ if has_secret => {}
        _ => return Err(Problem::field("secretValue", format!("{word} needs a secret"))),
    }
    if let Some(word) = text("evaluatorType")?.filter(|word| !EVALUATORS.contains(&word.as_str())) {
        return Err(Problem::field("evaluatorType", format!("`{word}` is none of javascript and value-param")));
    }
    let (starts, receivers) = (Starts::read(given)?, receivers(given)?);
    if starts.workflows.len() + receivers.len() > WORKFLOWS_MAX {
        return Err(Problem::field("workflowsToStart", format!("a webhook has at most {WORKFLOWS_MAX} workflows")));
    }
    if starts.workflows.is_empty() && receivers.is_empty() {
        let message = "nothing would come of an event: name a workflow here or in receiverWorkflowNamesToVersions";
        return Err(Problem::field("workflowsToStart", message));
    }
    Ok(())
}

async fn keep(call: &Call, id: &str, given: Map<String, Json>, before: Option<&Json>) -> Result<Json, Problem> {
    let mut given = given;
    given.retain(|_, value| !value.is_null());
    for own in ["webhookExecutionHistory", "sealed"] {
        given.remove(own);
    }
    let listed = given.remove("tags");
    let secret = body::field(&given, "secretValue")?.filter(|value| !value.is_empty());
    let known = before.is_some_and(|before| before["sealed"]["secretValue"].is_string());
    checked(&given, secret.is_some_and(|value| value != MASK || known))?;
    given.insert("id".to_owned(), id.into());
    let verified = before.is_some_and(|before| before["urlVerified"] == true);
    given.insert("urlVerified".to_owned(), verified.into());
    let by = before.map_or_else(|| Ok::<_, Problem>(json!(call.principal()?.name)), |b| Ok(b["createdBy"].clone()))?;
    given.insert("createdBy".to_owned(), by);
    Ok(json!({"document": sealed(call, given, before)?, "tags": listed}))
}

async fn written(call: &Call, id: &str, kept: Json, new: bool) -> Answer {
    let document = kept["document"].clone();
    if new && !documents::add(call, WEBHOOKS, id.to_owned(), document.clone()).await? {
        return Err(Problem::new(Code::Exists, format!("Webhook with id {id} already exists")));
    }
    if !new {
        documents::put(call, WEBHOOKS, id.to_owned(), document.clone()).await?;
    }
    if let Json::Array(listed) = &kept["tags"] {
        tags::put(call, Kind::Webhook, id, listed).await?;
    }
    ok(shown(call, id, document, true).await?)
}

pub async fn create(call: Call) -> Answer {
    let given = body::object(&call)?;
    let fresh = call.app.engine().fresh_run().to_string();
    let id = body::field(&given, "id")?.filter(|id| !id.is_empty()).unwrap_or(fresh);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if id.len() > 100 || !id.chars().all(fits) {
        return Err(Problem::field("id", "the id of a webhook is part of its address: 1 to 100 of A-Z a-z 0-9 _ - ."));
    }
    let kept = keep(&call, &id, given, None).await?;
    written(&call, &id, kept, true).await
}

pub async fn update(call: Call) -> Answer {
    let id = call.param("name")?.to_owned();
    let before = documents::find(&call, WEBHOOKS, &id).await?.ok_or_else(|| unknown(&id))?;
    let kept = keep(&call, &id, body::object(&call)?, Some(&before.value)).await?;
    written(&call, &id, kept, false).await
}

/// With masks for what is secret, and with what has arrived lately.
async fn shown(call: &Call, id: &str, document: Json, history: bool) -> Result<Json, Problem> {
    let mut fields = document.as_object().cloned().unwrap_or_default();
    if fields.remove("sealed").is_some_and(|sealed| sealed["secretValue"].is_string()) {
        fields.insert("secretValue".to_owned(), MASK.into());
    }
    if history {
        let (workspace, prefix, payloads) = (call.workspace()?, format!("{id}\n"), call.sees_payloads());
        let read = move |store: &dyn semel_store::Store| {
            documents::under(store, &workspace, WEBHOOK_EVENTS, &prefix, SHOWN_MAX)
        };
        let events = call.app.read(read).await?.into_iter().map(|row: KvRow| {
            let mut event = row.value;
            if !payloads {
                event["payload"] = json!("");
            }
            event
        });
        fields.insert("webhookExecutionHistory".to_owned(), events.collect());
    }
    tags::shown_with(call, Kind::Webhook, id, fields).await
}

pub async fn list(call: Call) -> Answer {
    let mut found = Vec::new();
    for row in documents::all(&call, WEBHOOKS, "").await? {
        found.push(shown(&call, &row.key, row.value, false).await?);
    }
    ok(found)
}

pub async fn get(call: Call) -> Answer {
    let id = call.param("name")?.to_owned();
    let row = documents::find(&call, WEBHOOKS, &id).await?.ok_or_else(|| unknown(&id))?;
    ok(shown(&call, &id, row.value, true).await?)
}

pub async fn delete(call: Call) -> Answer {
    let id = call.param("name")?.to_owned();
    tags::forget(&call, Kind::Webhook, &id).await?;
    match documents::delete(&call, WEBHOOKS, &id).await? {
        true => done(),
        false => Err(unknown(&id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: Json) -> Map<String, Json> {
        json.as_object().cloned().unwrap()
    }

    #[test]
    fn key_and_strategy_are_no_workflows() {
        let starts = Starts::read(&map(json!({"workflowsToStart":
            {"order": 2, "any": "", "idempotencyKey": "${workflow.input.id}", "idempotencyStrategy": "RETURN_EXISTING"}})));
        let starts = starts.unwrap();
        assert_eq!(starts.workflows, [("order".to_owned(), Some(2)), ("any".to_owned(), None)]);
        assert_eq!(starts.key.as_deref(), Some("${workflow.input.id}"));
        assert_eq!(starts.strategy, Some(PresetName::ConductorReturnExisting));
        for wrong in [json!({"w": "x"}), json!({"w": -1}), json!({"w": 1, "idempotencyStrategy": "SOMETIMES"})] {
            assert!(Starts::read(&map(json!({"workflowsToStart": wrong}))).is_err());
        }
    }

    #[test]
    fn what_could_not_be_served_is_refused() {
        let good = json!({"name": "n", "verifier": "SIGNATURE_BASED", "headerKey": "x", "workflowsToStart": {"w": 1}});
        assert!(checked(&map(good.clone()), true).is_ok());
        assert!(checked(&map(good.clone()), false).is_err(), "a secret is missing");
        for (field, value) in [
            ("name", json!("")),
            ("verifier", json!("NONE")),
            ("headerKey", json!("")),
            ("evaluatorType", json!("python")),
            ("workflowsToStart", json!({})),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            assert_eq!(checked(&map(wrong), true).unwrap_err().more.errors[0]["field"], field);
        }
        let by_header =
            json!({"name": "n", "verifier": "HEADER_BASED", "headers": {"k": ""}, "workflowsToStart": {"w": 1}});
        assert!(checked(&map(by_header), true).is_err());
    }

    #[test]
    fn a_secret_may_be_named() {
        assert_eq!(reference("${workflow.secrets.KEY}"), Some("KEY"));
        assert_eq!(reference("KEY"), None);
        assert_eq!(reference("${workflow.secrets.${x}}"), None);
    }
}
