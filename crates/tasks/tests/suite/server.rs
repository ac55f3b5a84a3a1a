//! Raw TCP servers that answer, hold or cut as a test wants, and count what reaches them.

use semel_tasks::{NetConfig, Outcome, Performer, Request};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

/// What the server does with each connection.
#[derive(Clone)]
pub enum Script {
    /// Closes before reading anything.
    CloseAtOnce,
    /// Reads the request and closes without a byte.
    CloseAfterRequest,
    /// Reads the request and resets the connection.
    ResetAfterRequest,
    /// Reads the request and waits until told, then closes.
    Hold(Arc<Notify>),
    /// Writes these bytes after the request, then closes.
    Answer(Vec<u8>),
    /// Writes these bytes after the request and keeps the connection for the next one.
    KeepAlive(Vec<u8>),
    /// Answers the first request and closes the connection when the next one begins on it.
    CloseOnReuse(Vec<u8>),
    /// Writes a head without length, then never stops writing.
    Endless,
    /// Writes the bytes and then nothing more, without closing.
    Stall(Vec<u8>),
}

pub struct Server {
    pub port: u16,
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
    seen: mpsc::UnboundedReceiver<String>,
}

impl Server {
    pub async fn start(script: Script) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (sender, seen) = mpsc::unbounded_channel();
        let (counted, heard) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, script.clone(), Arc::clone(&heard), sender.clone()));
            }
        });
        Server { port, connections, requests, seen }
    }

    pub fn uri(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// The text of the next request, head and body.
    pub async fn next_request(&mut self) -> String {
        let next = tokio::time::timeout(Duration::from_secs(10), self.seen.recv()).await;
        next.expect("a request in time").expect("a request")
    }
}

async fn serve(mut stream: TcpStream, script: Script, requests: Arc<AtomicUsize>, seen: mpsc::UnboundedSender<String>) {
    if matches!(script, Script::CloseAtOnce) {
        return;
    }
    let mut answered = false;
    while let Some(text) = read_request(&mut stream).await {
        requests.fetch_add(1, Ordering::SeqCst);
        let _ = seen.send(text);
        match &script {
            Script::CloseAtOnce | Script::CloseAfterRequest => return,
            Script::ResetAfterRequest => {
                let _ = stream.set_zero_linger();
                return;
            }
            Script::Hold(release) => {
                release.notified().await;
                return;
            }
            Script::Answer(bytes) => {
                let _ = stream.write_all(bytes).await;
                return;
            }
            Script::CloseOnReuse(_) if answered => return,
            Script::KeepAlive(bytes) | Script::CloseOnReuse(bytes) => {
                let _ = stream.write_all(bytes).await;
                answered = true;
            }
            Script::Endless => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                while stream.write_all(&[b'x'; 16 * 1024]).await.is_ok() {}
                return;
            }
            Script::Stall(bytes) => {
                let _ = stream.write_all(bytes).await;
                let mut rest = [0u8; 64];
                while matches!(stream.read(&mut rest).await, Ok(count) if count > 0) {}
                return;
            }
        }
    }
}

/// One request with a Content-Length body, or `None` when the peer has gone.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

pub fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

pub fn performer() -> Performer {
    Performer::new(NetConfig::default()).expect("a performer")
}

pub fn request(config: Json) -> Request {
    Request {
        step_id: "00ff".to_owned(),
        type_name: "http.Request".to_owned(),
        config,
        timeout_ms: 10_000,
        idempotency_key: None,
        send_before: None,
        traceparent: None,
        home: Default::default(),
        log: Default::default(),
        stop: Default::default(),
    }
}

pub async fn send(config: Json) -> Outcome {
    performer().perform(request(config)).await
}

pub async fn post(uri: String) -> Outcome {
    send(json!({ "uri": uri, "method": "POST", "body": "hello" })).await
}

/// `done`, `clean:<code>` or `lost:<code>`.
pub fn verdict(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { .. } => "done".to_owned(),
        Outcome::FailedClean { code, .. } => format!("clean:{code}"),
        Outcome::Lost { code, .. } => format!("lost:{code}"),
    }
}
