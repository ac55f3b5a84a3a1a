//! One request per call, and an honest word on whether it may have left.
//!
//! | what happened | verdict |
//! |---|---|
//! | refused address, bad URL or header, no place, lease over, no connection | clean: nothing left |
//! | an answer was read to its end | answered |
//! | the answer is larger than allowed | clean: the far side did answer |
//! | time ran out, reset, closed or cut after the gate opened | lost: it may have happened |

use super::gate::{CALL, GateLayer, Passage, Shut};
use super::guard::{Guard, GuardedResolver, Lookup, Refusal, SystemLookup};
use super::slots::Slots;
use super::{NetConfig, NetError};
use crate::effect::LEASE_LAPSED;
use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, Response, StatusCode, Url};
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Call {
    pub method: Method,
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Body,
    /// The author's own bound; the configured one if absent.
    pub timeout: Option<Duration>,
    /// What the intent promised: the call never lasts longer.
    pub timeout_max: Duration,
    pub send_before: Option<Instant>,
}

pub enum Body {
    Empty,
    Text(String),
    Form(Vec<(String, String)>),
}

#[derive(Debug)]
pub struct Answer {
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub enum CallError {
    /// Nothing left, or the far side answered (then with what it said, body apart).
    Clean {
        code: &'static str,
        message: String,
        retryable: bool,
        answer: Option<Box<Answer>>,
    },
    Lost {
        code: &'static str,
        message: String,
    },
}

impl CallError {
    fn clean(code: &'static str, message: impl Into<String>, retryable: bool) -> CallError {
        CallError::Clean { code, message: message.into(), retryable, answer: None }
    }

    fn lost(code: &'static str, message: impl Into<String>) -> CallError {
        CallError::Lost { code, message: message.into() }
    }
}

pub struct Net {
    guard: Arc<Guard>,
    /// Keeps connections: a read may be repeated.
    reads: Client,
    /// One connection per call, with the gate in front of its first byte.
    writes: Client,
    slots: Slots,
    timeout: Duration,
    answer_bytes_max: usize,
}

impl Net {
    pub fn new(config: &NetConfig) -> Result<Net, NetError> {
        Net::with_lookup(config, Arc::new(SystemLookup))
    }

    pub fn with_lookup(config: &NetConfig, lookup: Arc<dyn Lookup>) -> Result<Net, NetError> {
        if config.calls_max == 0 || config.calls_per_host_max == 0 || config.timeout_ms == 0 {
            return Err(NetError::ZeroLimit);
        }
        // The client panics without a provider. A second installation is refused and harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let guard = Arc::new(Guard::new(config)?);
        let reads = builder(&guard, &lookup).pool_idle_timeout(Duration::from_secs(30)).pool_max_idle_per_host(4);
        let writes = builder(&guard, &lookup).pool_max_idle_per_host(0).connector_layer(GateLayer);
        Ok(Net {
            guard,
            reads: reads.build().map_err(NetError::Tls)?,
            writes: writes.build().map_err(NetError::Tls)?,
            slots: Slots::new(config.calls_max, config.calls_per_host_max),
            timeout: Duration::from_millis(config.timeout_ms),
            answer_bytes_max: config.answer_bytes_max,
        })
    }

    pub async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let url = self.guard.check_url(&call.uri).map_err(refused)?;
        let timeout = call.timeout.unwrap_or(self.timeout).min(call.timeout_max);
        let passage =
            Arc::new(Passage::new(call.send_before, self.guard.names_host(&url), url.port_or_known_default()));
        // Waiting for a place is not part of the call's time: it has not begun.
        let host = url.host_str().unwrap_or_default().to_owned();
        let _slot = match tokio::time::timeout(timeout, self.slots.take(&host)).await {
            Ok(Some(slot)) => slot,
            Ok(None) | Err(_) => {
                return Err(CallError::clean(
                    "no_slot",
                    "no place for another outbound call became free in time",
                    true,
                ));
            }
        };
        if passage.lapsed() {
            return Err(lapsed());
        }
        let gated = !is_read(&call.method);
        let client = if gated { &self.writes } else { &self.reads };
        let sending = self.send(client, call, url, &passage, gated);
        match tokio::time::timeout(timeout, CALL.scope(Arc::clone(&passage), sending)).await {
            Ok(done) => done,
            Err(_) if gated && !passage.passed() => {
                Err(CallError::clean("connect", format!("no connection within {} ms", timeout.as_millis()), true))
            }
            Err(_) => Err(CallError::lost("timeout", format!("no complete answer within {} ms", timeout.as_millis()))),
        }
    }

