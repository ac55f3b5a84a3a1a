//! Files of runs, their chunks, and what is being written.

use crate::classify::damaged;
use crate::codec::{Checksum, Columns, int};
use crate::names::Cx;
use rusqlite::{Result, Row, params};
use semel_core::files::is_shelf;
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::{FileChunk, FileRow};

pub type ChunkKey = (WorkspaceId, RunId, (Hash16, u32));
pub type UploadKey = (WorkspaceId, RunId, Hash16);

fn read_file(row: &Row) -> Result<FileRow> {
    Ok(FileRow {
        run: row.run(0)?,
        path: row.get(1)?,
        file: row.hash(2)?,
        bytes: row.number(3)?,
        chunks: row.get(4)?,
        at: row.millis(5)?,
    })
}

pub fn file(cx: &Cx, ws: i64, run: RunId, path: &str) -> Result<Option<FileRow>> {
    let sql = "SELECT run, path, file, bytes, chunks, at FROM files WHERE ws = ?1 AND run = ?2 AND path = ?3";
    cx.one(sql, params![ws, run.as_bytes(), path], read_file)
}

pub fn list(cx: &Cx, ws: i64, run: RunId, after: Option<&str>, limit: u32) -> Result<Vec<FileRow>> {
    cx.all(
        "SELECT run, path, file, bytes, chunks, at FROM files WHERE ws = ?1 AND run = ?2 AND path > ?3 \
         ORDER BY path LIMIT ?4",
        params![ws, run.as_bytes(), after.unwrap_or_default(), limit],
        read_file,
    )
}

pub fn put(cx: &Cx, ws: i64, row: &FileRow) -> Result<()> {
    cx.exec(
        "INSERT OR REPLACE INTO files (ws, run, path, file, bytes, chunks, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![ws, row.run.as_bytes(), row.path, row.file.0, int(row.bytes), row.chunks, row.at.0],
    )?;
    Ok(())
}

pub fn delete(cx: &Cx, ws: i64, run: RunId, path: &str) -> Result<()> {
    cx.exec("DELETE FROM files WHERE ws = ?1 AND run = ?2 AND path = ?3", params![ws, run.as_bytes(), path])?;
    Ok(())
}

fn digest(file: Hash16, number: u32, bytes: &[u8]) -> i64 {
    Checksum::new().part(Some(&file.0)).part(Some(&number.to_le_bytes())).part(Some(bytes)).value()
}

pub fn put_chunk(cx: &Cx, ws: i64, chunk: &FileChunk) -> Result<()> {
    let sum = digest(chunk.file, chunk.number, &chunk.bytes);
    cx.exec(
        "INSERT OR REPLACE INTO file_chunks (ws, run, file, number, bytes, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![ws, chunk.run.as_bytes(), chunk.file.0, chunk.number, chunk.bytes, sum],
    )?;
    Ok(())
}

/// `file`, `number`, `bytes` and `digest` from the given column on.
fn read_chunk(row: &Row, at: usize) -> Result<(Hash16, u32, Vec<u8>)> {
    let (file, number, bytes): (Hash16, u32, Vec<u8>) = (row.hash(at)?, row.get(at + 1)?, row.get(at + 2)?);
    if digest(file, number, &bytes) == row.get::<_, i64>(at + 3)? {
        return Ok((file, number, bytes));
    }
    Err(damaged(format!("chunk {number} of file {} does not match its checksum", file.hex())))
}

pub fn chunk(cx: &Cx, ws: i64, run: RunId, file: Hash16, number: u32) -> Result<Option<Vec<u8>>> {
    cx.one(
        "SELECT file, number, bytes, digest FROM file_chunks WHERE ws = ?1 AND run = ?2 AND file = ?3 AND number = ?4",
        params![ws, run.as_bytes(), file.0, number],
        |row| Ok(read_chunk(row, 0)?.2),
    )
}

pub fn delete_chunks(cx: &Cx, ws: i64, run: RunId, file: Hash16) -> Result<()> {
    let sql = "DELETE FROM file_chunks WHERE ws = ?1 AND run = ?2 AND file = ?3";
    cx.exec(sql, params![ws, run.as_bytes(), file.0])?;
    Ok(())
}

pub fn put_upload(cx: &Cx, ws: i64, run: RunId, file: Hash16, at: Millis) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO uploads (ws, run, file, at) VALUES (?1, ?2, ?3, ?4)";
    cx.exec(sql, params![ws, run.as_bytes(), file.0, at.0])?;
    Ok(())
}

/// All that belongs to one run.
pub fn delete_of_run(cx: &Cx, ws: i64, run: RunId) -> Result<()> {
    for sql in [
        "DELETE FROM files WHERE ws = ?1 AND run = ?2",
        "DELETE FROM file_chunks WHERE ws = ?1 AND run = ?2",
        "DELETE FROM uploads WHERE ws = ?1 AND run = ?2",
    ] {
        cx.exec(sql, params![ws, run.as_bytes()])?;
    }
    Ok(())
}

pub fn sweep(cx: &Cx, before: Millis, limit: u32) -> Result<u64> {
    let old: Vec<(i64, RunId, Hash16)> = cx.all(
        "SELECT u.ws, u.run, u.file FROM uploads u JOIN workspaces w ON w.ws = u.ws WHERE u.at < ?1 \
         ORDER BY u.at, w.name, u.run, u.file LIMIT ?2",
        params![before.0, limit],
        |row| Ok((row.get(0)?, row.run(1)?, row.hash(2)?)),
    )?;
    for (ws, run, file) in &old {
        settle(cx, *ws, *run, *file)?;
    }
    Ok(old.len() as u64)
}

fn settle(cx: &Cx, ws: i64, run: RunId, file: Hash16) -> Result<()> {
    let key = params![ws, run.as_bytes(), file.0];
    if !is_shelf(run) {
        let sql = "DELETE FROM files WHERE ws = ?1 AND run = ?2 AND file = ?3 \
             AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.ws = ?1 AND r.id = ?2)";
        cx.exec(sql, key)?;
    }
    for sql in [
        "DELETE FROM uploads WHERE ws = ?1 AND run = ?2 AND file = ?3",
        "DELETE FROM file_chunks WHERE ws = ?1 AND run = ?2 AND file = ?3 \
         AND NOT EXISTS (SELECT 1 FROM files f WHERE f.ws = ?1 AND f.run = ?2 AND f.file = ?3)",
    ] {
        cx.exec(sql, key)?;
    }
    Ok(())
}

pub fn each(cx: &Cx) -> Result<Vec<(WorkspaceId, FileRow)>> {
    let sql = "SELECT run, path, file, bytes, chunks, at, ws FROM files";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(6)?)?, read_file(row)?)))
}

pub fn each_chunk(cx: &Cx) -> Result<Vec<(ChunkKey, Vec<u8>)>> {
    cx.all("SELECT ws, run, file, number, bytes, digest FROM file_chunks", [], |row| {
        let (file, number, bytes) = read_chunk(row, 2)?;
        Ok(((cx.ws_name(row.get(0)?)?, row.run(1)?, (file, number)), bytes))
    })
}

pub fn each_upload(cx: &Cx) -> Result<Vec<(UploadKey, Millis)>> {
    let sql = "SELECT ws, run, file, at FROM uploads";
    cx.all(sql, [], |row| Ok(((cx.ws_name(row.get(0)?)?, row.run(1)?, row.hash(2)?), row.millis(3)?)))
}
