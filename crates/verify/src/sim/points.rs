//! Every write point of twelve scripted runs: the process dies before the write and after it,
//! before each request leaves and after it arrived. All of a seed's checks hold each time.

use super::faults::{Fault, Point};
use super::flows::{Ask, BusySpec, Call, Class, Flow, Kind, Lane, Payload, RetrySpec, Sub, Task};
use super::model::Violation;
use super::plan::{Action, Script, Sending, Wish};
use super::report;
use std::collections::BTreeSet;

/// Where a process dies.
const DEATHS: [Fault; 6] = [
    Fault::CrashBeforeCommit,
    Fault::CrashAfterCommit,
    Fault::UnknownNotApplied,
    Fault::UnknownApplied,
    Fault::CrashAfterIntent,
    Fault::CrashAfterEffect,
];

fn task(id: &str, kind: Kind) -> Task {
    Task { id: id.into(), kind, run_if: None, retry: None, allow_failure: false, errors: vec![], finally: vec![] }
}

fn call(id: &str, class: Class) -> Task {
    let host = if class == Class::Keyed { "dedupe" } else { "naive" };
    let host = if class == Class::Repeatable { "upsert" } else { host };
    task(id, Kind::Http(Call { class, host, window_ms: None, own_key: false, on_doubt: "hold", timeout_ms: 2_000 }))
}

fn sub(id: &str, flow: usize, wait: bool, own_key: bool) -> Task {
    task(id, Kind::Subflow(Sub { flow, wait, transmit: true, own_key, timeout_ms: None }))
}

fn flow(id: usize, tasks: Vec<Task>) -> Flow {
    Flow {
        namespace: "shop",
        id: format!("f{id}"),
        variant: 1,
        tasks,
        errors: vec![],
        finally: vec![],
        retry: None,
        block: None,
        lane: None,
        schedule: None,
    }
}

fn laned(mut flow: Flow, busy: BusySpec) -> Flow {
    flow.lane = Some(Lane { by_kind: false, limit: 1, busy });
    flow
}

fn each(id: &str, count: usize, concurrent: u32, tasks: Vec<Task>) -> Task {
    task(id, Kind::ForEach { items: (0..count).map(|n| format!("i{n}")).collect(), concurrent, tasks })
}

fn send(at: i64, flow: usize, id: &str) -> (i64, Action) {
    let sending = Sending {
        workspace: 0,
        flow,
        key: Some(id.to_owned()),
        payload: Payload { id: id.to_owned(), n: 3, flag: true, kind: "a" },
        preset: Some("semel"),
        door: "trigger",
        again: false,
        edited: false,
        late: false,
        tries: 4,
        waits: true,
    };
    (at, Action::Send(Box::new(sending)))
}

fn wish(at: i64, wish: Wish) -> (i64, Action) {
    (at, Action::Control { pick: 0, wish })
}

