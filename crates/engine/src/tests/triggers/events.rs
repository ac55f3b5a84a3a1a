//! Events that Conductor's tasks publish, and what handlers make of them.

use super::House;
use semel_core::limits::Limits;
use semel_core::run::Status;
use semel_core::{FlowRef, Millis, RunId};
use semel_store::{
    EVENT_EXECUTIONS, EVENT_HANDLERS, EVENT_MESSAGES, EVENTS, ErrandQueue, FlowRow, PushRule, RunRow, RunValues,
    TakeErrands, Work,
};
use semel_tasks::Outcome;
use serde_json::{Value as Json, json};

impl House {
    async fn put_workflow(&self, definition: Json) {
        let compiled = semel_flow::conductor::compile(&definition, &Limits::default()).expect("a workflow");
        let row = FlowRow {
            workspace: self.workspace.clone(),
            flow: compiled.flow.flow_ref(),
            revision: 0,
            source: definition.to_string(),
            ir: serde_json::to_string(&compiled.flow).unwrap(),
            disabled: false,
            deleted: false,
            created_at: Millis(0),
            created_by: "test".into(),
        };
        self.engine.write(Work::PutFlow { row: Box::new(row), schedules: vec![], rule: PushRule::Any }).await.unwrap();
    }

    async fn put_handler(&self, handler: Json) {
        let set = Work::KvSet {
            workspace: self.workspace.clone(),
            namespace: EVENT_HANDLERS.to_owned(),
            key: handler["name"].as_str().unwrap().to_owned(),
            value: handler,
            kv_type: "JSON".to_owned(),
            overwrite: true,
            ttl_ms: None,
        };
        self.engine.write(set).await.unwrap();
    }

    /// Starts a workflow and waits until nothing moves any more.
    async fn go(&self, name: &str, inputs: Json) -> RunId {
        let run = self.engine.admit(self.event(&format!("conductor:{name}@1"), inputs)).await.unwrap().run.unwrap().id;
        self.rest().await;
        run
    }

    async fn rest(&self) {
        for _ in 0..200 {
            let moves = |row: &RunRow| matches!(row.status, Status::Running | Status::Queued);
            if !self.runs().iter().any(|(row, _)| moves(row)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("runs go on and on");
    }

    async fn hear_of_events(&self) {
        self.engine.hear_events().await.unwrap();
        self.rest().await;
    }

    fn events(&self) -> Vec<Json> {
        let rows = self.engine.store().kv_list(&self.workspace, EVENTS, None, 99).unwrap();
        rows.into_iter().map(|row| row.value).collect()
    }

    fn runs_of(&self, name: &str) -> Vec<(RunRow, RunValues)> {
        let flow = FlowRef::new("conductor", format!("{name}@1"));
        self.runs().into_iter().filter(|(row, _)| row.flow == flow).collect()
    }
}

fn publisher(sink: &str) -> Json {
    json!({"name": "up", "tasks": [{"name": "e", "taskReferenceName": "e", "type": "EVENT", "sink": sink,
        "inputParameters": {"order": "${workflow.input.order}"}}], "outputParameters": {"e": "${e.output}"}})
}

fn starter(more: Json) -> Json {
    let mut start = json!({"name": "down", "input": {"order": "${order.id}", "from": "${workflowInstanceId}"}});
    for (key, value) in more.as_object().unwrap() {
        start[key] = value.clone();
    }
    json!({"name": "h", "event": "conductor:up:orders", "active": true,
        "actions": [{"action": "start_workflow", "start_workflow": start}]})
}

fn down() -> Json {
    json!({"name": "down", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}],
        "outputParameters": {"in": "${workflow.input}"}})
}

