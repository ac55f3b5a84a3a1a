//! What inputs and outputs are held to: by workflows, by task definitions, by schemas that are registered.

use super::world::{World, ok};
use crate::api::{AdmitError, Control, ErrandAnswer};
use semel_core::RunId;
use semel_core::run::Status;
use semel_store::{Done, ErrandQueue, ErrandRow, SCHEMAS, Store, TASK_DEFINITIONS, TakeErrands, Work};
use serde_json::{Value as Json, json};

fn keep(world: &World, namespace: &str, key: &str, value: Json) {
    let set = Work::KvSet {
        workspace: world.workspace.clone(),
        namespace: namespace.to_owned(),
        key: key.to_owned(),
        value,
        kv_type: "JSON".to_owned(),
        overwrite: true,
        ttl_ms: None,
    };
    world.store.call(set).unwrap();
}

fn started(world: &mut World, definition: &Json, input: Json) -> RunId {
    let id = world.push_workflow(definition);
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.run_down();
    run
}

fn refused(world: &mut World, definition: &Json, input: Json) -> String {
    let id = world.push_workflow(definition);
    let occurrence = world.occurrence(&format!("conductor:{id}"), None, input);
    match world.try_admit(occurrence) {
        Err(AdmitError::Inputs(errors)) => errors[0].message.clone(),
        other => panic!("{other:?}"),
    }
}

fn take(world: &World) -> ErrandRow {
    let from = ErrandQueue { queue: "charge".to_owned(), domain: String::new() };
    let (workspace, worker) = (world.workspace.clone(), "w1".to_owned());
    let request = TakeErrands { workspace, from, worker, count: 1, limit: None, rate: None, after: None };
    match world.store.call(Work::TakeErrands(Box::new(request))).unwrap() {
        Done::Errands(mut rows) => rows.remove(0),
        other => panic!("{other:?}"),
    }
}

fn answer(world: &mut World, output: Json) {
    let row = take(world);
    let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
    world.control(row.run, Control::Errand { step, attempt, end: ErrandAnswer::Done { output }, seen }).unwrap();
    world.drain();
}

fn schema(data: Json) -> Json {
    json!({"name": "own", "version": 1, "type": "JSON", "data": data})
}

