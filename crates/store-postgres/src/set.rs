//! The working set: the rows that a batch has read, and what its scripts have made of them.
//!
//! Scripts run over it as if it were the database. A read of something that was not fetched is a *miss*: it is written
//! down, the script ends, and after the next round of reading it runs again from its beginning. Scripts are pure over
//! their transaction, so that is safe. A script that fails is undone alone.

use crate::cache::{Cache, Slot, Stored};
use crate::wants::*;
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::*;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// How much is taken for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// What is nearly always new is not looked for: the database contradicts if it is not.
    Hopeful,
    /// The database has contradicted: everything is looked for.
    Careful,
    /// It has done so again: lanes that are not there are made first, so that they can be locked.
    Insistent,
}

pub type Pair = (Option<Json>, Option<Json>);

/// Who waits in a lane, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The first of those who are stored.
    pub front: Vec<RunId>,
    /// They are all of them.
    pub whole: bool,
    /// Whether a run that is not among the first waits.
    pub places: BTreeMap<RunId, bool>,
    pub left: BTreeSet<RunId>,
    pub pushed: Vec<RunId>,
}

/// Messages that have no number yet have one from here on.
pub const PROVISIONAL: u64 = 1 << 62;

type Undo = Box<dyn FnOnce(&mut Set) + Send>;
/// Names a table, so that one helper writes and undoes all of them.
pub type Pick<K, V> = fn(&mut Set) -> &mut Cache<K, V>;

#[derive(Default)]
pub struct Set {
    pub now: Millis,
    pub careful: bool,
    pub read_only: bool,
    pub restored_at: Option<Millis>,
    pub restored: Option<RestoredRow>,

    pub claims: Cache<HashKey, Claim>,
    pub claims_known: BTreeSet<RunKey>,
    /// Which claims may lead to a run: a hint, looked at again.
    claims_of: BTreeMap<RunKey, BTreeSet<Hash16>>,
    pub lanes: Cache<HashKey, Lane>,
    pub lines: BTreeMap<HashKey, Line>,
    pub kv: Cache<KvKey, KvRow>,
    pub runs: Cache<RunKey, RunRow>,
    /// Which nodes drive them, as it was read.
    pub owners: BTreeMap<RunKey, i64>,
    /// The node that writes.
    pub node: i64,
    pub answers: Vec<(Hash16, Option<String>)>,
    pub shared: BTreeSet<RunKey>,
    pub children_known: BTreeSet<RunKey>,
    /// Which runs may be children: as for claims.
    children_of: BTreeMap<RunKey, BTreeSet<RunId>>,

    /// What a run was given, what it came to, how it is labelled: one row, three parts that are written apart.
    pub given: Cache<RunKey, Pair>,
    pub results: Cache<RunKey, Pair>,
    pub labels: Cache<RunKey, Vec<(String, String)>>,

    pub journal: Cache<RowKey, JournalRow>,
    pub snapshots: Cache<RunKey, SnapshotRow>,
    pub timers: Cache<RowKey, TimerRow>,
    pub effects: Cache<(WorkspaceId, RunId, Hash16), EffectRow>,
    pub task_words: Cache<(WorkspaceId, RunId, TaskWord), ()>,
    pub logs: Cache<RowKey, LogRow>,
    pub inbox: Cache<RowKey, Inbox>,
    pub inbox_known: BTreeSet<RunKey>,
    pushed: u64,
    /// Runs whose stored rows go before anything is written: all of them, the timers, the values.
    pub gone: Cache<RunKey, ()>,
    pub timers_gone: Cache<RunKey, ()>,
    pub erased: Cache<RunKey, ()>,
    /// Runs that lose their log; who freed a key stays.
    pub logs_gone: Cache<RunKey, ()>,

    pub errands: Cache<HashKey, ErrandRow>,
    /// Runs whose open errands have been read.
    pub errands_known: BTreeSet<RunKey>,
    /// Queues of which the first that can be taken have been read.
    pub free_known: BTreeSet<(WorkspaceId, ErrandQueue)>,
    /// How many of a queue are taken, as stored.
    pub taken_stored: BTreeMap<(WorkspaceId, String), u64>,
    pub late_found: BTreeMap<Ask, Vec<HashKey>>,

    pub files: Cache<FileKey, FileRow>,
    pub chunks: Cache<(WorkspaceId, RunId, (Hash16, u32)), Vec<u8>>,
    /// Files whose stored chunks go before anything is written.
    pub chunks_gone: Cache<(WorkspaceId, RunId, Hash16), ()>,
    pub uploads: Cache<(WorkspaceId, RunId, Hash16), Millis>,

