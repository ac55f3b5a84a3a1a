//! How Conductor's workflows end: by a task that may not fail, by TERMINATE, by time; and how often a task is tried.

use super::world::{World, ok};
use crate::api::{Control, ErrandAnswer};
use crate::driver::Happened;
use semel_core::RunId;
use semel_core::run::{Event, Status, decode_events, task_status, workflow_status};
use semel_store::{Done, ErrandQueue, ErrandRow, Reads, Store, TASK_DEFINITIONS, TakeErrands, Work};
use semel_tasks::Outcome;
use serde_json::{Value as Json, json};

fn started(world: &mut World, definition: Json, input: Json) -> RunId {
    let id = world.push_workflow(&definition);
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.drain();
    run
}

fn define(world: &World, name: &str, definition: Json) {
    let set = Work::KvSet {
        workspace: world.workspace.clone(),
        namespace: TASK_DEFINITIONS.to_owned(),
        key: name.to_owned(),
        value: definition,
        kv_type: "JSON".to_owned(),
        overwrite: true,
        ttl_ms: None,
    };
    world.store.call(set).unwrap();
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

fn answer(world: &mut World, row: &ErrandRow, end: ErrandAnswer) {
    let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
    world.control(row.run, Control::Errand { step, attempt, end, seen }).unwrap();
    world.run_down();
}

fn failed(for_good: bool) -> ErrandAnswer {
    ErrandAnswer::Failed { message: "no funds".into(), output: Some(json!({"code": 51})), for_good }
}

fn done(output: Json) -> ErrandAnswer {
    ErrandAnswer::Done { output }
}

/// Conductor's word for the workflow, from the head of its run.
fn word(world: &World, run: RunId) -> &'static str {
    let row = world.runs().into_iter().find(|row| row.id == run).expect("a run");
    workflow_status(row.status, row.ended_at.is_some(), row.conclusion)
}

/// Conductor's word for each task that has ended, from the journal.
fn task_words(world: &World, run: RunId, step: &str) -> Option<&'static str> {
    let rows = world.store.journal(&world.workspace, run, 0, 1_000).unwrap();
    let events = rows.iter().flat_map(|row| decode_events(&row.events, row.values.as_deref()).expect("a journal"));
    let word = |event| match event {
        Event::StepEnded { step: key, outcome, tolerated, failure, .. } if key.task_id() == step => {
            Some(task_status(outcome, tolerated, failure.as_ref().map(|failure| failure.code.as_str())))
        }
        _ => None,
    };
    events.filter_map(word).last()
}

fn simple(name: &str, more: Json) -> Json {
    let mut task = json!({"name": name, "taskReferenceName": name, "type": "SIMPLE", "retryCount": 0});
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

fn pick(reference: &str, value: &str) -> Json {
    json!({"name": "p", "taskReferenceName": reference, "type": "INLINE",
        "inputParameters": {"evaluatorType": "value-param", "expression": "v", "v": value}})
}

/// Two branches: `a` with one more task behind it, and `b`.
fn forked(a: Json) -> Json {
    json!({"name": "w", "tasks": [
        {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[a, pick("later", "x")], [simple("b", json!({}))]]},
        {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["later", "b"]},
        pick("after", "done"),
    ], "outputParameters": {"a": "${a.status}", "b": "${b.output}", "reason": "${a.reasonForIncompletion}", "after": "${after.output.result}",
        "workflow": "${workflow.status}"}})
}

#[test]
fn a_task_that_fails_ends_all_others() {
    let mut world = World::new();
    let run = started(&mut world, forked(simple("a", json!({}))), json!({}));
    let (a, b) = (take(&world, "a").remove(0), take(&world, "b").remove(0));
    answer(&mut world, &a, failed(true));
    assert_eq!((world.status(run), word(&world, run)), (Status::Failed, "FAILED"));
    assert_eq!(world.failure(run)["message"], "no funds");
    assert_eq!(task_words(&world, run, "a"), Some("FAILED_WITH_TERMINAL_ERROR"));
    assert_eq!(task_words(&world, run, "b"), Some("CANCELED"));
    assert_eq!(task_words(&world, run, "later"), None);
    assert_eq!(world.store.errand(&world.workspace, b.id).unwrap().map(|row| row.open), Some(false), "taken back");
    let got = world.outputs(run);
    assert_eq!((&got["a"], &got["workflow"]), (&json!("FAILED_WITH_TERMINAL_ERROR"), &json!("FAILED")), "{got}");

    world.control(run, Control::Restart).unwrap();
    world.drain();
    let (a, b) = (take(&world, "a").remove(0), take(&world, "b").remove(0));
    answer(&mut world, &a, done(json!({"n": 1})));
    answer(&mut world, &b, done(json!({"n": 2})));
    assert_eq!(word(&world, run), "COMPLETED", "{}", world.failure(run));
    assert_eq!(world.outputs(run)["b"], json!({"n": 2}));
}

