//! Changes of runs that flow triggers have yet to hear of.

use crate::codec::{Columns, int, json};
use crate::names::Cx;
use rusqlite::{Result, Row, params};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_store::ChangeRow;

const CHANGE: &str = "SELECT w.name, c.run, c.version, c.at, c.state, c.heard \
    FROM changes c JOIN workspaces w ON w.ws = c.ws";

fn read(row: &Row) -> Result<ChangeRow> {
    Ok(ChangeRow {
        workspace: WorkspaceId(row.get(0)?),
        run: row.run(1)?,
        version: row.number(2)?,
        at: row.millis(3)?,
        state: row.get(4)?,
        heard: row.json(5)?,
    })
}

pub fn get(cx: &Cx, ws: i64, run: RunId, version: u64) -> Result<Option<ChangeRow>> {
    let sql = format!("{CHANGE} WHERE c.ws = ?1 AND c.run = ?2 AND c.version = ?3");
    cx.ask_one(&sql, params![ws, run.as_bytes(), int(version)], read)
}

pub fn put(cx: &Cx, ws: i64, row: &ChangeRow) -> Result<()> {
    cx.exec(
        "INSERT OR REPLACE INTO changes (ws, run, version, at, state, heard) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![ws, row.run.as_bytes(), int(row.version), row.at.0, row.state, json(&row.heard)],
    )?;
    Ok(())
}

pub fn delete(cx: &Cx, ws: i64, run: RunId, version: u64) -> Result<()> {
    let sql = "DELETE FROM changes WHERE ws = ?1 AND run = ?2 AND version = ?3";
    cx.exec(sql, params![ws, run.as_bytes(), int(version)])?;
    Ok(())
}

pub fn until(cx: &Cx, before: Millis, limit: u32) -> Result<Vec<ChangeRow>> {
    let sql = format!("{CHANGE} WHERE c.at <= ?1 ORDER BY c.at, w.name, c.run, c.version LIMIT ?2");
    cx.ask(&sql, params![before.0, limit], read)
}

pub fn each(cx: &Cx) -> Result<Vec<ChangeRow>> {
    cx.all(CHANGE, [], read)
}
