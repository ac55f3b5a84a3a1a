//! What the ledger and the sender write down: one JSON object a line, synced before anyone is answered.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How the ledger treats a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receiver {
    /// Applies the first call of each key.
    Dedupe,
    /// The same, but loses or spoils answers.
    Flaky,
    /// Applies every call.
    Naive,
    /// Applies every call, and answers none.
    Cut,
    /// Applies every call, which does no harm.
    Repeat,
    /// Nothing to apply.
    Read,
}

/// One call that reached the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub at_ms: i64,
    pub receiver: Receiver,
    pub flow: String,
    pub event: String,
    pub run: String,
    pub step: String,
    pub key: Option<String>,
    pub applied: bool,
    /// 0: it got no answer.
    pub answer: u16,
}

/// One thing that happened to the sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Written before the first copy leaves.
    Offered { flow: String, event: String },
    /// A 2xx: from now on this run is owed.
    Promised { flow: String, event: String, run: String, replayed: bool },
    /// The same key with another payload, and what it was answered.
    Altered { flow: String, event: String, status: u16, run: Option<String> },
    /// An event that must be taken was refused for good.
    Refused { flow: String, event: String, status: u16, code: String },
    /// Nobody took this event, though the server was well again.
    GaveUp { flow: String, event: String },
    /// The last line.
    Ended { attempts: u64 },
}

pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A file that only grows. Whoever waits for a sync shares it with all who wrote before it began.
pub struct AppendLog {
    file: File,
    written: Mutex<u64>,
    synced: Mutex<u64>,
}

impl AppendLog {
    pub fn create(path: &Path) -> io::Result<AppendLog> {
        let file = File::options().create_new(true).append(true).open(path)?;
        Ok(AppendLog { file, written: Mutex::default(), synced: Mutex::default() })
    }

    /// Writes the line; its number is what [`AppendLog::sync`] takes.
    pub fn write(&self, line: &impl Serialize) -> io::Result<u64> {
        let text = serde_json::to_string(line)? + "\n";
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.file).write_all(text.as_bytes())?;
        *written += 1;
        Ok(*written)
    }

    /// Returns when this line is durable.
    pub fn sync(&self, number: u64) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= number {
            return Ok(());
        }
        let until = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.sync_data()?;
        *synced = until;
        Ok(())
    }

    pub fn append(&self, line: &impl Serialize) -> io::Result<()> {
        self.sync(self.write(line)?)
    }
}

pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}
