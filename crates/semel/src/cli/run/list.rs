//! `semel run list`

use super::object;
use crate::cli::paging::{self, Paging};
use crate::cli::pair;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;

const STATUSES: [&str; 8] = ["queued", "running", "waiting", "paused", "held", "completed", "failed", "cancelled"];

/// List runs, newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run list --status failed,held
  semel run list --workflow shop:payments --label team=ops
  semel run list --key evt_1 --json
  semel run list --from 2026-01-01T00:00:00Z --all")]
pub struct List {
    /// Only runs of this flow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only runs of flows in this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only runs in one of these states; may be repeated or comma-separated
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = STATUSES)]
    status: Vec<String>,
    /// Only runs with this label; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Only the runs of this event key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only runs with this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Only sub-runs of this run
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Only runs created at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Option<String>,
    /// Only runs created before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = instant)]
    to: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut query = Vec::new();
        let single = [
            ("workflow_id", self.workflow),
            ("namespace", self.namespace),
            ("key", self.key),
            ("correlation_id", self.correlation_id),
            ("parent_run_id", self.parent),
            ("created_from", self.from),
            ("created_to", self.to),
        ];
        query.extend(single.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
        query.extend(self.status.into_iter().map(|status| ("status", status)));
        query.extend(self.labels.into_iter().map(|(name, value)| ("label", format!("{name}:{value}"))));
        paging::list(client, shell, &["v1", "runs"], query, &self.paging, object::COLUMNS).await
    }
}

fn instant(text: &str) -> Result<String, String> {
    let parsed = text.parse::<jiff::Timestamp>();
    parsed.map(|_| text.to_owned()).map_err(|_| "write a time like 2026-01-31T08:00:00Z".to_owned())
}
