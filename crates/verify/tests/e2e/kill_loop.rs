//! Kills at many moments, under load, with the bank as the judge.

use crate::harness::{Bank, PATIENCE, Server, clock_reaches, eventually, flow};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const EVENTS: usize = 120;
const KILLS: u64 = 14;

fn parent(bank: &Bank) -> String {
    let keyed = bank.url("/dedupe/keyed-{{ trigger.data.n }}");
    let naked = bank.url("/slow/15/naked-{{ trigger.data.n }}");
    let each = bank.url("/dedupe/each-{{ trigger.data.n }}-{{ taskrun.value }}");
    let tasks = [
        format!("  - {{id: keyed, type: http.Request, method: POST, uri: '{keyed}', effect: keyed}}"),
        "  - {id: seen, type: kv.Set, key: 'seen-{{ trigger.data.n }}', value: '{{ run.id }}', overwrite: false}"
            .to_owned(),
        format!("  - {{id: naked, type: http.Request, method: POST, uri: '{naked}'}}"),
        format!(
            "  - id: each
    type: flow.ForEach
    values: [x, y]
    concurrencyLimit: 2
    tasks:
      - {{id: one, type: http.Request, method: POST, uri: '{each}', effect: keyed}}"
        ),
        "  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, inputs: {n: '{{ trigger.data.n }}'}}"
            .to_owned(),
    ];
    flow("parent", &format!("tasks:\n{}\nlane: {{limit: 12, busy: queue}}\n", tasks.join("\n")))
}

fn child(bank: &Bank) -> String {
    let url = bank.url("/dedupe/child-{{ inputs.n }}");
    flow(
        "child",
        &format!(
            "inputs:
  - {{id: n, type: STRING}}
tasks:
  - {{id: pay, type: http.Request, method: POST, uri: '{url}', effect: keyed}}\n"
        ),
    )
}

/// Sends one event until it is acknowledged, as a provider does; remembers what was promised.
async fn deliver(server: &Server, promised: &mut BTreeMap<usize, String>, number: usize) {
    let request = server.trigger_request("parent", Some(&format!("evt-{number}")), json!({"n": number.to_string()}));
    if let Ok(answer) = server.try_send(request).await
        && answer.status == 200
    {
        let run = answer.run_id();
        let known = promised.entry(number).or_insert_with(|| run.clone());
        assert_eq!(*known, run, "evt-{number} has two runs");
    }
}

/// Decides every doubt by looking at the bank; returns how many there were.
async fn judge(server: &Server, bank: &Bank) -> usize {
    let held = server.all("/v1/runs?status=held").await;
    for run in &held {
        let id = run["run_id"].as_str().expect("an id");
        let number = run["key"].as_str().and_then(|key| key.strip_prefix("evt-")).expect("a parent");
        let verdict = match bank.applied(&format!("naked-{number}")) {
            0 => json!({"verdict": "repeat", "why": "the bank has nothing"}),
            _ => json!({"verdict": "done", "result": {"code": 200}, "why": "the bank has it"}),
        };
        server.post(&format!("/v1/runs/{id}/verdict"), verdict).await.ok();
    }
    held.len()
}

#[tokio::test]
async fn whatever_moment_the_process_dies_each_event_has_one_run_and_each_effect_happens_once() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&child(&bank)).await;
    server.push(&parent(&bank)).await;
    let mut promised = BTreeMap::new();
    let mut doubts = 0;
    let late = std::cell::Cell::new(0);
    for kill in 0..KILLS {
        let share = EVENTS / KILLS as usize + 1;
        let first = kill as usize * share;
        for number in first..(first + share).min(EVENTS) {
            deliver(&server, &mut promised, number).await;
            if number % 3 == 0 {
                deliver(&server, &mut promised, number / 2).await;
            }
        }
        // Spread over the life of the runs: 3 to about 400 ms after the last delivery.
        clock_reaches(Instant::now(), Duration::from_millis(3 + (kill * 89) % 397)).await;
        server.restart().await;
        doubts += judge(&server, &bank).await;
    }
    for number in 0..EVENTS {
        deliver(&server, &mut promised, number).await;
    }
    assert_eq!(promised.len(), EVENTS);
    eventually(PATIENCE * 3, "all runs end", || async {
        late.set(late.get() + judge(&server, &bank).await);
        let open = server.all("/v1/runs?status=queued,running,waiting,held").await;
        open.is_empty().then_some(())
    })
    .await;
    let runs = server.runs_of("parent").await;
    assert_eq!((runs.len(), server.runs_of("child").await.len()), (EVENTS, EVENTS));
    let unhappy: Vec<&Json> = runs.iter().filter(|run| run["status"] != "completed").collect();
    assert!(unhappy.is_empty(), "{unhappy:?}");
    let mut wire = 0;
    for number in 0..EVENTS {
        for name in [
            format!("keyed-{number}"),
            format!("each-{number}-x"),
            format!("each-{number}-y"),
            format!("child-{number}"),
        ] {
            let keys = bank.keys(&name);
            assert_eq!(bank.applied(&name), 1, "{name}: {keys:?}");
            wire += keys.len() - 1;
        }
        let naked = format!("naked-{number}");
        assert_eq!((bank.count(&naked), bank.applied(&naked)), (1, 1), "{naked}");
        assert_eq!(server.get(&format!("/v1/kv/e2e/seen-{number}")).await.ok()["value"], promised[&number].as_str());
    }
    eprintln!(
        "{KILLS} kills, {EVENTS} events, {} doubts judged, {wire} keyed calls reached the wire again",
        doubts + late.get()
    );
}
