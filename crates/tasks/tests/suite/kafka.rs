//! KAFKA_PUBLISH against the mock cluster that the client brings along.

use super::server::{performer, request};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use semel_core::ir::EffectClass;
use semel_tasks::{
    LEASE_LAPSED, NetConfig, Outcome, Performer, PrivatePolicy, Request, effect_class, sends_idempotency_key,
    timeout_hint_ms,
};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

type Cluster = MockCluster<'static, DefaultProducerContext>;

const TOPIC: &str = "orders";
const KIND: &str = "conductor.KAFKA_PUBLISH";

fn cluster() -> Cluster {
    let cluster = MockCluster::new(1).expect("a mock cluster");
    cluster.create_topic(TOPIC, 1, 1).expect("a topic");
    cluster
}

fn to(servers: &str, more: Json) -> Request {
    let mut kafka = json!({"topic": TOPIC, "value": {"a": 1}, "bootStrapServers": servers});
    for (name, value) in more.as_object().into_iter().flatten() {
        kafka[name] = value.clone();
    }
    Request { type_name: KIND.to_owned(), timeout_ms: 60_000, ..request(json!({"kafka_request": kafka})) }
}

async fn publish(request: Request) -> Outcome {
    performer().perform(request).await
}

/// What the topic holds: `count` messages that are waited for.
fn held(cluster: &Cluster, count: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .create()
        .expect("a consumer");
    let mut places = TopicPartitionList::new();
    places.add_partition_offset(TOPIC, 0, Offset::Beginning).expect("a place");
    consumer.assign(&places).expect("it is assigned");
    let until = Instant::now() + Duration::from_secs(30);
    let mut found = Vec::new();
    while found.len() < count && Instant::now() < until {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            found.push(message.detach());
        }
    }
    found
}

/// How many messages the topic holds.
fn count(cluster: &Cluster) -> i64 {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().expect("a consumer");
    consumer.fetch_watermarks(TOPIC, 0, Duration::from_secs(10)).expect("it is told").1
}

fn headers(message: &OwnedMessage) -> Vec<(String, String)> {
    let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
    let headers = message.headers().map(|all| all.iter().map(|one| (one.key.to_owned(), text(one.value))).collect());
    headers.unwrap_or_default()
}

