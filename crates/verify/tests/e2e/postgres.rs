//! One server on PostgreSQL: it is killed, its database is restarted, and what was acknowledged is there.

use crate::harness::{Bank, Options, PATIENCE, Server, eventually, flow, quick};
use semel_store_postgres::testing::{Server as Database, Stop};
use serde_json::json;

async fn on(database: &Database) -> Server {
    Server::with(Options { database: Some(database.address()), ..Options::default() }).await
}

async fn assert_clean(server: &Server) {
    let report = server.post("/v1/check", json!({})).await.ok();
    assert_eq!(report["found"], 0, "{report:#}");
}

#[tokio::test]
async fn a_killed_server_goes_on_and_repeats_nothing() {
    let database = tokio::task::spawn_blocking(Database::start).await.unwrap();
    let (mut server, bank) = (on(&database).await, Bank::start().await);
    let step = |id: &str, way: &str| {
        let url = bank.url(&format!("/{way}/{id}"));
        format!("  - {{id: {id}, type: http.Request, method: POST, uri: '{url}', body: x, effect: keyed}}\n")
    };
    let tasks = [step("s1", "naive"), step("s2", "hold"), step("s3", "naive")].concat();
    server.push(&flow("three", &format!("tasks:\n{tasks}"))).await;
    let run = server.trigger("three", Some("k"), json!({})).await.run_id();
    bank.arrived("s2", 1).await;
    server.kill9();
    bank.release("s2", 10);
    server.restart().await;
    server.until(&run, "completed").await;
    assert_eq!(["s1", "s2", "s3"].map(|step| bank.count(step)), [1, 2, 1]);
    let twin = server.trigger("three", Some("k"), json!({})).await;
    assert!(twin.replayed() && twin.run_id() == run);
    assert_clean(&server).await;
}

#[tokio::test]
async fn a_database_that_is_away_is_waited_for() {
    let mut database = tokio::task::spawn_blocking(Database::start).await.unwrap();
    let server = on(&database).await;
    server.push(&quick("hello")).await;
    let first = server.trigger("hello", Some("a"), json!({})).await.run_id();
    server.until(&first, "completed").await;
    database.stop(Stop::Fast);
    let away = server.trigger("hello", Some("b"), json!({})).await;
    assert_eq!(away.status, 503, "{:?}", away.json);
    let database = tokio::task::spawn_blocking(move || {
        database.resume();
        database
    });
    let _database = database.await.unwrap();
    let second = eventually(PATIENCE, "the store is back", || async {
        let answer = server.trigger("hello", Some("b"), json!({})).await;
        (answer.status == 200).then(|| answer.run_id())
    })
    .await;
    server.until(&second, "completed").await;
    assert!(server.trigger("hello", Some("a"), json!({})).await.replayed());
    assert_clean(&server).await;
}
