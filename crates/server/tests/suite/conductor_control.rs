//! What is asked of Conductor's workflows that are there: the table of answers, repeats included, lists and searches.

use crate::harness::*;
use serde_json::{Value as Json, json};

pub struct World {
    pub server: Server,
}

pub fn simple(reference: &str) -> Json {
    json!({"name": "work", "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": {"n": "${workflow.input.n}"}})
}

pub fn pick(reference: &str, value: &str) -> Json {
    json!({"name": "pick", "taskReferenceName": reference, "type": "INLINE",
        "inputParameters": {"evaluatorType": "value-param", "expression": "v", "v": value}})
}

pub fn broken(reference: &str) -> Json {
    json!({"name": "jq", "taskReferenceName": reference, "type": "JSON_JQ_TRANSFORM",
        "inputParameters": {"queryExpression": "if .ok then 1 else error end", "ok": "${workflow.input.ok}"}})
}

impl World {
    pub async fn new() -> World {
        let world = World { server: Server::start() };
        for (name, tasks) in [
            ("waits", json!([simple("a"), simple("b"), pick("c", "${b.output.x}")])),
            ("short", json!([pick("a", "${workflow.input.n}")])),
            ("fails", json!([pick("a", "1"), broken("bad")])),
        ] {
            world.define(json!({"name": name, "version": 1, "tasks": tasks})).await;
        }
        world
    }

    pub async fn define(&self, definition: Json) {
        self.server.json("POST", "/api/metadata/workflow?overwrite=true", definition).await.expect(200);
    }

    pub async fn start(&self, body: Json) -> String {
        let answer = self.server.json("POST", "/api/workflow", body).await.expect(200);
        answer.text
    }

    pub async fn started(&self, name: &str) -> String {
        let id = self.start(json!({"name": name, "version": 1})).await;
        self.settled(&id).await;
        id
    }

    /// Until nothing happens any more without somebody outside.
    pub async fn settled(&self, id: &str) {
        for _ in 0..2_000 {
            let workflow = self.get(id).await;
            let tasks = workflow["tasks"].as_array().unwrap();
            let rests = workflow["status"] != "RUNNING"
                || tasks.iter().any(|task| matches!(task["status"].as_str(), Some("SCHEDULED" | "IN_PROGRESS")));
            if rests && !tasks.is_empty() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
        panic!("{id} does not come to rest: {}", self.get(id).await);
    }

    pub async fn get(&self, id: &str) -> Json {
        self.server.get(&format!("/api/workflow/{id}")).await.expect(200).json
    }

    async fn status(&self, id: &str) -> String {
        self.get(id).await["status"].as_str().unwrap().to_owned()
    }

    async fn ask(&self, method: &str, path: &str) -> Answer {
        self.server.json(method, path, json!({})).await
    }

    /// The same request, sent twice as clients do that got no answer.
    async fn twice(&self, method: &str, path: &str, status: u16) {
        for _ in 0..2 {
            self.ask(method, path).await.expect(status);
        }
    }

    /// The task of this name that was tried last.
    pub async fn task(&self, id: &str, reference: &str) -> Json {
        let workflow = self.get(id).await;
        let tasks = workflow["tasks"].as_array().unwrap();
        tasks.iter().rev().find(|task| task["referenceTaskName"] == reference).cloned().unwrap_or(Json::Null)
    }

    pub async fn complete(&self, id: &str, reference: &str, output: Json) {
        let task = self.task(id, reference).await;
        let result =
            json!({"taskId": task["taskId"], "workflowInstanceId": id, "status": "COMPLETED", "outputData": output});
        self.server.json("POST", "/api/tasks", result).await.expect(200);
        self.settled(id).await;
    }

    async fn found(&self, query: &str) -> (u64, Vec<String>) {
        let encoded: String = url(query);
        let answer = self.server.get(&format!("/api/workflow/search?size=100&query={encoded}")).await.expect(200);
        let ids = answer.json["results"].as_array().unwrap().iter();
        (
            answer.json["totalHits"].as_u64().unwrap(),
            ids.map(|one| one["workflowId"].as_str().unwrap().to_owned()).collect(),
        )
    }
}

pub fn url(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { (b as char).to_string() } else { format!("%{b:02X}") })
        .collect()
}

#[tokio::test]
async fn a_join_stands_behind_the_first_task_of_each_branch() {
    let world = World::new().await;
    let join = |on: Json| json!({"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": on});
    let branches = json!([[pick("a", "1"), simple("b")], [simple("c")]]);
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches});
    world.define(json!({"name": "forks", "tasks": [fork, join(json!(["b", "c"]))]})).await;
    let some = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches});
    world.define(json!({"name": "some", "tasks": [some, join(json!(["a", "c"]))]})).await;
    let made = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC",
        "inputParameters": {"forkTaskName": "work", "forkTaskInputs": [{"n": 1}, {"n": 2}]}});
    world.define(json!({"name": "made", "tasks": [made, join(json!([]))]})).await;
    for (name, expected) in [
        ("forks", json!(["f", "a", "c", "j", "b"])),
        ("some", json!(["f", "a", "c", "j", "b"])),
        ("made", json!(["f", "_work_0", "_work_1", "j"])),
    ] {
        let id = world.start(json!({"name": name})).await;
        let mut workflow = world.get(&id).await;
        for _ in 0..1_000 {
            if workflow["tasks"].as_array().unwrap().len() == expected.as_array().unwrap().len() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            workflow = world.get(&id).await;
        }
        let shown: Vec<&Json> =
            workflow["tasks"].as_array().unwrap().iter().map(|task| &task["referenceTaskName"]).collect();
        assert_eq!(json!(shown), expected, "{name}");
        let order: Vec<&Json> = workflow["tasks"].as_array().unwrap().iter().map(|task| &task["seq"]).collect();
        assert_eq!(json!(order), json!((1..=order.len()).collect::<Vec<_>>()), "{name}");
    }
}

