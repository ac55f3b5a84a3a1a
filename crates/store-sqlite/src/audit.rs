//! The whole of a file on one snapshot, for the checker. Nothing here writes.

use crate::classify::classify;
use crate::codec::{Columns, int};
use crate::names::Cx;
use crate::tables::{admin, claims, decisions, errands, history, runs};
use rusqlite::{OptionalExtension, Result as Sql, Row as SqlRow, params};
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::check::{Audit, Row, Seen, Span, Table, damaged_row};
use semel_store::memory::forget_at;
use semel_store::*;

pub struct Snapshot<'a, 'c> {
    pub cx: &'a Cx<'c>,
}

/// Sorts before every key.
const LOWEST: Vec<u8> = Vec::new();

/// Sorts after every key of 16 bytes.
fn highest() -> Vec<u8> {
    vec![u8::MAX; 17]
}

fn seen<T>(table: &str, row: Sql<T>) -> Seen<T> {
    row.map_err(|error| damaged_row(table, error))
}

impl Snapshot<'_, '_> {
    /// A workspace nobody wrote to has no rows.
    fn of<T: Default>(&self, workspace: &WorkspaceId, read: impl FnOnce(&Cx, i64) -> Sql<T>) -> Result<T> {
        let found = || match self.cx.ws(workspace)? {
            Some(ws) => read(self.cx, ws),
            None => Ok(T::default()),
        };
        found().map_err(|error| classify(&error))
    }

    fn scan<T>(
        &self,
        workspace: &WorkspaceId,
        sql: &str,
        span: (Vec<u8>, Vec<u8>),
        read: impl Fn(&SqlRow) -> Sql<T>,
        see: &mut dyn FnMut(Sql<T>),
    ) -> Result<()> {
        self.of(workspace, |cx, ws| cx.each(sql, params![ws, span.0, span.1], read, see))
    }
}

fn bounds(span: Span<RunId>) -> (Vec<u8>, Vec<u8>) {
    let bytes = |id: RunId| id.as_bytes().to_vec();
    (span.after.map_or(LOWEST, bytes), span.upto.map_or_else(highest, bytes))
}

