//! Runs that are done in the commit that admits them: the same rows as when a driver does them.

use super::world::World;
use crate::admit::{admission, prepare};
use semel_core::limits::Limits;
use semel_core::run::Status;
use semel_store::{AdmitResult, Done, Reads, Store, Work};
use serde_json::{Value as Json, json};

const PURE: &str = r#"
id: pure
namespace: test
outputs:
  - id: total
    type: STRING
    value: "{{ outputs.sum.value }}"
tasks:
  - id: hello
    type: io.kestra.plugin.core.log.Log
    message: "order {{ trigger.data.order }}"
  - id: both
    type: io.kestra.plugin.core.flow.Parallel
    tasks:
      - id: left
        type: io.kestra.plugin.core.debug.Return
        format: "{{ trigger.data.order }}"
      - id: right
        type: io.kestra.plugin.core.debug.Return
        format: "{{ run.id }}"
  - id: pick
    type: io.kestra.plugin.core.flow.If
    condition: "{{ outputs.left.value == 'a' }}"
    then:
      - id: yes
        type: io.kestra.plugin.core.log.Log
        message: "it is a"
    else:
      - id: no
        type: io.kestra.plugin.core.log.Log
        message: "it is not"
  - id: sum
    type: io.kestra.plugin.core.debug.Return
    format: "{{ outputs.left.value }}-{{ outputs.right.value }}"
"#;

const FAILS: &str = r#"
id: fails
namespace: test
tasks:
  - id: stop
    type: io.kestra.plugin.core.execution.Fail
errors:
  - id: sorry
    type: io.kestra.plugin.core.log.Log
    message: "sorry"
"#;

const LANED: &str = r#"
id: laned
namespace: test
concurrency:
  limit: 1
  behavior: QUEUE
tasks:
  - id: hello
    type: io.kestra.plugin.core.log.Log
    message: "hello"
"#;

const RETRIES: &str = r#"
id: retries
namespace: test
tasks:
  - id: stop
    type: io.kestra.plugin.core.execution.Fail
    retry:
      type: constant
      interval: PT1M
      maxAttempts: 2
"#;

/// As a door admits: what the engine would write, written.
fn admit_whole(world: &mut World, flow: &str, inputs: Json) -> (AdmitResult, bool) {
    let occurrence = world.occurrence(flow, Some("k"), inputs);
    let (flow, now) = (occurrence.flow.clone(), world.store.now());
    let request = prepare(&world.services, occurrence, None, None, now).unwrap();
    let (work, begin) = admission(&world.services, &world.flows, &Limits::default(), &flow, request, now);
    let whole = matches!(work, Work::AdmitAndRun(_));
    assert_eq!(whole, begin.is_none());
    match world.store.call(work).unwrap() {
        Done::Admitted(result) => (*result, whole),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rows_are_those_of_a_driver() {
    for (source, flow) in [(PURE, "pure"), (FAILS, "fails"), (LANED, "laned")] {
        for order in ["a", "b"] {
            let (mut driven, mut whole) = (World::new(), World::new());
            driven.push(source);
            whole.push(source);
            driven.admit(flow, Some("k"), json!({"order": order}));
            driven.drain();
            let (result, at_once) = admit_whole(&mut whole, flow, json!({"order": order}));
            assert!(at_once, "{flow} only computes");
            let row = result.run.unwrap();
            assert!(row.status.is_ended() && !row.active, "{flow}: {:?}", row.status);
            assert_eq!(driven.store.dump().unwrap(), whole.store.dump().unwrap(), "{flow}");
        }
    }
}

#[test]
fn what_waits_is_left_to_a_driver() {
    let mut world = World::new();
    world.push(RETRIES);
    let (result, at_once) = admit_whole(&mut world, "retries", json!({}));
    assert!(!at_once, "a retry waits for its time");
    assert_eq!(result.run.unwrap().status, Status::Running);
}

#[test]
fn a_run_without_a_slot_does_nothing_yet() {
    let mut world = World::new();
    world.push(LANED);
    world.push(&LANED.replace("id: laned", "id: other"));
    // The slot of the lane is taken by a run that a person holds up.
    let held = world.admit("laned", Some("first"), json!({})).run.unwrap().id;
    let (result, at_once) = admit_whole(&mut world, "laned", json!({}));
    let row = result.run.unwrap();
    assert!(at_once);
    assert_eq!((row.status, row.version), (Status::Queued, 1), "its first commit was not applied");
    world.drain();
    assert_eq!((world.status(held), world.status(row.id)), (Status::Completed, Status::Completed));
    assert_eq!(world.logs(row.id), ["hello"]);
}

#[test]
fn a_twin_of_a_run_done_at_once_changes_nothing() {
    let mut world = World::new();
    world.push(PURE);
    let (first, _) = admit_whole(&mut world, "pure", json!({"order": "a"}));
    let (twin, _) = admit_whole(&mut world, "pure", json!({"order": "a"}));
    let (first, twin) = (first.run.unwrap(), twin.run.unwrap());
    assert_eq!(first, twin);
    assert_eq!(world.runs().len(), 1);
    assert_eq!(world.logs(first.id).len(), 2);
}
