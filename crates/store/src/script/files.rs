//! Files of runs: chunks first, then the row that makes them a file.

use crate::rows::FileRow;
use crate::tx::{Result, Tx};
use crate::work::{Done, FileChunk};
use semel_core::{RunId, WorkspaceId};

pub(super) fn put_chunk(tx: &mut dyn Tx, chunk: &FileChunk) -> Result<Done> {
    if chunk.number == 0 {
        tx.put_upload(&chunk.workspace, chunk.run, chunk.file)?;
    }
    tx.put_chunk(chunk)?;
    Ok(Done::Unit)
}

/// A run that is erased gets no payload again; one that is not there yet may have files of its inputs.
pub(super) fn put_file(tx: &mut dyn Tx, workspace: &WorkspaceId, row: &FileRow, last: Option<&[u8]>) -> Result<Done> {
    if tx.run(workspace, row.run)?.is_some_and(|run| run.erased) {
        return Ok(Done::Missing);
    }
    if let Some(old) = tx.file(workspace, row.run, &row.path)?
        && old.file != row.file
    {
        tx.delete_chunks(workspace, row.run, old.file)?;
    }
    if let Some(bytes) = last {
        let number = row.chunks.saturating_sub(1);
        let (workspace, bytes) = (workspace.clone(), bytes.to_vec());
        tx.put_chunk(&FileChunk { workspace, run: row.run, file: row.file, number, bytes })?;
    }
    tx.put_upload(workspace, row.run, row.file)?;
    tx.put_file(workspace, &FileRow { at: tx.now(), ..row.clone() })?;
    Ok(Done::Unit)
}

pub(super) fn delete_file(tx: &mut dyn Tx, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Done> {
    let Some(row) = tx.file(workspace, run, path)? else { return Ok(Done::Missing) };
    tx.delete_chunks(workspace, run, row.file)?;
    tx.delete_file(workspace, run, path)?;
    Ok(Done::Unit)
}
