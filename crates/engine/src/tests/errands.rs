//! Errands from the definition of a task to the end of its run: who gets them, and what each answer leads to.

use super::world::World;
use crate::api::{Control, ControlError, ErrandAnswer};
use crate::driver::Happened;
use semel_core::RunId;
use semel_core::ir::ErrandKind;
use semel_core::run::Status;
use semel_store::{Done, ErrandQueue, ErrandRow, Reads, Store, TASK_DEFINITIONS, TakeErrands, Work};
use serde_json::{Value as Json, json};

fn simple(reference: &str) -> Json {
    json!({"name": "charge", "taskReferenceName": reference, "type": "SIMPLE",
        "inputParameters": {"amount": "${workflow.input.amount}", "currency": null}})
}

fn define(world: &World, definition: Json) {
    let set = Work::KvSet {
        workspace: world.workspace.clone(),
        namespace: TASK_DEFINITIONS.to_owned(),
        key: "charge".to_owned(),
        value: definition,
        kv_type: "JSON".to_owned(),
        overwrite: true,
        ttl_ms: None,
    };
    world.store.call(set).unwrap();
}

fn started(world: &mut World, tasks: Json) -> RunId {
    let id =
        world.push_workflow(&json!({"name": "w", "tasks": tasks, "outputParameters": {"paid": "${a.output.paid}"}}));
    let run = world.admit(&format!("conductor:{id}"), None, json!({"amount": 5})).run.unwrap().id;
    world.drain();
    run
}

fn take(world: &World) -> Vec<ErrandRow> {
    let from = ErrandQueue { queue: "charge".to_owned(), domain: String::new() };
    let request = TakeErrands {
        workspace: world.workspace.clone(),
        from,
        worker: "w1".into(),
        count: 9,
        limit: None,
        rate: None,
        after: None,
    };
    match world.store.call(Work::TakeErrands(Box::new(request))).unwrap() {
        Done::Errands(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn answer(world: &mut World, row: &ErrandRow, end: ErrandAnswer) -> Result<(), ControlError> {
    let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
    world.control(row.run, Control::Errand { step, attempt, end, seen })
}

fn done() -> ErrandAnswer {
    ErrandAnswer::Done { output: json!({"paid": true}) }
}

fn failed(for_good: bool) -> ErrandAnswer {
    ErrandAnswer::Failed { message: "no funds".into(), output: Some(json!({"code": 51})), for_good }
}

/// The runs of errands that are late are told.
fn tell_late(world: &mut World) {
    let Done::Wake(runs) = world.store.call(Work::TellLate { limit: 9 }).unwrap() else { panic!("nobody was told") };
    for (workspace, run) in runs {
        world.happen(Happened::Wake { workspace, run });
    }
    world.drain();
}

#[test]
fn a_worker_gets_the_input_and_its_answer_is_the_output() {
    let mut world = World::new();
    define(&world, json!({"name": "charge", "inputTemplate": {"currency": "EUR", "amount": 1}, "retryCount": null}));
    let run = started(&mut world, json!([simple("a")]));
    assert_eq!(world.status(run), Status::Waiting);
    let rows = take(&world);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].more.request, Some(json!({"amount": 5, "currency": "EUR"})));
    answer(&mut world, &rows[0], done()).unwrap();
    world.run_down();
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, json!({"paid": true})));
    assert!(matches!(answer(&mut world, &rows[0], done()), Err(ControlError::NotPossible(_))), "a repeat");
    assert_eq!(world.store.errand(&world.workspace, rows[0].id).unwrap().map(|row| row.open), Some(false));
}

#[test]
fn a_dynamic_fork_gives_workers_tasks_by_the_definition_that_counts_for_each() {
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {"tasks": "${workflow.input.tasks}", "inputs": "${workflow.input.inputs}"}});
    let join = json!({"name": "j", "taskReferenceName": "j", "type": "JOIN"});
    let task = |reference: &str| json!({"name": "charge", "taskReferenceName": reference});
    let mut counted = task("counted");
    counted["retryCount"] = json!(2);
    let mut defined = task("defined");
    defined["taskDefinition"] = json!({"name": "charge", "retryCount": 1, "retryDelaySeconds": 0});
    let mut world = World::new();
    define(
        &world,
        json!({"name": "charge", "retryCount": 0, "retryDelaySeconds": 0, "inputTemplate": {"from": "template"}}),
    );
    let id =
        world.push_workflow(&json!({"name": "w", "tasks": [fork, join], "outputParameters": {"j": "${j.output}"}}));
    let input = json!({"tasks": [task("registered"), counted, defined], "inputs": {"registered": {"amount": 5}}});
    let run = world.admit(&format!("conductor:{id}"), None, input).run.unwrap().id;
    world.drain();
    let round = |row: &ErrandRow| row.more.step.iterations()[0].1;
    let mut rows = take(&world);
    rows.sort_by_key(round);
    let given: Vec<Json> = rows.iter().map(|row| row.more.request.clone().unwrap()).collect();
    assert_eq!(given, [json!({"amount": 5, "from": "template"}), json!({"from": "template"}), json!({})]);
    answer(&mut world, &rows[1], failed(false)).unwrap();
    answer(&mut world, &rows[2], failed(false)).unwrap();
    world.pass(1);
    let mut again = take(&world);
    again.sort_by_key(round);
    assert_eq!(again.iter().map(|row| (round(row), row.more.attempt)).collect::<Vec<_>>(), [(1, 2), (2, 2)]);
    answer(&mut world, &again[0], failed(false)).unwrap();
    world.pass(1);
    let last = take(&world).remove(0);
    assert_eq!((round(&last), last.more.attempt), (1, 3), "its own count is 2");
    for row in [&rows[0], &again[1], &last] {
        answer(&mut world, row, done()).unwrap();
    }
    world.run_down();
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    assert_eq!(world.outputs(run)["j"]["counted"], json!({"paid": true}));
}

