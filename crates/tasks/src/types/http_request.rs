//! `http.Request`: one HTTP request, sent once.
//!
//! Status 400 and above fails the step, unless `allowFailed` is set or the status is one of
//! `done_statuses` ("already processed" is a success). Redirects are answers like any other: a
//! second request that nobody recorded must not happen.

use super::{field, required};
use crate::effect::{EffectWork, Outcome, Performing, Request};
use crate::net::{Answer, Body, Call, CallError, Net};
use crate::registry::Work;
use crate::{TaskError, config};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use semel_core::ir::{EffectClass, FieldKind, FieldSpec, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};
use std::time::Duration;

const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE"];

const AUTH: &[FieldSpec] = &[
    required("type", FieldKind::Choice(&["BASIC", "BEARER"]), "How to prove who calls."),
    field("username", FieldKind::Text, "User name (BASIC)."),
    field("password", FieldKind::Text, "Password (BASIC)."),
    field("token", FieldKind::Text, "Token (BEARER)."),
];

const NO_REDIRECTS: &str = "is not offered: each request must be one that was recorded";

const OPTIONS: &[FieldSpec] = &[
    field("auth", FieldKind::Object(AUTH), "Credentials sent with the request."),
    field("allowFailed", FieldKind::Bool, "Take status 400 and above as success too; false by default."),
    field("timeout", FieldKind::Duration, "Longest time for the whole call."),
    field("followRedirects", FieldKind::OnlyFalse(NO_REDIRECTS), "Only false: a redirect is returned as the answer."),
];

pub const SPEC: TaskSpec = TaskSpec {
    name: "http.Request",
    aliases: &["io.kestra.plugin.fs.http.Request", "io.kestra.core.tasks.http.Request"],
    summary: "Send one HTTP request.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[
        required("uri", FieldKind::Text, "Where to, http or https."),
        field("method", FieldKind::Choice(METHODS), "GET by default."),
        field("body", FieldKind::Any, "Text is sent as it is, anything else as JSON."),
        field("formData", FieldKind::TextMap, "Sent as a URL-encoded form, instead of `body`."),
        field("contentType", FieldKind::Text, "Content-Type of the body."),
        field("headers", FieldKind::TextMap, "Headers to send."),
        field("options", FieldKind::Object(OPTIONS), "Credentials, time and tolerance."),
        field("allowFailed", FieldKind::Bool, "Old place of options.allowFailed."),
        field("done_statuses", FieldKind::Any, "Statuses that mean the work was already done, for example [409]."),
    ],
    outputs: &["uri", "code", "headers", "body"],
};

pub const WORK: Work = Work::Effect(EffectWork { class, sends_key, timeout_ms, perform });

/// Set by the client itself; an author's value could only break the framing.
const FRAMING_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const TRACE_HEADER: HeaderName = HeaderName::from_static("traceparent");

fn method_word(config: &Json) -> String {
    config::text(config, "method").map_or_else(|| "GET".to_owned(), |word| word.trim().to_ascii_uppercase())
}

fn class(config: &Json) -> EffectClass {
    match method_word(config).as_str() {
        "GET" | "HEAD" | "OPTIONS" | "TRACE" => EffectClass::Read,
        "PUT" | "DELETE" => EffectClass::Repeatable,
        _ => EffectClass::Naked,
    }
}

fn sends_key(config: &Json) -> bool {
    let headers = config::map(config, "headers").ok().flatten().unwrap_or_default();
    let authors_own =
        headers.iter().any(|(name, value)| name.trim().eq_ignore_ascii_case(KEY_HEADER.as_str()) && !value.is_null());
    class(config) != EffectClass::Read && !authors_own
}

fn timeout_ms(config: &Json) -> Option<u64> {
    let options = config::map(config, "options").ok().flatten().map(Json::Object)?;
    config::duration_ms(&options, "timeout").ok().flatten().and_then(|ms| u64::try_from(ms).ok())
}

/// The request as read from the properties; nothing is sent before all of it is understood.
struct Plan {
    call: Call,
    allow_failed: bool,
    done_statuses: Vec<u16>,
}

fn perform(net: &Net, request: Request) -> Performing<'_> {
    Box::pin(async move {
        let Plan { call, allow_failed, done_statuses } = match plan(request) {
            Ok(plan) => plan,
            Err(error) => return error.into(),
        };
        match net.call(call).await {
            Ok(answer) => judge(answer, allow_failed, &done_statuses),
            Err(CallError::Clean { code, message, retryable, answer }) => {
                Outcome::FailedClean { code, message, output: answer.map(|answer| output(&answer)), retryable }
            }
            Err(lost) => lost.into(),
        }
    })
}

