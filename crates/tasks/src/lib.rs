//! Task types, triggers and the guarded HTTP client.
//!
//! | module | what it holds |
//! |---|---|
//! | [`registry`] | the list of task types, one line each |
//! | `types` | one file per task type: its spec and its work |
//! | [`inline`] | tasks computed in the engine, without leaving it |
//! | [`op`] | tasks that read or write Semel's own rows inside the commit |
//! | [`effect`] | tasks that leave the process, and how their outcome is classified |
//! | [`files`] | files of runs, as tasks read and write them |
//! | `directory_cache` | what a working directory keeps for the next run |
//! | `namespace_files` | which files of a namespace a working directory begins with |
//! | [`javascript`] | scripts of Conductor's definitions, in processes of their own |
//! | [`script`] | processes: where they run, what they say, how they end |
//! | [`net`] | the only HTTP client of the workspace's flows: checked addresses, one request per call |
//! | `kafka` | one message to a Kafka topic, where the feature `kafka` is built |
//! | [`nats`] | the NATS server that the operator has named |
//! | [`signature`] | who sent this webhook? |
//! | [`schedule`] | when does this cron fire next? |
//!
//! A new task type is one file in `types` plus one line in [`registry`].

mod config;
mod directory_cache;
pub mod effect;
pub mod files;
pub mod inline;
pub mod javascript;
#[cfg(feature = "kafka")]
mod kafka;
mod namespace_files;
pub mod nats;
pub mod net;
pub mod op;
pub mod proof;
pub mod registry;
pub mod schedule;
pub mod script;
pub mod signature;
mod types;

pub use effect::{
    Equipment, LEASE_LAPSED, Log, Outcome, Performer, Request, Stop, effect_class, sends_idempotency_key,
    timeout_hint_ms,
};
pub use files::{
    CHUNK_BYTES, CountOf, Expressions, FileAt, FileError, Files, Home, KeyAt, LogEntry, Purge, Purged,
    name_in_directory,
};
pub use inline::{InlineOutcome, Level, LogLine, run_inline};
pub use javascript::{Javascript, JavascriptConfig};
pub use net::{NetConfig, NetError, PrivatePolicy};
pub use op::{KvOp, StateAt, plan_op};
pub use registry::{REGISTRY, Registry, own_expressions};
pub use script::{ScriptConfig, glob::matches as glob_matches};

/// A step whose rendered properties make no sense. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TaskError {
    pub code: &'static str,
    pub message: String,
}

impl TaskError {
    /// The author's properties are wrong: retrying the same step cannot help.
    pub(crate) fn config(message: impl Into<String>) -> TaskError {
        TaskError { code: "bad_config", message: message.into() }
    }

    /// The property is understood, but this build does not do it.
    pub(crate) fn not_built(message: impl Into<String>) -> TaskError {
        TaskError { code: "not_built", message: message.into() }
    }

    pub(crate) fn unknown_type(type_name: &str) -> TaskError {
        TaskError { code: "unknown_type", message: format!("no task type `{type_name}` of this kind") }
    }
}
