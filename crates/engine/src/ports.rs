//! The outside, as the engine sees it.

use semel_core::Millis;
use semel_core::ids::RunId;
use semel_tasks::{Outcome, Request};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Work that takes its time and ends by itself.
pub type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

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

/// Runs what takes its time beside the driver, and waits.
pub trait Aside: Send + Sync {
    fn run(&self, errand: Errand);
    fn sleep(&self, time: Duration) -> Errand;
}
