//! `semel key release`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{ArgGroup, Args};
use serde_json::json;

/// Free a key, so that the same event may start again
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("where").required(true).args(["workflow", "scope"]))]
#[command(after_help = "\
Examples:
  semel key release evt_1 --workflow shop:payments --why \"test event\"

Refused while the key's run is live or an effect of it is in doubt.")]
pub struct Release {
    /// The event key
    #[arg(value_name = "KEY")]
    key: String,
    /// The flow whose key it is
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// The scope as `semel key list` shows it
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Reason, kept in the log
    #[arg(long, value_name = "TEXT")]
    why: String,
}

impl Release {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        let mut body = json!({ "key": self.key, "why": self.why });
        for (name, value) in [("workflow_id", &self.workflow), ("scope", &self.scope)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        let answer = client.post(&["v1", "keys", "release"], &body).await?;
        Ok(Reply::new(answer, format!("released {}", crate::table::harmless(&self.key))))
    }
}
