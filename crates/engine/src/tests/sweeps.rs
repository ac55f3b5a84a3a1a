//! The same death at every boundary, for lanes, twins, branches, cancels and handlers. Whatever
//! happens, all comes to rest: nothing is left in a lane, an inbox or a timer, no event has two
//! runs, no effect two keys, and what must not be repeated is not.

use super::world::{Death, World, ok};
use crate::api::Control;
use semel_core::run::{Status, VerdictKind};
use semel_tasks::Outcome;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

const DEATHS: [Death; 4] = [Death::BeforeCommit, Death::AfterCommit, Death::BeforeEffect, Death::AfterEffect];

fn refused() -> Outcome {
    Outcome::FailedClean { code: "http_status", message: "status 500".into(), output: None, retryable: true }
}

/// One story: what is pushed, what arrives, and what must hold at the end.
struct Story {
    make: fn() -> World,
    act: fn(&mut World),
    check: fn(&mut World, &str),
}

impl Story {
    fn run(&self, first: Option<(usize, Death)>, then: Option<(usize, Death)>) -> World {
        let mut world = (self.make)();
        (world.die_at, world.then_at) = (first, then);
        (self.act)(&mut world);
        world.run_down();
        let what = format!("{first:?} then {then:?}");
        settle_doubts(&mut world, &what);
        at_rest(&world, &what);
        (self.check)(&mut world, &what);
        world
    }

    fn sweep(&self) {
        let boundaries = self.run(None, None).boundary;
        let mut deaths = 0;
        for at in 0..boundaries {
            for death in DEATHS {
                deaths += self.run(Some((at, death)), None).deaths;
            }
        }
        assert!(boundaries >= 3 && deaths >= 2 * boundaries, "{deaths} deaths at {boundaries} boundaries mean little");
    }
}

/// Held runs get their verdict: the effect was done.
fn settle_doubts(world: &mut World, what: &str) {
    for _ in 0..20 {
        let held: Vec<_> = world.runs().into_iter().filter(|r| r.status == Status::Held).collect();
        if held.is_empty() {
            return;
        }
        for run in held {
            let verdict =
                Control::Verdict { step: None, verdict: VerdictKind::Done, result: Some(json!({"code": 200})) };
            // A parent is held by a doubt of its child: the verdict is the child's.
            world.interrupt(run.id, verdict);
            world.run_down();
        }
    }
    panic!("{what}: a run stays held");
}

fn at_rest(world: &World, what: &str) {
    for run in world.runs() {
        assert!(run.status.is_ended(), "{what}: run {} is {:?}", run.id, run.status);
        assert!(!run.active, "{what}: run {} ended and is active", run.id);
        assert_eq!((run.open_intents, run.open_doubts), (0, 0), "{what}");
    }
    for table in ["lanes", "inbox", "timers"] {
        assert_eq!(world.rows(table), Vec::<Json>::new(), "{what}: rows are left in {table}");
    }
    for claim in world.rows("claims") {
        let state = claim["state"].as_str().unwrap();
        assert!(["done", "failed", "cancelled"].contains(&state), "{what}: a claim is left {claim}");
    }
    let mut keys: BTreeMap<&str, BTreeSet<&Option<String>>> = BTreeMap::new();
    for call in &world.calls {
        keys.entry(&call.uri).or_default().insert(&call.key);
    }
    for (uri, keys) in keys {
        assert_eq!(keys.len(), 1, "{what}: {uri} was sent with keys {keys:?}");
    }
    for call in world.calls.iter().filter(|c| c.uri.contains("naked")) {
        assert_eq!(world.calls_to(&call.uri), 1, "{what}: {} was sent twice", call.uri);
    }
}

fn ends(world: &World, status: Status) -> usize {
    world.runs().iter().filter(|r| r.status == status).count()
}

/// Every run was made by one decision and has the one claim of its event. A held run is not
/// replaced: its event may have been refused.
fn one_run_per_event(world: &World, what: &str, events: usize) {
    let decisions = world.rows("decisions");
    let of = |words: &[&str]| decisions.iter().filter(|d| words.contains(&d["decision"].as_str().unwrap())).count();
    let (runs, refused) = (world.runs().len(), of(&["reject"]));
    assert_eq!((of(&["start", "queue", "replace"]), world.rows("claims").len()), (runs, runs), "{what}");
    assert!(runs <= events && runs + refused >= events, "{what}: {runs} runs of {events} events");
}

