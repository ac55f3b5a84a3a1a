//! What people ask of Conductor's workflows, from the request to the rows.

use super::world::World;
use crate::api::{Asking, Control, ControlError, ErrandAnswer, ErrandTold};
use semel_core::admission::PresetName;
use semel_core::run::{Seen, Status, StepKey};
use semel_core::{FlowRef, RunId};
use semel_store::Reads;
use serde_json::{Value as Json, json};

fn simple(reference: &str) -> Json {
    json!({"name": "charge", "taskReferenceName": reference, "type": "SIMPLE",
        "inputParameters": {"n": "${workflow.input.n}", "v": "${workflow.variables.v}"}})
}

fn pick(reference: &str, value: &str) -> Json {
    json!({"name": "p", "taskReferenceName": reference, "type": "INLINE",
        "inputParameters": {"evaluatorType": "value-param", "expression": "v", "v": value}})
}

fn broken(reference: &str) -> Json {
    json!({"name": "j", "taskReferenceName": reference, "type": "JSON_JQ_TRANSFORM",
        "inputParameters": {"queryExpression": "if .ok then 1 else error end", "ok": "${workflow.input.ok}"}})
}

fn start(world: &mut World, definition: Json, input: Json) -> RunId {
    let id = world.push_workflow(&definition);
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.drain();
    run
}

fn ask(world: &mut World, run: RunId, wish: Asking) -> Result<(), ControlError> {
    world.control(run, Control::Wish { wish: Box::new(wish) })
}

fn redo(step: Option<&str>) -> Asking {
    let step = step.map(|step| StepKey(step.to_owned()));
    Asking::Redo { step, flow: None, inputs: None, task_input: None, correlation_id: None }
}

/// The open errands of a run: reference and what whoever takes it is given.
fn out(world: &World, run: RunId) -> Vec<(String, Json)> {
    let rows = world.rows("errands");
    let open = rows.iter().filter(|row| row["run"] == json!(run.to_string()) && row["open"] == json!(true));
    open.map(|row| (row["more"]["step"].as_str().unwrap().to_owned(), row["more"]["request"].clone())).collect()
}

fn answer(world: &mut World, run: RunId, step: &str, output: Json) {
    let end = ErrandAnswer::Done { output };
    let control = Control::Errand { step: StepKey(step.to_owned()), attempt: 1, end, seen: Seen::default() };
    world.control(run, control).unwrap();
}

#[test]
fn a_reason_is_kept_and_the_failure_workflow_started_if_asked() {
    for as_failed in [false, true] {
        let mut world = World::new();
        world.push_workflow(
            &json!({"name": "sorry", "tasks": [pick("c", "${workflow.input.reason} ${workflow.input.failureStatus}")]}),
        );
        let definition = json!({"name": "w", "tasks": [simple("a")], "failureWorkflow": "sorry"});
        let run = start(&mut world, definition, json!({}));
        for _ in 0..2 {
            ask(&mut world, run, Asking::Terminate { reason: "enough".into(), as_failed }).unwrap();
        }
        world.run_down();
        assert_eq!((world.status(run), world.row(run).conclusion), (Status::Cancelled, None));
        assert_eq!(world.failure(run)["message"], "enough");
        assert!(out(&world, run).is_empty());
        let others: Vec<RunId> = world.runs().iter().map(|row| row.id).filter(|id| *id != run).collect();
        assert_eq!(others.len(), usize::from(as_failed));
        if let Some(other) = others.first() {
            assert_eq!(world.outputs(*other), json!({"result": "enough TERMINATED"}));
        }
    }
}

#[test]
fn a_failed_run_is_ended_after_the_fact_and_a_completed_one_is_not() {
    let mut world = World::new();
    let run = start(&mut world, json!({"name": "w", "tasks": [broken("a")]}), json!({}));
    assert_eq!(world.status(run), Status::Failed);
    ask(&mut world, run, Asking::Terminate { reason: "given up".into(), as_failed: false }).unwrap();
    assert_eq!((world.status(run), world.failure(run)["message"].clone()), (Status::Cancelled, json!("given up")));
    let run = start(&mut world, json!({"name": "x", "tasks": [pick("a", "1")]}), json!({}));
    assert!(ask(&mut world, run, Asking::Terminate { reason: String::new(), as_failed: false }).is_err());
}

