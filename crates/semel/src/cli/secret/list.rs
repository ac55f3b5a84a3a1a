//! `semel secret list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List the names of secrets; values never come back
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel secret list")]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("NAME", |item| field(item, "name")),
    column("VERSION", |item| field(item, "version")),
    column("STORED", |item| time(item, "created_at")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "secrets"], vec![], &self.paging, COLUMNS).await
    }
}