#[tokio::test]
async fn a_task_shows_the_definition_that_counts_for_it() {
    let world = World::new().await;
    let server = &world.server;
    server.json("POST", "/api/metadata/taskdefs", json!([{"name": "work", "retryCount": 7}])).await.expect(200);
    let own = json!({"name": "own", "taskReferenceName": "o", "type": "SIMPLE",
        "taskDefinition": {"name": "own", "retryCount": 1}, "inputParameters": {"x": 1}});
    world.define(json!({"name": "defined", "tasks": [simple("a"), own]})).await;
    let id = world.started("defined").await;
    let task = world.task(&id, "a").await;
    assert_eq!((&task["taskDefinition"]["retryCount"], &task["taskDefinition"]["name"]), (&json!(7), &json!("work")));
    assert_eq!(task["workflowTask"]["taskDefinition"], task["taskDefinition"]);
    let taken = server.get("/api/tasks/poll/work").await.expect(200).json;
    assert_eq!(taken["taskDefinition"], task["taskDefinition"]);
    assert_eq!(taken["workflowTask"], task["workflowTask"], "a worker sees all of it");
    world.complete(&id, "a", json!({})).await;
    let taken = server.get("/api/tasks/poll/own").await.expect(200).json;
    assert_eq!(
        (&taken["taskDefinition"]["retryCount"], &taken["workflowTask"]["inputParameters"]["x"]),
        (&json!(1), &json!(1))
    );
}

/// What is given to somebody outside, so that they can say what became of the task.
#[tokio::test]
async fn the_id_of_a_task_is_the_same_in_expressions_and_outside() {
    let world = World::new().await;
    let own = json!({"id": "${CPEWF_TASK_ID}", "text": "task ${CPEWF_TASK_ID}!"});
    let wait = json!({"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": own});
    let after = json!({"name": "again", "taskReferenceName": "s", "type": "SIMPLE", "inputParameters":
        {"id": "${CPEWF_TASK_ID}", "before": "${w.taskId}"}, "taskDefinition": {"name": "again", "retryCount": 1, "retryDelaySeconds": 0}});
    let inner = json!({"name": "inner", "tasks": [simple("x")]});
    let sub = json!({"name": "sub", "taskReferenceName": "sub", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "inner", "workflowDefinition": inner}});
    world.define(json!({"name": "ids", "tasks": [wait, after, sub]})).await;
    let id = world.started("ids").await;
    let waits = world.task(&id, "w").await;
    let name = waits["taskId"].as_str().unwrap();
    assert_eq!(waits["inputData"], json!({"id": name, "text": format!("task {name}!")}));
    let result = json!({"taskId": waits["inputData"]["id"], "workflowInstanceId": id, "status": "COMPLETED"});
    world.server.json("POST", "/api/tasks", result).await.expect(200);
    world.settled(&id).await;
    for _ in 0..2 {
        let taken = world.server.get("/api/tasks/poll/again").await.expect(200).json;
        assert_eq!((&taken["inputData"]["id"], &taken["inputData"]["before"]), (&taken["taskId"], &json!(name)));
        assert_eq!(world.task(&id, "s").await["inputData"], taken["inputData"]);
        let status = if taken["retryCount"] == 0 { "FAILED" } else { "COMPLETED" };
        let result = json!({"taskId": taken["taskId"], "workflowInstanceId": id, "status": status});
        world.server.json("POST", "/api/tasks", result).await.expect(200);
        world.settled(&id).await;
    }
    let sub = world.task(&id, "sub").await;
    let child = world.get(sub["subWorkflowId"].as_str().unwrap()).await;
    assert_eq!((&child["parentWorkflowTaskId"], &child["parentWorkflowId"]), (&sub["taskId"], &json!(id)));
}

#[tokio::test]
async fn a_loop_that_keeps_its_last_rounds_shows_the_tasks_of_those() {
    let world = World::new().await;
    let looped = json!({"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "items": "${workflow.input.all}",
        "inputParameters": {"keepLastN": 2}, "loopOver": [pick("p", "${l.output.loopItem}")]});
    world.define(json!({"name": "keeps", "tasks": [looped, pick("after", "x")]})).await;
    let id = world.start(json!({"name": "keeps", "input": {"all": [1, 2, 3, 4]}})).await;
    world.settled(&id).await;
    let workflow = world.get(&id).await;
    let names: Vec<&Json> =
        workflow["tasks"].as_array().unwrap().iter().map(|task| &task["referenceTaskName"]).collect();
    assert_eq!(json!(names), json!(["l", "p__3", "p__4", "after"]));
    assert_eq!(workflow["tasks"][0]["outputData"]["iteration"], 4);
}

