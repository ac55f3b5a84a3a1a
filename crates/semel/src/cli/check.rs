//! `semel check`

use crate::client::{Client, Connection};
use crate::config::{Config, Flags, StorePath};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::plain;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use semel_core::WorkspaceId;
use semel_store::StoreError;
use semel_store::check::{Counts, Options};
use semel_store_sqlite::{Inspection, OpenError};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::Duration;

/// A large store takes minutes; a server that is gone is noticed by its connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Verify a store against its own rules
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel check                                      the store in ./semel-data, served or not
  semel check --data-dir /var/lib/semel --full
  semel check --store postgres://semel@db/semel    a database, beside its servers; a standby will do
  semel check --server https://semel.example:8080  one workspace of a server elsewhere

Every decision is taken again from its log row, every run folded again from its journal; claims, lanes, timers, effects
and sub-runs are compared with the runs they speak of. Nothing is written.

Exit codes: 0 all is well, 1 something is not, 2 the store could not be checked, 3 server not reachable.")]
pub struct Check {
    /// The store [default: sqlite:./semel-data/semel.db]
    #[arg(long, value_name = "STORE", conflicts_with = "server")]
    store: Option<String>,
    /// Directory of the store [default: ./semel-data]
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data_dir: Option<PathBuf>,
    /// Configuration file [default: ./semel.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "SEMEL_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Also compare every index with its table, which reads the file several times (SQLite)
    #[arg(long, conflicts_with = "server")]
    full: bool,
    /// Ask this server to check the workspace of the token instead
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Token for --server; prefer the variable or a file, for others can see a command line
    #[arg(long, value_name = "TOKEN", env = "SEMEL_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the token for --server
    #[arg(long, value_name = "FILE", env = "SEMEL_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Only this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
}

impl Check {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let report = match &self.server {
            Some(_) => self.ask()?,
            None => self.read(shell)?,
        };
        answer(shell, &report)
    }

    fn ask(&self) -> Result<Json, Failure> {
        let connection = Connection {
            server: self.server.clone(),
            token: self.token.clone(),
            token_file: self.token_file.clone(),
            workspace: self.workspace.clone(),
        };
        let client = Client::new(&connection)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::refused("no_runtime", error.to_string()))?;
        let request = client.request(Method::POST, &["v1", "check"]).json(&json!({}));
        runtime.block_on(client.answer_within(request, ANSWER_TIMEOUT))
    }

    fn read(&self, shell: &Shell) -> Result<Json, Failure> {
        let flags = Flags { store: self.store.clone(), data_dir: self.data_dir.clone(), ..Flags::default() };
        let config = Config::load(self.config.as_deref(), |name| std::env::var(name).ok(), flags)?;
        let options = Options { workspace: self.workspace.clone().map(WorkspaceId), ..Options::default() };
        let bar = progress(shell);
        let mut tell = |counts: &Counts| {
            bar.set_message(format!("{} runs, {} keys", counts.runs, counts.claims));
            bar.tick();
        };
        let report = match &config.store {
            StorePath::Sqlite(path) => {
                Inspection::open(path).map_err(cannot_open)?.check(&options, self.full, &mut tell)
            }
            StorePath::Postgres(_) if self.full => return Err(no_full_check()),
            StorePath::Postgres(address) => {
                let inspection = semel_store_postgres::Inspection::open(address);
                let inspection = inspection.map_err(|error| Failure::cannot(error.code(), error.to_string()))?;
                inspection.check(&options, &mut tell)
            }
        };
        bar.finish_and_clear();
        let report = report.map_err(|error: StoreError| Failure::cannot(error.code(), error.to_string()))?;
        Ok(serde_json::to_value(report).unwrap_or(Json::Null))
    }
}

fn no_full_check() -> Failure {
    Failure::usage("--full compares the indexes of a SQLite file")
        .hint("leave it out, and run PostgreSQL's own `pg_amcheck --heapallindexed` on the database")
}

/// A file that is damaged so badly that it does not open is a finding; one that is not there is not.
fn cannot_open(error: OpenError) -> Failure {
    match &error {
        OpenError::Store { error: StoreError::Poisoned(_), .. } => Failure::refused("store_damaged", error.to_string())
            .hint(
                "stop the server, keep a copy of the data directory, test the disk, and restore the last good backup",
            ),
        _ => Failure::cannot(error.code(), error.to_string()),
    }
}

fn progress(shell: &Shell) -> ProgressBar {
    if !shell.interactive || shell.json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} checking: {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar
}

/// Clean: what was read. Else each finding, and exit 1.
fn answer(shell: &Shell, report: &Json) -> Result<Reply, Failure> {
    let found = report["found"].as_u64().unwrap_or_default();
    let summary = summary(report);
    if found == 0 {
        let text = format!("{}\n{summary}", shell.out.green("The store obeys its rules."));
        return Ok(Reply::new(report.clone(), text));
    }
    let listed = report["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text: Vec<String> = listed.iter().map(|one| violation(shell, one)).collect();
    if (listed.len() as u64) < found {
        text.push(format!("… and {} more", found - listed.len() as u64));
    }
    text.push(summary);
    let message = format!("{found} of the store's rules {} broken", if found == 1 { "is" } else { "are" });
    Err(Failure::refused("check_failed", message).text(text.join("\n")).details(report.clone()))
}

fn violation(shell: &Shell, one: &Json) -> String {
    let text = |name: &str| plain(&one[name]);
    let place = match text("workspace") {
        workspace if workspace.is_empty() || workspace == "main" => text("what"),
        workspace => format!("{} in workspace {workspace}", text("what")),
    };
    let head = format!("{} ({}) at {place}", shell.out.red(&text("code")), text("invariant"));
    format!("{head}\n  {}\n  {}", text("message"), shell.out.dim(&text("advice")))
}

fn summary(report: &Json) -> String {
    let counts = &report["counts"];
    let number = |name: &str| counts[name].as_u64().unwrap_or_default();
    let status = counts["by_status"].as_object().into_iter().flatten();
    let status: Vec<String> = status.map(|(word, count)| format!("{count} {word}")).collect();
    format!(
        "{} runs ({}), {} events, {} effects, {} timers, {} keys, {} decisions, {} lanes",
        number("runs"),
        if status.is_empty() { "none".to_owned() } else { status.join(", ") },
        number("events"),
        number("effects"),
        number("timers"),
        number("claims"),
        number("decisions"),
        number("lanes"),
    )
}
