//! What a store knows of its own state.

use crate::StoreError;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that were committed.
    pub commits: u64,
    /// Writes in them.
    pub writes: u64,
}

/// Whether the store can be trusted, and whether it takes writes.
#[derive(Default)]
pub struct Health {
    state: Mutex<State>,
    commits: AtomicU64,
    writes: AtomicU64,
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

    /// A transaction with so many writes is durable: the store takes writes.
    pub fn committed(&self, writes: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(writes as u64, Ordering::Relaxed);
        self.recover();
    }

    pub fn tally(&self) -> Tally {
        Tally { commits: self.commits.load(Ordering::Relaxed), writes: self.writes.load(Ordering::Relaxed) }
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
