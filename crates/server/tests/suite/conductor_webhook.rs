//! `/webhook/{id}`: who may send, what comes of it, and what a second delivery finds.

use crate::harness::*;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value as Json, json};
use sha2::Sha256;

async fn server() -> Server {
    let server = Server::start();
    let quick = json!({"name": "t", "taskReferenceName": "t", "type": "NOOP"});
    server.json("POST", "/api/metadata/workflow", json!({"name": "order", "tasks": [quick]})).await.expect(200);
    let waits = json!({"name": "t", "taskReferenceName": "t", "type": "WAIT_FOR_WEBHOOK",
        "inputParameters": {"matches": {"$['event']['type']": "paid", "$['id']": "${workflow.input.id}"}}});
    let waiting = json!({"name": "waits", "tasks": [waits], "outputParameters": {"got": "${t.output.amount}"}});
    server.json("POST", "/api/metadata/workflow", waiting).await.expect(200);
    server
}

fn config(verifier: &str, more: Json) -> Json {
    let mut config = json!({"id": "hook", "name": "hook", "sourcePlatform": "Custom", "verifier": verifier,
        "workflowsToStart": {"order": 1}});
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    config
}

async fn created(config: Json) -> Server {
    let server = server().await;
    server.json("POST", "/api/metadata/webhook", config).await.expect(200);
    server
}

async fn deliver(server: &Server, headers: &[(&str, String)], body: &str) -> Answer {
    // Which of two came first is told by their instants.
    server.advance(1);
    let mut request = request("POST", "/webhook/hook").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    server.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

fn mac(key: &[u8], parts: &[&str]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part.as_bytes()));
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn runs(server: &Server) -> usize {
    server.get("/v1/runs?namespace=conductor").await.json["items"].as_array().unwrap().len()
}

async fn history(server: &Server) -> Vec<Json> {
    let shown = server.get("/api/metadata/webhook/hook").await.expect(200).json;
    shown["webhookExecutionHistory"].as_array().unwrap().clone()
}

fn by_header(more: Json) -> Json {
    let mut config = config("HEADER_BASED", json!({"headers": {"X-Key": "open sesame"}}));
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    config
}

fn key_header() -> Vec<(&'static str, String)> {
    vec![("x-key", "open sesame".to_owned())]
}