fn lane_world(busy: &str) -> World {
    let world = World::new();
    world.push(&format!(
        r#"
id: f
namespace: n
idempotency: {{key: "{{{{ inputs.id }}}}"}}
inputs: [{{id: id, type: STRING}}]
lane: {{busy: {busy}}}
tasks:
  - {{id: say, type: log.Log, message: "{{{{ inputs.id }}}}"}}
  - {{id: keyed, type: http.Request, method: POST, uri: "http://x/keyed/{{{{ inputs.id }}}}", effect: keyed}}
  - {{id: naked, type: http.Request, method: POST, uri: "http://x/naked/{{{{ inputs.id }}}}"}}
  - {{id: nap, type: flow.Sleep, duration: PT1M}}
"#
    ));
    world
}

fn events(world: &mut World, ids: &[&str]) {
    for id in ids {
        world.admit("f", None, json!({"id": id}));
    }
}

#[test]
fn a_queue_of_three() {
    let story = Story {
        make: || lane_world("queue"),
        act: |world| {
            events(world, &["a", "b"]);
            world.drain();
            events(world, &["c", "b", "a"]);
        },
        check: |world, what| {
            one_run_per_event(world, what, 3);
            assert_eq!(ends(world, Status::Completed), 3, "{what}");
            for id in ["a", "b", "c"] {
                assert_eq!(world.calls_to(&format!("/keyed/{id}")).min(1), 1, "{what}");
            }
            let mut runs = world.runs();
            runs.sort_by_key(|r| r.id);
            assert!(runs.windows(2).all(|w| w[0].ended_at <= w[1].started_at), "{what}: two at a time");
        },
    };
    story.sweep();
}

#[test]
fn a_replaced_run_with_an_effect_in_flight() {
    let story = Story {
        make: || lane_world("replace"),
        act: |world| {
            events(world, &["a"]);
            // Start, intent, call: the answer is on its way.
            world.step(2);
            events(world, &["b"]);
            world.drain();
            events(world, &["c", "a"]);
        },
        check: |world, what| {
            one_run_per_event(world, what, 3);
            let newest = world.runs().into_iter().max_by_key(|r| r.id).unwrap();
            assert_eq!(newest.status, Status::Completed, "{what}: the newest event is the one that runs");
        },
    };
    story.sweep();
}

#[test]
fn a_quiet_run_is_replaced() {
    let story = Story {
        make: || lane_world("replace"),
        act: |world| {
            for id in ["a", "b", "c"] {
                events(world, &[id]);
                world.drain();
            }
        },
        check: |world, what| {
            one_run_per_event(world, what, 3);
            let newest = world.runs().into_iter().max_by_key(|r| r.id).unwrap();
            assert_eq!(newest.status, Status::Completed, "{what}");
        },
    };
    story.sweep();
}

#[test]
fn events_that_coalesce() {
    let story = Story {
        make: || lane_world("{coalesce: {quiet: PT5S, max: PT1M}}"),
        act: |world| {
            events(world, &["a", "b"]);
            world.pass(3_000);
            events(world, &["c", "a"]);
        },
        check: |world, what| {
            assert_eq!((world.runs().len(), world.rows("claims").len()), (1, 3), "{what}");
            assert_eq!(ends(world, Status::Completed), 1, "{what}");
            let run = world.runs()[0].id;
            assert_eq!(world.logs(run), ["c"], "{what}: the last payload wins");
        },
    };
    story.sweep();
}

#[test]
fn a_gathered_run_waits_for_the_lane() {
    let story = Story {
        make: || lane_world("{coalesce: {quiet: PT5S, max: PT1M}}"),
        act: |world| {
            events(world, &["a"]);
            world.pass(6_000);
            let run = world.runs()[0].id;
            world.timer(run, 1);
            world.drain();
            events(world, &["b", "c"]);
        },
        check: |world, what| {
            // After a death the first period may last until all have come.
            let runs = world.runs().len();
            assert!((1..=2).contains(&runs) && ends(world, Status::Completed) == runs, "{what}");
        },
    };
    story.sweep();
}

