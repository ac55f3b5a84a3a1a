//! Two things at once: admissions against the driver's runs in memory, and who hears of an end.

use super::world::{World, ok};
use crate::api::{Control, ControlError};
use semel_core::RunId;
use semel_core::admission::{Decision, Reason};
use semel_core::run::{Status, VerdictKind};
use semel_store::{Reads, Store, Work};
use semel_tasks::Outcome;
use serde_json::{Value as Json, json};

fn lost() -> Outcome {
    Outcome::Lost { code: "timeout", message: "no answer".into() }
}

fn sleeper(world: &World, id: &str, lane: &str) {
    world.push(&format!("{{id: {id}, namespace: n, {lane} tasks: [{{id: nap, type: flow.Sleep, duration: PT1M}}]}}"));
}

fn caller(world: &World, id: &str, child: &str, more: &str) {
    world.push(&format!(
        "{{id: {id}, namespace: n, {more} tasks: [{{id: call, type: flow.Subflow, namespace: n, flowId: {child}}}]}}"
    ));
}

fn child_of(world: &World, parent: RunId) -> RunId {
    world.runs().into_iter().find(|r| r.parent.as_ref().is_some_and(|p| p.run == parent)).expect("a child").id
}

fn start(world: &mut World, flow: &str) -> RunId {
    let run = world.admit(flow, None, json!({})).run.unwrap().id;
    world.drain();
    run
}

#[test]
fn a_replaced_sub_run_tells_its_parent() {
    let mut world = World::new();
    sleeper(&world, "child", "lane: {busy: replace},");
    caller(&world, "parent", "child", "");
    let first = start(&mut world, "parent");
    let second = start(&mut world, "parent");
    world.run_down();
    assert_eq!((world.status(first), world.status(second)), (Status::Failed, Status::Completed));
    assert_eq!(world.failure(first)["code"], "subflow_failed");
}

#[test]
fn steps_that_name_one_event_all_hear_of_its_end() {
    let mut world = World::new();
    sleeper(&world, "child", "");
    let step = |id: &str, wait: bool| {
        format!("{{id: {id}, type: flow.Subflow, namespace: n, flowId: child, wait: {wait}, idempotencyKey: one}}")
    };
    let push = |id: &str, tasks: String| world.push(&format!("{{id: {id}, namespace: n, tasks: [{tasks}]}}"));
    // The first does not wait for the run it starts; the second waits for the same one.
    push("later", format!("{}, {}", step("a", false), step("b", true)));
    push("beside", format!("{{id: both, type: flow.Parallel, tasks: [{}, {}]}}", step("c", true), step("d", true)));
    for flow in ["later", "beside"] {
        let run = start(&mut world, flow);
        assert!(!world.status(run).is_ended(), "{flow}");
        world.run_down();
        assert_eq!(world.status(run), Status::Completed, "{flow}");
        world.pass(40 * 86_400_000);
    }
    assert_eq!(world.rows("lanes"), Vec::<Json>::new(), "nobody watches any more");
}

#[test]
fn a_sub_run_that_is_delivered_something_before_its_start_starts() {
    let mut world = World::new();
    sleeper(&world, "child", "lane: {busy: deliver},");
    caller(&world, "parent", "child", "");
    let parent = world.admit("parent", None, json!({})).run.unwrap().id;
    // The commit that admits the child, and its answer; the child has not been looked at yet.
    world.step(2);
    let child = child_of(&world, parent);
    let event = world.admit("child", Some("other"), json!({}));
    assert_eq!((event.decision, event.run.unwrap().id), (Decision::Deliver, child));
    world.run_down();
    assert_eq!((world.status(child), world.status(parent)), (Status::Completed, Status::Completed));
}

