//! Conductor's guide to idempotency as it stands: its curl command, its strategies, its tasks. And what it is silent
//! about: many starts at once.

use super::*;
use crate::harness::{Options, Server};
use reqwest::{Method, RequestBuilder};
use semel_store_postgres::testing::Server as Database;
use std::collections::BTreeSet;

const STRATEGIES: [&str; 3] = ["FAIL", "RETURN_EXISTING", "FAIL_ON_RUNNING"];

/// What is there with the key when the next start comes.
const PRIOR: [&str; 7] = ["nothing", "running", "paused", "completed", "failed", "terminated", "deleted"];

/// What the guide's table says of another start: an id that is there, a new one, or neither.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Owed {
    New,
    Same,
    Conflict,
}

fn owed(strategy: &str, prior: &str) -> Owed {
    match (strategy, prior) {
        (_, "nothing" | "deleted") => Owed::New,
        ("FAIL", _) | ("FAIL_ON_RUNNING", "running" | "paused") => Owed::Conflict,
        ("FAIL_ON_RUNNING", _) => Owed::New,
        _ => Owed::Same,
    }
}

fn in_headers(api: &Api, key: &str, strategy: &str) -> RequestBuilder {
    let request = api.request(Method::POST, "/api/workflow/pay?priority=0").header("accept", "text/plain");
    request.header("X-Idempotency-key", key).header("X-on-conflict", strategy).json(&json!({"amount": 5}))
}

fn in_body(api: &Api, key: &str, strategy: &str) -> RequestBuilder {
    let body = json!({"name": "pay", "version": 1, "input": {"amount": 5}, "idempotencyKey": key,
        "idempotencyStrategy": strategy});
    api.request(Method::POST, "/api/workflow").json(&body)
}

