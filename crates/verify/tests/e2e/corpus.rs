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
//! | `inputs: {…}`, `labels: k:v, k:v` | what it is started with; `$URL` is the server's own address, also in the flow |
//! | `refuses: {"n": [0, "x"]}` | with one of these values instead, it cannot be started, and the answer names the input |
//! | `times: 3` | it is started that often at once, and each ends so |
//! | `breakpoints: a, b.x` | it stops before these, and goes on each time it is told to |
//! | `resume: {…}` | it is resumed with these inputs when it pauses |
//! | `review: {"decision", "comment", "inputs", "task"}` | this is said when it pauses, or each of a list; one with `refused` must be refused with that text |
//! | `webhook: KEY {…}` | it is started by its webhook with this body |
//! | `answer: 201 text` | what the webhook answers, all of it; what becomes of the execution is said by `then` |
//! | `backfill: TRIGGER START END` | it is started by a backfill of its trigger; what comes of it is said by `then` |
//! | `by-itself: …` | it starts by itself; what comes of it is said by `then` |
//! | `again: restart`, `again: replay` | once it has ended as it says, that is asked for; what comes of it is said by `again-state`, `again-runs`, `again-outputs` |
//! | `needs: flow, flow` | flows that must be there first |
//! | `then: {"flow", "state", "outputs", "labels"}` | an execution that must come of it, usually of another flow, or a list of them |
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
const LINES: [&str; 24] = [
    "state",
    "runs",
    "outputs",
    "attempts",
    "log",
    "labels-after",
    "inputs",
    "refuses",
    "labels",
    "times",
    "breakpoints",
    "resume",
    "review",
    "webhook",
    "answer",
    "backfill",
    "by-itself",
    "again",
    "needs",
    "then",
    "refused",
    "invalid",
    "helper",
    "again-",
];
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
        let head: BTreeMap<String, String> =
            head.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect();
        for key in head.keys() {
            // A line that nobody looks at would promise something.
            let known = LINES.iter().any(|line| line == key || line.ends_with('-') && key.starts_with(line));
            assert!(known, "{name}: no line is called `{key}`");
        }
        Case { name: name.to_owned(), source, head }
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.head.get(key).map(String::as_str)
    }

    fn json(&self, key: &str, server: &Server) -> Json {
        let text = self.word(key).unwrap_or("{}").replace("$URL", &server.url);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {key}: {error}", self.name))
    }

    /// The case as it is once it was asked for again.
    fn again(&self) -> Case {
        let kept =
            ["needs", "attempts"].iter().filter_map(|key| Some(((*key).to_owned(), self.head.get(*key)?.clone())));
        let said =
            self.head.iter().filter_map(|(key, value)| Some((key.strip_prefix("again-")?.to_owned(), value.clone())));
        Case { head: kept.chain(said).collect(), ..self.clone() }
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
    let source = case.source.replace("$URL", &server.url);
    let yaml = |method, path: &str| {
        server.request(method, path).header("content-type", "application/x-yaml").body(source.clone())
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
    start_with(server, case, &case.json("inputs", server)).await
}

async fn start_with(server: &Server, case: &Case, inputs: &Json) -> Answer {
    let mut labels: Vec<(&str, &str)> = case.list("labels").into_iter().map(|label| ("labels", label)).collect();
    labels.extend(case.word("breakpoints").map(|tasks| ("breakpoints", tasks)));
    let mut request = server.request(Method::POST, &format!("{API}/executions/corpus/{}", case.name)).query(&labels);
    if inputs.as_object().is_some_and(|fields| !fields.is_empty()) {
        request = request.header("content-type", FORM).body(form(inputs));
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

/// Says one of the reviews of a case; whether it was refused is as it says.
async fn review(server: &Server, seen: &Json, said: &Json) {
    let runs = seen["taskRunList"].as_array().into_iter().flatten();
    let run = runs.filter(|run| run["state"]["current"] == "PAUSED").find(|run| run["taskId"] == said["task"]);
    let mut query = vec![("decision", said["decision"].as_str().unwrap_or_default())];
    query.extend(run.and_then(|run| run["id"].as_str()).map(|id| ("taskRunId", id)));
    let mut fields = said["inputs"].clone();
    if let Some(comment) = said["comment"].as_str() {
        fields["kestra_review_comment"] = json!(comment);
    }
    let id = seen["id"].as_str().unwrap_or_default();
    let request = server.request(Method::POST, &format!("{API}/executions/{id}/actions/review")).query(&query);
    let answer = server.send(request.header("content-type", FORM).body(form(&fields))).await;
    let refused = answer.status >= 400 && said["refused"].as_str().is_some_and(|text| answer.text.contains(text));
    assert!(
        refused || answer.status < 300 && said.get("refused").is_none(),
        "{said}: {} {}",
        answer.status,
        answer.text
    );
}

/// Every value that must be refused, and was not.
async fn taken_in(server: &Server, case: &Case) -> Vec<String> {
    let mut found = Vec::new();
    let refused = case.json("refuses", server);
    for (name, values) in refused.as_object().into_iter().flatten() {
        for value in values.as_array().into_iter().flatten() {
            let mut inputs = case.json("inputs", server);
            inputs[name] = value.clone();
            let answer = start_with(server, case, &inputs).await;
            if answer.status != 422 || !answer.text.contains(name) {
                found.push(format!("refuses: {name}: {value}: {} {}", answer.status, answer.text));
            }
        }
    }
    found
}

/// Begins what the case does not start itself; `None` when it begun.
async fn backfill(server: &Server, case: &Case, said: &str) -> Option<String> {
    let [trigger, start, end] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{}: backfill", case.name) };
    let wanted = json!({"namespace": "corpus", "flowId": case.name, "triggerId": trigger,
        "backfill": {"start": start, "end": end}});
    let answer = server.send(server.request(Method::PUT, &format!("{API}/triggers")).json(&wanted)).await;
    (answer.status != 200).then(|| format!("backfill: {} {}", answer.status, answer.text))
}

/// Waits for the executions that the case says; what did not come.
async fn follow_up(server: &Server, case: &Case) -> Vec<String> {
    let said = match case.word("then").map(|_| case.json("then", server)) {
        None => Vec::new(),
        Some(Json::Array(several)) => several,
        Some(one) => vec![one],
    };
    let mut missing = Vec::new();
    for one in said {
        missing.extend(follow_up_one(server, one).await);
    }
    missing
}

async fn follow_up_one(server: &Server, said: Json) -> Option<String> {
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
    let mut stops = case.list("breakpoints").len();
    let reviews = case.word("review").map_or(json!([]), |_| case.json("review", server));
    let mut reviews = reviews.as_array().cloned().unwrap_or_else(|| vec![reviews]).into_iter();
    loop {
        let seen = execution(server, id).await;
        let state = seen["state"]["current"].as_str().unwrap_or_default();
        if ENDED.contains(&state) || began.elapsed() > PATIENCE {
            return seen;
        }
        if state == "BREAKPOINT" && stops > 0 {
            stops -= 1;
            let query = [("breakpoints", case.word("breakpoints").unwrap_or_default())];
            let path = format!("{API}/executions/{id}/resume-from-breakpoint");
            let answer = server.send(server.request(Method::POST, &path).query(&query)).await;
            assert!(answer.status < 300, "{}: {}", case.name, answer.text);
        }
        if state == "PAUSED" && !resumed {
            resumed = true;
            let answer = resume(server, id, case.json("resume", server)).await;
            assert!(answer.status < 300, "{}: {}", case.name, answer.text);
        }
        if state == "PAUSED"
            && let Some(said) = reviews.next()
        {
            review(server, &seen, &said).await;
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
    let mut found = taken_in(server, case).await;
    if let Some(said) = case.word("backfill") {
        found.extend(backfill(server, case, said).await);
    }
    if case.word("backfill").or(case.word("by-itself")).is_some() {
        found.extend(follow_up(server, case).await);
        return found;
    }
    let twins = case.word("times").map_or(1, |times| times.parse().expect("a number"));
    let mut others = Vec::new();
    for _ in 1..twins {
        others.push(start(server, case).await);
    }
    let started = start(server, case).await;
    if let Some((status, text)) = case.word("answer").and_then(|said| said.split_once(' ')) {
        if (started.status.to_string().as_str(), started.text.as_str()) != (status, text) {
            found.push(format!("answer: {} {}", started.status, started.text));
        }
        found.extend(follow_up(server, case).await);
        return found;
    }
    if let Some(said) = case.word("refused") {
        let (status, text) = said.split_once(' ').unwrap_or((said, ""));
        let refused = started.status.to_string() == status && started.text.contains(text);
        return if refused { Vec::new() } else { vec![format!("started: {} {}", started.status, started.text)] };
    }
    let Some(id) = started.json["id"].as_str() else {
        return vec![format!("not started: {} {}", started.status, started.text)];
    };
    found.extend(compared(server, case, id).await);
    for other in others {
        found.extend(compared(server, case, other.json["id"].as_str().unwrap_or("none")).await);
    }
    if let Some(word) = case.word("again") {
        let answer = server.send(server.request(Method::POST, &format!("{API}/executions/{id}/{word}"))).await;
        match answer.json["id"].as_str() {
            Some(id) => found.extend(compared(server, &case.again(), id).await),
            None => found.push(format!("{word}: {} {}", answer.status, answer.text)),
        }
    }
    found.extend(follow_up(server, case).await);
    found
}

/// Waits for the end of an execution; where it is not what the case says.
async fn compared(server: &Server, case: &Case, id: &str) -> Vec<String> {
    let seen = ended(server, case, id).await;
    let logs = server.get(&format!("{API}/logs/{id}")).await.text.replace("\\\"", "\"");
    // Why an execution failed is not in Kestra's shape of it.
    let run = server.run(id).await;
    let mut found = differences(case, &seen, server, &format!("{logs} {}", run["error"]["message"]));
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

fn options() -> Options {
    Options::default().env("SEMEL_SCRIPTS_ENABLED", "true")
}

#[tokio::test]
async fn the_corpus_runs_as_it_says_on_sqlite() {
    all(&Server::with(options()).await).await;
}

#[tokio::test]
async fn the_corpus_runs_as_it_says_on_postgresql() {
    let database = tokio::task::spawn_blocking(Database::start).await.unwrap();
    all(&Server::with(Options { database: Some(database.address()), ..options() }).await).await;
}

/// What a form that is being filled in is told: which inputs are asked for, and which choices there are.
#[tokio::test]
async fn a_form_is_told_what_depends_on_what() {
    let (server, corpus) = (Server::start().await, corpus());
    assert_eq!(store(&server, &corpus["inputs-depend"]).await.status, 200);
    let look = async |kind: &str| {
        let request = server.request(Method::POST, &format!("{API}/executions/corpus/inputs-depend/validate"));
        let answer = server.send(request.header("content-type", FORM).body(form(&json!({"kind": kind})))).await;
        let inputs = answer.json["inputs"].as_array().cloned().unwrap_or_default();
        let told = inputs.into_iter().map(|input| (input["input"]["id"].as_str().unwrap_or("?").to_owned(), input));
        told.collect::<BTreeMap<String, Json>>()
    };
    let (cloud, local) = (look("cloud").await, look("local").await);
    let enabled = |told: &BTreeMap<String, Json>, id: &str| told[id]["enabled"].clone();
    assert_eq!((enabled(&cloud, "provider"), enabled(&cloud, "folder")), (json!(true), json!(false)));
    assert_eq!((enabled(&local, "provider"), enabled(&local, "folder")), (json!(false), json!(true)));
    assert_eq!((&cloud["provider"]["value"], &cloud["provider"]["isDefault"]), (&json!("aws"), &json!(true)));
    assert_eq!(cloud["size"]["input"]["values"], json!(["s", "m", "l"]));
    assert_eq!(local["size"]["input"]["values"], json!(["one"]));
    assert!(local["folder"]["errors"].is_array() && local["provider"].get("errors").is_none(), "{local:?}");
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
    let more = [
        ("replay-inputs", "again-outputs", "{}"),
        ("replay-inputs", "again-state", "FAILED"),
        ("inputs-validators", "refuses", r#"{"whole": ["5"]}"#),
        ("webhook-answer-text", "answer", "200 hello Eve"),
        ("webhook-answer-text", "answer", "201 hello Ada"),
    ];
    let wrong = wrong.iter().map(|(key, value)| ("foreach-values", *key, *value)).chain(more);
    for (name, key, value) in wrong {
        let mut case = corpus[name].clone();
        case.head.insert(key.to_owned(), value.to_owned());
        assert!(!run(&server, &case, &corpus).await.is_empty(), "{name}: {key}: {value}");
    }
}
