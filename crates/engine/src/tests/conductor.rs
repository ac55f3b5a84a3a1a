//! Conductor's definitions, from their text to the end of a run.

use super::world::{Death, World, ok};
use semel_core::RunId;
use semel_core::run::{Event, Status, decode_events};
use semel_store::Reads;
use semel_tasks::Outcome;
use serde_json::{Value as Json, json};

fn started(world: &mut World, definition: Json, input: Json) -> RunId {
    let id = world.push_workflow(&definition);
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.run_down();
    run
}

fn completed(definition: Json, input: Json) -> Json {
    let mut world = World::new();
    let run = started(&mut world, definition, input);
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    world.outputs(run)
}

fn workflow(tasks: Json, outputs: Json) -> Json {
    json!({"name": "w", "tasks": tasks, "outputParameters": outputs})
}

/// The output of a step, as the journal has it.
fn step_output(world: &World, run: RunId, step: &str) -> Json {
    let rows = world.store.journal(&world.workspace, run, 0, 1_000).unwrap();
    let events = rows.iter().flat_map(|row| decode_events(&row.events, row.values.as_deref()).expect("a journal"));
    let output = events.filter_map(|event| match event {
        Event::StepEnded { step: key, output: Some(output), .. } if key.0 == step => Some(output.json().clone()),
        _ => None,
    });
    output.last().unwrap_or(Json::Null)
}

fn noop(reference: &str) -> Json {
    json!({"name": "n", "taskReferenceName": reference, "type": "NOOP"})
}

fn pick(reference: &str, value: &str) -> Json {
    json!({"name": "p", "taskReferenceName": reference, "type": "INLINE",
        "inputParameters": {"evaluatorType": "value-param", "expression": "v", "v": value}})
}

#[test]
fn expressions_see_the_workflow_and_its_tasks() {
    let outputs = json!({
        "input": "${workflow.input.order.id}", "name": "${workflow.workflowType}", "version": "${workflow.version}",
        "filled": "${workflow.input.currency}", "status": "${p.status}", "type": "${p.taskType}", "own": "${p.output.result}",
        "given": "${p.input.v}", "text": "order ${workflow.input.order.id} ${workflow.input.nothing}",
        "variable": "${workflow.variables.kept}", "nobody": "${later.output.x}", "correlation": "${workflow.correlationId}",
    });
    let definition = json!({"name": "see", "version": 4, "inputTemplate": {"currency": "EUR"}, "variables": {"kept": "${no}"},
        "tasks": [pick("p", "${workflow.input.order.id}"), noop("later")], "outputParameters": outputs});
    let got = completed(definition, json!({"order": {"id": 7}, "undeclared": true}));
    assert_eq!(
        got,
        json!({"input": 7, "name": "see", "version": 4, "filled": "EUR", "status": "COMPLETED", "type": "INLINE",
            "own": 7, "given": 7, "text": "order 7 null", "variable": "${no}", "nobody": null, "correlation": null})
    );
}

#[test]
fn without_output_parameters_the_last_task_speaks() {
    let definition = json!({"name": "w", "tasks": [pick("a", "1"), pick("b", "${a.output.result}2")]});
    assert_eq!(completed(definition, json!({})), json!({"result": "12"}));
}

#[test]
fn a_switch_takes_its_case_or_the_default() {
    let switch = json!({"name": "s", "taskReferenceName": "sw", "type": "SWITCH", "evaluatorType": "value-param",
        "expression": "x", "inputParameters": {"x": "${workflow.input.x}"},
        "decisionCases": {"1": [pick("one", "first")], "true": [], "null": [pick("nil", "nothing")]},
        "defaultCase": [pick("other", "else")]});
    let definition = workflow(
        json!([switch]),
        json!({"case": "${sw.output.selectedCase}", "list": "${sw.output.evaluationResult}",
            "got": ["${one.output.result}", "${nil.output.result}", "${other.output.result}"]}),
    );
    for (x, case, got) in [
        (json!(1), "1", json!(["first", null, null])),
        (json!("1"), "1", json!(["first", null, null])),
        (json!(true), "true", json!([null, null, null])),
        (json!(null), "null", json!([null, "nothing", null])),
        (json!("z"), "z", json!([null, null, "else"])),
    ] {
        let output = completed(definition.clone(), json!({"x": x}));
        assert_eq!(output, json!({"case": case, "list": [case], "got": got}), "{x}");
    }
}

