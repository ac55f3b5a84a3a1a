//! Row primitives over the maps, with an undo log.

use super::tables::{RunKey, Tables, forget_at};
use crate::error::StoreError;
use crate::rows::*;
use crate::script::RELEASED_FROM;
use crate::tx::{Look, Result, Tx};
use crate::words::TaskWord;
use crate::work::{ErrandQueue, FileChunk};
use semel_core::admission::{Claim, Lane};
use semel_core::files::is_shelf;
use semel_core::ir::ErrandKind;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;
use std::collections::BTreeMap;

type Undo = Box<dyn FnOnce(&mut Tables)>;

pub(super) struct MemoryTx<'a> {
    tables: &'a mut Tables,
    now: Millis,
    read_only: bool,
    undo: Vec<Undo>,
}

/// Names a table, so that one helper writes and undoes all of them.
type Pick<K, V> = fn(&mut Tables) -> &mut BTreeMap<K, V>;

impl<'a> MemoryTx<'a> {
    pub fn new(tables: &'a mut Tables, now: Millis) -> MemoryTx<'a> {
        let (decision, inbox) = (tables.last_decision, tables.last_inbox);
        let counters: Undo = Box::new(move |t| (t.last_decision, t.last_inbox) = (decision, inbox));
        MemoryTx { tables, now, read_only: false, undo: vec![counters] }
    }

    pub fn read_only(tables: &'a mut Tables, now: Millis) -> MemoryTx<'a> {
        MemoryTx { tables, now, read_only: true, undo: vec![] }
    }

    pub fn keep(mut self) {
        self.undo.clear();
    }

    pub fn undo(mut self) {
        while let Some(step) = self.undo.pop() {
            step(self.tables);
        }
    }

    fn put<K, V>(&mut self, table: Pick<K, V>, key: K, value: V) -> Result<()>
    where
        K: Ord + Clone + 'static,
        V: 'static,
    {
        self.writable()?;
        let old = table(self.tables).insert(key.clone(), value);
        self.undo.push(Box::new(move |t| {
            match old {
                Some(old) => table(t).insert(key, old),
                None => table(t).remove(&key),
            };
        }));
        Ok(())
    }

    /// Like `put`, for rows that must not be there yet.
    fn insert<K, V>(&mut self, table: Pick<K, V>, key: K, value: V, what: &str) -> Result<()>
    where
        K: Ord + Clone + 'static,
        V: 'static,
    {
        if table(self.tables).contains_key(&key) {
            return Err(StoreError::Bug(format!("the {what} exists already")));
        }
        self.put(table, key, value)
    }

    fn remove<K, V>(&mut self, table: Pick<K, V>, key: K) -> Result<()>
    where
        K: Ord + Clone + 'static,
        V: 'static,
    {
        self.writable()?;
        if let Some(old) = table(self.tables).remove(&key) {
            self.undo.push(Box::new(move |t| {
                table(t).insert(key, old);
            }));
        }
        Ok(())
    }

    /// Removes every row whose key passes.
    fn remove_where<K, V>(&mut self, table: Pick<K, V>, which: impl Fn(&K) -> bool) -> Result<()>
    where
        K: Ord + Clone + 'static,
        V: 'static,
    {
        let keys: Vec<K> = table(self.tables).keys().filter(|k| which(k)).cloned().collect();
        keys.into_iter().try_for_each(|key| self.remove(table, key))
    }

    fn remove_of_run<T, V>(&mut self, table: Pick<(WorkspaceId, RunId, T), V>, key: &RunKey) -> Result<()>
    where
        T: Ord + Clone + 'static,
        V: 'static,
    {
        self.remove_where(table, |(ws, run, _)| (ws, run) == (&key.0, &key.1))
    }

    fn remove_files(&mut self, key: &RunKey) -> Result<()> {
        self.remove_of_run(|t| &mut t.files, key)?;
        self.remove_of_run(|t| &mut t.chunks, key)?;
        self.remove_of_run(|t| &mut t.uploads, key)
    }

    fn writable(&self) -> Result<()> {
        if self.read_only { Err(StoreError::Bug("a write inside a read".into())) } else { Ok(()) }
    }

    fn existing_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<RunKey> {
        let key = (workspace.clone(), id);
        if self.tables.runs.contains_key(&key) {
            Ok(key)
        } else {
            Err(StoreError::Bug(format!("there is no run {id}")))
        }
    }
}

fn first<T>(mut items: Vec<T>, limit: u32) -> Vec<T>
where
    T: Ord,
{
    items.sort();
    items.truncate(limit as usize);
    items
}

impl Look for MemoryTx<'_> {
    fn now(&self) -> Millis {
        self.now
    }
    fn claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        Ok(self.tables.claims.get(&(workspace.clone(), hash)).cloned())
    }
    fn run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        Ok(self.tables.runs.get(&(workspace.clone(), id)).cloned())
    }
}

