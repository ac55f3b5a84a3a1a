//! Searches over tasks find what the tasks of workflows show, however old the workflows are.

use crate::conductor_control::{World, broken, pick, simple, url};
use serde_json::{Value as Json, json};

async fn found(world: &World, query: &str) -> (u64, Vec<Json>) {
    let path = format!("/api/tasks/search-v2?size=100&query={}", url(query));
    let answer = world.server.get(&path).await.expect(200).json;
    (answer["totalHits"].as_u64().unwrap(), answer["results"].as_array().unwrap().clone())
}

/// One of each kind of task that comes to be in its own way.
async fn define_many_kinds(world: &World) {
    let join = |on: Json| json!({"name": "join", "taskReferenceName": "j", "type": "JOIN", "joinOn": on});
    let fork = json!({"name": "fork", "taskReferenceName": "f", "type": "FORK_JOIN",
        "forkTasks": [[pick("left", "1")], [simple("right")]]});
    let made = json!({"name": "fork", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC",
        "inputParameters": {"forkTaskName": "made", "forkTaskInputs": [{"n": 1}, {"n": 2}]}});
    let looped = json!({"name": "loop", "taskReferenceName": "l", "type": "DO_WHILE", "items": "${workflow.input.items}",
        "loopOver": [pick("in_loop", "1"), {"name": "set", "taskReferenceName": "set", "type": "SET_VARIABLE"}]});
    let chosen = json!({"name": "switch", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "value-param",
        "expression": "n", "inputParameters": {"n": "a"}, "decisionCases": {"a": [pick("case", "1")]}});
    let child = json!({"name": "child", "taskReferenceName": "c", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "fails"}});
    let named = json!({"name": "named", "taskReferenceName": "d", "type": "DYNAMIC", "dynamicTaskNameParam": "as",
        "inputParameters": {"as": "${workflow.input.as}"}});
    let optional = |mut task: Json| {
        task["optional"] = json!(true);
        task
    };
    for (name, tasks) in [
        ("forks", json!([fork, join(json!(["left", "right"]))])),
        ("made", json!([made, join(json!([]))])),
        ("loops", json!([looped, chosen])),
        ("parent", json!([optional(child), optional(broken("bad"))])),
        ("named", json!([named, simple("a__b")])),
    ] {
        let template = json!({"items": [1, 2]});
        world.define(json!({"name": name, "version": 1, "tasks": tasks, "inputTemplate": template})).await;
    }
}

#[tokio::test]
async fn every_task_is_found_by_what_it_shows() {
    let world = World::new().await;
    define_many_kinds(&world).await;
    let mut ids = Vec::new();
    for name in ["waits", "fails", "forks", "made", "loops", "parent"] {
        ids.push(world.started(name).await);
    }
    for kind in ["charge", "NOOP"] {
        let id = world.start(json!({"name": "named", "version": 1, "input": {"as": kind}})).await;
        world.settled(&id).await;
        ids.push(id);
    }
    let (again, rerun) = (world.started("fails").await, world.started("fails").await);
    world.server.json("POST", &format!("/api/workflow/{again}/retry"), json!({})).await.expect(204);
    world.server.json("POST", &format!("/api/workflow/{rerun}/rerun"), json!({})).await.expect(200);
    for id in [&again, &rerun] {
        world.settled(id).await;
        ids.push(id.clone());
    }
    let mut looked_at = 0;
    for id in &ids {
        let workflow = world.get(id).await;
        for task in workflow["tasks"].as_array().unwrap() {
            let text = |name: &str| task[name].as_str().unwrap().to_owned();
            let (total, tasks) = found(&world, &format!("taskId = '{}'", text("taskId"))).await;
            assert_eq!((total, &tasks[0]["workflowInstanceId"]), (1, &json!(id)), "{task}");
            let path = format!("/api/tasks/{}", text("taskId"));
            let one = world.server.get(&path).await.expect(200).json;
            assert_eq!((&one["taskId"], &one["status"]), (&task["taskId"], &task["status"]), "{task}");
            let query = format!(
                "workflowId = '{id}' AND referenceTaskName = '{}' AND taskDefName = '{}' AND taskType = '{}' AND status = {} \
                 AND scheduledTime >= {} AND scheduledTime <= {}",
                text("referenceTaskName"),
                text("taskDefName"),
                text("taskType"),
                text("status"),
                task["scheduledTime"],
                task["scheduledTime"],
            );
            let (_, tasks) = found(&world, &query).await;
            assert!(tasks.iter().any(|other| other["taskId"] == task["taskId"]), "{query}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 20, "{looked_at}");
    world.server.get("/api/tasks/00000000-0000-0000-0000-000000000000").await.refused(404, "task_unknown");
    assert_eq!(found(&world, "taskDefName = nothing").await.0, 0);
    assert_eq!(found(&world, "taskId = '00000000-0000-0000-0000-000000000000'").await.0, 0);
}

#[tokio::test]
async fn a_search_looks_through_all_workflows() {
    let world = World::new().await;
    let oldest = world.started("fails").await;
    for n in 0..1_000 {
        world.start(json!({"name": "short", "version": 1, "input": {"n": n}})).await;
    }
    let (total, tasks) = found(&world, "status = FAILED").await;
    assert_eq!((total, &tasks[0]["workflowInstanceId"]), (1, &json!(oldest)));
    // Words say nothing of what simply completed: all are looked through, page by page.
    assert_eq!(found(&world, "referenceTaskName = a* AND status != COMPLETED_WITH_ERRORS").await.0, 1_001);
}