#[test]
fn a_permissive_task_lets_the_others_end_and_an_optional_one_lets_them_go_on() {
    let mut world = World::new();
    let run = started(&mut world, forked(simple("a", json!({"permissive": true}))), json!({}));
    let (a, b) = (take(&world, "a").remove(0), take(&world, "b").remove(0));
    answer(&mut world, &a, failed(false));
    assert_eq!(word(&world, run), "RUNNING");
    answer(&mut world, &b, done(json!({"n": 2})));
    assert_eq!((word(&world, run), task_words(&world, run, "b")), ("FAILED", Some("COMPLETED")));
    assert_eq!(world.failure(run)["message"], "no funds");

    let mut world = World::new();
    let run = started(&mut world, forked(simple("a", json!({"optional": true}))), json!({}));
    let (a, b) = (take(&world, "a").remove(0), take(&world, "b").remove(0));
    answer(&mut world, &a, failed(false));
    answer(&mut world, &b, done(json!({"n": 2})));
    assert_eq!(word(&world, run), "COMPLETED");
    let got = world.outputs(run);
    assert_eq!((&got["a"], &got["after"]), (&json!("COMPLETED_WITH_ERRORS"), &json!("done")));
    assert_eq!(got["reason"], "no funds");
}

#[test]
fn what_took_too_long_and_what_was_given_up_are_told_apart() {
    let mut world = World::new();
    define(&world, "a", json!({"retryCount": 0, "responseTimeoutSeconds": 10}));
    let run = started(&mut world, forked(simple("a", json!({}))), json!({}));
    take(&world, "a");
    world.pass(10_000);
    let Done::Wake(runs) = world.store.call(Work::TellLate { limit: 9 }).unwrap() else { panic!("nobody was told") };
    for (workspace, run) in runs {
        world.happen(Happened::Wake { workspace, run });
    }
    world.run_down();
    assert_eq!((word(&world, run), task_words(&world, run, "a")), ("TIMED_OUT", Some("TIMED_OUT")));

    for definition in [forked(simple("a", json!({}))), json!({"name": "w", "tasks": [simple("a", json!({}))]})] {
        let mut world = World::new();
        let run = started(&mut world, definition, json!({}));
        let a = take(&world, "a").remove(0);
        answer(&mut world, &a, ErrandAnswer::Cancelled { message: "not mine".into(), output: None });
        assert_eq!((word(&world, run), task_words(&world, run, "a")), ("TERMINATED", Some("CANCELED")));
        assert_eq!(world.failure(run)["message"], "not mine");
    }
}

#[test]
fn a_workflow_that_takes_too_long_has_timed_out_and_so_has_its_parent() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF",
        "tasks": [simple("a", json!({}))]}));
    let sub =
        json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "child"}});
    let definition = json!({"name": "w", "tasks": [sub]});
    let run = started(&mut world, definition.clone(), json!({}));
    let child = world.runs().into_iter().find(|row| row.id != run).unwrap().id;
    world.pass(60_000);
    world.run_down();
    assert_eq!((word(&world, child), word(&world, run)), ("TIMED_OUT", "TIMED_OUT"));
    assert_eq!(task_words(&world, run, "s"), Some("TIMED_OUT"));

    let run = started(&mut world, definition, json!({}));
    let child =
        world.runs().into_iter().find(|row| row.id != run && row.id != child && !row.status.is_ended()).unwrap().id;
    world.control(child, Control::Cancel).unwrap();
    world.run_down();
    assert_eq!((word(&world, child), word(&world, run)), ("TERMINATED", "TERMINATED"));
    assert_eq!(task_words(&world, run, "s"), Some("CANCELED"));
}