/// A label is found by an index of its own, which must know every run that has it.
fn labels_are_indexed(cx: &Cx, ws: i64, (row, _, labels): &WholeRun) -> Sql<bool> {
    for (name, value) in labels {
        let sql = "SELECT 1 FROM run_labels WHERE ws = ?1 AND name = ?2 AND value = ?3 AND run = ?4";
        if cx.one(sql, params![ws, name, value, row.id.as_bytes()], |_| Ok(()))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_claim(cx: &Cx, ws: i64, row: &SqlRow) -> Sql<Seen<Claim>> {
    let claim = match claims::read(cx, row) {
        Ok(claim) => claim,
        Err(error) => return Ok(Err(damaged_row("claims", error))),
    };
    let (forget, odd): (Option<i64>, bool) = (row.get(11)?, row.get(12)?);
    let fits = forget == forget_at(&claim).map(|at| at.0)
        && odd == claims::is_odd(&cx.ws_name(ws)?, &claim.scope, claim.key.as_deref(), claim.hash);
    Ok(if fits { Ok(claim) } else { Err("what its indexes go by is not what it says".to_owned()) })
}

impl Audit for Snapshot<'_, '_> {
    fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        let sql = "SELECT name FROM workspaces ORDER BY name";
        self.cx.all(sql, [], |row| Ok(WorkspaceId(row.get(0)?))).map_err(|error| classify(&error))
    }

    fn runs(&self, workspace: &WorkspaceId, after: Option<RunId>, limit: u32) -> Result<Vec<(RunId, Seen<WholeRun>)>> {
        let sql = format!(
            "SELECT {}, {} FROM runs r LEFT JOIN run_values v ON v.num = r.num LEFT JOIN run_results e ON e.num = r.num \
             WHERE r.ws = ?1 AND r.id > ?2 ORDER BY r.id LIMIT ?3",
            runs::HEAD,
            runs::VALUES
        );
        let after = after.map_or(LOWEST, |id| id.as_bytes().to_vec());
        self.of(workspace, |cx, ws| {
            cx.ask(&sql, params![ws, after, limit], |row| {
                let id = row.run(1)?;
                let whole = match runs::read_whole(cx, row) {
                    Ok(whole) if labels_are_indexed(cx, ws, &whole)? => Ok(whole),
                    Ok(_) => Err("a label of the run is not in the index of labels".to_owned()),
                    Err(error) => Err(damaged_row("runs", error)),
                };
                Ok((id, whole))
            })
        })
    }

    fn rows(
        &self,
        workspace: &WorkspaceId,
        table: Table,
        span: Span<RunId>,
        see: &mut dyn FnMut(Seen<Row>),
    ) -> Result<()> {
        let span = bounds(span);
        let see = &mut |row: Sql<Row>| see(seen(table.word(), row));
        match table {
            Table::Snapshots => self.scan(
                workspace,
                "SELECT run, version, format, state, digest FROM snapshots WHERE ws = ?1 AND run > ?2 AND run <= ?3 ORDER BY run",
                span,
                |row| history::read_snapshot(row).map(Row::Snapshot),
                see,
            ),
            Table::Journal => self.scan(
                workspace,
                "SELECT run, seq, at, format, events, vals, digest FROM journal \
                 WHERE ws = ?1 AND run > ?2 AND run <= ?3 ORDER BY run, seq",
                span,
                |row| history::read_journal(row).map(Row::Journal),
                see,
            ),
            Table::Timers => self.scan(
                workspace,
                "SELECT w.name, t.run, t.timer, t.due FROM timers t JOIN workspaces w ON w.ws = t.ws \
                 WHERE t.ws = ?1 AND t.run > ?2 AND t.run <= ?3 ORDER BY t.run, t.timer",
                span,
                |row| history::read_timer(row).map(Row::Timer),
                see,
            ),
            Table::Errands => self.scan(
                workspace,
                &format!("SELECT {} FROM errands WHERE ws = ?1 AND run > ?2 AND run <= ?3 ORDER BY run, id", errands::COLUMNS),
                span,
                |row| errands::read(row).map(|row| Row::Errand(Box::new(row))),
                see,
            ),
            Table::Effects => self.scan(
                workspace,
                "SELECT run, step_id, step, class, state, attempt, sends, out_key, safe_until, at FROM effects \
                 WHERE ws = ?1 AND run > ?2 AND run <= ?3 ORDER BY run, step_id",
                span,
                |row| history::read_effect(row).map(Row::Effect),
                see,
            ),
            Table::Inbox => self.scan(
                workspace,
                "SELECT run, seq, message FROM inbox WHERE ws = ?1 AND run > ?2 AND run <= ?3 ORDER BY run, seq",
                span,
                |row| Ok(Row::Inbox(row.run(0)?, row.number(1)?, row.json(2)?)),
                see,
            ),
            Table::Decisions => self.scan(
                workspace,
                &format!("SELECT {} FROM decisions WHERE ws = ?1 AND run > ?2 AND run <= ?3 ORDER BY run, seq", decisions::COLUMNS),
                span,
                |row| decisions::read(self.cx, row).map(|row| Row::Decision(Box::new(row))),
                see,
            ),
        }
    }

    fn claims(&self, workspace: &WorkspaceId, after: Option<Hash16>, limit: u32) -> Result<Vec<(Hash16, Seen<Claim>)>> {
        let sql = format!(
            "SELECT {}, forget_at, odd FROM claims WHERE ws = ?1 AND hash > ?2 ORDER BY hash LIMIT ?3",
            claims::COLUMNS
        );
        let after = after.map_or(LOWEST, |hash| hash.0.to_vec());
        self.of(workspace, |cx, ws| {
            cx.ask(&sql, params![ws, after, limit], |row| Ok((row.hash(0)?, read_claim(cx, ws, row)?)))
        })
    }

    fn decisions_of_claims(
        &self,
        workspace: &WorkspaceId,
        span: Span<Hash16>,
        see: &mut dyn FnMut(Seen<DecisionRow>),
    ) -> Result<()> {
        let bytes = |hash: Hash16| hash.0.to_vec();
        let span = (span.after.map_or(LOWEST, bytes), span.upto.map_or_else(highest, bytes));
        let sql = format!(
            "SELECT {} FROM decisions WHERE ws = ?1 AND claim > ?2 AND claim <= ?3 ORDER BY claim, seq",
            decisions::COLUMNS
        );
        let read = |row: &SqlRow| decisions::read(self.cx, row);
        self.scan(workspace, &sql, span, read, &mut |row| see(seen("decisions", row)))
    }

    fn decisions_without_run(&self, workspace: &WorkspaceId, see: &mut dyn FnMut(Seen<DecisionRow>)) -> Result<()> {
        let sql = format!("SELECT {} FROM decisions WHERE ws = ?1 AND run IS NULL", decisions::COLUMNS);
        self.of(workspace, |cx, ws| {
            cx.each(&sql, [ws], |row| decisions::read(cx, row), |row| see(seen("decisions", row)))
        })
    }

    fn restored(&self) -> Result<Option<RestoredRow>> {
        admin::restored(self.cx).map_err(|error| classify(&error))
    }

    fn oldest_decision(&self) -> Result<Option<(u64, Millis)>> {
        let sql = "SELECT seq, at FROM decisions ORDER BY seq LIMIT 1";
        self.cx.one(sql, [], |row| Ok((row.number(0)?, row.millis(1)?))).map_err(|error| classify(&error))
    }

    fn lanes(&self, workspace: &WorkspaceId) -> Result<Vec<Hash16>> {
        let sql = "SELECT hash FROM lanes WHERE ws = ?1 UNION SELECT hash FROM lane_queue WHERE ws = ?1 ORDER BY hash";
        self.of(workspace, |cx, ws| cx.all(sql, [ws], |row| row.hash(0)))
    }

    fn lane(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane> {
        self.of(workspace, |cx, ws| claims::lane(cx, ws, hash))
    }
    fn line(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Vec<RunId>> {
        self.of(workspace, |cx, ws| claims::queue(cx, ws, hash, u32::MAX))
    }
    fn head(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        Ok(self.of(workspace, |cx, ws| runs::get(cx, ws, id))?.map(|(_, row)| row))
    }
    fn inbox(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<(u64, Inbox)>> {
        self.of(workspace, |cx, ws| history::inbox(cx, ws, id))
    }
    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        self.of(workspace, |cx, ws| claims::get(cx, ws, hash))
    }
    fn claims_of_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<Claim>> {
        self.of(workspace, |cx, ws| claims::of_run(cx, ws, id))
    }
    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: u32) -> Result<Option<FlowRow>> {
        self.of(workspace, |cx, ws| admin::flow(cx, ws, flow, Some(revision)))
    }
    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
        self.of(workspace, |cx, ws| history::logs(cx, ws, id, after, limit))
    }
}

/// Tables whose rows are read by workspace, and would not be met if theirs were not there.
const OF_WORKSPACES: [&str; 19] = [
    "runs",
    "claims",
    "journal",
    "snapshots",
    "timers",
    "errands",
    "effects",
    "task_words",
    "logs",
    "inbox",
    "lanes",
    "lane_queue",
    "kv",
    "flows",
    "run_labels",
    "files",
    "file_chunks",
    "uploads",
    "changes",
];

/// What the checker of rows cannot see: pages, indexes, numbers that rows share. `full` compares
/// every index with its table, which takes as long as reading the file several times.
pub fn file_findings(cx: &Cx, full: bool) -> Sql<Vec<String>> {
    let mut found = Vec::new();
    let pragma = if full { "PRAGMA integrity_check(100)" } else { "PRAGMA quick_check(100)" };
    for text in cx.all(pragma, [], |row| row.get::<_, String>(0))? {
        if text != "ok" {
            found.push(format!("SQLite finds: {text}"));
        }
    }
    for table in OF_WORKSPACES {
        for ws in unknown_workspaces(cx, table)? {
            found.push(format!("rows of {table} belong to workspace number {ws}, which is not there"));
        }
    }
    let sql = "SELECT m.last_decision < coalesce((SELECT max(seq) FROM decisions), 0), \
               m.last_inbox < coalesce((SELECT max(seq) FROM inbox), 0) FROM meta m WHERE m.id = 1";
    match cx.one(sql, [], |row| Ok::<(bool, bool), _>((row.get(0)?, row.get(1)?)))? {
        None => found.push("the row of meta is not there".to_owned()),
        Some((decisions, inbox)) => {
            for (name, behind) in [("decisions", decisions), ("inbox", inbox)] {
                if behind {
                    found.push(format!("a number of {name} is higher than the last one given"));
                }
            }
        }
    }
    for table in ["run_labels", "task_words"] {
        let sql = format!(
            "SELECT count(*) FROM {table} l WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.ws = l.ws AND r.id = l.run)"
        );
        let orphans: i64 = cx.connection.query_row(&sql, [], |row| row.get(0))?;
        if orphans > 0 {
            found.push(format!("{orphans} rows of {table} belong to runs that are not there"));
        }
    }
    Ok(found)
}

/// Steps from one workspace number to the next, which the index makes short.
fn unknown_workspaces(cx: &Cx, table: &str) -> Sql<Vec<i64>> {
    let mut unknown = Vec::new();
    let next = format!("SELECT min(ws) FROM {table} WHERE ws > ?1");
    let mut at = int(0) - 1;
    while let Some(ws) = cx.ask_one(&next, [at], |row| row.get::<_, Option<i64>>(0))?.flatten() {
        let known = cx.connection.query_row("SELECT 1 FROM workspaces WHERE ws = ?1", [ws], |_| Ok(())).optional()?;
        if known.is_none() {
            unknown.push(ws);
        }
        at = ws;
    }
    Ok(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_lies_between_the_bounds() {
        let (low, high) = bounds(Span { after: None, upto: None });
        for id in [[0; 16], [u8::MAX; 16]] {
            assert!(low < id.to_vec() && id.to_vec() < high);
        }
    }
}
