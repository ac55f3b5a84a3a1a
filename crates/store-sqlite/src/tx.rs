//! The row primitives over one SQLite transaction (the writer's) or one snapshot (a reader's).

use crate::classify::classify;
use crate::names::Cx;
use crate::tables::{admin, changes, claims, decisions, errands, files, history, runs, words};
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::*;
use serde_json::Value as Json;
use std::cell::Cell;

/// Numbers given so far; kept by the writer and stored with each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub decision: u64,
    pub inbox: u64,
    pub restored_at: Option<Millis>,
    /// Of the rows of runs. Not stored: the table knows its highest.
    pub run: i64,
}

pub struct SqlTx<'a, 'c> {
    cx: &'a Cx<'c>,
    now: Millis,
    /// `None` in a read: nothing may be written.
    counters: Option<&'a mut Counters>,
    /// Heads of the runs this transaction has met: all reads and writes of heads pass here.
    heads: Vec<Head>,
    /// Claims this transaction has met: as for heads.
    claims: Vec<Kept>,
    wrote: Cell<bool>,
}

/// A head as it is stored and as it shall be. A script changes a head several times; it is written once, at the end.
struct Head {
    num: i64,
    /// `None`: this transaction makes the run.
    stored: Option<RunRow>,
    now: RunRow,
    /// Made by this transaction, written or not.
    new: bool,
    /// A new run has no messages and timers but those it was given here.
    has_inbox: bool,
    has_timers: bool,
}

/// A claim as it is stored and as it shall be.
struct Kept {
    workspace: WorkspaceId,
    hash: Hash16,
    stored: Stored,
    now: Option<Claim>,
}

enum Stored {
    /// Nobody looked.
    Unknown,
    Absent,
    Present(Claim),
}

type Sql<T> = rusqlite::Result<T>;

impl<'a, 'c> SqlTx<'a, 'c> {
    pub fn new(cx: &'a Cx<'c>, now: Millis, counters: &'a mut Counters) -> SqlTx<'a, 'c> {
        SqlTx { counters: Some(counters), ..SqlTx::read_only(cx, now) }
    }

    pub fn read_only(cx: &'a Cx<'c>, now: Millis) -> SqlTx<'a, 'c> {
        SqlTx { cx, now, counters: None, heads: vec![], claims: vec![], wrote: Cell::new(false) }
    }

    /// Whether anything was written, successfully or not.
    pub fn has_written(&self) -> bool {
        self.wrote.get()
    }

    /// The claim that was looked at last, and the head of its run.
    pub fn into_pair(mut self) -> Option<(Claim, RunRow)> {
        let (claim, run) = (self.claims.pop()?.now?, self.heads.pop()?.now);
        (claim.run == run.id).then_some((claim, run))
    }

    /// Writes what has changed and is kept back. Must be called at the end, and before a query over heads or claims.
    pub fn flush(&mut self) -> Result<()> {
        for at in 0..self.heads.len() {
            let head = &self.heads[at];
            match &head.stored {
                Some(stored) if *stored == head.now => continue,
                Some(stored) => {
                    for claim in stored.claim.iter().chain(&head.now.claim) {
                        self.cx.touch(*claim);
                    }
                    self.write(|cx| runs::update(cx, head.num, stored, &head.now))?;
                }
                None => self.write(|cx| runs::insert(cx, head.num, &head.now))?,
            }
            self.heads[at].stored = Some(self.heads[at].now.clone());
        }
        self.flush_claims()
    }

    fn flush_claims(&mut self) -> Result<()> {
        for at in 0..self.claims.len() {
            let kept = &self.claims[at];
            let Some(now) = &kept.now else { continue };
            let write =
                |write: fn(&Cx, i64, &Claim) -> Sql<()>| self.write_in(&kept.workspace, |cx, ws| write(cx, ws, now));
            if !matches!(&kept.stored, Stored::Present(old) if old == now) {
                self.cx.touch(kept.hash);
            }
            match &kept.stored {
                Stored::Present(old) if old == now => continue,
                Stored::Present(old) if claims::same_event(old, now) => write(claims::update)?,
                Stored::Absent => write(claims::insert)?,
                Stored::Present(_) | Stored::Unknown => write(claims::put)?,
            }
            self.claims[at].stored = Stored::Present(now.clone());
        }
        Ok(())
    }

