//! HTTP and HTTP_POLL of Conductor: one request, with its answer in Conductor's shape.
//!
//! A 2xx answer is a success; any other fails the task, with the text of the answer as its `response`. A body that is
//! JSON comes as what it is; a number alone comes as a float and a boolean alone as text, as Conductor has them.

use super::http::{self, METHODS};
use crate::effect::{EffectWork, Outcome, Performing, Request, Tools};
use crate::net::{Answer, CallError};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

/// Time to connect, and to read: three seconds each, unless the author says otherwise.
const CONNECT_MS: u64 = 3_000;
const READ_MS: u64 = 3_000;

pub const SPEC: TaskSpec = TaskSpec {
    name: "conductor.HTTP",
    aliases: &["conductor.HTTP_POLL"],
    summary: "Send one HTTP request.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[],
    outputs: &["response"],
};

pub const WORK: Work = Work::Effect(EffectWork {
    class: |config| http::class(&shaped(config)),
    sends_key: |config| http::sends_key(&shaped(config)),
    timeout_ms: |config| Some(time_ms(request_of(config))),
    perform,
});

/// The request stands under `http_request`, or is the input itself.
fn request_of(config: &Json) -> &Json {
    config.get("http_request").filter(|request| request.is_object()).unwrap_or(config)
}

fn time_ms(request: &Json) -> u64 {
    let number = |name: &str, default: u64| {
        let text = config::text(request, name);
        text.and_then(|text| text.trim().parse::<f64>().ok()).filter(|ms| *ms >= 1.0).map_or(default, |ms| ms as u64)
    };
    number("connectionTimeOut", CONNECT_MS).saturating_add(number("readTimeOut", READ_MS))
}

/// The same request in the words that the other HTTP tasks use.
fn shaped(config: &Json) -> Json {
    let request = request_of(config);
    let field = |name: &str| request.get(name).cloned().unwrap_or(Json::Null);
    let mut headers = request.get("headers").and_then(Json::as_object).cloned().unwrap_or_default();
    let has_accept = headers.keys().any(|name| name.eq_ignore_ascii_case("accept"));
    if !has_accept {
        let accept = match field("accept") {
            Json::Null => json!("application/json"),
            Json::Array(kinds) => Json::String(kinds.iter().map(config::as_text).collect::<Vec<String>>().join(", ")),
            one => one,
        };
        headers.insert("Accept".to_owned(), accept);
    }
    let body = field("body");
    let has_type = headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
    let content_type = match field("contentType") {
        _ if has_type || body.is_null() => Json::Null,
        Json::Null => json!("application/json"),
        own => own,
    };
    json!({
        "uri": field("uri"),
        "method": field("method"),
        "headers": headers,
        "body": body,
        "contentType": content_type,
        "options": {"timeout": format!("PT{}S", time_ms(request) as f64 / 1_000.0)},
    })
}

fn perform(tools: &Tools, mut request: Request) -> Performing<'_> {
    Box::pin(async move {
        if config::text(request_of(&request.config), "uri").is_none() {
            return refused("Missing HTTP URI.  See documentation for HttpTask for required input parameters");
        }
        let method = config::text(request_of(&request.config), "method");
        let known = |word: &String| METHODS.contains(&word.trim().to_ascii_uppercase().as_str());
        if !method.as_ref().is_some_and(known) {
            return refused("No HTTP method specified");
        }
        request.config = shaped(&request.config);
        let plan = match http::plan(tools, &request).await {
            Ok(plan) => plan,
            Err(error) => return error.into(),
        };
        match tools.net.call(plan.call).await {
            Ok(answer) => judged(&answer),
            Err(CallError::Clean { code, message, retryable, answer }) => {
                let output = answer.map(|answer| json!({"response": response(&answer)}));
                Outcome::FailedClean { code, message, output, retryable }
            }
            Err(lost) => lost.into(),
        }
    })
}

fn refused(message: &str) -> Outcome {
    TaskError::config(message).into()
}

fn judged(answer: &Answer) -> Outcome {
    if answer.status.is_success() {
        return Outcome::Done { output: json!({"response": response(answer)}) };
    }
    let body = String::from_utf8_lossy(&answer.body);
    let reason = reason(answer);
    let code = answer.status.as_u16();
    let message =
        if body.is_empty() { format!("{code} {reason}: [no body]") } else { format!("{code} {reason}: \"{body}\"") };
    Outcome::FailedClean {
        code: "http_status",
        output: Some(json!({"response": message})),
        message,
        retryable: http::may_pass(code),
    }
}

fn reason(answer: &Answer) -> &'static str {
    answer.status.canonical_reason().unwrap_or_default()
}

fn response(answer: &Answer) -> Json {
    json!({
        "statusCode": answer.status.as_u16(),
        "reasonPhrase": reason(answer),
        "headers": http::header_lists(answer),
        "body": body(answer),
    })
}

fn body(answer: &Answer) -> Json {
    let text = String::from_utf8_lossy(&answer.body);
    if text.is_empty() {
        return Json::Null;
    }
    match serde_json::from_str::<Json>(&text) {
        Ok(Json::Number(number)) => number.as_f64().map_or(Json::Null, |float| json!(float)),
        Ok(Json::Bool(flag)) => Json::String(flag.to_string()),
        Ok(Json::Null) => json!("null"),
        Ok(json) => json,
        Err(_) => Json::String(text.into_owned()),
    }
}
