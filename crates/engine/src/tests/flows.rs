//! Whole flows: control, lanes, policies, sub-runs, secrets.

use super::world::{World, ok};
use crate::api::{AdmitError, Control};
use crate::driver::{Driver, Happened};
use crate::flows::Flows;
use semel_core::admission::{Decision, KeyError, Reason};
use semel_core::limits::Limits;
use semel_core::run::Status;
use semel_store::Reads;
use semel_tasks::Outcome;
use serde_json::json;

fn lost() -> Outcome {
    Outcome::Lost { code: "timeout", message: "no answer".into() }
}

fn refused(code: u16) -> Outcome {
    Outcome::FailedClean { code: "http_status", message: format!("status {code}"), output: None, retryable: true }
}

#[test]
fn branches_loops_and_outputs() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
inputs: [{id: kind, type: STRING}]
variables: {greeting: "hi {{ inputs.kind }}"}
tasks:
  - id: choose
    type: flow.Switch
    value: "{{ inputs.kind }}"
    cases:
      a: [{id: in_a, type: debug.Return, format: "case a"}]
    defaults: [{id: in_default, type: debug.Return, format: "default"}]
  - id: maybe
    type: flow.If
    condition: "{{ inputs.kind == 'a' }}"
    then: [{id: yes, type: debug.Return, format: "{{ vars.greeting }}"}]
    else: [{id: no, type: debug.Return, format: "no"}]
  - id: all
    type: flow.Parallel
    tasks:
      - {id: p1, type: debug.Return, format: "1"}
      - {id: p2, type: debug.Return, format: "2"}
  - id: each
    type: flow.ForEach
    values: ["x", "y"]
    concurrencyLimit: 2
    tasks:
      - {id: item, type: debug.Return, format: "{{ taskrun.value }}{{ taskrun.iteration }}"}
      - {id: again, type: debug.Return, format: "{{ outputs.item[taskrun.value].value }}!"}
  - {id: skipped, type: debug.Return, format: "never", runIf: "{{ inputs.kind == 'zzz' }}"}
  - {id: labelled, type: execution.Labels, labels: {kind: "{{ inputs.kind }}"}}
outputs:
  - {id: yes, value: "{{ outputs.yes.value ?? 'none' }}"}
  - {id: items, value: "{{ outputs.again }}"}
  - {id: sum, value: "{{ outputs.p1.value ~ outputs.p2.value }}"}
"#,
    );
    let run = world.admit("f", None, json!({"kind": "a"})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let outputs = world.outputs(run);
    assert_eq!(outputs["yes"], "hi a");
    assert_eq!(outputs["items"], json!({"x": {"value": "x0!"}, "y": {"value": "y1!"}}));
    assert_eq!(outputs["sum"], "12");
    let labels = world.store.run(&world.workspace, run).unwrap().unwrap().2;
    assert!(labels.contains(&("kind".to_owned(), "a".to_owned())));
}

#[test]
fn retries_keep_the_key_and_handlers_run() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
tasks:
  - id: call
    type: http.Request
    method: POST
    uri: http://x/pay
    retry: {type: constant, interval: PT1S, maxAttempts: 3}
errors:
  - {id: alarm, type: log.Log, message: "failed"}
finally:
  - {id: always, type: log.Log, message: "cleanup"}
"#,
    );
    world.answer = Box::new(|_, n| if n < 2 { refused(500) } else { ok(json!({"code": 200})) });
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    assert_eq!(world.calls.len(), 3);
    assert!(world.calls.iter().all(|c| c.key == world.calls[0].key && c.key.is_some()));
    assert_eq!(world.logs(run), ["status 500", "status 500", "cleanup"]);

    world.answer = Box::new(|_, _| refused(500));
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Failed);
    assert_eq!(world.logs(run), ["status 500", "status 500", "status 500", "failed", "cleanup"]);
    assert_eq!(world.failure(run)["code"], "http_status");
}

#[test]
fn a_failed_run_is_resumed_by_its_twin_and_keeps_finished_effects() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
idempotency: {key: "{{ inputs.id }}"}
inputs: [{id: id, type: STRING}]
tasks:
  - {id: first, type: http.Request, method: POST, uri: http://x/first}
  - {id: second, type: http.Request, method: POST, uri: http://x/second}
"#,
    );
    world.answer =
        Box::new(|r, n| if r.config["uri"] == "http://x/second" && n == 0 { refused(500) } else { ok(json!({})) });
    let run = world.admit("f", None, json!({"id": "e1"})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Failed);
    let other = world.occurrence("f", None, json!({"id": "e1"}));
    let twin = world.try_admit(other).unwrap();
    assert_eq!((twin.decision, twin.reason), (Decision::Resume, Reason::Resumed));
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    assert_eq!((world.calls_to("first"), world.calls_to("second")), (1, 2));
    let keys: Vec<_> = world.calls.iter().filter(|c| c.uri.ends_with("second")).map(|c| c.key.clone()).collect();
    assert_eq!(keys[0], keys[1], "a resumed step sends the same key");
    let twin = world.admit("f", None, json!({"id": "e1"}));
    assert_eq!(twin.decision, Decision::Replay);
}

