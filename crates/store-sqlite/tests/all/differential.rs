//! Random programs on the oracle and on SQLite.

use crate::support::open;
use semel_store::Store;
use semel_store::conformance::differential::{reached, run_program};
use std::sync::Arc;

const STEPS: usize = 600;
const PROGRAMS_PER_TEST: u64 = 9;

fn run(seed: u64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("semel.db");
    run_program(seed, STEPS, &[&|clock| -> Arc<dyn Store> { open(&path, clock) }]);
}

fn run_programs(first: u64) {
    // A failing seed is in the message; `SEMEL_SEED=n` runs that one alone.
    if let Ok(seed) = std::env::var("SEMEL_SEED") {
        return run(seed.parse().expect("a number"));
    }
    // A long run looks at other programs each time.
    let offset: u64 = std::env::var("SEMEL_DIFFERENTIAL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    (first + offset..first + offset + PROGRAMS_PER_TEST).for_each(run);
    println!("SUMMARY differential first={} steps={}", first + offset, PROGRAMS_PER_TEST as usize * STEPS);
}

#[test]
fn programs_0() {
    run_programs(0);
}

#[test]
fn programs_1() {
    run_programs(1_000);
}

#[test]
fn programs_2() {
    run_programs(2_000);
}

#[test]
fn programs_3() {
    run_programs(3_000);
}

/// A comparison proves little about what the programs never do.
#[test]
fn programs_reach_every_reason() {
    let reached = reached(0..120, STEPS);
    let expected = "keyless key_missing first late_duplicate late_warned late_rejected attached_pending attached \
        attached_mismatch in_progress payload_mismatch held held_mismatch replayed replayed_mismatch replayed_failure \
        replayed_cancelled already_done already_failed already_cancelled rerun retry_failed retry_cancelled resumed \
        resumed_mismatch erased queued queue_full replaced replace_deferred held_no_replace coalesced coalesce_pending \
        delivered lane_busy lane_cancelled lane_failed run_live doubt_open exists missing conflict store_bug";
    let missed: Vec<&str> = expected.split_whitespace().filter(|word| !reached.contains(*word)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}; reached: {reached:?}");
}
