//! What is done to a database beside its servers and between them: `semel check`, `semel restore`, `semel bench`, and a
//! pooler in the middle.

use crate::check::codes;
use crate::harness::{Bank, Options, PATIENCE, Server, flow, post, quick};
use semel_store_postgres::testing::{Pooler, Pooling, Server as Database};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

async fn database() -> Database {
    tokio::task::spawn_blocking(Database::start).await.unwrap()
}

async fn on(address: &str) -> Server {
    Server::with(Options { database: Some(address.to_owned()), ..Options::default() }).await
}

/// Runs a command with `--json`: its exit code, and its data or its error.
fn semel(server: &Server, arguments: &[&str]) -> (i32, Json) {
    let output = server.command().args(arguments).arg("--json").output().expect("the binary runs");
    let envelope: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no envelope: {output:?}"));
    let body = if envelope["ok"] == true { &envelope["data"] } else { &envelope["error"] };
    (output.status.code().expect("an exit code"), body.clone())
}

fn refused(server: &Server, arguments: &[&str]) -> (i32, String) {
    let (exit, body) = semel(server, arguments);
    (exit, body["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_database_is_checked_beside_its_server_and_without_one() {
    let database = database().await;
    let address = database.address();
    let (mut server, bank) = (on(&address).await, Bank::start().await);
    server.push(&quick("quick")).await;
    server.push(&post("paid", &bank.url("/naive/paid"), "")).await;
    server.push(&flow("nap", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT1H}\n")).await;
    for (name, key) in [("quick", "q"), ("paid", "p"), ("quick", "q")] {
        server.trigger_wait(name, Some(key), json!({"n": 1})).await.run_id();
    }
    let nap = server.trigger("nap", Some("n"), json!({})).await.run_id();
    server.until(&nap, "waiting").await;

    // The row about the twin is not waited for: it comes with a later commit.
    let until = Instant::now() + PATIENCE;
    let online = loop {
        let online = server.post("/v1/check", json!({})).await.ok();
        if online["counts"]["decisions"] == json!(4) || Instant::now() > until {
            break online;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let check = ["check", "--store", &address];
    let (exit, report) = semel(&server, &check);
    assert_eq!((exit, &report["found"], &report["counts"]), (0, &json!(0), &online["counts"]));
    assert_eq!((&report["counts"]["runs"], &report["counts"]["effects"]), (&json!(3), &json!(1)));

    server.stop().await;
    assert_eq!(semel(&server, &check).0, 0);
    let status = |from: &str, to: &str| {
        database.run(&format!("UPDATE semel.runs SET status = '{to}' WHERE status = '{from}' AND id = '{nap}'"));
    };
    status("waiting", "paused");
    let (exit, error) = semel(&server, &check);
    assert_eq!(
        (exit, error["code"].as_str(), codes(&error["details"])),
        (1, Some("check_failed"), vec!["head_differs".into()])
    );
    status("paused", "waiting");
    // A row that cannot be read is a finding like any other.
    database.run(&format!("UPDATE semel.runs SET status = 'odd' WHERE id = '{nap}'"));
    let (exit, error) = semel(&server, &check);
    assert_eq!(exit, 1);
    assert!(codes(&error["details"]).contains(&"store_damaged".to_owned()), "{error}");
    status("odd", "waiting");
    assert_eq!(semel(&server, &check).0, 0);

    assert_eq!(refused(&server, &["check", "--store", &address, "--full"]), (2, "usage".to_owned()));
    let nothing = format!("{address}?schema=nothing");
    assert_eq!(refused(&server, &["check", "--store", &nothing]), (2, "store_missing".to_owned()));
    assert_eq!(database.number("SELECT count(*) FROM pg_namespace WHERE nspname = 'nothing'"), 0, "and none is made");
    let away = "postgres://semel@127.0.0.1:1/postgres";
    assert_eq!(refused(&server, &["check", "--store", away]), (2, "store_away".to_owned()));
}

#[tokio::test]
async fn a_database_that_was_brought_back_holds_what_was_open() {
    let database = database().await;
    let (mut server, bank) = (on(&database.address()).await, Bank::start().await);
    server.push(&quick("quick")).await;
    server.push(&post("paid", &bank.url("/naive/paid"), "")).await;
    server.push(&flow("nap", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT2S}\n")).await;
    server.trigger_wait("quick", Some("before"), json!({})).await.run_id();
    let nap = server.trigger("nap", Some("nap"), json!({})).await.run_id();
    server.until(&nap, "waiting").await;
    server.stop().await;
    // As a tool of PostgreSQL would, in one statement.
    database.run("CREATE DATABASE backup TEMPLATE postgres");
    server.restart().await;
    // Lost with the first database: an event, and the end of a run.
    server.trigger_wait("paid", Some("after"), json!({})).await.run_id();
    server.until(&nap, "completed").await;
    let restore = ["restore", "--store", &database.address()];
    assert_eq!(refused(&server, &restore), (1, "store_served".to_owned()), "not under a running server");
    server.kill9();

    let address = format!("postgres://semel@127.0.0.1:{}/backup", database.port());
    let restore = ["restore", "--store", &address];
    let more = |more: &[&'static str]| [&restore[..], more].concat();
    assert_eq!(refused(&server, &more(&["--backup-at", "2999-01-01T00:00:00Z"])), (2, "usage".to_owned()));
    let late = more(&["--accept-since", "2999-01-01T00:00:00Z"]);
    assert_eq!(refused(&server, &late), (1, "backup_too_old".to_owned()));
    assert_eq!(refused(&server, &["restore", "--store", "sqlite:x.db"]), (2, "usage".to_owned()));
    let (exit, restored) = semel(&server, &restore);
    assert_eq!((exit, &restored["open_runs"], &restored["fate"]), (0, &json!(1), &json!("held")), "{restored}");

    let server = on(&address).await;
    assert!(server.logs().contains("was restored from a backup"), "{}", server.logs());
    // Its timer is due, and does not fire.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.run(&nap).await["status"], "held");
    assert!(server.trigger("quick", Some("before"), json!({})).await.replayed(), "what it knew is known");
    server.trigger_wait("paid", Some("after"), json!({})).await.run_id();
    assert_eq!(bank.count("paid"), 2, "what it did not know happens again");
    let decisions = server.all("/v1/decisions?key=after").await;
    assert_eq!(decisions[0]["reason"], "first_after_restore", "but not unnoticed");
    assert_eq!(server.control(&nap, "release").await.status, 200);
    server.until(&nap, "completed").await;
    let (exit, report) = semel(&server, &["check", "--store", &address]);
    assert_eq!((exit, &report["restored"]["incarnation"]), (0, &restored["incarnation"]));
}

#[tokio::test]
async fn what_is_known_to_have_done_nothing_goes_on_at_once() {
    let database = database().await;
    let mut server = on(&database.address()).await;
    server.push(&flow("nap", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT1S}\n")).await;
    let nap = server.trigger("nap", Some("nap"), json!({})).await.run_id();
    server.until(&nap, "waiting").await;
    server.stop().await;
    let address = database.address();
    let accept = ["restore", "--store", &address, "--accept-since", "2026-01-01T00:00:00Z", "--why", "a drill"];
    let (exit, restored) = semel(&server, &accept);
    assert_eq!((exit, &restored["open_runs"], &restored["fate"]), (0, &json!(1), &json!("accepted")), "{restored}");
    server.restart().await;
    server.until(&nap, "completed").await;
    let journal = server.journal(&nap).await;
    assert!(journal.iter().any(|event| event.to_string().contains("a drill")), "{journal:?}");
}

async fn served_through(pooling: Pooling) {
    let database = database().await;
    let pooler = Pooler::start(&database, pooling);
    let (mut server, bank) = (on(&pooler.address()).await, Bank::start().await);
    server.push(&quick("quick")).await;
    let url = bank.url("/hold/held");
    let task = format!("  - {{id: held, type: http.Request, method: POST, uri: '{url}', body: x, effect: keyed}}\n");
    server.push(&flow("slow", &format!("tasks:\n{task}"))).await;
    for key in ["a", "b", "a"] {
        server.trigger_wait("quick", Some(key), json!({})).await.run_id();
    }
    let run = server.trigger("slow", Some("s"), json!({})).await.run_id();
    bank.arrived("held", 1).await;
    server.kill9();
    bank.release("held", 10);
    server.restart().await;
    server.until(&run, "completed").await;
    assert!(server.trigger("quick", Some("a"), json!({})).await.replayed());
    assert_eq!(server.runs_of("quick").await.len(), 2);
    let (exit, report) = semel(&server, &["check", "--store", &pooler.address()]);
    assert_eq!((exit, &report["counts"]["runs"]), (0, &json!(3)), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_behind_a_pooler_of_sessions() {
    served_through(Pooling::Session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_behind_a_pooler_of_transactions() {
    served_through(Pooling::Transaction).await;
}

#[tokio::test]
async fn a_database_is_measured_and_left_as_it_was() {
    let database = database().await;
    let server = on(&database.address()).await;
    let schemas = || database.number("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'semel%'");
    assert_eq!(schemas(), 1);
    let bench = ["bench", "--seconds", "1", "--clients", "8", "--store", &database.address()];
    let (exit, report) = semel(&server, &bench);
    assert_eq!(exit, 0, "{report}");
    for figure in ["raw_http", "raw_commit", "fresh", "replay", "hot", "steps10"] {
        assert!(report["figures"][figure]["operations"].as_u64().is_some_and(|count| count > 0), "{figure}: {report}");
    }
    assert!(report["figures"]["raw_commit"]["database_cpu_us"].is_number(), "{report}");
    assert_eq!(schemas(), 1, "its schema is gone");
    assert_eq!(database.number("SELECT count(*) FROM semel.runs"), 0, "and nothing was done in the other one");
    assert_eq!(refused(&server, &["bench", "--nodes", "2"]), (2, "usage".to_owned()));
}