#[test]
fn a_lost_answer_of_a_naked_step_holds_the_run_and_its_claim() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, tasks: [{id: post, type: http.Request, method: POST, uri: 'http://x/pay', retry: {type: constant, interval: PT1S, maxAttempts: 5}}]}");
    world.answer = Box::new(|_, _| lost());
    let run = world.admit("f", Some("k"), json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.calls.len(), 1, "a lost naked call is not retried");
    assert_eq!(world.status(run), Status::Held);
    assert!(world.control(run, Control::Restart).is_err());
    assert_eq!(world.admit("f", Some("k"), json!({})).decision, Decision::Hold);
    world
        .control(
            run,
            Control::Verdict {
                step: None,
                verdict: semel_core::run::VerdictKind::Done,
                result: Some(json!({"code": 200})),
            },
        )
        .unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    assert_eq!(world.calls.len(), 1);
}

fn lane_flow(world: &World, busy: &str) {
    world.push(&format!(
        r#"
id: f
namespace: n
idempotency: {{key: "{{{{ inputs.id }}}}"}}
inputs: [{{id: id, type: STRING}}, {{id: who, type: STRING, defaults: same}}]
lane: {{key: "{{{{ inputs.who }}}}", busy: {busy}}}
tasks:
  - {{id: nap, type: flow.Sleep, duration: PT1M}}
  - {{id: say, type: log.Log, message: "{{{{ inputs.id }}}}"}}
"#
    ));
}

#[test]
fn a_busy_lane_queues_in_order_and_twins_wait_with_their_event() {
    let mut world = World::new();
    lane_flow(&world, "queue");
    let first = world.admit("f", None, json!({"id": "a"})).run.unwrap().id;
    world.drain();
    let queued = world.admit("f", None, json!({"id": "b"}));
    let third = world.admit("f", None, json!({"id": "c"}));
    assert_eq!((queued.decision, third.decision), (Decision::Queue, Decision::Queue));
    let twin = world.admit("f", None, json!({"id": "b"}));
    assert_eq!((twin.decision, twin.reason), (Decision::Attach, Reason::AttachedPending));
    assert_eq!(twin.run.unwrap().id, queued.run.as_ref().unwrap().id);
    let elsewhere = world.admit("f", None, json!({"id": "d", "who": "other"}));
    assert_eq!(elsewhere.decision, Decision::Start);
    world.drain();
    assert_eq!(world.status(queued.run.as_ref().unwrap().id), Status::Queued);
    world.restart();
    world.run_down();
    let ids = [first, queued.run.unwrap().id, third.run.unwrap().id];
    let ends: Vec<_> = ids.iter().map(|id| world.row(*id)).collect();
    assert!(ends.iter().all(|r| r.status == Status::Completed));
    assert!(
        ends[0].ended_at <= ends[1].started_at && ends[1].ended_at <= ends[2].started_at,
        "one at a time, in order"
    );
    assert_eq!(world.runs().len(), 4);
}

#[test]
fn replace_fences_the_old_run() {
    let mut world = World::new();
    lane_flow(&world, "replace");
    let old = world.admit("f", None, json!({"id": "a"})).run.unwrap().id;
    world.drain();
    let new = world.admit("f", None, json!({"id": "b"}));
    assert_eq!(new.decision, Decision::Replace);
    assert_eq!(new.fenced, [old]);
    world.run_down();
    assert_eq!(world.status(old), Status::Cancelled);
    assert_eq!(world.logs(old), Vec::<String>::new());
    assert_eq!(world.status(new.run.unwrap().id), Status::Completed);
    // The replaced event is not run again by its redelivery.
    assert_eq!(world.admit("f", None, json!({"id": "a"})).decision, Decision::Replay);
    // A person may restart it.
    world.control(old, Control::Restart).unwrap();
    world.run_down();
    assert_eq!(world.status(old), Status::Completed);
}

