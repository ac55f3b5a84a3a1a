//! The compatibility corpus: flows in Kestra's language, each with what must come of it, run by the real binary.
//!
//! `fixtures/flows/kestra/NAME.yaml` is the flow `corpus:NAME`. The comments it begins with say how it is run and what
//! is expected; everything that is said is compared, and what a run has beyond it is a difference too:
//!
//! | line | meaning |
//! |---|---|
//! | `state: SUCCESS` | the state in which the execution ends |
//! | `runs: a=SUCCESS b[x]=FAILED` | its task runs with their states, in loops with the value; `*` for any |
//! | `outputs: {…}` | the outputs of the flow; none when the line is not there |
//! | `attempts: a=3` | how often a task was tried |
//! | `log: …` | a text that its logs or its error hold |
//! | `labels-after: {…}` | its labels at the end, but for those of the system |
//! | `inputs: {…}`, `labels: k:v, k:v` | what it is started with; `$URL` is the server's own address |
//! | `resume: {…}` | it is resumed with these inputs when it pauses |
//! | `webhook: KEY {…}` | it is started by its webhook with this body |
//! | `needs: flow, flow` | flows that must be there first |
//! | `then: {"flow", "state", "outputs", "labels"}` | an execution of another flow that must come of it |
//! | `refused: 422 text` | it cannot be started |
//! | `invalid: text` | it cannot be stored |
//! | `helper: …` | it is only there for others |

use crate::harness::{Answer, Options, PATIENCE, Server};
use reqwest::Method;
use semel_store_postgres::testing::Server as Database;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const API: &str = "/api/v1/main";
const ENDED: [&str; 7] = ["SUCCESS", "WARNING", "FAILED", "KILLED", "CANCELLED", "RETRIED", "SKIPPED"];

#[derive(Clone, Debug)]
struct Case {
    name: String,
    source: String,
    head: BTreeMap<String, String>,
}

impl Case {
    fn of(name: &str, source: String) -> Case {
        let lines = source.lines().map_while(|line| line.strip_prefix("# "));
        let head = lines.map(|line| line.split_once(':').unwrap_or_else(|| panic!("{name}: what is `{line}`?")));
        let head = head.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect();
        Case { name: name.to_owned(), source, head }
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.head.get(key).map(String::as_str)
    }

    fn json(&self, key: &str, server: &Server) -> Json {
        let text = self.word(key).unwrap_or("{}").replace("$URL", &server.url);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {key}: {error}", self.name))
    }

    fn list(&self, key: &str) -> Vec<&str> {
        self.word(key).unwrap_or_default().split(", ").filter(|item| !item.is_empty()).collect()
    }
}

fn corpus() -> BTreeMap<String, Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/flows/kestra");
    let mut cases = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("the corpus") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).expect("a flow");
        cases.insert(name.clone(), Case::of(&name, source));
    }
    cases
}

/// `a=SUCCESS b[x]=FAILED`, each as it is compared.
fn task_runs_said(text: &str) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match said.last_mut() {
            // A value may hold a space.
            Some(last) if !ends_in_state(last) => *last += &format!(" {word}"),
            _ => said.push(word.to_owned()),
        }
    }
    said.sort();
    said
}

fn ends_in_state(text: &str) -> bool {
    text.rsplit_once('=').is_some_and(|(_, state)| state.chars().all(|c| c.is_ascii_uppercase()) && !state.is_empty())
}

fn task_runs_seen(execution: &Json) -> Vec<String> {
    let shown = |run: &Json| {
        let value = run["value"].as_str().map_or_else(String::new, |value| format!("[{value}]"));
        format!("{}{value}={}", run["taskId"].as_str().unwrap_or("?"), run["state"]["current"].as_str().unwrap_or("?"))
    };
    let mut seen: Vec<String> = execution["taskRunList"].as_array().into_iter().flatten().map(shown).collect();
    seen.sort();
    seen
}

fn labels_seen(execution: &Json) -> Map<String, Json> {
    let labels = execution["labels"].as_array().into_iter().flatten();
    labels.map(|label| (label["key"].as_str().unwrap_or("?").to_owned(), label["value"].clone())).collect()
}

fn outputs_seen(execution: &Json) -> Json {
    execution.get("outputs").cloned().unwrap_or_else(|| json!({}))
}

