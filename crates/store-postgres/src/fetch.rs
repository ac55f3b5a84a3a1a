//! A round of reading: what is wanted, as statements in the one order in which everybody locks.
//!
//! Claims, lanes, kv, heads of runs; each sorted by key. Only then come the rows that these guard: whoever changes the
//! claims, children or messages of a run has its head, and whoever changes a line has its lane, so they are read after
//! the lock is had and need none of their own. Each statement sees what was committed before it began.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Rows, Statement, Table, Val, unnest};
use crate::set::{Care, Set};
use crate::tables::{admin, claims, errands, files, history, runs};
use crate::wants::*;
use semel_core::{FlowRef, Millis, RunId, WorkspaceId};
use semel_store::LogRow;
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

/// What the rows of a statement are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Claims,
    /// Again, under the heads they lead to.
    ClaimsOf,
    Lanes,
    /// Made where there was none.
    LanesMade,
    Kv,
    Files,
    Errands,
    /// Waits for whoever counts the same.
    ErrandsGate,
    ErrandsTaken,
    Runs,
    RunsShared,
    Children,
    Values,
    Inboxes,
    Lines,
    Places,
    Logs,
    Flows,
    Schedules,
    Changes,
    Secrets,
    Tokens,
    Workspaces,
    Ask(Ask),
}

fn of_runs<'a>(keys: impl IntoIterator<Item = &'a RunKey>) -> Rows {
    Rows::of_ids(keys.into_iter().map(|(ws, run)| (ws, run.0)))
}

fn of_hashes<'a>(keys: impl IntoIterator<Item = &'a HashKey>) -> Rows {
    Rows::of_ids(keys.into_iter().map(|(ws, hash)| (ws, Uuid::from_bytes(hash.0))))
}

/// How the rows are to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On a snapshot, for whoever decides nothing that is written.
    Look,
    Lock(Care),
}

/// The statements of a round, in the order in which they must be sent.
pub fn round(set: &Set, wants: &Wants, mode: Mode) -> Vec<(Part, Statement)> {
    let lock = if mode == Mode::Look { "" } else { "FOR UPDATE OF t" };
    let mut out = Vec::new();
    locked(wants, mode, lock, &mut out);
    errands(wants, lock, &mut out);
    guarded(wants, lock, &mut out);
    administration(wants, lock, &mut out);
    for ask in &wants.asks {
        out.push((Part::Ask(*ask), asked(*ask, set)));
    }
    out
}

fn locked(wants: &Wants, mode: Mode, lock: &str, out: &mut Vec<(Part, Statement)>) {
    if !wants.claims.is_empty() || !wants.claims_of.is_empty() {
        out.push((Part::Claims, select_claims(wants, lock)));
    }
    if mode == Mode::Lock(Care::Insistent) && !wants.lanes.is_empty() {
        out.push((Part::LanesMade, make_lanes(wants)));
    }
    if !wants.lanes.is_empty() || !wants.lanes_of.is_empty() {
        out.push((Part::Lanes, select_lanes(wants, lock)));
    }
    if !wants.kv.is_empty() {
        let mut keys = admin::KV.keys();
        wants.kv.iter().for_each(|(ws, ns, key)| keys.push(vec![Val::ws(ws), Val::text(ns), Val::text(key)]));
        out.push((Part::Kv, admin::KV.select(keys, lock)));
    }
    if !wants.files.is_empty() {
        let mut keys = files::FILES.keys();
        wants.files.iter().for_each(|(ws, run, path)| keys.push(vec![Val::ws(ws), Val::run(*run), Val::text(path)]));
        out.push((Part::Files, files::FILES.select(keys, lock)));
    }
    let updated = wants.runs.iter().filter(|(_, lock)| **lock == Lock::Update).map(|(key, _)| key);
    let updated = of_runs(updated);
    if !updated.is_empty() || !wants.parents_of.is_empty() || !wants.runs_of_claims.is_empty() {
        out.push((Part::Runs, select_runs(updated, wants, lock)));
    }
    let shared = of_runs(wants.runs.iter().filter(|(_, lock)| **lock == Lock::Share).map(|(key, _)| key));
    if !shared.is_empty() {
        let lock = if lock.is_empty() { "" } else { "FOR SHARE OF t" };
        out.push((Part::RunsShared, runs::RUNS.select(shared, lock)));
    }
}

