//! What a batch has made of its working set, as statements. Each is one array per column.
//!
//! Stored rows go first, then rows are written in the order in which they are locked. The statements guard themselves:
//! a row that was taken for absent and is there, or a head that is not as it was read, fails the transaction. Messages
//! and decisions come last, because the numbers they are given are spent even if the transaction fails.

use crate::cache::{Cache, Changes};
use crate::classify::LOST_RACE;
use crate::codec::{Kind, Rows, Statement, Table, Val, unnest};
use crate::set::{PROVISIONAL, Pair, Set};
use crate::tables::{admin, claims, decisions, errands, files, history, runs};
use crate::wants::{FileKey, RowKey, RunKey};
use semel_store::codec::json;
use semel_store::{Inbox, RELEASED_FROM, RunRow};
use std::collections::BTreeSet;

pub fn flush(set: &Set) -> Vec<Statement> {
    let mut out = Vec::new();
    removals(set, &mut out);
    let keys = set.claims.changes();
    write(
        &claims::CLAIMS,
        &keys,
        |(ws, _), claim| claims::row(ws, claim),
        |(ws, hash)| vec![Val::ws(ws), Val::hash(*hash)],
        &mut out,
    );
    let lanes = set.lanes.changes();
    write(
        &claims::LANES,
        &lanes,
        |(ws, hash), lane| claims::lane_row(ws, *hash, lane),
        |(ws, hash)| vec![Val::ws(ws), Val::hash(*hash)],
        &mut out,
    );
    lines(set, &mut out);
    let kv = set.kv.changes();
    write(
        &admin::KV,
        &kv,
        |(ws, _, _), row| admin::kv_row(ws, row),
        |(ws, namespace, key)| vec![Val::ws(ws), Val::text(namespace), Val::text(key)],
        &mut out,
    );
    let files = set.files.changes();
    write(&files::FILES, &files, |(ws, _, _), row| files::file_row(ws, row), file_key, &mut out);
    write(
        &errands::ERRANDS,
        &set.errands.changes(),
        |(ws, _), row| errands::row(ws, row),
        |(ws, id)| vec![Val::ws(ws), Val::hash(*id)],
        &mut out,
    );
    words(set, &mut out);
    let heads = set.runs.changes();
    heads_of(set, &heads, &mut out);
    values(set, &mut out);
    history(set, &mut out);
    chunks(set, &mut out);
    administration(set, &mut out);
    answers(set, &mut out);
    absent(&claims::CLAIMS, &keys, |(ws, hash)| vec![Val::ws(ws), Val::hash(*hash)], &mut out);
    absent(&claims::LANES, &lanes, |(ws, hash)| vec![Val::ws(ws), Val::hash(*hash)], &mut out);
    absent(&admin::KV, &kv, |(ws, ns, key)| vec![Val::ws(ws), Val::text(ns), Val::text(key)], &mut out);
    absent(&files::FILES, &files, file_key, &mut out);
    absent(&runs::RUNS, &heads, |(ws, run)| vec![Val::ws(ws), Val::run(*run)], &mut out);
    numbered(set, &mut out);
    out
}

fn file_key((ws, run, path): &FileKey) -> Vec<Val<'_>> {
    vec![Val::ws(ws), Val::run(*run), Val::text(path)]
}

/// Nobody reads these rows by another way than by the file that names them.
fn chunks(set: &Set, out: &mut Vec<Statement>) {
    write(
        &files::CHUNKS,
        &set.chunks.changes(),
        |key, bytes| files::chunk_row(key, bytes),
        |(ws, run, (file, number))| vec![Val::ws(ws), Val::run(*run), Val::hash(*file), Val::int(*number)],
        out,
    );
    write(
        &files::UPLOADS,
        &set.uploads.changes(),
        |key, at| files::upload_row(key, *at),
        |(ws, run, file)| vec![Val::ws(ws), Val::run(*run), Val::hash(*file)],
        out,
    );
}

fn push(rows: Rows, make: impl FnOnce(Rows) -> Statement, out: &mut Vec<Statement>) {
    if !rows.is_empty() {
        out.push(make(rows));
    }
}

