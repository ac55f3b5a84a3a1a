//! Runs: heads, values, labels, lists.

use crate::classify::damaged;
use crate::codec::{Checksum, Columns, int, json};
use crate::names::Cx;
use rusqlite::types::Value;
use rusqlite::{Result, Row, params, params_from_iter};
use semel_core::run::{Conclusion, Status, StepKey};
use semel_core::{FlowRef, Millis, RunId, WorkspaceId};
use semel_store::{LaneRef, ParentRef, RunMore, RunQuery, RunRow, RunValues};
use serde_json::Value as Json;

pub type Labels = Vec<(String, String)>;
pub type Whole = (RunRow, RunValues, Labels);

/// The head, in the order [`read_head`] expects.
pub const HEAD: &str = "r.ws, r.id, r.namespace, r.flow_id, r.revision, r.status, r.epoch, r.version, r.active, \
    r.open_intents, r.open_doubts, r.logical, r.take, r.generation, r.claim, r.lane, r.lane_limit, r.parent, \
    r.parent_step, r.parent_waits, r.root, r.depth, r.correlation_id, r.door, r.key, r.created_at, r.started_at, \
    r.ended_at, r.updated_at, r.warned, r.erased, r.conclusion, r.more";
const HEAD_COLUMNS: usize = 33;
/// The values, after the head.
pub const VALUES: &str =
    "v.inputs, v.trigger, v.outputs, v.failure, v.labels, v.digest, e.outputs, e.failure, e.digest";
/// Where they come from. A run without a result has no row in the third table; one that ended under version 4 or
/// before has its result in the second.
pub const WHOLE: &str = "runs r JOIN run_values v ON v.num = r.num LEFT JOIN run_results e ON e.num = r.num";

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
        conclusion: row.word_opt(31)?,
        more: read_more(row)?,
    })
}

fn read_more(row: &Row) -> Result<RunMore> {
    match row.json_opt(32)? {
        Some(more) => serde_json::from_value(more).map_err(|error| damaged(error.to_string())),
        None => Ok(RunMore::default()),
    }
}

fn read_parent(run: RunId, row: &Row) -> Result<ParentRef> {
    Ok(ParentRef { run, step: StepKey(row.get(18)?), waits: row.get(19)? })
}

fn digest_of(columns: &[Option<&str>]) -> i64 {
    columns.iter().fold(Checksum::new(), |sum, column| sum.part(column.map(str::as_bytes))).value()
}

/// What a run was given, as [`read_values`] checks it: the two in the middle are NULL since version 5.
fn digest_of_given(inputs: Option<&str>, trigger: Option<&str>, labels: &str) -> i64 {
    digest_of(&[inputs, trigger, None, None, Some(labels)])
}

fn given(value: &Option<Json>) -> Option<String> {
    value.as_ref().map(json)
}

/// Values and labels from columns that start at `from`, in the order of [`VALUES`].
fn read_values(row: &Row, from: usize) -> Result<(RunValues, Labels)> {
    let text = |at: usize| row.get_ref(from + at)?.as_str_or_null().map_err(|e| damaged(e.to_string()));
    let wrong = || damaged("the values of a run do not match their checksum");
    if digest_of(&[text(0)?, text(1)?, text(2)?, text(3)?, Some(text(4)?.unwrap_or_default())])
        != row.get::<_, i64>(from + 5)?
    {
        return Err(wrong());
    }
    let result = match row.get::<_, Option<i64>>(from + 8)? {
        None => 2,
        Some(digest) if digest_of(&[text(6)?, text(7)?]) == digest => 6,
        Some(_) => return Err(wrong()),
    };
    let values = RunValues {
        inputs: row.json_opt(from)?,
        trigger: row.json_opt(from + 1)?,
        outputs: row.json_opt(from + result)?,
        failure: row.json_opt(from + result + 1)?,
    };
    Ok((values, row.json(from + 4)?))
}

/// A head with its number.
pub fn get(cx: &Cx, ws: i64, id: RunId) -> Result<Option<(i64, RunRow)>> {
    cx.one(head_sql(), params![ws, id.as_bytes()], |row| Ok((row.get(HEAD_COLUMNS)?, read_head(cx, row)?)))
}

/// The text is made once: this is the hottest query there is.
fn head_sql() -> &'static str {
    static SQL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SQL.get_or_init(|| format!("SELECT {HEAD}, r.num FROM runs r WHERE r.ws = ?1 AND r.id = ?2"))
}

fn whole_sql() -> &'static str {
    static SQL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SQL.get_or_init(|| format!("SELECT {HEAD}, {VALUES} FROM {WHOLE} WHERE r.ws = ?1 AND r.id = ?2"))
}

