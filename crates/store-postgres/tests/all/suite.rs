//! The shared suite. All cases on one server: making one takes longer than any case.

use crate::support::open;
use semel_store::conformance::{self, CASES};
use semel_store_postgres::testing::Server;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

const THREADS: usize = 4;

#[test]
fn every_case_of_the_suite() {
    let server = Server::start();
    let left = Mutex::new(CASES.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((name, _)) = { left.lock().unwrap().next() } {
                    let make =
                        |clock| -> std::sync::Arc<dyn semel_store::Store> { open(&server, &server.schema(), clock) };
                    if catch_unwind(AssertUnwindSafe(|| conformance::run(name, &make))).is_err() {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:?}", failed.len(), CASES.len());
}
