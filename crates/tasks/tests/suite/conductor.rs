//! HTTP tasks of Conductor's definitions, and scripts where none are run.

use super::server::{Script, Server, answer, performer, request, verdict};
use semel_core::ir::EffectClass;
use semel_tasks::{Outcome, Request, effect_class, sends_idempotency_key, timeout_hint_ms};
use serde_json::{Value as Json, json};

fn typed(type_name: &str, config: Json) -> Request {
    Request { type_name: type_name.to_owned(), ..request(config) }
}

async fn call(config: Json) -> Outcome {
    performer().perform(typed("conductor.HTTP", config)).await
}

async fn body_of(text: &str) -> Json {
    let server = Server::start(Script::Answer(answer("200 OK", "", text))).await;
    match call(json!({"http_request": {"uri": server.uri("/"), "method": "GET"}})).await {
        Outcome::Done { output } => output["response"]["body"].clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_has_conductors_shape() {
    let server = Server::start(Script::Answer(answer("201 Created", "x-a: 1\r\nx-a: 2\r\n", "{\"id\": 7}"))).await;
    let outcome = call(json!({"uri": server.uri("/"), "method": "POST", "body": {"a": 1}})).await;
    let Outcome::Done { output } = outcome else { panic!("{outcome:?}") };
    let response = &output["response"];
    assert_eq!(response["statusCode"], 201);
    assert_eq!(response["reasonPhrase"], "Created");
    assert_eq!(response["headers"]["x-a"], json!(["1", "2"]));
    assert_eq!(response["body"], json!({"id": 7}));
}

#[tokio::test]
async fn bodies_are_read_as_conductor_reads_them() {
    for (text, body) in [
        ("[1, 2]", json!([1, 2])),
        ("7", json!(7.0)),
        ("true", json!("true")),
        ("\"text\"", json!("text")),
        ("no json", json!("no json")),
        ("", json!(null)),
    ] {
        assert_eq!(body_of(text).await, body, "{text}");
    }
}

#[tokio::test]
async fn the_request_is_what_its_author_wrote() {
    let mut server = Server::start(Script::Answer(answer("200 OK", "", ""))).await;
    let config = json!({"http_request": {"uri": server.uri("/pay?x=1"), "method": "put", "body": {"a": [1]},
        "headers": {"X-Own": 5}, "accept": ["text/plain", "application/json"]}});
    assert_eq!(verdict(&call(config).await), "done");
    let sent = server.next_request().await;
    assert!(sent.starts_with("PUT /pay?x=1 HTTP/1.1\r\n"), "{sent}");
    for part in ["x-own: 5", "accept: text/plain, application/json", "content-type: application/json", "{\"a\":[1]}"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
}

#[tokio::test]
async fn what_is_not_2xx_fails_with_the_text_of_the_answer() {
    for (status, retryable) in [("404 Not Found", false), ("503 Service Unavailable", true)] {
        let server = Server::start(Script::Answer(answer(status, "", "sorry"))).await;
        let outcome = call(json!({"uri": server.uri("/"), "method": "POST"})).await;
        let said = format!("{status}: \"sorry\"");
        let expected = Outcome::FailedClean {
            code: "http_status",
            message: said.clone(),
            output: Some(json!({ "response": said })),
            retryable,
        };
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn a_request_without_address_or_method_is_not_sent() {
    for (config, part) in [
        (json!({"http_request": {"method": "GET"}}), "Missing HTTP URI"),
        (json!({"uri": "http://localhost/"}), "No HTTP method specified"),
        (json!({"uri": "http://localhost/", "method": "BREW"}), "No HTTP method specified"),
    ] {
        match call(config.clone()).await {
            Outcome::FailedClean { message, .. } => assert!(message.contains(part), "{message}"),
            other => panic!("{config}: {other:?}"),
        }
    }
}

#[test]
fn the_method_says_what_may_be_repeated_and_the_author_how_long_it_may_take() {
    let config = |method: &str| json!({"http_request": {"uri": "http://x/", "method": method}});
    for (method, class) in [("GET", EffectClass::Read), ("PUT", EffectClass::Repeatable), ("POST", EffectClass::Naked)]
    {
        assert_eq!(effect_class("conductor.HTTP", &config(method)), class);
        assert_eq!(sends_idempotency_key("conductor.HTTP_POLL", &config(method)), class != EffectClass::Read);
    }
    assert_eq!(timeout_hint_ms("conductor.HTTP", &config("GET")), Some(6_000));
    let patient = json!({"uri": "http://x/", "method": "GET", "connectionTimeOut": 500, "readTimeOut": "20000"});
    assert_eq!(timeout_hint_ms("conductor.HTTP", &patient), Some(20_500));
    assert_eq!(effect_class("conductor.INLINE", &json!({})), EffectClass::Pure);
}

#[tokio::test]
async fn without_children_a_script_fails_and_a_value_is_still_picked() {
    let script = typed("conductor.INLINE", json!({"expression": "1 + 1"}));
    assert_eq!(verdict(&performer().perform(script).await), "clean:failed_for_good");
    let picked = typed("conductor.INLINE", json!({"evaluatorType": "value-param", "expression": "v", "v": 3}));
    assert_eq!(performer().perform(picked).await, Outcome::Done { output: json!({"result": 3}) });
    let unknown = typed("conductor.INLINE", json!({"evaluatorType": "cobol", "expression": "v"}));
    assert_eq!(verdict(&performer().perform(unknown).await), "clean:failed_for_good");
}
