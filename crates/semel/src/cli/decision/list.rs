//! `semel decision list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List arrivals and what was decided about each, newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel decision list --key evt_1
  semel decision list --workflow shop:payments --decision reject
  semel decision list --run 0198c0de-0000-7000-8000-000000000001 --json")]
pub struct List {
    /// Only decisions that named this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only decisions about this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only arrivals for this flow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only these decisions (start, attach, replay, reject …); may be repeated or comma-separated
    #[arg(long, value_name = "DECISION", value_delimiter = ',')]
    decision: Vec<String>,
    #[command(flatten)]
    paging: Paging,
}

pub const COLUMNS: &[Column] = &[
    column("SEQ", |item| field(item, "seq")),
    column("AT", |item| time(item, "at")),
    column("DOOR", |item| field(item, "door")),
    column("WORKFLOW", |item| field(item, "workflow_id")),
    column("KEY", |item| field(item, "key")),
    column("DECISION", |item| field(item, "decision")),
    column("REASON", |item| field(item, "reason")),
    column("RUN", |item| field(item, "run_id")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let filters = [("run_id", self.run), ("key", self.key), ("workflow_id", self.workflow)];
        let mut query: Vec<_> =
            filters.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
        query.extend(self.decision.into_iter().map(|decision| ("decision", decision)));
        paging::list(client, shell, &["v1", "decisions"], query, &self.paging, COLUMNS).await
    }
}
