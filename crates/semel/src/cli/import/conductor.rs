//! `semel import conductor`

use super::json_place;
use super::report::{self, Entry, Naming};
use crate::cli::with_client;
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use reqwest::Method;
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const NAMING: Naming = Naming { entries: "definitions", page: "docs/conductor.md" };

/// Report what of a folder of Conductor definitions runs here, and push what does
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel import conductor definitions/ --check
  semel import conductor definitions/ --server https://semel.example.com --token-file deploy.token

Every .json file below DIR is read; one file holds a definition of a workflow or of a task, or a list of them. A definition runs unchanged, runs with differences that are named, or needs something that is not built, with file, line and JSON path. Exit 1 if one of them does not run. What does is pushed, unless --check is given: task definitions first.")]
pub struct Conductor {
    /// The folder with the definitions
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Only report; no server is needed
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Task,
    Workflow,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Workflow => "workflow",
        }
    }

    /// None for JSON that is something else.
    fn of(json: &Json) -> Option<Kind> {
        let fields = json.as_object()?;
        let told = ["retryCount", "retryLogic", "timeoutSeconds", "timeoutPolicy", "responseTimeoutSeconds"];
        match fields.contains_key("name") {
            true if fields.contains_key("tasks") => Some(Kind::Workflow),
            true if told.iter().any(|name| fields.contains_key(*name)) => Some(Kind::Task),
            _ => None,
        }
    }
}

/// One definition of a file and what is known of it.
struct Found {
    kind: Kind,
    file: String,
    line: usize,
    /// `name`, and the version of a workflow.
    name: String,
    definition: Json,
    missing: Vec<Place>,
    differs: Vec<Place>,
    pushed: bool,
}

struct Place {
    line: usize,
    path: String,
    message: String,
}

impl Conductor {
    pub fn run(self, connection: &Connection, shell: &Shell) -> Result<Reply, Failure> {
        let mut files = Vec::new();
        report::collect(&self.directory, &["json"], &mut files)?;
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        for path in &files {
            read(path, &mut found, &mut skipped)?;
        }
        if found.is_empty() {
            let message = format!("there is no definition below {}", self.directory.display());
            return Err(Failure::cannot("no_flows", message)
                .hint("a workflow is a JSON object with name and tasks; a task has a name and how it is retried"));
        }
        refuse_doubles(&mut found);
        if self.check {
            return report::report(&NAMING, &found, &skipped, shell);
        }
        with_client(connection, async |client| {
            let mut order: Vec<usize> = (0..found.len()).collect();
            order.sort_by_key(|place| found[*place].kind);
            for place in order {
                if found[place].missing.is_empty() {
                    push(&client, &mut found[place]).await?;
                }
            }
            report::report(&NAMING, &found, &skipped, shell)
        })
    }
}

fn read(path: &Path, found: &mut Vec<Found>, skipped: &mut Vec<String>) -> Result<(), Failure> {
    let file = path.display().to_string();
    let Some(text) = report::text_of(path, skipped)? else { return Ok(()) };
    let json: Json = match serde_json::from_str(&text) {
        Ok(json) => json,
        Err(error) => {
            skipped.push(format!("{file}:{}: not JSON: {error}", error.line()));
            return Ok(());
        }
    };
    let listed: Vec<(String, Json)> = match json {
        Json::Array(items) => items.into_iter().enumerate().map(|(place, item)| (format!("[{place}]"), item)).collect(),
        one => vec![(String::new(), one)],
    };
    for (at, definition) in listed {
        match Kind::of(&definition) {
            Some(kind) => found.push(judge(kind, &file, &text, &at, definition)),
            None => skipped.push(format!("{file}:{}: not a definition", json_place::line(&text, &at))),
        }
    }
    Ok(())
}

fn judge(kind: Kind, file: &str, text: &str, at: &str, definition: Json) -> Found {
    let place = |path: &str, message: String| {
        let whole =
            if path.is_empty() || path.starts_with('[') { format!("{at}{path}") } else { format!("{at}.{path}") };
        let whole = whole.trim_start_matches('.').to_owned();
        Place { line: json_place::line(text, &whole), path: path.to_owned(), message }
    };
    let missing = match kind {
        Kind::Workflow => match semel_flow::conductor::compile(&definition, &Limits::default()) {
            Ok(_) => Vec::new(),
            Err(violations) => violations.into_iter().map(|one| place(&one.path, one.message)).collect(),
        },
        Kind::Task => Vec::new(),
    };
    let mut differs = Vec::new();
    match kind {
        Kind::Workflow => differences(&definition["tasks"], "tasks", &mut differs),
        Kind::Task => of_task(&definition, &mut differs),
    }
    let name = definition["name"].as_str().unwrap_or_default();
    let name = match kind {
        Kind::Workflow => format!("{name} version {}", definition["version"].as_u64().unwrap_or(1)),
        Kind::Task => name.to_owned(),
    };
    let differs = differs.into_iter().map(|(path, message)| place(&path, message.to_owned())).collect();
    Found {
        kind,
        file: file.to_owned(),
        line: json_place::line(text, at),
        name,
        definition,
        missing,
        differs,
        pushed: false,
    }
}

