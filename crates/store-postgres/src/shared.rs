//! What the writers and the readers share.

use crate::address::Address;
use crate::classify::Error;
use crate::flights::Flights;
use crate::guess::Guess;
use crate::lease::Lease;
use crate::looks::Looks;
use crate::nodes::Post;
use crate::session::{Session, Sockets};
use parking_lot::{Condvar, Mutex};
use semel_core::Millis;
use semel_store::ClockFn;
use semel_store::health::Health;
use semel_store::queue::Queue;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// The store's clock: that of the database, as it was when it was last read and what has passed since. It never goes
/// back. Tests give one of their own.
pub struct Clock {
    source: Option<ClockFn>,
    read: Mutex<Option<(Instant, i64)>>,
    latest: AtomicI64,
}

/// The database's clock in milliseconds.
pub const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

impl Clock {
    pub fn new(source: Option<ClockFn>) -> Clock {
        Clock { source, read: Mutex::new(None), latest: AtomicI64::new(i64::MIN) }
    }

    /// An instant that was given out before, by this process or another.
    pub fn not_before(&self, mark: i64) {
        self.latest.fetch_max(mark, Ordering::AcqRel);
    }

    /// What the database's clock said a moment ago.
    pub fn was(&self, database_ms: i64) -> Millis {
        *self.read.lock() = Some((Instant::now(), database_ms));
        self.now()
    }

    pub fn now(&self) -> Millis {
        let now = match (&self.source, &*self.read.lock()) {
            (Some(source), _) => source().0,
            (None, Some((at, ms))) => ms.saturating_add(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)),
            (None, None) => i64::MIN,
        };
        Millis(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }
}

pub struct Shared {
    pub lease: Lease,
    pub looks: Looks,
    pub guess: Guess,
    pub flights: Flights,
    /// What people call this process.
    pub name: String,
    /// Where the nodes of this schema hear each other.
    pub channel: String,
    pub post: Post,
    pub address: Address,
    pub clock: Clock,
    pub health: Health,
    /// One per writer.
    pub queues: Vec<Queue>,
    pub restored_at: Mutex<Option<Millis>>,
    pub begin_write: String,
    pub begin_read: String,
    /// Waits until it is this transaction's turn.
    pub turn: String,
    pub closing: Closing,
    pub sockets: Sockets,
}

impl Shared {
    pub fn connect(&self) -> Result<Session, Error> {
        self.sockets.connect(&self.address)
    }
}

/// Sleeps that end when the store is closed.
#[derive(Default)]
pub struct Closing {
    closed: Mutex<bool>,
    told: Condvar,
}

impl Closing {
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.told.notify_all();
    }

    /// False when the store was closed meanwhile.
    pub fn sleep(&self, time: Duration) -> bool {
        let mut closed = self.closed.lock();
        let until = Instant::now() + time;
        while !*closed && !self.told.wait_until(&mut closed, until).timed_out() {}
        !*closed
    }
}
