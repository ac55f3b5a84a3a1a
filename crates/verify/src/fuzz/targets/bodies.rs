//! Requests, as text: the request line, headers, an empty line, the body.
//!
//! They go through the real site with a store in memory. Whatever is sent, the answer is one that the API promises:
//! never a defect of ours, always JSON in its documented shape, and a refusal says its code.

use crate::fuzz::{Target, behaviour};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use semel_core::limits::Limits;
use semel_core::{Millis, RunId, WorkspaceId};
use semel_engine::ports::{Clock, Entropy, Performer};
use semel_engine::secrets::MasterKey;
use semel_engine::{Engine, Parts};
use semel_server::codes::Code;
use semel_server::{AppState, ServerConfig, Site};
use semel_store::memory::MemoryStore;
use semel_store::{Store, Work, WorkspaceRow};
use semel_tasks::{Outcome, REGISTRY};
use serde_json::{Value as Json, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

const WORDS: &[&str] = &[
    "POST ",
    "PUT ",
    "GET ",
    "DELETE ",
    "/v1/workflows/a/trigger",
    "/v1/runs",
    "/v1/keys/explain",
    "/v1/keys/release",
    "/v1/webhooks/fuzz/hooked/opens",
    "/v1/kv/ns/k",
    "/v1/secrets/S",
    "/v1/workflows",
    "/v1/workflows/validate",
    "idempotency-key: ",
    "prefer: wait=1",
    "content-type: application/json",
    "content-type: text/plain",
    "{\"data\":{}}",
    "\"data\":",
    "\"inputs\":",
    "\"workflow_id\":",
    "\"key\":",
    "\"strategy\":\"ietf\"",
    "\"labels\":{}",
    "\"why\":\"x\"",
    "\"payload\":",
    "\"verdict\":\"done\"",
    "?limit=1",
    "&cursor=",
    "\"correlation_id\":",
    "charset=utf-16",
    "fuzz:a",
    "/journal",
    "/cancel",
    "/replay",
    "/verdict",
    "/erase",
    "?key=",
    "\"claim\":",
    "\"value\":",
    "\"ttl\":\"PT1S\"",
];

pub const ADMISSION: Target = Target { name: "admission_request", words: WORDS, run: request };
pub const MANAGEMENT: Target = Target { name: "management_request", words: WORDS, run: request };

/// A new server after so many requests, so that what they stored does not count as growth.
const REQUESTS_PER_SERVER: u32 = 300;

struct Still;

impl Clock for Still {
    fn now(&self) -> Millis {
        Millis(1_767_225_600_000)
    }
}

/// The same ids in the same order each time.
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn run_id(&self, _: Millis) -> RunId {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&0x019b_7000_0000_7000_u64.to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        RunId::from_bytes(bytes)
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

struct Echoes;

impl Performer for Echoes {
    fn perform(&self, _: semel_tasks::Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(std::future::ready(Outcome::Done { output: json!({"code": 200}) }))
    }
}

const FLOWS: [&str; 3] = [
    "id: a\nnamespace: fuzz\ninputs:\n  - {id: n, type: INT, defaults: 1}\n  - {id: s, type: STRING, required: false}\ntasks:\n  - {id: say, type: debug.Return, format: '{{ inputs.n }} {{ inputs.s }}'}\n",
    "id: keyed\nnamespace: fuzz\nidempotency: {key: '{{ trigger.data.id }}', preset: ietf}\nlane: {key: '{{ trigger.data.lane ?? 1 }}', busy: queue}\ntasks:\n  - {id: pay, type: http.Request, uri: 'https://pay.example/', method: POST, body: '{{ trigger.data | json }}'}\n",
    "id: hooked\nnamespace: fuzz\nidempotency: {key: '{{ trigger.body.id }}'}\ntriggers:\n  - {id: hook, type: trigger.Webhook, key: opens}\ntasks:\n  - {id: say, type: log.Log, message: '{{ trigger.body | json }} {{ trigger.parameters | json }}'}\n",
];

struct Server {
    runtime: Runtime,
    site: Site,
    engine: Arc<Engine>,
    served: u32,
}

impl Server {
    fn start() -> Server {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let store: Arc<dyn Store> = MemoryStore::new(Arc::new(|| Still.now()));
        let limits = Limits { prefer_wait_ms_max: 20, ..Limits::default() };
        let engine = runtime.block_on(async {
            Engine::start(Parts {
                store: store.clone(),
                clock: Arc::new(Still),
                entropy: Arc::new(Counted(AtomicU64::new(1))),
                performer: Arc::new(Echoes),
                catalog: &REGISTRY,
                limits: limits.clone(),
                master_key: Some(MasterKey::new([7; 32])),
                environment: vec![],
                url: None,
            })
        });
        let row = WorkspaceRow { id: WorkspaceId::default(), created_at: store.now() };
        store.call(Work::PutWorkspace(row)).expect("a workspace");
        let config = ServerConfig { dev: true, limits, ..ServerConfig::default() };
        let site = Site::new(AppState::new(engine.clone(), config));
        let mut server = Server { runtime, site, engine, served: 0 };
        for flow in FLOWS {
            let (status, _, body) =
                server.ask(Request::put("/v1/workflows").body(Body::from(flow)).expect("a request"));
            assert_eq!(status, 200, "{body}");
        }
        server
    }

    fn ask(&mut self, request: Request<Body>) -> (u16, String, String) {
        self.served += 1;
        let site = self.site.clone();
        self.runtime.block_on(async move {
            let answer = site.answer(request).await;
            let (parts, body) = answer.into_parts();
            let kind = parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
            let bytes = tokio::time::timeout(Duration::from_secs(30), to_bytes(body, 64 << 20)).await;
            let bytes = bytes.expect("the answer ends").expect("the answer is whole");
            (parts.status.as_u16(), kind, String::from_utf8(bytes.to_vec()).expect("answers are UTF-8"))
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let engine = self.engine.clone();
        self.runtime.block_on(async move { engine.shutdown(Duration::from_secs(5)).await });
    }
}

static SERVER: Mutex<Option<Server>> = Mutex::new(None);

fn answered(request: Request<Body>) -> (u16, String, String) {
    let mut slot = SERVER.lock().unwrap_or_else(|broken| broken.into_inner());
    if slot.as_ref().is_some_and(|server| server.served > REQUESTS_PER_SERVER) {
        *slot = None;
    }
    slot.get_or_insert_with(Server::start).ask(request)
}

/// The text as a request; `None` when no client could send it.
fn parse(text: &str) -> Option<Request<Body>> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    // The event stream of a run has no end.
    if path.contains("/follow") {
        return None;
    }
    let mut request = Request::builder().method(method).uri(path.trim());
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name.trim(), value.trim());
    }
    request.body(Body::from(body.to_owned())).ok()
}

/// Statuses of the 5xx range that are an answer and not a defect.
const ANSWERS: &[Code] = &[Code::SignatureNotConfigured, Code::SecretsUnavailable, Code::NotReady];

fn request(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let Some(request) = parse(&text) else { return 0 };
    let head = request.method() == axum::http::Method::HEAD;
    let (status, kind, body) = answered(request);
    if head {
        return behaviour((status, "head"));
    }
    if status < 400 {
        assert!(matches!(status, 200 | 204), "{status}");
        assert!(
            status == 204 || kind == "application/json" || kind.starts_with("application/openmetrics-text"),
            "{kind}"
        );
        let answer: Json = serde_json::from_str(&body).unwrap_or(Json::Null);
        let told = ["status", "reason", "idempotent_replayed", "changed", "valid"].map(|name| answer[name].to_string());
        return behaviour((status, kind, body.len().checked_ilog2(), told));
    }
    let problem: Json = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status} without JSON: {body}"));
    assert_eq!(kind, "application/problem+json", "{body}");
    assert_eq!(problem["status"], status, "{body}");
    let code = problem["code"].as_str().and_then(Code::parse).unwrap_or_else(|| panic!("unknown code: {body}"));
    assert!(status < 500 || ANSWERS.contains(&code), "{status}: {body}");
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body}");
    let words: Vec<&str> =
        problem["detail"].as_str().unwrap_or("").split(' ').filter(|word| !word.contains('`')).take(6).collect();
    behaviour((status, code, words))
}
