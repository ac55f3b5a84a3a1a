//! `semel run replay`

use super::control::{Target, control};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::json;

/// Do finished steps again, from the start or from one task on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run replay 0198c0de-0000-7000-8000-000000000001 --why \"wrong template\"
  semel run replay 0198c0de-0000-7000-8000-000000000001 --from receipt

Effects that are done are done again, with new keys. To go on where a failed run stopped, use `semel run restart`.")]
pub struct Replay {
    #[command(flatten)]
    target: Target,
    /// Top-level task to begin with
    #[arg(long, value_name = "TASK")]
    from: Option<String>,
}

impl Replay {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let body = self.from.as_ref().map_or_else(|| json!({}), |from| json!({ "from": from }));
        control(client, shell, &self.target, "replay", body).await
    }
}
