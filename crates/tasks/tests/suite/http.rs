//! Did it leave or not? Each way a connection can fail, and exactly one request in each.

use super::server::{Script, Server, answer, performer, post, request, send, verdict};
use semel_tasks::net::{Looking, Lookup};
use semel_tasks::{NetConfig, Outcome, Performer, PrivatePolicy};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const MUTATING: [&str; 4] = ["POST", "PATCH", "PUT", "DELETE"];

#[tokio::test]
async fn a_refused_connection_is_clean() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    for method in ["GET", "POST", "PUT"] {
        let outcome = send(json!({ "uri": format!("http://127.0.0.1:{port}/"), "method": method })).await;
        assert!(
            matches!(outcome, Outcome::FailedClean { code: "connect", retryable: true, .. }),
            "{method}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn an_unknown_name_is_clean() {
    let outcome = post("http://no-such-host.invalid/".to_owned()).await;
    assert_eq!(verdict(&outcome), "clean:connect", "{outcome:?}");
}

#[tokio::test]
async fn a_failed_handshake_is_clean() {
    let server = Server::start(Script::CloseAtOnce).await;
    let outcome = post(format!("https://127.0.0.1:{}/", server.port)).await;
    assert_eq!(verdict(&outcome), "clean:connect", "{outcome:?}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_handshake_that_hangs_is_clean() {
    let server = Server::start(Script::Hold(Arc::new(Notify::new()))).await;
    let mut hanging = request(json!({ "uri": format!("https://127.0.0.1:{}/", server.port), "method": "POST" }));
    hanging.timeout_ms = 150;
    let outcome = performer().perform(hanging).await;
    assert_eq!(verdict(&outcome), "clean:connect", "{outcome:?}");
}

#[tokio::test]
async fn a_close_before_the_request_is_read_is_lost() {
    // The connection stood, so bytes may have left: from here nobody can tell.
    for method in MUTATING {
        let server = Server::start(Script::CloseAtOnce).await;
        let outcome = send(json!({ "uri": server.uri("/"), "method": method, "body": "x" })).await;
        assert_eq!(verdict(&outcome), "lost:connection_lost", "{method}: {outcome:?}");
        assert_eq!(server.connections.load(Ordering::SeqCst), 1, "{method} was sent again");
    }
}

#[tokio::test]
async fn a_close_or_reset_after_the_request_is_lost_and_not_resent() {
    for script in [Script::CloseAfterRequest, Script::ResetAfterRequest] {
        for method in MUTATING {
            let server = Server::start(script.clone()).await;
            let outcome = send(json!({ "uri": server.uri("/"), "method": method, "body": "x" })).await;
            assert_eq!(verdict(&outcome), "lost:connection_lost", "{method}: {outcome:?}");
            assert_eq!((server.requests(), server.connections.load(Ordering::SeqCst)), (1, 1), "{method}");
        }
    }
}

#[tokio::test]
async fn a_read_that_is_cut_is_lost_too() {
    let server = Server::start(Script::CloseAfterRequest).await;
    let outcome = send(json!({ "uri": server.uri("/") })).await;
    assert_eq!(verdict(&outcome), "lost:connection_lost", "{outcome:?}");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn silence_is_lost_at_the_time_limit() {
    let release = Arc::new(Notify::new());
    let server = Server::start(Script::Hold(Arc::clone(&release))).await;
    let mut silent = request(json!({ "uri": server.uri("/"), "method": "POST", "body": "x" }));
    silent.timeout_ms = 200;
    let outcome = performer().perform(silent).await;
    release.notify_waiters();
    assert_eq!(verdict(&outcome), "lost:timeout", "{outcome:?}");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn the_authors_time_limit_counts_and_cannot_exceed_the_intents() {
    for (option, allowed_ms, at_most_ms) in [("PT0.1S", 60_000, 5_000), ("PT60S", 100, 5_000)] {
        let server = Server::start(Script::Hold(Arc::new(Notify::new()))).await;
        let mut slow = request(json!({ "uri": server.uri("/"), "method": "POST", "options": { "timeout": option } }));
        slow.timeout_ms = allowed_ms;
        let begun = Instant::now();
        assert_eq!(verdict(&performer().perform(slow).await), "lost:timeout", "{option}");
        assert!(begun.elapsed() < Duration::from_millis(at_most_ms), "{option}");
    }
}

#[tokio::test]
async fn a_head_without_its_body_is_lost() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    let server = Server::start(Script::Answer(cut.clone())).await;
    let outcome = post(server.uri("/")).await;
    assert_eq!(verdict(&outcome), "lost:answer_cut", "{outcome:?}");
    let stalled = Server::start(Script::Stall(cut)).await;
    let mut slow = request(json!({ "uri": stalled.uri("/"), "method": "POST" }));
    slow.timeout_ms = 200;
    assert_eq!(verdict(&performer().perform(slow).await), "lost:timeout");
    assert_eq!((server.requests(), stalled.requests()), (1, 1));
}

#[tokio::test]
async fn half_a_head_is_lost() {
    let server = Server::start(Script::Answer(b"HTTP/1.1 200 O".to_vec())).await;
    assert_eq!(verdict(&post(server.uri("/")).await), "lost:connection_lost");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn what_is_not_http_is_lost() {
    let server = Server::start(Script::Answer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec())).await;
    assert_eq!(verdict(&post(server.uri("/")).await), "lost:connection_lost");
}

#[tokio::test]
async fn mutating_calls_never_share_a_connection() {
    let server = Server::start(Script::CloseOnReuse(answer("200 OK", "", "ok"))).await;
    let performer = performer();
    for count in 1..=5 {
        let outcome = performer.perform(request(json!({ "uri": server.uri("/"), "method": "POST" }))).await;
        assert_eq!(verdict(&outcome), "done", "{outcome:?}");
        assert_eq!((server.requests(), server.connections.load(Ordering::SeqCst)), (count, count));
    }
}

#[tokio::test]
async fn a_post_after_a_read_does_not_take_its_connection() {
    let server = Server::start(Script::CloseOnReuse(answer("200 OK", "", "ok"))).await;
    let performer = performer();
    for method in ["GET", "POST", "DELETE"] {
        let outcome = performer.perform(request(json!({ "uri": server.uri("/"), "method": method }))).await;
        assert_eq!(verdict(&outcome), "done", "{method}: {outcome:?}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn reads_do_share_a_connection() {
    let server = Server::start(Script::KeepAlive(answer("200 OK", "", "ok"))).await;
    let performer = performer();
    for _ in 0..3 {
        assert_eq!(verdict(&performer.perform(request(json!({ "uri": server.uri("/") }))).await), "done");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_lapsed_lease_sends_nothing() {
    let server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    for method in ["GET", "POST"] {
        let mut late = request(json!({ "uri": server.uri("/"), "method": method }));
        late.send_before = Some(Instant::now());
        assert_eq!(verdict(&performer().perform(late).await), "clean:lease_lapsed", "{method}");
    }
    assert_eq!((server.requests(), server.connections.load(Ordering::SeqCst)), (0, 0));
}

/// Answers a name after a while, so that the lease ends between the call and its first byte.
struct SlowLookup(Duration);

impl Lookup for SlowLookup {
    fn lookup(&self, _host: &str) -> Looking {
        let delay = self.0;
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            Ok(vec![IpAddr::from([127, 0, 0, 1])])
        })
    }
}

#[tokio::test]
async fn a_lease_that_ends_while_connecting_sends_nothing() {
    let server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    let slow = Performer::with_lookup(NetConfig::default(), Arc::new(SlowLookup(Duration::from_millis(120))))
        .expect("a performer");
    let uri = format!("http://slow.test:{}/", server.port);
    let mut late = request(json!({ "uri": uri, "method": "POST" }));
    late.send_before = Some(Instant::now() + Duration::from_millis(60));
    assert_eq!(verdict(&slow.perform(late).await), "clean:lease_lapsed");
    assert_eq!(server.requests(), 0);
    let mut good = request(json!({ "uri": uri, "method": "POST" }));
    good.send_before = Some(Instant::now() + Duration::from_secs(30));
    assert_eq!(verdict(&slow.perform(good).await), "done");
}

/// Gives another answer each time: rebinding.
struct Rebinding(AtomicUsize, Vec<Vec<IpAddr>>);

impl Lookup for Rebinding {
    fn lookup(&self, _host: &str) -> Looking {
        let turn = self.0.fetch_add(1, Ordering::SeqCst);
        let found = self.1[turn.min(self.1.len() - 1)].clone();
        Box::pin(async move { Ok(found) })
    }
}

#[tokio::test]
async fn a_name_that_changes_its_answer_is_checked_each_time() {
    let server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    let (inside, metadata) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([169, 254, 169, 254]));
    let lookup =
        Arc::new(Rebinding(AtomicUsize::new(0), vec![vec![inside], vec![metadata], vec![metadata, inside], vec![]]));
    let performer =
        Performer::with_lookup(NetConfig::default(), Arc::clone(&lookup) as Arc<dyn Lookup>).expect("a performer");
    let uri = format!("http://rebind.test:{}/", server.port);
    for expected in ["done", "clean:address_refused", "done", "clean:connect"] {
        let outcome = performer.perform(request(json!({ "uri": uri, "method": "POST" }))).await;
        assert_eq!(verdict(&outcome), expected, "{outcome:?}");
    }
    // One look-up per call: the checked address is the one connected to.
    assert_eq!((lookup.0.load(Ordering::SeqCst), server.requests()), (4, 2));
}

#[tokio::test]
async fn denied_networks_are_refused_by_name_unless_the_list_names_them() {
    let server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    let uri = format!("http://inner.test:{}/", server.port);
    let exact = format!("inner.test:{}", server.port);
    let address = format!("127.0.0.1:{}", server.port);
    let cases = [
        (vec![], "clean:address_refused"),
        (vec!["other.test"], "clean:address_refused"),
        (vec!["inner.test:1"], "clean:address_refused"),
        (vec!["10.0.0.0/8"], "clean:address_refused"),
        (vec!["inner.test"], "done"),
        (vec![exact.as_str()], "done"),
        (vec![address.as_str()], "done"),
        (vec!["127.0.0.0/8"], "done"),
    ];
    for (allow, expected) in cases {
        for method in ["GET", "POST"] {
            let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
            let config = NetConfig { private: PrivatePolicy::Deny, allow: allow.clone(), ..NetConfig::default() };
            let lookup = Arc::new(Rebinding(AtomicUsize::new(0), vec![vec![IpAddr::from([127, 0, 0, 1])]]));
            let performer = Performer::with_lookup(config, lookup).expect("a performer");
            let outcome = performer.perform(request(json!({ "uri": uri, "method": method }))).await;
            assert_eq!(verdict(&outcome), expected, "{method} {allow:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn no_more_calls_at_once_than_configured() {
    let release = Arc::new(Notify::new());
    let mut held = Server::start(Script::Hold(Arc::clone(&release))).await;
    let config = NetConfig { calls_per_host_max: 1, ..NetConfig::default() };
    let performer = Performer::new(config).expect("a performer");
    let first = tokio::spawn({
        let (performer, uri) = (performer.clone(), held.uri("/"));
        async move { performer.perform(request(json!({ "uri": uri, "method": "POST" }))).await }
    });
    held.next_request().await;
    let mut second = request(json!({ "uri": held.uri("/"), "method": "POST" }));
    second.timeout_ms = 100;
    let outcome = performer.perform(second).await;
    assert!(matches!(outcome, Outcome::FailedClean { code: "no_slot", retryable: true, .. }), "{outcome:?}");
    release.notify_one();
    assert_eq!(verdict(&first.await.expect("the first call")), "lost:connection_lost");
    assert_eq!(held.requests(), 1);
}

#[tokio::test]
async fn zero_limits_and_bad_lists_are_refused_at_the_start() {
    assert!(Performer::new(NetConfig { calls_max: 0, ..NetConfig::default() }).is_err());
    assert!(Performer::new(NetConfig { calls_per_host_max: 0, ..NetConfig::default() }).is_err());
    assert!(Performer::new(NetConfig { allow: vec!["10.0.0.0/99".to_owned()], ..NetConfig::default() }).is_err());
}
