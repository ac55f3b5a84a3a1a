//! Opening a database: settings, schema, this process's rows.

use crate::classify::{Error, classify};
use crate::codec::{Columns, Statement, Val};
use crate::lease::{LEASE, Life};
use crate::session::{Call, Session};
use crate::shared::CLOCK;
use semel_store::{ClockFn, StoreError, failpoint};
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

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
];
/// The version that this binary knows.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;
/// What the next build may bring, for tests of upgrades: only builds with failpoints have it, and only when asked.
const NEXT_MIGRATION: &str = "ALTER TABLE runs ADD COLUMN of_the_next_build bigint DEFAULT 0";
const SERVER_VERSION_MIN: i64 = 130_000;
/// A process that was not seen for this long is not there any more.
const NODE_KEPT_MS: i64 = 7 * 86_400_000;
/// Longer than anybody waits for an answer.
const ANSWER_KEPT_MS: i64 = 3_600_000;
/// Which of the answers tells the number of the node.
const ENTERED: usize = 5;

fn migrations() -> impl Iterator<Item = &'static str> {
    let next = failpoint::number("SEMEL_FAILPOINT_NEXT_SCHEMA").map(|_| NEXT_MIGRATION);
    MIGRATIONS.iter().copied().chain(next)
}

/// The version that this process brings a schema to.
pub fn version_known() -> i64 {
    migrations().count() as i64
}

#[derive(Clone)]
pub struct Options {
    /// `None`: the database's own, for everything but tests.
    pub clock: Option<ClockFn>,
    /// The schema that holds the tables; made if it is not there.
    pub schema: String,
    /// Threads that write, each over a connection of its own.
    pub writers: usize,
    pub readers: usize,
    /// What people call this process in a list of nodes.
    pub name: String,
    /// How long the others wait for this process when it says nothing. The same for all of them.
    pub lease: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { clock: None, schema: "semel".into(), writers: 2, readers: 4, name: "semel".into(), lease: LEASE }
    }
}

/// Why a database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("this is not an address of a PostgreSQL database: {0}")]
    Address(String),
    #[error("`{0}` cannot be the name of a schema: use small letters, digits and `_`, at most 63")]
    Schema(String),
    #[error("the database cannot be reached: {0}; {hint}", hint = what_to_do(.0))]
    Away(String),
    #[error("the database server is version {0}; 13 or later is needed")]
    OldServer(i64),
    #[error("the database has the encoding {0}; UTF8 is needed")]
    Encoding(String),
    #[error(
        "the schema has version {found}, and this binary knows versions up to {SCHEMA_VERSION}: use the newer binary"
    )]
    Newer { found: i64 },
    #[error("there is no store in the schema `{0}` of this database; `semel serve` makes one")]
    Missing(String),
    #[error(
        "the schema has version {found}, and this binary knows version {SCHEMA_VERSION}; `semel serve` brings it up to date"
    )]
    Older { found: i64 },
    #[error("{0} servers have the database open, or had a moment ago: stop them first")]
    Served(i64),
    #[error("the threads of the store cannot be started: {0}")]
    Threads(std::io::Error),
    #[error("{0}")]
    Store(StoreError),
}

impl OpenError {
    pub fn code(&self) -> &'static str {
        match self {
            OpenError::Address(_) => "store_address",
            OpenError::Schema(_) => "store_schema",
            OpenError::Away(_) => "store_away",
            OpenError::OldServer(_) => "store_old_server",
            OpenError::Encoding(_) => "store_encoding",
            OpenError::Newer { .. } => "store_newer",
            OpenError::Missing(_) => "store_missing",
            OpenError::Older { .. } => "store_older",
            OpenError::Served(_) => "store_served",
            OpenError::Threads(_) => "store_threads",
            OpenError::Store(error) => error.code(),
        }
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        match error {
            Error::Lost(text) => OpenError::Away(text),
            other => OpenError::Store(classify(&other)),
        }
    }
}

/// By the number that the server gives with its reason, if it was a server that spoke.
fn what_to_do(reason: &str) -> &'static str {
    let is_one_of = |codes: &[&str]| codes.iter().any(|code| reason.contains(&format!("[{code}]")));
    if is_one_of(&["28P01", "28000"]) {
        "check the user and the password in the address, and what pg_hba.conf allows"
    } else if is_one_of(&["3D000"]) {
        "make the database first, for example with createdb"
    } else if is_one_of(&["42501"]) {
        "the user needs the right to create a schema in the database, or a schema of its own"
    } else if is_one_of(&["53300"]) {
        "the server has no connection left: raise max_connections, or put a pooler in front of it"
    } else if reason.contains("certificate") || reason.contains("TLS") {
        "check sslmode and sslrootcert in the address"
    } else {
        "check the host and the port in the address, and that PostgreSQL runs and listens there"
    }
}

