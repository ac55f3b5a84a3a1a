//! Flows that a seed draws: what they are is kept as data, so that the checkers know what each
//! must do without asking the code under test, and printed as text for the compiler.

use super::chance::Chance;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Read,
    Repeatable,
    Keyed,
    Naked,
}

/// A question about the inputs, answered without the expression language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Flag(bool),
    AtLeast(i64),
}

#[derive(Clone, Debug)]
pub struct Call {
    pub class: Class,
    /// Which receiver: see `outside`.
    pub host: &'static str,
    pub window_ms: Option<i64>,
    /// The author's own outbound key.
    pub own_key: bool,
    pub on_doubt: &'static str,
    pub timeout_ms: i64,
}

#[derive(Clone, Debug)]
pub struct RetrySpec {
    pub attempts: u32,
    pub kind: &'static str,
    pub interval_ms: i64,
    pub max_ms: i64,
}

#[derive(Clone, Debug)]
pub struct Sub {
    pub flow: usize,
    pub wait: bool,
    pub transmit: bool,
    pub own_key: bool,
    pub timeout_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Log,
    Return,
    Labels,
    Fail(Ask),
    Http(Call),
    Sleep(i64),
    KvSet { key: String, overwrite: bool },
    KvGet { key: String, strict: bool },
    KvDelete { key: String, strict: bool },
    Sequential(Vec<Task>),
    Parallel { concurrent: u32, tasks: Vec<Task> },
    If { ask: Ask, then: Vec<Task>, otherwise: Vec<Task> },
    Switch { cases: Vec<(&'static str, Vec<Task>)>, defaults: Option<Vec<Task>> },
    ForEach { items: Vec<String>, concurrent: u32, tasks: Vec<Task> },
    Subflow(Sub),
}

#[derive(Clone, Debug)]
pub struct Task {
    pub id: String,
    pub kind: Kind,
    pub run_if: Option<Ask>,
    pub retry: Option<RetrySpec>,
    pub allow_failure: bool,
    /// Only of tasks that hold tasks.
    pub errors: Vec<Task>,
    pub finally: Vec<Task>,
}

/// An idempotency block: the preset's word, and what the author overrides.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub preset: Option<&'static str>,
    pub keyed: bool,
    pub scope: &'static str,
    pub overrides: Vec<(&'static str, &'static str)>,
    /// (from completed?, ms), "forever", "while_live".
    pub window: Option<WindowSpec>,
    pub strict: bool,
    pub require_key: bool,
    pub expire_live: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSpec {
    FirstSeen(i64),
    Completed(i64),
    Forever,
    WhileLive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusySpec {
    Queue(u32),
    Replace,
    Coalesce { quiet_ms: i64, max_ms: i64 },
    Deliver,
    Reject,
    Cancel,
    Fail,
    Parallel,
}

#[derive(Clone, Debug)]
pub struct Lane {
    /// By `inputs.kind`, or one lane for the flow.
    pub by_kind: bool,
    pub limit: u32,
    pub busy: BusySpec,
}

#[derive(Clone, Debug)]
pub struct Schedule {
    /// Every so many minutes.
    pub minutes: u32,
    pub recover: &'static str,
}

#[derive(Clone, Debug)]
pub struct Flow {
    pub namespace: &'static str,
    pub id: String,
    /// Raised by each push: it is part of every URI, so a run betrays which text it follows.
    pub variant: u32,
    pub tasks: Vec<Task>,
    pub errors: Vec<Task>,
    pub finally: Vec<Task>,
    pub retry: Option<RetrySpec>,
    pub block: Option<Block>,
    pub lane: Option<Lane>,
    pub schedule: Option<Schedule>,
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payload {
    pub id: String,
    pub n: i64,
    pub flag: bool,
    pub kind: &'static str,
}

impl Payload {
    pub fn json(&self) -> Json {
        json!({"id": self.id, "n": self.n, "flag": self.flag, "kind": self.kind})
    }
}

impl Ask {
    pub fn answer(self, inputs: &Json) -> bool {
        match self {
            Ask::Flag(wanted) => inputs["flag"].as_bool() == Some(wanted),
            Ask::AtLeast(n) => inputs["n"].as_i64().unwrap_or(0) >= n,
        }
    }

    fn text(self) -> String {
        match self {
            Ask::Flag(true) => "{{ inputs.flag }}".into(),
            Ask::Flag(false) => "{{ not inputs.flag }}".into(),
            Ask::AtLeast(n) => format!("{{{{ inputs.n >= {n} }}}}"),
        }
    }
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Read, Class::Repeatable, Class::Keyed, Class::Naked];

    pub fn word(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Repeatable => "repeatable",
            Class::Keyed => "keyed",
            Class::Naked => "naked",
        }
    }
}

impl Kind {
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::Return => "return",
            Kind::Labels => "labels",
            Kind::Fail(_) => "fail",
            Kind::Http(_) => "http",
            Kind::Sleep(_) => "sleep",
            Kind::KvSet { .. } => "kv_set",
            Kind::KvGet { .. } => "kv_get",
            Kind::KvDelete { .. } => "kv_delete",
            Kind::Sequential(_) => "sequential",
            Kind::Parallel { .. } => "parallel",
            Kind::If { .. } => "if",
            Kind::Switch { .. } => "switch",
            Kind::ForEach { .. } => "for_each",
            Kind::Subflow(_) => "subflow",
        }
    }

