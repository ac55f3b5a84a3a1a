//! `semel key list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List event keys and the runs they led to
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel key list
  semel key list --state held
  semel key list --run 0198c0de-0000-7000-8000-000000000001")]
pub struct List {
    /// Only this key, in every scope
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only keys of this scope
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Only keys in this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only the keys of this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

pub const COLUMNS: &[Column] = &[
    column("KEY", |item| field(item, "key")),
    column("SCOPE", |item| field(item, "scope")),
    column("STATE", |item| field(item, "state")),
    column("RUN", |item| field(item, "run_id")),
    column("GENERATION", |item| field(item, "generation")),
    column("FIRST SEEN", |item| time(item, "first_seen")),
    column("EXPIRES", |item| time(item, "expires_at")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let filters = [("key", self.key), ("scope", self.scope), ("state", self.state), ("run_id", self.run)];
        let query = filters.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
        paging::list(client, shell, &["v1", "keys"], query, &self.paging, COLUMNS).await
    }
}