#[tokio::test]
async fn an_event_starts_a_workflow_once() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.put_workflow(publisher("conductor:orders")).await;
    house.put_workflow(down()).await;
    house.put_handler(starter(json!({}))).await;
    house
        .put_handler(json!({"name": "off", "event": "conductor:up:orders", "active": false,
        "actions": [{"action": "start_workflow", "start_workflow": {"name": "down"}}]}))
        .await;
    let up = house.go("up", json!({"order": {"id": 7}})).await;
    let [event] = house.events().try_into().expect("one event");
    assert_eq!(event["event"], "conductor:up:orders");
    let (_, values) = house.runs_of("up").remove(0);
    let output = &values.outputs.unwrap()["e"];
    assert_eq!((&output["event_produced"], &output["order"]), (&json!("conductor:up:orders"), &json!({"id": 7})));
    assert_eq!(output["workflowInstanceId"], json!(up.to_string()));

    house.hear_of_events().await;
    let [(_, values)] = house.runs_of("down").try_into().expect("one run");
    let given = &values.outputs.unwrap()["in"];
    assert_eq!((&given["order"], &given["from"]), (&json!(7), &json!(up.to_string())));
    assert_eq!(given["conductor.event.name"], "conductor:up:orders");
    assert_eq!(house.events(), Vec::<Json>::new());

    // The process died before the row was gone: the same event is heard once more.
    let set = Work::KvSet {
        workspace: house.workspace.clone(),
        namespace: EVENTS.to_owned(),
        key: "0000000000001-again".to_owned(),
        value: event,
        kv_type: "JSON".to_owned(),
        overwrite: true,
        ttl_ms: None,
    };
    house.engine.write(set).await.unwrap();
    house.hear_of_events().await;
    assert_eq!((house.runs_of("down").len(), house.events().len()), (1, 0));
    house.go("up", json!({"order": {"id": 8}})).await;
    house.hear_of_events().await;
    assert_eq!(house.runs_of("down").len(), 2, "another event");
}

#[tokio::test]
async fn a_key_and_a_condition_count_for_what_an_event_starts() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.put_workflow(publisher("conductor:orders")).await;
    house.put_workflow(down()).await;
    house
        .put_handler(starter(json!({"idempotencyKey": "order-${order.id}", "idempotencyStrategy": "RETURN_EXISTING"})))
        .await;
    for id in [1, 1, 2] {
        house.go("up", json!({"order": {"id": id}})).await;
    }
    house.hear_of_events().await;
    assert_eq!(house.runs_of("down").len(), 2, "one for each key");

    let mut handler = starter(json!({}));
    handler["condition"] = json!("$.order.id > 5");
    handler["evaluatorType"] = json!("javascript");
    house.put_handler(handler).await;
    for (holds, runs) in [(false, 2), (true, 3)] {
        *house.outside.lock() = Outcome::Done { output: json!({"result": holds, "stop": !holds}) };
        house.go("up", json!({"order": {"id": 3}})).await;
        house.hear_of_events().await;
        assert_eq!(house.runs_of("down").len(), runs);
    }
}

#[tokio::test]
async fn an_event_answers_a_task_and_ends_a_workflow() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.put_workflow(publisher("conductor")).await;
    let wait = |name: &str| {
        json!({"name": name, "tasks": [{"name": "w", "taskReferenceName": "w", "type": "WAIT"}],
        "outputParameters": {"w": "${w.output}"}})
    };
    for name in ["one", "two", "three"] {
        house.put_workflow(wait(name)).await;
    }
    let (one, two, three) =
        (house.go("one", json!({})).await, house.go("two", json!({})).await, house.go("three", json!({})).await);
    let task = |field: &str| {
        json!({"workflowId": format!("${{order.{field}}}"), "taskRefName": "w", "output": {"by": "${order.by}"},
        "reasonForIncompletion": "the event says so"})
    };
    house.put_handler(json!({"name": "h", "event": "conductor:up:e", "active": true, "actions": [
        {"action": "complete_task", "complete_task": task("one")},
        {"action": "fail_task", "fail_task": task("two")},
        {"action": "terminate_workflow", "terminate_workflow": {"workflowId": "${order.three}", "terminationReason": "over"}},
        {"action": "dance"},
    ]})).await;
    let order = json!({"one": one.to_string(), "two": two.to_string(), "three": three.to_string(), "by": "me"});
    house.go("up", json!({"order": order})).await;
    house.hear_of_events().await;
    let (one, values) = house.runs_of("one").remove(0);
    assert_eq!((one.status, &values.outputs.unwrap()["w"]["by"]), (Status::Completed, &json!("me")));
    let (two, values) = house.runs_of("two").remove(0);
    assert_eq!((two.status, &values.failure.unwrap()["message"]), (Status::Failed, &json!("the event says so")));
    assert_eq!(house.runs_of("three").remove(0).0.status, Status::Cancelled);
    assert_eq!(house.events().len(), 0, "an action that does nothing does not hold the others up");
}

