//! What a flow may say about twins: presets, and single answers within them.

use crate::harness::{Bank, Server, clock_reaches, flow, post, quick};
use serde_json::json;
use std::time::{Duration, Instant};

fn with_block(id: &str, block: &str) -> String {
    quick(id) + &format!("idempotency: {{{block}}}\n")
}

#[tokio::test]
async fn semel_a_twin_of_a_failed_run_goes_on_where_it_failed() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let (one, two) = (bank.url("/naive/one"), bank.url("/flaky/1/two"));
    let source = format!(
        "tasks:
  - {{id: one, type: http.Request, method: POST, uri: '{one}'}}
  - {{id: two, type: http.Request, method: POST, uri: '{two}'}}
idempotency: {{preset: semel}}\n"
    );
    server.push(&flow("a", &source)).await;
    let first = server.trigger("a", Some("k"), json!({"x": 1})).await.run_id();
    server.until(&first, "failed").await;
    let twin = server.trigger_wait("a", Some("k"), json!({"x": 1})).await;
    assert!(twin.replayed());
    assert_eq!(twin.json["status"], "completed", "{}", twin.text);
    assert_eq!((bank.count("one"), bank.count("two")), (1, 2));
    // The same logical step is known to the far side by the same key.
    let keys = bank.keys("two");
    assert_eq!(keys[0], keys[1]);
    let after = server.trigger("a", Some("k"), json!({"x": 1})).await;
    assert!(after.replayed());
    assert_eq!(after.json["status"], "completed");
    assert_eq!(bank.count("two"), 2);
}

#[tokio::test]
async fn rerun_is_a_new_run_that_keeps_nothing() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let source = post("a", &bank.url("/naive/pay"), "") + "idempotency: {preset: semel, done: rerun}\n";
    server.push(&source).await;
    let first = server.trigger_wait("a", Some("k"), json!({})).await;
    let again = server.trigger_wait("a", Some("k"), json!({})).await;
    assert!(!again.replayed());
    assert_ne!(again.run_id(), first.run_id());
    assert_eq!(server.run(&again.run_id()).await["generation"], 2);
    let keys = bank.keys("pay");
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "a new logical run has new effects");
}

#[tokio::test]
async fn mismatch_reject_ignore_and_split() {
    let server = Server::start().await;
    for word in ["reject", "ignore", "split"] {
        server.push(&with_block(word, &format!("preset: semel, mismatch: {word}"))).await;
        let first = server.trigger_wait(word, Some("k"), json!({"x": 1})).await.run_id();
        let other = server.trigger(word, Some("k"), json!({"x": 2})).await;
        match word {
            "reject" => {
                other.refused(422, "payload_mismatch");
                assert!(!other.text.contains(&first), "{}", other.text);
            }
            "ignore" => assert_eq!((other.replayed(), other.run_id()), (true, first)),
            _ => {
                assert!(!other.replayed());
                assert_ne!(other.run_id(), first);
                // Each payload has its own claim from then on.
                assert_eq!(server.trigger(word, Some("k"), json!({"x": 2})).await.run_id(), other.run_id());
                assert_eq!(server.trigger(word, Some("k"), json!({"x": 1})).await.run_id(), first);
            }
        }
    }
    // The order of the fields is no difference.
    let one = server.trigger("reject", Some("k9"), json!({"a": 1, "b": [1.5, "x"]})).await.run_id();
    assert_eq!(server.trigger("reject", Some("k9"), json!({"b": [1.5, "x"], "a": 1})).await.run_id(), one);
}

#[tokio::test]
async fn late_twins_are_rejected_or_warned_about() {
    let server = Server::start().await;
    server.push(&with_block("strict", "preset: trigger, window: PT1S, late: reject")).await;
    server.push(&with_block("mild", "preset: trigger, window: PT1S, late: warn")).await;
    let first = server.trigger_wait("strict", Some("k"), json!({})).await;
    server.trigger_wait("mild", Some("k"), json!({})).await.run_id();
    let received = Instant::now();
    assert!(!first.replayed());
    clock_reaches(received, Duration::from_millis(1_200)).await;
    server.trigger("strict", Some("k"), json!({})).await.refused(409, "late_rejected");
    assert_eq!(server.runs_of("strict").await.len(), 1);
    assert!(!server.trigger("mild", Some("k"), json!({})).await.replayed());
    assert_eq!(server.runs_of("mild").await.len(), 2);
}

