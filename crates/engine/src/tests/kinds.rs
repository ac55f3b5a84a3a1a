//! Task types that steer a run, from their text to its end.

use super::world::{World, ok};
use crate::api::Control;
use semel_core::RunId;
use semel_core::run::Status;
use serde_json::json;

fn run(world: &mut World, tasks: &str) -> RunId {
    world.push(&format!("id: f\nnamespace: n\ntasks:\n{tasks}"));
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.run_down();
    run
}

#[test]
fn allow_failure_goes_on_with_a_warning() {
    let mut world = World::new();
    let tasks = r#"
  - id: g
    type: io.kestra.core.tasks.flows.AllowFailure
    tasks:
      - {id: a, type: execution.Fail}
      - {id: b, type: log.Log, message: never}
    errors:
      - {id: e, type: log.Log, message: handled}
  - {id: c, type: log.Log, message: after}
"#;
    let run = run(&mut world, tasks);
    assert_eq!((world.status(run), world.row(run).warned), (Status::Completed, true));
    assert_eq!(world.logs(run), ["Task failure", "handled", "after"]);
}

#[test]
fn a_dag_starts_tasks_by_what_they_need() {
    let mut world = World::new();
    let tasks = r#"
  - id: g
    type: flow.Dag
    tasks:
      - task: {id: last, type: log.Log, message: "{{ outputs.first.value }}{{ outputs.second.value }}"}
        dependsOn: [second]
      - task: {id: second, type: debug.Return, format: "{{ outputs.first.value }}2"}
        dependsOn: [first]
      - task: {id: first, type: debug.Return, format: "1"}
"#;
    let run = run(&mut world, tasks);
    assert_eq!((world.status(run), world.logs(run)), (Status::Completed, vec!["112".to_owned()]));
}

