//! Backups: made beside a running server, and made a store again.
//!
//! | the process dies | what is left |
//! |---|---|
//! | while a backup is written | a file that ends in `.partial`, which the next try removes; never half a backup under its name |
//! | while a backup is made a store | a directory with files that end in `.restoring`, which the next try removes; no store |
//!
//! A backup is one SQLite file without free pages, so nothing that was erased is in it. It carries
//! a mark: it is never served as it is, because its open runs may have gone on since.

use crate::classify::classify;
use crate::inspect::Inspection;
use crate::open::{self, OpenError, Options};
use crate::{SqliteStore, audit, directory};
use rusqlite::{Connection, OpenFlags, params};
use semel_core::Millis;
use semel_core::run::By;
use semel_store::{Done, RestoredRow, Store, StoreError, Work};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0} is there already; a backup is never written over anything")]
    Exists(PathBuf),
    #[error("{0} is not empty; a store is restored into a directory of its own")]
    NotEmpty(PathBuf),
    #[error("{0} is not a backup; `semel backup` makes one")]
    NotBackup(PathBuf),
    #[error("{path} is damaged: {why}")]
    Damaged { path: PathBuf, why: String },
    #[error("the backup is of {}, and more is lost than was accepted", .0.to_rfc3339())]
    TooOld(Millis),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {error}")]
    Store { path: PathBuf, error: StoreError },
}

impl BackupError {
    pub fn code(&self) -> &'static str {
        match self {
            BackupError::Open(error) => error.code(),
            BackupError::Exists(_) => "backup_exists",
            BackupError::NotEmpty(_) => "target_not_empty",
            BackupError::NotBackup(_) => "not_a_backup",
            BackupError::Damaged { .. } => "backup_damaged",
            BackupError::TooOld(_) => "backup_too_old",
            BackupError::Io { .. } => "store_io",
            BackupError::Store { error, .. } => error.code(),
        }
    }
}

type Result<T> = std::result::Result<T, BackupError>;

fn io_about(path: &Path) -> impl Fn(io::Error) -> BackupError + '_ {
    move |error| BackupError::Io { path: path.to_owned(), error }
}

fn sql_about(path: &Path) -> impl Fn(rusqlite::Error) -> BackupError + '_ {
    move |error| BackupError::Store { path: path.to_owned(), error: classify(&error) }
}

/// Writes a backup of `source`, served or not, to `target`, which must not be there.
pub fn backup(source: &Path, target: &Path, now: Millis) -> Result<()> {
    if target.exists() {
        return Err(BackupError::Exists(target.to_owned()));
    }
    let partial = open::beside(target, ".partial");
    remove_left(&partial)?;
    let made = write(source, &partial, now).and_then(|()| publish(&partial, target));
    if made.is_err() {
        // The error says more than a second one about the remains would.
        let _ = std::fs::remove_file(&partial);
    }
    made
}

fn write(source: &Path, partial: &Path, now: Millis) -> Result<()> {
    let from = Inspection::open(source)?;
    // Made here and not by SQLite, which would use the umask.
    open::private_file(partial).map_err(io_about(partial))?;
    from.copy_to(partial).map_err(sql_about(source))?;
    let mark = Connection::open_with_flags(partial, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql_about(partial))?;
    mark.execute("UPDATE meta SET is_backup = 1, backup_at = ?1 WHERE id = 1", params![now.0])
        .map_err(sql_about(partial))?;
    drop(mark);
    verify(partial)?;
    File::open(partial).and_then(|file| file.sync_all()).map_err(io_about(partial))
}

/// Gives the whole file its name; one that appeared meanwhile is not written over.
fn publish(partial: &Path, target: &Path) -> Result<()> {
    match std::fs::hard_link(partial, target) {
        Ok(()) => std::fs::remove_file(partial).map_err(io_about(partial))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists(target.to_owned()));
        }
        // Not every file system has links.
        Err(_) => std::fs::rename(partial, target).map_err(io_about(target))?,
    }
    sync_directory(target)
}

