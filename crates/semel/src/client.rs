//! The HTTP client of the commands: finds the server, proves who asks, and turns what went wrong into a [`Failure`].

use crate::failure::Failure;
use crate::table::{harmless, plain};
use clap::Args;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// Where a server started in this directory leaves the token of its first start.
const LOCAL_TOKEN: &str = "semel-data/admin.token";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// No answer of the server is larger; whatever is, is not Semel.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Which server, and who asks.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// Address of the server [default: http://127.0.0.1:8080]
    #[arg(long, global = true, value_name = "URL", env = "SEMEL_SERVER", hide_env_values = true)]
    pub server: Option<String>,
    /// Token to use; prefer the variable or a file, for others can see a command line
    #[arg(long, global = true, value_name = "TOKEN", env = "SEMEL_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// File with the token [default: ./semel-data/admin.token, for a server on this machine]
    #[arg(long, global = true, value_name = "FILE", env = "SEMEL_TOKEN_FILE", hide_env_values = true)]
    pub token_file: Option<PathBuf>,
    /// Workspace to work in, on a server started with --dev; elsewhere the token decides
    #[arg(long, global = true, value_name = "NAME", env = "SEMEL_WORKSPACE", hide_env_values = true)]
    pub workspace: Option<String>,
}

pub struct Client {
    http: reqwest::Client,
    base: Url,
    has_token: bool,
}

impl Client {
    pub fn new(connection: &Connection) -> Result<Client, Failure> {
        let base = server_url(connection.server.as_deref().unwrap_or(DEFAULT_SERVER))?;
        let token = find_token(connection, &base)?;
        Client::build(base, token.as_deref(), connection.workspace.as_deref())
    }

    /// For a server that asks for no token.
    pub fn without_token(base: Url) -> Result<Client, Failure> {
        Client::build(base, None, None)
    }

    pub fn with_token(base: Url, token: Option<String>) -> Result<Client, Failure> {
        Client::build(base, token.as_deref(), None)
    }

