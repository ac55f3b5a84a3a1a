//! The trigger door's contract, F12–F15: how long a key is remembered.
//!
//! The server's clock cannot be moved from outside, so the flows here have windows of seconds; that
//! the default is 24 hours is asked of the claim's own expiry.

use crate::harness::{Bank, Server, clock_reaches, flow, post, quick};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn windowed(id: &str, window: &str) -> String {
    let block = format!("idempotency: {{preset: trigger, window: {window}}}\n");
    flow(id, &format!("tasks:\n  - {{id: say, type: log.Log, message: hi}}\n{block}"))
}

async fn claim(server: &Server, key: &str) -> Json {
    server.all(&format!("/v1/keys?key={key}")).await.into_iter().next().expect("a claim")
}

fn millis(claim: &Json, field: &str) -> i64 {
    let text = claim[field].as_str().unwrap_or_else(|| panic!("no {field}: {claim}"));
    semel_core::Millis::parse_rfc3339(text).expect("a time").0
}

#[tokio::test]
async fn f12_within_the_window_a_twin_is_a_replay_and_the_default_window_is_24_hours() {
    let server = Server::start().await;
    server.push(&quick("day")).await;
    server.push(&windowed("a", "PT30S")).await;
    for name in ["day", "a"] {
        let first = server.trigger(name, Some(name), json!({})).await;
        server.until(&first.run_id(), "completed").await;
        assert!(server.trigger(name, Some(name), json!({})).await.replayed());
    }
    let span = |claim: &Json| millis(claim, "expires_at") - millis(claim, "first_seen");
    assert_eq!(span(&claim(&server, "day").await), 24 * 3_600_000);
    assert_eq!(span(&claim(&server, "a").await), 30_000);
}

#[tokio::test]
async fn f13_after_the_window_the_key_starts_anew_and_the_window_too() {
    let server = Server::start().await;
    server.push(&windowed("a", "PT3S")).await;
    let first = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    let received = Instant::now();
    let old = server.run(&first).await;
    clock_reaches(received, Duration::from_millis(3_100)).await;
    let second = server.trigger("a", Some("k"), json!({})).await;
    assert!(!second.replayed());
    assert_ne!(second.run_id(), first);
    let twin = server.trigger("a", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!(twin.run_id(), second.run_id());
    assert_eq!(server.run(&first).await, old);
    assert_eq!(server.run(&second.run_id()).await["generation"], 2);
}

#[tokio::test]
async fn f14_a_replay_does_not_extend_the_window() {
    let server = Server::start().await;
    server.push(&windowed("a", "PT2S")).await;
    let began = Instant::now();
    let first = server.trigger("a", Some("k"), json!({})).await.run_id();
    // Twins arrive all the time; if one of them extended the window, it would never end.
    let mut replays = 0;
    loop {
        let twin = server.trigger("a", Some("k"), json!({})).await;
        if !twin.replayed() {
            assert_ne!(twin.run_id(), first);
            break;
        }
        replays += 1;
        assert!(began.elapsed() < Duration::from_secs(15), "the window does not end");
    }
    assert!(replays > 3 && began.elapsed() >= Duration::from_secs(2), "{replays} replays in {:?}", began.elapsed());
}

#[tokio::test]
async fn f15_a_key_does_not_expire_under_a_live_run_unless_the_flow_says_so() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let safe = post("safe", &bank.url("/hold/pay"), "") + "idempotency: {preset: trigger, window: PT1S}\n";
    let literal = post("literal", &bank.url("/hold/pay"), "")
        + "idempotency: {preset: trigger, window: PT1S, expire_live: true}\n";
    server.push(&safe).await;
    server.push(&literal).await;
    let one = server.trigger("safe", Some("k"), json!({})).await.run_id();
    let two = server.trigger("literal", Some("k"), json!({})).await.run_id();
    let received = Instant::now();
    bank.arrived("pay", 2).await;
    clock_reaches(received, Duration::from_millis(1_200)).await;
    let twin = server.trigger("safe", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!(twin.run_id(), one);
    let beside = server.trigger("literal", Some("k"), json!({})).await;
    assert!(!beside.replayed());
    assert_ne!(beside.run_id(), two);
    bank.release("pay", 3);
    for run in [&one, &two, &beside.run_id()] {
        server.until(run, "completed").await;
    }
}