    fn met(&self, workspace: &WorkspaceId, id: RunId) -> Option<usize> {
        self.heads.iter().position(|head| head.now.id == id && head.now.workspace == *workspace)
    }

    /// Where the head of a run is, read if need be.
    fn head(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<usize>> {
        if let Some(at) = self.met(workspace, id) {
            return Ok(Some(at));
        }
        let Some((num, row)) = self.read(workspace, |cx, ws| runs::get(cx, ws, id))? else { return Ok(None) };
        let stored = Some(row.clone());
        self.heads.push(Head { num, stored, now: row, new: false, has_inbox: true, has_timers: true });
        Ok(Some(self.heads.len() - 1))
    }

    /// The number of a run that must be there.
    fn num(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<i64> {
        match self.head(workspace, id)? {
            Some(at) => Ok(self.heads[at].num),
            None => Err(StoreError::Bug(format!("run {id} is not there"))),
        }
    }

    fn kept(&self, workspace: &WorkspaceId, hash: Hash16) -> Option<usize> {
        self.claims.iter().position(|kept| kept.hash == hash && kept.workspace == *workspace)
    }

    /// Remembers a claim just read, unless it is known better here.
    fn keep(&mut self, workspace: &WorkspaceId, hash: Hash16, found: Option<Claim>) -> usize {
        if let Some(at) = self.kept(workspace, hash) {
            return at;
        }
        let stored = found.clone().map_or(Stored::Absent, Stored::Present);
        self.claims.push(Kept { workspace: workspace.clone(), hash, stored, now: found });
        self.claims.len() - 1
    }

    fn new_head(&mut self, workspace: &WorkspaceId, id: RunId) -> Option<&mut Head> {
        let at = self.met(workspace, id)?;
        Some(&mut self.heads[at]).filter(|head| head.new)
    }

    /// A workspace nobody wrote to has no rows.
    fn read<T: Default>(&self, workspace: &WorkspaceId, read: impl FnOnce(&Cx, i64) -> Sql<T>) -> Result<T> {
        let found = || match self.cx.ws(workspace)? {
            Some(ws) => read(self.cx, ws),
            None => Ok(T::default()),
        };
        found().map_err(|e| classify(&e))
    }

    fn write<T>(&self, write: impl FnOnce(&Cx) -> Sql<T>) -> Result<T> {
        if self.counters.is_none() {
            return Err(read_only());
        }
        self.wrote.set(true);
        write(self.cx).map_err(|e| classify(&e))
    }

    fn write_in<T>(&self, workspace: &WorkspaceId, write: impl FnOnce(&Cx, i64) -> Sql<T>) -> Result<T> {
        self.write(|cx| write(cx, cx.ws_or_new(workspace)?))
    }
}

fn read_only() -> StoreError {
    StoreError::Bug("a write inside a read".into())
}

impl Look for SqlTx<'_, '_> {
    fn now(&self) -> Millis {
        self.now
    }
    fn claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        if let Some(at) = self.kept(workspace, hash) {
            return Ok(self.claims[at].now.clone());
        }
        let found = self.read(workspace, |cx, ws| claims::get(cx, ws, hash))?;
        let at = self.keep(workspace, hash, found);
        Ok(self.claims[at].now.clone())
    }
    fn run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        Ok(self.head(workspace, id)?.map(|at| self.heads[at].now.clone()))
    }
}

