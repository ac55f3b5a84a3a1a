//! The outside: receivers that dedupe, count, forget, fail after applying, and lose requests.

use super::chance::Chance;
use super::faults::{Fault, Faults};
use super::flows::{Class, Flow, Kind};
use semel_tasks::{Outcome, Request};
use serde_json::json;
use std::collections::BTreeMap;

/// One request as a receiver saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub host: String,
    pub uri: String,
    pub variant: u32,
    pub flow: String,
    pub task: String,
    /// The run that asked, by its own word.
    pub run: String,
    pub class: Class,
    pub step_id: String,
    pub key: Option<String>,
    pub body: String,
    /// Store time when it left the node, and when it arrived.
    pub left: i64,
    pub arrived: Option<i64>,
    /// It changed something here.
    pub applied: bool,
    /// A failure was answered, and the node heard it.
    pub answered_failure: bool,
    /// The node heard a good answer.
    pub answered_done: bool,
    /// It failed after applying: the far side broke its own word.
    pub dishonest: bool,
}

/// What comes back, and when.
pub struct Back {
    pub after_ms: i64,
    pub outcome: Outcome,
}

#[derive(Default)]
pub struct Outside {
    pub seen: Vec<Seen>,
    /// Keys a deduping receiver remembers: since when.
    known: BTreeMap<(String, String), i64>,
}

fn done(uri: &str) -> Outcome {
    Outcome::Done { output: json!({"uri": uri, "code": 200, "headers": {}, "body": format!("ok {uri}")}) }
}

fn failed(code: &'static str, message: &str) -> Outcome {
    Outcome::FailedClean { code, message: message.to_owned(), output: None, retryable: true }
}

impl Outside {
    /// A request leaves a node.
    pub fn leave(&mut self, request: &Request, now: i64, flows: &[Flow]) -> usize {
        let uri = request.config["uri"].as_str().unwrap_or_default().to_owned();
        let mut parts = uri.trim_start_matches("http://").split('/');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (host, variant, flow, task, run) = (part(), part(), part(), part(), part());
        let class = flows.iter().find(|f| f.id == flow).and_then(|f| f.task(&task)).and_then(|t| match &t.kind {
            Kind::Http(call) => Some(call.class),
            _ => None,
        });
        self.seen.push(Seen {
            host,
            variant: variant.parse().unwrap_or(0),
            flow,
            task,
            run,
            class: class.unwrap_or(Class::Naked),
            step_id: request.step_id.clone(),
            key: request.idempotency_key.clone(),
            body: request.config["body"].to_string(),
            uri,
            left: now,
            arrived: None,
            applied: false,
            answered_failure: false,
            answered_done: false,
            dishonest: false,
        });
        self.seen.len() - 1
    }

    /// It arrives: what it does there, and what comes back.
    pub fn arrive(
        &mut self,
        index: usize,
        now: i64,
        timeout_ms: i64,
        faults: &mut Faults,
        flows: &[Flow],
        chance: &mut Chance,
    ) -> Back {
        let mut after_ms = chance.range(0, 20);
        if faults.strikes(Fault::ReceiverSlow) {
            after_ms = chance.range(100, timeout_ms.max(101) - 1);
        }
        let lost =
            Back { after_ms: timeout_ms, outcome: Outcome::Lost { code: "timeout", message: "no answer".into() } };
        if faults.strikes(Fault::ReceiverLosesRequest) {
            return lost;
        }
        if faults.strikes(Fault::ReceiverRefuses) {
            self.seen[index].arrived = Some(now);
            return Back { after_ms, outcome: failed("http_status", "503 not now") };
        }
        self.apply(index, now, faults, flows);
        if faults.strikes(Fault::ReceiverAppliesThenTimesOut) {
            return lost;
        }
        // A receiver that only ever upserts or forgets keys is honest about failures: else nobody
        // could tell its mistakes from the engine's.
        if self.seen[index].host != "forgets" && faults.strikes(Fault::ReceiverFailsAfterApplying) {
            self.seen[index].dishonest = true;
            return Back { after_ms, outcome: failed("http_status", "500 after the fact") };
        }
        Back { after_ms, outcome: done(&self.seen[index].uri) }
    }

    fn apply(&mut self, index: usize, now: i64, faults: &mut Faults, flows: &[Flow]) {
        self.seen[index].arrived = Some(now);
        let seen = &self.seen[index];
        let dedupes = seen.host == "dedupe" || seen.host == "forgets";
        let Some(key) = seen.key.clone().filter(|_| dedupes) else {
            self.seen[index].applied = true;
            return;
        };
        let remembers = match seen.host.as_str() {
            // The window its author declared, and a little more: requests travel.
            "forgets" => window_of(flows, &seen.flow, &seen.task).map(|ms| ms + 15_000),
            _ => None,
        };
        let slot = (seen.host.clone(), key);
        let known = self.known.get(&slot).copied();
        let fresh = match (known, remembers) {
            (None, _) => true,
            (Some(since), Some(ms)) if now >= since + ms => {
                faults.count(Fault::ReceiverForgets);
                true
            }
            _ => false,
        };
        if fresh {
            self.known.insert(slot, now);
            self.seen[index].applied = true;
        }
    }
}

fn window_of(flows: &[Flow], flow: &str, task: &str) -> Option<i64> {
    let task = flows.iter().find(|f| f.id == flow)?.task(task)?.clone();
    match task.kind {
        Kind::Http(call) => Some(call.window_ms.unwrap_or(86_400_000)),
        _ => None,
    }
}

/// How a call ended, in a word.
pub(super) fn short(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { .. } => "done",
        Outcome::FailedClean { .. } => "failed",
        Outcome::Lost { .. } => "lost",
    }
}
