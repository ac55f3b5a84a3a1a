//! `semel check`: clean on whatever a server leaves, and sees every damage done to it.

use crate::harness::{Bank, PATIENCE, Server, eventually, flow, post, quick};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Runs `semel check --json` on a file; its exit code and report.
pub fn check(server: &Server, store: &Path, more: &[&str]) -> (i32, Json) {
    let mut command = server.command();
    command.args(["check", "--json", "--store"]).arg(format!("sqlite:{}", store.display())).args(more);
    let output: Output = command.output().expect("the binary runs");
    let envelope: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no envelope: {output:?}"));
    let report = if envelope["ok"] == true { &envelope["data"] } else { &envelope["error"]["details"] };
    (output.status.code().expect("an exit code"), report.clone())
}

pub fn codes(report: &Json) -> Vec<String> {
    let list = report["violations"].as_array().cloned().unwrap_or_default();
    let mut codes: Vec<String> = list.iter().map(|v| v["code"].as_str().unwrap_or_default().to_owned()).collect();
    codes.sort();
    codes.dedup();
    codes
}

/// A store with something of everything, and the server that made it (stopped).
async fn world() -> (Server, Bank) {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&quick("quick")).await;
    server.push(&post("paid", &bank.url("/naive/paid"), "")).await;
    server.push(&post("doubt", &bank.cut_url("doubt"), "")).await;
    server.push(&flow("nap", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT1H}\n")).await;
    let lane = "lane: {key: x, busy: queue}\ntasks:\n  - {id: nap, type: flow.Sleep, duration: PT1H}\n";
    server.push(&flow("lined", lane)).await;
    let child = "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: nap, wait: true}\n";
    server.push(&flow("parent", child)).await;
    let labelled = "labels: {team: shop}\ntasks:\n  - {id: say, type: log.Log, message: hello}\n";
    server.push(&flow("labelled", labelled)).await;
    let wait = |flow: &'static str, key: &'static str| server.trigger_wait(flow, Some(key), json!({"n": 1}));
    for (flow, key) in [("quick", "q"), ("paid", "p"), ("doubt", "d"), ("labelled", "l"), ("quick", "e")] {
        wait(flow, key).await.run_id();
    }
    assert!(server.trigger("quick", Some("q"), json!({"n": 1})).await.replayed());
    let erased = server.trigger("quick", Some("e"), json!({"n": 1})).await.run_id();
    assert_eq!(server.post(&format!("/v1/runs/{erased}/erase"), json!({})).await.status, 204);
    let parent = server.trigger("parent", Some("up"), json!({})).await.run_id();
    eventually(PATIENCE, "the sub-run sleeps", async || {
        let children = server.all(&format!("/v1/runs/{parent}/children")).await;
        children.iter().any(|child| child["status"] == "waiting").then_some(())
    })
    .await;
    for (flow, key) in [("nap", "n"), ("lined", "one"), ("lined", "two")] {
        let run = server.trigger(flow, Some(key), json!({})).await.run_id();
        server.until(&run, if key == "two" { "queued" } else { "waiting" }).await;
    }
    server.until(&server.trigger("doubt", Some("d"), json!({"n": 1})).await.run_id(), "held").await;
    let (exit, report) = check(&server, &server.store(), &[]);
    assert_eq!((exit, codes(&report)), (0, vec![]), "beside the running server");
    let online = server.post("/v1/check", json!({})).await.ok();
    assert_eq!(online["counts"]["runs"], report["counts"]["runs"], "{online}");
    server.stop().await;
    (server, bank)
}

/// A copy of the store to damage.
fn copy(server: &Server, name: &str) -> PathBuf {
    let path = server.path(name);
    std::fs::copy(server.store(), &path).expect("a copy");
    path
}

