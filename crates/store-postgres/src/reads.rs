//! Reads: short snapshots on a few connections of their own, one round trip each.

use crate::PostgresStore;
use crate::audit::Snapshot;
use crate::classify::{Error, LOST_MARK, classify};
use crate::codec::{Columns, Rows, Statement, Val};
use crate::dump;
use crate::fetch::{self, Mode, Part};
use crate::found;
use crate::session::{Call, Session};
use crate::set::Set;
use crate::shared::Shared;
use crate::tables::{admin, claims, decisions, errands, files, history, runs};
use crate::wants::Wants;
use parking_lot::{Condvar, Mutex};
use semel_core::admission::Claim;
use semel_core::ir::ErrandKind;
use semel_core::run::SNAPSHOT_VERSION;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::check::Audit;
use semel_store::*;
use serde_json::Value as Json;
use tokio_postgres::Row;

/// Connections for reads, made when they are needed. A read beyond them waits for the first that is free.
pub struct Pool {
    free: Mutex<Vec<Option<Session>>>,
    returned: Condvar,
}

impl Pool {
    pub fn new(size: usize, first: Session) -> Pool {
        let mut free: Vec<Option<Session>> = (1..size).map(|_| None).collect();
        free.push(Some(first));
        Pool { free: Mutex::new(free), returned: Condvar::new() }
    }

    fn take(&self) -> Option<Session> {
        let mut free = self.free.lock();
        loop {
            match free.pop() {
                Some(session) => return session,
                None => self.returned.wait(&mut free),
            }
        }
    }

    fn give(&self, session: Option<Session>) {
        let mut free = self.free.lock();
        // Those that are open are used first.
        let at = if session.is_some() { free.len() } else { 0 };
        free.insert(at, session);
        self.returned.notify_one();
    }

    /// Lends a connection. One that turns out to be gone is replaced once: a read can be repeated.
    pub fn with<T>(&self, shared: &Shared, read: impl Fn(&Session) -> Result<T, Error>) -> Result<T, Error> {
        let mut lent = Lent { pool: self, session: self.take().filter(|session| !session.is_closed()) };
        let is_old = lent.session.is_some();
        let mut found = lent.use_it(shared, &read);
        let again = match &found {
            Err(Error::Lost(_)) => is_old,
            Err(error) => error.has_code(LOST_MARK),
            Ok(_) => false,
        };
        if again {
            lent.session = None;
            found = lent.use_it(shared, &read);
        }
        if found.is_err() {
            // A transaction may be open on it.
            lent.session = None;
        }
        found
    }
}

type Result<T, E = StoreError> = std::result::Result<T, E>;
/// How a session reads on one snapshot.
type Ask = fn(&Session, &str, Vec<Statement>) -> Result<Vec<Vec<Row>>, Error>;

/// Goes back to the pool whatever happens.
struct Lent<'a> {
    pool: &'a Pool,
    session: Option<Session>,
}

impl Lent<'_> {
    fn use_it<T>(&mut self, shared: &Shared, read: impl Fn(&Session) -> Result<T, Error>) -> Result<T, Error> {
        let session = match self.session.take() {
            Some(session) => session,
            None => shared.connect()?,
        };
        read(self.session.insert(session))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.pool.give(self.session.take());
    }
}

impl PostgresStore {
    pub(crate) fn checked<T>(&self, found: Result<T, Error>) -> Result<T> {
        found.map_err(|error| {
            let error = classify(&error);
            if error.is_fatal() {
                // Damage seen by a reader is damage: nothing more may be written on top of it.
                self.shared.health.poison(&error);
            }
            error
        })
    }

