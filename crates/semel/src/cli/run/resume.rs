//! `semel run resume`

use super::control::{Target, control};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Let a paused run go on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run resume 0198c0de-0000-7000-8000-000000000001")]
pub struct Resume {
    #[command(flatten)]
    target: Target,
}

impl Resume {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        control(client, shell, &self.target, "resume", json!({})).await
    }
}
