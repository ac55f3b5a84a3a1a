//! Random programs of writes on a watched disk, beside an oracle that knows the state after each of them.

use super::Disk;
use super::image::{self, Files};
use super::{Fault, Op};
use semel_core::Millis;
use semel_store::conformance::program::Program;
use semel_store::memory::MemoryStore;
use semel_store::{ClockFn, Reads, Store, StoreError, Work};
use semel_store_sqlite::{Options, SqliteStore};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::channel;
use tempfile::TempDir;

const START_MS: i64 = 1_700_000_000_000;
const FILE: &str = "semel.db";
/// Few, so that checkpoints fall among the writes.
const CHECKPOINT_PAGES: u32 = 40;

/// A directory in memory where there is one: syncs are watched here, not waited for.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a directory")
}

#[derive(Clone)]
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn clock(&self) -> ClockFn {
        let read = self.0.clone();
        Arc::new(move || Millis(read.load(Ordering::SeqCst)))
    }
}

fn options(clock: ClockFn) -> Options {
    Options { clock, readers: 1, cache_mib: 2, checkpoint_pages: CHECKPOINT_PAGES, ..Options::default() }
}

fn digest(store: &dyn Reads) -> Result<u64, StoreError> {
    let mut hasher = DefaultHasher::new();
    store.dump()?.to_string().hash(&mut hasher);
    Ok(hasher.finish())
}

/// What happened on the disk while a script ran, and what every prefix of the script leads to.
pub struct Recording {
    pub ops: Vec<Op>,
    /// The state after so many writes.
    states: Vec<u64>,
    /// Where the log of the disk was when each write was handed in.
    submitted: Vec<usize>,
    end_ms: i64,
}

pub struct Script {
    pub seed: u64,
    pub writes: usize,
    /// How often the store is opened, one after the other.
    pub lives: usize,
    /// One write at a time, each with a commit of its own.
    pub alone: bool,
    /// See [`Options::undone`].
    pub undone: Vec<(&'static str, &'static str)>,
}

impl Script {
    /// Runs it on a disk that works, and writes down what the disk saw.
    pub fn record(&self) -> Recording {
        let (disk, directory) = (Disk::register(), directory());
        let hands = Hands(Arc::new(AtomicI64::new(START_MS)));
        let oracle = MemoryStore::new(hands.clock());
        let mut program = Program::new(self.seed, oracle.as_ref());
        let mut states = vec![digest(oracle.as_ref()).expect("the oracle reads")];
        let mut submitted = vec![0];
        for life in 1..=self.lives {
            let options =
                Options { vfs: Some(disk.name().to_owned()), undone: self.undone.clone(), ..options(hands.clock()) };
            let store = SqliteStore::open(&directory.path().join(FILE), options).expect("the store opens");
            while states.len() <= self.writes * life / self.lives {
                let count = if self.alone || program.dice.chance(60) { 1 } else { 2 + program.dice.below(5) };
                let burst: Vec<Work> = (0..count).map(|_| next(&mut program, oracle.as_ref(), &mut states)).collect();
                submitted.resize(states.len(), disk.position());
                send(store.as_ref(), disk, burst, states.len());
                hands.0.fetch_add(program.dice.below(6) as i64, Ordering::SeqCst);
            }
        }
        Recording { ops: disk.ops(), states, submitted, end_ms: hands.0.load(Ordering::SeqCst) }
    }
}

/// The next write, done on the oracle.
fn next(program: &mut Program, oracle: &dyn Store, states: &mut Vec<u64>) -> Work {
    let work = program.work();
    // Some are refused, here as there.
    let _ = oracle.call(work.clone());
    states.push(digest(oracle).expect("the oracle reads"));
    work
}

/// Hands all of them in at once, so that they share commits; each answer is noted where it is given.
fn send(store: &SqliteStore, disk: &'static Disk, burst: Vec<Work>, end: usize) {
    let (tell, told) = channel();
    let first = end - burst.len();
    for (index, work) in burst.into_iter().enumerate() {
        let tell = tell.clone();
        let number = (first + index) as u64;
        store.submit(
            work,
            Box::new(move |answer| {
                let known = !matches!(answer, Err(StoreError::Poisoned(_) | StoreError::Closed));
                disk.ack(number);
                tell.send(known).expect("the script waits");
            }),
        );
    }
    drop(tell);
    assert!(told.iter().all(|known| known), "the store failed on a disk that works");
}

/// What an image turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The state after this many writes, which is none too few.
    Prefix(usize),
    /// That many writes were answered, and fewer are there.
    Lost { acknowledged: usize, found: usize },
    /// A state that no prefix of the script leads to.
    NoPrefix { acknowledged: usize },
    /// It cannot be opened, or SQLite finds it damaged.
    Damaged(String),
}

