//! EVENT of Conductor with a sink outside: one message to the NATS server that the operator has named.
//!
//! The id of the message is that of the step, the same on every attempt: where it is sent again after a crash or a lost
//! answer, a stream drops it, and whoever takes it can tell.

use crate::effect::{EffectWork, Outcome, Performing, Request, Tools};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, LeafMode, TaskSpec};
use semel_core::subject::publishable;
use serde_json::Value as Json;
use std::time::Duration;

const TIME_MS: u64 = 10_000;

pub const SPEC: TaskSpec = TaskSpec {
    name: "conductor.EVENT",
    aliases: &[],
    summary: "Publish a message.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[],
    outputs: &[],
};

pub const WORK: Work = Work::Effect(EffectWork {
    class: |_| EffectClass::Repeatable,
    sends_key: |_| true,
    timeout_ms: |_| Some(TIME_MS),
    perform,
});

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    Box::pin(async move {
        let sink = config::text(&request.config, "sink").unwrap_or_default();
        let Some(subject) = sink.strip_prefix("nats:") else {
            return TaskError::config(format!("`{sink}` is not a sink: nats: and a subject without patterns")).into();
        };
        if let Err(message) = publishable(subject) {
            return TaskError::config(format!("sink: {message}")).into();
        }
        let Some(nats) = &tools.nats else {
            return TaskError::config("no NATS server is named: set nats.url of the server").into();
        };
        let payload = request.config.get("payload").cloned().unwrap_or(Json::Null);
        let time = Duration::from_millis(request.timeout_ms.min(TIME_MS));
        let bytes = payload.to_string().into_bytes();
        match nats.publish(subject, &request.step_id, bytes, time, request.send_before).await {
            Outcome::Done { .. } => Outcome::Done { output: payload },
            other => other,
        }
    })
}
