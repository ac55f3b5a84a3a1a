//! Lost answers, servers that stop, databases that forget.

use crate::workers::*;
use semel_core::RunId;
use semel_store::check::{self, check};
use semel_store::*;
use semel_store_postgres::testing::{Cut, Proxy, Server, Stop};
use semel_store_postgres::{OpenError, Options, PostgresStore, SCHEMA_VERSION};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn open(address: &str, schema: &str) -> Arc<PostgresStore> {
    let options = Options { schema: schema.into(), writers: 1, readers: 2, ..Options::default() };
    PostgresStore::open(address, options).expect("the store opens")
}

fn decisions(store: &dyn Store) -> usize {
    store.decisions(&ws(), &DecisionQuery { limit: 1_000, ..DecisionQuery::default() }).unwrap().len()
}

/// A row that nothing but the fence keeps from being written twice.
fn decision(store: &dyn Store, run: RunId) -> DecisionRow {
    let (_, row) = store.peek(&event("known", run, None)).unwrap().expect("a twin");
    row
}

#[test]
fn a_commit_whose_answer_is_lost_happens_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let schema = server.schema();
    let store = open(&proxy.address(), &schema);
    put_flow(&*store);
    let counter = || server.number(&format!("SELECT counter FROM {schema}.batches"));
    let known = admit(&*store, event("known", id(0, 0), None)).run.expect("a run").id;
    drive(&*store, known);
    let cuts = [Cut::Before, Cut::After, Cut::Late(Duration::from_millis(600))];
    // A late flight may come before, while and after the store looks for it, and while it tries again.
    let late = [0, 1, 2, 3, 4, 6, 9, 14].map(|ms| Cut::Late(Duration::from_millis(ms)));
    for (number, cut) in (1_u64..).zip(cuts.into_iter().chain(late)) {
        let (before, count) = (decisions(&*store), counter());
        let row = decision(&*store, id(0, 100 + number));
        proxy.arm(cut);
        store.call(Work::LogDecision(Box::new(row))).unwrap();
        assert!(proxy.is_cut(), "{cut:?}");
        match cut {
            Cut::After => assert_eq!(counter(), count + 1),
            // Raised past the flight that did not arrive, then by the one that did. A late flight may come in time.
            Cut::Before => assert_eq!(counter(), count + 3),
            Cut::Late(_) => assert!([count + 1, count + 3].contains(&counter())),
        }
        let answer = admit(&*store, event(&format!("k{number}"), id(0, number), None));
        assert!(answer.created, "{cut:?}");
        if let Cut::Late(delay) = cut {
            // Until the late flight has arrived.
            std::thread::sleep(delay + Duration::from_millis(300));
        }
        assert_eq!(decisions(&*store), before + 2, "{cut:?}");
    }
    // An admission itself, its flight cut in each way.
    for (number, cut) in (20_u64..).zip(cuts) {
        proxy.arm(cut);
        let answer = admit(&*store, event(&format!("k{number}"), id(0, number), None));
        assert!(proxy.is_cut() && answer.created, "{cut:?}: {answer:?}");
        drive(&*store, id(0, number));
        assert_eq!(store.health(), Ok(()));
    }
    let report = check(&*store, &check::Options { findings_max: 10, ..check::Options::default() }).unwrap();
    // The runs of the first round were never driven; nothing else is amiss.
    assert!(report.is_clean(), "{:#?}", report.violations);
    assert_eq!(report.counts.runs, 15);
}

#[test]
fn a_database_that_is_behind_stops_the_store() {
    let server = Server::start();
    let schema = server.schema();
    let store = open(&server.address(), &schema);
    put_flow(&*store);
    // As after a failover to a standby that had not everything.
    server.run(&format!("UPDATE {schema}.batches SET counter = counter - 1"));
    let error = store.call(Work::Admit(Box::new(event("k", id(0, 1), None)))).unwrap_err();
    assert!(error.is_fatal(), "{error}");
    assert!(store.health().unwrap_err().is_fatal());
    assert!(store.call(Work::Admit(Box::new(event("k", id(0, 2), None)))).unwrap_err().is_fatal());
    assert_eq!(store.run(&ws(), id(0, 1)), Ok(None));
}