impl Recording {
    /// Opens an image with the real store, and looks what is in it.
    pub fn open(&self, files: &Files, until: usize) -> Found {
        let acknowledged = image::acknowledged(&self.ops, until).map_or(0, |number| number as usize);
        let directory = directory();
        image::write(files, directory.path()).expect("room for an image");
        let path = directory.path().join(FILE);
        let end = self.end_ms;
        let store = match SqliteStore::open(&path, options(Arc::new(move || Millis(end)))) {
            Ok(store) => store,
            Err(error) => return Found::Damaged(format!("{}: {error}", error.code())),
        };
        let state = match digest(store.as_ref()) {
            Ok(state) => state,
            Err(error) => return Found::Damaged(error.to_string()),
        };
        if let Some(word) = damage(&path) {
            return Found::Damaged(word);
        }
        let handed_in = self.submitted.iter().take_while(|position| **position <= until).count();
        // Refused writes leave the state as it was, so one state may belong to several prefixes: the longest counts.
        match (0..handed_in).rev().find(|number| self.states[*number] == state) {
            Some(found) if found >= acknowledged => Found::Prefix(found),
            Some(found) => Found::Lost { acknowledged, found },
            None => Found::NoPrefix { acknowledged },
        }
    }

    pub fn writes(&self) -> usize {
        self.states.len() - 1
    }
}

fn damage(path: &Path) -> Option<String> {
    let check = || {
        let file = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        file.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    match check() {
        Ok(word) if word == "ok" => None,
        Ok(word) => Some(word),
        Err(error) => Some(error.to_string()),
    }
}

/// How a store behaved on a disk that failed, and what was in the file afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Calls that failed.
    pub failed: Vec<super::Kind>,
    /// The code of the first refusal: of the opening, or of a write.
    pub refusal: Option<&'static str>,
    /// Writes answered well after the first failure.
    pub went_on: usize,
    /// What is wrong with it, if anything is.
    pub fault: Option<String>,
}

/// Runs a script, one write at a time, on a disk that fails as told; then reads the file on one that works.
/// Calls count from the opening of the store, or from when it is open.
pub fn on_a_broken_disk(seed: u64, writes: usize, fault: Fault, once_open: bool) -> Broken {
    let (disk, directory) = (Disk::register(), directory());
    let path = directory.path().join(FILE);
    let hands = Hands(Arc::new(AtomicI64::new(START_MS)));
    let oracle = MemoryStore::new(hands.clock());
    let mut may_be = Vec::new();
    let mut broken = Broken { failed: vec![], refusal: None, went_on: 0, fault: None };
    disk.arm((!once_open).then_some(fault));
    let options = Options { vfs: Some(disk.name().to_owned()), ..options(hands.clock()) };
    match SqliteStore::open(&path, options) {
        Ok(store) => {
            if once_open {
                disk.arm(Some(fault));
            }
            let mut program = Program::new(seed, oracle.as_ref());
            for _ in 0..writes {
                if !one(&mut program, &store, oracle.as_ref(), &mut may_be, &mut broken) {
                    break;
                }
                hands.0.fetch_add(1, Ordering::SeqCst);
            }
            store.close();
        }
        Err(error) => broken.refusal = Some(error.code()),
    }
    may_be.push(digest(oracle.as_ref()).expect("the oracle reads"));
    broken.failed = disk.failed();
    disk.arm(None);
    broken.fault = judge(&path, &hands, &may_be).or(broken.fault);
    broken
}

/// One write; false when the store is poisoned and the script ends.
fn one(
    program: &mut Program,
    store: &Arc<SqliteStore>,
    oracle: &dyn Store,
    may_be: &mut Vec<u64>,
    broken: &mut Broken,
) -> bool {
    let work = program.work();
    match store.call(work.clone()) {
        // Not written, as it was said.
        Err(error @ (StoreError::Full(_) | StoreError::Busy(_))) => {
            broken.refusal.get_or_insert(error.code());
            true
        }
        Err(error @ (StoreError::Poisoned(_) | StoreError::Closed)) => {
            broken.refusal.get_or_insert(error.code());
            if !store.health().is_err_and(|error| error.is_fatal()) {
                broken.fault = Some(format!("it said `{error}` and is well"));
            }
            // Nobody knows what became of this one; of the next everybody does.
            let again = store.call(work.clone());
            if !again.as_ref().is_err_and(StoreError::is_fatal) {
                broken.fault = Some(format!("poisoned, it answered {again:?}"));
            }
            may_be.push(digest(oracle).expect("the oracle reads"));
            let _ = oracle.call(work);
            false
        }
        // What the rules refuse, they refuse in both.
        answer @ (Ok(_) | Err(StoreError::Conflict(_) | StoreError::Bug(_))) => {
            let expected = oracle.call(work);
            if answer.is_ok() != expected.is_ok() {
                broken.fault = Some(format!("answered {answer:?}, the oracle {expected:?}"));
            }
            broken.went_on += usize::from(broken.refusal.is_some());
            true
        }
    }
}

/// The file on a disk that works: it opens, is whole, and holds what was answered.
fn judge(path: &Path, hands: &Hands, may_be: &[u64]) -> Option<String> {
    let store = match SqliteStore::open(path, options(hands.clock())) {
        Ok(store) => store,
        Err(error) => return Some(format!("it does not open again: {error}")),
    };
    match digest(store.as_ref()) {
        Ok(state) if may_be.contains(&state) => damage(path),
        Ok(_) => Some("what was answered is not what is there".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}