/// Errands are locked one by one: whoever takes some passes by those that others are about to take or to end.
fn errands(wants: &Wants, lock: &str, out: &mut Vec<(Part, Statement)>) {
    let names = errands::ERRANDS.names("t.");
    if !wants.errands.is_empty() {
        out.push((Part::Errands, errands::ERRANDS.select(of_hashes(&wants.errands), lock)));
    }
    if !wants.errands_of.is_empty() {
        let sql = format!(
            "SELECT {names} FROM unnest($1, $2) AS k (ws, id) JOIN errands t ON t.ws = k.ws AND t.run = k.id AND t.open \
             ORDER BY t.ws, t.id {lock}"
        );
        out.push((Part::Errands, of_runs(&wants.errands_of).statement(sql)));
    }
    for (ws, queue) in &wants.taken_errands {
        let values = || vec![Val::ws(ws), Val::text(queue)];
        if !lock.is_empty() {
            let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 7))";
            out.push((Part::ErrandsGate, Statement::new(sql, values())));
        }
        let sql = "SELECT $1::text, $2::text, count(*) FROM errands t WHERE t.ws = $1 AND t.queue = $2 AND t.open AND t.taken";
        out.push((Part::ErrandsTaken, Statement::new(sql, values())));
    }
    for ((ws, from), limit) in &wants.free_errands {
        let pass_by = if lock.is_empty() { "" } else { PASS_BY };
        let sql = format!(
            "SELECT {names} FROM errands t WHERE t.ws = $1 AND t.queue = $2 AND t.domain = $3 AND t.open AND NOT t.taken \
             AND t.kind = 'simple' AND t.free_at <= {} ORDER BY t.priority DESC, t.free_at, t.id LIMIT $4 {pass_by}",
            errands::NOW
        );
        let values = vec![Val::ws(ws), Val::text(&from.queue), Val::text(&from.domain), Val::int(*limit)];
        out.push((Part::Errands, Statement::new(sql, values)));
    }
}

/// Rows that nobody changes who has not the lock above.
fn guarded(wants: &Wants, lock: &str, out: &mut Vec<(Part, Statement)>) {
    let mut ask = |part, keys: Rows, sql: String| {
        if !keys.is_empty() {
            out.push((part, keys.statement(sql)));
        }
    };
    let by_run = |table: &Table, column: &str, order: &str, lock: &str| {
        let names = table.names("t.");
        let keys = "unnest($1, $2) AS k (ws, id)";
        format!(
            "SELECT {names} FROM {keys} JOIN {} t ON t.ws = k.ws AND t.{column} = k.id ORDER BY {order} {lock}",
            table.name
        )
    };
    ask(Part::ClaimsOf, of_runs(&wants.claims_of), by_run(&claims::CLAIMS, "run", "t.ws, t.hash", lock));
    ask(Part::Children, of_runs(&wants.children_of), by_run(&runs::RUNS, "parent", "t.ws, t.id", lock));
    ask(Part::Values, of_runs(&wants.values), by_run(&runs::VALUES, "run", "t.ws, t.run", ""));
    ask(Part::Inboxes, of_runs(&wants.inboxes), by_run(&history::MESSAGES, "run", "t.seq", ""));
    let mut lines = Rows::new([Kind::Text, Kind::Id, Kind::Int].into_iter());
    wants.lines.iter().for_each(|((ws, hash), n)| lines.push(vec![Val::ws(ws), Val::hash(*hash), Val::int(*n)]));
    let sql = "SELECT k.ws, k.hash, q.run FROM unnest($1, $2, $3) AS k (ws, hash, n) CROSS JOIN LATERAL \
               (SELECT run, seq FROM lane_queue q WHERE q.ws = k.ws AND q.hash = k.hash ORDER BY seq LIMIT k.n) q \
               ORDER BY k.ws, k.hash, q.seq";
    ask(Part::Lines, lines, sql.to_owned());
    let mut places = claims::PLACES.keys();
    wants.places.iter().for_each(|(ws, hash, run)| places.push(vec![Val::ws(ws), Val::hash(*hash), Val::run(*run)]));
    if !places.is_empty() {
        out.push((Part::Places, claims::PLACES.select(places, "")));
    }
    let mut logs = history::LOGS.keys();
    wants.logs.iter().for_each(|(ws, run, seq)| logs.push(vec![Val::ws(ws), Val::run(*run), Val::number(*seq)]));
    if !logs.is_empty() {
        out.push((Part::Logs, history::LOGS.select(logs, "")));
    }
}

