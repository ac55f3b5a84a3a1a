//! More of Conductor's language: word to other workflows, requests that are computed, waits that grow, limits.

use super::world::{World, ok};
use crate::api::{Asking, Control, ErrandAnswer};
use crate::driver::Happened;
use semel_core::RunId;
use semel_core::run::Status;
use semel_store::{Done, ErrandQueue, ErrandRow, Reads, Store, TakeErrands, Work};
use serde_json::{Value as Json, json};

fn started(world: &mut World, definition: Json, input: Json) -> RunId {
    let id = world.push_workflow(&definition);
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.drain();
    run
}

fn pick(reference: &str, value: &str) -> Json {
    json!({"name": "p", "taskReferenceName": reference, "type": "INLINE",
        "inputParameters": {"evaluatorType": "value-param", "expression": "v", "v": value}})
}

fn take(world: &World, queue: &str) -> Vec<ErrandRow> {
    let from = ErrandQueue { queue: queue.to_owned(), domain: String::new() };
    let (workspace, worker) = (world.workspace.clone(), "w1".to_owned());
    let request = TakeErrands { workspace, from, worker, count: 9, limit: None, rate: None, after: None };
    match world.store.call(Work::TakeErrands(Box::new(request))).unwrap() {
        Done::Errands(rows) => rows,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_says_what_became_of_another_ones_task() {
    let mut world = World::new();
    let waits = json!({"name": "waits", "tasks": [{"name": "h", "taskReferenceName": "h", "type": "HUMAN"}],
        "outputParameters": {"h": "${h.output}"}});
    for (status, ends, gives) in [
        ("COMPLETED", Status::Completed, json!({"yes": 5})),
        ("FAILED_WITH_TERMINAL_ERROR", Status::Failed, json!(null)),
    ] {
        let other = started(&mut world, waits.clone(), json!({}));
        let update = json!({"name": "u", "taskReferenceName": "u", "type": "UPDATE_TASK", "inputParameters": {
            "workflowId": "${workflow.input.other}", "taskRefName": "h", "taskStatus": status, "taskOutput": {"yes": "${workflow.input.n}"}}});
        let run = started(
            &mut world,
            json!({"name": "says", "tasks": [update]}),
            json!({"other": other.to_string(), "n": 5}),
        );
        world.run_down();
        assert_eq!((world.status(run), world.status(other)), (Status::Completed, ends), "{}", world.failure(run));
        assert_eq!(
            world.outputs(other)["h"],
            if ends == Status::Completed { gives } else { world.outputs(other)["h"].clone() }
        );
        // Nobody waits any more.
        let again = started(
            &mut world,
            json!({"name": "says", "tasks": [json!({"name": "u", "taskReferenceName": "u", "type": "UPDATE_TASK", "inputParameters": {
            "workflowId": other.to_string(), "taskRefName": "h", "taskStatus": status}})]}),
            json!({}),
        );
        world.run_down();
        assert_eq!(world.status(again), Status::Failed);
    }
}

#[test]
fn a_task_looks_at_another_workflow() {
    let mut world = World::new();
    let other = started(
        &mut world,
        json!({"name": "seen", "version": 3, "tasks": [pick("p", "${workflow.input.x}")]}),
        json!({"x": 4}),
    );
    world.run_down();
    let look = json!({"name": "g", "taskReferenceName": "g", "type": "GET_WORKFLOW", "inputParameters": {"id": "${workflow.input.id}"}});
    let definition = json!({"name": "looks", "tasks": [look], "outputParameters": {"g": "${g.output}"}});
    let run = started(&mut world, definition.clone(), json!({"id": other.to_string()}));
    world.run_down();
    let got = world.outputs(run)["g"].clone();
    assert_eq!(
        (&got["status"], &got["workflowName"], &got["workflowVersion"]),
        (&json!("COMPLETED"), &json!("seen"), &json!(3))
    );
    assert_eq!((&got["input"], &got["output"]), (&json!({"x": 4}), &json!({"result": 4})));
    let run = started(&mut world, definition, json!({"id": "nobody"}));
    world.run_down();
    assert_eq!(world.failure(run)["message"], "No such workflow found by id: nobody");
}

#[test]
fn a_request_to_start_a_workflow_may_be_computed_as_a_whole() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "tasks": [pick("c", "${workflow.input.x}")]}));
    let start = json!({"name": "g", "taskReferenceName": "g", "type": "START_WORKFLOW", "inputParameters": {"startWorkflow": "${workflow.input.request}"}});
    let definition = json!({"name": "w", "tasks": [start], "outputParameters": {"id": "${g.output.workflowId}"}});
    let request = json!({"name": "child", "input": {"x": "${workflow.secrets.TOKEN}"}, "idempotencyKey": "k", "idempotencyStrategy": "FAIL"});
    let run = started(&mut world, definition.clone(), json!({"request": request}));
    world.run_down();
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let child = world.runs().into_iter().find(|row| row.id != run).unwrap().id;
    assert_eq!(world.outputs(run), json!({"id": child.to_string()}));
    assert_eq!(world.outputs(child), json!({"result": "${workflow.secrets.TOKEN}"}), "what it holds is data");
    let run = started(&mut world, definition, json!({"request": request}));
    world.run_down();
    assert_eq!(world.failure(run)["message"], "Workflow with the idempotency key k already exists");
}

