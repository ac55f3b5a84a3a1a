//! One message to a Kafka topic, and an honest word on whether it may have arrived.
//!
//! | what happened | verdict |
//! |---|---|
//! | refused address, no server, topic or leader in time, lease over, too large before it was sent | clean: nothing left |
//! | all replicas that are in sync have it | done |
//! | the server refused it, at the first try | clean: the far side did answer |
//! | time ran out, or the connection broke on the way | lost: it may have arrived |
//!
//! The client sends again within one call, under a number by which the servers drop the second one. That number ends
//! with the call, so it says nothing about another one.

use crate::effect::{LEASE_LAPSED, Outcome};
use crate::net::Net;
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether a topic that was not there has been made meanwhile, and whether a message has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What the client needs to take a message back before the end of the node's lease.
const TAKE_BACK: Duration = Duration::from_millis(250);

pub struct Message {
    /// Hosts with their ports.
    pub servers: Vec<(String, u16)>,
    pub topic: String,
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: Vec<(String, String)>,
    pub terms: Terms,
}

#[derive(Clone, Copy)]
pub struct Terms {
    /// For finding the servers and the topic.
    pub find: Duration,
    /// For the answer to one request.
    pub answer: Duration,
    /// For all requests that one message takes.
    pub delivery: Duration,
    /// When all of it is over.
    pub until: Instant,
    /// The end of the node's right to send.
    pub send_before: Option<Instant>,
}

impl Terms {
    fn lapsed(&self) -> bool {
        self.send_before.is_some_and(|end| Instant::now() + TAKE_BACK >= end)
    }

    /// Until when a message that is sent now is waited for.
    fn end(&self) -> Instant {
        self.until.min(Instant::now() + self.delivery)
    }
}

/// What the client tells while it works.
#[derive(Default)]
struct Told {
    delivered: Option<Result<(), KafkaError>>,
    /// Something went wrong on the way, so that an answer may not be the first one.
    disturbed: bool,
}

#[derive(Default)]
struct Ear(Mutex<Told>);

impl Ear {
    fn with<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Ear {
    fn error(&self, _: KafkaError, _: &str) {
        self.with(|told| told.disturbed = true);
    }
}

impl ProducerContext for Ear {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let result = result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone());
        self.with(|told| told.delivered = Some(result));
    }
}

/// A client that knows the topic, and the servers that it was told of.
struct Ready {
    producer: BaseProducer<Ear>,
    brokers: Vec<(String, u16)>,
}

pub async fn publish(net: &Net, message: Message) -> Outcome {
    match published(net, message).await {
        Ok(outcome) | Err(outcome) => outcome,
    }
}

async fn published(net: &Net, message: Message) -> Result<Outcome, Outcome> {
    let first = message.servers.first().map(|(host, _)| host.as_str()).unwrap_or_default();
    let _place = net.place(first, message.terms.find).await?;
    let ready = prepared(net, &message).await?;
    let sent = tokio::task::spawn_blocking(move || send(&ready, &message)).await;
    sent.map_err(|panicked| Outcome::Lost { code: "internal", message: panicked.to_string() })
}

async fn prepared(net: &Net, message: &Message) -> Result<Ready, Outcome> {
    let mut addresses = Vec::new();
    for (host, port) in &message.servers {
        addresses.extend(net.addresses(host, *port).await?);
    }
    let (topic, terms) = (message.topic.clone(), message.terms);
    let found = tokio::task::spawn_blocking(move || find(&addresses, &topic, terms)).await;
    let ready = found.map_err(|panicked| unsent("internal", panicked.to_string(), false))??;
    // The client connects to whatever servers it is told of, so these are looked at as well.
    for (host, port) in &ready.brokers {
        if let Err(refused) = net.addresses(host, *port).await {
            // Its threads are waited for, so not here.
            let _ = tokio::task::spawn_blocking(move || drop(ready)).await;
            return Err(refused.into());
        }
    }
    Ok(ready)
}

fn client(addresses: &[SocketAddr], terms: Terms) -> Result<BaseProducer<Ear>, KafkaError> {
    // Addresses that were checked, not names: there is no second look-up after the check.
    let servers = addresses.iter().map(SocketAddr::to_string).collect::<Vec<String>>().join(",");
    let ms = |time: Duration| time.as_millis().max(1).to_string();
    let mut config = ClientConfig::new();
    config
        .set("client.id", "semel")
        .set("bootstrap.servers", servers)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("queue.buffering.max.ms", "0")
        .set("request.timeout.ms", ms(terms.answer))
        .set("message.timeout.ms", ms(terms.delivery.max(terms.answer)))
        // A key goes to the partition where other clients of Kafka put it.
        .set("partitioner", "murmur2_random");
    BaseProducer::from_config_and_context(&config, Ear::default())
}

