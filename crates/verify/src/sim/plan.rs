//! The script of a seed: flows, and who does what when. It is a list, so it can be shortened.

use super::chance::Chance;
use super::faults::Point;
use super::flows::{Flow, Payload};
use super::garden::{self, KINDS};
use super::graft;
use super::works::{Starting, WORKING};
use serde_json::Value as Json;
use std::collections::BTreeSet;

pub const WORKSPACES: [&str; 3] = ["main", "other", "third"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Cancel,
    Pause,
    Resume,
    /// After a restore.
    Release,
    Restart,
    /// From the n-th top-level task, or from the start.
    Replay(Option<u8>),
    VerdictDone,
    VerdictRepeat,
    VerdictNewKey,
    VerdictFail,
}

#[derive(Clone, Debug)]
pub struct Sending {
    pub workspace: usize,
    pub flow: usize,
    pub key: Option<String>,
    pub payload: Payload,
    pub preset: Option<&'static str>,
    pub door: &'static str,
    /// An event that was sent before: again, edited, late.
    pub again: bool,
    pub edited: bool,
    pub late: bool,
    /// Tries of a client that gets no answer.
    pub tries: u32,
    /// Waits for the end of the run.
    pub waits: bool,
}

#[derive(Clone, Debug)]
pub enum Action {
    Send(Box<Sending>),
    Control {
        pick: u64,
        wish: Wish,
    },
    Release {
        pick: u64,
    },
    Delete {
        pick: u64,
    },
    Erase {
        pick: u64,
    },
    Push {
        workspace: usize,
        flow: usize,
        dice: u64,
    },
    ClockJump {
        ms: i64,
    },
    Full {
        ms: i64,
    },
    Kill {
        down_ms: i64,
    },
    Pause {
        ms: i64,
    },
    Takeover {
        paused_ms: i64,
        after_ms: i64,
    },
    Backup,
    /// All is lost that came after the last backup. Accepted: its open runs go on at once.
    Restore {
        accepted: bool,
    },
    Background,
    StartWork(Box<Starting>),
    AskForWork {
        workspace: usize,
        queue: usize,
        worker: u32,
    },
}

#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub flows: Vec<Flow>,
    /// Of workflows whose tasks workers carry out: then there are no flows.
    pub definitions: Vec<Json>,
    pub workspaces: usize,
    pub sqlite: bool,
    /// In order of time, in milliseconds from the start.
    pub actions: Vec<(i64, Action)>,
    pub until: i64,
    /// `None`: by chance.
    pub faults: Option<BTreeSet<Point>>,
}

impl Script {
    pub fn new(seed: u64) -> Script {
        if seed >= WORKING {
            return Script::of_workers(seed);
        }
        let mut chance = Chance::new(seed);
        let sqlite = chance.percent(6);
        let workspaces = chance.range(1, 3) as usize;
        let count = chance.range(1, 4) as usize;
        let mut flows: Vec<Flow> =
            (0..count).map(|index| garden::draw(&mut Chance::of(seed, 3, index as u64), index)).collect();
        flows.iter_mut().enumerate().for_each(|(index, flow)| graft::grow(flow, seed, index));
        let until = *chance.pick(&[5_000, 30_000, 120_000, 900_000, 7_200_000]);
        // One seed in four crowds a lane: many events, runs that last.
        let crowd = chance.percent(25);
        if crowd {
            garden::make_lane_of(&mut flows[0], &mut chance);
        }
        let mut drawing = Drawing { chance, flows: &flows, workspaces, until, crowd, actions: vec![] };
        drawing.sends();
        drawing.people();
        drawing.trouble();
        drawing.restore(&mut Chance::of(seed, 5, 0));
        let mut actions = drawing.actions;
        actions.sort_by_key(|(at, _)| *at);
        Script { seed, flows, definitions: vec![], workspaces, sqlite, actions, until, faults: None }
    }
}

pub(super) struct Drawing<'a> {
    pub chance: Chance,
    pub flows: &'a [Flow],
    pub workspaces: usize,
    pub until: i64,
    pub crowd: bool,
    pub actions: Vec<(i64, Action)>,
}

