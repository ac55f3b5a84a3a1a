//! Lanes: what may run at the same time. A lane never makes a second run of one event.

use crate::harness::{Bank, PATIENCE, Server, eventually, flow};
use serde_json::json;

/// A flow whose runs hold their lane until the bank lets go of `job-N`.
fn laned(id: &str, bank: &Bank, lane: &str) -> String {
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    flow(
        id,
        &format!("tasks:\n  - {{id: job, type: http.Request, method: POST, uri: '{url}', effect: keyed}}\n{lane}\n"),
    )
}

/// A flow whose runs hold their lane with a sleep, so that nothing is in flight.
fn sleepy(id: &str, lane: &str) -> String {
    flow(
        id,
        &format!(
            "tasks:
  - {{id: nap, type: flow.Sleep, duration: PT1M}}
  - {{id: say, type: log.Log, message: '{{{{ trigger.data.n }}}}'}}
{lane}\n"
        ),
    )
}

#[tokio::test]
async fn queued_runs_go_one_by_one_in_order() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {busy: queue}")).await;
    let mut runs = Vec::new();
    for number in 1..=4 {
        let answer = server.trigger("a", Some(&format!("k{number}")), json!({"n": number})).await;
        assert!(!answer.replayed());
        assert_eq!(answer.json["status"], if number == 1 { "started" } else { "queued" });
        runs.push(answer.run_id());
    }
    // A redelivered event that waits is shown its own run and is not queued again.
    let twin = server.trigger("a", Some("k3"), json!({"n": 3})).await;
    assert!(twin.replayed());
    assert_eq!((twin.run_id(), twin.json["status"].as_str()), (runs[2].clone(), Some("queued")));
    for number in 1..=4 {
        bank.arrived(&format!("job-{number}"), 1).await;
        assert_eq!(bank.count(&format!("job-{}", number + 1)), 0);
        bank.release(&format!("job-{number}"), 1);
        server.until(&runs[number - 1], "completed").await;
    }
    assert_eq!(server.runs().await.len(), 4);
    let third = server.trigger("a", Some("k3"), json!({"n": 3})).await;
    assert!(third.replayed());
    assert_eq!(bank.count("job-3"), 1);
}

#[tokio::test]
async fn a_limit_lets_that_many_run() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {limit: 2, busy: queue}")).await;
    let mut runs = Vec::new();
    for number in 1..=3 {
        runs.push(server.trigger("a", None, json!({"n": number})).await.run_id());
    }
    bank.arrived("job-1", 1).await;
    bank.arrived("job-2", 1).await;
    assert_eq!(server.run(&runs[2]).await["status"], "queued");
    bank.release("job-2", 1);
    bank.arrived("job-3", 1).await;
    bank.release("job-1", 1);
    bank.release("job-3", 1);
    for run in &runs {
        server.until(run, "completed").await;
    }
}

#[tokio::test]
async fn lanes_with_other_keys_do_not_wait_for_each_other() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {key: '{{ trigger.data.who }}', busy: queue}")).await;
    server.trigger("a", None, json!({"n": 1, "who": "ann"})).await.run_id();
    server.trigger("a", None, json!({"n": 2, "who": "bob"})).await.run_id();
    let waits = server.trigger("a", None, json!({"n": 3, "who": "ann"})).await;
    bank.arrived("job-1", 1).await;
    bank.arrived("job-2", 1).await;
    assert_eq!((waits.json["status"].as_str(), bank.count("job-3")), (Some("queued"), 0));
    for number in 1..=3 {
        bank.release(&format!("job-{number}"), 1);
    }
    server.until(&waits.run_id(), "completed").await;
}

#[tokio::test]
async fn a_full_queue_refuses_and_spends_no_key() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {busy: {queue: {max: 1}}}")).await;
    let first = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    let second = server.trigger("a", Some("k2"), json!({"n": 2})).await.run_id();
    let full = server.trigger("a", Some("k3"), json!({"n": 3})).await;
    full.refused(429, "queue_full");
    assert!(!full.header("retry-after").is_empty());
    assert_eq!(server.runs().await.len(), 2);
    // The twin of the one that waits is not refused: it takes no place.
    assert!(server.trigger("a", Some("k2"), json!({"n": 2})).await.replayed());
    bank.release("job-1", 1);
    bank.release("job-2", 1);
    server.until(&first, "completed").await;
    server.until(&second, "completed").await;
    let third = server.trigger("a", Some("k3"), json!({"n": 3})).await;
    assert!(!third.replayed());
    bank.release("job-3", 1);
    server.until(&third.run_id(), "completed").await;
}