pub fn check_schema_name(name: &str) -> Result<(), OpenError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && name.len() <= 63 && name.chars().all(plain) { Ok(()) } else { Err(OpenError::Schema(name.to_owned())) }
}

/// What every transaction begins with. Nothing depends on settings that outlive it: a pooler may give the next one
/// another connection.
pub struct Begin {
    pub write: String,
    pub read: String,
    pub turn: String,
}

/// A lock is waited for this long by whoever has none yet, and this long by whoever has some.
pub const LOCK_MAX: &str = "10s";
pub const NEXT_LOCK_MAX: &str = "100ms";

impl Begin {
    pub fn new(schema: &str, is_asynchronous: bool) -> Begin {
        // Acknowledged means durable: a server that was told otherwise is told for these transactions.
        let durable = if is_asynchronous { "; SET LOCAL synchronous_commit = 'on'" } else { "" };
        Begin {
            write: format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path = \"{schema}\"; \
                 SET LOCAL lock_timeout = '{LOCK_MAX}'; SET LOCAL statement_timeout = '30s'; \
                 SET LOCAL idle_in_transaction_session_timeout = '10s'{durable}"
            ),
            read: format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = \"{schema}\"; \
                 SET LOCAL statement_timeout = '30s'"
            ),
            turn: format!("SELECT pg_advisory_xact_lock(hashtext('semel turns'), hashtext('{schema}'))"),
        }
    }
}

fn ask(session: &Session, sql: &str, values: Vec<Val<'_>>) -> Result<Vec<Row>, Error> {
    Ok(session.fly(vec![Call::Typed(Statement::new(sql, values))]).rows()?.pop().unwrap_or_default())
}

fn tell(session: &Session, sql: impl Into<String>) -> Result<(), Error> {
    session.fly(vec![Call::Text(sql.into())]).rows().map(|_| ())
}

fn ask_number(session: &Session, sql: &str) -> Result<i64, Error> {
    match ask(session, sql, vec![])?.first() {
        Some(row) => row.int(0),
        None => Ok(0),
    }
}

/// Whether the server acknowledges commits before they are durable.
pub fn check_server(session: &Session) -> Result<bool, OpenError> {
    let rows = ask(
        session,
        "SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'), \
         current_setting('synchronous_commit'), current_setting('fsync')",
        vec![],
    )?;
    let Some(row) = rows.first() else { return Err(OpenError::Away("it does not answer".into())) };
    let (version, encoding) = (row.int(0)?, row.text(1)?);
    if version < SERVER_VERSION_MIN {
        return Err(OpenError::OldServer(version));
    }
    if encoding != "UTF8" {
        return Err(OpenError::Encoding(encoding));
    }
    if row.text(3)? == "off" {
        tracing::warn!("the database runs with fsync off: what it acknowledges can be lost");
    }
    Ok(row.text(2)? == "off")
}

/// Brings the schema up to date, all of it or nothing; one process at a time.
pub fn migrate(session: &Session, schema: &str) -> Result<(), OpenError> {
    tell(session, "BEGIN")?;
    let done = migrate_inside(session, schema);
    tell(session, if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    failpoint::hit("migration.committed");
    done
}

fn migrate_inside(session: &Session, schema: &str) -> Result<(), OpenError> {
    let lock = format!("SELECT pg_advisory_xact_lock(hashtext('semel migrations'), hashtext('{schema}'))::text");
    ask(session, &lock, vec![])?;
    if ask(session, "SELECT 1::bigint FROM pg_namespace WHERE nspname = $1", vec![Val::own(schema)])?.is_empty() {
        tell(session, format!("CREATE SCHEMA \"{schema}\""))?;
    }
    tell(session, format!("SET LOCAL search_path = \"{schema}\""))?;
    tell(session, "CREATE TABLE IF NOT EXISTS migrations (version bigint PRIMARY KEY, at timestamptz DEFAULT now())")?;
    let found = ask_number(session, "SELECT coalesce(max(version), 0) FROM migrations")?;
    if found > version_known() {
        return Err(OpenError::Newer { found });
    }
    for (version, script) in (1_i64..).zip(migrations()).skip(usize::try_from(found).unwrap_or(0)) {
        tell(session, script)?;
        tell(session, format!("INSERT INTO migrations (version) VALUES ({version})"))?;
        failpoint::hit("migration.script");
    }
    Ok(())
}

/// What a process must know before it begins.
pub struct Start {
    pub clock_ms: i64,
    pub mark: i64,
    pub restored_at: Option<i64>,
    pub life: Life,
}

/// A process, as it takes part for the first time or again.
pub struct Who<'a> {
    pub name: &'a str,
    pub node: Uuid,
    pub writers: usize,
}

