//! Errands: steps that someone outside carries out. A worker takes one from its queue, a person or a caller answers
//! it, or it is done when its time has come.
//!
//! The machine only knows that an errand is out, and in which attempt. Who has it, since when and until when is kept in
//! rows beside the run, so that taking one costs the run nothing; what was known of that is journaled with the answer.

use crate::ids::Hash16;
use crate::ir::{ErrandKind, Retry};
use crate::run::event::{Failure, Payload};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What an attempt that took too long means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenLate {
    /// The attempt has failed, and the next one is due.
    Again,
    /// The run has taken too long.
    #[default]
    EndRun,
    /// Somebody may want to know; nothing else happens.
    Ignore,
}

/// How long is too long, and what follows. All of it is fixed when the step starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrandTerms {
    pub queue: String,
    pub kind: ErrandKind,
    /// Only workers that ask for this domain get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Higher ones are handed out first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Added to the wait before a retry: up to so much, drawn from the step's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<i64>,
    /// Before it can be taken for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<i64>,
    /// Between two signs of life of whoever has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<i64>,
    /// Until somebody takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_ms: Option<i64>,
    /// From the first taking to the answer. For [`ErrandKind::Wait`]: until it is done by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_ms: Option<i64>,
    #[serde(default)]
    pub when_late: WhenLate,
    /// An output that does not fit this schema fails the step.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub output_schema: Json,
}

fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrandEnd {
    Done,
    Failed,
    /// And no other attempt will help.
    FailedForGood,
    TimedOut,
    /// The step is over for another reason.
    Withdrawn,
}

/// What too long was too long for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// Nobody took it.
    Poll,
    /// Whoever has it gave no sign of life.
    Response,
    /// The attempt took too long, or its wait is over.
    Attempt,
}

/// What was said about an errand.
#[derive(Clone, Debug)]
pub enum Said {
    Done { output: Payload },
    Failed { failure: Failure, output: Option<Payload>, for_good: bool },
    Late(Late),
}

/// What the row knew of an attempt when it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default)]
    pub polls: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Millis>,
}

/// The code of the failure of what took too long.
pub const TIMED_OUT: &str = "timed_out";
/// The code of the failure of what was given up by whoever had it, or of a sub-run that was.
pub const CANCELLED: &str = "cancelled";
/// The code of the failure of what no other attempt would help.
pub const FAILED_FOR_GOOD: &str = "failed_for_good";

/// The name of one attempt at a step: each attempt has its own, and so does its answer.
pub fn errand_id(step_id: Hash16, attempt: u32) -> Hash16 {
    Hash16::of(&[b"errand", &step_id.0, &attempt.to_be_bytes()])
}
