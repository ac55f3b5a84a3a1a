//! What the writer, the checkpointer and the readers share.

use crate::names::Names;
use parking_lot::{Condvar, Mutex};
use semel_core::Millis;
use semel_store::{ClockFn, Reply, StoreError, Work};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

/// One queued write. Its reply is called exactly once, by the writer.
pub struct Job {
    pub work: Work,
    pub reply: Reply,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// Writes in order of arrival.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Queue {
    /// Gives the job back when the queue is closed.
    pub fn push(&self, job: Job) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Some(job);
        }
        waiting.jobs.push_back(job);
        // The writer sleeps only on an empty queue.
        if waiting.jobs.len() == 1 {
            self.arrived.notify_one();
        }
        None
    }

    /// Waits for work and takes all there is, at most `max`; `None` once closed and empty.
    pub fn take(&self, max: usize) -> Option<Vec<Job>> {
        let mut waiting = self.waiting.lock();
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return None;
            }
            self.arrived.wait(&mut waiting);
        }
        let count = waiting.jobs.len().min(max);
        Some(waiting.jobs.drain(..count).collect())
    }

    pub fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.waiting.lock().closed
    }
}

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

/// Whether the store can be trusted, and whether it takes writes.
#[derive(Default)]
pub struct Health {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Well,
    /// The last write was refused; the next one is the probe that may clear this.
    Degraded(StoreError),
    /// For ever.
    Poisoned(StoreError),
}

impl Health {
    /// The first reason stays.
    pub fn poison(&self, why: &StoreError) -> StoreError {
        let mut state = self.state.lock();
        if let State::Poisoned(first) = &*state {
            return first.clone();
        }
        tracing::error!(code = why.code(), "the store stops: {why}");
        *state = State::Poisoned(why.clone());
        why.clone()
    }

    /// Takes note of why a batch failed; the answer is what its callers are told.
    pub fn note(&self, why: StoreError) -> StoreError {
        match why {
            StoreError::Poisoned(_) => self.poison(&why),
            StoreError::Full(_) | StoreError::Busy(_) => {
                self.degrade(&why);
                why
            }
            // The caller's own matter.
            StoreError::Conflict(_) | StoreError::Bug(_) | StoreError::Closed => why,
        }
    }

    fn degrade(&self, why: &StoreError) {
        let mut state = self.state.lock();
        match &*state {
            State::Poisoned(_) => {}
            State::Well | State::Degraded(_) => {
                tracing::warn!(code = why.code(), "a write was refused: {why}");
                *state = State::Degraded(why.clone());
            }
        }
    }

    pub fn recover(&self) {
        let mut state = self.state.lock();
        if let State::Degraded(_) = *state {
            tracing::info!("the store takes writes again");
            *state = State::Well;
        }
    }

    pub fn poisoned(&self) -> Option<StoreError> {
        match &*self.state.lock() {
            State::Poisoned(why) => Some(why.clone()),
            State::Well | State::Degraded(_) => None,
        }
    }

    pub fn check(&self) -> Result<(), StoreError> {
        match &*self.state.lock() {
            State::Well => Ok(()),
            State::Degraded(why) | State::Poisoned(why) => Err(why.clone()),
        }
    }
}

pub struct Shared {
    pub queue: Queue,
    pub clock: Clock,
    pub health: Health,
    pub names: Names,
    pub checkpoints: crate::checkpoint::Signal,
    /// Held by the writer for each batch, and by a checkpoint that must be alone.
    pub gate: Mutex<()>,
    /// Kept by whoever still uses the file, be it only a thread that is about to end.
    pub _lock: std::fs::File,
}