#[test]
fn a_switch_without_a_default_goes_on_and_a_decision_takes_an_empty_case_for_none() {
    let switch = json!({"name": "s", "taskReferenceName": "sw", "type": "SWITCH", "evaluatorType": "value-param",
        "expression": "x", "inputParameters": {}, "decisionCases": {"a": [noop("a")]}});
    let decision = json!({"name": "d", "taskReferenceName": "d", "type": "DECISION", "caseValueParam": "x",
        "inputParameters": {"x": "empty"}, "decisionCases": {"empty": [], "b": [noop("b")]}, "defaultCase": [pick("c", "c")]});
    let definition =
        workflow(json!([switch, decision]), json!({"c": "${c.output.result}", "d": "${d.output.caseOutput}"}));
    assert_eq!(completed(definition, json!({})), json!({"c": "c", "d": ["empty"]}));
}

#[test]
fn variables_are_replaced_and_not_merged() {
    let set = |reference: &str, value: Json| json!({"name": "s", "taskReferenceName": reference, "type": "SET_VARIABLE", "inputParameters": {"v": value}});
    let definition = workflow(
        json!([set("a", json!({"x": 1, "y": 2})), set("b", json!({"x": "${workflow.variables.v.y}"}))]),
        json!({"v": "${workflow.variables.v}"}),
    );
    assert_eq!(completed(definition, json!({})), json!({"v": {"x": 2}}));
    let long = "x".repeat(300_000);
    let mut world = World::new();
    let run = started(
        &mut world,
        workflow(json!([set("a", json!("${workflow.input.long}"))]), json!({})),
        json!({"long": long}),
    );
    assert_eq!(world.status(run), Status::Failed);
    assert!(world.failure(run).to_string().contains("greater than the permissible limit: 256 kilobytes"));
}

#[test]
fn jq_gives_its_first_result_and_all_of_them() {
    let jq = |program: &str| {
        json!([{"name": "j", "taskReferenceName": "j", "type": "JSON_JQ_TRANSFORM",
            "inputParameters": {"list": "${workflow.input.list}", "queryExpression": program}}])
    };
    let outputs = json!({"first": "${j.output.result}", "all": "${j.output.resultList}"});
    let input = json!({"list": [{"id": 1}, {"id": 2}]});
    let got = completed(workflow(jq(".list[].id"), outputs.clone()), input.clone());
    assert_eq!(got, json!({"first": 1, "all": [1, 2]}));
    assert_eq!(completed(workflow(jq("empty"), outputs.clone()), input.clone()), json!({"first": null, "all": []}));
    let mut world = World::new();
    let run = started(&mut world, workflow(jq(".list | error"), outputs), input);
    assert_eq!(world.status(run), Status::Failed);
}

#[test]
fn a_join_gathers_the_branches_of_its_fork() {
    let definition = workflow(
        json!([
            {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN",
             "forkTasks": [[pick("a1", "1"), pick("a2", "${a1.output.result}2")], [pick("b", "3")], [noop("c")]]},
            {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["a2", "b", "c"]},
        ]),
        json!({"j": "${j.output}"}),
    );
    assert_eq!(completed(definition, json!({})), json!({"j": {"a2": {"result": "12"}, "b": {"result": "3"}}}));
}

#[test]
fn a_join_that_waits_for_some_lets_the_others_run_on() {
    let slow = json!({"name": "n", "taskReferenceName": "slow", "type": "NOOP", "startDelay": 60});
    let definition = workflow(
        json!([
            {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[pick("a", "1"), slow], [pick("b", "2")]]},
            {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["a"]},
            pick("after", "${j.output.a.result}!"),
        ]),
        json!({"after": "${after.output.result}", "ended": "${after.endTime}", "slow": "${slow.endTime}"}),
    );
    let got = completed(definition, json!({}));
    assert_eq!(got["after"], "1!");
    assert!(got["ended"].as_i64() < got["slow"].as_i64(), "{got}");
}

