//! The `cache` of a `flow.WorkingDirectory`: files that the next run of the flow begins with.
//!
//! They are kept as one file, which is replaced as a whole: two runs at once never mix what they keep. In it each file has
//! a line that says how it is called and how long it is, and its bytes follow.

use crate::TaskError;
use crate::config::{self, texts};
use crate::files::{Desk, FileError};
use crate::script::glob;
use semel_core::files::{address, cache};
use semel_core::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::io::{BufRead, Read};

/// Bytes that are read at a time.
const PIECE: usize = 64 * 1024;

pub(crate) struct DirectoryCache {
    patterns: Vec<String>,
    ttl_ms: Option<i64>,
    /// Which working directory of the flow, and in a loop which round's.
    of: String,
}

#[derive(Serialize, Deserialize)]
struct Head {
    name: String,
    bytes: u64,
}

impl DirectoryCache {
    pub fn read(config: &Json, property: &str) -> Result<Option<DirectoryCache>, TaskError> {
        let Some(given) = config::present(config, property) else { return Ok(None) };
        let patterns = texts(given, "patterns")?;
        if patterns.is_empty() {
            return Err(TaskError::config("`cache` needs `patterns`"));
        }
        let of = config::text(given, "of").unwrap_or_default();
        Ok(Some(DirectoryCache { patterns, ttl_ms: config::duration_ms(given, "ttl")?, of }))
    }

    /// Puts the files there, if some are kept and not too old.
    pub fn restore(&self, desk: &Desk) -> Result<(), TaskError> {
        let (home, path) = cache(&desk.home.path, &self.of);
        // Nothing else is kept under this id.
        let folder = path.rfind('/').map_or("", |at| &path[..=at]);
        let kept = desk.files.list(&desk.home.workspace, home, folder, 1)?.into_iter().find(|at| at.path == path);
        let Some(at) = kept else { return Ok(()) };
        if self.ttl_ms.is_some_and(|ttl| desk.files.now().since(at.at) > ttl) {
            return Ok(());
        }
        let (space, mut reader) = (desk.space(), desk.open_at(at));
        let broken = |error: std::io::Error| FileError::Store(error.to_string());
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(broken)? > 0 {
            let head: Head = serde_json::from_slice(&line).map_err(|error| broken(std::io::Error::other(error)))?;
            let mut writer = desk.create_at(&space.path_of(&head.name))?;
            let mut left = head.bytes;
            let mut piece = vec![0; PIECE];
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
                let count = reader.read(&mut piece[..most]).map_err(broken)?;
                if count == 0 {
                    return Err(broken(std::io::ErrorKind::UnexpectedEof.into()).into());
                }
                writer.write(&piece[..count])?;
                left -= count as u64;
            }
            writer.finish()?;
            line.clear();
        }
        Ok(())
    }

    /// Keeps the files of the directory that a pattern means. When there are none, what was kept stays.
    pub fn keep(&self, desk: &Desk, limits: &Limits) -> Result<(), TaskError> {
        let mut found = desk.space().list(desk, limits.step_files_max)?;
        found.retain(|(name, _)| self.patterns.iter().any(|pattern| glob::matches(pattern, name)));
        if found.is_empty() {
            return Ok(());
        }
        let mut writer = desk.create_cache(&self.of);
        for (name, at) in found {
            let head = Head { name, bytes: at.bytes };
            writer.write(format!("{}\n", serde_json::json!(head)).as_bytes())?;
            let mut reader = desk.open(&address(&at.path))?;
            loop {
                let ready = reader.fill_buf().map_err(|error| FileError::Store(error.to_string()))?;
                if ready.is_empty() {
                    break;
                }
                writer.write(ready)?;
                let count = ready.len();
                reader.consume(count);
            }
        }
        writer.finish()?;
        Ok(())
    }
}
