//! From a number to a verdict: runs a seed, and shortens the script of one that fails.

use super::faults::Fault;
use super::model::Violation;
use super::plan::Script;
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Runs of a script that shortening it may take.
const SHRINK_RUNS: usize = 250;

/// What came of a seed.
pub struct Report {
    pub script: Script,
    pub violations: Vec<Violation>,
    /// Of every line of the timeline: the same seed gives the same.
    pub hash: u64,
    pub events: u64,
    pub log: Vec<String>,
    pub faults: Vec<(Fault, u64)>,
    /// How often each fault could have struck.
    pub occasions: BTreeMap<Fault, u64>,
    pub totals: Totals,
}

/// What was reached, over one seed or many.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub seeds: u64,
    pub events: u64,
    pub violations: u64,
    pub faults: BTreeMap<String, u64>,
    pub decisions: BTreeMap<String, u64>,
    pub knowns: BTreeMap<String, u64>,
    pub statuses: BTreeMap<String, u64>,
    pub classes: BTreeMap<String, u64>,
    pub constructs: BTreeMap<String, u64>,
    pub journal: BTreeMap<String, u64>,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.violations += other.violations;
        for (mine, theirs) in [
            (&mut self.faults, &other.faults),
            (&mut self.decisions, &other.decisions),
            (&mut self.knowns, &other.knowns),
            (&mut self.statuses, &other.statuses),
            (&mut self.classes, &other.classes),
            (&mut self.constructs, &other.constructs),
            (&mut self.journal, &other.journal),
        ] {
            for (name, count) in theirs {
                *mine.entry(name.clone()).or_insert(0) += count;
            }
        }
    }

    /// One line that a program can read.
    pub fn line(&self) -> String {
        serde_json::json!({
            "what": "sim", "seeds": self.seeds, "events": self.events, "violations": self.violations,
            "faults": self.faults,
        })
        .to_string()
    }
}

fn totals(world: &World, violations: usize) -> Totals {
    let model = world.hub.model.lock();
    let count = |map: &BTreeMap<Fault, u64>| map.iter().map(|(f, n)| (f.word().to_owned(), *n)).collect();
    let mut classes = BTreeMap::new();
    for call in &world.outside.seen {
        *classes.entry(call.class.word().to_owned()).or_insert(0) += 1;
    }
    let mut constructs = BTreeMap::new();
    for task in world.script.flows.iter().flat_map(|f| f.all_tasks()) {
        *constructs.entry(task.kind.word().to_owned()).or_insert(0) += 1;
    }
    Totals {
        seeds: 1,
        events: world.events,
        violations: violations as u64,
        faults: count(&world.hub.faults.lock().counts),
        decisions: model.decisions.clone(),
        knowns: model.knowns.clone(),
        statuses: world.statuses.clone(),
        classes,
        constructs,
        journal: world.kinds.clone(),
    }
}

/// Runs a script to its end and checks it.
pub fn run(script: Script, keep_log: bool) -> Report {
    let mut world = World::new(script, keep_log);
    world.run();
    if world.hub.model.lock().violations.is_empty() {
        super::check::all(&mut world);
    }
    let violations = world.hub.model.lock().violations.clone();
    let totals = totals(&world, violations.len());
    let (faults, occasions) = {
        let faults = world.hub.faults.lock();
        (faults.fired.clone(), faults.seen.clone())
    };
    Report {
        violations,
        hash: world.hash,
        events: world.events,
        log: std::mem::take(&mut world.log),
        faults,
        occasions,
        totals,
        script: world.script,
    }
}

pub fn seed(seed: u64) -> Report {
    run(Script::new(seed), false)
}

/// Takes out of a failing script whatever it does not need to fail in the same way.
pub fn shrink(failed: &Report) -> Report {
    let Some(id) = failed.violations.first().map(|v| v.id) else { return run(failed.script.clone(), true) };
    let mut best = failed.script.clone();
    best.faults = Some(failed.faults.iter().copied().collect());
    let mut left = SHRINK_RUNS;
    let mut still_fails = |script: &Script| {
        left = left.saturating_sub(1);
        left > 0 && run(script.clone(), false).violations.first().is_some_and(|v| v.id == id)
    };
    if !still_fails(&best) {
        best.faults = None;
    }
    // Larger pieces first, then smaller ones.
    let mut size = best.actions.len().max(1);
    while size > 0 {
        let mut at = 0;
        while at < best.actions.len() {
            let mut fewer = best.clone();
            fewer.actions.drain(at..(at + size).min(fewer.actions.len()));
            if still_fails(&fewer) {
                best = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    let mut size = best.faults.as_ref().map_or(0, BTreeSet::len);
    while size > 0 {
        let mut at = 0;
        while let Some(faults) = best.faults.clone().filter(|f| at < f.len()) {
            let mut fewer = best.clone();
            fewer.faults =
                Some(faults.iter().enumerate().filter(|(i, _)| *i < at || *i >= at + size).map(|(_, p)| *p).collect());
            if still_fails(&fewer) {
                best = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    run(best, true)
}

/// All that is needed to understand and to run again a seed that failed.
pub fn explain(failed: &Report) -> String {
    let short = shrink(failed);
    let seed = failed.script.seed;
    let mut out = String::new();
    let _ = writeln!(out, "seed {seed} breaks:");
    for violation in failed.violations.iter().take(10) {
        let _ = writeln!(out, "  {}: {}", violation.id, violation.text);
    }
    let _ =
        writeln!(out, "run it alone: SEMEL_SEED={seed} cargo test -p semel-verify --test sim one_seed -- --nocapture");
    let store = if short.script.sqlite { "SQLite" } else { "memory" };
    let _ = writeln!(out, "shortened, on {store}, it breaks {:?}", short.violations.first().map(|v| v.id));
    for flow in &short.script.flows {
        let _ = writeln!(out, "flow {}", flow.source(&short.script.flows));
    }
    for (at, action) in &short.script.actions {
        let _ = writeln!(out, "at {at}: {action:?}");
    }
    let faults: Vec<String> = short.faults.iter().map(|(fault, n)| format!("{} #{n}", fault.word())).collect();
    let _ = writeln!(out, "faults: {}", faults.join(", "));
    let _ = writeln!(out, "timeline:");
    for line in &short.log {
        let _ = writeln!(out, "{}", line.chars().take(700).collect::<String>());
    }
    out
}
