//! What belongs to one run: journal, snapshot, timers, effects, logs, inbox.

use crate::classify::damaged;
use crate::codec::{Checksum, Columns, int, json, word};
use crate::names::Cx;
use rusqlite::{Result, Row, params};
use semel_core::run::{SNAPSHOT_VERSION, StepKey};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_store::{EffectRow, Inbox, JournalRow, LogRow, RELEASED_FROM, SnapshotRow, TimerRow};

fn journal_digest(row: &JournalRow) -> i64 {
    let head = [row.seq.to_le_bytes(), row.at.0.to_le_bytes(), u64::from(row.format).to_le_bytes()].concat();
    Checksum::new()
        .part(Some(row.run.as_bytes()))
        .part(Some(&head))
        .part(Some(&row.events))
        .part(row.values.as_deref())
        .value()
}

pub fn read_journal(row: &Row) -> Result<JournalRow> {
    let journal = JournalRow {
        run: row.run(0)?,
        seq: row.number(1)?,
        at: row.millis(2)?,
        format: row.get(3)?,
        events: row.get(4)?,
        values: row.get(5)?,
    };
    if journal_digest(&journal) == row.get::<_, i64>(6)? {
        Ok(journal)
    } else {
        Err(damaged(format!("journal row {} of run {} does not match its checksum", journal.seq, journal.run)))
    }
}

pub fn append_journal(cx: &Cx, ws: i64, row: &JournalRow) -> Result<()> {
    cx.exec(
        "INSERT INTO journal (ws, run, seq, at, format, events, vals, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            ws,
            row.run.as_bytes(),
            int(row.seq),
            row.at.0,
            row.format,
            row.events,
            row.values,
            journal_digest(row)
        ],
    )?;
    Ok(())
}

pub fn journal(cx: &Cx, ws: i64, run: RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>> {
    cx.all(
        "SELECT run, seq, at, format, events, vals, digest FROM journal WHERE ws = ?1 AND run = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
        params![ws, run.as_bytes(), int(after), limit],
        read_journal,
    )
}

pub fn each_journal(cx: &Cx) -> Result<Vec<(WorkspaceId, JournalRow)>> {
    let sql = "SELECT run, seq, at, format, events, vals, digest, ws FROM journal";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(7)?)?, read_journal(row)?)))
}

/// Drops the values of the journal and the logs.
pub fn erase(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    for row in journal(cx, ws, run, 0, u32::MAX)? {
        let row = JournalRow { values: None, ..row };
        cx.exec_one(
            "UPDATE journal SET vals = NULL, digest = ?4 WHERE ws = ?1 AND run = ?2 AND seq = ?3",
            params![ws, run.as_bytes(), int(row.seq), journal_digest(&row)],
        )?;
    }
    for sql in [
        "DELETE FROM logs WHERE ws = ?1 AND run = ?2",
        "DELETE FROM inbox WHERE ws = ?1 AND run = ?2",
        "UPDATE decisions SET key = NULL WHERE ws = ?1 AND run = ?2",
    ] {
        cx.exec(sql, params![ws, run.as_bytes()])?;
    }
    Ok(())
}

pub fn delete(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    for sql in [
        "DELETE FROM journal WHERE ws = ?1 AND run = ?2",
        "DELETE FROM snapshots WHERE ws = ?1 AND run = ?2",
        "DELETE FROM timers WHERE ws = ?1 AND run = ?2",
        "DELETE FROM effects WHERE ws = ?1 AND run = ?2",
        "DELETE FROM logs WHERE ws = ?1 AND run = ?2",
        "DELETE FROM inbox WHERE ws = ?1 AND run = ?2",
        "DELETE FROM changes WHERE ws = ?1 AND run = ?2",
    ] {
        cx.exec(sql, params![ws, run.as_bytes()])?;
    }
    Ok(())
}

fn snapshot_digest(row: &SnapshotRow) -> i64 {
    Checksum::new().part(Some(row.run.as_bytes())).part(Some(&row.version.to_le_bytes())).part(Some(&row.state)).value()
}

