//! A file looked at from outside: read-only, on one snapshot, beside a running server or without one.
//!
//! No lock is taken, because none is needed: in WAL mode a reader sees the last commit before it
//! began, and neither waits for the writer nor stops it. While it reads, the log cannot be reset,
//! so a long look at a busy file costs disk space for as long as it lasts.

use crate::audit::{Snapshot, file_findings};
use crate::classify::classify;
use crate::names::{Cx, Names};
use crate::open::{self, OpenError};
use rusqlite::{Connection, OpenFlags};
use semel_core::WorkspaceId;
use semel_store::check::{self, Code, Counts, Options, Report, Violation};
use semel_store::{Result, StoreError};
use std::path::Path;

const CACHE_MIB: u32 = 64;

pub struct Inspection {
    connection: Connection,
    names: Names,
}

impl Inspection {
    /// Opens a file of this version for reading.
    pub fn open(path: &Path) -> std::result::Result<Inspection, OpenError> {
        if !path.exists() {
            return Err(OpenError::Missing(path.to_owned()));
        }
        let connection =
            open::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, CACHE_MIB, None).map_err(open::about(path))?;
        open::check_owner(&connection, path)?;
        open::check_current(&connection, path)?;
        Ok(Inspection { connection, names: Names::default() })
    }

    /// Reads on one snapshot.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Cx) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let _snapshot = self.connection.unchecked_transaction()?;
        read(&Cx::new(&self.connection, &self.names))
    }

    /// Writes one snapshot, without free pages, into a file that is empty or not there.
    pub(crate) fn copy_to(&self, path: &Path) -> rusqlite::Result<()> {
        let path = path.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(path.to_owned()))?;
        self.connection.execute("VACUUM INTO ?1", [path]).map(|_| ())
    }

    /// Checks pages, then rows. `full` also compares every index with its table.
    pub fn check(&self, options: &Options, full: bool, progress: &mut dyn FnMut(&Counts)) -> Result<Report> {
        // Dropped at the end, which ends the snapshot.
        let _snapshot = self.connection.unchecked_transaction().map_err(|error| classify(&error))?;
        let cx = Cx::new(&self.connection, &self.names);
        let mut findings = match file_findings(&cx, full).map_err(|error| classify(&error)) {
            Ok(findings) => findings,
            Err(StoreError::Poisoned(why)) => vec![why],
            Err(other) => return Err(other),
        };
        let mut report = match check::look(&Snapshot { cx: &cx }, options, progress) {
            Ok(report) => report,
            Err(StoreError::Poisoned(why)) => {
                findings.push(format!("{why}; what comes after it was not read"));
                Report::default()
            }
            Err(other) => return Err(other),
        };
        for message in findings {
            let violation = Violation::new(Code::StoreDamaged, &WorkspaceId(String::new()), "file", message);
            report.add(violation, options.findings_max);
        }
        Ok(report)
    }
}
