//! The whole of a database on one snapshot, for the checker. Nothing here writes.

use crate::classify::{Error, classify};
use crate::codec::{Columns, Statement, Val, escaped};
use crate::dump::ask;
use crate::reads::{read_whole, whole_columns};
use crate::session::Session;
use crate::tables::{admin, claims, decisions, errands, history, runs};
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::check::{Audit, Row as Seeable, Seen, Span, Table, damaged_row};
use semel_store::memory::forget_at;
use semel_store::*;
use std::collections::BTreeSet;
use tokio_postgres::Row;

pub struct Snapshot<'a> {
    pub session: &'a Session,
}

/// A row that cannot be decoded is a finding; the others are still read.
fn seen<T>(table: &str, row: std::result::Result<T, Error>) -> Seen<T> {
    row.map_err(|error| damaged_row(table, classify(&error)))
}

fn bounds<K>(ws: &WorkspaceId, span: Span<K>, val: impl Fn(Option<K>) -> Val<'static>) -> Vec<Val<'_>> {
    vec![Val::ws(ws), val(span.after), val(span.upto)]
}

impl Snapshot<'_> {
    fn all<T>(
        &self,
        sql: &str,
        values: Vec<Val<'_>>,
        read: impl Fn(&Row) -> std::result::Result<T, Error>,
    ) -> Result<Vec<T>> {
        let found = || ask(self.session, Statement::new(sql, values))?.iter().map(read).collect();
        let found: std::result::Result<Vec<T>, Error> = found();
        found.map_err(|error| classify(&error))
    }

    fn one<T>(
        &self,
        sql: &str,
        values: Vec<Val<'_>>,
        read: impl Fn(&Row) -> std::result::Result<T, Error>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, values, read)?.pop())
    }

    fn scan<T>(
        &self,
        workspace: &WorkspaceId,
        table: Table,
        columns: &str,
        span: Span<RunId>,
        read: impl Fn(&Row) -> std::result::Result<T, Error>,
        see: &mut dyn FnMut(Seen<T>),
    ) -> Result<()> {
        let order = match table {
            Table::Snapshots => "run",
            Table::Journal | Table::Inbox | Table::Decisions => "run, seq",
            Table::Timers => "run, timer",
            Table::Errands => "run, id",
            Table::Effects => "run, step_id",
        };
        let sql = format!(
            "SELECT {columns} FROM {} WHERE ws = $1 AND ($2::uuid IS NULL OR run > $2) AND ($3::uuid IS NULL OR run <= $3) \
             AND run IS NOT NULL ORDER BY {order}",
            table.word()
        );
        let rows = self.all(&sql, bounds(workspace, span, Val::run_opt), |row| Ok(read(row)))?;
        rows.into_iter().for_each(|row| see(seen(table.word(), row)));
        Ok(())
    }
}

/// A label is found by an index of its own, which must know every run that has it, and no other.
fn labels_fit(row: &Row, labels: &[(String, String)]) -> std::result::Result<bool, Error> {
    let indexed: BTreeSet<(String, String)> = row.json(runs::HEAD + 5)?;
    let labels = labels.iter().map(|(name, value)| (escaped(name).into_owned(), escaped(value).into_owned()));
    Ok(labels.collect::<BTreeSet<_>>() == indexed)
}

const INDEXED: &str = "(SELECT coalesce(json_agg(json_build_array(l.name, l.value) ORDER BY l.name, l.value), '[]')::text \
    FROM run_labels l WHERE l.ws = r.ws AND l.run = r.id)";

fn read_run(row: &Row) -> std::result::Result<(RunId, Seen<WholeRun>), Error> {
    let id = row.run(1)?;
    let whole = match read_whole(row) {
        Ok(whole) => match labels_fit(row, &whole.2)? {
            true => Ok(whole),
            false => Err("the labels of the run are not those in the index of labels".to_owned()),
        },
        Err(error) => Err(damaged_row("runs", classify(&error))),
    };
    Ok((id, whole))
}

