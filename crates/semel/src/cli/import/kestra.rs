//! `semel import kestra`

use super::report::{self, Entry, Naming};
use crate::cli::with_client;
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use reqwest::Method;
use semel_core::limits::Limits;
use semel_flow::{Diagnostic, Document, differences, documents};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const NAMING: Naming = Naming { entries: "flows", page: "docs/kestra.md" };

/// Report what of a folder of Kestra flows runs here, and push what does
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel import kestra flows/ --check
  semel import kestra flows/ --server https://semel.example.com --token-file deploy.token
  semel import kestra flows/ --check --json

Every .yaml and .yml file below DIR is read; one file may hold several flows, separated by lines of `---`. A flow runs unchanged, runs with differences that are named, or needs something that is not built, with file and line. Exit 1 if one of them does not run. What does is pushed, unless --check is given.")]
pub struct Kestra {
    /// The folder with the flows
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Only report; no server is needed
    #[arg(long)]
    check: bool,
}

/// One flow of a file and what is known of it.
struct Found {
    file: String,
    /// Of its first line, from 1.
    line: u32,
    text: String,
    /// `namespace:id`, if it compiles.
    id: Option<String>,
    /// What keeps it from running.
    missing: Vec<Place>,
    /// What is different here.
    differs: Vec<Place>,
    pushed: Option<Json>,
}

struct Place {
    line: u32,
    column: u32,
    code: &'static str,
    message: String,
}

impl Kestra {
    pub fn run(self, connection: &Connection, shell: &Shell) -> Result<Reply, Failure> {
        let mut files = Vec::new();
        report::collect(&self.directory, &["yaml", "yml"], &mut files)?;
        let mut found = Vec::new();
        let mut skipped = Vec::new();
        for path in &files {
            read(path, &mut found, &mut skipped)?;
        }
        if found.is_empty() {
            let message = format!("there is no flow below {}", self.directory.display());
            return Err(Failure::cannot("no_flows", message).hint("a flow is a YAML map with id, namespace and tasks"));
        }
        refuse_doubles(&mut found);
        if self.check {
            return report::report(&NAMING, &found, &skipped, shell);
        }
        with_client(connection, async |client| {
            for flow in found.iter_mut().filter(|flow| flow.missing.is_empty()) {
                push(&client, flow).await?;
            }
            report::report(&NAMING, &found, &skipped, shell)
        })
    }
}

fn read(path: &Path, found: &mut Vec<Found>, skipped: &mut Vec<String>) -> Result<(), Failure> {
    let file = path.display().to_string();
    let Some(text) = report::text_of(path, skipped)? else { return Ok(()) };
    for document in documents(&text) {
        if looks_like_a_flow(document.text) {
            found.push(judge(&file, document));
        } else {
            skipped.push(format!("{file}:{}: not a flow", document.lines_before + 1));
        }
    }
    Ok(())
}

/// Folders hold other YAML too. What cannot be read may be a flow with a mistake, and is told as one.
fn looks_like_a_flow(text: &str) -> bool {
    match semel_flow::yaml_value(text, &Limits::default()) {
        Ok(Json::Object(fields)) => {
            fields.contains_key("tasks") && (fields.contains_key("id") || fields.contains_key("namespace"))
        }
        Ok(_) => false,
        Err(_) => text.lines().any(|line| line.starts_with("tasks:")),
    }
}

fn judge(file: &str, document: Document<'_>) -> Found {
    let limits = Limits::default();
    let text = document.text.to_owned();
    let place = |one: &Diagnostic| Place {
        line: one.span.line + document.lines_before,
        column: one.span.column,
        code: one.code,
        message: match &one.suggestion {
            Some(suggestion) => format!("{}; {suggestion}", one.message),
            None => one.message.clone(),
        },
    };
    let (id, missing, mut differs) = match semel_flow::compile(&text, &semel_tasks::REGISTRY, &limits) {
        Ok(compiled) => {
            let id = compiled.flow.flow_ref().to_string();
            (Some(id), vec![], compiled.warnings.iter().map(place).collect::<Vec<_>>())
        }
        Err(diagnostics) => {
            let (errors, warnings): (Vec<_>, Vec<_>) = diagnostics.iter().partition(|one| one.is_error());
            (None, errors.into_iter().map(place).collect(), warnings.into_iter().map(place).collect())
        }
    };
    differs.extend(differences(&text, &limits).into_iter().map(|one| Place {
        line: one.span.line + document.lines_before,
        column: one.span.column,
        code: "differs",
        message: one.message,
    }));
    differs.sort_by_key(|one| (one.line, one.column));
    Found { file: file.to_owned(), line: document.lines_before + 1, text, id, missing, differs, pushed: None }
}

/// Which of two flows with one id is meant, nobody can say.
fn refuse_doubles(found: &mut [Found]) {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for flow in found {
        let Some(id) = &flow.id else { continue };
        let place = format!("{}:{}", flow.file, flow.line);
        match first.get(id) {
            None => _ = first.insert(id.clone(), place),
            Some(other) => {
                let message = format!("{id} is defined at {other} as well");
                flow.missing.push(Place { line: flow.line, column: 1, code: "duplicate_id", message });
            }
        }
    }
}

/// A refusal is about this flow only: the next one may still go in.
async fn push(client: &Client, flow: &mut Found) -> Result<(), Failure> {
    let request = client.request(Method::PUT, &["v1", "workflows"]);
    let request = request.header("content-type", "application/yaml").body(flow.text.clone());
    match client.answer(request).await {
        Ok(answer) => flow.pushed = Some(answer),
        Err(failure) if failure.code() == "flow_invalid" => {
            let errors = failure.details_json().and_then(|details| details["errors"].as_array().cloned());
            let message = errors.and_then(|all| all.first().and_then(|one| one["message"].as_str().map(str::to_owned)));
            let message = message.unwrap_or_else(|| failure.message().to_owned());
            flow.missing.push(Place { line: flow.line, column: 1, code: "refused", message });
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

impl Entry for Found {
    fn verdict(&self) -> (bool, bool) {
        (!self.missing.is_empty(), !self.differs.is_empty())
    }

    fn pushed(&self) -> bool {
        self.pushed.is_some()
    }

    fn json(&self) -> Json {
        let places = |list: &[Place]| -> Vec<Json> {
            let shown =
                |one: &Place| json!({"line": one.line, "column": one.column, "code": one.code, "message": one.message});
            list.iter().map(shown).collect()
        };
        json!({
            "file": self.file,
            "line": self.line,
            "workflow_id": self.id,
            "result": self.word(),
            "missing": places(&self.missing),
            "differs": places(&self.differs),
            "revision": self.pushed.as_ref().map(|answer| answer["revision"].clone()),
        })
    }

    fn title(&self) -> String {
        format!("{}:{} {}", self.file, self.line, self.id.as_deref().unwrap_or("a flow"))
    }

    fn remarks(&self) -> Vec<String> {
        let said = |one: &Place| format!("{}:{}:{}: {} ({})", self.file, one.line, one.column, one.message, one.code);
        self.missing.iter().chain(&self.differs).map(said).collect()
    }
}
