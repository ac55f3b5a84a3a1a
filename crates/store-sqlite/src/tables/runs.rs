//! Runs: heads, values, labels, lists.

use crate::classify::damaged;
use crate::codec::{Checksum, Columns, int, json};
use crate::names::Cx;
use rusqlite::types::Value;
use rusqlite::{Result, Row, params, params_from_iter};
use semel_core::run::{Status, StepKey};
use semel_core::{FlowRef, Millis, RunId, WorkspaceId};
use semel_store::{LaneRef, ParentRef, RunQuery, RunRow, RunValues};

pub type Labels = Vec<(String, String)>;
pub type Whole = (RunRow, RunValues, Labels);

/// The head, in the order [`read_head`] expects.
pub const HEAD: &str = "r.ws, r.id, r.namespace, r.flow_id, r.revision, r.status, r.epoch, r.version, r.active, \
    r.open_intents, r.open_doubts, r.logical, r.take, r.generation, r.claim, r.lane, r.lane_limit, r.parent, \
    r.parent_step, r.parent_waits, r.root, r.depth, r.correlation_id, r.door, r.key, r.created_at, r.started_at, \
    r.ended_at, r.updated_at, r.warned, r.erased";
const HEAD_COLUMNS: usize = 31;
/// The values, after the head.
pub const VALUES: &str = "v.inputs, v.trigger, v.outputs, v.failure, v.labels, v.digest";

fn read_head(cx: &Cx, row: &Row) -> Result<RunRow> {
    let id = row.run(1)?;
    let lane = row.hash_opt(15)?;
    let parent = row.run_opt(17)?;
    let correlation: Option<String> = row.get(22)?;
    Ok(RunRow {
        id,
        workspace: cx.ws_name(row.get(0)?)?,
        flow: FlowRef { namespace: row.get(2)?, id: row.get(3)? },
        revision: row.get(4)?,
        status: row.word(5)?,
        epoch: row.number(6)?,
        version: row.number(7)?,
        active: row.get(8)?,
        open_intents: row.get(9)?,
        open_doubts: row.get(10)?,
        logical: row.run_opt(11)?.unwrap_or(id),
        take: row.get(12)?,
        generation: row.get(13)?,
        claim: row.hash_opt(14)?,
        lane: lane.map(|hash| Ok::<_, rusqlite::Error>(LaneRef { hash, limit: row.get(16)? })).transpose()?,
        parent: parent.map(|run| read_parent(run, row)).transpose()?,
        root: row.run_opt(20)?.unwrap_or(id),
        depth: row.get(21)?,
        correlation_id: correlation.unwrap_or_else(|| id.to_string()),
        door: row.word(23)?,
        key: row.get(24)?,
        created_at: row.millis(25)?,
        started_at: row.millis_opt(26)?,
        ended_at: row.millis_opt(27)?,
        updated_at: row.millis(28)?,
        warned: row.get(29)?,
        erased: row.get(30)?,
    })
}

fn read_parent(run: RunId, row: &Row) -> Result<ParentRef> {
    Ok(ParentRef { run, step: StepKey(row.get(18)?), waits: row.get(19)? })
}

fn value_columns(values: &RunValues) -> [Option<String>; 4] {
    [&values.inputs, &values.trigger, &values.outputs, &values.failure].map(|v| v.as_ref().map(json))
}

fn values_digest(columns: &[Option<&str>; 4], labels: &str) -> i64 {
    let sum = columns.iter().fold(Checksum::new(), |sum, column| sum.part(column.map(str::as_bytes)));
    sum.part(Some(labels.as_bytes())).value()
}

/// Values and labels from columns that start at `from`.
fn read_values(row: &Row, from: usize) -> Result<(RunValues, Labels)> {
    let text = |at: usize| row.get_ref(at)?.as_str_or_null().map_err(|e| damaged(e.to_string()));
    let columns = [text(from)?, text(from + 1)?, text(from + 2)?, text(from + 3)?];
    let labels = text(from + 4)?.unwrap_or_default();
    if values_digest(&columns, labels) != row.get::<_, i64>(from + 5)? {
        return Err(damaged("the values of a run do not match their checksum"));
    }
    let values = RunValues {
        inputs: row.json_opt(from)?,
        trigger: row.json_opt(from + 1)?,
        outputs: row.json_opt(from + 2)?,
        failure: row.json_opt(from + 3)?,
    };
    Ok((values, row.json(from + 4)?))
}