#[tokio::test]
async fn an_event_sets_variables_once() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.put_workflow(publisher("conductor:orders")).await;
    house
        .put_workflow(json!({"name": "one", "tasks": [{"name": "w", "taskReferenceName": "w", "type": "WAIT"}],
            "variables": {"kept": 1, "by": "nobody", "all": ["here"]}, "outputParameters": {"v": "${workflow.variables}"}}))
        .await;
    let one = house.go("one", json!({})).await;
    let action = |more: Json| {
        let mut given = json!({"workflowId": "${order.one}", "variables": {"by": "${order.by}"}});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"action": "update_workflow_variables", "update_workflow_variables": given})
    };
    house
        .put_handler(json!({"name": "h", "event": "conductor:up:orders", "active": true, "actions": [
            action(json!({})), action(json!({"variables": {"all": "${order.by}", "by": "${order.by}"}, "appendArray": true})),
            action(json!({"variables": {"all": ["x", "${order.by}"]}, "appendArray": true})),
            action(json!({"workflowId": "nobody"})),
        ]}))
        .await;
    let order = |by: &str| json!({"order": {"one": one.to_string(), "by": by}});
    house.go("up", order("first")).await;
    let [first] = house.events().try_into().expect("one event");
    house.hear_of_events().await;
    house.go("up", order("second")).await;
    house.hear_of_events().await;
    // The process died before the row of the first one was gone: what has been set since stays.
    let set = Work::KvSet {
        workspace: house.workspace.clone(),
        namespace: EVENTS.to_owned(),
        key: "0000000000001-again".to_owned(),
        value: first,
        kv_type: "JSON".to_owned(),
        overwrite: true,
        ttl_ms: None,
    };
    house.engine.write(set).await.unwrap();
    house.hear_of_events().await;
    assert_eq!(house.events().len(), 0);
    let errand = crate::events::open_errand(house.engine.store(), &house.workspace, one, "w").unwrap().unwrap();
    let end = crate::api::ErrandAnswer::Done { output: json!({}) };
    house.engine.answer_errand(&house.workspace, errand, end, None).await.unwrap();
    house.rest().await;
    let (_, values) = house.runs_of("one").remove(0);
    assert_eq!(
        values.outputs.unwrap()["v"],
        json!({"kept": 1, "by": "second", "all": ["here", "first", "x", "first", "second", "x", "second"]})
    );
}

