//! `semel run erase`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Remove the payloads of an ended run for good; its key stays spent
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run erase 0198c0de-0000-7000-8000-000000000001

Inputs, outputs, values and logs go; the structure of the journal and the hash of the key stay, so a late twin still starts nothing.")]
pub struct Erase {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
}

impl Erase {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        client.post(&["v1", "runs", &self.run, "erase"], &json!({})).await?;
        Ok(Reply::new(json!({ "run_id": self.run, "erased": true }), format!("erased {}", self.run)))
    }
}
