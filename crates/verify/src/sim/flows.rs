//! Flows that a seed draws: what they are is kept as data, so that the checkers know what each
//! must do without asking the code under test, and printed as text for the compiler.

use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

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
    KvSet {
        key: String,
        overwrite: bool,
    },
    KvGet {
        key: String,
        strict: bool,
    },
    KvDelete {
        key: String,
        strict: bool,
    },
    Sequential(Vec<Task>),
    Parallel {
        concurrent: u32,
        tasks: Vec<Task>,
    },
    If {
        ask: Ask,
        then: Vec<Task>,
        otherwise: Vec<Task>,
    },
    Switch {
        cases: Vec<(&'static str, Vec<Task>)>,
        defaults: Option<Vec<Task>>,
    },
    ForEach {
        items: Vec<String>,
        concurrent: u32,
        tasks: Vec<Task>,
    },
    Subflow(Sub),
    AllowFailure(Vec<Task>),
    WorkingDirectory(Vec<Task>),
    /// Each task with the ids of those that it depends on.
    Dag {
        concurrent: u32,
        tasks: Vec<Task>,
        depends: BTreeMap<String, Vec<String>>,
    },
    /// As often as this, with so much time in between.
    LoopUntil {
        rounds: u32,
        interval_ms: i64,
        tasks: Vec<Task>,
    },
    Loop {
        items: Vec<String>,
        concurrent: u32,
        transmit: bool,
        tasks: Vec<Task>,
    },
    /// Ends the run so.
    Exit(&'static str),
    /// Without a time it waits for somebody; else `behavior` says what the end of the time means.
    Pause {
        ms: Option<i64>,
        behavior: &'static str,
    },
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
            Kind::AllowFailure(_) => "allow_failure",
            Kind::WorkingDirectory(_) => "working_directory",
            Kind::Dag { .. } => "dag",
            Kind::LoopUntil { .. } => "loop_until",
            Kind::Loop { .. } => "loop",
            Kind::Exit(_) => "exit",
            Kind::Pause { .. } => "pause",
        }
    }

    /// Every list of tasks below.
    pub fn lists(&self) -> Vec<&Vec<Task>> {
        match self {
            Kind::Sequential(tasks)
            | Kind::Parallel { tasks, .. }
            | Kind::ForEach { tasks, .. }
            | Kind::AllowFailure(tasks)
            | Kind::WorkingDirectory(tasks)
            | Kind::Dag { tasks, .. }
            | Kind::LoopUntil { tasks, .. }
            | Kind::Loop { tasks, .. } => vec![tasks],
            Kind::If { then, otherwise, .. } => vec![then, otherwise],
            Kind::Switch { cases, defaults } => cases.iter().map(|(_, tasks)| tasks).chain(defaults).collect(),
            _ => vec![],
        }
    }

    pub fn holds_tasks(&self) -> bool {
        !self.lists().is_empty()
    }
}

/// What stands around a task.
#[derive(Clone, Debug, Default)]
struct Around {
    /// Loops over values.
    loops: u32,
    /// Tells the rounds of a loop without values apart, in a URI.
    round: String,
}

impl Around {
    fn deeper(&self) -> Around {
        Around { loops: self.loops + 1, round: self.round.clone() }
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
        let list = |tasks: &[Task]| -> Vec<Json> {
            tasks.iter().map(|task| self.task_json(task, flows, &Around::default())).collect()
        };
        let mut flow = json!({
            "id": self.id, "namespace": self.namespace,
            "labels": {"made": "once"},
            "inputs": [
                {"id": "id", "type": "STRING"}, {"id": "n", "type": "INT"},
                {"id": "flag", "type": "BOOL"}, {"id": "kind", "type": "STRING"},
            ],
            "tasks": list(&self.tasks),
            "outputs": [
                {"id": "who", "type": "STRING", "value": "{{ inputs.id }}"},
                {"id": "n", "type": "INT", "value": "{{ inputs.n }}"},
                {"id": "variant", "type": "INT", "value": self.variant},
            ],
        });
        if !self.errors.is_empty() {
            flow["errors"] = Json::Array(list(&self.errors));
        }
        if !self.finally.is_empty() {
            flow["finally"] = Json::Array(list(&self.finally));
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

    fn task_json(&self, task: &Task, flows: &[Flow], around: &Around) -> Json {
        let list = |tasks: &[Task], around: &Around| -> Json {
            tasks.iter().map(|task| self.task_json(task, flows, around)).collect()
        };
        let loops = around;
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
                json!({"type": "flow.ForEach", "values": items, "concurrencyLimit": concurrent, "tasks": list(tasks, &loops.deeper())})
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
            Kind::AllowFailure(tasks) => json!({"type": "flow.AllowFailure", "tasks": list(tasks, loops)}),
            Kind::WorkingDirectory(tasks) => json!({"type": "flow.WorkingDirectory", "tasks": list(tasks, loops)}),
            Kind::Dag { concurrent, tasks, depends } => {
                let entry = |task: &Task| {
                    let needs = depends.get(&task.id).cloned().unwrap_or_default();
                    json!({"task": self.task_json(task, flows, loops), "dependsOn": needs})
                };
                let tasks: Vec<Json> = tasks.iter().map(entry).collect();
                json!({"type": "flow.Dag", "concurrent": concurrent, "tasks": tasks})
            }
            Kind::LoopUntil { rounds, interval_ms, tasks } => {
                let within =
                    Around { round: format!("/{{{{ outputs.{}.iterationCount }}}}", task.id), ..loops.clone() };
                json!({
                    "type": "flow.LoopUntil", "condition": format!("{{{{ outputs.{}.iterationCount >= {rounds} }}}}", task.id),
                    "checkFrequency": {"interval": duration(*interval_ms)}, "tasks": list(tasks, &within),
                })
            }
            Kind::Loop { items, concurrent, transmit, tasks } => json!({
                "type": "flow.Loop", "values": items, "concurrencyLimit": concurrent, "transmitFailed": transmit,
                "tasks": list(tasks, &loops.deeper()),
            }),
            Kind::Exit(state) => json!({"type": "execution.Exit", "state": state}),
            Kind::Pause { ms: None, .. } => json!({"type": "flow.Pause"}),
            Kind::Pause { ms: Some(ms), behavior } => {
                json!({"type": "flow.Pause", "pauseDuration": duration(*ms), "behavior": behavior})
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

    fn http_json(&self, task: &Task, call: &Call, around: &Around) -> Json {
        // Who is called, for which run and which items: the receiver can tell effects apart by it.
        let value = match around.loops {
            0 => "",
            1 => "/{{ taskrun.value }}",
            // A group inside a loop has the loop's value, so it is among the parents too.
            _ => {
                "{% for p in parents %}{% if p.taskrun is defined %}/{{ p.taskrun.value }}{% endif %}{% endfor %}/{{ taskrun.value }}"
            }
        };
        let value = format!("{value}{}", around.round);
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
