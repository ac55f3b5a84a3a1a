//! The management API from outside.

use crate::harness::*;
use axum::body::Body;
use futures_util::StreamExt;
use serde_json::{Value as Json, json};

#[tokio::test]
async fn flows_are_pushed_listed_and_explained_when_wrong() {
    let server = Server::start();
    let pushed = server.push(ECHO).await.expect(200).json;
    assert_eq!(
        (&pushed["workflow_id"], &pushed["revision"], &pushed["changed"]),
        (&json!("shop:echo"), &json!(1), &json!(true))
    );
    assert_eq!(server.push(ECHO).await.expect(200).json["changed"], false);
    server.push(&ECHO.replace("defaults: 1", "defaults: 2")).await.expect(200);
    server.push(CALL).await.expect(200);
    let first = server.get("/v1/workflows?limit=1").await.expect(200).json;
    assert_eq!(first["items"][0]["workflow_id"], "shop:call");
    let second = server
        .get(&format!("/v1/workflows?limit=1&cursor={}", first["next_cursor"].as_str().unwrap()))
        .await
        .expect(200)
        .json;
    assert_eq!((&second["items"][0]["workflow_id"], &second["next_cursor"]), (&json!("shop:echo"), &Json::Null));
    assert!(
        server.get("/v1/workflows/echo").await.expect(200).json["source"].as_str().unwrap().contains("defaults: 2")
    );
    assert!(
        server.get("/v1/workflows/echo?revision=1").await.expect(200).json["source"]
            .as_str()
            .unwrap()
            .contains("defaults: 1")
    );
    server.get("/v1/workflows/echo?revision=9").await.refused(404, "flow_unknown");
    let revisions = server.get("/v1/workflows/echo/revisions").await.expect(200).json;
    assert_eq!(
        revisions["items"].as_array().unwrap().iter().map(|row| row["revision"].clone()).collect::<Vec<_>>(),
        [json!(2), json!(1)]
    );

    let bad = server
        .push("id: x\nnamespace: y\ntasks:\n  - {id: a, type: debug.Retrun}\n")
        .await
        .refused(422, "flow_invalid");
    assert_eq!(bad.json["errors"][0]["line"], 4);
    assert!(bad.json["rendered"].as_str().unwrap().contains("flow.yaml"), "{}", bad.text);
    let checked = server
        .send(request("POST", "/v1/workflows/validate").body(Body::from("id: x")).unwrap())
        .await
        .expect(200)
        .json;
    assert_eq!(checked["valid"], false);
    assert!(!checked["errors"].as_array().unwrap().is_empty());
    let good =
        server.send(request("POST", "/v1/workflows/validate").body(Body::from(ECHO)).unwrap()).await.expect(200).json;
    assert_eq!((&good["valid"], &good["errors"]), (&json!(true), &json!([])));
    server.push("").await.refused(400, "body_invalid");
    server.push(&"#".repeat(512 * 1024 + 1)).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn runs_are_started_filtered_and_paged() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let mut ids = Vec::new();
    for n in 0..5 {
        let body = json!({"workflow_id": "echo", "inputs": {"amount": n}, "labels": {"n": n}, "key": format!("k{n}"), "correlation_id": "c"});
        let answer = server.json("POST", "/v1/runs", body).await.expect(200);
        assert_eq!(
            (&answer.json["decision"], &answer.json["reason"], &answer.json["status"]),
            (&json!("start"), &json!("first"), &json!("started"))
        );
        server.ended("main", &answer.run_id()).await;
        server.advance(1_000);
        ids.push(answer.run_id());
    }
    ids.reverse();
    let list = |query: &'static str| {
        let server = &server;
        async move {
            let items = server.get(&format!("/v1/runs{query}")).await.expect(200).json["items"].clone();
            items.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    assert_eq!(list("").await, ids);
    assert_eq!(list("?status=completed,failed&correlation_id=c&workflow_id=shop:echo").await, ids);
    assert_eq!(list("?status=failed").await.len(), 0);
    assert_eq!(list("?label=n:3").await, ids[1..2]);
    assert_eq!(list("?key=k4&namespace=shop").await, ids[..1]);
    assert_eq!(list("?created_from=2026-01-01T00:00:03Z").await.len(), 2);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/runs?limit=2{cursor}")).await.expect(200).json;
        seen.extend(page["items"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ids);
    for bad in ["?status=done", "?label=n", "?created_from=now", "?limit=0", "?parent_run_id=x"] {
        server.get(&format!("/v1/runs{bad}")).await.refused(400, "query_invalid");
    }
    server.get("/v1/runs?cursor=abc").await.refused(400, "cursor_invalid");
    let run = server.get(&format!("/v1/runs/{}", ids[0])).await.expect(200).json;
    assert_eq!(
        (&run["inputs"], &run["outputs"], &run["key"]),
        (&json!({"amount": 4}), &json!({"said": "4"}), &json!("k4"))
    );
    for id in ["x", "00000000-0000-7000-8000-000000000000"] {
        server.get(&format!("/v1/runs/{id}")).await.refused(404, "run_unknown");
        server.get(&format!("/v1/runs/{id}/journal")).await.refused(404, "run_unknown");
        server.get(&format!("/v1/runs/{id}/follow")).await.refused(404, "run_unknown");
        server.json("POST", &format!("/v1/runs/{id}/cancel"), json!({})).await.refused(404, "run_unknown");
    }
    let unknown = json!({"workflow_id": "echo", "input": {}});
    assert!(server.json("POST", "/v1/runs", unknown).await.refused(400, "body_invalid").text.contains("`input`"));
}

#[tokio::test]
async fn the_strategy_of_a_request_decides_what_a_twin_gets() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.push(ECHO).await.expect(200);
    server.hold_effects();
    let start = |key: &'static str, strategy: &'static str| {
        server.json("POST", "/v1/runs", json!({"workflow_id": "call", "key": key, "strategy": strategy}))
    };
    let first = start("k", "ietf").await.expect(200);
    let twin = start("k", "ietf").await.refused(409, "in_progress");
    assert_eq!(twin.json["run_id"], first.run_id());
    assert!(twin.headers.contains_key("retry-after"));
    server.release_effects();
    server.ended("main", &first.run_id()).await;
    start("k", "conductor_fail").await.refused(409, "already_done");
    let echo = |amount: i64| {
        server.json("POST", "/v1/runs", json!({"workflow_id": "echo", "key": "k", "inputs": {"amount": amount}}))
    };
    echo(1).await.expect(200);
    let mismatch = echo(2).await.refused(422, "payload_mismatch");
    assert_eq!(mismatch.json.get("run_id"), None);
    assert!(start("k", "nonsense").await.refused(400, "body_invalid").text.contains("conductor_fail"));
}

#[tokio::test]
async fn keys_are_shown_explained_and_released() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let first = server.trigger("echo", Some("k"), json!({})).await;
    server.ended("main", &first.run_id()).await;
    server.trigger("echo", Some("k"), json!({"amount": 2})).await.expect(200);
    server.trigger("echo", Some("K"), json!({})).await.expect(200);
    let shown = server.get("/v1/keys/show?key=k&workflow_id=echo").await.expect(200).json;
    assert_eq!((&shown["items"][0]["state"], &shown["items"][0]["workflow_id"]), (&json!("done"), &json!("shop:echo")));
    assert_eq!(shown["decisions"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("/v1/keys?state=done&key=k").await.expect(200).json["items"].as_array().unwrap().len(), 1);
    let explained =
        server.json("POST", "/v1/keys/explain", json!({"workflow_id": "echo", "key": "k"})).await.expect(200);
    assert_eq!(explained.json["met"], true);
    assert!(explained.text.contains("`mismatch: ignore`"), "{}", explained.text);
    let apart = server
        .json("POST", "/v1/keys/explain", json!({"workflow_id": "shop:echo", "key": "k", "other_key": "K"}))
        .await
        .expect(200);
    assert_eq!(apart.json["met"], false);
    assert!(apart.text.contains("letter case"));
    let unseen = server
        .json("POST", "/v1/keys/explain", json!({"workflow_id": "shop:echo", "key": "k", "other_key": "never"}))
        .await
        .expect(200);
    assert_eq!((&unseen.json["met"], &unseen.json["b"]), (&json!(false), &json!(null)));
    assert!(unseen.text.contains("No event with the key `never`"), "{}", unseen.text);
    let told = &explained.json;
    let seqs: Vec<u64> = told["decisions"].as_array().unwrap().iter().map(|d| d["seq"].as_u64().unwrap()).collect();
    assert!(seqs.len() >= 2 && seqs.is_sorted(), "every decision, oldest first: {seqs:?}");
    assert_eq!(told["claims"][0]["state"], "done");
    assert!(explained.text.contains("the key is done with run"), "{}", explained.text);
    let log = server.get("/v1/decisions?decision=replay").await.expect(200).json;
    let seq = log["items"][0]["seq"].as_u64().unwrap();
    let by_seq = server
        .json("POST", "/v1/keys/explain", json!({"decision": seq, "other": shown["decisions"][1]["seq"]}))
        .await
        .expect(200);
    assert_eq!(by_seq.json["met"], true);
    server
        .json("POST", "/v1/keys/explain", json!({"decision": 1_000_000, "other": seq}))
        .await
        .refused(404, "decision_unknown");
    server.json("POST", "/v1/keys/explain", json!({"decision": 1})).await.refused(400, "body_invalid");

    server
        .json("POST", "/v1/keys/release", json!({"key": "k", "workflow_id": "echo"}))
        .await
        .refused(400, "body_invalid");
    server
        .json("POST", "/v1/keys/release", json!({"key": "x", "workflow_id": "echo", "why": "y"}))
        .await
        .refused(404, "key_unknown");
    server
        .json("POST", "/v1/keys/release", json!({"key": "k", "workflow_id": "echo", "why": "resend"}))
        .await
        .expect(200);
    let again = server.trigger("echo", Some("k"), json!({})).await.expect(200);
    assert_eq!(again.json["idempotent_replayed"], false);
}

#[tokio::test]
async fn runs_are_controlled_deleted_and_erased() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.push(ECHO).await.expect(200);
    server.hold_effects();
    let id = server.trigger("call", Some("k"), json!({})).await.run_id();
    let delete = |id: String| server.send(request("DELETE", &format!("/v1/runs/{id}")).body(Body::empty()).unwrap());
    delete(id.clone()).await.refused(409, "run_live");
    server
        .json("POST", "/v1/keys/release", json!({"key": "k", "workflow_id": "call", "why": "x"}))
        .await
        .refused(409, "run_live");
    server.json("POST", &format!("/v1/runs/{id}/restart"), json!({"why": "x"})).await.refused(409, "not_possible");
    server.json("POST", &format!("/v1/runs/{id}/cancel"), json!({"wy": "x"})).await.refused(400, "body_invalid");
    let paused = server.json("POST", &format!("/v1/runs/{id}/pause"), json!({"why": "lunch"})).await.expect(200);
    assert_eq!(paused.json["run_id"], id);
    server.json("POST", &format!("/v1/runs/{id}/resume"), json!({})).await.expect(200);
    server.release_effects();
    server.ended("main", &id).await;
    let steps = server.get(&format!("/v1/runs/{id}/steps")).await.expect(200).json;
    assert_eq!((&steps["items"][0]["step"], &steps["items"][0]["state"]), (&json!("pay"), &json!("done")));
    delete(id.clone()).await.expect(204);
    server.get(&format!("/v1/runs/{id}")).await.refused(404, "run_unknown");
    delete(id).await.refused(404, "run_unknown");

    let id = server.trigger("echo", Some("e"), json!({"amount": 987654})).await.run_id();
    server.ended("main", &id).await;
    server.send(request("POST", &format!("/v1/runs/{id}/erase")).body(Body::empty()).unwrap()).await.expect(204);
    let erased = server.get(&format!("/v1/runs/{id}")).await.expect(200);
    assert_eq!(
        (&erased.json["erased"], &erased.json["inputs"], &erased.json["key"]),
        (&json!(true), &Json::Null, &Json::Null)
    );
    assert!(!server.get(&format!("/v1/runs/{id}/journal")).await.expect(200).text.contains("987654"));
    server.trigger("echo", Some("e"), json!({})).await.refused(410, "erased");
}