#[tokio::test]
async fn replace_cancels_what_runs() {
    let server = Server::start().await;
    server.push(&sleepy("a", "lane: {busy: replace}")).await;
    let old = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    server.until(&old, "waiting").await;
    let new = server.trigger("a", Some("k2"), json!({"n": 2})).await;
    assert!(!new.replayed());
    assert_eq!(server.until(&old, "cancelled").await["outputs"], json!(null));
    assert_eq!(server.until(&new.run_id(), "waiting").await["generation"], 1);
    // The old event again is a twin of the cancelled run and replaces nothing.
    let twin = server.trigger("a", Some("k1"), json!({"n": 1})).await;
    assert!(twin.replayed());
    assert_eq!((twin.run_id(), twin.json["status"].as_str()), (old.clone(), Some("cancelled")));
    assert_eq!(server.run(&new.run_id()).await["status"], "waiting");
    server.control(&old, "pause").await.refused(409, "not_possible");
    assert_eq!(server.log_lines(&old).await, Vec::<String>::new());
}

#[tokio::test]
async fn replace_waits_for_an_effect_in_flight() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {busy: replace}")).await;
    let old = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    bank.arrived("job-1", 1).await;
    let new = server.trigger("a", Some("k2"), json!({"n": 2})).await;
    assert!(!new.replayed());
    assert_eq!(new.json["status"], "queued");
    assert_eq!(bank.count("job-2"), 0);
    // What was sent is not forgotten: its outcome is recorded before the lane changes hands.
    bank.release("job-1", 1);
    server.until(&old, "cancelled").await;
    let steps = server.all(&format!("/v1/runs/{old}/steps")).await;
    assert_eq!(steps[0]["state"], "done", "{steps:?}");
    bank.arrived("job-2", 1).await;
    bank.release("job-2", 1);
    server.until(&new.run_id(), "completed").await;
    assert_eq!((bank.count("job-1"), bank.count("job-2")), (1, 1));
}

#[tokio::test]
async fn coalesce_makes_one_run_of_the_last_payload() {
    let server = Server::start().await;
    let source = "tasks:
  - {id: say, type: log.Log, message: 'n={{ trigger.data.n }}'}
lane: {busy: {coalesce: {quiet: PT2S, max: PT20S}}}\n";
    server.push(&flow("a", source)).await;
    let first = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    for number in 2..=5 {
        let answer = server.trigger("a", Some(&format!("k{number}")), json!({"n": number})).await;
        assert_eq!(answer.run_id(), first, "{}", answer.text);
    }
    // A redelivery is not a newer payload.
    assert!(server.trigger("a", Some("k2"), json!({"n": 2})).await.replayed());
    server.until(&first, "completed").await;
    assert_eq!(server.log_lines(&first).await, ["n=5"]);
    assert_eq!(server.runs().await.len(), 1);
    // All of its events are known afterwards.
    for number in 1..=5 {
        let twin = server.trigger("a", Some(&format!("k{number}")), json!({"n": number})).await;
        assert!(twin.replayed(), "k{number}");
        assert_eq!(twin.run_id(), first);
    }
}

#[tokio::test]
async fn deliver_hands_the_payload_to_the_run_that_holds_the_lane() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    let source = format!(
        "tasks:
  - {{id: job, type: http.Request, method: POST, uri: '{url}', effect: keyed}}
  - {{id: say, type: log.Log, message: '{{{{ run.inbox | length }}}}: {{{{ run.inbox | toJson }}}}'}}
lane: {{busy: deliver}}\n"
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    bank.arrived("job-1", 1).await;
    let second = server.trigger("a", Some("k2"), json!({"n": 2})).await;
    assert_eq!(second.run_id(), run);
    assert!(!second.replayed());
    for _ in 0..3 {
        assert!(server.trigger("a", Some("k2"), json!({"n": 2})).await.replayed());
    }
    bank.release("job-1", 1);
    server.until(&run, "completed").await;
    let lines = server.log_lines(&run).await;
    assert!(lines[0].starts_with("1: ") && lines[0].contains("\"n\":2"), "{lines:?}");
    assert_eq!(server.runs().await.len(), 1);
    let decisions = eventually(PATIENCE, "the decisions", || async {
        let rows = server.all("/v1/decisions?key=k2").await;
        (rows.len() == 4).then_some(rows)
    })
    .await;
    assert_eq!(decisions.iter().filter(|row| row["decision"] == "deliver").count(), 1);
}
