//! The store: what is persisted and how it is asked for.
//!
//! A store persists rows and nothing else. What is written, and whether, is decided by the
//! scripts in [`script`], which are written once over the row primitives of [`tx::Tx`] and call
//! the pure rules of `semel-core`. Three kinds of store pass one conformance suite: [`memory`]
//! (the oracle for tests), SQLite, PostgreSQL.

pub mod check;
pub mod cluster;
pub mod codec;
pub mod conformance;
pub mod error;
pub mod failpoint;
pub mod health;
pub mod memory;
pub mod queue;
pub mod reads;
pub mod rows;
pub mod script;
pub mod search;
pub mod tx;
pub mod words;
pub mod work;

pub use cluster::{Cluster, Ear, NodeRow, NodeState, Note};
pub use error::StoreError;
pub use health::Tally;
pub use reads::*;
pub use rows::*;
pub use script::{OUTSIDE_FROM, RELEASED_FROM};
pub use tx::{Look, Result, Tx};
pub use words::*;
pub use work::*;

use semel_core::Millis;
use std::sync::Arc;

/// Called once, after the write is durable (or provably is not).
pub type Reply = Box<dyn FnOnce(Result<Done>) + Send>;

/// What a look before the decision has found: the answer, if nothing need be written for it, and its row.
pub type Peeked = Option<(AdmitResult, DecisionRow)>;
/// Called once, with what was found.
pub type PeekReply = Box<dyn FnOnce(Result<Peeked>) + Send>;

/// The store's source of time.
pub type ClockFn = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A store. Writes go through [`Store::submit`] and are answered after durability; reads are
/// short and see everything answered before.
pub trait Store: Reads {
    /// Queues a write. Writes of one caller are applied in order; each is atomic on its own.
    fn submit(&self, work: Work, reply: Reply);

    /// Takes the decision on a committed snapshot if it changes nothing; `None` means it must go
    /// through [`Work::Admit`]. The decision row is returned, to be logged without being waited for.
    fn peek(&self, request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>>;

    /// False if a look would most likely find nothing, and cost more than it saves. Only a hint: the admission decides.
    fn is_worth_a_look(&self, _key: &KeyClaim) -> bool {
        true
    }

    /// As [`Store::peek`], for a store that is better asked about many at once: the answer may come on another thread.
    fn peek_later(&self, request: Box<AdmitRequest>, reply: PeekReply) {
        reply(self.peek(&request));
    }

    /// The store's clock.
    fn now(&self) -> Millis;

    /// Ends the writer after what is queued; later writes answer [`StoreError::Closed`].
    fn close(&self);

    /// The other processes on this store, if there can be any.
    fn cluster(&self) -> Option<&dyn Cluster> {
        None
    }

    /// What was written since the store was opened, where that is counted.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// `Err` once the store is poisoned or while it refuses writes.
    fn health(&self) -> Result<()>;

    /// Submits and waits. For tools and tests; a server awaits the reply instead.
    fn call(&self, work: Work) -> Result<Done> {
        let (tx, rx) = std::sync::mpsc::sync_channel(1);
        self.submit(
            work,
            Box::new(move |answer| {
                // The receiver is on this stack; it cannot be gone.
                let _ = tx.send(answer);
            }),
        );
        rx.recv().unwrap_or(Err(StoreError::Closed))
    }
}