/// Half of them in headers and half in bodies, all at the same moment.
async fn race(api: &Api, count: usize, key: &str, strategy: &str) -> Vec<Answer> {
    let calls = (0..count).map(|number| {
        let call = if number % 2 == 0 { in_headers(api, key, strategy) } else { in_body(api, key, strategy) };
        let api = api.clone();
        tokio::spawn(async move { api.send(call).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.expect("no panic"));
    }
    answers
}

/// Brings the one workflow with this key into the state, and says which one it is.
async fn bring(server: &Server, key: &str, prior: &str) -> Option<String> {
    if prior == "nothing" {
        return None;
    }
    let id = started(&server.send(in_body(server, key, "FAIL")).await);
    match prior {
        "running" => {}
        "paused" => {
            server.put(&format!("/api/workflow/{id}/pause"), json!({})).await.ok();
            until(server, &id, "PAUSED").await;
        }
        "completed" | "deleted" => {
            answer(server, &id, "c", "COMPLETED").await;
            until(server, &id, "COMPLETED").await;
        }
        "failed" => {
            answer(server, &id, "c", "FAILED_WITH_TERMINAL_ERROR").await;
            until(server, &id, "FAILED").await;
        }
        "terminated" => {
            server.delete(&format!("/api/workflow/{id}?reason=enough")).await.ok();
            until(server, &id, "TERMINATED").await;
        }
        other => panic!("{other}"),
    }
    if prior == "deleted" {
        server.delete(&format!("/api/workflow/{id}/remove")).await.ok();
        assert_eq!(server.get(&format!("/api/workflow/{id}")).await.status, 404);
    }
    Some(id)
}

async fn with_key(server: &Server, key: &str) -> BTreeSet<String> {
    let runs = server.all(&format!("/v1/runs?key={key}")).await;
    let own = runs.iter().filter(|run| run["key"] == key);
    own.map(|run| run["run_id"].as_str().expect("an id").to_owned()).collect()
}

/// Races `count` starts against what is there, and holds each answer and the rows against the guide's table.
async fn judge(server: &Server, count: usize, strategy: &str, prior: &str) {
    let key = format!("{strategy}-{prior}");
    let before = bring(server, &key, prior).await;
    let there: BTreeSet<String> = before.iter().filter(|_| prior != "deleted").cloned().collect();
    let answers = race(server, count, &key, strategy).await;
    let (met, refused): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.status == 200);
    refused.iter().for_each(|answer| taken(answer, &key));
    let ids: BTreeSet<String> = met.iter().map(|answer| started(answer)).collect();
    let first = met.iter().filter(|answer| answer.header("x-idempotent-replayed") != "true").count();
    let after = with_key(server, &key).await;
    match owed(strategy, prior) {
        Owed::New => {
            assert_eq!((ids.len(), first), (1, 1), "{key}: {ids:?}");
            assert!(ids.is_disjoint(&there), "{key}");
            let repeats = if strategy == "RETURN_EXISTING" { count } else { 1 };
            assert_eq!(met.len(), repeats, "{key}");
            assert_eq!(after, there.union(&ids).cloned().collect(), "{key}: one run, and what was there");
        }
        Owed::Same => {
            assert_eq!((met.len(), first), (count, 0), "{key}");
            assert_eq!((&ids, &after), (&there, &there), "{key}");
        }
        Owed::Conflict => {
            assert_eq!((met.len(), &after), (0, &there), "{key}");
        }
    }
}

async fn shop(options: Options) -> Server {
    let server = Server::with(options).await;
    register(&server, of_one_task("pay", "charge")).await;
    define(&server, "charge", 600, 0).await;
    server
}

#[tokio::test]
async fn of_200_racing_starts_each_gets_what_the_strategy_owes_it_whatever_is_there() {
    let server = shop(Options::default()).await;
    for strategy in STRATEGIES {
        for prior in PRIOR {
            judge(&server, 200, strategy, prior).await;
        }
    }
    let (exit, report) = crate::check::check(&server, &server.store(), &[]);
    assert_eq!((exit, crate::check::codes(&report)), (0, vec![]), "{report:#}");
}

/// The second workflow of a key has ended, and the first is retried: FAIL_ON_RUNNING starts no third one beside it.
#[tokio::test]
async fn who_goes_on_has_the_key_again() {
    let server = shop(Options::default()).await;
    let key = "FAIL_ON_RUNNING-again";
    let first = bring(&server, key, "failed").await.expect("a workflow");
    let second = started(&server.send(in_headers(&server, key, "FAIL_ON_RUNNING")).await);
    let refused = server.post(&format!("/api/workflow/{first}/retry"), json!({})).await;
    assert_eq!(refused.status, 409, "another one of the key is running");
    answer(&server, &second, "c", "COMPLETED").await;
    until(&server, &second, "COMPLETED").await;
    server.post(&format!("/api/workflow/{first}/retry"), json!({})).await;
    until(&server, &first, "RUNNING").await;
    taken(&server.send(in_headers(&server, key, "FAIL_ON_RUNNING")).await, key);
    assert_eq!(started(&server.send(in_body(&server, key, "RETURN_EXISTING")).await), first);
    answer(&server, &first, "c", "COMPLETED").await;
    until(&server, &first, "COMPLETED").await;
    let third = started(&server.send(in_body(&server, key, "FAIL_ON_RUNNING")).await);
    assert_eq!(with_key(&server, key).await, BTreeSet::from([first, second, third]));
}

#[tokio::test]
async fn of_200_racing_starts_one_is_a_run_on_postgresql_too() {
    let database = tokio::task::spawn_blocking(Database::start).await.expect("a database");
    let server = shop(Options { database: Some(database.address()), ..Options::default() }).await;
    for strategy in STRATEGIES {
        for prior in ["nothing", "completed"] {
            judge(&server, 200, strategy, prior).await;
        }
    }
    let report = server.post("/v1/check", json!({})).await.ok();
    assert_eq!(report["found"], 0, "{report:#}");
}

/// The guide's command with its headers, its body and a token, as often as somebody may press the key.
#[tokio::test]
async fn the_guide_s_curl_starts_once() {
    let server = Server::with(Options { tokens: true, ..Options::default() }).await;
    let token = std::fs::read_to_string(server.path("data/admin.token")).expect("a token").trim().to_owned();
    let api = server.with("X-Authorization", &token);
    register(&api, of_one_task("order_workflow", "charge")).await;
    let curl = |key: &str, conflict: &str| {
        let request = api.request(Method::POST, "/api/workflow/order_workflow?priority=0");
        let request = request.header("accept", "text/plain").header("X-Idempotency-key", key);
        request
            .header("X-on-conflict", conflict)
            .header("Content-Type", "application/json")
            .body("{\n\"additionalProp1\": {},\n\"additionalProp2\": {},\n\"additionalProp3\": {}\n}")
    };
    let id = started(&api.send(curl("order-123", "FAIL")).await);
    taken(&api.send(curl("order-123", "FAIL")).await, "order-123");
    assert_eq!(started(&api.send(curl("order-123", "RETURN_EXISTING")).await), id);
    taken(&api.send(curl("order-123", "FAIL_ON_RUNNING")).await, "order-123");
    let shown = workflow(&api, &id).await;
    assert_eq!((&shown["idempotencyKey"], &shown["priority"]), (&json!("order-123"), &json!(0)));
    assert_eq!(shown["input"], json!({"additionalProp1": {}, "additionalProp2": {}, "additionalProp3": {}}));
    answer(&api, &id, "c", "COMPLETED").await;
    until(&api, &id, "COMPLETED").await;
    taken(&api.send(curl("order-123", "FAIL")).await, "order-123");
    let again = started(&api.send(curl("order-123", "FAIL_ON_RUNNING")).await);
    assert_ne!(again, id);
    assert_eq!(started(&api.send(curl("order-123", "RETURN_EXISTING")).await), again, "the newest");
    // The key belongs to the name of the workflow: another one has it for itself, another version has not.
    register(&api, of_one_task("other_workflow", "charge")).await;
    let other = api.request(Method::POST, "/api/workflow/other_workflow").header("X-Idempotency-key", "order-123");
    assert!(![&id, &again].contains(&&started(&api.send(other.json(&json!({}))).await)));
    let mut second = of_one_task("order_workflow", "charge");
    second["version"] = json!(2);
    register(&api, second).await;
    taken(&api.send(curl("order-123", "FAIL")).await, "order-123");
    // Without a token there is nothing.
    let plain = Api::new(&server.url);
    let refused = plain.post("/api/workflow/order_workflow", json!({})).await;
    assert_eq!((refused.status, &refused.json["error"]), (401, &json!("INVALID_TOKEN")), "{}", refused.text);
}

/// As the guide's Java example sends it, and as clients do that always send a strategy.
#[tokio::test]
async fn a_key_in_the_body_and_a_strategy_without_a_key() {
    let server = shop(Options::default()).await;
    let body = |more: Json| {
        let mut body = json!({"name": "pay", "version": 1, "input": {}});
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        server.post("/api/workflow", body)
    };
    let java = || body(json!({"idempotencyKey": "order-42-attempt-1", "idempotencyStrategy": "RETURN_EXISTING"}));
    let id = started(&java().await);
    assert_eq!(started(&java().await), id);
    taken(&body(json!({"idempotencyKey": "order-42-attempt-1"})).await, "order-42-attempt-1");
    let mut ids = BTreeSet::from([id]);
    for strategy in STRATEGIES {
        for key in [json!(null), json!("")] {
            ids.insert(started(&body(json!({"idempotencyKey": key, "idempotencyStrategy": strategy})).await));
        }
    }
    assert_eq!(ids.len(), 7, "nothing tells them apart, so all are meant");
    let wrong = body(json!({"idempotencyKey": "k", "idempotencyStrategy": "REPLACE"})).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    assert!(with_key(&server, "k").await.is_empty());
}

/// The guide's START_WORKFLOW and SUB_WORKFLOW tasks. Their keys are decided like those of callers.
#[tokio::test]
async fn the_guide_s_tasks_start_a_workflow_once() {
    let server = shop(Options::default()).await;
    let start = json!({"name": "start_workflow", "taskReferenceName": "start_workflow_ref",
        "inputParameters": {"startWorkflow": {"name": "pay", "input": {"someKey": "someValue"},
            "correlationId": "xyz", "idempotencyKey": "123", "idempotencyStrategy": "RETURN_EXISTING"}},
        "type": "START_WORKFLOW"});
    register(&server, json!({"name": "starts", "version": 1, "tasks": [start]})).await;
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        let parent = started(&server.post("/api/workflow/starts", json!({})).await);
        let ended = until(&server, &parent, "COMPLETED").await;
        ids.insert(ended["tasks"][0]["outputData"]["workflowId"].as_str().expect("an id").to_owned());
    }
    assert_eq!((&ids, ids.len()), (&with_key(&server, "123").await, 1));
    let child = workflow(&server, ids.first().expect("one")).await;
    assert_eq!((&child["correlationId"], &child["input"]), (&json!("xyz"), &json!({"someKey": "someValue"})));

    let sub = json!({"name": "sub_workflow", "taskReferenceName": "sub_workflow_ref",
        "inputParameters": {"someKey": "someValue"}, "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "pay", "version": 1, "priority": 5, "idempotencyKey": "someKey",
            "idempotencyStrategy": "RETURN_EXISTING", "taskToDomain": {"someTask": "someDomain"}}});
    register(&server, json!({"name": "subs", "version": 1, "tasks": [sub]})).await;
    let parents = [
        started(&server.post("/api/workflow/subs", json!({})).await),
        started(&server.post("/api/workflow/subs", json!({})).await),
    ];
    let child = eventually(PATIENCE, "the sub-workflow is there", || async {
        with_key(&server, "someKey").await.into_iter().next()
    })
    .await;
    assert_eq!(workflow(&server, &child).await["priority"], 5);
    answer(&server, &child, "c", "COMPLETED").await;
    for parent in &parents {
        let ended = until(&server, parent, "COMPLETED").await;
        assert_eq!(ended["tasks"][0]["subWorkflowId"], child.as_str(), "{ended:#}");
    }
    assert_eq!(with_key(&server, "someKey").await.len(), 1);
}

