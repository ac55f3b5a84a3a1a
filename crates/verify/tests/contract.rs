//! The description of the API, held against the server by a tool that knows nothing else about it.
//!
//! schemathesis makes requests from `/openapi.json`, right ones and wrong ones, with a fixed seed. The status must be
//! one that is described, the body must match its schema with no member that is not in it, no answer is a defect of
//! ours, no route ignores a missing token, and a request that the description calls right is not called malformed.
//!
//! `scripts/test` puts the tool into `target/venv` and runs this; by hand:
//! `SEMEL_SCHEMATHESIS=target/venv/bin/schemathesis cargo test -p semel-verify --test contract -- --ignored`.
//! `SEMEL_CONTRACT_SECONDS` makes it look longer, with a seed of its own.

#[allow(dead_code, unused_imports, reason = "shared with the end-to-end tests, which use all of it")]
#[path = "e2e/harness/mod.rs"]
mod harness;

use harness::{Options, Server};
use serde_json::{Value as Json, json};
use std::process::Command;

const HOOKS: &str = include_str!("../fixtures/contract/hooks.py");

/// Every kind of answer needs something to be about.
const FLOW: &str = "id: a
namespace: n
inputs:
  - {id: x, type: INT, required: false}
triggers:
  - {id: hook, type: trigger.Webhook, key: opens}
  - {id: yearly, type: trigger.Schedule, cron: '0 0 1 1 *'}
tasks:
  - {id: say, type: log.Log, message: hi}
  - {id: keep, type: kv.Set, key: k, value: 1}
";

/// A run that waits for a verdict: nobody listens there, but the connection could have been made.
const HELD: &str = "id: held
namespace: n
tasks:
  - {id: pay, type: http.Request, uri: 'CUT', method: POST}
";

async fn filled() -> (Server, String) {
    let server = Server::with(Options { tokens: true, ..Options::default() }).await;
    let token = std::fs::read_to_string(server.path("data/admin.token")).expect("a token").trim().to_owned();
    let api = server.token(&token);
    let bank = harness::Bank::start().await;
    api.push(FLOW).await;
    api.push(&HELD.replace("CUT", &bank.cut_url("pay"))).await;
    for key in ["k1", "k1", "k2"] {
        api.trigger_wait("a", Some(key), json!({})).await.ok();
    }
    api.trigger_wait("held", Some("k3"), json!({})).await.ok();
    api.trigger("nowhere", None, json!({})).await.refused(404, "flow_unknown");
    api.put("/v1/secrets/S", json!({"value": "hunter2hunter2"})).await.ok();
    (server, token)
}

/// The description with nothing left open: a member of an answer that is not described is a finding. Cursors are made
/// by the server; those that a stranger makes up are refused for a reason that no schema can state.
fn tightened(mut document: Json) -> Json {
    fn close(schema: &mut Json) {
        if let Some(fields) = schema.as_object_mut() {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), false.into());
            }
            fields.values_mut().for_each(close);
        } else if let Some(items) = schema.as_array_mut() {
            items.iter_mut().for_each(close);
        }
    }
    close(&mut document["components"]["schemas"]);
    // An event of the journal has its own members beside its name.
    document["components"]["schemas"]["JournalEntry"]["properties"]["events"]["items"]["additionalProperties"] =
        json!(true);
    for methods in document["paths"].as_object_mut().expect("paths").values_mut() {
        for operation in methods.as_object_mut().expect("methods").values_mut() {
            close(&mut operation["responses"]);
            if let Some(parameters) = operation["parameters"].as_array_mut() {
                parameters.retain(|parameter| parameter["name"] != "cursor");
            }
        }
    }
    document
}

/// Which runs the calls are about: one to look at, one to act on, one to lose.
fn settings(run: &str, held: &str, lost: &str) -> String {
    format!(
        r#"
[[operations]]
include-path = "/v1/webhooks/{{namespace}}/{{flow}}/{{key}}"
parameters = {{ "path.namespace" = "n", "path.flow" = "a", "path.key" = "opens" }}

[[operations]]
include-path-regex = "^/api/v1/.tenant./executions/webhook/.*$"
parameters = {{ "path.tenant" = "main", "path.namespace" = "n", "path.flow" = "a", "path.key" = "opens" }}

[[operations]]
include-path-regex = "^/api/v1/.tenant./executions(/search|/latest)?$"
parameters = {{ "path.tenant" = "main" }}

[[operations]]
include-path-regex = "^/api/v1/.tenant./executions/(trigger/)?.namespace./.id.(/validate)?$"
parameters = {{ "path.tenant" = "main", "path.namespace" = "n", "path.id" = "a" }}

[[operations]]
include-path-regex = "^/api/v1/.tenant./executions/.id./(follow|eval)$"
parameters = {{ "path.tenant" = "main", "path.id" = "{run}" }}

[[operations]]
include-path-regex = "^/v1/runs/.id./(journal|logs|steps|children|replays|follow)$"
parameters = {{ "path.id" = "{run}" }}

[[operations]]
include-path-regex = "^/v1/runs/.id./(cancel|pause|resume|restart|replay|verdict)$"
parameters = {{ "path.id" = "{held}" }}

[[operations]]
include-path-regex = "^/v1/runs/.id.(/erase)?$"
parameters = {{ "path.id" = "{lost}" }}
"#
    )
}

#[tokio::test]
#[ignore = "needs schemathesis; scripts/test puts it into target/venv and runs this"]
async fn the_server_keeps_to_its_description() {
    let tool = std::env::var("SEMEL_SCHEMATHESIS").expect("SEMEL_SCHEMATHESIS names the program");
    let tool = std::path::absolute(tool).expect("a path");
    let (server, token) = filled().await;
    let runs = server.token(&token).get("/v1/runs").await.ok();
    let of = |key: &str| {
        let found = runs["items"].as_array().expect("items").iter().find(|run| run["key"] == key);
        found.unwrap_or_else(|| panic!("no run has the key {key}"))["run_id"].as_str().expect("an id").to_owned()
    };
    let document = tightened(server.get("/openapi.json").await.ok());
    let operations: usize =
        document["paths"].as_object().expect("paths").values().map(|p| p.as_object().map_or(0, |m| m.len())).sum();
    for (name, text) in [
        ("openapi.json", document.to_string()),
        ("hooks.py", HOOKS.to_owned()),
        ("schemathesis.toml", settings(&of("k1"), &of("k3"), &of("k2"))),
    ] {
        std::fs::write(server.path(name), text).expect("a file");
    }
    let long = std::env::var("SEMEL_CONTRACT_SECONDS").ok();
    let mut command = Command::new(tool);
    command.current_dir(server.path("")).env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", server.path(""));
    command.args(["--config-file", "schemathesis.toml", "run", "openapi.json", "--url", &server.url, "--no-color"]);
    command.args(["--header", &format!("Authorization: Bearer {token}")]);
    command.args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--request-timeout", "30"]);
    match &long {
        Some(seconds) => command.args(["--max-time", seconds, "--max-examples", "100000"]),
        None => command.args(["--seed", "7", "--max-examples", "12"]),
    };
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("schemathesis runs")).await.expect("no panic");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("Tested: {operations}")), "not every operation was tested:\n{said}");
    for line in said.lines().filter(|line| line.contains(" generated, ") || line.starts_with("Seed")) {
        println!("soak contract {}", line.trim());
    }
}