impl Tx for SqlTx<'_, '_> {
    fn put_claim(&mut self, workspace: &WorkspaceId, claim: &Claim) -> Result<()> {
        if self.counters.is_none() {
            return Err(read_only());
        }
        let (hash, now) = (claim.hash, Some(claim.clone()));
        match self.kept(workspace, hash) {
            Some(at) => self.claims[at].now = now,
            None => self.claims.push(Kept { workspace: workspace.clone(), hash, stored: Stored::Unknown, now }),
        }
        Ok(())
    }
    fn delete_claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<()> {
        self.cx.touch(hash);
        self.write_in(workspace, |cx, ws| claims::delete(cx, ws, hash))?;
        match self.kept(workspace, hash) {
            Some(at) => (self.claims[at].stored, self.claims[at].now) = (Stored::Absent, None),
            None => _ = self.keep(workspace, hash, None),
        }
        Ok(())
    }
    fn claims_of_run(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<Claim>> {
        if !self.is_new(workspace, run) {
            for claim in self.read(workspace, |cx, ws| claims::of_run(cx, ws, run))? {
                self.keep(workspace, claim.hash, Some(claim));
            }
        }
        // What is kept is newer than what is stored, and all that is stored is kept.
        let here = self.claims.iter().filter(|kept| kept.workspace == *workspace);
        let mut found: Vec<Claim> =
            here.filter_map(|kept| kept.now.as_ref()).filter(|claim| claim.run == run).cloned().collect();
        found.sort_by_key(|claim| claim.hash);
        Ok(found)
    }

    fn lane(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane> {
        self.read(workspace, |cx, ws| claims::lane(cx, ws, hash))
    }
    fn put_lane(&mut self, workspace: &WorkspaceId, hash: Hash16, lane: &Lane) -> Result<()> {
        self.write_in(workspace, |cx, ws| claims::put_lane(cx, ws, hash, lane))
    }
    fn queue(&mut self, workspace: &WorkspaceId, hash: Hash16, limit: u32) -> Result<Vec<RunId>> {
        self.read(workspace, |cx, ws| claims::queue(cx, ws, hash, limit))
    }
    fn push_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()> {
        self.write_in(workspace, |cx, ws| claims::push_queue(cx, ws, hash, run))
    }
    fn leave_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<bool> {
        self.write_in(workspace, |cx, ws| claims::leave_queue(cx, ws, hash, run))
    }

    fn is_new(&self, workspace: &WorkspaceId, id: RunId) -> bool {
        self.met(workspace, id).is_some_and(|at| self.heads[at].new)
    }
    fn insert_run(&mut self, row: &RunRow, values: &RunValues, labels: &[(String, String)]) -> Result<()> {
        let counters = self.counters.as_mut().ok_or_else(read_only)?;
        counters.run += 1;
        let num = counters.run;
        self.write_in(&row.workspace, |cx, ws| runs::insert_values(cx, ws, row.id, num, values, labels))?;
        let now = row.clone();
        self.heads.push(Head { num, stored: None, now, new: true, has_inbox: false, has_timers: false });
        Ok(())
    }
    fn update_run(&mut self, row: &RunRow) -> Result<()> {
        if self.counters.is_none() {
            return Err(read_only());
        }
        let Some(at) = self.head(&row.workspace, row.id)? else {
            return Err(StoreError::Bug(format!("run {} is not there", row.id)));
        };
        self.heads[at].now = row.clone();
        Ok(())
    }
    fn run_values(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<RunValues> {
        match self.head(workspace, id)? {
            Some(at) => self.read(workspace, |cx, _| runs::values(cx, self.heads[at].num)),
            None => Ok(RunValues::default()),
        }
    }
    fn put_run_values(&mut self, workspace: &WorkspaceId, id: RunId, values: &RunValues) -> Result<()> {
        let num = self.num(workspace, id)?;
        self.write(|cx| runs::put_values(cx, num, values))
    }
    fn put_run_result(
        &mut self,
        workspace: &WorkspaceId,
        id: RunId,
        outputs: Option<&Json>,
        failure: Option<&Json>,
    ) -> Result<()> {
        let num = self.num(workspace, id)?;
        self.write(|cx| runs::put_result(cx, num, outputs, failure))
    }
    fn put_labels(&mut self, workspace: &WorkspaceId, id: RunId, labels: &[(String, String)]) -> Result<()> {
        let num = self.num(workspace, id)?;
        self.write_in(workspace, |cx, ws| runs::put_labels(cx, ws, id, num, labels))
    }
    fn children(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<RunRow>> {
        self.flush()?;
        self.read(workspace, |cx, ws| runs::children(cx, ws, id))
    }
    fn delete_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        let Some(at) = self.head(workspace, id)? else { return Ok(()) };
        let Head { num, now, .. } = self.heads.swap_remove(at);
        now.claim.iter().for_each(|claim| self.cx.touch(*claim));
        self.write_in(workspace, |cx, ws| {
            runs::delete(cx, ws, id, num)?;
            history::delete(cx, ws, id)?;
            errands::delete_of_run(cx, ws, id)?;
            words::delete_of_run(cx, ws, id)?;
            files::delete_of_run(cx, ws, id)
        })
    }
    fn erase_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        let num = self.num(workspace, id)?;
        self.write_in(workspace, |cx, ws| {
            runs::put_values(cx, num, &RunValues::default())?;
            history::erase(cx, ws, id)?;
            words::delete_of_run(cx, ws, id)?;
            files::delete_of_run(cx, ws, id)
        })
    }

    fn append_journal(&mut self, workspace: &WorkspaceId, row: &JournalRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::append_journal(cx, ws, row))
    }
    fn put_snapshot(&mut self, workspace: &WorkspaceId, row: &SnapshotRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::put_snapshot(cx, ws, row))
    }

