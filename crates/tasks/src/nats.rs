//! The NATS server that the operator has named: what tasks publish to it, and what is heard from it.
//!
//! | a subject | publishing | listening |
//! |---|---|---|
//! | that a JetStream stream keeps | is done when the stream says that it has the message | a durable consumer; a message that was not taken comes again |
//! | that none keeps | is done when the server has the message; who does not listen then misses it | likewise |
//!
//! A message carries its id as `Nats-Msg-Id`: a stream drops another one with the same id within its window, and
//! whoever takes messages can do the same for ever.

use crate::effect::{LEASE_LAPSED, Outcome};
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::{GetStreamByNameError, GetStreamByNameErrorKind, StreamsError, StreamsErrorKind};
use async_nats::jetstream::stream::RetentionPolicy;
use async_nats::jetstream::{self, AckKind, ErrorCode};
use async_nats::{Client, ConnectOptions, HeaderMap, ServerAddr, Subscriber};
use futures_util::StreamExt;
use semel_core::subject::listenable;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio::time::MissedTickBehavior;

const CONNECT: Duration = Duration::from_secs(5);
/// A message that was handed over and not taken comes again after this.
const ACK_WAIT: Duration = Duration::from_secs(30);
const NOT_TAKEN: Duration = Duration::from_secs(1);
/// Messages that are handed over at once.
const OPEN_MAX: i64 = 100;
/// Messages of a subscription that wait in memory.
const WAITING_MAX: usize = 1_024;
/// How often it is looked whether a stream keeps a subject that none kept.
const LOOK_FOR_STREAM: Duration = Duration::from_secs(30);
const ID: &str = "Nats-Msg-Id";

/// Connected at the first use; the connection is kept, and made again when it breaks. Clones share it.
#[derive(Clone)]
pub struct Nats {
    addresses: Arc<Vec<ServerAddr>>,
    client: Arc<OnceCell<Client>>,
}

/// A message that has come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// What its sender calls it, else its place in the stream and when that got it: a stream that is made again under
    /// the same name begins to count again. Without either it has no name.
    pub id: Option<String>,
    pub payload: Vec<u8>,
}

impl Nats {
    /// `nats://user:password@host:port`; several with commas are one cluster.
    pub fn new(url: &str) -> Result<Nats, String> {
        // Of an address only its place is told: it may have a password.
        let address = |(place, text): (usize, &str)| {
            let parsed = text.trim().parse::<ServerAddr>();
            parsed.map_err(|error| format!("address {}: {}", place + 1, without_address(&error)))
        };
        let addresses = url.split(',').enumerate().map(address).collect::<Result<Vec<_>, _>>()?;
        Ok(Nats { addresses: Arc::new(addresses), client: Arc::new(OnceCell::new()) })
    }

    /// Whether the server answers.
    pub async fn check(&self) -> Result<(), String> {
        let client = self.connected().await?;
        let answered = async { Echo::new(client).await?.heard().await };
        tokio::time::timeout(CONNECT, answered).await.map_err(|_| "the NATS server does not answer".to_owned())?
    }

    async fn connected(&self) -> Result<&Client, String> {
        let connect = || async {
            let options = ConnectOptions::new().name("semel").connection_timeout(CONNECT);
            let options = options.subscription_capacity(WAITING_MAX);
            options
                .connect(&self.addresses[..])
                .await
                .map_err(|error| format!("the NATS server is not reached: {error}"))
        };
        self.client.get_or_try_init(connect).await
    }

    /// Publishes one message, and waits for word that it arrived. `before` is the end of the node's right to send: the look
    /// at it is the last thing before the first byte.
    pub async fn publish(
        &self,
        subject: &str,
        id: &str,
        payload: Vec<u8>,
        time: Duration,
        before: Option<Instant>,
    ) -> Outcome {
        let client = match self.connected().await {
            Ok(client) => client,
            Err(message) => return unreached(message),
        };
        if client.connection_state() != async_nats::connection::State::Connected {
            return unreached("the NATS server is not reached: the connection is being made again".to_owned());
        }
        let context = jetstream::new(client.clone());
        let ready = async {
            match stream_of(&context, subject).await? {
                Some(_) => Ok(None),
                None => Echo::new(client).await.map(Some),
            }
        };
        // Nothing has left yet.
        let echo = match tokio::time::timeout(time, ready).await {
            Ok(Ok(echo)) => echo,
            Ok(Err(message)) => return unreached(message),
            Err(_) => return unreached("the NATS server does not answer".to_owned()),
        };
        let mut headers = HeaderMap::new();
        headers.insert(ID, id);
        if before.is_some_and(|before| Instant::now() >= before) {
            let message = "the node's lease ended before the message left".to_owned();
            return Outcome::FailedClean { code: LEASE_LAPSED, message, output: None, retryable: true };
        }
        let sent = async {
            match echo {
                None => {
                    let acknowledged = context.publish_with_headers(subject.to_owned(), headers, payload.into()).await;
                    acknowledged.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
                    Ok::<(), String>(())
                }
                Some(echo) => {
                    let sent = client.publish_with_headers(subject.to_owned(), headers, payload.into()).await;
                    sent.map_err(|error| error.to_string())?;
                    echo.heard().await
                }
            }
        };
        match tokio::time::timeout(time, sent).await {
            Ok(Ok(())) => Outcome::Done { output: serde_json::Value::Null },
            Ok(Err(message)) => Outcome::Lost { code: "nats_lost", message },
            Err(_) => Outcome::Lost { code: "timeout", message: "the NATS server does not answer".to_owned() },
        }
    }

