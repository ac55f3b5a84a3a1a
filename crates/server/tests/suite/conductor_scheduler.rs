//! `/api/scheduler`, on a clock that the test moves.

use crate::harness::*;
use axum::body::Body;
use serde_json::{Value as Json, json};

/// A workflow that ends at once, and one that waits for somebody.
async fn server() -> Server {
    let server = Server::start();
    for (name, kind) in [("quick", "SET_VARIABLE"), ("slow", "WAIT")] {
        let task = json!({"name": "t", "taskReferenceName": "t", "type": kind, "inputParameters": {}});
        let workflow = json!({"name": name, "version": 1, "tasks": [task]});
        server.json("POST", "/api/metadata/workflow", workflow).await.expect(200);
    }
    server
}

fn every_minute(name: &str, request: Json) -> Json {
    json!({"name": name, "cronExpression": "0 * * ? * *", "startWorkflowRequest": request})
}

async fn executions(server: &Server, query: &str) -> Vec<Json> {
    let query = query.replace(' ', "%20");
    let found = server.get(&format!("/api/scheduler/search/executions?query={query}")).await.expect(200);
    found.json["results"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_instant_starts_the_workflow_once_with_what_it_is_told() {
    let server = server().await;
    let request = json!({"name": "quick", "version": 1, "input": {"a": 1}, "correlationId": "c"});
    server.json("POST", "/api/scheduler/schedules", every_minute("s", request)).await.expect(200);
    let first = server.store.now().plus(60_000);
    assert_eq!(server.get("/api/scheduler/schedules/s").await.expect(200).json["nextRunTime"], first.0);
    server.advance(59_999);
    server.engine.tick_schedules().await.unwrap();
    assert!(executions(&server, "scheduleName = s").await.is_empty(), "too early");
    server.advance(1);
    for _ in 0..3 {
        server.engine.tick_schedules().await.unwrap();
    }
    let found = executions(&server, "scheduleName IN (s) AND state = EXECUTED").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["scheduledTime"], &found[0]["workflowName"]), (&json!(first.0), &json!("quick")));
    let run = found[0]["workflowId"].as_str().unwrap();
    server.ended("main", run).await;
    let workflow = server.get(&format!("/api/workflow/{run}")).await.expect(200).json;
    let input = &workflow["input"];
    assert_eq!((&input["a"], &input["_startedByScheduler"]), (&json!(1), &json!("s")));
    assert_eq!((&input["_scheduledTime"], &input["_schedulerCron"]), (&json!(first.0), &json!("0 * * ? * *")));
    assert_eq!(input["_executionId"], found[0]["executionId"]);
    assert_eq!((&workflow["correlationId"], &workflow["status"]), (&json!("c"), &json!("COMPLETED")));
    let runs = server.get("/v1/runs?namespace=conductor").await.json;
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
    assert_eq!(runs["items"][0]["door"], "schedule");
}

#[tokio::test]
async fn a_running_workflow_keeps_the_next_one_out() {
    let server = server().await;
    let request = json!({"name": "slow", "idempotencyKey": "one", "idempotencyStrategy": "FAIL_ON_RUNNING"});
    server.json("POST", "/api/scheduler/schedules", every_minute("s", request)).await.expect(200);
    for _ in 0..2 {
        server.advance(60_000);
        server.engine.tick_schedules().await.unwrap();
    }
    let found = executions(&server, "").await;
    assert_eq!(found.iter().map(|one| one["state"].as_str().unwrap()).collect::<Vec<_>>(), ["FAILED", "EXECUTED"]);
    assert_eq!(found[0]["reason"], "Workflow with the idempotency key one already exists");
    let run = found[1]["workflowId"].as_str().unwrap();
    server.json("POST", &format!("/api/tasks/{run}/t/COMPLETED"), json!({})).await.expect(200);
    server.ended("main", run).await;
    server.advance(60_000);
    server.engine.tick_schedules().await.unwrap();
    assert_eq!(executions(&server, "state = EXECUTED").await.len(), 2, "it has ended, and the next one starts");
}