/// Each damage as SQL, and what must be found. `RUN(flow)` and `CLAIM(key)` stand for their ids.
const DAMAGES: &[(&str, &str)] = &[
    ("flow_missing", "DELETE FROM flows WHERE id = 'nap'"),
    (
        "orphan_row",
        "DELETE FROM run_values WHERE num = (SELECT num FROM runs WHERE id = RUN(nap)); DELETE FROM runs WHERE id = RUN(nap)",
    ),
    ("journal_gap", "DELETE FROM journal WHERE run = RUN(nap) AND seq = 1"),
    (
        "store_damaged",
        "UPDATE journal SET events = CAST(replace(CAST(events AS TEXT), 'nap', 'nop') AS BLOB) WHERE run = RUN(nap) AND seq = 2",
    ),
    (
        "store_damaged",
        "UPDATE run_values SET trigger = '{\"x\":1}' WHERE num = (SELECT num FROM runs WHERE id = RUN(paid))",
    ),
    ("store_damaged", "UPDATE runs SET status = 'odd' WHERE id = RUN(paid)"),
    ("store_damaged", "UPDATE runs SET ws = 99 WHERE id = RUN(paid)"),
    ("store_damaged", "UPDATE meta SET last_decision = 1"),
    ("store_damaged", "DELETE FROM run_labels"),
    ("store_damaged", "UPDATE claims SET forget_at = 1 WHERE run = RUN(nap)"),
    ("head_differs", "UPDATE runs SET status = 'failed' WHERE id = RUN(paid)"),
    ("head_differs", "UPDATE runs SET version = version + 1 WHERE id = RUN(paid)"),
    ("head_differs", "UPDATE runs SET take = 3 WHERE id = RUN(paid)"),
    ("head_differs", "UPDATE runs SET open_doubts = 0 WHERE id = RUN(doubt)"),
    ("head_differs", "UPDATE runs SET warned = 1 WHERE id = RUN(paid)"),
    ("run_stuck", "UPDATE runs SET status = 'running' WHERE id = RUN(lined) AND started_at IS NULL"),
    ("inbox_unread", "INSERT INTO inbox SELECT 1, ws, id, '{\"message\":\"promoted\"}' FROM runs WHERE id = RUN(nap)"),
    ("timer_missing", "DELETE FROM timers WHERE run = RUN(nap)"),
    ("timer_missing", "UPDATE timers SET due = due + 1 WHERE run = RUN(nap)"),
    ("timer_stray", "INSERT INTO timers SELECT ws, run, timer + 7, due FROM timers WHERE run = RUN(nap)"),
    ("effect_differs", "UPDATE effects SET state = 'in_doubt' WHERE run = RUN(paid)"),
    ("effect_differs", "UPDATE effects SET out_key = 'other' WHERE run = RUN(paid)"),
    ("effect_differs", "DELETE FROM effects WHERE run = RUN(paid)"),
    ("effect_without_intent", "UPDATE effects SET step_id = randomblob(16) WHERE run = RUN(paid)"),
    ("decision_differs", "UPDATE decisions SET reason = 'attached' WHERE decision = 'replay'"),
    ("decision_differs", "UPDATE decisions SET generation = 5 WHERE run = RUN(paid)"),
    ("run_unadmitted", "DELETE FROM decisions WHERE run = RUN(paid)"),
    (
        "run_admitted_twice",
        "INSERT INTO decisions SELECT 1000000, ws, at, door, occurrence, namespace, flow_id, scope, key, key_source, claim, fingerprint, policy, prior, prior_run, prior_generation, same_payload, decision, reason, run, generation, caller, rules_version, odd FROM decisions WHERE run = RUN(paid); UPDATE meta SET last_decision = 1000000",
    ),
    (
        "key_started_twice",
        "UPDATE decisions SET claim = (SELECT claim FROM runs WHERE id = RUN(paid)) WHERE run = RUN(nap)",
    ),
    ("claim_run_missing", "UPDATE claims SET run = randomblob(16) WHERE run = RUN(paid)"),
    ("claim_state", "UPDATE claims SET state = 'failed' WHERE run = RUN(paid)"),
    ("claim_state", "UPDATE claims SET state = 'live' WHERE run = RUN(doubt)"),
    ("claim_missing", "DELETE FROM claims WHERE run = RUN(nap)"),
    ("claim_hash", "UPDATE claims SET key = 'other', odd = 1 WHERE run = RUN(paid)"),
    ("claim_differs", "UPDATE claims SET fingerprint = randomblob(32) WHERE run = RUN(paid)"),
    ("lane_holder", "UPDATE lanes SET lane = json_set(lane, '$.holders[0]', '01900000-0000-7000-8000-000000000000')"),
    ("lane_limit", "UPDATE lanes SET lane = json_insert(lane, '$.holders[#]', json_extract(lane, '$.holders[0]'))"),
    ("lane_line", "UPDATE lanes SET lane = json_set(lane, '$.waiting', 7)"),
    ("lane_lost", "UPDATE lanes SET lane = json_set(lane, '$.holders', json('[]'))"),
    (
        "child_missing",
        "DELETE FROM run_values WHERE num = (SELECT num FROM runs WHERE parent IS NOT NULL); DELETE FROM runs WHERE parent IS NOT NULL",
    ),
    ("child_untold", "UPDATE runs SET status = 'completed', ended_at = 1, active = 0 WHERE parent IS NOT NULL"),
    ("parent_missing", "UPDATE runs SET parent = randomblob(16) WHERE parent IS NOT NULL"),
    ("doubt_untold", "UPDATE runs SET open_doubts = 1 WHERE parent IS NOT NULL"),
    ("erased_residue", "UPDATE runs SET key = 'e' WHERE erased = 1"),
    ("erased_residue", "UPDATE decisions SET key = 'e' WHERE run = (SELECT id FROM runs WHERE erased = 1)"),
];

