//! Files of runs, as tasks read and write them.
//!
//! A file is written in chunks and is there when all of it is: who reads never sees half of one, and what came to
//! nothing is swept. Names are made from the step, so a step that is repeated writes over its own files.
//!
//! All of this waits for the store. It runs on threads for blocking work, see [`crate::effect::blocking`].

use crate::TaskError;
use semel_core::files::{address, cache, name_on_shelf, path_on_shelf, safe_name, settled, shelf};
use semel_core::run::KestraState;
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Instant;

/// A chunk of a file is as long as this, but for the last.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// A file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAt {
    pub run: RunId,
    pub path: String,
    pub file: Hash16,
    pub bytes: u64,
    pub chunks: u32,
    /// When it was made whole.
    pub at: Millis,
}

/// Where a step is: whose files it sees, and where its own are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    pub workspace: WorkspaceId,
    pub run: Option<RunId>,
    /// `/<namespace>/<flow>/executions/<run>/tasks/<task>/<step>`.
    pub path: String,
    /// The same of the `flow.WorkingDirectory` around the step, whose files it shares.
    pub shared: Option<String>,
    /// Of the flow.
    pub namespace: String,
}

/// Why a file cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("there is no file `{0}`")]
    Missing(String),
    #[error("a file may have at most {0} bytes")]
    TooLarge(u64),
    #[error("the run is gone or erased")]
    NoRun,
    #[error("{0}")]
    Store(String),
}

impl From<FileError> for TaskError {
    fn from(error: FileError) -> TaskError {
        let code = match error {
            FileError::Missing(_) => "file_missing",
            FileError::TooLarge(_) => "file_too_large",
            FileError::NoRun | FileError::Store(_) => "file_store",
        };
        TaskError { code, message: error.to_string() }
    }
}

impl From<FileError> for std::io::Error {
    fn from(error: FileError) -> std::io::Error {
        std::io::Error::other(error)
    }
}

/// A line of a run's log, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub seq: u64,
    pub at: Millis,
    pub level: String,
    pub task: String,
    pub message: String,
}

/// Which runs are to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountOf {
    pub namespace: String,
    /// `None`: all flows of the namespace.
    pub flow_id: Option<String>,
    /// In one of these states; in any when there is none.
    pub states: Vec<KestraState>,
    /// Made at this instant or later.
    pub from: Option<Millis>,
    /// Made before this instant.
    pub to: Option<Millis>,
}

/// What is to be removed of ended runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// Which runs. An empty namespace means all; without a flow, what is below the namespace counts too.
    pub of: CountOf,
    /// This run alone.
    pub only: Option<RunId>,
    pub runs: bool,
    pub logs: bool,
    pub files: bool,
}

/// How many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    pub runs: u64,
    pub logs: u64,
    pub files: u64,
    /// Runs that a twin or a parent may still ask for stay.
    pub kept: u64,
}

/// A key of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAt {
    pub name: String,
    /// Its time has passed.
    pub is_over: bool,
}

/// Where files are kept, and what else of runs and keys tasks may read or remove.
pub trait Files: Send + Sync {
    /// The file at an address, if it is one of this workspace.
    fn find(&self, workspace: &WorkspaceId, uri: &str) -> Result<Option<FileAt>, FileError>;
    fn chunk(&self, workspace: &WorkspaceId, at: &FileAt, number: u32) -> Result<Vec<u8>, FileError>;
    /// A name for the chunks of a file that is about to be written.
    fn fresh(&self) -> Hash16;
    fn put_chunk(&self, workspace: &WorkspaceId, at: &FileAt, number: u32, bytes: Vec<u8>) -> Result<(), FileError>;
    /// The file is whole, with this as its last chunk.
    fn put_file(&self, workspace: &WorkspaceId, at: FileAt, last: Option<Vec<u8>>) -> Result<(), FileError>;
    /// The files whose paths begin so and are longer, at most `limit`, in order of path.
    fn list(&self, workspace: &WorkspaceId, run: RunId, prefix: &str, limit: usize) -> Result<Vec<FileAt>, FileError>;
    /// False when there was none.
    fn delete(&self, workspace: &WorkspaceId, uri: &str) -> Result<bool, FileError>;
    fn bytes_max(&self) -> u64;
    fn now(&self) -> Millis;
    /// Lines with a number above `after`, in order.
    fn logs(&self, workspace: &WorkspaceId, run: RunId, after: u64, limit: u32) -> Result<Vec<LogEntry>, FileError>;
    fn count_runs(&self, workspace: &WorkspaceId, of: &CountOf) -> Result<u64, FileError>;
    /// The run at home has not ended, and so it stays.
    fn purge(&self, home: &Home, what: &Purge) -> Result<Purged, FileError>;
    fn namespaces_with_keys(&self, workspace: &WorkspaceId) -> Result<Vec<String>, FileError>;
    fn keys(&self, workspace: &WorkspaceId, namespace: &str) -> Result<Vec<KeyAt>, FileError>;
    /// False when there was none.
    fn delete_key(&self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<bool, FileError>;
}

/// Evaluates a template with the fields of an item as its variables.
pub trait Expressions: Send + Sync {
    fn render(&self, template: &str, item: &Json) -> Result<String, String>;
}

/// What a step needs to work with files.
#[derive(Clone)]
pub struct Desk {
    pub files: Arc<dyn Files>,
    pub items: Option<Arc<dyn Expressions>>,
    pub home: Home,
    /// Nothing is written after this: the step has been given up.
    pub until: Option<Instant>,
}

impl Desk {
    pub(crate) fn expressions(&self) -> Result<&dyn Expressions, TaskError> {
        self.items.as_deref().ok_or_else(|| TaskError::not_built("expressions cannot be evaluated here"))
    }