#[test]
fn an_exclusive_join_gives_what_ran() {
    let definition = workflow(
        json!([
            {"name": "s", "taskReferenceName": "sw", "type": "SWITCH", "evaluatorType": "value-param", "expression": "x",
             "inputParameters": {"x": "${workflow.input.x}"},
             "decisionCases": {"a": [pick("a", "from a")], "b": [pick("b", "from b")]}, "defaultCase": [pick("c", "from c")]},
            {"name": "e", "taskReferenceName": "e", "type": "EXCLUSIVE_JOIN", "joinOn": ["a", "b"], "defaultExclusiveJoinTask": ["c"]},
        ]),
        json!({"e": "${e.output.result}"}),
    );
    for (x, got) in [("a", "from a"), ("b", "from b"), ("z", "from c")] {
        assert_eq!(completed(definition.clone(), json!({"x": x})), json!({"e": got}));
    }
}

/// Scripts are answered by the world: it stops after the third round.
fn loop_world() -> World {
    let mut world = World::new();
    world.answer = Box::new(|request, before| {
        assert_eq!(request.type_name, "conductor.LOOP_CONDITION");
        assert_eq!(request.config["input"]["loop"]["iteration"], json!(before + 1), "{}", request.config);
        let seen = request.config["input"]["t"]["result"].as_str().map(str::to_owned);
        assert_eq!(seen, Some(format!("round {}", before + 1)));
        ok(json!({"result": before < 2, "stop": before >= 2}))
    });
    world
}

fn looped(extra: Json) -> Json {
    let mut input = json!({"most": 3});
    for (name, value) in extra.as_object().unwrap() {
        input[name] = value.clone();
    }
    let task = json!({"name": "l", "taskReferenceName": "loop", "type": "DO_WHILE", "inputParameters": input,
        "loopCondition": "$.loop['iteration'] < $.most", "loopOver": [pick("t", "round ${loop.output.iteration}")]});
    workflow(
        json!([task, pick("after", "${t.output.result} of ${loop.output.iteration}")]),
        json!({"loop": "${loop.output}", "after": "${after.output.result}", "n": "${t.iteration}"}),
    )
}

#[test]
fn a_do_while_goes_round_while_its_condition_holds() {
    let mut world = loop_world();
    let run = started(&mut world, looped(json!({})), json!({}));
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let round = |n: u32| json!({"t": {"result": format!("round {n}")}});
    let all = json!({"iteration": 3, "1": round(1), "2": round(2), "3": round(3)});
    assert_eq!(world.outputs(run), json!({"loop": all, "after": "round 3 of 3", "n": 3}));

    let mut world = loop_world();
    let run = started(&mut world, looped(json!({"keepLastN": 2})), json!({}));
    assert_eq!(world.outputs(run)["loop"], json!({"iteration": 3, "2": round(2), "3": round(3)}));
}

#[test]
fn a_do_while_over_items_has_a_round_for_each() {
    let task = json!({"name": "l", "taskReferenceName": "each", "type": "DO_WHILE", "items": "${workflow.input.items}",
        "loopCondition": "", "loopOver": [pick("t", "${each.output.loopIndex}=${each.output.loopItem}")]});
    let definition = workflow(
        json!([task]),
        json!({"n": "${each.output.iteration}", "last": "${t.output.result}",
        "first": "${each.output.1.t.result}"}),
    );
    let got = completed(definition.clone(), json!({"items": ["a", "b"]}));
    assert_eq!(got, json!({"n": 2, "last": "1=b", "first": "0=a"}));
    assert_eq!(completed(definition.clone(), json!({"items": []})), json!({"n": 0, "last": null, "first": null}));
    assert_eq!(completed(definition, json!({"items": "one"})), json!({"n": 1, "last": "0=one", "first": "0=one"}));
}

#[test]
fn terminate_ends_the_run_as_it_says() {
    for (word, status) in
        [("COMPLETED", Status::Completed), ("FAILED", Status::Failed), ("TERMINATED", Status::Cancelled)]
    {
        let mut world = World::new();
        let end = json!({"name": "e", "taskReferenceName": "e", "type": "TERMINATE",
            "inputParameters": {"terminationStatus": word, "terminationReason": "enough", "workflowOutput": {"x": "${a.output.result}"}}});
        let run = started(&mut world, workflow(json!([pick("a", "1"), end, noop("never")]), json!({})), json!({}));
        assert_eq!(world.status(run), status);
        assert_eq!(step_output(&world, run, "e"), json!({"x": "1"}));
    }
}

