//! A server in memory, whose effects happen when the test says so.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use semel_core::limits::Limits;
use semel_core::{Millis, RunId, WorkspaceId};
use semel_engine::ports::{Clock, Entropy, Performer};
use semel_engine::secrets::MasterKey;
use semel_engine::system::SystemEntropy;
use semel_engine::{Engine, Parts};
use semel_server::{AppState, NewToken, Role, ServerConfig, Site, make_token, os_random};
use semel_store::memory::MemoryStore;
use semel_store::{Store, Work, WorkspaceRow};
use semel_tasks::{Outcome, REGISTRY};
use serde_json::{Value as Json, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::watch;

/// 2026-01-01, moved by the test.
pub struct Time(AtomicI64);

impl Clock for Time {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

struct Fresh(SystemEntropy);

impl Entropy for Fresh {
    fn run_id(&self, now: Millis) -> RunId {
        self.0.run_id(now)
    }
    fn random(&self) -> u64 {
        self.0.random()
    }
}

/// Effects wait for the gate; what they come to is in the address they call.
struct Gated(watch::Receiver<bool>);

impl Performer for Gated {
    fn perform(&self, request: semel_tasks::Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let mut gate = self.0.clone();
        Box::pin(async move {
            let _ = gate.wait_for(|open| *open).await;
            let text = request.config.to_string();
            if text.contains("fail.example") {
                Outcome::FailedClean {
                    code: "http_status",
                    message: "card 4111 refused".into(),
                    output: None,
                    retryable: false,
                }
            } else if text.contains("lost.example") {
                Outcome::Lost { code: "http_lost", message: "no answer".into() }
            } else {
                Outcome::Done { output: json!({"code": 200}) }
            }
        })
    }
}

pub struct Server {
    pub app: AppState,
    pub site: Site,
    pub engine: Arc<Engine>,
    pub store: Arc<dyn Store>,
    time: Arc<Time>,
    gate: watch::Sender<bool>,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    pub json: Json,
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    /// A refusal with this status and code, in its full shape.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Answer {
        let answer = self.expect(status);
        assert_eq!(answer.json["code"], code, "{}", answer.text);
        if answer.json["_links"].is_object() || answer.json["retryable"].is_boolean() {
            // The doors of Kestra and Conductor word their refusals in their own ways.
            assert_eq!(answer.headers["content-type"], "application/json");
            assert!(answer.json["message"].as_str().is_some_and(|message| !message.is_empty()));
            return answer;
        }
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.json["status"], status);
        assert_eq!(answer.json["type"], format!("https://semel.dev/errors/{code}"));
        assert!(answer.json["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        answer
    }

    pub fn run_id(&self) -> String {
        self.json["run_id"].as_str().unwrap_or_else(|| panic!("no run in {}", self.text)).to_owned()
    }
}

pub fn request(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path)
}

impl Server {
    pub fn start() -> Server {
        Server::with(ServerConfig { dev: true, ..ServerConfig::default() })
    }

    pub fn with_tokens() -> Server {
        Server::with(ServerConfig::default())
    }

    pub fn with(config: ServerConfig) -> Server {
        let time = Arc::new(Time(AtomicI64::new(1_767_225_600_000)));
        let clock = time.clone();
        let store: Arc<dyn Store> = MemoryStore::new(Arc::new(move || clock.now()));
        let (gate, receiver) = watch::channel(true);
        let engine = Engine::start(Parts {
            store: store.clone(),
            clock: time.clone(),
            entropy: Arc::new(Fresh(SystemEntropy)),
            performer: Arc::new(Gated(receiver)),
            catalog: &REGISTRY,
            limits: Limits::default(),
            master_key: Some(MasterKey::new([7; 32])),
            environment: vec![],
            url: None,
        });
        for workspace in ["main", "other"] {
            let row = WorkspaceRow { id: WorkspaceId(workspace.into()), created_at: store.now() };
            store.call(Work::PutWorkspace(row)).unwrap();
        }
        let app = AppState::new(engine.clone(), config);
        Server { site: Site::new(app.clone()), app, engine, store, time, gate }
    }

    /// Effects that begin from now on wait.
    pub fn hold_effects(&self) {
        self.gate.send_replace(false);
    }

    pub fn release_effects(&self) {
        self.gate.send_replace(true);
    }

    pub fn advance(&self, ms: i64) {
        self.time.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn token(&self, workspace: &str, role: Role, life_ms: Option<i64>) -> String {
        let now = self.store.now();
        let new = NewToken {
            workspace: WorkspaceId(workspace.into()),
            name: role.word().into(),
            role,
            now,
            expires_at: life_ms.map(|ms| now.plus(ms)),
        };
        let (row, text) = make_token(new, os_random);
        self.store.call(Work::PutToken(Box::new(row))).unwrap();
        text
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.site.answer(request).await;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 64 << 20).await.unwrap();
        // An archive is no text, and no test looks into it here.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(parts.headers.contains_key("x-request-id"));
        assert_eq!(parts.headers["cache-control"], "no-store");
        let json = serde_json::from_str(&text).unwrap_or(Json::Null);
        Answer { status: parts.status, headers: parts.headers, text, json }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(request("GET", path).body(Body::empty()).unwrap()).await
    }

    pub async fn json(&self, method: &str, path: &str, body: Json) -> Answer {
        let request = request(method, path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub async fn push(&self, source: &str) -> Answer {
        self.send(request("PUT", "/v1/workflows").body(Body::from(source.to_owned())).unwrap()).await
    }

    pub async fn trigger(&self, flow: &str, key: Option<&str>, data: Json) -> Answer {
        self.trigger_waiting(flow, key, data, None).await
    }

    pub async fn trigger_waiting(&self, flow: &str, key: Option<&str>, data: Json, wait: Option<u32>) -> Answer {
        let mut request =
            request("POST", &format!("/v1/workflows/{flow}/trigger")).header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(wait) = wait {
            request = request.header("prefer", format!("wait={wait}"));
        }
        self.send(request.body(Body::from(json!({"data": data}).to_string())).unwrap()).await
    }

    /// Waits for the run's end on the engine's own signal.
    pub async fn ended(&self, workspace: &str, run: &str) {
        let workspace = WorkspaceId(workspace.into());
        let ended = self.engine.wait_ended(&workspace, run.parse().unwrap(), std::time::Duration::from_secs(20));
        assert!(ended.await.unwrap(), "the run does not end");
    }
}

/// Returns what it is given.
pub const ECHO: &str = "
id: echo
namespace: shop
inputs:
  - {id: amount, type: INT, defaults: 1}
tasks:
  - {id: say, type: debug.Return, format: '{{ inputs.amount }}'}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.say.value }}'}
";

/// Calls out once; ends when the effects are released.
pub const CALL: &str = "
id: call
namespace: shop
tasks:
  - {id: pay, type: http.Request, uri: 'https://pay.example/', method: POST}
";

pub const FAILS: &str = "
id: fails
namespace: shop
tasks:
  - {id: pay, type: http.Request, uri: 'https://fail.example/', method: POST}
";

pub const LOST: &str = "
id: lost
namespace: shop
tasks:
  - {id: pay, type: http.Request, uri: 'https://lost.example/', method: POST}
";