fn sync_directory(of: &Path) -> Result<()> {
    let directory = match of.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    directory::sync(directory).map_err(io_about(directory))
}

/// Opens the file and has SQLite look at every page.
fn verify(path: &Path) -> Result<()> {
    let findings = Inspection::open(path)?.with(|cx| audit::file_findings(cx, false)).map_err(sql_about(path))?;
    match findings.into_iter().next() {
        None => Ok(()),
        Some(why) => Err(BackupError::Damaged { path: path.to_owned(), why }),
    }
}

/// When a backup was made.
pub fn read_backup(path: &Path) -> Result<Millis> {
    let sql = "SELECT is_backup, backup_at FROM meta WHERE id = 1";
    let (is_backup, at): (bool, Option<i64>) = Inspection::open(path)?
        .with(|cx| cx.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(sql_about(path))?;
    match at {
        Some(at) if is_backup => Ok(Millis(at)),
        _ => Err(BackupError::NotBackup(path.to_owned())),
    }
}

/// Makes a store of a backup: `target` is the database file, in a directory that is empty or not
/// there. Answers how many runs were open.
pub fn restore(backup: &Path, target: &Path, row: &RestoredRow, accepted: Option<By>) -> Result<u64> {
    read_backup(backup)?;
    verify(backup)?;
    let restoring = open::beside(target, ".restoring");
    let lock = open::beside(&restoring, ".lock");
    prepare(target, &restoring)?;
    let count = fill(backup, &restoring, row, accepted);
    if count.is_err() {
        for left in [&restoring, &lock, &open::beside(&restoring, "-wal"), &open::beside(&restoring, "-shm")] {
            // As above: what failed is what is told.
            let _ = std::fs::remove_file(left);
        }
    }
    let count = count?;
    std::fs::remove_file(&lock).map_err(io_about(&lock))?;
    std::fs::rename(&restoring, target).map_err(io_about(target))?;
    sync_directory(target)?;
    Ok(count)
}

fn remove_left(path: &Path) -> Result<()> {
    for left in
        [path.to_owned(), open::beside(path, "-journal"), open::beside(path, "-wal"), open::beside(path, "-shm")]
    {
        match std::fs::remove_file(&left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_about(&left)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// The directory, empty but for what a try that died has left.
fn prepare(target: &Path, restoring: &Path) -> Result<()> {
    open::make_directory(target)?;
    let directory = target.parent().unwrap_or(Path::new("."));
    remove_left(restoring)?;
    remove_left(&open::beside(restoring, ".lock"))?;
    let mut entries = std::fs::read_dir(directory).map_err(io_about(directory))?;
    if entries.next().is_some() {
        return Err(BackupError::NotEmpty(directory.to_owned()));
    }
    Ok(())
}

fn fill(backup: &Path, restoring: &Path, row: &RestoredRow, accepted: Option<By>) -> Result<u64> {
    let mut into = open::private_file(restoring).map_err(io_about(restoring))?;
    let mut from = File::open(backup).map_err(io_about(backup))?;
    io::copy(&mut from, &mut into).and_then(|_| into.sync_all()).map_err(io_about(restoring))?;
    drop(into);
    let store = SqliteStore::open(restoring, Options { restoring: true, ..Options::default() })?;
    let answer = store.call(Work::Restored { row: row.clone(), accepted });
    // The log is copied into the file and removed.
    store.close();
    drop(store);
    let count = match answer {
        Ok(Done::Count(count)) => count,
        Ok(_) => 0,
        Err(error) => return Err(BackupError::Store { path: restoring.to_owned(), error }),
    };
    let log = open::beside(restoring, "-wal");
    if log.metadata().is_ok_and(|file| file.len() > 0) {
        let why = "its log was not taken over".to_owned();
        return Err(BackupError::Damaged { path: restoring.to_owned(), why });
    }
    remove_left(&log)?;
    remove_left(&open::beside(restoring, "-shm"))?;
    File::open(restoring).and_then(|file| file.sync_all()).map_err(io_about(restoring))?;
    Ok(count)
}
