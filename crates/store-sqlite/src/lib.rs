//! SQLite store: one writer thread, group commit.
//!
//! | thread | connection | does |
//! |---|---|---|
//! | writer | read-write | drains the queue, runs the scripts in one transaction, commits, answers ([`writer`]) |
//! | checkpointer | read-write, never begins a transaction | copies the log into the database ([`checkpoint`]) |
//! | callers | a pool of read-only ones | short snapshots ([`reads`]) |
//!
//! Invariants: nobody is answered before the commit is durable; a refused write leaves no trace
//! and does not touch its neighbours; after an error of unknown extent nothing more is written;
//! time never goes back, not even over a restart; one process per file.

mod audit;
mod backup;
mod checkpoint;
mod classify;
mod codec;
pub mod directory;
mod dump;
mod inspect;
mod known;
mod names;
mod open;
mod reads;
mod shared;
mod tables;
mod tx;
mod writer;

pub use backup::{BackupError, backup, read_backup, restore};
pub use inspect::Inspection;
pub use open::{APPLICATION_ID, OpenError, Options, SCHEMA_VERSION};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use semel_core::Millis;
use semel_store::{AdmitRequest, AdmitResult, DecisionRow, Reply, Result, Store, StoreError, Tally, Work, script};
use shared::{Clock, Health, Job, Queue, Shared};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tx::{Counters, SqlTx};

pub struct SqliteStore {
    pool: reads::Pool,
    /// The writer, which in turn waits for the checkpointer.
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Last: it holds the lock, and the file is let go of after the connections are closed.
    shared: Arc<Shared>,
}

impl SqliteStore {
    /// Opens (or makes) the database at `path`, which no other process may have open.
    pub fn open(path: &Path, options: Options) -> std::result::Result<Arc<SqliteStore>, OpenError> {
        let lock = open::claim_file(path, options.create)?;
        let connection = open::open_writer(path, &options)?;
        let (mark, counters) = read_meta(&connection).map_err(open::about(path))?;
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            clock: Clock::new(options.clock.clone(), mark),
            health: Health::default(),
            names: names::Names::default(),
            known: known::Known::default(),
            checkpoints: checkpoint::Signal::new(options.checkpoint_pages),
            gate: Mutex::new(()),
            _lock: lock,
        });
        let pool = open_pool(path, &options).map_err(open::about(path))?;
        let copier = open::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, 1, options.vfs.as_deref())
            .map_err(open::about(path))?;
        let writer = writer::Writer::new(connection, shared.clone(), counters).map_err(open::about(path))?;
        let thread = start(path, writer, copier, &shared)?;
        Ok(Arc::new(SqliteStore { pool, writer: Mutex::new(Some(thread)), shared }))
    }

    /// How many runs there are in all. Walks an index: for measurements, not for requests.
    pub fn runs_stored(&self) -> Result<u64> {
        self.on_snapshot(|cx| {
            let count = cx.one("SELECT count(*) FROM runs", [], |row| codec::Columns::number(row, 0));
            count.map(Option::unwrap_or_default).map_err(|error| classify::classify(&error))
        })
    }
}

fn read_meta(connection: &Connection) -> rusqlite::Result<(i64, Counters)> {
    let run = connection.query_row("SELECT coalesce(max(num), 0) FROM runs", [], |row| row.get(0))?;
    connection.query_row("SELECT clock_ms, last_decision, last_inbox, restored_at FROM meta WHERE id = 1", [], |row| {
        use codec::Columns;
        let (decision, inbox, restored_at) = (row.number(1)?, row.number(2)?, row.millis_opt(3)?);
        Ok((row.get(0)?, Counters { decision, inbox, run, restored_at }))
    })
}

fn open_pool(path: &Path, options: &Options) -> rusqlite::Result<reads::Pool> {
    let cache_mib = (options.cache_mib / 8).max(2);
    let readers = (0..options.readers.max(1))
        .map(|_| open::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, cache_mib, options.vfs.as_deref()));
    Ok(reads::Pool::new(readers.collect::<rusqlite::Result<Vec<Connection>>>()?))
}

fn start(
    path: &Path,
    writer: writer::Writer,
    copier: Connection,
    shared: &Arc<Shared>,
) -> std::result::Result<JoinHandle<()>, OpenError> {
    let about = |error| OpenError::Io { path: path.to_owned(), error };
    let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let for_copies = shared.clone();
    let copies = named("store-checkpoint").spawn(move || checkpoint::run(copier, for_copies)).map_err(about)?;
    named("store-writer").spawn(move || writer.run(copies)).map_err(about)
}

impl Store for SqliteStore {
    fn submit(&self, work: Work, reply: Reply) {
        if let Some(job) = self.shared.queue.push(Job { work, reply }) {
            (job.reply)(Err(StoreError::Closed));
        }
    }

    fn peek(&self, request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>> {
        let now = self.now();
        let known = &self.shared.known;
        if let Some(found) = known.peek(request, now)? {
            return Ok(found);
        }
        let since = request.key.as_ref().map(|key| (key.hash, known.since(key.hash)));
        self.on_snapshot(|cx| {
            let mut tx = SqlTx::read_only(cx, now);
            let found = script::peek(&mut tx, request)?;
            if let (Some((hash, since)), Some((claim, run))) = (since, tx.into_pair())
                && claim.hash == hash
            {
                known.put(since, claim, run);
            }
            Ok(found)
        })
    }

    fn now(&self) -> Millis {
        self.shared.clock.now()
    }

    fn close(&self) {
        self.shared.queue.close();
        let Some(thread) = self.writer.lock().take() else { return };
        // The last owner may go away inside a reply. The writer cannot wait for itself: it ends
        // after this batch, and the lock on the file with it.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the writer of the store panicked");
        }
    }

    fn tally(&self) -> Tally {
        self.shared.health.tally()
    }

    fn health(&self) -> Result<()> {
        self.shared.health.check()?;
        if self.shared.queue.is_closed() { Err(StoreError::Closed) } else { Ok(()) }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}
