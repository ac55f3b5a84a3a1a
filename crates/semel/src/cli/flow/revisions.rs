//! `semel flow revisions`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List the revisions of a flow
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel flow revisions shop:payments")]
pub struct Revisions {
    /// `namespace:id`, or the id alone when only one flow has it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("REVISION", |item| field(item, "revision")),
    column("STORED", |item| time(item, "created_at")),
    column("BY", |item| field(item, "created_by")),
    column("DESCRIPTION", |item| field(item, "description")),
];

impl Revisions {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let segments = ["v1", "workflows", &self.id, "revisions"];
        paging::list(client, shell, &segments, vec![], &self.paging, COLUMNS).await
    }
}