#[test]
fn a_restart_does_all_of_it_again_by_the_newest_definition() {
    let mut world = World::new();
    let run = start(&mut world, json!({"name": "w", "tasks": [pick("a", "one")]}), json!({}));
    assert_eq!(world.outputs(run), json!({"result": "one"}));
    let newest = world.push_workflow(&json!({"name": "w", "version": 2, "tasks": [pick("a", "two"), simple("b")]}));
    let flow = FlowRef::new("conductor", newest);
    let latest = Asking::Redo {
        step: None,
        flow: Some((flow.clone(), 1)),
        inputs: None,
        task_input: None,
        correlation_id: None,
    };
    for _ in 0..2 {
        ask(&mut world, run, latest.clone()).unwrap();
    }
    assert_eq!((world.row(run).flow, world.row(run).take), (flow, 1), "a repeat begins nothing");
    // What a node reads back is what it had in memory.
    world.restart();
    world.drain();
    answer(&mut world, run, "b", json!({"x": 1}));
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, json!({"x": 1})));
    let unknown = Asking::Redo {
        step: None,
        flow: Some((FlowRef::new("conductor", "nobody@1"), 1)),
        inputs: None,
        task_input: None,
        correlation_id: None,
    };
    assert!(ask(&mut world, run, unknown).is_err());
    assert_eq!(world.status(run), Status::Completed, "a refusal changes nothing");
}

#[test]
fn a_rerun_begins_at_a_task_in_a_fork_with_what_it_is_given() {
    let mut world = World::new();
    let definition = json!({"name": "w", "tasks": [
        pick("first", "${workflow.input.n}"),
        {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN",
         "forkTasks": [[pick("a", "${workflow.input.n}"), simple("b")], [pick("c", "${workflow.input.n}")]]},
        {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["b", "c"]},
    ], "outputParameters": {"first": "${first.output.result}", "a": "${a.output.result}", "b": "${b.output.x}", "c": "${c.output.result}",
        "j": "${j.output.b.x}", "cid": "${workflow.correlationId}"}});
    let run = start(&mut world, definition, json!({"n": 1}));
    answer(&mut world, run, "f/f~0/b", json!({"x": "old"}));
    assert_eq!(world.outputs(run), json!({"first": 1, "a": 1, "b": "old", "c": 1, "j": "old", "cid": null}));
    let rerun = Asking::Redo {
        step: Some(StepKey("f/f~0/b".into())),
        flow: None,
        inputs: Some(json!({"n": 2})),
        task_input: Some(json!({"given": true})),
        correlation_id: Some("order-1".into()),
    };
    for _ in 0..2 {
        ask(&mut world, run, rerun.clone()).unwrap();
    }
    assert_eq!(out(&world, run), [("f/f~0/b".to_owned(), json!({"given": true}))]);
    world.restart();
    world.drain();
    answer(&mut world, run, "f/f~0/b", json!({"x": "new"}));
    let expected = json!({"first": 1, "a": 1, "b": "new", "c": 1, "j": "new", "cid": "order-1"});
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, expected));
    let (row, values, _) = world.store.run(&world.workspace, run).unwrap().unwrap();
    assert_eq!((row.correlation_id.as_str(), values.inputs), ("order-1", Some(json!({"n": 2}))));
    assert!(ask(&mut world, run, redo(Some("nowhere"))).is_err());
}

#[test]
fn a_rerun_in_a_loop_keeps_the_rounds_before() {
    let mut world = World::new();
    let task = json!({"name": "l", "taskReferenceName": "each", "type": "DO_WHILE", "items": "${workflow.input.items}",
        "loopCondition": "", "loopOver": [pick("t", "${each.output.loopItem}"), simple("s")]});
    let definition = json!({"name": "w", "tasks": [task], "outputParameters": {"all": "${each.output}"}});
    let run = start(&mut world, definition, json!({"items": ["a", "b"]}));
    answer(&mut world, run, "each[0]/s", json!({"x": 1}));
    world.run_down();
    answer(&mut world, run, "each[1]/s", json!({"x": 2}));
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    let round = |item: &str, x: u32| json!({"t": {"result": item}, "s": {"x": x}});
    ask(&mut world, run, redo(Some("each[0]/s"))).unwrap();
    assert_eq!(out(&world, run)[0].0, "each[0]/s");
    answer(&mut world, run, "each[0]/s", json!({"x": 10}));
    world.run_down();
    answer(&mut world, run, "each[1]/s", json!({"x": 20}));
    world.run_down();
    let got = world.outputs(run)["all"].clone();
    assert_eq!((&got["1"], &got["2"], &got["iteration"]), (&round("a", 10), &round("b", 20), &json!(2)));
}

