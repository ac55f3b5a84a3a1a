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
            run: None,
            start_at: None,
            breakpoints: vec![],
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

const TAKES_A_FILE: &str = "{id: f, namespace: n, inputs: [{id: doc, type: FILE, allowedFileExtensions: [txt]}], \
    tasks: [{id: say, type: log.Log, message: '{{ read(inputs.doc) }}'}]}";

impl House {
    /// A file that a door has taken in, for a run that is to be.
    async fn uploaded(&self, name: &str, parts: &[&[u8]]) -> (RunId, String) {
        let (flow, run) = (semel_core::FlowRef::new("n", "f"), self.engine.fresh_run());
        let mut upload = self.engine.upload(&self.workspace, &flow, run, "doc", name);
        for part in parts {
            upload.write(part).await.unwrap();
        }
        (run, upload.finish().await.unwrap())
    }
}

#[tokio::test]
async fn a_file_that_was_taken_in_is_an_input() {
    let house = House::new(Limits::default());
    house.push(TAKES_A_FILE).await;
    let (run, uri) = house.uploaded("letter.txt", &[b"dear ", b"reader"]).await;
    assert!(uri.starts_with(&format!("kestra:///n/f/executions/{run}/inputs/doc/")) && uri.ends_with("/letter.txt"));
    let event = Occurrence { inputs: json!({"doc": uri}), run: Some(run), ..house.event("f") };
    assert_eq!(house.engine.admit(event).await.unwrap().run.unwrap().id, run);
    house.until("it has ended", |runs| runs.iter().all(|row| row.status == Status::Completed)).await;
    assert_eq!(house.engine.store().logs(&house.workspace, run, 0, 9).unwrap()[0].message, "dear reader");
    let (run, other) = house.uploaded("letter.csv", &[b"x"]).await;
    for wrong in [other.as_str(), "letter.txt", &uri.replace("letter", "other")] {
        let event = Occurrence { inputs: json!({"doc": wrong}), run: Some(run), ..house.event("f") };
        assert!(matches!(house.engine.admit(event).await, Err(AdmitError::Inputs(_))), "{wrong}");
    }
}

#[tokio::test]
async fn two_deliveries_of_one_file_are_one_payload() {
    let house = House::new(Limits::default());
    house.push(TAKES_A_FILE).await;
    let deliver = async |bytes: &[u8]| {
        let (run, uri) = house.uploaded("letter.txt", &[bytes]).await;
        let keyed = Occurrence { caller_key: Some("k".into()), door_preset: PresetName::Semel, ..house.event("f") };
        house.engine.admit(Occurrence { inputs: json!({"doc": uri}), run: Some(run), ..keyed }).await.unwrap()
    };
    let first = deliver(b"same").await;
    let twin = deliver(b"same").await;
    assert!(twin.same_payload && !twin.created);
    assert_eq!(twin.run.unwrap().id, first.run.unwrap().id);
    assert!(!deliver(b"other").await.same_payload);
}

#[tokio::test]
async fn an_upload_is_neither_empty_nor_too_large() {
    let house = House::new(Limits { file_bytes_max: 300_000, ..Limits::default() });
    let flow = semel_core::FlowRef::new("n", "f");
    let upload = || house.engine.upload(&house.workspace, &flow, house.engine.fresh_run(), "doc", "a");
    assert!(upload().finish().await.is_err());
    let mut most = upload();
    most.write(&[b'x'; 300_000]).await.unwrap();
    assert!(most.finish().await.is_ok());
    assert!(upload().write(&[b'x'; 300_001]).await.is_err());
}
