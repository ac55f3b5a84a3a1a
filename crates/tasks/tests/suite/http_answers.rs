//! What is sent for which properties, and what an answer becomes.

use super::server::{Script, Server, answer, performer, request, send, verdict};
use semel_core::ir::EffectClass;
use semel_tasks::{NetConfig, Outcome, Performer, effect_class, sends_idempotency_key, timeout_hint_ms};
use serde_json::{Value as Json, json};

async fn sent(mut config: Json) -> (String, Outcome) {
    let mut server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    config["uri"] = json!(server.uri(config["uri"].as_str().unwrap_or("/")));
    let outcome = send(config).await;
    (server.next_request().await.to_lowercase(), outcome)
}

#[tokio::test]
async fn an_answer_becomes_uri_code_headers_and_body() {
    let server = Server::start(Script::Answer(answer("201 Created", "X-One: a\r\nx-one: b\r\n", "{\"id\":7}"))).await;
    let uri = server.uri("/orders?tag[]=x&ids[0]=1");
    let Outcome::Done { output } = send(json!({ "uri": uri, "method": "POST", "body": "x" })).await else {
        panic!("not done")
    };
    assert_eq!(output["uri"], json!(uri));
    assert_eq!(output["code"], json!(201));
    assert_eq!(output["headers"]["x-one"], json!(["a", "b"]));
    assert_eq!(output["body"], json!("{\"id\":7}"));
}

#[tokio::test]
async fn raw_brackets_in_a_query_are_sent_as_they_are() {
    let (text, _) = sent(json!({ "uri": "/search?filter[a]=1&list[]=x y" })).await;
    assert!(text.starts_with("get /search?filter[a]=1&list[]=x%20y http/1.1"), "{text}");
}

#[tokio::test]
async fn statuses_decide_between_done_and_failed() {
    let cases = [
        ("204 No Content", json!({}), "done"),
        ("302 Found", json!({}), "done"),
        ("404 Not Found", json!({}), "clean:http_status"),
        ("500 Oops", json!({}), "clean:http_status"),
        ("500 Oops", json!({ "options": { "allowFailed": true } }), "done"),
        ("500 Oops", json!({ "allowFailed": "true" }), "done"),
        ("409 Conflict", json!({ "done_statuses": [409] }), "done"),
        ("409 Conflict", json!({ "done_statuses": "[409, 410]" }), "done"),
        ("409 Conflict", json!({ "done_statuses": ["410"] }), "clean:http_status"),
    ];
    for (status, mut config, expected) in cases {
        let body = if status.starts_with("204") { "" } else { "why" };
        let server = Server::start(Script::Answer(answer(status, "location: http://127.0.0.1:1/\r\n", body))).await;
        config["uri"] = json!(server.uri("/"));
        config["method"] = json!("POST");
        let outcome = send(config.clone()).await;
        assert_eq!(verdict(&outcome), expected, "{status} {config}: {outcome:?}");
        assert_eq!(server.requests(), 1);
    }
}

#[tokio::test]
async fn a_failed_status_keeps_its_answer_and_says_whether_to_retry() {
    for (status, again) in [
        ("400 Bad", false),
        ("404 No", false),
        ("408 Slow", true),
        ("425 Early", true),
        ("429 Many", true),
        ("503 Busy", true),
    ] {
        let server = Server::start(Script::Answer(answer(status, "", "why"))).await;
        let Outcome::FailedClean { output: Some(output), retryable, .. } =
            send(json!({ "uri": server.uri("/") })).await
        else {
            panic!("{status}")
        };
        assert_eq!((output["body"].as_str(), retryable), (Some("why"), again), "{status}");
    }
}

#[tokio::test]
async fn an_answer_past_the_limit_was_still_an_answer() {
    let limited =
        |bytes| Performer::new(NetConfig { answer_bytes_max: bytes, ..NetConfig::default() }).expect("a performer");
    let chunked =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n".to_vec();
    for script in [Script::Answer(answer("200 OK", "", "hello world")), Script::Answer(chunked)] {
        for (bytes, expected) in [(11, "done"), (10, "clean:answer_too_large")] {
            let server = Server::start(script.clone()).await;
            let outcome = limited(bytes).perform(request(json!({ "uri": server.uri("/"), "method": "POST" }))).await;
            assert_eq!(verdict(&outcome), expected, "{outcome:?}");
        }
    }
    let endless = Server::start(Script::Endless).await;
    let outcome = limited(1 << 20).perform(request(json!({ "uri": endless.uri("/"), "method": "POST" }))).await;
    let Outcome::FailedClean { code: "answer_too_large", output: Some(output), .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((output["code"].as_u64(), output["body"].as_str()), (Some(200), Some("")));
}

#[tokio::test]
async fn a_head_answer_announces_more_than_it_sends() {
    let server =
        Server::start(Script::Answer(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec())).await;
    assert_eq!(verdict(&send(json!({ "uri": server.uri("/"), "method": "HEAD" })).await), "done");
}

#[tokio::test]
async fn a_read_is_led_elsewhere_and_a_write_is_sent_once() {
    for status in ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"] {
        let target = Server::start(Script::Answer(answer("200 OK", "", "there"))).await;
        let head = format!("location: {}\r\n", target.uri("/"));
        let server = Server::start(Script::Answer(answer(status, &head, ""))).await;
        let code = status[..3].parse::<u64>().unwrap();
        // Method, what the author says, the status that comes of it, and how often the target is asked.
        for (method, follow, expected, asked) in [
            ("GET", None, 200, 1),
            ("GET", Some(false), code, 1),
            ("POST", None, code, 1),
            ("POST", Some(true), if code < 304 { 200 } else { code }, if code < 304 { 2 } else { 1 }),
        ] {
            let options = follow.map_or(json!({}), |follow| json!({ "followRedirects": follow }));
            let outcome = send(json!({ "uri": server.uri("/"), "method": method, "options": options })).await;
            let Outcome::Done { output } = outcome else { panic!("{method} {status}") };
            assert_eq!((output["code"].as_u64(), target.requests()), (Some(expected), asked), "{method} {status}");
        }
    }
}

