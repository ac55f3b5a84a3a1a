//! Effects whose answer was lost: never repeated behind anybody's back. A run that has ended with a
//! doubt open is `held` like one that was stopped by it; `ended_at` tells them apart.

use crate::harness::{Bank, Server, flow, post};
use serde_json::json;

#[tokio::test]
async fn a_lost_answer_fails_a_naked_step_and_leaves_it_in_doubt() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let retried = "retry: {type: constant, interval: PT0.1S, maxAttempts: 5}";
    server.push(&post("a", &bank.cut_url("pay"), retried)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    let ended = server.until(&run, "held").await;
    assert_ne!(ended["ended_at"], json!(null));
    // The author's retry does not cover an answer that was lost.
    assert_eq!((bank.count("pay"), &ended["open_doubts"]), (1, &json!(1)));
    let steps = server.all(&format!("/v1/runs/{run}/steps")).await;
    assert_eq!((&steps[0]["state"], &steps[0]["class"]), (&json!("in_doubt"), &json!("naked")));
    // Its claim is held: no twin, no restart, no replay, no release, no deletion.
    server.control(&run, "restart").await.refused(409, "not_possible");
    server.control(&run, "replay").await.refused(409, "not_possible");
    server.delete(&format!("/v1/runs/{run}")).await.refused(409, "doubt_open");
    server
        .post("/v1/keys/release", json!({"workflow_id": "e2e:a", "key": "k", "why": "?"}))
        .await
        .refused(409, "doubt_open");
    assert!(server.trigger("a", Some("k"), json!({})).await.replayed());
    assert_eq!(bank.count("pay"), 1);
}

#[tokio::test]
async fn the_errors_of_the_flow_run_although_the_effect_is_in_doubt() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let alarm = bank.url("/naive/alarm");
    let source = post("a", &bank.cut_url("pay"), "")
        + &format!("errors:\n  - {{id: alarm, type: http.Request, method: POST, uri: '{alarm}'}}\n");
    server.push(&source).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    let ended = server.until(&run, "held").await;
    assert_eq!((bank.count("pay"), bank.count("alarm"), &ended["error"]["step"]), (1, 1, &json!("pay")));
}

#[tokio::test]
async fn a_lost_answer_of_a_keyed_step_is_asked_for_again_with_the_same_key() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let retried = "effect: keyed\nretry: {type: constant, interval: PT0.1S, maxAttempts: 3}";
    server.push(&post("a", &bank.cut_url("pay"), retried)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "held").await;
    let keys = bank.keys("pay");
    assert!(keys.len() >= 2 && keys.iter().all(|key| *key == keys[0] && !key.is_empty()), "{keys:?}");
}

#[tokio::test]
async fn an_answer_that_came_is_an_outcome_even_if_it_is_an_error() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/status/500/pay"), "")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    let ended = server.until(&run, "failed").await;
    assert_eq!(
        (&ended["open_doubts"], &ended["error"]["code"], &ended["error"]["step"]),
        (&json!(0), &json!("http_status"), &json!("pay"))
    );
    assert_eq!(server.all(&format!("/v1/runs/{run}/steps")).await[0]["state"], "failed_clean");
}