/// These need a row whose checksum is right again, so they are made through the journal's own codec in the store's tests.
const ELSEWHERE: &[&str] = &[
    "journal_damaged",
    "journal_after_end",
    "snapshot_differs",
    "values_differ",
    "labels_differ",
    "effect_done_twice",
    "effect_key_changed",
    "effect_repeated",
    "decision_generation",
    "errand_missing",
    "errand_stray",
];

fn damage(store: &Path, sql: &str) -> Result<(), String> {
    let connection = Connection::open(store).expect("the copy opens");
    let mut text = sql.to_owned();
    while let Some(at) = text.find("RUN(") {
        let end = at + text[at..].find(')').expect("a name in brackets");
        let name = text[at + 4..end].to_owned();
        let found: Option<String> = connection
            .query_row(
                "SELECT hex(id) FROM runs WHERE flow_id = ?1 AND parent IS NULL ORDER BY id DESC",
                [&name],
                |row| row.get(0),
            )
            .optional()
            .expect("a query");
        text.replace_range(at..=end, &format!("x'{}'", found.unwrap_or_else(|| panic!("no run of {name}"))));
    }
    connection.execute_batch(&text).map_err(|error| error.to_string())?;
    if connection.changes() > 0 { Ok(()) } else { Err("nothing was damaged".to_owned()) }
}

