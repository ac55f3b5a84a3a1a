//! The outside world as one small server: it writes down every call, syncs, and only then answers.
//!
//! | path | what it does with a call |
//! |---|---|
//! | `/dedupe/…` | applies the first of each `Idempotency-Key` |
//! | `/flaky/…` | the same; then the answer is 200, 500, a 503 before applying, or comes too late |
//! | `/naive/…`, `/repeat/…` | applies each |
//! | `/cut/…` | applies, and never answers |
//! | `/read/…` | answers |

use super::records::{AppendLog, Call, Receiver, now_ms};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// Longer than the callers' own limit.
const TOO_LATE: Duration = Duration::from_millis(1_500);
/// A call without an answer ends by its caller's patience, or by this.
const NEVER: Duration = Duration::from_secs(300);

struct Ledger {
    log: AppendLog,
    /// How often each key was applied and called.
    seen: Mutex<HashMap<String, u32>>,
}

/// What a flaky receiver does this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    AppliesThenFails,
    AppliesThenIsLate,
    RefusesUnapplied,
}

/// By the key and the number of the call, so that a repeat of the test meets the same moods; the third call is well.
fn mood(key: &str, earlier: u32) -> Mood {
    let sum = key.bytes().fold(earlier.wrapping_mul(31), |sum, byte| sum.wrapping_mul(33) ^ u32::from(byte));
    match (earlier, sum % 6) {
        (0 | 1, 0) => Mood::AppliesThenFails,
        (0 | 1, 1) => Mood::AppliesThenIsLate,
        (0 | 1, 2) => Mood::RefusesUnapplied,
        _ => Mood::Well,
    }
}

type Name = (String, String, String, String);

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, log: AppendLog) -> io::Result<()> {
    let ledger = Arc::new(Ledger { log, seen: Mutex::default() });
    let one = |receiver: Receiver| {
        any(move |State(ledger): State<Arc<Ledger>>, Path(name): Path<Name>, headers: HeaderMap| {
            receive(ledger, receiver, name, headers)
        })
    };
    let router = Router::new()
        .route("/dedupe/{flow}/{event}/{run}/{step}", one(Receiver::Dedupe))
        .route("/flaky/{flow}/{event}/{run}/{step}", one(Receiver::Flaky))
        .route("/naive/{flow}/{event}/{run}/{step}", one(Receiver::Naive))
        .route("/cut/{flow}/{event}/{run}/{step}", one(Receiver::Cut))
        .route("/repeat/{flow}/{event}/{run}/{step}", one(Receiver::Repeat))
        .route("/read/{flow}/{event}/{run}/{step}", one(Receiver::Read))
        .with_state(ledger);
    axum::serve(listener, router).await
}

async fn receive(ledger: Arc<Ledger>, receiver: Receiver, name: Name, headers: HeaderMap) -> StatusCode {
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (answer, wait) = tokio::task::block_in_place(|| ledger.record(receiver, name, key))
        // A ledger that cannot write must not be believed: no answer is better than a wrong one.
        .unwrap_or_else(|error| panic!("the ledger cannot write: {error}"));
    if let Some(wait) = wait {
        tokio::time::sleep(wait).await;
    }
    StatusCode::from_u16(answer).unwrap_or(StatusCode::OK)
}

impl Ledger {
    /// Decides and writes in one step, so that the file has the order in which things were applied.
    fn record(
        &self,
        receiver: Receiver,
        (flow, event, run, step): Name,
        key: Option<String>,
    ) -> io::Result<(u16, Option<Duration>)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = key.as_deref().and_then(|key| seen.get(key).copied()).unwrap_or(0);
        let first = key.as_deref().is_none_or(|key| !seen.contains_key(&format!("applied {key}")));
        let (applied, answer, wait) = match receiver {
            Receiver::Dedupe => (first, 200, None),
            Receiver::Flaky => match mood(key.as_deref().unwrap_or_default(), earlier) {
                Mood::Well => (first, 200, None),
                Mood::AppliesThenFails => (first, 500, None),
                Mood::AppliesThenIsLate => (first, 0, Some(TOO_LATE)),
                Mood::RefusesUnapplied => (false, 503, None),
            },
            Receiver::Naive | Receiver::Repeat => (true, 200, None),
            Receiver::Cut => (true, 0, Some(NEVER)),
            Receiver::Read => (false, 200, None),
        };
        if let Some(key) = &key {
            *seen.entry(key.clone()).or_default() += 1;
            if applied {
                seen.insert(format!("applied {key}"), 1);
            }
        }
        let call = Call { at_ms: now_ms(), receiver, flow, event, run, step, key, applied, answer };
        let number = self.log.write(&call)?;
        drop(seen);
        self.log.sync(number)?;
        Ok((if answer == 0 { 200 } else { answer }, wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaky_receiver_has_every_mood_and_is_well_in_the_end() {
        let moods: Vec<Mood> = (0..60).map(|n| mood(&format!("key-{n}"), 0)).collect();
        for expected in [Mood::Well, Mood::AppliesThenFails, Mood::AppliesThenIsLate, Mood::RefusesUnapplied] {
            assert!(moods.contains(&expected), "{expected:?}");
        }
        assert!((0..60).all(|n| mood(&format!("key-{n}"), 2) == Mood::Well));
    }
}
