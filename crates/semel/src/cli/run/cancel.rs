//! `semel run cancel`

use super::control::{Target, control};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Stop a run; what it has done stays done
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run cancel 0198c0de-0000-7000-8000-000000000001
  semel run cancel 0198c0de-0000-7000-8000-000000000001 --why \"customer called\"")]
pub struct Cancel {
    #[command(flatten)]
    target: Target,
}

impl Cancel {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        control(client, shell, &self.target, "cancel", json!({})).await
    }
}
