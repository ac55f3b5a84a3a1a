//! `semel run start`

use super::object;
use crate::cli::pair;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{card, field};
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// Start a run of a flow, or meet the one that its key already started
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run start shop:orders --input order_id=o-1 --input amount:=4200
  semel run start shop:orders --inputs @order.json --wait
  semel run start hello --key greeting-1
  semel run start nightly --label team=ops --wait 30

`name=text` gives text, `name:=JSON` any JSON value. With --wait the command fails if the run does.")]
pub struct Start {
    /// `namespace:id`, or the id alone when only one flow has it
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// One input; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input)]
    input: Vec<(String, Json)>,
    /// All inputs as a JSON object, or @FILE with one; --input adds to it
    #[arg(long, value_name = "JSON|@FILE")]
    inputs: Option<String>,
    /// Event key: starting twice with one key gives one run
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Label of the run; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Correlation id; the run's own id if absent
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// What to do with a twin, by the name of a preset, where the flow leaves it open
    #[arg(long, value_name = "PRESET")]
    strategy: Option<String>,
    /// Wait for the end, this many seconds at most
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "300", value_parser = clap::value_parser!(u64).range(1..=300))]
    wait: Option<u64>,
}

/// Time for the answer itself, on top of what the server was asked to wait.
const ANSWER_SECS: u64 = 30;

impl Start {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut body = json!({ "workflow_id": self.workflow, "inputs": self.all_inputs()? });
        let labels: Map<String, Json> = self.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        body["labels"] = Json::Object(labels);
        for (name, value) in
            [("key", &self.key), ("correlation_id", &self.correlation_id), ("strategy", &self.strategy)]
        {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        let mut request = client.request(Method::POST, &["v1", "runs"]).json(&body);
        if let Some(seconds) = self.wait {
            request = request.header("prefer", format!("wait={seconds}"));
        }
        let limit = Duration::from_secs(self.wait.unwrap_or(0) + ANSWER_SECS);
        let answer = client.answer_within(request, limit).await?;
        match self.wait {
            None => Ok(started(shell, answer)),
            Some(seconds) => waited(client, shell, answer, seconds).await,
        }
    }

    fn all_inputs(&self) -> Result<Json, Failure> {
        let mut inputs = match &self.inputs {
            None => Map::new(),
            Some(given) => object(given)?,
        };
        inputs.extend(self.input.iter().cloned());
        Ok(Json::Object(inputs))
    }
}

fn started(shell: &Shell, body: Json) -> Reply {
    let rows = [
        ("run", field(&body, "run_id")),
        ("workflow", field(&body, "workflow_id")),
        ("status", object::status(shell.out, &field(&body, "status"))),
        ("decision", field(&body, "decision")),
        ("reason", field(&body, "reason")),
    ];
    let text = card(shell.out, &rows);
    let replayed = body["idempotent_replayed"] == json!(true);
    let note = replayed.then(|| "this key has started a run before; here it is".to_owned());
    Reply::new(body, text).maybe_note(note)
}

async fn waited(client: &Client, shell: &Shell, answer: Json, seconds: u64) -> Result<Reply, Failure> {
    let id = field(&answer, "run_id");
    let mut run = client.get(&["v1", "runs", &id], &[]).await?;
    let text = object::card(shell, &run);
    if let Some(failure) = object::failure(&run) {
        return Err(failure.text(text));
    }
    if !object::is_settled(&field(&run, "status")) {
        let failure = Failure::refused("not_ended", format!("run {id} has not ended after {seconds} s; it goes on"));
        return Err(failure.hint(format!("semel run watch {id}")).details(run).text(text));
    }
    run["idempotent_replayed"] = answer["idempotent_replayed"].clone();
    Ok(Reply::new(run, text))
}

/// `name=text` or `name:=JSON`.
pub fn input(text: &str) -> Result<(String, Json), String> {
    let (name, value) = pair(text)?;
    match name.strip_suffix(':') {
        None => Ok((name, Json::String(value))),
        Some("") => Err("write it as name:=JSON".to_owned()),
        Some(name) => match serde_json::from_str(&value) {
            Ok(value) => Ok((name.to_owned(), value)),
            Err(error) => Err(format!("the value is not JSON ({error}); use name=text for plain text")),
        },
    }
}

fn object(given: &str) -> Result<Map<String, Json>, Failure> {
    let text = match given.strip_prefix('@') {
        None => given.to_owned(),
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?
        }
    };
    match serde_json::from_str(&text) {
        Ok(Json::Object(map)) => Ok(map),
        Ok(_) => Err(Failure::usage("--inputs must be a JSON object, like {\"id\": \"evt_1\"}")),
        Err(error) => Err(Failure::usage(format!("--inputs is not JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_text_unless_marked_as_json() {
        assert_eq!(input("n=1"), Ok(("n".to_owned(), json!("1"))));
        assert_eq!(input("n:=1"), Ok(("n".to_owned(), json!(1))));
        assert_eq!(input("n:={\"a\":[1]}"), Ok(("n".to_owned(), json!({"a": [1]}))));
        assert!(input("n:=x").unwrap_err().contains("name=text"));
        assert!(input(":=1").is_err());
        assert!(input("n").is_err());
    }
}