fn administration(wants: &Wants, lock: &str, out: &mut Vec<(Part, Statement)>) {
    let of_flows = |keys: &BTreeSet<(WorkspaceId, FlowRef)>| {
        let mut rows = Rows::new([Kind::Text, Kind::Text, Kind::Text].into_iter());
        keys.iter()
            .for_each(|(ws, flow)| rows.push(vec![Val::ws(ws), Val::text(&flow.namespace), Val::text(&flow.id)]));
        rows
    };
    if !wants.flows.is_empty() {
        let names = admin::FLOWS.names("t.");
        let sql = format!(
            "SELECT {names} FROM unnest($1, $2, $3) AS k (ws, namespace, id) CROSS JOIN LATERAL (SELECT * FROM flows f \
             WHERE f.ws = k.ws AND f.namespace = k.namespace AND f.id = k.id ORDER BY revision DESC LIMIT 1) t"
        );
        out.push((Part::Flows, of_flows(&wants.flows).statement(sql)));
    }
    if !wants.schedules.is_empty() {
        let names = admin::SCHEDULES.names("t.");
        let sql = format!(
            "SELECT {names} FROM unnest($1, $2, $3) AS k (ws, namespace, id) JOIN schedules t ON t.ws = k.ws \
             AND t.namespace = k.namespace AND t.flow_id = k.id ORDER BY t.ws, t.namespace, t.flow_id, t.trigger {lock}"
        );
        out.push((Part::Schedules, of_flows(&wants.schedules).statement(sql)));
    }
    let mut changes = admin::CHANGES.keys();
    wants.changes.iter().for_each(|(ws, run, at)| changes.push(vec![Val::ws(ws), Val::run(*run), Val::number(*at)]));
    if !changes.is_empty() {
        out.push((Part::Changes, admin::CHANGES.select(changes, lock)));
    }
    let mut secrets = Rows::new([Kind::Text, Kind::Text].into_iter());
    wants.secrets.iter().for_each(|(ws, name)| secrets.push(vec![Val::ws(ws), Val::text(name)]));
    if !secrets.is_empty() {
        let sql = format!(
            "SELECT {} FROM unnest($1, $2) AS k (ws, name) JOIN secrets t ON t.ws = k.ws AND t.name = k.name \
             ORDER BY t.ws, t.name, t.version {lock}",
            admin::SECRETS.names("t.")
        );
        out.push((Part::Secrets, secrets.statement(sql)));
    }
    let mut tokens = admin::TOKENS.keys();
    wants.tokens.iter().for_each(|id| tokens.push(vec![Val::text(id)]));
    if !tokens.is_empty() {
        out.push((Part::Tokens, admin::TOKENS.select(tokens, lock)));
    }
    let mut workspaces = admin::WORKSPACES.keys();
    wants.workspaces.iter().for_each(|id| workspaces.push(vec![Val::ws(id)]));
    if !workspaces.is_empty() {
        out.push((Part::Workspaces, admin::WORKSPACES.select(workspaces, "")));
    }
}