#[tokio::test]
async fn each_verifier_lets_in_who_can_prove_it_and_nobody_else() {
    let body = r#"{"id":"e1"}"#;
    let now_s = (1_767_225_600_000i64 / 1_000).to_string();
    let secret = "shh";
    let packed = STANDARD.encode(secret);
    let signed = json!({"headerKey": "X-Sig", "secretValue": secret});
    let cases: Vec<(Json, Vec<(&str, String)>)> = vec![
        (by_header(json!({})), key_header()),
        (config("SIGNATURE_BASED", signed.clone()), vec![("x-sig", format!("sha256={}", hex(&mac(b"shh", &[body]))))]),
        (
            config("HMAC_BASED", json!({"headerKey": "X-Sig", "secretValue": packed})),
            vec![("x-sig", format!("HMAC {}", STANDARD.encode(mac(b"shh", &[body]))))],
        ),
        (config("TWITTER", signed), vec![("x-sig", format!("sha256={}", STANDARD.encode(mac(b"shh", &[body]))))]),
        (
            config("SLACK_BASED", json!({"secretValue": secret})),
            vec![
                ("x-slack-request-timestamp", now_s.clone()),
                ("x-slack-signature", format!("v0={}", hex(&mac(b"shh", &["v0:", &now_s, ":", body])))),
            ],
        ),
        (
            config("STRIPE", json!({"secretValue": secret})),
            vec![("stripe-signature", format!("t={now_s},v1={}", hex(&mac(b"shh", &[&now_s, ".", body]))))],
        ),
    ];
    for (config, proof) in cases {
        let name = config["verifier"].clone();
        let server = created(config).await;
        let before = server.store.dump().unwrap();
        assert_eq!(deliver(&server, &[], body).await.status.as_u16(), 401, "{name}: without a proof");
        let forged: Vec<(&str, String)> = proof.iter().map(|(header, value)| (*header, flip(value))).collect();
        assert_eq!(deliver(&server, &forged, body).await.status.as_u16(), 401, "{name}: a wrong proof");
        if name != "HEADER_BASED" {
            let other = deliver(&server, &proof, r#"{"id":"e2"}"#).await;
            assert_eq!(other.status.as_u16(), 401, "{name}: the proof of another body");
        }
        assert_eq!(server.store.dump().unwrap(), before, "{name}: nothing is kept of who proves nothing");
        let answer = deliver(&server, &proof, body).await;
        assert_eq!(answer.status.as_u16(), 200, "{name}: {}", answer.text);
        assert_eq!(runs(&server).await, 1, "{name}");
        let shown = server.get("/api/metadata/webhook/hook").await.expect(200);
        assert!(shown.json["urlVerified"] == true && !shown.text.contains("shh") && !shown.text.contains("sesame"));
    }
}

/// The last character becomes another one of its kind.
fn flip(value: &str) -> String {
    let at = value.trim_end_matches('=').len() - 1;
    let other = if value.as_bytes()[at] == b'0' { '1' } else { '0' };
    format!("{}{other}{}", &value[..at], &value[at + 1..])
}

#[tokio::test]
async fn slack_and_twitter_ask_first() {
    let server = created(config("SLACK_BASED", json!({"secretValue": "shh"}))).await;
    let body = r#"{"type":"url_verification","challenge":"abc"}"#;
    let now_s = (server.store.now().0 / 1_000).to_string();
    let proof = |at: &str| {
        let signature = format!("v0={}", hex(&mac(b"shh", &["v0:", at, ":", body])));
        vec![("x-slack-request-timestamp", at.to_owned()), ("x-slack-signature", signature)]
    };
    assert_eq!(deliver(&server, &proof(&now_s), body).await.expect(200).text, "abc");
    assert_eq!(runs(&server).await, 0, "a question is no event");
    let old = (server.store.now().0 / 1_000 - 301).to_string();
    assert_eq!(deliver(&server, &proof(&old), body).await.expect(401).json["code"], "signature_expired");

    let server = created(config("TWITTER", json!({"secretValue": "shh"}))).await;
    let answer = server.get("/api/webhook/hook?crc_token=token1").await.expect(200).json;
    assert_eq!(answer["response_token"], format!("sha256={}", STANDARD.encode(mac(b"shh", &["token1"]))));
    server.get("/webhook/hook?crc_token=%7B%22id%22%3A1%7D").await.expect(401);
    assert_eq!(server.get("/api/metadata/webhook/hook").await.json["urlVerified"], true);
}

#[tokio::test]
async fn an_event_starts_its_workflows_once_for_each_key() {
    let starts = json!({"order": 1, "idempotencyKey": "order-${workflow.input.event.id}",
        "idempotencyStrategy": "RETURN_EXISTING"});
    let server = created(by_header(json!({"workflowsToStart": starts}))).await;
    let first = r#"{"event":{"id":"e1"}}"#;
    for _ in 0..3 {
        deliver(&server, &key_header(), first).await.expect(200);
    }
    deliver(&server, &key_header(), r#"{"event":{"id":"e2"}}"#).await.expect(200);
    assert_eq!(runs(&server).await, 2);
    let told = history(&server).await;
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|event| event["matched"] == true && event["workflowIds"].as_array().unwrap().len() == 1));
    let run = told[3]["workflowIds"][0].as_str().unwrap();
    let workflow = server.get(&format!("/api/workflow/{run}")).await.expect(200).json;
    assert_eq!((&workflow["input"]["event"]["id"], &workflow["idempotencyKey"]), (&json!("e1"), &json!("order-e1")));
    assert!(workflow["event"].as_str().unwrap().starts_with("hook:"));
}

