//! Webhooks: addresses, signatures, what the flow sees.

use crate::harness::*;
use axum::body::Body;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value as Json, json};
use sha2::Sha256;

const HOOK: &str = "
id: hook
namespace: shop
idempotency: {key: '{{ trigger.body.id }}'}
inputs:
  - {id: event, type: STRING}
triggers:
  - {id: pay, type: trigger.Webhook, key: s3cret, wait: true, returnOutputs: true, inputs: {event: '{{ trigger.body.id }}'}}
tasks:
  - {id: say, type: debug.Return, format: '{{ inputs.event }} {{ trigger.headers[\"x-kind\"][0] }} {{ trigger.parameters.p[0] }}'}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.say.value }}'}
";

const SIGNED: &str = "
id: signed
namespace: shop
triggers:
  - {id: pay, type: trigger.Webhook, key: s3cret, signature: {scheme: github, secrets: [hush]}}
tasks:
  - {id: say, type: debug.Return, format: x}
";

async fn deliver(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = request("POST", path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_delivery_runs_once_and_its_twin_is_answered() {
    let server = Server::with_tokens();
    let author = server.token("main", semel_server::Role::Operator, None);
    let push = request("PUT", "/v1/workflows")
        .header("authorization", format!("Bearer {}", server.token("main", semel_server::Role::Author, None)));
    server.send(push.body(Body::from(HOOK)).unwrap()).await.expect(200);
    let headers =
        [("x-kind", "paid"), ("authorization", "Basic hush"), ("cookie", "hush"), ("idempotency-key", "another")];
    let path = "/v1/webhooks/shop/hook/s3cret?p=1&p=2";
    let first = deliver(&server, path, &headers, r#"{"id":"evt_1"}"#).await.expect(200);
    assert_eq!(first.json["outputs"], json!({"said": "evt_1 paid 1"}));
    assert_eq!(first.json["idempotent_replayed"], false);
    for key in ["other", "another"] {
        let headers = [("x-kind", "paid"), ("idempotency-key", key)];
        let twin = deliver(&server, path, &headers, r#"{"id":"evt_1"}"#).await.expect(200);
        assert_eq!((twin.run_id(), &twin.json["idempotent_replayed"]), (first.run_id(), &json!(true)));
    }
    let journal = request("GET", &format!("/v1/runs/{}/journal", first.run_id()))
        .header("authorization", format!("Bearer {author}"));
    let journal = server.send(journal.body(Body::empty()).unwrap()).await.expect(200);
    assert!(journal.text.contains("evt_1") && !journal.text.contains("hush"), "{}", journal.text);
}

#[tokio::test]
async fn wrong_addresses_look_alike_and_head_starts_nothing() {
    let server = Server::start();
    server.push(HOOK).await.expect(200);
    let before = server.store.dump().unwrap();
    let mut answers = Vec::new();
    for path in [
        "/v1/webhooks/shop/hook/wrong",
        "/v1/webhooks/shop/nope/s3cret",
        "/v1/webhooks/nope/hook/s3cret",
        "/v1/webhooks/shop/hook/s3cret?workspace=other",
        "/v1/webhooks/shop/hook/s3cret?workspace=..",
    ] {
        answers.push(deliver(&server, path, &[], r#"{"id":"e"}"#).await.refused(404, "webhook_unknown").text);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    let head = server.send(request("HEAD", "/v1/webhooks/shop/hook/s3cret").body(Body::empty()).unwrap()).await;
    assert_eq!(head.status, 405);
    assert_eq!(head.headers["allow"], "GET, POST, PUT");
    assert_eq!(server.store.dump().unwrap(), before);
    let refusals = server.get("/v1/refusals").await.expect(200);
    assert!(!refusals.text.contains("s3cret") && refusals.text.contains("webhook_unknown"), "{}", refusals.text);
}

#[tokio::test]
async fn a_signature_is_checked_over_the_raw_bytes() {
    let server = Server::start();
    server.push(SIGNED).await.expect(200);
    let before = server.store.dump().unwrap();
    let body = "{ \"b\":1,\"a\":\"\\u00e9\" }\n";
    let sign = |key: &str, body: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256={hex}")
    };
    let path = "/v1/webhooks/shop/signed/s3cret";
    let header = "x-hub-signature-256";
    deliver(&server, path, &[], body).await.refused(401, "signature_missing");
    deliver(&server, path, &[(header, "nonsense!")], body).await.refused(401, "signature_malformed");
    deliver(&server, path, &[(header, &sign("wrong", body))], body).await.refused(401, "signature_mismatch");
    deliver(&server, path, &[(header, &sign("hush", body))], body.trim_end()).await.refused(401, "signature_mismatch");
    assert_eq!(server.store.dump().unwrap(), before);
    let run = deliver(&server, path, &[(header, &sign("hush", body))], body).await.expect(200);
    let run = server.get(&format!("/v1/runs/{}", run.run_id())).await.expect(200);
    assert_eq!(run.json["door"], "webhook");
    assert_eq!(run.json["key"], Json::Null);
}

const PICKY: &str = "
id: picky
namespace: shop
triggers:
  - id: pay
    type: io.kestra.plugin.core.trigger.Webhook
    key: s3cret
    wait: true
    returnOutputs: true
    responseCode: 202
    responseContentType: text/plain
    conditions:
      - type: io.kestra.plugin.core.condition.ExpressionCondition
        expression: \"{{ trigger.body.kind == 'paid' }}\"
      - type: io.kestra.plugin.core.condition.Not
        conditions:
          - type: io.kestra.plugin.core.condition.Expression
            expression: \"{{ trigger.parameters.test is defined }}\"
    when: \"{{ trigger.body.amount > 10 }}\"
tasks:
  - {id: say, type: debug.Return, format: 'got {{ trigger.body.amount }}'}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.say.value }}'}
";

#[tokio::test]
async fn conditions_decide_whether_a_delivery_counts_and_the_flow_shapes_the_answer() {
    let server = Server::with_tokens();
    let author = format!("Bearer {}", server.token("main", semel_server::Role::Author, None));
    let push = request("PUT", "/v1/workflows").header("authorization", &author);
    server.send(push.body(Body::from(PICKY)).unwrap()).await.expect(200);
    let path = "/v1/webhooks/shop/picky/s3cret";
    for (path, body) in [
        (path.to_owned(), r#"{"kind":"refund","amount":20}"#),
        (path.to_owned(), r#"{"kind":"paid","amount":5}"#),
        (format!("{path}?test=1"), r#"{"kind":"paid","amount":20}"#),
        // What cannot be judged does not hold.
        (path.to_owned(), "not json"),
    ] {
        let refused = deliver(&server, &path, &[], body).await;
        assert_eq!((refused.status.as_u16(), refused.text.as_str()), (204, ""), "{body}");
    }
    let taken = deliver(&server, path, &[], r#"{"kind":"paid","amount":20}"#).await;
    assert_eq!((taken.status.as_u16(), taken.text.as_str()), (202, "got 20"));
    let list = request("GET", "/v1/runs").header("authorization", &author);
    let runs = server.send(list.body(Body::empty()).unwrap()).await.expect(200);
    assert_eq!(runs.json["items"].as_array().map(Vec::len), Some(1));
}

const UPLOAD: &str = "
id: upload
namespace: shop
idempotency: {key: '{{ trigger.parameters.id[0] }}'}
triggers:
  - {id: form, type: trigger.Webhook, key: s3cret, wait: true}
  - {id: whole, type: trigger.Webhook, key: stored, wait: true, fetchType: STORE}
tasks:
  - {id: say, type: debug.Return, format: '{{ read(trigger.uri ?? trigger.parts[0].uri) }} {{ trigger.formFields.note[1] ?? \"\" }}'}
";

fn form(parts: &[(&str, &str)]) -> String {
    let part = |(head, text): &(&str, &str)| format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n");
    parts.iter().map(part).collect::<String>() + "--b--\r\n"
}

#[tokio::test]
async fn what_comes_as_a_form_or_is_to_be_stored_becomes_files_of_the_run() {
    let server = Server::start();
    server.push(UPLOAD).await.expect(200);
    let multipart = [("content-type", "multipart/form-data; boundary=b")];
    let sent = |text: &str| {
        form(&[
            ("name=\"note\"", "one"),
            ("name=\"doc\"; filename=\"a b.csv\"\r\nContent-Type: text/csv", text),
            ("name=\"note\"", "two"),
            ("name=\"none\"; filename=\"empty\"", ""),
        ])
    };
    let hook = "/api/v1/main/executions/webhook/shop/upload";
    let first = deliver(&server, &format!("{hook}/s3cret?id=1"), &multipart, &sent("x;y")).await.expect(200);
    let trigger = &first.json["trigger"]["variables"];
    let part = &trigger["parts"][0];
    assert_eq!((&part["name"], &part["filename"]), (&json!("doc"), &json!("a b.csv")));
    assert_eq!((&part["contentType"], &part["size"]), (&json!("text/csv"), &json!(3)));
    assert_eq!((&trigger["parts"][1]["size"], trigger.get("body")), (&json!(0), None));
    assert_eq!(trigger["formFields"], json!({"note": ["one", "two"]}));
    let run = first.json["id"].as_str().unwrap().to_owned();
    let whole = server.get(&format!("/api/v1/main/executions/{run}")).await.expect(200).json;
    assert_eq!(whole["taskRunList"][0]["outputs"]["value"], "x;y two");
    // The same files again are the same event, and others are another one.
    let twin = deliver(&server, &format!("{hook}/s3cret?id=1"), &multipart, &sent("x;y")).await.expect(200);
    assert_eq!(twin.json["id"], json!(run));
    deliver(&server, &format!("{hook}/s3cret?id=1"), &multipart, &sent("z")).await.refused(422, "payload_mismatch");
    let plain = [("content-type", "text/csv")];
    let stored = deliver(&server, &format!("{hook}/stored?id=2"), &plain, "1,2").await.expect(200).json;
    let variables = &stored["trigger"]["variables"];
    assert!(variables["uri"].as_str().unwrap().starts_with("kestra:///shop/upload/executions/"), "{variables}");
    assert_eq!(variables.get("body"), None);
    let again = deliver(&server, &format!("{hook}/stored?id=2"), &plain, "1,2").await.expect(200).json;
    assert_eq!(again["id"], stored["id"]);
    let broken = [("content-type", "multipart/form-data")];
    deliver(&server, &format!("{hook}/s3cret?id=3"), &broken, "x").await.refused(415, "unsupported_media_type");
    let wrong = UPLOAD.replace("STORE", "STROE");
    assert!(server.push(&wrong).await.refused(422, "flow_invalid").text.contains("STORE"));
}
