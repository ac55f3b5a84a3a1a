//! `semel node list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List nodes: who is alive, until when its lease holds, how many runs it drives
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel node list")]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("EPOCH", |item| field(item, "epoch")),
    column("NAME", |item| field(item, "name")),
    column("STATE", |item| field(item, "state")),
    column("RUNS", |item| field(item, "runs_owned")),
    column("LEASE UNTIL", |item| time(item, "lease_until")),
    column("SEEN", |item| time(item, "seen_at")),
    column("STARTED", |item| time(item, "started_at")),
    column("VERSION", |item| field(item, "version")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "nodes"], vec![], &self.paging, COLUMNS).await
    }
}
