//! What the writer, the checkpointer and the readers share.

use crate::known::Known;
use crate::names::Names;
use parking_lot::Mutex;
use semel_core::Millis;
use semel_store::ClockFn;
pub use semel_store::health::Health;
pub use semel_store::queue::{Job, Queue};
use std::sync::atomic::{AtomicI64, Ordering};

/// The store's clock: the given one, held up by the latest instant ever given out.
pub struct Clock {
    source: ClockFn,
    latest: AtomicI64,
}

impl Clock {
    pub fn new(source: ClockFn, mark: i64) -> Clock {
        Clock { source, latest: AtomicI64::new(mark) }
    }

    pub fn now(&self) -> Millis {
        let read = (self.source)().0;
        Millis(self.latest.fetch_max(read, Ordering::AcqRel).max(read))
    }
}

pub struct Shared {
    pub queue: Queue,
    pub clock: Clock,
    pub health: Health,
    pub names: Names,
    pub known: Known,
    pub checkpoints: crate::checkpoint::Signal,
    /// Held by the writer for each batch, and by a checkpoint that must be alone.
    pub gate: Mutex<()>,
    /// Kept by whoever still uses the file, be it only a thread that is about to end.
    pub _lock: std::fs::File,
}