#[test]
fn a_dynamic_fork_makes_its_tasks_from_data() {
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {"tasks": "${workflow.input.tasks}", "inputs": "${workflow.input.inputs}"}});
    let join = json!({"name": "j", "taskReferenceName": "j", "type": "JOIN"});
    let definition = workflow(json!([fork, join]), json!({"j": "${j.output}", "x": "${x.output.result}"}));
    let task = |name: &str| json!({"name": "jq", "taskReferenceName": name, "type": "JSON_JQ_TRANSFORM"});
    let input = json!({"tasks": [task("x"), task("y")], "inputs": {
        "x": {"queryExpression": ".n + 1", "n": 1}, "y": {"queryExpression": ".text", "text": "${workflow.input.secret}"}}});
    let got = completed(definition.clone(), input);
    assert_eq!(got["x"], 2);
    assert_eq!(got["j"]["y"]["result"], "${workflow.input.secret}", "what comes from outside is data");
    let none = completed(definition.clone(), json!({"tasks": [], "inputs": {}}));
    assert_eq!(none, json!({"j": {}, "x": null}));
    for (input, part) in [
        (json!({"tasks": [task("x"), task("x")], "inputs": {}}), "duplicate task reference name: x"),
        (
            json!({"tasks": [{"name": "s", "taskReferenceName": "s", "type": "SWITCH"}], "inputs": {}}),
            "is of type SWITCH",
        ),
        (json!({"tasks": 7, "inputs": {}}), "must give a list of tasks"),
        (json!({"tasks": []}), "not a map"),
    ] {
        let mut world = World::new();
        let run = started(&mut world, definition.clone(), input);
        assert_eq!(world.status(run), Status::Failed);
        assert!(world.failure(run).to_string().contains(part), "{}", world.failure(run));
    }
}

#[test]
fn many_inputs_make_many_tasks_of_one_kind() {
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC",
        "inputParameters": {"forkTaskType": "JSON_JQ_TRANSFORM", "forkTaskName": "jq", "forkTaskInputs": "${workflow.input.all}"}});
    let join = json!({"name": "j", "taskReferenceName": "j", "type": "JOIN"});
    let definition = workflow(json!([fork, join]), json!({"j": "${j.output}"}));
    let one = |n: u32| json!({"queryExpression": ".n * 2 + .__index", "n": n});
    let got = completed(definition, json!({"all": [one(1), one(2)]}));
    assert_eq!((&got["j"]["_jq_0"]["result"], &got["j"]["_jq_1"]["result"]), (&json!(2), &json!(5)));
}

#[test]
fn a_sub_workflow_gives_its_id_and_its_output() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "version": 1, "tasks": [pick("c", "old")]}));
    world.push_workflow(&json!({"name": "child", "version": 12, "tasks": [pick("c", "${workflow.input.x}")],
        "outputParameters": {"x": "${c.output.result}", "parent": "${workflow.parentWorkflowId}"}}));
    world.push_workflow(&json!({"name": "child", "version": 9, "tasks": [pick("c", "older")]}));
    let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "inputParameters": {"x": 5},
        "subWorkflowParam": {"name": "child"}});
    let first = json!({"name": "s", "taskReferenceName": "first", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "child", "version": 1}});
    let start = json!({"name": "g", "taskReferenceName": "g", "type": "START_WORKFLOW",
        "inputParameters": {"startWorkflow": {"name": "child", "input": {"x": 6}}}});
    let outputs = json!({"x": "${s.output.x}", "id": "${s.output.subWorkflowId}", "parent": "${s.output.parent}",
        "first": "${first.output.result}", "started": "${g.output.workflowId}"});
    let run = started(&mut world, workflow(json!([sub, first, start]), outputs), json!({}));
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let got = world.outputs(run);
    assert_eq!((&got["x"], &got["first"]), (&json!(5), &json!("old")));
    assert_eq!(got["parent"], json!(run.to_string()));
    let ids: Vec<String> = world.runs().iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids.len(), 4);
    assert!(
        ids.contains(&got["id"].as_str().unwrap().to_owned())
            && ids.contains(&got["started"].as_str().unwrap().to_owned())
    );
}