pub fn put_snapshot(cx: &Cx, ws: i64, row: &SnapshotRow) -> Result<()> {
    cx.exec(
        "INSERT OR REPLACE INTO snapshots (ws, run, version, format, state, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![ws, row.run.as_bytes(), int(row.version), row.format, row.state, snapshot_digest(row)],
    )?;
    Ok(())
}

pub fn read_snapshot(row: &Row) -> Result<SnapshotRow> {
    let snapshot = SnapshotRow { run: row.run(0)?, version: row.number(1)?, format: row.get(2)?, state: row.get(3)? };
    if snapshot_digest(&snapshot) == row.get::<_, i64>(4)? {
        Ok(snapshot)
    } else {
        Err(damaged(format!("the snapshot of run {} does not match its checksum", snapshot.run)))
    }
}

/// The snapshot, if its format is the current one.
pub fn snapshot(cx: &Cx, ws: i64, run: RunId) -> Result<Option<SnapshotRow>> {
    let sql = "SELECT run, version, format, state, digest FROM snapshots WHERE ws = ?1 AND run = ?2 AND format = ?3";
    cx.one(sql, params![ws, run.as_bytes(), SNAPSHOT_VERSION], read_snapshot)
}

pub fn each_snapshot(cx: &Cx) -> Result<Vec<(WorkspaceId, SnapshotRow)>> {
    let sql = "SELECT run, version, format, state, digest, ws FROM snapshots";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(5)?)?, read_snapshot(row)?)))
}

pub fn read_timer(row: &Row) -> Result<TimerRow> {
    Ok(TimerRow { workspace: WorkspaceId(row.get(0)?), run: row.run(1)?, timer: row.number(2)?, due: row.millis(3)? })
}

pub fn put_timer(cx: &Cx, ws: i64, row: &TimerRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO timers (ws, run, timer, due) VALUES (?1, ?2, ?3, ?4)";
    cx.exec(sql, params![ws, row.run.as_bytes(), int(row.timer), row.due.0])?;
    Ok(())
}

pub fn delete_timer(cx: &Cx, ws: i64, run: RunId, timer: u64) -> Result<()> {
    let sql = "DELETE FROM timers WHERE ws = ?1 AND run = ?2 AND timer = ?3";
    cx.exec(sql, params![ws, run.as_bytes(), int(timer)])?;
    Ok(())
}

pub fn delete_timers(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    cx.exec("DELETE FROM timers WHERE ws = ?1 AND run = ?2", params![ws, run.as_bytes()])?;
    Ok(())
}

pub fn due_timers(cx: &Cx, now: Millis, limit: u32) -> Result<Vec<TimerRow>> {
    cx.all(
        "SELECT w.name, t.run, t.timer, t.due FROM timers t JOIN workspaces w ON w.ws = t.ws \
         WHERE t.due <= ?1 ORDER BY t.due, w.name, t.run, t.timer LIMIT ?2",
        params![now.0, limit],
        read_timer,
    )
}

pub fn next_timer(cx: &Cx) -> Result<Option<Millis>> {
    Ok(cx.one("SELECT min(due) FROM timers", [], |row| row.millis_opt(0))?.flatten())
}

pub fn read_effect(row: &Row) -> Result<EffectRow> {
    Ok(EffectRow {
        run: row.run(0)?,
        step_id: row.hash(1)?,
        step: StepKey(row.get(2)?),
        class: row.word(3)?,
        state: row.word(4)?,
        attempt: row.get(5)?,
        sends: row.get(6)?,
        out_key: row.get(7)?,
        safe_until: row.millis_opt(8)?,
        at: row.millis(9)?,
    })
}