#[tokio::test]
async fn redirects_end() {
    let server = Server::start(Script::Answer(answer("302 Found", "location: /\r\n", ""))).await;
    assert_eq!(verdict(&send(json!({ "uri": server.uri("/") })).await), "clean:too_many_redirects");
}

#[tokio::test]
async fn credentials_stay_with_the_one_they_are_for() {
    let mut target = Server::start(Script::Answer(answer("200 OK", "", "there"))).await;
    let head = format!("location: {}\r\n", target.uri("/"));
    let server = Server::start(Script::Answer(answer("302 Found", &head, ""))).await;
    let auth = json!({ "auth": { "type": "BEARER", "token": "t" } });
    assert_eq!(verdict(&send(json!({ "uri": server.uri("/"), "options": auth })).await), "done");
    assert!(!target.next_request().await.to_lowercase().contains("authorization"));
    let (text, _) = sent(json!({ "auth": { "type": "BEARER", "token": "t" } })).await;
    assert!(text.contains("authorization: bearer t\r\n"), "{text}");
}

#[tokio::test]
async fn bodies_forms_and_content_types() {
    let (text, _) = sent(json!({ "method": "POST", "body": "a=b", "contentType": "text/csv" })).await;
    assert!(text.contains("content-type: text/csv\r\n") && text.ends_with("\r\n\r\na=b"), "{text}");
    let (text, _) = sent(json!({ "method": "POST", "body": "{}" })).await;
    assert!(text.contains("content-type: application/json\r\n"), "as in Kestra: {text}");
    let (text, _) = sent(json!({ "method": "POST", "body": { "a": [1, true] } })).await;
    assert!(text.contains("content-type: application/json\r\n") && text.ends_with("{\"a\":[1,true]}"), "{text}");
    let (text, _) = sent(json!({ "method": "POST", "formData": { "a": "1 2", "b": 3, "c": null } })).await;
    assert!(
        text.contains("content-type: application/x-www-form-urlencoded\r\n") && text.ends_with("a=1+2&b=3"),
        "{text}"
    );
    let (text, _) =
        sent(json!({ "method": "POST", "body": "x", "contentType": "a/b", "headers": { "Content-Type": "c/d" } }))
            .await;
    assert!(text.contains("content-type: c/d\r\n") && !text.contains("a/b"), "{text}");
    let (text, _) =
        sent(json!({ "method": "POST", "formData": { "a": 1 }, "contentType": "multipart/form-data" })).await;
    assert!(text.contains("content-type: multipart/form-data; boundary="), "{text}");
}

#[tokio::test]
async fn credentials_and_headers() {
    let auth = |value: Json| json!({ "options": { "auth": value } });
    let (text, _) = sent(auth(json!({ "type": "basic", "username": "me", "password": "pw" }))).await;
    assert!(text.contains("authorization: basic bwu6chc=\r\n"), "{text}");
    let (text, _) = sent(auth(json!({ "type": "BEARER", "token": "t0ken" }))).await;
    assert!(text.contains("authorization: bearer t0ken\r\n"), "{text}");
    let (text, _) = sent(json!({ "headers": { "X-List": ["a", "b"], "X-Num": 7, "X-Null": null, "Content-Length": "999", "Transfer-Encoding": "chunked" } })).await;
    assert!(
        text.contains("x-list: a\r\n") && text.contains("x-list: b\r\n") && text.contains("x-num: 7\r\n"),
        "{text}"
    );
    assert!(!text.contains("x-null") && !text.contains("999") && !text.contains("chunked"), "{text}");
    assert!(!text.contains("cookie") && !text.contains("referer") && !text.contains("accept-encoding"), "{text}");
}