/// Claims by their hash, and those that lead to runs, locked together in order of hash.
fn select_claims(wants: &Wants, lock: &str) -> Statement {
    let hashes = of_hashes(&wants.claims);
    if wants.claims_of.is_empty() {
        return claims::CLAIMS.select(hashes, lock);
    }
    let sql = format!(
        "SELECT {} FROM claims t WHERE (t.ws, t.hash) IN (SELECT * FROM unnest($1, $2) UNION SELECT c.ws, c.hash \
         FROM unnest($3, $4) AS k (ws, run) JOIN claims c ON c.ws = k.ws AND c.run = k.run) ORDER BY t.ws, t.hash {lock}",
        claims::CLAIMS.names("t.")
    );
    let mut params = hashes.params();
    params.extend(of_runs(&wants.claims_of).params());
    Statement { sql: sql.into(), params, inserts: None }
}

fn make_lanes(wants: &Wants) -> Statement {
    let sql = "INSERT INTO lanes (ws, hash, lane) SELECT k.ws, k.hash, '' FROM unnest($1, $2) AS k (ws, hash) \
               ORDER BY k.ws, k.hash ON CONFLICT (ws, hash) DO UPDATE SET lane = lanes.lane \
               RETURNING ws, hash, lane = ''";
    of_hashes(&wants.lanes).statement(sql)
}

fn select_lanes(wants: &Wants, lock: &str) -> Statement {
    let hashes = of_hashes(&wants.lanes);
    if wants.lanes_of.is_empty() {
        return claims::LANES.select(hashes, lock);
    }
    let sql = format!(
        "SELECT {} FROM lanes t WHERE (t.ws, t.hash) IN (SELECT * FROM unnest($1, $2) UNION SELECT r.ws, r.lane \
         FROM unnest($3, $4) AS k (ws, id) JOIN runs r ON r.ws = k.ws AND r.id = k.id WHERE r.lane IS NOT NULL) \
         ORDER BY t.ws, t.hash {lock}",
        claims::LANES.names("t.")
    );
    let mut params = hashes.params();
    params.extend(of_runs(&wants.lanes_of).params());
    Statement { sql: sql.into(), params, inserts: None }
}

/// Heads by id, the parents of some, and the runs that keys lead to.
fn select_runs(ids: Rows, wants: &Wants, lock: &str) -> Statement {
    if wants.parents_of.is_empty() && wants.runs_of_claims.is_empty() {
        return runs::RUNS.select(ids, lock);
    }
    // Only what is asked for: the database plans each statement anew, and each way to a run costs it more than the run.
    let mut ways: Vec<String> = Vec::new();
    let mut params = Vec::new();
    let mut way = |keys: Rows, sql: &dyn Fn(&str) -> String| {
        if !keys.is_empty() {
            ways.push(sql(&unnest(params.len() + 1, 2)));
            params.extend(keys.params());
        }
    };
    way(ids, &|keys| format!("SELECT * FROM {keys}"));
    way(of_runs(&wants.parents_of), &|keys| {
        format!(
            "SELECT r.ws, r.parent FROM {keys} AS k (ws, id) JOIN runs r ON r.ws = k.ws AND r.id = k.id \
             WHERE r.parent IS NOT NULL"
        )
    });
    way(of_hashes(&wants.runs_of_claims), &|keys| {
        format!("SELECT c.ws, c.run FROM {keys} AS k (ws, hash) JOIN claims c ON c.ws = k.ws AND c.hash = k.hash")
    });
    let (names, ways) = (runs::RUNS.names("t."), ways.join(" UNION "));
    let sql = format!("SELECT {names} FROM runs t WHERE (t.ws, t.id) IN ({ways}) ORDER BY t.ws, t.id {lock}");
    Statement { sql: sql.into(), params, inserts: None }
}

