//! What belongs to one run: journal, snapshot, timers, effects, logs, inbox.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val};
use semel_core::run::StepKey;
use semel_core::{RunId, WorkspaceId};
use semel_store::codec::{Checksum, Damaged, word};
use semel_store::{EffectRow, Inbox, JournalRow, LogRow, SnapshotRow, TaskWord, TimerRow};
use tokio_postgres::Row;

pub const JOURNAL: Table = Table {
    name: "journal",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("seq", Kind::Int),
        ("at", Kind::Int),
        ("format", Kind::Int),
        ("events", Kind::Bytes),
        ("vals", Kind::Bytes),
        ("digest", Kind::Int),
        ("val_digest", Kind::Int),
    ],
    key: 3,
};

fn digest(row: &JournalRow) -> i64 {
    let head = [row.seq.to_le_bytes(), row.at.0.to_le_bytes(), u64::from(row.format).to_le_bytes()].concat();
    Checksum::new().part(Some(row.run.as_bytes())).part(Some(&head)).part(Some(&row.events)).value()
}

/// Of the values alone, which may go while the rest stays.
fn value_digest(row: &JournalRow) -> Option<i64> {
    let values = row.values.as_deref()?;
    Some(Checksum::new().part(Some(row.run.as_bytes())).part(Some(&row.seq.to_le_bytes())).part(Some(values)).value())
}

pub fn journal_row<'a>(ws: &'a WorkspaceId, row: &'a JournalRow) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::run(row.run),
        Val::number(row.seq),
        Val::at(row.at),
        Val::int(row.format),
        Val::bytes(&row.events),
        Val::bytes_opt(row.values.as_deref()),
        Val::int(digest(row)),
        Val::Int(value_digest(row)),
    ]
}

pub fn read_journal(row: &Row) -> Result<JournalRow, Error> {
    let journal = JournalRow {
        run: row.run(1)?,
        seq: row.number(2)?,
        at: row.millis(3)?,
        format: row.number(4)?,
        events: row.bytes(5)?,
        values: row.bytes_opt(6)?,
    };
    if digest(&journal) == row.int(7)? && value_digest(&journal) == row.int_opt(8)? {
        return Ok(journal);
    }
    let text = format!("journal row {} of run {} does not match its checksum", journal.seq, journal.run);
    Err(Damaged(text).into())
}

pub const SNAPSHOTS: Table = Table {
    name: "snapshots",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("version", Kind::Int),
        ("format", Kind::Int),
        ("state", Kind::Bytes),
        ("digest", Kind::Int),
    ],
    key: 2,
};

fn snapshot_digest(row: &SnapshotRow) -> i64 {
    Checksum::new().part(Some(row.run.as_bytes())).part(Some(&row.version.to_le_bytes())).part(Some(&row.state)).value()
}

pub fn snapshot_row<'a>(ws: &'a WorkspaceId, row: &'a SnapshotRow) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::run(row.run),
        Val::number(row.version),
        Val::int(row.format),
        Val::bytes(&row.state),
        Val::int(snapshot_digest(row)),
    ]
}

pub fn read_snapshot(row: &Row) -> Result<SnapshotRow, Error> {
    let snapshot =
        SnapshotRow { run: row.run(1)?, version: row.number(2)?, format: row.number(3)?, state: row.bytes(4)? };
    if snapshot_digest(&snapshot) == row.int(5)? {
        return Ok(snapshot);
    }
    Err(Damaged(format!("the snapshot of run {} does not match its checksum", snapshot.run)).into())
}

pub const TIMERS: Table = Table {
    name: "timers",
    columns: &[("ws", Kind::Text), ("run", Kind::Id), ("timer", Kind::Int), ("due", Kind::Int), ("node", Kind::Int)],
    key: 3,
};

pub fn timer_row(row: &TimerRow, node: i64) -> Vec<Val<'_>> {
    vec![Val::ws(&row.workspace), Val::run(row.run), Val::number(row.timer), Val::at(row.due), Val::int(node)]
}

pub fn read_timer(row: &Row) -> Result<TimerRow, Error> {
    Ok(TimerRow { workspace: row.ws(0)?, run: row.run(1)?, timer: row.number(2)?, due: row.millis(3)? })
}

pub const TASK_WORDS: Table = Table {
    name: "task_words",
    columns: &[("ws", Kind::Text), ("run", Kind::Id), ("kind", Kind::Text), ("word", Kind::Text)],
    key: 4,
};

pub fn read_task_word(row: &Row) -> Result<(WorkspaceId, RunId, TaskWord), Error> {
    Ok((row.ws(0)?, row.run(1)?, TaskWord { of: row.word(2)?, text: row.text(3)? }))
}

pub const EFFECTS: Table = Table {
    name: "effects",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("step_id", Kind::Id),
        ("step", Kind::Text),
        ("class", Kind::Text),
        ("state", Kind::Text),
        ("attempt", Kind::Int),
        ("sends", Kind::Int),
        ("out_key", Kind::Text),
        ("safe_until", Kind::Int),
        ("at", Kind::Int),
    ],
    key: 3,
};

pub fn effect_row<'a>(ws: &'a WorkspaceId, row: &'a EffectRow) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::run(row.run),
        Val::hash(row.step_id),
        Val::text(&row.step.0),
        Val::own(row.class.word()),
        Val::own(word(&row.state)),
        Val::int(row.attempt),
        Val::int(row.sends),
        Val::text(&row.out_key),
        Val::at_opt(row.safe_until),
        Val::at(row.at),
    ]
}

pub fn read_effect(row: &Row) -> Result<EffectRow, Error> {
    Ok(EffectRow {
        run: row.run(1)?,
        step_id: row.hash(2)?,
        step: StepKey(row.text(3)?),
        class: row.word(4)?,
        state: row.word(5)?,
        attempt: row.number(6)?,
        sends: row.number(7)?,
        out_key: row.text(8)?,
        safe_until: row.millis_opt(9)?,
        at: row.millis(10)?,
    })
}

pub const LOGS: Table = Table {
    name: "logs",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("seq", Kind::Int),
        ("at", Kind::Int),
        ("level", Kind::Text),
        ("step", Kind::Text),
        ("message", Kind::Text),
    ],
    key: 3,
};

pub fn log_row<'a>(ws: &'a WorkspaceId, row: &'a LogRow) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::run(row.run),
        Val::number(row.seq),
        Val::at(row.at),
        Val::text(&row.level),
        Val::text(&row.step.0),
        Val::text(&row.message),
    ]
}

pub fn read_log(row: &Row) -> Result<LogRow, Error> {
    Ok(LogRow {
        run: row.run(1)?,
        seq: row.number(2)?,
        at: row.millis(3)?,
        level: row.text(4)?,
        step: StepKey(row.text(5)?),
        message: row.text(6)?,
    })
}

/// The number comes from the database, in the order of the rows.
pub const INBOX: Table =
    Table { name: "inbox", columns: &[("ws", Kind::Text), ("run", Kind::Id), ("message", Kind::Text)], key: 2 };

/// What is read of the inbox.
pub const MESSAGES: Table = Table {
    name: "inbox",
    columns: &[("ws", Kind::Text), ("run", Kind::Id), ("seq", Kind::Int), ("message", Kind::Text)],
    key: 3,
};

pub fn read_message(row: &Row) -> Result<(WorkspaceId, RunId, u64, Inbox), Error> {
    Ok((row.ws(0)?, row.run(1)?, row.number(2)?, row.json(3)?))
}