pub fn get(cx: &Cx, ws: i64, id: RunId) -> Result<Option<RunRow>> {
    let sql = head_sql();
    cx.one(sql, params![ws, id.as_bytes()], |row| read_head(cx, row))
}

/// The text is made once: this is the hottest query there is.
fn head_sql() -> &'static str {
    static SQL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SQL.get_or_init(|| format!("SELECT {HEAD} FROM runs r WHERE r.ws = ?1 AND r.id = ?2"))
}

pub fn whole(cx: &Cx, ws: i64, id: RunId) -> Result<Option<Whole>> {
    let sql =
        format!("SELECT {HEAD}, {VALUES} FROM runs r JOIN run_values v ON v.num = r.num WHERE r.ws = ?1 AND r.id = ?2");
    cx.one(&sql, params![ws, id.as_bytes()], |row| read_whole(cx, row))
}

pub fn read_whole(cx: &Cx, row: &Row) -> Result<Whole> {
    let head = read_head(cx, row)?;
    let (values, labels) = read_values(row, HEAD_COLUMNS)?;
    Ok((head, values, labels))
}

pub fn insert(cx: &Cx, row: &RunRow, values: &RunValues, labels: &[(String, String)]) -> Result<()> {
    let ws = cx.ws_or_new(&row.workspace)?;
    let own = row.id.to_string();
    cx.exec(
        "INSERT INTO runs (ws, id, namespace, flow_id, revision, status, epoch, version, active, open_intents, \
         open_doubts, logical, take, generation, claim, lane, lane_limit, parent, parent_step, parent_waits, root, depth, \
         correlation_id, door, key, created_at, started_at, ended_at, updated_at, warned, erased) VALUES \
         (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, \
         ?25, ?26, ?27, ?28, ?29, ?30, ?31)",
        params![
            ws,
            row.id.as_bytes(),
            row.flow.namespace,
            row.flow.id,
            row.revision,
            row.status.word(),
            int(row.epoch),
            int(row.version),
            row.active,
            row.open_intents,
            row.open_doubts,
            unless_own(row.logical, row.id),
            row.take,
            row.generation,
            row.claim.map(|h| h.0),
            row.lane.map(|l| l.hash.0),
            row.lane.map(|l| l.limit),
            row.parent.as_ref().map(|p| p.run.as_bytes()),
            row.parent.as_ref().map(|p| &p.step.0),
            row.parent.as_ref().map(|p| p.waits),
            unless_own(row.root, row.id),
            row.depth,
            Some(&row.correlation_id).filter(|c| **c != own),
            row.door.word(),
            row.key,
            row.created_at.0,
            row.started_at.map(|at| at.0),
            row.ended_at.map(|at| at.0),
            row.updated_at.0,
            row.warned,
            row.erased,
        ],
    )?;
    let num = cx.connection.last_insert_rowid();
    let columns = value_columns(values);
    let labels_text = json(labels);
    cx.exec(
        "INSERT INTO run_values (num, inputs, trigger, outputs, failure, labels, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![num, columns[0], columns[1], columns[2], columns[3], labels_text, values_digest(&columns.each_ref().map(|c| c.as_deref()), &labels_text)],
    )?;
    index_labels(cx, ws, row.id, labels)
}

fn unless_own(id: RunId, own: RunId) -> Option<[u8; 16]> {
    (id != own).then(|| *id.as_bytes())
}

fn index_labels(cx: &Cx, ws: i64, id: RunId, labels: &[(String, String)]) -> Result<()> {
    for (name, value) in labels {
        let sql = "INSERT OR IGNORE INTO run_labels (ws, name, value, run) VALUES (?1, ?2, ?3, ?4)";
        cx.exec(sql, params![ws, name, value, id.as_bytes()])?;
    }
    Ok(())
}

/// Writes what differs from `old`, the row as stored (`None`: not known).
///
/// SQLite rewrites every index over a column that is assigned, changed or not. So there are three
/// statements: what every transition changes, that and the indexed state, and the rest.
pub fn update(cx: &Cx, old: Option<&RunRow>, row: &RunRow) -> Result<()> {
    let Some(ws) = cx.ws(&row.workspace)? else { return Err(rusqlite::Error::QueryReturnedNoRows) };
    let state = |run: &RunRow| (run.status, run.active, run.ended_at);
    if old.is_some_and(|old| state(old) == state(row)) {
        update_head(cx, ws, row)?;
    } else {
        update_state(cx, ws, row)?;
    }
    if old.is_some_and(|old| same_origin(old, row)) { Ok(()) } else { update_rest(cx, ws, row) }
}

