//! Stored rows as the API shows them. `payloads: false` is what a viewer sees: that things
//! happen, not what is in them.

use semel_core::admission::Claim;
use semel_core::run::{Event, Payload, decode_events};
use semel_core::{FlowRef, Millis};
use semel_store::{
    DecisionRow, EffectRow, FlowRow, JournalRow, KvRow, LogRow, NodeRow, RunRow, RunValues, ScheduleRow, SecretRow,
    TokenRow, WorkspaceRow,
};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

fn time(at: Millis) -> Json {
    at.to_rfc3339().into()
}

fn maybe_time(at: Option<Millis>) -> Json {
    at.map_or(Json::Null, time)
}

fn payload(value: &Option<Json>, payloads: bool) -> Json {
    value.as_ref().filter(|_| payloads).map_or(Json::Null, semel_engine::public_json)
}

/// `{code, message, step}`; the message may quote a payload.
pub fn failure(values: &RunValues, payloads: bool) -> Json {
    let Some(Json::Object(failure)) = &values.failure else { return Json::Null };
    let field = |name: &str| failure.get(name).cloned().unwrap_or(Json::Null);
    let message = if payloads { field("message") } else { Json::Null };
    json!({"code": field("code"), "message": message, "step": field("step")})
}

pub fn run(row: &RunRow, values: &RunValues, labels: &[(String, String)], payloads: bool) -> Json {
    let labels: Map<String, Json> = labels.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    json!({
        "run_id": row.id.to_string(),
        "workflow_id": row.flow.to_string(),
        "revision": row.revision,
        "status": row.status.word(),
        "key": row.key,
        "correlation_id": row.correlation_id,
        "labels": labels,
        "inputs": payload(&values.inputs, payloads),
        "outputs": payload(&values.outputs, payloads),
        "error": failure(values, payloads),
        "created_at": time(row.created_at),
        "started_at": maybe_time(row.started_at),
        "ended_at": maybe_time(row.ended_at),
        "parent_run_id": row.parent.as_ref().map(|parent| parent.run.to_string()),
        "root_run_id": row.root.to_string(),
        "door": row.door.word(),
        "generation": row.generation,
        "take": row.take,
        "open_doubts": row.open_doubts,
        "open_intents": row.open_intents,
        "warnings": row.warned,
        "erased": row.erased,
    })
}

/// Fields of events that hold a user's value; the stored form has its digest there.
const EVENT_VALUES: &[&str] =
    &["inputs", "trigger", "labels", "payload", "output", "outputs", "items", "request", "result"];

fn event(mut event: Event, payloads: bool) -> Json {
    let mut shown = serde_json::to_value(&event).unwrap_or(Json::Null);
    let values: HashMap<String, Json> = event
        .payloads_mut()
        .into_iter()
        .map(|p: &mut Payload| (p.digest.hex(), semel_engine::public_json(p.json())))
        .collect();
    let open = |slot: &mut Json| {
        if let Some(digest) = slot.as_str() {
            *slot = values.get(digest).filter(|_| payloads).cloned().unwrap_or(Json::Null);
        }
    };
    if let Some(fields) = shown.as_object_mut() {
        for name in EVENT_VALUES {
            if let Some(slot) = fields.get_mut(*name) {
                open(slot);
            }
        }
        if let Some(slot) = fields.get_mut("failure").and_then(|failure| failure.get_mut("message")) {
            open(slot);
        }
    }
    shown
}

/// A journal row; `None` when it cannot be read, which means that the store is damaged.
pub fn journal(row: &JournalRow, payloads: bool) -> Option<Json> {
    let events = decode_events(&row.events, row.values.as_deref()).ok()?;
    let events: Vec<Json> = events.into_iter().map(|one| event(one, payloads)).collect();
    Some(json!({"seq": row.seq, "at": time(row.at), "events": events}))
}

pub fn log(row: &LogRow, payloads: bool) -> Json {
    let message = if payloads { json!(row.message) } else { Json::Null };
    json!({"seq": row.seq, "at": time(row.at), "level": row.level, "step": row.step.0, "message": message})
}

