//! The shared suite. All cases on one server: making one takes longer than any case.

use crate::support::open;
use semel_store::conformance::{self, CASES};
use semel_store::{ClockFn, Store};
use semel_store_postgres::testing::Server;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

const THREADS: usize = 4;

#[test]
fn every_case_of_the_suite() {
    let server = Server::start();
    let names: Vec<_> = CASES.iter().map(|(name, _)| *name).collect();
    run_cases(&names, &|clock| -> Arc<dyn Store> { open(&server, &server.schema(), clock) });
}

/// Runs these cases, each on a store of its own.
pub fn run_cases(names: &[&'static str], make: &(dyn Fn(ClockFn) -> Arc<dyn Store> + Sync)) {
    let left = Mutex::new(names.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(name) = { left.lock().unwrap().next() } {
                    if catch_unwind(AssertUnwindSafe(|| conformance::run(name, &|clock| make(clock)))).is_err() {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:?}", failed.len(), names.len());
}