impl Tx for MemoryTx<'_> {
    fn put_claim(&mut self, workspace: &WorkspaceId, claim: &Claim) -> Result<()> {
        self.put(|t| &mut t.claims, (workspace.clone(), claim.hash), claim.clone())
    }

    fn delete_claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<()> {
        self.remove(|t| &mut t.claims, (workspace.clone(), hash))
    }

    fn claims_of_run(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<Claim>> {
        let claims = self.tables.claims.iter();
        Ok(claims.filter(|((ws, _), c)| ws == workspace && c.run == run).map(|(_, c)| c.clone()).collect())
    }

    fn lane(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane> {
        Ok(self.tables.lanes.get(&(workspace.clone(), hash)).cloned().unwrap_or_default())
    }

    fn put_lane(&mut self, workspace: &WorkspaceId, hash: Hash16, lane: &Lane) -> Result<()> {
        let key = (workspace.clone(), hash);
        if lane.is_empty() { self.remove(|t| &mut t.lanes, key) } else { self.put(|t| &mut t.lanes, key, lane.clone()) }
    }

    fn queue(&mut self, workspace: &WorkspaceId, hash: Hash16, limit: u32) -> Result<Vec<RunId>> {
        Ok(self.tables.queue_of(workspace, hash).map(|(_, run)| run).take(limit as usize).collect())
    }

    fn push_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()> {
        let last = self.tables.queue_of(workspace, hash).next_back().map_or(0, |(seq, _)| seq);
        self.put(|t| &mut t.queues, (workspace.clone(), hash, last + 1), run)
    }

    fn leave_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<bool> {
        let found = self.tables.queue_of(workspace, hash).find(|(_, waiting)| *waiting == run);
        let Some((seq, _)) = found else { return Ok(false) };
        self.remove(|t| &mut t.queues, (workspace.clone(), hash, seq))?;
        Ok(true)
    }

    fn insert_run(&mut self, row: &RunRow, values: &RunValues, labels: &[(String, String)]) -> Result<()> {
        let key = (row.workspace.clone(), row.id);
        self.insert(|t| &mut t.runs, key.clone(), row.clone(), "run")?;
        self.put(|t| &mut t.run_values, key.clone(), values.clone())?;
        self.put(|t| &mut t.labels, key, labels.to_vec())
    }

    fn update_run(&mut self, row: &RunRow) -> Result<()> {
        let key = self.existing_run(&row.workspace, row.id)?;
        self.put(|t| &mut t.runs, key, row.clone())
    }

    fn run_values(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<RunValues> {
        Ok(self.tables.run_values.get(&(workspace.clone(), id)).cloned().unwrap_or_default())
    }

    fn put_run_values(&mut self, workspace: &WorkspaceId, id: RunId, values: &RunValues) -> Result<()> {
        let key = self.existing_run(workspace, id)?;
        self.put(|t| &mut t.run_values, key, values.clone())
    }

    fn put_run_result(
        &mut self,
        workspace: &WorkspaceId,
        id: RunId,
        outputs: Option<&Json>,
        failure: Option<&Json>,
    ) -> Result<()> {
        let mut values = self.run_values(workspace, id)?;
        (values.outputs, values.failure) = (outputs.cloned(), failure.cloned());
        self.put_run_values(workspace, id, &values)
    }

    fn put_labels(&mut self, workspace: &WorkspaceId, id: RunId, labels: &[(String, String)]) -> Result<()> {
        let key = self.existing_run(workspace, id)?;
        self.put(|t| &mut t.labels, key, labels.to_vec())
    }

    fn children(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<RunRow>> {
        let of_parent = |run: &&RunRow| run.parent.as_ref().is_some_and(|p| p.run == id) && run.workspace == *workspace;
        Ok(self.tables.runs.values().filter(of_parent).cloned().collect())
    }

    fn delete_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        let key = (workspace.clone(), id);
        self.remove(|t| &mut t.runs, key.clone())?;
        self.remove(|t| &mut t.run_values, key.clone())?;
        self.remove(|t| &mut t.labels, key.clone())?;
        self.remove(|t| &mut t.snapshots, key.clone())?;
        self.remove_of_run(|t| &mut t.journal, &key)?;
        self.remove_of_run(|t| &mut t.timers, &key)?;
        self.remove_of_run(|t| &mut t.logs, &key)?;
        self.remove_of_run(|t| &mut t.inbox, &key)?;
        self.remove_of_run(|t| &mut t.changes, &key)?;
        self.remove_of_run(|t| &mut t.effects, &key)?;
        self.remove_of_run(|t| &mut t.task_words, &key)?;
        let errands: Vec<Hash16> = self.tables.errands_of(workspace, id).map(|row| row.id).collect();
        for errand in errands {
            self.remove(|t| &mut t.errands, (workspace.clone(), errand))?;
        }
        self.remove_files(&key)
    }

    fn delete_logs(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        self.remove_where(|t| &mut t.logs, |(ws, run, seq)| ws == workspace && *run == id && *seq < RELEASED_FROM)
    }

    fn erase_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        let key = self.existing_run(workspace, id)?;
        self.put(|t| &mut t.run_values, key.clone(), RunValues::default())?;
        self.remove_of_run(|t| &mut t.task_words, &key)?;
        self.remove_of_run(|t| &mut t.logs, &key)?;
        self.remove_files(&key)?;
        for (seq, _) in self.inbox(workspace, id)? {
            self.delete_inbox(workspace, id, seq)?;
        }
        let met: Vec<DecisionRow> = self
            .tables
            .decisions
            .values()
            .filter(|row| row.workspace == *workspace && row.run == Some(id))
            .cloned()
            .collect();
        for row in met {
            self.put(|t| &mut t.decisions, row.seq, DecisionRow { key: None, ..row })?;
        }
        let rows: Vec<JournalRow> = self
            .tables
            .journal
            .iter()
            .filter(|((ws, run, _), _)| ws == workspace && *run == id)
            .map(|(_, row)| row.clone())
            .collect();
        rows.into_iter().try_for_each(|row| {
            self.put(|t| &mut t.journal, (workspace.clone(), id, row.seq), JournalRow { values: None, ..row })
        })
    }

    fn append_journal(&mut self, workspace: &WorkspaceId, row: &JournalRow) -> Result<()> {
        self.insert(|t| &mut t.journal, (workspace.clone(), row.run, row.seq), row.clone(), "journal row")
    }

    fn put_snapshot(&mut self, workspace: &WorkspaceId, row: &SnapshotRow) -> Result<()> {
        self.put(|t| &mut t.snapshots, (workspace.clone(), row.run), row.clone())
    }

    fn put_timer(&mut self, row: &TimerRow) -> Result<()> {
        self.put(|t| &mut t.timers, (row.workspace.clone(), row.run, row.timer), row.clone())
    }

    fn delete_timer(&mut self, workspace: &WorkspaceId, run: RunId, timer: u64) -> Result<()> {
        self.remove(|t| &mut t.timers, (workspace.clone(), run, timer))
    }

    fn delete_timers(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()> {
        self.remove_of_run(|t| &mut t.timers, &(workspace.clone(), run))
    }

    fn errand(&mut self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>> {
        Ok(self.tables.errands.get(&(workspace.clone(), id)).cloned())
    }

    fn put_errand(&mut self, workspace: &WorkspaceId, row: &ErrandRow) -> Result<()> {
        self.put(|t| &mut t.errands, (workspace.clone(), row.id), row.clone())
    }

    fn open_errands(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>> {
        Ok(self.tables.errands_of(workspace, run).filter(|row| row.open).cloned().collect())
    }

    fn free_errands(&mut self, workspace: &WorkspaceId, queue: &ErrandQueue, limit: u32) -> Result<Vec<ErrandRow>> {
        let now = self.now;
        let here = |row: &&ErrandRow| {
            let free = row.open && !row.taken && row.kind == ErrandKind::Simple && row.free_at <= now;
            free && row.queue == queue.queue && row.domain == queue.domain
        };
        let mut found: Vec<ErrandRow> = self.tables.errands_in(workspace).filter(here).cloned().collect();
        found.sort_by_key(|row| (u8::MAX - row.priority, row.free_at, row.id));
        found.truncate(limit as usize);
        Ok(found)
    }

    fn taken_errands(&mut self, workspace: &WorkspaceId, queue: &str) -> Result<u64> {
        let taken = |row: &&ErrandRow| row.open && row.taken && row.queue == queue;
        Ok(self.tables.errands_in(workspace).filter(taken).count() as u64)
    }

    fn late_errands(&mut self, limit: u32) -> Result<Vec<(WorkspaceId, ErrandRow)>> {
        let now = self.now;
        let late = |row: &ErrandRow| row.due.is_some_and(|due| due <= now);
        let rows = self.tables.errands.iter().filter(|(_, row)| late(row));
        let mut found: Vec<(WorkspaceId, ErrandRow)> = rows.map(|((ws, _), row)| (ws.clone(), row.clone())).collect();
        found.sort_by(|(a_ws, a), (b_ws, b)| (a.due, a_ws, a.id).cmp(&(b.due, b_ws, b.id)));
        found.truncate(limit as usize);
        Ok(found)
    }

    fn put_effect(&mut self, workspace: &WorkspaceId, row: &EffectRow) -> Result<()> {
        self.put(|t| &mut t.effects, (workspace.clone(), row.run, row.step_id), row.clone())
    }

    fn put_task_word(&mut self, workspace: &WorkspaceId, run: RunId, word: &TaskWord) -> Result<()> {
        self.put(|t| &mut t.task_words, (workspace.clone(), run, word.clone()), ())
    }

    fn append_log(&mut self, workspace: &WorkspaceId, row: &LogRow) -> Result<()> {
        self.insert(|t| &mut t.logs, (workspace.clone(), row.run, row.seq), row.clone(), "log row")
    }

    fn append_decision(&mut self, row: &DecisionRow) -> Result<u64> {
        self.writable()?;
        self.tables.last_decision += 1;
        let seq = self.tables.last_decision;
        self.put(|t| &mut t.decisions, seq, DecisionRow { seq, ..row.clone() })?;
        Ok(seq)
    }

    fn push_inbox(&mut self, workspace: &WorkspaceId, run: RunId, message: &Inbox) -> Result<()> {
        self.writable()?;
        self.tables.last_inbox += 1;
        let seq = self.tables.last_inbox;
        self.put(|t| &mut t.inbox, (workspace.clone(), run, seq), message.clone())
    }

    fn inbox(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<(u64, Inbox)>> {
        Ok(self.tables.inbox_of(workspace, run))
    }

    fn delete_inbox(&mut self, workspace: &WorkspaceId, run: RunId, seq: u64) -> Result<()> {
        self.remove(|t| &mut t.inbox, (workspace.clone(), run, seq))
    }

    fn kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
        Ok(self.tables.kv.get(&(workspace.clone(), namespace.to_owned(), key.to_owned())).cloned())
    }

    fn put_kv(&mut self, workspace: &WorkspaceId, row: &KvRow) -> Result<()> {
        self.put(|t| &mut t.kv, (workspace.clone(), row.namespace.clone(), row.key.clone()), row.clone())
    }

    fn delete_kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<()> {
        self.remove(|t| &mut t.kv, (workspace.clone(), namespace.to_owned(), key.to_owned()))
    }

    fn file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>> {
        Ok(self.tables.files.get(&(workspace.clone(), run, path.to_owned())).cloned())
    }

    fn put_file(&mut self, workspace: &WorkspaceId, row: &FileRow) -> Result<()> {
        self.put(|t| &mut t.files, (workspace.clone(), row.run, row.path.clone()), row.clone())
    }

    fn delete_file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<()> {
        self.remove(|t| &mut t.files, (workspace.clone(), run, path.to_owned()))
    }

    fn put_chunk(&mut self, chunk: &FileChunk) -> Result<()> {
        let key = (chunk.workspace.clone(), chunk.run, (chunk.file, chunk.number));
        self.put(|t| &mut t.chunks, key, chunk.bytes.clone())
    }

    fn delete_chunks(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()> {
        self.remove_where(|t| &mut t.chunks, |(ws, id, (of, _))| (ws, *id, *of) == (workspace, run, file))
    }

    fn put_upload(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()> {
        let (key, now) = ((workspace.clone(), run, file), self.now);
        self.put(|t| &mut t.uploads, key, now)
    }

    fn flow_head(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Option<FlowRow>> {
        Ok(self.tables.flow(workspace, flow, None))
    }

    fn insert_flow(&mut self, row: &FlowRow) -> Result<()> {
        self.insert(
            |t| &mut t.flows,
            (row.workspace.clone(), row.flow.clone(), row.revision),
            row.clone(),
            "flow revision",
        )
    }

    fn flow_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<ScheduleRow>> {
        let rows = self.tables.schedules.values().filter(|row| row.workspace == *workspace && row.flow == *flow);
        Ok(rows.cloned().collect())
    }

    fn put_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef, rows: &[ScheduleRow]) -> Result<()> {
        self.remove_where(|t| &mut t.schedules, |(ws, f, _)| ws == workspace && f == flow)?;
        rows.iter().try_for_each(|row| {
            let row = ScheduleRow { workspace: workspace.clone(), flow: flow.clone(), ..row.clone() };
            self.put(|t| &mut t.schedules, (workspace.clone(), flow.clone(), row.trigger.clone()), row)
        })
    }

    fn update_schedule(&mut self, row: &ScheduleRow) -> Result<()> {
        let key = (row.workspace.clone(), row.flow.clone(), row.trigger.clone());
        // A schedule that a push removed meanwhile must not come back.
        if self.tables.schedules.contains_key(&key) { self.put(|t| &mut t.schedules, key, row.clone()) } else { Ok(()) }
    }

    fn change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<Option<ChangeRow>> {
        Ok(self.tables.changes.get(&(workspace.clone(), run, version)).cloned())
    }

    fn insert_change(&mut self, row: &ChangeRow) -> Result<()> {
        self.put_change(row)
    }

    fn put_change(&mut self, row: &ChangeRow) -> Result<()> {
        self.put(|t| &mut t.changes, (row.workspace.clone(), row.run, row.version), row.clone())
    }

    fn delete_change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<()> {
        self.remove(|t| &mut t.changes, (workspace.clone(), run, version))
    }

    fn secret_versions(&mut self, workspace: &WorkspaceId, name: &str) -> Result<Vec<SecretRow>> {
        Ok(self.tables.secrets.values().filter(|s| s.workspace == *workspace && s.name == name).cloned().collect())
    }

    fn put_secret(&mut self, row: &SecretRow) -> Result<()> {
        self.put(|t| &mut t.secrets, (row.workspace.clone(), row.name.clone(), row.version), row.clone())
    }

    fn token(&mut self, id: &str) -> Result<Option<TokenRow>> {
        Ok(self.tables.tokens.get(id).cloned())
    }

    fn put_token(&mut self, row: &TokenRow) -> Result<()> {
        self.put(|t| &mut t.tokens, row.id.clone(), row.clone())
    }

    fn workspace(&mut self, id: &WorkspaceId) -> Result<Option<WorkspaceRow>> {
        Ok(self.tables.workspaces.get(id).cloned())
    }

    fn put_workspace(&mut self, row: &WorkspaceRow) -> Result<()> {
        self.put(|t| &mut t.workspaces, row.id.clone(), row.clone())
    }

    fn restored_at(&self) -> Option<Millis> {
        self.tables.restored.as_ref().map(|row| row.restored_at)
    }

    fn put_restored(&mut self, row: &RestoredRow) -> Result<()> {
        self.writable()?;
        let old = self.tables.restored.replace(row.clone());
        self.undo.push(Box::new(move |t| t.restored = old));
        Ok(())
    }

    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        let open = |run: &&RunRow| !run.status.is_ended() && run.ended_at.is_none();
        Ok(self.tables.runs.values().filter(open).cloned().collect())
    }

    fn forgotten_claims(&mut self, now: Millis, limit: u32) -> Result<Vec<(WorkspaceId, Hash16)>> {
        let ended = |((ws, hash), claim): (&(WorkspaceId, Hash16), &Claim)| {
            forget_at(claim).filter(|at| *at <= now).map(|at| (at, ws.clone(), *hash))
        };
        let claims = first(self.tables.claims.iter().filter_map(ended).collect(), limit);
        Ok(claims.into_iter().map(|(_, ws, hash)| (ws, hash)).collect())
    }

    fn sweep_kv(&mut self, now: Millis, limit: u32) -> Result<u64> {
        let ended = |(key, row): (&(WorkspaceId, String, String), &KvRow)| {
            row.expires_at.filter(|at| *at <= now).map(|at| (at, key.clone()))
        };
        let keys = first(self.tables.kv.iter().filter_map(ended).collect(), limit);
        let count = keys.len() as u64;
        keys.into_iter().try_for_each(|(_, key)| self.remove(|t| &mut t.kv, key))?;
        Ok(count)
    }

    fn sweep_uploads(&mut self, before: Millis, limit: u32) -> Result<u64> {
        let old = self.tables.uploads.iter().filter(|(_, at)| **at < before).map(|(key, at)| (*at, key.clone()));
        let old = first(old.collect(), limit);
        let count = old.len() as u64;
        for (_, (workspace, run, file)) in old {
            let is_named = |((ws, of, _), row): &(&(WorkspaceId, RunId, String), &FileRow)| {
                *ws == workspace && *of == run && row.file == file
            };
            let path = self.tables.files.iter().find(is_named).map(|(_, row)| row.path.clone());
            let has_run = is_shelf(run) || self.tables.runs.contains_key(&(workspace.clone(), run));
            if path.is_none() || !has_run {
                self.delete_chunks(&workspace, run, file)?;
            }
            if let Some(path) = path.filter(|_| !has_run) {
                self.delete_file(&workspace, run, &path)?;
            }
            self.remove(|t| &mut t.uploads, (workspace, run, file))?;
        }
        Ok(count)
    }

    fn sweep_decisions(&mut self, before: Millis, limit: u32) -> Result<u64> {
        // Rows are written in order of time, so only the oldest `limit` need a look.
        let oldest = self.tables.decisions.values().take(limit as usize);
        let seqs: Vec<u64> = oldest.filter(|d| d.at < before).map(|d| d.seq).collect();
        let count = seqs.len() as u64;
        seqs.into_iter().try_for_each(|seq| self.remove(|t| &mut t.decisions, seq))?;
        Ok(count)
    }

    fn old_runs(&mut self, before: Millis, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        let ended = |run: &RunRow| {
            let at = run.ended_at.filter(|at| *at < before && run.status.is_ended())?;
            Some((at, run.workspace.clone(), run.id))
        };
        let claimed: std::collections::BTreeSet<(&WorkspaceId, RunId)> =
            self.tables.claims.iter().map(|((ws, _), claim)| (ws, claim.run)).collect();
        let free = |run: &&RunRow| !claimed.contains(&(&run.workspace, run.id));
        let runs = first(self.tables.runs.values().filter(free).filter_map(ended).collect(), limit);
        Ok(runs.into_iter().map(|(_, ws, run)| (ws, run)).collect())
    }
}
