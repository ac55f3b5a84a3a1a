//! A store under test, with the short words that cases are written in.

use super::Make;
use crate::*;
use semel_core::admission::*;
use semel_core::fingerprint::Fingerprint;
use semel_core::run::{By, EndStatus, Event, Failure, Payload, Status, StepKey, encode_events};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub const DAY_MS: i64 = 86_400_000;

pub struct Bench {
    pub store: Arc<dyn Store>,
    clock: Arc<AtomicI64>,
    last_id: AtomicU64,
}

impl Bench {
    pub fn new(make: Make) -> Bench {
        let clock = Arc::new(AtomicI64::new(1_700_000_000_000));
        let read = clock.clone();
        let store = make(Arc::new(move || Millis(read.load(Ordering::Relaxed))));
        Bench { store, clock, last_id: AtomicU64::new(0) }
    }

    pub fn ws(&self) -> WorkspaceId {
        WorkspaceId::default()
    }

    pub fn now(&self) -> Millis {
        Millis(self.clock.load(Ordering::Relaxed))
    }

    pub fn pass(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    /// Ids grow, as real ones do.
    pub fn id(&self) -> RunId {
        let count = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        RunId::from_bytes((0x0190_0000_0000_7000_8000_0000_0000_0000_u128 + u128::from(count)).to_be_bytes())
    }

    pub fn call(&self, work: Work) -> Done {
        self.store.call(work).expect("the write is accepted")
    }

    pub fn fail(&self, work: Work) -> StoreError {
        self.store.call(work).expect_err("the write is refused")
    }

    /// An event of the flow `shop:order` without a key, under the `semel` policy.
    pub fn event(&self) -> AdmitRequest {
        AdmitRequest {
            workspace: self.ws(),
            flow: FlowRef::new("shop", "order"),
            revision: 1,
            door: Door::Trigger,
            occurrence: "occurrence".into(),
            caller: "caller".into(),
            key: None,
            fingerprint: Fingerprint::of(&[&json!({"n": 1})]),
            policy: PresetName::Semel.preset().policy,
            lane: None,
            run: self.id(),
            inputs: json!({"n": 1}),
            trigger: json!({}),
            labels: vec![],
            correlation_id: None,
            parent: None,
            root: None,
            depth: 0,
            tick: None,
            hearing: None,
            announced: false,
            terms: Default::default(),
        }
    }

    pub fn keyed(&self, key: &str) -> AdmitRequest {
        AdmitRequest { key: Some(claim_of(&self.ws(), key)), ..self.event() }
    }

    pub fn in_lane(&self, key: &str, busy: Busy) -> AdmitRequest {
        let lane = LaneRequest { hash: self.lane(), limit: 1, busy };
        AdmitRequest { lane: Some(lane), ..self.keyed(key) }
    }

    pub fn lane(&self) -> Hash16 {
        lane_hash(&self.ws(), &FlowRef::new("shop", "order"), "lane")
    }

    pub fn admit(&self, request: AdmitRequest) -> AdmitResult {
        match self.call(Work::Admit(Box::new(request))) {
            Done::Admitted(result) => *result,
            other => panic!("not an admission: {other:?}"),
        }
    }

    /// Admits and names the run.
    pub fn start(&self, request: AdmitRequest) -> RunId {
        self.admit(request).run.expect("a run").id
    }

    pub fn head(&self, run: RunId) -> RunRow {
        self.store.run(&self.ws(), run).unwrap().expect("the run is there").0
    }

    pub fn values(&self, run: RunId) -> RunValues {
        self.store.run(&self.ws(), run).unwrap().expect("the run is there").1
    }

    pub fn inbox(&self, run: RunId) -> Vec<Inbox> {
        self.store
            .load_run(&self.ws(), run)
            .unwrap()
            .expect("the run is there")
            .inbox
            .into_iter()
            .map(|(_, m)| m)
            .collect()
    }

    pub fn claim(&self, key: &str) -> Option<Claim> {
        self.store.claim(&self.ws(), claim_of(&self.ws(), key).hash).unwrap()
    }

    pub fn claim_state(&self, key: &str) -> ClaimState {
        self.claim(key).expect("the claim is there").state
    }

    /// A commit on the stored head that changes nothing.
    pub fn step(&self, run: RunId) -> RunCommit {
        let head = self.head(run);
        RunCommit {
            workspace: self.ws(),
            run,
            epoch: head.epoch,
            version: head.version,
            events: vec![],
            values: None,
            head: HeadChange {
                status: head.status,
                active: head.active,
                open_intents: head.open_intents,
                open_doubts: head.open_doubts,
                take: head.take,
                warned: head.warned,
                conclusion: head.conclusion,
            },
            timers_set: vec![],
            timers_cleared: vec![],
            errands: vec![],
            effects: vec![],
            task_words: vec![],
            logs: vec![],
            labels: None,
            inbox_consumed: vec![],
            answers: vec![],
            outputs: None,
            failure: None,
            snapshot: None,
            ops: vec![],
            settle: Settle::Unchanged,
            cancels: vec![],
            announce: None,
            amend: None,
            reopen: None,
        }
    }

    pub fn commit(&self, commit: RunCommit) -> CommitResult {
        match self.call(Work::Commit(Box::new(commit))) {
            Done::Committed(result) => *result,
            other => panic!("not a commit: {other:?}"),
        }
    }

    pub fn ending(&self, run: RunId, status: EndStatus) -> RunCommit {
        let failure = (status == EndStatus::Failed).then(|| Failure::new("task_failed", "it broke"));
        let outputs = (status == EndStatus::Completed).then(|| Payload::new(json!({"total": 7})));
        let (events, values) = encode_events(&[Event::Ended { status, warned: false, outputs, failure }]);
        let mut commit = self.step(run);
        commit.head.status = match status {
            EndStatus::Completed => Status::Completed,
            EndStatus::Failed => Status::Failed,
            EndStatus::Cancelled => Status::Cancelled,
        };
        commit.head.active = false;
        RunCommit {
            events,
            values,
            outputs: (status == EndStatus::Completed).then(|| json!({"total": 7})),
            failure: (status == EndStatus::Failed).then(|| json!({"code": "task_failed"})),
            settle: Settle::Ended { status },
            ..commit
        }
    }

    pub fn end(&self, run: RunId, status: EndStatus) -> CommitResult {
        self.commit(self.ending(run, status))
    }

    /// Ends the run with a doubt open.
    pub fn end_in_doubt(&self, run: RunId) {
        let mut commit = self.ending(run, EndStatus::Failed);
        commit.head.open_doubts = 1;
        commit.head.status = Status::Held;
        self.commit(commit);
    }

    /// Admits a keyed event and ends its run.
    pub fn ended(&self, key: &str, status: EndStatus) -> RunId {
        let run = self.start(self.keyed(key));
        self.end(run, status);
        run
    }

    pub fn op(&self, run: RunId, kind: OpKind) -> CommitResult {
        self.commit(RunCommit { ops: vec![CommitOp { step: StepKey("op".into()), kind }], ..self.step(run) })
    }

    pub fn decisions(&self) -> Vec<DecisionRow> {
        self.store.decisions(&self.ws(), &DecisionQuery { limit: 1_000, ..DecisionQuery::default() }).unwrap()
    }

    pub fn dump(&self) -> Json {
        self.store.dump().unwrap()
    }

    /// Rows of one table.
    pub fn rows(&self, table: &str) -> Vec<Json> {
        self.dump()[table].as_array().cloned().unwrap_or_default()
    }

    pub fn kv_set(&self, key: &str, value: Json) -> KvSet {
        KvSet { workspace: self.ws(), key: key.into(), value, overwrite: true, ttl_ms: None }
    }

    pub fn sweep(&self, limit: u32) -> u64 {
        let rules = SweepRules { limit, decisions_ms: 30 * DAY_MS, uploads_ms: DAY_MS, history_ms: Some(30 * DAY_MS) };
        match self.call(Work::Sweep(rules)) {
            Done::Count(count) => count,
            other => panic!("not a sweep: {other:?}"),
        }
    }
}

/// A kv write in the namespace `shop`.
pub struct KvSet {
    pub workspace: WorkspaceId,
    pub key: String,
    pub value: Json,
    pub overwrite: bool,
    pub ttl_ms: Option<i64>,
}

impl KvSet {
    pub fn work(self) -> Work {
        Work::KvSet {
            workspace: self.workspace,
            namespace: "shop".into(),
            key: self.key,
            value: self.value,
            kv_type: "JSON".into(),
            overwrite: self.overwrite,
            ttl_ms: self.ttl_ms,
        }
    }
}

pub fn claim_of(workspace: &WorkspaceId, key: &str) -> KeyClaim {
    let scope = "flow:shop:order";
    KeyClaim {
        hash: claim_hash(workspace, scope, key),
        key: key.into(),
        scope: scope.into(),
        source: KeySource::Caller,
    }
}

/// The same event with another payload.
pub fn other_payload(request: AdmitRequest) -> AdmitRequest {
    AdmitRequest { fingerprint: Fingerprint::of(&[&json!({"n": 2})]), inputs: json!({"n": 2}), ..request }
}

pub fn by() -> By {
    By { who: "operator".into(), why: "asked".into() }
}

pub fn other_ws() -> WorkspaceId {
    WorkspaceId("other".into())
}

/// Compares two dumps and names the first row that differs.
pub fn same_dump(left: &Json, right: &Json) {
    for (table, rows) in left.as_object().into_iter().flatten() {
        let (ours, theirs) = (rows.as_array(), right[table].as_array());
        let (ours, theirs) = (ours.map_or(&[][..], |r| r), theirs.map_or(&[][..], |r| r));
        for (row, other) in ours.iter().zip(theirs) {
            assert_eq!(row.to_string(), other.to_string(), "a row of {table}");
        }
        assert_eq!(ours.len(), theirs.len(), "the number of rows of {table}");
    }
}
