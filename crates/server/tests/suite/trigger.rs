//! The trigger door, case by case of its contract.

use crate::harness::*;
use axum::body::Body;
use axum::http::HeaderValue;
use semel_server::{Role, ServerConfig, TriggerScope};
use serde_json::{Value as Json, json};

const HOUR_MS: i64 = 3_600_000;

async fn runs(server: &Server, flow: &str) -> usize {
    server.get(&format!("/v1/runs?workflow_id={flow}")).await.expect(200).json["items"].as_array().unwrap().len()
}

fn is_replay(answer: &Answer) -> bool {
    let header = answer.headers.get("x-idempotent-replayed") == Some(&HeaderValue::from_static("true"));
    assert_eq!(answer.json["idempotent_replayed"], header, "{}", answer.text);
    header
}

#[tokio::test]
async fn f01_f02_f04_f19_a_twin_sees_the_first_run() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let first = server.trigger("echo", Some("k"), json!({"amount": 5})).await.expect(200);
    let mut expected = json!({"run_id": first.run_id(), "status": "started", "workflow_id": "shop:echo", "idempotent_replayed": false});
    assert_eq!(first.json, expected);
    assert!(!is_replay(&first));
    server.ended("main", &first.run_id()).await;
    expected["status"] = "completed".into();
    expected["idempotent_replayed"] = true.into();
    for _ in 0..10 {
        let twin = server.trigger("shop:echo", Some("k"), json!({"amount": 5})).await.expect(200);
        assert!(is_replay(&twin));
        assert_eq!(twin.json, expected);
    }
    assert_eq!(runs(&server, "shop:echo").await, 1);
    let replays = server.get(&format!("/v1/runs/{}/replays", first.run_id())).await.expect(200);
    assert_eq!(replays.json["items"].as_array().unwrap().len(), 10);
    assert_eq!(replays.json["items"][0]["decision"], "replay");
}

#[tokio::test]
async fn f03_a_twin_of_a_live_run_is_answered_at_once() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let first = server.trigger("call", Some("k"), json!({})).await.expect(200);
    let twin = server.trigger("call", Some("k"), json!({})).await.expect(200);
    assert!(is_replay(&twin));
    assert_eq!(twin.run_id(), first.run_id());
    assert_eq!(twin.json["status"], "running");
    server.release_effects();
    server.ended("main", &first.run_id()).await;
}

#[tokio::test]
async fn f05_racing_firsts_make_one_run() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let race = (0..32).map(|_| server.trigger("echo", Some("k"), json!({})));
    let answers = futures_util::future::join_all(race).await;
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
    assert!(answers.iter().all(|answer| answer.run_id() == answers[0].run_id()));
    assert_eq!(runs(&server, "echo").await, 1);
}

#[tokio::test]
async fn f06_f10_f17_other_keys_and_no_key_are_other_events() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let keys = [
        Some("k"),
        Some("K"),
        Some("evt_1"),
        Some("gh_push_sha_0a1b"),
        Some("8a6e0804-2bd0-4672-b79d-d97027f9071a"),
        None,
        None,
    ];
    for key in keys {
        assert!(!is_replay(&server.trigger("echo", key, json!({})).await.expect(200)));
    }
    assert_eq!(runs(&server, "echo").await, keys.len());
}

#[tokio::test]
async fn f07_workspaces_do_not_share_keys() {
    let server = Server::with_tokens();
    for workspace in ["main", "other"] {
        let (author, trigger) =
            (server.token(workspace, Role::Author, None), server.token(workspace, Role::Trigger, None));
        let push = request("PUT", "/v1/workflows").header("authorization", format!("Bearer {author}"));
        server.send(push.body(Body::from(ECHO)).unwrap()).await.expect(200);
        let call = request("POST", "/v1/workflows/echo/trigger")
            .header("authorization", format!("Bearer {trigger}"))
            .header("idempotency-key", "k");
        let answer = server.send(call.body(Body::empty()).unwrap()).await.expect(200);
        assert!(!is_replay(&answer));
        let show = request("GET", &format!("/v1/runs/{}", answer.run_id()))
            .header("authorization", format!("Bearer {author}"));
        server.send(show.body(Body::empty()).unwrap()).await.expect(200);
        let stranger = server.token(if workspace == "main" { "other" } else { "main" }, Role::Admin, None);
        let show = request("GET", &format!("/v1/runs/{}", answer.run_id()))
            .header("authorization", format!("Bearer {stranger}"));
        server.send(show.body(Body::empty()).unwrap()).await.refused(404, "run_unknown");
    }
}

