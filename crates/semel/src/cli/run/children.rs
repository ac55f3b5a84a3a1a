//! `semel run children`

use super::object;
use crate::cli::paging::{self, Paging};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;

/// List the sub-runs of a run
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run children 0198c0de-0000-7000-8000-000000000001")]
pub struct Children {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    paging: Paging,
}

impl Children {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let segments = ["v1", "runs", &self.run, "children"];
        paging::list(client, shell, &segments, vec![], &self.paging, object::COLUMNS).await
    }
}