    /// Runs a script that only reads, on rows of one snapshot. If it misses something, all is read again.
    pub(crate) fn on_snapshot<T>(
        &self,
        first: impl FnOnce(&mut Wants),
        read: impl Fn(&mut dyn Tx) -> Result<T>,
    ) -> Result<T> {
        let mut wants = Wants::default();
        first(&mut wants);
        loop {
            let mut set = Set::read_only(self.now());
            if !wants.is_empty() {
                let looked = self.pool.with(&self.shared, |session| look(session, &self.shared, &wants));
                for (part, rows) in self.checked(looked)? {
                    self.checked(fetch::take_in(&mut set, part, &rows))?;
                }
                fetch::settle(&mut set, &wants);
            }
            match set.apply(&read) {
                Some(answer) => return answer,
                None => wants.merge(set.take_missing()),
            }
        }
    }

    pub(crate) fn all<T>(
        &self,
        sql: &str,
        values: impl Fn() -> Vec<Val<'static>>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>> {
        self.asked(Session::snapshot, sql, values, read)
    }

    /// As `all`, of rows that are found by their key: how they are found does not depend on what is looked for.
    pub(crate) fn keyed<T>(
        &self,
        sql: &str,
        values: impl Fn() -> Vec<Val<'static>>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>> {
        self.asked(Session::glance, sql, values, read)
    }

    fn asked<T>(
        &self,
        ask: Ask,
        sql: &str,
        values: impl Fn() -> Vec<Val<'static>>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>> {
        let found = self.pool.with(&self.shared, |session| {
            let rows = ask(session, &self.shared.begin_read, vec![Statement::new(sql, values())])?;
            rows[0].iter().map(&read).collect::<Result<Vec<T>, Error>>()
        });
        self.checked(found)
    }

    pub(crate) fn one<T>(
        &self,
        sql: &str,
        values: impl Fn() -> Vec<Val<'static>>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Option<T>> {
        Ok(self.keyed(sql, values, read)?.pop())
    }

    /// Twins are answered before their rows are written; whoever asks for the rows sees them all the same.
    fn settle(&self) {
        self.shared.queues.iter().for_each(|queue| queue.settle());
    }

    /// Shows one snapshot; it lasts as long as the look.
    pub(crate) fn held<T>(&self, look: impl Fn(&Session) -> Result<T, Error>) -> Result<T, Error> {
        self.pool.with(&self.shared, |session| {
            session.fly(vec![Call::Text(self.shared.begin_read.clone())]).rows()?;
            let seen = look(session)?;
            session.fly(vec![Call::Text("COMMIT".into())]).rows()?;
            Ok(seen)
        })
    }
}

pub fn look(session: &Session, shared: &Shared, wants: &Wants) -> Result<Vec<(Part, Vec<Row>)>, Error> {
    let (parts, statements): (Vec<Part>, Vec<Statement>) =
        fetch::round(&Set::default(), wants, Mode::Look).into_iter().unzip();
    Ok(parts.into_iter().zip(session.glance(&shared.begin_read, statements)?).collect())
}

fn ws(workspace: &WorkspaceId) -> Val<'static> {
    text(&workspace.0)
}

/// A value that outlives what it was made of.
pub fn text(text: &str) -> Val<'static> {
    match Val::text(text) {
        Val::Text(text) => Val::own_opt(text.map(std::borrow::Cow::into_owned)),
        _ => Val::own_opt(None),
    }
}

/// A statement that is put together from filters.
pub struct Filter {
    pub sql: String,
    values: Vec<Param>,
}

/// What a filter compares with.
#[derive(Clone)]
pub enum Param {
    Text(String),
    Int(i64),
    Run(RunId),
    Hash(Hash16),
}

impl Param {
    fn val(&self) -> Val<'static> {
        match self {
            Param::Text(value) => text(value),
            Param::Int(value) => Val::int(*value),
            Param::Run(run) => Val::run(*run),
            Param::Hash(hash) => Val::hash(*hash),
        }
    }
}

impl Filter {
    pub fn new(sql: String, workspace: &WorkspaceId) -> Filter {
        Filter { sql, values: vec![Param::Text(workspace.0.clone())] }
    }