/// Looks for the topic until it has somebody to send to.
fn find(addresses: &[SocketAddr], topic: &str, terms: Terms) -> Result<Ready, Outcome> {
    let producer = client(addresses, terms).map_err(|error| unsent("bad_config", error.to_string(), false))?;
    let until = terms.until.min(Instant::now() + terms.find);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let why = match producer.client().fetch_metadata(Some(topic), left) {
            Ok(found) => {
                let named = found.topics().iter().find(|named| named.name() == topic);
                let error = named.and_then(|named| named.error()).map(Code::from);
                if let Some(code @ (Code::TopicAuthorizationFailed | Code::InvalidTopic)) = error {
                    return Err(unsent("kafka_refused", format!("the topic {topic}: {code}"), false));
                }
                let led = named.is_some_and(|named| named.partitions().iter().any(|partition| partition.leader() >= 0));
                if led && error.is_none() {
                    let place = |broker: &rdkafka::metadata::MetadataBroker| {
                        (broker.host().to_owned(), u16::try_from(broker.port()).unwrap_or_default())
                    };
                    let brokers = found.brokers().iter().map(place).collect();
                    return Ok(Ready { producer, brokers });
                }
                let why = error.map_or("it has no leader".to_owned(), |code| code.to_string());
                unsent("kafka_refused", format!("the topic {topic} is not there to send to: {why}"), true)
            }
            Err(error) => unsent("kafka_unreached", format!("no Kafka server is reached: {error}"), true),
        };
        if Instant::now() + LOOK_EVERY >= until {
            return Err(why);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn send(ready: &Ready, message: &Message) -> Outcome {
    let producer = &ready.producer;
    let ear = producer.context();
    let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
    for (name, value) in &message.headers {
        headers = headers.insert(Header { key: name, value: Some(value) });
    }
    let mut record = BaseRecord::to(&message.topic).payload(&message.value).headers(headers);
    if let Some(key) = &message.key {
        record = record.key(key);
    }
    // What went wrong before this is not about the message.
    producer.poll(Duration::ZERO);
    ear.with(|told| told.disturbed = false);
    if message.terms.lapsed() {
        let message = "the node's lease ended before the message left".to_owned();
        return unsent(LEASE_LAPSED, message, true);
    }
    let (begun, end) = (Instant::now(), message.terms.end());
    if let Err((error, _)) = producer.send(record) {
        return unsent("kafka_refused", format!("the message is not sent: {error}"), false);
    }
    while Instant::now() < end {
        if message.terms.lapsed() {
            // What is on its way is waited for; what is not, for a first or a second time, stays here.
            producer.purge(PurgeConfig::default().queue());
        }
        producer.poll(LOOK_EVERY);
        let Some(delivered) = ear.with(|told| told.delivered.take()) else { continue };
        let Err(error) = delivered else { return Outcome::Done { output: serde_json::json!({}) } };
        let at_first = begun.elapsed() < message.terms.answer && !ear.with(|told| told.disturbed);
        let code = match error.rdkafka_error_code() {
            // No message leaves before the client has its number, and this is why it got none.
            Some(Code::Fatal) => producer.client().fatal_error().map(|(code, _)| code),
            code => code,
        };
        return judged(code, at_first, &error);
    }
    // What has not left does not leave any more: with the client its queue ends.
    Outcome::Lost { code: "timeout", message: "no Kafka server has said in time that it has the message".to_owned() }
}

fn judged(code: Option<Code>, at_first: bool, error: &KafkaError) -> Outcome {
    let refusal = matches!(
        code,
        Some(
            Code::MessageSizeTooLarge
                | Code::MessageBatchTooLarge
                | Code::InvalidMessageSize
                | Code::InvalidTopic
                | Code::InvalidRecord
                | Code::InvalidTimestamp
                | Code::PolicyViolation
                | Code::TopicAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::UnsupportedForMessageFormat
                | Code::UnsupportedVersion
                | Code::UnsupportedFeature
        )
    );
    match refusal && at_first {
        true => unsent("kafka_refused", format!("the Kafka server refused the message: {error}"), false),
        false => Outcome::Lost { code: "kafka_lost", message: format!("the message may have arrived: {error}") },
    }
}

fn unsent(code: &'static str, message: String, retryable: bool) -> Outcome {
    Outcome::FailedClean { code, message, output: None, retryable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_at_the_first_try_is_clean() {
        let of = |code: Code, at_first| judged(Some(code), at_first, &KafkaError::MessageProduction(code));
        for code in [Code::MessageSizeTooLarge, Code::TopicAuthorizationFailed, Code::InvalidRecord] {
            assert!(matches!(of(code, true), Outcome::FailedClean { code: "kafka_refused", .. }), "{code}");
            assert!(matches!(of(code, false), Outcome::Lost { .. }), "{code}");
        }
        // These say nothing of whether the message is kept.
        for code in [
            Code::MessageTimedOut,
            Code::RequestTimedOut,
            Code::BrokerTransportFailure,
            Code::NotEnoughReplicasAfterAppend,
            Code::OutOfOrderSequenceNumber,
            Code::PurgeInflight,
            Code::Unknown,
        ] {
            assert!(matches!(of(code, true), Outcome::Lost { .. }), "{code}");
        }
    }
}