#[test]
fn a_failed_attempt_is_set_out_again_with_the_same_request_even_after_a_crash() {
    let mut world = World::new();
    define(&world, json!({"retryCount": 1, "retryDelaySeconds": 5}));
    let run = started(&mut world, json!([simple("a")]));
    let first = take(&world).remove(0);
    answer(&mut world, &first, failed(false)).unwrap();
    world.restart();
    world.drain();
    assert_eq!(take(&world), [], "not before its time");
    world.pass(5_000);
    let second = take(&world).remove(0);
    assert_eq!((second.more.attempt, &second.more.request), (2, &first.more.request));
    assert_ne!(second.id, first.id);
    assert!(answer(&mut world, &first, done()).is_err(), "the first attempt was given up");
    answer(&mut world, &second, failed(false)).unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Failed);
    assert_eq!(world.failure(run)["message"], "no funds");
}

#[test]
fn a_worker_that_falls_silent_loses_the_errand() {
    let mut world = World::new();
    define(&world, json!({"retryCount": 3, "retryDelaySeconds": 0, "responseTimeoutSeconds": 10}));
    let run = started(&mut world, json!([simple("a")]));
    let first = take(&world).remove(0);
    world.pass(10_000);
    tell_late(&mut world);
    assert!(answer(&mut world, &first, done()).is_err(), "too late");
    let second = take(&world).remove(0);
    answer(&mut world, &second, done()).unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
}

#[test]
fn a_cancelled_run_takes_its_errands_back() {
    let mut world = World::new();
    let run = started(&mut world, json!([simple("a")]));
    world.control(run, Control::Cancel).unwrap();
    assert_eq!((world.status(run), take(&world)), (Status::Cancelled, vec![]));
}

#[test]
fn a_wait_ends_by_itself_and_a_person_is_waited_for() {
    let mut world = World::new();
    let wait =
        json!({"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "2 minutes"}});
    let human =
        json!({"name": "h", "taskReferenceName": "a", "type": "HUMAN", "inputParameters": {"ask": "${w.status}"}});
    let run = started(&mut world, json!([wait, human]));
    world.pass(119_000);
    tell_late(&mut world);
    assert!(world.store.errands(&world.workspace, ErrandKind::Human, None, 9).unwrap().is_empty());
    world.pass(1_000);
    tell_late(&mut world);
    let asked = world.store.errands(&world.workspace, ErrandKind::Human, None, 9).unwrap();
    assert_eq!(
        asked.iter().map(|row| row.more.request.clone()).collect::<Vec<_>>(),
        [Some(json!({"ask": "COMPLETED"}))]
    );
    answer(&mut world, &asked[0], done()).unwrap();
    world.run_down();
    assert_eq!((world.status(run), world.outputs(run)), (Status::Completed, json!({"paid": true})));
}

/// The domain that the one task of a run is for, that was started with this for it.
fn domain_of(world: &mut World, domains: Json) -> String {
    let id = world.push_workflow(&json!({"name": "w", "tasks": [simple("a")]}));
    let mut occurrence = world.occurrence(&format!("conductor:{id}"), None, json!({"amount": 5}));
    occurrence.trigger = json!({"taskToDomain": domains}).into();
    let run = world.try_admit(occurrence).unwrap().run.unwrap().id;
    world.drain();
    let rows = world.store.errands_of(&world.workspace, run).unwrap();
    rows[0].domain.clone()
}

fn polls(world: &World, domain: &str) {
    let request = TakeErrands {
        workspace: world.workspace.clone(),
        from: ErrandQueue { queue: "charge".to_owned(), domain: domain.to_owned() },
        worker: "w1".into(),
        count: 1,
        limit: None,
        rate: None,
        after: None,
    };
    world.services.polls.note(&request, world.store.now());
}

#[test]
fn of_several_domains_the_first_one_counts_that_somebody_asks_at() {
    let mut world = World::new();
    // Nobody asks: the last one, which may be none.
    assert_eq!(domain_of(&mut world, json!({"charge": "x, y"})), "y");
    assert_eq!(domain_of(&mut world, json!({"charge": "x,y,NO_DOMAIN"})), "");
    assert_eq!(domain_of(&mut world, json!({"charge": "x"})), "x");
    polls(&world, "y");
    assert_eq!(domain_of(&mut world, json!({"charge": "x,y,no_domain"})), "y");
    assert_eq!(domain_of(&mut world, json!({"*": "x,y,NO_DOMAIN"})), "y");
    assert_eq!(domain_of(&mut world, json!({"*": "x,y", "charge": "z,NO_DOMAIN"})), "", "its own name goes first");
    assert_eq!(domain_of(&mut world, json!({"other": "x,y"})), "");
    polls(&world, "x");
    assert_eq!(domain_of(&mut world, json!({"charge": "x,y,NO_DOMAIN"})), "x");
    // Ten seconds are too long ago.
    world.pass(10_000);
    assert_eq!(domain_of(&mut world, json!({"charge": "x,y,NO_DOMAIN"})), "");
}
