//! Files of runs, their chunks, and what is being written.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::FileRow;
use semel_store::codec::{Checksum, Damaged};
use tokio_postgres::Row;

pub const FILES: Table = Table {
    name: "files",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("path", Kind::Text),
        ("file", Kind::Id),
        ("bytes", Kind::Int),
        ("chunks", Kind::Int),
        ("at", Kind::Int),
    ],
    key: 3,
};

pub fn file_row<'a>(ws: &'a WorkspaceId, row: &'a FileRow) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::run(row.run),
        Val::text(&row.path),
        Val::hash(row.file),
        Val::number(row.bytes),
        Val::int(row.chunks),
        Val::at(row.at),
    ]
}

pub fn read_file(row: &Row) -> Result<FileRow, Error> {
    Ok(FileRow {
        run: row.run(1)?,
        path: row.text(2)?,
        file: row.hash(3)?,
        bytes: row.number(4)?,
        chunks: row.number(5)?,
        at: row.millis(6)?,
    })
}

pub const CHUNKS: Table = Table {
    name: "file_chunks",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("file", Kind::Id),
        ("number", Kind::Int),
        ("bytes", Kind::Bytes),
        ("digest", Kind::Int),
    ],
    key: 4,
};

fn digest(file: Hash16, number: u32, bytes: &[u8]) -> i64 {
    Checksum::new().part(Some(&file.0)).part(Some(&number.to_le_bytes())).part(Some(bytes)).value()
}

/// Run, file and number: what names a chunk under its workspace.
pub type ChunkKey = (WorkspaceId, RunId, (Hash16, u32));

pub fn chunk_row<'a>((ws, run, (file, number)): &'a ChunkKey, bytes: &'a [u8]) -> Vec<Val<'a>> {
    let sum = digest(*file, *number, bytes);
    let (bytes, sum) = (Val::bytes(bytes), Val::int(sum));
    vec![Val::ws(ws), Val::run(*run), Val::hash(*file), Val::int(*number), bytes, sum]
}

pub fn read_chunk(row: &Row) -> Result<(ChunkKey, Vec<u8>), Error> {
    let (file, number, bytes): (Hash16, u32, Vec<u8>) = (row.hash(2)?, row.number(3)?, row.bytes(4)?);
    if digest(file, number, &bytes) != row.int(5)? {
        return Err(Damaged(format!("chunk {number} of file {} does not match its checksum", file.hex())).into());
    }
    Ok(((row.ws(0)?, row.run(1)?, (file, number)), bytes))
}

pub const UPLOADS: Table = Table {
    name: "uploads",
    columns: &[("ws", Kind::Text), ("run", Kind::Id), ("file", Kind::Id), ("at", Kind::Int)],
    key: 3,
};

pub type UploadKey = (WorkspaceId, RunId, Hash16);

pub fn upload_row<'a>((ws, run, file): &'a UploadKey, at: Millis) -> Vec<Val<'a>> {
    vec![Val::ws(ws), Val::run(*run), Val::hash(*file), Val::at(at)]
}

pub fn read_upload(row: &Row) -> Result<(UploadKey, Millis), Error> {
    Ok(((row.ws(0)?, row.run(1)?, row.hash(2)?), row.millis(3)?))
}

/// Settles what was begun before `$1`, at most `$2` of it. Every part sees the tables as they were before. Files of a
/// namespace are kept under an id of version 8, as [`semel_core::files::shelf`] makes it, and have no run.
pub const SWEEP: &str = "WITH old AS MATERIALIZED (SELECT t.ws, t.run, t.file FROM uploads t WHERE t.at < $1 \
    ORDER BY t.at, t.ws, t.run, t.file LIMIT $2 FOR UPDATE OF t SKIP LOCKED), \
    lost AS MATERIALIZED (SELECT o.* FROM old o \
    WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.ws = o.ws AND r.id = o.run) AND substr(o.run::text, 15, 1) <> '8' \
    OR NOT EXISTS (SELECT 1 FROM files f WHERE f.ws = o.ws AND f.run = o.run AND f.file = o.file)), \
    gone_files AS (DELETE FROM files f USING lost l WHERE f.ws = l.ws AND f.run = l.run AND f.file = l.file), \
    gone_chunks AS (DELETE FROM file_chunks c USING lost l WHERE c.ws = l.ws AND c.run = l.run AND c.file = l.file) \
    DELETE FROM uploads u USING old o WHERE u.ws = o.ws AND u.run = o.run AND u.file = o.file RETURNING 1";