#[test]
fn one_expression_may_give_all_of_an_input() {
    let mut world = World::new();
    let task = json!({"name": "charge", "taskReferenceName": "a", "type": "SIMPLE",
        "inputExpression": {"expression": "workflow.input.whole", "type": "JSON_PATH"}});
    started(&mut world, json!({"name": "w", "tasks": [task]}), json!({"whole": {"amount": 5, "deep": {"x": [1]}}}));
    assert_eq!(take(&world, "charge")[0].more.request, Some(json!({"amount": 5, "deep": {"x": [1]}})));
}

#[test]
fn the_wait_between_two_polls_grows_as_its_strategy_says() {
    for (strategy, waits) in
        [("FIXED", [10, 10, 10]), ("LINEAR_BACKOFF", [10, 20, 30]), ("EXPONENTIAL_BACKOFF", [10, 20, 40])]
    {
        let mut world = World::new();
        world.answer = Box::new(|request, _| match request.type_name.as_str() {
            "conductor.LOOP_CONDITION" => ok(json!({"result": false, "stop": false})),
            _ => ok(json!({"response": {"body": 1}})),
        });
        let poll = json!({"name": "h", "taskReferenceName": "h", "type": "HTTP_POLL", "inputParameters": {"http_request": {
            "uri": "http://far", "method": "GET", "terminationCondition": "false", "pollingInterval": 10, "pollingStrategy": strategy}}});
        started(&mut world, json!({"name": "w", "tasks": [poll]}), json!({}));
        let polls = |world: &World| world.calls.iter().filter(|call| call.config.get("http_request").is_some()).count();
        assert_eq!(polls(&world), 1);
        for (round, seconds) in waits.into_iter().enumerate() {
            let due = world.store.next_timer().unwrap().expect("a wait");
            assert_eq!(due.since(world.store.now()), seconds * 1_000, "{strategy}: before round {}", round + 2);
            world.pass(seconds * 1_000);
            for row in world.store.due_timers(due, 9).unwrap() {
                world.happen(Happened::Timer { workspace: row.workspace, run: row.run, timer: row.timer });
            }
            world.drain();
            assert_eq!(polls(&world), round + 2, "{strategy}");
        }
    }
}

#[test]
fn a_failure_workflow_is_told_of_the_one_that_failed_and_is_named_by_it() {
    let mut world = World::new();
    world.push_workflow(
        &json!({"name": "sorry", "tasks": [pick("c", "x")], "outputParameters": {"in": "${workflow.input}"}}),
    );
    let definition = json!({"name": "w", "failureWorkflow": "sorry", "outputParameters": {"seen": "${p.output.result}"},
        "tasks": [pick("p", "done"), {"name": "t", "taskReferenceName": "t", "type": "SIMPLE", "retryCount": 0}]});
    let run = started(&mut world, definition, json!({"order": 3}));
    let row = take(&world, "t").remove(0);
    let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
    let end = ErrandAnswer::Failed { message: "no funds".into(), output: None, for_good: true };
    world.control(run, Control::Errand { step, attempt, end, seen }).unwrap();
    world.run_down();
    let other = world.runs().into_iter().find(|row| row.id != run).unwrap().id;
    assert_eq!(world.outputs(run), json!({"seen": "done", "conductor.failure_workflow": other.to_string()}));
    let given = world.outputs(other)["in"].clone();
    let told = &given["failedWorkflow"];
    assert_eq!((&given["order"], &told["workflowId"]), (&json!(3), &json!(run.to_string())));
    assert_eq!((&told["status"], &told["reasonForIncompletion"]), (&json!("FAILED"), &json!("no funds")));
    assert_eq!(told["output"], json!({"seen": "done"}));
    let tasks: Vec<(&Json, &Json)> =
        told["tasks"].as_array().unwrap().iter().map(|task| (&task["referenceTaskName"], &task["status"])).collect();
    assert_eq!(tasks, [(&json!("p"), &json!("COMPLETED")), (&json!("t"), &json!("FAILED_WITH_TERMINAL_ERROR"))]);
    assert_eq!(told["tasks"][0]["outputData"], json!({"result": "done"}), "as workflows show it");
    assert_eq!(given["failureTaskId"], json!(row.id.uuid().to_string()), "the name that the task has outside");
}

