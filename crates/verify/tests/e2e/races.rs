//! Many callers at once: one key is one run, and keys do not disturb each other.

use crate::harness::{Answer, Bank, Server, flow, post, quick};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Sends `count` calls at the same moment and returns all answers.
async fn together(server: &Server, count: usize, call: impl Fn(usize) -> reqwest::RequestBuilder) -> Vec<Answer> {
    let calls = (0..count).map(|number| {
        let (api, request) = ((**server).clone(), call(number));
        tokio::spawn(async move { api.send(request).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.expect("no panic"));
    }
    answers
}

async fn one_run_of(count: usize) {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/naive/pay"), "")).await;
    let answers = together(&server, count, |_| server.trigger_request("a", Some("k"), json!({"x": 1}))).await;
    let runs: BTreeSet<String> = answers.iter().map(Answer::run_id).collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(answers.iter().filter(|answer| !answer.replayed()).count(), 1);
    assert_eq!(server.runs().await.len(), 1);
    server.until(runs.first().expect("one"), "completed").await;
    assert_eq!(bank.count("pay"), 1);
}

#[tokio::test]
async fn of_64_racing_first_calls_one_starts() {
    one_run_of(64).await;
}

#[tokio::test]
async fn of_1000_racing_first_calls_one_starts() {
    one_run_of(1_000).await;
}

#[tokio::test]
async fn two_hundred_different_keys_at_once_are_two_hundred_runs() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let answers =
        together(&server, 200, |number| server.trigger_request("a", Some(&format!("k{number}")), json!({}))).await;
    assert!(answers.iter().all(|answer| !answer.replayed()));
    let runs: BTreeSet<String> = answers.iter().map(Answer::run_id).collect();
    assert_eq!(runs.len(), 200);
    for run in &runs {
        server.until(run, "completed").await;
    }
}

#[tokio::test]
async fn racing_twins_with_other_payloads_still_make_one_run() {
    let server = Server::start().await;
    let strict = "tasks:\n  - {id: say, type: log.Log, message: hi}\nidempotency: {preset: semel}\n";
    server.push(&flow("a", strict)).await;
    let answers = together(&server, 64, |number| server.trigger_request("a", Some("k"), json!({"x": number}))).await;
    let (met, refused): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(met.len(), 1);
    assert!(!met[0].replayed());
    for answer in refused {
        answer.refused(422, "payload_mismatch");
    }
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn racing_webhooks_of_one_event_make_one_run() {
    let server = Server::start().await;
    let hook = "tasks:
  - {id: say, type: log.Log, message: '{{ trigger.body.id }}'}
triggers:
  - {id: hook, type: trigger.Webhook, key: abc}
idempotency: {key: '{{ trigger.body.id }}'}\n";
    server.push(&flow("a", hook)).await;
    let call = |_| server.request(reqwest::Method::POST, "/v1/webhooks/e2e/a/abc").json(&json!({"id": "evt_1"}));
    let answers = together(&server, 100, call).await;
    let runs: BTreeSet<String> = answers.iter().map(Answer::run_id).collect();
    assert_eq!((runs.len(), answers.iter().filter(|answer| !answer.replayed()).count()), (1, 1));
    // Different events through the same webhook stay apart.
    let call = |number| {
        server.request(reqwest::Method::POST, "/v1/webhooks/e2e/a/abc").json(&json!({"id": format!("evt_x{number}")}))
    };
    let others = together(&server, 50, call).await;
    assert!(others.iter().all(|answer| !answer.replayed()));
}

#[tokio::test]
async fn one_key_at_two_doors_at_once_is_one_run() {
    let server = Server::start().await;
    let hook = "tasks:
  - {id: say, type: log.Log, message: hi}
triggers:
  - {id: hook, type: trigger.Webhook, key: abc}
idempotency: {key: '{{ trigger.body.id ?? trigger.data.id }}', mismatch: ignore}\n";
    server.push(&flow("a", hook)).await;
    let answers = together(&server, 60, |number| match number % 2 {
        0 => server.request(reqwest::Method::POST, "/v1/webhooks/e2e/a/abc").json(&json!({"id": "evt_1"})),
        _ => server.trigger_request("a", None, json!({"id": "evt_1"})),
    })
    .await;
    let runs: BTreeSet<String> = answers.iter().map(Answer::run_id).collect();
    assert_eq!((runs.len(), answers.iter().filter(|answer| !answer.replayed()).count()), (1, 1));
    let decisions: Vec<Json> = server.all("/v1/decisions?key=evt_1").await;
    assert_eq!(decisions.iter().filter(|row| row["decision"] == "start").count(), 1);
}

#[tokio::test]
async fn kv_set_without_overwrite_has_one_winner() {
    let server = Server::start().await;
    let source = "tasks:\n  - {id: take, type: kv.Set, key: seat, value: '{{ run.id }}', overwrite: false}\n";
    server.push(&flow("a", source)).await;
    let call = |_| server.trigger_request("a", None, json!({})).header("prefer", "wait=30");
    let answers = together(&server, 20, call).await;
    let won: Vec<String> =
        answers.iter().filter(|answer| answer.json["status"] == "completed").map(Answer::run_id).collect();
    assert_eq!(won.len(), 1, "{:?}", answers.iter().map(|answer| &answer.text).collect::<Vec<_>>());
    assert_eq!(answers.iter().filter(|answer| answer.json["status"] == "failed").count(), 19);
    assert_eq!(server.get("/v1/kv/e2e/seat").await.ok()["value"], won[0].as_str());
}