    /// Every list of tasks below.
    pub fn lists(&self) -> Vec<&Vec<Task>> {
        match self {
            Kind::Sequential(tasks) | Kind::Parallel { tasks, .. } | Kind::ForEach { tasks, .. } => vec![tasks],
            Kind::If { then, otherwise, .. } => vec![then, otherwise],
            Kind::Switch { cases, defaults } => cases.iter().map(|(_, tasks)| tasks).chain(defaults).collect(),
            _ => vec![],
        }
    }

    pub fn holds_tasks(&self) -> bool {
        matches!(
            self,
            Kind::Sequential(_) | Kind::Parallel { .. } | Kind::If { .. } | Kind::Switch { .. } | Kind::ForEach { .. }
        )
    }
}

impl Flow {
    /// Every task, handlers included.
    pub fn all_tasks(&self) -> Vec<&Task> {
        fn walk<'a>(tasks: &'a [Task], out: &mut Vec<&'a Task>) {
            for task in tasks {
                out.push(task);
                for list in task.kind.lists() {
                    walk(list, out);
                }
                walk(&task.errors, out);
                walk(&task.finally, out);
            }
        }
        let mut out = Vec::new();
        for list in [&self.tasks, &self.errors, &self.finally] {
            walk(list, &mut out);
        }
        out
    }

    /// Ids of tasks of `errors:` and `finally:`.
    pub fn handler_tasks(&self) -> BTreeSet<String> {
        let inside = self.all_tasks();
        let lists = inside.iter().flat_map(|task| [&task.errors, &task.finally]).chain([&self.errors, &self.finally]);
        lists.flatten().map(|task| task.id.clone()).collect()
    }

    pub fn task(&self, id: &str) -> Option<&Task> {
        self.all_tasks().into_iter().find(|task| task.id == id)
    }

    /// The flow as text. JSON is YAML.
    pub fn source(&self, flows: &[Flow]) -> String {
        let list = |tasks: &[Task], loops: u32| -> Vec<Json> {
            tasks.iter().map(|task| self.task_json(task, flows, loops)).collect()
        };
        let mut flow = json!({
            "id": self.id, "namespace": self.namespace,
            "labels": {"made": "once"},
            "inputs": [
                {"id": "id", "type": "STRING"}, {"id": "n", "type": "INT"},
                {"id": "flag", "type": "BOOL"}, {"id": "kind", "type": "STRING"},
            ],
            "tasks": list(&self.tasks, 0),
            "outputs": [
                {"id": "who", "type": "STRING", "value": "{{ inputs.id }}"},
                {"id": "n", "type": "INT", "value": "{{ inputs.n }}"},
                {"id": "variant", "type": "INT", "value": self.variant},
            ],
        });
        if !self.errors.is_empty() {
            flow["errors"] = Json::Array(list(&self.errors, 0));
        }
        if !self.finally.is_empty() {
            flow["finally"] = Json::Array(list(&self.finally, 0));
        }
        if let Some(retry) = &self.retry {
            flow["retry"] = retry.json();
        }
        if let Some(block) = &self.block {
            flow["idempotency"] = block.json();
        }
        match &self.lane {
            Some(lane) if matches!(lane.busy, BusySpec::Cancel | BusySpec::Fail) => {
                let behavior = if lane.busy == BusySpec::Cancel { "CANCEL" } else { "FAIL" };
                flow["concurrency"] = json!({"limit": lane.limit, "behavior": behavior});
            }
            Some(lane) => flow["lane"] = lane.json(),
            None => {}
        }
        if let Some(schedule) = &self.schedule {
            flow["triggers"] = json!([{
                "id": "tick", "type": "trigger.Schedule", "cron": format!("*/{} * * * *", schedule.minutes),
                "recoverMissedSchedules": schedule.recover,
                "inputs": {"id": "{{ trigger.date }}", "n": 1, "flag": true, "kind": "a"},
            }]);
        }
        flow.to_string()
    }

    fn task_json(&self, task: &Task, flows: &[Flow], loops: u32) -> Json {
        let list = |tasks: &[Task], loops: u32| -> Json {
            tasks.iter().map(|task| self.task_json(task, flows, loops)).collect()
        };
        let mut json = match &task.kind {
            Kind::Log => json!({"type": "log.Log", "message": format!("{} says {{{{ inputs.id }}}}", task.id)}),
            Kind::Return => json!({"type": "debug.Return", "format": format!("{} {{{{ inputs.n }}}}", task.id)}),
            Kind::Labels => json!({"type": "execution.Labels", "labels": {"seen": "{{ inputs.kind }}"}}),
            Kind::Fail(ask) => {
                json!({"type": "execution.Fail", "condition": ask.text(), "errorMessage": "asked to fail"})
            }
            Kind::Http(call) => self.http_json(task, call, loops),
            Kind::Sleep(ms) => json!({"type": "flow.Sleep", "duration": duration(*ms)}),
            Kind::KvSet { key, overwrite } => {
                json!({"type": "kv.Set", "key": key, "value": "{{ run.id }}", "overwrite": overwrite})
            }
            Kind::KvGet { key, strict } => json!({"type": "kv.Get", "key": key, "errorOnMissing": strict}),
            Kind::KvDelete { key, strict } => json!({"type": "kv.Delete", "key": key, "errorOnMissing": strict}),
            Kind::Sequential(tasks) => json!({"type": "flow.Sequential", "tasks": list(tasks, loops)}),
            Kind::Parallel { concurrent, tasks } => {
                json!({"type": "flow.Parallel", "concurrent": concurrent, "tasks": list(tasks, loops)})
            }
            Kind::If { ask, then, otherwise } => {
                let mut json = json!({"type": "flow.If", "condition": ask.text(), "then": list(then, loops)});
                if !otherwise.is_empty() {
                    json["else"] = list(otherwise, loops);
                }
                json
            }
            Kind::Switch { cases, defaults } => {
                let map: serde_json::Map<String, Json> =
                    cases.iter().map(|(word, tasks)| ((*word).to_owned(), list(tasks, loops))).collect();
                let mut json = json!({"type": "flow.Switch", "value": "{{ inputs.kind }}", "cases": map});
                if let Some(defaults) = defaults {
                    json["defaults"] = list(defaults, loops);
                }
                json
            }
            Kind::ForEach { items, concurrent, tasks } => {
                json!({"type": "flow.ForEach", "values": items, "concurrencyLimit": concurrent, "tasks": list(tasks, loops + 1)})
            }
            Kind::Subflow(sub) => {
                let mut json = json!({
                    "type": "flow.Subflow", "namespace": flows[sub.flow].namespace, "flowId": flows[sub.flow].id,
                    "wait": sub.wait, "transmitFailed": sub.transmit,
                    "inputs": {"id": "{{ inputs.id }}", "n": "{{ inputs.n }}", "flag": "{{ inputs.flag }}", "kind": "{{ inputs.kind }}"},
                });
                if sub.own_key {
                    // Shared by parents of one event, and equal to the key the flow itself would make.
                    json["idempotencyKey"] = json!("{{ inputs.id }}");
                }
                if let Some(ms) = sub.timeout_ms {
                    json["timeout"] = json!(duration(ms));
                }
                json
            }
        };
        json["id"] = json!(task.id);
        if let Some(ask) = task.run_if {
            json["runIf"] = json!(ask.text());
        }
        if let Some(retry) = &task.retry {
            json["retry"] = retry.json();
        }
        if task.allow_failure {
            json["allowFailure"] = json!(true);
        }
        if !task.errors.is_empty() {
            json["errors"] = list(&task.errors, loops);
        }
        if !task.finally.is_empty() {
            json["finally"] = list(&task.finally, loops);
        }
        json
    }

    fn http_json(&self, task: &Task, call: &Call, loops: u32) -> Json {
        // Who is called, for which run and which items: the receiver can tell effects apart by it.
        let value = match loops {
            0 => "",
            1 => "/{{ taskrun.value }}",
            2 => "/{{ parent.taskrun.value }}/{{ taskrun.value }}",
            _ => "/{{ parents[1].taskrun.value }}/{{ parent.taskrun.value }}/{{ taskrun.value }}",
        };
        let method = match call.class {
            Class::Read => "GET",
            Class::Repeatable => "PUT",
            Class::Keyed | Class::Naked => "POST",
        };
        let mut json = json!({
            "type": "http.Request", "method": method,
            "uri": format!("http://{}/{}/{}/{}/{{{{ run.id }}}}{value}", call.host, self.variant, self.id, task.id),
            "timeout": duration(call.timeout_ms),
        });
        if call.class != Class::Read {
            json["body"] = json!({"n": "{{ inputs.n }}"});
        }
        if call.class == Class::Keyed {
            let mut effect = json!({"class": "keyed"});
            if let Some(ms) = call.window_ms {
                effect["window"] = json!(duration(ms));
            }
            if call.own_key {
                effect["key"] = json!(format!("{}-{{{{ run.id }}}}{}", task.id, value.replace('/', "-")));
            }
            json["effect"] = effect;
        }
        if call.on_doubt != "hold" {
            json["on_doubt"] = json!(call.on_doubt);
        }
        json
    }
}

