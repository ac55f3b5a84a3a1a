//! Answers that are kept for others by a key of the author's.

use super::world::{World, ok};
use crate::api::{Control, ErrandAnswer};
use semel_core::RunId;
use semel_core::run::Status;
use semel_store::{Done, ErrandQueue, ErrandRow, Store, TakeErrands, Work};
use serde_json::{Value as Json, json};

fn started(world: &mut World, definition: &Json, input: Json) -> RunId {
    let id = world.push_workflow(definition);
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.drain();
    run
}

fn take(world: &World) -> Option<ErrandRow> {
    let from = ErrandQueue { queue: "charge".to_owned(), domain: String::new() };
    let (workspace, worker) = (world.workspace.clone(), "w1".to_owned());
    let request = TakeErrands { workspace, from, worker, count: 1, limit: None, rate: None, after: None };
    match world.store.call(Work::TakeErrands(Box::new(request))).unwrap() {
        Done::Errands(mut rows) => rows.pop(),
        other => panic!("{other:?}"),
    }
}

fn answer(world: &mut World, end: ErrandAnswer) {
    let row = take(world).expect("an errand is out");
    let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
    world.control(row.run, Control::Errand { step, attempt, end, seen }).unwrap();
    world.drain();
}

fn task(name: &str, cache: Json) -> Json {
    json!({"name": "charge", "taskReferenceName": name, "type": "SIMPLE", "cacheConfig": cache,
        "taskDefinition": {"name": "charge", "retryCount": 0},
        "inputParameters": {"to": "${workflow.input.to}", "at": "${workflow.workflowId}"}})
}

#[test]
fn a_worker_is_not_asked_for_what_another_one_has_said() {
    let mut world = World::new();
    let cache = json!({"key": "to-${to}", "ttlInSecond": 60});
    let one =
        json!({"name": "one", "tasks": [task("a", cache.clone())], "outputParameters": {"said": "${a.output.n}"}});
    let other = json!({"name": "other", "tasks": [task("b", cache)], "outputParameters": {"said": "${b.output.n}"}});

    let first = started(&mut world, &one, json!({"to": "x"}));
    answer(&mut world, ErrandAnswer::Done { output: json!({"n": 1}) });
    assert_eq!((world.status(first), world.outputs(first)), (Status::Completed, json!({"said": 1})));
    // Another workflow, another task of the same name, another input that the key says nothing of.
    let second = started(&mut world, &other, json!({"to": "x"}));
    assert_eq!((world.status(second), world.outputs(second)), (Status::Completed, json!({"said": 1})));
    assert!(world.logs(second)[0].contains(&first.to_string()));

    let third = started(&mut world, &one, json!({"to": "y"}));
    assert_eq!(world.status(third), Status::Waiting, "another key is another question");
    let failed = ErrandAnswer::Failed { message: "no".into(), output: None, for_good: true };
    answer(&mut world, failed);
    let again = started(&mut world, &one, json!({"to": "y"}));
    assert_eq!(world.status(again), Status::Waiting, "what failed is not kept");
    answer(&mut world, ErrandAnswer::Done { output: json!({"n": 2}) });

    world.pass(60_001);
    let late = started(&mut world, &one, json!({"to": "x"}));
    assert_eq!(world.status(late), Status::Waiting, "nor is what is too old");
    answer(&mut world, ErrandAnswer::Done { output: json!({"n": 3}) });
    world.checked();
}

#[test]
fn a_key_that_gives_nothing_keeps_nothing() {
    let mut world = World::new();
    let key = json!({"key": "k-${nobody}", "ttlInSecond": 60});
    let definition = json!({"name": "w", "tasks": [task("a", key)]});
    for _ in 0..2 {
        let run = started(&mut world, &definition, json!({"to": "x"}));
        assert_eq!(world.status(run), Status::Waiting);
        answer(&mut world, ErrandAnswer::Done { output: json!({}) });
    }
}

