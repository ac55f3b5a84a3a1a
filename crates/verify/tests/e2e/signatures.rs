//! Webhooks: who may send, in four schemes.

use crate::harness::{Answer, Server, flow, quick};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::json;
use sha2::Sha256;

const SECRET: &str = "hush-hush-1234";
const BODY: &str = "{\"id\": \"evt_1\",  \"n\": 1}\n";

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

fn hooked(scheme: &str, more: &str) -> String {
    let signature = format!("{{scheme: {scheme}, secret: \"{{{{ secret('HOOK') }}}}\"{more}}}");
    let trigger = format!("triggers:\n  - {{id: hook, type: trigger.Webhook, key: abc, signature: {signature}}}\n");
    flow(
        "a",
        &format!(
            "tasks:
  - {{id: say, type: log.Log, message: '{{{{ trigger.headers | toJson }}}} {{{{ trigger.body.id }}}}'}}
{trigger}"
        ),
    )
}

async fn with_scheme(scheme: &str, more: &str, secret: &str) -> Server {
    let server = Server::start().await;
    server.put("/v1/secrets/HOOK", json!({"value": secret})).await.ok();
    server.push(&hooked(scheme, more)).await;
    server
}

async fn deliver(server: &Server, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = server.request(Method::POST, "/v1/webhooks/e2e/a/abc").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(body.to_owned())).await
}

/// The signature does not end up where a run keeps its values.
async fn unseen(server: &Server, answer: &Answer, signature: &str) {
    let run = answer.run_id();
    server.until(&run, "completed").await;
    for path in ["/journal", "/logs"] {
        assert!(!server.get(&format!("/v1/runs/{run}{path}")).await.text.contains(signature));
    }
}

#[tokio::test]
async fn generic_hmac() {
    let server = with_scheme("hmac_sha256", ", header: X-Shop-Signature", SECRET).await;
    let good = hex(&mac(SECRET.as_bytes(), BODY));
    let answer = deliver(&server, &[("x-shop-signature", &good)], BODY).await;
    assert!(!answer.replayed());
    unseen(&server, &answer, &good).await;
    deliver(&server, &[], BODY).await.refused(401, "signature_missing");
    deliver(&server, &[("x-shop-signature", "?")], BODY).await.refused(401, "signature_malformed");
    deliver(&server, &[("x-shop-signature", &good)], &BODY.replace("1}", "2}"))
        .await
        .refused(401, "signature_mismatch");
    deliver(&server, &[("x-shop-signature", &good)], BODY.trim_end()).await.refused(401, "signature_mismatch");
    let other = hex(&mac(b"wrong", BODY));
    deliver(&server, &[("x-shop-signature", &other)], BODY).await.refused(401, "signature_mismatch");
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn github() {
    let server = with_scheme("github", "", SECRET).await;
    let good = format!("sha256={}", hex(&mac(SECRET.as_bytes(), BODY)));
    let answer = deliver(&server, &[("x-hub-signature-256", &good)], BODY).await;
    unseen(&server, &answer, &good).await;
    let bad = format!("sha256={}", hex(&mac(b"wrong", BODY)));
    deliver(&server, &[("x-hub-signature-256", &bad)], BODY).await.refused(401, "signature_mismatch");
    deliver(&server, &[], BODY).await.refused(401, "signature_missing");
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn stripe() {
    let server = with_scheme("stripe", "", SECRET).await;
    let sign = |at: u64, key: &[u8]| format!("t={at},v1={}", hex(&mac(key, &format!("{at}.{BODY}"))));
    let good = sign(now_s(), SECRET.as_bytes());
    let answer = deliver(&server, &[("stripe-signature", &good)], BODY).await;
    unseen(&server, &answer, &good).await;
    deliver(&server, &[("stripe-signature", &sign(now_s() - 600, SECRET.as_bytes()))], BODY)
        .await
        .refused(401, "signature_expired");
    deliver(&server, &[("stripe-signature", &sign(now_s() + 600, SECRET.as_bytes()))], BODY)
        .await
        .refused(401, "signature_expired");
    deliver(&server, &[("stripe-signature", &sign(now_s(), b"wrong"))], BODY).await.refused(401, "signature_mismatch");
    assert_eq!(server.runs().await.len(), 1);
}

#[tokio::test]
async fn standard_webhooks_and_the_signed_id_is_the_key() {
    let key = b"0123456789abcdef01234567";
    let server = with_scheme("standard_webhooks", "", &format!("whsec_{}", STANDARD.encode(key))).await;
    let at = now_s().to_string();
    let sign = |id: &str, key: &[u8]| format!("v1,{}", STANDARD.encode(mac(key, &format!("{id}.{at}.{BODY}"))));
    let headers = |id: &'static str, signature: String| {
        [("webhook-id", id.to_owned()), ("webhook-timestamp", at.clone()), ("webhook-signature", signature)]
    };
    let send = async |id: &'static str, signature: String| {
        let headers = headers(id, signature);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        deliver(&server, &headers, BODY).await
    };
    let first = send("msg_1", sign("msg_1", key)).await;
    assert!(!first.replayed());
    unseen(&server, &first, &sign("msg_1", key)).await;
    // The provider tries again: same id, so the same event, without a word in the flow.
    let again = send("msg_1", sign("msg_1", key)).await;
    assert_eq!((again.replayed(), again.run_id()), (true, first.run_id()));
    assert!(!send("msg_2", sign("msg_2", key)).await.replayed());
    send("msg_3", sign("msg_2", key)).await.refused(401, "signature_mismatch");
    send("msg_3", sign("msg_3", b"another key, no less long")).await.refused(401, "signature_mismatch");
    assert_eq!(server.runs().await.len(), 2);
}

