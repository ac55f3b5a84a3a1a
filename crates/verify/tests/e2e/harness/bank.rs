//! A bank in the test's own process: it outlives every server and remembers each call that reached it.
//!
//! | path | what it does with a call |
//! |---|---|
//! | `/naive/{name}` | applies each one |
//! | `/dedupe/{name}` | applies the first of each `Idempotency-Key`, answers repeats with the same receipt |
//! | `/hold/{name}` | like dedupe, but answers only when the test lets it |
//! | `/flaky/{n}/{name}` | 500 for the first n calls, then applies |
//! | `/slow/{ms}/{name}` | applies, then takes that long to answer |
//! | `/status/{code}/{name}` | answers with this status |
//! | `/bytes/{n}/{name}` | answers with so many bytes |
//! | `/echo/{name}` | applies, and shows the caller what it sent |
//! | `cut_url` | applies, then closes the connection without an answer |

use super::{PATIENCE, eventually};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{any, post};
use axum::{Json as Body, Router};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub key: Option<String>,
    pub headers: HashMap<String, String>,
    pub body: String,
}

#[derive(Default)]
struct Ledger {
    calls: Vec<Call>,
    /// How often the far side changed something, by name.
    applied: BTreeMap<String, u32>,
    receipts: BTreeMap<String, String>,
    gates: HashMap<String, Arc<Semaphore>>,
    /// Held calls that have not been answered: now, and the most there ever were.
    held: BTreeMap<String, (usize, usize)>,
}

impl Ledger {
    fn apply(&mut self, name: &str) -> String {
        let count = self.applied.entry(name.to_owned()).or_default();
        *count += 1;
        format!("receipt-{name}-{count}")
    }

    fn apply_once(&mut self, name: &str, key: Option<&String>) -> String {
        let Some(key) = key else { return self.apply(name) };
        if let Some(receipt) = self.receipts.get(key) {
            return receipt.clone();
        }
        let receipt = self.apply(name);
        self.receipts.insert(key.clone(), receipt.clone());
        receipt
    }

    fn gate(&mut self, name: &str) -> Arc<Semaphore> {
        self.gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
    }
}

#[derive(Clone)]
pub struct Bank {
    ledger: Arc<Mutex<Ledger>>,
    address: std::net::SocketAddr,
    cutter: std::net::SocketAddr,
}

impl Bank {
    pub async fn start() -> Bank {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let cutter = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bank = Bank {
            ledger: Arc::default(),
            address: listener.local_addr().expect("an address"),
            cutter: cutter.local_addr().expect("an address"),
        };
        let router = Router::new()
            .route("/naive/{name}", any(naive))
            .route("/dedupe/{name}", any(dedupe))
            .route("/hold/{name}", any(hold))
            .route("/flaky/{count}/{name}", any(flaky))
            .route("/slow/{ms}/{name}", any(slow))
            .route("/status/{code}/{name}", any(status))
            .route("/bytes/{count}/{name}", any(bytes))
            .route("/echo/{name}", post(echo))
            .with_state(bank.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        tokio::spawn(bank.clone().cut(cutter));
        bank
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where calls are applied and get no answer.
    pub fn cut_url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.cutter)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("not poisoned")
    }

    pub fn calls(&self, name: &str) -> Vec<Call> {
        self.ledger().calls.iter().filter(|call| call.name == name).cloned().collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.calls(name).len()
    }

    pub fn applied(&self, name: &str) -> u32 {
        self.ledger().applied.get(name).copied().unwrap_or(0)
    }

    pub fn keys(&self, name: &str) -> Vec<String> {
        self.calls(name).into_iter().map(|call| call.key.unwrap_or_default()).collect()
    }

    /// The most calls that were held under this name at one time.
    pub fn most_at_once(&self, name: &str) -> usize {
        self.ledger().held.get(name).map_or(0, |(_, most)| *most)
    }

    /// Waits until that many calls have reached `name`.
    pub async fn arrived(&self, name: &str, count: usize) {
        let what = format!("{count} calls of {name}");
        eventually(PATIENCE, &what, || std::future::ready((self.count(name) >= count).then_some(()))).await;
    }

