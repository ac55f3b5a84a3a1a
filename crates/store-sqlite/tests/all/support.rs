//! Stores in directories that go away with the process's temporary files.

use semel_core::Millis;
use semel_store::{ClockFn, Store};
use semel_store_sqlite::{Options, SqliteStore};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock that tests set.
#[derive(Clone)]
pub struct Hands(pub Arc<AtomicI64>);

impl Hands {
    pub fn at(ms: i64) -> Hands {
        Hands(Arc::new(AtomicI64::new(ms)))
    }
    pub fn clock(&self) -> ClockFn {
        let read = self.0.clone();
        Arc::new(move || Millis(read.load(Ordering::Relaxed)))
    }
}

pub fn open(path: &Path, clock: ClockFn) -> Arc<SqliteStore> {
    SqliteStore::open(path, Options { clock, ..Options::default() }).expect("the store opens")
}

/// For the shared suite, which only knows the trait: the directory goes away with the store.
pub fn make(clock: ClockFn) -> Arc<dyn Store> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(&directory.path().join("semel.db"), clock);
    // Unlinked files stay usable while they are open, and nothing is left behind.
    drop(directory);
    store
}
