//! One request as a handler sees it: authorised, with its body read.

use crate::auth::Principal;
use crate::codes::Code;
use crate::json;
use crate::page::Page;
use crate::problem::Problem;
use crate::spelling::Spelling;
use crate::state::AppState;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use semel_core::run::By;
use semel_core::{Millis, RunId, WorkspaceId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

pub type Answer = Result<Response, Problem>;

pub struct Call {
    pub app: AppState,
    /// `None` on open routes only.
    pub who: Option<Principal>,
    pub params: Vec<(String, String)>,
    pub query: Query,
    pub headers: HeaderMap,
    /// The names of the headers as they were written, where that is known.
    pub spelling: Spelling,
    pub body: Bytes,
    /// The body of a form, of which nothing was read yet.
    pub incoming: Incoming,
}

/// A body that is read as it arrives, once.
#[derive(Clone, Default)]
pub struct Incoming(Arc<Mutex<Option<Body>>>);

/// How long a refusal waits for what it does not read.
const DISCARD: Duration = Duration::from_secs(1);

impl Incoming {
    pub fn new(body: Body) -> Incoming {
        Incoming(Arc::new(Mutex::new(Some(body))))
    }

    /// Reads on if nobody did: a client that is still sending hears a refusal only when it has sent. What is larger is
    /// cut off.
    pub async fn discard(&self, bytes_max: usize) {
        let mut body = self.take().into_data_stream();
        let reading = async {
            let mut seen = 0;
            while let Some(Ok(piece)) = body.next().await {
                seen += piece.len();
                if seen > bytes_max {
                    return;
                }
            }
        };
        // Who is too slow is cut off as well.
        let _ = tokio::time::timeout(DISCARD, reading).await;
    }

    /// Whoever asks again gets an empty one.
    pub fn take(&self) -> Body {
        self.0.lock().take().unwrap_or_default()
    }
}

impl Call {
    /// Who asks. A handler that needs to know refuses whoever did not say.
    pub fn principal(&self) -> Result<&Principal, Problem> {
        self.who.as_ref().ok_or_else(|| Problem::new(Code::TokenMissing, "send a token: Authorization: Bearer sml_…"))
    }

    pub fn workspace(&self) -> Result<WorkspaceId, Problem> {
        Ok(self.principal()?.workspace.clone())
    }

    pub fn sees_payloads(&self) -> bool {
        self.who.as_ref().is_some_and(Principal::sees_payloads)
    }

    /// Who asks and why, for the record.
    pub fn by(&self, why: Option<&str>) -> Result<By, Problem> {
        let why = why.unwrap_or_default();
        if why.chars().count() > WHY_CHARS_MAX {
            return Err(Problem::field("why", format!("at most {WHY_CHARS_MAX} characters are kept")));
        }
        Ok(By { who: self.principal()?.name.clone(), why: why.to_owned() })
    }

    /// A part of the path. Routes name their parts, so a missing one is our mistake.
    pub fn param(&self, name: &str) -> Result<&str, Problem> {
        self.part(name).ok_or_else(|| Problem::internal(&format!("the route has no part `{name}`")))
    }

    /// A part of the path that not every route of the door has.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The run of the path. What cannot be an id is answered as an id that does not exist.
    pub fn run_id(&self) -> Result<RunId, Problem> {
        self.param("id")?.parse().map_err(|()| Problem::run_unknown())
    }

    pub fn page(&self, kind: &'static str) -> Result<Page, Problem> {
        Page::new(kind, self.query.one("limit")?, self.query.one("cursor")?, self.app.limits().page_rows_max)
    }

    /// The body as JSON of a known shape. An empty body is `{}`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        check_json_type(&self.headers, &self.body)?;
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        json::parse_as(body, self.app.limits().json_depth_max)
    }

    pub fn now(&self) -> Millis {
        self.app.store().now()
    }
}

/// Longest reason kept with a control.
pub const WHY_CHARS_MAX: usize = 1_000;

/// Accepts JSON types, no type at all, and JSON under the type that `curl -d` sends unasked;
/// refuses what says it is something else.
pub fn check_json_type(headers: &HeaderMap, body: &[u8]) -> Result<(), Problem> {
    let refused = |given: &str| {
        Problem::new(
            Code::UnsupportedMediaType,
            format!("the content type `{given}` is not accepted here; send application/json in UTF-8"),
        )
    };
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().map_err(|_| refused("(unreadable)"))?;
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let from_curl = kind == "application/x-www-form-urlencoded" && body.trim_ascii_start().starts_with(b"{");
    let is_json = from_curl
        || kind == "application/json"
        || kind == "text/json"
        || (kind.starts_with("application/") && kind.ends_with("+json"));
    let charset_ok = parts.all(|part| match part.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let value = value.trim().trim_matches('"');
            value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    });
    if is_json && charset_ok { Ok(()) } else { Err(refused(&text.chars().take(100).collect::<String>())) }
}

/// The query string, in order, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(pub Vec<(String, String)>);

impl Query {
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The one value of a parameter; two would leave open which counts.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut found = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.next().is_some() {
            return Err(Problem::query(name, "must be given once"));
        }
        Ok(first)
    }

    pub fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        Ok(self.one(name)?.map(str::to_owned))
    }

    pub fn read<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Problem::query(name, format!("must be {expected}")))
    }

    /// Values of a repeatable, comma-separable parameter.
    pub fn words<T>(&self, name: &str, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Problem> {
        self.all(name)
            .flat_map(|value| value.split(','))
            .map(|word| read(word.trim()).ok_or_else(|| Problem::query(name, format!("must be {expected}"))))
            .collect()
    }
}

/// 200 with compact JSON.
pub fn ok(value: impl Serialize) -> Answer {
    let text = serde_json::to_vec(&value).map_err(|error| Problem::internal(&format!("an answer: {error}")))?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub fn no_content() -> Answer {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_types_are_told_from_others() {
        let verdict = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(text));
            check_json_type(&headers, b"a=1").is_ok()
        };
        assert!(check_json_type(&HeaderMap::new(), b"").is_ok());
        let mut curl = HeaderMap::new();
        curl.insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/x-www-form-urlencoded"));
        assert!(check_json_type(&curl, b" {\"data\":{}}").is_ok(), "curl -d without a header is common");
        for good in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/cloudevents+json",
            "application/json;charset=\"utf-8\"",
        ] {
            assert!(verdict(good), "{good}");
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "", "json"] {
            assert!(!verdict(bad), "{bad}");
        }
    }

    #[test]
    fn query_values_are_read_strictly() {
        let query = Query(vec![("a".into(), "1".into()), ("s".into(), "x,y".into()), ("s".into(), "z".into())]);
        assert_eq!(query.one("a").unwrap(), Some("1"));
        assert_eq!(query.one("b").unwrap(), None);
        assert_eq!(query.one("s").unwrap_err().code, Code::QueryInvalid);
        assert_eq!(query.words("s", "a letter", |w| Some(w.to_owned())).unwrap(), ["x", "y", "z"]);
        assert_eq!(query.read::<u8>("a", "a number", |t| t.parse().ok()).unwrap(), Some(1));
        assert!(query.words::<u8>("s", "a number", |t| t.parse().ok()).is_err());
    }
}
