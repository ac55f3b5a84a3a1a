//! The Conductor door: definitions, starts with their keys, workers.

use crate::harness::*;
use axum::body::Body;
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn pay() -> Json {
    json!({"name": "pay", "version": 1,
        "tasks": [{"name": "charge", "taskReferenceName": "c", "inputParameters": {"amount": "${workflow.input.amount}"}}],
        "outputParameters": {"paid": "${c.output.paid}"}})
}

async fn registered() -> Server {
    let server = Server::start();
    server.json("POST", "/api/metadata/workflow", pay()).await.expect(200);
    let task = json!([{"name": "charge", "retryCount": 1, "retryDelaySeconds": 0, "responseTimeoutSeconds": 10}]);
    server.json("POST", "/api/metadata/taskdefs", task).await.expect(200);
    server
}

async fn started(server: &Server, key: Option<&str>, strategy: Option<&str>) -> Answer {
    let mut body = json!({"name": "pay", "input": {"amount": 5}});
    if let Some(key) = key {
        body["idempotencyKey"] = key.into();
    }
    if let Some(strategy) = strategy {
        body["idempotencyStrategy"] = strategy.into();
    }
    server.json("POST", "/api/workflow", body).await
}

async fn take(server: &Server) -> Option<Json> {
    for _ in 0..400 {
        let answer = server.get("/api/tasks/poll/charge?workerid=w1").await;
        if answer.status == 200 {
            return Some(answer.json);
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    None
}

fn result(task: &Json, status: &str, output: Json) -> Json {
    json!({"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "status": status,
        "outputData": output, "workerId": "w1", "reasonForIncompletion": "because"})
}

async fn workflow(server: &Server, id: &str) -> Json {
    server.get(&format!("/api/workflow/{id}")).await.expect(200).json
}

async fn until(server: &Server, id: &str, status: &str) -> Json {
    for _ in 0..400 {
        let found = workflow(server, id).await;
        if found["status"] == status {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{id} does not get {status}: {}", workflow(server, id).await);
}

#[tokio::test]
async fn a_worker_takes_a_task_and_its_result_ends_the_workflow() {
    let server = registered().await;
    let id = started(&server, None, Some("FAIL")).await.expect(200).text;
    assert_eq!(workflow(&server, &id).await["status"], "RUNNING");
    let task = take(&server).await.expect("a task");
    assert_eq!((&task["inputData"], &task["referenceTaskName"]), (&json!({"amount": 5}), &json!("c")));
    assert_eq!(task["stepId"], task["idempotencyKey"]);
    let done = server.json("POST", "/api/tasks", result(&task, "COMPLETED", json!({"paid": true}))).await.expect(200);
    assert_eq!(done.text, task["taskId"].as_str().unwrap());
    let ended = until(&server, &id, "COMPLETED").await;
    assert_eq!((&ended["output"], &ended["tasks"][0]["status"]), (&json!({"paid": true}), &json!("COMPLETED")));
    let again = server.json("POST", "/api/tasks", result(&task, "FAILED", json!({}))).await.expect(200);
    assert_eq!(again.text, done.text, "a repeat is answered like the first");
    assert_eq!(workflow(&server, &id).await["status"], "COMPLETED", "and changes nothing");
}

#[tokio::test]
async fn attempts_have_ids_of_their_own_and_one_key() {
    let server = registered().await;
    let id = started(&server, None, None).await.expect(200).text;
    let first = take(&server).await.expect("a task");
    server.json("POST", "/api/tasks", result(&first, "FAILED", json!({"code": 1}))).await.expect(200);
    let second = take(&server).await.expect("a second attempt");
    assert_ne!(first["taskId"], second["taskId"]);
    assert_eq!((&first["idempotencyKey"], &second["retryCount"]), (&second["idempotencyKey"], &json!(1)));
    let late = server.json("POST", "/api/tasks", result(&first, "COMPLETED", json!({"paid": 1}))).await;
    late.expect(200);
    server.json("POST", "/api/tasks", result(&second, "FAILED_WITH_TERMINAL_ERROR", json!({}))).await.expect(200);
    let failed = until(&server, &id, "FAILED").await;
    let tasks: Vec<_> =
        failed["tasks"].as_array().unwrap().iter().map(|task| (&task["status"], &task["retried"])).collect();
    let (first_status, second_status) = (json!("FAILED"), json!("FAILED_WITH_TERMINAL_ERROR"));
    assert_eq!(tasks, [(&first_status, &json!(true)), (&second_status, &json!(false))]);
    assert_eq!(failed["reasonForIncompletion"], "because");
    assert_eq!(failed["failedReferenceTaskNames"], json!(["c"]));
}

#[tokio::test]
async fn the_next_task_is_handed_out_once_however_often_the_result_is_sent() {
    let server = registered().await;
    for _ in 0..3 {
        started(&server, None, None).await.expect(200);
    }
    let first = take(&server).await.expect("a task");
    let send = || server.json("POST", "/api/tasks/update-v2", result(&first, "COMPLETED", json!({})));
    let next = send().await.expect(200).json;
    assert_ne!(next["taskId"], first["taskId"]);
    for _ in 0..3 {
        assert_eq!(send().await.expect(200).json["taskId"], next["taskId"]);
    }
    assert!(take(&server).await.is_some(), "the third is still there");
    let mut unknown = result(&first, "COMPLETED", json!({}));
    unknown["taskId"] = "00000000-0000-0000-0000-000000000000".into();
    let answer = server.json("POST", "/api/tasks/update-v2", unknown.clone()).await;
    answer.refused(400, "body_invalid"); // a 404 would switch clients to the old address
    server.json("POST", "/api/tasks", unknown).await.refused(404, "task_unknown");
}

#[tokio::test]
async fn each_strategy_for_each_state_in_body_and_headers() {
    for (strategy, live, ended) in [
        (None, 409, 409),
        (Some("FAIL"), 409, 409),
        (Some("RETURN_EXISTING"), 200, 200),
        (Some("FAIL_ON_RUNNING"), 409, 200),
    ] {
        for in_headers in [false, true] {
            let server = registered().await;
            let start = async || match in_headers {
                false => started(&server, Some("k"), strategy).await,
                true => {
                    let mut ask = request("POST", "/api/workflow/pay?priority=0").header("X-Idempotency-key", "k");
                    if let Some(strategy) = strategy {
                        ask = ask.header("X-on-conflict", strategy);
                    }
                    server.send(ask.body(Body::from(r#"{"amount":5}"#)).unwrap()).await
                }
            };
            let first = start().await.expect(200);
            assert!(!first.headers.contains_key("x-idempotent-replayed"));
            let twin = start().await.expect(live);
            check_twin(&twin, &first);
            let task = take(&server).await.expect("a task");
            server.json("POST", "/api/tasks", result(&task, "COMPLETED", json!({}))).await.expect(200);
            until(&server, &first.text, "COMPLETED").await;
            let late = start().await.expect(ended);
            match strategy {
                Some("FAIL_ON_RUNNING") => assert_ne!(late.text, first.text),
                _ => check_twin(&late, &first),
            }
            assert_eq!(workflow(&server, &first.text).await["idempotencyKey"], "k");
        }
    }
}

fn check_twin(twin: &Answer, first: &Answer) {
    if twin.status == 200 {
        assert_eq!((&twin.text, twin.headers["x-idempotent-replayed"].as_bytes()), (&first.text, &b"true"[..]));
    } else {
        assert_eq!(twin.json["message"], "Workflow with the idempotency key k already exists");
        assert_eq!(twin.json["status"], 409);
    }
}

#[tokio::test]
async fn two_hundred_racing_starts_are_one_run_for_each_strategy() {
    for strategy in ["FAIL", "RETURN_EXISTING", "FAIL_ON_RUNNING"] {
        let server = Arc::new(registered().await);
        let racers: Vec<_> = (0..200)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move { started(&server, Some("race"), Some(strategy)).await })
            })
            .collect();
        let (mut ids, mut refused) = (std::collections::BTreeSet::new(), 0);
        for racer in racers {
            let answer = racer.await.unwrap();
            match answer.status.as_u16() {
                200 => drop(ids.insert(answer.text)),
                409 => refused += 1,
                other => panic!("{other}: {}", answer.text),
            }
        }
        assert_eq!(ids.len(), 1, "{strategy}");
        assert_eq!(refused, if strategy == "RETURN_EXISTING" { 0 } else { 199 });
    }
}

#[tokio::test]
async fn a_definition_that_comes_with_its_start_runs_and_is_not_listed() {
    let server = Server::start();
    let own = json!({"name": "inline", "tasks": [
        {"name": "x", "taskReferenceName": "x", "type": "INLINE",
         "inputParameters": {"evaluatorType": "value-param", "expression": "a", "a": "${workflow.input.a}"}}],
        "outputParameters": {"b": "${x.output.result}"}});
    let body = json!({"name": "inline", "input": {"a": 7}, "workflowDef": own});
    let run = server.json("POST", "/api/workflow/execute/inline/1", body).await.expect(200).json;
    assert_eq!((&run["status"], &run["output"]), (&json!("COMPLETED"), &json!({"b": 7})));
    assert_eq!(server.get("/api/metadata/workflow").await.expect(200).json, json!([]));
    server.json("POST", "/api/workflow/inline", json!({})).await.refused(404, "flow_unknown");
}

#[tokio::test]
async fn a_signal_answers_what_waits_and_a_wait_is_waited_for() {
    let server = Server::start();
    let wait = |name: &str| json!({"name": name, "taskReferenceName": name, "type": "WAIT"});
    let definition = json!({"name": "asks", "tasks": [wait("one"), wait("two")],
        "outputParameters": {"a": "${one.output.v}", "b": "${two.output.v}"}});
    server.json("POST", "/api/metadata/workflow", definition).await.expect(200);
    let path = "/api/workflow/execute/asks/0?returnStrategy=BLOCKING_TASK&requestId=r1";
    let blocked = server.json("POST", path, json!({})).await.expect(200).json;
    assert_eq!((&blocked["referenceTaskName"], &blocked["requestId"]), (&json!("one"), &json!("r1")));
    let id = blocked["targetWorkflowId"].as_str().unwrap().to_owned();
    let signal = |value: u32| {
        let path = format!("/api/tasks/{id}/COMPLETED/signal/sync?returnStrategy=TARGET_WORKFLOW");
        let ask = request("POST", &path).header("x-idempotency-key", format!("s{value}"));
        server.send(ask.body(Body::from(json!({"v": value}).to_string())).unwrap())
    };
    assert_eq!(signal(1).await.expect(200).json["status"], "RUNNING");
    assert_eq!(signal(1).await.expect(200).json["status"], "RUNNING", "a repeat is about the same task");
    let ended = signal(2).await.expect(200).json;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &json!({"a": 1, "b": 2})));
    // Whoever asks for an answer is told that nobody waits; whoever does not is not.
    server.json("POST", &format!("/api/tasks/{id}/COMPLETED/signal"), json!({})).await.expect(200);
    let sync = format!("/api/tasks/{id}/COMPLETED/signal/sync");
    server.json("POST", &sync, json!({})).await.refused(404, "task_unknown");
}

#[tokio::test]
async fn bad_input_says_what_is_wrong_and_where() {
    let server = registered().await;
    server.json("POST", "/api/metadata/workflow", pay()).await.refused(409, "exists");
    server.json("POST", "/api/metadata/workflow?overwrite=True", pay()).await.expect(200);
    let broken = json!({"name": "b", "tasks": [{"name": "x", "taskReferenceName": "x", "type": "NO_SUCH"}]});
    let refused = server.json("POST", "/api/metadata/workflow", broken).await.refused(400, "flow_invalid");
    assert_eq!(refused.json["validationErrors"][0]["path"], "tasks[0].type");
    server.json("POST", "/api/workflow", json!({"name": "nothing"})).await.refused(404, "flow_unknown");
    server.json("POST", "/api/workflow", json!({"name": "pay", "input": null})).await.refused(400, "body_invalid");
    server.get("/api/workflow/no-such-id").await.refused(404, "run_unknown");
    server.get("/api/tasks/poll/batch/charge?timeout=5001").await.refused(400, "query_invalid");
    server.json("PUT", "/api/metadata/taskdefs", json!({"name": "new"})).await.refused(404, "definition_unknown");
    server.send(request("POST", "/api/token").body(Body::from("{}")).unwrap()).await.refused(404, "token_unknown");
    assert_eq!(server.get("/api/tasks/poll/batch/charge?timeout=0").await.expect(200).json, json!([]));
}

#[tokio::test]
async fn a_token_is_got_for_its_two_parts() {
    let server = Server::with_tokens();
    let token = server.token("main", semel_server::Role::Author, None);
    let (id, secret) = token["sml_".len()..].split_once('_').unwrap();
    let ask = |body: Json| server.send(request("POST", "/api/token").body(Body::from(body.to_string())).unwrap());
    let got = ask(json!({"keyId": id, "keySecret": secret})).await.expect(200).json;
    assert_eq!(got["token"], token);
    let listed = request("GET", "/api/metadata/workflow").header("X-Authorization", got["token"].as_str().unwrap());
    server.send(listed.body(Body::empty()).unwrap()).await.expect(200);
    let wrong = ask(json!({"keyId": id, "keySecret": "x".repeat(43)})).await.refused(401, "token_invalid");
    assert_eq!(wrong.json["error"], "INVALID_TOKEN");
    server.get("/api/metadata/workflow").await.refused(401, "token_missing");
}
