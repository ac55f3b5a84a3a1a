//! What the tasks that send HTTP requests have in common: their properties, and the request made of them.

use super::field;
use super::multipart;
use crate::effect::{Request, Tools};
use crate::net::{Answer, Body, Call};
use crate::{TaskError, config};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use semel_core::ir::{EffectClass, FieldKind, FieldSpec};
use serde_json::{Value as Json, json};
use std::time::Duration;

pub const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE"];

pub const AUTH: &[FieldSpec] = &[
    super::required("type", FieldKind::Choice(&["BASIC", "BEARER"]), "How to prove who calls."),
    field("username", FieldKind::Text, "User name (BASIC)."),
    field("password", FieldKind::Text, "Password (BASIC)."),
    field("token", FieldKind::Text, "Token (BEARER)."),
];

const UNCHECKED: &str = "is not offered: a call that anybody could answer proves nothing";
pub const SSL: &[FieldSpec] = &[field(
    "insecureTrustAllCertificates",
    FieldKind::Only(false, UNCHECKED),
    "Only false: certificates are checked.",
)];

const TIMES: &[FieldSpec] = &[
    field("readIdleTimeout", FieldKind::Duration, "Longest time for the whole call."),
    field("connectTimeout", FieldKind::Duration, "Accepted: the whole call has one time."),
];

pub const OPTIONS: &[FieldSpec] = &[
    field("auth", FieldKind::Object(AUTH), "Credentials sent with the request."),
    field("allowFailed", FieldKind::Bool, "Take status 400 and above as success too; false by default."),
    field("allowedResponseCodes", FieldKind::Any, "Statuses that are a success although they are 400 or above."),
    field("timeout", FieldKind::DurationOr(TIMES), "Longest time for the whole call."),
    field("readTimeout", FieldKind::Duration, "Old name of `timeout`."),
    field("readIdleTimeout", FieldKind::Duration, "Old name of `timeout`."),
    field("connectTimeout", FieldKind::Duration, "Accepted: the whole call has one time, `timeout`."),
    field("logs", FieldKind::Any, "Accepted: what is sent and what comes back is not written into the log."),
    field("logLevel", FieldKind::Text, "Accepted, as `logs`."),
    field("maxContentLength", FieldKind::Int, "Accepted: answers have the limit of the server."),
    field(
        "followRedirects",
        FieldKind::Bool,
        "Read where the answer leads; true by default for reads, false for writes.",
    ),
    field(
        "connectionPoolIdleTimeout",
        FieldKind::Duration,
        "Accepted: how long connections are kept is not said here.",
    ),
    field("defaultCharset", FieldKind::Choice(&["UTF-8"]), "Only UTF-8."),
    field("basicAuthUser", FieldKind::Text, "Old place of auth.username."),
    field("basicAuthPassword", FieldKind::Text, "Old place of auth.password."),
    field("ssl", FieldKind::Object(SSL), "Certificates are always checked."),
];

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

pub fn class(config: &Json) -> EffectClass {
    match method_word(config).as_str() {
        "GET" | "HEAD" | "OPTIONS" | "TRACE" => EffectClass::Read,
        "PUT" | "DELETE" => EffectClass::Repeatable,
        _ => EffectClass::Naked,
    }
}

pub fn sends_key(config: &Json) -> bool {
    let headers = config::map(config, "headers").ok().flatten().unwrap_or_default();
    let authors_own =
        headers.iter().any(|(name, value)| name.trim().eq_ignore_ascii_case(KEY_HEADER.as_str()) && !value.is_null());
    class(config) != EffectClass::Read && !authors_own
}

pub fn timeout_ms(config: &Json) -> Option<u64> {
    let options = config::map(config, "options").ok().flatten().map(Json::Object)?;
    time(&options).ok().flatten()
}

/// Of a map of times one is for the whole call.
fn time(options: &Json) -> Result<Option<u64>, TaskError> {
    let times = options.get("timeout").filter(|times| times.is_object());
    let (options, names): (&Json, &[&str]) = match times {
        Some(times) => (times, &["readIdleTimeout"]),
        None => (options, &["timeout", "readTimeout", "readIdleTimeout"]),
    };
    for name in names {
        if let Some(ms) = config::duration_ms(options, name)? {
            return Ok(u64::try_from(ms).ok());
        }
    }
    Ok(None)
}

/// The request as read from the properties; nothing is sent before all of it is understood.
pub struct Plan {
    pub call: Call,
    allow_failed: bool,
    done_statuses: Vec<u16>,
}

