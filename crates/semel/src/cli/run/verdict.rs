//! `semel run verdict`

use super::object;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{ArgGroup, Args};
use serde_json::{Value as Json, json};

/// Say what became of an effect in doubt, so that its run can go on
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["done", "repeat", "repeat_new_key", "fail"]))]
#[command(after_help = "\
Examples:
  semel run verdict 0198c0de-0000-7000-8000-000000000001 --done '{\"code\":200}' --why \"the bank shows the charge\"
  semel run verdict 0198c0de-0000-7000-8000-000000000001 --repeat --why \"the bank has no such charge\"
  semel run verdict 0198c0de-0000-7000-8000-000000000001 --fail --why \"customer paid in cash\" --step charge

`semel run show RUN --steps` lists the effects and their states.")]
pub struct Verdict {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// It happened; this is its output as later tasks read it, like {"code":200,"body":"…"}
    #[arg(long, value_name = "JSON", num_args = 0..=1, default_missing_value = "null")]
    done: Option<String>,
    /// It did not happen: do it, with the same key
    #[arg(long)]
    repeat: bool,
    /// It did not happen, and the far side must take it for something new
    #[arg(long)]
    repeat_new_key: bool,
    /// Let the step fail, and the flow's error handlers run
    #[arg(long)]
    fail: bool,
    /// How you know; kept with the run
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Step id or path, when more than one effect is in doubt
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
}

impl Verdict {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut body = json!({ "verdict": self.word(), "why": self.why });
        if let Some(step) = &self.step {
            body["step_id"] = json!(step);
        }
        if let Some(result) = &self.done {
            let parsed = serde_json::from_str::<Json>(result);
            body["result"] =
                parsed.map_err(|error| Failure::usage(format!("the result after --done is not JSON: {error}")))?;
        }
        let run = client.post(&["v1", "runs", &self.run, "verdict"], &body).await?;
        let text = object::card(shell, &run);
        Ok(Reply::new(run, text))
    }

    fn word(&self) -> &'static str {
        match (self.repeat, self.repeat_new_key, self.fail) {
            (true, _, _) => "repeat",
            (_, true, _) => "repeat_new_key",
            (_, _, true) => "fail",
            _ => "done",
        }
    }
}
