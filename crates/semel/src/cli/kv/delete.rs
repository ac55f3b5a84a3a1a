//! `semel kv delete`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Delete a value
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel kv delete shop rate")]
pub struct Delete {
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    #[arg(value_name = "KEY")]
    key: String,
}

impl Delete {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        client.delete(&["v1", "kv", &self.namespace, &self.key]).await?;
        let data = json!({ "namespace": self.namespace, "key": self.key, "deleted": true });
        Ok(Reply::new(data, format!("deleted {} {}", self.namespace, self.key)))
    }
}
