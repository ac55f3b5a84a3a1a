//! Triggers on a whole engine whose clock only moves when told.

mod changes;
mod events;
mod flows;
mod schedules;

use crate::api::Occurrence;
use crate::handle::{Engine, Parts};
use crate::ports::{Clock, Performer};
use crate::tests::world::Counting;
use parking_lot::Mutex;
use semel_core::admission::PresetName;
use semel_core::limits::Limits;
use semel_core::{Door, Millis, WorkspaceId};
use semel_store::memory::MemoryStore;
use semel_store::{RunQuery, RunRow, RunValues};
use semel_tasks::{Outcome, Request};
use serde_json::{Value as Json, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

struct Set(Arc<Mutex<Millis>>);

impl Clock for Set {
    fn now(&self) -> Millis {
        *self.0.lock()
    }
}

/// Answers every call with what was set last.
struct Outside(Arc<Mutex<Outcome>>);

impl Performer for Outside {
    fn perform(&self, _: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let answer = self.0.lock().clone();
        Box::pin(async move { answer })
    }
}

struct House {
    engine: Arc<Engine>,
    clock: Arc<Mutex<Millis>>,
    /// What every call is answered with.
    outside: Arc<Mutex<Outcome>>,
    workspace: WorkspaceId,
}

impl House {
    fn at(text: &str) -> House {
        let clock = Arc::new(Mutex::new(instant(text)));
        let reading = clock.clone();
        let outside = Arc::new(Mutex::new(Outcome::Done { output: json!({}) }));
        let engine = Engine::start(Parts {
            store: MemoryStore::new(Arc::new(move || *reading.lock())),
            clock: Arc::new(Set(clock.clone())),
            // Runs of one millisecond are listed in the order in which they came.
            entropy: Arc::new(Counting(AtomicU64::new(1))),
            performer: Arc::new(Outside(outside.clone())),
            catalog: &semel_tasks::REGISTRY,
            limits: Limits::default(),
            master_key: None,
            environment: vec![],
            url: None,
        });
        House { engine, clock, outside, workspace: WorkspaceId::default() }
    }

    async fn push(&self, source: &str) {
        if let Err(error) = self.engine.push_flow(&self.workspace, source, "test").await {
            panic!("{error:?}");
        }
    }

    fn event(&self, flow: &str, inputs: Json) -> Occurrence {
        Occurrence {
            workspace: self.workspace.clone(),
            flow: self.engine.resolve_flow(&self.workspace, flow).unwrap(),
            door: Door::Trigger,
            caller: "test".into(),
            caller_key: None,
            intrinsic_key: None,
            door_preset: PresetName::Trigger,
            request_preset: None,
            scope: None,
            trigger: json!({"data": inputs}).into(),
            inputs,
            trigger_id: None,
            labels: vec![],
            correlation_id: None,
            run: None,
            start_at: None,
            breakpoints: vec![],
        }
    }

    fn now_is(&self, text: &str) {
        *self.clock.lock() = instant(text);
    }

    /// Looks at the clock, then waits until every run has ended.
    async fn tick(&self) {
        self.engine.tick_schedules().await.unwrap();
        self.settle().await;
    }

    async fn settle(&self) {
        for (row, _) in self.runs() {
            self.engine.wait_ended(&self.workspace, row.id, Duration::from_secs(10)).await.unwrap();
        }
    }

    /// Oldest first.
    fn runs(&self) -> Vec<(RunRow, RunValues)> {
        let query = RunQuery { limit: 500, ..RunQuery::default() };
        let mut runs: Vec<_> = self.engine.store().runs(&self.workspace, &query).unwrap();
        runs.reverse();
        runs.into_iter().map(|(row, values, _)| (row, values)).collect()
    }

    /// One variable of the triggers of all runs.
    fn triggered(&self, name: &str) -> Vec<Json> {
        self.runs().into_iter().map(|(_, values)| values.trigger.unwrap_or_default()[name].clone()).collect()
    }
}

fn instant(text: &str) -> Millis {
    Millis::parse_rfc3339(text).expect("an instant")
}