    pub fn open(&self, uri: &str) -> Result<FileReader, FileError> {
        let found = match settled(uri, &self.home.namespace) {
            Some(address) => self.files.find(&self.home.workspace, &address)?,
            None => None,
        };
        Ok(self.open_at(found.ok_or_else(|| FileError::Missing(uri.to_owned()))?))
    }

    pub(crate) fn open_at(&self, at: FileAt) -> FileReader {
        FileReader { desk: self.clone(), at, next: 0, chunk: Vec::new(), used: 0 }
    }

    /// The whole of a file that is no longer than `bytes_max`.
    pub fn read(&self, uri: &str, bytes_max: u64) -> Result<Vec<u8>, FileError> {
        let mut reader = self.open(uri)?;
        if reader.at.bytes > bytes_max {
            return Err(FileError::TooLarge(bytes_max));
        }
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|error| FileError::Store(error.to_string()))?;
        Ok(bytes)
    }

    /// Begins a file of this step.
    pub fn create(&self, name: &str) -> Result<FileWriter, FileError> {
        self.create_at(&format!("{}/{}", self.home.path, safe_name(name)))
    }

    pub(crate) fn create_at(&self, path: &str) -> Result<FileWriter, FileError> {
        let run = self.home.run.ok_or(FileError::NoRun)?;
        let path = path.to_owned();
        let at = FileAt { run, path, file: self.files.fresh(), bytes: 0, chunks: 0, at: Millis(0) };
        Ok(FileWriter { desk: self.clone(), at, buffer: Vec::new() })
    }

    /// Begins what a working directory keeps.
    pub(crate) fn create_cache(&self, of: &str) -> FileWriter {
        let (run, path) = cache(&self.home.path, of);
        let at = FileAt { run, path, file: self.files.fresh(), bytes: 0, chunks: 0, at: Millis(0) };
        FileWriter { desk: self.clone(), at, buffer: Vec::new() }
    }

    /// Writes all of a file into another; the other's address.
    pub(crate) fn copy(&self, uri: &str, mut to: FileWriter) -> Result<String, FileError> {
        let mut reader = self.open(uri)?;
        loop {
            let ready = reader.fill_buf().map_err(|error| FileError::Store(error.to_string()))?;
            if ready.is_empty() {
                return to.finish();
            }
            to.write(ready)?;
            let count = ready.len();
            reader.consume(count);
        }
    }

    /// The working directory that the step shares, or its own.
    pub(crate) fn space(&self) -> Space {
        Space { prefix: format!("{}/dir/", self.home.shared.as_ref().unwrap_or(&self.home.path)) }
    }

    /// The files of a namespace with their names, at most so many.
    pub(crate) fn of_namespace(&self, namespace: &str, files_max: usize) -> Result<Vec<(String, FileAt)>, TaskError> {
        let (home, prefix) = shelf(namespace);
        let found = self.files.list(&self.home.workspace, home, &prefix, files_max + 1)?;
        if found.len() > files_max {
            let message = format!("the namespace `{namespace}` has more files than {files_max}, which a step may have");
            return Err(TaskError { code: "too_many_files", message });
        }
        Ok(found.into_iter().filter_map(|at| Some((name_on_shelf(namespace, &at.path)?, at))).collect())
    }

    /// Begins a file of a namespace.
    pub(crate) fn create_in_namespace(&self, namespace: &str, name: &str) -> Result<FileWriter, TaskError> {
        let wrong =
            || TaskError::config(format!("`{name}` cannot be the name of a file in the namespace `{namespace}`"));
        let (run, path) = path_on_shelf(namespace, name).ok_or_else(wrong)?;
        let at = FileAt { run, path, file: self.files.fresh(), bytes: 0, chunks: 0, at: Millis(0) };
        Ok(FileWriter { desk: self.clone(), at, buffer: Vec::new() })
    }