#[test]
fn an_event_is_delivered_to_the_holder() {
    let story = Story {
        make: || {
            let world = World::new();
            world.push(
                r#"
id: f
namespace: n
idempotency: {key: "{{ inputs.id }}"}
inputs: [{id: id, type: STRING}]
lane: {busy: deliver}
tasks:
  - {id: post, type: http.Request, method: POST, uri: "http://x/keyed", effect: keyed}
  - {id: nap, type: flow.Sleep, duration: PT1M}
  - {id: say, type: log.Log, message: "{{ run.inbox | length }}: {{ run.inbox[0].inputs.id }}"}
"#,
            );
            world
        },
        act: |world| {
            events(world, &["a"]);
            world.step(2);
            events(world, &["b", "b"]);
            world.drain();
            events(world, &["b"]);
        },
        check: |world, what| {
            assert_eq!((world.runs().len(), world.rows("claims").len()), (1, 2), "{what}");
            let run = world.runs()[0].id;
            assert_eq!(world.logs(run), ["1: b"], "{what}: delivered once");
        },
    };
    story.sweep();
}

#[test]
fn a_failed_run_resumed_by_its_twin() {
    let story = Story {
        make: || {
            let mut world = World::new();
            world.push(
                r#"
id: f
namespace: n
idempotency: {key: "{{ inputs.id }}"}
inputs: [{id: id, type: STRING}]
lane: {busy: queue}
tasks:
  - {id: first, type: http.Request, method: POST, uri: "http://x/naked/first"}
  - {id: second, type: http.Request, method: POST, uri: "http://x/second", effect: keyed}
  - {id: third, type: http.Request, method: POST, uri: "http://x/naked/third"}
"#,
            );
            world.answer = Box::new(|r, n| {
                if r.config["uri"] == "http://x/second" && n == 0 { refused() } else { ok(json!({"code": 200})) }
            });
            world
        },
        act: |world| {
            events(world, &["a"]);
            world.run_down();
            events(world, &["a"]);
            world.drain();
            events(world, &["a"]);
        },
        check: |world, what| {
            if ends(world, Status::Failed) == 1 {
                // The twins came while a verdict was needed.
                events(world, &["a"]);
                world.run_down();
                settle_doubts(world, what);
                at_rest(world, what);
            }
            assert_eq!((world.runs().len(), ends(world, Status::Completed)), (1, 1), "{what}");
        },
    };
    story.sweep();
}

#[test]
fn branches_with_retries() {
    let story = Story {
        make: || {
            let mut world = World::new();
            world.push(
                r#"
id: f
namespace: n
inputs: [{id: id, type: STRING}]
tasks:
  - id: all
    type: flow.Parallel
    tasks:
      - {id: p1, type: http.Request, method: POST, uri: "http://x/p1", effect: keyed, retry: {type: constant, interval: PT1S, maxAttempts: 4}}
      - {id: p2, type: http.Request, method: PUT, uri: "http://x/p2", retry: {type: constant, interval: PT3S, maxAttempts: 4}}
      - {id: p3, type: http.Request, method: POST, uri: "http://x/naked/p3"}
      - {id: p4, type: kv.Set, key: "once", value: "1", overwrite: false}
  - {id: last, type: http.Request, method: POST, uri: "http://x/naked/last"}
"#,
            );
            world.answer = Box::new(|r, n| {
                let uri = r.config["uri"].as_str().unwrap();
                if uri.contains("/p") && !uri.contains("naked") && n < 2 { refused() } else { ok(json!({"code": 200})) }
            });
            world
        },
        act: |world| {
            world.admit("f", Some("k"), json!({"id": "a"}));
        },
        check: |world, what| {
            assert_eq!(ends(world, Status::Completed), 1, "{what}: {}", world.failure(world.runs()[0].id));
            assert!(world.calls_to("/p1") >= 3 && world.calls_to("/p2") >= 3, "{what}");
        },
    };
    story.sweep();
}

