//! `POST /v1/workflows/{id}/trigger`: start a run, or be shown the run of the same key.
//!
//! Without a block in the flow this door has the policy `trigger`: any later call with a known key
//! is answered with that key's run, whatever its payload and however the run ended, for 24 hours
//! from the first receipt.

use super::answer::{self, Style};
use super::event;
use crate::call::{Answer, Call, check_json_type};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use crate::spelling::Spelling;
use crate::state::TriggerScope;
use semel_core::Door;
use semel_core::admission::PresetName;
use semel_core::ir::KeyScope;
use semel_engine::{Occurrence, TriggerValue};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

pub async fn post(mut call: Call) -> Answer {
    let key = event::header_key(&call.headers)?;
    let wait = event::prefer_wait(&call.headers, call.app.limits().prefer_wait_ms_max);
    check_json_type(&call.headers, &call.body)?;
    let data = data(&call.body, call.app.limits().json_depth_max)?;
    let headers = std::mem::take(&mut call.headers);
    let who = call.principal()?;
    let flow = call.app.engine().resolve_flow(&who.workspace, call.param("id")?)?;
    let occurrence = Occurrence {
        workspace: who.workspace.clone(),
        flow,
        door: Door::Trigger,
        caller: who.name.clone(),
        trigger: TriggerValue::Request {
            headers: Arc::new(move || event::visible_headers(&headers, &Spelling::default(), None)),
        },
        caller_key: key,
        intrinsic_key: None,
        door_preset: PresetName::Trigger,
        request_preset: None,
        scope: match call.app.config().trigger_scope {
            TriggerScope::Flow => None,
            TriggerScope::Workspace => Some(KeyScope::Workspace),
        },
        inputs: data,
        trigger_id: None,
        labels: Vec::new(),
        correlation_id: None,
        run: None,
        start_at: None,
        breakpoints: vec![],
    };
    let result = call.app.admit(occurrence).await?;
    let style = Style { wait, preference_applied: true, outputs: true, decision: false, bare: None };
    answer::admitted(&call.app, &who.workspace, result, style).await
}

/// The `data` object of the body; no body means `{}`.
fn data(body: &[u8], depth_max: usize) -> Result<Json, Problem> {
    let empty = || Json::Object(Map::new());
    if body.is_empty() {
        return Ok(empty());
    }
    let Json::Object(mut fields) = json::parse(body, depth_max)? else {
        return Err(Problem::new(Code::BodyInvalid, "the body must be an object: {\"data\": {…}}"));
    };
    let data = fields.shift_remove("data");
    if let Some(other) = fields.keys().next() {
        let hint = "inputs go inside `data`; the key goes into the header Idempotency-Key";
        return Err(Problem::field(other, "is not a field of the body, which has only `data`").hint(hint));
    }
    match data {
        None => Ok(empty()),
        Some(data @ Json::Object(_)) => Ok(data),
        Some(_) => Err(Problem::field("data", "must be an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_body_is_an_object_with_an_object_in_it() {
        let read = |text: &str| data(text.as_bytes(), 64).map_err(|problem| problem.code);
        assert_eq!(read(""), Ok(json!({})));
        assert_eq!(read("{}"), Ok(json!({})));
        assert_eq!(read(r#"{"data":{}}"#), Ok(json!({})));
        assert_eq!(read(r#" {"data":{"a":[1]}} "#), Ok(json!({"a": [1]})));
        for bad in [
            "[]",
            "null",
            "1",
            r#"{"data":[]}"#,
            r#"{"data":null}"#,
            r#"{"date":{}}"#,
            r#"{"data":{},"idempotency_key":"k"}"#,
        ] {
            assert_eq!(read(bad), Err(Code::BodyInvalid), "{bad}");
        }
        assert_eq!(read("{"), Err(Code::BodyNotJson));
        assert_eq!(read(r#"{"data":{"a":1,"a":2}}"#), Err(Code::JsonDuplicateKey));
        let deep = |levels: usize| format!(r#"{{"data":{{"a":{}{}}}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(read(&deep(62)).is_ok());
        assert_eq!(read(&deep(63)), Err(Code::JsonTooDeep));
    }
}
