//! `semel flow list`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;
use serde_json::Value as Json;

/// List the flows of the workspace
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel flow list
  semel flow list --all --json")]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("WORKFLOW", |item| field(item, "workflow_id")),
    column("REVISION", |item| field(item, "revision")),
    column("TRIGGERS", triggers),
    column(
        "STATE",
        |item| if item["disabled"] == Json::Bool(true) { "disabled".to_owned() } else { "live".to_owned() },
    ),
    column("STORED", |item| time(item, "created_at")),
    column("BY", |item| field(item, "created_by")),
];

fn triggers(item: &Json) -> String {
    let triggers = item["triggers"].as_array().map(Vec::as_slice).unwrap_or_default();
    triggers.iter().map(|trigger| field(trigger, "id")).collect::<Vec<_>>().join(", ")
}

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        paging::list(client, shell, &["v1", "workflows"], vec![], &self.paging, COLUMNS).await
    }
}
