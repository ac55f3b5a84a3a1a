//! Lanes that refuse, Kestra's `concurrency`, and redelivery in each of them.

use crate::harness::{Bank, Server, flow};
use serde_json::json;

fn laned(id: &str, bank: &Bank, lane: &str) -> String {
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    flow(
        id,
        &format!("tasks:\n  - {{id: job, type: http.Request, method: POST, uri: '{url}', effect: keyed}}\n{lane}\n"),
    )
}

#[tokio::test]
async fn reject_refuses_while_the_lane_is_busy_and_spends_no_key() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {busy: reject}")).await;
    let first = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    bank.arrived("job-1", 1).await;
    server.trigger("a", Some("k2"), json!({"n": 2})).await.refused(409, "lane_busy");
    // The twin of the run that holds the lane is no newcomer.
    assert_eq!(server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id(), first);
    bank.release("job-1", 1);
    server.until(&first, "completed").await;
    let second = server.trigger("a", Some("k2"), json!({"n": 2})).await;
    assert!(!second.replayed());
    bank.release("job-2", 1);
    server.until(&second.run_id(), "completed").await;
}

#[tokio::test]
async fn kestras_concurrency_queue_cancel_and_fail() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    for (name, behavior, status) in [("q", "QUEUE", "queued"), ("c", "CANCEL", "cancelled"), ("f", "FAIL", "failed")] {
        let url = bank.url(&format!("/hold/{name}-{{{{ trigger.data.n }}}}"));
        let source = format!(
            "tasks:
  - {{id: job, type: http.Request, method: POST, uri: '{url}', effect: keyed}}
concurrency: {{limit: 1, behavior: {behavior}}}\n"
        );
        server.push(&flow(name, &source)).await;
        let first = server.trigger(name, Some("k1"), json!({"n": 1})).await.run_id();
        bank.arrived(&format!("{name}-1"), 1).await;
        let second = server.trigger(name, Some("k2"), json!({"n": 2})).await;
        assert!(!second.replayed());
        assert_ne!(second.run_id(), first);
        assert_eq!(server.run(&second.run_id()).await["status"], status, "{behavior}");
        let twin = server.trigger(name, Some("k2"), json!({"n": 2})).await;
        assert!(twin.replayed(), "{behavior}");
        assert_eq!(twin.run_id(), second.run_id());
        bank.release(&format!("{name}-1"), 1);
        bank.release(&format!("{name}-2"), 1);
        server.until(&first, "completed").await;
        if behavior == "QUEUE" {
            server.until(&second.run_id(), "completed").await;
        } else {
            assert_eq!(bank.count(&format!("{name}-2")), 0);
        }
        assert_eq!(server.runs_of(name).await.len(), 2);
    }
}

#[tokio::test]
async fn a_failed_holder_lets_the_next_one_go() {
    let server = Server::start().await;
    let source = "tasks:
  - {id: nap, type: flow.Sleep, duration: PT0.3S}
  - {id: no, type: execution.Fail, condition: '{{ trigger.data.n == 1 }}'}
lane: {busy: queue}\n";
    server.push(&flow("a", source)).await;
    let first = server.trigger("a", None, json!({"n": 1})).await.run_id();
    let second = server.trigger("a", None, json!({"n": 2})).await.run_id();
    server.until(&first, "failed").await;
    server.until(&second, "completed").await;
}

#[tokio::test]
async fn a_cancelled_run_leaves_the_queue() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&laned("a", &bank, "lane: {busy: queue}")).await;
    let first = server.trigger("a", None, json!({"n": 1})).await.run_id();
    let second = server.trigger("a", None, json!({"n": 2})).await.run_id();
    let third = server.trigger("a", None, json!({"n": 3})).await.run_id();
    bank.arrived("job-1", 1).await;
    server.control(&second, "cancel").await.ok();
    server.until(&second, "cancelled").await;
    bank.release("job-1", 1);
    bank.arrived("job-3", 1).await;
    bank.release("job-3", 1);
    server.until(&first, "completed").await;
    server.until(&third, "completed").await;
    assert_eq!(bank.count("job-2"), 0);
}