fn parent_and_child(world: &mut World) -> (RunId, RunId) {
    world.push_workflow(
        &json!({"name": "child", "tasks": [simple("c"), broken("d")], "outputParameters": {"x": "${d.output.result}"}}),
    );
    let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW",
        "inputParameters": {"ok": "${workflow.variables.ok}"}, "subWorkflowParam": {"name": "child"}});
    let parent = start(world, json!({"name": "w", "tasks": [sub, pick("after", "${s.output.x}")]}), json!({}));
    let child = world.runs().iter().map(|row| row.id).find(|id| *id != parent).unwrap();
    answer(world, child, "c", json!({}));
    assert_eq!((world.status(parent), world.status(child)), (Status::Failed, Status::Failed));
    (parent, child)
}

#[test]
fn a_retry_begins_a_new_sub_workflow_or_goes_on_with_the_failed_one() {
    for anew in [true, false] {
        let mut world = World::new();
        let (parent, child) = parent_and_child(&mut world);
        ask(&mut world, parent, Asking::Retry { anew }).unwrap();
        let runs = world.runs().len();
        assert_eq!(runs, if anew { 3 } else { 2 });
        // The failed one did its first task already, and fails again at once; the new one waits for it to be done.
        assert_eq!((world.status(parent).is_ended(), world.status(child)), (!anew, Status::Failed));
    }
}

#[test]
fn a_sub_workflow_that_goes_on_takes_its_parent_with_it() {
    let mut world = World::new();
    let (parent, child) = parent_and_child(&mut world);
    let rerun = Asking::Redo {
        step: Some(StepKey("d".into())),
        flow: None,
        inputs: Some(json!({"ok": true})),
        task_input: None,
        correlation_id: None,
    };
    ask(&mut world, child, rerun).unwrap();
    world.run_down();
    assert_eq!((world.status(parent), world.status(child)), (Status::Completed, Status::Completed));
    assert_eq!(world.outputs(parent), json!({"result": 1}));
}

#[test]
fn a_task_is_skipped_with_the_output_that_was_given() {
    let mut world = World::new();
    let definition = json!({"name": "w", "tasks": [simple("a"), simple("b"), pick("c", "${b.output.x} ${b.status}")]});
    let run = start(&mut world, definition, json!({}));
    let skip = |task: &str| Asking::Skip { task: task.into(), input: None, output: Some(json!({"x": "given"})) };
    assert!(ask(&mut world, run, skip("a")).is_err());
    for _ in 0..2 {
        ask(&mut world, run, skip("b")).unwrap();
    }
    world.restart();
    world.drain();
    answer(&mut world, run, "a", json!({}));
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, json!({"result": "given SKIPPED"})));
}

#[test]
fn variables_and_a_result_are_told_in_one_commit() {
    let mut world = World::new();
    let run = start(&mut world, json!({"name": "w", "tasks": [simple("a"), simple("b")]}), json!({}));
    let tell = |attempt: u32| {
        let told = ErrandTold {
            step: StepKey("a".into()),
            attempt,
            end: ErrandAnswer::Done { output: json!({}) },
            seen: Seen::default(),
        };
        Asking::Tell { variables: Some(json!({"v": 7})), errand: Some(Box::new(told)) }
    };
    assert!(ask(&mut world, run, tell(9)).is_err(), "neither happens");
    let version = world.row(run).version;
    ask(&mut world, run, tell(1)).unwrap();
    assert_eq!(world.row(run).version, version + 1);
    assert_eq!(out(&world, run)[0].1["v"], 7);
}

