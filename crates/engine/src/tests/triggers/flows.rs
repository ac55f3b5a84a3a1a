//! What runs of other flows start.

use super::House;
use semel_core::run::{By, Status};
use semel_core::{FlowRef, RunId};
use semel_store::{Done, RunRow, Work};
use serde_json::json;

const UP: &str = "id: up\nnamespace: shop\nlabels: {team: red}\ninputs: [{id: bad, type: BOOL, defaults: false}]\ntasks:\n  - {id: t, type: debug.Return, format: hello}\n  - {id: f, type: execution.Fail, condition: '{{ inputs.bad }}'}\noutputs: [{id: said, type: STRING, value: '{{ outputs.t.value }}'}]\n";

fn down(trigger: &str) -> String {
    format!(
        "id: down\nnamespace: shop\ninputs: [{{id: said, type: STRING, defaults: nothing}}]\ntasks: [{{id: t, type: log.Log, message: '{{{{ inputs.said }}}}'}}]\ntriggers:\n  - id: after\n    type: io.kestra.plugin.core.trigger.Flow\n{trigger}"
    )
}

impl House {
    /// Starts a flow, waits for its end, and lets triggers hear of it.
    async fn run(&self, flow: &str, bad: bool) -> RunRow {
        let id = self.begin(flow, bad).await;
        self.hear().await;
        self.engine.store().run(&self.workspace, id).unwrap().unwrap().0
    }

    async fn begin(&self, flow: &str, bad: bool) -> RunId {
        let inputs = if bad { json!({"bad": true}) } else { json!({}) };
        let run = self.engine.admit(self.event(flow, inputs)).await.unwrap().run.unwrap().id;
        self.settle().await;
        run
    }

    async fn hear(&self) {
        self.engine.hear_changes().await.unwrap();
        self.settle().await;
    }

    fn downs(&self) -> Vec<RunRow> {
        self.runs().into_iter().map(|(row, _)| row).filter(|row| row.flow == FlowRef::new("shop", "down")).collect()
    }

    fn changes(&self) -> usize {
        self.engine.store().changes(self.engine.store().now(), 100).unwrap().len()
    }
}

#[tokio::test]
async fn a_run_starts_another_flow_once_with_its_outputs_and_correlation() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.push(UP).await;
    house.push(&down("    inputs: {said: '{{ trigger.outputs.said }}'}\n    conditions:\n      - type: io.kestra.plugin.core.condition.ExecutionFlow\n        namespace: shop\n        flowId: up\n      - type: io.kestra.plugin.core.condition.ExecutionStatus\n        in: [SUCCESS]\n")).await;
    let up = house.run("up", false).await;
    let [down] = house.downs().try_into().expect("one run");
    assert_eq!((down.status, down.correlation_id.as_str()), (Status::Completed, up.id.to_string().as_str()));
    let (_, values, labels) = house.engine.store().run(&house.workspace, down.id).unwrap().unwrap();
    assert_eq!(values.inputs, Some(json!({"said": "hello"})));
    let trigger = values.trigger.unwrap();
    assert_eq!(trigger["executionId"], json!(up.id.to_string()));
    assert_eq!((&trigger["state"], &trigger["outputs"]), (&json!("SUCCESS"), &json!({"said": "hello"})));
    assert!(labels.contains(&("team".into(), "red".into())), "labels of the upstream run pass on: {labels:?}");
    // Looking again does nothing.
    house.hear().await;
    assert_eq!((house.downs().len(), house.changes()), (1, 0));
    house.run("up", true).await;
    assert_eq!(house.downs().len(), 1, "a failed run is not wanted");
}

#[tokio::test]
async fn a_change_that_was_heard_of_before_a_crash_is_not_heard_of_again() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.push(UP).await;
    house.push(&down("    states: [FAILED]\n")).await;
    house.begin("up", true).await;
    let [change] = house.engine.store().changes(house.engine.store().now(), 9).unwrap().try_into().expect("one change");
    house.hear().await;
    assert_eq!((house.downs().len(), change.state.as_str()), (1, "FAILED"));
    // A run that fails again is another event.
    let run = change.run;
    let by = By { who: "me".into(), why: "again".into() };
    house.engine.control(&house.workspace, run, crate::api::Control::Restart, by).await.unwrap();
    house.settle().await;
    house.hear().await;
    assert_eq!(house.downs().len(), 2);
}