#[test]
fn a_key_whose_time_is_over_before_the_send_is_not_sent() {
    let mut world = World::new();
    world.push(
        "{id: f, namespace: n, tasks: [{id: post, type: http.Request, method: POST, uri: 'http://x/keyed', effect: {class: keyed, window: PT2S}}]}",
    );
    let run = world.admit("f", Some("k"), json!({})).run.unwrap().id;
    // Its first step is decided; the commit takes longer than the far side remembers the key.
    world.step(1);
    world.pass(3_000);
    world.run_down();
    assert_eq!((world.calls_to("keyed"), world.status(run)), (0, Status::Failed));
    assert_eq!(world.failure(run)["code"], "too_late");
}

#[test]
fn a_replaced_tree_frees_the_lanes_of_its_children() {
    let mut world = World::new();
    sleeper(&world, "child", "lane: {busy: queue},");
    caller(&world, "parent", "child", "lane: {busy: replace},");
    start(&mut world, "parent");
    let waiting = start(&mut world, "child");
    assert_eq!(world.status(waiting), Status::Queued);
    let next = start(&mut world, "parent");
    world.run_down();
    assert_eq!((world.status(waiting), world.status(next)), (Status::Completed, Status::Completed));
    assert_eq!(world.rows("lanes"), Vec::<Json>::new());
}

#[test]
fn a_doubt_that_its_root_has_not_heard_of_is_not_buried() {
    let mut world = World::new();
    world.push("{id: child, namespace: n, tasks: [{id: post, type: http.Request, method: POST, uri: 'http://x/pay'}]}");
    caller(&world, "parent", "child", "lane: {busy: replace},");
    world.answer = Box::new(|_, _| lost());
    let parent = world.admit("parent", None, json!({})).run.unwrap().id;
    while !world.runs().iter().any(|r| r.status == Status::Held) {
        world.step(1);
    }
    assert_eq!(world.row(parent).open_doubts, 0, "the parent has not heard of it yet");
    let next = world.admit("parent", None, json!({}));
    assert_eq!((next.decision, next.reason), (Decision::Reject, Reason::HeldNoReplace));
    world.run_down();
    assert_eq!(world.status(child_of(&world, parent)), Status::Held);
}

#[test]
fn a_run_does_not_replace_its_own_root() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
inputs: [{id: deep, type: BOOL, defaults: false}]
lane: {busy: replace}
tasks:
  - id: once
    type: flow.If
    condition: "{{ not inputs.deep }}"
    then: [{id: again, type: flow.Subflow, namespace: n, flowId: f, inputs: {deep: true}}]
"#,
    );
    let run = start(&mut world, "f");
    world.run_down();
    assert_eq!((world.status(run), world.runs().len()), (Status::Failed, 1));
    assert_eq!(world.failure(run)["code"], "lane_busy");
}

#[test]
fn a_newer_event_supersedes_those_that_wait_to_replace() {
    let mut world = World::new();
    world.push("{id: child, namespace: n, tasks: [{id: put, type: http.Request, method: PUT, uri: 'http://x/put'}]}");
    caller(&world, "parent", "child", "lane: {busy: replace},");
    let old = world.admit("parent", None, json!({})).run.unwrap().id;
    while world.calls.is_empty() {
        world.step(1);
    }
    let middle = world.admit("parent", None, json!({}));
    assert_eq!(middle.reason, Reason::ReplaceDeferred);
    // The child's answer is recorded, and its parent has not ended yet.
    let child = child_of(&world, old);
    while world.row(child).open_intents > 0 {
        world.step(1);
    }
    assert!(!world.status(old).is_ended());
    let newest = world.admit("parent", None, json!({}));
    world.run_down();
    assert_eq!(
        world.status(middle.run.unwrap().id),
        Status::Cancelled,
        "an older event does not run after a newer one"
    );
    assert_eq!(world.status(newest.run.unwrap().id), Status::Completed);
}

fn watchers(world: &mut World, task: &str) -> (RunId, RunId, RunId) {
    world.push(&format!("{{id: child, namespace: n, tasks: [{task}]}}"));
    world.push("{id: parent, namespace: n, tasks: [{id: call, type: flow.Subflow, namespace: n, flowId: child, idempotencyKey: shared}]}");
    let owner = world.admit("parent", None, json!({})).run.unwrap().id;
    world.drain();
    let watcher = world.admit("parent", None, json!({})).run.unwrap().id;
    world.drain();
    (owner, watcher, child_of(world, owner))
}