    /// Lets this many held calls, present or future, be answered.
    pub fn release(&self, name: &str, count: usize) {
        self.ledger().gate(name).add_permits(count);
    }

    fn record(&self, name: &str, headers: &HeaderMap, body: &str) -> Call {
        let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let call = Call {
            name: name.to_owned(),
            key: headers.get("idempotency-key").map(text),
            headers: headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: body.to_owned(),
        };
        self.ledger().calls.push(call.clone());
        call
    }

    async fn cut(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let bank = self.clone();
            tokio::spawn(async move { bank.cut_one(stream).await });
        }
    }

    /// Reads one request whole, applies it, and hangs up.
    async fn cut_one(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let head = loop {
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            }
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break String::from_utf8_lossy(&bytes[..at]).into_owned();
            }
        };
        let mut lines = head.lines();
        let name =
            lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("/").trim_start_matches('/').to_owned();
        let pairs = lines.filter_map(|line| line.split_once(": "));
        let headers: HashMap<String, String> =
            pairs.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let key = headers.get("idempotency-key").cloned();
        self.apply_unanswered(Call { name, key, headers, body: String::new() });
        // The peer may be gone already.
        let _ = stream.shutdown().await;
    }
}

impl Bank {
    fn apply_unanswered(&self, call: Call) {
        let mut ledger = self.ledger();
        ledger.apply(&call.name);
        ledger.calls.push(call);
    }
}

fn receipt(text: String) -> Body<Json> {
    Body(json!({"receipt": text}))
}

async fn naive(State(bank): State<Bank>, Path(name): Path<String>, headers: HeaderMap, body: String) -> Body<Json> {
    bank.record(&name, &headers, &body);
    receipt(bank.ledger().apply(&name))
}

async fn dedupe(State(bank): State<Bank>, Path(name): Path<String>, headers: HeaderMap, body: String) -> Body<Json> {
    let call = bank.record(&name, &headers, &body);
    receipt(bank.ledger().apply_once(&name, call.key.as_ref()))
}

async fn hold(State(bank): State<Bank>, Path(name): Path<String>, headers: HeaderMap, body: String) -> Body<Json> {
    let (text, gate) = {
        let call = bank.record(&name, &headers, &body);
        let mut ledger = bank.ledger();
        let (now, most) = ledger.held.entry(name.clone()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        (ledger.apply_once(&name, call.key.as_ref()), ledger.gate(&name))
    };
    if let Ok(permit) = gate.acquire().await {
        permit.forget();
    }
    if let Some((now, _)) = bank.ledger().held.get_mut(&name) {
        *now -= 1;
    }
    receipt(text)
}

async fn flaky(
    State(bank): State<Bank>,
    Path((count, name)): Path<(usize, String)>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, Body<Json>) {
    bank.record(&name, &headers, &body);
    if bank.count(&name) <= count {
        return (StatusCode::INTERNAL_SERVER_ERROR, Body(json!({"error": "not now"})));
    }
    (StatusCode::OK, receipt(bank.ledger().apply(&name)))
}

async fn slow(
    State(bank): State<Bank>,
    Path((ms, name)): Path<(u64, String)>,
    headers: HeaderMap,
    body: String,
) -> Body<Json> {
    bank.record(&name, &headers, &body);
    let text = bank.ledger().apply(&name);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    receipt(text)
}

async fn status(
    State(bank): State<Bank>,
    Path((code, name)): Path<(u16, String)>,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    bank.record(&name, &headers, &body);
    StatusCode::from_u16(code).unwrap_or(StatusCode::IM_A_TEAPOT)
}

async fn bytes(State(bank): State<Bank>, Path((count, name)): Path<(usize, String)>, headers: HeaderMap) -> String {
    bank.record(&name, &headers, "");
    "x".repeat(count)
}

async fn echo(State(bank): State<Bank>, Path(name): Path<String>, headers: HeaderMap, body: String) -> Body<Json> {
    let call = bank.record(&name, &headers, &body);
    bank.ledger().apply(&name);
    Body(json!({"headers": call.headers, "body": call.body}))
}