/// Sweeps of several processes pass each other by.
const PASS_BY: &str = "FOR UPDATE OF t SKIP LOCKED";

fn asked(ask: Ask, set: &Set) -> Statement {
    let limited = |at: Millis, limit: u32| vec![Val::at(at), Val::int(limit)];
    let (heads, keys) = (runs::RUNS.names("t."), claims::CLAIMS.names("t."));
    match ask {
        Ask::OpenRuns => {
            let sql = format!(
                "SELECT {heads} FROM runs t WHERE t.status <> 'completed' AND t.ended_at IS NULL AND t.status IN \
                 ('queued', 'running', 'waiting', 'paused', 'held') ORDER BY t.ws, t.id FOR UPDATE OF t"
            );
            Statement::new(sql, vec![])
        }
        Ask::ForgottenClaims { now, limit } => {
            let sql = format!(
                "SELECT {keys} FROM claims t WHERE t.forget_at <= $1 ORDER BY t.forget_at, t.ws, t.hash LIMIT $2 {PASS_BY}"
            );
            Statement::new(sql, limited(now, limit))
        }
        Ask::SweepKv { now, limit } => {
            let sql = format!(
                "WITH old AS (SELECT t.ws, t.namespace, t.key FROM kv t WHERE t.expires_at <= $1 \
                 ORDER BY t.expires_at, t.ws, t.namespace, t.key LIMIT $2 {PASS_BY}) \
                 DELETE FROM kv k USING old o WHERE k.ws = o.ws AND k.namespace = o.namespace AND k.key = o.key RETURNING 1"
            );
            Statement::new(sql, limited(now, limit))
        }
        Ask::SweepUploads { before, limit } => Statement::new(files::SWEEP, limited(before, limit)),
        Ask::SweepDecisions { before, limit } => {
            // Rows are written in order of time, or nearly so: only the oldest need a look.
            let sql = format!(
                "WITH old AS (SELECT t.seq, t.at FROM decisions t ORDER BY t.seq LIMIT $2 {PASS_BY}) \
                 DELETE FROM decisions d USING old o WHERE d.seq = o.seq AND o.at < $1 RETURNING 1"
            );
            Statement::new(sql, limited(before, limit))
        }
        Ask::LateErrands { limit } => {
            let names = errands::ERRANDS.names("t.");
            let sql = format!(
                "SELECT {names} FROM errands t WHERE t.due <= {} ORDER BY t.due, t.ws, t.id LIMIT $1 {PASS_BY}",
                errands::NOW
            );
            Statement::new(sql, vec![Val::int(limit)])
        }
        Ask::OldRuns { before, limit } => {
            // Claims that this very sweep forgets do not keep their runs.
            let freed = set.claims_found.values().flatten();
            let sql = format!(
                "SELECT {heads} FROM runs t WHERE t.ended_at < $1 AND t.status IN ('completed', 'failed', 'cancelled') \
                 AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.ws = t.ws AND c.run = t.id \
                 AND (c.ws, c.hash) NOT IN (SELECT * FROM unnest($3, $4))) \
                 ORDER BY t.ended_at, t.ws, t.id LIMIT $2 {PASS_BY}"
            );
            let mut statement = Statement::new(sql, limited(before, limit));
            statement.params.extend(of_hashes(freed).params());
            statement
        }
    }
}