#[test]
fn coalesce_gathers_events_into_one_run_with_the_last_payload() {
    let mut world = World::new();
    lane_flow(&world, "{coalesce: {quiet: PT5S, max: PT1M}}");
    let first = world.admit("f", None, json!({"id": "a"}));
    assert_eq!((first.decision, first.reason), (Decision::Coalesce, Reason::CoalescePending));
    world.pass(3_000);
    let second = world.admit("f", None, json!({"id": "b"}));
    assert_eq!(second.reason, Reason::Coalesced);
    let run = first.run.unwrap().id;
    assert_eq!(second.run.unwrap().id, run);
    // A redelivery neither extends nor replaces anything.
    assert_eq!(world.admit("f", None, json!({"id": "a"})).decision, Decision::Attach);
    world.restart();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    assert_eq!(world.logs(run), ["b"]);
    assert_eq!(world.runs().len(), 1);
    assert_eq!(world.admit("f", None, json!({"id": "b"})).decision, Decision::Replay);
}

#[test]
fn deliver_hands_the_payload_to_the_holder_once() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
idempotency: {key: "{{ inputs.id }}"}
inputs: [{id: id, type: STRING}]
lane: {busy: deliver}
tasks:
  - {id: nap, type: flow.Sleep, duration: PT1M}
  - {id: say, type: log.Log, message: "{{ run.inbox | length }}: {{ run.inbox[0].inputs.id }}"}
"#,
    );
    let holder = world.admit("f", None, json!({"id": "a"})).run.unwrap().id;
    world.drain();
    let second = world.admit("f", None, json!({"id": "b"}));
    assert_eq!(second.decision, Decision::Deliver);
    assert_eq!(second.run.unwrap().id, holder);
    assert_eq!(world.admit("f", None, json!({"id": "b"})).decision, Decision::Attach);
    world.run_down();
    assert_eq!(world.logs(holder), ["1: b"]);
}

#[test]
fn sub_runs_inherit_and_report() {
    let mut world = World::new();
    world.push("{id: child, namespace: n, tasks: [{id: bad, type: execution.Fail, errorMessage: nope}]}");
    world.push(
        r#"
id: parent
namespace: n
tasks:
  - {id: call, type: flow.Subflow, namespace: n, flowId: child, labels: {team: x}}
errors:
  - {id: alarm, type: log.Log, message: "child failed"}
"#,
    );
    let run = world.admit("parent", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Failed);
    let child = world.runs().into_iter().find(|r| r.parent.is_some()).unwrap();
    assert_eq!(world.logs(run), [format!("sub-run {} failed", child.id), "child failed".into()]);
    assert_eq!(child.correlation_id, run.to_string());
    // Restarting the parent resumes the same child.
    world.control(run, Control::Restart).unwrap();
    world.run_down();
    assert_eq!(world.runs().len(), 2);
    assert_eq!(world.row(child.id).generation, 2);
}

#[test]
fn a_doubt_below_holds_the_root_until_its_verdict() {
    let mut world = World::new();
    world.push("{id: child, namespace: n, tasks: [{id: post, type: http.Request, method: POST, uri: 'http://x/pay'}]}");
    world.push("{id: parent, namespace: n, tasks: [{id: call, type: flow.Subflow, namespace: n, flowId: child}]}");
    world.answer = Box::new(|_, _| lost());
    let run = world.admit("parent", Some("k"), json!({})).run.unwrap().id;
    world.run_down();
    let child = world.runs().into_iter().find(|r| r.parent.is_some()).unwrap().id;
    assert_eq!((world.status(child), world.status(run)), (Status::Held, Status::Held));
    assert_eq!(world.admit("parent", Some("k"), json!({})).decision, Decision::Hold);
    world
        .control(child, Control::Verdict { step: None, verdict: semel_core::run::VerdictKind::Fail, result: None })
        .unwrap();
    world.run_down();
    assert_eq!((world.status(child), world.status(run)), (Status::Failed, Status::Failed));
}

#[test]
fn cancel_pause_resume_and_replay() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
tasks:
  - {id: a, type: http.Request, method: POST, uri: http://x/a}
  - {id: nap, type: flow.Sleep, duration: PT1M}
  - {id: b, type: http.Request, method: POST, uri: http://x/b}
"#,
    );
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    assert_eq!(world.status(run), Status::Waiting);
    world.control(run, Control::Pause).unwrap();
    assert_eq!(world.status(run), Status::Paused);
    world.run_down();
    assert_eq!(world.calls.len(), 1, "nothing starts while paused");
    world.control(run, Control::Resume).unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    assert!(world.control(run, Control::Cancel).is_err());
    world.control(run, Control::Replay { from: Some("b".into()) }).unwrap();
    world.run_down();
    assert_eq!((world.calls_to("/a"), world.calls_to("/b")), (1, 2));
    let keys: Vec<_> = world.calls.iter().filter(|c| c.uri.ends_with("/b")).map(|c| c.key.clone()).collect();
    assert_ne!(keys[0], keys[1], "a replay is a new take");
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    world.control(run, Control::Cancel).unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Cancelled);
}

