//! `semel run restart`

use super::control::{Target, control};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Let a failed or cancelled run go on where it stopped; finished effects are kept
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run restart 0198c0de-0000-7000-8000-000000000001
  semel run restart 0198c0de-0000-7000-8000-000000000001 --why \"bank is back\"")]
pub struct Restart {
    #[command(flatten)]
    target: Target,
}

impl Restart {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        control(client, shell, &self.target, "restart", json!({})).await
    }
}
