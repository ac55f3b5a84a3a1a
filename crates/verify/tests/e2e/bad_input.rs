//! Bad input gets a clear refusal, and leaves nothing behind.

use crate::harness::{Answer, Options, Server, flow, quick};
use reqwest::Method;
use serde_json::{Value as Json, json};

/// The flow is refused with this diagnostic, at a place, in words.
fn diagnosed(answer: &Answer, code: &str) {
    answer.refused(422, "flow_invalid");
    let errors = answer.json["errors"].as_array().expect("errors");
    let found =
        errors.iter().find(|error| error["code"] == code).unwrap_or_else(|| panic!("no {code}: {}", answer.text));
    assert!(found["line"].as_u64().is_some_and(|line| line > 0) && found["column"].as_u64().is_some(), "{found}");
    assert!(
        answer.json["rendered"].as_str().is_some_and(|text| text.contains(code) || text.contains("error")),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn flows_that_are_wrong_are_refused_with_the_place_of_the_mistake() {
    let server = Server::start().await;
    let before = server.stored().await;
    diagnosed(&server.put_flow("id: a\nnamespace: e2e\ntasks: [\n").await, "yaml_syntax");
    diagnosed(&server.put_flow(&flow("a", "tasks:\n  - {id: x, type: log.Lgo, message: hi}\n")).await, "unknown_type");
    diagnosed(&server.put_flow(&flow("a", "tasks:\n  - {id: x, type: log.Log, massage: hi}\n")).await, "unknown_field");
    diagnosed(&server.put_flow(&flow("a", "taks: []\n")).await, "unknown_field");
    let own = "tasks:\n  - {id: x, type: flow.Subflow, namespace: e2e, flowId: a}\n";
    diagnosed(&server.put_flow(&flow("a", own)).await, "cyclic_subflow");
    assert_eq!(server.stored().await, before);
    let valid = server.send(server.request(Method::POST, "/v1/workflows/validate").body(flow("a", own))).await.ok();
    assert_eq!(valid["valid"], false);
}

#[tokio::test]
async fn a_suggestion_leads_out_of_a_mistake() {
    let server = Server::start().await;
    let answer = server.put_flow(&flow("a", "tasks:\n  - {id: x, type: log.Lgo, message: hi}\n")).await;
    let text = answer.json["errors"][0]["suggestion"].to_string();
    assert!(text.contains("log.Log"), "{}", answer.text);
}

#[tokio::test]
async fn a_cycle_of_sub_flows_is_refused_when_it_closes() {
    let server = Server::start().await;
    let calls = |id: &str, other: &str| {
        flow(id, &format!("tasks:\n  - {{id: x, type: flow.Subflow, namespace: e2e, flowId: {other}}}\n"))
    };
    server.push(&quick("c")).await;
    server.push(&calls("b", "c")).await;
    server.push(&calls("a", "b")).await;
    let before = server.stored().await;
    diagnosed(&server.put_flow(&calls("c", "a")).await, "cyclic_subflow");
    diagnosed(&server.put_flow(&calls("b", "a")).await, "cyclic_subflow");
    assert_eq!(server.stored().await, before);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let before = server.stored().await;
    let path = "/v1/workflows/a/trigger";
    let send = |body: Vec<u8>| {
        server
            .request(Method::POST, path)
            .header("content-type", "application/json")
            .header("idempotency-key", "k")
            .body(body)
    };
    server.send(send(b"{\"data\": {".to_vec())).await.refused(400, "body_not_json");
    server.send(send(b"[]".to_vec())).await.refused(400, "body_invalid");
    server.send(send(b"{\"data\": {\"x\": \"\xff\xfe\"}}".to_vec())).await.refused(400, "body_not_utf8");
    server.send(send(b"{\"data\":{\"x\":1,\"x\":2}}".to_vec())).await.refused(400, "json_duplicate_key");
    let deep = format!("{{\"data\":{}1{}}}", "{\"x\":".repeat(10_000), "}".repeat(10_000));
    server.send(send(deep.into_bytes())).await.refused(400, "json_too_deep");
    let text = server.request(Method::POST, path).header("content-type", "text/plain").body("{}");
    server.send(text).await.refused(415, "unsupported_media_type");
    let unknown = server.request(Method::POST, path).json(&json!({"data": {}, "idempotency_key": "k"}));
    server.send(unknown).await.refused(400, "body_invalid");
    assert_eq!(server.stored().await, before);
    // None of them spent the key.
    assert!(!server.trigger("a", Some("k"), json!({})).await.replayed());
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_refused() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let before = server.stored().await;
    let body = format!("{{\"data\":{{\"x\":\"{}\"}}}}", "a".repeat(10 * 1024 * 1024));
    let request =
        server.request(Method::POST, "/v1/workflows/a/trigger").header("content-type", "application/json").body(body);
    // The server may hang up while the body is still being sent; a refusal that arrives must be the right one.
    if let Ok(answer) = server.try_send(request).await {
        answer.refused(413, "body_too_large");
    }
    let flow = format!("{}# {}\n", quick("b"), "a".repeat(600 * 1024));
    let answer = server.put_flow(&flow).await;
    assert!((400..500).contains(&answer.status), "{}", answer.text);
    assert_eq!(server.stored().await, before);
    assert_eq!(server.get("/health/live").await.status, 200);
}

#[tokio::test]
async fn keys_that_are_wrong_are_refused() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let before = server.stored().await;
    server.trigger("a", Some(&"k".repeat(256)), json!({})).await.refused(400, "key_too_long");
    let two = server.trigger_request("a", Some("one"), json!({})).header("idempotency-key", "two");
    server.send(two).await.refused(400, "key_repeated");
    let header = reqwest::header::HeaderValue::from_bytes(b"\xff\xfe").expect("a value");
    server
        .send(server.trigger_request("a", None, json!({})).header("idempotency-key", header))
        .await
        .refused(400, "key_not_utf8");
    assert_eq!(server.stored().await, before);
}

#[tokio::test]
async fn inputs_that_do_not_fit_are_named() {
    let server = Server::start().await;
    let inputs = "inputs:
  - {id: order, type: STRING}
  - {id: kind, type: SELECT, values: [big, small]}
  - {id: at, type: DATETIME}
  - {id: tags, type: ARRAY, itemType: INT}
tasks:
  - {id: say, type: log.Log, message: hi}\n";
    server.push(&flow("a", inputs)).await;
    let before = server.stored().await;
    let bad = server.trigger("a", Some("k"), json!({"kind": "huge", "at": "soon", "tags": ["x"]})).await;
    bad.refused(422, "input_invalid");
    let fields: Vec<&str> =
        bad.json["errors"].as_array().expect("errors").iter().filter_map(|error| error["field"].as_str()).collect();
    for field in ["order", "kind", "at", "tags"] {
        assert!(fields.iter().any(|found| found.starts_with(field)), "{field}: {}", bad.text);
    }
    assert_eq!(server.stored().await, before);
    let good = json!({"order": "o", "kind": "big", "at": "2026-01-01T00:00:00Z", "tags": [1, 2]});
    assert!(!server.trigger("a", Some("k"), good).await.replayed());
}

#[tokio::test]
async fn wrong_paths_methods_ids_and_queries_are_refused() {
    let server = Server::start().await;
    server.get("/v1/nothing").await.refused(404, "path_not_found");
    server.delete("/v1/runs").await.refused(405, "method_not_allowed");
    server.get("/v1/runs/not-an-id").await.refused(404, "run_unknown");
    server.get("/v1/runs/0198c0de-0000-7000-8000-000000000001").await.refused(404, "run_unknown");
    server.get("/v1/runs?status=sleepy").await.refused(400, "query_invalid");
    server.get("/v1/runs?cursor=zzz").await.refused(400, "cursor_invalid");
    server.get("/v1/workflows/nope").await.refused(404, "flow_unknown");
    server.with("x-semel-workspace", "nope").get("/v1/runs").await.refused(404, "workspace_unknown");
}

#[tokio::test]
async fn a_wrong_token_and_a_foreign_run_tell_nothing() {
    let server = Server::with(Options { tokens: true, ..Options::default() }).await;
    let admin = server.token(std::fs::read_to_string(server.path("data/admin.token")).expect("a token").trim());
    admin.push(&quick("a")).await;
    let run = admin.trigger_wait("a", Some("k"), json!({})).await.run_id();
    admin.post("/v1/workspaces", json!({"id": "other"})).await.ok();
    let made = admin.post("/v1/tokens", json!({"name": "o", "role": "admin", "workspace": "other"})).await.ok();
    let other = server.token(made["token"].as_str().expect("a token"));
    let missing = "0198c0de-0000-7000-8000-000000000001";
    for verb in ["", "/journal", "/logs", "/steps", "/children", "/replays", "/follow"] {
        let foreign = other.get(&format!("/v1/runs/{run}{verb}")).await;
        foreign.refused(404, "run_unknown");
        let absent = other.get(&format!("/v1/runs/{missing}{verb}")).await;
        let shape = |answer: &Answer| -> Json { json!([answer.json["title"], answer.json["detail"], answer.status]) };
        assert_eq!(shape(&foreign), shape(&absent));
    }
    for verb in ["cancel", "pause", "resume", "restart", "replay", "erase"] {
        other.post(&format!("/v1/runs/{run}/{verb}"), json!({})).await.refused(404, "run_unknown");
    }
    other.delete(&format!("/v1/runs/{run}")).await.refused(404, "run_unknown");
    other.trigger("a", Some("k"), json!({})).await.refused(404, "flow_unknown");
    for token in ["sml_x", "sml_aaaaaaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbb", "Bearer", "é"] {
        let header = reqwest::header::HeaderValue::from_bytes(format!("Bearer {token}").as_bytes()).expect("a value");
        let request = server.trigger_request("a", Some("k2"), json!({})).header("authorization", header);
        server.send(request).await.refused(401, "token_invalid");
    }
    server.trigger("a", Some("k2"), json!({})).await.refused(401, "token_missing");
    assert_eq!(admin.get("/v1/runs").await.ok()["items"].as_array().expect("items").len(), 1);
}

#[tokio::test]
async fn refused_arrivals_are_counted_without_their_payload() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    server.trigger("a", Some(&"k".repeat(256)), json!({"card": "4111-1111"})).await.refused(400, "key_too_long");
    let rows = server.get("/v1/refusals").await;
    assert!(rows.text.contains("key_too_long") && !rows.text.contains("4111"), "{}", rows.text);
}

/// What is known elsewhere and not offered here is refused when the flow is pushed, not when a run gets there.
#[tokio::test]
async fn calls_that_anybody_could_answer_are_refused_at_push() {
    let server = Server::start().await;
    let call = |options: &str| {
        flow(
            "a",
            &format!("tasks:\n  - {{id: g, type: http.Request, uri: 'http://127.0.0.1:9/', options: {options}}}\n"),
        )
    };
    server.push(&call("{ssl: {insecureTrustAllCertificates: false}}")).await;
    let answer = server.put_flow(&call("{ssl: {insecureTrustAllCertificates: true}}")).await;
    answer.refused(422, "flow_invalid");
    let error = &answer.json["errors"][0];
    assert_eq!(
        (&error["code"], &error["line"], &error["column"]),
        (&json!("not_built"), &json!(4), &json!(107)),
        "{error}"
    );
}