#[test]
fn a_version_that_is_left_empty_is_the_newest() {
    for version in
        [json!(null), json!(0), json!(""), json!("${workflow.input.nothing}"), json!("${workflow.input.empty}")]
    {
        let mut world = World::new();
        world.push_workflow(&json!({"name": "child", "version": 1, "tasks": [pick("c", "old")]}));
        world.push_workflow(&json!({"name": "child", "version": 2, "tasks": [pick("c", "new")]}));
        let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW",
            "subWorkflowParam": {"name": "child", "version": version}});
        let definition = workflow(json!([sub]), json!({"got": "${s.output.result}"}));
        let run = started(&mut world, definition, json!({"empty": " "}));
        assert_eq!(world.status(run), Status::Completed, "{version}: {}", world.failure(run));
        assert_eq!(world.outputs(run), json!({"got": "new"}), "{version}");
    }
}

#[test]
fn a_key_starts_a_workflow_once() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "child", "version": 1, "tasks": [pick("c", "x")]}));
    world.push_workflow(&json!({"name": "child", "version": 2, "tasks": [pick("c", "y")]}));
    let sub = |reference: &str, version: u32, strategy: &str| {
        json!({"name": "s", "taskReferenceName": reference, "type": "SUB_WORKFLOW",
            "subWorkflowParam": {"name": "child", "version": version, "idempotencyKey": "k-${workflow.input.k}",
                "idempotencyStrategy": strategy}})
    };
    let start = json!({"name": "g", "taskReferenceName": "c", "type": "START_WORKFLOW", "optional": true,
        "inputParameters": {"startWorkflow": {"name": "child", "idempotencyKey": "k-${workflow.input.k}"}}});
    let nothing = json!({"name": "g", "taskReferenceName": "d", "type": "START_WORKFLOW", "optional": true,
        "inputParameters": {"startWorkflow": {"name": "child", "idempotencyKey": "${workflow.input.missing}"}}});
    let tasks = json!([sub("a", 1, "FAIL"), sub("b", 2, "RETURN_EXISTING"), start, nothing]);
    let outputs = json!({"a": "${a.output.subWorkflowId}", "b": "${b.output}", "c": "${c.status}", "d": "${d.reasonForIncompletion}"});
    let run = started(&mut world, workflow(tasks, outputs), json!({"k": 1}));
    let got = world.outputs(run);
    assert_eq!(got["a"], got["b"]["subWorkflowId"], "another version is the same workflow");
    assert_eq!(got["b"]["result"], "x");
    assert_eq!(got["c"], "COMPLETED_WITH_ERRORS", "a key without a strategy: a twin fails");
    assert_eq!(got["d"], "`idempotencyKey` gives nothing");
    assert_eq!(world.runs().len(), 2);
}

#[test]
fn a_failed_run_starts_its_failure_workflow_once() {
    let mut world = World::new();
    world.push_workflow(&json!({"name": "sorry", "tasks": [pick("c", "${workflow.input.reason}")],
        "outputParameters": {"all": "${workflow.input}"}}));
    let fails = json!({"name": "j", "taskReferenceName": "bad", "type": "JSON_JQ_TRANSFORM",
        "inputParameters": {"queryExpression": "error"}});
    let mut definition = workflow(json!([fails]), json!({}));
    definition["failureWorkflow"] = json!("sorry");
    let run = started(&mut world, definition.clone(), json!({"order": 3}));
    assert_eq!(world.status(run), Status::Failed);
    let runs = world.runs();
    assert_eq!(runs.len(), 2);
    let other = runs.iter().find(|row| row.id != run).unwrap().id;
    let got = world.outputs(other)["all"].clone();
    assert_eq!(
        (&got["order"], &got["workflowId"], &got["failureStatus"]),
        (&json!(3), &json!(run.to_string()), &json!("FAILED"))
    );
    assert!(got["reason"].as_str().unwrap().contains("jq"), "{got}");
    definition["tasks"] = json!([noop("fine")]);
    let run = started(&mut world, definition, json!({}));
    assert_eq!(world.status(run), Status::Completed);
    assert_eq!(world.runs().len(), 3, "nothing is started where nothing failed");
}