#[test]
fn a_loop_asks_until_the_far_side_is_ready() {
    let mut world = World::new();
    world.answer = Box::new(|_, before| ok(json!({"code": 200, "body": if before >= 2 { "ready" } else { "no" }})));
    let tasks = r#"
  - id: loop
    type: io.kestra.plugin.core.flow.LoopUntil
    condition: "{{ outputs.ask.body == 'ready' }}"
    checkFrequency: {interval: PT30S, maxIterations: 10}
    tasks:
      - {id: ask, type: http.Request, uri: http://x/ask}
  - {id: say, type: log.Log, message: "after {{ outputs.loop.iterationCount }}"}
"#;
    let start = *world.clock.lock();
    let run = run(&mut world, tasks);
    assert_eq!((world.status(run), world.calls.len()), (Status::Completed, 3));
    assert_eq!(world.logs(run), ["after 3"]);
    assert_eq!(world.clock.lock().since(start), 60_000, "two waits between three rounds");
}

#[test]
fn a_loop_ends_at_its_bounds() {
    for (bound, fails, rounds, status) in [
        ("maxIterations: 3", false, 3, Status::Completed),
        ("maxIterations: 3", true, 3, Status::Failed),
        ("maxDuration: PT1M", true, 3, Status::Failed),
    ] {
        let mut world = World::new();
        let tasks = format!(
            r#"
  - id: loop
    type: flow.WaitFor
    condition: "{{{{ false }}}}"
    failOnMaxReached: {fails}
    checkFrequency: {{interval: PT30S, {bound}}}
    tasks:
      - {{id: ask, type: http.Request, uri: "http://x/{{{{ outputs.loop.iterationCount }}}}"}}
"#
        );
        let run = run(&mut world, &tasks);
        assert_eq!((world.status(run), world.calls.len()), (status, rounds), "{bound}");
        assert_eq!(world.calls_to("/2"), 1);
    }
}

#[test]
fn a_loop_of_its_own_keeps_its_rounds_apart() {
    let mut world = World::new();
    let tasks = r#"
  - id: loop
    type: flow.Loop
    values: {x: [1, 2], y: b}
    concurrencyLimit: 1
    outputs:
      - {id: label, type: STRING, value: "{{ outputs.made.value }}"}
    tasks:
      - {id: made, type: debug.Return, format: "{{ item.key }}={{ item.value }}@{{ item.index }}"}
  - {id: say, type: log.Log, message: "{{ outputs.loop.outputs[1].outputs.label }} {{ outputs.loop.outputs[0].item.value }} {{ outputs.loop.iterationCount }} {{ outputs.made ?? 'hidden' }}"}
"#;
    let run = run(&mut world, tasks);
    assert_eq!((world.status(run), world.logs(run)), (Status::Completed, vec!["y=b@1 [1,2] 2 hidden".to_owned()]));
}

#[test]
fn loops_nest_and_may_stop_early() {
    let mut world = World::new();
    let tasks = r#"
  - id: outer
    type: flow.Loop
    values: [a, b, c]
    concurrencyLimit: 1
    breakWhen: "{{ item.value == 'b' }}"
    tasks:
      - id: inner
        type: flow.ForEach
        values: [1, 2]
        tasks:
          - {id: made, type: debug.Return, format: "{{ item.parent.value }}{{ taskrun.value }}"}
      - {id: say, type: log.Log, message: "{{ outputs.made['1'].value }} {{ outputs.made['2'].value }}"}
"#;
    let run = run(&mut world, tasks);
    assert_eq!((world.status(run), world.logs(run)), (Status::Completed, vec!["a1 a2".to_owned(), "b1 b2".to_owned()]));
}

#[test]
fn a_flow_ends_its_run_as_it_says() {
    for (state, status, warned) in [
        ("SUCCESS", Status::Completed, false),
        ("WARNING", Status::Completed, true),
        ("FAILED", Status::Failed, false),
        ("CANCELED", Status::Cancelled, false),
        ("KILLED", Status::Cancelled, false),
        ("\"{{ 'FAILED' }}\"", Status::Failed, false),
    ] {
        let mut world = World::new();
        let tasks = format!(
            r#"
  - id: i
    type: flow.If
    condition: "true"
    then:
      - {{id: x, type: execution.Exit, state: {state}}}
  - {{id: after, type: log.Log, message: never}}
finally:
  - {{id: last, type: log.Log, message: never}}
"#
        );
        let run = run(&mut world, &tasks);
        assert_eq!((world.status(run), world.row(run).warned), (status, warned), "{state}");
        assert!(world.logs(run).is_empty());
    }
}

#[test]
fn asserted_conditions_hold_or_fail_the_run() {
    let mut world = World::new();
    let run = run(
        &mut world,
        r#"
  - {id: good, type: execution.Assert, conditions: ["{{ 1 == 1 }}"]}
  - {id: bad, type: execution.Assert, conditions: ["{{ 1 == 2 }}", "ok", "0"], errorMessage: think}
"#,
    );
    assert_eq!(world.status(run), Status::Failed);
    assert_eq!(world.failure(run)["message"], json!("2 assertions failed!\nthink"));
}

#[test]
fn a_working_directory_runs_its_tasks_in_order() {
    let mut world = World::new();
    let run = run(
        &mut world,
        r#"
  - id: w
    type: flow.WorkingDirectory
    tasks:
      - {id: a, type: debug.Return, format: "1"}
      - {id: b, type: log.Log, message: "{{ outputs.a.value }}"}
"#,
    );
    assert_eq!((world.status(run), world.logs(run)), (Status::Completed, vec!["1".to_owned()]));
}

#[test]
fn a_loop_survives_a_crash_between_its_rounds() {
    let mut world = World::new();
    world.push("id: f\nnamespace: n\ntasks:\n  - id: u\n    type: flow.LoopUntil\n    condition: \"{{ outputs.u.iterationCount >= 2 }}\"\n    tasks:\n      - {id: a, type: http.Request, method: POST, uri: http://x/a}\n");
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    assert_eq!((world.status(run), world.calls.len()), (Status::Waiting, 1));
    world.restart();
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Completed, 2));
    world.control(run, Control::Replay { from: None }).unwrap();
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Completed, 4));
}