#[test]
fn terminate_says_what_the_run_gives_and_ends_all_else() {
    for (status, output, given, ends) in [
        ("COMPLETED", json!({"x": "${workflow.input.x}"}), json!({"x": 7}), "COMPLETED"),
        ("FAILED", json!("${workflow.input.x}"), json!({"output": 7}), "FAILED"),
        ("TERMINATED", json!(null), json!({}), "TERMINATED"),
    ] {
        let mut world = World::new();
        let end = json!({"name": "e", "taskReferenceName": "e", "type": "TERMINATE", "inputParameters": {
            "terminationStatus": status, "terminationReason": "enough of ${workflow.input.x}", "workflowOutput": output}});
        let definition = json!({"name": "w", "outputParameters": {"never": "seen"}, "tasks": [
            {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[simple("a", json!({}))], [pick("p", "1"), end]]},
            {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["a", "p"]}]});
        let run = started(&mut world, definition, json!({"x": 7}));
        world.run_down();
        assert_eq!((word(&world, run), world.outputs(run)), (ends, given));
        assert_eq!((take(&world, "a"), task_words(&world, run, "a")), (vec![], Some("CANCELED")));
        if status != "COMPLETED" {
            assert_eq!(world.failure(run)["message"], "enough of 7");
        }
    }
}

/// A world whose far side says no, and how often it was asked.
fn refusing() -> World {
    let mut world = World::new();
    world.answer = Box::new(|_, _| Outcome::FailedClean {
        code: "http_status",
        message: "500".into(),
        output: None,
        retryable: true,
    });
    world
}

fn http(more: Json) -> Json {
    let mut task = json!({"name": "call", "taskReferenceName": "h", "type": "HTTP",
        "inputParameters": {"uri": "http://far", "method": "GET", "body": "${workflow.input.none}"}});
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    json!({"name": "w", "tasks": [task]})
}

#[test]
fn a_registered_definition_counts_for_tasks_that_the_server_does_itself() {
    let registered = json!({"retryCount": 2, "retryDelaySeconds": 1, "inputTemplate": {"body": {"from": "template"}}});
    for (registered, task, calls) in [
        (None, json!({}), 1),
        (Some(registered.clone()), json!({}), 3),
        (Some(registered.clone()), json!({"retryCount": 1}), 2),
        (Some(registered.clone()), json!({"retryCount": 0}), 1),
        (Some(registered.clone()), json!({"taskDefinition": {"retryCount": 0}}), 1),
    ] {
        let mut world = refusing();
        let known = registered.is_some();
        if let Some(registered) = registered {
            define(&world, "call", registered);
        }
        let run = started(&mut world, http(task.clone()), json!({}));
        world.run_down();
        assert_eq!((word(&world, run), world.calls.len()), ("FAILED", calls), "{task}");
        if known && task.get("taskDefinition").is_none() {
            assert_eq!(world.calls[0].config["body"], json!({"from": "template"}));
        }
    }
}

