//! Reads: short snapshots on a few connections of their own.

use crate::SqliteStore;
use crate::audit::Snapshot;
use crate::classify::classify;
use crate::dump;
use crate::names::{Cx, Names};
use crate::tables::{admin, changes, claims, decisions, errands, files, found, history, log_search, runs};
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use semel_core::admission::Claim;
use semel_core::ir::ErrandKind;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::check::Audit;
use semel_store::*;
use serde_json::Value as Json;

type Sql<T> = rusqlite::Result<T>;

/// Connections that can only read. A read beyond them waits for the first that is free.
pub struct Pool {
    free: Mutex<Vec<Connection>>,
    returned: Condvar,
}

impl Pool {
    pub fn new(connections: Vec<Connection>) -> Pool {
        Pool { free: Mutex::new(connections), returned: Condvar::new() }
    }

    fn take(&self) -> Connection {
        let mut free = self.free.lock();
        loop {
            match free.pop() {
                Some(connection) => return connection,
                None => self.returned.wait(&mut free),
            }
        }
    }

    /// Runs `read` on one snapshot.
    pub fn read<T>(&self, names: &Names, read: impl FnOnce(&Cx) -> Result<T>) -> Result<T> {
        let lent = Lent { pool: self, connection: Some(self.take()) };
        let Some(connection) = &lent.connection else { return Err(StoreError::Closed) };
        let cx = Cx::new(connection, names);
        cx.exec("BEGIN", []).map_err(|e| classify(&e))?;
        let _ending = Ending(&cx);
        let found = read(&cx)?;
        cx.publish();
        Ok(found)
    }
}

/// Ends the snapshot whatever happens.
struct Ending<'a, 'c>(&'a Cx<'c>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        // Nothing was written; a connection that cannot even end a read says so at the next one.
        if let Err(error) = self.0.exec("ROLLBACK", []) {
            tracing::warn!("a snapshot did not end: {error}");
        }
    }
}

/// Goes back to the pool whatever happens.
struct Lent<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.pool.free.lock().extend(self.connection.take());
        self.pool.returned.notify_one();
    }
}

impl SqliteStore {
    pub(crate) fn on_snapshot<T>(&self, read: impl FnOnce(&Cx) -> Result<T>) -> Result<T> {
        let found = self.pool.read(&self.shared.names, read);
        if let Err(error) = &found
            && error.is_fatal()
        {
            // Damage seen by a reader is damage: nothing more may be written on top of it.
            self.shared.health.poison(error);
        }
        found
    }

    fn all<T>(&self, read: impl FnOnce(&Cx) -> Sql<T>) -> Result<T> {
        self.on_snapshot(|cx| read(cx).map_err(|e| classify(&e)))
    }

    /// A workspace nobody wrote to has no rows.
    fn of<T: Default>(&self, workspace: &WorkspaceId, read: impl FnOnce(&Cx, i64) -> Sql<T>) -> Result<T> {
        self.all(|cx| match cx.ws(workspace)? {
            Some(ws) => read(cx, ws),
            None => Ok(T::default()),
        })
    }
}

fn load(cx: &Cx, ws: i64, id: RunId) -> Sql<Option<LoadedRun>> {
    let Some((num, row)) = runs::get(cx, ws, id)? else { return Ok(None) };
    Ok(Some(LoadedRun {
        elsewhere: false,
        row,
        snapshot: history::snapshot(cx, ws, id)?,
        labels: runs::labels(cx, num)?,
        inbox: history::inbox(cx, ws, id)?,
    }))
}

