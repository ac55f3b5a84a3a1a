//! Stores behind a pooler: what no other connection may be asked for, they must not need.

use crate::races::{a_key_has_one_run, lanes_hold, values_are_counted};
use crate::suite::run_cases;
use semel_store::Store;
use semel_store::conformance::CASES;
use semel_store_postgres::testing::{Pooler, Pooling, Server};
use semel_store_postgres::{Options, PostgresStore};
use std::sync::Arc;

/// Every fifth case of the suite, and all races, through the pooler alone.
fn through(pooling: Pooling) {
    let server = Server::start();
    let pooler = Pooler::start(&server, pooling);
    let open = |clock| -> Arc<dyn Store> {
        let options =
            Options { clock: Some(clock), schema: server.schema(), writers: 1, readers: 2, ..Options::default() };
        PostgresStore::open(&pooler.address(), options).expect("the store opens")
    };
    let some: Vec<_> = CASES.iter().step_by(5).map(|(name, _)| *name).collect();
    run_cases(&some, &open);
    for race in [a_key_has_one_run, lanes_hold, values_are_counted] {
        race(&pooler.address(), &server.schema());
    }
}

#[test]
fn a_pooler_that_gives_each_client_a_connection() {
    through(Pooling::Session);
}

#[test]
fn a_pooler_that_gives_each_transaction_a_connection() {
    through(Pooling::Transaction);
}