#[test]
fn secrets_reach_the_performer_and_nothing_else() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
tasks:
  - {id: say, type: log.Log, message: "token {{ secret('TOKEN') }}"}
  - {id: keep, type: debug.Return, format: "Bearer {{ secret('TOKEN') }}"}
  - {id: call, type: http.Request, uri: http://x/a, headers: {Authorization: "{{ outputs.keep.value }}", X-Up: "{{ secret('TOKEN') | upper }}"}}
  - {id: echo, type: log.Log, message: "{{ outputs.call.body }}"}
  - {id: cond, type: flow.If, condition: "{{ (secret('TOKEN') | length) == 13 }}", then: [{id: in, type: log.Log, message: "equal"}]}
outputs:
  - {id: kept, value: "{{ outputs.keep.value }}"}
  - {id: body, value: "{{ outputs.call.body }}"}
"#,
    );
    world.answer = Box::new(|r, _| {
        ok(json!({"body": format!("you sent {}", r.config["headers"]["Authorization"].as_str().unwrap())}))
    });
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    assert_eq!(world.calls[0].config["headers"]["Authorization"], "Bearer secret-canary");
    assert_eq!(world.calls[0].config["headers"]["X-Up"], "SECRET-CANARY");
    assert_eq!(world.logs(run), ["token ***", "you sent Bearer ***", "equal"]);
    let dump = world.store.dump().unwrap().to_string();
    let journal: String = world
        .store
        .journal(&world.workspace, run, 0, 100)
        .unwrap()
        .into_iter()
        .map(|r| String::from_utf8_lossy(&[r.events, r.values.unwrap_or_default()].concat()).into_owned())
        .collect();
    for place in [dump, journal, world.outputs(run).to_string()] {
        assert!(!place.to_lowercase().contains("secret-canary"), "{place}");
    }
}

#[test]
fn the_text_of_a_secret_input_is_stored_nowhere() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
inputs:
  - {id: pin, type: SECRET}
  - {id: short, type: SECRET, defaults: "42"}
  - {id: token, type: SECRET, defaults: "{{ secret('TOKEN') }}"}
tasks:
  - {id: call, type: http.Request, uri: http://x/a, headers: {A: "{{ inputs.pin }}", B: "{{ trigger.data.pin }}", C: "{{ inputs.token }}", D: "{{ inputs.short }}"}}
"#,
    );
    let run = world
        .admit("f", None, json!({"pin": "pin-canary-1", "short": "77", "note": "it is pin-canary-1"}))
        .run
        .unwrap()
        .id;
    world.run_down();
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    let sent = &world.calls[0].config["headers"];
    assert_eq!(*sent, json!({"A": "pin-canary-1", "B": "pin-canary-1", "C": "secret-canary", "D": "77"}));
    let journal: String = world
        .store
        .journal(&world.workspace, run, 0, 100)
        .unwrap()
        .into_iter()
        .map(|r| String::from_utf8_lossy(&[r.events, r.values.unwrap_or_default()].concat()).into_owned())
        .collect();
    for place in [world.store.dump().unwrap().to_string(), journal] {
        assert!(!place.contains("canary") && !place.contains("\"77\""), "{place}");
    }
    world.push("id: g\nnamespace: n\ninputs:\n  - {id: t, type: STRING, defaults: \"{{ secret('TOKEN') }}\"}\ntasks:\n  - {id: a, type: log.Log, message: x}\n");
    let refused = world.occurrence("g", None, json!({}));
    assert!(matches!(world.try_admit(refused), Err(AdmitError::Inputs(_))));
}