impl Reads for SqliteStore {
    fn load_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<LoadedRun>> {
        self.of(workspace, |cx, ws| load(cx, ws, id))
    }
    fn run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<runs::Whole>> {
        self.of(workspace, |cx, ws| runs::whole(cx, ws, id))
    }
    fn runs(&self, workspace: &WorkspaceId, query: &RunQuery) -> Result<Vec<runs::Whole>> {
        self.of(workspace, |cx, ws| runs::search(cx, ws, query))
    }
    fn search_runs(&self, workspace: &WorkspaceId, query: &search::RunSearch) -> Result<(Vec<runs::Whole>, u64)> {
        self.of(workspace, |cx, ws| found::page(cx, ws, query))
    }
    fn flows_with_runs(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>> {
        self.of(workspace, found::flows)
    }
    fn journal(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>> {
        self.of(workspace, |cx, ws| history::journal(cx, ws, id, after, limit))
    }
    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
        self.of(workspace, |cx, ws| history::logs(cx, ws, id, after, limit))
    }
    fn log_search(&self, workspace: &WorkspaceId, query: &LogQuery) -> Result<(Vec<(FlowRef, LogRow)>, u64)> {
        self.of(workspace, |cx, ws| log_search::search(cx, ws, query))
    }
    fn errand(&self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>> {
        self.of(workspace, |cx, ws| errands::get(cx, ws, id))
    }
    fn errands_of(&self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>> {
        self.of(workspace, |cx, ws| errands::of_run(cx, ws, run, false))
    }
    fn errands(
        &self,
        workspace: &WorkspaceId,
        kind: ErrandKind,
        after: Option<Hash16>,
        limit: u32,
    ) -> Result<Vec<ErrandRow>> {
        self.of(workspace, |cx, ws| errands::of_kind(cx, ws, kind, after, limit))
    }
    fn has_free_errand(&self, workspace: &WorkspaceId, from: &ErrandQueue) -> Result<bool> {
        let now = self.now();
        self.of(workspace, |cx, ws| Ok(!errands::free(cx, ws, from, now, 1)?.is_empty()))
    }
    fn errand_counts(&self, workspace: &WorkspaceId) -> Result<Vec<(ErrandQueue, u64, u64)>> {
        self.of(workspace, errands::counts)
    }
    fn next_errand(&self) -> Result<Option<Millis>> {
        self.all(errands::next)
    }
    fn effects(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<EffectRow>> {
        self.of(workspace, |cx, ws| history::effects(cx, ws, id))
    }
    fn decisions(&self, workspace: &WorkspaceId, query: &DecisionQuery) -> Result<Vec<DecisionRow>> {
        // Twins are answered before their rows are written; whoever asks for the rows sees them all the same.
        self.shared.queue.settle();
        self.of(workspace, |cx, ws| decisions::search(cx, ws, query))
    }
    fn claims(&self, workspace: &WorkspaceId, query: &ClaimQuery) -> Result<Vec<Claim>> {
        self.of(workspace, |cx, ws| claims::search(cx, ws, query))
    }
    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        self.of(workspace, |cx, ws| claims::get(cx, ws, hash))
    }
    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: Option<u32>) -> Result<Option<FlowRow>> {
        let found = self.of(workspace, |cx, ws| admin::flow(cx, ws, flow, revision))?;
        Ok(found.filter(|row| revision.is_some() || !row.deleted))
    }
    fn flow_revisions(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<FlowRow>> {
        self.of(workspace, |cx, ws| admin::flow_revisions(cx, ws, flow))
    }
    fn flows(&self, workspace: &WorkspaceId, after: Option<&FlowRef>, limit: u32) -> Result<Vec<FlowRow>> {
        self.of(workspace, |cx, ws| admin::flows(cx, ws, after, limit))
    }
    fn flows_named(&self, workspace: &WorkspaceId, id: &str) -> Result<Vec<FlowRow>> {
        self.of(workspace, |cx, ws| admin::flows_named(cx, ws, id))
    }
    fn flow_names(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>> {
        self.of(workspace, admin::flow_names)
    }
    fn kv_namespaces(&self, workspace: &WorkspaceId) -> Result<Vec<String>> {
        self.of(workspace, admin::kv_namespaces)
    }
    fn kv(&self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
        self.of(workspace, |cx, ws| admin::kv(cx, ws, namespace, key))
    }
    fn file(&self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>> {
        self.of(workspace, |cx, ws| files::file(cx, ws, run, path))
    }
    fn files(&self, workspace: &WorkspaceId, run: RunId, after: Option<&str>, limit: u32) -> Result<Vec<FileRow>> {
        self.of(workspace, |cx, ws| files::list(cx, ws, run, after, limit))
    }
    fn file_chunk(&self, workspace: &WorkspaceId, run: RunId, file: Hash16, number: u32) -> Result<Option<Vec<u8>>> {
        self.of(workspace, |cx, ws| files::chunk(cx, ws, run, file, number))
    }
    fn kv_list(&self, workspace: &WorkspaceId, namespace: &str, after: Option<&str>, limit: u32) -> Result<Vec<KvRow>> {
        self.of(workspace, |cx, ws| admin::kv_list(cx, ws, namespace, after, limit))
    }
    fn secret(&self, workspace: &WorkspaceId, name: &str, version: Option<u64>) -> Result<Option<SecretRow>> {
        self.of(workspace, |cx, ws| admin::secret(cx, ws, name, version))
    }
    fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
        self.of(workspace, admin::secrets)
    }
    fn token(&self, id: &str) -> Result<Option<TokenRow>> {
        self.all(|cx| admin::token(cx, id))
    }
    fn tokens(&self, workspace: &WorkspaceId) -> Result<Vec<TokenRow>> {
        self.of(workspace, admin::tokens)
    }
    fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.all(admin::workspaces)
    }
    fn active_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        self.all(|cx| runs::active(cx, after, limit))
    }
    fn due_timers(&self, now: Millis, limit: u32) -> Result<Vec<TimerRow>> {
        self.all(|cx| history::due_timers(cx, now, limit))
    }
    fn next_timer(&self) -> Result<Option<Millis>> {
        self.all(history::next_timer)
    }
    fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleRow>> {
        self.all(|cx| admin::due_schedules(cx, now, limit))
    }
    fn next_schedule(&self) -> Result<Option<Millis>> {
        self.all(admin::next_schedule)
    }
    fn schedules(&self, workspace: &WorkspaceId) -> Result<Vec<ScheduleRow>> {
        self.of(workspace, admin::schedules)
    }
    fn changes(&self, before: Millis, limit: u32) -> Result<Vec<ChangeRow>> {
        self.all(|cx| changes::until(cx, before, limit))
    }
    fn dump(&self) -> Result<Json> {
        self.shared.queue.settle();
        self.all(dump::dump)
    }
    fn audit(&self, look: &mut dyn FnMut(&dyn Audit) -> Result<()>) -> Result<()> {
        // What is found damaged is the checker's to say; it is not met in the course of work.
        self.pool.read(&self.shared.names, |cx| look(&Snapshot { cx }))
    }
}