#[tokio::test]
async fn every_damage_is_found_and_says_what_to_do() {
    let (server, _bank) = world().await;
    let (exit, report) = check(&server, &copy(&server, "whole.db"), &["--full"]);
    assert_eq!((exit, codes(&report)), (0, vec![]), "{report}");
    let mut wrong = Vec::new();
    for (number, (code, sql)) in DAMAGES.iter().enumerate() {
        let path = copy(&server, &format!("{number}.db"));
        if let Err(error) = damage(&path, sql) {
            wrong.push(format!("{code}: {error}: {sql}"));
            continue;
        }
        let (exit, report) = check(&server, &path, &[]);
        let found = codes(&report);
        let whole =
            report["violations"].as_array().into_iter().flatten().all(|one| {
                ["invariant", "what", "message", "advice"].iter().all(|field| one[field].as_str() != Some(""))
            });
        if exit != 1 || !whole || !found.iter().any(|one| one == code) {
            wrong.push(format!("{code}: exit {exit}, found {found:?}: {sql}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let known: Vec<&str> = semel_store::check::Code::ALL.iter().map(|code| code.word()).collect();
    let tested = |code: &str| DAMAGES.iter().any(|(one, _)| *one == code) || ELSEWHERE.contains(&code);
    let untested: Vec<&&str> = known.iter().filter(|code| !tested(code)).collect();
    assert!(untested.is_empty(), "no damage shows {untested:?}");
}

#[tokio::test]
async fn a_check_of_nothing_is_not_a_clean_one() {
    let (server, _bank) = (Server::start().await, ());
    let (exit, _) = check(&server, &server.path("nowhere.db"), &[]);
    assert_eq!(exit, 2);
    std::fs::write(server.path("text.db"), "this is not a database, whatever it is called").expect("a file");
    let (exit, _) = check(&server, &server.path("text.db"), &[]);
    assert_ne!(exit, 0);
}

/// One flipped byte: harmless, or noticed by the server, or found by the check. Never served as good.
#[tokio::test]
async fn a_flipped_byte_is_harmless_or_found() {
    let (server, _bank) = world().await;
    let whole = std::fs::read(server.store()).expect("the store");
    let truth = contents(&server.store()).expect("the whole file reads");
    let (mut harmless, mut found) = (0, 0);
    let mut missed = Vec::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..1_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (at, bit) = ((state >> 8) as usize % whole.len(), 1u8 << (state & 7));
        let path = server.path("flipped.db");
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        std::fs::write(&path, &bytes).expect("a file");
        // Most flips hit free space or change nothing that is read: no need to ask the binary.
        match contents(&path) {
            Ok(same) if same == truth => harmless += 1,
            _ => match check_in_process(&path) {
                true => found += 1,
                false => missed.push(at),
            },
        }
    }
    println!("harmless {harmless}, found {found}, missed {}", missed.len());
    assert!(found > 50, "harmless {harmless}, found {found}");
    assert!(
        missed.len() <= MISSED_MAX,
        "changed and not noticed at {missed:?}: {:#?}",
        differences(&server, &whole, &missed)
    );
}

/// Columns that nothing else repeats and no checksum covers: instants, names, texts of logs, flows, tokens.
const MISSED_MAX: usize = 30;

fn check_in_process(path: &Path) -> bool {
    let Ok(inspection) = semel_store_sqlite::Inspection::open(path) else { return true };
    match inspection.check(&Default::default(), true, &mut |_| {}) {
        Ok(report) => !report.is_clean(),
        Err(_) => true,
    }
}

/// Every row of every table, as text.
fn contents(path: &Path) -> rusqlite::Result<Vec<String>> {
    let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
        let columns = statement.column_count();
        let found = statement.query_map([], |row| {
            let values: Result<Vec<rusqlite::types::Value>, _> = (0..columns).map(|at| row.get(at)).collect();
            Ok(format!("{table} {:?}", values?))
        })?;
        rows.extend(found.collect::<Result<Vec<_>, _>>()?);
    }
    rows.sort();
    Ok(rows)
}

/// What the missed flips changed, for whoever reads the failure.
fn differences(server: &Server, whole: &[u8], missed: &[usize]) -> Vec<String> {
    let truth = contents(&server.store()).unwrap_or_default();
    let path = server.path("missed.db");
    let mut out = Vec::new();
    for at in missed {
        let mut bytes = whole.to_vec();
        bytes[*at] ^= 1;
        std::fs::write(&path, &bytes).expect("a file");
        let now = contents(&path).unwrap_or_default();
        out.extend(
            now.into_iter().filter(|row| !truth.contains(row)).take(1).map(|row| row.chars().take(160).collect()),
        );
    }
    out
}
