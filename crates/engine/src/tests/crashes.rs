//! Death at every boundary: before and after each commit, before and after each call.

use super::world::{Death, World, ok};
use crate::api::Control;
use semel_core::run::{Status, VerdictKind};
use semel_store::Reads;
use serde_json::json;
use std::collections::BTreeSet;

const ORDER: &str = r#"
id: order
namespace: shop
inputs: [{id: amount, type: INT}]
tasks:
  - {id: hello, type: log.Log, message: "order {{ inputs.amount }}"}
  - {id: reserve, type: kv.Set, key: "stock", value: "{{ inputs.amount }}", overwrite: false}
  - {id: charge, type: http.Request, method: POST, uri: "http://bank/charge", effect: keyed, body: "{{ inputs.amount }}"}
  - {id: nap, type: flow.Sleep, duration: PT10S}
  - id: each
    type: flow.ForEach
    values: [1, 2]
    tasks:
      - {id: notify, type: http.Request, method: PUT, uri: "http://mail/{{ taskrun.value }}"}
  - {id: child, type: flow.Subflow, namespace: shop, flowId: receipt, inputs: {text: "{{ outputs.charge.body }}"}}
  - {id: mail, type: http.Request, method: POST, uri: "http://mail/naked"}
outputs:
  - {id: receipt, value: "{{ outputs.child.outputs.line }}"}
"#;

const RECEIPT: &str = r#"
id: receipt
namespace: shop
inputs: [{id: text, type: STRING}]
tasks:
  - {id: store, type: http.Request, method: POST, uri: "http://archive/receipt", effect: keyed}
  - {id: line, type: debug.Return, format: "receipt {{ inputs.text }}"}
outputs:
  - {id: line, value: "{{ outputs.line.value }}"}
"#;

fn world() -> World {
    let mut world = World::new();
    world.push(RECEIPT);
    world.push(ORDER);
    world.answer = Box::new(|request, _| ok(json!({"code": 200, "body": format!("done {}", request.config["uri"])})));
    world
}

#[test]
fn without_a_crash_every_effect_happens_once() {
    let mut world = world();
    let run = world.admit("order", Some("k"), json!({"amount": 5})).run.unwrap().id;
    world.run_down();
    assert_eq!(world.status(run), Status::Completed, "{}", world.failure(run));
    assert_eq!(world.calls.len(), 5);
    assert_eq!(world.runs().len(), 2);
    assert_eq!(world.outputs(run)["receipt"], "receipt done \"http://bank/charge\"");
    let child = world.runs().into_iter().find(|r| r.parent.is_some()).unwrap();
    assert_eq!(child.correlation_id, run.to_string());
    assert_eq!(child.root, run);
}

#[test]
fn death_at_every_boundary_repeats_nothing_that_must_not_be() {
    let boundaries = {
        let mut world = world();
        world.admit("order", Some("k"), json!({"amount": 5}));
        world.run_down();
        world.boundary
    };
    assert!(boundaries >= 15, "the flow has too few boundaries to mean anything: {boundaries}");
    let mut deaths = 0;
    for at in 0..boundaries {
        for death in [Death::BeforeCommit, Death::AfterCommit, Death::BeforeEffect, Death::AfterEffect] {
            let mut world = world();
            world.die_at = Some((at, death));
            let run = world.admit("order", Some("k"), json!({"amount": 5})).run.unwrap().id;
            world.run_down();
            deaths += world.deaths;
            let what = format!("{death:?} at boundary {at}");

            // A twin never makes a second run.
            let twin = world.admit("order", Some("k"), json!({"amount": 5}));
            assert_eq!(twin.run.unwrap().id, run, "{what}");
            assert!(!twin.created, "{what}");
            assert_eq!(world.runs().iter().filter(|r| r.parent.is_none()).count(), 1, "{what}");

            // One stable key per keyed step, however often it was sent.
            for uri in ["/charge", "/receipt", "mail/1", "mail/2"] {
                let keys: BTreeSet<_> =
                    world.calls.iter().filter(|c| c.uri.ends_with(uri)).map(|c| c.key.clone()).collect();
                assert_eq!(keys.len(), 1, "{what}: {uri} was called with keys {keys:?}");
            }
            assert!(world.calls_to("mail/naked") <= 1, "{what}: a naked effect was sent twice");
            let stock = world.store.kv(&world.workspace, "shop", "stock").unwrap().unwrap();
            assert_eq!(stock.revision, 1, "{what}: the op was carried out twice");

            match world.status(run) {
                Status::Completed => assert_eq!(world.calls_to("mail/naked"), 1, "{what}"),
                Status::Held => {
                    // Only the naked call can be in doubt; a verdict lets the run end.
                    let verdict =
                        Control::Verdict { step: None, verdict: VerdictKind::Done, result: Some(json!({"code": 200})) };
                    world.control(run, verdict).unwrap_or_else(|e| panic!("{what}: {e}"));
                    world.run_down();
                    assert_eq!(world.status(run), Status::Completed, "{what}");
                    assert!(world.calls_to("mail/naked") <= 1, "{what}");
                }
                other => panic!("{what}: the run ended as {other:?} ({})", world.failure(run)),
            }
        }
    }
    assert!(deaths > boundaries, "only {deaths} deaths happened");
}

#[test]
fn a_verdict_of_repeat_sends_again_and_fail_fails() {
    for (verdict, calls, end) in [
        (VerdictKind::Repeat, 2, Status::Completed),
        (VerdictKind::RepeatNewKey, 2, Status::Completed),
        (VerdictKind::Fail, 1, Status::Failed),
    ] {
        let mut world = World::new();
        world.push(
            "{id: f, namespace: n, tasks: [{id: post, type: http.Request, method: POST, uri: 'http://x/naked'}]}",
        );
        world.die_at = Some((1, Death::AfterEffect));
        let run = world.admit("f", Some("k"), json!({})).run.unwrap().id;
        world.run_down();
        assert_eq!(world.status(run), Status::Held);
        let twin = world.admit("f", Some("k"), json!({}));
        assert_eq!(twin.decision, semel_core::admission::Decision::Hold);
        world.control(run, Control::Verdict { step: Some("post".into()), verdict, result: None }).unwrap();
        world.run_down();
        assert_eq!(world.status(run), end);
        assert_eq!(world.calls_to("naked"), calls);
        let keys: BTreeSet<_> = world.calls.iter().map(|c| c.key.clone()).collect();
        assert_eq!(keys.len(), if verdict == VerdictKind::RepeatNewKey { 2 } else { 1 });
        assert!(
            world.control(run, Control::Verdict { step: None, verdict, result: None }).is_err(),
            "a second verdict finds no doubt"
        );
    }
}
