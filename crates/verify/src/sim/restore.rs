//! A backup is taken, and later the store is lost and made anew from it.

use super::faults::Fault;
use super::flows::Flow;
use super::hub::NodeId;
use super::model::Model;
use super::world::{Next, World};
use semel_core::RunId;
use semel_core::run::{By, Event};
use semel_store::memory::MemoryStore;
use semel_store::{ClockFn, Done, RestoredRow, Store, Work};
use semel_store_sqlite::{Options, SqliteStore};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// Where stores come from.
pub(super) enum Disk {
    Memory(Arc<MemoryStore>),
    Sqlite { clock: ClockFn, files: TempDir, incarnation: u32 },
}

/// A backup, and what the world knew then.
pub(super) struct Kept {
    store: Copied,
    model: Model,
    answers: usize,
    granted: usize,
    pushed: BTreeMap<(String, String, u32), Flow>,
    heads: BTreeMap<(usize, usize), Flow>,
}

enum Copied {
    Memory(Arc<MemoryStore>),
    Sqlite(PathBuf),
}

impl Disk {
    pub fn new(sqlite: bool, clock: ClockFn) -> (Disk, Arc<dyn Store>) {
        if !sqlite {
            let store = MemoryStore::new(clock);
            return (Disk::Memory(store.clone()), store);
        }
        let shared = std::path::Path::new("/dev/shm");
        let files = match shared.is_dir() {
            true => tempfile::tempdir_in(shared),
            false => tempfile::tempdir(),
        }
        .expect("a directory for the store");
        let store = open(files.path().join("0.db"), &clock, false);
        (Disk::Sqlite { clock, files, incarnation: 0 }, store)
    }

    fn back_up(&self, now: semel_core::Millis) -> Copied {
        match self {
            Disk::Memory(store) => Copied::Memory(store.copy()),
            Disk::Sqlite { files, incarnation, .. } => {
                let target = files.path().join(format!("{incarnation}.backup"));
                // Only the last backup is ever used.
                let _ = std::fs::remove_file(&target);
                let source = files.path().join(format!("{incarnation}.db"));
                semel_store_sqlite::backup(&source, &target, now).expect("a backup");
                Copied::Sqlite(target)
            }
        }
    }

    /// The backup as a store.
    fn restore(&mut self, backup: &Copied) -> Arc<dyn Store> {
        match (self, backup) {
            (Disk::Memory(store), Copied::Memory(copy)) => {
                *store = copy.copy();
                store.clone()
            }
            (Disk::Sqlite { clock, files, incarnation }, Copied::Sqlite(path)) => {
                *incarnation += 1;
                let target = files.path().join(format!("{incarnation}.db"));
                std::fs::copy(path, &target).expect("a copy of the backup");
                open(target, clock, true)
            }
            _ => panic!("a backup of another kind of store"),
        }
    }
}

fn open(path: PathBuf, clock: &ClockFn, restoring: bool) -> Arc<dyn Store> {
    let options = Options { clock: clock.clone(), readers: 1, cache_mib: 2, restoring, ..Options::default() };
    SqliteStore::open(&path, options).expect("the store opens")
}

impl World {
    pub(super) fn back_up(&mut self) {
        self.note(|| "a backup is taken".into());
        self.kept = Some(Kept {
            store: self.disk.back_up(self.hub.inner().now()),
            model: self.hub.model.lock().clone(),
            answers: self.answers.len(),
            granted: self.granted.len(),
            pushed: self.pushed.clone(),
            heads: self.heads.clone(),
        });
    }

    /// The machine is gone with its disk; the backup is made a store. What was acknowledged since is lost, and whoever
    /// waited for an answer asks again.
    pub(super) fn restore(&mut self, accepted: bool) {
        let Some(kept) = self.kept.take() else { return };
        self.hub.faults.lock().count(Fault::Restored);
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        self.current = None;
        for node in nodes {
            self.kill(node, 0);
        }
        self.hub.inner().close();
        let store = self.disk.restore(&kept.store);
        *self.hub.store.write() = store.clone();
        let at = store.now();
        self.note(|| format!("the store is restored, accepted: {accepted}"));
        self.hub.model.lock().back_to(&kept.model, at.0);
        self.answers.truncate(kept.answers);
        self.granted.truncate(kept.granted);
        (self.pushed, self.heads) = (kept.pushed, kept.heads);
        self.restored = true;
        self.take_up(store.as_ref(), accepted);
        let down = self.dice().range(1, 60_000);
        self.at(self.now + down, Next::Start);
    }

    fn take_up(&mut self, store: &dyn Store, accepted: bool) {
        let at = store.now();
        let by = accepted.then(|| By { who: "operator".into(), why: "nothing ran since".into() });
        let row = RestoredRow { incarnation: "another".into(), backup_at: at, restored_at: at };
        let before = self.hub.model.lock().standing(store);
        match store.call(Work::Restored { row, accepted: by.clone() }) {
            Ok(Done::Count(_)) => {}
            other => return self.broken("R13", format!("a restore is answered with {other:?}")),
        }
        let open = self.hub.model.lock().hold(&before, store, accepted);
        for run in open.into_iter().filter(|_| accepted) {
            self.note_word(run, &Event::Released { by: By { who: "operator".into(), why: String::new() } });
        }
    }

    /// Nothing leaves for a run that is held.
    pub(super) fn check_held(&mut self, index: usize) {
        let Ok(run) = self.outside.seen[index].run.parse::<RunId>() else { return };
        if self.hub.model.lock().held.contains(&run) {
            let text = format!("{} left, and its run is held by the restore", self.outside.seen[index].uri);
            self.broken("R7", text);
        }
    }
}
