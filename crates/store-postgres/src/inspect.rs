//! A database looked at from outside: on one snapshot, beside running servers or without any. Nothing is written, so
//! a standby will do.
//!
//! A snapshot that is held keeps rows that were replaced since from being cleared away: a long look at a busy database
//! costs disk space for as long as it lasts.

use crate::address::Address;
use crate::audit::Snapshot;
use crate::classify::{Error, classify};
use crate::codec::{Columns, Statement, Val};
use crate::dump::ask;
use crate::open::{self, Begin, OpenError};
use crate::session::{Call, Session, Sockets};
use crate::shared::CLOCK;
use semel_core::{Millis, WorkspaceId};
use semel_store::check::{self, Code, Counts, Report, Violation};
use semel_store::{Result, StoreError};

pub struct Inspection {
    session: Session,
    begin: Begin,
    /// Ends after its connection.
    _sockets: Sockets,
}

impl Inspection {
    /// Opens a database with tables of this version.
    pub fn open(address: &str) -> std::result::Result<Inspection, OpenError> {
        let inspection = Inspection::of_any_version(address)?;
        match inspection.number("SELECT coalesce(max(version), 0) FROM migrations")? {
            found if found > open::version_known() => Err(OpenError::Newer { found }),
            found if found < open::version_known() => Err(OpenError::Older { found }),
            _ => Ok(inspection),
        }
    }

    fn of_any_version(address: &str) -> std::result::Result<Inspection, OpenError> {
        let address = Address::parse(address)?;
        let schema = address.schema.clone().unwrap_or_else(|| open::Options::default().schema);
        open::check_schema_name(&schema)?;
        let sockets = Sockets::start().map_err(OpenError::Threads)?;
        let session = sockets.connect(&address)?;
        let begin = Begin::new(&schema, open::check_server(&session)?);
        let is_there = "SELECT 1::bigint FROM pg_tables WHERE schemaname = $1 AND tablename = 'migrations'";
        if ask(&session, Statement::new(is_there, vec![Val::own(schema.as_str())]))?.is_empty() {
            return Err(OpenError::Missing(schema));
        }
        Ok(Inspection { session, begin, _sockets: sockets })
    }

    fn number(&self, sql: &str) -> std::result::Result<i64, Error> {
        let rows = self.session.snapshot(&self.begin.read, vec![Statement::new(sql, vec![])])?;
        rows.first().and_then(|rows| rows.first()).map_or(Ok(0), |row| row.int(0))
    }

    /// Checks all rows. `progress` is called after each page.
    pub fn check(&self, options: &check::Options, progress: &mut dyn FnMut(&Counts)) -> Result<Report> {
        let tell = |text: &str| self.session.fly(vec![Call::Text(text.to_owned())]).rows();
        tell(&self.begin.read).map_err(|error| classify(&error))?;
        let report = match check::look(&Snapshot { session: &self.session }, options, progress) {
            Err(StoreError::Poisoned(why)) => {
                let message = format!("{why}; what comes after it was not read");
                let mut report = Report::default();
                let whole = WorkspaceId(String::new());
                report.add(Violation::new(Code::StoreDamaged, &whole, "database", message), options.findings_max);
                Ok(report)
            }
            other => other,
        };
        // Nothing was written: whatever becomes of the end of the snapshot, the report stands.
        let _ = tell("ROLLBACK");
        report
    }
}

/// The latest instant that any process has left in the database: for one that was brought back, how far it was. It is
/// refused while a process has a lease.
pub fn last_known(address: &str) -> std::result::Result<Millis, OpenError> {
    // Columns that an earlier version did not have are read as absent.
    let living = format!(
        "SELECT count(*) FROM nodes n WHERE (to_jsonb(n) ->> 'fenced')::boolean = false \
         AND (to_jsonb(n) ->> 'lease_until')::bigint > ({CLOCK})"
    );
    // Processes say that they live even while nothing happens.
    let latest = "SELECT greatest((SELECT max(clock_ms) FROM meta), (SELECT max(clock_ms) FROM batches), \
                  (SELECT max(seen_at) FROM nodes))";
    let inspection = Inspection::of_any_version(address)?;
    match inspection.number(&living)? {
        0 => Ok(Millis(inspection.number(latest)?)),
        count => Err(OpenError::Served(count)),
    }
}
