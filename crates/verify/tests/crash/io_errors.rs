//! A disk that fails: the n-th call, for every n, once or from then on.
//!
//! The store may refuse, or stop; it may not lose what it answered, write what it refused, or go on as if nothing were.

use crate::number;
use semel_verify::disk::script::on_a_broken_disk;
use semel_verify::disk::{Fault, Kind};
use std::collections::{BTreeMap, BTreeSet};

const CALLS: u64 = 400;
const WRITES: usize = 20;

fn sweep(
    for_good: bool,
    full: bool,
    once_open: bool,
) -> (BTreeMap<Kind, u64>, BTreeMap<&'static str, u64>, Vec<String>) {
    let (mut kinds, mut refusals, mut wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for nth in 1..=number("SEMEL_IO_ERRORS", CALLS) {
        let broken = on_a_broken_disk(5, WRITES, Fault { nth, for_good, full }, once_open);
        if let Some(kind) = broken.failed.first() {
            *kinds.entry(*kind).or_insert(0) += 1;
        }
        *refusals.entry(broken.refusal.unwrap_or("none")).or_insert(0) += 1;
        wrong.extend(broken.fault.as_ref().map(|fault| format!("call {nth}: {fault}: {broken:?}")));
    }
    (kinds, refusals, wrong)
}

fn must_hold(what: &str, sweep: (BTreeMap<Kind, u64>, BTreeMap<&'static str, u64>, Vec<String>), kinds_met: &[Kind]) {
    let (kinds, refusals, wrong) = sweep;
    let calls: u64 = kinds.values().sum();
    eprintln!(
        "SUMMARY io_errors_{what} calls={calls} violations={} kinds={kinds:?} refusals={refusals:?}",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A sweep that met no writes and no syncs shows nothing.
    let seen: BTreeSet<Kind> = kinds.into_keys().collect();
    for kind in kinds_met {
        assert!(seen.contains(kind), "{kind:?} never failed: {seen:?}");
    }
}

const AT_WORK: &[Kind] = &[Kind::Read, Kind::Write, Kind::Sync, Kind::SharedLock];

#[test]
fn an_opening_that_fails_can_be_tried_again() {
    let kinds =
        [Kind::Open, Kind::Read, Kind::Write, Kind::Sync, Kind::Size, Kind::Delete, Kind::Lock, Kind::SharedMap];
    must_hold("opening", sweep(false, false, false), &kinds);
}

#[test]
fn an_opening_without_room_can_be_tried_again() {
    must_hold("opening_full", sweep(false, true, false), &[Kind::Write, Kind::SharedMap]);
}

#[test]
fn a_call_that_fails_once_costs_no_answered_write() {
    must_hold("once", sweep(false, false, true), AT_WORK);
}

#[test]
fn a_disk_that_breaks_costs_no_answered_write() {
    must_hold("for_good", sweep(true, false, true), AT_WORK);
}

#[test]
fn a_disk_without_room_for_a_moment_costs_no_answered_write() {
    must_hold("full_once", sweep(false, true, true), AT_WORK);
}
