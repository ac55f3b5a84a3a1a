//! Words of tasks.

use crate::codec::Columns;
use crate::names::Cx;
use rusqlite::{Result, Row, params};
use semel_core::{RunId, WorkspaceId};
use semel_store::TaskWord;

pub fn put(cx: &Cx, ws: i64, run: RunId, word: &TaskWord) -> Result<()> {
    cx.exec(
        "INSERT OR IGNORE INTO task_words (ws, run, kind, word) VALUES (?1, ?2, ?3, ?4)",
        params![ws, run.as_bytes(), word.of.word(), word.text],
    )?;
    Ok(())
}

pub fn delete_of_run(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    cx.exec("DELETE FROM task_words WHERE ws = ?1 AND run = ?2", params![ws, run.as_bytes()])?;
    Ok(())
}

pub fn each(cx: &Cx) -> Result<Vec<(WorkspaceId, RunId, TaskWord)>> {
    let read =
        |row: &Row| Ok((WorkspaceId(row.get(0)?), row.run(1)?, TaskWord { of: row.word(2)?, text: row.get(3)? }));
    let sql = "SELECT w.name, t.run, t.kind, t.word FROM task_words t JOIN workspaces w ON w.ws = t.ws";
    cx.all(sql, [], read)
}