/// Deletes, inserts and replaces rows of a table that has a key.
fn write<'a, K, V>(
    table: &Table,
    changes: &'a Changes<'a, K, V>,
    row: impl Fn(&'a K, &'a V) -> Vec<Val<'a>>,
    key: impl Fn(&'a K) -> Vec<Val<'a>>,
    out: &mut Vec<Statement>,
) {
    let (mut deletes, mut inserts, mut puts) = (table.keys(), table.rows(), table.rows());
    changes.deletes.iter().for_each(|k| deletes.push(key(k)));
    changes.inserts.iter().for_each(|(k, v)| inserts.push(row(k, v)));
    changes.updates.iter().for_each(|(k, _, v)| puts.push(row(k, v)));
    changes.puts.iter().for_each(|(k, v)| puts.push(row(k, v)));
    push(deletes, |rows| table.delete(rows), out);
    push(inserts, |rows| table.insert(rows), out);
    push(puts, |rows| table.put(rows), out);
}

fn absent<'a, K, V>(
    table: &Table,
    changes: &'a Changes<'a, K, V>,
    key: impl Fn(&'a K) -> Vec<Val<'a>>,
    out: &mut Vec<Statement>,
) {
    let mut keys = table.keys();
    changes.absent.iter().for_each(|k| keys.push(key(k)));
    push(keys, |rows| table.must_be_absent(rows, LOST_RACE), out);
}

/// The keys that are set.
fn marked(cache: &Cache<RunKey, ()>) -> Rows {
    let keys = cache.0.iter().filter(|(_, slot)| slot.now.is_some());
    Rows::of_ids(keys.map(|((ws, run), _)| (ws, run.0)))
}

fn removals(set: &Set, out: &mut Vec<Statement>) {
    let of_run = |table: &str| {
        format!("DELETE FROM {table} t USING unnest($1, $2) AS k (ws, run) WHERE t.ws = k.ws AND t.run = k.run")
    };
    for table in [
        "run_values",
        "run_labels",
        "journal",
        "snapshots",
        "timers",
        "errands",
        "effects",
        "task_words",
        "logs",
        "inbox",
        "changes",
    ] {
        push(marked(&set.gone), |rows| rows.statement(of_run(table)), out);
    }
    for table in ["files", "file_chunks", "uploads"] {
        push(marked(&set.gone), |rows| rows.statement(of_run(table)), out);
        push(marked(&set.erased), |rows| rows.statement(of_run(table)), out);
    }
    let mut replaced = files::UPLOADS.keys();
    for ((ws, run, file), slot) in &set.chunks_gone.0 {
        if slot.now.is_some() {
            replaced.push(vec![Val::ws(ws), Val::run(*run), Val::hash(*file)]);
        }
    }
    let sql = "DELETE FROM file_chunks t USING unnest($1, $2, $3) AS k (ws, run, file) \
               WHERE t.ws = k.ws AND t.run = k.run AND t.file = k.file";
    push(replaced, |rows| rows.statement(sql), out);
    push(marked(&set.timers_gone), |rows| rows.statement(of_run("timers")), out);
    push(marked(&set.erased), |rows| rows.statement(of_run("task_words")), out);
    push(marked(&set.erased), |rows| rows.statement(of_run("logs")), out);
    let log = format!("{} AND t.seq < {RELEASED_FROM}", of_run("logs"));
    push(marked(&set.logs_gone), |rows| rows.statement(log), out);
    push(marked(&set.erased), |rows| rows.statement(of_run("inbox")), out);
    let erase =
        |what: &str| format!("UPDATE {what} FROM unnest($1, $2) AS k (ws, run) WHERE t.ws = k.ws AND t.run = k.run");
    push(marked(&set.erased), |rows| rows.statement(erase("journal t SET vals = NULL, val_digest = NULL")), out);
    push(marked(&set.erased), |rows| rows.statement(erase("decisions t SET key = NULL")), out);
}

fn lines(set: &Set, out: &mut Vec<Statement>) {
    let mut left = claims::PLACES.keys();
    let mut pushed = Rows::new([Kind::Text, Kind::Id, Kind::Int, Kind::Id].into_iter());
    for ((ws, hash), line) in &set.lines {
        line.left.iter().for_each(|run| left.push(vec![Val::ws(ws), Val::hash(*hash), Val::run(*run)]));
        for (place, run) in (1_i64..).zip(&line.pushed) {
            pushed.push(vec![Val::ws(ws), Val::hash(*hash), Val::int(place), Val::run(*run)]);
        }
    }
    push(left, |rows| claims::PLACES.delete(rows), out);
    let sql = "INSERT INTO lane_queue (ws, hash, seq, run) SELECT k.ws, k.hash, k.place + coalesce((SELECT max(q.seq) \
               FROM lane_queue q WHERE q.ws = k.ws AND q.hash = k.hash), 0), k.run \
               FROM unnest($1, $2, $3, $4) AS k (ws, hash, place, run)";
    push(pushed, |rows| rows.statement(sql), out);
}

