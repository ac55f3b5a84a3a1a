//! Ending in an orderly way, and starting where another process runs.

use crate::harness::{Bank, PATIENCE, Server, eventually, post, quick};
use serde_json::json;
use std::process::Stdio;

#[tokio::test]
async fn sigterm_waits_for_the_answer_of_an_effect_and_loses_nothing() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let after = bank.url("/naive/after");
    let source = post("a", &bank.url("/hold/pay"), "")
        + &format!("  - {{id: after, type: http.Request, method: POST, uri: '{after}'}}\n");
    server.push(&source).await;
    server.push(&quick("other")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.terminate();
    // It takes no new work while it drains: it refuses, or no longer listens.
    eventually(PATIENCE, "new events are refused", || async {
        match server.try_send(server.trigger_request("other", None, json!({}))).await {
            Ok(answer) => (answer.status == 503).then_some(()),
            Err(_) => Some(()),
        }
    })
    .await;
    bank.release("pay", 5);
    assert!(server.ended().await.success(), "{}", server.logs());
    let early = bank.count("after");
    server.restart().await;
    server.until(&run, "completed").await;
    // The naked call was answered and recorded: it is not in doubt, and not repeated.
    assert_eq!((bank.count("pay"), bank.count("after")), (1, 1), "{early} before the restart");
    let shown = server.run(&run).await;
    assert_eq!(shown["open_doubts"], 0);
}

#[tokio::test]
async fn sigterm_with_nothing_to_do_ends_at_once_with_success() {
    let mut server = Server::start().await;
    server.push(&quick("a")).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    server.restart().await;
    assert_eq!(server.trigger("a", Some("k"), json!({})).await.run_id(), run);
}

#[tokio::test]
async fn runs_that_wait_do_not_hold_up_the_end() {
    let mut server = Server::start().await;
    server.push(&crate::harness::flow("a", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT1H}\n")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "waiting").await;
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    server.restart().await;
    assert_eq!(server.run(&run).await["status"], "waiting");
}

#[tokio::test]
async fn a_second_process_on_the_same_store_is_refused() {
    let mut server = Server::start().await;
    server.push(&quick("a")).await;
    let mut second = server.serve_command(&server.path("second"));
    second.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output =
        tokio::task::spawn_blocking(move || second.output().expect("the binary runs")).await.expect("no panic");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!output.stderr.is_empty());
    assert!(!server.path("second").exists());
    // The first one is not disturbed, and after a kill nothing is in the way.
    assert!(!server.trigger("a", Some("k"), json!({})).await.replayed());
    server.restart().await;
    assert!(server.trigger("a", Some("k"), json!({})).await.replayed());
}

#[tokio::test]
async fn who_waits_for_a_run_while_the_server_stops_gets_an_answer_or_a_closed_connection_and_the_key_stands() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/hold/pay"), "effect: keyed")).await;
    let (api, request) =
        ((*server).clone(), server.trigger_request("a", Some("k"), json!({})).header("prefer", "wait=60"));
    let waiting = tokio::spawn(async move { api.try_send(request).await });
    bank.arrived("pay", 1).await;
    server.terminate();
    bank.release("pay", 5);
    if let Ok(answer) = waiting.await.expect("no panic") {
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    assert!(server.ended().await.success());
    server.restart().await;
    let twin = server.trigger_wait("a", Some("k"), json!({})).await;
    assert_eq!((twin.replayed(), twin.json["status"].as_str(), bank.applied("pay")), (true, Some("completed"), 1));
}