impl Drawing<'_> {
    pub(super) fn at(&mut self) -> i64 {
        self.chance.range(0, self.until)
    }

    fn sends(&mut self) {
        // Few keys, so that they collide; some differ in nothing but case.
        let pool: Vec<String> = ["e1", "E1", "e2", "e3", "e4", "E4"]
            .iter()
            .take(self.chance.range(1, 6) as usize)
            .map(|s| (*s).to_owned())
            .collect();
        let presets: Vec<&'static str> = super::policy::PRESETS.iter().map(|row| row.0).collect();
        let count = match self.chance.below(10) {
            _ if self.crowd => self.chance.range(10, 30),
            0..=5 => self.chance.range(2, 10),
            6..=8 => self.chance.range(8, 25),
            _ => self.chance.range(20, 50),
        };
        let (twins, edits, late) =
            (self.chance.below(60) as u32, self.chance.below(30) as u32, self.chance.below(15) as u32);
        let mut sent: Vec<(i64, Sending)> = Vec::new();
        for _ in 0..count {
            if !sent.is_empty() && self.chance.percent(twins) {
                let (first, known) = self.chance.pick(&sent).clone();
                let mut again = Sending { again: true, ..known };
                if self.chance.percent(edits) {
                    again.edited = true;
                    again.payload.n += 1;
                }
                again.late = self.chance.percent(late);
                let at = match again.late {
                    true => first + *self.chance.pick(&[61_000, 3_700_000, 90_000_000, 2_700_000_000]),
                    false if self.chance.percent(40) => first,
                    false => first + self.chance.range(1, 20_000),
                };
                // Past the script's end there are no further faults, but the windows still count.
                self.actions.push((at, Action::Send(Box::new(again))));
                continue;
            }
            let (mut flow, mut id) =
                (self.chance.below(self.flows.len() as u64) as usize, self.chance.pick(&pool).clone());
            if self.crowd && self.chance.percent(80) {
                (flow, id) = (0, format!("c{}", self.chance.below(30)));
            }
            let block_keyed = self.flows[flow].block.as_ref().is_some_and(|b| b.keyed);
            let key = match self.chance.below(10) {
                0..=5 => Some(id.clone()),
                6 => Some(self.chance.pick(&pool).clone()),
                _ if block_keyed => None,
                7 | 8 => Some(id.clone()),
                _ => None,
            };
            let sending = Sending {
                workspace: self.chance.below(self.workspaces as u64) as usize,
                flow,
                key,
                payload: Payload {
                    id,
                    n: self.chance.range(0, 5),
                    flag: self.chance.percent(50),
                    kind: self.chance.word(&KINDS),
                },
                preset: self.chance.percent(20).then(|| *self.chance.pick(&presets)),
                door: self.chance.word(&["trigger", "trigger", "webhook", "cli"]),
                again: false,
                edited: false,
                late: false,
                tries: self.chance.range(1, 6) as u32,
                waits: self.chance.percent(20),
            };
            let at = self.at();
            self.actions.push((at, Action::Send(Box::new(sending.clone()))));
            sent.push((at, sending));
        }
    }

    fn people(&mut self) {
        let busy = self.chance.below(4);
        let count = if busy == 0 { 0 } else { self.chance.range(0, 4 * busy as i64) };
        for _ in 0..count {
            let at = self.at();
            let pick = self.chance.draw();
            let action = match self.chance.below(26) {
                0..=4 => Action::Control { pick, wish: Wish::Cancel },
                5..=7 => Action::Control { pick, wish: Wish::Pause },
                8..=9 => Action::Control { pick, wish: Wish::Resume },
                10..=12 => Action::Control { pick, wish: Wish::Restart },
                13..=14 => {
                    let from = self.chance.percent(60).then(|| self.chance.below(4) as u8);
                    Action::Control { pick, wish: Wish::Replay(from) }
                }
                15..=19 => {
                    let wishes = [Wish::VerdictDone, Wish::VerdictRepeat, Wish::VerdictNewKey, Wish::VerdictFail];
                    Action::Control { pick, wish: *self.chance.pick(&wishes) }
                }
                20 => Action::Release { pick },
                21 => Action::Delete { pick },
                22 => Action::Erase { pick },
                _ => Action::Push {
                    workspace: self.chance.below(self.workspaces as u64) as usize,
                    flow: self.chance.below(self.flows.len() as u64) as usize,
                    dice: pick,
                },
            };
            self.actions.push((at, action));
        }
        let ticks = if self.flows.iter().any(|f| f.schedule.is_some()) { 12 } else { self.chance.range(0, 4) };
        for _ in 0..ticks {
            let at = self.at();
            self.actions.push((at, Action::Background));
        }
    }

    pub(super) fn trouble(&mut self) {
        if self.chance.percent(15) {
            return;
        }
        for _ in 0..self.chance.range(0, 4) {
            let at = self.at();
            let action = match self.chance.below(10) {
                0 | 1 => {
                    let sign = if self.chance.percent(50) { 1 } else { -1 };
                    Action::ClockJump { ms: sign * self.jump() }
                }
                2 | 3 => Action::Full { ms: self.chance.range(100, 20_000) },
                4 | 5 => Action::Kill { down_ms: *self.chance.pick(&[1, 500, 10_000, 600_000]) },
                6 | 7 => Action::Pause { ms: *self.chance.pick(&[100, 5_000, 60_000, 3_600_000]) },
                _ => Action::Takeover {
                    paused_ms: *self.chance.pick(&[50, 2_000, 60_000]),
                    after_ms: self.chance.range(1, 20_000),
                },
            };
            self.actions.push((at, action));
        }
    }

    /// One seed in eight loses its store. It draws from a source of its own: all other seeds stay as they are.
    fn restore(&mut self, chance: &mut Chance) {
        if !chance.percent(12) {
            return;
        }
        let backup = chance.range(0, self.until * 3 / 4);
        let lost = chance.range(backup, self.until);
        self.actions.push((backup, Action::Backup));
        self.actions.push((lost, Action::Restore { accepted: chance.percent(20) }));
        for _ in 0..chance.range(0, 4) {
            let at = chance.range(lost, self.until);
            self.actions.push((at, Action::Control { pick: chance.draw(), wish: Wish::Release }));
        }
    }

    /// A year at most; less where a schedule would have to make up for it.
    fn jump(&mut self) -> i64 {
        let most = self.flows.iter().filter_map(|f| f.schedule.as_ref()).map(|s| match s.recover {
            "ALL" => i64::from(s.minutes) * 60_000 * 20,
            _ => 86_400_000,
        });
        let limit = most.min().unwrap_or(i64::MAX);
        (*self.chance.pick(&[1_000, 60_000, 3_600_000, 86_400_000, 40 * 86_400_000, 365 * 86_400_000])).min(limit)
    }
}