pub fn whole(cx: &Cx, ws: i64, id: RunId) -> Result<Option<Whole>> {
    cx.one(whole_sql(), params![ws, id.as_bytes()], |row| read_whole(cx, row))
}

pub fn read_whole(cx: &Cx, row: &Row) -> Result<Whole> {
    let head = read_head(cx, row)?;
    let (values, labels) = read_values(row, HEAD_COLUMNS)?;
    Ok((head, values, labels))
}

/// Writes the head of a new run.
pub fn insert(cx: &Cx, num: i64, row: &RunRow) -> Result<()> {
    let ws = cx.ws_or_new(&row.workspace)?;
    let own = row.id.to_string();
    cx.exec(
        "INSERT INTO runs (num, ws, id, namespace, flow_id, revision, status, epoch, version, active, open_intents, \
         open_doubts, logical, take, generation, claim, lane, lane_limit, parent, parent_step, parent_waits, root, depth, \
         correlation_id, door, key, created_at, started_at, ended_at, updated_at, warned, erased, conclusion, more) VALUES \
         (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, \
         ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)",
        params![
            num,
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
            row.conclusion.map(Conclusion::word),
            more(row),
        ],
    )?;
    Ok(())
}

/// NULL for nothing, which most runs have.
fn more(row: &RunRow) -> Option<String> {
    (!row.more.is_nothing()).then(|| json(&row.more))
}

/// What a new run was given, before or after its head is written.
pub fn insert_values(
    cx: &Cx,
    ws: i64,
    id: RunId,
    num: i64,
    values: &RunValues,
    labels: &[(String, String)],
) -> Result<()> {
    let (inputs, trigger, labels_text) = (given(&values.inputs), given(&values.trigger), json(labels));
    let digest = digest_of_given(inputs.as_deref(), trigger.as_deref(), &labels_text);
    cx.exec(
        "INSERT INTO run_values (num, inputs, trigger, labels, digest) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![num, inputs, trigger, labels_text, digest],
    )?;
    if values.outputs.is_some() || values.failure.is_some() {
        put_result(cx, num, values.outputs.as_ref(), values.failure.as_ref())?;
    }
    index_labels(cx, ws, id, labels)
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

/// Writes what differs from `old`, the row as stored.
///
/// SQLite rewrites every index over a column that is assigned, changed or not. So there are three
/// statements: what every transition changes, that and the indexed state, and the rest.
pub fn update(cx: &Cx, num: i64, old: &RunRow, row: &RunRow) -> Result<()> {
    let state = |run: &RunRow| (run.status, run.active, run.ended_at);
    if state(old) == state(row) {
        update_head(cx, num, row)?;
    } else {
        update_state(cx, num, row)?;
    }
    if same_origin(old, row) { Ok(()) } else { update_rest(cx, num, row) }
}

/// True when nothing of what [`update_rest`] writes differs.
fn same_origin(old: &RunRow, new: &RunRow) -> bool {
    old.flow == new.flow
        && (old.logical, old.root, old.depth, old.door) == (new.logical, new.root, new.depth, new.door)
        && (&old.parent, &old.correlation_id, &old.key) == (&new.parent, &new.correlation_id, &new.key)
        && (old.created_at, &old.more) == (new.created_at, &new.more)
}

fn update_head(cx: &Cx, num: i64, row: &RunRow) -> Result<()> {
    cx.exec_one(
        "UPDATE runs SET revision = ?2, epoch = ?3, version = ?4, open_intents = ?5, open_doubts = ?6, take = ?7, \
         generation = ?8, claim = ?9, lane = ?10, lane_limit = ?11, started_at = ?12, updated_at = ?13, warned = ?14, \
         erased = ?15, conclusion = ?16 WHERE num = ?1",
        params![
            num,
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
            row.conclusion.map(Conclusion::word),
        ],
    )
}

fn update_state(cx: &Cx, num: i64, row: &RunRow) -> Result<()> {
    cx.exec_one(
        "UPDATE runs SET revision = ?2, status = ?3, epoch = ?4, version = ?5, active = ?6, open_intents = ?7, \
         open_doubts = ?8, take = ?9, generation = ?10, claim = ?11, lane = ?12, lane_limit = ?13, started_at = ?14, \
         ended_at = ?15, updated_at = ?16, warned = ?17, erased = ?18, conclusion = ?19 WHERE num = ?1",
        params![
            num,
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
            row.conclusion.map(Conclusion::word),
        ],
    )
}

fn update_rest(cx: &Cx, num: i64, row: &RunRow) -> Result<()> {
    let own = row.id.to_string();
    cx.exec(
        "UPDATE runs SET namespace = ?2, flow_id = ?3, logical = ?4, parent = ?5, parent_step = ?6, parent_waits = ?7, \
         root = ?8, depth = ?9, correlation_id = ?10, door = ?11, key = ?12, created_at = ?13, more = ?14 WHERE num = ?1",
        params![
            num,
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
            more(row),
        ],
    )?;
    Ok(())
}

fn stored_sql() -> &'static str {
    static SQL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SQL.get_or_init(|| {
        format!("SELECT {VALUES} FROM run_values v LEFT JOIN run_results e ON e.num = v.num WHERE v.num = ?1")
    })
}