#[tokio::test]
async fn secrets_rotate_and_a_missing_one_refuses() {
    let server = Server::start().await;
    for (name, value) in [("NEW", "new-secret-1"), ("OLD", "old-secret-1")] {
        server.put(&format!("/v1/secrets/{name}"), json!({"value": value})).await.ok();
    }
    let both = "triggers:
  - {id: hook, type: trigger.Webhook, key: abc, signature: {scheme: github, secrets: [\"{{ secret('NEW') }}\", \"{{ secret('OLD') }}\"]}}\n";
    server.push(&flow("a", &format!("tasks:\n  - {{id: say, type: log.Log, message: hi}}\n{both}"))).await;
    for key in ["new-secret-1", "old-secret-1"] {
        let signature = format!("sha256={}", hex(&mac(key.as_bytes(), BODY)));
        assert!(!deliver(&server, &[("x-hub-signature-256", &signature)], BODY).await.replayed());
    }
    let none = both.replace("NEW", "NOPE").replace("OLD", "NADA");
    server.push(&flow("a", &format!("tasks:\n  - {{id: say, type: log.Log, message: hi}}\n{none}"))).await;
    let signature = format!("sha256={}", hex(&mac(b"", BODY)));
    deliver(&server, &[("x-hub-signature-256", &signature)], BODY).await.refused(503, "signature_not_configured");
}

#[tokio::test]
async fn an_address_that_is_wrong_in_any_part_is_unknown() {
    let server = with_scheme("github", "", SECRET).await;
    server.push(&quick("nohook")).await;
    for path in ["e2e/a/abd", "e2e/b/abc", "e3e/a/abc", "e2e/nohook/abc", "e2e/a/ABC", "e2e/a/abc?workspace=nope"] {
        let answer = server.post(&format!("/v1/webhooks/{path}"), json!({})).await;
        answer.refused(404, "webhook_unknown");
    }
    assert_eq!(server.runs().await.len(), 0);
}

#[tokio::test]
async fn bodies_parameters_and_methods_reach_the_flow() {
    let server = Server::start().await;
    let source = "tasks:
  - {id: say, type: debug.Return, format: '{{ trigger.body }}|{{ trigger.parameters.q[0] }}'}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.say.value }}'}
triggers:
  - {id: hook, type: trigger.Webhook, key: abc, wait: true, returnOutputs: true}\n";
    server.push(&flow("a", source)).await;
    let text = server.request(Method::PUT, "/v1/webhooks/e2e/a/abc?q=1").body("a=1&b=2");
    assert_eq!(server.send(text).await.json["outputs"], json!({"said": "a=1&b=2|1"}));
    let get = server.get("/v1/webhooks/e2e/a/abc?q=2").await;
    assert_eq!(get.json["outputs"], json!({"said": "|2"}), "{}", get.text);
}
