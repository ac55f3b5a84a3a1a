//! Opening a file: lock, modes, settings, migrations.

use crate::classify::classify;
use crate::directory;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use semel_core::Millis;
use semel_store::{ClockFn, StoreError, failpoint};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Older versions can lose committed data when a checkpoint races with a writer.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// "SEML": `file` and we ourselves can tell whose database it is.
pub const APPLICATION_ID: i32 = 0x5345_4d4c;
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
    include_str!("../migrations/0006.sql"),
    include_str!("../migrations/0007.sql"),
    include_str!("../migrations/0008.sql"),
    include_str!("../migrations/0009.sql"),
    include_str!("../migrations/0010.sql"),
    include_str!("../migrations/0011.sql"),
];
/// The version of the schema this binary writes.
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// After a reset the log shrinks to this.
const JOURNAL_SIZE_LIMIT: i64 = 64 << 20;
/// More than there are statements, so that none is prepared twice.
const STATEMENTS_CACHED: usize = 256;

/// How a file is opened.
#[derive(Clone)]
pub struct Options {
    pub clock: ClockFn,
    /// Connections for reads; a read beyond them waits.
    pub readers: usize,
    /// The log is copied into the database each time it has grown by this many pages.
    pub checkpoint_pages: u32,
    /// The writer's page cache; readers get an eighth each.
    pub cache_mib: u32,
    /// Make the file (and its directory) if it is not there.
    pub create: bool,
    /// Refuse to grow the database past this many pages.
    pub pages_max: Option<u32>,
    /// The layer of SQLite that reads and writes files; `None` is the system's. Tests give one that fails or forgets.
    pub vfs: Option<String>,
    /// Settings of the writer's connection that come after the store's own, and undo them: for controls that must lose.
    pub undone: Vec<(&'static str, &'static str)>,
    /// The file is a backup that is being made a store.
    pub restoring: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            clock: Arc::new(wall_clock),
            readers: 4,
            checkpoint_pages: failpoint::number("SEMEL_FAILPOINT_CHECKPOINT_PAGES").unwrap_or(4_000),
            cache_mib: 64,
            create: true,
            pages_max: None,
            vfs: None,
            undone: vec![],
            restoring: false,
        }
    }
}

fn wall_clock() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Why a file was not opened. Nothing was changed, but for a directory or lock file made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0} is in use by another process: stop that one first, or give this one a data directory of its own")]
    Locked(PathBuf),
    #[error(
        "{path} has schema version {found}, and this binary knows versions up to {known}: use the newer binary, or restore a backup made before the upgrade"
    )]
    Newer { path: PathBuf, found: i32, known: i32 },
    #[error(
        "{path} has schema version {found}, and this binary reads version {known}: start the server on it once, which brings it up to date"
    )]
    Older { path: PathBuf, found: i32, known: i32 },
    #[error("{0} is a backup: make a store of it with `semel restore`, which holds the runs whose fate is not known")]
    Backup(PathBuf),
    #[error("{0} is a database of another application; name another file")]
    Foreign(PathBuf),
    #[error("{0} does not exist")]
    Missing(PathBuf),
    #[error("{path} lies on a network file system ({kind}), where locks and fsync cannot be trusted: use a local disk")]
    Network { path: PathBuf, kind: String },
    #[error("this binary was built with SQLite {0}, which can lose committed data; 3.51.3 or later is needed")]
    OldSqlite(&'static str),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {error}")]
    Store { path: PathBuf, error: StoreError },
}

impl OpenError {
    pub fn code(&self) -> &'static str {
        match self {
            OpenError::Locked(_) => "store_locked",
            OpenError::Newer { .. } => "store_newer",
            OpenError::Older { .. } => "store_older",
            OpenError::Backup(_) => "store_backup",
            OpenError::Foreign(_) => "store_foreign",
            OpenError::Missing(_) => "store_missing",
            OpenError::Network { .. } => "store_network",
            OpenError::OldSqlite(_) => "store_old_sqlite",
            OpenError::Io { .. } => "store_io",
            OpenError::Store { error, .. } => error.code(),
        }
    }
}

/// Turns SQLite's errors into errors about this file.
pub fn about(path: &Path) -> impl Fn(rusqlite::Error) -> OpenError + '_ {
    move |error| OpenError::Store { path: path.to_owned(), error: classify(&error) }
}

fn io_about(path: &Path) -> impl Fn(io::Error) -> OpenError + '_ {
    move |error| OpenError::Io { path: path.to_owned(), error }
}