#[tokio::test]
async fn a_doubt_of_a_sub_run_holds_the_claim_of_its_root() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("child", &bank.url("/hold/pay"), "")).await;
    server.push(&flow("a", "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child}\n")).await;
    let root = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.restart().await;
    let child = server.runs_of("child").await[0]["run_id"].as_str().expect("an id").to_owned();
    server.until(&child, "held").await;
    let counted = crate::harness::eventually(crate::harness::PATIENCE, "the root counts the doubt", || async {
        let run = server.run(&root).await;
        (run["open_doubts"] == 1).then_some(run)
    })
    .await;
    assert_eq!(counted["status"], "waiting");
    let claim = server.all("/v1/keys?key=k").await;
    assert_eq!(claim[0]["state"], "live", "{claim:?}");
    let shown = server.cli_json(&["run", "verdict", &child, "--done", r#"{"code":200}"#, "--why", "seen"]).await;
    assert_eq!(shown["run_id"], child.as_str());
    server.until(&child, "completed").await;
    assert_eq!(server.until(&root, "completed").await["open_doubts"], 0);
    assert_eq!(bank.count("pay"), 1);
}

#[tokio::test]
async fn a_child_that_failed_with_a_doubt_keeps_the_roots_claim_held_after_the_roots_end() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("child", &bank.cut_url("pay"), "")).await;
    let block =
        "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child}\nidempotency: {preset: semel}\n";
    server.push(&flow("a", block)).await;
    let root = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&root, "held").await;
    // `failed: resume` would run the child again; the doubt forbids it.
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert!(twin.status == 200 || twin.status == 409, "{}", twin.text);
    assert_eq!(server.all("/v1/keys?key=k").await[0]["state"], "held");
    assert_eq!((bank.count("pay"), server.runs_of("child").await.len()), (1, 1));
    let child = server.runs_of("child").await[0]["run_id"].as_str().expect("an id").to_owned();
    let verdict = json!({"verdict": "fail", "why": "the bank has nothing"});
    server.post(&format!("/v1/runs/{child}/verdict"), verdict).await.ok();
    crate::harness::eventually(crate::harness::PATIENCE, "the claim is no longer held", || async {
        (server.all("/v1/keys?key=k").await[0]["state"] == "failed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_verdict_without_a_doubt_is_refused() {
    let server = Server::start().await;
    server.push(&crate::harness::quick("a")).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    let verdict = json!({"verdict": "done", "why": "?"});
    server.post(&format!("/v1/runs/{run}/verdict"), verdict).await.refused(409, "not_possible");
    let output = server.cli(&["run", "verdict", &run, "--repeat", "--why", "?"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[tokio::test]
async fn two_doubts_of_one_run_are_decided_one_by_one_by_name() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let (left, right, after) = (bank.url("/hold/left"), bank.url("/hold/right"), bank.url("/naive/after"));
    let source = format!(
        "tasks:
  - id: both
    type: flow.Parallel
    tasks:
      - {{id: left, type: http.Request, method: POST, uri: '{left}'}}
      - {{id: right, type: http.Request, method: POST, uri: '{right}'}}
  - {{id: after, type: http.Request, method: POST, uri: '{after}'}}\n"
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("left", 1).await;
    bank.arrived("right", 1).await;
    server.restart().await;
    assert_eq!(server.until(&run, "held").await["open_doubts"], 2);
    let path = format!("/v1/runs/{run}/verdict");
    server.post(&path, json!({"verdict": "done", "why": "which?"})).await.refused(409, "not_possible");
    let steps = server.all(&format!("/v1/runs/{run}/steps")).await;
    let id = |name: &str| {
        steps.iter().find(|step| step["step"].as_str().is_some_and(|step| step.ends_with(name))).expect("a step")["step_id"].clone()
    };
    server.post(&path, json!({"step_id": id("left"), "verdict": "done", "why": "seen"})).await.ok();
    assert_eq!((&server.run(&run).await["status"], bank.count("after")), (&json!("held"), 0));
    bank.release("right", 5);
    server.post(&path, json!({"step_id": id("right"), "verdict": "repeat", "why": "not seen"})).await.ok();
    server.until(&run, "completed").await;
    assert_eq!((bank.count("left"), bank.count("right"), bank.count("after")), (1, 2, 1));
}

#[tokio::test]
async fn a_run_that_was_cancelled_in_doubt_stays_held_until_a_verdict() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/hold/pay"), "")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.restart().await;
    server.until(&run, "held").await;
    server.control(&run, "cancel").await.ok();
    let shown = server.run(&run).await;
    assert_eq!((&shown["status"], &shown["open_doubts"]), (&json!("held"), &json!(1)));
    server.delete(&format!("/v1/runs/{run}")).await.refused(409, "doubt_open");
    server.cli_json(&["run", "verdict", &run, "--fail", "--why", "the bank has nothing"]).await;
    server.until(&run, "cancelled").await;
    assert_eq!(bank.count("pay"), 1);
}
