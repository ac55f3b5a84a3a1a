//! Schedules: each tick is an event with a key of its own.

use crate::harness::{PATIENCE, Server, eventually, flow};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::time::Duration;

fn every_second(more: &str) -> String {
    let trigger =
        format!("triggers:\n  - {{id: tick, type: trigger.Schedule, cron: '* * * * * *', withSeconds: true{more}}}\n");
    flow("a", &format!("tasks:\n  - {{id: say, type: log.Log, message: '{{{{ trigger.date }}}}'}}\n{trigger}"))
}

async fn at_least(server: &Server, count: usize) -> Vec<Json> {
    eventually(PATIENCE, "enough ticks", || async {
        let runs = server.runs_of("a").await;
        (runs.len() >= count).then_some(runs)
    })
    .await
}

fn keys(runs: &[Json]) -> Vec<String> {
    runs.iter().map(|run| run["key"].as_str().unwrap_or_else(|| panic!("no key: {run}")).to_owned()).collect()
}

#[tokio::test]
async fn a_schedule_fires_once_per_instant_also_across_kills() {
    let mut server = Server::start().await;
    server.push(&every_second("")).await;
    let before = at_least(&server, 2).await.len();
    server.restart().await;
    let between = at_least(&server, before + 2).await.len();
    server.restart().await;
    let runs = at_least(&server, between + 2).await;
    let keys = keys(&runs);
    let unique: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(unique.len(), keys.len(), "{keys:?}");
    for run in &runs {
        assert_eq!(run["door"], "schedule");
        server.until(run["run_id"].as_str().expect("an id"), "completed").await;
    }
    let rows = server.get("/v1/schedules").await.ok();
    assert_eq!(rows["items"][0]["trigger"], "tick");
    assert!(rows["items"][0]["next_due"].is_string() && rows["items"][0]["last_fired"].is_string(), "{rows}");
}

#[tokio::test]
async fn missed_instants_follow_the_rule() {
    for (rule, least, most) in [("ALL", 2, 60), ("LAST", 0, 1), ("NONE", 0, 0)] {
        let mut server = Server::start().await;
        server.push(&every_second(&format!(", recoverMissedSchedules: {rule}"))).await;
        at_least(&server, 1).await;
        server.stop().await;
        let down = now_ms();
        crate::harness::clock_reaches(std::time::Instant::now(), Duration::from_millis(4_200)).await;
        let up = now_ms();
        server.restart().await;
        // A tick after the start proves that what was missed has been dealt with.
        let runs = eventually(PATIENCE, "a tick after the start", || async {
            let runs = server.runs_of("a").await;
            let after = |run: &Json| instant(run) > up + 1_500;
            runs.iter().any(after).then_some(runs)
        })
        .await;
        // An instant less than a second ago is late, not missed.
        let missed = runs.iter().filter(|run| instant(run) > down && instant(run) <= up - 1_000).count();
        assert!((least..=most).contains(&missed), "{rule}: {missed} of {:?}", keys(&runs));
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("fits")
}

/// The nominal instant of a tick, which its key names.
fn instant(run: &Json) -> i64 {
    let key = run["key"].as_str().unwrap_or_default();
    let at = key.strip_prefix("tick ").and_then(semel_core::Millis::parse_rfc3339);
    at.unwrap_or_else(|| panic!("no instant in {key}")).0
}

#[tokio::test]
async fn a_disabled_trigger_and_a_removed_one_do_not_fire() {
    let server = Server::start().await;
    server.push(&every_second("")).await;
    at_least(&server, 1).await;
    server.push(&every_second(", disabled: true")).await;
    let count = server.runs_of("a").await.len();
    let began = std::time::Instant::now();
    crate::harness::clock_reaches(began, Duration::from_millis(2_500)).await;
    let after = server.runs_of("a").await.len();
    // One tick may have been under way while the flow changed.
    assert!(after <= count + 1, "{count} and then {after}");
}