/// Writes down this process and its writers, and forgets those that are long gone.
pub fn enter(session: &Session, begin: &str, who: &Who<'_>, lease_ms: i64) -> Result<Start, Error> {
    let Who { name, node, writers } = *who;
    let clock = ask_number(session, CLOCK)?;
    let text = |sql: &str, values| Call::Typed(Statement::new(sql, values));
    let mut calls = vec![
        Call::Text(begin.to_owned()),
        text("DELETE FROM nodes WHERE seen_at < $1 AND emptied", vec![Val::int(clock - NODE_KEPT_MS)]),
        text("DELETE FROM answers WHERE at < $1", vec![Val::int(clock - ANSWER_KEPT_MS)]),
        text(
            "UPDATE meta SET clock_ms = greatest(clock_ms, (SELECT coalesce(max(clock_ms), 0) FROM batches)) WHERE id = 1",
            vec![],
        ),
        text("DELETE FROM batches b WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = b.node)", vec![]),
        text(
            "INSERT INTO nodes (id, name, version, started_at, seen_at, lease_until, fenced, has_left) \
             VALUES ($1, $2, $3, $4, $4, $4 + $5, false, false) RETURNING epoch",
            vec![
                Val::Id(Some(node)),
                Val::text(name),
                Val::text(env!("CARGO_PKG_VERSION")),
                Val::int(clock),
                Val::int(lease_ms),
            ],
        ),
    ];
    for writer in 0..writers as i64 {
        let sql = "INSERT INTO batches (node, writer, counter, clock_ms) VALUES ($1, $2, 0, 0)";
        calls.push(text(sql, vec![Val::Id(Some(node)), Val::int(writer)]));
    }
    calls.push(text("SELECT clock_ms, restored_at FROM meta WHERE id = 1", vec![]));
    calls.push(Call::Text("COMMIT".into()));
    let rows = session.fly(calls).rows()?;
    let meta = rows.iter().rev().nth(1).and_then(|rows| rows.first());
    let (mark, restored_at) = match meta {
        Some(row) => (row.int(0)?, row.int_opt(1)?),
        None => return Err(semel_store::codec::Damaged("the row of meta is not there".into()).into()),
    };
    let epoch = rows[ENTERED].first().map(|row| row.int(0)).transpose()?.unwrap_or_default();
    Ok(Start { clock_ms: clock, mark, restored_at, life: Life { node, epoch } })
}

/// Whether this life is over because others said so; `None` if the database has never heard of it.
pub fn is_fenced(session: &Session, begin: &str, node: Uuid) -> Result<Option<bool>, Error> {
    let sql = "SELECT fenced FROM nodes WHERE id = $1";
    let rows = session.snapshot(begin, vec![Statement::new(sql, vec![Val::Id(Some(node))])])?;
    rows[0].first().map(|row| row.yes(0)).transpose()
}

/// Says that this process has gone; the latest instant it has given out stays.
pub fn leave(session: &Session, begin: &str, node: Uuid) -> Result<(), Error> {
    let text = |sql: &str| Call::Typed(Statement::new(sql, vec![Val::Id(Some(node))]));
    let keep = "UPDATE meta SET clock_ms = greatest(clock_ms, (SELECT coalesce(max(clock_ms), 0) FROM batches \
                WHERE node = $1)) WHERE id = 1";
    let calls = vec![
        Call::Text(begin.to_owned()),
        text(keep),
        text("DELETE FROM batches WHERE node = $1"),
        Call::Typed(Statement::new(
            format!(
                "UPDATE nodes SET fenced = true, has_left = true, seen_at = ({CLOCK}) WHERE id = $1 AND NOT fenced"
            ),
            vec![Val::Id(Some(node))],
        )),
        Call::Text("COMMIT".into()),
    ];
    session.fly(calls).rows().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schemas() {
        for good in ["semel", "_a", "test_12"] {
            assert!(check_schema_name(good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "Semel", "a b", "a\"b", &"a".repeat(64)] {
            assert!(check_schema_name(bad).is_err(), "{bad}");
        }
    }
}
