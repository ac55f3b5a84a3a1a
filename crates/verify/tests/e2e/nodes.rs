//! Three servers on one PostgreSQL, as a user has them behind a load balancer.

use crate::harness::{Bank, Options, PATIENCE, Server, eventually, flow, quick};
use reqwest::Method;
use semel_store_postgres::testing::Server as Database;
use serde_json::{Value as Json, json};
use std::process::Command;
use std::time::Duration;

/// On this thread: a database ends with the thread that started it, and those for blocking work do not last.
fn database() -> Database {
    Database::start()
}

async fn node(database: &Database) -> Server {
    Server::with(Options { database: Some(database.address()), ..Options::default() }).await
}

fn signal(server: &Server, name: &str) {
    let told = Command::new("kill").args([name, &server.pid().to_string()]).status();
    assert!(told.is_ok_and(|status| status.success()));
}

fn call(id: &str, url: &str, effect: &str) -> String {
    format!(
        "  - {{id: {id}, type: http.Request, method: POST, uri: '{url}', body: x, effect: {effect}, timeout: PT60S}}\n"
    )
}

async fn states(server: &Server) -> Vec<(String, u64)> {
    let nodes = server.all("/v1/nodes").await;
    let one = |node: &Json| (node["state"].as_str().unwrap().to_owned(), node["runs_owned"].as_u64().unwrap());
    nodes.iter().map(one).collect()
}

async fn assert_clean(server: &Server) {
    let report = server.post("/v1/check", json!({})).await.ok();
    assert_eq!(report["found"], 0, "{report:#}");
}

#[tokio::test]
async fn every_node_answers_for_every_run() {
    let database = database();
    let (first, second) = (node(&database).await, node(&database).await);
    let bank = Bank::start().await;
    first.push(&flow("slow", &format!("tasks:\n{}", call("s", &bank.url("/hold/s"), "keyed")))).await;
    let run = first.trigger("slow", Some("k"), json!({})).await.run_id();
    bank.arrived("s", 1).await;
    assert_eq!(states(&second).await, [("alive".into(), 0), ("alive".into(), 1)], "the newest first");
    // A twin at the other node is a twin.
    let twin = second.trigger("slow", Some("k"), json!({})).await;
    assert!(twin.replayed() && twin.run_id() == run);
    // Who waits there hears of the end here.
    let (answer, ()) = tokio::join!(second.trigger_wait("slow", Some("k"), json!({})), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bank.release("s", 1);
    });
    assert_eq!(answer.ok()["status"], "completed");
    // What a person asks of a run at the wrong node is done by the right one, or refused by it.
    let other = first.trigger("slow", Some("other"), json!({})).await.run_id();
    bank.arrived("s", 2).await;
    second.control(&other, "pause").await.ok();
    assert_eq!(second.control(&run, "cancel").await.status, 409);
    second.control(&other, "cancel").await.ok();
    bank.release("s", 5);
    second.until(&other, "cancelled").await;
    // A flow that was pushed there is known here.
    second.push(&quick("slow")).await;
    let changed = first.trigger("slow", Some("new"), json!({})).await.run_id();
    first.until(&changed, "completed").await;
    assert_clean(&first).await;
}