    /// Adds `term`, in which `?` stands for the value.
    pub fn term(&mut self, term: &str, value: Option<Param>) {
        if let Some(value) = value {
            self.values.push(value);
            self.sql += &term.replace('?', &format!("${}", self.values.len()));
        }
    }

    /// Words of ours, never of a user.
    pub fn words(&mut self, column: &str, words: impl Iterator<Item = &'static str>) {
        let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
        if !words.is_empty() {
            self.sql += &format!(" AND {column} IN ({})", words.join(", "));
        }
    }

    pub fn limit(&mut self, order: &str, limit: u32) {
        self.term(&format!(" ORDER BY {order} LIMIT ?"), Some(Param::Int(i64::from(limit))));
    }

    pub fn vals(&self) -> Vec<Val<'static>> {
        self.values.iter().map(Param::val).collect()
    }
}

pub fn whole_columns() -> String {
    let values: Vec<String> = runs::VALUES.columns[2..].iter().map(|(name, _)| format!("v.{name}")).collect();
    format!("{}, {}", runs::RUNS.names("r."), values.join(", "))
}

pub const WHOLE: &str = "runs r JOIN run_values v ON v.ws = r.ws AND v.run = r.id";

pub fn read_whole(row: &Row) -> Result<WholeRun, Error> {
    let head = runs::read(row)?;
    let (values, labels) = runs::read_values(row, runs::HEAD)?;
    Ok((head, values, labels))
}

fn runs_filter(workspace: &WorkspaceId, query: &RunQuery) -> Filter {
    let own = |text: &Option<String>| text.clone().map(Param::Text);
    let sql = format!("SELECT {} FROM {WHOLE} WHERE r.ws = $1", whole_columns());
    let mut filter = Filter::new(sql, workspace);
    for (name, value) in &query.labels {
        filter.term(
            " AND EXISTS (SELECT 1 FROM run_labels l WHERE l.ws = r.ws AND l.run = r.id AND l.name = ?",
            Some(Param::Text(name.clone())),
        );
        filter.term(" AND l.value = ?)", Some(Param::Text(value.clone())));
    }
    filter.term(" AND r.namespace = ?", own(&query.namespace));
    filter.term(" AND r.flow_id = ?", own(&query.flow_id));
    filter.words("r.status", query.statuses.iter().map(|status| status.word()));
    filter.term(" AND r.key = ?", own(&query.key));
    // A run whose correlation id is its own id stores none.
    match query.correlation_id.as_ref().and_then(|wanted| wanted.parse::<RunId>().ok()) {
        Some(id) => {
            filter.term(" AND (r.correlation_id = ?", own(&query.correlation_id));
            filter.term(" OR (r.correlation_id IS NULL AND r.id = ?))", Some(Param::Run(id)));
        }
        None => filter.term(" AND r.correlation_id = ?", own(&query.correlation_id)),
    }
    filter.term(" AND r.parent = ?", query.parent.map(Param::Run));
    filter.term(" AND r.created_at >= ?", query.created_from.map(|at| Param::Int(at.0)));
    filter.term(" AND r.created_at < ?", query.created_to.map(|at| Param::Int(at.0)));
    filter.term(" AND r.id < ?", query.before.map(Param::Run));
    filter.limit("r.id DESC", query.limit);
    filter
}

fn decisions_filter(workspace: &WorkspaceId, query: &DecisionQuery) -> Filter {
    let sql = format!("SELECT {} FROM decisions WHERE ws = $1", decisions::columns());
    let mut filter = Filter::new(sql, workspace);
    filter.term(" AND run = ?", query.run.map(Param::Run));
    filter.term(" AND claim = ?", query.claim.map(Param::Hash));
    filter.term(" AND key = ?", query.key.clone().map(Param::Text));
    filter.term(" AND namespace = ?", query.flow.as_ref().map(|flow| Param::Text(flow.namespace.clone())));
    filter.term(" AND flow_id = ?", query.flow.as_ref().map(|flow| Param::Text(flow.id.clone())));
    filter.words("decision", query.decisions.iter().map(|decision| decision.word()));
    filter.term(" AND seq < ?", query.before.map(|before| Param::Int(semel_store::codec::int(before))));
    filter.limit("seq DESC", query.limit);
    filter
}

