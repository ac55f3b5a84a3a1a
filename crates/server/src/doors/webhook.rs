//! `GET|POST|PUT /v1/webhooks/{namespace}/{flow}/{key}`: events from providers that cannot send a
//! token. The key in the URL finds the trigger, and the trigger's signature rule, if it has one,
//! is checked over the raw bytes before they are parsed.
//!
//! A flow that does not exist and a key that does not match get the same answer. The header
//! Idempotency-Key is data here, not a claim: the provider's own id is named by the flow's
//! `idempotency.key`, or signed as a Standard Webhooks id.

use super::answer::{self, Bare, Style};
use super::{event, webhook_body};
use crate::call::{Answer, Call, Query, no_content};
use crate::codes::Code;
use crate::problem::Problem;
use axum::http::HeaderMap;
use semel_core::admission::{PresetName, check_key};
use semel_core::ir::SignatureScheme;
use semel_core::{Door, FlowRef, WorkspaceId};
use semel_engine::flows::LoadedFlow;
use semel_engine::{FlowLookupError, Occurrence, Webhook};
use semel_store::AdmitResult;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

/// Selects the workspace; every other parameter is the sender's.
const WORKSPACE: &str = "workspace";

pub async fn receive(call: Call) -> Answer {
    let workspace = workspace(&call.query)?;
    let Some((webhook, result)) = deliver(&call, &workspace).await? else { return no_content() };
    let wait = webhook.wait.then(|| Duration::from_millis(call.app.limits().prefer_wait_ms_max));
    let bare = (webhook.response_code.is_some() || webhook.response_type.is_some())
        .then(|| Bare { code: webhook.response_code.unwrap_or(200), kind: webhook.response_type });
    let style = Style { wait, preference_applied: false, outputs: webhook.return_outputs, decision: false, bare };
    answer::admitted(&call.app, &workspace, result, style).await
}

/// Finds the webhook of the path, checks its proof and admits the event; `None` if the trigger's conditions do not want
/// it.
pub async fn deliver(call: &Call, workspace: &WorkspaceId) -> Result<Option<(Webhook, AdmitResult)>, Problem> {
    let (flow, webhook) = find(call, workspace)?;
    if let Some(rule) = &webhook.signature {
        call.app.engine().verify_signature(rule, &|name| single(&call.headers, name), &call.body)?;
    }
    let intrinsic_key = signed_id(&webhook, &call.headers)?;
    let sent = webhook_body::read(call, workspace, &flow.flow_ref, webhook.store_body).await?;
    let proof = webhook.signature.as_ref().and_then(|rule| rule.header.as_deref());
    let mut trigger = sent.fields;
    trigger.insert("headers".to_owned(), event::visible_headers(&call.headers, &call.spelling, proof));
    trigger.insert("parameters".to_owned(), parameters(&call.query));
    if let Some(path) = call.part("path") {
        trigger.insert("path".to_owned(), path.into());
    }
    let occurrence = Occurrence {
        workspace: workspace.clone(),
        flow,
        door: Door::Webhook,
        caller: format!("webhook {}", webhook.trigger_id),
        caller_key: None,
        intrinsic_key,
        door_preset: PresetName::Semel,
        request_preset: None,
        scope: None,
        inputs: json!({}),
        trigger: Json::Object(trigger).into(),
        trigger_id: Some(webhook.trigger_id.clone()),
        labels: Vec::new(),
        correlation_id: None,
        run: sent.run,
        start_at: None,
        breakpoints: vec![],
    };
    if !call.app.engine().is_wanted(&occurrence) {
        return Ok(None);
    }
    let result = call.app.admit(occurrence).await?;
    Ok(Some((webhook, result)))
}

fn unknown() -> Problem {
    Problem::new(Code::WebhookUnknown, "no webhook at this address; check namespace, flow and key in the URL")
}

