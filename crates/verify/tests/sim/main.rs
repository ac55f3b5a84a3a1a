//! The simulator's seeds.
//!
//! `SEMEL_SEEDS` and `SEMEL_SEED_FROM` say which to run (3,000 from 0), `SEMEL_GRAFTED` how many of those with the kinds
//! of tasks that came later (one for ten of the others; they begin at `graft::GRAFTED`), `SEMEL_SEED` runs one alone
//! and prints its timeline. The last line of the output is a summary that a program can read.

#[cfg(feature = "planted")]
mod planted;

use semel_core::admission::Decision;
use semel_core::run::Status;
use semel_verify::sim::faults::Fault;
use semel_verify::sim::flows::Class;
use semel_verify::sim::graft::GRAFTED;
use semel_verify::sim::plan::Script;
use semel_verify::sim::points;
use semel_verify::sim::report::{self, Totals};
use semel_verify::sim::scenarios;
use semel_verify::sim::works::WORKING;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that once failed, each with its story.
const FOUND: &str = include_str!("../../fixtures/seeds.txt");

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs seeds on all cores; stops at the first that fails and explains it. With `SEMEL_KEEP_GOING` it names them all.
fn batch(seeds: &[u64]) -> Totals {
    let keep_going = std::env::var_os("SEMEL_KEEP_GOING").is_some();
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
                    if let Some(first) = report.violations.first() {
                        if keep_going {
                            println!("FAILS {seed} {}: {}", first.id, first.text);
                        } else {
                            failed.lock().unwrap().get_or_insert(report);
                        }
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
    let count = number("SEMEL_SEEDS").unwrap_or(3_000);
    // The kinds of tasks that came later have seeds of their own.
    let later = GRAFTED + from..GRAFTED + from + number("SEMEL_GRAFTED").unwrap_or(count / 10);
    let totals = batch(&(from..from + count).chain(later).collect::<Vec<u64>>());
    println!("{}", totals.line());
    if count >= 3_000 {
        covers(&totals);
    }
}

/// Workflows whose tasks workers carry out: `SEMEL_WORKING` says how many worlds, one for five of the others.
#[test]
fn workers() {
    let from = WORKING + number("SEMEL_SEED_FROM").unwrap_or(0);
    let count = number("SEMEL_WORKING").unwrap_or_else(|| number("SEMEL_SEEDS").unwrap_or(3_000) / 5);
    let totals = batch(&(from..from + count).collect::<Vec<u64>>());
    println!("{}", totals.line());
    let reached = |name: &str| totals.journal.get(name).copied().unwrap_or(0);
    let wanted = [("ErrandSet", 4), ("ErrandAnswered", 4), ("AttemptFailed", 1), ("ChildEnded", 1)];
    let missing: Vec<&str> =
        wanted.iter().filter(|(name, each)| reached(name) * 4 < count * each).map(|(name, _)| *name).collect();
    assert_eq!(missing, Vec::<&str>::new(), "{:?}", totals.journal);
}

/// A batch that did not meet everything proves little.
fn covers(totals: &Totals) {
    let mut missing = Vec::new();
    let mut want = |what: &str, names: &[&str], found: &BTreeMap<String, u64>, least: u64| {
        for name in names {
            let count: u64 = found.iter().filter(|(n, _)| n.split(' ').next() == Some(name)).map(|(_, c)| c).sum();
            if count < least {
                missing.push(format!("{what} {name}: {count} times, at least {least} wanted"));
            }
        }
    };
    // That a receiver has forgotten a key shows only if it gets one late: it cannot be made to happen.
    let rare = Fault::ReceiverForgets.word();
    let faults: Vec<&str> = Fault::ALL.iter().map(|fault| fault.word()).filter(|word| *word != rare).collect();
    want("fault", &faults, &totals.faults, 100);
    want("fault", &[rare], &totals.faults, 10);
    want("class", &Class::ALL.map(Class::word), &totals.classes, 100);
    want("decision", &Decision::ALL.map(Decision::word), &totals.decisions, 20);
    want("status", &Status::ALL.map(Status::word), &totals.statuses, 20);
    let knowns = ["Absent", "Expired", "Pending", "Live", "Held", "Done", "Failed", "Cancelled", "Erased"];
    want("prior", &knowns, &totals.knowns, 10);
    want("construct", CONSTRUCTS, &totals.constructs, 100);
    want("event", EVENTS, &totals.journal, 20);
    assert_eq!(missing, Vec::<String>::new());
}

const CONSTRUCTS: &[&str] = &[
    "log",
    "return",
    "labels",
    "fail",
    "http",
    "sleep",
    "kv_set",
    "kv_get",
    "kv_delete",
    "sequential",
    "parallel",
    "if",
    "switch",
    "for_each",
    "subflow",
];
/// Every event of a journal that a driver writes.
const EVENTS: &[&str] = &[
    "Delivered",
    "Started",
    "StepStarted",
    "Branched",
    "LoopStarted",
    "GroupStage",
    "TimerSet",
    "TimerCleared",
    "TimerFired",
    "Intent",
    "SendLost",
    "AttemptFailed",
    "OpRequested",
    "ChildRequested",
    "ChildEnded",
    "DoubtsBelow",
    "DoubtRaised",
    "Verdict",
    "LabelsSet",
    "StepEnded",
    "Paused",
    "Resumed",
    "Released",
    "CancelRequested",
    "Restarted",
    "Replayed",
    "Finishing",
    "Ended",
];

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
fn death_at_every_write_point_of_twelve_runs() {
    let scripts = points::scripts();
    assert_eq!(scripts.len(), 12);
    let (mut points, mut deaths) = (0, 0);
    for (name, script) in &scripts {
        let swept = points::sweep(script);
        assert!(swept.violations.is_empty(), "{name}: {:#?}", &swept.violations[..swept.violations.len().min(3)]);
        assert!(swept.deaths * 10 >= swept.points * 9, "{name}: {} deaths at {} points", swept.deaths, swept.points);
        (points, deaths) = (points + swept.points, deaths + swept.deaths);
    }
    println!("{{\"what\":\"points\",\"scripts\":12,\"points\":{points},\"deaths\":{deaths}}}");
    assert!(points >= 500, "only {points} points");
}

#[test]
fn a_damaged_row_stops_the_node() {
    let mut told = 0;
    for seed in 0..200 {
        let Some(violations) = scenarios::damaged(seed) else { continue };
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
        told += 1;
    }
    assert!(told >= 100, "only {told} seeds met a damaged row");
}

#[test]
fn the_same_seed_twice_is_the_same_to_the_last_line() {
    for seed in 0..40 {
        let (once, again) = (report::seed(seed), report::seed(seed));
        assert_eq!((once.hash, once.events), (again.hash, again.events), "seed {seed}");
    }
    assert_ne!(report::seed(1).hash, report::seed(2).hash);
}
