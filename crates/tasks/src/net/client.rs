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
use super::slots::{Slot, Slots};
use super::{NetConfig, NetError};
use crate::effect::LEASE_LAPSED;
use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, Response, StatusCode, Url};
use std::error::Error as StdError;
#[cfg(feature = "kafka")]
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

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
    /// Where to look again when the answer says so. Only reads are sent again, see [`redirected`].
    pub follow: bool,
    /// Where the answer's body goes, instead of into memory.
    pub into: Option<Pour>,
}

/// Takes the body of an answer while it arrives.
#[derive(Clone)]
pub struct Pour {
    pub to: Sender<Vec<u8>>,
    pub bytes_max: u64,
}

pub enum Body {
    Empty,
    Text(String),
    Form(Vec<(String, String)>),
    Bytes(Vec<u8>),
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

    /// The write was answered, so there is no doubt about it; only where it led could not be read.
    fn after_a_write(self) -> CallError {
        match self {
            CallError::Lost { message, .. } => CallError::clean("redirect_failed", message, false),
            clean => clean,
        }
    }

    fn lost(code: &'static str, message: impl Into<String>) -> CallError {
        CallError::Lost { code, message: message.into() }
    }
}

pub struct Net {
    guard: Arc<Guard>,
    #[cfg(feature = "kafka")]
    lookup: Arc<dyn Lookup>,
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
            #[cfg(feature = "kafka")]
            lookup,
            reads: reads.build().map_err(NetError::Tls)?,
            writes: writes.build().map_err(NetError::Tls)?,
            slots: Slots::new(config.calls_max, config.calls_per_host_max),
            timeout: Duration::from_millis(config.timeout_ms),
            answer_bytes_max: config.answer_bytes_max,
        })
    }

    /// The addresses of a server that is spoken to in another way than HTTP.
    #[cfg(feature = "kafka")]
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, CallError> {
        let found = self.guard.addresses(self.lookup.as_ref(), host, port).await;
        found.map_err(|error| match error.downcast_ref::<Refusal>() {
            Some(refusal) => refused(refusal.clone()),
            None => CallError::clean("connect", format!("{host} is not found: {error}"), true),
        })
    }

    /// A place for a call to `host`, as all calls take one.
    pub async fn place(&self, host: &str, timeout: Duration) -> Result<Slot, CallError> {
        let taken = tokio::time::timeout(timeout, self.slots.take(host)).await;
        let full = "no place for another outbound call became free in time";
        taken.ok().flatten().ok_or_else(|| CallError::clean("no_slot", full, true))
    }

    /// One request, and the reads that its answer sends us to. All of them share the time of the call.
    pub async fn call(&self, mut call: Call) -> Result<Answer, CallError> {
        let time = call.timeout.unwrap_or(self.timeout).min(call.timeout_max);
        let until = Instant::now() + time;
        let is_write = !is_read(&call.method);
        for hop in 0..HOPS_MAX {
            let next = call.follow.then(|| call.aside());
            let left = until.saturating_duration_since(Instant::now());
            let answered = self.one(call, left, time).await;
            let answer = if hop > 0 && is_write { answered.map_err(CallError::after_a_write)? } else { answered? };
            match next.and_then(|next| redirected(&answer, next)) {
                Some(next) => call = next,
                None => return Ok(answer),
            }
        }
        Err(CallError::clean("too_many_redirects", format!("more than {HOPS_MAX} answers led elsewhere"), false))
    }

    async fn one(&self, call: Call, timeout: Duration, whole: Duration) -> Result<Answer, CallError> {
        let url = self.guard.check_url(&call.uri).map_err(refused)?;
        let passage =
            Arc::new(Passage::new(call.send_before, self.guard.names_host(&url), url.port_or_known_default()));
        // Waiting for a place is not part of the call's time: it has not begun.
        let host = url.host_str().unwrap_or_default().to_owned();
        let _slot = self.place(&host, timeout).await?;
        if passage.lapsed() {
            return Err(lapsed());
        }
        let gated = !is_read(&call.method);
        let client = if gated { &self.writes } else { &self.reads };
        let sending = self.send(client, call, url, &passage, gated);
        match tokio::time::timeout(timeout, CALL.scope(Arc::clone(&passage), sending)).await {
            Ok(done) => done,
            Err(_) if gated && !passage.passed() => {
                Err(CallError::clean("connect", format!("no connection within {} ms", whole.as_millis()), true))
            }
            Err(_) => Err(CallError::lost("timeout", format!("no complete answer within {} ms", whole.as_millis()))),
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
            Body::Bytes(bytes) => request.body(bytes),
        };
        let into = call.into;
        let request =
            request.build().map_err(|error| CallError::clean("bad_config", causes(error.without_url()), false))?;
        let response = client.execute(request).await.map_err(|error| {
            let never_left = if gated { !passage.passed() } else { error.is_connect() };
            unanswered(error, never_left)
        })?;
        match into {
            // An answer that leads elsewhere is not what was asked for, nor is its body.
            Some(pour) if !response.status().is_redirection() => self.pour(response, url, is_head, pour).await,
            _ => self.read(response, url, is_head).await,
        }
    }

    /// As [`Net::read`], with the body handed on piece by piece.
    async fn pour(&self, mut response: Response, url: Url, is_head: bool, pour: Pour) -> Result<Answer, CallError> {
        let answer = Answer { url, status: response.status(), headers: response.headers().clone(), body: Vec::new() };
        let announced = if is_head { None } else { response.content_length() };
        let too_large = |bytes: u64| bytes > pour.bytes_max;
        let mut bytes = 0;
        loop {
            if too_large(bytes) || announced.is_some_and(too_large) {
                let message = format!("the far side answered with more than {} bytes", pour.bytes_max);
                return Err(CallError::clean("answer_too_large", message, false));
            }
            match response.chunk().await {
                Ok(None) => return Ok(answer),
                Ok(Some(chunk)) => {
                    bytes += chunk.len() as u64;
                    if pour.to.send(chunk.to_vec()).await.is_err() {
                        return Err(CallError::clean("file_store", "the body could not be kept", true));
                    }
                }
                Err(error) => {
                    let message =
                        format!("the answer {} was cut: {}", answer.status.as_u16(), causes(error.without_url()));
                    return Err(CallError::lost("answer_cut", message));
                }
            }
        }
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

/// Answers that lead elsewhere, one after the other.
const HOPS_MAX: usize = 10;

impl Call {
    /// The same request without its body: what a redirect may be made of.
    fn aside(&self) -> Call {
        Call {
            method: self.method.clone(),
            uri: self.uri.clone(),
            headers: self.headers.clone(),
            body: Body::Empty,
            timeout: self.timeout,
            timeout_max: self.timeout_max,
            send_before: self.send_before,
            follow: true,
            into: self.into.clone(),
        }
    }
}

/// The read that an answer sends us to, if it does. A write is never sent a second time: its answer is returned, unless it
/// says that what it came to can be read elsewhere.
fn redirected(answer: &Answer, mut next: Call) -> Option<Call> {
    let seen_elsewhere = matches!(answer.status.as_u16(), 301..=303);
    let again = matches!(answer.status.as_u16(), 307 | 308);
    if !(seen_elsewhere || again && is_read(&next.method)) {
        return None;
    }
    let location = answer.headers.get(reqwest::header::LOCATION)?.to_str().ok()?;
    let target = answer.url.join(location).ok()?;
    if !is_read(&next.method) {
        next.method = Method::GET;
    }
    next.headers.remove(reqwest::header::CONTENT_TYPE);
    if target.origin() != answer.url.origin() {
        // What proves who we are is for the one it was meant for.
        for name in ["authorization", "cookie", "proxy-authorization", "idempotency-key"] {
            next.headers.remove(name);
        }
    }
    next.uri = target.to_string();
    Some(next)
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
