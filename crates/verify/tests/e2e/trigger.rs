//! The trigger door's contract, F01–F11 and F16–F22, one test each. (F12–F15 are about time: `trigger_windows`.)

use crate::harness::{Bank, PATIENCE, Server, eventually, flow, post, quick};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn f01_a_first_call_starts_a_run() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let answer = server.trigger("a", Some("k"), json!({"x": 1})).await;
    assert!(!answer.replayed());
    let run = answer.run_id();
    assert_eq!(
        answer.json,
        json!({"run_id": run, "status": "started", "workflow_id": "e2e:a", "idempotent_replayed": false})
    );
    assert_eq!(answer.header("x-idempotent-replayed"), "");
    assert!(!answer.header("x-request-id").is_empty());
    assert_eq!(server.until(&run, "completed").await["key"], "k");
}

#[tokio::test]
async fn f02_a_twin_after_the_end_is_shown_the_run_as_it_is_now() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "completed").await;
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!(
        twin.json,
        json!({"run_id": run, "status": "completed", "workflow_id": "e2e:a", "idempotent_replayed": true})
    );
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn f03_a_twin_of_a_live_run_is_answered_at_once() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/hold/pay"), "")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!((twin.run_id(), twin.json["status"].as_str()), (run.clone(), Some("running")));
    bank.release("pay", 1);
    server.until(&run, "completed").await;
    assert_eq!(bank.count("pay"), 1);
}

#[tokio::test]
async fn f04_however_often_it_comes_there_is_one_run() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    for _ in 0..1000 {
        let twin = server.trigger("a", Some("k"), json!({})).await;
        assert!(twin.replayed());
        assert_eq!(twin.run_id(), run);
    }
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn f05_of_two_racing_first_calls_one_starts() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    for round in 0..20 {
        let key = format!("k{round}");
        let (one, two) =
            tokio::join!(server.trigger("a", Some(&key), json!({})), server.trigger("a", Some(&key), json!({})));
        assert_eq!(one.run_id(), two.run_id());
        assert_ne!(one.replayed(), two.replayed());
    }
    assert_eq!(server.runs().await.len(), 20);
}

#[tokio::test]
async fn f06_keys_that_differ_in_case_are_two() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let lower = server.trigger("a", Some("evt_a"), json!({})).await;
    let upper = server.trigger("a", Some("EVT_A"), json!({})).await;
    assert!(!lower.replayed() && !upper.replayed());
    assert_ne!(lower.run_id(), upper.run_id());
}

#[tokio::test]
async fn f07_workspaces_do_not_share_keys() {
    let server = Server::start().await;
    server.post("/v1/workspaces", json!({"id": "other"})).await.ok();
    let other = server.workspace("other");
    server.push(&quick("a")).await;
    other.push(&quick("a")).await;
    let here = server.trigger("a", Some("k"), json!({})).await;
    let there = other.trigger("a", Some("k"), json!({})).await;
    assert!(!here.replayed() && !there.replayed());
    assert_ne!(here.run_id(), there.run_id());
    assert!(other.trigger("a", Some("k"), json!({})).await.text.contains(&there.run_id()));
    assert!(!there.text.contains(&here.run_id()));
    other.get(&format!("/v1/runs/{}", here.run_id())).await.refused(404, "run_unknown");
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn f08_a_key_of_255_characters_is_taken() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let key = "k".repeat(255);
    let first = server.trigger("a", Some(&key), json!({})).await;
    assert!(!first.replayed());
    assert_eq!(server.trigger("a", Some(&key), json!({})).await.run_id(), first.run_id());
}

#[tokio::test]
async fn f09_a_key_of_256_characters_is_refused() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let before = server.stored().await;
    server.trigger("a", Some(&"k".repeat(256)), json!({})).await.refused(400, "key_too_long");
    assert_eq!(server.stored().await, before);
}

#[tokio::test]
async fn f10_without_a_key_each_call_is_a_run() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let one = server.trigger("a", None, json!({"x": 1})).await;
    let two = server.trigger("a", None, json!({"x": 1})).await;
    assert!(!one.replayed() && !two.replayed());
    assert_ne!(one.run_id(), two.run_id());
}