#[tokio::test]
async fn a_second_delivery_under_fail_is_heard_and_does_nothing() {
    let starts = json!({"order": 1, "idempotencyKey": "${workflow.input.id}"});
    let server = created(by_header(json!({"workflowsToStart": starts}))).await;
    deliver(&server, &key_header(), r#"{"id":"e1"}"#).await.expect(200);
    let again = deliver(&server, &key_header(), r#"{"id":"e1"}"#).await.expect(200);
    assert_eq!(again.headers["x-idempotent-replayed"], "true");
    assert_eq!(runs(&server).await, 1);
    assert!(history(&server).await[0]["errors"][0].as_str().unwrap().contains("idempotency key e1 already exists"));
}

#[tokio::test]
async fn an_event_whose_key_gives_nothing_is_refused_and_remembered() {
    let starts = json!({"order": 1, "idempotencyKey": "order-${workflow.input.event.id}"});
    let server = created(by_header(json!({"workflowsToStart": starts}))).await;
    let refused = deliver(&server, &key_header(), r#"{"other":1}"#).await.expect(400);
    assert_eq!(refused.json["code"], "key_unresolved");
    assert_eq!(runs(&server).await, 0);
    let told = history(&server).await;
    assert_eq!(told[0]["matched"], false);
    assert!(told[0]["errors"][0].as_str().unwrap().contains("`${workflow.input.event.id}` gives nothing"));
}

#[tokio::test]
async fn every_task_that_waits_for_the_event_is_completed() {
    let receivers = json!({"workflowsToStart": {}, "receiverWorkflowNamesToVersions": {"waits": 1}});
    let server = created(by_header(receivers)).await;
    let start = async |id: &str| {
        let body = json!({"name": "waits", "input": {"id": id}});
        server.json("POST", "/api/workflow", body).await.expect(200).text
    };
    let (one, two, other) = (start("a").await, start("a").await, start("b").await);
    for run in [&one, &two, &other] {
        for _ in 0..400 {
            let workflow = server.get(&format!("/api/workflow/{run}")).await.json;
            if workflow["tasks"][0]["status"] == "IN_PROGRESS" || workflow["tasks"][0]["status"] == "SCHEDULED" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    deliver(&server, &key_header(), r#"{"event":{"type":"refused"},"id":"a"}"#).await.expect(200);
    assert_eq!(history(&server).await[0]["matched"], false);
    deliver(&server, &key_header(), r#"{"event":{"type":"paid"},"id":"a","amount":7}"#).await.expect(200);
    for run in [&one, &two] {
        server.ended("main", run).await;
        assert_eq!(server.get(&format!("/api/workflow/{run}")).await.json["output"]["got"], 7);
    }
    assert_eq!(server.get(&format!("/api/workflow/{other}")).await.json["status"], "RUNNING");
    assert_eq!(history(&server).await[0]["workflowIds"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn masks_that_are_written_back_keep_what_they_hide() {
    let server = created(by_header(json!({}))).await;
    let mut shown = server.get("/api/metadata/webhook/hook").await.expect(200).json;
    assert_eq!(shown["headers"], json!({"X-Key": "***"}));
    shown["name"] = json!("renamed");
    let written = server.json("PUT", "/api/metadata/webhook/hook", shown).await.expect(200).json;
    assert_eq!((&written["name"], &written["headers"]["X-Key"]), (&json!("renamed"), &json!("***")));
    deliver(&server, &key_header(), "{}").await.expect(200);
    server.json("POST", "/api/metadata/webhook", by_header(json!({}))).await.expect(409);
    let tags = json!([{"key": "a", "value": "b", "type": "METADATA"}]);
    server.json("PUT", "/api/metadata/webhook/hook/tags", tags.clone()).await.expect(200);
    assert_eq!(server.get("/api/metadata/webhook").await.expect(200).json[0]["tags"], tags);
    server.send(request("DELETE", "/api/metadata/webhook/hook").body(Body::empty()).unwrap()).await.expect(200);
    deliver(&server, &key_header(), "{}").await.expect(404);

    let server = created(config("SIGNATURE_BASED", json!({"headerKey": "X-Sig", "secretValue": "shh"}))).await;
    let shown = server.get("/api/metadata/webhook/hook").await.expect(200).json;
    assert_eq!(shown["secretValue"], "***");
    server.json("PUT", "/api/metadata/webhook/hook", shown).await.expect(200);
    let proof = [("x-sig", format!("sha256={}", hex(&mac(b"shh", &["{}"]))))];
    deliver(&server, &proof, "{}").await.expect(200);
    let dump = server.store.dump().unwrap().to_string();
    assert!(!dump.contains("shh"), "it is kept encrypted");
}

#[tokio::test]
async fn a_secret_of_the_workspace_may_be_the_proof() {
    let secret = json!({"headerKey": "X-Sig", "secretValue": "${workflow.secrets.HOOK}"});
    let server = created(config("SIGNATURE_BASED", secret)).await;
    let proof = [("x-sig", format!("sha256={}", hex(&mac(b"shh", &["{}"]))))];
    assert_eq!(deliver(&server, &proof, "{}").await.json["code"], "signature_not_configured");
    server.send(request("PUT", "/api/secrets/HOOK").body(Body::from("shh")).unwrap()).await.expect(200);
    deliver(&server, &proof, "{}").await.expect(200);
}

#[tokio::test]
async fn an_unknown_address_and_a_workflow_that_is_gone_are_said() {
    let server = created(by_header(json!({"workflowsToStart": {"order": 1, "nothing": 3}}))).await;
    let refused = deliver(&server, &key_header(), "{}").await.expect(404);
    assert!(refused.json["message"].as_str().unwrap().contains("nothing"), "{}", refused.text);
    assert_eq!(runs(&server).await, 0, "all or nothing");
    let unknown = server.json("POST", "/webhook/other", json!({})).await.expect(404);
    assert_eq!(unknown.json["code"], "webhook_unknown");
    let elsewhere = server.json("POST", "/webhook/hook?workspace=other", json!({})).await.expect(404);
    assert_eq!(elsewhere.json["code"], "webhook_unknown");
}

#[tokio::test]
async fn an_event_that_the_expression_does_not_mean_comes_to_nothing() {
    let secret = ("x-key", "open".to_owned());
    let more = json!({"headers": {"x-key": "open"}, "expression": "wanted", "evaluatorType": "value-param"});
    let server = created(config("HEADER_BASED", more)).await;
    for (body, count) in [(r#"{"wanted": false}"#, 0), (r#"{"n": 1}"#, 0), (r#"{"wanted": true}"#, 1)] {
        deliver(&server, std::slice::from_ref(&secret), body).await.expect(200);
        assert_eq!(runs(&server).await, count, "{body}");
    }
    let kept = history(&server).await;
    assert_eq!((kept.len(), &kept[0]["matched"], &kept[1]["matched"]), (3, &json!(true), &json!(false)));
}
