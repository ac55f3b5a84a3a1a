//! Long loops: every item once, memory bounded, cost linear in events.

use crate::harness::{Bank, Server, flow};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(150);
const MEMORY_BYTES_MAX: u64 = 512 * 1024 * 1024;

fn looped(limit: u32, inner: &str) -> String {
    let head = "inputs:\n  - {id: items, type: ARRAY, itemType: INT}\ntasks:\n";
    flow(
        "each",
        &format!(
            "{head}  - id: each
    type: flow.ForEach
    values: '{{{{ inputs.items }}}}'
    concurrencyLimit: {limit}
    tasks:
      - {inner}\n"
        ),
    )
}

async fn finished(server: &Server, count: usize) -> (Json, Duration) {
    let items: Vec<usize> = (0..count).collect();
    let began = Instant::now();
    let answer = server.trigger("each", None, json!({"items": items})).await;
    let run = server.until_within(LIMIT, &answer.run_id(), "completed").await;
    (run, began.elapsed())
}

/// Events of a run by name, read from the store's file: over HTTP it would take hundreds of pages.
fn events(server: &Server, run: &Json) -> (usize, BTreeMap<String, usize>) {
    let file = rusqlite::Connection::open_with_flags(server.store(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the store");
    let id = run["run_id"].as_str().expect("an id").replace('-', "");
    let mut rows =
        file.prepare("SELECT events FROM journal WHERE lower(hex(run)) = ?1 ORDER BY seq").expect("a journal");
    let rows: Vec<Vec<u8>> =
        rows.query_map([id], |row| row.get(0)).expect("rows").map(|row| row.expect("a row")).collect();
    let mut names = BTreeMap::new();
    for row in &rows {
        let events: Json = serde_json::from_slice(row).expect("events");
        for event in events.as_array().expect("a list") {
            *names.entry(event["event"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
        }
    }
    (rows.len(), names)
}

#[tokio::test]
async fn ten_thousand_items_64_at_once() {
    let server = Server::start().await;
    server.push(&looped(64, "{id: item, type: debug.Return, format: '{{ taskrun.value }}'}")).await;
    let (run, took) = finished(&server, 10_000).await;
    let (rows, names) = events(&server, &run);
    // Each item starts and ends once; nothing but a few rows per fuse is added.
    assert!(names["step_ended"] >= 10_000 && names.values().sum::<usize>() <= 50_000, "{names:?}");
    assert!(rows <= 2_000, "{rows} rows");
    assert!(server.resident_bytes() < MEMORY_BYTES_MAX, "{}", server.resident_bytes());
    eprintln!("10,000 items: {took:?}, {rows} rows, {names:?}, {} MiB", server.resident_bytes() >> 20);
}

#[tokio::test]
async fn a_hundred_thousand_items_one_by_one() {
    let server = Server::start().await;
    server.push(&looped(1, "{id: item, type: log.Log, message: x}")).await;
    let (_, small) = finished(&server, 10_000).await;
    let (run, took) = finished(&server, 100_000).await;
    let (rows, names) = events(&server, &run);
    assert!(names["step_ended"] >= 100_000 && names.values().sum::<usize>() <= 500_000, "{names:?}");
    assert!(rows <= 20_000, "{rows} rows");
    // Ten times the items must not cost a hundred times the time; a quarter of that leaves room for a busy machine.
    assert!(took < small * 25 + Duration::from_secs(2), "{small:?} for 10,000 and {took:?} for 100,000");
    assert!(server.resident_bytes() < MEMORY_BYTES_MAX, "{}", server.resident_bytes());
    eprintln!("100,000 items: {took:?} (10,000: {small:?}), {rows} rows, {} MiB", server.resident_bytes() >> 20);
}

#[tokio::test]
async fn a_long_loop_survives_a_kill_in_its_middle() {
    let mut server = Server::start().await;
    server.push(&looped(1, "{id: item, type: log.Log, message: '{{ taskrun.value }}'}")).await;
    let items: Vec<usize> = (0..8_000).collect();
    let run = server.trigger("each", None, json!({"items": items})).await.run_id();
    crate::harness::eventually(crate::harness::PATIENCE, "the loop is under way", || async {
        let logs = server.get(&format!("/v1/runs/{run}/logs?limit=1")).await.ok();
        (!logs["items"].as_array().expect("items").is_empty()).then_some(())
    })
    .await;
    server.restart().await;
    server.until_within(LIMIT, &run, "completed").await;
    // Each item is logged once, in order: what was committed is not done again.
    let lines = server.log_lines(&run).await;
    let expected: Vec<String> = items.iter().map(usize::to_string).collect();
    assert_eq!(lines.len(), expected.len());
    assert!(lines == expected);
}

#[tokio::test]
async fn effects_in_a_loop_respect_the_limit_and_happen_once_each() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let url = bank.url("/hold/gate");
    server
        .push(&looped(
            3,
            &format!("{{id: item, type: http.Request, method: POST, uri: '{url}', body: '{{{{ taskrun.value }}}}'}}"),
        ))
        .await;
    let run = server.trigger("each", None, json!({"items": [0, 1, 2, 3, 4, 5, 6, 7]})).await.run_id();
    bank.arrived("gate", 3).await;
    let open = server.run(&run).await["open_intents"].clone();
    assert_eq!((open, bank.count("gate")), (json!(3), 3));
    bank.release("gate", 8);
    server.until(&run, "completed").await;
    let mut bodies: Vec<String> = bank.calls("gate").into_iter().map(|call| call.body).collect();
    bodies.sort();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    let keys: std::collections::BTreeSet<String> = bank.keys("gate").into_iter().collect();
    assert_eq!(keys.len(), 8);
}

#[tokio::test]
async fn one_item_too_many_is_refused_before_anything_runs() {
    let server = Server::start().await;
    server.push(&looped(1, "{id: item, type: log.Log, message: x}")).await;
    let items: Vec<u8> = vec![1; 100_001];
    let answer = server.trigger_wait("each", None, json!({"items": items})).await;
    assert_eq!(answer.json["status"], "failed", "{}", answer.text);
    assert!(server.log_lines(&answer.run_id()).await.is_empty());
}
