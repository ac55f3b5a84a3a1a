//! PostgreSQL store: any number of processes on one database.
//!
//! | thread | connection | does |
//! |---|---|---|
//! | writers | one each | drain their queues, a transaction for each batch ([`writer`]) |
//! | callers | a pool | short snapshots ([`reads`]) |
//! | lookers | of the pool | look at keys for many callers at once ([`looks`]) |
//! | pulse | of the pool | renews the lease of this node, reads the database's clock ([`lease`]) |
//! | post | one | tells the other nodes what they need not wait for ([`nodes`]) |
//! | sockets | all of them | reads and writes bytes ([`session`]) |
//!
//! The scripts of `semel-store` run in memory over a *working set* of rows ([`set`]) that are read and locked together
//! ([`fetch`]) and written together ([`flush`]): a batch costs a few round trips, however many rows it touches.
//!
//! Invariants: nobody is answered before the commit is durable; a refused write leaves no trace and does not touch its
//! neighbours; unique indexes and row locks decide between processes, at READ COMMITTED; a commit whose answer was lost
//! is looked up and never repeated blindly; after an error of unknown extent nothing more is written; time is the
//! database's and never goes back. Writes that concern one run, one key or one lane are applied in the order of their
//! submission; with one writer, all are.

mod address;
mod audit;
mod cache;
mod classify;
mod codec;
mod dump;
mod fetch;
mod flights;
mod flush;
mod found;
mod guess;
mod inspect;
mod lease;
mod log_search;
mod looks;
mod nodes;
mod open;
mod plans;
pub mod raw;
mod reads;
mod session;
mod set;
mod shared;
mod tables;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod tx;
mod wants;
mod whole;
mod writer;

pub use inspect::{Inspection, last_known};
pub use open::{OpenError, Options, SCHEMA_VERSION};

use address::Address;
use classify::classify;
use lease::Lease;
use parking_lot::Mutex;
use semel_core::{Hash16, Millis};
use semel_store::health::Health;
use semel_store::queue::{Job, Queue};
use semel_store::{
    AdmitRequest, AdmitResult, Cluster, DecisionRow, KeyClaim, Note, PeekReply, Reply, Result, Store, StoreError,
    Tally, Work, script,
};
use session::Sockets;
use shared::{Clock, Closing, Shared};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Instant;
use uuid::Uuid;

/// Threads that look for others: while one waits for the database, the next gathers.
const LOOKERS: usize = 2;

/// How often a store is opened anew when a pooler hands on what was meant for somebody else, and how soon.
const OPEN_TRIES: u32 = 10;
const OPEN_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

