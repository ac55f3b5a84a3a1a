//! The oracle passes the suite it is the oracle of.

use semel_store::memory::MemoryStore;
use semel_store::{ClockFn, Store, conformance};
use std::sync::Arc;

fn make(clock: ClockFn) -> Arc<dyn Store> {
    MemoryStore::new(clock)
}

macro_rules! tests {
    ($($module:ident::$case:ident,)*) => {
        $(mod $case {
            #[test]
            fn memory() {
                super::conformance::run(stringify!($case), &super::make);
            }
        })*
    };
}

semel_store::conformance_cases!(tests);