/// True when nothing of what [`update_rest`] writes differs.
fn same_origin(old: &RunRow, new: &RunRow) -> bool {
    old.flow == new.flow
        && (old.logical, old.root, old.depth, old.door) == (new.logical, new.root, new.depth, new.door)
        && (&old.parent, &old.correlation_id, &old.key) == (&new.parent, &new.correlation_id, &new.key)
        && old.created_at == new.created_at
}

fn update_head(cx: &Cx, ws: i64, row: &RunRow) -> Result<()> {
    cx.exec_one(
        "UPDATE runs SET revision = ?3, epoch = ?4, version = ?5, open_intents = ?6, open_doubts = ?7, take = ?8, \
         generation = ?9, claim = ?10, lane = ?11, lane_limit = ?12, started_at = ?13, updated_at = ?14, warned = ?15, \
         erased = ?16 WHERE ws = ?1 AND id = ?2",
        params![
            ws,
            row.id.as_bytes(),
            row.revision,
            int(row.epoch),
            int(row.version),
            row.open_intents,
            row.open_doubts,
            row.take,
            row.generation,
            row.claim.map(|h| h.0),
            row.lane.map(|l| l.hash.0),
            row.lane.map(|l| l.limit),
            row.started_at.map(|at| at.0),
            row.updated_at.0,
            row.warned,
            row.erased,
        ],
    )
}

fn update_state(cx: &Cx, ws: i64, row: &RunRow) -> Result<()> {
    cx.exec_one(
        "UPDATE runs SET revision = ?3, status = ?4, epoch = ?5, version = ?6, active = ?7, open_intents = ?8, \
         open_doubts = ?9, take = ?10, generation = ?11, claim = ?12, lane = ?13, lane_limit = ?14, started_at = ?15, \
         ended_at = ?16, updated_at = ?17, warned = ?18, erased = ?19 WHERE ws = ?1 AND id = ?2",
        params![
            ws,
            row.id.as_bytes(),
            row.revision,
            row.status.word(),
            int(row.epoch),
            int(row.version),
            row.active,
            row.open_intents,
            row.open_doubts,
            row.take,
            row.generation,
            row.claim.map(|h| h.0),
            row.lane.map(|l| l.hash.0),
            row.lane.map(|l| l.limit),
            row.started_at.map(|at| at.0),
            row.ended_at.map(|at| at.0),
            row.updated_at.0,
            row.warned,
            row.erased,
        ],
    )
}

fn update_rest(cx: &Cx, ws: i64, row: &RunRow) -> Result<()> {
    let own = row.id.to_string();
    cx.exec(
        "UPDATE runs SET namespace = ?3, flow_id = ?4, logical = ?5, parent = ?6, parent_step = ?7, parent_waits = ?8, \
         root = ?9, depth = ?10, correlation_id = ?11, door = ?12, key = ?13, created_at = ?14 WHERE ws = ?1 AND id = ?2",
        params![
            ws,
            row.id.as_bytes(),
            row.flow.namespace,
            row.flow.id,
            unless_own(row.logical, row.id),
            row.parent.as_ref().map(|p| p.run.as_bytes()),
            row.parent.as_ref().map(|p| &p.step.0),
            row.parent.as_ref().map(|p| p.waits),
            unless_own(row.root, row.id),
            row.depth,
            Some(&row.correlation_id).filter(|c| **c != own),
            row.door.word(),
            row.key,
            row.created_at.0,
        ],
    )?;
    Ok(())
}

/// Values and labels of a run, with its row number.
fn stored_values(cx: &Cx, ws: i64, id: RunId) -> Result<Option<(i64, RunValues, Labels)>> {
    let sql = "SELECT v.inputs, v.trigger, v.outputs, v.failure, v.labels, v.digest, v.num \
               FROM runs r JOIN run_values v ON v.num = r.num WHERE r.ws = ?1 AND r.id = ?2";
    cx.one(sql, params![ws, id.as_bytes()], |row| {
        let (values, labels) = read_values(row, 0)?;
        Ok((row.get(6)?, values, labels))
    })
}

pub fn values(cx: &Cx, ws: i64, id: RunId) -> Result<RunValues> {
    Ok(stored_values(cx, ws, id)?.map(|(_, values, _)| values).unwrap_or_default())
}

