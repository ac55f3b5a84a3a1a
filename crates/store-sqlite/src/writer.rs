//! The one writer: drain, apply, commit, answer.
//!
//! | failure | what happens |
//! |---|---|
//! | a script says no before it wrote anything | nothing; its neighbours go on |
//! | a script says no later | the batch is rolled back and done again, each write in a savepoint of its own |
//! | BEGIN or COMMIT is refused (full, busy) | the whole batch is rolled back and told so; the next batch is the probe |
//! | SQLite ends the transaction on its own | the same: what came before in the batch is gone too |
//! | I/O error, damage, an unknown commit, a panic | the store is poisoned: every write from then on says why |
//!
//! Nobody is answered before the commit is durable. There is no linger: while one batch is being
//! synced the next one gathers.

use crate::classify::{classify, classify_commit};
use crate::names::Cx;
use crate::shared::{Job, Queue, Shared};
use crate::tx::{Counters, SqlTx};
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use semel_core::Millis;
use semel_store::{Done, Result, StoreError, Work, failpoint, script};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Writes in one transaction.
const BATCH_MAX: usize = 1_024;

pub struct Writer {
    connection: Connection,
    shared: Arc<Shared>,
    counters: Counters,
}

impl Writer {
    pub fn new(mut connection: Connection, shared: Arc<Shared>, counters: Counters) -> rusqlite::Result<Writer> {
        let watched = shared.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            watched.checkpoints.saw(u32::try_from(pages).unwrap_or(0));
            Ok(())
        }))?;
        Ok(Writer { connection, shared, counters })
    }

    /// Runs until the queue is closed and empty, then moves the log into the database.
    pub fn run(mut self, checkpointer: JoinHandle<()>) {
        while let Some(jobs) = self.shared.queue.take(BATCH_MAX) {
            self.batch(jobs);
        }
        self.shared.checkpoints.stop();
        // Two checkpoints at a time are refused, so the other thread must be through.
        if checkpointer.join().is_err() {
            tracing::error!("the checkpointer of the store panicked");
        }
        if self.shared.health.poisoned().is_none() {
            // The log is complete without this; a reader that holds it up costs time at the next start.
            let truncated = self.connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
            if let Err(error) = truncated {
                tracing::warn!("the last checkpoint did not finish: {error}");
            }
        }
    }

    fn batch(&mut self, jobs: Vec<Job>) {
        let patient = Queue::patient(&jobs);
        let answers = {
            // Taken through a clone, so that the lock does not borrow the writer.
            let shared = self.shared.clone();
            let _gate = shared.gate.lock();
            self.commit(&jobs)
        };
        match answers {
            Ok(answers) => {
                self.shared.health.committed(jobs.len());
                for (job, answer) in jobs.into_iter().zip(answers) {
                    send(job, answer);
                }
            }
            Err(error) => {
                let error = self.shared.health.note(error);
                for job in jobs {
                    send(job, Err(error.clone()));
                }
            }
        }
        self.shared.queue.done(patient);
        self.shared.checkpoints.ask();
    }

    /// All or nothing, but for batches that failed alone. `Err` means nothing was committed, or
    /// that nobody knows.
    fn commit(&mut self, jobs: &[Job]) -> Result<Vec<Result<Done>>> {
        if let Some(why) = self.shared.health.poisoned() {
            return Err(why);
        }
        let before = self.counters;
        let shared = self.shared.clone();
        let cx = Cx::new(&self.connection, &shared.names);
        let mut done = attempt(&cx, &shared, &mut self.counters, jobs, Care::None);
        if let Ok(None) = done {
            self.counters = before;
            cx.forget_since(0);
            done = execute(&cx, "ROLLBACK")
                .map_err(|e| StoreError::Poisoned(format!("rollback failed: {e}")))
                .and_then(|()| attempt(&cx, &shared, &mut self.counters, jobs, Care::Savepoints));
        }
        let done = done.and_then(|answers| {
            answers.ok_or_else(|| StoreError::Bug("a batch with savepoints asked to be done again".into()))
        });
        match done {
            Ok(answers) => {
                failpoint::committed(jobs.iter().map(|job| &job.work));
                cx.publish();
                Ok(answers)
            }
            Err(error) => {
                self.counters = before;
                if !self.connection.is_autocommit() {
                    // If even this fails, the connection's own recovery rolls back.
                    execute(&cx, "ROLLBACK")
                        .map_err(|e| StoreError::Poisoned(format!("{error}; then rollback failed: {e}")))?;
                }
                Err(error)
            }
        }
    }
}