#[tokio::test]
async fn f08_f09_keys_are_bounded_and_refusals_store_nothing() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let longest = server.trigger("echo", Some(&"k".repeat(255)), json!({})).await.expect(200);
    server.ended("main", &longest.run_id()).await;
    let before = server.store.dump().unwrap();
    server.trigger("echo", Some(&"k".repeat(256)), json!({})).await.refused(400, "key_too_long");
    server.trigger("echo", Some(""), json!({})).await.refused(400, "key_empty");
    server.trigger("echo", Some("   "), json!({})).await.refused(400, "key_empty");
    server.trigger("nope", Some("k"), json!({})).await.refused(404, "flow_unknown");
    let inputs = server.trigger("echo", Some("k"), json!({"amount": "many"})).await.refused(422, "input_invalid");
    assert_eq!(inputs.json["errors"][0]["field"], "amount");
    let twice =
        request("POST", "/v1/workflows/echo/trigger").header("idempotency-key", "a").header("idempotency-key", "b");
    server.send(twice.body(Body::empty()).unwrap()).await.refused(400, "key_repeated");
    for (body, code) in [
        ("[]", "body_invalid"),
        ("{", "body_not_json"),
        (r#"{"data":1}"#, "body_invalid"),
        (r#"{"data":{},"x":1}"#, "body_invalid"),
        (r#"{"data":{"a":1,"a":1}}"#, "json_duplicate_key"),
    ] {
        let call = request("POST", "/v1/workflows/echo/trigger").header("idempotency-key", "k");
        server.send(call.body(Body::from(body)).unwrap()).await.refused(400, code);
    }
    let call = |body: Vec<u8>| request("POST", "/v1/workflows/echo/trigger").body(Body::from(body)).unwrap();
    server.send(call(b"{\"data\":{\"a\":\"\xff\"}}".to_vec())).await.refused(400, "body_not_utf8");
    server.send(call(vec![b'['; 100_000])).await.refused(400, "json_too_deep");
    let form =
        request("POST", "/v1/workflows/echo/trigger").header("content-type", "application/x-www-form-urlencoded");
    server.send(form.body(Body::from("a=1")).unwrap()).await.refused(415, "unsupported_media_type");
    assert_eq!(server.store.dump().unwrap(), before);
    let refusals = server.get("/v1/refusals").await.expect(200);
    assert_eq!(
        refusals.json["items"][0],
        json!({"at": "2026-01-01T00:00:00.000Z", "door": "trigger", "code": "unsupported_media_type", "path": "/v1/workflows/echo/trigger"})
    );
    assert!(!refusals.text.contains("many"));
}

#[tokio::test]
async fn the_body_limit_holds_at_the_limit_and_one_past_it() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let max = server.app.config().limits.body_bytes_max;
    let frame = r#"{"data":{"x":""}}"#.len();
    let body = |size: usize| format!(r#"{{"data":{{"x":"{}"}}}}"#, "a".repeat(size - frame));
    let call = |text: String| request("POST", "/v1/workflows/echo/trigger").body(Body::from(text)).unwrap();
    server.send(call(body(max))).await.expect(200);
    server.send(call(body(max + 1))).await.refused(413, "body_too_large");
    let chunks = futures_util::stream::iter((0..=max / 1024).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1024])));
    let chunked = request("POST", "/v1/workflows/echo/trigger").body(Body::from_stream(chunks)).unwrap();
    server.send(chunked).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn f11_another_body_is_ignored() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let first = server.trigger("echo", Some("k"), json!({"amount": 1})).await;
    let twin = server.trigger("echo", Some("k"), json!({"amount": 2})).await.expect(200);
    assert!(is_replay(&twin));
    assert_eq!(twin.run_id(), first.run_id());
    assert_eq!(runs(&server, "echo").await, 1);
}

#[tokio::test]
async fn f12_f13_f14_the_window_counts_from_first_receipt() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let first = server.trigger("echo", Some("k"), json!({})).await;
    server.ended("main", &first.run_id()).await;
    server.advance(20 * HOUR_MS);
    assert!(is_replay(&server.trigger("echo", Some("k"), json!({})).await));
    server.advance(4 * HOUR_MS - 1_000);
    assert!(is_replay(&server.trigger("echo", Some("k"), json!({})).await));
    server.advance(1_000);
    let anew = server.trigger("echo", Some("k"), json!({})).await.expect(200);
    assert!(!is_replay(&anew));
    assert_ne!(anew.run_id(), first.run_id());
    assert_eq!(server.get(&format!("/v1/runs/{}", first.run_id())).await.json["status"], "completed");
}

