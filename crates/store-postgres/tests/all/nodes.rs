//! Nodes with leases: who drives what, and what becomes of it when one is gone.

use crate::workers::*;
use semel_core::Hash16;
use semel_core::run::By;
use semel_store::*;
use semel_store_postgres::testing::Server;
use semel_store_postgres::{Options, PostgresStore};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(900);

fn node(server: &Server, schema: &str, name: &str) -> Arc<PostgresStore> {
    let options = Options { schema: schema.into(), name: name.into(), lease: LEASE, ..Options::default() };
    PostgresStore::open(&server.address(), options).expect("the store opens")
}

/// Looks until it is so; a test that waits in vain fails.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn begin(store: &dyn Store, number: u64) -> semel_core::RunId {
    admit(store, event(&format!("k{number}"), id(1, number), None)).run.expect("a run").id
}

fn elsewhere(store: &dyn Store, run: semel_core::RunId) -> bool {
    store.load_run(&ws(), run).unwrap().expect("the run").elsewhere
}

/// What its driver would write next.
fn next_commit(store: &dyn Store, run: semel_core::RunId) -> RunCommit {
    let loaded = store.load_run(&ws(), run).unwrap().expect("the run");
    commit_of(&loaded, state_of(store, run).expect("a journal"), &[])
}

fn by() -> By {
    By { who: "ada".into(), why: String::new() }
}

#[test]
fn an_active_run_is_written_by_its_node_alone() {
    let server = Server::start();
    let schema = server.schema();
    let (first, second) = (node(&server, &schema, "first"), node(&server, &schema, "second"));
    put_flow(&*first);
    let run = begin(&*first, 1);
    assert!(!elsewhere(&*first, run) && elsewhere(&*second, run));
    assert_eq!(second.active_runs(None, 10).unwrap(), []);
    let refused = second.call(Work::Commit(Box::new(next_commit(&*second, run))));
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    // A message from the other node leaves the run where it is, and is found there.
    let message = Inbox::Asked { ticket: Hash16([7; 16]), control: json!({"control": "cancel"}), by: by() };
    second.call(Work::Message { workspace: ws(), run, message }).unwrap();
    assert!(elsewhere(&*second, run));
    assert_eq!(first.mail(10).unwrap(), [], "what came a moment ago was told to its node");
    assert_eq!(first.mail(10).unwrap(), [(ws(), run)], "what is still there is looked at");
    assert_eq!(first.mail(10).unwrap(), [], "and not every time");
    let answered = RunCommit { answers: vec![(Hash16([7; 16]), Some("too late".into()))], ..next_commit(&*first, run) };
    first.call(Work::Commit(Box::new(answered))).unwrap();
    assert_eq!(second.answer(Hash16([7; 16])).unwrap(), Some(Err("too late".into())));
    assert_eq!(second.answer(Hash16([8; 16])).unwrap(), None);
    // Once it has ended it is nobody's.
    drive(&*first, run);
    assert!(!elsewhere(&*second, run));
    assert_eq!(server.number(&format!("SELECT count(*) FROM {schema}.runs WHERE owner IS NOT NULL")), 0);
}

#[test]
fn who_leaves_hands_over_at_once() {
    let server = Server::start();
    let schema = server.schema();
    let (first, second) = (node(&server, &schema, "first"), node(&server, &schema, "second"));
    put_flow(&*first);
    let runs: Vec<_> = (0..20).map(|number| begin(&*first, number)).collect();
    assert_eq!(second.adopt(100).unwrap(), [], "its node lives");
    let told = Arc::new(Mutex::new(Vec::new()));
    let ear = told.clone();
    second.listen(Box::new(move |note| ear.lock().unwrap().push(note)));
    first.close();
    until("the word that it has left", || told.lock().unwrap().contains(&Note::Left).then_some(()));
    assert_eq!(second.adopt(15).unwrap().len(), 15, "in bounded batches");
    assert_eq!(second.adopt(15).unwrap().len(), 5);
    assert_eq!(second.adopt(15).unwrap(), []);
    assert!(runs.iter().all(|run| !elsewhere(&*second, *run)));
    let nodes: Vec<_> = second.nodes().unwrap().into_iter().map(|row| (row.name, row.state, row.runs_owned)).collect();
    assert_eq!(nodes, [("second".into(), NodeState::Alive, 20), ("first".into(), NodeState::Left, 0)]);
    assert!(finish(&[second]));
}

#[test]
fn a_node_that_is_silent_for_too_long_is_fenced_and_begins_another_life() {
    let server = Server::start();
    let schema = server.schema();
    let (first, second) = (node(&server, &schema, "first"), node(&server, &schema, "second"));
    put_flow(&*first);
    let run = begin(&*first, 1);
    let (stale, life) = (next_commit(&*first, run), first.epoch());
    until("that the second may judge", || {
        // As if nothing had been heard of it for long; it renews again a moment later, unless it is fenced first.
        server.run(&format!("UPDATE {schema}.nodes SET lease_until = 0 WHERE epoch = {life}"));
        second.adopt(10).unwrap().contains(&(ws(), run)).then_some(())
    });
    let late = first.call(Work::Commit(Box::new(stale.clone())));
    assert!(late.is_err(), "nothing of the old life can be written: {late:?}");
    until("another life", || (first.epoch() != life).then_some(()));
    assert!(elsewhere(&*first, run));
    let late = first.call(Work::Commit(Box::new(stale)));
    assert!(matches!(late, Err(StoreError::Conflict(_))), "nor in the new one: {late:?}");
    assert!(admit(&*first, event("k2", id(1, 2), None)).created, "it takes part again");
    assert!(first.health().is_ok());
    drive(&*second, run);
    assert!(finish(&[first, second.clone()]));
    let report = check::check(&*second, &check::Options::default()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.violations);
}

#[test]
fn effects_are_not_sent_without_a_lease() {
    let mut server = Server::start();
    let schema = server.schema();
    let node = node(&server, &schema, "alone");
    assert!(node.send_before().is_some_and(|until| until > Instant::now()));
    server.stop(semel_store_postgres::testing::Stop::Fast);
    until("the end of the lease", || node.send_before().is_none().then_some(()));
    server.resume();
    until("a lease again", || node.send_before());
    assert_eq!(node.epoch(), 1, "nobody was there to judge it");
}

#[test]
fn timers_of_a_node_that_is_gone_are_fired_by_the_living() {
    let server = Server::start();
    let schema = server.schema();
    let (first, second) = (node(&server, &schema, "first"), node(&server, &schema, "second"));
    let third = node(&server, &schema, "third");
    put_flow(&*first);
    let lane = |number: u64| LaneRequest {
        hash: Hash16([number as u8; 16]),
        limit: 1,
        busy: semel_core::admission::Busy::Coalesce { quiet_ms: 1, max_ms: 2 },
    };
    for number in 0..40 {
        admit(&*first, event(&format!("k{number}"), id(1, number), Some(lane(number))));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(first.due_timers(first.now(), 100).unwrap().len(), 40);
    assert_eq!(second.due_timers(second.now(), 100).unwrap().len(), 0, "its node lives");
    first.close();
    let shares = [&second, &third].map(|node| node.due_timers(node.now(), 100).unwrap().len());
    assert_eq!(shares.iter().sum::<usize>(), 40, "they share them");
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    assert!(finish(&[second, third]));
}