pub struct PostgresStore {
    pool: Arc<reads::Pool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl PostgresStore {
    /// Opens the database at `address`, and makes the tables if they are not there. A schema in the address goes before
    /// the one of the options.
    pub fn open(address: &str, options: Options) -> std::result::Result<Arc<PostgresStore>, OpenError> {
        for _ in 1..OPEN_TRIES {
            match PostgresStore::open_once(address, options.clone()) {
                Err(OpenError::Away(text)) if text.contains(session::NOT_OURS) => std::thread::sleep(OPEN_AGAIN),
                answer => return answer,
            }
        }
        PostgresStore::open_once(address, options)
    }

    fn open_once(address: &str, options: Options) -> std::result::Result<Arc<PostgresStore>, OpenError> {
        let address = Address::parse(address)?;
        let options = Options { schema: address.schema.clone().unwrap_or(options.schema), ..options };
        open::check_schema_name(&options.schema)?;
        let sockets = Sockets::start().map_err(OpenError::Threads)?;
        let session = sockets.connect(&address)?;
        let begin = open::Begin::new(&options.schema, open::check_server(&session)?);
        open::migrate(&session, &options.schema)?;
        let writers = options.writers.max(1);
        let since = Instant::now();
        let lease_ms = i64::try_from(options.lease.as_millis()).unwrap_or(i64::MAX);
        let who = open::Who { name: &options.name, node: Uuid::now_v7(), writers };
        let start = open::enter(&session, &begin.write, &who, lease_ms)?;
        let (post, notes) = nodes::Post::new();
        let clock = Clock::new(options.clock);
        clock.not_before(start.mark);
        clock.was(start.clock_ms);
        let shared = Arc::new(Shared {
            looks: looks::Looks::default(),
            guess: guess::Guess::default(),
            flights: flights::Flights::default(),
            lease: Lease::new(options.lease, start.life, since),
            name: options.name,
            channel: nodes::channel_of(&options.schema),
            post,
            address,
            clock,
            health: Health::default(),
            queues: (0..writers).map(|_| Queue::default()).collect(),
            restored_at: Mutex::new(start.restored_at.map(Millis)),
            begin_write: begin.write.clone(),
            begin_read: begin.read.clone(),
            turn: begin.turn.clone(),
            closing: Closing::default(),
            sockets,
        });
        let pool = Arc::new(reads::Pool::new(options.readers.max(1), session));
        let threads = start_threads(&shared, &pool, notes).map_err(OpenError::Threads)?;
        nodes::hear(&shared);
        Ok(Arc::new(PostgresStore { pool, threads: Mutex::new(threads), shared }))
    }
}

fn start_threads(
    shared: &Arc<Shared>,
    pool: &Arc<reads::Pool>,
    notes: Receiver<Note>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let named = |name: String| std::thread::Builder::new().name(name);
    let mut threads = Vec::new();
    for number in 0..shared.queues.len() {
        let writer = writer::Writer::new(shared.clone(), number);
        threads.push(named(format!("store-writer-{number}")).spawn(move || writer.run())?);
    }
    for number in 0..LOOKERS {
        let (shared, pool) = (shared.clone(), pool.clone());
        threads.push(named(format!("store-looker-{number}")).spawn(move || looks::run(&shared, &pool))?);
    }
    let speaker = shared.clone();
    threads.push(named("store-post".into()).spawn(move || nodes::speak(&speaker, &notes))?);
    let (shared, pool) = (shared.clone(), pool.clone());
    threads.push(named("store-pulse".into()).spawn(move || lease::pulse(&shared, &pool))?);
    Ok(threads)
}

/// Writes that concern the same thing go to the same writer, so that they stay in order and do not meet. Where several
/// nodes write, what there is most of goes to one: their batches are beside each other already, and the larger a batch
/// is, the less each of its works costs.
fn writer_of(work: &Work, writers: usize, nodes: usize) -> usize {
    let is_common = matches!(work, Work::Admit(_) | Work::AdmitAndRun(_) | Work::Commit(_));
    if writers == 1 || (nodes >= flights::SEVERAL && is_common) {
        return 0;
    }
    let admission = |request: &AdmitRequest| match (&request.lane, &request.key) {
        (Some(lane), _) => lane.hash,
        (None, Some(key)) => key.hash,
        (None, None) => Hash16(*request.run.as_bytes()),
    };
    let hash = match work {
        Work::Admit(request) => admission(request),
        Work::AdmitAndRun(both) => admission(&both.0),
        Work::Commit(commit) => Hash16(*commit.run.as_bytes()),
        Work::LogDecision(row) => row.claim.unwrap_or(Hash16([0; 16])),
        Work::KvSet { key, .. } | Work::KvDelete { key, .. } => Hash16::of(&[key.as_bytes()]),
        Work::ReleaseKey { hash, .. } => *hash,
        Work::TakeErrands(request) => Hash16::of(&[request.from.queue.as_bytes()]),
        Work::TouchErrand { id, .. } => *id,
        Work::DeleteRun { run, .. }
        | Work::DeleteLogs { run, .. }
        | Work::AddLogs { run, .. }
        | Work::EraseRun { run, .. }
        | Work::Message { run, .. }
        | Work::DeleteFile { run, .. } => Hash16(*run.as_bytes()),
        // Chunks and the row that names them go through one writer, in order.
        Work::PutChunk(chunk) => Hash16(*chunk.run.as_bytes()),
        Work::PutFile { row, .. } => Hash16(*row.run.as_bytes()),
        Work::PutFlow { .. }
        | Work::DeleteFlow { .. }
        | Work::AdvanceSchedule(_)
        | Work::ChangeTrigger { .. }
        | Work::Hear { .. }
        | Work::Heard { .. }
        | Work::TellLate { .. }
        | Work::PutSecret(_)
        | Work::RetireSecret { .. }
        | Work::PutToken(_)
        | Work::RevokeToken { .. }
        | Work::PutWorkspace(_)
        | Work::Sweep(_)
        | Work::Restored { .. } => Hash16([0; 16]),
    };
    usize::from(hash.0[15]) % writers
}

impl Store for PostgresStore {
    fn submit(&self, work: Work, reply: Reply) {
        let Shared { queues, lease, .. } = &*self.shared;
        let queue = &queues[writer_of(&work, queues.len(), lease.living())];
        if let Some(job) = queue.push(Job { work, reply }) {
            (job.reply)(Err(StoreError::Closed));
        }
    }

    fn peek(&self, request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>> {
        self.on_snapshot(|wants| wants.admission(request), |tx| script::peek(tx, request))
    }

    fn is_worth_a_look(&self, key: &KeyClaim) -> bool {
        !self.shared.guess.is_new(key.hash)
    }

    fn peek_later(&self, request: Box<AdmitRequest>, reply: PeekReply) {
        self.shared.looks.push(request, reply);
    }

    fn now(&self) -> Millis {
        self.shared.clock.now()
    }

    fn close(&self) {
        self.shared.queues.iter().for_each(Queue::close);
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.is_empty() {
            return;
        }
        self.shared.closing.close();
        self.shared.post.close();
        self.shared.looks.close();
        for thread in threads {
            // The last owner may go away inside a reply. A writer cannot wait for itself: it ends after this batch.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        let left = self.pool.with(&self.shared, |session| nodes::leave(session, &self.shared));
        if let Err(error) = left {
            tracing::debug!("the rows of this process stay behind: {}", classify(&error));
        }
    }

    fn cluster(&self) -> Option<&dyn Cluster> {
        Some(self)
    }

    fn tally(&self) -> Tally {
        self.shared.health.tally()
    }

    fn health(&self) -> Result<()> {
        self.shared.health.check()?;
        if self.shared.queues.iter().any(Queue::is_closed) { Err(StoreError::Closed) } else { Ok(()) }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}