/// An active run belongs to whoever has it, or else to who made it active; one that waits belongs to nobody.
fn owner_of(set: &Set, key: &RunKey, run: &RunRow) -> Option<i64> {
    run.active.then(|| set.owners.get(key).copied().unwrap_or(set.node))
}

/// Every change of a head is conditional on the epoch and version that were read.
fn heads_of(set: &Set, changes: &Changes<'_, RunKey, RunRow>, out: &mut Vec<Statement>) {
    let table = &runs::RUNS;
    let (mut deletes, mut inserts) = (table.keys(), table.rows());
    changes.deletes.iter().for_each(|(ws, run)| deletes.push(vec![Val::ws(ws), Val::run(*run)]));
    changes.inserts.iter().for_each(|(_, row)| inserts.push(runs::row(row, row.active.then_some(set.node))));
    push(deletes, |rows| table.delete(rows), out);
    push(inserts, |rows| table.insert(rows), out);
    let guard = [Kind::Int, Kind::Int];
    let mut updates = Rows::new(table.columns.iter().map(|(_, kind)| *kind).chain(guard));
    for (key, old, now) in &changes.updates {
        let mut row = runs::row(now, owner_of(set, key, now));
        row.extend([Val::number(old.epoch), Val::number(old.version)]);
        updates.push(row);
    }
    push(updates, update_heads, out);
}

fn update_heads(rows: Rows) -> Statement {
    let table = &runs::RUNS;
    let sets: Vec<String> = table.columns[table.key..].iter().map(|(name, _)| format!("{name} = u.{name}")).collect();
    let sql = format!(
        "UPDATE runs t SET {} FROM {} AS u ({}, old_epoch, old_version) WHERE t.ws = u.ws AND t.id = u.id \
         AND t.epoch = u.old_epoch AND t.version = u.old_version",
        sets.join(", "),
        unnest(1, table.columns.len() + 2),
        table.names("")
    );
    exactly(sql, rows)
}

/// A statement that must change as many rows as it is given.
fn exactly(change: String, rows: Rows) -> Statement {
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let mut statement = rows.statement("");
    statement.params.push(Val::int(count).param());
    let place = statement.params.len();
    let counted = "SELECT count(*) FROM done";
    let sql = format!("WITH done AS ({change} RETURNING 1) SELECT must(({counted}) = ${place}, '{LOST_RACE}')");
    Statement { sql: sql.into(), ..statement }
}

fn values(set: &Set, out: &mut Vec<Statement>) {
    let mut inserts = runs::VALUES.rows();
    let changes = set.labels.changes();
    for (key, labels) in &changes.inserts {
        inserts.push(runs::values_row(key, now(&set.given, key), now(&set.results, key), labels));
    }
    push(inserts, |rows| runs::VALUES.insert(rows), out);
    pairs(&set.given, ["inputs", "trigger"], out);
    pairs(&set.results, ["outputs", "failure"], out);
    labels(set, out);
}

fn now<'a>(cache: &'a Cache<RunKey, Pair>, key: &RunKey) -> Option<&'a Pair> {
    cache.get(key)?.as_ref()
}

/// Two columns of values of runs that are stored.
fn pairs(cache: &Cache<RunKey, Pair>, [first, second]: [&str; 2], out: &mut Vec<Statement>) {
    let changes = cache.changes();
    let mut rows = Rows::new([Kind::Text, Kind::Id, Kind::Text, Kind::Text].into_iter());
    let known = changes.updates.iter().map(|(key, _, now)| (key, now));
    for ((ws, run), (a, b)) in known.chain(changes.puts.iter().map(|(key, now)| (key, now))) {
        rows.push(vec![
            Val::ws(ws),
            Val::run(*run),
            Val::own_opt(a.as_ref().map(json)),
            Val::own_opt(b.as_ref().map(json)),
        ]);
    }
    let sql = format!(
        "UPDATE run_values t SET {first} = u.a, {second} = u.b FROM unnest($1, $2, $3, $4) AS u (ws, run, a, b) \
         WHERE t.ws = u.ws AND t.run = u.run"
    );
    push(rows, |rows| exactly(sql, rows), out);
}

