//! `semel run pause`

use super::control::{Target, control};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Let a run finish its current steps and start no more
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run pause 0198c0de-0000-7000-8000-000000000001
  semel run pause 0198c0de-0000-7000-8000-000000000001 --why \"bank is down\"")]
pub struct Pause {
    #[command(flatten)]
    target: Target,
}

impl Pause {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        control(client, shell, &self.target, "pause", json!({})).await
    }
}