#[tokio::test]
async fn values_and_secrets_are_kept() {
    let server = Server::start();
    let put = |body: Json| server.json("PUT", "/v1/kv/shop/a%2Fb", body);
    server.get("/v1/kv/shop/a%2Fb").await.refused(404, "kv_unknown");
    assert_eq!(put(json!({"value": {"x": [1]}, "ttl": "PT1H"})).await.expect(200).json["key"], "a/b");
    put(json!({"value": 1, "overwrite": false})).await.refused(409, "exists");
    put(json!({"ttl": "PT1H"})).await.refused(400, "body_invalid");
    put(json!({"value": 1, "ttl": "1h"})).await.refused(400, "body_invalid");
    let found = server.get("/v1/kv/shop/a%2Fb").await.expect(200).json;
    assert_eq!(
        (&found["value"], &found["type"], &found["expires_at"]),
        (&json!({"x": [1]}), &json!("JSON"), &json!("2026-01-01T01:00:00.000Z"))
    );
    server.advance(3_600_000);
    server.get("/v1/kv/shop/a%2Fb").await.refused(410, "expired");
    put(json!({"value": null})).await.expect(200);
    let delete = |path: &'static str| server.send(request("DELETE", path).body(Body::empty()).unwrap());
    delete("/v1/kv/shop/a%2Fb").await.expect(204);
    delete("/v1/kv/shop/a%2Fb").await.refused(404, "kv_unknown");

    let made = server.json("PUT", "/v1/secrets/PAY", json!({"value": "hush-hush"})).await.expect(200);
    assert_eq!(made.json, json!({"name": "PAY", "version": 1}));
    let wrong =
        server.json("PUT", "/v1/secrets/PAY", json!({"value": {"hush": "hush"}})).await.refused(400, "body_invalid");
    assert!(!wrong.text.contains("hush"));
    server.json("PUT", "/v1/secrets/a%20b", json!({"value": "x"})).await.refused(400, "secret_name_invalid");
    let listed = server.get("/v1/secrets").await.expect(200);
    assert!(listed.text.contains("PAY") && !listed.text.contains("hush"));
    delete("/v1/secrets/PAY").await.expect(204);
    delete("/v1/secrets/PAY").await.refused(404, "secret_unknown");
}

