//! The whole engine on a real store: callers that go away in the middle.

use crate::api::{AdmitError, Occurrence};
use crate::handle::{Engine, Parts};
use crate::ports::Performer;
use crate::system::{SystemClock, SystemEntropy};
use semel_core::admission::{Decision, PresetName};
use semel_core::limits::Limits;
use semel_core::run::Status;
use semel_core::{Door, RunId, WorkspaceId};
use semel_store::{RunQuery, RunRow, Store};
use semel_store_sqlite::{Options, SqliteStore};
use semel_tasks::{Outcome, Request};
use serde_json::json;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

struct Nothing;

impl Performer for Nothing {
    fn perform(&self, _: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(async { Outcome::Done { output: json!({}) } })
    }
}

struct House {
    engine: Arc<Engine>,
    workspace: WorkspaceId,
    _directory: tempfile::TempDir,
}

impl House {
    fn new(limits: Limits) -> House {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = SqliteStore::open(&directory.path().join("semel.db"), Options::default()).unwrap();
        let engine = Engine::start(Parts {
            store,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            performer: Arc::new(Nothing),
            catalog: &semel_tasks::REGISTRY,
            limits,
            master_key: None,
            environment: vec![],
            url: None,
        });
        House { engine, workspace: WorkspaceId::default(), _directory: directory }
    }

    async fn push(&self, source: &str) {
        self.engine.push_flow(&self.workspace, source, "test").await.unwrap();
    }

    fn event(&self, flow: &str) -> Occurrence {
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
            trigger: json!({}).into(),
            inputs: json!({}),
            trigger_id: None,
            labels: vec![],
            correlation_id: None,
        }
    }

    fn runs(&self) -> Vec<RunRow> {
        let query = RunQuery { limit: 500, ..RunQuery::default() };
        self.engine.store().runs(&self.workspace, &query).unwrap().into_iter().map(|(row, _, _)| row).collect()
    }

    async fn until(&self, what: &str, holds: impl Fn(&[RunRow]) -> bool) {
        for _ in 0..500 {
            if holds(&self.runs()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came true: {what}; {:?}", self.runs());
    }
}

/// Lets a future begin, then drops it: the caller went away.
fn begin_and_leave(future: impl Future) {
    let mut future = Box::pin(future);
    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[tokio::test]
async fn a_run_whose_caller_went_away_is_driven_all_the_same() {
    let limits = Limits { pending_admissions_max: 8, ..Limits::default() };
    let house = House::new(limits);
    house.push("{id: f, namespace: n, tasks: [{id: t, type: http.Request, uri: 'http://x/a'}]}").await;
    for round in 1..=4 {
        for _ in 0..8 {
            begin_and_leave(house.engine.admit(house.event("f")));
        }
        house
            .until("all runs have ended", |runs| {
                runs.len() == round * 8 && runs.iter().all(|r| r.status == Status::Completed)
            })
            .await;
    }
    assert!(house.engine.admit(house.event("f")).await.is_ok(), "no place is lost");
}

#[tokio::test]
async fn who_waited_and_left_leaves_nothing_behind() {
    let house = House::new(Limits::default());
    house.push("{id: f, namespace: n, tasks: [{id: nap, type: flow.Sleep, duration: PT1H}]}").await;
    let run: RunId = house.engine.admit(house.event("f")).await.unwrap().run.unwrap().id;
    for _ in 0..100 {
        begin_and_leave(house.engine.wait_ended(&house.workspace, run, Duration::from_secs(60)));
    }
    assert_eq!(house.engine.waiting(), 0);
}

#[tokio::test]
async fn a_push_whose_caller_went_away_is_the_newest_revision() {
    let house = House::new(Limits::default());
    let source = |text: &str| format!("{{id: f, namespace: n, tasks: [{{id: t, type: log.Log, message: {text}}}]}}");
    house.push(&source("one")).await;
    assert_eq!(house.engine.resolve_flow(&house.workspace, "f").unwrap().revision, 1);
    begin_and_leave(house.engine.push_flow(&house.workspace, &source("two"), "test"));
    for _ in 0..500 {
        if house.engine.resolve_flow(&house.workspace, "f").unwrap().revision == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the old revision stays");
}

#[tokio::test]
async fn a_twin_is_checked_by_the_flow_as_it_is_now() {
    let house = House::new(Limits::default());
    house.push("id: pay\nnamespace: shop\ntasks:\n  - {id: a, type: log.Log, message: hi}\n").await;
    let event = |inputs: serde_json::Value| Occurrence { caller_key: Some("k".into()), inputs, ..house.event("pay") };
    let first = house.engine.admit(event(json!({}))).await.unwrap();
    let twin = house.engine.admit(event(json!({}))).await.unwrap();
    assert_eq!((twin.decision, twin.run.map(|run| run.id)), (Decision::Replay, first.run.map(|run| run.id)));
    let inputs = "inputs:\n  - {id: amount, type: INT}\n";
    house.push(&format!("id: pay\nnamespace: shop\n{inputs}tasks:\n  - {{id: a, type: log.Log, message: hi}}\n")).await;
    assert!(matches!(house.engine.admit(event(json!({}))).await, Err(AdmitError::Inputs(_))));
    assert!(matches!(house.engine.admit(event(json!({"amount": "x"}))).await, Err(AdmitError::Inputs(_))));
    let twin = house.engine.admit(event(json!({"amount": 1}))).await.unwrap();
    assert_eq!(twin.decision, Decision::Replay, "this door does not compare payloads");
    assert_eq!(house.runs().len(), 1);
}