/// The labels as given, and the index over them.
fn labels(set: &Set, out: &mut Vec<Statement>) {
    let changes = set.labels.changes();
    let stored = || changes.updates.iter().map(|(key, _, now)| (*key, *now)).chain(changes.puts.iter().copied());
    let mut rows = Rows::new([Kind::Text, Kind::Id, Kind::Text].into_iter());
    stored().for_each(|((ws, run), labels)| rows.push(vec![Val::ws(ws), Val::run(*run), Val::own(json(labels))]));
    let sql = "UPDATE run_values t SET labels = u.labels FROM unnest($1, $2, $3) AS u (ws, run, labels) \
               WHERE t.ws = u.ws AND t.run = u.run";
    push(rows, |rows| exactly(sql.to_owned(), rows), out);
    let sql = "DELETE FROM run_labels t USING unnest($1, $2) AS k (ws, run) WHERE t.ws = k.ws AND t.run = k.run";
    push(Rows::of_ids(stored().map(|((ws, run), _)| (ws, run.0))), |rows| rows.statement(sql), out);
    let mut index = BTreeSet::new();
    for ((ws, run), labels) in stored().chain(changes.inserts.iter().copied()) {
        index.extend(labels.iter().map(|(name, value)| (ws, name, value, run)));
    }
    let mut rows = runs::LABELS.rows();
    for (ws, name, value, run) in index {
        rows.push(vec![Val::ws(ws), Val::text(name), Val::text(value), Val::run(*run)]);
    }
    push(rows, |rows| runs::LABELS.insert(rows), out);
}

/// A word that is there already is left as it is.
fn words(set: &Set, out: &mut Vec<Statement>) {
    let mut rows = history::TASK_WORDS.rows();
    for ((ws, run, word), _) in set.task_words.0.iter().filter(|(_, slot)| slot.now.is_some()) {
        rows.push(vec![Val::ws(ws), Val::run(*run), Val::text(word.of.word()), Val::text(&word.text)]);
    }
    push(rows, |rows| history::TASK_WORDS.add(rows), out);
}

fn history(set: &Set, out: &mut Vec<Statement>) {
    // Pending rows of journals and logs that were taken back were never stored.
    let (mut journal, mut logs) = (history::JOURNAL.rows(), history::LOGS.rows());
    set.journal.changes().inserts.iter().for_each(|(key, row)| journal.push(history::journal_row(&key.0, row)));
    set.logs.changes().inserts.iter().for_each(|(key, row)| logs.push(history::log_row(&key.0, row)));
    push(journal, |rows| history::JOURNAL.insert(rows), out);
    push(logs, |rows| history::LOGS.insert(rows), out);
    let key = |(ws, run, number): &'_ RowKey| vec![Val::own(ws.0.clone()), Val::run(*run), Val::number(*number)];
    let timers = set.timers.changes();
    write(&history::TIMERS, &timers, |_, row| history::timer_row(row, set.node), key, out);
    write(
        &history::SNAPSHOTS,
        &set.snapshots.changes(),
        |(ws, _), row| history::snapshot_row(ws, row),
        |(ws, run)| vec![Val::ws(ws), Val::run(*run)],
        out,
    );
    write(
        &history::EFFECTS,
        &set.effects.changes(),
        |(ws, _, _), row| history::effect_row(ws, row),
        |(ws, run, step)| vec![Val::ws(ws), Val::run(*run), Val::hash(*step)],
        out,
    );
    let mut read = history::MESSAGES.keys();
    let gone = set.inbox.changes().deletes;
    gone.into_iter().filter(|(_, _, seq)| *seq < PROVISIONAL).for_each(|at| read.push(key(at)));
    push(read, |rows| history::MESSAGES.delete(rows), out);
}