#[test]
fn a_cancelled_parent_with_children() {
    let story = Story {
        make: || {
            let world = World::new();
            world.push(
                r#"
id: child
namespace: n
inputs: [{id: id, type: STRING}]
lane: {busy: queue}
tasks:
  - {id: a, type: http.Request, method: POST, uri: "http://x/keyed/{{ inputs.id }}", effect: keyed}
  - {id: nap, type: flow.Sleep, duration: PT1M}
  - {id: b, type: http.Request, method: POST, uri: "http://x/after/{{ inputs.id }}", effect: keyed}
"#,
            );
            world.push(
                r#"
id: f
namespace: n
inputs: [{id: id, type: STRING}]
tasks:
  - id: all
    type: flow.Parallel
    tasks:
      - {id: c1, type: flow.Subflow, namespace: n, flowId: child, inputs: {id: "1"}}
      - {id: c2, type: flow.Subflow, namespace: n, flowId: child, inputs: {id: "2"}}
  - {id: never, type: http.Request, method: POST, uri: "http://x/never"}
"#,
            );
            world
        },
        act: |world| {
            let run = world.admit("f", Some("k"), json!({"id": "a"})).run.unwrap().id;
            world.drain();
            // The death may come in the middle of it: a person then asks again.
            for _ in 0..3 {
                if !world.status(run).is_ended() {
                    world.interrupt(run, Control::Cancel);
                    world.drain();
                }
            }
        },
        check: |world, what| {
            assert_eq!(ends(world, Status::Cancelled), world.runs().len(), "{what}");
            assert_eq!((world.calls_to("/never"), world.calls_to("after/1")), (0, 0), "{what}");
        },
    };
    story.sweep();
}

#[test]
fn handlers_with_effects() {
    let story = Story {
        make: || {
            let mut world = World::new();
            world.push(
                r#"
id: f
namespace: n
inputs: [{id: id, type: STRING}]
tasks:
  - id: group
    type: flow.Sequential
    tasks:
      - {id: bad, type: http.Request, method: PUT, uri: "http://x/bad"}
    errors:
      - {id: undo, type: http.Request, method: POST, uri: "http://x/naked/undo"}
    finally:
      - {id: tidy, type: http.Request, method: POST, uri: "http://x/tidy", effect: keyed}
errors:
  - {id: alarm, type: http.Request, method: POST, uri: "http://x/alarm", effect: keyed}
finally:
  - {id: last, type: http.Request, method: POST, uri: "http://x/naked/last"}
"#,
            );
            world.answer =
                Box::new(|r, _| if r.config["uri"] == "http://x/bad" { refused() } else { ok(json!({"code": 200})) });
            world
        },
        act: |world| {
            world.admit("f", Some("k"), json!({"id": "a"}));
        },
        check: |world, what| {
            assert_eq!(ends(world, Status::Failed), 1, "{what}");
            for uri in ["/tidy", "/alarm"] {
                assert!(world.calls_to(uri) >= 1, "{what}: {uri} was not called");
            }
        },
    };
    story.sweep();
}

#[test]
fn two_deaths_in_a_row() {
    let story = Story {
        make: || {
            let world = World::new();
            world.push(
                r#"
id: f
namespace: n
inputs: [{id: id, type: STRING}]
lane: {busy: queue}
tasks:
  - {id: keyed, type: http.Request, method: POST, uri: "http://x/keyed", effect: keyed}
  - {id: nap, type: flow.Sleep, duration: PT1S}
  - {id: naked, type: http.Request, method: POST, uri: "http://x/naked"}
"#,
            );
            world
        },
        act: |world| {
            world.admit("f", Some("k"), json!({"id": "a"}));
        },
        check: |world, what| {
            assert_eq!((world.runs().len(), ends(world, Status::Completed)), (1, 1), "{what}");
        },
    };
    let boundaries = story.run(None, None).boundary;
    let mut deaths = 0;
    for first in 0..boundaries {
        for then in first..=boundaries {
            for (a, b) in DEATHS.iter().flat_map(|a| DEATHS.iter().map(move |b| (*a, *b))) {
                deaths += story.run(Some((first, a)), Some((then, b))).deaths;
            }
        }
    }
    assert!(deaths > boundaries * boundaries, "{deaths} deaths at {boundaries} boundaries mean little");
}