fn clean(outcome: &Outcome) -> (&'static str, bool) {
    match outcome {
        Outcome::FailedClean { code, retryable, .. } => (code, *retryable),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_gets_key_headers_and_value() {
    let cluster = cluster();
    let mut first = to(&cluster.bootstrap_servers(), json!({"key": "k", "headers": {"x": 7}}));
    first.idempotency_key = Some("the-key".to_owned());
    assert_eq!(publish(first).await, Outcome::Done { output: json!({}) });
    let serializer = "org.apache.kafka.common.serialization.LongSerializer";
    let more = json!({"key": "258", "keySerializer": serializer, "value": "t", "headers": {"idempotency-key": "own"}});
    let mut second = to(&cluster.bootstrap_servers(), more);
    second.idempotency_key = Some("the-key".to_owned());
    assert_eq!(publish(second).await, Outcome::Done { output: json!({}) });

    let found = held(&cluster, 2);
    assert_eq!(found[0].payload(), Some(&b"{\"a\":1}"[..]));
    assert_eq!(found[0].key(), Some(&b"k"[..]));
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(headers(&found[0]), [named("x", "7"), named("Idempotency-Key", "the-key")]);
    assert_eq!(found[1].payload(), Some(&b"\"t\""[..]));
    assert_eq!(found[1].key(), Some(&[0, 0, 0, 0, 0, 0, 1, 2][..]));
    assert_eq!(headers(&found[1]), [named("idempotency-key", "own")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_that_is_not_ready_is_asked_again_within_one_send() {
    let cluster = cluster();
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION]);
    let outcome = publish(to(&cluster.bootstrap_servers(), json!({}))).await;
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    assert_eq!(count(&cluster), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_that_refuses_is_a_clean_failure() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    assert_eq!(clean(&publish(to(&servers, json!({}))).await), ("kafka_refused", false));
    let large = json!({"value": "x".repeat(1_100_000)});
    assert_eq!(clean(&publish(to(&servers, large)).await), ("kafka_refused", false));
    let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    cluster.topic_error("nowhere", unknown).expect("it is set");
    let nowhere = json!({"topic": "nowhere", "maxBlockMs": 500});
    assert_eq!(clean(&publish(to(&servers, nowhere)).await), ("kafka_refused", true));
    assert_eq!(count(&cluster), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_that_never_answers_leaves_a_doubt() {
    let cluster = cluster();
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT; 200];
    cluster.request_errors(RDKafkaApiKey::Produce, &errors);
    let request = Request { timeout_ms: 3_000, ..to(&cluster.bootstrap_servers(), json!({})) };
    let outcome = publish(request).await;
    assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome:?}");
    // A refusal after that is no word on the first try.
    let errors =
        [RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT, RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    cluster.request_errors(RDKafkaApiKey::Produce, &errors);
    let outcome = publish(to(&cluster.bootstrap_servers(), json!({}))).await;
    assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_that_is_not_there_or_not_allowed_is_a_clean_failure() {
    let away = json!({"maxBlockMs": 300});
    assert_eq!(clean(&publish(to("127.0.0.1:1", away)).await), ("kafka_unreached", true));
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let closed = NetConfig { private: PrivatePolicy::Deny, ..NetConfig::default() };
    let outcome = Performer::new(closed).expect("a performer").perform(to(&servers, json!({}))).await;
    assert_eq!(clean(&outcome), ("address_refused", false));
    // Metadata may name a server that the first one is not: only the first one is allowed here.
    let (host, port) = servers.rsplit_once(':').expect("host and port");
    let only =
        NetConfig { private: PrivatePolicy::Deny, allow: vec![format!("localhost:{port}")], ..NetConfig::default() };
    assert_eq!(host, "127.0.0.1");
    let outcome = Performer::new(only).expect("a performer").perform(to(&format!("localhost:{port}"), json!({}))).await;
    assert_eq!(clean(&outcome), ("address_refused", false));
    let over = Request { send_before: Some(Instant::now()), ..to(&servers, json!({})) };
    assert_eq!(clean(&publish(over).await), (LEASE_LAPSED, true));
    assert_eq!(count(&cluster), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_gets_nothing_more_when_the_lease_is_over() {
    let cluster = cluster();
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 10_000];
    cluster.request_errors(RDKafkaApiKey::Produce, &errors);
    let begun = Instant::now();
    let lease = Some(begun + Duration::from_secs(3));
    let outcome = publish(Request { send_before: lease, ..to(&cluster.bootstrap_servers(), json!({})) }).await;
    // Without a lease it is tried for thirty seconds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome:?}");
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    assert_eq!(count(&cluster), 0);
}

#[tokio::test]
async fn kafka_requests_that_make_no_sense_are_refused_before_anything_is_sent() {
    for (more, word) in [
        (json!({"bootStrapServers": " "}), "No boot strap servers"),
        (json!({"bootStrapServers": "ssl://a:1"}), "bootStrapServers"),
        (json!({"topic": null}), "topic"),
        (json!({"topic": "a b"}), "topic"),
        (json!({"value": null}), "value"),
        (
            json!({"key": "x", "keySerializer": "org.apache.kafka.common.serialization.LongSerializer"}),
            "LongSerializer",
        ),
        (json!({"key": "x", "keySerializer": "my.Own"}), "keySerializer"),
        (json!({"maxBlockMs": "soon"}), "maxBlockMs"),
        (json!({"headers": {"a\0": "b"}}), "header"),
    ] {
        let Outcome::FailedClean { code: "bad_config", message, .. } = publish(to("127.0.0.1:1", more.clone())).await
        else {
            panic!("{more}")
        };
        assert!(message.contains(word), "{more}: {message}");
    }
}

#[test]
fn kafka_drops_no_duplicates_so_a_send_is_naked() {
    let config = to("a:1", json!({})).config;
    assert_eq!(effect_class(KIND, &config), EffectClass::Naked);
    assert!(sends_idempotency_key(KIND, &config));
    assert!(!sends_idempotency_key(KIND, &to("a:1", json!({"headers": {"IDEMPOTENCY-KEY": "own"}})).config));
    assert_eq!(timeout_hint_ms(KIND, &config), Some(40_000));
    assert_eq!(
        timeout_hint_ms(KIND, &to("a:1", json!({"maxBlockMs": 500, "requestTimeoutMs": "45000"})).config),
        Some(45_500)
    );
}