#[tokio::test]
async fn a_held_run_keeps_its_lane() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    let naked = |lane: &str| {
        format!("tasks:\n  - {{id: job, type: http.Request, method: POST, uri: '{url}'}}\nlane: {{busy: {lane}}}\n")
    };
    server.push(&flow("q", &naked("queue"))).await;
    let first = server.trigger("q", None, json!({"n": 1})).await.run_id();
    let second = server.trigger("q", None, json!({"n": 2})).await.run_id();
    bank.arrived("job-1", 1).await;
    server.restart().await;
    server.until(&first, "held").await;
    assert_eq!(server.run(&second).await["status"], "queued");
    server.cli_json(&["run", "verdict", &first, "--done", "--why", "seen"]).await;
    server.until(&first, "completed").await;
    bank.arrived("job-2", 1).await;
    bank.release("job-2", 1);
    server.until(&second, "completed").await;
}

#[tokio::test]
async fn a_lane_whose_holder_is_held_is_not_replaced() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    let source =
        format!("tasks:\n  - {{id: job, type: http.Request, method: POST, uri: '{url}'}}\nlane: {{busy: replace}}\n");
    server.push(&flow("a", &source)).await;
    let first = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    bank.arrived("job-1", 1).await;
    server.restart().await;
    server.until(&first, "held").await;
    server.trigger("a", Some("k2"), json!({"n": 2})).await.refused(409, "held_no_replace");
    assert_eq!((server.runs().await.len(), bank.count("job-2")), (1, 0));
}

#[tokio::test]
async fn what_was_delivered_or_coalesced_survives_a_kill() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    let source = format!(
        "tasks:
  - {{id: job, type: http.Request, method: POST, uri: '{url}', effect: keyed}}
  - {{id: say, type: log.Log, message: '{{{{ run.inbox | length }}}}'}}
lane: {{busy: deliver}}\n"
    );
    server.push(&flow("deliver", &source)).await;
    let source = "tasks:
  - {id: say, type: log.Log, message: 'n={{ trigger.data.n }}'}
lane: {busy: {coalesce: {quiet: PT3S, max: PT20S}}}\n";
    server.push(&flow("coalesce", source)).await;
    let delivered = server.trigger("deliver", Some("k1"), json!({"n": 1})).await.run_id();
    bank.arrived("job-1", 1).await;
    let coalesced = server.trigger("coalesce", Some("k1"), json!({"n": 1})).await.run_id();
    for name in ["deliver", "coalesce"] {
        server.trigger(name, Some("k2"), json!({"n": 2})).await.run_id();
    }
    server.restart().await;
    for name in ["deliver", "coalesce"] {
        let twin = server.trigger(name, Some("k2"), json!({"n": 2})).await;
        assert!(twin.replayed(), "{name}: {}", twin.text);
    }
    bank.release("job-1", 5);
    server.until(&delivered, "completed").await;
    assert_eq!(server.log_lines(&delivered).await, ["1"]);
    server.until(&coalesced, "completed").await;
    assert_eq!(server.log_lines(&coalesced).await, ["n=2"]);
    assert_eq!(server.runs().await.len(), 2);
}

#[tokio::test]
async fn a_resumed_event_does_not_break_into_a_busy_lane() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let (flaky, held) = (bank.url("/flaky/1/once"), bank.url("/hold/job-{{ trigger.data.n }}"));
    let source = format!(
        "tasks:
  - {{id: may_fail, type: http.Request, method: POST, uri: '{flaky}'}}
  - {{id: job, type: http.Request, method: POST, uri: '{held}', effect: keyed}}
lane: {{busy: queue}}
idempotency: {{preset: semel}}\n"
    );
    server.push(&flow("a", &source)).await;
    let first = server.trigger("a", Some("k1"), json!({"n": 1})).await.run_id();
    server.until(&first, "failed").await;
    let second = server.trigger("a", Some("k2"), json!({"n": 2})).await.run_id();
    bank.arrived("job-2", 1).await;
    // The first event comes again while another run has the lane.
    let twin = server.trigger("a", Some("k1"), json!({"n": 1})).await;
    twin.refused(409, "lane_busy");
    assert_eq!(bank.count("job-1"), 0);
    bank.release("job-2", 1);
    server.until(&second, "completed").await;
    bank.release("job-1", 1);
    let again = server.trigger_wait("a", Some("k1"), json!({"n": 1})).await;
    assert_eq!(again.json["status"], "completed", "{}", again.text);
    assert_eq!((again.run_id(), bank.count("job-1")), (first, 1));
}
