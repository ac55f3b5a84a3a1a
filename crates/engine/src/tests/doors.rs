//! What a door asks of whole runs: later starts, forced starts, other labels and states, replays as new runs.

use super::world::*;
use crate::api::{AdmitError, Control, ControlError};
use crate::driver::Happened;
use crate::replay::{ReplayError, ReplayWish, prepare_replay};
use semel_core::run::{By, Conclusion, EndStatus, Status, StepOutcome};
use semel_core::{Door, RunId};
use semel_store::{AdmitResult, Done, Reads, Store, Work};
use semel_tasks::Outcome;
use serde_json::json;

const SAY: &str = "id: say\nnamespace: n\ntasks:\n  - {id: a, type: log.Log, message: hi}\n";

fn refused(answer: Result<(), ControlError>) -> String {
    match answer {
        Err(ControlError::NotPossible(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

fn later(world: &mut World, flow: &str, ms: i64) -> AdmitResult {
    let at = world.store.now().plus(ms);
    let mut occurrence = world.occurrence(flow, Some("k"), json!({}));
    occurrence.start_at = Some(at);
    world.try_admit(occurrence).unwrap()
}

#[test]
fn a_run_with_a_date_is_made_now_and_starts_then() {
    let mut world = World::new();
    world.push(SAY);
    let run = later(&mut world, "say", 60_000).run.unwrap().id;
    world.drain();
    let row = world.row(run);
    assert_eq!((row.status, row.conclusion), (Status::Queued, Some(Conclusion::Scheduled)));
    assert_eq!(row.more.start_at, Some(world.store.now().plus(60_000)));
    let twin = world.admit("say", Some("k"), json!({}));
    assert_eq!(twin.run.unwrap().id, run, "its key is taken");
    world.restart();
    world.run_down();
    assert_eq!((world.status(run), world.row(run).conclusion), (Status::Completed, None));
    assert_eq!(world.row(run).started_at.map(|at| at.since(row.created_at)), Some(60_000));
}

#[test]
fn a_run_with_a_date_asks_its_lane_when_the_date_has_come() {
    for (behavior, status) in [("QUEUE", Status::Completed), ("CANCEL", Status::Cancelled), ("FAIL", Status::Failed)] {
        let mut world = World::new();
        world.push(&format!(
            "id: slow\nnamespace: n\nconcurrency: {{limit: 1, behavior: {behavior}}}\ntasks:\n  - {{id: a, type: flow.Sleep, duration: PT1H}}\n"
        ));
        let late = later(&mut world, "slow", 60_000).run.unwrap().id;
        let first = world.admit("slow", None, json!({})).run.unwrap().id;
        world.drain();
        assert_eq!((world.status(first), world.status(late)), (Status::Waiting, Status::Queued));
        world.run_down();
        assert_eq!((world.status(first), world.status(late)), (Status::Completed, status), "{behavior}");
        let by_rule = (status == Status::Cancelled).then_some(Conclusion::ByRule);
        assert_eq!(world.row(late).conclusion, by_rule);
    }
}

#[test]
fn a_run_that_a_full_lane_ends_says_why() {
    let mut world = World::new();
    world.push("id: slow\nnamespace: n\nconcurrency: {limit: 1, behavior: CANCEL}\ntasks:\n  - {id: a, type: flow.Sleep, duration: PT1H}\n");
    world.admit("slow", None, json!({}));
    let second = world.admit("slow", None, json!({})).run.unwrap();
    assert_eq!((second.status, second.conclusion), (Status::Cancelled, Some(Conclusion::ByRule)));
    assert_eq!(world.failure(second.id)["code"], "lane_busy");
}

/// Two runs of a lane of one: the second waits.
fn queued(world: &mut World) -> (RunId, RunId) {
    world.push(
        "id: slow\nnamespace: n\nconcurrency: {limit: 1}\ntasks:\n  - {id: a, type: flow.Sleep, duration: PT1H}\n",
    );
    let first = world.admit("slow", None, json!({})).run.unwrap().id;
    let second = world.admit("slow", Some("k"), json!({})).run.unwrap().id;
    world.drain();
    (first, second)
}

#[test]
fn a_run_that_waits_is_forced_past_the_limit() {
    let mut world = World::new();
    let (first, second) = queued(&mut world);
    assert!(refused(world.control(first, Control::ForceRun { queued: true })).contains("does not wait"));
    world.control(first, Control::ForceRun { queued: false }).unwrap();
    world.control(second, Control::ForceRun { queued: true }).unwrap();
    assert_eq!((world.status(first), world.status(second)), (Status::Waiting, Status::Waiting));
    let third = world.admit("slow", None, json!({})).run.unwrap().id;
    assert_eq!(world.status(third), Status::Queued);
    world.run_down();
    for run in [first, second, third] {
        assert_eq!(world.status(run), Status::Completed);
    }
    assert!(refused(world.control(second, Control::ForceRun { queued: false })).contains("ended"));
}

#[test]
fn a_forced_run_survives_every_death() {
    for death in [Death::BeforeCommit, Death::AfterCommit] {
        let mut world = World::new();
        let (_, second) = queued(&mut world);
        let boundary = world.boundary;
        world.die_at = Some((boundary, death));
        let ticket = world.interrupt(second, Control::ForceRun { queued: true });
        world.drain();
        assert_eq!(world.deaths, 1, "{death:?}");
        assert!(!world.answers.contains_key(&ticket));
        let expected = if death == Death::AfterCommit { Status::Waiting } else { Status::Queued };
        assert_eq!(world.status(second), expected, "{death:?}");
        world.run_down();
        assert_eq!(world.status(second), Status::Completed);
    }
}

#[test]
fn a_run_that_waits_is_taken_out_of_the_line() {
    let mut world = World::new();
    let (first, second) = queued(&mut world);
    assert!(refused(world.control(first, Control::Dequeue { status: EndStatus::Failed })).contains("slot"));
    world.control(second, Control::Dequeue { status: EndStatus::Cancelled }).unwrap();
    assert_eq!(world.row(second).conclusion, Some(Conclusion::ByRule));
    world.run_down();
    assert_eq!((world.status(first), world.status(second)), (Status::Completed, Status::Cancelled));
}

#[test]
fn labels_of_an_ended_run_are_replaced_but_for_the_systems_own() {
    let mut world = World::new();
    world.push(SAY);
    let mut occurrence = world.occurrence("say", None, json!({}));
    occurrence.labels = vec![("system.from".into(), "api".into()), ("team".into(), "red".into())];
    let run = world.try_admit(occurrence).unwrap().run.unwrap().id;
    world.drain();
    let ended = world.row(run).ended_at;
    world.pass(1_000);
    world.control(run, Control::SetLabels { labels: vec![("owner".into(), "me".into())] }).unwrap();
    let (row, _, labels) = world.store.run(&world.workspace, run).unwrap().unwrap();
    assert_eq!(labels, [("system.from".to_owned(), "api".to_owned()), ("owner".to_owned(), "me".to_owned())]);
    assert_eq!((row.status, row.ended_at), (Status::Completed, ended), "the end stays where it was");
}

#[test]
fn the_status_of_an_ended_run_changes_with_its_claim() {
    let mut world = World::new();
    world.push(
        "id: bad\nnamespace: n\nidempotency: {preset: kestra_guard}\ntasks:\n  - {id: a, type: execution.Fail}\n",
    );
    let run = world.admit("bad", Some("k"), json!({})).run.unwrap().id;
    world.drain();
    assert_eq!(world.status(run), Status::Failed);
    let change = |status| Control::ChangeStatus { status, warned: false, conclusion: None };
    world.control(run, change(EndStatus::Completed)).unwrap();
    assert_eq!(world.status(run), Status::Completed);
    let twin = world.admit("bad", Some("k"), json!({}));
    assert!(!twin.created, "what succeeded is not run again");
    world.control(run, change(EndStatus::Failed)).unwrap();
    assert!(world.admit("bad", Some("k"), json!({})).created);
}

#[test]
fn a_failed_step_is_called_done_by_its_id_and_the_run_goes_on() {
    let mut world = World::new();
    world.push(
        "id: two\nnamespace: n\ntasks:\n  - {id: a, type: execution.Fail}\n  - {id: b, type: log.Log, message: on}\n",
    );
    let run = world.admit("two", None, json!({})).run.unwrap().id;
    world.drain();
    let mark = |step: &str| Control::MarkStep { step: step.to_owned(), outcome: StepOutcome::Success };
    assert!(refused(world.control(run, mark("b"))).contains("did not fail"));
    let id = semel_core::run::step_id(run, 0, 0, &semel_core::run::StepKey("a".into())).hex();
    world.control(run, mark(&id)).unwrap();
    assert_eq!(
        (world.status(run), world.logs(run)),
        (Status::Completed, vec!["Task failure".to_owned(), "on".to_owned()])
    );
    let (_, _, labels) = world.store.run(&world.workspace, run).unwrap().unwrap();
    assert!(labels.contains(&("system.restarted".to_owned(), "true".to_owned())));
}

const STEPS: &str = r#"id: steps
namespace: n
inputs:
  - {id: who, type: STRING, defaults: me}
variables: {mood: calm}
tasks:
  - {id: first, type: http.Request, uri: "http://x/first", method: POST}
  - {id: set, type: execution.SetVariables, variables: {mood: "{{ inputs.who }}"}}
  - id: each
    type: flow.ForEach
    values: [p, q]
    tasks:
      - {id: item, type: debug.Return, format: "{{ taskrun.value }}!"}
  - {id: last, type: http.Request, uri: "http://x/last/{{ vars.mood }}{{ outputs.item.q.value }}{{ outputs.first.code }}", method: POST}
outputs:
  - {id: original, type: STRING, value: "{{ execution.originalId }}"}
"#;

fn replayed(world: &mut World, run: RunId, wish: &ReplayWish) -> Result<AdmitResult, ReplayError> {
    let by = By { who: "tester".into(), why: String::new() };
    let now = world.store.now();
    let request = prepare_replay(&world.services, &world.flows, &world.workspace, run, wish, &by, now)?;
    let Done::Admitted(result) = world.store.call(Work::Admit(Box::new(request)))? else { panic!() };
    world.checked();
    for run in &result.wake {
        world.happen(Happened::Wake { workspace: world.workspace.clone(), run: *run });
    }
    world.drain();
    Ok(*result)
}

fn from(task: &str) -> ReplayWish {
    ReplayWish { from: Some(task.to_owned()), ..ReplayWish::default() }
}

#[test]
fn a_replay_is_a_new_run_that_begins_where_it_is_told() {
    let mut world = World::new();
    world.push(STEPS);
    let old = world.admit("steps", Some("k"), json!({})).run.unwrap().id;
    world.drain();
    assert_eq!((world.calls_to("/first"), world.calls_to("/last/mep!200")), (1, 0));
    assert_eq!(world.calls_to("/last/meq!200"), 1);
    let new = replayed(&mut world, old, &from("last")).unwrap().run.unwrap().id;
    assert_eq!(world.status(new), Status::Completed);
    assert_eq!((world.calls_to("/first"), world.calls_to("/last/meq!200")), (1, 2), "only the last step again");
    let keys: Vec<_> = world.calls.iter().map(|call| call.key.clone()).collect();
    assert_ne!(keys[1], keys[2], "a replay is meant to arrive");
    let row = world.row(new);
    assert_eq!((row.more.replay_of, row.original(), row.claim), (Some(old), old, None));
    assert_eq!(row.correlation_id, world.row(old).correlation_id);
    assert_eq!(world.outputs(new)["original"], old.to_string());
    let label = |run| world.store.run(&world.workspace, run).unwrap().unwrap().2;
    assert_eq!(label(old), [("system.replayed".to_owned(), "true".to_owned())]);
    assert_eq!(label(new), [("system.replay".to_owned(), "true".to_owned())]);
    let again = replayed(&mut world, new, &ReplayWish::default()).unwrap().run.unwrap().id;
    assert_eq!((world.calls_to("/first"), world.row(again).original()), (2, old));
}

#[test]
fn a_replay_takes_other_inputs_and_begins_at_a_step_id() {
    let mut world = World::new();
    world.push(STEPS);
    let old = world.admit("steps", None, json!({})).run.unwrap().id;
    world.drain();
    let step = semel_core::run::step_id(old, 0, 0, &semel_core::run::StepKey("set".into())).hex();
    let wish = ReplayWish { inputs: Some(json!({"who": "you"})), ..from(&step) };
    replayed(&mut world, old, &wish).unwrap();
    assert_eq!((world.calls_to("/first"), world.calls_to("/last/youq!200")), (1, 1));
}

#[test]
fn a_replay_is_refused_where_it_cannot_be_right() {
    let mut world = World::new();
    world.push(STEPS);
    world.answer = Box::new(|request, _| match request.config["uri"].as_str() {
        Some("http://x/first") => {
            Outcome::FailedClean { code: "http_500", message: "no".into(), output: None, retryable: false }
        }
        _ => ok(json!({"code": 200})),
    });
    let run = world.admit("steps", None, json!({})).run.unwrap().id;
    world.drain();
    let why = |world: &mut World, wish: ReplayWish| match replayed(world, run, &wish) {
        Err(ReplayError::NotPossible(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(why(&mut world, from("last")).contains("never reached"));
    assert!(why(&mut world, from("item")).contains("no step"));
    assert!(why(&mut world, ReplayWish { revision: Some(7), ..from("first") }).contains("no flow"));
    assert!(replayed(&mut world, RunId::from_bytes([9; 16]), &from("a")).is_err());
    world.push(SAY.replace("log.Log, message: hi", "flow.Sleep, duration: PT1H").as_str());
    let open = world.admit("say", None, json!({})).run.unwrap().id;
    world.drain();
    assert!(matches!(replayed(&mut world, open, &ReplayWish::default()), Err(ReplayError::NotPossible(_))));
}

#[test]
fn checks_refuse_or_fail_a_run_before_it_begins() {
    let flow = |behavior: &str| {
        format!(
            "id: c\nnamespace: n\ninputs:\n  - {{id: n, type: INT}}\nchecks:\n  - {{condition: \"{{{{ inputs.n > 3 }}}}\", message: too small, behavior: {behavior}}}\ntasks:\n  - {{id: a, type: log.Log, message: hi}}\n"
        )
    };
    let mut world = World::new();
    world.push(&flow("BLOCK_EXECUTION"));
    let small = world.occurrence("c", Some("k"), json!({"n": 1}));
    assert_eq!(world.try_admit(small.clone()).unwrap_err(), AdmitError::Checks(vec!["too small".into()]));
    assert!(world.admit("c", Some("k"), json!({"n": 4})).created, "the key was not spent");
    let mut tick = small.clone();
    (tick.door, tick.caller_key) = (Door::Schedule, None);
    assert!(world.try_admit(tick).is_ok(), "nobody is there to be told");
    world.push(&flow("FAIL_EXECUTION"));
    let run = world.admit("c", None, json!({"n": 1})).run.unwrap();
    assert_eq!((run.status, world.failure(run.id)["message"].as_str()), (Status::Failed, Some("too small")));
    world.push(&flow("CREATE_EXECUTION"));
    let run = world.admit("c", None, json!({"n": 1})).run.unwrap().id;
    world.drain();
    assert_eq!(world.status(run), Status::Completed);
}

#[test]
fn variables_are_set_merged_and_taken_away() {
    let mut world = World::new();
    world.push(
        r#"id: v
namespace: n
inputs:
  - {id: raw, type: STRING}
variables: {a: 1, deep: {x: "{{ flow.id }}", y: 2}}
tasks:
  - {id: set, type: io.kestra.plugin.core.execution.SetVariables, variables: {b: "{{ 1 + 1 }}", deep: {y: "{{ inputs.raw }}"}, token: "{{ secret('TOKEN') }}"}}
  - {id: say, type: log.Log, message: "{{ vars.a }} {{ vars.b }} {{ vars.deep.x }} {{ vars.deep.y }}"}
  - {id: unset, type: execution.UnsetVariables, variables: [a, token]}
  - {id: gone, type: log.Log, message: "{{ vars.a ?? 'none' }}"}
  - {id: twice, type: execution.SetVariables, variables: {b: 3}, overwrite: false, allowFailure: true}
  - {id: missing, type: execution.UnsetVariables, variables: [a], ignoreMissing: true}
"#,
    );
    let run = world.admit("v", None, json!({"raw": "{{ flow.id }}"})).run.unwrap().id;
    world.drain();
    assert_eq!(world.logs(run)[..2], ["1 2 v {{ flow.id }}", "none"], "what a task sets is not rendered again");
    assert!(world.row(run).warned, "`b` was there");
    assert!(!world.store.dump().unwrap().to_string().contains("secret-canary"));
}

#[test]
fn what_comes_after_the_end_knows_the_end() {
    let mut world = World::new();
    world.push(
        "id: a\nnamespace: n\ntasks:\n  - {id: bad, type: execution.Fail}\nafterExecution:\n  - {id: tell, type: log.Log, message: \"it is {{ execution.state }}\"}\n  - {id: worse, type: execution.Fail}\n",
    );
    let run = world.admit("a", None, json!({})).run.unwrap().id;
    world.drain();
    assert_eq!(world.status(run), Status::Failed);
    assert_eq!(world.failure(run)["step"], "bad");
    assert!(world.logs(run).contains(&"it is FAILED".to_owned()), "{:?}", world.logs(run));
}

#[test]
fn an_sla_is_kept_over_a_death() {
    let mut world = World::new();
    world.push(
        "id: s\nnamespace: n\nsla:\n  - {id: fast, type: MAX_DURATION, duration: PT10M, behavior: CANCEL, labels: {late: \"yes\"}}\n  - {id: right, type: EXECUTION_ASSERTION, assert: \"{{ outputs.a.value == 'x' }}\", behavior: NONE, labels: {wrong: \"yes\"}}\ntasks:\n  - {id: a, type: debug.Return, format: y}\n  - {id: b, type: flow.Sleep, duration: PT1H}\n",
    );
    let run = world.admit("s", None, json!({})).run.unwrap().id;
    world.drain();
    world.restart();
    world.run_down();
    let (row, values, labels) = world.store.run(&world.workspace, run).unwrap().unwrap();
    assert_eq!((row.status, row.conclusion), (Status::Cancelled, Some(Conclusion::ByRule)));
    assert_eq!(values.failure.unwrap()["code"], "sla");
    assert_eq!(labels, [("wrong".to_owned(), "yes".to_owned()), ("late".to_owned(), "yes".to_owned())]);
}

#[test]
fn a_task_kills_another_run_and_a_sub_run_comes_later() {
    let mut world = World::new();
    world.push("id: slow\nnamespace: n\ntasks:\n  - {id: a, type: flow.Sleep, duration: PT1H}\n");
    world.push("id: killer\nnamespace: n\ninputs:\n  - {id: run, type: STRING}\ntasks:\n  - {id: k, type: execution.Kill, executionId: \"{{ inputs.run }}\"}\n");
    let victim = world.admit("slow", None, json!({})).run.unwrap().id;
    world.drain();
    let killer = world.admit("killer", None, json!({"run": victim.to_string()})).run.unwrap().id;
    let lost = world.admit("killer", None, json!({"run": "nobody"})).run.unwrap().id;
    world.drain();
    assert_eq!((world.status(victim), world.status(killer)), (Status::Cancelled, Status::Completed));
    assert_eq!(world.status(lost), Status::Failed);

    world.push("id: parent\nnamespace: n\ntasks:\n  - {id: c, type: flow.Subflow, namespace: n, flowId: say, scheduleDate: \"2030-01-01T00:00:00Z\"}\n");
    world.push(SAY);
    let parent = world.admit("parent", None, json!({})).run.unwrap().id;
    world.drain();
    let child = world.runs().into_iter().find(|run| run.parent.is_some()).unwrap();
    assert_eq!((child.status, child.conclusion), (Status::Queued, Some(Conclusion::Scheduled)));
    world.run_down();
    assert_eq!((world.status(parent), world.status(child.id)), (Status::Completed, Status::Completed));
}

#[test]
fn a_restart_makes_another_sub_run_where_its_author_wants_that() {
    for (behavior, runs) in [("RETRY_FAILED", 1), ("NEW_EXECUTION", 2)] {
        let mut world = World::new();
        world.push("id: bad\nnamespace: n\ntasks:\n  - {id: a, type: execution.Fail}\n");
        world.push(&format!("id: parent\nnamespace: n\ntasks:\n  - {{id: c, type: flow.Subflow, namespace: n, flowId: bad, restartBehavior: {behavior}}}\n"));
        let parent = world.admit("parent", None, json!({})).run.unwrap().id;
        world.drain();
        world.control(parent, Control::Restart).unwrap();
        assert_eq!(world.runs().iter().filter(|run| run.parent.is_some()).count(), runs, "{behavior}");
    }
}
