//! `semel flow push`

use super::source::{self, Source};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::field;
use clap::Args;
use reqwest::Method;
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Store flows on the server; an unchanged file makes no new revision
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel flow push payments.yaml
  semel flow push flows/*.yaml --server https://semel.example.com --token-file deploy.token

Files are pushed in the order given, so put a sub-flow before the flow that calls it. The first refusal ends the command; what was pushed before it stays.")]
pub struct Push {
    /// Flow files; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Push {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        // All files are read before the first is pushed: a mistyped name must not leave half of them stored.
        let sources = self.files.iter().map(|path| source::read(path)).collect::<Result<Vec<_>, _>>()?;
        let mut pushed = Vec::new();
        for source in &sources {
            match push(client, shell, source).await {
                Ok(answer) => pushed.push(answer),
                Err(failure) if pushed.is_empty() => return Err(failure),
                Err(failure) => return Err(failure.text(lines(&pushed))),
            }
        }
        let text = lines(&pushed);
        Ok(Reply::new(Json::Array(pushed), text))
    }
}

async fn push(client: &Client, shell: &Shell, source: &Source) -> Result<Json, Failure> {
    let request = client.request(Method::PUT, &["v1", "workflows"]);
    let request = request.header("content-type", "application/yaml").body(source.text.clone());
    let mut answer = client.answer(request).await.map_err(|failure| explain(failure, shell, source))?;
    answer["file"] = json!(source.name);
    Ok(answer)
}

/// The server decides; but this side knows the file's name, so it draws the picture where it sees the same errors.
fn explain(failure: Failure, shell: &Shell, source: &Source) -> Failure {
    if failure.code() != "flow_invalid" {
        return failure;
    }
    let rendered = match source::compile(source) {
        Err(diagnostics) => semel_flow::render(&diagnostics, &source.name, &source.text, shell.err.0),
        Ok(_) => failure.details_json().map(|details| field(details, "rendered")).unwrap_or_default(),
    };
    if rendered.is_empty() { failure } else { failure.preface(format!("{rendered}\n")) }
}

fn lines(pushed: &[Json]) -> String {
    let line = |answer: &Json| {
        let changed = if answer["changed"] == json!(false) { "unchanged" } else { "stored" };
        let warnings = answer["warnings"].as_array().map_or(0, Vec::len);
        let warned = if warnings > 0 {
            format!(", {warnings} warnings (semel flow validate shows them)")
        } else {
            String::new()
        };
        format!("{} revision {} {changed}{warned}", field(answer, "workflow_id"), field(answer, "revision"))
    };
    pushed.iter().map(line).collect::<Vec<_>>().join("\n")
}
