//! The lane decision: may this fresh event run now?

use super::decide::Reason;
use super::policy::Busy;
use crate::ids::RunId;
use crate::planted;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// The head of a lane, as stored. Who waits stands in rows of its own, first come first, so that
/// a long line costs no more than a short one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Runs that hold a slot, oldest first.
    pub holders: Vec<RunId>,
    /// How many wait.
    pub waiting: u32,
    /// The run that gathers events until its quiet period ends.
    pub gathering: Option<Gathering>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathering {
    pub run: RunId,
    pub since: Millis,
}

impl Lane {
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiting == 0 && self.gathering.is_none()
    }

    /// May another run take a slot? Not before those who wait.
    pub fn is_free(&self, limit: u32) -> bool {
        self.has_slot(limit) && self.waiting == 0
    }

    pub fn has_slot(&self, limit: u32) -> bool {
        self.holders.len() < limit as usize
    }

    /// Removes a run that holds a slot or gathers; false when it does neither.
    pub fn release(&mut self, run: RunId) -> bool {
        let held = self.holders.len();
        self.holders.retain(|r| *r != run);
        let gathered = self.gathering.take_if(|g| g.run == run).is_some();
        gathered || self.holders.len() < held
    }
}

/// What the oldest holder allows, read in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderState {
    /// Nothing of it is in flight: it can be fenced at once.
    Quiet,
    /// It or a descendant has sent something whose answer is not recorded yet.
    OpenIntent,
    /// It waits for a verdict; replacing it would bury the doubt.
    Held,
    /// The event comes from a run below the holder, which cannot take the place of its own root.
    Ancestor,
}

/// What becomes of a fresh event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneVerdict {
    /// Takes a slot and runs.
    Run,
    /// Becomes a run that waits in line.
    Queue(Reason),
    /// The holder is fenced and cancelled; this one takes its slot.
    Replace {
        victim: RunId,
    },
    /// The holder is asked to stop; this one waits at the head of the line until it has settled.
    ReplaceDeferred {
        victim: RunId,
    },
    /// Opens a quiet period that ends at `due`.
    Gather {
        due: Millis,
    },
    /// Joins the run that gathers; its quiet period now ends at `due`.
    Coalesce {
        into: RunId,
        due: Millis,
    },
    /// Handed to the holder's inbox.
    Deliver {
        to: RunId,
    },
    Reject(Reason),
    /// A run is made that is already cancelled or failed (Kestra's CANCEL and FAIL).
    StartCancelled,
    StartFailed,
}

/// A quiet period begins again with each event, and ends at the latest at `longest`.
fn quiet_until(now: Millis, quiet_ms: i64, longest: Millis) -> Millis {
    let due = now.plus(quiet_ms);
    if planted!(QuietWithoutEnd) { due } else { due.min(longest) }
}

/// The lane matrix. Pure and total.
///
/// | lane | queue(n) | replace | coalesce | deliver | reject | cancel / fail | parallel |
/// |---|---|---|---|---|---|---|---|
/// | free slot, nobody waits | Run | Run | Gather | Run | Run | Run | Run |
/// | gathering | Queue | Queue | Coalesce | Deliver | Reject `lane_busy` | created ended | Run |
/// | busy | Queue, or Reject `queue_full` | Replace · ReplaceDeferred on an open intent · Reject `held_no_replace` on a held holder, `lane_busy` below the holder | Gather (runs when the lane frees) | Deliver | Reject `lane_busy` | created ended | Run |
pub fn decide_lane(lane: &Lane, limit: u32, busy: Busy, holder: HolderState, now: Millis) -> LaneVerdict {
    match busy {
        Busy::Parallel => LaneVerdict::Run,
        Busy::Coalesce { quiet_ms, max_ms } => match lane.gathering {
            Some(gathering) => LaneVerdict::Coalesce {
                into: gathering.run,
                due: quiet_until(now, quiet_ms, gathering.since.plus(max_ms)),
            },
            None => LaneVerdict::Gather { due: now.plus(quiet_ms.min(max_ms)) },
        },
        _ if lane.is_free(limit) => LaneVerdict::Run,
        Busy::Queue { max } => {
            if lane.waiting >= max {
                LaneVerdict::Reject(Reason::QueueFull)
            } else {
                LaneVerdict::Queue(Reason::Queued)
            }
        }
        Busy::Replace => match (lane.holders.first(), holder) {
            (None, _) => LaneVerdict::Queue(Reason::Queued),
            (Some(_), HolderState::Held) => LaneVerdict::Reject(Reason::HeldNoReplace),
            (Some(_), HolderState::Ancestor) => LaneVerdict::Reject(Reason::LaneBusy),
            (Some(victim), HolderState::OpenIntent) => LaneVerdict::ReplaceDeferred { victim: *victim },
            (Some(victim), HolderState::Quiet) => LaneVerdict::Replace { victim: *victim },
        },
        Busy::Deliver => match lane.holders.first() {
            Some(to) => LaneVerdict::Deliver { to: *to },
            None => LaneVerdict::Queue(Reason::Queued),
        },
        Busy::Reject => LaneVerdict::Reject(Reason::LaneBusy),
        Busy::Cancel => LaneVerdict::StartCancelled,
        Busy::Fail => LaneVerdict::StartFailed,
    }
}
