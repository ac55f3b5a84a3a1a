//! The oracle: a store in ordered maps, as plain as it can be.
//!
//! It exists so that the durable stores have something to be equal to. Writes run one at a time
//! under a lock, through the same scripts; a transaction keeps an undo log, and an error undoes
//! it. Reads scan. Nothing survives the process.

mod audit;
mod reads;
mod tables;
mod tx;

pub use tables::{Tables, forget_at};

use crate::script;
use crate::{AdmitRequest, AdmitResult, ClockFn, DecisionRow, Reply, Result, Store, StoreError, Work};
use parking_lot::Mutex;
use semel_core::{Millis, planted};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tx::MemoryTx;

pub struct MemoryStore {
    tables: Mutex<Tables>,
    clock: ClockFn,
    /// The latest instant ever given out: time never goes back.
    latest: AtomicI64,
    closed: AtomicBool,
}

impl MemoryStore {
    pub fn new(clock: ClockFn) -> Arc<MemoryStore> {
        Arc::new(MemoryStore {
            tables: Mutex::new(Tables::default()),
            clock,
            latest: AtomicI64::new(i64::MIN),
            closed: AtomicBool::new(false),
        })
    }
}

impl MemoryStore {
    /// Another store with the same rows and the same clock.
    pub fn copy(&self) -> Arc<MemoryStore> {
        Arc::new(MemoryStore {
            tables: Mutex::new(self.tables.lock().clone()),
            clock: self.clock.clone(),
            latest: AtomicI64::new(self.latest.load(Ordering::Acquire)),
            closed: AtomicBool::new(false),
        })
    }
}

impl Store for MemoryStore {
    fn submit(&self, work: Work, reply: Reply) {
        let answer = if self.closed.load(Ordering::Acquire) {
            Err(StoreError::Closed)
        } else {
            let mut tables = self.tables.lock();
            let mut tx = MemoryTx::new(&mut tables, self.now());
            let answer = script::apply(&mut tx, &work);
            match answer {
                Ok(_) => tx.keep(),
                Err(_) => tx.undo(),
            }
            answer
        };
        // Outside the lock: the reply may ask the store something.
        reply(answer);
    }

    fn peek(&self, request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>> {
        let mut tables = self.tables.lock();
        let mut tx = MemoryTx::read_only(&mut tables, self.now());
        script::peek(&mut tx, request)
    }

    fn now(&self) -> Millis {
        let read = (self.clock)().0;
        if planted!(ClockGoesBack) {
            return Millis(read);
        }
        Millis(self.latest.fetch_max(read, Ordering::AcqRel).max(read))
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn health(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }
}