/// Where an execution is not what its case says.
fn differences(case: &Case, execution: &Json, server: &Server, logs: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, seen: Json, said: Json| {
        if seen != said {
            found.push(format!("{what}: {seen} where {said} was said"));
        }
    };
    compare("state", execution["state"]["current"].clone(), json!(case.word("state")));
    let said = case.word("runs").unwrap_or_default();
    if said != "*" {
        compare("runs", json!(task_runs_seen(execution)), json!(task_runs_said(said)));
    }
    compare("outputs", outputs_seen(execution), case.json("outputs", server));
    if case.word("labels-after").is_some() {
        let mut labels = labels_seen(execution);
        labels.retain(|key, _| !key.starts_with("system."));
        compare("labels", labels.into(), case.json("labels-after", server));
    }
    for (task, count) in case.list("attempts").iter().filter_map(|item| item.split_once('=')) {
        let runs = execution["taskRunList"].as_array().into_iter().flatten();
        let tried = runs.filter(|run| run["taskId"] == *task).map(|run| run["attempts"].as_array().map_or(0, Vec::len));
        compare(&format!("attempts of {task}"), json!(tried.sum::<usize>().to_string()), json!(count));
    }
    if let Some(text) = case.word("log").filter(|text| !logs.contains(text)) {
        found.push(format!("log: `{text}` is not in {logs}"));
    }
    found
}

async fn store(server: &Server, case: &Case) -> Answer {
    let yaml = |method, path: &str| {
        server.request(method, path).header("content-type", "application/x-yaml").body(case.source.clone())
    };
    let created = server.send(yaml(Method::POST, &format!("{API}/flows"))).await;
    if created.status == 422 && created.text.contains("already exists") {
        return server.send(yaml(Method::PUT, &format!("{API}/flows/corpus/{}", case.name))).await;
    }
    created
}

async fn start(server: &Server, case: &Case) -> Answer {
    if let Some((key, body)) = case.word("webhook").and_then(|said| said.split_once(' ')) {
        return deliver(server, format!("{API}/executions/webhook/corpus/{}/{key}", case.name), body).await;
    }
    let inputs = case.json("inputs", server);
    let labels: Vec<(&str, &str)> = case.list("labels").into_iter().map(|label| ("labels", label)).collect();
    let mut request = server.request(Method::POST, &format!("{API}/executions/corpus/{}", case.name)).query(&labels);
    if inputs.as_object().is_some_and(|fields| !fields.is_empty()) {
        request = request.header("content-type", FORM).body(form(&inputs));
    }
    server.send(request).await
}

async fn deliver(server: &Server, path: String, body: &str) -> Answer {
    let request = server.request(Method::POST, &path).header("X-Note", "abc");
    server.send(request.header("content-type", "application/json").body(body.to_owned())).await
}

const FORM: &str = "multipart/form-data; boundary=corpus-boundary";