fn amount() -> Json {
    json!({"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]})
}

fn simple() -> Json {
    json!({"name": "charge", "taskReferenceName": "c", "type": "SIMPLE",
        "inputParameters": {"amount": "${workflow.input.amount}"}})
}

#[test]
fn an_input_that_does_not_fit_starts_nothing() {
    let mut world = World::new();
    let noop = json!([{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]);
    let definition = json!({"name": "w", "tasks": noop, "inputSchema": schema(amount()), "inputTemplate": {"note": 1}});
    let text = refused(&mut world, &definition, json!({"amount": "5"}));
    assert!(text.contains("/amount: integer expected, a text found"), "{text}");
    assert!(world.runs().is_empty());
    let run = started(&mut world, &definition, json!({"amount": 5}));
    assert_eq!(world.status(run), Status::Completed);

    let mut remark = definition.clone();
    remark["enforceSchema"] = json!(false);
    let run = started(&mut world, &remark, json!({}));
    assert_eq!(world.status(run), Status::Completed, "a schema that nobody is held to is a remark");
}

#[test]
fn an_output_that_does_not_fit_fails_the_workflow() {
    let mut world = World::new();
    let noop = json!([{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]);
    let definition = json!({"name": "w", "tasks": noop, "outputSchema": schema(amount()),
        "outputParameters": {"amount": "${workflow.input.amount}"}});
    let run = started(&mut world, &definition, json!({"amount": 5}));
    assert_eq!(world.status(run), Status::Completed);
    let run = started(&mut world, &definition, json!({"amount": null}));
    assert_eq!(world.status(run), Status::Failed);
    assert!(world.failure(run)["message"].as_str().unwrap().contains("/amount: integer expected"));
}

#[test]
fn a_worker_is_asked_and_answers_in_the_shape_that_is_registered() {
    let mut world = World::new();
    let paid = json!({"type": "object", "properties": {"paid": {"const": true}}});
    keep(&world, SCHEMAS, "paid@0000000001", json!({"name": "paid", "data": {"type": "null"}}));
    keep(&world, SCHEMAS, "paid@0000000002", json!({"name": "paid", "data": paid}));
    let definition = json!({"name": "charge", "retryCount": 3, "enforceSchema": true,
        "inputSchema": schema(amount()), "outputSchema": {"name": "paid"}});
    keep(&world, TASK_DEFINITIONS, "charge", definition.clone());
    let workflow = json!({"name": "w", "tasks": [simple()], "outputParameters": {"paid": "${c.output.paid}"}});

    let run = started(&mut world, &workflow, json!({"amount": "much"}));
    assert_eq!(world.status(run), Status::Failed, "nobody is asked");
    assert!(world.failure(run)["message"].as_str().unwrap().contains("input does not fit"));

    let run = started(&mut world, &workflow, json!({"amount": 5}));
    answer(&mut world, json!({"paid": true}));
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, json!({"paid": true})));

    let run = started(&mut world, &workflow, json!({"amount": 5}));
    answer(&mut world, json!({"paid": "yes"}));
    assert_eq!((world.status(run), &world.failure(run)["code"]), (Status::Failed, &json!("failed_for_good")));
    assert!(world.failure(run)["message"].as_str().unwrap().contains("/paid: must be true"));

    // What counts is what was registered when the task began.
    let run = started(&mut world, &workflow, json!({"amount": 5}));
    keep(&world, SCHEMAS, "paid@0000000003", json!({"name": "paid", "data": {"type": "null"}}));
    world.restart();
    world.drain();
    answer(&mut world, json!({"paid": true}));
    assert_eq!(world.status(run), Status::Completed);

    // It is kept as it was written, and looked at when it is used.
    let odd = json!({"properties": {"paid": {"unevaluatedItems": false}}});
    keep(&world, SCHEMAS, "paid@0000000004", json!({"name": "paid", "data": odd}));
    let run = started(&mut world, &workflow, json!({"amount": 5}));
    let text = world.failure(run)["message"].as_str().unwrap().to_owned();
    assert!(text.contains("the registered schema paid cannot be used: /properties/paid/unevaluatedItems"), "{text}");

    let mut unknown = definition;
    unknown["outputSchema"]["version"] = json!(9);
    keep(&world, TASK_DEFINITIONS, "charge", unknown);
    let run = started(&mut world, &workflow, json!({"amount": 5}));
    let text = world.failure(run)["message"].as_str().unwrap().to_owned();
    assert!(text.contains("no schema is registered with name paid and version 9"), "{text}");
}

#[test]
fn what_the_server_does_itself_is_held_to_it_as_well() {
    let mut world = World::new();
    world.answer = Box::new(|_, _| ok(json!({"response": {"statusCode": 200}})));
    let http = |own: Json| {
        json!({"name": "w", "tasks": [{"name": "get", "taskReferenceName": "g", "type": "HTTP", "taskDefinition": own,
            "retryCount": 2, "inputParameters": {"uri": "http://x/a", "method": "GET"}}]})
    };
    let own = |data: Json| json!({"name": "get", "enforceSchema": true, "outputSchema": {"data": data}});
    let run = started(&mut world, &http(own(json!({"required": ["response"]}))), json!({}));
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let run = started(&mut world, &http(own(json!({"required": ["other"]}))), json!({}));
    assert_eq!(world.status(run), Status::Failed);
    assert_eq!(world.calls_to("/a"), 2, "it was asked, and is not asked again");
    keep(
        &world,
        TASK_DEFINITIONS,
        "get",
        json!({"name": "get", "enforceSchema": true, "inputSchema": {"data": {"required": ["body"]}}}),
    );
    let run = started(&mut world, &http(json!(null)), json!({}));
    assert_eq!((world.status(run), world.calls_to("/a")), (Status::Failed, 2), "it is not sent");
}
