//! Runs that stand still at a step, from their text to their end.

use super::world::World;
use crate::api::Control;
use semel_core::RunId;
use semel_core::run::Status;
use serde_json::{Value as Json, json};

fn at_pause(world: &mut World, pause: &str) -> RunId {
    let source = format!(
        r#"
id: f
namespace: n
tasks:
  - id: p
    type: io.kestra.plugin.core.flow.Pause
{pause}
  - {{id: b, type: http.Request, method: POST, uri: http://x/b}}
outputs:
  - {{id: p, value: "{{{{ outputs.p }}}}"}}
"#
    );
    world.push(&source);
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    run
}

fn resume(step: &str, inputs: Option<Json>) -> Control {
    Control::ResumeStep { step: step.to_owned(), inputs, review: None }
}

#[test]
fn a_pause_waits_across_restarts_and_takes_what_it_is_told() {
    let mut world = World::new();
    let run = at_pause(&mut world, "    onResume: [{id: reason, type: STRING}]");
    assert_eq!(world.status(run), Status::Paused);
    world.restart();
    world.pass(86_400_000);
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Paused, 0));
    assert!(world.control(run, Control::Resume).is_err(), "it asks for something");
    assert!(world.control(run, resume("q", None)).is_err());
    world.control(run, resume("p", Some(json!({"reason": "fine"})))).unwrap();
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Completed, 1));
    let shown = &world.outputs(run)["p"];
    assert_eq!((&shown["onResume"], &shown["resumed"]["by"]), (&json!({"reason": "fine"}), &json!("tester")));
}

#[test]
fn a_pause_ends_in_time_by_the_word_of_its_author() {
    for (fields, status, calls) in [
        ("    delay: PT1H", Status::Completed, 1),
        ("    pauseDuration: \"{{ 'PT1H' }}\"\n    behavior: WARN", Status::Completed, 1),
        ("    pauseDuration: PT1H\n    behavior: fail", Status::Failed, 0),
        ("    pauseDuration: PT1H\n    behavior: CANCEL", Status::Cancelled, 0),
        ("    timeout: PT1H", Status::Failed, 0),
    ] {
        let mut world = World::new();
        let run = at_pause(&mut world, fields);
        assert_eq!(world.status(run), Status::Paused);
        world.restart();
        world.run_down();
        assert_eq!((world.status(run), world.calls.len()), (status, calls), "{fields}");
        assert_eq!(world.row(run).warned, fields.contains("WARN"));
    }
}

#[test]
fn what_stands_around_a_pause_runs_once() {
    let mut world = World::new();
    let around = "    onPause: {id: tell, type: http.Request, method: POST, uri: http://x/tell}\n    tasks: [{id: after, type: http.Request, method: POST, uri: http://x/after}]";
    let run = at_pause(&mut world, around);
    assert_eq!((world.status(run), world.calls_to("/tell")), (Status::Paused, 1));
    world.restart();
    world.control(run, Control::Cancel).unwrap();
    world.control(run, Control::Restart).unwrap();
    world.run_down();
    assert_eq!((world.status(run), world.calls_to("/tell")), (Status::Paused, 1), "what was told is not told again");
    world.control(run, Control::Resume).unwrap();
    world.run_down();
    assert_eq!((world.status(run), world.calls_to("/after"), world.calls_to("/b")), (Status::Completed, 1, 1));
}