#[test]
fn a_run_jumps_and_goes_on_by_another_definition() {
    let mut world = World::new();
    let run = start(&mut world, json!({"name": "w", "tasks": [simple("a"), simple("b"), simple("c")]}), json!({}));
    ask(&mut world, run, Asking::Jump { task: "c".into(), input: Some(json!({"why": "jump"})) }).unwrap();
    assert_eq!(out(&world, run), [("c".to_owned(), json!({"why": "jump"}))]);
    let newest = world.push_workflow(&json!({"name": "w", "version": 2,
        "tasks": [simple("a"), pick("new", "x"), simple("c"), pick("d", "${new.output.y}")]}));
    let upgrade = Asking::Upgrade {
        flow: FlowRef::new("conductor", newest),
        revision: 1,
        inputs: Some(json!({"n": 3})),
        outputs: json!({"new": {"y": "passed"}}),
    };
    ask(&mut world, run, upgrade).unwrap();
    world.restart();
    world.drain();
    answer(&mut world, run, "c", json!({}));
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, json!({"result": "passed"})));
}

#[test]
fn an_older_run_stays_closed_while_a_newer_one_has_its_key() {
    let mut world = World::new();
    let id = world.push_workflow(&json!({"name": "w", "tasks": [simple("a")]}));
    let begin = |world: &mut World| {
        let mut occurrence = world.occurrence(&format!("conductor:{id}"), Some("k"), json!({}));
        occurrence.request_preset = Some(PresetName::ConductorFailOnRunning);
        let run = world.try_admit(occurrence).unwrap().run.unwrap().id;
        world.drain();
        run
    };
    let first = begin(&mut world);
    ask(&mut world, first, Asking::Terminate { reason: "x".into(), as_failed: false }).unwrap();
    let second = begin(&mut world);
    assert_ne!(first, second);
    for wish in [redo(None), Asking::Retry { anew: true }] {
        let refused = ask(&mut world, first, wish).unwrap_err();
        assert!(refused.to_string().contains("has the key of this one"), "{refused}");
    }
    assert_eq!(world.status(first), Status::Cancelled);
    ask(&mut world, second, Asking::Terminate { reason: "x".into(), as_failed: false }).unwrap();
    ask(&mut world, first, redo(None)).unwrap();
    assert_eq!(world.status(first), Status::Waiting);
}

#[test]
fn a_run_jumps_inside_of_a_fork_and_of_a_loop() {
    let mut world = World::new();
    let branches = json!([[simple("a"), simple("b"), simple("c")], [simple("beside"), simple("last")]]);
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches});
    let join = json!({"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["c", "last"]});
    let run = start(&mut world, json!({"name": "forks", "tasks": [fork, join]}), json!({}));
    let names = |world: &World| out(world, run).into_iter().map(|(step, _)| step).collect::<Vec<_>>();
    let refused = ask(&mut world, run, Asking::Jump { task: "nowhere".into(), input: None }).unwrap_err();
    assert!(refused.to_string().contains("is not a task of this flow"), "{refused}");
    ask(&mut world, run, Asking::Jump { task: "c".into(), input: Some(json!({"why": "jump"})) }).unwrap();
    assert_eq!(names(&world).len(), 2, "the other branch goes on: {:?}", names(&world));
    assert!(out(&world, run).iter().any(|(step, given)| step.ends_with('c') && *given == json!({"why": "jump"})));
    ask(&mut world, run, Asking::Jump { task: "a".into(), input: None }).unwrap();
    world.restart();
    world.drain();
    for task in ["a", "b", "c", "beside", "last"] {
        let step =
            out(&world, run).into_iter().map(|(step, _)| step).find(|step| step.rsplit('/').next() == Some(task));
        answer(&mut world, run, &step.unwrap_or_else(|| panic!("`{task}` is not out")), json!({"of": task}));
    }
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    world.checked();

    let looped = json!({"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "items": "${workflow.input.items}",
        "loopOver": [simple("d"), simple("e")]});
    let run = start(&mut world, json!({"name": "loops", "tasks": [looped]}), json!({"items": [1, 2]}));
    for (jump, then) in [("e", "l[0]/e"), ("d", "l[0]/d")] {
        ask(&mut world, run, Asking::Jump { task: jump.into(), input: None }).unwrap();
        assert_eq!(out(&world, run).into_iter().map(|(step, _)| step).collect::<Vec<_>>(), [then]);
    }
    for step in ["l[0]/d", "l[0]/e", "l[1]/d"] {
        answer(&mut world, run, step, json!({}));
        world.run_down();
    }
    ask(&mut world, run, Asking::Jump { task: "d".into(), input: None }).unwrap();
    for step in ["l[1]/d", "l[1]/e"] {
        answer(&mut world, run, step, json!({}));
        world.run_down();
    }
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    world.checked();
}
