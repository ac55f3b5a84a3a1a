//! What a twin gets: written down a second time, from the contract and not from the code.

use super::flows::{Block, WindowSpec};

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;
/// A tombstone is kept this long after the window.
pub const TOMBSTONE: i64 = 90 * DAY;

use WindowSpec::{Completed, FirstSeen, Forever, WhileLive};

/// Preset, live, done, failed, cancelled, mismatch, window. A letter is the first of its word, but
/// `n` is rerun, and `e` is resume.
#[rustfmt::skip]
pub const PRESETS: &[(&str, &str, WindowSpec)] = &[
    ("semel",                     "a p e p r", Completed(30 * DAY)),
    ("trigger",                   "a p p p i", FirstSeen(DAY)),
    ("ietf",                      "r p p p r", FirstSeen(DAY)),
    ("stripe_v1",                 "r p p p r", FirstSeen(DAY)),
    ("stripe_v2",                 "r p e e r", FirstSeen(30 * DAY)),
    ("conductor_fail",            "r r r r i", Forever),
    ("conductor_return_existing", "a p p p i", Forever),
    ("conductor_fail_on_running", "r n n n i", Forever),
    ("temporal_allow_duplicate",  "r n n n i", Completed(3 * DAY)),
    ("temporal_failed_only",      "r r n n i", Completed(3 * DAY)),
    ("temporal_reject",           "r r r r i", Completed(3 * DAY)),
    ("temporal_use_existing",     "a n n n i", Completed(3 * DAY)),
    ("restate_call",              "a p p p i", Completed(DAY)),
    ("restate_workflow",          "r r p p i", Completed(DAY)),
    ("dbos_id",                   "a p p p i", Forever),
    ("dbos_dedup",                "r n n n i", WhileLive),
    ("inngest",                   "a p p p i", FirstSeen(DAY)),
    ("inngest_singleton",         "r n n n i", WhileLive),
    ("trigger_dev",               "a p n p i", FirstSeen(30 * DAY)),
    ("step_functions",            "a r r r r", Completed(90 * DAY)),
    ("lambda_durable",            "a p p p r", Completed(14 * DAY)),
    ("powertools",                "r p n n r", FirstSeen(HOUR)),
    ("hatchet_ttl",               "r r r r i", FirstSeen(DAY)),
    ("hatchet_status",            "r n n n i", WhileLive),
    ("breyta_keyed",              "a n n n i", WhileLive),
    ("kestra_guard",              "a p n n i", Forever),
    ("outbox_consumer",           "a p n n i", Completed(7 * DAY)),
];

/// A policy as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub live: &'static str,
    pub done: &'static str,
    pub failed: &'static str,
    pub cancelled: &'static str,
    pub mismatch: &'static str,
    pub window: WindowSpec,
    pub late: &'static str,
    pub require_key: bool,
    pub expire_live: bool,
}

pub fn preset(word: &str) -> Rules {
    let row = PRESETS.iter().find(|row| row.0 == word).expect("a preset of the table");
    let letters: Vec<&str> = row.1.split(' ').collect();
    let ended = |letter: &str| match letter {
        "e" => "resume",
        "n" => "rerun",
        "p" => "replay",
        _ => "reject",
    };
    Rules {
        live: if letters[0] == "a" { "attach" } else { "reject" },
        done: ended(letters[1]),
        failed: ended(letters[2]),
        cancelled: ended(letters[3]),
        mismatch: if letters[4] == "i" { "ignore" } else { "reject" },
        window: row.2,
        late: "start",
        require_key: false,
        expire_live: false,
    }
}

/// A parent that goes on finds its child again.
pub fn for_children() -> Rules {
    Rules { mismatch: "ignore", failed: "resume", cancelled: "resume", ..preset("semel") }
}

/// What the request says, else the flow's block, else the door; `strict` puts the block first.
pub fn resolve(request: Option<&str>, block: Option<&Block>, door: &str) -> Rules {
    match (request, block) {
        (Some(word), None) => preset(word),
        (Some(word), Some(block)) if !block.strict => {
            Rules { require_key: block.require_key, expire_live: block.expire_live, ..preset(word) }
        }
        (_, Some(block)) => {
            let mut rules = preset(block.preset.unwrap_or("semel"));
            for (name, value) in &block.overrides {
                match *name {
                    "live" => rules.live = value,
                    "done" => rules.done = value,
                    "failed" => rules.failed = value,
                    "cancelled" => rules.cancelled = value,
                    "mismatch" => rules.mismatch = value,
                    _ => rules.late = value,
                }
            }
            if let Some(window) = block.window {
                rules.window = window;
            }
            rules.require_key = block.require_key;
            rules.expire_live = block.expire_live;
            rules
        }
        (None, None) => preset(door),
    }
}

/// The state of an event key as the decision must see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    Absent,
    Expired,
    Pending,
    Live,
    Held,
    Done,
    Failed,
    Cancelled,
    Erased,
}

/// What the event comes to, as (decision, reason). `fresh` leaves the rest to the lane.
pub fn judge(known: Known, same: bool, rules: &Rules) -> (&'static str, &'static str) {
    let twin = |word: &'static str, reason: &'static str, other: &'static str| -> (&'static str, &'static str) {
        match (same, rules.mismatch) {
            (false, "reject") => ("reject", "payload_mismatch"),
            (false, "split") => ("split", ""),
            (false, _) if word != "reject" => (word, other),
            _ => (word, reason),
        }
    };
    let ended = |rule: &str, reasons: [&'static str; 4]| match rule {
        "resume" => twin("resume", reasons[0], "resumed_mismatch"),
        "rerun" => ("fresh", reasons[1]),
        "replay" => twin("replay", reasons[2], "replayed_mismatch"),
        _ => twin("reject", reasons[3], ""),
    };
    match known {
        Known::Absent => ("fresh", "first"),
        Known::Expired => match rules.late {
            "start" => ("fresh", "late_duplicate"),
            "warn" => ("fresh", "late_warned"),
            _ => ("reject", "late_rejected"),
        },
        Known::Pending | Known::Live if rules.live == "reject" => twin("reject", "in_progress", ""),
        Known::Pending => twin("attach", "attached_pending", "attached_mismatch"),
        Known::Live => twin("attach", "attached", "attached_mismatch"),
        Known::Held if rules.live == "reject" => twin("reject", "held", ""),
        Known::Held => twin("hold", "held", "held_mismatch"),
        Known::Done => ended(rules.done, ["", "rerun", "replayed", "already_done"]),
        Known::Failed => ended(rules.failed, ["resumed", "retry_failed", "replayed_failure", "already_failed"]),
        Known::Cancelled => {
            ended(rules.cancelled, ["resumed_cancelled", "retry_cancelled", "replayed_cancelled", "already_cancelled"])
        }
        Known::Erased => match rules.done {
            "replay" => ("reject", "erased"),
            "rerun" => ("fresh", "rerun"),
            _ => ("reject", "already_done"),
        },
    }
}
