//! What the steering verbs share: which run, why, and the run as it is afterwards.

use super::object;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use serde_json::{Value as Json, json};

#[derive(Args, Debug)]
pub struct Target {
    /// Id of the run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Reason, kept with the run
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

pub async fn control(
    client: &Client,
    shell: &Shell,
    target: &Target,
    verb: &str,
    mut body: Json,
) -> Result<Reply, Failure> {
    if let Some(why) = &target.why {
        body["why"] = json!(why);
    }
    let run = client.post(&["v1", "runs", &target.run, verb], &body).await?;
    let text = object::card(shell, &run);
    Ok(Reply::new(run, text))
}
