//! `semel flow show`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{card, field, time};
use clap::Args;
use serde_json::Value as Json;

/// Show one flow
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel flow show shop:payments
  semel flow show shop:payments --revision 2 --source > payments.yaml")]
pub struct Show {
    /// `namespace:id`, or the id alone when only one flow has it
    #[arg(value_name = "ID")]
    id: String,
    /// An older revision
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    /// Print the text as it was pushed and nothing else
    #[arg(long)]
    source: bool,
}

impl Show {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let query = self.revision.map(|revision| ("revision", revision.to_string()));
        let flow = client.get(&["v1", "workflows", &self.id], query.as_slice()).await?;
        let text = if self.source { field(&flow, "source") } else { describe(shell, &flow) };
        Ok(Reply::new(flow, text))
    }
}

fn describe(shell: &Shell, flow: &Json) -> String {
    let triggers = flow["triggers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let triggers = triggers.iter().map(|one| format!("{} ({})", field(one, "id"), field(one, "type")));
    let rows = [
        ("workflow", field(flow, "workflow_id")),
        ("revision", field(flow, "revision")),
        ("description", field(flow, "description")),
        ("disabled", field(flow, "disabled")),
        ("stored", time(flow, "created_at")),
        ("by", field(flow, "created_by")),
        ("triggers", triggers.collect::<Vec<_>>().join(", ")),
    ];
    format!("{}\n\n{}", card(shell.out, &rows), field(flow, "source"))
}
