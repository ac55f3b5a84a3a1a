//! `semel backup`

use crate::config::{Config, Flags};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use semel_core::Millis;
use semel_store_sqlite::BackupError;
use serde_json::json;
use std::path::PathBuf;

/// Write a backup of a store, while it is served or not
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel backup /backups                          a file named after the time
  semel backup /backups/monday.semel --data-dir /var/lib/semel

The backup is one file, checked, readable by its owner only. It holds tokens as hashes and secrets as ciphertext; the
key that opens them (secret.key) is not in it and must be kept elsewhere. `semel restore` makes a store of it.")]
pub struct Backup {
    /// A file that is not there yet, or a directory
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The store [default: sqlite:./semel-data/semel.db]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    /// Directory of the store [default: ./semel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration file [default: ./semel.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "SEMEL_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
}

impl Backup {
    pub fn run(self, _shell: &Shell) -> Result<Reply, Failure> {
        let flags = Flags { store: self.store, data_dir: self.data_dir, ..Flags::default() };
        let config = Config::load(self.config.as_deref(), |name| std::env::var(name).ok(), flags)?;
        let now = now();
        let target = if self.target.is_dir() { self.target.join(file_name(now)) } else { self.target };
        semel_store_sqlite::backup(config.store.file()?, &target, now).map_err(failed)?;
        let bytes = std::fs::metadata(&target).map(|file| file.len()).unwrap_or_default();
        let data = json!({ "path": target.display().to_string(), "bytes": bytes, "backup_at": now.to_rfc3339() });
        let text = format!("{} ({} MiB)", target.display(), bytes.div_ceil(1 << 20));
        Ok(Reply::new(data, text).note("keep secret.key elsewhere: without it the secrets in the backup stay sealed"))
    }
}

/// The wall clock, which a backup is named and marked with.
pub fn now() -> Millis {
    Millis(jiff::Timestamp::now().as_millisecond())
}

fn file_name(now: Millis) -> String {
    let time: String = now.to_rfc3339().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("semel-{time}.backup")
}

pub fn failed(error: BackupError) -> Failure {
    Failure::refused(error.code(), error.to_string())
}
