//! What can go wrong, and who decides that it does.

use super::chance::Chance;
use std::collections::{BTreeMap, BTreeSet};

macro_rules! faults {
    ($($name:ident $word:literal $most:literal),* $(,)?) => {
        /// Every kind of fault. The number is the highest rate a seed may draw, in permille of the
        /// occasions (0: it is an action of the script, not a matter of chance at a point).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($name),* }

        impl Fault {
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];
            pub fn word(self) -> &'static str { match self { $(Fault::$name => $word),* } }
            fn most(self) -> u32 { match self { $(Fault::$name => $most),* } }
        }
    };
}

faults! {
    CrashBeforeCommit "crash_before_commit" 25,
    CrashAfterCommit "crash_after_commit" 25,
    CrashAfterIntent "crash_after_intent" 60,
    CrashAfterEffect "crash_after_effect" 60,
    UnknownApplied "commit_unknown_applied" 12,
    UnknownNotApplied "commit_unknown_not_applied" 12,
    Busy "store_busy" 80,
    Conflict "transient_conflict" 80,
    ReadBusy "read_busy" 30,
    SlowCommit "slow_commit" 200,
    DelayedAnswer "delayed_answer" 200,
    ReceiverAppliesThenTimesOut "receiver_applies_then_times_out" 150,
    ReceiverLosesRequest "receiver_loses_request" 150,
    ReceiverFailsAfterApplying "receiver_5xx_after_applying" 120,
    ReceiverRefuses "receiver_refuses" 250,
    ReceiverForgets "receiver_forgets_key" 0,
    ReceiverSlow "receiver_slow" 200,
    DeliveryDuplicated "delivery_duplicated" 0,
    DeliveryLate "delivery_late" 0,
    DeliveryEdited "delivery_edited" 0,
    DeliveryReordered "delivery_reordered" 0,
    ClientGoesAway "client_goes_away" 60,
    DiskFull "disk_full" 0,
    ClockBack "clock_back" 0,
    ClockForward "clock_forward" 0,
    NodePaused "node_paused" 0,
    Takeover "second_driver_takes_over" 0,
    Killed "killed_at_rest" 0,
    FlowEdited "flow_edited" 0,
    RunCancelled "run_cancelled" 0,
    RunPaused "run_paused" 0,
    RunResumed "run_resumed" 0,
    Restored "restored_from_backup" 0,
}

/// A fault at its point: the `n`-th occasion of its kind.
pub type Point = (Fault, u64);

/// Decides at each point whether a fault happens there. Either by chance, or by a list: that is
/// how a failing seed is run again with fewer faults.
pub struct Faults {
    seed: u64,
    rates: BTreeMap<Fault, u32>,
    only: Option<BTreeSet<Point>>,
    /// Occasions so far, while faults were on.
    pub seen: BTreeMap<Fault, u64>,
    pub fired: Vec<Point>,
    pub counts: BTreeMap<Fault, u64>,
    /// Off once the world heals.
    pub on: bool,
}

impl Faults {
    /// Each seed draws its own mix: about half of the kinds, each with its own rate.
    pub fn new(seed: u64, only: Option<BTreeSet<Point>>) -> Faults {
        let mut rates = BTreeMap::new();
        // One seed in eight is quiet: depth without noise.
        let quiet = Chance::of(seed, 1, 0).percent(12);
        for (n, fault) in Fault::ALL.iter().enumerate() {
            let mut chance = Chance::of(seed, 2, n as u64);
            if fault.most() > 0 && !quiet && chance.percent(45) {
                rates.insert(*fault, chance.range(1, i64::from(fault.most())) as u32);
            }
        }
        Faults { seed, rates, only, seen: BTreeMap::new(), fired: vec![], counts: BTreeMap::new(), on: true }
    }

    /// Does it happen here?
    pub fn strikes(&mut self, fault: Fault) -> bool {
        if !self.on {
            return false;
        }
        let seen = self.seen.entry(fault).or_insert(0);
        let n = *seen;
        *seen += 1;
        let yes = match &self.only {
            Some(list) => list.contains(&(fault, n)),
            None => {
                let rate = self.rates.get(&fault).copied().unwrap_or(0);
                rate > 0 && Chance::of(self.seed, 100 + fault as u64, n).permille(rate)
            }
        };
        if yes {
            self.fired.push((fault, n));
            self.count(fault);
        }
        yes
    }

    /// A fault that the script asked for.
    pub fn count(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_insert(0) += 1;
    }
}
