//! A flow that is tried again in a new run, with a death at every boundary; and answers that are taken from the cache.

use super::world::{Death, World, ok};
use semel_core::run::{Conclusion, Status};
use semel_store::RunRow;
use semel_tasks::Outcome;
use serde_json::json;
use std::collections::BTreeSet;

const FLOW: &str = r#"id: f
namespace: n
concurrency: {limit: 1}
labels: {team: a}
retry: {type: constant, interval: PT5S, maxAttempts: 3, behavior: CREATE_NEW_EXECUTION}
tasks:
  - {id: pay, type: http.Request, method: POST, uri: "http://x/pay", effect: keyed}
  - {id: tell, type: http.Request, method: POST, uri: "http://x/tell", effect: repeatable}
outputs:
  - {id: paid, type: INT, value: "{{ outputs.pay.code }}"}
"#;

fn refused() -> Outcome {
    Outcome::FailedClean { code: "http_status", message: "status 500".into(), output: None, retryable: true }
}

/// The second call is refused twice.
fn story(die_at: Option<(usize, Death)>) -> World {
    let mut world = World::new();
    world.push(FLOW);
    world.answer = Box::new(|request, before| match request.config["uri"].as_str() {
        Some(uri) if uri.ends_with("tell") && before < 2 => refused(),
        _ => ok(json!({"code": 200, "body": "ok"})),
    });
    world.die_at = die_at;
    world.admit("f", Some("event"), json!({}));
    world.run_down();
    world
}

fn in_order(world: &World) -> Vec<RunRow> {
    let mut runs = world.runs();
    runs.sort_by_key(|run| run.generation);
    runs
}

#[test]
fn each_try_takes_the_place_of_the_one_before_and_does_nothing_twice() {
    let mut world = story(None);
    let runs = in_order(&world);
    let seen: Vec<(Status, Option<Conclusion>)> = runs.iter().map(|run| (run.status, run.conclusion)).collect();
    let retried = (Status::Failed, Some(Conclusion::Retried));
    assert_eq!(seen, [retried, retried, (Status::Completed, None)]);
    assert!(runs.iter().all(|run| run.logical == runs[0].id && run.correlation_id == runs[0].correlation_id));
    assert_eq!((world.calls_to("/pay"), world.calls_to("/tell")), (1, 3));
    assert_eq!(world.outputs(runs[2].id), json!({"paid": 200}), "what was done before is known");
    // The key leads to the last one.
    assert_eq!(world.admit("f", Some("event"), json!({})).run.map(|run| run.id), Some(runs[2].id));
    world.checked();
}

#[test]
fn whatever_dies_there_is_one_run_for_each_try_and_one_key_for_each_effect() {
    let boundaries = story(None).boundary;
    let mut deaths = 0;
    for at in 0..boundaries {
        for death in [Death::BeforeCommit, Death::AfterCommit, Death::BeforeEffect, Death::AfterEffect] {
            let world = story(Some((at, death)));
            deaths += world.deaths;
            let what = format!("{death:?} at {at}");
            let runs = in_order(&world);
            assert_eq!(runs.last().map(|run| run.status), Some(Status::Completed), "{what}");
            assert!(runs[..runs.len() - 1].iter().all(|run| run.conclusion == Some(Conclusion::Retried)), "{what}");
            let keys: BTreeSet<_> = world.calls.iter().map(|call| (call.uri.clone(), call.key.clone())).collect();
            assert_eq!(keys.len(), 2, "{what}: one key for each effect, whoever sends it");
            world.checked();
        }
    }
    assert!(deaths > boundaries, "{deaths} deaths at {boundaries} boundaries mean little");
}

#[test]
fn a_sub_run_that_is_waited_for_goes_on_itself() {
    let mut world = World::new();
    world.push(FLOW);
    world.push("id: p\nnamespace: n\ntasks:\n  - {id: call, type: flow.Subflow, namespace: n, flowId: f}\n");
    world.answer = Box::new(|request, before| match request.config["uri"].as_str() {
        Some(uri) if uri.ends_with("tell") && before < 1 => refused(),
        _ => ok(json!({"code": 200, "body": "ok"})),
    });
    let parent = world.admit("p", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!((world.status(parent), world.runs().len()), (Status::Completed, 2));
    assert_eq!((world.calls_to("/pay"), world.calls_to("/tell")), (1, 2));
}

#[test]
fn the_same_request_is_answered_from_the_cache() {
    let mut world = World::new();
    let flow = r#"id: c
namespace: n
inputs:
  - {id: of, type: STRING}
tasks:
  - {id: ask, type: http.Request, uri: "http://x/{{ inputs.of }}", taskCache: {enabled: true, ttl: PT1H}}
outputs:
  - {id: body, type: STRING, value: "{{ outputs.ask.body }}"}
"#;
    world.push(flow);
    world.answer = Box::new(|request, before| match request.config["uri"].as_str() {
        Some(uri) if uri.ends_with("bad") => refused(),
        _ => ok(json!({"code": 200, "body": format!("answer {before}")})),
    });
    let ask = |world: &mut World, of: &str| {
        let run = world.admit("c", None, json!({"of": of})).run.unwrap().id;
        world.run_down();
        run
    };
    let first = ask(&mut world, "a");
    let second = ask(&mut world, "a");
    assert_eq!((world.calls_to("/a"), world.outputs(second)), (1, json!({"body": "answer 0"})));
    assert!(world.logs(second)[0].contains(&first.to_string()), "and the log says whose answer it is");
    ask(&mut world, "b");
    assert_eq!(world.calls_to("/b"), 1, "another request is another");
    for _ in 0..2 {
        ask(&mut world, "bad");
    }
    assert_eq!(world.calls_to("/bad"), 2, "what failed is not remembered");
    world.pass(3_600_001);
    ask(&mut world, "a");
    assert_eq!(world.calls_to("/a"), 2, "nor what is too old");
    world.checked();
}