#[tokio::test]
async fn workspaces_are_made_once_and_chosen_by_header() {
    let server = Server::start();
    server.json("POST", "/v1/workspaces", json!({"id": "third"})).await.expect(200);
    server.json("POST", "/v1/workspaces", json!({"id": "third"})).await.refused(409, "exists");
    server.json("POST", "/v1/workspaces", json!({"id": "Third!"})).await.refused(400, "body_invalid");
    assert!(server.get("/v1/workspaces").await.expect(200).text.contains("third"));
    server.push(ECHO).await.expect(200);
    let elsewhere = |name: &'static str| {
        server.send(request("GET", "/v1/workflows/echo").header("x-semel-workspace", name).body(Body::empty()).unwrap())
    };
    elsewhere("main").await.expect(200);
    elsewhere("third").await.refused(404, "flow_unknown");
    elsewhere("nowhere").await.refused(404, "workspace_unknown");
    let foreign =
        request("POST", "/v1/workspaces").header("host", "localhost").header("origin", "https://evil.example");
    server.send(foreign.body(Body::from("{}")).unwrap()).await.refused(403, "cross_origin");
}

#[tokio::test]
async fn a_follower_sees_the_run_to_its_end() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let id = server.trigger("call", None, json!({})).await.run_id();
    let path = format!("/v1/runs/{id}/follow");
    let response = server.site.answer(request("GET", &path).body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    let first = String::from_utf8(stream.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.contains("event: run") && first.contains(&id), "{first}");
    server.release_effects();
    let mut rest = String::new();
    while let Some(chunk) = stream.next().await {
        rest.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
    }
    assert!(rest.contains("\"status\":\"completed\""), "{rest}");
    assert!(rest.trim_end().ends_with("event: end\ndata: {}"), "{rest}");
}

#[tokio::test]
async fn streams_are_limited_and_end_with_the_server() {
    let mut config = semel_server::ServerConfig { dev: true, ..Default::default() };
    config.limits.event_streams_max = 1;
    let server = Server::with(config);
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let id = server.trigger("call", None, json!({})).await.run_id();
    let path = format!("/v1/runs/{id}/follow");
    let response = server.site.answer(request("GET", &path).body(Body::empty()).unwrap()).await;
    server.get(&path).await.refused(429, "too_many_streams");
    assert!(server.get("/metrics").await.expect(200).text.contains("semel_event_streams 1"));
    server.app.stopping().cancel();
    let ended = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    assert!(String::from_utf8(ended.to_vec()).unwrap().contains("event: run"));
    server.get("/health/ready").await.refused(503, "not_ready");
    server.get("/health/live").await.expect(200);
}