#[test]
fn a_verdict_reaches_everyone_who_waited_for_the_run() {
    let mut world = World::new();
    let task = "{id: nap, type: flow.Sleep, duration: PT1M}, {id: post, type: http.Request, method: POST, uri: 'http://x/pay'}";
    world.answer = Box::new(|_, _| lost());
    let (owner, watcher, child) = watchers(&mut world, task);
    world.run_down();
    for run in [owner, watcher, child] {
        assert_eq!(world.status(run), Status::Held);
    }
    world.control(child, Control::Verdict { step: None, verdict: VerdictKind::Fail, result: None }).unwrap();
    world.run_down();
    for run in [owner, watcher, child] {
        assert_eq!(world.status(run), Status::Failed);
    }
    assert_eq!(world.rows("lanes"), Vec::<Json>::new());
}

#[test]
fn who_only_waits_for_a_run_does_not_cancel_it() {
    let mut world = World::new();
    let (owner, watcher, child) = watchers(&mut world, "{id: nap, type: flow.Sleep, duration: PT1M}");
    world.control(watcher, Control::Cancel).unwrap();
    assert_eq!((world.status(watcher), world.status(child)), (Status::Cancelled, Status::Waiting));
    world.run_down();
    assert_eq!((world.status(owner), world.status(child)), (Status::Completed, Status::Completed));
    assert_eq!(world.rows("lanes"), Vec::<Json>::new());
}

#[test]
fn a_cancel_before_the_birth_is_heard_of_stops_everything() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, tasks: [{id: post, type: http.Request, method: POST, uri: 'http://x/pay'}]}");
    let run = world.admit("f", Some("k"), json!({})).run.unwrap().id;
    let ticket = world.interrupt(run, Control::Cancel);
    world.run_down();
    assert_eq!(
        (world.status(run), world.calls.len()),
        (Status::Cancelled, 0),
        "nothing leaves without a durable intent"
    );
    assert_eq!(world.answers.remove(&ticket), Some(Ok(())));
}

#[test]
fn whoever_asked_is_answered_when_the_run_is_replaced() {
    let mut world = World::new();
    sleeper(&world, "f", "lane: {busy: replace},");
    let old = start(&mut world, "f");
    world.admit("f", None, json!({}));
    let ticket = world.interrupt(old, Control::Pause);
    world.run_down();
    assert!(matches!(world.answers.remove(&ticket), Some(Err(ControlError::NotPossible(_)))));
}

#[test]
fn a_late_word_of_a_fence_does_not_stop_a_restarted_run() {
    let mut world = World::new();
    sleeper(&world, "child", "");
    caller(&world, "parent", "child", "lane: {busy: replace},");
    let parent = start(&mut world, "parent");
    let child = child_of(&world, parent);
    world.restart();
    world.admit("parent", None, json!({}));
    assert_eq!(world.status(child), Status::Cancelled);
    let ticket = world.interrupt(child, Control::Restart);
    world.run_down();
    assert_eq!(world.answers.remove(&ticket), Some(Ok(())));
    assert_eq!(world.status(child), Status::Completed);
}

#[test]
fn an_extended_quiet_period_does_not_end_early() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, lane: {busy: {coalesce: {quiet: PT5S, max: PT1M}}}, tasks: [{id: nap, type: flow.Sleep, duration: PT1M}]}");
    let run = start(&mut world, "f");
    // Something brings the run into memory before its period is extended.
    assert!(world.control(run, Control::Pause).is_err());
    world.pass(4_900);
    start(&mut world, "f");
    world.pass(200);
    // The row was read as due just before.
    world.timer(run, 1);
    world.drain();
    assert_eq!(world.status(run), Status::Queued);
    world.pass(5_000);
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
}

