//! `kill -9` at the worst moment, then a new process on the same store.

use crate::harness::{Bank, Server, flow, post};
use serde_json::json;

/// Five POSTs in a row; those named in `held` wait at the bank for the test. `effect` is the class of all.
fn five(bank: &Bank, held: &[u32], effect: &str) -> String {
    let steps = (1..=5).map(|number| {
        let way = if held.contains(&number) { "hold" } else { "naive" };
        let url = bank.url(&format!("/{way}/s{number}"));
        format!("  - {{id: s{number}, type: http.Request, method: POST, uri: '{url}', body: '{number}'{effect}}}\n")
    });
    let steps: String = steps.collect();
    flow("five", &format!("tasks:\n{steps}outputs:\n  - {{id: last, type: INT, value: '{{{{ outputs.s5.code }}}}'}}\n"))
}

fn counts(bank: &Bank) -> Vec<usize> {
    (1..=5).map(|number| bank.count(&format!("s{number}"))).collect()
}

#[tokio::test]
async fn finished_steps_are_not_repeated_and_a_keyed_one_is_repeated_with_its_key() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&five(&bank, &[3], ", effect: keyed")).await;
    let run = server.trigger("five", Some("k"), json!({})).await.run_id();
    bank.arrived("s3", 1).await;
    server.kill9();
    bank.release("s3", 10);
    server.restart().await;
    let ended = server.until(&run, "completed").await;
    assert_eq!(ended["outputs"], json!({"last": 200}));
    assert_eq!(counts(&bank), [1, 1, 2, 1, 1]);
    let keys = bank.keys("s3");
    assert_eq!((keys[0] == keys[1], keys[0].is_empty()), (true, false));
    assert_eq!(bank.applied("s3"), 1);
    assert!(server.trigger("five", Some("k"), json!({})).await.replayed());
}

#[tokio::test]
async fn a_naked_call_that_was_cut_off_holds_the_run() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&five(&bank, &[3], "")).await;
    let run = server.trigger("five", Some("k"), json!({})).await.run_id();
    bank.arrived("s3", 1).await;
    server.restart().await;
    let held = server.until(&run, "held").await;
    assert_eq!((&held["open_doubts"], &held["ended_at"]), (&json!(1), &json!(null)));
    // A twin neither repeats nor releases it.
    let twin = server.trigger("five", Some("k"), json!({})).await;
    assert!(twin.replayed());
    assert_eq!((twin.run_id(), twin.json["status"].as_str()), (run.clone(), Some("held")));
    assert_eq!(counts(&bank), [1, 1, 1, 0, 0]);
    // Nor does another restart.
    server.restart().await;
    assert_eq!(server.run(&run).await["status"], "held");
    server.delete(&format!("/v1/runs/{run}")).await.refused(409, "doubt_open");
    // The verdict does, through the command line.
    let shown =
        server.cli_json(&["run", "verdict", &run, "--done", r#"{"code": 200}"#, "--why", "the bank shows it"]).await;
    assert_eq!(shown["run_id"], run.as_str());
    server.until(&run, "completed").await;
    assert_eq!(counts(&bank), [1, 1, 1, 1, 1]);
    let journal = server.journal(&run).await;
    let verdict = journal.iter().find(|event| event["event"] == "verdict").expect("a verdict").to_string();
    assert!(verdict.contains("the bank shows it"), "{verdict}");
}

#[tokio::test]
async fn the_verdict_repeat_sends_the_same_key_and_repeat_new_key_another() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    for (flag, same) in [("--repeat", true), ("--repeat-new-key", false)] {
        let name = if same { "same" } else { "new" };
        server.push(&post(name, &bank.url(&format!("/hold/{name}")), "")).await;
        let run = server.trigger(name, Some("k"), json!({})).await.run_id();
        bank.arrived(name, 1).await;
        server.restart().await;
        server.until(&run, "held").await;
        bank.release(name, 10);
        server.cli_json(&["run", "verdict", &run, flag, "--why", "the bank has nothing"]).await;
        server.until(&run, "completed").await;
        let keys = bank.keys(name);
        assert_eq!(keys.len(), 2);
        assert_eq!(keys[0] == keys[1], same, "{keys:?}");
    }
}

#[tokio::test]
async fn the_verdict_fail_runs_the_error_handlers() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let source = post("a", &bank.url("/hold/pay"), "") + "errors:\n  - {id: alarm, type: log.Log, message: alarm}\n";
    server.push(&source).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.restart().await;
    server.until(&run, "held").await;
    server.cli_json(&["run", "verdict", &run, "--fail", "--why", "paid in cash"]).await;
    let ended = server.until(&run, "failed").await;
    assert_eq!((&ended["open_doubts"], bank.count("pay")), (&json!(0), 1));
    assert_eq!(server.log_lines(&run).await, ["an operator decided that the step failed", "alarm"]);
}

#[tokio::test]
async fn a_run_survives_being_killed_at_every_step() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&five(&bank, &[1, 2, 3, 4, 5], ", effect: keyed")).await;
    let run = server.trigger("five", Some("k"), json!({})).await.run_id();
    for number in 1..=5 {
        let name = format!("s{number}");
        bank.arrived(&name, 1).await;
        server.restart().await;
        bank.arrived(&name, 2).await;
        // The first one waits on a connection that nobody reads any more.
        bank.release(&name, 2);
    }
    server.until(&run, "completed").await;
    for number in 1..=5 {
        let name = format!("s{number}");
        let keys = bank.keys(&name);
        assert!(keys.len() >= 2 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(bank.applied(&name), 1);
    }
}

#[tokio::test]
async fn a_read_and_a_repeatable_call_are_simply_repeated() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    for (name, method) in [("read", "GET"), ("put", "PUT")] {
        let url = bank.url(&format!("/hold/{name}"));
        server
            .push(&flow(
                name,
                &format!("tasks:\n  - {{id: call, type: http.Request, method: {method}, uri: '{url}'}}\n"),
            ))
            .await;
        let run = server.trigger(name, Some("k"), json!({})).await.run_id();
        bank.arrived(name, 1).await;
        server.restart().await;
        bank.arrived(name, 2).await;
        bank.release(name, 2);
        server.until(&run, "completed").await;
    }
}

#[tokio::test]
async fn on_doubt_decides_beforehand() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("again", &bank.url("/hold/again"), "on_doubt: repeat")).await;
    server.push(&post("stop", &bank.url("/hold/stop"), "on_doubt: fail")).await;
    let again = server.trigger("again", Some("k"), json!({})).await.run_id();
    let stop = server.trigger("stop", Some("k"), json!({})).await.run_id();
    bank.arrived("again", 1).await;
    bank.arrived("stop", 1).await;
    server.restart().await;
    bank.arrived("again", 2).await;
    bank.release("again", 2);
    server.until(&again, "completed").await;
    // It fails, and its doubt stays open: no twin and no restart may repeat the call.
    let ended = server.until(&stop, "held").await;
    assert_eq!((&ended["open_doubts"], &ended["error"]["code"]), (&json!(1), &json!("crashed")));
    assert_ne!(ended["ended_at"], json!(null));
    server.control(&stop, "restart").await.refused(409, "not_possible");
    assert_eq!(bank.count("stop"), 1);
}
