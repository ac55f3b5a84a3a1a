//! `semel workspace list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List workspaces
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel workspace list")]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] =
    &[column("WORKSPACE", |item| field(item, "id")), column("CREATED", |item| time(item, "created_at"))];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "workspaces"], vec![], &self.paging, COLUMNS).await
    }
}
