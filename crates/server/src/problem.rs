//! Refusals as `application/problem+json`.
//!
//! A [`Problem`] is the only way a handler can say no, so every refusal has a stable code, says
//! what to do, and never quotes what the store or a panic said: such texts may name files, SQL or
//! other people's data. They go to the log instead.

use crate::codes::Code;
use crate::dispatch::RequestId;
use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::RunId;
use serde_json::{Map, Value as Json, json};

/// Where the pages of the codes are.
pub const TYPE_BASE: &str = "https://semel.dev/errors/";

/// One refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub code: Code,
    /// What is wrong and what to do.
    pub detail: String,
    pub retry_after_s: Option<u32>,
    /// What few refusals have; apart, because every handler returns this type.
    pub more: Box<More>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct More {
    pub hint: Option<String>,
    pub errors: Vec<Json>,
    pub run_id: Option<RunId>,
    /// Further members of the answer.
    pub extra: Map<String, Json>,
}

/// Left in the answer's extensions for the request log and the counters.
#[derive(Clone, Copy, Debug)]
pub struct ProblemCode(pub Code);

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), retry_after_s: None, more: Box::default() }
    }

    pub fn hint(mut self, text: impl Into<String>) -> Problem {
        self.more.hint = Some(text.into());
        self
    }

    pub fn errors(mut self, errors: Vec<Json>) -> Problem {
        self.more.errors = errors;
        self
    }

    pub fn run(mut self, run: Option<RunId>) -> Problem {
        self.more.run_id = run;
        self
    }

    pub fn retry_after(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    pub fn with(mut self, name: &str, value: Json) -> Problem {
        self.more.extra.insert(name.to_owned(), value);
        self
    }

    /// An error that is ours. The text is for the log only.
    pub fn internal(what: &str) -> Problem {
        match RequestId::current() {
            Some(request) => tracing::error!(%request, what, "internal error"),
            None => tracing::error!(what, "internal error"),
        }
        Problem::new(
            Code::Internal,
            "something went wrong in the server; the log has the details under this request id",
        )
    }

    pub fn run_unknown() -> Problem {
        Problem::new(Code::RunUnknown, "no run with this id in this workspace; `GET /v1/runs` lists them")
    }

    /// One field of a body cannot be used.
    pub fn field(field: &str, message: impl Into<String>) -> Problem {
        let message = message.into();
        Problem::new(Code::BodyInvalid, format!("`{field}`: {message}"))
            .errors(vec![json!({"field": field, "message": message})])
    }

    pub fn query(name: &str, message: impl Into<String>) -> Problem {
        let message = message.into();
        Problem::new(Code::QueryInvalid, format!("`{name}`: {message}"))
            .errors(vec![json!({"field": name, "message": message})])
    }

    pub fn to_json(&self) -> Json {
        let mut out = Map::new();
        out.insert("type".into(), format!("{TYPE_BASE}{}", self.code.word()).into());
        out.insert("title".into(), self.code.title().into());
        out.insert("status".into(), self.code.status().as_u16().into());
        out.insert("code".into(), self.code.word().into());
        out.insert("detail".into(), self.detail.as_str().into());
        if let Some(hint) = &self.more.hint {
            out.insert("hint".into(), hint.as_str().into());
        }
        if !self.more.errors.is_empty() {
            out.insert("errors".into(), self.more.errors.clone().into());
        }
        if let Some(run) = self.more.run_id {
            out.insert("run_id".into(), run.to_string().into());
        }
        out.extend(self.more.extra.clone());
        Json::Object(out)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json().to_string();
        self.respond(self.code.status(), "application/problem+json", body)
    }
}

impl Problem {
    /// The answer in a door's own shape, with the headers that every refusal has.
    pub(crate) fn respond(&self, status: StatusCode, kind: &'static str, body: String) -> Response {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = self.more.extra.get("allow").and_then(Json::as_str)
            && let Ok(allow) = HeaderValue::from_str(allow)
        {
            headers.insert(ALLOW, allow);
        }
        response.extensions_mut().insert(ProblemCode(self.code));
        response
    }
}