    /// Hands over what comes in, one after the other; a message counts as taken when `take` says so. `name` shares the
    /// messages among those that listen under it. Ends with the reason why there is nothing more to hear.
    pub async fn listen<F>(&self, subject: &str, name: &str, take: impl Fn(Incoming) -> F) -> String
    where
        F: Future<Output = bool>,
    {
        let heard = async {
            listenable(subject)?;
            let client = self.connected().await?;
            let context = jetstream::new(client.clone());
            match stream_of(&context, subject).await? {
                Some(stream) => consume(consumer(&context, &stream, subject, name).await?, take).await,
                None => subscribe(client, &context, subject, name, take).await,
            }
        };
        match heard.await {
            Ok(()) => "the subscription has ended".to_owned(),
            Err(message) => message,
        }
    }
}

/// What comes back from the server when it has all that was sent before on the same connection: a flush of the client
/// ends at the socket.
struct Echo {
    client: Client,
    inbox: String,
    messages: Subscriber,
    connects: u64,
}

impl Echo {
    async fn new(client: &Client) -> Result<Echo, String> {
        let connects = client.statistics().connects.load(Ordering::Relaxed);
        let inbox = client.new_inbox();
        let messages = client.subscribe(inbox.clone()).await.map_err(|error| error.to_string())?;
        Ok(Echo { client: client.clone(), inbox, messages, connects })
    }

    /// Fails if the connection was made again meanwhile: what was sent on the one before may be lost.
    async fn heard(mut self) -> Result<(), String> {
        self.client.publish(self.inbox, Vec::new().into()).await.map_err(|error| error.to_string())?;
        self.messages.next().await.ok_or("the connection to the NATS server has ended")?;
        match self.client.statistics().connects.load(Ordering::Relaxed) == self.connects {
            true => Ok(()),
            false => Err("the connection to the NATS server broke".to_owned()),
        }
    }
}

/// The stream that keeps a subject; none only where the server says so, or has no streams at all.
async fn stream_of(context: &jetstream::Context, subject: &str) -> Result<Option<String>, String> {
    match context.stream_by_subject(subject).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if no_stream(&error, context.client().server_info().jetstream) => Ok(None),
        Err(error) => Err(format!("the NATS server does not say whether a stream keeps `{subject}`: {error}")),
    }
}

/// Whether an error says that there is no stream. A server that is starting, has no leader or is slow does not say so.
fn no_stream(error: &GetStreamByNameError, jetstream: bool) -> bool {
    if error.kind() == GetStreamByNameErrorKind::NotFound {
        return true;
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<jetstream::Error>() {
            let code = cause.error_code();
            return code == ErrorCode::JETSTREAM_NOT_ENABLED || code == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT;
        }
        if cause.downcast_ref::<StreamsError>().is_some_and(|cause| cause.kind() == StreamsErrorKind::NoResponders) {
            return !jetstream;
        }
        source = cause.source();
    }
    false
}

/// The durable consumer of a subject: made at its first use, then kept.
async fn consumer(
    context: &jetstream::Context,
    stream: &str,
    subject: &str,
    name: &str,
) -> Result<PullConsumer, String> {
    let stream = context.get_stream(stream).await.map_err(|error| error.to_string())?;
    let config = pull::Config {
        durable_name: Some(name.to_owned()),
        filter_subject: subject.to_owned(),
        deliver_policy: from(stream.cached_info().config.retention),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: OPEN_MAX,
        ..pull::Config::default()
    };
    stream.get_or_create_consumer(name, config).await.map_err(|error| error.to_string())
}

/// What a new consumer hears: what arrives from now on, but of a work queue all there is, as nothing else is allowed.
fn from(retention: RetentionPolicy) -> DeliverPolicy {
    match retention {
        RetentionPolicy::WorkQueue => DeliverPolicy::All,
        RetentionPolicy::Limits | RetentionPolicy::Interest => DeliverPolicy::New,
    }
}