fn administration(set: &Set, out: &mut Vec<Statement>) {
    let mut flows = admin::FLOWS.rows();
    set.flows.iter().for_each(|row| flows.push(admin::flow_row(row)));
    push(flows, |rows| admin::FLOWS.insert(rows), out);
    schedules(set, out);
    write(
        &admin::CHANGES,
        &set.changes.changes(),
        |_, row| admin::change_row(row),
        |(ws, run, version)| vec![Val::ws(ws), Val::run(*run), Val::number(*version)],
        out,
    );
    write(
        &admin::SECRETS,
        &set.secrets.changes(),
        |_, row| admin::secret_row(row),
        |(ws, name, version)| vec![Val::ws(ws), Val::text(name), Val::number(*version)],
        out,
    );
    write(&admin::TOKENS, &set.tokens.changes(), |_, row| admin::token_row(row), |id| vec![Val::text(id)], out);
    write(
        &admin::WORKSPACES,
        &set.workspaces.changes(),
        |_, row| admin::workspace_row(row),
        |id| vec![Val::ws(id)],
        out,
    );
    if let Some(row) = &set.restored {
        let sql = "UPDATE meta SET incarnation = $1, backup_at = $2, restored_at = $3 WHERE id = 1";
        let values = vec![Val::text(&row.incarnation), Val::at(row.backup_at), Val::at(row.restored_at)];
        out.push(Statement::new(sql, values));
    }
}

/// Those that moved on, then those that a push replaced.
fn schedules(set: &Set, out: &mut Vec<Statement>) {
    let mut moved = admin::SCHEDULES.rows();
    set.schedules_moved.changes().puts.iter().for_each(|(_, row)| moved.push(admin::schedule_row(row)));
    let sql = format!(
        "UPDATE schedules t SET next_due = u.next_due, last_fired = u.last_fired, state = u.state FROM {} AS u ({}) WHERE t.ws = u.ws \
         AND t.namespace = u.namespace AND t.flow_id = u.flow_id AND t.trigger = u.trigger",
        unnest(1, admin::SCHEDULES.columns.len()),
        admin::SCHEDULES.names("")
    );
    push(moved, |rows| rows.statement(sql), out);
    let mut gone = Rows::new([Kind::Text, Kind::Text, Kind::Text].into_iter());
    for ((ws, flow), slot) in &set.schedules_gone.0 {
        if slot.now.is_some() {
            gone.push(vec![Val::ws(ws), Val::text(&flow.namespace), Val::text(&flow.id)]);
        }
    }
    let sql = "DELETE FROM schedules t USING unnest($1, $2, $3) AS k (ws, namespace, flow_id) \
               WHERE t.ws = k.ws AND t.namespace = k.namespace AND t.flow_id = k.flow_id";
    push(gone, |rows| rows.statement(sql), out);
    let mut put = admin::SCHEDULES.rows();
    set.schedules.changes().puts.iter().for_each(|(_, row)| put.push(admin::schedule_row(row)));
    push(put, |rows| admin::SCHEDULES.put(rows), out);
}

fn answers(set: &Set, out: &mut Vec<Statement>) {
    let mut rows = Rows::new([Kind::Id, Kind::Int, Kind::Text].into_iter());
    for (ticket, refused) in &set.answers {
        rows.push(vec![Val::hash(*ticket), Val::at(set.now), Val::text_opt(refused.as_deref())]);
    }
    let sql = "INSERT INTO answers (ticket, at, refused) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING";
    push(rows, |rows| rows.statement(sql), out);
}

fn numbered(set: &Set, out: &mut Vec<Statement>) {
    let mut pushed: Vec<(&RowKey, &Option<Inbox>)> =
        set.inbox.0.iter().filter(|(key, _)| key.2 >= PROVISIONAL).map(|(key, slot)| (key, &slot.now)).collect();
    pushed.sort_by_key(|(key, _)| key.2);
    let mut messages = history::INBOX.rows();
    for ((ws, run, _), message) in pushed {
        messages.push(vec![Val::ws(ws), Val::run(*run), Val::own_opt(message.as_ref().map(json))]);
    }
    // A message that was taken back before it was stored has had its number all the same, as in every store.
    let sql = "WITH numbered AS MATERIALIZED (SELECT nextval(pg_get_serial_sequence('inbox', 'seq')) AS seq, u.* \
               FROM unnest($1, $2, $3) AS u (ws, run, message)) \
               INSERT INTO inbox (seq, ws, run, message) SELECT * FROM numbered WHERE message IS NOT NULL";
    push(messages, |rows| rows.statement(sql), out);
    let mut log = decisions::DECISIONS.rows();
    set.decisions.iter().for_each(|row| log.push(decisions::row(row)));
    push(log, |rows| decisions::DECISIONS.insert(rows), out);
}
