//! Runs of one flow start another: once each, whatever dies in between.

use crate::harness::{PATIENCE, Server, clock_reaches, eventually, flow};
use serde_json::json;
use std::time::{Duration, Instant};

const UP: &str = "inputs:\n  - {id: n, type: INT}\ntasks:\n  - {id: t, type: debug.Return, format: '{{ inputs.n }}'}\noutputs:\n  - {id: n, type: INT, value: '{{ outputs.t.value }}'}\n";
const DOWN: &str = "inputs:\n  - {id: n, type: INT}\ntasks:\n  - {id: t, type: log.Log, message: '{{ inputs.n }}'}\ntriggers:\n  - id: after\n    type: trigger.Flow\n    inputs: {n: '{{ trigger.outputs.n }}'}\n    conditions:\n      - {type: condition.ExecutionFlow, namespace: e2e, flowId: up}\n      - {type: condition.ExecutionStatus, in: [SUCCESS]}\n";
const ROUNDS: i64 = 4;
const EACH: i64 = 10;

#[tokio::test]
async fn each_run_starts_the_next_flow_once_across_kills() {
    let mut server = Server::start().await;
    server.push(&flow("up", UP)).await;
    server.push(&flow("down", DOWN)).await;
    for round in 0..ROUNDS {
        for n in 0..EACH {
            server.trigger("up", None, json!({"n": round * EACH + n})).await.ok();
        }
        // Some have been heard of by now and some have not.
        server.restart().await;
    }
    let wanted = usize::try_from(ROUNDS * EACH).unwrap();
    eventually(PATIENCE, "every run has started one", || async {
        let downs = server.runs_of("down").await;
        (downs.len() >= wanted && downs.iter().all(|run| run["status"] == "completed")).then_some(())
    })
    .await;
    // Whoever would fire twice gets the time for it.
    server.restart().await;
    clock_reaches(Instant::now(), Duration::from_secs(1)).await;
    let downs = server.runs_of("down").await;
    let mut seen: Vec<i64> = downs.iter().filter_map(|run| run["inputs"]["n"].as_i64()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..ROUNDS * EACH).collect::<Vec<_>>());
    let ups: Vec<String> = server.runs_of("up").await.iter().map(|run| run["run_id"].to_string()).collect();
    assert!(downs.iter().all(|run| ups.contains(&run["correlation_id"].to_string())), "the correlation is inherited");
}