impl RetrySpec {
    fn json(&self) -> Json {
        let interval = duration(self.interval_ms);
        let most = duration(self.max_ms);
        match self.kind {
            "exponential" => {
                json!({"type": "exponential", "interval": interval, "maxInterval": most, "maxAttempts": self.attempts})
            }
            "random" => {
                json!({"type": "random", "minInterval": interval, "maxInterval": most, "maxAttempts": self.attempts})
            }
            _ => json!({"type": "constant", "interval": interval, "maxAttempts": self.attempts}),
        }
    }
}

impl Block {
    fn json(&self) -> Json {
        let mut json = json!({"scope": self.scope});
        if self.keyed {
            json["key"] = json!("{{ inputs.id }}");
        }
        if let Some(preset) = self.preset {
            json["preset"] = json!(preset);
        }
        for (name, value) in &self.overrides {
            json[*name] = json!(value);
        }
        match self.window {
            Some(WindowSpec::FirstSeen(ms)) => json["window"] = json!({"from": "first_seen", "duration": duration(ms)}),
            Some(WindowSpec::Completed(ms)) => json["window"] = json!({"from": "completed", "duration": duration(ms)}),
            Some(WindowSpec::Forever) => json["window"] = json!("forever"),
            Some(WindowSpec::WhileLive) => json["window"] = json!("while_live"),
            None => {}
        }
        for (name, on) in
            [("strict", self.strict), ("require_key", self.require_key), ("expire_live", self.expire_live)]
        {
            if on {
                json[name] = json!(true);
            }
        }
        json
    }
}

