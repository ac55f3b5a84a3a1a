//! Walls between workspaces, and between neighbours in one batch.

use super::bench::{Bench, KvSet, claim_of, other_ws};
use super::manage::{flow, push, schedule};
use crate::*;
use parking_lot::Mutex;
use semel_core::FlowRef;
use semel_core::run::{EndStatus, StepKey};
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Fills this workspace with one of everything; nothing of it may be seen from the other.
pub fn nothing_is_seen_from_another_workspace(b: &Bench) {
    let run = b.start(AdmitRequest { labels: vec![("a".into(), "1".into())], ..b.keyed("k") });
    let log = LogRow { run, seq: 1, at: b.now(), level: "INFO".into(), step: StepKey::root(), message: "m".into() };
    b.commit(RunCommit { events: b"[]".to_vec(), snapshot: Some(b"{}".to_vec()), logs: vec![log], ..b.step(run) });
    b.call(b.kv_set("k", json!(1)).work());
    let row = flow(b.ws(), "shop", "order", "s");
    push(b, row.clone(), vec![schedule(&row, "t", Some(b.now()))]);
    let (theirs, s) = (other_ws(), &b.store);
    let name = FlowRef::new("shop", "order");
    let all = RunQuery { limit: 9, ..RunQuery::default() };
    assert!(s.load_run(&theirs, run).unwrap().is_none());
    assert!(s.run(&theirs, run).unwrap().is_none());
    assert!(s.runs(&theirs, &all).unwrap().is_empty());
    assert!(s.runs(&theirs, &RunQuery { labels: vec![("a".into(), "1".into())], ..all.clone() }).unwrap().is_empty());
    assert!(s.runs(&theirs, &RunQuery { key: Some("k".into()), ..all }).unwrap().is_empty());
    assert!(s.journal(&theirs, run, 0, 9).unwrap().is_empty());
    assert!(s.logs(&theirs, run, 0, 9).unwrap().is_empty());
    assert!(s.effects(&theirs, run).unwrap().is_empty());
    assert!(s.decisions(&theirs, &DecisionQuery { limit: 9, ..DecisionQuery::default() }).unwrap().is_empty());
    assert!(s.claims(&theirs, &ClaimQuery { limit: 9, ..ClaimQuery::default() }).unwrap().is_empty());
    assert!(s.claim(&theirs, claim_of(&b.ws(), "k").hash).unwrap().is_none());
    assert!(s.flow(&theirs, &name, None).unwrap().is_none());
    assert!(s.flow_revisions(&theirs, &name).unwrap().is_empty());
    assert!(s.flows(&theirs, None, 9).unwrap().is_empty());
    assert!(s.flows_named(&theirs, "order").unwrap().is_empty());
    assert!(s.kv(&theirs, "shop", "k").unwrap().is_none());
    assert!(s.kv_list(&theirs, "shop", None, 9).unwrap().is_empty());
    assert!(s.schedules(&theirs).unwrap().is_empty());
    assert!(s.peek(&AdmitRequest { workspace: theirs, ..b.keyed("k") }).unwrap().is_none());
}

pub fn secrets_and_tokens_stay_at_home(b: &Bench) {
    let secret = SecretRow {
        workspace: b.ws(),
        name: "db".into(),
        version: 1,
        key_id: "k".into(),
        nonce: vec![1],
        ciphertext: vec![2],
        created_at: b.now(),
        retired: false,
    };
    b.call(Work::PutSecret(Box::new(secret.clone())));
    assert!(b.store.secret(&other_ws(), "db", None).unwrap().is_none());
    assert!(b.store.secret(&other_ws(), "db", Some(1)).unwrap().is_none());
    assert!(b.store.secrets(&other_ws()).unwrap().is_empty() && b.store.tokens(&other_ws()).unwrap().is_empty());
    assert!(matches!(b.call(Work::RetireSecret { workspace: other_ws(), name: "db".into() }), Done::Missing));
    assert!(matches!(
        b.call(Work::PutSecret(Box::new(SecretRow { workspace: other_ws(), ..secret }))),
        Done::Secret { version: 1 }
    ));
}

pub fn one_name_in_two_workspaces_is_two_rows(b: &Bench) {
    b.call(b.kv_set("k", json!("mine")).work());
    b.call(KvSet { workspace: other_ws(), ..b.kv_set("k", json!("theirs")) }.work());
    b.call(Work::KvDelete { workspace: other_ws(), namespace: "shop".into(), key: "k".into() });
    assert_eq!(b.store.kv(&b.ws(), "shop", "k").unwrap().unwrap().value, json!("mine"));
    push(b, flow(b.ws(), "shop", "order", "mine"), vec![]);
    assert_eq!(push(b, flow(other_ws(), "shop", "order", "theirs"), vec![]), (1, true));
}