fn claims_filter(workspace: &WorkspaceId, query: &ClaimQuery) -> Filter {
    let mut filter = Filter::new(format!("SELECT {} FROM claims WHERE ws = $1", claims::CLAIMS.names("")), workspace);
    filter.term(" AND key = ?", query.key.clone().map(Param::Text));
    filter.term(" AND scope = ?", query.scope.clone().map(Param::Text));
    filter.term(" AND run = ?", query.run.map(Param::Run));
    filter.words("state", query.states.iter().map(|state| state.word()));
    filter.term(" AND hash > ?", query.after.map(Param::Hash));
    filter.limit("hash", query.limit);
    filter
}

/// A timer is fired by the node that drives the run, or else by the one that set it. If that one is gone the living
/// share, and after a while anybody may: only one of them gets its commit through.
const DUE_TIMERS: &str = "SELECT t.ws, t.run, t.timer, t.due FROM timers t LEFT JOIN runs r ON r.ws = t.ws AND r.id = t.run \
    WHERE t.due <= $1 AND (r.owner = $3 OR (r.owner IS NULL AND (t.node = $3 OR (t.node NOT IN \
    (SELECT epoch FROM nodes WHERE NOT fenced) AND (t.due < $1 - 5000 OR abs(hashtext(t.run::text)::bigint) \
    % (SELECT greatest(count(*), 1) FROM nodes WHERE NOT fenced) \
    = (SELECT count(*) FROM nodes WHERE NOT fenced AND epoch < $3)))))) \
    ORDER BY t.due, t.ws, t.run, t.timer LIMIT $2";
const NEWEST: &str = "NOT f.deleted AND NOT EXISTS (SELECT 1 FROM flows n WHERE n.ws = f.ws AND n.namespace = f.namespace AND n.id = f.id \
    AND n.revision > f.revision)";