#[test]
fn messages_are_pulled_once_and_in_their_order() {
    let mut world = World::new();
    let pull = |name: &str, input: Json| json!({"name": "p", "taskReferenceName": name, "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": input});
    let tasks = json!([{"name": "h", "taskReferenceName": "h", "type": "HUMAN"}, pull("a", json!({"batchSize": 2})),
        pull("b", json!({"batchSize": 500, "blocking": false})), pull("none", json!({"blocking": false})), pull("c", json!({}))]);
    let definition = json!({"name": "w", "tasks": tasks, "outputParameters": {"a": "${a.output.messages[*].n}",
        "b": "${b.output}", "none": "${none.output.count}", "c": "${c.output}"}});
    let run = started(&mut world, definition, json!({}));
    let leave = |world: &mut World, n: u32| {
        let wish = Box::new(Asking::Leave { message: json!({"n": n}) });
        world.control(run, Control::Wish { wish }).unwrap();
        world.drain();
    };
    for n in 1..=3 {
        leave(&mut world, n);
    }
    world.restart();
    world.drain();
    let row = world.store.errands_of(&world.workspace, run).unwrap().into_iter().find(|row| row.open).unwrap();
    let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
    let end = ErrandAnswer::Done { output: json!({}) };
    world.control(run, Control::Errand { step, attempt, end, seen }).unwrap();
    world.drain();
    assert_eq!(world.status(run), Status::Waiting, "{}", world.failure(run));
    world.restart();
    world.drain();
    leave(&mut world, 4);
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let (b, c) = (json!({"messages": [{"n": 3}], "count": 1}), json!({"messages": [{"n": 4}], "count": 1}));
    assert_eq!(world.outputs(run), json!({"a": [1, 2], "b": b, "none": 0, "c": c}));
    world.checked();
}

#[test]
fn a_sub_workflow_is_started_by_a_definition_that_is_computed() {
    let mut world = World::new();
    let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "inputParameters": {"x": "${workflow.input.x}"},
        "subWorkflowParam": {"name": "made", "workflowDefinition": "${workflow.input.definition}"}});
    let definition = json!({"name": "w", "tasks": [sub], "outputParameters": {"got": "${s.output.got}"}});
    let made = json!({"tasks": [pick("p", "${workflow.input.x}!")], "outputParameters": {"got": "${p.output.result}"}});
    let mut flows = 0;
    for x in ["a", "b"] {
        let run = started(&mut world, definition.clone(), json!({"x": x, "definition": made}));
        world.run_down();
        assert_eq!(world.outputs(run), json!({"got": format!("{x}!")}), "{}", world.failure(run));
        let now = world.rows("flows").len();
        assert!(flows == 0 || flows == now, "it is stored once");
        flows = now;
    }
    let text = started(&mut world, definition.clone(), json!({"x": "c", "definition": made.to_string()}));
    world.run_down();
    assert_eq!(world.outputs(text), json!({"got": "c!"}));

    world.push_workflow(
        &json!({"name": "made", "tasks": [pick("p", "registered")], "outputParameters": {"got": "${p.output.result}"}}),
    );
    let by_name = started(&mut world, definition.clone(), json!({"x": "d"}));
    world.run_down();
    assert_eq!(world.outputs(by_name), json!({"got": "registered"}), "nothing is given, and the name counts");

    for (wrong, part) in [
        (
            json!({"tasks": [{"name": "n", "taskReferenceName": "n", "type": "NONSENSE"}]}),
            "tasks[0].type: the task type NONSENSE",
        ),
        (json!("{no"), "is not JSON"),
        (json!(7), "an object is expected"),
    ] {
        let run = started(&mut world, definition.clone(), json!({"definition": wrong}));
        world.run_down();
        let failure = world.failure(run);
        assert_eq!((world.status(run), &failure["code"]), (Status::Failed, &json!("failed_for_good")));
        assert!(failure["message"].as_str().unwrap().contains(part), "{failure}");
    }
}
