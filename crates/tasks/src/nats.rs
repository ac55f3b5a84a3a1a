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
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::GetStreamByNameErrorKind;
use async_nats::jetstream::{self, AckKind};
use async_nats::{Client, ConnectOptions, HeaderMap, ServerAddr};
use futures_util::StreamExt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

const CONNECT: Duration = Duration::from_secs(5);
/// A message that was handed over and not taken comes again after this.
const ACK_WAIT: Duration = Duration::from_secs(30);
const NOT_TAKEN: Duration = Duration::from_secs(1);
/// Messages that are handed over at once.
const OPEN_MAX: i64 = 100;
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
    /// What its sender calls it, else its place in the stream. Without either it has no name.
    pub id: Option<String>,
    pub payload: Vec<u8>,
}

impl Nats {
    /// `nats://user:password@host:port`; several with commas are one cluster.
    pub fn new(url: &str) -> Result<Nats, String> {
        let address = |text: &str| text.trim().parse::<ServerAddr>().map_err(|error| format!("`{text}`: {error}"));
        let addresses = url.split(',').map(address).collect::<Result<Vec<_>, _>>()?;
        Ok(Nats { addresses: Arc::new(addresses), client: Arc::new(OnceCell::new()) })
    }

    /// Whether the server answers.
    pub async fn check(&self) -> Result<(), String> {
        let client = self.connected().await?;
        let answered = tokio::time::timeout(CONNECT, client.flush()).await;
        answered.map_err(|_| "the NATS server does not answer".to_owned())?.map_err(|error| error.to_string())
    }

    async fn connected(&self) -> Result<&Client, String> {
        let connect = || async {
            let options = ConnectOptions::new().name("semel").connection_timeout(CONNECT);
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
        let stream = match tokio::time::timeout(time, context.stream_by_subject(subject)).await {
            Ok(found) => found.is_ok(),
            Err(_) => return unreached("the NATS server does not answer".to_owned()),
        };
        let mut headers = HeaderMap::new();
        headers.insert(ID, id);
        if before.is_some_and(|before| Instant::now() >= before) {
            let message = "the node's lease ended before the message left".to_owned();
            return Outcome::FailedClean { code: LEASE_LAPSED, message, output: None, retryable: true };
        }
        let sent = async {
            if stream {
                let acknowledged = context.publish_with_headers(subject.to_owned(), headers, payload.into()).await;
                acknowledged.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
            } else {
                let sent = client.publish_with_headers(subject.to_owned(), headers, payload.into()).await;
                sent.map_err(|error| error.to_string())?;
                client.flush().await.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        };
        match tokio::time::timeout(time, sent).await {
            Ok(Ok(())) => Outcome::Done { output: serde_json::Value::Null },
            Ok(Err(message)) => Outcome::Lost { code: "nats_lost", message },
            Err(_) => Outcome::Lost { code: "timeout", message: "the NATS server does not answer".to_owned() },
        }
    }

    /// Hands over what comes in, one after the other; a message counts as taken when `take` says so. `group` shares the
    /// messages among those that listen under it. Ends with the reason why there is nothing more to hear.
    pub async fn listen<F>(&self, subject: &str, group: &str, durable: &str, take: impl Fn(Incoming) -> F) -> String
    where
        F: Future<Output = bool>,
    {
        let heard = async {
            let client = self.connected().await?;
            let context = jetstream::new(client.clone());
            match context.stream_by_subject(subject).await {
                Ok(stream) => self.consume(&context, &stream, subject, durable, take).await,
                Err(error) if error.kind() == GetStreamByNameErrorKind::InvalidSubject => Err(error.to_string()),
                Err(_) => subscribe(client, subject, group, take).await,
            }
        };
        match heard.await {
            Ok(()) => "the subscription has ended".to_owned(),
            Err(message) => message,
        }
    }

    async fn consume<F>(
        &self,
        context: &jetstream::Context,
        stream: &str,
        subject: &str,
        durable: &str,
        take: impl Fn(Incoming) -> F,
    ) -> Result<(), String>
    where
        F: Future<Output = bool>,
    {
        let stream = context.get_stream(stream).await.map_err(|error| error.to_string())?;
        let config = pull::Config {
            durable_name: Some(durable.to_owned()),
            filter_subject: subject.to_owned(),
            deliver_policy: DeliverPolicy::New,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: OPEN_MAX,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(durable, config).await.map_err(|error| error.to_string())?;
        let mut messages = consumer.messages().await.map_err(|error| error.to_string())?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| error.to_string())?;
            let place = message.info().ok().map(|info| format!("{}:{}", info.stream, info.stream_sequence));
            let incoming =
                Incoming { id: id_of(message.headers.as_ref()).or(place), payload: message.payload.to_vec() };
            // Not before what is made of it is durable.
            let answer = if take(incoming).await { AckKind::Ack } else { AckKind::Nak(Some(NOT_TAKEN)) };
            message.ack_with(answer).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

async fn subscribe<F>(client: &Client, subject: &str, group: &str, take: impl Fn(Incoming) -> F) -> Result<(), String>
where
    F: Future<Output = bool>,
{
    let subscribed = client.queue_subscribe(subject.to_owned(), group.to_owned()).await;
    let mut messages = subscribed.map_err(|error| error.to_string())?;
    while let Some(message) = messages.next().await {
        let incoming = Incoming { id: id_of(message.headers.as_ref()), payload: message.payload.to_vec() };
        // Nobody keeps it: it is offered until it is taken.
        while !take(incoming.clone()).await {
            tokio::time::sleep(NOT_TAKEN).await;
        }
    }
    Ok(())
}

fn id_of(headers: Option<&HeaderMap>) -> Option<String> {
    Some(headers?.get(ID)?.as_str().to_owned()).filter(|id| !id.is_empty())
}

fn unreached(message: String) -> Outcome {
    Outcome::FailedClean { code: "nats_unreached", message, output: None, retryable: true }
}

/// Whether tasks can publish to a subject: no blanks, no empty parts, no patterns.
pub fn is_subject(subject: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "*" && part != ">" && !part.contains(char::is_whitespace);
    subject.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_to_publish_to_are_no_patterns() {
        assert!(is_subject("orders.paid") && is_subject("orders"));
        for wrong in ["", "a..b", "a.*", "orders.>", "a b", ".a"] {
            assert!(!is_subject(wrong), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        assert!(Nats::new("nats://user:secret@127.0.0.1:4222, nats://other:4222").is_ok());
        assert!(Nats::new("http://127.0.0.1:4222").is_err());
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_clean_failure() {
        let nats = Nats::new("nats://127.0.0.1:1").unwrap();
        let outcome = nats.publish("a", "id", Vec::new(), Duration::from_secs(2), None).await;
        assert!(matches!(outcome, Outcome::FailedClean { code: "nats_unreached", retryable: true, .. }), "{outcome:?}");
        assert!(nats.check().await.is_err());
    }
}
