//! Checkpoints off the commit path: a thread of its own copies the log into the database.
//!
//! A passive checkpoint never waits for anyone, but under steady load it never sees the end of
//! the log either, and the log would grow for ever. When it is far too long, one more checkpoint
//! keeps the writer out for the short tail that is left, so that the log starts again.

use crate::shared::Shared;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use semel_store::failpoint;
use std::sync::Arc;
use std::time::Duration;

/// A log this many times the checkpoint size is far too long.
const TOO_LONG: u32 = 8;
/// How long a reader may hold up the checkpoint that the writer waits for.
const ALONE_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Progress {
    /// Pages in the log after the last commit.
    pages: u32,
    /// Pages in the log at the last checkpoint.
    copied: u32,
    asked: bool,
    stopped: bool,
}

pub struct Signal {
    progress: Mutex<Progress>,
    changed: Condvar,
    every: u32,
}

impl Signal {
    pub fn new(every: u32) -> Signal {
        Signal { progress: Mutex::default(), changed: Condvar::new(), every: every.max(1) }
    }

    /// Told by SQLite at each commit.
    pub fn saw(&self, pages: u32) {
        let mut progress = self.progress.lock();
        if pages < progress.pages {
            // The log started again.
            progress.copied = 0;
        }
        progress.pages = pages;
    }

    /// Told by the writer when everyone is answered.
    pub fn ask(&self) {
        let mut progress = self.progress.lock();
        if progress.pages.saturating_sub(progress.copied) >= self.every && !progress.asked {
            progress.asked = true;
            self.changed.notify_one();
        }
    }

    pub fn stop(&self) {
        self.progress.lock().stopped = true;
        self.changed.notify_one();
    }

    fn wait(&self) -> bool {
        let mut progress = self.progress.lock();
        while !progress.asked && !progress.stopped {
            self.changed.wait(&mut progress);
        }
        progress.asked = false;
        !progress.stopped
    }

    fn done(&self, pages: u32) {
        self.progress.lock().copied = pages;
    }
}

pub fn run(connection: Connection, shared: Arc<Shared>) {
    if let Err(error) = connection.busy_timeout(ALONE_TIMEOUT) {
        tracing::warn!("checkpoints keep the long timeout: {error}");
    }
    while shared.checkpoints.wait() {
        if let Err(error) = once(&connection, &shared) {
            let error = crate::classify::classify(&error);
            if error.is_fatal() {
                shared.health.poison(&error);
                return;
            }
            tracing::debug!("a checkpoint was put off: {error}");
        }
    }
}

fn once(connection: &Connection, shared: &Shared) -> rusqlite::Result<()> {
    failpoint::hit("checkpoint.begun");
    let (pages, _) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
    failpoint::hit("checkpoint.copied");
    let pages = u32::try_from(pages).unwrap_or(0);
    shared.checkpoints.done(pages);
    if pages >= shared.checkpoints.every.saturating_mul(TOO_LONG) {
        let _gate = shared.gate.lock();
        connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART)?;
    }
    Ok(())
}
