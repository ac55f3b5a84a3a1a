//! Stores in schemas of their own.

use semel_store::ClockFn;
use semel_store_postgres::testing::Server;
use semel_store_postgres::{Options, PostgresStore};
use std::sync::Arc;

/// With one writer all writes are applied in the order of their submission, as the other stores do.
pub fn open(server: &Server, schema: &str, clock: ClockFn) -> Arc<PostgresStore> {
    let options = Options { clock: Some(clock), schema: schema.into(), writers: 1, readers: 2, ..Options::default() };
    PostgresStore::open(&server.address(), options).expect("the store opens")
}