#[test]
fn a_task_without_a_type_of_its_own_runs_as_what_it_names() {
    let dynamic = json!({"name": "d", "taskReferenceName": "d", "type": "DYNAMIC", "dynamicTaskNameParam": "as",
        "inputParameters": {"as": "${workflow.input.as}", "uri": "http://far", "method": "GET", "queryExpression": ".n + 1", "n": 1,
            "duration": "1 minute", "subWorkflowName": "child", "evaluatorType": "value-param", "expression": "n"}});
    let definition =
        json!({"name": "w", "tasks": [dynamic], "outputParameters": {"d": "${d.output}", "status": "${d.status}"}});
    for (kind, output) in [
        ("JSON_JQ_TRANSFORM", json!({"result": 2, "resultList": [2]})),
        ("INLINE", json!({"result": 1})),
        ("NOOP", json!({})),
        ("HTTP", json!({"response": {"body": "conductor.HTTP"}})),
    ] {
        let mut world = World::new();
        world.answer = Box::new(|request, _| ok(json!({"response": {"body": request.type_name}})));
        let run = started(&mut world, definition.clone(), json!({"as": kind}));
        world.run_down();
        assert_eq!(world.outputs(run), json!({"d": output, "status": "COMPLETED"}), "{kind}: {}", world.failure(run));
        assert!(world.calls.iter().all(|call| call.config.get("~type").is_none()));
    }
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "tasks": [pick("c", "from ${workflow.input.n}")]}));
    let run = started(&mut world, definition.clone(), json!({"as": "SUB_WORKFLOW"}));
    world.run_down();
    assert_eq!(world.outputs(run)["d"]["result"], "from 1", "{}", world.failure(run));

    let run = started(&mut world, definition.clone(), json!({"as": "charge"}));
    let row = take(&world, "charge").remove(0);
    answer(&mut world, &row, done(json!({"paid": true})));
    assert_eq!(world.outputs(run)["d"], json!({"paid": true}));

    // Only a type of a definition: as in Conductor, whoever works under that name is asked.
    let run = started(&mut world, definition.clone(), json!({"as": "FORK_JOIN"}));
    let row = take(&world, "FORK_JOIN").remove(0);
    answer(&mut world, &row, done(json!({"forked": true})));
    assert_eq!(world.outputs(run)["d"], json!({"forked": true}));

    let run = started(&mut world, definition, json!({"as": "DO_WHILE"}));
    world.run_down();
    assert_eq!(word(&world, run), "FAILED");
    assert!(world.failure(run)["message"].as_str().unwrap().contains("cannot run as DO_WHILE"));
}

/// A DYNAMIC task that runs as what it is given, and a task behind it.
fn dynamic(kind: &str, mut input: Json) -> Json {
    input["as"] = json!(kind);
    let task = json!({"name": "d", "taskReferenceName": "d", "type": "DYNAMIC", "dynamicTaskNameParam": "as", "inputParameters": input});
    json!({"name": "w", "tasks": [pick("before", "1"), task, pick("after", "2")],
        "outputParameters": {"d": "${d.output}", "after": "${after.output.result}"}})
}

#[test]
fn a_task_may_turn_out_to_choose_to_join_or_to_tell() {
    for (kind, input, output) in [
        ("SWITCH", json!({"decisionCases": {}}), json!({})),
        ("DECISION", json!({}), json!({})),
        ("JOIN", json!({"joinOn": ["before"]}), json!({"before": {"result": "1"}})),
        ("EXCLUSIVE_JOIN", json!({"joinOn": ["before"]}), json!({"result": "1"})),
    ] {
        let mut world = World::new();
        let run = started(&mut world, dynamic(kind, input), json!({}));
        world.run_down();
        assert_eq!(world.outputs(run), json!({"d": output, "after": "2"}), "{kind}: {}", world.failure(run));
    }
    let mut world = World::new();
    let run = started(&mut world, dynamic("EVENT", json!({"sink": "conductor:told", "n": 1})), json!({}));
    world.run_down();
    assert_eq!(world.outputs(run)["d"]["event_produced"], "conductor:w:told", "{}", world.failure(run));
    assert_eq!(world.outputs(run)["d"]["n"], 1);
    let run = started(&mut world, dynamic("JOIN", json!({"joinOn": ["after"]})), json!({}));
    world.run_down();
    assert!(world.failure(run)["message"].as_str().unwrap().contains("`after` has not"));
}

#[test]
fn a_task_may_turn_out_to_start_a_workflow_and_go_on() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "tasks": [simple("work", json!({}))]}));
    let request = json!({"name": "child", "input": {"n": 1}});
    let run = started(&mut world, dynamic("START_WORKFLOW", json!({ "startWorkflow": request })), json!({}));
    world.run_down();
    assert_eq!(word(&world, run), "COMPLETED", "{}", world.failure(run));
    let child = world.outputs(run)["d"]["workflowId"].as_str().unwrap().parse().unwrap();
    assert_eq!((word(&world, child), world.runs().len()), ("RUNNING", 2), "nobody waits for it");
    world.checked();
}

