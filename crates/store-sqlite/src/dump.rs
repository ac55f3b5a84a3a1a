//! Every row, in the form of the oracle.

use crate::names::Cx;
use crate::tables::{admin, changes, claims, decisions, errands, files, history, runs, words};
use rusqlite::Result;
use semel_store::memory::Tables;
use serde_json::Value as Json;

pub fn dump(cx: &Cx) -> Result<Json> {
    let mut tables = Tables::default();
    tables.claims.extend(claims::each(cx)?.into_iter().map(|(ws, claim)| ((ws, claim.hash), claim)));
    tables.lanes.extend(claims::each_lane(cx)?.into_iter().map(|(ws, hash, lane)| ((ws, hash), lane)));
    tables.queues.extend(claims::each_queue(cx)?.into_iter().map(|(ws, hash, seq, run)| ((ws, hash, seq), run)));
    for (row, values, labels) in runs::each(cx)? {
        let key = (row.workspace.clone(), row.id);
        tables.runs.insert(key.clone(), row);
        tables.run_values.insert(key.clone(), values);
        tables.labels.insert(key, labels);
    }
    history(cx, &mut tables)?;
    tables.decisions.extend(decisions::each(cx)?.into_iter().map(|row| (row.seq, row)));
    administration(cx, &mut tables)?;
    Ok(tables.dump())
}

fn history(cx: &Cx, tables: &mut Tables) -> Result<()> {
    tables.journal.extend(history::each_journal(cx)?.into_iter().map(|(ws, row)| ((ws, row.run, row.seq), row)));
    tables.snapshots.extend(history::each_snapshot(cx)?.into_iter().map(|(ws, row)| ((ws, row.run), row)));
    tables.timers.extend(history::each_timer(cx)?.into_iter().map(|t| ((t.workspace.clone(), t.run, t.timer), t)));
    tables.errands.extend(errands::each(cx)?.into_iter().map(|(ws, row)| ((ws, row.id), row)));
    tables.effects.extend(history::each_effect(cx)?.into_iter().map(|(ws, row)| ((ws, row.run, row.step_id), row)));
    tables.task_words.extend(words::each(cx)?.into_iter().map(|word| (word, ())));
    tables.logs.extend(history::each_log(cx)?.into_iter().map(|(ws, row)| ((ws, row.run, row.seq), row)));
    tables.files.extend(files::each(cx)?.into_iter().map(|(ws, row)| ((ws, row.run, row.path.clone()), row)));
    tables.chunks.extend(files::each_chunk(cx)?);
    tables.uploads.extend(files::each_upload(cx)?);
    tables.inbox.extend(history::each_inbox(cx)?.into_iter().map(|(ws, run, seq, message)| ((ws, run, seq), message)));
    Ok(())
}

fn administration(cx: &Cx, tables: &mut Tables) -> Result<()> {
    let kv = admin::each_kv(cx)?.into_iter();
    tables.kv.extend(kv.map(|(ws, row)| ((ws, row.namespace.clone(), row.key.clone()), row)));
    let flows = admin::each_flow(cx)?.into_iter();
    tables.flows.extend(flows.map(|row| ((row.workspace.clone(), row.flow.clone(), row.revision), row)));
    let schedules = admin::each_schedule(cx)?.into_iter();
    tables.schedules.extend(schedules.map(|row| ((row.workspace.clone(), row.flow.clone(), row.trigger.clone()), row)));
    tables.changes.extend(changes::each(cx)?.into_iter().map(|c| ((c.workspace.clone(), c.run, c.version), c)));
    let secrets = admin::each_secret(cx)?.into_iter();
    tables.secrets.extend(secrets.map(|row| ((row.workspace.clone(), row.name.clone(), row.version), row)));
    tables.tokens.extend(admin::each_token(cx)?.into_iter().map(|row| (row.id.clone(), row)));
    tables.workspaces.extend(admin::workspaces(cx)?.into_iter().map(|row| (row.id.clone(), row)));
    Ok(())
}
