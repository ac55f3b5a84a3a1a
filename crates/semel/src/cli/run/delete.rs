//! `semel run delete`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Forget an ended run and free its key
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run delete 0198c0de-0000-7000-8000-000000000001

The same event would then start a new run. To remove only what the run was told, use `semel run erase`.")]
pub struct Delete {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
}

impl Delete {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        client.delete(&["v1", "runs", &self.run]).await?;
        Ok(Reply::new(json!({ "run_id": self.run, "deleted": true }), format!("deleted {}", self.run)))
    }
}
