//! The proof of the proof: every planted bug is found, by a promise that it breaks.

use semel_core::planted::{Bug, plant};
use semel_verify::sim::works::WORKING;
use semel_verify::sim::{report, scenarios};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS_MAX: u64 = 2_000;

/// Runs seeds until one fails; how many it took, and what broke.
fn hunt(run: impl Fn(u64) -> Vec<(&'static str, String)> + Sync) -> Option<(u64, Vec<(&'static str, String)>)> {
    let next = AtomicU64::new(0);
    let found = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while found.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= SEEDS_MAX {
                        return;
                    }
                    let broken = run(seed);
                    if !broken.is_empty() {
                        found.lock().unwrap().get_or_insert((seed, broken));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// A bug may also break what the simulator itself takes for granted: a panic counts.
fn seed(seed: u64) -> Vec<(&'static str, String)> {
    let report = std::panic::catch_unwind(|| report::seed(seed).violations);
    match report {
        Ok(violations) => violations.into_iter().map(|v| (v.id, v.text)).collect(),
        Err(_) => vec![("panic", "a panic".to_owned())],
    }
}

fn damaged(seed: u64) -> Vec<(&'static str, String)> {
    scenarios::damaged(seed).unwrap_or_default().into_iter().map(|v| (v.id, v.text)).collect()
}

/// What is planted is planted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_planted_bug_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
    let only = std::env::var("SEMEL_BUG").ok();
    let mut missed = Vec::new();
    for bug in Bug::ALL.iter().filter(|bug| only.as_ref().is_none_or(|name| format!("{bug:?}") == *name)) {
        plant(Some(*bug));
        let found = match bug {
            Bug::DamageBelieved => hunt(damaged),
            Bug::AttemptNotCompared | Bug::PutBackTwice | Bug::HandedOutTwice => hunt(|n| seed(WORKING + n)),
            _ => hunt(seed),
        };
        plant(None);
        match found {
            None => missed.push(format!("{bug:?} was not found in {SEEDS_MAX} seeds")),
            Some((seed, broken)) => {
                println!("{bug:?}: seed {seed}, {} {}", broken[0].0, broken[0].1);
                if !broken.iter().any(|(id, _)| bug.breaks().contains(id)) {
                    missed.push(format!("{bug:?} was found by {:?}, not by one of {:?}", broken[0], bug.breaks()));
                }
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

/// One seed that must fail: a simulator that finds nothing any more is found out here.
#[test]
fn planted_canary() {
    let _alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
    plant(Some(Bug::EffectKeyWithoutLoop));
    let broken = seed(0);
    plant(None);
    assert!(broken.iter().any(|(id, _)| *id == "R7"), "{broken:?}");
}
