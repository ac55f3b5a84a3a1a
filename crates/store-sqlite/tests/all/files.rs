//! What only a file can do: locks, modes, crashes, damage, a full disk.

use crate::support::{Hands, open};
use rusqlite::Connection;
use semel_core::admission::PresetName;
use semel_core::fingerprint::Fingerprint;
use semel_core::{Door, FlowRef, RunId, WorkspaceId};
use semel_store::conformance::same_dump;
use semel_store::*;
use semel_store_sqlite::{APPLICATION_ID, OpenError, Options, SCHEMA_VERSION, SqliteStore};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use tempfile::TempDir;

const START: i64 = 1_700_000_000_000;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data").join("semel.db");
    (directory, path)
}

fn ws() -> WorkspaceId {
    WorkspaceId::default()
}

fn set(key: &str, value: Json) -> Work {
    Work::KvSet {
        workspace: ws(),
        namespace: "n".into(),
        key: key.into(),
        value,
        kv_type: "JSON".into(),
        overwrite: true,
        ttl_ms: None,
    }
}

fn admit(number: u128) -> Work {
    Work::Admit(Box::new(AdmitRequest {
        workspace: ws(),
        flow: FlowRef::new("shop", "order"),
        revision: 1,
        door: Door::Trigger,
        occurrence: "o".into(),
        caller: "c".into(),
        key: None,
        fingerprint: Fingerprint::of(&[&json!(1)]),
        policy: PresetName::Semel.preset().policy,
        lane: None,
        run: RunId::from_bytes(number.to_be_bytes()),
        inputs: json!({"text": "a value that is long enough to be hit by a flipped byte"}),
        trigger: json!({}),
        labels: vec![("team".into(), "red".into())],
        correlation_id: None,
        parent: None,
        root: None,
        depth: 0,
        tick: None,
        hearing: None,
        announced: false,
        terms: Default::default(),
    }))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn refused(path: &Path) -> OpenError {
    match SqliteStore::open(path, Options::default()) {
        Ok(_) => panic!("the file was opened"),
        Err(error) => error,
    }
}

#[test]
fn a_second_open_is_refused() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    let error = refused(&path);
    assert!(matches!(error, OpenError::Locked(_)), "{error}");
    assert_eq!(error.code(), "store_locked");
    assert!(error.to_string().contains("stop that one first"), "{error}");
    drop(store);
    open(&path, Hands::at(START).clock());
}

#[test]
fn everything_is_there_after_a_restart() {
    let (_directory, path) = place();
    let hands = Hands::at(START);
    let store = open(&path, hands.clock());
    for i in 1..=20 {
        store.call(admit(i)).unwrap();
    }
    store.call(set("k", json!([1, "two", null]))).unwrap();
    let before = store.dump().unwrap();
    drop(store);
    let store = open(&path, hands.clock());
    same_dump(&before, &store.dump().unwrap());
    store.call(admit(21)).unwrap();
    let newest = store.decisions(&ws(), &DecisionQuery { limit: 1, ..DecisionQuery::default() }).unwrap();
    assert_eq!(newest[0].seq, 21, "numbers go on");
}

#[test]
fn time_does_not_go_back_over_a_restart() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START + 1_000).clock());
    store.call(set("k", json!(1))).unwrap();
    drop(store);
    let store = open(&path, Hands::at(START).clock());
    assert_eq!(store.now().0, START + 1_000);
    store.call(set("k", json!(2))).unwrap();
    assert_eq!(store.kv(&ws(), "n", "k").unwrap().unwrap().updated_at.0, START + 1_000);
}