#[tokio::test]
async fn an_answer_that_shows_the_workflow_shows_what_comes_next() {
    let world = World::new().await;
    let script = json!({"name": "i", "taskReferenceName": "i", "type": "INLINE",
        "inputParameters": {"evaluatorType": "javascript", "expression": "$.n + 1", "n": 1}});
    world.define(json!({"name": "next", "tasks": [simple("a"), script, simple("b")]})).await;
    let id = world.started("next").await;
    let shown =
        world.server.json("POST", &format!("/api/tasks/{id}/a/COMPLETED/sync"), json!({})).await.expect(200).json;
    let tasks: Vec<Json> = shown["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| json!([task["referenceTaskName"], task["status"]]))
        .collect();
    assert_eq!(json!(tasks), json!([["a", "COMPLETED"], ["i", "COMPLETED"], ["b", "SCHEDULED"]]));
}

#[tokio::test]
async fn a_signal_that_comes_early_finds_the_task_that_is_on_its_way() {
    let world = World::new().await;
    let script = json!({"name": "i", "taskReferenceName": "i", "type": "INLINE", "inputParameters": {"evaluatorType": "javascript",
        "expression": "for (var t = Date.now(); Date.now() - t < 300;); 1"}});
    let wait = json!({"name": "w", "taskReferenceName": "w", "type": "WAIT"});
    let inner = json!({"name": "inner", "tasks": [script, wait]});
    let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "inner", "workflowDefinition": inner}});
    world.define(json!({"name": "early", "tasks": [sub, simple("after")]})).await;
    let id = world.start(json!({"name": "early"})).await;
    world.ask("POST", &format!("/api/tasks/{id}/COMPLETED/signal/sync?timeoutMillis=3000")).await.expect(200);
    world.settled(&id).await;
    assert_eq!(world.task(&id, "s").await["status"], "COMPLETED");
    // It waits for a worker now: nobody can signal that.
    world.ask("POST", &format!("/api/tasks/{id}/COMPLETED/signal/sync")).await.expect(404);
}

#[tokio::test]
async fn a_workflow_is_paused_resumed_and_ended_and_a_repeat_is_granted() {
    let world = World::new().await;
    let id = world.started("waits").await;
    let path = |rest: &str| format!("/api/workflow/{id}{rest}");
    let refused = world.ask("PUT", &path("/resume")).await.expect(500);
    assert_eq!((&refused.json["status"], &refused.json["code"]), (&json!(500), &json!("illegal_state")));
    world.twice("PUT", &path("/pause"), 200).await;
    assert_eq!(world.status(&id).await, "PAUSED");
    // What is out may be done; nothing new begins.
    world.complete(&id, "a", json!({})).await;
    assert_eq!(world.task(&id, "b").await, Json::Null);
    world.twice("PUT", &path("/resume"), 200).await;
    world.settled(&id).await;
    assert_eq!(world.task(&id, "b").await["status"], "SCHEDULED");
    let answer = world.ask("PUT", &path("/pause")).await.expect(200);
    assert!(answer.text.is_empty() && !answer.headers.contains_key("content-type"));
    world.twice("DELETE", &path("?reason=no%20longer%20wanted"), 200).await;
    let ended = world.get(&id).await;
    assert_eq!((&ended["status"], &ended["reasonForIncompletion"]), (&json!("TERMINATED"), &json!("no longer wanted")));
    assert_eq!(world.task(&id, "b").await["status"], "CANCELED");
    world.ask("PUT", &path("/pause")).await.expect(409);
    let done = world.started("short").await;
    world.ask("DELETE", &format!("/api/workflow/{done}")).await.expect(409);
    let failed = world.started("fails").await;
    world.ask("DELETE", &format!("/api/workflow/{failed}?reason=x")).await.expect(200);
    assert_eq!(world.status(&failed).await, "TERMINATED");
    for (method, rest) in
        [("PUT", "/pause"), ("PUT", "/resume"), ("DELETE", ""), ("POST", "/restart"), ("POST", "/retry")]
    {
        let nobody = format!("/api/workflow/00000000-0000-7000-8000-000000000000{rest}");
        world.ask(method, &nobody).await.expect(404);
    }
}

#[tokio::test]
async fn a_failure_workflow_is_started_for_one_that_is_ended_if_asked() {
    let world = World::new().await;
    world.define(json!({"name": "comp", "version": 1, "tasks": [pick("a", "${workflow.input.reason}")]})).await;
    world.define(json!({"name": "guarded", "version": 1, "tasks": [simple("a")], "failureWorkflow": "comp"})).await;
    let (plain, told) = (world.started("guarded").await, world.started("guarded").await);
    world.ask("DELETE", &format!("/api/workflow/{plain}?reason=x")).await.expect(200);
    world.ask("DELETE", &format!("/api/workflow/{told}?reason=y&triggerFailureWorkflow=True")).await.expect(200);
    world.server.ended("main", &told).await;
    let (total, ids) = world.found("workflowType = comp").await;
    assert_eq!(total, 1);
    world.settled(&ids[0]).await;
    assert_eq!(world.get(&ids[0]).await["output"], json!({"result": "y"}));
}

