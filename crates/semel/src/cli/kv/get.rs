//! `semel kv get`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::field;
use clap::Args;

/// Print a value
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel kv get shop rate
  semel kv get shop rate --json    with its type, revision and expiry")]
pub struct Get {
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    #[arg(value_name = "KEY")]
    key: String,
}

impl Get {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        let found = client.get(&["v1", "kv", &self.namespace, &self.key], &[]).await?;
        let text = field(&found, "value");
        Ok(Reply::new(found, text))
    }
}
