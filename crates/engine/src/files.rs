//! Files of runs, kept in the store: for performers, for expressions, and for doors that take them in.

use crate::away;
use crate::handle::write;
use crate::ports::Entropy;
use crate::scope::Services;
use semel_core::files::{address, home, parse, safe_name};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_expr::{Budget, Value};
use semel_store::search::{Cmp, Field, FieldTest, Interval, RunSearch, TextTest, When};
use semel_store::{Done, FileChunk, FileRow, LogRow, Store, StoreError, Work};
use semel_tasks::{CHUNK_BYTES, CountOf, FileAt, FileError, Files, LogEntry};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The files of a store, as performers see them.
pub struct StoreFiles {
    pub store: Arc<dyn Store>,
    pub entropy: Arc<dyn Entropy>,
    pub bytes_max: u64,
}

fn fresh(entropy: &dyn Entropy) -> Hash16 {
    let (high, low) = (entropy.random(), entropy.random());
    Hash16(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}

fn trouble(error: StoreError) -> FileError {
    FileError::Store(error.to_string())
}

fn at(row: FileRow) -> FileAt {
    FileAt { run: row.run, path: row.path, file: row.file, bytes: row.bytes, chunks: row.chunks }
}

/// The file at an address; `None` also for what is no address.
pub fn find(store: &dyn Store, workspace: &WorkspaceId, uri: &str) -> Result<Option<FileRow>, StoreError> {
    match parse(uri) {
        Some((run, path)) => store.file(workspace, run, path),
        None => Ok(None),
    }
}

impl Files for StoreFiles {
    fn find(&self, workspace: &WorkspaceId, uri: &str) -> Result<Option<FileAt>, FileError> {
        Ok(find(self.store.as_ref(), workspace, uri).map_err(trouble)?.map(at))
    }

    fn chunk(&self, workspace: &WorkspaceId, at: &FileAt, number: u32) -> Result<Vec<u8>, FileError> {
        let found = self.store.file_chunk(workspace, at.run, at.file, number).map_err(trouble)?;
        found.ok_or_else(|| FileError::Missing(address(&at.path)))
    }

    fn fresh(&self) -> Hash16 {
        fresh(self.entropy.as_ref())
    }

    fn put_chunk(&self, workspace: &WorkspaceId, at: &FileAt, number: u32, bytes: Vec<u8>) -> Result<(), FileError> {
        let chunk = FileChunk { workspace: workspace.clone(), run: at.run, file: at.file, number, bytes };
        self.store.call(Work::PutChunk(Box::new(chunk))).map(|_| ()).map_err(trouble)
    }

    fn put_file(&self, workspace: &WorkspaceId, at: FileAt, last: Option<Vec<u8>>) -> Result<(), FileError> {
        let FileAt { run, path, file, bytes, chunks } = at;
        let row = Box::new(FileRow { run, path, file, bytes, chunks, at: Millis(0) });
        match self.store.call(Work::PutFile { workspace: workspace.clone(), row, last }).map_err(trouble)? {
            Done::Missing => Err(FileError::NoRun),
            _ => Ok(()),
        }
    }

    fn list(&self, workspace: &WorkspaceId, run: RunId, prefix: &str, limit: usize) -> Result<Vec<FileAt>, FileError> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let rows = self.store.files(workspace, run, Some(prefix), limit).map_err(trouble)?;
        Ok(rows.into_iter().take_while(|row| row.path.starts_with(prefix)).map(at).collect())
    }

    fn delete(&self, workspace: &WorkspaceId, uri: &str) -> Result<bool, FileError> {
        let Some((run, path)) = parse(uri) else { return Ok(false) };
        let work = Work::DeleteFile { workspace: workspace.clone(), run, path: path.to_owned() };
        Ok(!matches!(self.store.call(work).map_err(trouble)?, Done::Missing))
    }

    fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn logs(&self, workspace: &WorkspaceId, run: RunId, after: u64, limit: u32) -> Result<Vec<LogEntry>, FileError> {
        let rows = self.store.logs(workspace, run, after, limit).map_err(trouble)?;
        let entry = |row: LogRow| {
            let task = row.step.task_id().to_owned();
            LogEntry { seq: row.seq, at: row.at, level: row.level, task, message: row.message }
        };
        Ok(rows.into_iter().map(entry).collect())
    }

    fn count_runs(&self, workspace: &WorkspaceId, of: &CountOf) -> Result<u64, FileError> {
        let named = |field, name: &String| FieldTest { field, test: TextTest::In(vec![name.clone()]), not: false };
        let mut fields = vec![named(Field::Namespace, &of.namespace)];
        fields.extend(of.flow_id.as_ref().map(|flow| named(Field::FlowId, flow)));
        let bounds = of.from.map(|from| (Cmp::Ge, from)).into_iter().chain(of.to.map(|to| (Cmp::Lt, to)));
        let tests: Vec<(Cmp, Millis)> = bounds.collect();
        let search = RunSearch {
            fields,
            states: (!of.states.is_empty()).then(|| of.states.iter().copied().collect()),
            intervals: if tests.is_empty() { vec![] } else { vec![Interval { of: vec![When::Start], tests }] },
            limit: 1,
            now: self.store.now(),
            ..RunSearch::default()
        };
        Ok(self.store.search_runs(workspace, &search).map_err(trouble)?.1)
    }
}