    pub decisions: Vec<DecisionRow>,
    pub flow_heads: Cache<(WorkspaceId, FlowRef), FlowRow>,
    pub flows: Vec<FlowRow>,
    pub schedules: Cache<(WorkspaceId, FlowRef, String), ScheduleRow>,
    /// Of flows that were asked for, as they were read.
    pub schedules_stored: BTreeMap<(WorkspaceId, FlowRef), Vec<ScheduleRow>>,
    pub schedules_gone: Cache<(WorkspaceId, FlowRef), ()>,
    pub schedules_moved: Cache<(WorkspaceId, FlowRef, String), ScheduleRow>,
    pub changes: Cache<RowKey, ChangeRow>,
    pub secrets: Cache<(WorkspaceId, String, u64), SecretRow>,
    pub secrets_known: BTreeSet<(WorkspaceId, String)>,
    pub tokens: Cache<String, TokenRow>,
    pub workspaces: Cache<WorkspaceId, WorkspaceRow>,

    pub claims_found: BTreeMap<Ask, Vec<HashKey>>,
    pub runs_found: BTreeMap<Ask, Vec<RunKey>>,
    pub counted: BTreeMap<Ask, u64>,

    /// Runs made by the script that is under way.
    fresh: BTreeSet<RunKey>,
    undo: Vec<Undo>,
    missing: Wants,
    missed: bool,
}

impl Set {
    pub fn new(node: i64, now: Millis, care: Care, restored_at: Option<Millis>) -> Set {
        Set { node, now, careful: care != Care::Hopeful, restored_at, ..Set::default() }
    }

    pub fn read_only(now: Millis) -> Set {
        Set { now, read_only: true, careful: true, ..Set::default() }
    }