/// Values and labels of a run.
fn stored_values(cx: &Cx, num: i64) -> Result<(RunValues, Labels)> {
    Ok(cx.one(stored_sql(), [num], |row| read_values(row, 0))?.unwrap_or_default())
}

pub fn labels(cx: &Cx, num: i64) -> Result<Labels> {
    Ok(stored_values(cx, num)?.1)
}

pub fn values(cx: &Cx, num: i64) -> Result<RunValues> {
    Ok(stored_values(cx, num)?.0)
}

fn store_given(cx: &Cx, num: i64, values: &RunValues, labels: &[(String, String)]) -> Result<()> {
    let (inputs, trigger, labels) = (given(&values.inputs), given(&values.trigger), json(labels));
    let digest = digest_of_given(inputs.as_deref(), trigger.as_deref(), &labels);
    cx.exec_one(
        "UPDATE run_values SET inputs = ?2, trigger = ?3, outputs = NULL, failure = NULL, labels = ?4, digest = ?5 \
         WHERE num = ?1",
        params![num, inputs, trigger, labels, digest],
    )
}

/// What a run came to, or that it has come to nothing yet. It is written apart from what the run was given, which may
/// be large and does not change.
pub fn put_result(cx: &Cx, num: i64, outputs: Option<&Json>, failure: Option<&Json>) -> Result<()> {
    let (outputs, failure) = (outputs.map(json), failure.map(json));
    cx.exec(
        "INSERT OR REPLACE INTO run_results (num, outputs, failure, digest) VALUES (?1, ?2, ?3, ?4)",
        params![num, outputs, failure, digest_of(&[outputs.as_deref(), failure.as_deref()])],
    )?;
    Ok(())
}

pub fn put_values(cx: &Cx, num: i64, values: &RunValues) -> Result<()> {
    let (_, labels) = stored_values(cx, num)?;
    store_given(cx, num, values, &labels)?;
    put_result(cx, num, values.outputs.as_ref(), values.failure.as_ref())
}

pub fn put_labels(cx: &Cx, ws: i64, id: RunId, num: i64, labels: &[(String, String)]) -> Result<()> {
    let (values, old) = stored_values(cx, num)?;
    drop_labels(cx, ws, id, &old)?;
    store_given(cx, num, &values, labels)?;
    // The row above held the result, if the run ended under version 4 or before.
    put_result(cx, num, values.outputs.as_ref(), values.failure.as_ref())?;
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
pub fn delete(cx: &Cx, ws: i64, id: RunId, num: i64) -> Result<()> {
    let (_, labels) = stored_values(cx, num)?;
    drop_labels(cx, ws, id, &labels)?;
    cx.exec("DELETE FROM run_values WHERE num = ?1", [num])?;
    cx.exec("DELETE FROM run_results WHERE num = ?1", [num])?;
    cx.exec("DELETE FROM runs WHERE num = ?1", [num])?;
    Ok(())
}

pub fn children(cx: &Cx, ws: i64, id: RunId) -> Result<Vec<RunRow>> {
    static SQL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let sql = SQL.get_or_init(|| format!("SELECT {HEAD} FROM runs r WHERE r.ws = ?1 AND r.parent = ?2 ORDER BY r.id"));
    cx.all(sql, params![ws, id.as_bytes()], |row| read_head(cx, row))
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
    cx.ask(&sql, [], |row| read_head(cx, row))
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
    let sql = format!("SELECT {HEAD}, {VALUES} FROM {WHOLE}");
    cx.ask(&sql, [], |row| read_whole(cx, row))
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
    cx.ask(&filter.sql, params_from_iter(filter.values), |row| read_whole(cx, row))
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
            "SELECT {HEAD}, {VALUES} FROM {labels}runs r CROSS JOIN run_values v ON v.num = r.num \
             LEFT JOIN run_results e ON e.num = r.num WHERE r.ws = ?"
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