async fn consume<F>(consumer: PullConsumer, take: impl Fn(Incoming) -> F) -> Result<(), String>
where
    F: Future<Output = bool>,
{
    let mut messages = consumer.messages().await.map_err(|error| error.to_string())?;
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| error.to_string())?;
        let place = message.info().ok().map(|info| {
            let published = info.published.unix_timestamp_nanos();
            format!("{}:{}:{published}", info.stream, info.stream_sequence)
        });
        let incoming = Incoming { id: id_of(message.headers.as_ref()).or(place), payload: message.payload.to_vec() };
        // Not before what is made of it is durable.
        let answer = if take(incoming).await { AckKind::Ack } else { AckKind::Nak(Some(NOT_TAKEN)) };
        message.ack_with(answer).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn subscribe<F>(
    client: &Client,
    context: &jetstream::Context,
    subject: &str,
    group: &str,
    take: impl Fn(Incoming) -> F,
) -> Result<(), String>
where
    F: Future<Output = bool>,
{
    let subscribed = client.queue_subscribe(subject.to_owned(), group.to_owned()).await;
    let mut messages = subscribed.map_err(|error| error.to_string())?;
    let mut look = tokio::time::interval(LOOK_FOR_STREAM);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.reset();
    let mut kept = false;
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            _ = look.tick(), if !kept => {
                // A look that fails is no word of a stream.
                if let Ok(Some(stream)) = stream_of(context, subject).await
                    && consumer(context, &stream, subject, group).await.is_ok()
                {
                    // The stream keeps what arrives from here on; what has arrived before is still taken.
                    messages.unsubscribe().await.map_err(|error| error.to_string())?;
                    kept = true;
                }
                continue;
            }
        };
        let Some(message) = message else { break };
        let incoming = Incoming { id: id_of(message.headers.as_ref()), payload: message.payload.to_vec() };
        // Nobody keeps it: it is offered until it is taken.
        while !take(incoming.clone()).await {
            tokio::time::sleep(NOT_TAKEN).await;
        }
    }
    if kept { Err("a stream keeps the subject now".to_owned()) } else { Ok(()) }
}

fn id_of(headers: Option<&HeaderMap>) -> Option<String> {
    Some(headers?.get(ID)?.as_str().to_owned()).filter(|id| !id.is_empty())
}

fn unreached(message: String) -> Outcome {
    Outcome::FailedClean { code: "nats_unreached", message, output: None, retryable: true }
}

/// What is wrong with an address, in words that have nothing of it.
fn without_address(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.starts_with("invalid scheme") {
        true => "begin it with nats://, tls://, ws:// or wss://".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        assert!(Nats::new("nats://user:secret@127.0.0.1:4222, nats://other:4222").is_ok());
        assert!(Nats::new("http://127.0.0.1:4222").is_err());
    }

    #[test]
    fn a_wrong_address_is_named_by_its_place() {
        for wrong in ["http://anna:secret@h", "nats://anna:secret@h:port", "nats://anna:secret@", "anna:secret://h"] {
            let error = Nats::new(&format!("nats://one:4222,{wrong}")).err().unwrap();
            assert!(error.starts_with("address 2: "), "{error}");
            assert!(!error.contains("anna") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_a_server_that_says_so_has_no_stream() {
        let asked = |source: StreamsError| GetStreamByNameError::with_source(GetStreamByNameErrorKind::Request, source);
        let said = |code: u64| {
            let error = serde_json::json!({"code": 503, "err_code": code, "description": "no"});
            asked(serde_json::from_value::<jetstream::Error>(error).unwrap().into())
        };
        assert!(no_stream(&GetStreamByNameError::new(GetStreamByNameErrorKind::NotFound), true));
        assert!(no_stream(&said(10_039), true) && no_stream(&said(10_076), true));
        assert!(no_stream(&asked(StreamsError::new(StreamsErrorKind::NoResponders)), false));
        assert!(!no_stream(&asked(StreamsError::new(StreamsErrorKind::NoResponders)), true), "it is starting");
        assert!(!no_stream(&asked(StreamsError::new(StreamsErrorKind::TimedOut)), false));
        assert!(!no_stream(&said(10_008), true), "a cluster without a leader");
    }

    #[test]
    fn of_a_work_queue_all_is_heard() {
        assert_eq!(from(RetentionPolicy::WorkQueue), DeliverPolicy::All);
        assert_eq!(from(RetentionPolicy::Interest), DeliverPolicy::New);
        assert_eq!(from(RetentionPolicy::Limits), DeliverPolicy::New);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_clean_failure() {
        let nats = Nats::new("nats://127.0.0.1:1").unwrap();
        let outcome = nats.publish("a", "id", Vec::new(), Duration::from_secs(2), None).await;
        assert!(matches!(outcome, Outcome::FailedClean { code: "nats_unreached", retryable: true, .. }), "{outcome:?}");
        assert!(nats.check().await.is_err());
    }
}
