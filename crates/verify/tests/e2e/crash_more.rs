//! `kill -9` while a run sleeps, loops, waits for a sub-run, or waits in a lane.

use crate::harness::{Bank, Server, flow, post};
use serde_json::json;
use std::time::Instant;

#[tokio::test]
async fn a_sleep_goes_on_across_a_kill_and_ends_on_time() {
    let mut server = Server::start().await;
    server
        .push(&flow(
            "a",
            "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT4S}\n  - {id: say, type: log.Log, message: awake}\n",
        ))
        .await;
    let began = Instant::now();
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "waiting").await;
    server.restart().await;
    assert_eq!(server.run(&run).await["status"], "waiting");
    server.until(&run, "completed").await;
    assert!(began.elapsed().as_millis() >= 4_000, "{:?}", began.elapsed());
    assert_eq!(server.log_lines(&run).await, ["awake"]);
}

#[tokio::test]
async fn a_sleep_that_ended_while_the_server_was_down_ends_at_its_start() {
    let mut server = Server::start().await;
    server.push(&flow("a", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT2S}\n")).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "waiting").await;
    server.kill9();
    crate::harness::clock_reaches(Instant::now(), std::time::Duration::from_millis(2_100)).await;
    server.restart().await;
    server.until(&run, "completed").await;
}

#[tokio::test]
async fn a_loop_goes_on_where_it_was() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let (naive, held) = (bank.url("/naive/item-{{ taskrun.value }}"), bank.url("/hold/gate-{{ taskrun.value }}"));
    let source = format!(
        "tasks:
  - id: each
    type: flow.ForEach
    values: [a, b, c, d]
    tasks:
      - {{id: first, type: http.Request, method: POST, uri: '{naive}'}}
      - {{id: second, type: http.Request, method: POST, uri: '{held}', effect: keyed}}\n"
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.release("gate-a", 9);
    bank.arrived("gate-b", 1).await;
    server.restart().await;
    for name in ["gate-b", "gate-c", "gate-d"] {
        bank.release(name, 9);
    }
    server.until(&run, "completed").await;
    for item in ["item-a", "item-b", "item-c", "item-d"] {
        assert_eq!(bank.count(item), 1, "{item}");
    }
    assert_eq!((bank.count("gate-a"), bank.count("gate-b"), bank.applied("gate-b")), (1, 2, 1));
    // Each iteration is a step of its own, so each has a key of its own.
    assert_ne!(bank.keys("gate-a")[0], bank.keys("gate-b")[0]);
}

#[tokio::test]
async fn parallel_branches_each_know_what_they_had_done() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let branch = |name: &str| {
        let (naive, held) = (bank.url(&format!("/naive/{name}-1")), bank.url(&format!("/hold/{name}-2")));
        format!(
            "      - id: {name}
        type: flow.Sequential
        tasks:
          - {{id: {name}_1, type: http.Request, method: POST, uri: '{naive}'}}
          - {{id: {name}_2, type: http.Request, method: POST, uri: '{held}', effect: keyed}}\n"
        )
    };
    let source =
        format!("tasks:\n  - id: both\n    type: flow.Parallel\n    tasks:\n{}{}", branch("left"), branch("right"));
    server.push(&flow("a", &source)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("left-2", 1).await;
    bank.arrived("right-2", 1).await;
    server.restart().await;
    bank.release("left-2", 9);
    bank.release("right-2", 9);
    server.until(&run, "completed").await;
    for name in ["left", "right"] {
        assert_eq!((bank.count(&format!("{name}-1")), bank.applied(&format!("{name}-2"))), (1, 1));
    }
}

#[tokio::test]
async fn a_sub_run_and_its_parent_both_go_on() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let child = post("child", &bank.url("/hold/pay"), "effect: keyed")
        + "outputs:\n  - {id: code, type: INT, value: '{{ outputs.pay.code }}'}\n";
    server.push(&child).await;
    let after = bank.url("/naive/after");
    let before = bank.url("/naive/before");
    let source = format!(
        "tasks:
  - {{id: before, type: http.Request, method: POST, uri: '{before}'}}
  - {{id: sub, type: flow.Subflow, namespace: e2e, flowId: child}}
  - {{id: after, type: http.Request, method: POST, uri: '{after}'}}
outputs:
  - {{id: code, type: INT, value: '{{{{ outputs.sub.outputs.code }}}}'}}\n"
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    server.restart().await;
    bank.release("pay", 9);
    let ended = server.until(&run, "completed").await;
    assert_eq!(ended["outputs"], json!({"code": 200}));
    assert_eq!((bank.count("before"), bank.applied("pay"), bank.count("after")), (1, 1, 1));
    assert_eq!(server.runs_of("child").await.len(), 1);
}

#[tokio::test]
async fn a_lanes_holder_and_its_queue_survive() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    let url = bank.url("/hold/job-{{ trigger.data.n }}");
    let source = format!(
        "tasks:
  - {{id: job, type: http.Request, method: POST, uri: '{url}', effect: keyed}}
lane: {{busy: queue}}\n"
    );
    server.push(&flow("a", &source)).await;
    let mut runs = Vec::new();
    for number in 1..=3 {
        runs.push(server.trigger("a", Some(&format!("k{number}")), json!({"n": number})).await.run_id());
    }
    bank.arrived("job-1", 1).await;
    server.restart().await;
    assert_eq!(server.run(&runs[1]).await["status"], "queued");
    assert_eq!(server.run(&runs[2]).await["status"], "queued");
    bank.release("job-1", 9);
    bank.arrived("job-2", 1).await;
    assert_eq!(bank.count("job-3"), 0);
    server.restart().await;
    bank.release("job-2", 9);
    bank.release("job-3", 9);
    for (number, run) in runs.iter().enumerate() {
        server.until(run, "completed").await;
        assert_eq!(bank.applied(&format!("job-{}", number + 1)), 1);
        assert!(server.trigger("a", Some(&format!("k{}", number + 1)), json!({"n": number + 1})).await.replayed());
    }
}

#[tokio::test]
async fn every_acknowledged_event_is_there_after_a_kill_in_the_middle_of_a_burst() {
    let mut server = Server::start().await;
    server.push(&flow("a", "tasks:\n  - {id: say, type: log.Log, message: hi}\n")).await;
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let (api, request) =
                ((*server).clone(), server.trigger_request("a", Some(&format!("k{number}")), json!({})));
            tokio::spawn(async move { (number, api.try_send(request).await) })
        })
        .collect();
    let mut acknowledged = Vec::new();
    let mut calls = calls.into_iter();
    for call in calls.by_ref().take(40) {
        acknowledged.push(call.await.expect("no panic"));
    }
    server.kill9();
    for call in calls {
        acknowledged.push(call.await.expect("no panic"));
    }
    server.restart().await;
    let mut kept = 0;
    for (number, answer) in acknowledged {
        let again = server.trigger("a", Some(&format!("k{number}")), json!({})).await;
        if let Ok(answer) = answer
            && answer.status == 200
        {
            assert!(again.replayed(), "k{number} was acknowledged and is forgotten");
            assert_eq!(again.run_id(), answer.run_id());
            kept += 1;
        }
        server.until(&again.run_id(), "completed").await;
    }
    assert!(kept >= 40, "{kept}");
    assert_eq!(server.runs().await.len(), 200);
}
