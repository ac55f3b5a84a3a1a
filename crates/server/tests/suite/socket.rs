//! The accept loop over real sockets: limits and the orderly end.

use crate::harness::*;
use semel_server::{ServerConfig, serve};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Listening {
    address: SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
}

async fn listen(server: &Server) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let served = tokio::spawn(serve(listener, server.app.clone(), shutdown.clone()));
    Listening { address, shutdown, served }
}

async fn say(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    heard(&mut stream).await
}

/// Everything until the server closes; an abrupt close counts as one.
async fn heard(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all))
        .await
        .expect("the server does not close");
    String::from_utf8_lossy(&all).into_owned()
}

fn config(change: impl FnOnce(&mut ServerConfig)) -> ServerConfig {
    let mut config = ServerConfig { dev: true, ..ServerConfig::default() };
    change(&mut config);
    config
}

#[tokio::test]
async fn heads_are_limited_in_size_and_time() {
    let server = Server::with(config(|c| c.limits.header_read_ms_max = 200));
    let at = listen(&server).await;
    let head = |bytes: usize| {
        format!("GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {}\r\n\r\n", "a".repeat(bytes))
    };
    assert!(say(at.address, head(12 * 1024).as_bytes()).await.starts_with("HTTP/1.1 200"));
    assert!(say(at.address, head(20 * 1024).as_bytes()).await.starts_with("HTTP/1.1 431"));
    // Nothing at all, the beginning of either protocol, half a head: all are closed in time.
    for slow in ["", "P", "PRI * HTTP/2.0\r\n", "GET /health/live HTTP/1.1\r\nhost: lo"] {
        assert!(!say(at.address, slow.as_bytes()).await.contains("200"), "{slow:?}");
    }
}

#[tokio::test]
async fn bodies_are_limited_in_size_and_time() {
    let server = Server::with(config(|c| {
        c.limits.body_bytes_max = 1_000;
        c.limits.body_read_ms_max = 200;
    }));
    server.push(ECHO).await.expect(200);
    let at = listen(&server).await;
    let head = "POST /v1/workflows/echo/trigger HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n", " ".repeat(0x3e9));
    assert!(say(at.address, chunked.as_bytes()).await.starts_with("HTTP/1.1 413"));
    // Who would keep the connection is told not to: the rest of the body is still in it.
    let kept = head.replace("connection: close\r\n", "");
    let answer = say(at.address, format!("{kept}content-length: 5000\r\n\r\n{{").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("connection: close"), "{answer}");
    let declared = format!("{head}content-length: 1001\r\n\r\n{}", " ".repeat(1_001));
    assert!(say(at.address, declared.as_bytes()).await.starts_with("HTTP/1.1 413"));
    let stalled = format!("{head}content-length: 10\r\n\r\n{{");
    let answer = say(at.address, stalled.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"), "{answer}");
}

#[tokio::test]
async fn connections_are_limited() {
    let server = Server::with(config(|c| c.limits.connections_max = 1));
    let at = listen(&server).await;
    let mut first = TcpStream::connect(at.address).await.unwrap();
    first.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut buffer = [0u8; 12];
    first.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"HTTP/1.1 200");
    let mut second = TcpStream::connect(at.address).await.unwrap();
    let answer = heard(&mut second).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"), "{answer}");
}

#[tokio::test]
async fn http2_is_spoken_to_who_speaks_it() {
    let server = Server::start();
    let at = listen(&server).await;
    let mut stream = TcpStream::connect(at.address).await.unwrap();
    // Preface in two pieces, then an empty SETTINGS frame.
    stream.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    stream.flush().await.unwrap();
    stream.write_all(b"\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0u8; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "the first frame of the server is SETTINGS");
}

#[tokio::test]
async fn the_end_is_orderly() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let id = server.trigger("call", None, json!({})).await.run_id();
    let at = listen(&server).await;
    let connect = |request: String| async move {
        let mut stream = TcpStream::connect(at.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    // A follower, a caller that waits for the run, and an idle connection.
    let mut follower = connect(format!("GET /v1/runs/{id}/follow HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    let mut begun = vec![0u8; 15];
    follower.read_exact(&mut begun).await.unwrap();
    let mut changes = server.engine.changes();
    let mut waiter = connect(
        "POST /v1/workflows/call/trigger HTTP/1.1\r\nhost: localhost\r\nprefer: wait=60\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
    )
    .await;
    while changes.recv().await.unwrap().run.to_string() == id {}
    let mut idle = connect("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned()).await;
    idle.read_exact(&mut begun).await.unwrap();
    at.shutdown.cancel();
    at.served.await.unwrap().unwrap();
    let answer = heard(&mut waiter).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"status\":\"started\""), "{answer}");
    assert!(heard(&mut follower).await.contains("event: run"));
    heard(&mut idle).await;
    assert!(TcpStream::connect(at.address).await.is_err());
}