    fn put_timer(&mut self, row: &TimerRow) -> Result<()> {
        if let Some(head) = self.new_head(&row.workspace, row.run) {
            head.has_timers = true;
        }
        self.write_in(&row.workspace, |cx, ws| history::put_timer(cx, ws, row))
    }
    fn delete_timer(&mut self, workspace: &WorkspaceId, run: RunId, timer: u64) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::delete_timer(cx, ws, run, timer))
    }
    fn delete_timers(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()> {
        if self.new_head(workspace, run).is_some_and(|head| !head.has_timers) {
            return Ok(());
        }
        self.write_in(workspace, |cx, ws| history::delete_timers(cx, ws, run))
    }

    fn errand(&mut self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>> {
        self.read(workspace, |cx, ws| errands::get(cx, ws, id))
    }
    fn put_errand(&mut self, workspace: &WorkspaceId, row: &ErrandRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| errands::put(cx, ws, row))
    }
    fn open_errands(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>> {
        self.read(workspace, |cx, ws| errands::of_run(cx, ws, run, true))
    }
    fn free_errands(&mut self, workspace: &WorkspaceId, queue: &ErrandQueue, limit: u32) -> Result<Vec<ErrandRow>> {
        let now = self.now();
        self.read(workspace, |cx, ws| errands::free(cx, ws, queue, now, limit))
    }
    fn taken_errands(&mut self, workspace: &WorkspaceId, queue: &str) -> Result<u64> {
        self.read(workspace, |cx, ws| errands::taken(cx, ws, queue))
    }
    fn late_errands(&mut self, limit: u32) -> Result<Vec<(WorkspaceId, ErrandRow)>> {
        let now = self.now();
        self.write(|cx| errands::late(cx, now, limit))
    }

    fn put_effect(&mut self, workspace: &WorkspaceId, row: &EffectRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::put_effect(cx, ws, row))
    }
    fn put_task_word(&mut self, workspace: &WorkspaceId, run: RunId, word: &TaskWord) -> Result<()> {
        self.write_in(workspace, |cx, ws| words::put(cx, ws, run, word))
    }
    fn append_log(&mut self, workspace: &WorkspaceId, row: &LogRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::append_log(cx, ws, row))
    }
    fn delete_logs(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::delete_logs(cx, ws, run))
    }
    fn append_decision(&mut self, row: &DecisionRow) -> Result<u64> {
        let counters = self.counters.as_mut().ok_or_else(read_only)?;
        counters.decision += 1;
        let seq = counters.decision;
        self.write(|cx| decisions::append(cx, seq, row))?;
        Ok(seq)
    }

    fn push_inbox(&mut self, workspace: &WorkspaceId, run: RunId, message: &Inbox) -> Result<()> {
        if let Some(head) = self.new_head(workspace, run) {
            head.has_inbox = true;
        }
        let counters = self.counters.as_mut().ok_or_else(read_only)?;
        counters.inbox += 1;
        let seq = counters.inbox;
        self.write_in(workspace, |cx, ws| history::push_inbox(cx, ws, run, seq, message))
    }
    fn inbox(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<(u64, Inbox)>> {
        if self.new_head(workspace, run).is_some_and(|head| !head.has_inbox) {
            return Ok(vec![]);
        }
        self.read(workspace, |cx, ws| history::inbox(cx, ws, run))
    }
    fn delete_inbox(&mut self, workspace: &WorkspaceId, run: RunId, seq: u64) -> Result<()> {
        self.write_in(workspace, |cx, ws| history::delete_inbox(cx, ws, run, seq))
    }

    fn kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
        self.read(workspace, |cx, ws| admin::kv(cx, ws, namespace, key))
    }
    fn put_kv(&mut self, workspace: &WorkspaceId, row: &KvRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| admin::put_kv(cx, ws, row))
    }
    fn delete_kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<()> {
        self.write_in(workspace, |cx, ws| admin::delete_kv(cx, ws, namespace, key))
    }

    fn file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>> {
        self.read(workspace, |cx, ws| files::file(cx, ws, run, path))
    }
    fn put_file(&mut self, workspace: &WorkspaceId, row: &FileRow) -> Result<()> {
        self.write_in(workspace, |cx, ws| files::put(cx, ws, row))
    }
    fn delete_file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<()> {
        self.write_in(workspace, |cx, ws| files::delete(cx, ws, run, path))
    }
    fn put_chunk(&mut self, chunk: &FileChunk) -> Result<()> {
        self.write_in(&chunk.workspace, |cx, ws| files::put_chunk(cx, ws, chunk))
    }
    fn delete_chunks(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()> {
        self.write_in(workspace, |cx, ws| files::delete_chunks(cx, ws, run, file))
    }
    fn put_upload(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()> {
        self.write_in(workspace, |cx, ws| files::put_upload(cx, ws, run, file, self.now))
    }

    fn flow_head(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Option<FlowRow>> {
        self.read(workspace, |cx, ws| admin::flow(cx, ws, flow, None))
    }
    fn insert_flow(&mut self, row: &FlowRow) -> Result<()> {
        self.write(|cx| admin::insert_flow(cx, row))
    }
    fn flow_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<ScheduleRow>> {
        self.read(workspace, |cx, ws| admin::flow_schedules(cx, ws, flow))
    }
    fn put_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef, rows: &[ScheduleRow]) -> Result<()> {
        self.write_in(workspace, |cx, ws| admin::put_schedules(cx, ws, flow, rows))
    }
    fn update_schedule(&mut self, row: &ScheduleRow) -> Result<()> {
        self.write_in(&row.workspace, |cx, ws| admin::update_schedule(cx, ws, row))
    }

    fn change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<Option<ChangeRow>> {
        self.read(workspace, |cx, ws| changes::get(cx, ws, run, version))
    }
    fn insert_change(&mut self, row: &ChangeRow) -> Result<()> {
        self.put_change(row)
    }
    fn put_change(&mut self, row: &ChangeRow) -> Result<()> {
        self.write_in(&row.workspace, |cx, ws| changes::put(cx, ws, row))
    }
    fn delete_change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<()> {
        self.write_in(workspace, |cx, ws| changes::delete(cx, ws, run, version))
    }

    fn secret_versions(&mut self, workspace: &WorkspaceId, name: &str) -> Result<Vec<SecretRow>> {
        self.read(workspace, |cx, ws| admin::secret_versions(cx, ws, name))
    }
    fn put_secret(&mut self, row: &SecretRow) -> Result<()> {
        self.write(|cx| admin::put_secret(cx, row))
    }

    fn token(&mut self, id: &str) -> Result<Option<TokenRow>> {
        admin::token(self.cx, id).map_err(|e| classify(&e))
    }
    fn put_token(&mut self, row: &TokenRow) -> Result<()> {
        self.write(|cx| admin::put_token(cx, row))
    }
    fn workspace(&mut self, id: &WorkspaceId) -> Result<Option<WorkspaceRow>> {
        self.read(id, admin::workspace)
    }
    fn put_workspace(&mut self, row: &WorkspaceRow) -> Result<()> {
        self.write(|cx| admin::put_workspace(cx, row))
    }

    fn restored_at(&self) -> Option<Millis> {
        self.counters.as_ref().and_then(|counters| counters.restored_at)
    }
    fn put_restored(&mut self, row: &RestoredRow) -> Result<()> {
        self.write(|cx| admin::put_restored(cx, row))?;
        self.counters.as_mut().ok_or_else(read_only)?.restored_at = Some(row.restored_at);
        Ok(())
    }
    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        self.flush()?;
        runs::open(self.cx).map_err(|e| classify(&e))
    }

    fn forgotten_claims(&mut self, now: Millis, limit: u32) -> Result<Vec<(WorkspaceId, Hash16)>> {
        self.flush()?;
        claims::forgotten(self.cx, now, limit).map_err(|e| classify(&e))
    }
    fn sweep_kv(&mut self, now: Millis, limit: u32) -> Result<u64> {
        self.write(|cx| admin::sweep_kv(cx, now, limit))
    }
    fn sweep_uploads(&mut self, before: Millis, limit: u32) -> Result<u64> {
        self.flush()?;
        self.write(|cx| files::sweep(cx, before, limit))
    }
    fn sweep_decisions(&mut self, before: Millis, limit: u32) -> Result<u64> {
        self.write(|cx| decisions::sweep(cx, before, limit))
    }
    fn old_runs(&mut self, before: Millis, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        self.flush()?;
        runs::old(self.cx, before, limit).map_err(|e| classify(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use rusqlite::Connection;

    #[test]
    fn nothing_is_written_in_a_read() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../migrations/0001.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0002.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0005.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0006.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0008.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0009.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0010.sql")).unwrap();
        connection.execute_batch(include_str!("../migrations/0011.sql")).unwrap();
        let names = Names::default();
        let cx = Cx::new(&connection, &names);
        let mut tx = SqlTx::read_only(&cx, Millis(0));
        let (ws, run) = (WorkspaceId::default(), RunId::from_bytes([1; 16]));
        let row = WorkspaceRow { id: ws.clone(), created_at: Millis(0) };
        let answers = [
            tx.put_workspace(&row),
            tx.push_inbox(&ws, run, &Inbox::Promoted),
            tx.put_lane(&ws, Hash16([0; 16]), &Lane::default()),
            tx.delete_claim(&ws, Hash16([0; 16])),
            tx.delete_kv(&ws, "n", "k"),
            tx.sweep_kv(Millis(9), 1).map(|_| ()),
        ];
        for answer in answers {
            assert_eq!(answer.unwrap_err().code(), "store_bug");
        }
        assert_eq!(tx.workspace(&ws), Ok(None));
        let changes: i64 = connection.query_row("SELECT count(*) FROM workspaces", [], |row| row.get(0)).unwrap();
        assert_eq!(changes, 0);
    }
}
