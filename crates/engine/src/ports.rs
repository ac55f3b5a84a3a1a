//! The outside, as the engine sees it.

use semel_core::Millis;
use semel_core::ids::RunId;
use semel_tasks::{Outcome, Request};
use std::future::Future;
use std::pin::Pin;

/// Wall time. The store has its own, which decides; this one wakes things up.
pub trait Clock: Send + Sync {
    fn now(&self) -> Millis;
}

/// Fresh ids and random numbers.
pub trait Entropy: Send + Sync {
    /// A time-ordered id.
    fn run_id(&self, now: Millis) -> RunId;
    fn random(&self) -> u64;
}

/// Carries out effects. Called only after the intent is durable.
pub trait Performer: Send + Sync {
    fn perform(&self, request: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
}