pub fn one_run_id_in_two_workspaces_is_two_runs(b: &Bench) {
    let run = b.start(b.event());
    b.admit(AdmitRequest { workspace: other_ws(), run, inputs: json!("theirs"), ..b.event() });
    b.end(run, EndStatus::Completed);
    b.call(Work::DeleteRun { workspace: b.ws(), run });
    let (row, values, _) = b.store.run(&other_ws(), run).unwrap().unwrap();
    assert_eq!((row.workspace, values.inputs), (other_ws(), Some(json!("theirs"))));
    assert_eq!(b.store.journal(&other_ws(), run, 0, 9).unwrap().len(), 1);
}

/// Submits without waiting, so that a store that groups writes gets them in one batch.
fn submit_all(b: &Bench, works: Vec<Work>) -> Vec<Result<Done>> {
    let (tx, rx) = channel();
    let count = works.len();
    for (i, work) in works.into_iter().enumerate() {
        let tx = tx.clone();
        b.store.submit(work, Box::new(move |answer| tx.send((i, answer)).expect("the test waits")));
    }
    let mut answers: Vec<(usize, Result<Done>)> = rx.iter().take(count).collect();
    answers.sort_by_key(|(i, _)| *i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

pub fn a_refused_write_does_not_hurt_its_neighbours(b: &Bench) {
    let run = b.start(b.event());
    let stale = RunCommit { version: 99, ops: vec![], ..b.step(run) };
    let mut works = Vec::new();
    for i in 0..60 {
        works.push(match i % 3 {
            0 => Work::Admit(Box::new(b.keyed(&format!("k{i}")))),
            1 => Work::Commit(Box::new(stale.clone())),
            // Refused after it has written: the claim and the new workspace's name must go.
            _ => Work::Admit(Box::new(AdmitRequest { run, depth: i, ..b.keyed(&format!("bad{i}")) })),
        });
    }
    let answers = submit_all(b, works);
    for (i, answer) in answers.iter().enumerate() {
        match i % 3 {
            0 => assert!(matches!(answer, Ok(Done::Admitted(_))), "{answer:?}"),
            1 => assert_eq!(answer.as_ref().unwrap_err().code(), "conflict"),
            _ => assert_eq!(answer.as_ref().unwrap_err().code(), "store_bug"),
        }
    }
    assert_eq!((b.rows("claims").len(), b.rows("runs").len(), b.rows("decisions").len()), (20, 21, 21));
}

pub fn a_rolled_back_workspace_leaves_no_name(b: &Bench) {
    let (a, c) = (other_ws(), semel_core::WorkspaceId("third".into()));
    let run = b.id();
    b.admit(AdmitRequest { workspace: a.clone(), run, ..b.event() });
    let bad = AdmitRequest { workspace: a.clone(), run, ..b.keyed("x") };
    let good = AdmitRequest { workspace: c.clone(), ..b.keyed("x") };
    let works = [bad, good].map(|request| Work::Admit(Box::new(request)));
    let answers = submit_all(b, works.into());
    assert!(answers[0].is_err() && answers[1].is_ok());
    let all = RunQuery { limit: 9, ..RunQuery::default() };
    assert_eq!((b.store.runs(&a, &all).unwrap().len(), b.store.runs(&c, &all).unwrap().len()), (1, 1));
}

pub fn writes_are_applied_in_order(b: &Bench) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (tx, rx) = channel();
    for i in 0..200_u64 {
        let (order, tx) = (order.clone(), tx.clone());
        b.store.submit(
            b.kv_set("k", json!(i)).work(),
            Box::new(move |answer| {
                assert!(matches!(answer, Ok(Done::Kv(Some(revision))) if revision == i + 1));
                order.lock().push(i);
                tx.send(()).expect("the test waits");
            }),
        );
    }
    assert_eq!(rx.iter().take(200).count(), 200);
    assert!(order.lock().is_sorted());
    assert_eq!(b.store.kv(&b.ws(), "shop", "k").unwrap().unwrap().value, json!(199));
}

pub fn an_answered_write_is_seen(b: &Bench) {
    for i in 0..50 {
        let run = b.start(b.event());
        assert_eq!(b.head(run).id, run, "{i}");
    }
}

pub fn a_closed_store_says_so(b: &Bench) {
    b.start(b.event());
    b.store.close();
    b.store.close();
    assert_eq!(b.fail(b.kv_set("k", json!(1)).work()), StoreError::Closed);
    assert_eq!(b.store.health(), Err(StoreError::Closed));
    assert_eq!(b.rows("runs").len(), 1, "reads go on");
}
