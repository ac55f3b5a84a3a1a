//! `semel key explain`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, plain, table, time};
use clap::Args;
use serde_json::{Value as Json, json};

/// Tell the whole story of a key: why arrivals met, or why they did not
#[derive(Args, Debug)]
#[command(
    override_usage = "semel key explain KEY [OTHER_KEY] --workflow ID\n       semel key explain --decision SEQ --other SEQ"
)]
#[command(after_help = "\
Examples:
  semel key explain evt_1 --workflow shop:payments
  semel key explain evt_1 evt_2 --workflow shop:payments
  semel key explain --decision 17 --other 23

`semel decision list` shows the sequence numbers.")]
pub struct Explain {
    /// The event key
    #[arg(value_name = "KEY", required_unless_present = "decision", requires = "workflow")]
    key: Option<String>,
    /// The key it was expected to meet
    #[arg(value_name = "OTHER_KEY")]
    other_key: Option<String>,
    /// The flow whose scope the keys belong to
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Sequence number of one arrival in the decision log
    #[arg(long, value_name = "SEQ", requires = "other", conflicts_with_all = ["key", "workflow"])]
    decision: Option<u64>,
    /// Sequence number of the arrival it was expected to meet
    #[arg(long, value_name = "SEQ", requires = "decision")]
    other: Option<u64>,
}

const DECISIONS: &[Column] = &[
    column("SEQ", |item| field(item, "seq")),
    column("AT", |item| time(item, "at")),
    column("DOOR", |item| field(item, "door")),
    column("KEY", |item| field(item, "key")),
    column("FOUND", |item| field(item, "prior")),
    column("DECISION", |item| field(item, "decision")),
    column("REASON", |item| field(item, "reason")),
    column("GENERATION", |item| field(item, "generation")),
    column("RUN", |item| field(item, "run_id")),
];

impl Explain {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut body = json!({});
        for (name, value) in [("workflow_id", &self.workflow), ("key", &self.key), ("other_key", &self.other_key)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        for (name, value) in [("decision", self.decision), ("other", self.other)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        let found = client.post(&["v1", "keys", "explain"], &body).await?;
        let verdict = if found["met"] == json!(true) {
            shell.out.green("they met")
        } else {
            shell.out.yellow("they did not meet")
        };
        let sentences = found["explanation"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = std::iter::once(verdict).chain(sentences.iter().map(|one: &Json| format!("- {}", plain(one))));
        let mut text = lines.collect::<Vec<_>>().join("\n");
        let log = found["decisions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !log.is_empty() {
            text.push_str(&format!("\n\n{}\n{}", shell.out.bold("decisions"), table(shell, DECISIONS, log)));
        }
        Ok(Reply::new(found, text))
    }
}
