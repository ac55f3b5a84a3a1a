//! The limit of HTTP on this machine: a server that does nothing.

use crate::failure::Failure;
use crate::output::Reply;
use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;
use std::io::Write;
use std::path::Path;
use tokio::net::TcpListener;

/// About as long as a real answer.
const ANSWER: &str = r#"{"run_id":"0198c0de-0000-7000-8000-000000000000","workflow_id":"bench:fresh","status":"started","idempotent_replayed":false}"#;

/// Serves until stdin ends.
pub fn serve(port_file: Option<&Path>) -> Result<Reply, Failure> {
    let broken = |error: std::io::Error| Failure::refused("bench_failed", error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(broken)?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        if let Some(path) = port_file {
            let mut file = std::fs::File::create(path).map_err(broken)?;
            file.write_all(address.to_string().as_bytes()).map_err(broken)?;
        }
        let router = Router::new().route("/v1/workflows/{id}/trigger", post(answer));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        // A read of stdin cannot be cancelled, and need not be: it ends this process.
        let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
        // Either end is the end.
        let _ = ended.await;
        serving.abort();
        Ok(Reply::already_printed())
    })
}

async fn answer(body: Bytes) -> impl IntoResponse {
    // The body is read, as a real route must.
    let length = HeaderValue::from(body.len());
    (
        [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("x-read"), length),
        ],
        ANSWER,
    )
}
