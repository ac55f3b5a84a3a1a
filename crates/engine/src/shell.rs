//! The thin outer layer: a thread that feeds the driver and carries out what it asks.
//!
//! All logic is in [`crate::driver`]. This file moves messages: commits to the store, requests to
//! the performer, timers from the store, answers to whoever waits.

use crate::api::{Control, ControlError, RunChange};
use crate::driver::{Driver, Happened, Out, Ticket};
use crate::elsewhere;
use crate::errands::Bells;
use crate::ports::{Aside, Performer};
use crate::sending;
use parking_lot::Mutex;
use semel_core::run::{By, Status};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_store::{Note, RunCommit, Store, StoreError, Work, failpoint};
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
/// As long as that one may be another node's.
const SHARED_TIMER_GAP_MS: i64 = 100;
const RETRY_LATER: Duration = Duration::from_millis(250);
/// How often a node looks for what others have left, and how soon again if there was much.
const ROUNDS_MS: i64 = 500;
const ROUNDS_AGAIN_MS: i64 = 50;
const ADOPT_MAX: u32 = 128;
const MAIL_MAX: u32 = 256;
/// How long a wish to hear of a run holds.
pub const WATCHED_MS: i64 = 60_000;

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
    /// An admission has taken the run from whoever drives it.
    Fenced(RunId),
    /// Another node says so.
    Heard(Note),
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
    pub bells: Arc<Bells>,
    pub ready: Arc<AtomicBool>,
    pub tickets: BTreeMap<Ticket, Asking>,
    pub next_ticket: Ticket,
    pub next_timer: Millis,
    /// When to look for what other nodes have left, if there are any.
    pub next_rounds: Millis,
    /// Runs that somebody waits for at another node, and until when.
    pub watched: BTreeMap<RunId, Millis>,
    pub stopping: Option<oneshot::Sender<()>>,
    /// Set once nothing should go on.
    pub fatal: Fatal,
}

/// A request of a person whose answer is on its way.
pub struct Asking {
    pub workspace: WorkspaceId,
    pub run: RunId,
    pub control: Control,
    pub by: By,
    pub reply: oneshot::Sender<Result<(), ControlError>>,
}

/// Why the node must stop, if it must.
pub type Fatal = Arc<Mutex<Option<StoreError>>>;