    fn build(base: Url, token: Option<&str>, workspace: Option<&str>) -> Result<Client, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Failure::usage("the token has characters that no token has"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(workspace) = workspace {
            let value = HeaderValue::from_str(workspace)
                .map_err(|_| Failure::usage(format!("`{}` is not a workspace name", harmless(workspace))))?;
            headers.insert("x-semel-workspace", value);
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("semel/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT);
        if base.scheme() == "http" {
            // No certificate will be looked at: a machine without any can still talk to its own server.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| Failure::refused("tls_unavailable", error.to_string()))?;
        Ok(Client { http, base, has_token: token.is_some() })
    }

    /// A request to a path given by its segments, which may hold any character.
    pub fn request(&self, method: Method, segments: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        self.http.request(method, url)
    }

    pub async fn get(&self, segments: &[&str], query: &[(&str, String)]) -> Result<Json, Failure> {
        self.answer(self.request(Method::GET, segments).query(query)).await
    }

    pub async fn post(&self, segments: &[&str], body: &Json) -> Result<Json, Failure> {
        self.answer(self.request(Method::POST, segments).json(body)).await
    }

    pub async fn put(&self, segments: &[&str], body: &Json) -> Result<Json, Failure> {
        self.answer(self.request(Method::PUT, segments).json(body)).await
    }

    pub async fn delete(&self, segments: &[&str]) -> Result<Json, Failure> {
        self.answer(self.request(Method::DELETE, segments)).await
    }

    /// The body of a good answer; null when there is none.
    pub async fn answer(&self, request: RequestBuilder) -> Result<Json, Failure> {
        self.answer_within(request, ANSWER_TIMEOUT).await
    }

    pub async fn answer_within(&self, request: RequestBuilder, limit: Duration) -> Result<Json, Failure> {
        let response = self.open(request.timeout(limit)).await?;
        let bytes = read(response).await.map_err(|error| self.unreachable(&error))?;
        let body = if bytes.is_empty() { Ok(Json::Null) } else { serde_json::from_slice(&bytes) };
        body.map_err(|_| {
            let message = format!("what answers at {} does not speak Semel's API", self.base);
            Failure::refused("not_semel", message).hint("check --server; another program may own that port")
        })
    }

    /// Sends, and hands over an answer that is not a refusal; its body has not been read.
    pub async fn open(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error.to_string_with_causes()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = read(response).await.unwrap_or_default();
        Err(self.refusal(status, &serde_json::from_slice(&bytes).unwrap_or(Json::Null)))
    }

    pub fn unreachable(&self, why: &str) -> Failure {
        let failure = Failure::unreachable(format!("no answer from {}: {why}", self.base));
        if is_loopback(&self.base) {
            failure.hint("start one with: semel serve --dev")
        } else {
            failure.hint("check --server or SEMEL_SERVER, and that the server is up")
        }
    }

    fn refusal(&self, status: StatusCode, problem: &Json) -> Failure {
        let text = |name: &str| problem.get(name).map(plain).filter(|text| !text.is_empty());
        let code = text("code").unwrap_or_else(|| format!("http_{}", status.as_u16()));
        let message = text("detail")
            .or_else(|| text("message"))
            .or_else(|| text("title"))
            .unwrap_or_else(|| format!("the server answered {status}"));
        let mut failure = Failure::refused(code, message).details(details(status, problem));
        if let Some(list) = problem.get("errors").and_then(Json::as_array).filter(|list| !list.is_empty()) {
            failure = failure.preface(list.iter().map(error_line).collect::<Vec<_>>().join("\n"));
        }
        failure.maybe_hint(text("hint").or_else(|| self.access_hint(status)))
    }

    fn access_hint(&self, status: StatusCode) -> Option<String> {
        let hint = match (status, self.has_token) {
            (StatusCode::UNAUTHORIZED, false) => {
                "give a token: SEMEL_TOKEN, or --token-file with the admin.token in the server's data directory"
            }
            (StatusCode::UNAUTHORIZED, true) => {
                "the token is unknown, revoked or expired; `semel token list` shows which are live"
            }
            (StatusCode::FORBIDDEN, _) => "the token's role does not allow this; use one with a wider role",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

fn details(status: StatusCode, problem: &Json) -> Json {
    let mut details = json!({ "status": status.as_u16() });
    for name in ["errors", "run_id", "rendered"] {
        if let Some(value) = problem.get(name).filter(|value| !value.is_null()) {
            details[name] = value.clone();
        }
    }
    details
}

fn error_line(error: &Json) -> String {
    let place = match (error.get("field"), error.get("line")) {
        (Some(field), _) => plain(field),
        (None, Some(line)) => format!("{}:{}", plain(line), error.get("column").map(plain).unwrap_or_default()),
        (None, None) => String::new(),
    };
    format!("  {place}: {}", error.get("message").map(plain).unwrap_or_default())
}

async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string_with_causes())? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err("the answer is too large".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn server_url(text: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!("`{}` is not a server address: {why}", harmless(text)))
            .hint("write it like http://127.0.0.1:8080 or https://semel.example.com")
    };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("it must start with http:// or https://"));
    }
    Ok(url)
}

pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn find_token(connection: &Connection, base: &Url) -> Result<Option<String>, Failure> {
    if let Some(token) = connection.token.as_deref().map(str::trim).filter(|token| !token.is_empty()) {
        return Ok(Some(token.to_owned()));
    }
    if let Some(path) = &connection.token_file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read the token file {}: {error}", path.display())))?;
        return Ok(Some(text.trim().to_owned()));
    }
    if !is_loopback(base) {
        return Ok(None);
    }
    // Another user's server may have left it unreadable; then the server says what is missing.
    Ok(std::fs::read_to_string(Path::new(LOCAL_TOKEN)).ok().map(|text| text.trim().to_owned()))
}

/// An error with what caused it: the reason is usually at the bottom.
trait WithCauses {
    fn to_string_with_causes(&self) -> String;
}

impl WithCauses for reqwest::Error {
    fn to_string_with_causes(&self) -> String {
        if self.is_timeout() {
            return "it took too long".to_owned();
        }
        let mut deepest: &dyn std::error::Error = self;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        deepest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised_in_each_spelling() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://localhost:8080", true),
            ("http://10.0.0.1", false),
            ("https://localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_explained() {
        for bad in ["127.0.0.1:8080", "localhost:8080", "ftp://x", ""] {
            let failure = server_url(bad).unwrap_err();
            assert_eq!(failure.exit() as u8, 2, "{bad}");
            assert!(failure.hint_text().is_some());
        }
    }

    #[test]
    fn a_problem_keeps_its_code_hint_and_errors() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::new(&Connection { server: Some("http://10.0.0.1".into()), ..Connection::default() }).unwrap();
        let problem = json!({"code": "inputs_invalid", "detail": "2 inputs", "hint": "look", "errors": [{"field": "a", "message": "missing"}]});
        let failure = client.refusal(StatusCode::UNPROCESSABLE_ENTITY, &problem);
        assert_eq!(
            (failure.code(), failure.message(), failure.hint_text()),
            ("inputs_invalid", "2 inputs", Some("look"))
        );
        assert_eq!(failure.preface_text(), Some("  a: missing"));
        let bare = client.refusal(StatusCode::UNAUTHORIZED, &Json::Null);
        assert_eq!(bare.code(), "http_401");
        assert!(bare.hint_text().unwrap().contains("SEMEL_TOKEN"));
    }
}
