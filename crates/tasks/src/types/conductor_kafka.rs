//! KAFKA_PUBLISH of Conductor: one message to a topic of Kafka, whose servers the task names.
//!
//! The value goes out as JSON, so a text has its quotes, as in Conductor. The key of the step goes out as a header, the
//! same on every attempt: Kafka itself drops nothing by it, whoever takes the messages can.

use crate::effect::{EffectWork, Performing, Request, Tools};
use crate::kafka::{self, Message, Terms};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, LeafMode, TaskSpec};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

const KEY_HEADER: &str = "Idempotency-Key";
const FIND_MS: u64 = 10_000;
const ANSWER_MS: u64 = 10_000;
const DELIVERY_MS: u64 = 30_000;
/// No client of Kafka waits longer for one answer.
const TIME_MS_MAX: u64 = 900_000;
const PORT: u16 = 9092;
/// Of a topic's name, in bytes.
const TOPIC_MAX: usize = 249;

pub const SPEC: TaskSpec = TaskSpec {
    name: "conductor.KAFKA_PUBLISH",
    aliases: &[],
    summary: "Publish a message to Kafka.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[],
    outputs: &[],
};

pub const WORK: Work = Work::Effect(EffectWork {
    class: |_| EffectClass::Naked,
    sends_key: |config| !names_key(&config["kafka_request"]),
    timeout_ms: |config| times(&config["kafka_request"]).ok().map(|times| times.find.saturating_add(times.delivery)),
    perform: |tools, request| Box::pin(async move { perform(tools, &request).await }) as Performing<'_>,
});

struct Times {
    find: u64,
    answer: u64,
    delivery: u64,
}

fn times(request: &Json) -> Result<Times, TaskError> {
    let number = |name: &str, default: u64| match config::text(request, name) {
        None => Ok(default),
        Some(text) => {
            let ms = text.trim().parse::<u64>().ok().filter(|ms| (1..=TIME_MS_MAX).contains(ms));
            ms.ok_or_else(|| TaskError::config(format!("`{name}` must be milliseconds, from 1 to {TIME_MS_MAX}")))
        }
    };
    let (find, answer) = (number("maxBlockMs", FIND_MS)?, number("requestTimeoutMs", ANSWER_MS)?);
    Ok(Times { find, answer, delivery: answer.max(DELIVERY_MS) })
}

fn names_key(request: &Json) -> bool {
    let headers = request.get("headers").and_then(Json::as_object);
    headers.is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case(KEY_HEADER)))
}

async fn perform(tools: &Tools, request: &Request) -> crate::Outcome {
    match message(request) {
        Ok(message) => kafka::publish(&tools.net, message).await,
        Err(error) => error.into(),
    }
}

fn message(request: &Request) -> Result<Message, TaskError> {
    let (config, now) = (&request.config["kafka_request"], Instant::now());
    if !config.is_object() {
        return Err(TaskError::config("Missing Kafka request: the input `kafka_request` must be a map"));
    }
    let servers = servers(config)?;
    let topic = topic(config)?;
    let value = config::present(config, "value").ok_or_else(|| TaskError::config("Missing Kafka value"))?;
    let times = times(config)?;
    let until = now.checked_add(Duration::from_millis(request.timeout_ms)).unwrap_or(now);
    let terms = Terms {
        find: Duration::from_millis(times.find),
        answer: Duration::from_millis(times.answer),
        delivery: Duration::from_millis(times.delivery),
        until,
        send_before: request.send_before,
    };
    let headers = headers(config, request.idempotency_key.as_deref())?;
    Ok(Message { servers, topic, key: key(config)?, value: value.to_string().into_bytes(), headers, terms })
}

/// `host`, `host:port` or `[address]:port`, several with commas.
fn servers(config: &Json) -> Result<Vec<(String, u16)>, TaskError> {
    let text = config::text(config, "bootStrapServers").unwrap_or_default();
    let named = text.split(',').map(str::trim).filter(|server| !server.is_empty());
    let servers = named.map(server).collect::<Option<Vec<_>>>();
    let servers =
        servers.ok_or_else(|| TaskError::config("`bootStrapServers` must be `host:port`, several with commas"))?;
    match servers.is_empty() {
        true => Err(TaskError::config("No boot strap servers specified")),
        false => Ok(servers),
    }
}

fn server(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')
            .map(|(host, port)| (host, if port.is_empty() { Some("") } else { port.strip_prefix(':') })),
        None => Some(text.split_once(':').map_or((text, Some("")), |(host, port)| (host, Some(port)))),
    }?;
    let port = match port? {
        "" => PORT,
        port => port.parse().ok().filter(|port| *port > 0)?,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    (!host.is_empty() && host.chars().all(plain)).then(|| (host.to_owned(), port))
}

fn topic(config: &Json) -> Result<String, TaskError> {
    let topic = config::text(config, "topic").unwrap_or_default();
    if topic.trim().is_empty() {
        return Err(TaskError::config("Missing Kafka topic"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if topic.len() > TOPIC_MAX || !topic.chars().all(plain) {
        return Err(TaskError::config(format!(
            "`topic` must be of letters, digits, `.`, `_` and `-`, {TOPIC_MAX} at most"
        )));
    }
    Ok(topic)
}

/// Numbers go out as their bytes, the highest first.
fn key(config: &Json) -> Result<Option<Vec<u8>>, TaskError> {
    let Some(text) = config::text(config, "key") else { return Ok(None) };
    let serializer = config::text(config, "keySerializer").unwrap_or_default();
    let kind = serializer.strip_prefix("org.apache.kafka.common.serialization.").unwrap_or(&serializer);
    let wrong = || TaskError::config(format!("`key` is no number that {kind} takes"));
    match kind {
        "" | "StringSerializer" => Ok(Some(text.into_bytes())),
        "LongSerializer" => text.parse::<i64>().map(|n| Some(n.to_be_bytes().to_vec())).map_err(|_| wrong()),
        "IntegerSerializer" => text.parse::<i32>().map(|n| Some(n.to_be_bytes().to_vec())).map_err(|_| wrong()),
        _ => {
            Err(TaskError::config("`keySerializer`: there are StringSerializer, LongSerializer and IntegerSerializer"))
        }
    }
}

fn headers(config: &Json, own: Option<&str>) -> Result<Vec<(String, String)>, TaskError> {
    let named = config::map(config, "headers")?.unwrap_or_default();
    if named.keys().any(|name| name.contains('\0')) {
        return Err(TaskError::config("the name of a header has a zero byte"));
    }
    let mut headers: Vec<_> = named.iter().map(|(name, value)| (name.clone(), config::as_text(value))).collect();
    if let Some(own) = own.filter(|_| !names_key(config)) {
        headers.push((KEY_HEADER.to_owned(), own.to_owned()));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_servers_are_hosts_with_ports() {
        let of = |text: &str| {
            let named = servers(&serde_json::json!({"bootStrapServers": text})).ok()?;
            Some(named.iter().map(|(host, port)| format!("{host} {port}")).collect::<Vec<_>>().join(", "))
        };
        assert_eq!(of("a:1, b ,[::1]:3,[::1]").as_deref(), Some("a 1, b 9092, ::1 3, ::1 9092"));
        for wrong in ["", ",", "a:0", "a:x", "a:70000", "::1", "[::1", "[::1]3", "SASL_SSL://a:1", "a/b:1", "a b", ":1"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