impl Plan {
    /// Whether an answer of this status is a success.
    pub fn judge(&self) -> Judge {
        Judge { allow_failed: self.allow_failed, done_statuses: self.done_statuses.clone() }
    }
}

pub struct Judge {
    pub allow_failed: bool,
    done_statuses: Vec<u16>,
}

impl Judge {
    pub fn takes(&self, code: u16) -> bool {
        code < 400 || self.allow_failed || self.done_statuses.contains(&code)
    }
}

pub async fn plan(tools: &Tools, request: &Request) -> Result<Plan, TaskError> {
    let config = &request.config;
    let options = Json::Object(config::map(config, "options")?.unwrap_or_default());
    let word = method_word(config);
    let method = Method::from_bytes(word.as_bytes()).ok().filter(|_| METHODS.contains(&word.as_str()));
    let method = method.ok_or_else(|| TaskError::config(format!("`method` must be one of {}", METHODS.join(", "))))?;
    let (body, body_type) = body(tools, request).await?;
    let mut headers = headers(config)?;
    match (config::text(config, "contentType"), body_type) {
        // The boundary is ours, so the whole header is.
        (_, Some(own)) if own.starts_with("multipart/") => {
            headers.insert(CONTENT_TYPE, header_value("contentType", &own)?);
        }
        (Some(content_type), _) | (None, Some(content_type)) => {
            headers.entry(CONTENT_TYPE).or_insert(header_value("contentType", &content_type)?);
        }
        (None, None) => {}
    }
    if let Some(value) = credentials(config, &options)? {
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in [(KEY_HEADER, &request.idempotency_key), (TRACE_HEADER, &request.traceparent)] {
        if let Some(value) = value {
            headers.entry(name.clone()).or_insert(header_value(name.as_str(), value)?);
        }
    }
    let call = Call {
        method,
        uri: config::required_text(config, "uri")?,
        headers,
        body,
        timeout: time(&options)?.map(Duration::from_millis),
        timeout_max: Duration::from_millis(request.timeout_ms),
        send_before: request.send_before,
        follow: config::flag(&options, "followRedirects", class(config) == EffectClass::Read)?,
        into: None,
    };
    let allow_failed = config::flag(&options, "allowFailed", false)? || config::flag(config, "allowFailed", false)?;
    let mut done_statuses = config::statuses(config, "done_statuses")?;
    done_statuses.extend(config::statuses(&options, "allowedResponseCodes")?);
    Ok(Plan { call, allow_failed, done_statuses })
}

async fn body(tools: &Tools, request: &Request) -> Result<(Body, Option<String>), TaskError> {
    let config = &request.config;
    if let Some(form) = config::map(config, "formData")? {
        let wants = config::text(config, "contentType").unwrap_or_default().trim().to_ascii_lowercase();
        if wants.starts_with("multipart/") {
            let (bytes, content_type) = multipart::encode(tools, request, form).await?;
            return Ok((Body::Bytes(bytes), Some(content_type)));
        }
        let pairs = form
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), config::as_text(value)));
        return Ok((Body::Form(pairs.collect()), None));
    }
    Ok(match config::present(config, "body") {
        None => (Body::Empty, None),
        Some(Json::String(text)) => (Body::Text(text.clone()), Some("application/json".to_owned())),
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

/// `auth`, among the options or beside them, or the two fields that were there before it.
fn credentials(config: &Json, options: &Json) -> Result<Option<HeaderValue>, TaskError> {
    if let Some(auth) = config::map(options, "auth")?.or(config::map(config, "auth")?) {
        return authorization(&Json::Object(auth)).map(Some);
    }
    let Some(user) = config::text(options, "basicAuthUser") else { return Ok(None) };
    let password = config::text(options, "basicAuthPassword");
    authorization(&json!({"type": "BASIC", "username": user, "password": password})).map(Some)
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

/// Every header by its name, each with all its values.
pub fn header_lists(answer: &Answer) -> Json {
    let mut headers = serde_json::Map::new();
    for (name, value) in &answer.headers {
        let entry = headers.entry(name.as_str()).or_insert_with(|| json!([]));
        if let Json::Array(values) = entry {
            values.push(json!(String::from_utf8_lossy(value.as_bytes())));
        }
    }
    Json::Object(headers)
}

/// Too early, too many, time-outs and faults of the far side may pass; the rest is the author's.
pub fn may_pass(code: u16) -> bool {
    code >= 500 || matches!(code, 408 | 425 | 429)
}
