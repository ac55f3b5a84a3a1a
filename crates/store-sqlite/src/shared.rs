//! What the writer, the checkpointer and the readers share.

use crate::known::Known;
use crate::names::Names;
use parking_lot::{Condvar, Mutex};
use semel_core::Millis;
use semel_store::{ClockFn, Reply, StoreError, Work};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// One queued write. Its reply is called exactly once, by the writer.
pub struct Job {
    pub work: Work,
    pub reply: Reply,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// How many of them nobody waits for.
    patient: usize,
    /// Patient jobs taken and done since the start, for whoever wants to read what they wrote.
    pushed: u64,
    done: u64,
    /// Somebody does.
    hurry: bool,
    closed: bool,
}

/// Rows that nobody waits for ride with the next write, or go alone after this time or at this number.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENT_MAX: usize = 512;
const SETTLE_LOOKS: usize = 20;

impl Waiting {
    fn is_urgent(&self) -> bool {
        self.jobs.len() > self.patient || self.patient >= PATIENT_MAX || self.hurry || self.closed
    }
}

/// Writes in order of arrival.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Told when patient jobs are done.
    settled: Condvar,
}

/// True for a write that nobody waits for: a commit and a sync of its own would be wasted on it.
fn is_patient(work: &Work) -> bool {
    matches!(work, Work::LogDecision(_))
}

impl Queue {
    /// Gives the job back when the queue is closed.
    pub fn push(&self, job: Job) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Some(job);
        }
        if is_patient(&job.work) {
            waiting.patient += 1;
            waiting.pushed += 1;
        }
        waiting.jobs.push_back(job);
        // The writer sleeps without a limit only on an empty queue, and not at all on an urgent one.
        if waiting.jobs.len() == 1 || waiting.is_urgent() {
            self.arrived.notify_one();
        }
        None
    }

    /// Waits for work and takes all there is, at most `max`; `None` once closed and empty.
    pub fn take(&self, max: usize) -> Option<Vec<Job>> {
        let mut waiting = self.waiting.lock();
        while !waiting.is_urgent() {
            if waiting.jobs.is_empty() {
                self.arrived.wait(&mut waiting);
            } else if self.arrived.wait_for(&mut waiting, PATIENCE).timed_out() {
                break;
            }
        }
        if waiting.jobs.is_empty() && waiting.closed {
            return None;
        }
        waiting.hurry = false;
        let count = waiting.jobs.len().min(max);
        let jobs: Vec<Job> = waiting.jobs.drain(..count).collect();
        waiting.patient -= jobs.iter().filter(|job| is_patient(&job.work)).count();
        Some(jobs)
    }

    /// The writer has done these, well or not.
    pub fn done(&self, patient: u64) {
        if patient > 0 {
            self.waiting.lock().done += patient;
            self.settled.notify_all();
        }
    }

    /// Waits until what was pushed before is written, whether or not anybody waited for it; at most a second, for a
    /// store that is slow must still be readable.
    pub fn settle(&self) {
        let mut waiting = self.waiting.lock();
        let target = waiting.pushed;
        for _ in 0..SETTLE_LOOKS {
            if waiting.done >= target || waiting.closed {
                return;
            }
            waiting.hurry = true;
            self.arrived.notify_one();
            self.settled.wait_for(&mut waiting, PATIENCE);
        }
    }

    pub fn patient(jobs: &[Job]) -> u64 {
        jobs.iter().filter(|job| is_patient(&job.work)).count() as u64
    }

    pub fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
        self.settled.notify_all();
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
    pub known: Known,
    pub checkpoints: crate::checkpoint::Signal,
    /// Held by the writer for each batch, and by a checkpoint that must be alone.
    pub gate: Mutex<()>,
    /// Kept by whoever still uses the file, be it only a thread that is about to end.
    pub _lock: std::fs::File,
}