#[tokio::test]
async fn a_key_is_that_of_its_instant_and_one_that_gives_nothing_starts_nothing() {
    let server = server().await;
    let keyed = |key: &str| json!({"name": "quick", "idempotencyKey": key, "idempotencyStrategy": "FAIL"});
    server
        .json("POST", "/api/scheduler/schedules", every_minute("good", keyed("at-${scheduledTime}")))
        .await
        .expect(200);
    server.json("POST", "/api/scheduler/schedules", every_minute("bad", keyed("at-${nowhere}"))).await.expect(200);
    server.json("POST", "/api/scheduler/schedules", every_minute("gone", json!({"name": "nothing"}))).await.expect(200);
    for _ in 0..2 {
        server.advance(60_000);
        server.engine.tick_schedules().await.unwrap();
    }
    assert_eq!(executions(&server, "scheduleName = good AND status = EXECUTED").await.len(), 2);
    for (name, reason) in [("bad", "did not resolve: `${nowhere}` gives nothing"), ("gone", "No such workflow found")] {
        let found = executions(&server, &format!("scheduleName = {name} AND state = FAILED")).await;
        assert_eq!(found.len(), 2, "{name}: {found:?}");
        assert!(found[0]["reason"].as_str().unwrap().contains(reason), "{found:?}");
    }
    assert_eq!(server.get("/v1/runs?namespace=conductor").await.json["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn missed_instants_are_made_up_for_only_where_that_is_asked() {
    let server = server().await;
    let mut all = every_minute("all", json!({"name": "quick"}));
    all["runCatchupScheduleInstances"] = json!(true);
    server.json("POST", "/api/scheduler/schedules", all).await.expect(200);
    server.json("POST", "/api/scheduler/schedules", every_minute("last", json!({"name": "quick"}))).await.expect(200);
    server.advance(5 * 60_000 + 30_000);
    server.engine.tick_schedules().await.unwrap();
    assert_eq!(executions(&server, "scheduleName = all").await.len(), 5);
    assert_eq!(executions(&server, "scheduleName = last").await.len(), 0, "half a minute is too late");
    server.advance(30_000);
    server.engine.tick_schedules().await.unwrap();
    assert_eq!(executions(&server, "scheduleName = last").await.len(), 1);
}

#[tokio::test]
async fn a_paused_schedule_waits_and_goes_on_from_now() {
    let server = server().await;
    server.json("POST", "/api/scheduler/schedules", every_minute("s", json!({"name": "quick"}))).await.expect(200);
    server.json("PUT", "/api/scheduler/schedules/s/pause?reason=holiday", json!({})).await.expect(200);
    let shown = server.get("/api/scheduler/schedules?workflowName=quick").await.expect(200).json;
    assert_eq!((&shown[0]["paused"], &shown[0]["pausedReason"]), (&json!(true), &json!("holiday")));
    server.advance(10 * 60_000);
    server.engine.tick_schedules().await.unwrap();
    server.get("/api/scheduler/schedules/s/resume").await.expect(200);
    server.engine.tick_schedules().await.unwrap();
    assert!(executions(&server, "").await.is_empty(), "what was missed meanwhile is missed");
    assert_eq!(server.get("/api/scheduler/schedules/s").await.json["paused"], false);
    server.advance(60_000);
    server.engine.tick_schedules().await.unwrap();
    assert_eq!(executions(&server, "").await.len(), 1);
    let bulk = server.json("PUT", "/api/scheduler/bulk/pause", json!(["s", "nobody"])).await.expect(200).json;
    assert_eq!(bulk["bulkSuccessfulResults"], json!(["s"]));
    assert!(bulk["bulkErrorResults"]["nobody"].is_string());
    server.get("/api/scheduler/admin/resume").await.expect(200);
    assert_eq!(server.get("/api/scheduler/schedules/s").await.json["paused"], false);
    assert_eq!(server.get("/v1/schedules").await.json["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn bounds_several_crons_and_zones_count() {
    let server = server().await;
    let now = server.store.now();
    let schedule = json!({"name": "s", "startWorkflowRequest": {"name": "quick"}, "zoneId": "Europe/Berlin",
        "cronSchedules": [{"cronExpression": "0 0 9 * * ?"}, {"cronExpression": "30 * * * * *", "zoneId": "UTC"}],
        "scheduleStartTime": now.plus(60_000).0, "scheduleEndTime": now.plus(100_000).0});
    server.json("POST", "/api/scheduler/schedules", schedule).await.expect(200);
    for _ in 0..20 {
        server.advance(10_000);
        server.engine.tick_schedules().await.unwrap();
    }
    let found = executions(&server, "").await;
    assert_eq!(found.iter().map(|one| one["scheduledTime"].clone()).collect::<Vec<_>>(), [json!(now.plus(90_000).0)]);
    let next = "/api/scheduler/nextFewSchedules?cronExpression=0%200%20*%20%3F%20*%20*&limit=2";
    let hour = 3_600_000;
    let from = (server.store.now().0 / hour + 1) * hour;
    assert_eq!(server.get(next).await.expect(200).json, json!([from, from + hour]));
    server.get("/api/scheduler/nextFewSchedules?cronExpression=0%200%20*%20*%20*").await.expect(400);
}

#[tokio::test]
async fn what_cannot_be_a_schedule_is_refused_and_what_is_gone_is_gone() {
    let server = server().await;
    let good = every_minute("s", json!({"name": "quick"}));
    for (field, value) in [
        ("name", json!("")),
        ("cronExpression", json!("* * * * *")),
        ("cronExpression", json!("0 0 0 30 2 ?")),
        ("zoneId", json!("Mars/Base")),
        ("startWorkflowRequest", json!({"version": 1})),
        ("startWorkflowRequest", json!({"name": "w", "idempotencyStrategy": "SOMETIMES"})),
        ("startWorkflowRequest", json!({"name": "w", "workflowDef": {"name": "w", "tasks": []}})),
    ] {
        let mut wrong = good.clone();
        wrong[field] = value.clone();
        let answer = server.json("POST", "/api/scheduler/schedules", wrong).await;
        assert_eq!(answer.status.as_u16(), 400, "{field} {value}: {}", answer.text);
    }
    server.json("POST", "/api/scheduler/schedules", good).await.expect(200);
    let tags = json!([{"key": "team", "value": "a", "type": "METADATA"}]);
    server.json("PUT", "/api/scheduler/schedules/s/tags", tags.clone()).await.expect(200);
    assert_eq!(server.get("/api/scheduler/schedules/s/tags").await.expect(200).json, tags);
    assert_eq!(server.get("/api/scheduler/schedules/tags?tag=team:a").await.expect(200).json[0]["name"], "s");
    server.send(request("DELETE", "/api/scheduler/schedules/s").body(Body::from("{}")).unwrap()).await.expect(200);
    let gone = server.get("/api/scheduler/schedules/s").await.expect(404).json;
    assert_eq!(gone["message"], "Schedule 's' not found");
    server.get("/api/scheduler/schedules/s/tags").await.expect(404);
    server.json("PUT", "/api/scheduler/schedules/s/pause", json!({})).await.expect(404);
    server.advance(120_000);
    server.engine.tick_schedules().await.unwrap();
    assert!(executions(&server, "").await.is_empty());
}

#[tokio::test]
async fn an_instant_that_was_begun_and_not_told_is_told_by_its_run() {
    let server = server().await;
    server.json("POST", "/api/scheduler/schedules", every_minute("s", json!({"name": "quick"}))).await.expect(200);
    server.advance(60_000);
    server.engine.tick_schedules().await.unwrap();
    // As if the process had died between the start and the word about it.
    let workspace = semel_core::WorkspaceId::default();
    let space = semel_store::SCHEDULE_EXECUTIONS;
    let row = server.store.kv_list(&workspace, space, None, 10).unwrap().remove(0);
    let run = row.value["workflowId"].clone();
    let mut begun = row.value.clone();
    begun["state"] = json!("POLLED");
    begun.as_object_mut().unwrap().remove("workflowId");
    let write = semel_store::Work::KvSet {
        workspace,
        namespace: space.into(),
        key: row.key,
        value: begun,
        kv_type: "JSON".into(),
        overwrite: true,
        ttl_ms: None,
    };
    server.store.call(write).unwrap();
    server.engine.tick_schedules().await.unwrap();
    let found = executions(&server, "").await;
    assert_eq!((found.len(), &found[0]["state"], &found[0]["workflowId"]), (1, &json!("EXECUTED"), &run));
    assert_eq!(server.get("/v1/runs?namespace=conductor").await.json["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_schedule_may_bring_its_definition() {
    let server = server().await;
    let own =
        json!({"tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}], "outputParameters": {"own": true}});
    let request = json!({"name": "brought", "workflowDef": own});
    server.json("POST", "/api/scheduler/schedules", every_minute("s", request)).await.expect(200);
    server.advance(60_000);
    server.engine.tick_schedules().await.unwrap();
    let found = executions(&server, "").await;
    let id = found[0]["workflowId"].as_str().unwrap_or_else(|| panic!("{found:?}")).to_owned();
    server.ended("main", &id).await;
    let workflow = server.get(&format!("/api/workflow/{id}")).await.expect(200).json;
    assert_eq!((&workflow["workflowName"], &workflow["output"]), (&json!("brought"), &json!({"own": true})));
}