    async fn send(
        &self,
        client: &Client,
        call: Call,
        url: Url,
        passage: &Passage,
        gated: bool,
    ) -> Result<Answer, CallError> {
        let is_head = call.method == Method::HEAD;
        // Servers may refuse a write without a length (411), even when there is nothing to send.
        let says_length = matches!(call.method, Method::POST | Method::PUT | Method::PATCH);
        let mut request = client.request(call.method, url.clone()).headers(call.headers);
        request = match call.body {
            Body::Empty if says_length => request.header(reqwest::header::CONTENT_LENGTH, 0),
            Body::Empty => request,
            Body::Text(text) => request.body(text),
            Body::Form(pairs) => request.form(&pairs),
        };
        let request =
            request.build().map_err(|error| CallError::clean("bad_config", causes(error.without_url()), false))?;
        let response = client.execute(request).await.map_err(|error| {
            let never_left = if gated { !passage.passed() } else { error.is_connect() };
            unanswered(error, never_left)
        })?;
        self.read(response, url, is_head).await
    }

    async fn read(&self, mut response: Response, url: Url, is_head: bool) -> Result<Answer, CallError> {
        let mut answer =
            Answer { url, status: response.status(), headers: response.headers().clone(), body: Vec::new() };
        let announced = if is_head { None } else { response.content_length() };
        if announced.is_some_and(|bytes| bytes > self.answer_bytes_max as u64) {
            return Err(self.too_large(answer));
        }
        loop {
            match response.chunk().await {
                Ok(None) => return Ok(answer),
                Ok(Some(chunk)) if answer.body.len() + chunk.len() > self.answer_bytes_max => {
                    return Err(self.too_large(answer));
                }
                Ok(Some(chunk)) => answer.body.extend_from_slice(&chunk),
                Err(error) => {
                    let message =
                        format!("the answer {} was cut: {}", answer.status.as_u16(), causes(error.without_url()));
                    return Err(CallError::lost("answer_cut", message));
                }
            }
        }
    }

    fn too_large(&self, mut answer: Answer) -> CallError {
        answer.body = Vec::new();
        let message =
            format!("the far side answered {} with more than {} bytes", answer.status.as_u16(), self.answer_bytes_max);
        CallError::Clean { code: "answer_too_large", message, retryable: false, answer: Some(Box::new(answer)) }
    }
}

/// Methods that change nothing by definition, so that a repeat is harmless.
pub fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

fn builder(guard: &Arc<Guard>, lookup: &Arc<dyn Lookup>) -> ClientBuilder {
    let resolver = GuardedResolver { guard: Arc::clone(guard), lookup: Arc::clone(lookup) };
    Client::builder()
        .user_agent(concat!("semel/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .dns_resolver(resolver)
}

fn refused(refusal: Refusal) -> CallError {
    let code = match refusal {
        Refusal::NotAUrl | Refusal::Scheme | Refusal::UserInfo => "bad_uri",
        Refusal::Address(_) => "address_refused",
    };
    CallError::clean(code, refusal.to_string(), false)
}

fn lapsed() -> CallError {
    CallError::clean(LEASE_LAPSED, Shut::LeaseLapsed.to_string(), true)
}

fn unanswered(error: reqwest::Error, never_left: bool) -> CallError {
    if let Some(refusal) = cause::<Refusal>(&error) {
        return refused(refusal.clone());
    }
    match cause::<Shut>(&error) {
        Some(Shut::LeaseLapsed) => return lapsed(),
        // The first connection passed the gate, so the request may have left on it.
        Some(Shut::SecondSend) => return CallError::lost("connection_lost", Shut::SecondSend.to_string()),
        Some(Shut::Stray) => return CallError::clean("internal", Shut::Stray.to_string(), false),
        None => {}
    }
    let message = causes(error.without_url());
    if never_left { CallError::clean("connect", message, true) } else { CallError::lost("connection_lost", message) }
}

fn cause<T: StdError + 'static>(error: &reqwest::Error) -> Option<&T> {
    std::iter::successors(error.source(), |&inner| inner.source()).find_map(|inner| inner.downcast_ref::<T>())
}

/// The error and what caused it, in one line.
fn causes(error: reqwest::Error) -> String {
    let mut parts: Vec<String> = vec![error.to_string()];
    for inner in std::iter::successors(error.source(), |&inner| inner.source()) {
        let text = inner.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
    }
    parts.join(": ")
}