/// The twelve, each with its name.
pub fn scripts() -> Vec<(&'static str, Script)> {
    let nap = |ms| task("nap", Kind::Sleep(ms));
    let retried = |mut task: Task| {
        task.retry = Some(RetrySpec { attempts: 3, kind: "exponential", interval_ms: 500, max_ms: 4_000 });
        task
    };
    let mut handled =
        flow(0, vec![call("a", Class::Keyed), task("b", Kind::Fail(Ask::Flag(true))), call("never", Class::Naked)]);
    handled.errors = vec![call("e", Class::Keyed)];
    handled.finally = vec![call("z", Class::Repeatable)];
    let mut again = flow(0, vec![call("a", Class::Naked), task("b", Kind::Fail(Ask::Flag(true)))]);
    again.retry = Some(RetrySpec { attempts: 2, kind: "constant", interval_ms: 1_000, max_ms: 1_000 });
    let kv = |id: &str, kind| task(id, kind);
    let classes =
        vec![call("a", Class::Read), call("b", Class::Repeatable), call("c", Class::Keyed), call("d", Class::Naked)];
    let calls = |ids: &[&str]| ids.iter().map(|id| call(id, Class::Keyed)).collect::<Vec<Task>>();
    let branches = vec![
        task("if", Kind::If { ask: Ask::Flag(true), then: calls(&["yes"]), otherwise: calls(&["no"]) }),
        task("switch", Kind::Switch { cases: vec![("a", calls(&["case"]))], defaults: Some(calls(&["else"])) }),
        task("both", Kind::Parallel { concurrent: 0, tasks: calls(&["left", "right"]) }),
        task("seq", Kind::Sequential(calls(&["in"]))),
    ];
    let nested = each("outer", 2, 0, vec![each("inner", 2, 1, vec![call("item", Class::Keyed)])]);
    let line = || vec![call("a", Class::Keyed), nap(5_000), call("b", Class::Naked)];
    let queue = laned(flow(0, line()), BusySpec::Queue(5));
    let replace = laned(flow(1, vec![sub("child", 0, true, false), nap(5_000)]), BusySpec::Replace);
    let gather = laned(flow(0, line()), BusySpec::Coalesce { quiet_ms: 1_000, max_ms: 5_000 });
    let deliver = laned(flow(0, line()), BusySpec::Deliver);
    let kvs = vec![
        kv("set", Kind::KvSet { key: "k".into(), overwrite: true }),
        kv("get", Kind::KvGet { key: "k".into(), strict: true }),
        kv("del", Kind::KvDelete { key: "k".into(), strict: true }),
        task("log", Kind::Log),
        task("back", Kind::Return),
        task("labels", Kind::Labels),
    ];
    let leaf = || flow(0, vec![call("a", Class::Naked)]);
    let children = vec![sub("first", 0, false, true), sub("same", 0, true, true), sub("other", 0, true, false)];
    let two = |a: i64| vec![send(0, 0, "e1"), send(a, 0, "e1")];
    vec![
        ("effects of every class", script(1, vec![flow(0, classes)], two(4))),
        ("branches", script(2, vec![flow(0, branches)], two(3))),
        ("loops in loops", script(3, vec![flow(0, vec![nested])], two(5))),
        (
            "retries",
            script(4, vec![flow(0, vec![retried(call("a", Class::Keyed)), retried(call("b", Class::Naked))])], two(3)),
        ),
        ("handlers", script(5, vec![handled], two(9_000))),
        ("a retry of the whole flow", script(6, vec![again], two(20))),
        ("key values and inline tasks", script(7, vec![flow(0, kvs)], two(2))),
        ("sub-runs", script(8, vec![leaf(), flow(1, children)], vec![send(0, 1, "e1"), send(3, 0, "e1")])),
        (
            "a queue",
            script(9, vec![queue], vec![send(0, 0, "e1"), send(3, 0, "e2"), send(5, 0, "e3"), send(9, 0, "e2")]),
        ),
        (
            "a replaced tree",
            script(
                10,
                vec![flow(0, vec![nap(8_000)]), replace],
                vec![send(0, 1, "e1"), send(900, 1, "e2"), send(1_500, 1, "e3")],
            ),
        ),
        (
            "gathered, then delivered",
            script(
                11,
                vec![gather, {
                    let mut f = deliver;
                    f.id = "f1".into();
                    f
                }],
                vec![send(0, 0, "e1"), send(500, 0, "e2"), send(0, 1, "e3"), send(1_000, 1, "e4")],
            ),
        ),
        (
            "people",
            script(
                12,
                vec![flow(0, vec![call("a", Class::Keyed), nap(3_000), call("b", Class::Naked)])],
                vec![
                    send(0, 0, "e1"),
                    wish(1_000, Wish::Pause),
                    wish(5_000, Wish::Resume),
                    wish(5_050, Wish::Cancel),
                    wish(8_000, Wish::Restart),
                    wish(20_000, Wish::Replay(Some(0))),
                ],
            ),
        ),
    ]
}

fn script(seed: u64, flows: Vec<Flow>, actions: Vec<(i64, Action)>) -> Script {
    let faults = Some(BTreeSet::new());
    Script { seed, flows, definitions: vec![], workspaces: 1, sqlite: false, actions, until: 30_000, faults }
}

/// What a sweep met.
#[derive(Debug, Default)]
pub struct Swept {
    pub points: u64,
    pub deaths: u64,
    pub violations: Vec<(Point, Violation)>,
}

/// Dies at every point of a script, in every way.
pub fn sweep(script: &Script) -> Swept {
    let mut swept = Swept::default();
    let whole = report::run(script.clone(), false);
    swept.violations.extend(whole.violations.into_iter().map(|v| ((Fault::Killed, 0), v)));
    for fault in DEATHS {
        let points = whole.occasions.get(&fault).copied().unwrap_or(0);
        swept.points += points;
        for n in 0..points {
            let faults = Some(BTreeSet::from([(fault, n)]));
            let report = report::run(Script { faults, ..script.clone() }, false);
            swept.deaths += report.faults.len() as u64;
            swept.violations.extend(report.violations.into_iter().map(|v| ((fault, n), v)));
        }
    }
    swept
}
