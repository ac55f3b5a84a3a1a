//! `semel kv list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List the keys of a namespace
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel kv list shop
  semel kv list shop --all --json")]
pub struct List {
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("KEY", |item| field(item, "key")),
    column("TYPE", |item| field(item, "type")),
    column("VALUE", |item| field(item, "value")),
    column("REVISION", |item| field(item, "revision")),
    column("UPDATED", |item| time(item, "updated_at")),
    column("EXPIRES", |item| time(item, "expires_at")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "kv", &self.namespace], vec![], &self.paging, COLUMNS).await
    }
}
