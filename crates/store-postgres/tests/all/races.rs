//! Several stores on one database, as several processes: the same keys, lanes and values at the same time.

use crate::workers::*;
use semel_core::Hash16;
use semel_core::admission::{Busy, Decision};
use semel_store::check::{self, Code};
use semel_store::conformance::program::Dice;
use semel_store::*;
use semel_store_postgres::testing::Server;
use semel_store_postgres::{Options, PostgresStore};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};

const NODES: usize = 3;
const WORKERS: usize = 3;

fn nodes(address: &str, schema: &str) -> Vec<Arc<dyn Store>> {
    let open = |_| -> Arc<dyn Store> {
        let options = Options { schema: schema.to_owned(), writers: 2, readers: 2, ..Options::default() };
        PostgresStore::open(address, options).expect("the store opens")
    };
    (0..NODES).map(open).collect()
}

fn assert_clean(store: &dyn Store) {
    let report = check::check(store, &check::Options::default()).expect("the store can be read");
    assert!(report.is_clean(), "{:#?}", report.violations);
    assert!(report.counts.runs > 0 && !report.has(Code::StoreDamaged));
}

/// Runs a worker of each kind on every node at once.
fn at_once(nodes: &[Arc<dyn Store>], work: impl Fn(&dyn Store, u64) + Sync) {
    let barrier = Barrier::new(NODES * WORKERS);
    std::thread::scope(|scope| {
        for (node, store) in nodes.iter().enumerate() {
            for worker in 0..WORKERS {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(&**store, (node * WORKERS + worker) as u64);
                });
            }
        }
    });
}

#[test]
fn a_key_that_many_bring_at_once_has_one_run() {
    let server = Server::start();
    a_key_has_one_run(&server.address(), &server.schema());
}

pub fn a_key_has_one_run(address: &str, schema: &str) {
    let nodes = nodes(address, schema);
    put_flow(&*nodes[0]);
    let answers = Mutex::new(Vec::new());
    at_once(&nodes, |store, worker| {
        for number in 0..60 {
            // All workers are at about the same key at the same time.
            let key = format!("k{}", number % 30);
            let answer = admit(store, event(&key, id(worker, number), None));
            answers.lock().unwrap().push((key, answer.run.expect("a run").id, answer.created));
        }
    });
    let mut runs: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    let answers = answers.into_inner().unwrap();
    answers.iter().for_each(|(key, run, _)| _ = runs.entry(key.clone()).or_default().insert(*run));
    assert!(runs.values().all(|runs| runs.len() == 1), "every answer names the one run of its key: {runs:?}");
    assert_eq!(answers.iter().filter(|(_, _, created)| *created).count(), 30);
    assert!(finish(&nodes), "everything ends");
    assert_clean(&*nodes[2]);
}

/// A twin that finds its key absent, waits for the lane, and then finds the lane full of its own event.
#[test]
fn a_twin_is_not_refused_because_of_its_own_run() {
    let server = Server::start();
    let nodes = nodes(&server.address(), &server.schema());
    let lane = |number: u64| LaneRequest { hash: Hash16([number as u8 + 1; 16]), limit: 2, busy: Busy::Reject };
    for number in 0..40 {
        // One slot of two is taken, so that the lane is there to be locked.
        assert!(admit(&*nodes[0], event(&format!("first {number}"), id(50, number), Some(lane(number)))).created);
    }
    let answers = Mutex::new(Vec::new());
    at_once(&nodes, |store, worker| {
        for number in 0..40 {
            let answer = admit(store, event(&format!("k{number}"), id(worker, number), Some(lane(number))));
            answers.lock().unwrap().push((number, answer.decision, answer.reason));
        }
    });
    let answers = answers.into_inner().unwrap();
    let refused: Vec<_> = answers.iter().filter(|(_, decision, _)| *decision == Decision::Reject).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(answers.iter().filter(|(_, decision, _)| *decision == Decision::Start).count(), 40);
}

#[test]
fn lanes_hold_between_processes() {
    let server = Server::start();
    lanes_hold(&server.address(), &server.schema());
}

pub fn lanes_hold(address: &str, schema: &str) {
    let nodes = nodes(address, schema);
    put_flow(&*nodes[0]);
    let created = Mutex::new(BTreeMap::<String, u32>::new());
    at_once(&nodes, |store, worker| {
        let mut dice = Dice::new(worker);
        for number in 0..40 {
            let key = format!("k{}", dice.below(120));
            let lane = lane(&mut dice, 3);
            let answer = admit(store, event(&key, id(worker, number), Some(lane)));
            if answer.created {
                *created.lock().unwrap().entry(key).or_default() += 1;
            }
            // One that holds a slot is seen by everybody as the only one.
            if let Some(run) = answer.run.filter(|_| dice.chance(70)) {
                drive(store, run.id);
            }
            answer.wake.iter().for_each(|run| drive(store, *run));
            for timer in store.due_timers(store.now(), 4).unwrap() {
                fire(store, &timer);
            }
        }
    });
    let twice: Vec<_> = created.into_inner().unwrap().into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(twice.is_empty(), "keys with two runs: {twice:?}");
    assert!(finish(&nodes), "everything ends");
    assert_clean(&*nodes[1]);
    let dump = nodes[2].dump().unwrap();
    assert_eq!(dump["lanes"], json!([]), "nobody is left in a lane");
}

#[test]
fn values_are_counted_once() {
    let server = Server::start();
    values_are_counted(&server.address(), &server.schema());
}

pub fn values_are_counted(address: &str, schema: &str) {
    let nodes = nodes(address, schema);
    let revisions = Mutex::new(Vec::new());
    let firsts = Mutex::new(BTreeMap::<String, u32>::new());
    at_once(&nodes, |store, worker| {
        for number in 0..30 {
            let set = |key: String, overwrite| Work::KvSet {
                workspace: ws(),
                namespace: "shop".into(),
                key,
                value: json!(worker),
                kv_type: "JSON".into(),
                overwrite,
                ttl_ms: None,
            };
            match store.call(set("counter".into(), true)) {
                Ok(Done::Kv(Some(revision))) => revisions.lock().unwrap().push(revision),
                other => panic!("{other:?}"),
            }
            match store.call(set(format!("once {number}"), false)) {
                Ok(Done::Kv(Some(_))) => *firsts.lock().unwrap().entry(format!("once {number}")).or_default() += 1,
                Ok(Done::Kv(None)) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    let mut revisions = revisions.into_inner().unwrap();
    revisions.sort();
    assert_eq!(revisions, (1..=(NODES * WORKERS * 30) as u64).collect::<Vec<_>>());
    let firsts = firsts.into_inner().unwrap();
    assert!(firsts.len() == 30 && firsts.values().all(|count| *count == 1), "{firsts:?}");
}
