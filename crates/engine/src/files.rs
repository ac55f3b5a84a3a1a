//! Files of runs, kept in the store: for performers, for expressions, and for doors that take them in.

use crate::away;
use crate::handle::write;
use crate::ports::Entropy;
use crate::scope::Services;
use semel_core::files::{address, home, is_address, of_namespace, parse, path_on_shelf, safe_name};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_expr::{Budget, Value};
use semel_store::search::{Cmp, Field, FieldTest, Interval, RunSearch, TextTest, When};
use semel_store::{
    ClaimQuery, Done, FileChunk, FileRow, KvRow, LogRow, RunRow, Store, StoreError, Work, is_own_namespace,
};
use semel_tasks::{CHUNK_BYTES, CountOf, FileAt, FileError, Files, Home, KeyAt, LogEntry, Purge, Purged};
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
    FileAt { run: row.run, path: row.path, file: row.file, bytes: row.bytes, chunks: row.chunks, at: row.at }
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
        let FileAt { run, path, file, bytes, chunks, at: _ } = at;
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

    fn now(&self) -> Millis {
        self.store.now()
    }

    fn logs(&self, workspace: &WorkspaceId, run: RunId, after: u64, limit: u32) -> Result<Vec<LogEntry>, FileError> {
        let rows = self.store.logs(workspace, run, after, limit).map_err(trouble)?;
        let entry = |row: LogRow| {
            let task = row.step.task_id().to_owned();
            LogEntry { seq: row.seq, at: row.at, level: row.level, task, message: row.message }
        };
        Ok(rows.into_iter().map(entry).collect())
    }

    fn purge(&self, home: &Home, what: &Purge) -> Result<Purged, FileError> {
        let (workspace, of) = (&home.workspace, &what.of);
        let test = |field, test| FieldTest { field, test, not: false };
        let mut fields = Vec::new();
        if !of.namespace.is_empty() {
            fields.push(test(
                Field::Namespace,
                match of.flow_id {
                    Some(_) => TextTest::In(vec![of.namespace.clone()]),
                    None => TextTest::Prefix(of.namespace.clone()),
                },
            ));
        }
        fields.extend(of.flow_id.as_ref().map(|flow| test(Field::FlowId, TextTest::In(vec![flow.clone()]))));
        fields.extend(what.only.map(|run| test(Field::Id, TextTest::In(vec![run.to_string()]))));
        let bound = |when, cmp, at: Option<Millis>| at.map(|at| Interval { of: vec![when], tests: vec![(cmp, at)] });
        let intervals = bound(When::Start, Cmp::Ge, of.from).into_iter().chain(bound(When::End, Cmp::Le, of.to));
        let mut search = RunSearch {
            fields,
            states: (!of.states.is_empty()).then(|| of.states.iter().copied().collect()),
            intervals: intervals.collect(),
            limit: PAGE,
            now: self.store.now(),
            ..RunSearch::default()
        };
        let mut done = Purged::default();
        loop {
            let (rows, _) = self.store.search_runs(workspace, &search).map_err(trouble)?;
            let last = rows.len() < PAGE as usize;
            for (row, _, _) in rows {
                let gone = row.status.is_ended() && self.purge_run(&row, what, &mut done)?;
                // What has gone is not found again, what stays is passed by.
                search.offset += u64::from(!gone);
            }
            if last {
                return Ok(done);
            }
        }
    }

    fn namespaces_with_keys(&self, workspace: &WorkspaceId) -> Result<Vec<String>, FileError> {
        let mut all = self.store.kv_namespaces(workspace).map_err(trouble)?;
        all.retain(|name| !is_own_namespace(name));
        Ok(all)
    }

    fn keys(&self, workspace: &WorkspaceId, namespace: &str) -> Result<Vec<KeyAt>, FileError> {
        let (mut found, mut after, now) = (Vec::new(), None::<String>, self.store.now());
        if is_own_namespace(namespace) {
            return Ok(found);
        }
        loop {
            let rows = self.store.kv_list(workspace, namespace, after.as_deref(), PAGE).map_err(trouble)?;
            let last = rows.len() < PAGE as usize;
            after = rows.last().map(|row| row.key.clone());
            let key = |row: KvRow| KeyAt { name: row.key, is_over: row.expires_at.is_some_and(|end| now >= end) };
            found.extend(rows.into_iter().map(key));
            if last {
                return Ok(found);
            }
        }
    }

    fn delete_key(&self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<bool, FileError> {
        let (workspace, namespace, key) = (workspace.clone(), namespace.to_owned(), key.to_owned());
        Ok(matches!(self.store.call(Work::KvDelete { workspace, namespace, key }).map_err(trouble)?, Done::Unit))
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

/// Rows read at a time.
const PAGE: u32 = 500;

impl StoreFiles {
    /// Whether somebody may still ask for what became of a run: the sender of a twin, or the run that has started it.
    fn is_asked_for(&self, row: &RunRow) -> Result<bool, FileError> {
        if let Some(parent) = &row.parent {
            let parent = self.store.run(&row.workspace, parent.run).map_err(trouble)?;
            return Ok(parent.is_some_and(|(parent, _, _)| !parent.status.is_ended()));
        }
        let query = ClaimQuery { run: Some(row.id), limit: 1, ..ClaimQuery::default() };
        Ok(!self.store.claims(&row.workspace, &query).map_err(trouble)?.is_empty())
    }

    /// True when the run is gone. One that is asked for stays as a whole.
    fn purge_run(&self, row: &RunRow, what: &Purge, done: &mut Purged) -> Result<bool, FileError> {
        let (workspace, run) = (&row.workspace, row.id);
        let told = |work: Work| self.store.call(work).map_err(trouble);
        if what.runs {
            if self.is_asked_for(row)? {
                done.kept += 1;
                return Ok(false);
            }
            let gone = matches!(told(Work::DeleteRun { workspace: workspace.clone(), run })?, Done::Unit);
            done.runs += u64::from(gone);
            done.logs += u64::from(gone);
            done.files += u64::from(gone);
            return Ok(gone);
        }
        if what.logs && matches!(told(Work::DeleteLogs { workspace: workspace.clone(), run })?, Done::Unit) {
            done.logs += 1;
        }
        if what.files {
            loop {
                let rows = self.store.files(workspace, run, None, PAGE).map_err(trouble)?;
                for row in &rows {
                    let path = row.path.clone();
                    told(Work::DeleteFile { workspace: workspace.clone(), run, path })?;
                    done.files += 1;
                }
                if rows.len() < PAGE as usize {
                    break;
                }
            }
        }
        Ok(false)
    }
}

/// What an expression asks of a file.
///
/// A file is named by its address, or by its name in the namespace: the flow's own, or one that is named too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Read,
    Size,
    Exists,
    IsEmpty,
    /// Its address.
    Uri,
}

impl Question {
    pub fn of(function: &str) -> Option<Question> {
        Some(match function {
            "read" => Question::Read,
            "fileSize" => Question::Size,
            "fileExists" => Question::Exists,
            "fileEmpty" | "isFileEmpty" => Question::IsEmpty,
            "fileURI" => Question::Uri,
            _ => return None,
        })
    }
}

/// The address that the arguments of a function mean, and how the file is called where it is missed.
fn named_by(own: &str, name: &str, args: &[Value], named: &[(String, Value)]) -> Result<(String, String), String> {
    let argument = |at: usize, of: &str| {
        let found = args.get(at).or_else(|| named.iter().find(|(name, _)| name == of).map(|(_, value)| value));
        match found {
            Some(Value::Str(text)) => Ok(Some(text.to_string())),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(format!("`{of}` of {name}() must be a text without secrets")),
        }
    };
    let path = argument(0, "path")?.ok_or_else(|| format!("{name}() needs the address or the name of a file"))?;
    if path.starts_with("file://") {
        return Err(format!("{name}() reads files of runs and namespaces, and none of the server's machine"));
    }
    let (namespace, file) = match of_namespace(&path, own) {
        Some(named) => named,
        None if is_address(&path) => return Ok((path.clone(), path)),
        None => (argument(1, "namespace")?.unwrap_or_else(|| own.to_owned()), path.clone()),
    };
    let (_, place) = path_on_shelf(&namespace, &file)
        .ok_or_else(|| format!("`{path}` is neither the address of a file nor the name of one of a namespace"))?;
    Ok((address(&place), format!("{file}` of the namespace `{namespace}")))
}

/// The answer to a function on files.
pub fn answer(
    services: &Services,
    workspace: &WorkspaceId,
    own: &str,
    question: Question,
    name: &str,
    args: &[Value],
    named: &[(String, Value)],
) -> Result<Value, String> {
    let (uri, called) = named_by(own, name, args, named)?;
    let found = find(services.store.as_ref(), workspace, &uri).map_err(noted)?;
    if question == Question::Exists {
        return Ok(Value::Bool(found.is_some()));
    }
    let row = found.ok_or_else(|| format!("there is no file `{called}`"))?;
    match question {
        Question::Uri => Ok(Value::str(uri.as_str())),
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

/// A file that a door is taking in for an input, or the trigger, of a run that is not admitted yet. If the run never is, or the upload is
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

    /// A file of a namespace; `None` for what cannot be the name of one.
    pub(crate) fn to_namespace(
        services: &Services,
        workspace: &WorkspaceId,
        namespace: &str,
        name: &str,
        bytes_max: u64,
    ) -> Option<Upload> {
        let (run, path) = path_on_shelf(namespace, name)?;
        let file = fresh(services.entropy.as_ref());
        Some(Upload {
            store: services.store.clone(),
            workspace: workspace.clone(),
            row: FileRow { run, path, file, bytes: 0, chunks: 0, at: Millis(0) },
            name: name.to_owned(),
            buffer: Vec::new(),
            digest: Sha256::new(),
            bytes_max,
        })
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
    pub async fn finish(self) -> Result<String, UploadError> {
        if self.row.bytes == 0 {
            return Err(UploadError::Empty);
        }
        self.finish_as_it_is().await
    }

    /// As [`Self::finish`], also for a file with nothing in it.
    pub async fn finish_as_it_is(mut self) -> Result<String, UploadError> {
        let digest: String = self.digest.clone().finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.row.path = format!("{}/{digest}/{}", self.row.path, self.name);
        self.finish_in_place().await
    }

    /// The address of the file, at the very path that it was begun for. It replaces what was there.
    pub async fn finish_in_place(mut self) -> Result<String, UploadError> {
        self.row.chunks += 1;
        let uri = address(&self.row.path);
        let work = Work::PutFile { workspace: self.workspace, row: Box::new(self.row), last: Some(self.buffer) };
        write(&self.store, work).await?;
        Ok(uri)
    }
}