pub fn put_effect(cx: &Cx, ws: i64, row: &EffectRow) -> Result<()> {
    cx.exec(
        "INSERT OR REPLACE INTO effects (ws, run, step_id, step, class, state, attempt, sends, out_key, safe_until, at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            ws,
            row.run.as_bytes(),
            row.step_id.0,
            row.step.0,
            row.class.word(),
            word(&row.state),
            row.attempt,
            row.sends,
            row.out_key,
            row.safe_until.map(|at| at.0),
            row.at.0,
        ],
    )?;
    Ok(())
}

pub fn effects(cx: &Cx, ws: i64, run: RunId) -> Result<Vec<EffectRow>> {
    cx.all(
        "SELECT run, step_id, step, class, state, attempt, sends, out_key, safe_until, at FROM effects \
         WHERE ws = ?1 AND run = ?2 ORDER BY at, step_id",
        params![ws, run.as_bytes()],
        read_effect,
    )
}

pub fn each_effect(cx: &Cx) -> Result<Vec<(WorkspaceId, EffectRow)>> {
    let sql = "SELECT run, step_id, step, class, state, attempt, sends, out_key, safe_until, at, ws FROM effects";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(10)?)?, read_effect(row)?)))
}

pub(super) fn read_log(row: &Row) -> Result<LogRow> {
    Ok(LogRow {
        run: row.run(0)?,
        seq: row.number(1)?,
        at: row.millis(2)?,
        level: row.get(3)?,
        step: StepKey(row.get(4)?),
        message: row.get(5)?,
    })
}

pub fn append_log(cx: &Cx, ws: i64, row: &LogRow) -> Result<()> {
    cx.exec(
        "INSERT INTO logs (ws, run, seq, at, level, step, message) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![ws, row.run.as_bytes(), int(row.seq), row.at.0, row.level, row.step.0, row.message],
    )?;
    Ok(())
}

pub fn delete_logs(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    let sql = "DELETE FROM logs WHERE ws = ?1 AND run = ?2 AND seq < ?3";
    cx.exec(sql, params![ws, run.as_bytes(), int(RELEASED_FROM)])?;
    Ok(())
}

pub fn logs(cx: &Cx, ws: i64, run: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
    cx.all(
        "SELECT run, seq, at, level, step, message FROM logs WHERE ws = ?1 AND run = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
        params![ws, run.as_bytes(), int(after), limit],
        read_log,
    )
}

pub fn each_log(cx: &Cx) -> Result<Vec<(WorkspaceId, LogRow)>> {
    let sql = "SELECT run, seq, at, level, step, message, ws FROM logs";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(6)?)?, read_log(row)?)))
}

pub fn push_inbox(cx: &Cx, ws: i64, run: RunId, seq: u64, message: &Inbox) -> Result<()> {
    let sql = "INSERT INTO inbox (seq, ws, run, message) VALUES (?1, ?2, ?3, ?4)";
    cx.exec(sql, params![int(seq), ws, run.as_bytes(), json(message)])?;
    Ok(())
}

pub fn inbox(cx: &Cx, ws: i64, run: RunId) -> Result<Vec<(u64, Inbox)>> {
    let sql = "SELECT seq, message FROM inbox WHERE ws = ?1 AND run = ?2 ORDER BY seq";
    cx.all(sql, params![ws, run.as_bytes()], |row| Ok((row.number(0)?, row.json(1)?)))
}

pub fn delete_inbox(cx: &Cx, ws: i64, run: RunId, seq: u64) -> Result<()> {
    cx.exec("DELETE FROM inbox WHERE seq = ?3 AND ws = ?1 AND run = ?2", params![ws, run.as_bytes(), int(seq)])?;
    Ok(())
}

pub fn each_inbox(cx: &Cx) -> Result<Vec<(WorkspaceId, RunId, u64, Inbox)>> {
    let sql = "SELECT ws, run, seq, message FROM inbox";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(0)?)?, row.run(1)?, row.number(2)?, row.json(3)?)))
}

pub fn each_timer(cx: &Cx) -> Result<Vec<TimerRow>> {
    cx.all("SELECT w.name, t.run, t.timer, t.due FROM timers t JOIN workspaces w ON w.ws = t.ws", [], read_timer)
}