/// Takes the rows of one statement into the set.
pub fn take_in(set: &mut Set, part: Part, rows: &[Row]) -> Result<(), Error> {
    match part {
        Part::Claims | Part::ClaimsOf => rows.iter().try_for_each(|row| claim_found(set, row).map(|_| ()))?,
        Part::LanesMade => {
            for row in rows {
                let key = (row.ws(0)?, row.hash(1)?);
                if row.yes(2)? {
                    set.lane_made(key);
                }
            }
        }
        Part::Lanes => {
            for row in rows {
                lane_found(set, row)?;
            }
        }
        Part::Kv => {
            for row in rows {
                let (ws, kv) = admin::read_kv(row)?;
                set.kv.found((ws, kv.namespace.clone(), kv.key.clone()), kv);
            }
        }
        Part::Files => {
            for row in rows {
                let file = files::read_file(row)?;
                set.files.found((row.ws(0)?, file.run, file.path.clone()), file);
            }
        }
        Part::Errands => {
            for row in rows {
                let (ws, errand) = errands::read(row)?;
                set.errands.found((ws, errand.id), errand);
            }
        }
        Part::ErrandsGate => {}
        Part::ErrandsTaken => {
            for row in rows {
                set.taken_stored.insert((row.ws(0)?, row.text(1)?), row.number(2)?);
            }
        }
        Part::Runs | Part::Children => {
            for row in rows {
                let key = run_found(set, row)?;
                set.shared.remove(&key);
            }
        }
        Part::RunsShared => {
            for row in rows {
                let key = run_found(set, row)?;
                set.shared.insert(key);
            }
        }
        Part::Values => {
            for row in rows {
                let key = (row.ws(0)?, row.run(1)?);
                let (values, labels) = runs::read_values(row, 2)?;
                set.given.found(key.clone(), (values.inputs, values.trigger));
                set.results.found(key.clone(), (values.outputs, values.failure));
                set.labels.found(key, labels);
            }
        }
        Part::Inboxes => {
            for row in rows {
                let (ws, run, seq, message) = history::read_message(row)?;
                set.inbox.found((ws, run, seq), message);
            }
        }
        Part::Lines => {
            for row in rows {
                let key = (row.ws(0)?, row.hash(1)?);
                set.lines.entry(key).or_default().front.push(row.run(2)?);
            }
        }
        Part::Places => {
            for row in rows {
                let line = set.lines.entry((row.ws(0)?, row.hash(1)?)).or_default();
                line.places.insert(row.run(2)?, true);
            }
        }
        Part::Logs => {
            for row in rows {
                let log: LogRow = history::read_log(row)?;
                set.logs.found((row.ws(0)?, log.run, log.seq), log);
            }
        }
        Part::Flows => {
            for row in rows {
                let flow = admin::read_flow(row)?;
                set.flow_heads.found((flow.workspace.clone(), flow.flow.clone()), flow);
            }
        }
        Part::Schedules => {
            for row in rows {
                let row = admin::read_schedule(row)?;
                let key = (row.workspace.clone(), row.flow.clone());
                set.schedules_stored.entry(key).or_default().push(row);
            }
        }
        Part::Changes => {
            for row in rows {
                let change = admin::read_change(row)?;
                set.changes.found((change.workspace.clone(), change.run, change.version), change);
            }
        }
        Part::Secrets => {
            for row in rows {
                let secret = admin::read_secret(row)?;
                set.secrets.found((secret.workspace.clone(), secret.name.clone(), secret.version), secret);
            }
        }
        Part::Tokens => {
            for row in rows {
                let token = admin::read_token(row)?;
                set.tokens.found(token.id.clone(), token);
            }
        }
        Part::Workspaces => {
            for row in rows {
                let workspace = admin::read_workspace(row)?;
                set.workspaces.found(workspace.id.clone(), workspace);
            }
        }
        Part::Ask(ask) => answered(set, ask, rows)?,
    }
    Ok(())
}

