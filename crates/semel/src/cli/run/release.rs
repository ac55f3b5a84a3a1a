//! `semel run release`

use super::control::{Target, control};
use crate::cli::paging::{EVERYTHING, fetch};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::{Value as Json, json};

/// Let a run go on that a restore holds
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run release 0198c0de-0000-7000-8000-000000000001 --why 'the bank has no such transfer'
  semel run release --all --why 'nothing ran between backup and loss'

The run goes on from what the backup knew, as after a crash. `semel run list --status held` shows what is held.")]
pub struct Release {
    /// Id of the run
    #[arg(value_name = "RUN", required_unless_present = "all")]
    run: Option<String>,
    /// Every run that a restore holds
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Why; kept in the journal
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl Release {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        if let Some(run) = self.run {
            return control(client, shell, &Target { run, why: self.why }, "release", json!({})).await;
        }
        let body = self.why.map_or_else(|| json!({}), |why| json!({ "why": why }));
        let held = vec![("status", "held".to_owned())];
        let (runs, _) = fetch(client, &["v1", "runs"], held, &EVERYTHING).await?;
        let mut released = Vec::new();
        for run in runs {
            let id = run["run_id"].as_str().unwrap_or_default();
            match client.post(&["v1", "runs", id, "release"], &body).await {
                Ok(_) => released.push(json!(id)),
                // It is held by a doubt, which only a verdict settles, or was released meanwhile.
                Err(failure) if failure.code() == "not_possible" => {}
                Err(failure) => return Err(failure),
            }
        }
        let text = format!("{} released", released.len());
        Ok(Reply::new(Json::Array(released), text))
    }
}