#[test]
fn a_request_is_sent_once_for_all_that_ask_the_same() {
    let mut world = World::new();
    world.answer = Box::new(|_, before| ok(json!({"response": {"body": before}})));
    let http = json!({"name": "get", "taskReferenceName": "g", "type": "HTTP",
        "cacheConfig": {"key": "${http_request.uri}", "ttlInSecond": "60"},
        "inputParameters": {"http_request": {"method": "GET", "uri": "http://x/${workflow.input.of}",
            "headers": {"X-Run": "${workflow.workflowId}", "T": "${workflow.secrets.TOKEN}"}}}});
    let definition = json!({"name": "w", "tasks": [http], "outputParameters": {"body": "${g.output.response.body}"}});
    for (of, body) in [("a", 0), ("a", 0), ("b", 1)] {
        let run = started(&mut world, &definition, json!({"of": of}));
        world.run_down();
        assert_eq!(world.outputs(run), json!({"body": body}), "{}", world.failure(run));
    }
    assert_eq!(world.calls.len(), 2);
}

/// A workflow whose starts are the same for the same `to`.
fn remembered(ttl: u64) -> Json {
    let task = json!({"name": "charge", "taskReferenceName": "a", "type": "SIMPLE", "taskDefinition": {"name": "charge", "retryCount": 0}});
    json!({"name": "w", "tasks": [task], "cacheConfig": {"key": "${workflow.input.to}", "ttlInSecond": ttl},
        "outputParameters": {"said": "${a.output.n}"}})
}

fn said(n: i64) -> ErrandAnswer {
    ErrandAnswer::Done { output: json!({ "n": n }) }
}

#[test]
fn a_workflow_is_started_once_for_all_that_ask_the_same_in_its_time() {
    let mut world = World::new();
    let definition = remembered(60);
    let first = started(&mut world, &definition, json!({"to": "x", "by": "one"}));
    let beside = started(&mut world, &definition, json!({"to": "x", "by": "another"}));
    assert_eq!(beside, first, "the one that is under way will have the answer");
    answer(&mut world, said(1));
    world.pass(59_000);
    assert_eq!(started(&mut world, &definition, json!({"to": "x"})), first);
    let other = started(&mut world, &definition, json!({"to": "y"}));
    assert_ne!(other, first, "another key is another question");
    answer(&mut world, ErrandAnswer::Failed { message: "no".into(), output: None, for_good: true });
    let again = started(&mut world, &definition, json!({"to": "y"}));
    assert_ne!(again, other, "what failed is not kept");
    answer(&mut world, said(2));
    world.pass(2_000);
    let late = started(&mut world, &definition, json!({"to": "x"}));
    assert_ne!(late, first, "nor is what is too old");
    answer(&mut world, said(3));
    assert_eq!(world.outputs(late), json!({"said": 3}));
    world.checked();
}

#[test]
fn a_start_that_is_like_no_other_is_a_start_of_its_own() {
    let mut world = World::new();
    let definition = remembered(60);
    let id = world.push_workflow(&definition);
    let runs: Vec<RunId> = [json!({}), json!({"to": null}), json!({})]
        .into_iter()
        .map(|input| started(&mut world, &definition, input))
        .collect();
    assert_eq!(runs.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "a key that gives nothing");
    let keyed = |world: &mut World| {
        world.admit(&format!("conductor:{id}"), Some("order-1"), json!({"to": "x"})).run.unwrap().id
    };
    let own = keyed(&mut world);
    assert_ne!(started(&mut world, &definition, json!({"to": "x"})), own, "a caller's key is another one");
    assert_eq!(keyed(&mut world), own);
}

#[test]
fn a_parent_is_given_the_answer_of_a_workflow_that_another_one_had() {
    let mut world = World::new();
    let first = started(&mut world, &remembered(60), json!({"to": "x"}));
    answer(&mut world, said(7));
    let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "w"}, "inputParameters": {"to": "x"}});
    let parent = json!({"name": "p", "tasks": [sub], "outputParameters": {"said": "${s.output.said}", "of": "${s.output.subWorkflowId}"}});
    for _ in 0..2 {
        let run = started(&mut world, &parent, json!({}));
        world.run_down();
        let expected = json!({"said": 7, "of": first.to_string()});
        assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, expected), "{}", world.failure(run));
    }
    assert_eq!(world.runs().len(), 3);
    world.checked();
}