pub fn labels(cx: &Cx, ws: i64, id: RunId) -> Result<Labels> {
    Ok(stored_values(cx, ws, id)?.map(|(_, _, labels)| labels).unwrap_or_default())
}

fn store_values(cx: &Cx, num: i64, values: &RunValues, labels: &[(String, String)]) -> Result<()> {
    let columns = value_columns(values);
    let labels_text = json(labels);
    cx.exec_one(
        "UPDATE run_values SET inputs = ?2, trigger = ?3, outputs = ?4, failure = ?5, labels = ?6, digest = ?7 WHERE num = ?1",
        params![num, columns[0], columns[1], columns[2], columns[3], labels_text, values_digest(&columns.each_ref().map(|c| c.as_deref()), &labels_text)],
    )
}

pub fn put_values(cx: &Cx, ws: i64, id: RunId, values: &RunValues) -> Result<()> {
    let (num, _, labels) = stored_values(cx, ws, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    store_values(cx, num, values, &labels)
}

pub fn put_labels(cx: &Cx, ws: i64, id: RunId, labels: &[(String, String)]) -> Result<()> {
    let (num, values, old) = stored_values(cx, ws, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    drop_labels(cx, ws, id, &old)?;
    store_values(cx, num, &values, labels)?;
    index_labels(cx, ws, id, labels)
}

fn drop_labels(cx: &Cx, ws: i64, id: RunId, labels: &[(String, String)]) -> Result<()> {
    for (name, value) in labels {
        let sql = "DELETE FROM run_labels WHERE ws = ?1 AND name = ?2 AND value = ?3 AND run = ?4";
        cx.exec(sql, params![ws, name, value, id.as_bytes()])?;
    }
    Ok(())
}

/// Removes head, values and labels.
pub fn delete(cx: &Cx, ws: i64, id: RunId) -> Result<()> {
    let Some((num, _, labels)) = stored_values(cx, ws, id)? else { return Ok(()) };
    drop_labels(cx, ws, id, &labels)?;
    cx.exec("DELETE FROM run_values WHERE num = ?1", [num])?;
    cx.exec("DELETE FROM runs WHERE num = ?1", [num])?;
    Ok(())
}

pub fn children(cx: &Cx, ws: i64, id: RunId) -> Result<Vec<RunRow>> {
    let sql = format!("SELECT {HEAD} FROM runs r WHERE r.ws = ?1 AND r.parent = ?2 ORDER BY r.id");
    cx.all(&sql, params![ws, id.as_bytes()], |row| read_head(cx, row))
}

pub fn active(cx: &Cx, after: Option<RunId>, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
    // An empty blob sorts before every id.
    let after = after.map_or(vec![], |id| id.as_bytes().to_vec());
    cx.all(
        "SELECT w.name, r.id FROM runs r JOIN workspaces w ON w.ws = r.ws WHERE r.active = 1 AND r.id > ?1 \
         ORDER BY r.id, w.name LIMIT ?2",
        params![after, limit],
        |row| Ok((WorkspaceId(row.get(0)?), row.run(1)?)),
    )
}

/// Runs that have not ended, in order of workspace and id.
pub fn open(cx: &Cx) -> Result<Vec<RunRow>> {
    let sql = format!(
        "SELECT {HEAD} FROM workspaces w CROSS JOIN runs r ON r.ws = w.ws WHERE r.status <> 'completed' \
         AND r.status IN ('queued', 'running', 'waiting', 'paused', 'held') AND r.ended_at IS NULL ORDER BY w.name, r.id"
    );
    cx.all(&sql, [], |row| read_head(cx, row))
}

pub fn old(cx: &Cx, before: Millis, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
    cx.all(
        "SELECT w.name, r.id FROM runs r JOIN workspaces w ON w.ws = r.ws WHERE r.ended_at < ?1 \
         AND r.status IN ('completed', 'failed', 'cancelled') \
         AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.ws = r.ws AND c.run = r.id) ORDER BY r.ended_at, w.name, r.id LIMIT ?2",
        params![before.0, limit],
        |row| Ok((WorkspaceId(row.get(0)?), row.run(1)?)),
    )
}

pub fn each(cx: &Cx) -> Result<Vec<Whole>> {
    let sql = format!("SELECT {HEAD}, {VALUES} FROM runs r JOIN run_values v ON v.num = r.num");
    cx.all(&sql, [], |row| read_whole(cx, row))
}

/// A page of the list. With several statuses each is asked on its own (an index walk in order of
/// id) and the answers are merged: one `IN` would sort everything that matches.
pub fn search(cx: &Cx, ws: i64, query: &RunQuery) -> Result<Vec<Whole>> {
    if query.statuses.len() <= 1 {
        return search_status(cx, ws, query, query.statuses.first().copied());
    }
    let mut statuses = query.statuses.clone();
    statuses.sort();
    statuses.dedup();
    let mut found = Vec::new();
    for status in statuses {
        found.extend(search_status(cx, ws, query, Some(status))?);
    }
    found.sort_by_key(|(row, _, _)| std::cmp::Reverse(row.id));
    found.truncate(query.limit as usize);
    Ok(found)
}

fn search_status(cx: &Cx, ws: i64, query: &RunQuery, status: Option<Status>) -> Result<Vec<Whole>> {
    let mut filter = Filter::new(ws, query);
    filter.labels(&query.labels);
    filter.flow(query);
    match status {
        Some(Status::Completed) => filter.sql += " AND r.status = 'completed'",
        // The second term lets SQLite see that the partial index applies.
        Some(status) => filter.sql += &format!(" AND r.status = '{}' AND r.status <> 'completed'", status.word()),
        None => {}
    }
    filter.column("r.key = ?", query.key.clone().map(Value::Text));
    filter.correlation(query.correlation_id.as_deref());
    filter.column("r.parent = ?", query.parent.map(blob));
    filter.column("r.created_at >= ?", query.created_from.map(|at| Value::Integer(at.0)));
    filter.column("r.created_at < ?", query.created_to.map(|at| Value::Integer(at.0)));
    filter.column("r.id < ?", query.before.map(blob));
    filter.column("1 ORDER BY r.id DESC LIMIT ?", Some(Value::Integer(i64::from(query.limit))));
    cx.all(&filter.sql, params_from_iter(filter.values), |row| read_whole(cx, row))
}

fn blob(id: RunId) -> Value {
    Value::Blob(id.as_bytes().to_vec())
}

struct Filter {
    sql: String,
    values: Vec<Value>,
    ws: i64,
}

impl Filter {
    fn new(ws: i64, query: &RunQuery) -> Filter {
        // A label leads: its index is in order of id and hardly any run has it.
        let labels = if query.labels.is_empty() { "" } else { "run_labels l CROSS JOIN " };
        let sql = format!(
            "SELECT {HEAD}, {VALUES} FROM {labels}runs r CROSS JOIN run_values v ON v.num = r.num WHERE r.ws = ?"
        );
        Filter { sql, values: vec![Value::Integer(ws)], ws }
    }

    fn column(&mut self, term: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.sql += " AND ";
            self.sql += term;
            self.values.push(value);
        }
    }

    fn labels(&mut self, labels: &[(String, String)]) {
        for (i, (name, value)) in labels.iter().enumerate() {
            self.sql += match i {
                0 => " AND l.ws = ? AND l.name = ? AND l.value = ? AND r.id = l.run",
                _ => {
                    " AND EXISTS (SELECT 1 FROM run_labels o WHERE o.ws = ? AND o.name = ? AND o.value = ? AND o.run = r.id)"
                }
            };
            self.values.extend([Value::Integer(self.ws), Value::Text(name.clone()), Value::Text(value.clone())]);
        }
    }

    /// Only the pair has an index in order of id; half of it is a filter (the `+`) over the list.
    fn flow(&mut self, query: &RunQuery) {
        let plus = if query.namespace.is_some() && query.flow_id.is_some() { "" } else { "+" };
        self.column(&format!("{plus}r.namespace = ?"), query.namespace.clone().map(Value::Text));
        self.column(&format!("{plus}r.flow_id = ?"), query.flow_id.clone().map(Value::Text));
    }

    fn correlation(&mut self, wanted: Option<&str>) {
        let Some(wanted) = wanted else { return };
        match wanted.parse::<RunId>() {
            // A run whose correlation id is its own id stores none.
            Ok(id) => {
                self.sql += " AND (r.correlation_id = ? OR (r.correlation_id IS NULL AND r.id = ?))";
                self.values.extend([Value::Text(wanted.to_owned()), blob(id)]);
            }
            Err(()) => self.column("r.correlation_id = ?", Some(Value::Text(wanted.to_owned()))),
        }
    }
}
