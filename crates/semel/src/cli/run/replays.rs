//! `semel run replays`

use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, time};
use clap::Args;

/// List the arrivals that met this run instead of starting one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run replays 0198c0de-0000-7000-8000-000000000001
  semel run replays 0198c0de-0000-7000-8000-000000000001 --all --json")]
pub struct Replays {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    column("SEQ", |item| field(item, "seq")),
    column("AT", |item| time(item, "at")),
    column("DOOR", |item| field(item, "door")),
    column("DECISION", |item| field(item, "decision")),
    column("REASON", |item| field(item, "reason")),
    column("SAME PAYLOAD", |item| field(item, "same_payload")),
    column("CALLER", |item| field(item, "caller")),
];

impl Replays {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let segments = ["v1", "runs", &self.run, "replays"];
        paging::list(client, shell, &segments, vec![], &self.paging, COLUMNS).await
    }
}