fn read_claim(row: &Row) -> std::result::Result<(Hash16, Seen<Claim>), Error> {
    let hash = row.hash(1)?;
    let claim = match claims::read(row) {
        Ok((_, claim)) if claims::read_forget_at(row)? == forget_at(&claim).map(|at| at.0) => Ok(claim),
        Ok(_) => Err("what its indexes go by is not what it says".to_owned()),
        Err(error) => Err(damaged_row("claims", classify(&error))),
    };
    Ok((hash, claim))
}

impl Audit for Snapshot<'_> {
    fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        let sql = "SELECT ws FROM workspaces UNION SELECT ws FROM runs UNION SELECT ws FROM claims \
                   UNION SELECT ws FROM journal UNION SELECT ws FROM decisions UNION SELECT ws FROM lanes \
                   UNION SELECT ws FROM lane_queue ORDER BY ws";
        self.all(sql, vec![], |row| row.ws(0))
    }

    fn runs(&self, workspace: &WorkspaceId, after: Option<RunId>, limit: u32) -> Result<Vec<(RunId, Seen<WholeRun>)>> {
        let sql = format!(
            "SELECT {}, {INDEXED} FROM runs r LEFT JOIN run_values v ON v.ws = r.ws AND v.run = r.id \
             WHERE r.ws = $1 AND ($2::uuid IS NULL OR r.id > $2) ORDER BY r.id LIMIT $3",
            whole_columns()
        );
        self.all(&sql, vec![Val::ws(workspace), Val::run_opt(after), Val::int(limit)], read_run)
    }

    fn rows(
        &self,
        workspace: &WorkspaceId,
        table: Table,
        span: Span<RunId>,
        see: &mut dyn FnMut(Seen<Seeable>),
    ) -> Result<()> {
        match table {
            Table::Snapshots => {
                let names = history::SNAPSHOTS.names("");
                self.scan(workspace, table, &names, span, |row| history::read_snapshot(row).map(Seeable::Snapshot), see)
            }
            Table::Journal => {
                let names = history::JOURNAL.names("");
                self.scan(workspace, table, &names, span, |row| history::read_journal(row).map(Seeable::Journal), see)
            }
            Table::Timers => {
                let names = history::TIMERS.names("");
                self.scan(workspace, table, &names, span, |row| history::read_timer(row).map(Seeable::Timer), see)
            }
            Table::Errands => {
                let read = |row: &Row| errands::read(row).map(|(_, row)| Seeable::Errand(Box::new(row)));
                self.scan(workspace, table, &errands::ERRANDS.names(""), span, read, see)
            }
            Table::Effects => {
                let names = history::EFFECTS.names("");
                self.scan(workspace, table, &names, span, |row| history::read_effect(row).map(Seeable::Effect), see)
            }
            Table::Inbox => {
                let read = |row: &Row| {
                    history::read_message(row).map(|(_, run, seq, message)| Seeable::Inbox(run, seq, message))
                };
                self.scan(workspace, table, &history::MESSAGES.names(""), span, read, see)
            }
            Table::Decisions => {
                let read = |row: &Row| decisions::read(row).map(|row| Seeable::Decision(Box::new(row)));
                self.scan(workspace, table, &decisions::columns(), span, read, see)
            }
        }
    }

    fn claims(&self, workspace: &WorkspaceId, after: Option<Hash16>, limit: u32) -> Result<Vec<(Hash16, Seen<Claim>)>> {
        let sql = format!(
            "SELECT {} FROM claims WHERE ws = $1 AND ($2::uuid IS NULL OR hash > $2) ORDER BY hash LIMIT $3",
            claims::CLAIMS.names("")
        );
        self.all(&sql, vec![Val::ws(workspace), Val::hash_opt(after), Val::int(limit)], read_claim)
    }

    fn decisions_of_claims(
        &self,
        workspace: &WorkspaceId,
        span: Span<Hash16>,
        see: &mut dyn FnMut(Seen<DecisionRow>),
    ) -> Result<()> {
        let sql = format!(
            "SELECT {} FROM decisions WHERE ws = $1 AND ($2::uuid IS NULL OR claim > $2) \
             AND ($3::uuid IS NULL OR claim <= $3) AND claim IS NOT NULL ORDER BY claim, seq",
            decisions::columns()
        );
        let rows = self.all(&sql, bounds(workspace, span, Val::hash_opt), |row| Ok(decisions::read(row)))?;
        rows.into_iter().for_each(|row| see(seen("decisions", row)));
        Ok(())
    }

    fn decisions_without_run(&self, workspace: &WorkspaceId, see: &mut dyn FnMut(Seen<DecisionRow>)) -> Result<()> {
        let sql = format!("SELECT {} FROM decisions WHERE ws = $1 AND run IS NULL ORDER BY seq", decisions::columns());
        let rows = self.all(&sql, vec![Val::ws(workspace)], |row| Ok(decisions::read(row)))?;
        rows.into_iter().for_each(|row| see(seen("decisions", row)));
        Ok(())
    }

    fn restored(&self) -> Result<Option<RestoredRow>> {
        self.one(admin::RESTORED, vec![], admin::read_restored)
    }

    fn oldest_decision(&self) -> Result<Option<(u64, Millis)>> {
        let sql = "SELECT seq, at FROM decisions ORDER BY seq LIMIT 1";
        self.one(sql, vec![], |row| Ok((row.number(0)?, row.millis(1)?)))
    }

    fn lanes(&self, workspace: &WorkspaceId) -> Result<Vec<Hash16>> {
        let sql = "SELECT hash FROM lanes WHERE ws = $1 UNION SELECT hash FROM lane_queue WHERE ws = $1 ORDER BY hash";
        self.all(sql, vec![Val::ws(workspace)], |row| row.hash(0))
    }

    fn lane(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane> {
        let sql = "SELECT ws, hash, lane FROM lanes WHERE ws = $1 AND hash = $2";
        let found = self.one(sql, vec![Val::ws(workspace), Val::hash(hash)], claims::read_lane)?;
        Ok(found.map(|(_, _, lane)| lane).unwrap_or_default())
    }

    fn line(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Vec<RunId>> {
        let sql = "SELECT run FROM lane_queue WHERE ws = $1 AND hash = $2 ORDER BY seq";
        self.all(sql, vec![Val::ws(workspace), Val::hash(hash)], |row| row.run(0))
    }

    fn head(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        let sql = format!("SELECT {} FROM runs WHERE ws = $1 AND id = $2", runs::RUNS.names(""));
        self.one(&sql, vec![Val::ws(workspace), Val::run(id)], runs::read)
    }

    fn inbox(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<(u64, Inbox)>> {
        let names = history::MESSAGES.names("");
        let sql = format!("SELECT {names} FROM inbox WHERE ws = $1 AND run = $2 ORDER BY seq");
        let rows = self.all(&sql, vec![Val::ws(workspace), Val::run(id)], history::read_message)?;
        Ok(rows.into_iter().map(|(_, _, seq, message)| (seq, message)).collect())
    }

    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        let sql = format!("SELECT {} FROM claims WHERE ws = $1 AND hash = $2", claims::CLAIMS.names(""));
        self.one(&sql, vec![Val::ws(workspace), Val::hash(hash)], |row| Ok(claims::read(row)?.1))
    }

    fn claims_of_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<Claim>> {
        let names = claims::CLAIMS.names("");
        let sql = format!("SELECT {names} FROM claims WHERE ws = $1 AND run = $2 ORDER BY hash");
        self.all(&sql, vec![Val::ws(workspace), Val::run(id)], |row| Ok(claims::read(row)?.1))
    }

    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: u32) -> Result<Option<FlowRow>> {
        let names = admin::FLOWS.names("");
        let sql = format!("SELECT {names} FROM flows WHERE ws = $1 AND namespace = $2 AND id = $3 AND revision = $4");
        let values = vec![Val::ws(workspace), Val::text(&flow.namespace), Val::text(&flow.id), Val::int(revision)];
        self.one(&sql, values, admin::read_flow)
    }

    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
        let names = history::LOGS.names("");
        let sql = format!("SELECT {names} FROM logs WHERE ws = $1 AND run = $2 AND seq > $3 ORDER BY seq LIMIT $4");
        let values = vec![Val::ws(workspace), Val::run(id), Val::number(after), Val::int(limit)];
        self.all(&sql, values, history::read_log)
    }
}
