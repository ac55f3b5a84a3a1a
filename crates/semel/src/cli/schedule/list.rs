//! `semel schedule list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List schedules and when they fire next
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel schedule list")]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("WORKFLOW", |item| field(item, "workflow_id")),
    column("TRIGGER", |item| field(item, "trigger")),
    column("NEXT", |item| time(item, "next_due")),
    column("LAST", |item| time(item, "last_fired")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "schedules"], vec![], &self.paging, COLUMNS).await
    }
}
