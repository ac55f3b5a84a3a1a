//! `semel token create`

use crate::cli::duration;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::field;
use clap::Args;
use serde_json::json;

const ROLES: [&str; 6] = ["viewer", "operator", "author", "admin", "trigger", "metrics"];

/// Make a token; it is shown once and stored only as a hash
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel token create --role trigger --name shop-webhooks
  semel token create --role author --workspace staging --expires P90D
  umask 077; semel token create --role operator > operator.token

--workspace is the workspace that the token will open.
Roles: viewer < operator < author < admin; trigger only starts runs, metrics only reads /metrics.")]
pub struct Create {
    /// What the token may do
    #[arg(long, value_name = "ROLE", value_parser = ROLES)]
    role: String,
    /// Name shown in lists and in the decision log
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long it lives, like PT12H or P90D; for ever if absent
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<String>,
}

impl Create {
    /// `--workspace` names the workspace that the token will open, not the one that asks.
    pub async fn run(self, client: &Client, _shell: &Shell, workspace: Option<String>) -> Result<Reply, Failure> {
        let mut body = json!({ "role": self.role, "name": self.name.unwrap_or_else(|| self.role.clone()) });
        for (name, value) in [("workspace", &workspace), ("expires_in", &self.expires)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        let made = client.post(&["v1", "tokens"], &body).await?;
        let note = format!(
            "{} token {} for workspace {}; it is not shown again",
            field(&made, "role"),
            field(&made, "id"),
            field(&made, "workspace")
        );
        let text = field(&made, "token");
        Ok(Reply::new(made, text).note(note))
    }
}
