//! `semel kv set`

use crate::cli::duration;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::{Value as Json, json};

/// Write a value
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel kv set shop rate 0.19
  semel kv set shop banner '{\"text\":\"sale\"}' --ttl PT1H
  semel kv set shop zip 01067 --text
  semel kv set shop leader a --no-overwrite    refused if the key is taken")]
pub struct Set {
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    #[arg(value_name = "KEY")]
    key: String,
    /// JSON, or plain text if it is not JSON
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: String,
    /// Take the value as text even if it reads as JSON
    #[arg(long)]
    text: bool,
    /// Forget it after this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<String>,
    /// Refuse if the key has a value
    #[arg(long)]
    no_overwrite: bool,
}

impl Set {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        let parsed = if self.text { None } else { serde_json::from_str::<Json>(&self.value).ok() };
        let mut body = json!({ "value": parsed.unwrap_or(Json::String(self.value)), "overwrite": !self.no_overwrite });
        if let Some(ttl) = &self.ttl {
            body["ttl"] = json!(ttl);
        }
        let answer = client.put(&["v1", "kv", &self.namespace, &self.key], &body).await?;
        Ok(Reply::new(answer, format!("set {} {}", self.namespace, self.key)))
    }
}