fn answered(set: &mut Set, ask: Ask, rows: &[Row]) -> Result<(), Error> {
    match ask {
        Ask::OpenRuns | Ask::OldRuns { .. } => {
            let keys = rows.iter().map(|row| run_found(set, row)).collect::<Result<_, _>>()?;
            set.runs_found.insert(ask, keys);
        }
        Ask::ForgottenClaims { .. } => {
            let keys = rows.iter().map(|row| claim_found(set, row)).collect::<Result<_, _>>()?;
            set.claims_found.insert(ask, keys);
        }
        Ask::LateErrands { .. } => {
            let mut keys = Vec::new();
            for row in rows {
                let (ws, errand) = errands::read(row)?;
                keys.push((ws.clone(), errand.id));
                set.errands.found((ws, errand.id), errand);
            }
            set.late_found.insert(ask, keys);
        }
        Ask::SweepKv { .. } | Ask::SweepUploads { .. } | Ask::SweepDecisions { .. } => {
            set.counted.insert(ask, rows.len() as u64);
        }
    }
    Ok(())
}

fn claim_found(set: &mut Set, row: &Row) -> Result<HashKey, Error> {
    let (ws, claim) = claims::read(row)?;
    set.note_claim(&ws, &claim);
    let key = (ws, claim.hash);
    set.claims.found(key.clone(), claim);
    Ok(key)
}

fn lane_found(set: &mut Set, row: &Row) -> Result<(), Error> {
    let key: HashKey = (row.ws(0)?, row.hash(1)?);
    // One that was made a moment ago is known.
    if !set.lanes.knows(&key) {
        let (ws, hash, lane) = claims::read_lane(row)?;
        set.lanes.found((ws, hash), lane);
    }
    Ok(())
}

fn run_found(set: &mut Set, row: &Row) -> Result<(WorkspaceId, RunId), Error> {
    let run = runs::read(row)?;
    set.note_child(&run);
    let key = (run.workspace.clone(), run.id);
    set.runs.found(key.clone(), run);
    if let Some(owner) = runs::owner(row)? {
        set.owners.insert(key.clone(), owner);
    }
    Ok(key)
}

/// After a round: what was wanted and not found is not there.
pub fn settle(set: &mut Set, wants: &Wants) {
    wants.claims.iter().for_each(|key| set.claims.not_found(key));
    wants.lanes.iter().for_each(|key| set.lanes.not_found(key));
    wants.kv.iter().for_each(|key| set.kv.not_found(key));
    wants.files.iter().for_each(|key| set.files.not_found(key));
    wants.errands.iter().for_each(|key| set.errands.not_found(key));
    set.errands_known.extend(wants.errands_of.iter().cloned());
    set.free_known.extend(wants.free_errands.keys().cloned());
    wants.runs.keys().for_each(|key| set.runs.not_found(key));
    wants.flows.iter().for_each(|key| set.flow_heads.not_found(key));
    wants.tokens.iter().for_each(|key| set.tokens.not_found(key));
    wants.workspaces.iter().for_each(|key| set.workspaces.not_found(key));
    wants.logs.iter().for_each(|key| set.logs.not_found(key));
    wants.changes.iter().for_each(|key| set.changes.not_found(key));
    for key in &wants.values {
        set.given.not_found(key);
        set.results.not_found(key);
    }
    set.claims_known.extend(wants.claims_of.iter().cloned());
    set.children_known.extend(wants.children_of.iter().cloned());
    set.inbox_known.extend(wants.inboxes.iter().cloned());
    wants.schedules.iter().for_each(|key| _ = set.schedules_stored.entry(key.clone()).or_default());
    set.secrets_known.extend(wants.secrets.iter().cloned());
    for (key, limit) in &wants.lines {
        let line = set.lines.entry(key.clone()).or_default();
        line.whole = line.front.len() < *limit as usize;
    }
    for (ws, hash, run) in &wants.places {
        set.lines.entry((ws.clone(), *hash)).or_default().places.entry(*run).or_insert(false);
    }
}

/// Before a round: lists are read from their beginning.
pub fn prepare(set: &mut Set, wants: &Wants) {
    for key in wants.lines.keys() {
        set.lines.entry(key.clone()).or_default().front.clear();
    }
    wants.schedules.iter().for_each(|key| _ = set.schedules_stored.remove(key));
}
