//! The thin outer layer: a thread that feeds the driver and carries out what it asks.
//!
//! All logic is in [`crate::driver`]. This file moves messages: commits to the store, requests to
//! the performer, timers from the store, answers to whoever waits.

use crate::api::{Control, ControlError, RunChange};
use crate::driver::{Driver, Happened, Out, Ticket};
use crate::ports::{Aside, Performer};
use parking_lot::Mutex;
use semel_core::run::{By, Status};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_store::{RunCommit, Store, StoreError, Work, failpoint};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};

/// Timers looked at in one go.
const TIMERS_PAGE: u32 = 256;
/// The store is asked for the next timer at least this often.
const POLL_MS: i64 = 1_000;
/// A due timer whose commit is under way is not looked at again before this.
const TIMER_GAP_MS: i64 = 20;
const RETRY_LATER: Duration = Duration::from_millis(250);

pub enum Message {
    Happened(Happened),
    Control {
        workspace: WorkspaceId,
        run: RunId,
        control: Control,
        by: By,
        reply: oneshot::Sender<Result<(), ControlError>>,
    },
    /// A timer was set by an admission.
    TimerAt(Millis),
    /// Begin nothing new; say when all is settled.
    Stop(oneshot::Sender<()>),
}

/// Those who wait for a run to end.
pub type Waiters = Arc<Mutex<BTreeMap<RunId, Vec<oneshot::Sender<()>>>>>;

pub struct Shell {
    pub driver: Driver,
    pub store: Arc<dyn Store>,
    pub performer: Arc<dyn Performer>,
    pub aside: Arc<dyn Aside>,
    pub inbox: Receiver<Message>,
    pub sender: Sender<Message>,
    pub changes: broadcast::Sender<RunChange>,
    pub waiters: Waiters,
    pub ready: Arc<AtomicBool>,
    pub tickets: BTreeMap<Ticket, oneshot::Sender<Result<(), ControlError>>>,
    pub next_ticket: Ticket,
    pub next_timer: Millis,
    pub stopping: Option<oneshot::Sender<()>>,
    /// Set once nothing should go on.
    pub fatal: Fatal,
}

/// Why the node must stop, if it must.
pub type Fatal = Arc<Mutex<Option<StoreError>>>;

impl Shell {
    /// The driver's thread. Ends when every sender is gone or a stop has settled.
    pub fn run(mut self) {
        self.recover();
        self.ready.store(true, Ordering::SeqCst);
        loop {
            let wait = self.next_timer.since(self.store.now()).clamp(0, POLL_MS);
            match self.inbox.recv_timeout(Duration::from_millis(wait as u64)) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.look_around() {
                return;
            }
        }
    }

    /// What is to be seen to after each message; true when a stop has settled.
    pub fn look_around(&mut self) -> bool {
        if self.stopping.is_none() && self.store.now() >= self.next_timer {
            self.fire_timers();
        }
        if self.stopping.is_none() || self.driver.in_flight() > 0 {
            return false;
        }
        if let Some(done) = self.stopping.take() {
            // Whoever asked may have given up waiting.
            let _ = done.send(());
        }
        true
    }

    /// Active runs go on; dormant ones stay where they are.
    pub fn recover(&mut self) {
        let mut after = None;
        let mut count = 0_usize;
        loop {
            let page = match self.store.active_runs(after, 1_000) {
                Ok(page) => page,
                Err(error) => {
                    // Going on would leave runs that nobody drives.
                    tracing::error!(%error, "recovery cannot read the active runs");
                    let why = StoreError::Poisoned(format!("recovery cannot read the active runs: {error}"));
                    self.fatal.lock().get_or_insert(why);
                    return;
                }
            };
            let Some((_, last)) = page.last() else { break };
            after = Some(*last);
            count += page.len();
            for (workspace, run) in page {
                self.feed(Happened::Recover { workspace, run });
            }
        }
        if count > 0 {
            tracing::info!(runs = count, "recovered active runs");
        }
        self.next_timer = Millis(0);
    }