#[tokio::test]
async fn f15_a_live_run_keeps_its_key() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let first = server.trigger("call", Some("k"), json!({})).await;
    server.advance(48 * HOUR_MS);
    let twin = server.trigger("call", Some("k"), json!({})).await;
    assert_eq!((is_replay(&twin), twin.run_id()), (true, first.run_id()));
    server.release_effects();
}

#[tokio::test]
async fn f21_a_failed_original_is_shown_and_not_run_again() {
    let server = Server::start();
    server.push(FAILS).await.expect(200);
    let first = server.trigger_waiting("fails", Some("k"), json!({}), Some(20)).await.expect(200);
    assert_eq!(first.json["status"], "failed");
    assert_eq!(first.json["error"]["message"], "card 4111 refused");
    let twin = server.trigger("fails", Some("k"), json!({})).await.expect(200);
    assert!(is_replay(&twin));
    assert_eq!((twin.json["status"].clone(), twin.run_id()), (json!("failed"), first.run_id()));
    assert_eq!(runs(&server, "fails").await, 1);
}

#[tokio::test]
async fn waiting_gives_outputs_to_the_first_and_to_its_twins() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let first = server.trigger_waiting("echo", Some("k"), json!({"amount": 7}), Some(20)).await.expect(200);
    assert_eq!(first.json["status"], "completed");
    assert_eq!(first.json["outputs"], json!({"said": "7"}));
    assert_eq!(first.headers["preference-applied"], "wait=20");
    let twin = server.trigger_waiting("echo", Some("k"), json!({}), Some(20)).await.expect(200);
    assert_eq!(twin.json["outputs"], first.json["outputs"]);
    assert!(is_replay(&twin));
    assert_eq!(server.trigger("echo", Some("k"), json!({})).await.json.get("outputs"), None);
    // A wait that is over before the run says so by its status.
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let early = server.trigger_waiting("call", None, json!({}), Some(0)).await.expect(200);
    assert_eq!((&early.json["status"], early.json.get("outputs")), (&json!("started"), None::<&Json>));
    server.release_effects();
}

#[tokio::test]
async fn a_doubtful_run_is_shown_as_held() {
    let server = Server::start();
    server.push(LOST).await.expect(200);
    let first = server.trigger_waiting("lost", Some("k"), json!({}), Some(20)).await.expect(200);
    assert_eq!(first.json["status"], "held");
    let twin = server.trigger("lost", Some("k"), json!({})).await.expect(200);
    assert_eq!((is_replay(&twin), &twin.json["status"]), (true, &json!("held")));
    let id = first.run_id();
    server.send(request("DELETE", &format!("/v1/runs/{id}")).body(Body::empty()).unwrap()).await.expect(409);
    let run = server
        .json(
            "POST",
            &format!("/v1/runs/{id}/verdict"),
            json!({"verdict": "done", "result": {"code": 201}, "why": "seen at the bank"}),
        )
        .await;
    run.expect(200);
    server.ended("main", &id).await;
    assert_eq!(server.get(&format!("/v1/runs/{id}")).await.json["status"], "completed");
}

#[tokio::test]
async fn the_scope_switch_copies_the_literal_text() {
    let server =
        Server::with(ServerConfig { dev: true, trigger_scope: TriggerScope::Workspace, ..ServerConfig::default() });
    server.push(ECHO).await.expect(200);
    server.push(CALL).await.expect(200);
    let first = server.trigger("echo", Some("k"), json!({})).await.expect(200);
    let twin = server.trigger("call", Some("k"), json!({})).await.expect(200);
    assert!(is_replay(&twin));
    assert_eq!((twin.run_id(), &twin.json["workflow_id"]), (first.run_id(), &json!("shop:echo")));
}

#[tokio::test]
async fn a_name_that_becomes_ambiguous_is_not_answered_from_memory() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let first = server.trigger("echo", Some("k"), json!({"amount": 5})).await.expect(200);
    assert_eq!(first.json["workflow_id"], "shop:echo");
    server.push(&ECHO.replace("namespace: shop", "namespace: other")).await.expect(200);
    server.trigger("echo", Some("k"), json!({"amount": 5})).await.refused(409, "flow_ambiguous");
    // With the first one gone the name means the other.
    server.send(request("DELETE", "/api/v1/main/flows/shop/echo").body(Body::empty()).unwrap()).await.expect(204);
    let other = server.trigger("echo", Some("k"), json!({"amount": 5})).await.expect(200);
    assert_eq!(other.json["workflow_id"], "other:echo");
}