pub fn effect(row: &EffectRow) -> Json {
    json!({
        "step_id": row.step_id.hex(),
        "step": row.step.0,
        "class": row.class.word(),
        "state": row.state,
        "attempt": row.attempt,
        "sends": row.sends,
        "key": row.out_key,
        "safe_until": maybe_time(row.safe_until),
        "at": time(row.at),
    })
}

pub fn decision(row: &DecisionRow) -> Json {
    json!({
        "seq": row.seq,
        "at": time(row.at),
        "door": row.door.word(),
        "occurrence": row.occurrence,
        "workflow_id": row.flow.to_string(),
        "scope": row.scope,
        "key": row.key,
        "key_source": row.key_source,
        "claim": row.claim,
        "fingerprint": row.fingerprint,
        "prior": row.prior,
        "prior_run_id": row.prior_run.map(|run| run.to_string()),
        "same_payload": row.same_payload,
        "decision": row.decision.word(),
        "reason": row.reason,
        "run_id": row.run.map(|run| run.to_string()),
        "generation": row.generation,
        "caller": row.caller,
        "policy": row.policy,
        "rules_version": row.rules_version,
    })
}

/// A decision as an entry of a run's history.
pub fn replay(row: &DecisionRow) -> Json {
    json!({
        "seq": row.seq,
        "at": time(row.at),
        "door": row.door.word(),
        "decision": row.decision.word(),
        "reason": row.reason,
        "same_payload": row.same_payload,
        "caller": row.caller,
    })
}

/// The flow named by a claim's scope, where the scope is one flow.
pub fn scope_flow(scope: &str) -> Option<&str> {
    scope.strip_prefix("door:").unwrap_or(scope).strip_prefix("flow:")
}

pub fn claim(row: &Claim) -> Json {
    json!({
        "key": row.key,
        "scope": row.scope,
        "state": row.state.word(),
        "run_id": row.run.to_string(),
        "workflow_id": scope_flow(&row.scope),
        "generation": row.generation,
        "first_seen": time(row.first_seen),
        "completed_at": maybe_time(row.completed_at),
        "expires_at": maybe_time(row.expires_at()),
        "claim": row.hash.hex(),
        "fingerprint": row.fingerprint,
    })
}

/// A flow without its source. Descriptions and triggers are read from the compiled form.
pub fn flow(row: &FlowRow) -> Json {
    let ir: Json = serde_json::from_str(&row.ir).unwrap_or(Json::Null);
    let triggers = ir["triggers"].as_array().map_or(&[][..], Vec::as_slice);
    json!({
        "workflow_id": row.flow.to_string(),
        "namespace": row.flow.namespace,
        "id": row.flow.id,
        "revision": row.revision,
        "description": ir["description"],
        "disabled": row.disabled,
        "created_at": time(row.created_at),
        "created_by": row.created_by,
        "triggers": triggers.iter().map(trigger).collect::<Vec<_>>(),
    })
}

/// A trigger of the compiled form. The URL key and the secrets of a webhook are left out: they
/// may be written in the flow as they are.
fn trigger(ir: &Json) -> Json {
    let kind = &ir["kind"];
    let mut out = json!({"id": ir["id"], "type": kind["kind"], "disabled": ir["disabled"]});
    for name in ["cron", "timezone", "wait"] {
        if let Some(value) = kind.get(name) {
            out[name] = value.clone();
        }
    }
    if let Some(scheme) = kind.get("signature").and_then(|signature| signature.get("scheme")) {
        out["signature"] = scheme.clone();
    }
    out
}

pub fn kv(row: &KvRow, payloads: bool) -> Json {
    let mut out = json!({
        "namespace": row.namespace,
        "key": row.key,
        "value": if payloads { row.value.clone() } else { Json::Null },
        "type": row.kv_type,
        "revision": row.revision,
        "updated_at": time(row.updated_at),
        "expires_at": maybe_time(row.expires_at),
    });
    if !payloads {
        // Null is a value of its own here, so say that it is not one.
        out["withheld"] = true.into();
    }
    out
}

