//! `semel secret delete`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Let a name no longer resolve; runs that already hold a reference keep it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel secret delete BANK_TOKEN")]
pub struct Delete {
    #[arg(value_name = "NAME")]
    name: String,
}

impl Delete {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        client.delete(&["v1", "secrets", &self.name]).await?;
        Ok(Reply::new(json!({ "name": self.name, "deleted": true }), format!("deleted {}", self.name)))
    }
}