impl Reads for PostgresStore {
    fn load_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<LoadedRun>> {
        let found = self.pool.with(&self.shared, |session| {
            let key = || vec![Val::ws(workspace), Val::run(id)];
            let head = format!("SELECT {} FROM {WHOLE} WHERE r.ws = $1 AND r.id = $2", whole_columns());
            let snapshot = format!("SELECT {} FROM snapshots WHERE ws = $1 AND run = $2", history::SNAPSHOTS.names(""));
            let inbox =
                format!("SELECT {} FROM inbox WHERE ws = $1 AND run = $2 ORDER BY seq", history::MESSAGES.names(""));
            let statements = [head, snapshot, inbox].map(|sql| Statement::new(sql, key()));
            let rows = session.glance(&self.shared.begin_read, statements.into())?;
            let Some(head) = rows[0].first() else { return Ok(None) };
            let (row, _, labels) = read_whole(head)?;
            let own = self.shared.lease.life().epoch;
            let elsewhere = runs::owner(head)?.is_some_and(|owner| owner != own);
            let snapshot = rows[1].first().map(history::read_snapshot).transpose()?;
            let inbox = rows[2].iter().map(|row| history::read_message(row).map(|(_, _, seq, message)| (seq, message)));
            let inbox = inbox.collect::<Result<_, Error>>()?;
            let snapshot = snapshot.filter(|snapshot| snapshot.format == SNAPSHOT_VERSION);
            Ok(Some(LoadedRun { row, snapshot, labels, inbox, elsewhere }))
        });
        self.checked(found)
    }
    fn run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<WholeRun>> {
        let sql = format!("SELECT {} FROM {WHOLE} WHERE r.ws = $1 AND r.id = $2", whole_columns());
        self.one(&sql, || vec![ws(workspace), Val::run(id)], read_whole)
    }
    fn runs_named(&self, workspace: &WorkspaceId, ids: &[RunId]) -> Result<Vec<WholeRun>> {
        let sql =
            format!("SELECT {} FROM {WHOLE} WHERE (r.ws, r.id) IN (SELECT * FROM unnest($1, $2))", whole_columns());
        let found = self.pool.with(&self.shared, |session| {
            let keys = Rows::of_ids(ids.iter().map(|id| (workspace, id.0)));
            let rows = session.glance(&self.shared.begin_read, vec![keys.statement(sql.as_str())])?;
            rows[0].iter().map(read_whole).collect::<Result<Vec<WholeRun>, Error>>()
        });
        self.checked(found)
    }
    fn runs(&self, workspace: &WorkspaceId, query: &RunQuery) -> Result<Vec<WholeRun>> {
        let filter = runs_filter(workspace, query);
        self.all(&filter.sql, || filter.vals(), read_whole)
    }
    fn search_runs(&self, workspace: &WorkspaceId, query: &search::RunSearch) -> Result<(Vec<WholeRun>, u64)> {
        let looked = self.pool.with(&self.shared, |session| found::page(session, &self.shared, workspace, query));
        self.checked(looked)
    }
    fn flows_with_runs(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>> {
        let sql = "SELECT DISTINCT namespace, flow_id FROM runs WHERE ws = $1";
        self.all(sql, || vec![ws(workspace)], found::read_flow)
    }
    fn journal(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>> {
        let sql = format!(
            "SELECT {} FROM journal WHERE ws = $1 AND run = $2 AND seq > $3 ORDER BY seq LIMIT $4",
            history::JOURNAL.names("")
        );
        let key = || vec![ws(workspace), Val::run(id), Val::number(after), Val::int(limit)];
        self.keyed(&sql, key, history::read_journal)
    }
    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
        let sql = format!(
            "SELECT {} FROM logs WHERE ws = $1 AND run = $2 AND seq > $3 ORDER BY seq LIMIT $4",
            history::LOGS.names("")
        );
        self.all(&sql, || vec![ws(workspace), Val::run(id), Val::number(after), Val::int(limit)], history::read_log)
    }
    fn log_search(&self, workspace: &WorkspaceId, query: &LogQuery) -> Result<(Vec<(FlowRef, LogRow)>, u64)> {
        self.search_logs(workspace, query)
    }
    fn errand(&self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>> {
        let sql = format!("SELECT {} FROM errands WHERE ws = $1 AND id = $2", errands::ERRANDS.names(""));
        self.one(&sql, || vec![ws(workspace), Val::hash(id)], |row| Ok(errands::read(row)?.1))
    }
    fn errands_of(&self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>> {
        let sql = format!("SELECT {} FROM errands WHERE ws = $1 AND run = $2 ORDER BY id", errands::ERRANDS.names(""));
        self.keyed(&sql, || vec![ws(workspace), Val::run(run)], |row| Ok(errands::read(row)?.1))
    }
    fn errands(
        &self,
        workspace: &WorkspaceId,
        kind: ErrandKind,
        after: Option<Hash16>,
        limit: u32,
    ) -> Result<Vec<ErrandRow>> {
        let sql = format!(
            "SELECT {} FROM errands WHERE ws = $1 AND open AND kind = $2 AND ($3::uuid IS NULL OR id > $3) \
             ORDER BY id LIMIT $4",
            errands::ERRANDS.names("")
        );
        let values = || vec![ws(workspace), text(kind.word()), Val::hash_opt(after), Val::int(limit)];
        self.all(&sql, values, |row| Ok(errands::read(row)?.1))
    }
    fn has_free_errand(&self, workspace: &WorkspaceId, from: &ErrandQueue) -> Result<bool> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM errands WHERE ws = $1 AND queue = $2 AND domain = $3 AND open \
                   AND NOT taken AND kind = 'simple' AND free_at <= $4 LIMIT 1) AS found";
        let now = self.now();
        let values = || vec![ws(workspace), text(&from.queue), text(&from.domain), Val::int(now.0)];
        let count: Option<u64> = self.one(sql, values, |row| row.number(0))?;
        Ok(count.is_some_and(|count| count > 0))
    }
    fn errand_counts(&self, workspace: &WorkspaceId) -> Result<Vec<(ErrandQueue, u64, u64)>> {
        let sql = "SELECT queue, domain, count(*) FILTER (WHERE NOT taken), count(*) FILTER (WHERE taken) FROM errands \
                   WHERE ws = $1 AND open GROUP BY queue, domain ORDER BY queue, domain";
        self.all(
            sql,
            || vec![ws(workspace)],
            |row| {
                let queue = ErrandQueue { queue: row.text(0)?, domain: row.text(1)? };
                Ok((queue, row.number(2)?, row.number(3)?))
            },
        )
    }
    fn next_errand(&self) -> Result<Option<Millis>> {
        let sql = "SELECT min(due) FROM errands WHERE due IS NOT NULL";
        Ok(self.one(sql, Vec::new, |row| row.millis_opt(0))?.flatten())
    }
    fn effects(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<EffectRow>> {
        let names = history::EFFECTS.names("");
        let sql = format!("SELECT {names} FROM effects WHERE ws = $1 AND run = $2 ORDER BY at, step_id");
        self.all(&sql, || vec![ws(workspace), Val::run(id)], history::read_effect)
    }
    fn decisions(&self, workspace: &WorkspaceId, query: &DecisionQuery) -> Result<Vec<DecisionRow>> {
        self.settle();
        let filter = decisions_filter(workspace, query);
        self.all(&filter.sql, || filter.vals(), decisions::read)
    }
    fn claims(&self, workspace: &WorkspaceId, query: &ClaimQuery) -> Result<Vec<Claim>> {
        let filter = claims_filter(workspace, query);
        self.all(&filter.sql, || filter.vals(), |row| Ok(claims::read(row)?.1))
    }
    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        let sql = format!("SELECT {} FROM claims WHERE ws = $1 AND hash = $2", claims::CLAIMS.names(""));
        self.one(&sql, || vec![ws(workspace), Val::hash(hash)], |row| Ok(claims::read(row)?.1))
    }
    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: Option<u32>) -> Result<Option<FlowRow>> {
        let sql = format!(
            "SELECT {} FROM flows WHERE ws = $1 AND namespace = $2 AND id = $3 AND ($4::bigint IS NULL OR revision = $4) \
             ORDER BY revision DESC LIMIT 1",
            admin::FLOWS.names("")
        );
        let wanted = revision.map(i64::from);
        let values = || vec![ws(workspace), text(&flow.namespace), text(&flow.id), Val::Int(wanted)];
        let found = self.one(&sql, values, admin::read_flow)?;
        Ok(found.filter(|row| revision.is_some() || !row.deleted))
    }
    fn flow_revisions(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<FlowRow>> {
        let names = admin::FLOWS.names("");
        let sql = format!("SELECT {names} FROM flows WHERE ws = $1 AND namespace = $2 AND id = $3 ORDER BY revision");
        self.all(&sql, || vec![ws(workspace), text(&flow.namespace), text(&flow.id)], admin::read_flow)
    }
    fn flows(&self, workspace: &WorkspaceId, after: Option<&FlowRef>, limit: u32) -> Result<Vec<FlowRow>> {
        // No flow has an empty namespace and an empty id, so this pair is before all of them.
        let (namespace, id) = after.map_or(("", ""), |flow| (&flow.namespace, &flow.id));
        let sql = format!(
            "SELECT {} FROM flows f WHERE f.ws = $1 AND (f.namespace, f.id) > ($2, $3) AND {NEWEST} \
             ORDER BY f.namespace, f.id LIMIT $4",
            admin::FLOWS.names("f.")
        );
        self.all(&sql, || vec![ws(workspace), text(namespace), text(id), Val::int(limit)], admin::read_flow)
    }
    fn flows_named(&self, workspace: &WorkspaceId, id: &str) -> Result<Vec<FlowRow>> {
        let names = admin::FLOWS.names("f.");
        let sql =
            format!("SELECT {names} FROM flows f WHERE f.ws = $1 AND f.id = $2 AND {NEWEST} ORDER BY f.namespace");
        self.all(&sql, || vec![ws(workspace), text(id)], admin::read_flow)
    }
    fn flow_names(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>> {
        let sql = "SELECT DISTINCT namespace, id FROM flows WHERE ws = $1 ORDER BY namespace, id";
        self.all(sql, || vec![ws(workspace)], |row| Ok(FlowRef { namespace: row.text(0)?, id: row.text(1)? }))
    }
    fn kv_namespaces(&self, workspace: &WorkspaceId) -> Result<Vec<String>> {
        let sql = "SELECT DISTINCT namespace FROM kv WHERE ws = $1 ORDER BY namespace";
        self.all(sql, || vec![ws(workspace)], |row| row.text(0))
    }
    fn kv(&self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
        let names = admin::KV.names("");
        let sql = format!("SELECT {names} FROM kv WHERE ws = $1 AND namespace = $2 AND key = $3");
        self.one(&sql, || vec![ws(workspace), text(namespace), text(key)], |row| Ok(admin::read_kv(row)?.1))
    }
    fn file(&self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>> {
        let sql = format!("SELECT {} FROM files WHERE ws = $1 AND run = $2 AND path = $3", files::FILES.names(""));
        self.one(&sql, || vec![ws(workspace), Val::run(run), text(path)], files::read_file)
    }
    fn files(&self, workspace: &WorkspaceId, run: RunId, after: Option<&str>, limit: u32) -> Result<Vec<FileRow>> {
        let names = files::FILES.names("");
        let sql = format!("SELECT {names} FROM files WHERE ws = $1 AND run = $2 AND path > $3 ORDER BY path LIMIT $4");
        let values = || vec![ws(workspace), Val::run(run), text(after.unwrap_or_default()), Val::int(limit)];
        self.all(&sql, values, files::read_file)
    }
    fn file_chunk(&self, workspace: &WorkspaceId, run: RunId, file: Hash16, number: u32) -> Result<Option<Vec<u8>>> {
        let names = files::CHUNKS.names("");
        let sql = format!("SELECT {names} FROM file_chunks WHERE ws = $1 AND run = $2 AND file = $3 AND number = $4");
        let values = || vec![ws(workspace), Val::run(run), Val::hash(file), Val::int(number)];
        self.one(&sql, values, |row| Ok(files::read_chunk(row)?.1))
    }
    fn kv_list(&self, workspace: &WorkspaceId, namespace: &str, after: Option<&str>, limit: u32) -> Result<Vec<KvRow>> {
        let sql = format!("SELECT {} FROM kv WHERE ws = $1", admin::KV.names(""));
        let mut filter = Filter::new(sql, workspace);
        filter.term(" AND namespace = ?", Some(Param::Text(namespace.to_owned())));
        filter.term(" AND key > ?", after.map(|after| Param::Text(after.to_owned())));
        filter.limit("key", limit);
        self.all(&filter.sql, || filter.vals(), |row| Ok(admin::read_kv(row)?.1))
    }
    fn secret(&self, workspace: &WorkspaceId, name: &str, version: Option<u64>) -> Result<Option<SecretRow>> {
        let sql = format!(
            "SELECT {} FROM secrets WHERE ws = $1 AND name = $2 AND (version = $3 OR ($3::bigint IS NULL AND NOT retired)) \
             ORDER BY version DESC LIMIT 1",
            admin::SECRETS.names("")
        );
        let version = version.map(semel_store::codec::int);
        self.one(&sql, || vec![ws(workspace), text(name), Val::Int(version)], admin::read_secret)
    }
    fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
        let sql = format!(
            "SELECT DISTINCT ON (name) {} FROM secrets WHERE ws = $1 AND NOT retired ORDER BY name, version DESC",
            admin::SECRETS.names("")
        );
        self.all(&sql, || vec![ws(workspace)], admin::read_secret)
    }
    fn token(&self, id: &str) -> Result<Option<TokenRow>> {
        let sql = format!("SELECT {} FROM tokens WHERE id = $1", admin::TOKENS.names(""));
        self.one(&sql, || vec![text(id)], admin::read_token)
    }
    fn tokens(&self, workspace: &WorkspaceId) -> Result<Vec<TokenRow>> {
        let sql = format!("SELECT {} FROM tokens WHERE ws = $1 ORDER BY id", admin::TOKENS.names(""));
        self.all(&sql, || vec![ws(workspace)], admin::read_token)
    }
    fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.all("SELECT ws, created_at FROM workspaces ORDER BY ws", Vec::new, admin::read_workspace)
    }
    fn active_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        let sql = "SELECT ws, id FROM runs WHERE owner = $3 AND ($1::uuid IS NULL OR id > $1) ORDER BY id, ws LIMIT $2";
        let own = self.shared.lease.life().epoch;
        let values = || vec![Val::run_opt(after), Val::int(limit), Val::int(own)];
        self.all(sql, values, |row| Ok((row.ws(0)?, row.run(1)?)))
    }
    fn due_timers(&self, now: Millis, limit: u32) -> Result<Vec<TimerRow>> {
        let own = self.shared.lease.life().epoch;
        self.all(DUE_TIMERS, || vec![Val::at(now), Val::int(limit), Val::int(own)], history::read_timer)
    }
    fn next_timer(&self) -> Result<Option<Millis>> {
        Ok(self.one("SELECT min(due) FROM timers", Vec::new, |row| row.millis_opt(0))?.flatten())
    }
    fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleRow>> {
        let sql = format!(
            "SELECT {} FROM schedules WHERE next_due <= $1 ORDER BY next_due, ws, namespace, flow_id, trigger LIMIT $2",
            admin::SCHEDULES.names("")
        );
        self.all(&sql, || vec![Val::at(now), Val::int(limit)], admin::read_schedule)
    }
    fn next_schedule(&self) -> Result<Option<Millis>> {
        Ok(self.one("SELECT min(next_due) FROM schedules", Vec::new, |row| row.millis_opt(0))?.flatten())
    }
    fn schedules(&self, workspace: &WorkspaceId) -> Result<Vec<ScheduleRow>> {
        let names = admin::SCHEDULES.names("");
        let sql = format!("SELECT {names} FROM schedules WHERE ws = $1 ORDER BY namespace, flow_id, trigger");
        self.all(&sql, || vec![ws(workspace)], admin::read_schedule)
    }
    fn changes(&self, before: Millis, limit: u32) -> Result<Vec<ChangeRow>> {
        let names = admin::CHANGES.names("");
        let sql = format!("SELECT {names} FROM changes WHERE at <= $1 ORDER BY at, ws, run, version LIMIT $2");
        self.all(&sql, || vec![Val::at(before), Val::int(limit)], admin::read_change)
    }
    fn dump(&self) -> Result<Json> {
        self.settle();
        self.checked(self.held(dump::dump))
    }
    fn audit(&self, look: &mut dyn FnMut(&dyn Audit) -> Result<()>) -> Result<()> {
        // Looked at once: what the checker has counted cannot be counted again, so a lost connection is its error too.
        let look = std::cell::RefCell::new(look);
        let answer = self.held(|session| Ok((look.borrow_mut())(&Snapshot { session })));
        answer.map_err(|error| classify(&error))?
    }
}
