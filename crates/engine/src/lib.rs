//! The engine: admit, dispatch, timers, perform, recover.
//!
//! [`driver`] holds the logic, one step at a time and without IO: it is handed what happened and
//! returns what to do. [`shell`] is the thin tokio layer around it. [`Engine`] is what doors see.
//! Nothing here reads a clock or a random source but through the ports in [`ports`].

mod admit;
mod again;
pub mod api;
mod asked_flows;
mod away;
mod background;
mod batches;
mod cache;
mod checks;
mod children;
mod cipher;
pub mod conditions;
mod conductor;
mod directories;
pub mod driver;
mod elsewhere;
mod errands;
mod evaluate;
mod events;
pub mod files;
pub mod flows;
mod handle;
mod hearing;
mod inputs;
mod inspect;
pub mod items;
mod listening;
mod masking;
mod memory;
mod ops;
mod outside;
mod pauses;
mod polling;
pub mod ports;
mod pushes;
mod rehearsal;
mod replay;
mod reviews;
mod rounds;
mod schedules;
mod scope;
pub mod secrets;
mod sending;
mod shell;
#[cfg(feature = "sim")]
pub mod sim;
pub mod system;
mod task_book;
pub mod taskruns;
mod templated;
#[cfg(test)]
mod tests;
mod triggers;
mod webhooks;
pub mod workflows;

pub use api::*;
pub use checks::FailedCheck;
pub use conductor::{
    RATE_LIMIT, SecretValue, TROUBLES, TaskStory, Timetable, WorkflowStory, arrived_name, arrived_value, check_cron,
    renamed, upcoming,
};
pub use errands::{Errand, ErrandError, Polled};
pub use events::EVALUATORS;
pub use handle::{Engine, Parts};
pub use inspect::CheckedInput;
pub use listening::{NATS, nats_source};
pub use pauses::OpenPause;
pub use rehearsal::{Mock, Mocks, Rehearsal, RehearsalError};
pub use replay::{ReplayError, ReplayWish};
pub use semel_tasks::proof;
pub use semel_tasks::signature::SignatureError;
pub use triggers::{BackfillRequest, TriggerError, TriggerView};

/// A stored value as people may see it: our escapes undone, every hole a mask.
pub fn public_json(stored: &serde_json::Value) -> serde_json::Value {
    semel_expr::Value::from_stored(stored).to_masked_json()
}