#[tokio::test]
async fn nothing_is_left_for_triggers_that_are_not_there() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.push(UP).await;
    house.begin("up", false).await;
    assert_eq!(house.changes(), 0);
    house.push(&down("    states: [FAILED]\n")).await;
    house.begin("up", false).await;
    assert_eq!(house.changes(), 0, "nobody wants to hear of success");
    house.begin("up", true).await;
    assert_eq!(house.changes(), 1);
    // Its own runs do not start a flow.
    house.hear().await;
    house.hear().await;
    assert_eq!(house.downs().len(), 1);
}

#[tokio::test]
async fn preconditions_wait_for_all_flows_within_the_window() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.push(UP).await;
    house.push(&UP.replace("id: up", "id: other")).await;
    house.push(&down("    preconditions:\n      id: both\n      timeWindow: {type: DURATION_WINDOW, window: PT6H}\n      flows:\n        - {namespace: shop, flowId: up, states: [SUCCESS]}\n        - {namespace: shop, flowId: other, states: [SUCCESS, WARNING]}\n")).await;
    house.run("up", false).await;
    house.run("up", false).await;
    house.run("other", true).await;
    assert_eq!(house.downs().len(), 0);
    house.run("other", false).await;
    assert_eq!(house.downs().len(), 1);
    house.run("other", false).await;
    assert_eq!(house.downs().len(), 1, "all must be met anew");
    house.now_is("2026-01-02T18:00:01Z");
    house.run("up", false).await;
    assert_eq!(house.downs().len(), 1, "what was met in another window is forgotten");
    house.run("other", false).await;
    assert_eq!(house.downs().len(), 2);
}

#[tokio::test]
async fn without_a_reset_each_further_run_fires() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.push(UP).await;
    house.push(&UP.replace("id: up", "id: other")).await;
    house.push(&down("    preconditions:\n      id: both\n      resetOnSuccess: false\n      where:\n        - id: ups\n          filters: [{field: FLOW_ID, type: EQUAL_TO, value: up}, {field: STATE, type: IN, values: [SUCCESS]}]\n        - id: others\n          operand: OR\n          filters: [{field: EXPRESSION, type: IS_TRUE, value: \"{{ trigger.flowId == 'other' }}\"}]\n")).await;
    house.run("up", false).await;
    house.run("other", false).await;
    assert_eq!(house.downs().len(), 1);
    house.run("up", false).await;
    assert_eq!(house.downs().len(), 2);
    house.push(&UP.replace("id: up", "id: third")).await;
    house.run("third", false).await;
    assert_eq!(house.downs().len(), 2, "a run that meets nothing starts nothing");
}

#[tokio::test]
async fn the_older_form_and_closed_windows() {
    let house = House::at("2026-01-02T10:00:00Z");
    house.push(UP).await;
    house.push(&down("    conditions:\n      - id: early\n        type: io.kestra.core.models.conditions.types.MultipleCondition\n        timeWindow: {type: DAILY_TIME_DEADLINE, deadline: '09:00:00'}\n        conditions:\n          up:\n            type: io.kestra.plugin.core.condition.ExecutionFlowCondition\n            namespace: shop\n            flowId: up\n")).await;
    house.run("up", false).await;
    assert_eq!(house.downs().len(), 0, "too late for today");
    house.now_is("2026-01-03T08:59:00Z");
    house.run("up", false).await;
    assert_eq!(house.downs().len(), 1);
}

#[tokio::test]
async fn templates_of_the_trigger_see_the_upstream_tasks() {
    let house = House::at("2026-01-02T10:00:00Z");
    house.push(UP).await;
    house.push(&down("    inputs: {said: '{{ outputs.t.value }} by {{ trigger.flowId }}'}\n    conditions:\n      - type: condition.Expression\n        expression: \"{{ outputs.t.value == 'hello' }}\"\n")).await;
    house.run("up", false).await;
    let inputs: Vec<_> =
        house.runs().into_iter().filter(|(row, _)| row.flow.id == "down").map(|(_, v)| v.inputs).collect();
    assert_eq!(inputs, [Some(json!({"said": "hello by up"}))]);
}

#[tokio::test]
async fn a_deleted_upstream_run_starts_nothing() {
    let house = House::at("2026-01-02T10:00:00Z");
    house.push(UP).await;
    house.push(&down("")).await;
    let run = house.begin("up", false).await;
    let done = house.engine.write(Work::DeleteRun { workspace: house.workspace.clone(), run }).await.unwrap();
    assert!(matches!(done, Done::Unit));
    house.hear().await;
    assert_eq!((house.downs().len(), house.changes()), (0, 0));
}