pub fn secret(row: &SecretRow) -> Json {
    json!({"name": row.name, "version": row.version, "created_at": time(row.created_at)})
}

pub fn token(row: &TokenRow) -> Json {
    json!({
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "workspace": row.workspace.0,
        "created_at": time(row.created_at),
        "expires_at": maybe_time(row.expires_at),
        "revoked_at": maybe_time(row.revoked_at),
    })
}

pub fn workspace(row: &WorkspaceRow) -> Json {
    json!({"id": row.id.0, "created_at": time(row.created_at)})
}

pub fn schedule(row: &ScheduleRow) -> Json {
    json!({
        "workflow_id": row.flow.to_string(),
        "trigger": row.trigger,
        "next_due": maybe_time(row.next_due),
        "last_fired": maybe_time(row.last_fired),
    })
}

pub fn node(row: &NodeRow) -> Json {
    json!({
        "epoch": row.epoch,
        "name": row.name,
        "version": row.version,
        "state": row.state.word(),
        "started_at": row.started_at.to_rfc3339(),
        "seen_at": row.seen_at.to_rfc3339(),
        "lease_until": maybe_time(row.lease_until),
        "runs_owned": row.runs_owned,
        "is_self": row.is_self,
    })
}

/// Reads `namespace:id`.
pub fn parse_flow_ref(text: &str) -> Option<FlowRef> {
    let (namespace, id) = text.split_once(':')?;
    (!namespace.is_empty() && !id.is_empty()).then(|| FlowRef::new(namespace, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::RunId;
    use semel_core::run::{Failure, encode_events};

    fn row() -> JournalRow {
        let events = vec![
            Event::Created {
                flow: FlowRef::new("a", "b"),
                revision: 1,
                logical: RunId::from_bytes([1; 16]),
                inputs: Payload::new(json!({"card": "4111"})),
                trigger: Payload::new(json!({"data": {}})),
                labels: Payload::new(json!({})),
                queued: false,
            },
            Event::AttemptFailed {
                step: semel_core::run::StepKey("pay".into()),
                attempt: 1,
                failure: Failure::new("http_status", "card 4111 refused"),
                doubt: false,
            },
        ];
        let (events, values) = encode_events(&events);
        JournalRow { run: RunId::from_bytes([1; 16]), seq: 1, at: Millis(0), format: 1, events, values }
    }

    #[test]
    fn a_journal_row_shows_values_to_those_who_may_see_them() {
        let full = journal(&row(), true).unwrap();
        assert_eq!(full["events"][0]["inputs"], json!({"card": "4111"}));
        assert_eq!(full["events"][0]["event"], "created");
        assert_eq!(full["events"][1]["failure"], json!({"code": "http_status", "message": "card 4111 refused"}));
        let viewer = journal(&row(), false).unwrap();
        assert!(!viewer.to_string().contains("4111"));
        assert_eq!(viewer["events"][1]["failure"], json!({"code": "http_status", "message": null}));
        let erased = journal(&JournalRow { values: None, ..row() }, true).unwrap();
        assert!(!erased.to_string().contains("4111"));
        assert!(journal(&JournalRow { events: b"?".to_vec(), ..row() }, true).is_none());
    }

    #[test]
    fn triggers_are_shown_without_what_is_secret_in_them() {
        let shown = trigger(&json!({"id": "hook", "disabled": false, "kind": {
            "kind": "webhook", "key": "hush", "wait": true,
            "signature": {"scheme": "stripe", "secrets": ["hush"], "header": null, "tolerance_ms": 1}}}));
        assert_eq!(
            shown,
            json!({"id": "hook", "type": "webhook", "disabled": false, "wait": true, "signature": "stripe"})
        );
    }

    #[test]
    fn scopes_name_their_flow() {
        assert_eq!(scope_flow("flow:a:b"), Some("a:b"));
        assert_eq!(scope_flow("door:flow:a:b"), Some("a:b"));
        assert_eq!(scope_flow("workspace"), None);
        assert_eq!(parse_flow_ref("a.b:c"), Some(FlowRef::new("a.b", "c")));
        assert_eq!(parse_flow_ref("c"), None);
    }
}