#[tokio::test]
async fn while_live_forgets_the_key_with_the_runs_end() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&(post("a", &bank.url("/hold/pay"), "") + "idempotency: {preset: semel, window: while_live}\n")).await;
    let first = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    assert!(server.trigger("a", Some("k"), json!({})).await.replayed());
    bank.release("pay", 2);
    server.until(&first, "completed").await;
    assert!(!server.trigger("a", Some("k"), json!({})).await.replayed());
}

#[tokio::test]
async fn require_key_refuses_events_without_one() {
    let server = Server::start().await;
    server.push(&with_block("a", "preset: trigger, require_key: true")).await;
    server.trigger("a", None, json!({})).await.refused(400, "key_missing");
    assert_eq!(server.runs().await.len(), 0);
    assert!(!server.trigger("a", Some("k"), json!({})).await.replayed());
}

#[tokio::test]
async fn ietf_a_twin_of_a_live_run_is_a_conflict() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&(post("a", &bank.url("/hold/pay"), "") + "idempotency: {preset: ietf}\n")).await;
    let run = server.trigger("a", Some("k"), json!({"x": 1})).await.run_id();
    bank.arrived("pay", 1).await;
    let twin = server.trigger("a", Some("k"), json!({"x": 1})).await;
    assert_eq!(twin.refused(409, "in_progress").json["run_id"], run.as_str());
    bank.release("pay", 1);
    server.until(&run, "completed").await;
    assert!(server.trigger("a", Some("k"), json!({"x": 1})).await.replayed());
    server.trigger("a", Some("k"), json!({"x": 2})).await.refused(422, "payload_mismatch");
    assert_eq!(bank.count("pay"), 1);
}

#[tokio::test]
async fn ended_runs_can_refuse_their_twins() {
    let server = Server::start().await;
    server.push(&with_block("done", "preset: semel, done: reject")).await;
    let failing = "tasks:\n  - {id: no, type: execution.Fail}\nidempotency: {preset: semel, failed: reject}\n";
    server.push(&flow("failed", failing)).await;
    for (name, code) in [("done", "already_done"), ("failed", "already_failed")] {
        let run = server.trigger_wait(name, Some("k"), json!({})).await.run_id();
        let twin = server.trigger(name, Some("k"), json!({})).await;
        assert_eq!(twin.refused(409, code).json["run_id"], run.as_str());
    }
}

#[tokio::test]
async fn a_key_of_the_flow_and_one_of_the_caller_must_agree() {
    let server = Server::start().await;
    server.push(&with_block("a", "key: '{{ trigger.data.id }}'")).await;
    let first = server.trigger("a", None, json!({"id": "e1"})).await;
    assert_eq!(server.trigger("a", Some("e1"), json!({"id": "e1"})).await.run_id(), first.run_id());
    let before = server.runs().await.len();
    server.trigger("a", Some("e2"), json!({"id": "e1"})).await.refused(422, "key_conflict");
    server.trigger("a", None, json!({})).await.refused(422, "key_unresolved");
    server.trigger("a", None, json!({"id": ""})).await.refused(422, "key_unresolved");
    assert_eq!(server.runs().await.len(), before);
}

#[tokio::test]
async fn a_released_key_starts_anew_and_explain_says_why() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let first = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    let explained = server.cli_json(&["key", "explain", "k", "--workflow", "e2e:a"]).await;
    assert!(!explained["explanation"].as_array().expect("sentences").is_empty(), "{explained}");
    server.cli_json(&["key", "release", "k", "--workflow", "e2e:a", "--why", "a test"]).await;
    let again = server.trigger("a", Some("k"), json!({})).await;
    assert!(!again.replayed());
    assert_ne!(again.run_id(), first);
}