/// A strategy without a key: the sub-workflow has the key of its parent, made its own by the path of its step.
#[tokio::test]
async fn a_sub_workflow_inherits_the_key_of_its_parent() {
    let server = shop(Options::default()).await;
    let sub = json!({"name": "sub", "taskReferenceName": "sub_ref", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "pay", "version": 1, "idempotencyStrategy": "RETURN_EXISTING"}});
    for name in ["checkout", "reorder"] {
        register(&server, json!({"name": name, "version": 1, "tasks": [sub.clone()]})).await;
    }
    let start = |name: &'static str| {
        let body = json!({"name": name, "idempotencyKey": "order-9", "idempotencyStrategy": "RETURN_EXISTING"});
        server.post("/api/workflow", body)
    };
    let (one, other) = (started(&start("checkout").await), started(&start("reorder").await));
    let child = eventually(PATIENCE, "the sub-workflow is there", || async {
        with_key(&server, "order-9/sub_ref").await.into_iter().next()
    })
    .await;
    assert_eq!(workflow(&server, &child).await["workflowName"], "pay");
    taken(&server.send(in_body(&server, "order-9/sub_ref", "FAIL")).await, "order-9/sub_ref");
    answer(&server, &child, "c", "COMPLETED").await;
    for parent in [&one, &other] {
        let ended = until(&server, parent, "COMPLETED").await;
        assert_eq!(ended["tasks"][0]["subWorkflowId"], child.as_str());
    }
    assert_eq!(with_key(&server, "order-9").await, BTreeSet::from([one, other]));
    assert_eq!(with_key(&server, "order-9/sub_ref").await.len(), 1, "two parents, one child");
}

/// Waiting for a workflow that somebody else started is waiting for the same one.
#[tokio::test]
async fn execute_waits_for_the_workflow_that_has_the_key() {
    let server = shop(Options::default()).await;
    let id = started(&server.send(in_body(&server, "k", "FAIL")).await);
    let execute = |strategy: &str| {
        let body = json!({"name": "pay", "idempotencyKey": "k", "idempotencyStrategy": strategy});
        server.post("/api/workflow/execute/pay/1?waitForSeconds=20", body)
    };
    taken(&execute("FAIL").await, "k");
    let (waited, ()) = tokio::join!(execute("RETURN_EXISTING"), answer(&server, &id, "c", "COMPLETED"));
    let waited = waited.ok();
    assert_eq!((&waited["workflowId"], &waited["status"]), (&json!(id), &json!("COMPLETED")), "{waited:#}");
    assert_eq!(with_key(&server, "k").await.len(), 1);
}