#[tokio::test]
async fn restart_does_it_all_again_and_retry_what_failed() {
    let world = World::new().await;
    let id = world.started("waits").await;
    world.ask("POST", &format!("/api/workflow/{id}/restart")).await.expect(409);
    let refused = world.ask("POST", &format!("/api/workflow/{id}/retry")).await.expect(404);
    assert_eq!(refused.json["code"], "still_running");
    let first = world.task(&id, "a").await["taskId"].clone();
    world.ask("DELETE", &format!("/api/workflow/{id}")).await.expect(200);
    world.twice("POST", &format!("/api/workflow/{id}/retry"), 204).await;
    world.settled(&id).await;
    let again = world.task(&id, "a").await;
    assert_eq!(
        (&again["retriedTaskId"], &again["retryCount"], &again["status"]),
        (&first, &json!(1), &json!("SCHEDULED"))
    );
    // What is still said of the attempt that was withdrawn is not taken for the new one.
    let late = json!({"taskId": first, "workflowInstanceId": id, "status": "COMPLETED", "outputData": {}});
    world.server.json("POST", "/api/tasks", late).await.expect(200);
    assert_eq!(world.task(&id, "a").await["status"], "SCHEDULED");
    world.complete(&id, "a", json!({})).await;
    world.complete(&id, "b", json!({"x": 1})).await;
    assert_eq!(world.get(&id).await["output"], json!({"result": 1}));
    world.ask("POST", &format!("/api/workflow/{id}/retry")).await.expect(409);
    world.twice("POST", &format!("/api/workflow/{id}/restart"), 204).await;
    world.settled(&id).await;
    let begun = world.get(&id).await;
    assert_eq!((&begun["status"], begun["tasks"].as_array().unwrap().len()), (&json!("RUNNING"), 1));
    assert_ne!(world.task(&id, "a").await["taskId"], first);
}

#[tokio::test]
async fn a_restart_takes_the_newest_definition_if_asked() {
    let world = World::new().await;
    let id = world.started("short").await;
    world.define(json!({"name": "short", "version": 2, "tasks": [pick("z", "new")]})).await;
    world.ask("POST", &format!("/api/workflow/{id}/restart?useLatestDefinitions=true")).await.expect(204);
    world.server.ended("main", &id).await;
    let again = world.get(&id).await;
    assert_eq!((&again["workflowVersion"], &again["output"]), (&json!(2), &json!({"result": "new"})));
    world.define(json!({"name": "once", "version": 1, "restartable": false, "tasks": [pick("a", "1")]})).await;
    let once = world.started("once").await;
    let refused = world.ask("POST", &format!("/api/workflow/{once}/restart")).await.expect(404);
    assert_eq!(refused.json["code"], "not_restartable");
}

#[tokio::test]
async fn a_rerun_begins_at_a_task_also_of_a_sub_workflow() {
    let world = World::new().await;
    world.define(json!({"name": "parent", "version": 1, "tasks": [
        {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "waits"}}, pick("after", "${s.output.result}")]})).await;
    let id = world.started("parent").await;
    let child = world.task(&id, "s").await["subWorkflowId"].as_str().unwrap().to_owned();
    world.settled(&child).await;
    for reference in ["a", "b"] {
        world.complete(&child, reference, json!({"x": "old"})).await;
    }
    world.server.ended("main", &id).await;
    assert_eq!(world.get(&id).await["output"], json!({"result": "old"}));
    let task = world.task(&child, "b").await["taskId"].clone();
    let body = json!({"reRunFromWorkflowId": id, "reRunFromTaskId": task, "taskInput": {"given": true}});
    for _ in 0..2 {
        let answer = world.server.json("POST", &format!("/api/workflow/{child}/rerun"), body.clone()).await.expect(200);
        assert_eq!(answer.text, child);
    }
    world.settled(&child).await;
    assert_eq!(world.task(&child, "b").await["inputData"], json!({"given": true}));
    world.complete(&child, "b", json!({"x": "new"})).await;
    assert_eq!(world.get(&child).await["output"], json!({"result": "new"}));
    let nowhere = json!({"reRunFromTaskId": "00000000-0000-0000-0000-00000000000a"});
    world.server.json("POST", &format!("/api/workflow/{id}/rerun"), nowhere).await.expect(400);
    // From the start, with another input.
    let short = world.started("short").await;
    let body = json!({"workflowInput": {"n": 5}, "correlationId": "order-9"});
    world.server.json("POST", &format!("/api/workflow/{short}/rerun"), body).await.expect(200);
    world.server.ended("main", &short).await;
    let again = world.get(&short).await;
    assert_eq!((&again["output"], &again["correlationId"]), (&json!({"result": 5}), &json!("order-9")));
}

