//! Drawing flows: how large, how deep, of what kinds, under which policies.

use super::chance::Chance;
use super::flows::{Ask, Block, BusySpec, Call, Class, Flow, Kind, Lane, RetrySpec, Schedule, Sub, Task, WindowSpec};

/// What a seed's flows may hold.
struct Garden<'a> {
    chance: &'a mut Chance,
    /// Flows drawn before this one: only those may be called, so nothing is cyclic.
    callable: usize,
    left: u32,
    next_id: u32,
    calm: bool,
}

pub const KINDS: [&str; 3] = ["a", "b", "c"];

/// The `index`-th flow of a seed.
pub fn draw(chance: &mut Chance, index: usize) -> Flow {
    let size = match chance.below(10) {
        0..=5 => chance.range(1, 5),
        6..=8 => chance.range(4, 12),
        _ => chance.range(12, 40),
    } as u32;
    let calm = chance.percent(25);
    let mut garden = Garden { chance, callable: index, left: size, next_id: 0, calm };
    let mut tasks = garden.tasks(0, size);
    if tasks.is_empty() {
        tasks.push(garden.leaf(0));
    }
    let errors = if garden.chance.percent(20) { garden.few(2) } else { vec![] };
    let finally = if garden.chance.percent(15) { garden.few(2) } else { vec![] };
    let retry = garden.chance.percent(12).then(|| garden.retry());
    let block = draw_block(chance);
    let lane = chance.percent(50).then(|| draw_lane(chance));
    if index > 0 && lane.as_ref().is_some_and(|lane| lane.busy == BusySpec::Replace) && chance.percent(60) {
        // What is replaced is often a tree.
        tasks.insert(0, below(index - 1));
    }
    let schedule = chance
        .percent(15)
        .then(|| Schedule { minutes: *chance.pick(&[1, 5, 15, 30]), recover: chance.word(&["ALL", "LAST", "NONE"]) });
    let namespace = chance.word(&["shop", "shop", "bank"]);
    Flow { namespace, id: format!("f{index}"), variant: 1, tasks, errors, finally, retry, block, lane, schedule }
}

/// Gives a flow a lane, and runs that stay in it for a while.
pub fn make_lane_of(flow: &mut Flow, chance: &mut Chance) {
    let mut lane = draw_lane(chance);
    lane.by_kind = false;
    flow.lane = Some(lane);
    let nap = Task { id: "nap".into(), kind: Kind::Sleep(chance.range(1_000, 60_000)), ..below(0) };
    flow.tasks.insert(0, nap);
}

/// A sub-run that is waited for.
fn below(flow: usize) -> Task {
    let sub = Sub { flow, wait: true, transmit: true, own_key: false, timeout_ms: None };
    Task {
        id: "below".into(),
        kind: Kind::Subflow(sub),
        run_if: None,
        retry: None,
        allow_failure: false,
        errors: vec![],
        finally: vec![],
    }
}

fn draw_block(chance: &mut Chance) -> Option<Block> {
    if chance.percent(25) {
        return None;
    }
    let presets: Vec<&'static str> = super::policy::PRESETS.iter().map(|row| row.0).collect();
    let preset = chance.percent(60).then(|| *chance.pick(&presets));
    let mut overrides = Vec::new();
    for (name, values) in [
        ("live", &["attach", "reject"][..]),
        ("done", &["replay", "reject", "rerun"]),
        ("failed", &["resume", "resume", "rerun", "replay", "reject"]),
        ("cancelled", &["resume", "rerun", "replay", "reject"]),
        ("mismatch", &["reject", "ignore", "split"]),
        ("late", &["start", "warn", "reject"]),
    ] {
        if chance.percent(30) {
            overrides.push((name, *chance.pick(values)));
        }
    }
    let window = chance.percent(50).then(|| {
        let ms = *chance.pick(&[5_000, 60_000, 3_600_000, 86_400_000]);
        match chance.below(6) {
            0 | 1 => WindowSpec::FirstSeen(ms),
            2 | 3 => WindowSpec::Completed(ms),
            4 => WindowSpec::Forever,
            _ => WindowSpec::WhileLive,
        }
    });
    let keyed = chance.percent(70);
    Some(Block {
        preset,
        keyed,
        scope: chance.word(&["flow", "flow", "flow", "namespace", "workspace", "group:g"]),
        overrides,
        window,
        strict: chance.percent(30),
        require_key: chance.percent(8),
        expire_live: chance.percent(8),
    })
}