#[test]
fn an_http_task_gives_what_came_and_an_optional_one_may_fail() {
    let call = |reference: &str, optional: bool| {
        json!({"name": "h", "taskReferenceName": reference, "type": "HTTP", "optional": optional,
            "inputParameters": {"http_request": {"uri": format!("http://far/{reference}"), "method": "POST", "body": {"id": "${workflow.input.id}"},
                "headers": {"Authorization": "Bearer ${workflow.secrets.TOKEN}"}}}})
    };
    let mut world = World::new();
    world.answer = Box::new(|request, _| match request.config["http_request"]["uri"].as_str() {
        Some("http://far/bad") => {
            Outcome::FailedClean { code: "http_status", message: "500".into(), output: None, retryable: true }
        }
        _ => ok(json!({"response": {"statusCode": 200, "body": {"x": request.config["http_request"]["body"]["id"]}}})),
    });
    let definition = workflow(
        json!([call("bad", true), call("good", false)]),
        json!({"x": "${good.output.response.body.x}", "bad": "${bad.status}"}),
    );
    let run = started(&mut world, definition, json!({"id": 9}));
    assert_eq!(world.outputs(run), json!({"x": 9, "bad": "COMPLETED_WITH_ERRORS"}));
    let sent = &world.calls[1].config["http_request"]["headers"]["Authorization"];
    assert_eq!(sent, "Bearer secret-canary", "the performer fills the hole");
    assert!(!world.store.dump().unwrap().to_string().contains("secret-canary"), "and nobody else has seen it");
}

#[test]
fn a_rate_limit_lets_one_wait_for_the_other() {
    let mut world = World::new();
    let mut definition =
        workflow(json!([{"name": "n", "taskReferenceName": "n", "type": "NOOP", "startDelay": 60}]), json!({}));
    definition["rateLimitConfig"] = json!({"rateLimitKey": "${workflow.input.customer}", "concurrentExecLimit": 1});
    let id = world.push_workflow(&definition);
    let mut start =
        |customer: &str| world.admit(&format!("conductor:{id}"), None, json!({"customer": customer})).run.unwrap().id;
    let (a, b, c) = (start("x"), start("x"), start("y"));
    world.drain();
    assert_eq!((world.status(a), world.status(b), world.status(c)), (Status::Waiting, Status::Queued, Status::Waiting));
    world.run_down();
    assert_eq!(world.status(b), Status::Completed);
}

/// A loop with its scripts, a fork, a sub-workflow and what follows, with one death on the way.
fn with_a_death(death: Option<(usize, Death)>) -> (World, RunId) {
    let mut world = World::new();
    world.answer = Box::new(|request, _| {
        let stop = request.config["input"]["loop"]["iteration"].as_u64() >= Some(3);
        ok(json!({"result": !stop, "stop": stop}))
    });
    world.push_workflow(&json!({"name": "child", "tasks": [pick("c", "${workflow.input.x}")]}));
    let mut definition = looped(json!({}));
    let tasks = definition["tasks"].as_array_mut().unwrap();
    tasks.push(json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW",
        "inputParameters": {"x": "${t.output.result}"}, "subWorkflowParam": {"name": "child"}}));
    tasks.push(json!({"name": "v", "taskReferenceName": "v", "type": "SET_VARIABLE", "inputParameters": {"x": "${s.output.result}"}}));
    tasks.push(json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[noop("n")], [pick("p", "${workflow.variables.x}")]]}));
    tasks.push(json!({"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["n", "p"]}));
    definition["outputParameters"]["j"] = json!("${j.output}");
    world.die_at = death;
    let run = started(&mut world, definition, json!({}));
    (world, run)
}

#[test]
fn a_death_anywhere_changes_nothing() {
    let (world, run) = with_a_death(None);
    let expected = world.outputs(run);
    assert_eq!(expected["j"], json!({"p": {"result": "round 3"}}));
    for death in [Death::BeforeCommit, Death::AfterCommit, Death::BeforeEffect, Death::AfterEffect] {
        let mut deaths = 0;
        for boundary in 0..60 {
            let (world, run) = with_a_death(Some((boundary, death)));
            assert_eq!(world.status(run), Status::Completed, "{death:?} at {boundary}: {}", world.failure(run));
            assert_eq!(world.outputs(run), expected, "{death:?} at {boundary}");
            assert_eq!(world.runs().len(), 2, "{death:?} at {boundary}");
            deaths += world.deaths;
        }
        assert!(deaths >= 3, "{death:?} came {deaths} times");
    }
}
