//! Kinds of tasks that came later, put into flows that were drawn without them. Seeds from [`GRAFTED`] on have them, each
//! a few of the kinds, so that they meet often; what a smaller seed draws stays as it was.

use super::chance::Chance;
use super::flows::{Ask, Flow, Kind, Task};
use std::collections::BTreeMap;

/// The first seed whose flows have them.
pub const GRAFTED: u64 = 1 << 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum New {
    AllowFailure,
    WorkingDirectory,
    Dag,
    LoopUntil,
    Loop,
    Exit,
    Pause,
}

const ALL: [New; 7] =
    [New::AllowFailure, New::WorkingDirectory, New::Dag, New::LoopUntil, New::Loop, New::Exit, New::Pause];

struct Graft<'a> {
    chance: &'a mut Chance,
    kinds: Vec<New>,
    next_id: u32,
}

/// Where a list of tasks is.
#[derive(Clone, Copy)]
struct Place {
    /// Inside a loop; the rounds of a loop without values are told apart only where there is no other around it.
    looped: bool,
}

pub fn grow(flow: &mut Flow, seed: u64, index: usize) {
    if seed < GRAFTED {
        return;
    }
    let mut swarm = Chance::of(seed, 6, 0);
    let kinds: Vec<New> = ALL.into_iter().filter(|_| swarm.percent(45)).collect();
    let mut graft = Graft { chance: &mut Chance::of(seed, 8, index as u64), kinds, next_id: 0 };
    graft.list(&mut flow.tasks, Place { looped: false });
}

impl Graft<'_> {
    fn has(&mut self, kind: New, percent: u32) -> bool {
        self.kinds.contains(&kind) && self.chance.percent(percent)
    }

    fn task(&mut self, kind: Kind) -> Task {
        self.next_id += 1;
        let id = format!("g{}", self.next_id);
        Task { id, kind, run_if: None, retry: None, allow_failure: false, errors: vec![], finally: vec![] }
    }

    fn list(&mut self, tasks: &mut Vec<Task>, place: Place) {
        for task in tasks.iter_mut() {
            self.below(task, place);
            self.wrap(task, place);
        }
        if self.has(New::Pause, 30) {
            let behavior = self.chance.word(&["RESUME", "WARN", "FAIL", "CANCEL"]);
            let ms = self.chance.percent(70).then(|| *self.chance.pick(&[50, 5_000, 600_000]));
            let pause = self.task(Kind::Pause { ms, behavior });
            self.insert(tasks, pause);
        }
        if self.has(New::Exit, 20) {
            let state = self.chance.word(&["FAILED", "CANCELED", "KILLED"]);
            let mut exit = self.task(Kind::Exit(state));
            exit.run_if = Some(Ask::AtLeast(self.chance.range(1, 5)));
            self.insert(tasks, exit);
        }
    }

    fn insert(&mut self, tasks: &mut Vec<Task>, task: Task) {
        let at = self.chance.below(tasks.len() as u64 + 1) as usize;
        tasks.insert(at, task);
    }

    /// The tasks inside, and a loop that becomes one of the other sort.
    fn below(&mut self, task: &mut Task, place: Place) {
        match &mut task.kind {
            Kind::Sequential(tasks) | Kind::Parallel { tasks, .. } => self.list(tasks, place),
            Kind::If { then, otherwise, .. } => {
                self.list(then, place);
                if !otherwise.is_empty() {
                    self.list(otherwise, place);
                }
            }
            Kind::Switch { cases, defaults } => {
                let lists = cases.iter_mut().map(|(_, tasks)| tasks).chain(defaults);
                lists.for_each(|tasks| self.list(tasks, place));
            }
            Kind::ForEach { items, concurrent, tasks } => {
                self.list(tasks, Place { looped: true });
                if self.has(New::Loop, 50) {
                    let transmit = self.chance.percent(60);
                    let (items, tasks) = (items.clone(), std::mem::take(tasks));
                    task.kind = Kind::Loop { items, concurrent: *concurrent, transmit, tasks };
                    // These belong to each round of such a loop.
                    (task.errors, task.finally) = (vec![], vec![]);
                }
            }
            _ => {}
        }
    }

    /// Sometimes a task stands in a group of its own, with another one.
    fn wrap(&mut self, task: &mut Task, place: Place) {
        let kind = match self.chance.below(5) {
            0 if self.has(New::AllowFailure, 60) => New::AllowFailure,
            1 if self.has(New::WorkingDirectory, 60) => New::WorkingDirectory,
            2 if self.has(New::Dag, 60) => New::Dag,
            3 if !place.looped && !holds_loop(task) && self.has(New::LoopUntil, 60) => New::LoopUntil,
            _ => return,
        };
        let beside = self.task(Kind::Log);
        let inner = std::mem::replace(task, beside.clone());
        let kind = match kind {
            New::AllowFailure => Kind::AllowFailure(vec![inner, beside]),
            New::WorkingDirectory => Kind::WorkingDirectory(vec![beside, inner]),
            New::LoopUntil => {
                let interval_ms = *self.chance.pick(&[100, 10_000, 3_600_000]);
                Kind::LoopUntil { rounds: self.chance.range(1, 3) as u32, interval_ms, tasks: vec![inner, beside] }
            }
            New::Dag | New::Loop | New::Exit | New::Pause => {
                let last = self.task(Kind::Return);
                let mut depends = BTreeMap::from([(last.id.clone(), vec![inner.id.clone(), beside.id.clone()])]);
                if self.chance.percent(50) {
                    depends.insert(beside.id.clone(), vec![inner.id.clone()]);
                }
                Kind::Dag { concurrent: self.chance.below(3) as u32, tasks: vec![last, beside, inner], depends }
            }
        };
        *task = self.task(kind);
    }
}

/// A loop without values does not stand in another one.
fn holds_loop(task: &Task) -> bool {
    matches!(task.kind, Kind::LoopUntil { .. }) || task.kind.lists().into_iter().flatten().any(holds_loop)
}
