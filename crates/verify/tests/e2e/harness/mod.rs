//! What the tests stand on: the server process, the bank it calls, and bounded waiting.

mod bank;
pub mod canary;
mod client;
mod server;

pub use bank::Bank;
pub use client::{Answer, Api};
pub use server::{Options, Server};

use std::future::Future;
use std::time::{Duration, Instant};

/// Long enough for a debug build on a busy machine; a test that needs it all has failed anyway.
pub const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// Asks until there is an answer; fails the test with `what` when there is none in time.
pub async fn eventually<T, F>(limit: Duration, what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let began = Instant::now();
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Lets real time pass: the server's clock cannot be moved, and a window is a span of it.
pub async fn clock_reaches(since: Instant, span: Duration) {
    tokio::time::sleep_until((since + span).into()).await;
}

/// A flow of the namespace `e2e`; `rest` is everything after the id.
pub fn flow(id: &str, rest: &str) -> String {
    format!("id: {id}\nnamespace: e2e\n{rest}")
}

/// A flow that does nothing but end well.
pub fn quick(id: &str) -> String {
    flow(id, "tasks:\n  - {id: say, type: log.Log, message: hello}\n")
}

/// A flow with one POST to `url`; `more` are further fields of the task, one per line. Each call carries the server's
/// canary, so that every test of a call is also a test of secrets.
pub fn post(id: &str, url: &str, more: &str) -> String {
    let canary = format!("headers: {{X-Canary: \"{{{{ secret('{}') }}}}\"}}", canary::NAME);
    let more = if more.contains("headers:") { more.to_owned() } else { format!("{more}\n{canary}") };
    let more: String = more.lines().map(|line| format!("    {line}\n")).collect();
    flow(
        id,
        &format!(
            "tasks:\n  - id: pay\n    type: http.Request\n    method: POST\n    uri: {url}\n    body: {{amount: 1}}\n{more}"
        ),
    )
}