#[test]
fn an_answered_write_survives_a_crash() {
    let (_directory, path) = place();
    let hands = Hands::at(START);
    // No checkpoint in between: the copies of the two files must belong together.
    let options = Options { clock: hands.clock(), checkpoint_pages: u32::MAX, ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    for i in 1..=30 {
        store.call(admit(i)).unwrap();
        if i % 6 == 0 {
            let (_other, copy) = place();
            fs::create_dir(copy.parent().unwrap()).unwrap();
            fs::copy(&path, &copy).unwrap();
            fs::copy(beside(&path, "-wal"), beside(&copy, "-wal")).unwrap();
            same_dump(&store.dump().unwrap(), &open(&copy, hands.clock()).dump().unwrap());
        }
    }
}

#[test]
fn a_torn_log_loses_only_the_end() {
    let (_directory, path) = place();
    let hands = Hands::at(START);
    let options = Options { clock: hands.clock(), checkpoint_pages: u32::MAX, ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    for i in 1..=10 {
        store.call(admit(i)).unwrap();
    }
    let log = fs::read(beside(&path, "-wal")).unwrap();
    for cut in [0, 31, 32, log.len() / 3, log.len() / 2, log.len() - 1] {
        let (_other, copy) = place();
        fs::create_dir(copy.parent().unwrap()).unwrap();
        fs::copy(&path, &copy).unwrap();
        fs::write(beside(&copy, "-wal"), &log[..cut]).unwrap();
        let torn = open(&copy, hands.clock());
        let runs = torn.runs(&ws(), &RunQuery { limit: 100, ..RunQuery::default() }).unwrap();
        // A prefix: whole admissions, none missing in between.
        let ids: Vec<u128> = runs.iter().rev().map(|(row, _, _)| u128::from_be_bytes(*row.id.as_bytes())).collect();
        assert_eq!(ids, (1..=ids.len() as u128).collect::<Vec<_>>());
        assert_eq!(torn.dump().unwrap()["journal"].as_array().unwrap().len(), ids.len());
    }
}

#[test]
fn damage_stops_the_store() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    store.call(admit(1)).unwrap();
    store.call(admit(2)).unwrap();
    let vandal = Connection::open(&path).unwrap();
    vandal.execute("UPDATE journal SET vals = x'5b5d' WHERE run = ?1", [2_u128.to_be_bytes()]).unwrap();
    let run = |n: u128| RunId::from_bytes(n.to_be_bytes());
    assert_eq!(store.journal(&ws(), run(1), 0, 9).unwrap().len(), 1);
    assert_eq!(store.journal(&ws(), run(2), 0, 9).unwrap_err().code(), "store_poisoned");
    // From then on nothing is written, and everyone is told why.
    for _ in 0..2 {
        let error = store.call(set("k", json!(1))).unwrap_err();
        assert!(error.is_fatal() && error.to_string().contains("checksum"), "{error}");
    }
    assert_eq!(store.health().unwrap_err().code(), "store_poisoned");
    assert_eq!(store.journal(&ws(), run(1), 0, 9).unwrap().len(), 1, "what is whole can be read");
    assert!(store.kv(&ws(), "n", "k").unwrap().is_none());
}

#[test]
fn damage_seen_by_the_writer_fails_the_whole_batch() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    store.call(admit(1)).unwrap();
    Connection::open(&path).unwrap().execute("UPDATE runs SET status = 'nonsense'", []).unwrap();
    let message =
        Work::Message { workspace: ws(), run: RunId::from_bytes(1_u128.to_be_bytes()), message: Inbox::Promoted };
    let (tx, rx) = channel();
    for work in [set("a", json!(1)), message, set("b", json!(1))] {
        let tx = tx.clone();
        store.submit(work, Box::new(move |answer| tx.send(answer).unwrap()));
    }
    // The first may have been alone in its batch; after the damage was met nothing passes.
    let answers: Vec<_> = rx.iter().take(3).collect();
    for answer in &answers[1..] {
        assert_eq!(answer.as_ref().unwrap_err().code(), "store_poisoned");
    }
    assert_eq!(store.kv(&ws(), "n", "a").unwrap().is_some(), answers[0].is_ok());
    assert!(store.kv(&ws(), "n", "b").unwrap().is_none());
}

#[test]
fn a_flipped_byte_is_never_served_as_a_value() {
    let (_directory, path) = place();
    let hands = Hands::at(START);
    let store = open(&path, hands.clock());
    for i in 1..=60 {
        store.call(admit(i)).unwrap();
    }
    let rows = |dump: &Json, table: &str, column: &str| -> Vec<String> {
        dump[table].as_array().unwrap().iter().map(|row| row[column].to_string()).collect()
    };
    let columns = [("journal", "events"), ("journal", "values"), ("run_values", "inputs"), ("run_values", "trigger")];
    let good = store.dump().unwrap();
    drop(store);
    let bytes = fs::read(&path).unwrap();
    let mut noticed = 0;
    for i in 0..120_usize {
        let at = (i * 7_919 + 4_096) % bytes.len();
        let (_other, copy) = place();
        fs::create_dir(copy.parent().unwrap()).unwrap();
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (i % 8);
        fs::write(&copy, &bytes).unwrap();
        let dump = match SqliteStore::open(&copy, Options { clock: hands.clock(), ..Options::default() }) {
            Ok(store) => store.dump().map_err(|error| error.code()),
            Err(error) => Err(error.code()),
        };
        match dump {
            Err(_) => noticed += 1,
            Ok(dump) => {
                for (table, column) in columns {
                    let known = rows(&good, table, column);
                    assert!(
                        rows(&dump, table, column).iter().all(|value| known.contains(value)),
                        "byte {at}: {table}.{column}"
                    );
                }
            }
        }
    }
    assert!(noticed > 10, "only {noticed} flips were noticed");
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_directory, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, b"").unwrap();
    drop(open(&path, Hands::at(START).clock()));
    let raw = Connection::open(&path).unwrap();
    let pragma =
        |name: &str| raw.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(pragma("user_version"), i64::from(SCHEMA_VERSION).into());
    assert_eq!(pragma("application_id"), i64::from(APPLICATION_ID).into());
    assert_eq!(pragma("journal_mode"), "wal".to_owned().into());
    assert_eq!(pragma("integrity_check"), "ok".to_owned().into());
}