/// A form with a field for each input.
fn form(inputs: &Json) -> String {
    let field = |(name, value): (&String, &Json)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("--corpus-boundary\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let fields: String = inputs.as_object().into_iter().flatten().map(field).collect();
    format!("{fields}--corpus-boundary--\r\n")
}

async fn resume(server: &Server, id: &str, inputs: Json) -> Answer {
    let request = server.request(Method::POST, &format!("{API}/executions/{id}/resume"));
    server.send(request.header("content-type", FORM).body(form(&inputs))).await
}

/// Waits for an execution of another flow that is as the case says; `None` when it came.
async fn follow_up(server: &Server, case: &Case) -> Option<String> {
    case.word("then")?;
    let said = case.json("then", server);
    let flow = said["flow"].as_str().expect("the flow of `then`");
    let began = Instant::now();
    loop {
        let mut seen = Vec::new();
        let query = format!("filters[namespace][EQUALS]=corpus&filters[flowId][EQUALS]={flow}&size=100");
        let found = server.get(&format!("{API}/executions/search?{query}")).await.ok();
        seen.extend(found["results"].as_array().into_iter().flatten().cloned());
        let fits = |one: &Json| {
            let labels = Json::Object(labels_seen(one));
            let said_labels = said["labels"].as_object().into_iter().flatten();
            said.get("state").is_none_or(|state| one["state"]["current"] == *state)
                && said.get("outputs").is_none_or(|outputs| outputs_seen(one) == *outputs)
                && said_labels.into_iter().all(|(key, value)| labels[key] == *value)
        };
        if seen.iter().any(fits) {
            return None;
        }
        if began.elapsed() > PATIENCE {
            return Some(format!("then: {said} was said, and there are {seen:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn execution(server: &Server, id: &str) -> Json {
    server.get(&format!("{API}/executions/{id}")).await.ok()
}

/// Waits for the end, and resumes a pause once where the case says so.
async fn ended(server: &Server, case: &Case, id: &str) -> Json {
    let began = Instant::now();
    let mut resumed = case.word("resume").is_none();
    loop {
        let seen = execution(server, id).await;
        let state = seen["state"]["current"].as_str().unwrap_or_default();
        if ENDED.contains(&state) || began.elapsed() > PATIENCE {
            return seen;
        }
        if state == "PAUSED" && !resumed {
            resumed = true;
            let answer = resume(server, id, case.json("resume", server)).await;
            assert!(answer.status < 300, "{}: {}", case.name, answer.text);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a case; what is not as it says.
async fn run(server: &Server, case: &Case, corpus: &BTreeMap<String, Case>) -> Vec<String> {
    for name in case.list("needs") {
        let answer = store(server, &corpus[name]).await;
        assert_eq!(answer.status, 200, "{}: {name}: {}", case.name, answer.text);
    }
    let stored = store(server, case).await;
    if let Some(text) = case.word("invalid") {
        let refused = stored.status == 422 && stored.text.contains(text);
        return if refused { Vec::new() } else { vec![format!("stored: {} {}", stored.status, stored.text)] };
    }
    if stored.status != 200 {
        return vec![format!("not stored: {}", stored.text)];
    }
    let started = start(server, case).await;
    if let Some(said) = case.word("refused") {
        let (status, text) = said.split_once(' ').unwrap_or((said, ""));
        let refused = started.status.to_string() == status && started.text.contains(text);
        return if refused { Vec::new() } else { vec![format!("started: {} {}", started.status, started.text)] };
    }
    let Some(id) = started.json["id"].as_str() else {
        return vec![format!("not started: {} {}", started.status, started.text)];
    };
    let seen = ended(server, case, id).await;
    let logs = server.get(&format!("{API}/logs/{id}")).await.text.replace("\\\"", "\"");
    // Why an execution failed is not in Kestra's shape of it.
    let run = server.run(id).await;
    let mut found = differences(case, &seen, server, &format!("{logs} {}", run["error"]["message"]));
    found.extend(follow_up(server, case).await);
    if !found.is_empty() {
        found.push(format!("its error is {}", run["error"]));
    }
    found
}

async fn all(server: &Server) {
    let corpus = corpus();
    assert!(corpus.len() >= 60, "{} flows", corpus.len());
    let mut red = Vec::new();
    for case in corpus.values().filter(|case| case.word("helper").is_none()) {
        let found = run(server, case, &corpus).await;
        if !found.is_empty() {
            red.push(format!("{}:\n  {}", case.name, found.join("\n  ")));
        }
    }
    assert!(red.is_empty(), "{} of {} flows:\n{}", red.len(), corpus.len(), red.join("\n"));
}

#[tokio::test]
async fn the_corpus_runs_as_it_says_on_sqlite() {
    all(&Server::start().await).await;
}

#[tokio::test]
async fn the_corpus_runs_as_it_says_on_postgresql() {
    let database = tokio::task::spawn_blocking(Database::start).await.unwrap();
    all(&Server::with(Options { database: Some(database.address()), ..Options::default() }).await).await;
}

#[tokio::test]
async fn an_expectation_that_is_wrong_is_found() {
    let (server, corpus) = (Server::start().await, corpus());
    let right = &corpus["foreach-values"];
    assert!(run(&server, right, &corpus).await.is_empty());
    let wrong = [
        ("state", "WARNING"),
        ("runs", "each=SUCCESS say[a]=SUCCESS say[b]=SUCCESS say[c]=SUCCESS"),
        ("runs", "each=SUCCESS say[a]=SUCCESS say[b]=SUCCESS say[d]=SUCCESS last=SUCCESS"),
        ("outputs", "{}"),
        ("outputs", r#"{"b": "1:b", "keys": ["a", "b"]}"#),
        ("attempts", "last=2"),
        ("log", "nobody wrote this"),
        ("labels-after", r#"{"team": "none"}"#),
    ];
    for (key, value) in wrong {
        let mut case = right.clone();
        case.head.insert(key.to_owned(), value.to_owned());
        assert!(!run(&server, &case, &corpus).await.is_empty(), "{key}: {value}");
    }
}
