//! The load: clients in a closed loop, each on a connection of its own, all on one thread.
//!
//! The requests are written by hand, so that the generator takes as little as it can of the processors
//! it shares with the server.

use super::broken;
use super::figure::Figure;
use super::wire::{Wire, contains};
use crate::failure::Failure;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// What all clients send.
#[derive(Clone)]
pub struct Shape {
    /// Clients are spread over them in turn.
    pub addresses: Vec<SocketAddr>,
    pub token: Option<String>,
    pub to: To,
    /// Wait for the end of the run.
    pub wait: bool,
    pub keys: Keys,
    /// What an answer must say about replays, if that is known.
    pub replayed: Option<bool>,
}

/// Where the requests go.
#[derive(Clone, Copy)]
pub enum To {
    /// The trigger of this flow.
    Trigger(&'static str),
    /// The webhook of this flow of the namespace `bench`, at Kestra's own address; answered when its run has ended.
    KestraWebhook(&'static str),
    /// This workflow, at Conductor's own address; answered when it has ended.
    Conductor(&'static str),
}

#[derive(Clone)]
pub enum Keys {
    /// A new one each time; the text makes this measurement's keys its own.
    Fresh(String),
    /// Always this one.
    Same(String),
    /// A new one for all clients at the same moment, then the next.
    Hot(String),
}

/// Runs the load for `time` and measures it.
pub fn run(shape: &Shape, clients: usize, time: Duration) -> Result<Figure, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(broken)?;
    runtime.block_on(async {
        let gate = Arc::new(Gate { all: Barrier::new(clients), last: AtomicU64::new(u64::MAX) });
        let mut connected = Vec::with_capacity(clients);
        for number in 0..clients {
            connected.push(Client::connect(shape.clone(), number).await?);
        }
        let began = Instant::now();
        let until = began + time;
        // The first that fails ends all: the others would wait for it at the gate.
        let mut running: JoinSet<Result<Took, Failure>> =
            connected.into_iter().map(|client| client.run(until, gate.clone())).collect();
        let mut took = Vec::new();
        let mut firsts = 0;
        while let Some(ended) = running.join_next().await {
            let done = ended.map_err(broken)??;
            took.extend(done.took);
            firsts += done.firsts;
        }
        let figure = Figure::new(took, began.elapsed());
        if let Keys::Hot(_) = shape.keys {
            check_hot(&figure, firsts, clients)?;
        }
        Ok(figure)
    })
}

/// Of all that sent one key, one was first.
fn check_hot(figure: &Figure, firsts: usize, clients: usize) -> Result<(), Failure> {
    let keys = figure.operations() / clients;
    if firsts == keys {
        return Ok(());
    }
    Err(broken(format!("{keys} hot keys were sent and {firsts} runs were started: this must never happen")))
}

/// Where clients gather before each round of a hot key.
struct Gate {
    all: Barrier,
    /// The round that is not begun any more. All must agree on it, or some would wait for ever.
    last: AtomicU64,
}

impl Gate {
    /// True when this round is not to be begun.
    async fn pass(&self, round: u64, over: bool) -> bool {
        if over {
            self.last.fetch_min(round, Ordering::SeqCst);
        }
        self.all.wait().await;
        // Whoever is faster than this one can only have named a later round.
        self.last.load(Ordering::SeqCst) <= round
    }
}

struct Client {
    shape: Shape,
    number: usize,
    wire: Wire,
    sent: u64,
    request: Vec<u8>,
}

struct Took {
    took: Vec<u32>,
    firsts: usize,
}

impl Client {
    async fn connect(shape: Shape, number: usize) -> Result<Client, Failure> {
        let address = shape.addresses.get(number % shape.addresses.len().max(1));
        let address = address.ok_or_else(|| broken("there is no server to send to"))?;
        let wire = Wire::connect(*address).await?;
        Ok(Client { shape, number, wire, sent: 0, request: Vec::with_capacity(512) })
    }

    async fn run(mut self, until: Instant, gate: Arc<Gate>) -> Result<Took, Failure> {
        let mut done = Took { took: Vec::new(), firsts: 0 };
        let hot = matches!(self.shape.keys, Keys::Hot(_));
        loop {
            // However short the time was: whoever measures what comes next relies on the first.
            let over = Instant::now() >= until && self.sent > 0;
            if if hot { gate.pass(self.sent, over).await } else { over } {
                return Ok(done);
            }
            self.write_request();
            let began = Instant::now();
            let body = self.wire.exchange(&self.request).await?;
            done.took.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
            let replayed = contains(body, b"\"idempotent_replayed\":true");
            let good = match self.shape.to {
                To::Trigger(_) => self.shape.replayed.is_none_or(|expected| expected == replayed),
                To::KestraWebhook(_) => contains(body, b"\"current\":\"SUCCESS\""),
                To::Conductor(_) => contains(body, b"\"targetWorkflowStatus\":\"COMPLETED\""),
            };
            done.firsts += usize::from(!replayed);
            if !good {
                return Err(broken(format!("an unexpected answer: {}", self.wire.text())));
            }
            self.sent += 1;
        }
    }

    fn write_request(&mut self) {
        let key = match &self.shape.keys {
            Keys::Fresh(prefix) => format!("{prefix}-{}-{}", self.number, self.sent),
            Keys::Same(key) => key.clone(),
            Keys::Hot(prefix) => format!("{prefix}-{}", self.sent),
        };
        let order = format!(r#"{{"order":"{key}","amount":4200,"currency":"EUR"}}"#);
        let token = self.shape.token.as_ref().map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        let wait = if self.shape.wait { "Prefer: wait=60\r\n" } else { "" };
        let (path, body) = match self.shape.to {
            To::Trigger(flow) => (format!("/v1/workflows/{flow}/trigger"), format!(r#"{{"data":{order}}}"#)),
            To::KestraWebhook(flow) => (format!("/api/v1/main/executions/webhook/bench/{flow}/bench"), order),
            To::Conductor(name) => {
                let path = format!("/api/workflow/execute/{name}/1?waitForSeconds=60&returnStrategy=TARGET_WORKFLOW");
                (path, format!(r#"{{"name":"{name}","idempotencyKey":"{key}","input":{order}}}"#))
            }
        };
        self.request.clear();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Idempotency-Key: {key}\r\n{token}{wait}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.request.extend_from_slice(head.as_bytes());
    }
}