fn execute(cx: &Cx, sql: &'static str) -> Result<()> {
    cx.exec(sql, []).map(|_| ()).map_err(|e| classify(&e))
}

/// How a batch is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Nothing can be undone alone. Nearly every batch ends well, and a savepoint costs a copy of each page it meets.
    None,
    /// Each write can.
    Savepoints,
}

/// The answers of a committed batch; `None` when it must be rolled back and done with more care.
fn attempt(
    cx: &Cx,
    shared: &Shared,
    counters: &mut Counters,
    jobs: &[Job],
    care: Care,
) -> Result<Option<Vec<Result<Done>>>> {
    execute(cx, "BEGIN IMMEDIATE")?;
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let now = shared.clock.now();
        let answer = match care {
            Care::None => apply_plain(cx, now, counters, &job.work)?,
            Care::Savepoints => Some(apply_one(cx, now, counters, &job.work)?),
        };
        match answer {
            Some(answer) => answers.push(answer),
            None => return Ok(None),
        }
    }
    let _changing = shared.known.changing(&cx.touched());
    let end = if failpoint::committing(jobs.iter().map(|job| &job.work)) { "ROLLBACK" } else { "COMMIT" };
    finish(cx, shared.clock.now(), *counters, answers, end).map(Some)
}

/// The inner answer is this write's own; the outer error is everybody's. `None`: it wrote something and then failed.
fn apply_plain(cx: &Cx, now: Millis, counters: &mut Counters, work: &Work) -> Result<Option<Result<Done>>> {
    let (wrote, answer) = run_script(cx, now, counters, work);
    match answer {
        // SQLite may have ended the whole transaction (disk full, I/O error).
        Err(error) if error.is_fatal() || cx.connection.is_autocommit() => Err(error),
        Err(_) if wrote => Ok(None),
        answer => Ok(Some(answer)),
    }
}

fn apply_one(cx: &Cx, now: Millis, counters: &mut Counters, work: &Work) -> Result<Result<Done>> {
    let (before, mark) = (*counters, cx.mark());
    execute(cx, "SAVEPOINT work")?;
    let (_, answer) = run_script(cx, now, counters, work);
    if let Err(error) = &answer {
        if error.is_fatal() || cx.connection.is_autocommit() {
            return Err(error.clone());
        }
        execute(cx, "ROLLBACK TO work")?;
        *counters = before;
        cx.forget_since(mark);
    }
    execute(cx, "RELEASE work")?;
    Ok(answer)
}

/// What a write came to, and whether it has written anything.
fn run_script(cx: &Cx, now: Millis, counters: &mut Counters, work: &Work) -> (bool, Result<Done>) {
    let mut tx = SqlTx::new(cx, now, counters);
    let done = catch_unwind(AssertUnwindSafe(|| {
        let done = script::apply(&mut tx, work)?;
        tx.flush()?;
        Ok(done)
    }));
    let done = done.unwrap_or_else(|_| Err(StoreError::Poisoned("a rule of the store was broken (panic)".into())));
    (tx.has_written(), done)
}

fn finish(
    cx: &Cx,
    now: Millis,
    counters: Counters,
    answers: Vec<Result<Done>>,
    end: &'static str,
) -> Result<Vec<Result<Done>>> {
    cx.exec(
        "UPDATE meta SET clock_ms = ?1, last_decision = ?2, last_inbox = ?3 WHERE id = 1",
        [now.0, crate::codec::int(counters.decision), crate::codec::int(counters.inbox)],
    )
    .map_err(|e| classify(&e))?;
    cx.exec(end, []).map_err(|e| classify_commit(&e))?;
    Ok(answers)
}

/// A reply that panics must not take the writer with it.
fn send(job: Job, answer: Result<Done>) {
    if catch_unwind(AssertUnwindSafe(|| (job.reply)(answer))).is_err() {
        tracing::error!("a reply panicked; the write itself was answered");
    }
}