#[test]
fn a_task_may_turn_out_to_end_the_workflow() {
    for (status, output, gives, ends) in [
        ("COMPLETED", json!({"n": 1}), json!({"n": 1}), "COMPLETED"),
        ("FAILED", json!("text"), json!({"output": "text"}), "FAILED"),
        ("TERMINATED", json!(null), json!({}), "TERMINATED"),
    ] {
        let mut world = World::new();
        let input = json!({"terminationStatus": status, "terminationReason": "enough", "workflowOutput": output});
        let mut definition = dynamic("TERMINATE", input);
        definition["outputParameters"] = json!({});
        let run = started(&mut world, definition, json!({}));
        world.run_down();
        assert_eq!((word(&world, run), world.outputs(run)), (ends, gives), "{}", world.failure(run));
        assert_eq!((task_words(&world, run, "d"), task_words(&world, run, "after")), (Some("COMPLETED"), None));
        if ends != "COMPLETED" {
            assert_eq!(world.failure(run)["message"], "enough");
        }
        world.checked();
    }
    let mut world = World::new();
    let run = started(&mut world, dynamic("TERMINATE", json!({"terminationStatus": "DONE"})), json!({}));
    world.run_down();
    assert_eq!(world.failure(run)["message"], "given termination status is not valid");
}

/// A parent whose SUB_WORKFLOW is tried again once, and a child that waits for a worker.
fn keyed(world: &World, strategy: Json) -> Json {
    define(world, "s", json!({"retryCount": 1, "retryDelaySeconds": 1}));
    world.push_workflow(&json!({"name": "child", "tasks": [simple("work", json!({}))]}));
    let mut param = json!({"name": "child"});
    for (key, value) in strategy.as_object().unwrap() {
        param[key] = value.clone();
    }
    json!({"name": "w", "tasks": [{"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": param}],
        "outputParameters": {"id": "${s.output.subWorkflowId}", "retries": "${s.retryCount}"}})
}

#[test]
fn a_failed_sub_workflow_is_tried_again_as_its_key_allows() {
    for (terms, runs, word_at_end, message) in [
        (json!({}), 3, "COMPLETED", ""),
        (json!({"idempotencyKey": "k", "idempotencyStrategy": "FAIL_ON_RUNNING"}), 3, "COMPLETED", ""),
        (
            json!({"idempotencyKey": "k", "idempotencyStrategy": "FAIL"}),
            2,
            "FAILED",
            "Workflow with the idempotency key k already exists",
        ),
        (json!({"idempotencyKey": "k"}), 2, "FAILED", "Workflow with the idempotency key k already exists"),
        (json!({"idempotencyKey": "k", "idempotencyStrategy": "RETURN_EXISTING"}), 2, "FAILED", "failed"),
    ] {
        let mut world = World::new();
        let definition = keyed(&world, terms.clone());
        let run = started(&mut world, definition, json!({}));
        let row = take(&world, "work").remove(0);
        answer(&mut world, &row, failed(true));
        world.pass(1_000);
        world.run_down();
        if let Some(row) = take(&world, "work").pop() {
            answer(&mut world, &row, done(json!({})));
        }
        assert_eq!(word(&world, run), word_at_end, "{terms}: {}", world.failure(run));
        assert_eq!(world.runs().len(), runs, "{terms}");
        if word_at_end == "FAILED" {
            let found = world.failure(run)["message"].as_str().unwrap().to_owned();
            assert!(found.contains(message), "{terms}: {found}");
        }
    }
}

#[test]
fn a_strategy_without_a_key_inherits_that_of_the_parent_for_each_step() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "tasks": [pick("c", "1")]}));
    let sub = |reference: &str| {
        json!({"name": "s", "taskReferenceName": reference, "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "child", "idempotencyStrategy": "FAIL"}})
    };
    let definition = json!({"name": "w", "tasks": [sub("a"), sub("b")]});
    let id = world.push_workflow(&definition);
    let run = world.admit(&format!("conductor:{id}"), Some("order-1"), json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(word(&world, run), "COMPLETED", "{}", world.failure(run));
    assert_eq!(world.runs().len(), 3, "two children of one parent do not share a key");
    // A parent without a key: the strategy says nothing.
    let run = started(&mut world, definition, json!({}));
    world.run_down();
    assert_eq!((word(&world, run), world.runs().len()), ("COMPLETED", 6));
}