#[test]
fn an_end_is_written_down_before_the_run_goes_on() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, lane: {busy: {coalesce: {quiet: PT5S, max: PT1M}}}, tasks: [{id: nap, type: flow.Sleep, duration: PT1M}]}");
    let run = start(&mut world, "f");
    // The run is brought into memory, and then another event of its period changes it.
    assert!(world.control(run, Control::Pause).is_err());
    start(&mut world, "f");
    let replay = world.interrupt(run, Control::Replay { from: None });
    let cancel = world.interrupt(run, Control::Cancel);
    world.run_down();
    assert_eq!((world.answers.remove(&cancel), world.answers.remove(&replay)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!((world.status(run), world.row(run).generation), (Status::Completed, 2), "the end was seen");
}

#[test]
fn a_run_whose_end_meets_a_wish_that_comes_to_nothing_is_at_rest() {
    let mut world = World::new();
    let nap = |id: &str| format!("{{id: {id}, type: flow.Sleep, duration: PT1M}}");
    world.push(&format!(
        "{{id: f, namespace: n, tasks: [{{id: both, type: flow.Parallel, tasks: [{}, {}]}}]}}",
        nap("a"),
        nap("b")
    ));
    let run = start(&mut world, "f");
    world.pass(60_000);
    // The end of the second and a wish come while that of the first is being written.
    let pause = world.interrupt(run, Control::Pause);
    world.timer(run, 2);
    world.timer(run, 1);
    world.reverse();
    world.drain();
    assert!(matches!(world.answers.remove(&pause), Some(Err(ControlError::NotPossible(_)))));
    assert_eq!((world.status(run), world.row(run).active), (Status::Completed, false));
}

#[test]
fn an_erased_run_is_not_run_again_without_its_values() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, inputs: [{id: amount, type: INT}], tasks: [{id: post, type: http.Request, method: PUT, uri: 'http://x/pay/{{ inputs.amount }}'}]}");
    world.answer = Box::new(|_, _| Outcome::FailedClean {
        code: "http_status",
        message: "no".into(),
        output: None,
        retryable: true,
    });
    let run = world.admit("f", Some("k"), json!({"amount": 5})).run.unwrap().id;
    world.run_down();
    world.store.call(Work::EraseRun { workspace: world.workspace.clone(), run }).unwrap();
    world.answer = Box::new(|_, _| ok(json!({})));
    for control in [Control::Restart, Control::Replay { from: None }] {
        assert!(matches!(world.control(run, control), Err(ControlError::NotPossible(text)) if text.contains("erased")));
    }
    world.run_down();
    assert_eq!((world.calls.len(), world.status(run)), (1, Status::Failed));
}

#[test]
fn a_refused_wish_leaves_nothing_in_memory() {
    let mut world = World::new();
    world.push("{id: f, namespace: n, tasks: [{id: t, type: log.Log, message: x}]}");
    let run = start(&mut world, "f");
    let verdict = || Control::Verdict { step: None, verdict: VerdictKind::Fail, result: None };
    for control in [Control::Cancel, Control::Pause, verdict()] {
        assert!(world.control(run, control).is_err());
    }
    assert_eq!(world.driver.in_memory(), 0);
}

#[test]
fn the_ledger_has_one_row_per_effect_after_a_long_journal() {
    let mut world = World::new();
    world.push(
        r#"
id: f
namespace: n
tasks:
  - {id: each, type: flow.ForEach, values: "{{ range(1, 60) }}", tasks: [{id: t, type: debug.Return, format: x}]}
  - {id: bad, type: execution.Fail, errorMessage: nope}
errors:
  - {id: alarm, type: http.Request, method: POST, uri: "http://x/alarm", effect: keyed, retry: {type: constant, interval: PT1M, maxAttempts: 3}}
"#,
    );
    world.answer = Box::new(|_, n| {
        if n == 0 {
            Outcome::FailedClean { code: "http_status", message: "no".into(), output: None, retryable: true }
        } else {
            ok(json!({}))
        }
    });
    let run = start(&mut world, "f");
    assert_eq!(world.status(run), Status::Waiting);
    world.restart();
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Failed, 2));
    let effects = world.store.effects(&world.workspace, run).unwrap();
    assert_eq!(effects.len(), 1, "{effects:?}");
    assert_eq!(effects[0].state, semel_store::EffectState::Done);
}