/// Makes sure that this process alone uses the file; the lock lasts as long as the answer.
pub fn claim_file(path: &Path, create: bool) -> Result<File, OpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(OpenError::OldSqlite(rusqlite::version()));
    }
    if !create && !path.exists() {
        return Err(OpenError::Missing(path.to_owned()));
    }
    make_directory(path)?;
    if let Some(kind) = network_kind(path) {
        return Err(OpenError::Network { path: path.to_owned(), kind });
    }
    let lock_path = beside(path, ".lock");
    let lock = private_file(&lock_path).map_err(io_about(&lock_path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(io_about(&lock_path)(error)),
    }
    // Made here and not by SQLite, which would use the umask; its log takes over the mode.
    private_file(path).map_err(io_about(path))?;
    Ok(lock)
}

pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub fn make_directory(path: &Path) -> Result<(), OpenError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => return Ok(()),
    };
    directory::make(directory).map_err(io_about(directory))
}

pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The kind of network file system `path` lies on, as far as the mount table tells.
fn network_kind(path: &Path) -> Option<String> {
    let directory = path.parent()?.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = kind_of_mount(&mounts, &directory)?;
    is_network(&kind).then_some(kind)
}

/// The longest mount point above `directory`; of equals the last, which covers the others.
fn kind_of_mount(mounts: &str, directory: &Path) -> Option<String> {
    let lines = mounts.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        Some((mount.split(' ').nth(4)?, source.split(' ').next()?))
    });
    let above = lines.filter(|(point, _)| directory.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

fn is_network(kind: &str) -> bool {
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "fuse.sshfs"].contains(&kind)
}

/// The writer's connection, with the schema brought up to date.
pub fn open_writer(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let mut connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, options.cache_mib, options.vfs.as_deref())
        .map_err(about(path))?;
    // Before the first write: another application's file is not even switched to WAL.
    check_owner(&connection, path)?;
    settle(&connection, options).map_err(about(path))?;
    migrate(&mut connection).map_err(about(path))?;
    let is_backup: bool =
        connection.query_row("SELECT is_backup FROM meta WHERE id = 1", [], |row| row.get(0)).map_err(about(path))?;
    if is_backup && !options.restoring {
        return Err(OpenError::Backup(path.to_owned()));
    }
    Ok(connection)
}

fn settle(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What was erased must not stay readable in freed pages, whenever they were freed.
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_SIZE_LIMIT)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    if let Some(pages) = options.pages_max {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    for (name, value) in &options.undone {
        connection.pragma_update(None, name, value)?;
    }
    Ok(())
}

/// For reads, and for checkpoints (`flags` say which).
pub fn open(path: &Path, flags: OpenFlags, cache_mib: u32, vfs: Option<&str>) -> rusqlite::Result<Connection> {
    // Each connection stays with one thread at a time, so SQLite's own mutex is not needed.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Plans do not depend on bound values: otherwise statements are prepared anew for each of them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.pragma_update(None, "cache_size", -i64::from(cache_mib) * 1024)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

pub fn check_owner(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let owner = pragma(connection, "application_id").map_err(about(path))?;
    let found = pragma(connection, "user_version").map_err(about(path))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(about(path))?;
    let is_new = owner == 0 && found == 0 && tables == 0;
    if !is_new && owner != APPLICATION_ID {
        return Err(OpenError::Foreign(path.to_owned()));
    }
    if found > SCHEMA_VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION });
    }
    Ok(())
}

/// For whoever only reads, and cannot bring the schema up to date.
pub fn check_current(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let found = pragma(connection, "user_version").map_err(about(path))?;
    if found < SCHEMA_VERSION {
        return Err(OpenError::Older { path: path.to_owned(), found, known: SCHEMA_VERSION });
    }
    Ok(())
}

/// Applies what is missing, all of it or nothing.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let found = pragma(connection, "user_version")?;
    if found == SCHEMA_VERSION {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for script in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(script)?;
        failpoint::hit("migration.script");
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()?;
    failpoint::hit("migration.committed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_decides() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 22 0:40 / /data rw shared:1 - nfs4 host:/x rw\n\
                      31 30 8:2 / /data/local rw - xfs /dev/sdb1 rw\n";
        let kind = |path: &str| kind_of_mount(mounts, Path::new(path)).unwrap();
        assert_eq!(kind("/home/a"), "ext4");
        assert_eq!(kind("/data/semel"), "nfs4");
        assert_eq!(kind("/data/local/semel"), "xfs");
        assert_eq!(kind("/database"), "ext4");
        assert!(is_network("nfs4") && is_network("cifs") && !is_network("ext4"));
    }

    #[test]
    fn the_built_in_sqlite_is_new_enough() {
        assert!(rusqlite::version_number() >= SQLITE_VERSION_MIN, "{}", rusqlite::version());
    }
}
