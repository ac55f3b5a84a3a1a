//! A store that cannot be trusted: the process says why and ends, and the next one finds what is whole.

use crate::harness::{Server, quick};
use rusqlite::Connection;
use serde_json::json;

#[tokio::test]
async fn damage_ends_the_process_with_a_reason_and_the_next_one_finds_the_rest() {
    let mut server = Server::start().await;
    server.push(&quick("a")).await;
    let good = server.trigger_wait("a", Some("good"), json!({})).await.run_id();
    let bad = server.trigger_wait("a", Some("bad"), json!({})).await.run_id();
    let vandal = Connection::open(server.store()).expect("the file");
    let hex = bad.replace('-', "");
    let rows = vandal
        .execute("UPDATE journal SET vals = x'5b5d' WHERE lower(hex(run)) = ?1 AND vals IS NOT NULL", [&hex])
        .expect("an update");
    assert!(rows > 0, "nothing was damaged");
    drop(vandal);
    // Nothing is served as if it were good; the answer may still come, or the process may be gone already.
    let request = server.request(reqwest::Method::GET, &format!("/v1/runs/{bad}/journal"));
    if let Ok(answer) = server.try_send(request).await {
        answer.refused(503, "store_poisoned");
    }
    let status = server.ended().await;
    let logs = server.logs();
    assert_eq!(status.code(), Some(1), "{logs}");
    assert!(logs.contains("checksum") && logs.contains("what was answered is safe"), "{logs}");

    server.restart().await;
    assert_eq!(server.run(&good).await["status"], "completed");
    for (key, run) in [("good", &good), ("bad", &bad)] {
        let twin = server.trigger("a", Some(key), json!({})).await;
        assert_eq!((&twin.run_id(), twin.replayed()), (run, true), "keys are as safe as before");
    }
    let fresh = server.trigger_wait("a", Some("fresh"), json!({})).await;
    assert_eq!(fresh.json["status"], "completed");
}