#[test]
fn keys_and_inputs_are_checked_before_anything_is_stored() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
idempotency: {key: "{{ trigger.data.id }}", require_key: true}
inputs: [{id: n, type: INT, min: 1}]
tasks: [{id: t, type: log.Log, message: x}]
"#,
    );
    let missing = world.occurrence("f", None, json!({"n": 1}));
    assert!(matches!(world.try_admit(missing), Err(AdmitError::Key(KeyError::Unresolved(_)))));
    let conflict = world.occurrence("f", Some("other"), json!({"n": 1, "id": "e"}));
    assert!(matches!(world.try_admit(conflict), Err(AdmitError::Key(KeyError::Conflict { .. }))));
    for bad in [json!({"id": "e"}), json!({"id": "e", "n": "x"}), json!({"id": "e", "n": 0})] {
        let occurrence = world.occurrence("f", None, bad);
        assert!(matches!(world.try_admit(occurrence), Err(AdmitError::Inputs(_))));
    }
    assert!(world.runs().is_empty());
    assert_eq!(world.admit("f", None, json!({"id": "e", "n": 3})).decision, Decision::Start);
    let forged = world.occurrence(
        "f",
        None,
        json!({"id": "e2", "n": 3, "x": {"$semel": {"text": [{"secret": "TOKEN", "version": 0}]}}}),
    );
    world.try_admit(forged).unwrap();
    world.run_down();
}

#[test]
fn a_long_loop_of_pure_steps_hears_that_it_is_cancelled() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, tasks: [{id: each, type: flow.ForEach, values: '{{ range(1, 5000) }}', tasks: [{id: t, type: debug.Return, format: x}]}]}");
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.step(3);
    world.control(run, Control::Cancel).unwrap();
    assert_eq!(world.status(run), Status::Cancelled);
    assert!(world.store.journal(&world.workspace, run, 0, 1_000).unwrap().len() < 20, "it went on for long");
}

#[test]
fn a_restarted_loop_still_has_its_items() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, tasks: [{id: each, type: flow.ForEach, values: [a, b, c], tasks: [{id: t, type: http.Request, uri: 'http://x/{{ taskrun.value }}'}]}]}");
    world.answer =
        Box::new(|r, n| if r.config["uri"] == "http://x/b" && n == 0 { refused(500) } else { ok(json!({})) });
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Failed);
    world.control(run, Control::Restart).unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
    let uris: Vec<&str> = world.calls.iter().map(|c| c.uri.as_str()).collect();
    assert_eq!(uris, ["http://x/a", "http://x/b", "http://x/b", "http://x/c"]);
}

#[test]
fn error_logs_and_yaml_are_functions() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
variables: {doc: "a: [1, 2]"}
tasks:
  - {id: ok, type: log.Log, message: "{{ yaml('b: [3, 4]').b[1] }} {{ fromIon('[5]')[0] }}"}
  - id: group
    type: flow.Sequential
    tasks: [{id: bad, type: execution.Fail, errorMessage: "went wrong"}]
errors:
  - {id: tell, type: log.Log, message: "{{ errorLogs() | length }}: {{ errorLogs()[0].taskId }} {{ errorLogs()[0].message }}"}
"#,
    );
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.logs(run), ["4 5", "went wrong", "1: bad went wrong"]);
}

#[test]
fn a_person_who_misspells_an_input_is_told() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, inputs: [{id: items, type: JSON, required: false}], tasks: [{id: t, type: log.Log, message: x}]}");
    let mut typo = world.occurrence("f", None, json!({"itms": []}));
    typo.door = semel_core::Door::Cli;
    assert!(matches!(world.try_admit(typo), Err(AdmitError::Inputs(fields)) if fields[0].field == "itms"));
    let event = world.occurrence("f", None, json!({"itms": []}));
    assert!(world.try_admit(event).is_ok(), "an event may carry more than the flow reads");
}

#[test]
fn a_run_whose_flow_does_not_load_is_tried_less_and_less_often() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, tasks: [{id: nap, type: flow.Sleep, duration: PT1M}]}");
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    // As after a start whose build cannot read the flow: its timer is due and stays so.
    let nothing = semel_store::memory::MemoryStore::new(std::sync::Arc::new(|| semel_core::Millis(0)));
    let blind = std::sync::Arc::new(Flows::new(nothing));
    let mut driver = Driver::new(world.services.clone(), blind, Limits::default());
    let due = world.store.next_timer().unwrap().unwrap();
    let row = world.store.due_timers(due, 1).unwrap().remove(0);
    let tried = |driver: &mut Driver, ms: i64| {
        let resting = driver.rests(run, due.plus(ms));
        let (workspace, timer) = (row.workspace.clone(), row.timer);
        assert!(driver.on(due.plus(ms), Happened::Timer { workspace, run, timer }).is_empty());
        assert!(driver.rests(run, due.plus(ms)), "it rests after it was tried");
        !resting
    };
    let looks = (0..3_600_000).step_by(20).filter(|ms| tried(&mut driver, *ms)).count();
    assert!((10..=20).contains(&looks), "tried {looks} times in an hour");
    // Where the flow can be read it goes on at once.
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
}
