//! One suite for every store: a store is supported when it passes, and not before.
//!
//! Each case gets a store of its own on a clock it can set. [`run_all`] runs them all; a store's
//! tests call [`conformance_cases!`](crate::conformance_cases) to get one test per case.

mod admission;
mod again;
mod bench;
mod cases;
mod checks;
mod commits;
pub mod differential;
mod errands;
mod files;
mod hear;
mod lanes;
mod lists;
mod manage;
pub mod program;
mod removal;
mod restore;
mod search;
mod terms;
mod walls;

pub use bench::{Bench, same_dump};
pub use cases::CASES;

use crate::{ClockFn, Store};
use std::sync::Arc;

/// Makes an empty store on the given clock.
pub type Make<'a> = &'a dyn Fn(ClockFn) -> Arc<dyn Store>;

/// Runs every case, each on a new store.
pub fn run_all(make: Make) {
    for (_, case) in CASES {
        case(&Bench::new(make));
    }
}

/// Runs the case with this name.
pub fn run(name: &str, make: Make) {
    let case = CASES.iter().find(|(known, _)| *known == name);
    let (_, case) = case.unwrap_or_else(|| panic!("there is no case `{name}`"));
    case(&Bench::new(make));
}
