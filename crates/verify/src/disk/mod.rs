//! A disk that can be watched, that fails on command, and whose contents after a power cut can be asked for.
//!
//! SQLite reaches files through a layer of functions, its VFS. [`vfs`] puts one in front of the system's own that tells
//! a [`Disk`] of every call. The disk writes down what was written and synced, so that [`image`] can make the files a
//! machine may find after it lost power; and it can refuse a call, as a broken device does.

pub mod cuts;
pub mod image;
pub mod script;
mod vfs;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was done to a file, by its name without the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Write {
        file: String,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        file: String,
        size: u64,
    },
    /// What was written before the op of this number is durable; with the directory, deletions too.
    Sync {
        file: String,
        before: usize,
        directory: bool,
    },
    Delete {
        file: String,
        synced: bool,
    },
    /// The caller of the store was answered; the number is the caller's.
    Ack(u64),
}

/// A kind of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Open,
    Read,
    Write,
    Truncate,
    Sync,
    Size,
    Delete,
    Lock,
    SharedMap,
    SharedLock,
}

/// Which calls fail: the `nth` of all (from 1), or all from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub nth: u64,
    pub for_good: bool,
    /// Writes fail because there is no room, and not because the device is broken.
    pub full: bool,
}

/// One watched disk. It has a name that SQLite knows for the rest of the process.
pub struct Disk {
    name: String,
    ops: Mutex<Vec<Op>>,
    fault: Mutex<Option<Fault>>,
    calls: AtomicU64,
    failed: Mutex<Vec<Kind>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Makes a disk and tells SQLite its name. It is never taken back: connections may outlive their owners.
    pub fn register() -> &'static Disk {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let disk = Disk {
            name: format!("semel-disk-{}", COUNT.fetch_add(1, Ordering::SeqCst)),
            ops: Mutex::default(),
            fault: Mutex::default(),
            calls: AtomicU64::new(0),
            failed: Mutex::default(),
        };
        let disk: &'static Disk = Box::leak(Box::new(disk));
        vfs::register(disk);
        disk
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes note that a caller was answered.
    pub fn ack(&self, number: u64) {
        self.log(Op::Ack(number));
    }

    pub fn ops(&self) -> Vec<Op> {
        lock(&self.ops).clone()
    }

    pub fn position(&self) -> usize {
        lock(&self.ops).len()
    }

    /// Counts calls from now on, and fails as told.
    pub fn arm(&self, fault: Option<Fault>) {
        self.calls.store(0, Ordering::SeqCst);
        lock(&self.failed).clear();
        *lock(&self.fault) = fault;
    }

    /// The kinds of the calls that failed.
    pub fn failed(&self) -> Vec<Kind> {
        lock(&self.failed).clone()
    }

    fn log(&self, op: Op) {
        lock(&self.ops).push(op);
    }

    /// Counts a call; `Some` if it is to fail, and whether for want of room.
    fn refuses(&self, kind: Kind) -> Option<bool> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = (*lock(&self.fault))?;
        let hit = number == fault.nth || (fault.for_good && number > fault.nth);
        hit.then(|| {
            lock(&self.failed).push(kind);
            fault.full
        })
    }
}
