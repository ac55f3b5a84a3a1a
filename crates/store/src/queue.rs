//! Writes on their way to a writer thread.

use crate::{Reply, Work};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
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

    fn drain(&mut self, max: usize) -> Vec<Job> {
        self.hurry = false;
        let count = self.jobs.len().min(max);
        let jobs: Vec<Job> = self.jobs.drain(..count).collect();
        self.patient -= jobs.iter().filter(|job| is_patient(&job.work)).count();
        jobs
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
        Some(waiting.drain(max))
    }

    /// Takes what there is, at most `max`, without waiting: for a writer that cannot write.
    pub fn take_waiting(&self, max: usize) -> Vec<Job> {
        self.waiting.lock().drain(max)
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
