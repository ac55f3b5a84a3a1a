//! `semel restore`

use super::backup::{failed, now};
use crate::config::StorePath;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use semel_core::Millis;
use semel_core::run::By;
use semel_store::{Done, RestoredRow, Store, StoreError, Work};
use semel_store_postgres::{OpenError, PostgresStore};
use semel_store_sqlite::BackupError;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Make a store of a backup, or tell a database that it comes from one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel restore /backups/monday.semel --to /var/lib/semel
  semel restore /backups/monday.semel --to /var/lib/semel --accept-since 2026-03-01T04:00:00Z --why 'nothing ran since'
  semel restore --store postgres://semel@db/semel --backup-at 2026-03-01T04:00:00Z

What happened after the backup is lost. Runs that were open then may have gone on, so they are held: look at each with
`semel run show RUN --journal`, then `semel run release RUN` or `semel run cancel RUN`. With --accept-since they go on at
once, if the backup is not older than that instant. For one window, events with unknown keys are marked
`first_after_restore`: they may have been handled before. Put secret.key into the directory before you start the server.

A PostgreSQL database is brought back with PostgreSQL's own tools. Then, before any server is started on it, this command
tells it so. A failover that lost nothing needs no word.")]
pub struct Restore {
    /// The file that `semel backup` wrote
    #[arg(value_name = "BACKUP", required_unless_present = "store", conflicts_with = "store")]
    backup: Option<PathBuf>,
    /// Data directory to make; it must be empty or not there
    #[arg(long, value_name = "DIR", required_unless_present = "store", conflicts_with = "store")]
    to: Option<PathBuf>,
    /// A database that was brought back to an earlier state
    #[arg(long, value_name = "postgres://…")]
    store: Option<String>,
    /// The instant it was brought back to [default: the last one that the database knows of]
    #[arg(long, value_name = "TIME", value_parser = instant, requires = "store")]
    backup_at: Option<Millis>,
    /// Accept that whatever happened since this instant may happen again, and hold nothing
    #[arg(long, value_name = "TIME", value_parser = instant)]
    accept_since: Option<Millis>,
    /// Why that is so; kept in the journal of every run that goes on
    #[arg(long, value_name = "TEXT", requires = "accept_since")]
    why: Option<String>,
}

fn instant(text: &str) -> Result<Millis, String> {
    Millis::parse_rfc3339(text).ok_or_else(|| "write it like 2026-03-01T04:00:00Z".to_owned())
}

/// What was made of it.
struct Restored {
    place: String,
    row: RestoredRow,
    open_runs: u64,
}

impl Restore {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let (restored, next) = match (&self.backup, &self.to, &self.store) {
            (_, _, Some(store)) => (self.declare(store)?, "next: start the servers again".to_owned()),
            (Some(backup), Some(to), None) => {
                let next =
                    format!("next: put secret.key into the directory, then semel serve --data-dir {}", to.display());
                (self.fill(backup, to)?, next)
            }
            (_, _, None) => return Err(Failure::usage("name a backup and --to, or --store")),
        };
        let fate = if self.accept_since.is_some() { "accepted" } else { "held" };
        let Restored { place, row, open_runs } = restored;
        let data = json!({
            "path": place,
            "incarnation": row.incarnation,
            "backup_at": row.backup_at.to_rfc3339(),
            "open_runs": open_runs,
            "fate": fate,
        });
        let text =
            format!("{} as of {}; {open_runs} open runs {fate}", shell.out.bold(&place), row.backup_at.to_rfc3339());
        Ok(Reply::new(data, text).note(next))
    }

    /// Makes a file of a backup.
    fn fill(&self, backup: &Path, to: &Path) -> Result<Restored, Failure> {
        let backup_at = semel_store_sqlite::read_backup(backup).map_err(failed)?;
        let accepted = self.accepted(backup_at)?;
        let row = RestoredRow { incarnation: incarnation(), backup_at, restored_at: now() };
        let target = to.join("semel.db");
        let open_runs = semel_store_sqlite::restore(backup, &target, &row, accepted).map_err(failed)?;
        Ok(Restored { place: target.display().to_string(), row, open_runs })
    }

    /// Tells a database what others have made of it.
    fn declare(&self, store: &str) -> Result<Restored, Failure> {
        let place = StorePath::parse(store)?;
        let StorePath::Postgres(address) = &place else {
            let failure = Failure::usage("--store names a PostgreSQL database here");
            return Err(failure.hint("a SQLite file is made from a backup: semel restore BACKUP --to DIR"));
        };
        let opened = |error: OpenError| Failure::refused(error.code(), error.to_string());
        // Before the store is opened, for that is an instant too.
        let known = semel_store_postgres::last_known(address).map_err(opened)?;
        let options = semel_store_postgres::Options::default();
        let database = PostgresStore::open(address, options).map_err(opened)?;
        let backup_at = self.backup_at.unwrap_or(known);
        if backup_at > database.now() {
            return Err(Failure::usage(format!("--backup-at {} is yet to come", backup_at.to_rfc3339())));
        }
        let accepted = self.accepted(backup_at)?;
        let row = RestoredRow { incarnation: incarnation(), backup_at, restored_at: database.now() };
        let answer = database.call(Work::Restored { row: row.clone(), accepted });
        database.close();
        match answer.map_err(|error: StoreError| Failure::refused(error.code(), error.to_string()))? {
            Done::Count(open_runs) => Ok(Restored { place: place.to_string(), row, open_runs }),
            other => Err(Failure::refused("store_bug", format!("an unexpected answer: {other:?}"))),
        }
    }

    /// Who takes the loss upon themselves, if it is no greater than they think.
    fn accepted(&self, backup_at: Millis) -> Result<Option<By>, Failure> {
        let Some(since) = self.accept_since else { return Ok(None) };
        if backup_at < since {
            let failure = failed(BackupError::TooOld(backup_at));
            return Err(failure.hint("restore it without --accept-since, and release the runs one by one"));
        }
        let why = self.why.clone().unwrap_or_else(|| format!("everything since {} was accepted", since.to_rfc3339()));
        Ok(Some(By { who: "semel restore".to_owned(), why }))
    }
}

fn incarnation() -> String {
    format!("{:032x}", rand::random::<u128>())
}
