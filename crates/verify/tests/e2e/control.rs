//! What a person asks of a run: cancel, pause, resume, restart, replay.

use crate::harness::{Bank, PATIENCE, Server, eventually, flow, post, quick};
use serde_json::json;

/// Three POSTs; the second fails `failures` times, the third waits for the test.
fn three(bank: &Bank, failures: u32) -> String {
    let (one, two, tri) =
        (bank.url("/naive/one"), bank.url(&format!("/flaky/{failures}/two")), bank.url("/naive/three"));
    flow(
        "a",
        &format!(
            "tasks:
  - {{id: one, type: http.Request, method: POST, uri: '{one}'}}
  - {{id: two, type: http.Request, method: POST, uri: '{two}'}}
  - {{id: three, type: http.Request, method: POST, uri: '{tri}'}}\n"
        ),
    )
}

fn counts(bank: &Bank) -> [usize; 3] {
    [bank.count("one"), bank.count("two"), bank.count("three")]
}

#[tokio::test]
async fn restart_keeps_what_was_finished() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&three(&bank, 1)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "failed").await;
    server.cli_json(&["run", "restart", &run, "--why", "the bank is back"]).await;
    let ended = server.until(&run, "completed").await;
    assert_eq!(counts(&bank), [1, 2, 1]);
    assert_eq!(bank.keys("two")[0], bank.keys("two")[1], "a restart is the same logical run");
    assert_eq!((&ended["take"], &ended["error"]), (&json!(0), &json!(null)));
    assert_eq!(server.trigger("a", Some("k"), json!({})).await.json["status"], "completed");
    server.control(&run, "restart").await.refused(409, "not_possible");
}

#[tokio::test]
async fn replay_does_finished_steps_again_with_new_keys() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&three(&bank, 0)).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    server.post(&format!("/v1/runs/{run}/replay"), json!({"from": "two", "why": "wrong amount"})).await.ok();
    eventually(PATIENCE, "the replay has ended", || async {
        let shown = server.run(&run).await;
        (shown["take"] == 1 && shown["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(counts(&bank), [1, 2, 2]);
    assert_ne!(bank.keys("two")[0], bank.keys("two")[1], "a person asked for a second effect");
    server.post(&format!("/v1/runs/{run}/replay"), json!({})).await.ok();
    eventually(PATIENCE, "the second replay has ended", || async {
        let shown = server.run(&run).await;
        (shown["take"] == 2 && shown["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(counts(&bank), [2, 3, 3]);
    server.post(&format!("/v1/runs/{run}/replay"), json!({"from": "nope"})).await.refused(409, "not_possible");
}

#[tokio::test]
async fn a_paused_run_starts_nothing_new_until_it_is_resumed_even_across_a_kill() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let (one, two) = (bank.url("/hold/one"), bank.url("/naive/two"));
    server
        .push(&flow(
            "a",
            &format!(
                "tasks:
  - {{id: one, type: http.Request, method: POST, uri: '{one}'}}
  - {{id: two, type: http.Request, method: POST, uri: '{two}'}}\n"
            ),
        ))
        .await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("one", 1).await;
    server.cli_json(&["run", "pause", &run]).await;
    bank.release("one", 1);
    server.until(&run, "paused").await;
    server.restart().await;
    assert_eq!((server.run(&run).await["status"].clone(), bank.count("two")), (json!("paused"), 0));
    assert_eq!(server.trigger("a", Some("k"), json!({})).await.json["status"], "paused");
    server.cli_json(&["run", "resume", &run]).await;
    server.until(&run, "completed").await;
    assert_eq!((bank.count("one"), bank.count("two")), (1, 1));
}

#[tokio::test]
async fn cancel_waits_for_what_is_in_flight_and_starts_nothing_after_it() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let (one, two, end) = (bank.url("/hold/one"), bank.url("/naive/two"), bank.url("/naive/end"));
    let source = format!(
        "tasks:
  - {{id: one, type: http.Request, method: POST, uri: '{one}'}}
  - {{id: two, type: http.Request, method: POST, uri: '{two}'}}
finally:
  - {{id: end, type: http.Request, method: POST, uri: '{end}'}}\n"
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("one", 1).await;
    server.cli_json(&["run", "cancel", &run, "--why", "changed my mind"]).await;
    bank.release("one", 1);
    server.until(&run, "cancelled").await;
    assert_eq!(bank.count("two"), 0);
    assert_eq!(server.all(&format!("/v1/runs/{run}/steps")).await[0]["state"], "done");
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert_eq!((twin.replayed(), twin.json["status"].as_str()), (true, Some("cancelled")));
}

#[tokio::test]
async fn a_sleeping_run_is_cancelled_at_once() {
    let server = Server::start().await;
    server.push(&flow("a", "tasks:\n  - {id: nap, type: flow.Sleep, duration: P1D}\n")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "waiting").await;
    assert_eq!(server.control(&run, "cancel").await.ok()["status"], "cancelled");
}

#[tokio::test]
async fn what_a_state_does_not_allow_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    let before = server.run(&run).await;
    for verb in ["cancel", "pause", "resume", "restart"] {
        server.control(&run, verb).await.refused(409, "not_possible");
    }
    assert_eq!(server.run(&run).await, before);
}

#[tokio::test]
async fn live_runs_are_neither_deleted_nor_erased_and_their_keys_not_released() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/hold/pay"), "")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.delete(&format!("/v1/runs/{run}")).await.refused(409, "run_live");
    server.post(&format!("/v1/runs/{run}/erase"), json!({})).await.refused(409, "run_live");
    server
        .post("/v1/keys/release", json!({"workflow_id": "e2e:a", "key": "k", "why": "?"}))
        .await
        .refused(409, "run_live");
    bank.release("pay", 1);
    server.until(&run, "completed").await;
}

#[tokio::test]
async fn a_run_keeps_the_revision_it_started_with() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let source = |text: &str| {
        post("a", &bank.url("/hold/pay"), "effect: keyed")
            + &format!("  - {{id: say, type: log.Log, message: {text}}}\n")
    };
    server.push(&source("old")).await;
    let run = server.trigger("a", None, json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.push(&source("new")).await;
    server.restart().await;
    bank.release("pay", 5);
    assert_eq!(server.until(&run, "completed").await["revision"], 1);
    assert_eq!(server.log_lines(&run).await, ["old"]);
    let next = server.trigger_wait("a", None, json!({})).await.run_id();
    assert_eq!(
        (server.log_lines(&next).await, &server.run(&next).await["revision"]),
        (vec!["new".to_owned()], &json!(2))
    );
}
