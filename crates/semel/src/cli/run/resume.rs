//! `semel run resume`

use super::control::{Target, control};
use super::start::input;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::{Map, Value as Json, json};

/// Let a paused run go on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run resume 0198c0de-0000-7000-8000-000000000001
  semel run resume 0198c0de-0000-7000-8000-000000000001 --input approved:=true --input reason=fine
  semel run resume 0198c0de-0000-7000-8000-000000000001 --deny --comment 'not before Monday'

`name=text` gives text, `name:=JSON` any JSON value.")]
pub struct Resume {
    #[command(flatten)]
    target: Target,
    /// One input of the task at which the run stands still; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input)]
    input: Vec<(String, Json)>,
    /// Approve, where the run waits for a review
    #[arg(long, conflicts_with = "deny")]
    approve: bool,
    /// Deny, where the run waits for a review
    #[arg(long)]
    deny: bool,
    /// Why it is approved or denied
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Step id, path or task, when the run stands still at more than one
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
}

impl Resume {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut body = json!({});
        if !self.input.is_empty() {
            body["inputs"] = Json::Object(self.input.into_iter().collect::<Map<_, _>>());
        }
        if let Some(step) = self.step {
            body["step_id"] = json!(step);
        }
        if self.approve || self.deny {
            body["decision"] = json!(if self.approve { "approve" } else { "deny" });
        }
        if let Some(comment) = self.comment {
            body["comment"] = json!(comment);
        }
        control(client, shell, &self.target, "resume", body).await
    }
}