    pub fn handle(&mut self, message: Message) {
        match message {
            Message::Happened(happened) => self.feed(happened),
            Message::TimerAt(due) => self.next_timer = self.next_timer.min(due),
            Message::Control { reply, .. } if self.stopping.is_some() => {
                let _ = reply.send(Err(ControlError::NotPossible("the server is shutting down".to_owned())));
            }
            Message::Control { workspace, run, control, by, reply } => {
                self.next_ticket += 1;
                let ticket = self.next_ticket;
                self.tickets.insert(ticket, reply);
                self.feed(Happened::Control { workspace, run, control, by, ticket });
            }
            Message::Stop(done) => {
                self.driver.stop();
                self.stopping = Some(done);
            }
        }
    }

    fn feed(&mut self, happened: Happened) {
        let mut queue = VecDeque::from([happened]);
        while let Some(happened) = queue.pop_front() {
            let now = self.store.now();
            for out in self.driver.on(now, happened) {
                self.carry_out(out, &mut queue);
            }
            if let Some(error) = self.driver.fatal() {
                self.fatal.lock().get_or_insert_with(|| error.clone());
            }
        }
    }

    fn carry_out(&mut self, out: Out, queue: &mut VecDeque<Happened>) {
        match out {
            Out::Commit { no, commit } => submit(&self.store, &self.sender, no, commit),
            Out::CommitLater { no, commit } => {
                let (store, sender) = (self.store.clone(), self.sender.clone());
                let wait = self.aside.sleep(RETRY_LATER);
                self.aside.run(Box::pin(async move {
                    wait.await;
                    submit(&store, &sender, no, commit);
                }));
            }
            Out::Again(happened) => {
                let (sender, wait) = (self.sender.clone(), self.aside.sleep(RETRY_LATER));
                self.aside.run(Box::pin(async move {
                    wait.await;
                    // The receiver is gone only when the process stops; the store still has it all.
                    let _ = sender.send(Message::Happened(happened));
                }));
            }
            Out::Perform { run, step, send, request } => {
                let (performer, sender) = (self.performer.clone(), self.sender.clone());
                self.aside.run(Box::pin(async move {
                    failpoint::hit("effect.sending");
                    let outcome = performer.perform(*request).await;
                    failpoint::hit("effect.answered");
                    // The receiver is gone only when the process stops; the intent stays open then.
                    let _ = sender.send(Message::Happened(Happened::Performed { run, step, send, outcome }));
                }));
            }
            Out::Answer { ticket, answer } => {
                if let Some(reply) = self.tickets.remove(&ticket) {
                    // The caller may have gone away.
                    let _ = reply.send(answer);
                }
            }
            Out::Changed(change) => self.changed(change),
            Out::Wake { workspace, run } => queue.push_back(Happened::Wake { workspace, run }),
            Out::Fenced(run) => {
                self.changed(RunChange { run, version: 0, status: Status::Cancelled });
                queue.push_back(Happened::Fenced(run));
            }
            Out::TimerAt(due) => self.next_timer = self.next_timer.min(due),
        }
    }

    fn changed(&mut self, change: RunChange) {
        if change.status.is_ended() || change.status == Status::Held {
            for waiter in self.waiters.lock().remove(&change.run).unwrap_or_default() {
                let _ = waiter.send(());
            }
        }
        // Nobody may be following.
        let _ = self.changes.send(change);
    }

    fn fire_timers(&mut self) {
        let now = self.store.now();
        let rows = match self.store.due_timers(now, TIMERS_PAGE) {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(%error, "timers cannot be read");
                self.next_timer = now.plus(POLL_MS);
                return;
            }
        };
        let full = rows.len() == TIMERS_PAGE as usize;
        for row in rows {
            self.feed(Happened::Timer { workspace: row.workspace, run: row.run, timer: row.timer });
        }
        let next = self.store.next_timer().ok().flatten().unwrap_or(now.plus(POLL_MS));
        self.next_timer = next.max(now.plus(if full { 1 } else { TIMER_GAP_MS })).min(now.plus(POLL_MS));
    }
}

fn submit(store: &Arc<dyn Store>, sender: &Sender<Message>, no: u64, commit: Box<RunCommit>) {
    let (workspace, run, sender) = (commit.workspace.clone(), commit.run, sender.clone());
    store.submit(
        Work::Commit(commit),
        Box::new(move |answer| {
            // The driver is gone only when the process stops.
            let _ = sender.send(Message::Happened(Happened::Committed { workspace, run, no, answer }));
        }),
    );
}