/// The word that a run was born may come after the word that something was left for it.
#[test]
fn a_delivery_that_overtakes_the_birth_of_its_run_does_not_keep_it_from_starting() {
    let mut world = World::new();
    world.push(
        r#"
id: lane
namespace: test
lane:
  busy: deliver
tasks:
  - id: hello
    type: io.kestra.plugin.core.flow.Sleep
    duration: PT1S
"#,
    );
    let run = world.admit("lane", Some("a"), json!({})).run.unwrap().id;
    let second = world.admit("lane", Some("b"), json!({}));
    assert_eq!(second.run.unwrap().id, run, "delivered to the first");
    world.reverse();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
}

/// A commit replaces another run and starts a third; before its driver hears of that, the run itself is replaced.
#[test]
fn what_a_commit_means_for_others_is_told_even_if_its_run_is_gone() {
    let mut world = World::new();
    sleeper(&world, "victim", "lane: {busy: replace},");
    caller(&world, "parent", "victim", "lane: {busy: replace},");
    let victim = world.admit("victim", Some("v"), json!({})).run.unwrap().id;
    world.drain();
    let parent = world.admit("parent", Some("a"), json!({})).run.unwrap().id;
    // Its commit is durable, and the answer still on its way.
    world.step(1);
    assert_eq!(world.status(victim), Status::Cancelled);
    world.admit("parent", Some("b"), json!({}));
    assert_eq!(world.status(parent), Status::Cancelled);
    world.reverse();
    world.run_down();
    assert!(world.runs().iter().all(|run| run.status.is_ended()));
    assert_eq!(world.driver.in_memory(), 0, "nobody drives a run that was replaced");
}

/// The commit that carries an op out also pauses the run: the head must not say that it works.
#[test]
fn a_run_that_is_paused_beside_an_op_is_shown_as_paused() {
    let mut world = World::new();
    world.push(
        "{id: f, namespace: n, tasks: [{id: all, type: flow.Parallel, tasks: [\
         {id: b, type: flow.Sequential, tasks: [{id: c, type: http.Request, uri: 'http://x/c'}, \
         {id: d, type: kv.Set, key: k, value: v}, {id: e, type: log.Log, message: hello}]}, \
         {id: a, type: http.Request, uri: 'http://x/a'}]}]}",
    );
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    while world.calls.len() < 2 {
        world.step(1);
    }
    // The first answer is being written; the second, and the wish, wait for that.
    world.step(2);
    world.interrupt(run, Control::Pause);
    world.drain();
    assert_eq!((world.status(run), world.row(run).active), (Status::Paused, false));
    world.control(run, Control::Resume).unwrap();
    world.run_down();
    assert_eq!(world.status(run), Status::Completed);
}

/// What an op's result does not set going rests, and so says the head: nobody has to drive the run.
#[test]
fn a_run_that_rests_beside_an_op_is_shown_at_rest() {
    let mut world = World::new();
    world.push(
        "{id: nap, namespace: n, tasks: [{id: all, type: flow.Parallel, tasks: [\
         {id: rest, type: flow.Sleep, duration: PT1H}, {id: set, type: kv.Set, key: k, value: v}]}]}",
    );
    world.push(
        "{id: up, namespace: n, tasks: [{id: below, type: flow.Subflow, namespace: n, flowId: nap, wait: true}]}",
    );
    let alone = world.admit("nap", None, json!({})).run.unwrap().id;
    let parent = world.admit("up", None, json!({})).run.unwrap().id;
    world.drain();
    for run in [alone, parent] {
        assert_eq!((world.status(run), world.row(run).active), (Status::Waiting, false));
    }
    world.run_down();
    for run in [alone, parent] {
        assert_eq!((world.status(run), world.row(run).active), (Status::Completed, false));
    }
}
