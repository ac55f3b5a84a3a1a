//! Random programs on the oracle, on SQLite and on PostgreSQL: equal answers, equal reads, equal dumps.

use crate::support::open;
use semel_store::conformance::differential::run_program;
use semel_store::{ClockFn, Cluster, Store};
use semel_store_postgres::testing::Server;
use semel_store_sqlite::SqliteStore;
use std::sync::Arc;

const STEPS: usize = 400;
const PROGRAMS: u64 = 12;
const THREADS: u64 = 2;

fn run(server: &Server, seed: u64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("semel.db");
    let schema = server.schema();
    let sqlite = |clock: ClockFn| -> Arc<dyn Store> {
        let options = semel_store_sqlite::Options { clock, ..semel_store_sqlite::Options::default() };
        SqliteStore::open(&path, options).expect("the file opens")
    };
    let postgres = |clock: ClockFn| -> Arc<dyn Store> {
        let store = open(server, &schema, clock);
        // As if it were the same process all the time: the other stores know of no nodes.
        server.run(&format!("UPDATE {schema}.runs SET owner = {} WHERE owner IS NOT NULL", store.epoch()));
        store
    };
    run_program(seed, STEPS, &[&sqlite, &postgres]);
}

#[test]
fn programs_on_three_stores() {
    let server = Server::start();
    // A failing seed is in the output; `SEMEL_SEED=n` runs that one alone.
    if let Ok(seed) = std::env::var("SEMEL_SEED") {
        return run(&server, seed.parse().expect("a number"));
    }
    // A long run looks at other programs each time, and at more of them.
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("SEMEL_DIFFERENTIAL_SEED").unwrap_or(0);
    let programs: u64 = number("SEMEL_DIFFERENTIAL_PROGRAMS").unwrap_or(PROGRAMS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let server = &server;
            scope.spawn(move || {
                (first + thread..first + programs).step_by(THREADS as usize).for_each(|seed| run(server, seed))
            });
        }
    });
    println!("SUMMARY differential3 first={first} steps={}", programs as usize * STEPS);
}
