//! `semel restore`

use super::backup::{failed, now};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use semel_core::Millis;
use semel_core::run::By;
use semel_store::RestoredRow;
use semel_store_sqlite::BackupError;
use serde_json::json;
use std::path::PathBuf;

/// Make a store of a backup
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel restore /backups/monday.semel --to /var/lib/semel
  semel restore /backups/monday.semel --to /var/lib/semel --accept-since 2026-03-01T04:00:00Z --why 'nothing ran since'

What happened after the backup is lost. Runs that were open then may have gone on, so they are held: look at each with
`semel run show RUN --journal`, then `semel run release RUN` or `semel run cancel RUN`. With --accept-since they go on at
once, if the backup is not older than that instant. For one window, events with unknown keys are marked
`first_after_restore`: they may have been handled before. Put secret.key into the directory before you start the server.")]
pub struct Restore {
    /// The file that `semel backup` wrote
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Data directory to make; it must be empty or not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
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

impl Restore {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let backup_at = semel_store_sqlite::read_backup(&self.backup).map_err(failed)?;
        if self.accept_since.is_some_and(|since| backup_at < since) {
            let failure = failed(BackupError::TooOld(backup_at));
            return Err(failure.hint("restore it without --accept-since, and release the runs one by one"));
        }
        let accepted = self.accept_since.map(|since| By {
            who: "semel restore".to_owned(),
            why: self.why.unwrap_or_else(|| format!("everything since {} was accepted", since.to_rfc3339())),
        });
        let row =
            RestoredRow { incarnation: format!("{:032x}", rand::random::<u128>()), backup_at, restored_at: now() };
        let held = accepted.is_none();
        let target = self.to.join("semel.db");
        let open = semel_store_sqlite::restore(&self.backup, &target, &row, accepted).map_err(failed)?;
        let fate = if held { "held" } else { "accepted" };
        let data = json!({
            "path": target.display().to_string(),
            "incarnation": row.incarnation,
            "backup_at": backup_at.to_rfc3339(),
            "open_runs": open,
            "fate": fate,
        });
        let text = format!(
            "{} as of {}; {open} open runs {fate}",
            shell.out.bold(&target.display().to_string()),
            backup_at.to_rfc3339()
        );
        let next = "next: put secret.key into the directory, then semel serve --data-dir";
        Ok(Reply::new(data, text).note(format!("{next} {}", self.to.display())))
    }
}