#[tokio::test]
async fn f11_the_body_of_a_twin_is_ignored() {
    let server = Server::start().await;
    server
        .push(&flow(
            "a",
            "tasks:
  - {id: say, type: debug.Return, format: '{{ trigger.data.x }}'}
outputs:
  - {id: x, type: STRING, value: '{{ outputs.say.value }}'}\n",
        ))
        .await;
    let first = server.trigger_wait("a", Some("k"), json!({"x": "one"})).await;
    assert_eq!(first.json["outputs"], json!({"x": "one"}));
    let twin = server.trigger_wait("a", Some("k"), json!({"x": "two"})).await;
    assert!(twin.replayed());
    assert_eq!((twin.run_id(), &twin.json["outputs"]), (first.run_id(), &json!({"x": "one"})));
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn f16_a_providers_retries_meet_the_first_delivery() {
    let server = Server::start().await;
    let hook = "tasks:
  - {id: say, type: log.Log, message: '{{ trigger.body.id }}'}
triggers:
  - {id: hook, type: trigger.Webhook, key: abc}
idempotency: {key: '{{ trigger.body.id }}'}\n";
    server.push(&flow("a", hook)).await;
    let first = server.post("/v1/webhooks/e2e/a/abc", json!({"id": "evt_1"})).await;
    assert!(!first.replayed());
    for _ in 0..3 {
        let retry = server.post("/v1/webhooks/e2e/a/abc", json!({"id": "evt_1"})).await;
        assert!(retry.replayed());
        assert_eq!(retry.run_id(), first.run_id());
    }
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn f17_keys_are_opaque() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let keys = [
        "0198c0de-0000-7000-8000-000000000001",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "evt_1OqYz2LkdIwHu7ix",
        "gh_push_sha_1a2b3c",
        "order 17, line 2; \"quoted\" / {curly} + %41",
        "0",
        "null",
    ];
    let mut runs = BTreeSet::new();
    for key in keys {
        let first = server.trigger("a", Some(key), json!({})).await;
        assert!(!first.replayed(), "{key}");
        assert_eq!(server.trigger("a", Some(key), json!({})).await.run_id(), first.run_id(), "{key}");
        assert_eq!(server.run(&first.run_id()).await["key"], key);
        runs.insert(first.run_id());
    }
    assert_eq!(runs.len(), keys.len());
}

#[tokio::test]
async fn f18_a_timestamp_in_the_key_makes_another_event() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let one = server.trigger("a", Some("nightly-2026-03-01T00:00:00Z"), json!({})).await;
    let two = server.trigger("a", Some("nightly-2026-03-02T00:00:00Z"), json!({})).await;
    assert!(!one.replayed() && !two.replayed());
    assert_ne!(one.run_id(), two.run_id());
}

#[tokio::test]
async fn f19_every_replay_is_a_line_of_the_runs_history() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "completed").await;
    for _ in 0..3 {
        server.trigger("a", Some("k"), json!({})).await;
    }
    // Rows of decisions that change nothing ride the next commit.
    let rows = eventually(PATIENCE, "three replays", || async {
        let rows = server.all(&format!("/v1/runs/{run}/replays")).await;
        (rows.len() == 3).then_some(rows)
    })
    .await;
    for row in rows {
        assert_eq!(
            (&row["decision"], &row["door"], &row["same_payload"]),
            (&json!("replay"), &json!("trigger"), &json!(true))
        );
    }
    let decisions = server.all("/v1/decisions?key=k").await;
    assert_eq!(decisions.iter().filter(|row| row["decision"] == "start").count(), 1);
    assert!(decisions.iter().all(|row| row["run_id"] == run.as_str()));
}

#[tokio::test]
async fn f20_a_sub_run_is_started_once_without_any_key_of_the_user() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("child", &bank.url("/hold/pay"), "effect: keyed")).await;
    server.push(&flow("a", "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child}\n")).await;
    let run = server.trigger("a", None, json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.restart().await;
    bank.release("pay", 10);
    server.until(&run, "completed").await;
    assert_eq!((server.runs_of("child").await.len(), bank.applied("pay")), (1, 1));
}

#[tokio::test]
async fn f21_a_twin_of_a_failed_run_is_shown_the_failure() {
    let server = Server::start().await;
    server.push(&flow("a", "tasks:\n  - {id: no, type: execution.Fail, errorMessage: broken}\n")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "failed").await;
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!((twin.run_id(), twin.json["status"].as_str()), (run, Some("failed")));
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn f22_a_restart_forgets_no_key() {
    let mut server = Server::start().await;
    server.push(&quick("a")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    // At once: what was answered is durable, whatever comes next.
    server.restart().await;
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!(twin.run_id(), run);
    server.until(&run, "completed").await;
    server.stop().await;
    server.restart().await;
    assert_eq!(server.trigger("a", Some("k"), json!({})).await.run_id(), run);
    assert_eq!(server.runs().await.len(), 1);
}
