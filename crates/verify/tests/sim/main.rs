//! The simulator's seeds.
//!
//! `SEMEL_SEEDS` and `SEMEL_SEED_FROM` say which to run (300 from 0), `SEMEL_SEED` runs one alone
//! and prints its timeline. The last line of the output is a summary that a program can read.

use semel_verify::sim::faults::Fault;
use semel_verify::sim::plan::Script;
use semel_verify::sim::report::{self, Totals};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that once failed, each with its story.
const FOUND: &str = include_str!("../../fixtures/seeds.txt");

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs seeds on all cores; stops at the first that fails and explains it.
fn batch(seeds: &[u64]) -> Totals {
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Totals::default());
    let failed = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failed.lock().unwrap().is_none() {
                    let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst) as usize) else { return };
                    let report = report::seed(*seed);
                    totals.lock().unwrap().add(&report.totals);
                    if !report.violations.is_empty() {
                        failed.lock().unwrap().get_or_insert(report);
                    }
                }
            });
        }
    });
    let totals = totals.into_inner().unwrap();
    if let Some(report) = failed.into_inner().unwrap() {
        println!("{}", totals.line());
        panic!("{}", report::explain(&report));
    }
    totals
}

fn found() -> Vec<u64> {
    let seeds = FOUND.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').next());
    seeds.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn seeds_that_once_failed() {
    batch(&found());
}

#[test]
fn seeds() {
    let from = number("SEMEL_SEED_FROM").unwrap_or(0);
    let count = number("SEMEL_SEEDS").unwrap_or(300);
    let totals = batch(&(from..from + count).collect::<Vec<u64>>());
    println!("{}", totals.line());
    if count >= 3_000 {
        covers(&totals);
    }
}

/// A batch that did not meet everything proves little.
fn covers(totals: &Totals) {
    let mut missing = Vec::new();
    for fault in Fault::ALL {
        let fired = totals.faults.get(fault.word()).copied().unwrap_or(0);
        if fired < 100 {
            missing.push(format!("fault {} fired {fired} times", fault.word()));
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    println!("{totals:#?}");
}

#[test]
fn one_seed() {
    let Some(seed) = number("SEMEL_SEED") else { return };
    let report = report::run(Script::new(seed), true);
    println!("{}", report.log.join("\n"));
    if !report.violations.is_empty() {
        panic!("{}", report::explain(&report));
    }
}

#[test]
fn the_same_seed_twice_is_the_same_to_the_last_line() {
    for seed in 0..40 {
        let (once, again) = (report::seed(seed), report::seed(seed));
        assert_eq!((once.hash, once.events), (again.hash, again.events), "seed {seed}");
    }
    assert_ne!(report::seed(1).hash, report::seed(2).hash);
}
