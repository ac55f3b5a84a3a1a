//! The numbers of one kill loop, for people and for programs.

use super::check::Violation;
use super::observe::World;
use super::records::{Call, Note, Receiver};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    /// Deaths by how they came: `random`, `starting`, …, or the name of a failpoint.
    pub kills: BTreeMap<String, u32>,
    /// Failpoint lives that did not reach their point and were killed instead.
    pub missed: u32,
    /// Stops and resumptions.
    pub pauses: u32,
    pub attempts: u64,
    pub offered: usize,
    /// Events with at least one 2xx.
    pub obligations: usize,
    pub promises: usize,
    pub runs: BTreeMap<String, usize>,
    pub calls: usize,
    pub effects: usize,
    /// Repeated calls per receiver, beyond the first of each effect.
    pub again: BTreeMap<Receiver, usize>,
    pub verdicts: usize,
    /// Looks of the store's own checker.
    pub checks: usize,
    pub slowest_start: Duration,
    pub took: Duration,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn kills(&self) -> u32 {
        self.kills.values().sum()
    }

    pub fn started_within(&mut self, span: Duration) {
        self.slowest_start = self.slowest_start.max(span);
    }

    /// Adds what another one has counted while a loop went on.
    pub fn absorb(&mut self, other: Report) {
        self.seed = other.seed;
        for (how, count) in other.kills {
            *self.kills.entry(how).or_default() += count;
        }
        self.missed += other.missed;
        self.pauses += other.pauses;
        self.checks += other.checks;
        self.started_within(other.slowest_start);
        self.violations.extend(other.violations);
    }

    pub fn count(&mut self, calls: &[Call], notes: &[Note], world: &World) {
        let mut obligations = BTreeSet::new();
        for note in notes {
            match note {
                Note::Offered { .. } => self.offered += 1,
                Note::Promised { event, .. } => {
                    self.promises += 1;
                    obligations.insert(event);
                }
                Note::Ended { attempts } => self.attempts += attempts,
                Note::Altered { .. } | Note::Refused { .. } | Note::GaveUp { .. } => {}
            }
        }
        self.obligations = obligations.len();
        for run in &world.runs {
            *self.runs.entry(run.status.clone()).or_default() += 1;
        }
        self.calls = calls.len();
        let mut effects = BTreeSet::new();
        for call in calls {
            if !effects.insert((&call.flow, &call.event, &call.step)) {
                *self.again.entry(call.receiver).or_default() += 1;
            }
        }
        self.effects = effects.len();
    }
}

impl fmt::Display for Report {
    /// A table for people; the last line is for programs.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "kills {} in {:.0?}, {} pauses, slowest start {:.0?}",
            self.kills(),
            self.took,
            self.pauses,
            self.slowest_start
        )?;
        for (how, count) in &self.kills {
            writeln!(f, "  {count:>5} {how}")?;
        }
        writeln!(
            f,
            "events {} offered, {} owed, {} promises, {} attempts",
            self.offered, self.obligations, self.promises, self.attempts
        )?;
        writeln!(f, "runs {:?}, {} verdicts given, store checked {} times", self.runs, self.verdicts, self.checks)?;
        writeln!(f, "effects {}, calls {}, sent again {:?}", self.effects, self.calls, self.again)?;
        for violation in &self.violations {
            writeln!(f, "VIOLATION {:?}: {}", violation.kind, violation.about)?;
        }
        write!(
            f,
            "SUMMARY kill_loop seed={} kills={} failpoint_kills={} pauses={} attempts={} obligations={} calls={} again={} violations={}",
            self.seed,
            self.kills(),
            self.kills.iter().filter(|(how, _)| how.contains('.')).map(|(_, count)| count).sum::<u32>(),
            self.pauses,
            self.attempts,
            self.obligations,
            self.calls,
            self.again.values().sum::<usize>(),
            self.violations.len()
        )
    }
}