#[test]
fn a_newer_schema_is_not_touched() {
    let server = Server::start();
    let schema = server.schema();
    drop(open(&server.address(), &schema));
    server.run(&format!("INSERT INTO {schema}.migrations (version) VALUES ({})", SCHEMA_VERSION + 1));
    let again = PostgresStore::open(&server.address(), Options { schema, ..Options::default() });
    assert!(matches!(again, Err(OpenError::Newer { found }) if found == SCHEMA_VERSION + 1));
    let nowhere = PostgresStore::open("postgres://semel@127.0.0.1:1/postgres", Options::default());
    assert_eq!(nowhere.err().map(|error| error.code()), Some("store_away"));
}

#[test]
fn a_database_that_cannot_be_had_says_what_to_do() {
    let server = Server::start();
    let said = |address: &str| {
        let error = PostgresStore::open(address, Options::default()).err().expect("no store");
        assert_eq!(error.code(), "store_away", "{error}");
        error.to_string()
    };
    let nowhere = said("postgres://semel@127.0.0.1:1/postgres");
    assert!(nowhere.ends_with("that PostgreSQL runs and listens there"), "{nowhere}");
    let port = server.port();
    let unknown = said(&format!("postgres://semel@127.0.0.1:{port}/nothing"));
    assert!(unknown.contains("createdb"), "{unknown}");
    server.run("CREATE ROLE ada NOLOGIN");
    let refused = said(&format!("postgres://ada@127.0.0.1:{port}/postgres"));
    assert!(refused.contains("pg_hba.conf"), "{refused}");
}

#[test]
fn many_may_open_a_new_database_at_once() {
    let server = Server::start();
    let schema = server.schema();
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let (server, schema) = (&server, &schema);
            scope.spawn(move || {
                let store = open(&server.address(), schema);
                assert!(admit(&*store, event(&format!("k{worker}"), id(worker, 1), None)).created);
            });
        }
    });
}

/// What clients were told, by key.
type Told = Mutex<BTreeMap<String, RunId>>;

/// Sends events until it is told to stop; an event that is refused is sent again, as a client would.
fn client(store: &dyn Store, worker: u64, stop: &AtomicBool, told: &Told) {
    let mut number = 0;
    for event_number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("k{}", event_number / 2);
        loop {
            number += 1;
            match store.call(Work::Admit(Box::new(event(&key, id(worker, number), None)))) {
                Ok(Done::Admitted(answer)) => {
                    let run = answer.run.expect("a run").id;
                    let first = *told.lock().unwrap().entry(key.clone()).or_insert(run);
                    assert_eq!(first, run, "two runs for {key}");
                    break;
                }
                Err(StoreError::Busy(_)) => std::thread::sleep(Duration::from_millis(10)),
                other => panic!("{other:?}"),
            }
            assert!(number < 1_000_000 && !(stop.load(Ordering::Relaxed) && number > 100_000));
        }
    }
}

#[test]
fn stores_outlive_restarts_of_their_server() {
    let mut server = Server::start();
    let schema = server.schema();
    let stores: Vec<_> = (0..2).map(|_| open(&server.address(), &schema)).collect();
    put_flow(&*stores[0]);
    let (stop, told) = (AtomicBool::new(false), Told::default());
    std::thread::scope(|scope| {
        for (worker, store) in (0..4).zip(stores.iter().cycle()) {
            let (stop, told) = (&stop, &told);
            scope.spawn(move || client(&**store, worker, stop, told));
        }
        for how in [Stop::Fast, Stop::Immediate, Stop::Killed, Stop::Fast, Stop::Immediate] {
            std::thread::sleep(Duration::from_millis(400));
            server.stop(how);
            std::thread::sleep(Duration::from_millis(100));
            server.resume();
        }
        std::thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
    });
    let told = told.into_inner().unwrap();
    assert!(told.len() > 20, "{} keys", told.len());
    for (key, run) in &told {
        let found = stores[0].run(&ws(), *run).unwrap();
        assert!(found.is_some(), "the run of {key} was acknowledged and is gone");
    }
    let begun = Instant::now();
    let nodes: Vec<Arc<dyn Store>> = stores.into_iter().map(|store| store as Arc<dyn Store>).collect();
    assert!(finish(&nodes), "everything ends ({:?})", begun.elapsed());
    let report = check(&*nodes[0], &check::Options::default()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.violations);
    assert_eq!(report.counts.runs, told.len() as u64, "a run for each key, and no other");
}
