//! Attempts at steps that someone outside carries out.

use crate::classify::damaged;
use crate::codec::{Checksum, Columns, json};
use crate::names::Cx;
use rusqlite::{Result, Row, params};
use semel_core::ir::ErrandKind;
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::{ErrandQueue, ErrandRow};

pub const COLUMNS: &str = "id, run, queue, domain, kind, open, taken, priority, free_at, due, more, digest";

fn digest(id: Hash16, more: &str) -> i64 {
    Checksum::new().part(Some(&id.0)).part(Some(more.as_bytes())).value()
}

pub fn read(row: &Row) -> Result<ErrandRow> {
    let (id, more): (Hash16, String) = (row.hash(0)?, row.get(10)?);
    if digest(id, &more) != row.get::<_, i64>(11)? {
        return Err(damaged(format!("errand {} does not match its checksum", id.hex())));
    }
    let kind: String = row.get(4)?;
    Ok(ErrandRow {
        id,
        run: row.run(1)?,
        queue: row.get(2)?,
        domain: row.get(3)?,
        kind: ErrandKind::parse(&kind).ok_or_else(|| damaged(format!("`{kind}` is no kind of errand")))?,
        open: row.get(5)?,
        taken: row.get(6)?,
        priority: row.get(7)?,
        free_at: row.millis(8)?,
        due: row.get::<_, Option<i64>>(9)?.map(Millis),
        more: serde_json::from_str(&more).map_err(|error| damaged(format!("errand {}: {error}", id.hex())))?,
    })
}

pub fn get(cx: &Cx, ws: i64, id: Hash16) -> Result<Option<ErrandRow>> {
    cx.ask_one(&format!("SELECT {COLUMNS} FROM errands WHERE ws = ?1 AND id = ?2"), params![ws, id.0], read)
}

pub fn put(cx: &Cx, ws: i64, row: &ErrandRow) -> Result<()> {
    let more = json(&row.more);
    let sum = digest(row.id, &more);
    cx.exec(
        "INSERT OR REPLACE INTO errands (ws, id, run, queue, domain, kind, open, taken, priority, free_at, due, more, digest) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            ws,
            row.id.0,
            row.run.as_bytes(),
            row.queue,
            row.domain,
            row.kind.word(),
            row.open,
            row.taken,
            row.priority,
            row.free_at.0,
            row.due.map(|due| due.0),
            more,
            sum
        ],
    )?;
    Ok(())
}

pub fn of_run(cx: &Cx, ws: i64, run: RunId, open_only: bool) -> Result<Vec<ErrandRow>> {
    let sql = format!("SELECT {COLUMNS} FROM errands WHERE ws = ?1 AND run = ?2 AND open >= ?3 ORDER BY id");
    cx.ask(&sql, params![ws, run.as_bytes(), open_only], read)
}

pub fn free(cx: &Cx, ws: i64, from: &ErrandQueue, now: Millis, limit: u32) -> Result<Vec<ErrandRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM errands WHERE ws = ?1 AND queue = ?2 AND domain = ?3 AND open = 1 AND taken = 0 \
         AND kind = 'simple' AND free_at <= ?4 ORDER BY priority DESC, free_at, id LIMIT ?5"
    );
    cx.ask(&sql, params![ws, from.queue, from.domain, now.0, limit], read)
}

pub fn taken(cx: &Cx, ws: i64, queue: &str) -> Result<u64> {
    let sql = "SELECT count(*) FROM errands WHERE ws = ?1 AND queue = ?2 AND open = 1 AND taken = 1";
    Ok(cx.one(sql, params![ws, queue], |row| row.number(0))?.unwrap_or(0))
}

pub fn late(cx: &Cx, now: Millis, limit: u32) -> Result<Vec<(WorkspaceId, ErrandRow)>> {
    let names = COLUMNS.split(", ").map(|name| format!("e.{name}")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {names}, w.name FROM errands e JOIN workspaces w ON w.ws = e.ws WHERE e.due <= ?1 \
         ORDER BY e.due, w.name, e.id LIMIT ?2"
    );
    cx.ask(&sql, params![now.0, limit], |row| Ok((WorkspaceId(row.get(12)?), read(row)?)))
}

pub fn next(cx: &Cx) -> Result<Option<Millis>> {
    let found = cx.one("SELECT min(due) FROM errands WHERE due IS NOT NULL", [], |row| row.get::<_, Option<i64>>(0))?;
    Ok(found.flatten().map(Millis))
}

pub fn of_kind(cx: &Cx, ws: i64, kind: ErrandKind, after: Option<Hash16>, limit: u32) -> Result<Vec<ErrandRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM errands WHERE ws = ?1 AND open = 1 AND kind = ?2 AND id > ?3 ORDER BY id LIMIT ?4"
    );
    let after = after.map_or(Vec::new(), |id| id.0.to_vec());
    cx.ask(&sql, params![ws, kind.word(), after, limit], read)
}

pub fn counts(cx: &Cx, ws: i64) -> Result<Vec<(ErrandQueue, u64, u64)>> {
    cx.all(
        "SELECT queue, domain, sum(1 - taken), sum(taken) FROM errands WHERE ws = ?1 AND open = 1 \
         GROUP BY queue, domain ORDER BY queue, domain",
        params![ws],
        |row| Ok((ErrandQueue { queue: row.get(0)?, domain: row.get(1)? }, row.number(2)?, row.number(3)?)),
    )
}

pub fn delete_of_run(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    cx.exec("DELETE FROM errands WHERE ws = ?1 AND run = ?2", params![ws, run.as_bytes()])?;
    Ok(())
}

pub fn each(cx: &Cx) -> Result<Vec<(WorkspaceId, ErrandRow)>> {
    let sql = format!("SELECT {COLUMNS}, ws FROM errands");
    cx.ask(&sql, [], |row| Ok((cx.ws_name(row.get(12)?)?, read(row)?)))
}