#[tokio::test]
async fn a_failed_sub_workflow_is_begun_anew_or_goes_on() {
    for resume in [false, true] {
        let world = World::new().await;
        world.define(json!({"name": "parent", "version": 1, "tasks": [
            {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "inputParameters": {"ok": "${workflow.input.ok}"},
             "subWorkflowParam": {"name": "fails"}}]})).await;
        let id = world.started("parent").await;
        world.server.ended("main", &id).await;
        let first = world.task(&id, "s").await["subWorkflowId"].clone();
        world.ask("POST", &format!("/api/workflow/{id}/retry?resumeSubworkflowTasks={resume}")).await.expect(204);
        world.server.ended("main", &id).await;
        let second = world.task(&id, "s").await["subWorkflowId"].clone();
        assert_eq!(first == second, resume);
        assert_eq!(world.found("workflowType = fails").await.0, if resume { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_task_is_skipped_and_variables_and_a_result_are_told() {
    let world = World::new().await;
    let id = world.started("waits").await;
    let skip = |reference: &str| format!("/api/workflow/{id}/skiptask/{reference}");
    let given = json!({"taskInput": {"why": "skip"}, "taskOutput": {"x": "given"}});
    for _ in 0..2 {
        world.server.json("PUT", &skip("b"), given.clone()).await.expect(200);
    }
    for reference in ["a", "nowhere"] {
        world.ask("PUT", &skip(reference)).await.expect(500);
    }
    let variables = json!({"v": 1});
    let answer = world.server.json("POST", &format!("/api/workflow/{id}/variables"), variables).await.expect(200);
    assert_eq!(answer.json["variables"], json!({"v": 1}));
    let state = json!({"taskReferenceName": "a", "variables": {"w": 2},
        "taskResult": {"status": "COMPLETED", "outputData": {}, "workflowInstanceId": id}});
    for _ in 0..2 {
        let path = format!("/api/workflow/{id}/state?requestId=r1&waitForSeconds=1");
        let answer = world.server.json("POST", &path, state.clone()).await.expect(200);
        assert_eq!((&answer.json["requestId"], &answer.json["status"]), (&json!("r1"), &json!("COMPLETED")));
    }
    let done = world.get(&id).await;
    assert_eq!((&done["variables"], &done["output"]), (&json!({"v": 1, "w": 2}), &json!({"result": "given"})));
    assert_eq!(world.task(&id, "b").await["status"], "SKIPPED");
    world.server.json("POST", &format!("/api/workflow/{id}/variables"), json!({"v": 3})).await.expect(409);
    let unknown = json!({"taskReferenceName": "zz", "taskResult": {"status": "COMPLETED"}});
    world.server.json("POST", &format!("/api/workflow/{id}/state"), unknown).await.expect(404);
}

#[tokio::test]
async fn a_workflow_jumps_and_goes_on_by_another_version() {
    let world = World::new().await;
    let id = world.started("waits").await;
    for _ in 0..2 {
        world.server.json("POST", &format!("/api/workflow/{id}/jump/b"), json!({"why": "jump"})).await.expect(200);
    }
    world.settled(&id).await;
    assert_eq!(world.task(&id, "b").await["inputData"], json!({"why": "jump"}));
    world.ask("POST", &format!("/api/workflow/{id}/jump/nowhere")).await.expect(409);
    let next = json!([simple("a"), pick("new", "1"), simple("b"), pick("d", "${new.output.y}")]);
    world.define(json!({"name": "waits", "version": 2, "tasks": next})).await;
    let upgrade = json!({"name": "waits", "version": 2, "taskOutput": {"new": {"y": "passed"}}});
    for _ in 0..2 {
        world.server.json("POST", &format!("/api/workflow/{id}/upgrade"), upgrade.clone()).await.expect(200);
    }
    world.complete(&id, "b", json!({})).await;
    let done = world.get(&id).await;
    assert_eq!((&done["workflowVersion"], &done["output"]), (&json!(2), &json!({"result": "passed"})));
    let missing = json!({"name": "waits", "version": 77});
    world.server.json("POST", &format!("/api/workflow/{id}/upgrade"), missing).await.expect(404);
}

#[tokio::test]
async fn a_key_is_freed_with_its_workflow_and_an_older_one_stays_closed_while_a_newer_has_it() {
    let world = World::new().await;
    let keyed = json!({"name": "waits", "version": 1, "idempotencyKey": "k", "idempotencyStrategy": "FAIL_ON_RUNNING"});
    let first = world.start(keyed.clone()).await;
    world.settled(&first).await;
    world.server.json("POST", "/api/workflow", keyed.clone()).await.expect(409);
    world.ask("DELETE", &format!("/api/workflow/{first}")).await.expect(200);
    let second = world.start(keyed.clone()).await;
    assert_ne!(first, second);
    world.ask("POST", &format!("/api/workflow/{first}/restart")).await.expect(409);
    world.ask("POST", &format!("/api/workflow/{first}/retry")).await.expect(409);
    world.ask("DELETE", &format!("/api/workflow/{second}/terminate-remove?reason=x")).await.expect(200);
    world.server.get(&format!("/api/workflow/{second}")).await.expect(404);
    let mut once = keyed.clone();
    once["idempotencyStrategy"] = json!("FAIL");
    let third = world.start(once.clone()).await;
    world.ask("DELETE", &format!("/api/workflow/{third}")).await.expect(200);
    world.server.json("POST", "/api/workflow", once.clone()).await.expect(409);
    world.ask("DELETE", &format!("/api/workflow/{third}/remove?archiveWorkflow=false")).await.expect(200);
    let fourth = world.start(once.clone()).await;
    world.settled(&fourth).await;
    world.ask("DELETE", &format!("/api/workflow/{fourth}/remove")).await.expect(200); // it runs, and is ended first
    world.server.get(&format!("/api/workflow/{fourth}")).await.expect(404);
    world.start(once).await;
}

#[tokio::test]
async fn many_are_asked_at_once_and_each_gets_its_answer() {
    let world = World::new().await;
    let (one, two, done) = (world.started("waits").await, world.started("waits").await, world.started("short").await);
    let nobody = "00000000-0000-7000-8000-000000000000".to_owned();
    let ids = json!([one, two, done, nobody, "nonsense"]);
    let bulk = async |method: &str, path: &str| {
        let answer =
            world.server.json(method, &format!("/api/workflow/bulk/{path}"), ids.clone()).await.expect(200).json;
        let good = answer["bulkSuccessfulResults"].as_array().unwrap().len();
        (good, answer["bulkErrorResults"].as_object().unwrap().len())
    };
    assert_eq!(bulk("PUT", "pause").await, (2, 3));
    assert_eq!(bulk("PUT", "resume").await, (2, 3));
    assert_eq!(bulk("POST", "terminate?reason=x").await, (2, 3));
    assert_eq!(bulk("POST", "retry").await, (2, 3));
    assert_eq!(bulk("POST", "terminate").await, (2, 3));
    assert_eq!(bulk("POST", "restart").await, (3, 2));
    world.server.ended("main", &done).await;
    assert_eq!(bulk("POST", "search").await, (3, 2));
    assert_eq!(bulk("POST", "delete").await, (3, 2), "those that run are ended first");
    assert_eq!(bulk("DELETE", "terminate-remove?reason=x").await, (0, 5));
    assert_eq!(bulk("DELETE", "remove").await, (0, 5));
    let many: Vec<String> = (0..1_001).map(|_| nobody.clone()).collect();
    world.server.json("PUT", "/api/workflow/bulk/pause", json!(many)).await.expect(400);
    world.server.json("PUT", "/api/workflow/bulk/pause", json!([])).await.expect(400);
}

#[tokio::test]
async fn status_tasks_running_and_correlated_are_listed() {
    let world = World::new().await;
    let id = world.start(json!({"name": "waits", "version": 1, "correlationId": "c,1"})).await;
    world.settled(&id).await;
    let closed = world.start(json!({"name": "short", "version": 1, "correlationId": "c,1", "input": {"n": 1}})).await;
    world.server.ended("main", &closed).await;
    let status = world.server.get(&format!("/api/workflow/{closed}/status?includeOutput=true")).await.expect(200).json;
    assert_eq!(
        (&status["status"], &status["output"], &status["correlationId"]),
        (&json!("COMPLETED"), &json!({"result": 1}), &json!("c,1"))
    );
    let tasks =
        world.server.get(&format!("/api/workflow/{id}/tasks?status=SCHEDULED&start=0&count=5")).await.expect(200).json;
    assert_eq!((&tasks["totalHits"], &tasks["results"][0]["referenceTaskName"]), (&json!(1), &json!("a")));
    assert_eq!(
        world.server.get(&format!("/api/workflow/{id}/tasks?status=FAILED")).await.expect(200).json["totalHits"],
        0
    );
    let running = async |rest: &str| world.server.get(&format!("/api/workflow/running/{rest}")).await.expect(200).json;
    assert_eq!(running("waits").await, json!([id]));
    assert_eq!(running("waits?version=2").await, json!([]));
    assert_eq!(running("short").await, json!([]));
    assert_eq!(running("short?startTime=1&endTime=99999999999999").await, json!([closed]));
    let path = |name: &str, rest: &str| format!("/api/workflow/{name}/correlated/{}{rest}", url("c,1"));
    let list = world.server.get(&path("short", "?includeClosed=true&includeTasks=true")).await.expect(200).json;
    assert_eq!((&list[0]["workflowId"], list[0]["tasks"].as_array().unwrap().len()), (&json!(closed), 1));
    assert_eq!(world.server.get(&path("short", "")).await.expect(200).json, json!([]));
    let many =
        world.server.json("POST", "/api/workflow/waits/correlated", json!(["c,1", "none"])).await.expect(200).json;
    assert_eq!((&many["c,1"][0]["workflowId"], &many["none"]), (&json!(id), &json!([])));
    let both = json!({"workflowNames": ["waits", "short"], "correlationIds": ["c,1"]});
    let batch =
        world.server.json("POST", "/api/workflow/correlated/batch?includeClosed=true", both).await.expect(200).json;
    assert_eq!(batch["c,1"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn workflows_are_searched_for_with_exact_totals() {
    let world = World::new().await;
    let key = "a,b (c)";
    let one =
        world.start(json!({"name": "waits", "version": 1, "idempotencyKey": key, "correlationId": "order 1"})).await;
    world.settled(&one).await;
    world.server.advance(1_000);
    let two = world.started("short").await;
    world.server.advance(1_000);
    let three = world.started("fails").await;
    world.define(json!({"name": "short", "version": 2, "tasks": [pick("a", "1")]})).await;
    world.server.advance(1_000);
    let four = world.start(json!({"name": "short", "version": 2})).await;
    world.server.ended("main", &four).await;
    for (query, expected) in [
        ("", vec![&four, &three, &two, &one]),
        ("workflowType = short", vec![&four, &two]),
        ("workflowType IN (short, 'fails') AND status = COMPLETED", vec![&four, &two]),
        ("workflowType = 's*t' AND version = 2", vec![&four]),
        ("workflowType = *s AND version < 2", vec![&three, &one]),
        ("workflowType != short", vec![&three, &one]),
        ("status IN (RUNNING,FAILED)", vec![&three, &one]),
        ("status NOT IN (COMPLETED)", vec![&three, &one]),
        ("idempotencyKey IN (\"a,b (c)\",other)", vec![&one]),
        ("idempotencyKey = 'a,*'", vec![&one]),
        ("correlationId = 'order 1'", vec![&one]),
        ("correlationId = order 1 AND status = RUNNING", vec![&one]),
        ("startTime > 1767225600500 AND startTime < 1767225602500", vec![&three, &two]),
        ("startTime BETWEEN 1767225601000 AND 1767225602000", vec![&three, &two]),
        ("endTime >= 1767225603000", vec![&four]),
        ("status = TIMED_OUT", vec![]),
        ("status = FAILED OR workflowType = waits", vec![&three, &one]),
        ("(workflowType = short AND (version = 2 OR status = FAILED)) OR correlationId = 'order 1'", vec![&four, &one]),
        ("status = COMPLETED AND (version = 1 OR startTime < 1)", vec![&two]),
    ] {
        let (total, ids) = world.found(query).await;
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!((total, &ids), (expected.len() as u64, &expected), "{query}");
    }
    let by_id = format!("workflowId = '{three}'");
    assert_eq!(world.found(&by_id).await.1, std::slice::from_ref(&three));
    for wrong in
        ["nothing = 1", "status = MAYBE", "status = 'A", "startTime > yesterday", "a = b OR c = d", "(status = FAILED"]
    {
        world.server.get(&format!("/api/workflow/search?query={}", url(wrong))).await.expect(400);
    }
    let page = async |rest: &str| world.server.get(&format!("/api/workflow/search?{rest}")).await.expect(200).json;
    let second = page("start=1&size=1&sort=startTime:ASC").await;
    assert_eq!((&second["totalHits"], &second["results"][0]["workflowId"]), (&json!(4), &json!(two)));
    assert_eq!(page("freeText=ORDER").await["totalHits"], 1);
    assert_eq!(page("freeText=*&query=&skipCache=false&queryId=").await["totalHits"], 4);
    let summary = &page(&format!("query={}", url("correlationId = 'order 1'"))).await["results"][0];
    assert_eq!(
        (&summary["workflowType"], &summary["idempotencyKey"], &summary["startTime"]),
        (&json!("waits"), &json!(key), &json!("2026-01-01T00:00:00.000Z"))
    );
    let failed = &page(&format!("query={}", url("workflowType=fails"))).await["results"][0];
    assert_eq!((&failed["status"], &failed["failedReferenceTaskNames"]), (&json!("FAILED"), &json!("bad")));
    world.server.get("/api/workflow/search?size=5001").await.expect(400);
    world.server.get("/api/workflow/search?sort=nothing:ASC").await.expect(400);
    let whole = world.server.get("/api/workflow/search-v2?size=1").await.expect(200).json;
    assert_eq!((&whole["totalHits"], &whole["results"][0]["workflowName"]), (&json!(4), &json!("short")));
}

#[tokio::test]
async fn tasks_are_searched_for_and_workflows_by_them() {
    let world = World::new().await;
    let (one, two) = (world.started("waits").await, world.started("fails").await);
    let task = world.task(&one, "a").await["taskId"].as_str().unwrap().to_owned();
    let found = async |path: &str, query: &str| {
        world.server.get(&format!("/api/{path}?query={}", url(query))).await.expect(200).json
    };
    let tasks = found("tasks/search", "status = FAILED").await;
    assert_eq!((&tasks["totalHits"], &tasks["results"][0]["workflowId"]), (&json!(1), &json!(two)));
    let tasks = found("tasks/search-v2", &format!("taskId = '{task}'")).await;
    assert_eq!((&tasks["totalHits"], &tasks["results"][0]["referenceTaskName"]), (&json!(1), &json!("a")));
    let tasks = found("tasks/search", "workflowType = fails AND taskType = INLINE").await;
    assert_eq!(tasks["totalHits"], 1);
    let tasks = found("tasks/search", "workflowType = fails AND (taskType = INLINE OR referenceTaskName = bad)").await;
    assert_eq!(tasks["totalHits"], 2);
    let mixed = url("workflowType = fails OR taskType = INLINE");
    world.server.get(&format!("/api/tasks/search?query={mixed}")).await.expect(400);
    let by_tasks = found("workflow/search-by-tasks", "taskDefName = work AND status IN (SCHEDULED)").await;
    assert_eq!((&by_tasks["totalHits"], &by_tasks["results"][0]["workflowId"]), (&json!(1), &json!(one)));
    let whole = found("workflow/search-by-tasks-v2", "referenceTaskName = b*").await;
    assert_eq!((&whole["totalHits"], &whole["results"][0]["workflowId"]), (&json!(1), &json!(two)));
}

#[tokio::test]
async fn callbacks_are_reset_and_deciding_is_nothing() {
    let world = World::new().await;
    let id = world.started("waits").await;
    let task = world.task(&id, "a").await["taskId"].clone();
    world.server.get("/api/tasks/poll/work?workerid=w").await.expect(200);
    let later = json!({"taskId": task, "workflowInstanceId": id, "status": "IN_PROGRESS", "callbackAfterSeconds": 600});
    world.server.json("POST", "/api/tasks", later).await.expect(200);
    world.server.get("/api/tasks/poll/work?workerid=w").await.expect(204);
    world.ask("POST", &format!("/api/workflow/{id}/resetcallbacks")).await.expect(204);
    world.server.get("/api/tasks/poll/work?workerid=w").await.expect(200);
    world.ask("PUT", &format!("/api/workflow/decide/{id}")).await.expect(200);
    world.ask("DELETE", &format!("/api/workflow/{id}")).await.expect(200);
    world.ask("POST", &format!("/api/workflow/{id}/resetcallbacks")).await.expect(409);
}

#[tokio::test]
async fn a_workflow_is_tried_out_without_a_trace() {
    let world = World::new().await;
    world.define(json!({"name": "outer", "version": 1, "tasks": [
        simple("first"),
        {"name": "h", "taskReferenceName": "call", "type": "HTTP", "inputParameters": {"http_request": {"uri": "https://lost.example/", "method": "POST"}}},
        {"name": "w", "taskReferenceName": "rest", "type": "WAIT", "inputParameters": {"duration": "2 days"}},
        {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "waits"}},
        pick("last", "${first.output.x} ${call.output.response.statusCode} ${s.output.result}")]})).await;
    let before = world.server.store.dump().unwrap();
    let answered = |output: Json| json!([{"status": "COMPLETED", "output": output}]);
    let mut request = json!({"name": "outer", "input": {"n": 1}, "taskRefToMockOutput": {
        "first": [{"status": "FAILED"}, {"status": "COMPLETED", "output": {"x": "one"}}],
        "call": answered(json!({"response": {"statusCode": 200}}))},
        "subWorkflowTestRequest": {"s": {"name": "waits", "taskRefToMockOutput": {"a": answered(json!({})), "b": answered(json!({"x": "two"}))}}}});
    let done = world.server.json("POST", "/api/workflow/test", request.clone()).await.expect(200).json;
    assert_eq!((&done["status"], &done["output"]), (&json!("COMPLETED"), &json!({"result": "one 200 two"})), "{done}");
    let firsts = done["tasks"].as_array().unwrap().iter().filter(|task| task["referenceTaskName"] == "first").count();
    assert_eq!(firsts, 2, "the first attempt failed");
    // Without an answer it stays where it is.
    request["taskRefToMockOutput"]["call"] = json!([]);
    let open = world.server.json("POST", "/api/workflow/test", request.clone()).await.expect(200).json;
    let last = open["tasks"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&open["status"], &last["referenceTaskName"]), (&json!("RUNNING"), &json!("call")));
    let own = json!({"name": "inline", "workflowDef": {"name": "inline", "tasks": [pick("a", "${workflow.input.n}")]}, "input": {"n": 7}});
    let done = world.server.json("POST", "/api/workflow/test", own).await.expect(200).json;
    assert_eq!(done["output"], json!({"result": 7}));
    assert_eq!(world.server.store.dump().unwrap(), before, "nothing was stored");
    world.server.json("POST", "/api/workflow/test", json!({"name": "nobody"})).await.expect(404);
    world
        .server
        .json("POST", "/api/workflow/test", json!({"name": "outer", "taskRefToMockOutput": {"a": 1}}))
        .await
        .expect(400);
}

#[tokio::test]
async fn a_workflow_that_was_just_started_shows_its_first_tasks() {
    let world = World::new().await;
    for _ in 0..20 {
        let id = world.start(json!({"name": "waits", "version": 1})).await;
        let task = &world.get(&id).await["tasks"][0];
        assert_eq!((&task["referenceTaskName"], &task["status"]), (&json!("a"), &json!("SCHEDULED")));
        let id = world.start(json!({"name": "waits", "version": 1})).await;
        world.server.json("POST", &format!("/api/tasks/{id}/a/COMPLETED"), json!({})).await.expect(200);
    }
}

#[tokio::test]
async fn an_input_is_held_to_the_schema_of_the_workflow() {
    let world = World::new().await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    world
        .server
        .json("POST", "/api/schema", json!([{"name": "numbered", "version": 1, "data": schema}]))
        .await
        .expect(200);
    let definition = |more: Json| {
        let mut definition = json!({"name": "held", "version": 1, "tasks": [pick("a", "1")]});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        definition
    };
    world.define(definition(json!({"inputSchema": {"name": "numbered", "version": 1, "type": "JSON"}}))).await;
    let start =
        async |n: Json| world.server.json("POST", "/api/workflow", json!({"name": "held", "input": {"n": n}})).await;
    start(json!(5)).await.expect(200);
    let refused = start(json!("five")).await.expect(400).json;
    assert!(refused["message"].as_str().unwrap().contains("/n: integer expected"), "{refused}");
    let unknown = definition(json!({"inputSchema": {"name": "nothing"}}));
    world.define(unknown).await;
    let refused = start(json!(5)).await.expect(400).json;
    assert!(refused["message"].as_str().unwrap().contains("no schema is registered with name nothing"), "{refused}");
    for (wrong, part) in [
        (json!({"inputSchema": {"type": "AVRO", "name": "x"}}), "AVRO"),
        (
            json!({"outputSchema": {"data": {"properties": {"a": {"unevaluatedItems": true}}}}}),
            "`unevaluatedItems` is not built",
        ),
        (json!({"inputSchema": {"type": "JSON"}}), "`data`, or the `name`"),
    ] {
        let body = definition(wrong);
        let answer = world.server.json("POST", "/api/metadata/workflow?overwrite=true", body).await.expect(400);
        assert!(answer.text.contains(part), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_message_is_left_for_a_workflow_that_runs() {
    let world = World::new().await;
    let pull = json!({"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES"});
    world
        .define(json!({"name": "pulls", "version": 1, "tasks": [pull], "outputParameters": {"got": "${p.output}"}}))
        .await;
    let id = world.start(json!({"name": "pulls", "version": 1})).await;
    assert_eq!(world.task(&id, "p").await["taskType"], "PULL_WORKFLOW_MESSAGES");
    let push =
        async |id: &str| world.server.json("POST", &format!("/api/workflow/{id}/messages"), json!({"order": 7})).await;
    let own = push(&id).await.expect(200).text;
    world.server.ended("main", &id).await;
    let got = &world.get(&id).await["output"]["got"];
    assert_eq!((&got["count"], &got["messages"][0]["id"]), (&json!(1), &json!(own)));
    assert_eq!((&got["messages"][0]["payload"], &got["messages"][0]["workflowId"]), (&json!({"order": 7}), &json!(id)));
    push(&id).await.expect(409);
    push("01890000-0000-7000-8000-000000000000").await.expect(404);
    let full = world.started("waits").await;
    world.ask("PUT", &format!("/api/workflow/{full}/pause")).await.expect(200);
    push(&full).await.expect(409);
}