impl Lane {
    fn json(&self) -> Json {
        let busy = match self.busy {
            BusySpec::Queue(max) => json!({"queue": {"max": max}}),
            BusySpec::Replace => json!("replace"),
            BusySpec::Coalesce { quiet_ms, max_ms } => {
                json!({"coalesce": {"quiet": duration(quiet_ms), "max": duration(max_ms)}})
            }
            BusySpec::Deliver => json!("deliver"),
            BusySpec::Reject => json!("reject"),
            BusySpec::Parallel | BusySpec::Cancel | BusySpec::Fail => json!("parallel"),
        };
        let mut json = json!({"busy": busy, "limit": self.limit});
        if self.by_kind {
            json["key"] = json!("{{ inputs.kind }}");
        }
        json
    }
}

pub fn duration(ms: i64) -> String {
    format!("PT{}.{:03}S", ms / 1_000, ms % 1_000)
}

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
    let schedule = chance
        .percent(15)
        .then(|| Schedule { minutes: *chance.pick(&[1, 5, 15, 30]), recover: chance.word(&["ALL", "LAST", "NONE"]) });
    let namespace = chance.word(&["shop", "shop", "bank"]);
    Flow { namespace, id: format!("f{index}"), variant: 1, tasks, errors, finally, retry, block, lane, schedule }
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