/// Where a workflow that runs here does not do quite the same; docs/conductor.md has the whole list.
fn differences(tasks: &Json, path: &str, found: &mut Vec<(String, &'static str)>) {
    for (place, task) in tasks.as_array().into_iter().flatten().enumerate() {
        let at = format!("{path}[{place}]");
        let kind = task["type"].as_str().unwrap_or("SIMPLE");
        let input = &task["inputParameters"];
        let method = input["http_request"]["method"].as_str().or_else(|| input["method"].as_str()).unwrap_or("GET");
        if kind == "HTTP" && !matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD" | "OPTIONS") {
            let message =
                "after a crash in mid-call the request is not sent again unasked: the run is held for a verdict";
            found.push((format!("{at}.type"), message));
        }
        let script = [&task["expression"], &task["loopCondition"], &input["expression"], &task["caseExpression"]];
        if script
            .iter()
            .any(|text| text.as_str().is_some_and(|text| text.contains(".get(") || text.contains(".size()")))
        {
            found.push((at.clone(), "JavaScript sees JSON, not Java's maps and lists: no .get(), no .size()"));
        }
        let keyed = task["subWorkflowParam"]["idempotencyKey"].is_string()
            || input["startWorkflow"]["idempotencyKey"].is_string();
        if keyed {
            found.push((at.clone(), "an idempotencyKey that gives nothing fails the task; there it is no key"));
        }
        for (name, inner) in task.as_object().into_iter().flatten() {
            match (name.as_str(), inner) {
                ("loopOver" | "defaultCase", list) => differences(list, &format!("{at}.{name}"), found),
                ("decisionCases", Json::Object(cases)) => {
                    for (case, list) in cases {
                        differences(list, &format!("{at}.decisionCases['{case}']"), found);
                    }
                }
                ("forkTasks", Json::Array(branches)) => {
                    for (branch, list) in branches.iter().enumerate() {
                        differences(list, &format!("{at}.forkTasks[{branch}]"), found);
                    }
                }
                _ => {}
            }
        }
    }
}

fn of_task(definition: &Json, found: &mut Vec<(String, &'static str)>) {
    for name in ["isolationGroupId", "executionNameSpace"] {
        if !definition[name].is_null() {
            found.push((name.to_owned(), "is kept and shown, and not carried out"));
        }
    }
}

/// Which of two definitions with one name is meant, nobody can say.
fn refuse_doubles(found: &mut [Found]) {
    let mut first: BTreeMap<(Kind, String), String> = BTreeMap::new();
    for one in found {
        let place = format!("{}:{}", one.file, one.line);
        match first.get(&(one.kind, one.name.clone())) {
            None => _ = first.insert((one.kind, one.name.clone()), place),
            Some(other) => {
                let message = format!("{} {} is defined at {other} as well", one.kind.word(), one.name);
                one.missing.push(Place { line: one.line, path: String::new(), message });
            }
        }
    }
}

/// A refusal is about this definition only: the next one may still go in.
async fn push(client: &Client, one: &mut Found) -> Result<(), Failure> {
    let (method, last) = match one.kind {
        Kind::Task => (Method::POST, "taskdefs"),
        Kind::Workflow => (Method::PUT, "workflow"),
    };
    let request = client.request(method, &["api", "metadata", last]).json(&json!([one.definition]));
    let refused = match client.answer(request).await {
        Ok(answer) => answer["bulkErrorResults"].as_object().and_then(|errors| errors.values().next().cloned()),
        Err(failure) if matches!(failure.code(), "flow_invalid" | "body_invalid") => Some(failure.message().into()),
        Err(failure) => return Err(failure),
    };
    match refused {
        None => one.pushed = true,
        Some(message) => {
            let message = message.as_str().unwrap_or("the server refuses it").to_owned();
            one.missing.push(Place { line: one.line, path: String::new(), message });
        }
    }
    Ok(())
}

impl Entry for Found {
    fn verdict(&self) -> (bool, bool) {
        (!self.missing.is_empty(), !self.differs.is_empty())
    }

    fn pushed(&self) -> bool {
        self.pushed
    }

    fn json(&self) -> Json {
        let places = |list: &[Place]| -> Vec<Json> {
            list.iter().map(|one| json!({"line": one.line, "path": one.path, "message": one.message})).collect()
        };
        json!({
            "file": self.file,
            "line": self.line,
            "kind": self.kind.word(),
            "name": self.definition["name"],
            "version": self.definition["version"],
            "result": self.word(),
            "missing": places(&self.missing),
            "differs": places(&self.differs),
            "pushed": self.pushed,
        })
    }

    fn title(&self) -> String {
        format!("{}:{} {} {}", self.file, self.line, self.kind.word(), self.name)
    }

    fn remarks(&self) -> Vec<String> {
        let said = |one: &Place| {
            let path = if one.path.is_empty() { String::new() } else { format!("{}: ", one.path) };
            format!("{}:{}: {path}{}", self.file, one.line, one.message)
        };
        self.missing.iter().chain(&self.differs).map(said).collect()
    }
}