#[tokio::test]
async fn what_came_of_an_event_can_be_read() {
    let house = House::at("2026-01-02T12:00:00Z");
    house.put_workflow(publisher("conductor:orders")).await;
    house.put_workflow(down()).await;
    house.put_handler(starter(json!({}))).await;
    let mut broken = starter(json!({"name": "nobody"}));
    broken["name"] = json!("broken");
    house.put_handler(broken).await;
    house.go("up", json!({"order": {"id": 7}})).await;
    let [event] = house.events().try_into().expect("one event");
    house.hear_of_events().await;
    let kept = |namespace: &str| -> Vec<(String, Json)> {
        let rows = house.engine.store().kv_list(&house.workspace, namespace, None, 99).unwrap();
        rows.into_iter().map(|row| (row.key, row.value)).collect()
    };
    let [(_, failed), (_, done)] = kept(EVENT_EXECUTIONS).try_into().expect("one for each action");
    assert_eq!((&failed["name"], &failed["status"]), (&json!("broken"), &json!("FAILED")));
    assert_eq!(failed["statusDescription"], "no workflow nobody is registered");
    assert_eq!(
        (&done["name"], &done["status"], &done["action"]),
        (&json!("h"), &json!("COMPLETED"), &json!("start_workflow"))
    );
    assert_eq!(done["output"]["workflowId"], json!(house.runs_of("down").remove(0).0.id.to_string()));
    assert_eq!(done["messageId"], event["id"]);
    let [(_, message)] = kept(EVENT_MESSAGES).try_into().expect("one message");
    assert_eq!((&message["eventTarget"], &message["status"]), (&json!("conductor:up:orders"), &json!("HANDLED")));
    assert_eq!(message["fullPayload"]["order"], json!({"id": 7}));
    // What nobody listens to is not kept.
    house.engine.publish_event(&house.workspace, "e2", "other", json!({})).await.unwrap();
    house.hear_of_events().await;
    assert_eq!((kept(EVENT_MESSAGES).len(), house.events().len()), (1, 0));
}

#[tokio::test]
async fn a_task_tells_of_what_becomes_of_it() {
    let house = House::at("2026-01-02T12:00:00Z");
    let told = json!([{"type": "seen", "payload": {"of": "${workflow.input.order}", "paid": "${t.output.paid}"}}]);
    let task = json!({"name": "work", "taskReferenceName": "t", "type": "SIMPLE", "taskDefinition": {"name": "work", "retryCount": 0},
        "onStateChange": {"onScheduled, onStart": told, "onSuccess,onFailed": told}});
    house.put_workflow(json!({"name": "up", "tasks": [task]})).await;
    let take = async || {
        let from = ErrandQueue { queue: "work".to_owned(), domain: String::new() };
        let (workspace, worker) = (house.workspace.clone(), "w1".to_owned());
        let request = TakeErrands { workspace, from, worker, count: 1, limit: None, rate: None, after: None };
        house.engine.take_errands(request, std::time::Duration::ZERO).await.unwrap().remove(0).row
    };
    let statuses = || {
        let events = house.events();
        assert!(events.iter().all(|event| event["event"] == "conductor:up:seen" && event["payload"]["of"] == 7));
        let mut seen: Vec<(String, String)> = Vec::new();
        for event in &events {
            let word = |of: &Json| of.as_str().unwrap().to_owned();
            let one = (word(&event["payload"]["status"]), word(&event["id"]));
            if !seen.contains(&one) {
                seen.push(one);
            }
        }
        let mut words: Vec<String> = seen.into_iter().map(|(status, _)| status).collect();
        words.sort();
        words
    };
    for (end, last) in [
        (crate::api::ErrandAnswer::Done { output: json!({"paid": true}) }, "COMPLETED"),
        (crate::api::ErrandAnswer::Failed { message: "no".into(), output: None, for_good: false }, "FAILED"),
    ] {
        house.go("up", json!({"order": 7})).await;
        assert_eq!(statuses(), ["SCHEDULED"]);
        let row = take().await;
        assert_eq!(statuses(), ["IN_PROGRESS", "SCHEDULED"]);
        house.engine.answer_errand(&house.workspace, row, end, None).await.unwrap();
        house.rest().await;
        let mut wanted = vec![last, "IN_PROGRESS", "SCHEDULED"];
        wanted.sort();
        assert_eq!(statuses(), wanted, "each once, also where it was said twice");
        let event = house.events().into_iter().find(|event| event["payload"]["status"] == last).unwrap();
        let payload = &event["payload"];
        assert_eq!((&payload["referenceTaskName"], &payload["taskDefName"]), (&json!("t"), &json!("work")));
        assert_eq!(payload["paid"], if last == "COMPLETED" { json!(true) } else { json!(null) });
        house.hear_of_events().await;
    }
}
