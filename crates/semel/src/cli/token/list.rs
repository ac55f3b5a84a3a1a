//! `semel token list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List tokens, without their secrets
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel token list")]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("ID", |item| field(item, "id")),
    column("NAME", |item| field(item, "name")),
    column("ROLE", |item| field(item, "role")),
    column("WORKSPACE", |item| field(item, "workspace")),
    column("CREATED", |item| time(item, "created_at")),
    column("EXPIRES", |item| time(item, "expires_at")),
    column("REVOKED", |item| time(item, "revoked_at")),
];

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "tokens"], vec![], &self.paging, COLUMNS).await
    }
}
