//! Every row, in the form of the oracle.

use crate::classify::Error;
use crate::codec::{Columns, Statement, Table};
use crate::reads::{WHOLE, read_whole, whole_columns};
use crate::session::{Call, Session};
use crate::tables::{admin, claims, decisions, errands, files, history, runs::Labels};
use semel_core::WorkspaceId;
use semel_store::memory::Tables;
use serde_json::Value as Json;
use tokio_postgres::Row;

pub fn ask(session: &Session, statement: Statement) -> Result<Vec<Row>, Error> {
    Ok(session.fly(vec![Call::Typed(statement)]).rows()?.pop().unwrap_or_default())
}

fn each<T>(session: &Session, sql: String, read: impl Fn(&Row) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    ask(session, Statement::new(sql, vec![]))?.iter().map(read).collect()
}

fn all<T>(session: &Session, table: &Table, read: impl Fn(&Row) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    each(session, format!("SELECT {} FROM {}", table.names(""), table.name), read)
}

/// A row with the workspace in its first column.
fn with_ws<T>(read: impl Fn(&Row) -> Result<T, Error>) -> impl Fn(&Row) -> Result<(WorkspaceId, T), Error> {
    move |row| Ok((row.ws(0)?, read(row)?))
}

pub fn dump(session: &Session) -> Result<Json, Error> {
    let mut tables = Tables::default();
    let keys = all(session, &claims::CLAIMS, claims::read)?;
    tables.claims.extend(keys.into_iter().map(|(ws, claim)| ((ws, claim.hash), claim)));
    let lanes = all(session, &claims::LANES, claims::read_lane)?;
    tables.lanes.extend(lanes.into_iter().map(|(ws, hash, lane)| ((ws, hash), lane)));
    let queue = "SELECT ws, hash, seq, run FROM lane_queue".to_owned();
    let queue = each(session, queue, |row| Ok(((row.ws(0)?, row.hash(1)?, row.number(2)?), row.run(3)?)))?;
    tables.queues.extend(queue);
    for (row, values, labels) in each(session, format!("SELECT {} FROM {WHOLE}", whole_columns()), read_whole)? {
        let key = (row.workspace.clone(), row.id);
        tables.runs.insert(key.clone(), row);
        tables.run_values.insert(key.clone(), values);
        let labels: Labels = labels;
        tables.labels.insert(key, labels);
    }
    history(session, &mut tables)?;
    let log = each(session, format!("SELECT {} FROM decisions", decisions::columns()), decisions::read)?;
    tables.decisions.extend(log.into_iter().map(|row| (row.seq, row)));
    administration(session, &mut tables)?;
    Ok(tables.dump())
}

fn history(session: &Session, tables: &mut Tables) -> Result<(), Error> {
    let journal = all(session, &history::JOURNAL, with_ws(history::read_journal))?;
    tables.journal.extend(journal.into_iter().map(|(ws, row)| ((ws, row.run, row.seq), row)));
    let snapshots = all(session, &history::SNAPSHOTS, with_ws(history::read_snapshot))?;
    tables.snapshots.extend(snapshots.into_iter().map(|(ws, row)| ((ws, row.run), row)));
    let timers = all(session, &history::TIMERS, history::read_timer)?;
    tables.timers.extend(timers.into_iter().map(|row| ((row.workspace.clone(), row.run, row.timer), row)));
    let effects = all(session, &history::EFFECTS, with_ws(history::read_effect))?;
    tables.effects.extend(effects.into_iter().map(|(ws, row)| ((ws, row.run, row.step_id), row)));
    let words = all(session, &history::TASK_WORDS, history::read_task_word)?;
    tables.task_words.extend(words.into_iter().map(|word| (word, ())));
    let logs = all(session, &history::LOGS, with_ws(history::read_log))?;
    tables.logs.extend(logs.into_iter().map(|(ws, row)| ((ws, row.run, row.seq), row)));
    tables
        .errands
        .extend(all(session, &errands::ERRANDS, errands::read)?.into_iter().map(|(ws, row)| ((ws, row.id), row)));
    let files = all(session, &files::FILES, with_ws(files::read_file))?;
    tables.files.extend(files.into_iter().map(|(ws, row)| ((ws, row.run, row.path.clone()), row)));
    tables.chunks.extend(all(session, &files::CHUNKS, files::read_chunk)?);
    tables.uploads.extend(all(session, &files::UPLOADS, files::read_upload)?);
    let inbox = all(session, &history::MESSAGES, history::read_message)?;
    tables.inbox.extend(inbox.into_iter().map(|(ws, run, seq, message)| ((ws, run, seq), message)));
    Ok(())
}

fn administration(session: &Session, tables: &mut Tables) -> Result<(), Error> {
    let kv = all(session, &admin::KV, admin::read_kv)?;
    tables.kv.extend(kv.into_iter().map(|(ws, row)| ((ws, row.namespace.clone(), row.key.clone()), row)));
    let flows = all(session, &admin::FLOWS, admin::read_flow)?;
    tables.flows.extend(flows.into_iter().map(|row| ((row.workspace.clone(), row.flow.clone(), row.revision), row)));
    let schedules = all(session, &admin::SCHEDULES, admin::read_schedule)?.into_iter();
    tables.schedules.extend(schedules.map(|row| ((row.workspace.clone(), row.flow.clone(), row.trigger.clone()), row)));
    let changes = all(session, &admin::CHANGES, admin::read_change)?;
    tables.changes.extend(changes.into_iter().map(|row| ((row.workspace.clone(), row.run, row.version), row)));
    let secrets = all(session, &admin::SECRETS, admin::read_secret)?;
    tables.secrets.extend(secrets.into_iter().map(|row| ((row.workspace.clone(), row.name.clone(), row.version), row)));
    let tokens = all(session, &admin::TOKENS, admin::read_token)?;
    tables.tokens.extend(tokens.into_iter().map(|row| (row.id.clone(), row)));
    let workspaces = all(session, &admin::WORKSPACES, admin::read_workspace)?;
    tables.workspaces.extend(workspaces.into_iter().map(|row| (row.id.clone(), row)));
    Ok(())
}