#[tokio::test]
async fn a_killed_node_is_replaced_by_the_others() {
    let database = database();
    let (mut first, second) = (node(&database).await, node(&database).await);
    let bank = Bank::start().await;
    let tasks = [call("a", &bank.url("/naive/a"), "keyed"), call("b", &bank.url("/hold/b"), "keyed")].concat();
    first.push(&flow("two", &format!("tasks:\n{tasks}"))).await;
    first.push(&flow("naked", &format!("tasks:\n{}", call("n", &bank.url("/hold/n"), "naked")))).await;
    first.push(&flow("sleeps", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT3S}\n")).await;
    let two = first.trigger("two", Some("k"), json!({})).await.run_id();
    let naked = first.trigger("naked", Some("k"), json!({})).await.run_id();
    let sleeps = first.trigger("sleeps", Some("k"), json!({})).await.run_id();
    bank.arrived("b", 1).await;
    bank.arrived("n", 1).await;
    first.kill9();
    bank.release("b", 9);
    bank.release("n", 9);
    second.until_within(Duration::from_secs(40), &two, "completed").await;
    second.until(&naked, "held").await;
    second.until(&sleeps, "completed").await;
    assert_eq!(["a", "b", "n"].map(|name| bank.count(name)), [1, 2, 1], "the naked one is not sent again");
    assert_eq!(states(&second).await, [("alive".into(), 0), ("lapsed".into(), 0)]);
    assert_clean(&second).await;
    first.restart().await;
    assert!(first.trigger("two", Some("k"), json!({})).await.replayed());
}

#[tokio::test]
async fn a_frozen_node_does_nothing_more_for_what_it_has_lost() {
    let database = database();
    let (first, second) = (node(&database).await, node(&database).await);
    let bank = Bank::start().await;
    let tasks = [call("a", &bank.url("/hold/a"), "naked"), call("b", &bank.url("/naive/b"), "naked")].concat();
    first.push(&flow("two", &format!("tasks:\n{tasks}"))).await;
    let run = first.trigger("two", Some("k"), json!({})).await.run_id();
    bank.arrived("a", 1).await;
    signal(&first, "-STOP");
    bank.release("a", 1);
    second.until_within(Duration::from_secs(40), &run, "held").await;
    signal(&first, "-CONT");
    // It takes part again, under another number.
    let back = eventually(PATIENCE, "the node is back", || async {
        let answer = first.try_send(first.trigger_request("two", Some("again"), json!({}))).await.ok()?;
        (answer.status == 200).then(|| answer.run_id())
    })
    .await;
    bank.arrived("a", 2).await;
    bank.release("a", 9);
    first.until(&back, "completed").await;
    assert_eq!((bank.count("a"), bank.count("b")), (2, 1), "the answer that it got before it froze is too late");
    assert_eq!(second.run(&run).await["status"], "held");
    second.post(&format!("/v1/runs/{run}/verdict"), json!({"verdict": "done", "result": {}})).await.ok();
    second.until(&run, "completed").await;
    assert_clean(&first).await;
}

#[tokio::test]
async fn a_node_that_is_asked_to_end_hands_its_runs_over() {
    let database = database();
    let (mut first, second) = (node(&database).await, node(&database).await);
    let bank = Bank::start().await;
    let tasks = [call("a", &bank.url("/hold/a"), "naked"), call("b", &bank.url("/naive/b"), "naked")].concat();
    first.push(&flow("two", &format!("tasks:\n{tasks}"))).await;
    let run = first.trigger("two", Some("k"), json!({})).await.run_id();
    bank.arrived("a", 1).await;
    first.terminate();
    tokio::time::sleep(Duration::from_millis(200)).await;
    bank.release("a", 1);
    first.ended().await;
    second.until_within(Duration::from_secs(4), &run, "completed").await;
    assert_eq!((bank.count("a"), bank.count("b")), (1, 1));
    assert_eq!(states(&second).await, [("alive".into(), 0), ("left".into(), 0)]);
    assert_clean(&second).await;
}

/// What a node remembers of a run that waits for workers may be old: another one has taken the answers since.
#[tokio::test]
async fn workers_answer_at_any_node() {
    let database = database();
    let nodes = [node(&database).await, node(&database).await];
    let simple = |name: &str| json!({"name": name, "taskReferenceName": name, "type": "SIMPLE"});
    let branches: Vec<Json> = (0..6).map(|number| json!([simple(&format!("job{number}"))])).collect();
    let names: Vec<String> = (0..6).map(|number| format!("job{number}")).collect();
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches});
    let join = json!({"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": names});
    let definition =
        json!({"name": "wide", "version": 1, "ownerEmail": "a@b.c", "tasks": [fork, join, simple("last")]});
    nodes[0].post("/api/metadata/workflow", definition).await.ok();
    let id = nodes[0].post("/api/workflow/wide", json!({})).await.text;
    let take = async |server: &Server, name: &str| {
        eventually(PATIENCE, name, async || {
            let polled = server.get(&format!("/api/tasks/poll/batch/{name}?count=1&timeout=100")).await.json;
            polled.get(0).cloned()
        })
        .await
    };
    let answer = async |server: &Server, task: &Json| {
        let body = json!({"workflowInstanceId": id, "taskId": task["taskId"], "status": "COMPLETED", "outputData": {}});
        let answer = server.post("/api/tasks", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    };
    let mut tasks = Vec::new();
    for name in &names {
        tasks.push(take(&nodes[1], name).await);
    }
    // Each answer makes what the other node remembers old; the fourth is given to both at once.
    for (number, task) in tasks.iter().enumerate().take(3) {
        answer(&nodes[number % 2], task).await;
    }
    tokio::join!(answer(&nodes[0], &tasks[3]), answer(&nodes[1], &tasks[3]));
    tokio::join!(answer(&nodes[0], &tasks[4]), answer(&nodes[1], &tasks[5]));
    let last = take(&nodes[1], "last").await;
    answer(&nodes[0], &last).await;
    let ended = nodes[1].until(&id, "completed").await;
    assert_eq!(ended["error"], Json::Null, "{ended}");
    let shown = nodes[0].get(&format!("/api/workflow/{id}?includeTasks=true")).await.ok();
    let done = shown["tasks"].as_array().unwrap().iter().filter(|task| task["taskType"] != "FORK");
    assert_eq!(done.filter(|task| task["status"] == "COMPLETED" && task["retried"] == false).count(), 8, "{shown:#}");
    // What was ended at one node is not taken on at the other, which remembers it as waiting.
    let id = nodes[0].post("/api/workflow/wide", json!({})).await.text;
    let task = take(&nodes[0], "job0").await;
    assert_eq!(nodes[1].send(nodes[1].request(Method::DELETE, &format!("/api/workflow/{id}"))).await.status, 200);
    answer(&nodes[0], &task).await;
    nodes[0].until(&id, "cancelled").await;
    assert_clean(&nodes[0]).await;
}
