//! Triggers that are switched, stopped, made up for and polled.

use super::House;
use crate::triggers::{BackfillRequest, TriggerError};
use semel_core::FlowRef;
use semel_core::run::Status;
use semel_tasks::Outcome;
use serde_json::json;

const HOURLY: &str = "id: f\nnamespace: n\ninputs: [{id: who, type: STRING, defaults: nobody}]\ntasks: [{id: t, type: log.Log, message: hi}]\ntriggers:\n  - {id: s, type: trigger.Schedule, cron: '0 * * * *', inputs: {who: clock}}\n";

fn flow() -> FlowRef {
    FlowRef::new("n", "f")
}

#[tokio::test]
async fn a_trigger_that_is_off_does_not_fire_and_goes_on_from_when_it_is_on() {
    let house = House::at("2026-01-02T12:30:00Z");
    house.push(HOURLY).await;
    let (engine, ws) = (&house.engine, &house.workspace);
    engine.set_trigger_disabled(ws, &flow(), "s", true).await.unwrap();
    house.push(&HOURLY.replace("message: hi", "message: hello")).await;
    house.now_is("2026-01-02T15:30:00Z");
    house.tick().await;
    assert_eq!(house.runs().len(), 0, "a push does not switch it on");
    engine.set_trigger_disabled(ws, &flow(), "s", false).await.unwrap();
    house.tick().await;
    assert_eq!(house.runs().len(), 0, "what was missed meanwhile is not made up for");
    house.now_is("2026-01-02T16:00:01Z");
    house.tick().await;
    assert_eq!(house.triggered("date"), [json!("2026-01-02T16:00:00.000Z")]);
    let unknown = engine.set_trigger_disabled(ws, &flow(), "x", true).await;
    assert_eq!(unknown, Err(TriggerError::Unknown));
}

#[tokio::test]
async fn a_task_switches_a_trigger() {
    let house = House::at("2026-01-02T12:30:00Z");
    house.push(HOURLY).await;
    house.push("id: off\nnamespace: n\ntasks: [{id: t, type: io.kestra.plugin.core.trigger.Toggle, flowId: f, trigger: s}]\n").await;
    house
        .push("id: odd\nnamespace: n\ntasks: [{id: t, type: trigger.Toggle, flowId: f, trigger: x, enabled: true}]\n")
        .await;
    for (name, status) in [("off", Status::Completed), ("odd", Status::Failed)] {
        let run = house.engine.admit(house.event(name, json!({}))).await.unwrap().run.unwrap();
        house.settle().await;
        assert_eq!(house.engine.store().run(&house.workspace, run.id).unwrap().unwrap().0.status, status, "{name}");
    }
    house.now_is("2026-01-02T15:30:00Z");
    house.tick().await;
    assert_eq!(house.runs().len(), 2);
}

#[tokio::test]
async fn a_backfill_makes_up_for_the_past_and_then_the_schedule_goes_on() {
    let house = House::at("2026-01-02T12:30:00Z");
    house.push(HOURLY).await;
    let (engine, ws) = (&house.engine, &house.workspace);
    let wanted = BackfillRequest {
        start: super::instant("2026-01-02T08:00:00Z"),
        end: Some(super::instant("2026-01-02T10:30:00Z")),
        inputs: json!({"who": "me"}),
        labels: vec![("why".into(), "late".into())],
        paused: false,
    };
    engine.start_backfill(ws, &flow(), "s", wanted.clone()).await.unwrap();
    house.tick().await;
    engine.pause_backfill(ws, &flow(), "s", true).await.unwrap();
    house.tick().await;
    assert_eq!(house.triggered("date"), [json!("2026-01-02T08:00:00.000Z")]);
    engine.pause_backfill(ws, &flow(), "s", false).await.unwrap();
    for _ in 0..4 {
        house.tick().await;
    }
    let hours =
        |hours: &[&str]| -> Vec<_> { hours.iter().map(|h| json!(format!("2026-01-02T{h}:00:00.000Z"))).collect() };
    assert_eq!(house.triggered("date"), hours(&["08", "09", "10"]));
    assert!(house.runs().iter().all(|(_, values)| values.inputs == Some(json!({"who": "me"}))));
    assert_eq!(
        engine.pause_backfill(ws, &flow(), "s", true).await.map_err(|e| e.to_string()),
        Err("the trigger has no backfill".into())
    );
    // The same instants once more are other events.
    engine.start_backfill(ws, &flow(), "s", wanted).await.unwrap();
    house.tick().await;
    engine.end_backfill(ws, &flow(), "s").await.unwrap();
    house.now_is("2026-01-02T13:10:00Z");
    house.tick().await;
    assert_eq!(house.triggered("date"), hours(&["08", "09", "10", "08", "13"]));
}

