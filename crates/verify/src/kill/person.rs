//! The person on call: looks for held runs while everything falls down, and gives the verdicts the ledger suggests.
//!
//! A held run of `swap` keeps its lane, so each of them is decided. Of `once` every second one is, the others stay held
//! to the end, and so do all of `cut`.

use super::observe::{Api, Run};
use super::records::{self, Call};
use serde_json::json;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What a dead process had sent may still arrive; then it is in the ledger.
const NOT_BEFORE: Duration = Duration::from_millis(1_000);

pub struct Person {
    api: Api,
    ledger: PathBuf,
    first_seen: HashMap<String, Instant>,
    pub verdicts: usize,
}

fn decides(run: &Run) -> bool {
    match run.flow.as_str() {
        "swap" => true,
        "once" => run.id.bytes().last().is_some_and(|byte| byte % 2 == 0),
        _ => false,
    }
}

impl Person {
    pub fn new(api: Api, ledger: PathBuf) -> Person {
        Person { api, ledger, first_seen: HashMap::new(), verdicts: 0 }
    }

    /// Looks again and again, until the task is ended.
    pub async fn on_call(person: Arc<Mutex<Person>>) {
        loop {
            // The server may be down: then there is nothing to see.
            let _ = person.lock().await.look().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Looks once; how many runs are held that still need a verdict.
    pub async fn look(&mut self) -> Result<usize, String> {
        let held = self.api.runs("?status=held").await.map_err(|error| error.to_string())?;
        let held: Vec<Run> = held.into_iter().filter(decides).collect();
        if held.is_empty() {
            return Ok(0);
        }
        let calls: Vec<Call> = records::read(&self.ledger).map_err(|error| error.to_string())?;
        for run in &held {
            let seen = *self.first_seen.entry(run.id.clone()).or_insert_with(Instant::now);
            if seen.elapsed() < NOT_BEFORE {
                continue;
            }
            let verdict = match calls.iter().any(|call| call.run == run.id) {
                true => json!({"verdict": "done", "result": {"code": 200}, "why": "the ledger has it"}),
                false => json!({"verdict": "repeat", "why": "the ledger has nothing"}),
            };
            // Refused if it was decided meanwhile: an answer that was lost is asked for again.
            if self.api.post(&format!("/v1/runs/{}/verdict", run.id), &verdict).await.is_ok() {
                self.verdicts += 1;
            }
        }
        Ok(held.len())
    }
}