#[test]
fn a_newer_schema_is_refused() {
    let (_directory, path) = place();
    drop(open(&path, Hands::at(START).clock()));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Newer { found: 99, known: SCHEMA_VERSION, .. }), "{error}");
}

#[test]
fn a_foreign_database_is_left_alone() {
    let (_directory, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(refused(&path), OpenError::Foreign(_)));
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::write(&path, vec![b'x'; 8_192]).unwrap();
    assert_eq!(refused(&path).code(), "store_poisoned");
}

#[test]
fn a_file_that_must_exist_is_missed() {
    let (_directory, path) = place();
    let options = Options { create: false, ..Options::default() };
    assert!(matches!(SqliteStore::open(&path, options), Err(OpenError::Missing(_))));
    assert!(!path.parent().unwrap().exists());
}

#[cfg(unix)]
#[test]
fn the_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    store.call(set("k", json!(1))).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&beside(&path, suffix)), 0o600, "{suffix}");
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let (_directory, path) = place();
    let options = Options { clock: Hands::at(START).clock(), pages_max: Some(160), ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let big = json!("x".repeat(20_000));
    let mut kept = 0;
    let error = loop {
        match store.call(set(&format!("k{kept}"), big.clone())) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(kept > 3);
    assert_eq!(error.code(), "store_full");
    assert_eq!(store.health().unwrap_err().code(), "store_full");
    // Reads go on, and nothing acknowledged is lost.
    assert_eq!(store.kv_list(&ws(), "n", None, 1_000).unwrap().len(), kept);
    store.call(Work::KvDelete { workspace: ws(), namespace: "n".into(), key: "k0".into() }).unwrap();
    store.call(set("small", json!(1))).unwrap();
    assert_eq!(store.health(), Ok(()));
    assert_eq!(store.kv_list(&ws(), "n", None, 1_000).unwrap().len(), kept);
}

#[test]
fn a_full_disk_answers_a_batch_truly() {
    let (_directory, path) = place();
    let options = Options { clock: Hands::at(START).clock(), pages_max: Some(110), ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let (tx, rx) = channel();
    for i in 0..60 {
        let tx = tx.clone();
        let value = if i % 3 == 0 { json!("x".repeat(20_000)) } else { json!(i) };
        store.submit(set(&format!("k{i:02}"), value), Box::new(move |answer| tx.send((i, answer.is_ok())).unwrap()));
    }
    let mut accepted: Vec<String> = rx.iter().take(60).filter(|(_, ok)| *ok).map(|(i, _)| format!("k{i:02}")).collect();
    accepted.sort();
    let stored: Vec<String> = store.kv_list(&ws(), "n", None, 100).unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(stored, accepted);
    assert!(accepted.len() < 60);
}

#[test]
fn the_log_is_copied_and_starts_again() {
    let (_directory, path) = place();
    let options = Options { clock: Hands::at(START).clock(), checkpoint_pages: 8, ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let mut longest = 0;
    for i in 1..=400 {
        store.call(admit(i)).unwrap();
        longest = longest.max(fs::metadata(beside(&path, "-wal")).unwrap().len());
    }
    // 400 admissions write far more than this; without restarts the log would hold them all.
    assert!(longest < 8_000_000, "the log grew to {longest} bytes");
    assert!(fs::metadata(&path).unwrap().len() > 200_000, "the database got its pages");
    store.close();
    assert_eq!(fs::metadata(beside(&path, "-wal")).map_or(0, |m| m.len()), 0);
}

#[test]
fn many_callers_share_commits() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    std::thread::scope(|scope| {
        for caller in 0..8_u128 {
            let store = &store;
            scope.spawn(move || {
                for i in 1..=25_u128 {
                    let id = caller * 1_000 + i;
                    store.call(admit(id)).unwrap();
                    assert!(store.run(&ws(), RunId::from_bytes(id.to_be_bytes())).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(store.dump().unwrap()["runs"].as_array().unwrap().len(), 200);
}

#[test]
fn closing_answers_everyone() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    let (tx, rx) = channel();
    for i in 1..=100 {
        let tx = tx.clone();
        store.submit(admit(i), Box::new(move |answer| tx.send(answer.is_ok()).unwrap()));
    }
    store.close();
    assert_eq!(rx.try_iter().filter(|ok| *ok).count(), 100);
    drop(store);
    let store = open(&path, Hands::at(START).clock());
    assert_eq!(store.dump().unwrap()["runs"].as_array().unwrap().len(), 100);
}

#[test]
fn the_last_owner_may_be_a_reply() {
    let (_directory, path) = place();
    let store: Arc<SqliteStore> = open(&path, Hands::at(START).clock());
    let (tx, rx) = channel();
    let owner = store.clone();
    let (go, gone) = channel::<()>();
    store.submit(
        set("k", json!(1)),
        Box::new(move |answer| {
            gone.recv().unwrap();
            drop(owner);
            tx.send(answer.is_ok()).unwrap();
        }),
    );
    drop(store);
    go.send(()).unwrap();
    assert!(rx.recv().unwrap());
}

#[test]
fn a_reply_that_panics_takes_nobody_with_it() {
    let (_directory, path) = place();
    let store = open(&path, Hands::at(START).clock());
    store.submit(set("k", json!(1)), Box::new(|_| panic!("on purpose")));
    store.call(set("k", json!(2))).unwrap();
    assert_eq!(store.kv(&ws(), "n", "k").unwrap().unwrap().revision, 2);
}

#[test]
fn a_line_of_the_first_version_keeps_its_order() {
    let (_directory, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(include_str!("../../migrations/0001.sql")).unwrap();
    let runs: Vec<RunId> = (1..=3).map(|n| RunId::from_bytes([n; 16])).collect();
    let lane = json!({"holders": [runs[2]], "queue": [runs[1], runs[0]], "gathering": null}).to_string();
    raw.execute("INSERT INTO workspaces (ws, name) VALUES (1, 'main')", []).unwrap();
    raw.execute("INSERT INTO lanes (ws, hash, lane) VALUES (1, ?1, ?2)", rusqlite::params![[7u8; 16], lane]).unwrap();
    raw.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    raw.pragma_update(None, "user_version", 1).unwrap();
    drop(raw);
    let store = open(&path, Hands::at(START).clock());
    let found = &store.dump().unwrap()["lanes"][0];
    assert_eq!((&found["holders"], &found["queue"]), (&json!([runs[2]]), &json!([runs[1], runs[0]])));
    assert_eq!(found["waiting"], 2);
}

/// A plan that walks the workspace is right for ten rows and ruinous for a million.
#[test]
fn few_rows_are_found_by_their_own_index() {
    let (_directory, path) = place();
    open(&path, Hands::at(START).clock());
    let connection = Connection::open(&path).unwrap();
    for (sql, index) in [
        ("SELECT hash, key, scope FROM claims WHERE ws = 1 AND run = x'00' ORDER BY hash LIMIT 9", "claims_run"),
        ("SELECT * FROM runs r WHERE r.ws = 1 AND r.parent = x'00' ORDER BY r.id", "runs_parent"),
        ("SELECT * FROM runs r WHERE r.ws = 1 AND r.key = 'k' ORDER BY r.id DESC LIMIT 50", "runs_key"),
        (
            "SELECT * FROM runs r WHERE r.ws = 1 AND r.correlation_id = 'c' ORDER BY r.id DESC LIMIT 50",
            "runs_correlation",
        ),
        (
            "SELECT * FROM runs r WHERE r.ws = 1 AND r.namespace = 'n' AND r.flow_id = 'f' ORDER BY r.id DESC LIMIT 50",
            "runs_flow",
        ),
        ("SELECT * FROM runs r WHERE r.active = 1 AND r.id > x'00' ORDER BY r.id LIMIT 50", "runs_active"),
    ] {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps: Vec<String> = plan.query_map([], |row| row.get(3)).unwrap().map(|step| step.unwrap()).collect();
        assert!(steps.iter().any(|step| step.contains(index)), "{sql}\n{steps:?}");
    }
}