    /// A place to go back to.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    pub fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            if let Some(step) = self.undo.pop() {
                step(self);
            }
        }
    }

    /// Runs a script; `None` when it missed something. Whatever it did is undone unless it ended well.
    pub fn apply<T>(&mut self, script: impl FnOnce(&mut dyn Tx) -> Result<T>) -> Option<Result<T>> {
        let mark = self.mark();
        self.fresh.clear();
        self.missed = false;
        let answer = script(self);
        if self.missed || answer.is_err() {
            self.undo_to(mark);
        }
        if self.missed { None } else { Some(answer) }
    }

    /// What was missed so far.
    pub fn take_missing(&mut self) -> Wants {
        std::mem::take(&mut self.missing)
    }

    pub(crate) fn miss<T>(&mut self, want: impl FnOnce(&mut Wants)) -> Result<T> {
        want(&mut self.missing);
        self.missed = true;
        Err(StoreError::Busy("a row is not read yet".into()))
    }

    pub(crate) fn writable(&self) -> Result<()> {
        if self.read_only { Err(StoreError::Bug("a write inside a read".into())) } else { Ok(()) }
    }

    pub(crate) fn put<K, V>(&mut self, table: Pick<K, V>, key: K, value: Option<V>) -> Result<()>
    where
        K: Ord + Clone + Send + 'static,
        V: Clone + PartialEq + Send + 'static,
    {
        self.put_as(table, key, value, Stored::Unknown)
    }

    /// As `put`; `unless_known` says what is stored under a key that is met for the first time.
    pub(crate) fn put_as<K, V>(
        &mut self,
        table: Pick<K, V>,
        key: K,
        value: Option<V>,
        unless_known: Stored<V>,
    ) -> Result<()>
    where
        K: Ord + Clone + Send + 'static,
        V: Clone + PartialEq + Send + 'static,
    {
        self.writable()?;
        let old = table(self).set(&key, value, unless_known);
        self.undo.push(Box::new(move |set| table(set).restore(&key, old)));
        Ok(())
    }

    /// Like `put`, for rows that must not be there yet.
    pub(crate) fn insert<K, V>(&mut self, table: Pick<K, V>, key: K, value: V, what: &str) -> Result<()>
    where
        K: Ord + Clone + Send + 'static,
        V: Clone + PartialEq + Send + 'static,
    {
        if table(self).get(&key).is_some_and(Option::is_some) {
            return Err(StoreError::Bug(format!("the {what} exists already")));
        }
        self.put_as(table, key, Some(value), Stored::Assumed)
    }

    /// Takes out the pending rows of one run.
    pub(crate) fn remove_of_run<T, V>(&mut self, table: Pick<(WorkspaceId, RunId, T), V>, key: &RunKey) -> Result<()>
    where
        T: Ord + Clone + Send + 'static,
        V: Clone + PartialEq + Send + 'static,
    {
        let of_run = |k: &(WorkspaceId, RunId, T)| k.0 == key.0 && k.1 == key.1;
        let keys: Vec<_> = table(self).0.keys().filter(|k| of_run(k)).cloned().collect();
        keys.into_iter().try_for_each(|key| self.put(table, key, None))
    }

    pub(crate) fn push_undo(&mut self, step: impl FnOnce(&mut Set) + Send + 'static) {
        self.undo.push(Box::new(step));
    }

    /// The head of a run, if it is there; a miss if nobody knows.
    pub(crate) fn head(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        let key = (workspace.clone(), id);
        match self.runs.get(&key) {
            Some(now) => Ok(now.clone()),
            // Most heads that are read are written.
            None => self.miss(|wants| wants.run(key, Lock::Update)),
        }
    }

    /// The key of a run that must be there and that nobody else may have locked.
    pub(crate) fn existing(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<RunKey> {
        let key = (workspace.clone(), id);
        if self.shared.contains(&key) {
            return self.miss(|wants| wants.run(key, Lock::Update));
        }
        match self.head(workspace, id)? {
            Some(_) => Ok(key),
            None => Err(StoreError::Bug(format!("there is no run {id}"))),
        }
    }

    pub(crate) fn is_fresh(&self, key: &RunKey) -> bool {
        self.fresh.contains(key)
    }

    /// A run that this transaction makes: nothing that is stored speaks of it.
    pub(crate) fn begin_run(&mut self, row: &RunRow) {
        let key = (row.workspace.clone(), row.id);
        self.fresh.insert(key.clone());
        self.note_child(row);
        self.know(|set| &mut set.claims_known, &key);
        self.know(|set| &mut set.children_known, &key);
        self.know(|set| &mut set.inbox_known, &key);
    }

    /// Not for longer than the run is there.
    fn know(&mut self, which: fn(&mut Set) -> &mut BTreeSet<RunKey>, key: &RunKey) {
        if which(self).insert(key.clone()) {
            let key = key.clone();
            self.push_undo(move |set| _ = which(set).remove(&key));
        }
    }

    pub(crate) fn note_child(&mut self, row: &RunRow) {
        if let Some(parent) = &row.parent {
            self.children_of.entry((row.workspace.clone(), parent.run)).or_default().insert(row.id);
        }
    }

    pub(crate) fn note_claim(&mut self, workspace: &WorkspaceId, claim: &Claim) {
        self.claims_of.entry((workspace.clone(), claim.run)).or_default().insert(claim.hash);
    }

    pub(crate) fn claims_that_lead_to(&self, key: &RunKey) -> Vec<Claim> {
        let hashes = self.claims_of.get(key).into_iter().flatten();
        let claims = hashes.filter_map(|hash| self.claims.get(&(key.0.clone(), *hash))?.as_ref());
        claims.filter(|claim| claim.run == key.1).cloned().collect()
    }

    pub(crate) fn known_children(&self, key: &RunKey) -> Vec<RunRow> {
        let ids = self.children_of.get(key).into_iter().flatten();
        let rows = ids.filter_map(|id| self.runs.get(&(key.0.clone(), *id))?.as_ref());
        rows.filter(|row| row.parent.as_ref().is_some_and(|parent| parent.run == key.1)).cloned().collect()
    }

    /// The line of a lane that has no row is empty.
    pub(crate) fn line(&mut self, key: &HashKey) -> &mut Line {
        let empty = self.lanes.0.get(key).is_some_and(|slot| match &slot.stored {
            Stored::Absent | Stored::Assumed => true,
            Stored::Present(lane) => lane.waiting == 0,
            Stored::Unknown => false,
        });
        let line = self.lines.entry(key.clone()).or_default();
        line.whole |= empty;
        line
    }

    /// A lane that was made only to be locked goes again, unless it is used.
    pub(crate) fn lane_made(&mut self, key: HashKey) {
        let slot = Slot { stored: Stored::Present(Lane::default()), now: None };
        self.lanes.0.entry(key).or_insert(slot);
    }

    pub(crate) fn change_line(&mut self, key: &HashKey, change: impl FnOnce(&mut Line)) -> Result<()> {
        self.writable()?;
        let line = self.line(key);
        let old = line.clone();
        change(line);
        let key = key.clone();
        self.push_undo(move |set| {
            // What was read meanwhile stays read.
            let line = set.lines.entry(key).or_default();
            (line.left, line.pushed) = (old.left, old.pushed);
        });
        Ok(())
    }

    pub(crate) fn next_message(&mut self) -> u64 {
        self.pushed += 1;
        PROVISIONAL + self.pushed
    }

    /// Drops the values of the rows of a run that are not stored yet.
    pub(crate) fn erase_pending(&mut self, key: &RunKey) -> Result<()> {
        let of_run = |k: &RowKey| k.0 == key.0 && k.1 == key.1;
        let rows = self.journal.0.iter().filter(|(k, _)| of_run(k));
        let rows: Vec<_> = rows.filter_map(|(k, slot)| Some((k.clone(), slot.now.clone()?))).collect();
        for (at, row) in rows {
            self.put(|set| &mut set.journal, at, Some(JournalRow { values: None, ..row }))?;
        }
        let met = |row: &DecisionRow| row.workspace == key.0 && row.run == Some(key.1) && row.key.is_some();
        for at in 0..self.decisions.len() {
            if met(&self.decisions[at]) {
                let old = self.decisions[at].key.take();
                self.push_undo(move |set| set.decisions[at].key = old);
            }
        }
        Ok(())
    }
}
