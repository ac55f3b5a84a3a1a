//! `semel workspace create`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Make a workspace
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel workspace create staging

Then give someone a way in: semel token create --workspace staging --role author")]
pub struct Create {
    /// 1 to 63 of a-z 0-9 _ -, starting with a letter or digit
    #[arg(value_name = "NAME")]
    name: String,
}

impl Create {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        let answer = client.post(&["v1", "workspaces"], &json!({ "id": self.name })).await?;
        Ok(Reply::new(answer, format!("created {}", self.name)))
    }
}