fn plan(request: Request) -> Result<Plan, TaskError> {
    let config = &request.config;
    let options = Json::Object(config::map(config, "options")?.unwrap_or_default());
    if config::flag(&options, "followRedirects", false)? {
        // Only a template gets here: the word itself is refused when the flow is pushed.
        return Err(TaskError::not_built(format!("`followRedirects: true` {NO_REDIRECTS}")));
    }
    let word = method_word(config);
    let method = Method::from_bytes(word.as_bytes()).ok().filter(|_| METHODS.contains(&word.as_str()));
    let method = method.ok_or_else(|| TaskError::config(format!("`method` must be one of {}", METHODS.join(", "))))?;
    let (body, body_type) = body(config)?;
    let mut headers = headers(config)?;
    if let Some(content_type) = config::text(config, "contentType").or(body_type) {
        headers.entry(CONTENT_TYPE).or_insert(header_value("contentType", &content_type)?);
    }
    if let Some(auth) = config::map(&options, "auth")? {
        headers.insert(AUTHORIZATION, authorization(&Json::Object(auth))?);
    }
    for (name, value) in [(KEY_HEADER, &request.idempotency_key), (TRACE_HEADER, &request.traceparent)] {
        if let Some(value) = value {
            headers.entry(name.clone()).or_insert(header_value(name.as_str(), value)?);
        }
    }
    let timeout = config::duration_ms(&options, "timeout")?.and_then(|ms| u64::try_from(ms).ok());
    let call = Call {
        method,
        uri: config::required_text(config, "uri")?,
        headers,
        body,
        timeout: timeout.map(Duration::from_millis),
        timeout_max: Duration::from_millis(request.timeout_ms),
        send_before: request.send_before,
    };
    let allow_failed = config::flag(&options, "allowFailed", false)? || config::flag(config, "allowFailed", false)?;
    Ok(Plan { call, allow_failed, done_statuses: config::statuses(config, "done_statuses")? })
}

fn body(config: &Json) -> Result<(Body, Option<String>), TaskError> {
    if let Some(form) = config::map(config, "formData")? {
        let multipart = config::text(config, "contentType")
            .is_some_and(|text| text.trim().to_ascii_lowercase().starts_with("multipart/"));
        if multipart {
            return Err(TaskError::not_built(
                "multipart forms are not offered; leave `contentType` out to send a URL-encoded form",
            ));
        }
        let pairs = form
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), config::as_text(value)));
        return Ok((Body::Form(pairs.collect()), None));
    }
    Ok(match config::present(config, "body") {
        None => (Body::Empty, None),
        Some(Json::String(text)) => (Body::Text(text.clone()), None),
        Some(value) => (Body::Text(value.to_string()), Some("application/json".to_owned())),
    })
}

fn headers(config: &Json) -> Result<HeaderMap, TaskError> {
    let mut headers = HeaderMap::new();
    for (name, value) in config::map(config, "headers")?.unwrap_or_default() {
        let parsed = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| TaskError::config(format!("`{name}` is not a header name")))?;
        if FRAMING_HEADERS.contains(&parsed.as_str()) {
            continue;
        }
        let values = match value {
            Json::Null => Vec::new(),
            Json::Array(values) => values,
            single => vec![single],
        };
        for value in values {
            headers.append(parsed.clone(), header_value(&name, &config::as_text(&value))?);
        }
    }
    Ok(headers)
}

/// The value stays out of the message: it may be a secret.
fn header_value(name: &str, value: &str) -> Result<HeaderValue, TaskError> {
    HeaderValue::from_str(value.trim()).map_err(|_| {
        TaskError::config(format!("the value of the header `{name}` has characters that a header cannot carry"))
    })
}

fn authorization(auth: &Json) -> Result<HeaderValue, TaskError> {
    let kind = config::required_text(auth, "type")?.trim().to_ascii_uppercase();
    let text = match kind.as_str() {
        "BASIC" => {
            let user = config::text(auth, "username").unwrap_or_default();
            let password = config::text(auth, "password").unwrap_or_default();
            format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
        }
        "BEARER" => format!("Bearer {}", config::required_text(auth, "token")?.trim()),
        _ => return Err(TaskError::config("`options.auth.type` must be BASIC or BEARER")),
    };
    let mut value = header_value("authorization", &text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn judge(answer: Answer, allow_failed: bool, done_statuses: &[u16]) -> Outcome {
    let code = answer.status.as_u16();
    let output = output(&answer);
    if code < 400 || allow_failed || done_statuses.contains(&code) {
        return Outcome::Done { output };
    }
    // Too early, too many, time-outs and faults of the far side may pass; the rest is the author's.
    let retryable = code >= 500 || matches!(code, 408 | 425 | 429);
    Outcome::FailedClean {
        code: "http_status",
        message: format!("the far side answered {code}"),
        output: Some(output),
        retryable,
    }
}

fn output(answer: &Answer) -> Json {
    let mut headers = serde_json::Map::new();
    for (name, value) in &answer.headers {
        let entry = headers.entry(name.as_str()).or_insert_with(|| json!([]));
        if let Json::Array(values) = entry {
            values.push(json!(String::from_utf8_lossy(value.as_bytes())));
        }
    }
    json!({
        "uri": answer.url.as_str(),
        "code": answer.status.as_u16(),
        "headers": headers,
        "body": String::from_utf8_lossy(&answer.body),
    })
}