fn draw_lane(chance: &mut Chance) -> Lane {
    let busy = match chance.below(12) {
        0..=2 => BusySpec::Queue(chance.range(1, 6) as u32),
        3..=4 => BusySpec::Replace,
        5..=6 => {
            let quiet_ms = chance.range(200, 8_000);
            BusySpec::Coalesce { quiet_ms, max_ms: quiet_ms + chance.range(0, 30_000) }
        }
        7..=8 => BusySpec::Deliver,
        9 => BusySpec::Reject,
        10 => *chance.pick(&[BusySpec::Cancel, BusySpec::Fail]),
        _ => BusySpec::Parallel,
    };
    let kestra = matches!(busy, BusySpec::Cancel | BusySpec::Fail);
    Lane { by_kind: !kestra && chance.percent(40), limit: *chance.pick(&[1, 1, 1, 2, 3]), busy }
}

impl Garden<'_> {
    fn id(&mut self) -> String {
        self.next_id += 1;
        format!("t{}", self.next_id)
    }

    fn few(&mut self, most: u32) -> Vec<Task> {
        let count = self.chance.range(1, i64::from(most));
        (0..count).map(|_| self.leaf(1)).collect()
    }

    fn tasks(&mut self, depth: u32, most: u32) -> Vec<Task> {
        let count = self.chance.range(1, i64::from(most.min(5)));
        let mut tasks = Vec::new();
        for _ in 0..count {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            tasks.push(if depth < 3 && self.chance.percent(35) { self.group(depth) } else { self.leaf(depth) });
        }
        tasks
    }

    fn retry(&mut self) -> RetrySpec {
        let interval_ms = self.chance.range(100, 20_000);
        RetrySpec {
            attempts: self.chance.range(2, 4) as u32,
            kind: self.chance.word(&["constant", "exponential", "random"]),
            interval_ms,
            max_ms: interval_ms + self.chance.range(0, 60_000),
        }
    }

    fn ask(&mut self) -> Ask {
        if self.chance.percent(50) { Ask::Flag(self.chance.percent(50)) } else { Ask::AtLeast(self.chance.range(1, 5)) }
    }

    fn leaf(&mut self, depth: u32) -> Task {
        let key = |chance: &mut Chance| format!("kv{}", chance.below(3));
        let kind = match self.chance.below(20) {
            0..=2 => Kind::Log,
            3 => Kind::Return,
            4 => Kind::Labels,
            5 if !self.calm => Kind::Fail(self.ask()),
            6 | 7 => Kind::Sleep(*self.chance.pick(&[10, 1_000, 30_000, 600_000, 7_200_000])),
            8 => Kind::KvSet { key: key(self.chance), overwrite: self.chance.percent(70) },
            9 => Kind::KvGet { key: key(self.chance), strict: self.chance.percent(20) },
            10 if self.chance.percent(50) => Kind::KvDelete { key: key(self.chance), strict: self.chance.percent(20) },
            11 | 12 if self.callable > 0 && depth < 3 => Kind::Subflow(Sub {
                flow: self.chance.below(self.callable as u64) as usize,
                wait: self.chance.percent(75),
                transmit: self.chance.percent(70),
                own_key: self.chance.percent(25),
                timeout_ms: self.chance.percent(15).then(|| self.chance.range(500, 60_000)),
            }),
            _ => Kind::Http(self.call()),
        };
        let retries = !matches!(kind, Kind::Sleep(_)) && !self.calm && self.chance.percent(30);
        Task {
            id: self.id(),
            run_if: self.chance.percent(8).then(|| self.ask()),
            retry: retries.then(|| self.retry()),
            allow_failure: self.chance.percent(10),
            kind,
            errors: vec![],
            finally: vec![],
        }
    }

    fn call(&mut self) -> Call {
        let class = *self.chance.pick(&[Class::Read, Class::Repeatable, Class::Keyed, Class::Keyed, Class::Naked]);
        let host = match class {
            Class::Read => "naive",
            Class::Repeatable => *self.chance.pick(&["upsert", "dedupe"]),
            Class::Keyed => *self.chance.pick(&["dedupe", "dedupe", "forgets"]),
            Class::Naked => "naive",
        };
        let window_ms = match host {
            "forgets" => Some(*self.chance.pick(&[2_000, 30_000, 600_000])),
            _ => self.chance.percent(30).then(|| *self.chance.pick(&[60_000, 3_600_000])),
        };
        Call {
            class,
            host,
            window_ms: window_ms.filter(|_| class == Class::Keyed),
            own_key: class == Class::Keyed && self.chance.percent(15),
            on_doubt: match class {
                Class::Naked | Class::Keyed if self.chance.percent(15) => "fail",
                _ => "hold",
            },
            timeout_ms: self.chance.range(500, 10_000),
        }
    }

    fn group(&mut self, depth: u32) -> Task {
        let id = self.id();
        let kind = match self.chance.below(8) {
            0 => Kind::Sequential(self.tasks(depth + 1, 4)),
            1 | 2 => Kind::Parallel { concurrent: self.chance.below(3) as u32, tasks: self.tasks(depth + 1, 4) },
            3 => {
                let ask = self.ask();
                let then = self.some(depth + 1);
                Kind::If { ask, then, otherwise: if self.chance.percent(60) { self.some(depth + 1) } else { vec![] } }
            }
            4 => {
                let cases = vec![("a", self.some(depth + 1)), ("b", self.some(depth + 1))];
                let defaults = self.chance.percent(80).then(|| self.some(depth + 1));
                Kind::Switch { cases, defaults }
            }
            _ => {
                let count = if self.chance.percent(8) { 20 } else { self.chance.range(0, 4) };
                let concurrent = self.chance.below(4) as u32;
                let tasks = self.some(depth + 1);
                Kind::ForEach { items: (0..count).map(|n| format!("i{n}")).collect(), concurrent, tasks }
            }
        };
        let kind = match kind {
            Kind::Sequential(tasks) if tasks.is_empty() => Kind::Log,
            Kind::Parallel { tasks, .. } if tasks.is_empty() => Kind::Log,
            other => other,
        };
        let holds = kind.holds_tasks();
        Task {
            id,
            kind,
            run_if: None,
            retry: None,
            allow_failure: self.chance.percent(10),
            errors: if holds && self.chance.percent(20) { self.few(2) } else { vec![] },
            finally: if holds && self.chance.percent(15) { self.few(1) } else { vec![] },
        }
    }

    /// At least one task, whatever is left.
    fn some(&mut self, depth: u32) -> Vec<Task> {
        let tasks = self.tasks(depth, 3);
        if tasks.is_empty() { vec![self.leaf(depth)] } else { tasks }
    }
}

/// The same flow, edited: another text in every URI, and sometimes a task more.
pub fn edit(flow: &Flow, chance: &mut Chance) -> Flow {
    let mut edited = flow.clone();
    edited.variant += 1;
    match chance.below(3) {
        0 => edited.tasks.push(Task {
            id: format!("e{}", edited.variant),
            kind: Kind::Log,
            run_if: None,
            retry: None,
            allow_failure: false,
            errors: vec![],
            finally: vec![],
        }),
        1 if edited.tasks.len() > 1 => {
            edited.tasks.pop();
        }
        _ => {}
    }
    edited
}
