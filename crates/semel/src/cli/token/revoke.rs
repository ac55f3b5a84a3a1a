//! `semel token revoke`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Revoke a token, effective at its next request
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel token revoke 7f3a9c21")]
pub struct Revoke {
    /// Id of the token, as `semel token list` shows it
    #[arg(value_name = "ID")]
    id: String,
}

impl Revoke {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        client.delete(&["v1", "tokens", &self.id]).await?;
        Ok(Reply::new(json!({ "id": self.id, "revoked": true }), format!("revoked {}", self.id)))
    }
}