    /// Writes a small file; its address.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<String, FileError> {
        let mut writer = self.create(name)?;
        writer.write(bytes)?;
        writer.finish()
    }
}

/// Reads a file, one chunk at a time.
pub struct FileReader {
    desk: Desk,
    pub at: FileAt,
    next: u32,
    chunk: Vec<u8>,
    used: usize,
}

impl BufRead for FileReader {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        while self.used == self.chunk.len() && self.next < self.at.chunks {
            self.chunk = self.desk.files.chunk(&self.desk.home.workspace, &self.at, self.next)?;
            self.used = 0;
            self.next += 1;
        }
        Ok(&self.chunk[self.used..])
    }

    fn consume(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.chunk.len());
    }
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let ready = self.fill_buf()?;
        let count = ready.len().min(out.len());
        out[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// Writes a file, one chunk at a time. A writer that is dropped leaves nothing but chunks for the sweep.
pub struct FileWriter {
    desk: Desk,
    at: FileAt,
    buffer: Vec<u8>,
}

impl FileWriter {
    pub fn bytes(&self) -> u64 {
        self.at.bytes
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), FileError> {
        self.at.bytes += bytes.len() as u64;
        let most = self.desk.files.bytes_max();
        if self.at.bytes > most {
            return Err(FileError::TooLarge(most));
        }
        while self.buffer.len() + bytes.len() > CHUNK_BYTES {
            let (now, later) = bytes.split_at(CHUNK_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(now);
            self.flush()?;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.in_time()?;
        let chunk = std::mem::take(&mut self.buffer);
        self.desk.files.put_chunk(&self.desk.home.workspace, &self.at, self.at.chunks, chunk)?;
        self.at.chunks += 1;
        Ok(())
    }

    fn in_time(&self) -> Result<(), FileError> {
        match self.desk.until {
            Some(until) if Instant::now() >= until => Err(FileError::Store("the step took too long".to_owned())),
            _ => Ok(()),
        }
    }

    /// As [`FileWriter::finish`], under a name that was not known before.
    pub fn finish_as(mut self, name: &str) -> Result<String, FileError> {
        self.at.path = format!("{}/{}", self.desk.home.path, safe_name(name));
        self.finish()
    }

    /// Makes the file whole; its address.
    pub fn finish(mut self) -> Result<String, FileError> {
        self.in_time()?;
        let last = (!self.buffer.is_empty()).then(|| std::mem::take(&mut self.buffer));
        self.at.chunks += u32::from(last.is_some());
        let uri = address(&self.at.path);
        self.desk.files.put_file(&self.desk.home.workspace, self.at, last)?;
        Ok(uri)
    }
}

/// The name of a file in the working directory of a task whose files are under `home`.
pub fn name_in_directory(home: &str, path: &str) -> Option<String> {
    Space { prefix: format!("{home}/dir/") }.name_of(path)
}

/// A working directory as files: it outlives a step, and the node that the step ran on.
pub(crate) struct Space {
    prefix: String,
}

impl Space {
    /// Where a file of the directory is kept. Its whole name is one part of the path.
    pub fn path_of(&self, name: &str) -> String {
        let safe = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        format!("{}{}", self.prefix, name.bytes().map(safe).collect::<String>())
    }

    fn name_of(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let mut rest = path.strip_prefix(&self.prefix)?.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        }
        String::from_utf8(bytes).ok()
    }

    /// Names and files, at most so many.
    pub fn list(&self, desk: &Desk, files_max: usize) -> Result<Vec<(String, FileAt)>, TaskError> {
        let run = desk.home.run.ok_or(FileError::NoRun)?;
        let found = desk.files.list(&desk.home.workspace, run, &self.prefix, files_max + 1)?;
        if found.len() > files_max {
            let message = format!("a working directory may have {files_max} files");
            return Err(TaskError { code: "too_many_files", message });
        }
        Ok(found.into_iter().filter_map(|at| Some((self.name_of(&at.path)?, at))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_working_directory_come_back() {
        let space = Space { prefix: "/place/dir/".to_owned() };
        for name in ["a.txt", "in/deep/b c.csv", "\u{e9}%41"] {
            let path = space.path_of(name);
            assert!(!path["/place/dir/".len()..].contains('/'), "{path}");
            assert_eq!(space.name_of(&path).as_deref(), Some(name));
        }
        assert_eq!(space.name_of("/place/other/x"), None);
    }
}
