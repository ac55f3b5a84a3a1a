//! One caller of the API, with the answers it got.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// Null when the body is not JSON.
    pub json: Json,
}

impl Answer {
    /// The body of an answer that must be 200.
    #[track_caller]
    pub fn ok(self) -> Json {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json
    }

    /// A refusal with this status and code, in the shape that all refusals have.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> &Answer {
        assert_eq!((self.status, self.json["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("https://semel.dev/errors/{code}"));
        assert!(self.json["detail"].as_str().is_some_and(|text| !text.is_empty()), "{}", self.text);
        self
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    #[track_caller]
    pub fn run_id(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json["run_id"].as_str().unwrap_or_else(|| panic!("no run_id: {}", self.text)).to_owned()
    }

    #[track_caller]
    pub fn replayed(&self) -> bool {
        assert_eq!(self.status, 200, "{}", self.text);
        let replayed = self.json["idempotent_replayed"].as_bool().unwrap_or_else(|| panic!("{}", self.text));
        assert_eq!(
            self.header("x-idempotent-replayed") == "true",
            replayed,
            "the header says otherwise: {}",
            self.text
        );
        replayed
    }
}

#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    pub url: String,
    headers: HeaderMap,
    /// Everything that was answered, for searching it afterwards.
    heard: Arc<Mutex<String>>,
}

fn http() -> reqwest::Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().expect("a client")
}

impl Api {
    pub fn new(url: &str) -> Api {
        Api { http: http(), url: url.to_owned(), headers: HeaderMap::new(), heard: Arc::default() }
    }

    /// The same caller, at the same place, with one more header.
    pub fn with(&self, name: &str, value: &str) -> Api {
        let mut other = self.clone();
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        other.headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        other
    }

    pub fn token(&self, token: &str) -> Api {
        self.with("authorization", &format!("Bearer {token}"))
    }

    pub fn workspace(&self, name: &str) -> Api {
        self.with("x-semel-workspace", name)
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).headers(self.headers.clone())
    }

    /// Sends; an error of the transport is the caller's to judge.
    pub async fn try_send(&self, request: RequestBuilder) -> Result<Answer, reqwest::Error> {
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await?;
        let mut heard = self.heard.lock().expect("not poisoned");
        heard.push_str(&format!("{headers:?}\n{text}\n"));
        drop(heard);
        let json = serde_json::from_str(&text).unwrap_or(Json::Null);
        Ok(Answer { status, headers, text, json })
    }

    pub async fn send(&self, request: RequestBuilder) -> Answer {
        self.try_send(request).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Json) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn put(&self, path: &str, body: Json) -> Answer {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub async fn put_flow(&self, source: &str) -> Answer {
        let request = self.request(Method::PUT, "/v1/workflows").header("content-type", "application/yaml");
        self.send(request.body(source.to_owned())).await
    }

    /// Stores a flow that must be right.
    pub async fn push(&self, source: &str) {
        let answer = self.put_flow(source).await;
        assert_eq!(answer.status, 200, "{}\n{source}", answer.text);
    }

    pub fn trigger_request(&self, flow: &str, key: Option<&str>, data: Json) -> RequestBuilder {
        let request = self.request(Method::POST, &format!("/v1/workflows/{flow}/trigger")).json(&json!({"data": data}));
        match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        }
    }

    pub async fn trigger(&self, flow: &str, key: Option<&str>, data: Json) -> Answer {
        self.send(self.trigger_request(flow, key, data)).await
    }

    /// Triggers and holds on until the run has ended or is held.
    pub async fn trigger_wait(&self, flow: &str, key: Option<&str>, data: Json) -> Answer {
        self.send(self.trigger_request(flow, key, data).header("prefer", "wait=30")).await
    }

    pub fn heard(&self) -> String {
        self.heard.lock().expect("not poisoned").clone()
    }
}
