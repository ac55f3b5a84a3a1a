//! `semel key show`

use super::list;
use crate::cli::decision::COLUMNS as DECISIONS;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::table;
use clap::Args;
use serde_json::Value as Json;

/// Show what is known of a key, and the newest decisions about it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel key show evt_1
  semel key show evt_1 --workflow shop:payments")]
pub struct Show {
    /// The event key
    #[arg(value_name = "KEY")]
    key: String,
    /// Only in the scope of this flow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
}

impl Show {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut query = vec![("key", self.key.clone())];
        query.extend(self.workflow.map(|workflow| ("workflow_id", workflow)));
        let found = client.get(&["v1", "keys", "show"], &query).await?;
        let rows = |name: &str| found[name].as_array().cloned().unwrap_or_default();
        let (claims, decisions) = (rows("items"), rows("decisions"));
        if claims.is_empty() && decisions.is_empty() {
            let failure =
                Failure::refused("key_unknown", format!("no event with the key `{}` was seen here", self.key));
            return Err(failure
                .hint("keys are case-sensitive; `semel key list` shows those that are known")
                .details(Json::Null));
        }
        let text = format!(
            "{}\n\n{}\n{}",
            table(shell, list::COLUMNS, &claims),
            shell.out.bold("decisions"),
            table(shell, DECISIONS, &decisions)
        );
        Ok(Reply::new(found, text))
    }
}
