//! The accept loop, with a limit on everything a stranger can hold open.
//!
//! | what | limit | past it |
//! |---|---|---|
//! | connections | `connections_max` | 503 and closed, before a byte is read |
//! | first bytes, request head | `header_read_ms_max` | closed |
//! | size of a request head | `header_bytes_max` | 431 (to the byte in `dispatch`) |
//! | streams of an HTTP/2 connection | 64 | refused by the protocol |
//! | body | `body_bytes_max`, `body_read_ms_max` | 413, 408 (in `dispatch`) |
//! | orderly end | 10 s | what is still open is cut |
//!
//! HTTP/1 and HTTP/2 are told apart here and not by the library, whose own look at the first
//! bytes has no time limit.

use crate::codes::Code;
use crate::problem::Problem;
use crate::site::Site;
use crate::spelling::{Heard, Hearing, Spelled};
use crate::state::AppState;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use prometheus_client::metrics::gauge::Gauge;
use semel_core::limits::Limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long open connections may take to finish once the server stops.
const DRAIN: Duration = Duration::from_secs(10);
/// After an error of accept (usually: no file descriptors left), wait for some to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const REFUSE: Duration = Duration::from_secs(1);
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HTTP2_STREAMS_MAX: u32 = 64;
/// The library does not go below this.
const HEADER_BYTES_MIN: usize = 8 * 1024;

/// Serves the whole route table until `shutdown` is cancelled and open requests have finished.
pub async fn serve(listener: TcpListener, app: AppState, shutdown: CancellationToken) -> std::io::Result<()> {
    let site = Site::new(app.clone());
    let slots = Arc::new(Semaphore::new(app.config().limits.connections_max));
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        let Ok((stream, _)) = accepted else {
            tracing::warn!("a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        match slots.clone().try_acquire_owned() {
            Ok(slot) => {
                let open = Open::new(&app, slot);
                connections.spawn(connection(stream, site.clone(), app.clone(), cut.clone(), open));
            }
            Err(_) => {
                app.metrics().refused(Code::TooManyConnections);
                connections.spawn(refuse(stream));
            }
        }
    }
    drop(listener);
    app.stopping().cancel();
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections still open are cut");
        cut.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// One open connection, counted while it lives.
struct Open {
    gauge: Gauge,
    _slot: OwnedSemaphorePermit,
}

impl Open {
    fn new(app: &AppState, slot: OwnedSemaphorePermit) -> Open {
        let gauge = app.metrics().connections.clone();
        gauge.inc();
        Open { gauge, _slot: slot }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

async fn connection(stream: TcpStream, site: Site, app: AppState, cut: CancellationToken, open: Open) {
    tokio::select! {
        () = converse(stream, site, &app) => {}
        () = cut.cancelled() => {}
    }
    drop(open);
}

async fn converse(stream: TcpStream, site: Site, app: &AppState) {
    let limits = app.config().limits.clone();
    // Small answers must not wait for the peer's acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    let head_time = Duration::from_millis(limits.header_read_ms_max);
    let http2 = tokio::select! {
        told = tokio::time::timeout(head_time, speaks_http2(&stream)) => match told {
            Ok(Ok(http2)) => http2,
            Ok(Err(_)) | Err(_) => return,
        },
        () = app.stopping().cancelled() => return,
    };
    let builder = builder(&limits, http2);
    let heard = Heard::new(2 * limits.header_bytes_max.max(HEADER_BYTES_MIN));
    let stream = Hearing { stream, heard: heard.clone() };
    let conversation = builder.serve_connection(TokioIo::new(stream), Spelled { site, heard });
    let mut conversation = std::pin::pin!(conversation);
    tokio::select! {
        // Errors here are the peer's: broken framing, time-outs, resets.
        ended = conversation.as_mut() => drop(ended),
        () = app.stopping().cancelled() => {
            conversation.as_mut().graceful_shutdown();
            let _ = conversation.await;
        }
    }
}

fn builder(limits: &Limits, http2: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let head_bytes = limits.header_bytes_max.max(HEADER_BYTES_MIN);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_read_ms_max))
        .max_buf_size(head_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    if http2 { builder.http2_only() } else { builder.http1_only() }
}

/// Looks at the first bytes without taking them.
async fn speaks_http2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0u8; HTTP2_PREFACE.len()];
    loop {
        let seen = stream.peek(&mut first).await?;
        if seen == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if !HTTP2_PREFACE.starts_with(&first[..seen]) {
            return Ok(false);
        }
        if seen == HTTP2_PREFACE.len() {
            return Ok(true);
        }
        // The bytes so far could be either; peeking does not wait for more, so look again soon.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Says why, if the peer listens, and closes.
async fn refuse(mut stream: TcpStream) {
    let problem = Problem::new(Code::TooManyConnections, "too many connections are open; connect again in a moment");
    let body = problem.to_json().to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = tokio::time::timeout(REFUSE, async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}