impl Shell {
    /// The driver's thread. Ends when every sender is gone or a stop has settled.
    pub fn run(mut self) {
        self.recover();
        self.ready.store(true, Ordering::SeqCst);
        loop {
            let wait = self.next_look().since(self.store.now()).clamp(0, POLL_MS);
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

    /// When there is something to look at again.
    pub fn next_look(&self) -> Millis {
        if self.store.cluster().is_some() { self.next_timer.min(self.next_rounds) } else { self.next_timer }
    }

    /// What is to be seen to after each message; true when a stop has settled.
    pub fn look_around(&mut self) -> bool {
        if self.stopping.is_none() && self.store.cluster().is_some() && self.store.now() >= self.next_rounds {
            self.make_rounds();
        }
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
            Message::Fenced(run) => {
                self.tell(Note::Fenced { run });
                self.feed(Happened::Fenced(run));
            }
            Message::Heard(note) => self.heard(note),
            Message::Control { reply, .. } if self.stopping.is_some() => {
                let _ = reply.send(Err(ControlError::NotPossible("the server is shutting down".to_owned())));
            }
            Message::Control { workspace, run, control, by, reply } => {
                self.next_ticket += 1;
                let ticket = self.next_ticket;
                let asking =
                    Asking { workspace: workspace.clone(), run, control: control.clone(), by: by.clone(), reply };
                self.tickets.insert(ticket, asking);
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
                    let _ = sender.send(Message::Happened(*happened));
                }));
            }
            Out::Perform { run, step, send, request } => {
                let (performer, sender) = (self.performer.clone(), self.sender.clone());
                let (store, aside) = (self.store.clone(), self.aside.clone());
                let life = store.cluster().map(|cluster| cluster.epoch());
                self.aside.run(Box::pin(async move {
                    failpoint::hit("effect.sending");
                    let sent = sending::send(store.cluster(), aside.as_ref(), performer.as_ref(), life, *request).await;
                    // Else whoever has the run now judges what became of it.
                    let Some(outcome) = sent else { return };
                    failpoint::hit("effect.answered");
                    // The receiver is gone only when the process stops; the intent stays open then.
                    let _ = sender.send(Message::Happened(Happened::Performed { run, step, send, outcome }));
                }));
            }
            Out::Read { run, place, key, request } => {
                let (performer, sender) = (self.performer.clone(), self.sender.clone());
                self.aside.run(Box::pin(async move {
                    let outcome = performer.perform(*request).await;
                    // The receiver is gone only when the process stops; the next one reads again.
                    let _ = sender.send(Message::Happened(Happened::Read { run, place, key, outcome }));
                }));
            }
            Out::Answer { ticket, answer } => {
                if let Some(asking) = self.tickets.remove(&ticket) {
                    // The caller may have gone away.
                    let _ = asking.reply.send(answer);
                }
            }
            Out::Nudge { workspace, run } => self.tell(Note::Mail { workspace, run }),
            Out::AskElsewhere { ticket } => {
                if let Some(asking) = self.tickets.remove(&ticket) {
                    let (store, sender, aside) = (self.store.clone(), self.sender.clone(), self.aside.clone());
                    let name = self.driver.fresh_ticket();
                    self.aside.run(Box::pin(elsewhere::ask(store, sender, aside, name, asking)));
                }
            }
            Out::Changed(change) => self.changed(change),
            Out::Wake { workspace, run } => queue.push_back(Happened::Wake { workspace, run }),
            Out::Fenced(run) => {
                self.tell(Note::Fenced { run });
                self.changed(RunChange { run, version: 0, status: Status::Cancelled });
                queue.push_back(Happened::Fenced(run));
            }
            Out::TimerAt(due) => self.next_timer = self.next_timer.min(due),
            Out::Errands { workspace, queue } => self.bells.ring(&workspace, &queue),
        }
    }

    fn tell(&self, note: Note) {
        if let Some(cluster) = self.store.cluster() {
            cluster.tell(note);
        }
    }

    /// What others have left or told, looked for: a note may be lost.
    fn make_rounds(&mut self) {
        let now = self.store.now();
        let Some(cluster) = self.store.cluster() else { return };
        let found = cluster.adopt(ADOPT_MAX).and_then(|adopted| Ok((adopted, cluster.mail(MAIL_MAX)?)));
        let (adopted, mail) = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "other nodes cannot be looked after");
                self.next_rounds = now.plus(ROUNDS_MS);
                return;
            }
        };
        let more = adopted.len() == ADOPT_MAX as usize;
        if !adopted.is_empty() {
            tracing::info!(runs = adopted.len(), "took over runs of a node that is gone");
        }
        for (workspace, run) in adopted {
            self.feed(Happened::Recover { workspace, run });
        }
        for (workspace, run) in mail {
            self.feed(Happened::Wake { workspace, run });
        }
        self.watched.retain(|_, until| *until > now);
        self.next_rounds = now.plus(if more { ROUNDS_AGAIN_MS } else { ROUNDS_MS });
    }

    fn heard(&mut self, note: Note) {
        match note {
            Note::Mail { workspace, run } if self.driver.drives(run) => self.feed(Happened::Wake { workspace, run }),
            Note::Mail { .. } => {}
            Note::Watch { run } => _ = self.watched.insert(run, self.store.now().plus(WATCHED_MS)),
            Note::Fenced { run } => self.feed(Happened::Fenced(run)),
            Note::Left => self.next_rounds = Millis(0),
            // Told to those who wait by the one who hears it.
            Note::Changed { .. } | Note::Pushed { .. } => {}
        }
    }

    fn changed(&mut self, change: RunChange) {
        if self.watched.contains_key(&change.run) {
            self.tell(Note::Changed { run: change.run, version: change.version, status: change.status });
        }
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
        if full {
            self.next_timer = now.plus(1);
            return;
        }
        let next = self.store.next_timer().ok().flatten().unwrap_or(now.plus(POLL_MS));
        let gap = if self.store.cluster().is_some() { SHARED_TIMER_GAP_MS } else { TIMER_GAP_MS };
        self.next_timer = next.max(now.plus(gap)).min(now.plus(POLL_MS));
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