/// What an expression asks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Read,
    Size,
    Exists,
    IsEmpty,
}

impl Question {
    pub fn of(function: &str) -> Option<Question> {
        Some(match function {
            "read" => Question::Read,
            "fileSize" => Question::Size,
            "fileExists" => Question::Exists,
            "fileEmpty" | "isFileEmpty" => Question::IsEmpty,
            _ => return None,
        })
    }
}

/// The answer to a function on files. Its one argument is an address.
pub fn answer(
    services: &Services,
    workspace: &WorkspaceId,
    question: Question,
    name: &str,
    args: &[Value],
    named: &[(String, Value)],
) -> Result<Value, String> {
    let path = args.first().or_else(|| named.iter().find(|(name, _)| name == "path").map(|(_, value)| value));
    let uri = match path {
        Some(Value::Str(uri)) if semel_core::files::is_address(uri) => uri.to_string(),
        Some(Value::Str(_)) => return Err(format!("{name}() takes the address of a file, kestra:///…")),
        _ => return Err(format!("{name}() takes the address of a file, as a text without secrets")),
    };
    let found = find(services.store.as_ref(), workspace, &uri).map_err(noted)?;
    if question == Question::Exists {
        return Ok(Value::Bool(found.is_some()));
    }
    let row = found.ok_or_else(|| format!("there is no file `{uri}`"))?;
    match question {
        Question::Size => Ok(Value::Int(i128::from(row.bytes))),
        Question::Exists | Question::IsEmpty => Ok(Value::Bool(row.bytes == 0)),
        Question::Read => {
            let bytes = contents(services, workspace, &uri, &row, Budget::default().output_bytes as u64)?;
            Ok(Value::str(String::from_utf8_lossy(&bytes).as_ref()))
        }
    }
}

fn noted(error: StoreError) -> String {
    away::note(&error);
    error.to_string()
}

/// The bytes of a file, as an expression may have them.
pub fn whole(services: &Services, workspace: &WorkspaceId, uri: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
    let found = find(services.store.as_ref(), workspace, uri).map_err(noted)?;
    let row = found.ok_or_else(|| format!("there is no file `{uri}`"))?;
    contents(services, workspace, uri, &row, bytes_max)
}

fn contents(
    services: &Services,
    workspace: &WorkspaceId,
    uri: &str,
    row: &FileRow,
    bytes_max: u64,
) -> Result<Vec<u8>, String> {
    if row.bytes > bytes_max {
        return Err(format!("the file has {} bytes, and at most {bytes_max} can be read here", row.bytes));
    }
    let mut bytes = Vec::new();
    for number in 0..row.chunks {
        let chunk = services.store.file_chunk(workspace, row.run, row.file, number).map_err(noted)?;
        bytes.extend(chunk.ok_or_else(|| format!("the file `{uri}` was replaced or deleted meanwhile"))?);
    }
    Ok(bytes)
}

/// Why a file was not taken in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UploadError {
    #[error("the file is empty")]
    Empty,
    #[error("a file may have at most {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A file that a door is taking in for an input of a run that is not admitted yet. If the run never is, or the upload is
/// dropped, a sweep removes it.
pub struct Upload {
    store: Arc<dyn Store>,
    workspace: WorkspaceId,
    row: FileRow,
    name: String,
    buffer: Vec<u8>,
    digest: Sha256,
    bytes_max: u64,
}

impl Upload {
    pub(crate) fn new(
        services: &Services,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        run: RunId,
        input: &str,
        name: &str,
        bytes_max: u64,
    ) -> Upload {
        let path = format!("{}/inputs/{}", home(flow, run), safe_name(input));
        let file = fresh(services.entropy.as_ref());
        Upload {
            store: services.store.clone(),
            workspace: workspace.clone(),
            row: FileRow { run, path, file, bytes: 0, chunks: 0, at: Millis(0) },
            name: safe_name(name),
            buffer: Vec::new(),
            digest: Sha256::new(),
            bytes_max,
        }
    }

    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), UploadError> {
        self.row.bytes += bytes.len() as u64;
        if self.row.bytes > self.bytes_max {
            return Err(UploadError::TooLarge(self.bytes_max));
        }
        self.digest.update(bytes);
        while self.buffer.len() + bytes.len() > CHUNK_BYTES {
            let (now, later) = bytes.split_at(CHUNK_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(now);
            let bytes_now = std::mem::take(&mut self.buffer);
            let FileRow { run, file, chunks, .. } = self.row;
            let workspace = self.workspace.clone();
            let chunk = FileChunk { workspace, run, file, number: chunks, bytes: bytes_now };
            write(&self.store, Work::PutChunk(Box::new(chunk))).await?;
            self.row.chunks += 1;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The address of the file, which is the value of the input. It holds a digest of the contents: apart from the run, two
    /// deliveries of one file have one address, and so one fingerprint.
    pub async fn finish(mut self) -> Result<String, UploadError> {
        if self.row.bytes == 0 {
            return Err(UploadError::Empty);
        }
        let digest: String = self.digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.row.path = format!("{}/{digest}/{}", self.row.path, self.name);
        self.row.chunks += 1;
        let uri = address(&self.row.path);
        let work = Work::PutFile { workspace: self.workspace, row: Box::new(self.row), last: Some(self.buffer) };
        write(&self.store, work).await?;
        Ok(uri)
    }
}