#[tokio::test]
async fn the_key_is_sent_unless_the_author_sends_one() {
    for (headers, expected) in [
        (json!({}), "idempotency-key: step-1\r\n"),
        (json!({ "IDEMPOTENCY-key": "mine" }), "idempotency-key: mine\r\n"),
    ] {
        let mut server = Server::start(Script::Answer(answer("200 OK", "", ""))).await;
        let mut keyed = request(json!({ "uri": server.uri("/"), "method": "POST", "headers": headers }));
        keyed.idempotency_key = Some("step-1".to_owned());
        keyed.traceparent = Some("00-aa-bb-01".to_owned());
        assert_eq!(verdict(&performer().perform(keyed).await), "done");
        let text = server.next_request().await.to_lowercase();
        assert!(text.contains(expected) && text.matches("idempotency-key").count() == 1, "{text}");
        assert!(text.contains("traceparent: 00-aa-bb-01\r\n"), "{text}");
    }
}

#[tokio::test]
async fn wrong_properties_send_nothing_and_hide_their_values() {
    let server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    let uri = server.uri("/");
    let cases = [
        (json!({}), "clean:bad_config"),
        (json!({ "uri": "not a url s3cret" }), "clean:bad_uri"),
        (json!({ "uri": "ftp://127.0.0.1/s3cret" }), "clean:bad_uri"),
        (json!({ "uri": format!("http://u:s3cret@127.0.0.1:{}/", server.port) }), "clean:bad_uri"),
        (json!({ "uri": uri, "method": "BREW" }), "clean:bad_config"),
        (json!({ "uri": uri, "headers": { "X": "s3cret\r\nY: 1" } }), "clean:bad_config"),
        (json!({ "uri": uri, "headers": { "a b": "1" } }), "clean:bad_config"),
        (json!({ "uri": uri, "headers": [1] }), "clean:bad_config"),
        (json!({ "uri": uri, "options": { "auth": { "type": "DIGEST" } } }), "clean:bad_config"),
        (json!({ "uri": uri, "options": { "auth": { "type": "BEARER" } } }), "clean:bad_config"),
        (json!({ "uri": uri, "options": { "timeout": "5 s" } }), "clean:bad_config"),
        (json!({ "uri": uri, "allowFailed": "maybe" }), "clean:bad_config"),
        (json!({ "uri": uri, "done_statuses": [1000] }), "clean:bad_config"),
        (json!("text"), "clean:bad_config"),
    ];
    for (config, expected) in cases {
        let outcome = send(config.clone()).await;
        assert_eq!(verdict(&outcome), expected, "{config}: {outcome:?}");
        assert!(!format!("{outcome:?}").contains("s3cret"), "{outcome:?}");
    }
    let refused = send(json!({ "uri": "http://127.0.0.1:1/?token=s3cret", "method": "POST" })).await;
    assert!(verdict(&refused) == "clean:connect" && !format!("{refused:?}").contains("s3cret"), "{refused:?}");
    assert_eq!(server.requests(), 0);
}

#[test]
fn classes_and_keys_follow_the_method() {
    let class = |method: &str| effect_class("http.Request", &json!({ "method": method }));
    for method in ["GET", "get", "HEAD", "OPTIONS"] {
        assert_eq!(class(method), EffectClass::Read, "{method}");
        assert!(!sends_idempotency_key("http.Request", &json!({ "method": method })));
    }
    for (method, expected) in [
        ("PUT", EffectClass::Repeatable),
        ("delete", EffectClass::Repeatable),
        ("POST", EffectClass::Naked),
        ("PATCH", EffectClass::Naked),
        ("?", EffectClass::Naked),
    ] {
        assert_eq!(class(method), expected, "{method}");
        assert!(sends_idempotency_key("http.Request", &json!({ "method": method })), "{method}");
    }
    assert!(!sends_idempotency_key(
        "http.Request",
        &json!({ "method": "POST", "headers": { "idempotency-KEY": "x" } })
    ));
    assert_eq!(effect_class("http.Request", &json!({})), EffectClass::Read);
    assert_eq!(effect_class("log.Log", &json!({})), EffectClass::Pure);
    assert_eq!(effect_class("no.Such", &json!({})), EffectClass::Naked);
    assert_eq!(timeout_hint_ms("http.Request", &json!({ "options": { "timeout": "PT2M" } })), Some(120_000));
    let times = json!({ "options": { "timeout": { "connectTimeout": "PT5S", "readIdleTimeout": "PT3M" } } });
    assert_eq!(timeout_hint_ms("http.Request", &times), Some(180_000));
    assert_eq!(timeout_hint_ms("http.Request", &json!({})), None);
}

#[tokio::test]
async fn only_effects_are_performed() {
    let mut inline = request(json!({ "message": "x" }));
    inline.type_name = "log.Log".to_owned();
    assert_eq!(verdict(&performer().perform(inline).await), "clean:unknown_type");
}
