//! Tasks that leave the process.
//!
//! The engine makes the intent durable, calls [`Performer::perform`], and makes the outcome
//! durable. The performer's one duty besides the call is to tell apart what surely did not
//! happen, what was answered, and what may have happened unseen.

use crate::TaskError;
use crate::net::{CallError, Lookup, Net, NetConfig, NetError};
use crate::registry::{self, REGISTRY, Work};
use semel_core::ir::{Catalog, EffectClass};
use serde_json::Value as Json;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// One attempt at an effect, as the durable intent describes it.
#[derive(Clone)]
pub struct Request {
    /// Stable id of the step, hex. The same for each attempt.
    pub step_id: String,
    pub type_name: String,
    /// Rendered, secrets filled in.
    pub config: Json,
    /// The attempt surely ends within this time of its first byte; a takeover relies on it.
    pub timeout_ms: u64,
    /// Outbound key to send, unless the author set one.
    pub idempotency_key: Option<String>,
    /// No byte may leave at or after this instant.
    pub send_before: Option<Instant>,
    pub traceparent: Option<String>,
}

/// The code of a call that was not made because the node's lease was over: provably nothing has left.
pub const LEASE_LAPSED: &str = "lease_lapsed";

#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Outcome {
    Done {
        output: Json,
    },
    /// The far side answered, or provably never got the request.
    FailedClean {
        code: &'static str,
        message: String,
        output: Option<Json>,
        /// The same request may well succeed later.
        retryable: bool,
    },
    /// Bytes may have left and no complete answer was read.
    Lost {
        code: &'static str,
        message: String,
    },
}

impl From<TaskError> for Outcome {
    fn from(error: TaskError) -> Outcome {
        Outcome::FailedClean { code: error.code, message: error.message, output: None, retryable: false }
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Outcome {
        match error {
            CallError::Clean { code, message, retryable, answer: _ } => {
                Outcome::FailedClean { code, message, output: None, retryable }
            }
            CallError::Lost { code, message } => Outcome::Lost { code, message },
        }
    }
}

pub(crate) type Performing<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// What an effect type brings to the registry.
pub(crate) struct EffectWork {
    pub class: fn(&Json) -> EffectClass,
    pub sends_key: fn(&Json) -> bool,
    pub timeout_ms: fn(&Json) -> Option<u64>,
    pub perform: for<'a> fn(&'a Net, Request) -> Performing<'a>,
}

/// The class of a step whose author declared none. An unknown type is naked: the safest guess.
pub fn effect_class(type_name: &str, config: &Json) -> EffectClass {
    match registry::work(type_name) {
        Some(Work::Effect(work)) => (work.class)(config),
        Some(Work::Inline(_) | Work::Op(_)) | None => {
            REGISTRY.find(type_name).map_or(EffectClass::Naked, |spec| spec.class)
        }
    }
}

/// Does a step of this type send the key it is given?
pub fn sends_idempotency_key(type_name: &str, config: &Json) -> bool {
    match registry::work(type_name) {
        Some(Work::Effect(work)) => (work.sends_key)(config),
        Some(Work::Inline(_) | Work::Op(_)) | None => false,
    }
}

/// How long the author lets the far side take, if the properties say so. The engine needs it
/// before the call, to write a truthful [`Request::timeout_ms`] into the intent.
pub fn timeout_hint_ms(type_name: &str, config: &Json) -> Option<u64> {
    match registry::work(type_name) {
        Some(Work::Effect(work)) => (work.timeout_ms)(config),
        Some(Work::Inline(_) | Work::Op(_)) | None => None,
    }
}

/// Performs effects. Clones share connections and limits.
#[derive(Clone)]
pub struct Performer {
    net: Arc<Net>,
}

impl Performer {
    pub fn new(config: NetConfig) -> Result<Performer, NetError> {
        Ok(Performer { net: Arc::new(Net::new(&config)?) })
    }

    /// With another source of addresses than the operating system.
    pub fn with_lookup(config: NetConfig, lookup: Arc<dyn Lookup>) -> Result<Performer, NetError> {
        Ok(Performer { net: Arc::new(Net::with_lookup(&config, lookup)?) })
    }

    pub async fn perform(&self, request: Request) -> Outcome {
        match registry::work(&request.type_name) {
            Some(Work::Effect(work)) => (work.perform)(&self.net, request).await,
            Some(Work::Inline(_) | Work::Op(_)) | None => TaskError::unknown_type(&request.type_name).into(),
        }
    }
}