#[tokio::test]
async fn a_run_stops_its_trigger() {
    let house = House::at("2026-01-02T12:30:00Z");
    house.push("id: f\nnamespace: n\ntasks: [{id: t, type: execution.Fail}]\ntriggers:\n  - {id: s, type: trigger.Schedule, cron: '0 * * * *', stopAfter: [FAILED]}\n").await;
    house.now_is("2026-01-02T13:00:01Z");
    house.tick().await;
    house.engine.hear_changes().await.unwrap();
    let view = house.engine.trigger(&house.workspace, &flow(), "s").unwrap().unwrap();
    assert!(view.row.state.disabled && view.row.next_due.is_none());
    house.now_is("2026-01-02T14:00:01Z");
    house.tick().await;
    assert_eq!(house.runs().len(), 1);
}

#[tokio::test]
async fn runs_of_a_schedule_overlap_only_where_they_may() {
    for (more, running) in [("", 1), (", allowConcurrent: true", 2)] {
        let house = House::at("2026-01-02T12:30:00Z");
        house.push(&format!("id: f\nnamespace: n\ntasks: [{{id: t, type: flow.Sleep, duration: PT24H}}]\ntriggers:\n  - {{id: s, type: trigger.Schedule, cron: '0 * * * *'{more}}}\n")).await;
        house.now_is("2026-01-02T14:00:01Z");
        house.engine.tick_schedules().await.unwrap();
        let live = || house.runs().iter().filter(|(run, _)| run.status != Status::Queued).count();
        assert_eq!((house.runs().len(), live()), (2, running), "`{more}`");
    }
}

const POLL: &str = "id: f\nnamespace: n\ntasks: [{id: t, type: log.Log, message: '{{ trigger.body }}'}]\ntriggers:\n  - id: p\n    type: io.kestra.plugin.core.http.Trigger\n    uri: http://there/x\n    interval: PT30S\n    responseCondition: \"{{ response.statusCode == 200 and response.body contains 'ready' }}\"\n";

#[tokio::test]
async fn a_poll_starts_a_run_when_its_condition_is_met() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.push(POLL).await;
    let answer = |code: u16, body: &str| Outcome::Done {
        output: json!({"code": code, "body": body, "headers": {}, "uri": "http://there/x"}),
    };
    let mut expected = 0;
    for (second, outcome, found) in [
        (10, answer(200, "ready"), false),
        (30, answer(500, "ready"), false),
        (61, answer(200, "not yet"), false),
        (92, answer(200, "ready now"), true),
        (93, answer(200, "ready again"), false),
        (123, Outcome::Lost { code: "timeout", message: "no answer".into() }, false),
        (154, answer(200, "ready once more"), true),
    ] {
        *house.outside.lock() = outcome;
        house.now_is(&format!("2026-01-02T12:{:02}:{:02}Z", second / 60, second % 60));
        house.tick().await;
        house.engine.make_polls().await.unwrap();
        house.settle().await;
        expected += usize::from(found);
        assert_eq!(house.runs().len(), expected, "after {second} s");
    }
    assert_eq!(house.triggered("body"), [json!("ready now"), json!("ready once more")]);
}

#[tokio::test]
async fn a_trigger_that_is_forgotten_begins_anew() {
    let house = House::at("2026-01-02T12:30:00Z");
    house.push(HOURLY).await;
    let (engine, ws) = (&house.engine, &house.workspace);
    house.now_is("2026-01-02T13:00:01Z");
    house.tick().await;
    assert_eq!(house.runs().len(), 1);
    engine.set_trigger_disabled(ws, &flow(), "s", true).await.unwrap();
    house.now_is("2026-01-02T15:30:00Z");
    engine.forget_trigger(ws, &flow(), "s").await.unwrap();
    let view = engine.trigger(ws, &flow(), "s").unwrap().unwrap();
    assert_eq!((view.row.state.disabled, view.row.last_fired), (false, None));
    house.tick().await;
    assert_eq!(house.runs().len(), 1, "what was missed meanwhile is not made up for");
    house.now_is("2026-01-02T16:00:01Z");
    house.tick().await;
    assert_eq!(house.runs().len(), 2, "it is on again");
    assert_eq!(engine.forget_trigger(ws, &flow(), "x").await, Err(TriggerError::Unknown));
}

#[tokio::test]
async fn a_schedule_that_waits_for_nothing_can_be_restarted_too() {
    let house = House::at("2026-01-02T12:30:00Z");
    house.push(HOURLY).await;
    let (engine, ws) = (&house.engine, &house.workspace);
    let due = |engine: &crate::Engine| engine.trigger(ws, &flow(), "s").unwrap().unwrap().row.next_due;
    let before = due(engine);
    engine.restart_trigger(ws, &flow(), "s").await.unwrap();
    assert_eq!(due(engine), before, "its instants stay what they are");
    assert_eq!(engine.restart_trigger(ws, &flow(), "x").await, Err(TriggerError::Unknown));
}