fn workspace(query: &Query) -> Result<WorkspaceId, Problem> {
    match query.one(WORKSPACE)? {
        None => Ok(WorkspaceId::default()),
        Some(name) => WorkspaceId::parse(name).ok_or_else(unknown),
    }
}

fn find(call: &Call, workspace: &WorkspaceId) -> Result<(Arc<LoadedFlow>, Webhook), Problem> {
    let address = FlowRef::new(call.param("namespace")?, call.param("flow")?);
    let flow = match call.app.engine().flow(workspace, &address) {
        Ok(flow) => flow,
        Err(FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. }) => return Err(unknown()),
        Err(FlowLookupError::Store(error)) => return Err(error.into()),
    };
    let webhook = call.app.engine().find_webhook(workspace, &flow, call.param("key")?)?.ok_or_else(unknown)?;
    Ok((flow, webhook))
}

/// The value of a header that is there once: with two, the proof could be about the other one.
pub fn single(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?.to_owned();
    values.next().is_none().then_some(first)
}

/// The message id that a Standard Webhooks signature covers names the event, so that a captured
/// delivery cannot be sent again within the tolerance. Other schemes sign no id.
fn signed_id(webhook: &Webhook, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let signs_id = webhook.signature.as_ref().is_some_and(|rule| rule.scheme == SignatureScheme::StandardWebhooks);
    let Some(id) = signs_id.then(|| single(headers, "webhook-id")).flatten() else { return Ok(None) };
    check_key(&id)?;
    Ok(Some(format!("{}:{id}", webhook.trigger_id)))
}

fn parameters(query: &Query) -> Json {
    let mut out = Map::new();
    for (name, value) in query.0.iter().filter(|(name, _)| name != WORKSPACE) {
        let values = out.entry(name.clone()).or_insert_with(|| Json::Array(Vec::new()));
        if let Json::Array(values) = values {
            values.push(value.as_str().into());
        }
    }
    Json::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use semel_engine::ResolvedSignature;

    #[test]
    fn parameters_keep_their_order_and_the_workspace_is_not_one() {
        let query =
            Query([("b", "1"), ("a", "2"), ("b", "3"), ("workspace", "w")].map(|(n, v)| (n.into(), v.into())).into());
        assert_eq!(parameters(&query), json!({"b": ["1", "3"], "a": ["2"]}));
        assert_eq!(workspace(&query).unwrap().0, "w");
        assert_eq!(workspace(&Query::default()).unwrap().0, "main");
        let bad = Query(vec![("workspace".into(), "../x".into())]);
        assert_eq!(workspace(&bad).unwrap_err().code, Code::WebhookUnknown);
    }

    #[test]
    fn a_proof_that_is_there_twice_counts_as_missing() {
        let mut headers = HeaderMap::new();
        headers.append("x-signature", HeaderValue::from_static("00"));
        assert_eq!(single(&headers, "X-Signature").as_deref(), Some("00"));
        headers.append("x-signature", HeaderValue::from_static("00"));
        assert_eq!(single(&headers, "X-Signature"), None);
    }

    #[test]
    fn only_a_signed_id_names_the_event() {
        let webhook = |scheme: Option<SignatureScheme>| Webhook {
            trigger_id: "hook".into(),
            wait: false,
            return_outputs: false,
            response_code: None,
            response_type: None,
            store_body: false,
            signature: scheme.map(|scheme| ResolvedSignature {
                scheme,
                secrets: vec![],
                header: None,
                tolerance_ms: 0,
            }),
        };
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_static("msg_1"));
        let id = |scheme| signed_id(&webhook(scheme), &headers).unwrap();
        assert_eq!(id(Some(SignatureScheme::StandardWebhooks)).as_deref(), Some("hook:msg_1"));
        for scheme in
            [None, Some(SignatureScheme::Github), Some(SignatureScheme::Stripe), Some(SignatureScheme::HmacSha256)]
        {
            assert_eq!(id(scheme), None);
        }
    }
}
