//! The canary: secrets reach the far side and nothing else.

use crate::harness::{Bank, Options, Server, flow, post};
use serde_json::json;

const STORED: &str = "canary-stored-7f3a9c1e5b";
const FROM_ENVIRONMENT: &str = "canary-environment-2d8b4e6f";

fn leaks(server: &Server) -> Vec<String> {
    server.leaks(&[STORED, FROM_ENVIRONMENT])
}

async fn canary_server() -> Server {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, FROM_ENVIRONMENT);
    let server =
        Server::with(Options::default().env("SECRET_FROM_ENV", &encoded).env("SEMEL_LOG_LEVEL", "trace")).await;
    assert_eq!(
        server.put("/v1/secrets/STORED", json!({"value": STORED})).await.ok(),
        json!({"name": "STORED", "version": 1})
    );
    server
}

/// Looks at everything the API shows of a run.
async fn look_everywhere(server: &Server, run: &str) {
    for path in ["", "/journal", "/logs", "/steps", "/children", "/replays"] {
        server.get(&format!("/v1/runs/{run}{path}")).await.ok();
    }
    for path in
        ["/v1/runs", "/v1/keys", "/v1/decisions", "/v1/secrets", "/v1/refusals", "/metrics", "/v1/workflows/e2e:a"]
    {
        server.get(path).await;
    }
}

#[tokio::test]
async fn a_secret_reaches_the_bank_and_is_found_nowhere_else() {
    let (mut server, bank) = (canary_server().await, Bank::start().await);
    let url = bank.url("/echo/pay");
    let source = format!(
        r#"tasks:
  - id: pay
    type: http.Request
    method: POST
    uri: {url}
    headers: {{Authorization: "Bearer {{{{ secret('STORED') }}}}", X-Other: "{{{{ secret('FROM_ENV') }}}}"}}
    body: "id={{{{ secret('STORED') }}}}&up={{{{ secret('STORED') | upper }}}}"
  - {{id: say, type: log.Log, message: "the secret is {{{{ secret('STORED') }}}}, upper {{{{ secret('FROM_ENV') | upper }}}}"}}
  - {{id: back, type: debug.Return, format: "{{{{ outputs.pay.body }}}} {{{{ secret('STORED') | base64encode }}}}"}}
  - id: check
    type: flow.If
    condition: "{{{{ secret('STORED') == '{STORED_HALF}' ~ '{STORED_REST}' }}}}"
    then:
      - {{id: yes, type: http.Request, method: POST, uri: '{matched}', body: "{{{{ outputs.back.value }}}}"}}
    else:
      - {{id: no, type: log.Log, message: "did not match"}}
outputs:
  - {{id: everything, type: STRING, value: "{{{{ outputs.back.value }}}} {{{{ secret('FROM_ENV') }}}}"}}
"#,
        STORED_HALF = &STORED[..10],
        STORED_REST = &STORED[10..],
        matched = bank.url("/naive/matched"),
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "completed").await;
    let call = &bank.calls("pay")[0];
    assert_eq!(call.headers["authorization"], format!("Bearer {STORED}"));
    assert_eq!(call.headers["x-other"], FROM_ENVIRONMENT);
    assert_eq!(call.body, format!("id={STORED}&up={}", STORED.to_uppercase()));
    // The comparison with the real value held, and a value computed through a secret arrives whole.
    let matched = &bank.calls("matched")[0].body;
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, STORED);
    assert!(matched.contains(STORED) && matched.contains(&encoded), "{matched}");
    look_everywhere(&server, &run).await;
    assert_eq!(leaks(&server), Vec::<String>::new());
    // And after a crash, recovery and a checkpoint.
    server.restart().await;
    look_everywhere(&server, &run).await;
    server.stop().await;
    assert_eq!(leaks(&server), Vec::<String>::new());
}

/// Credentials are sent as base64 of `user:password`, and far sides like to show what they got.
#[tokio::test]
async fn a_secret_that_comes_back_in_another_form_is_not_kept() {
    let (mut server, bank) = (canary_server().await, Bank::start().await);
    let (url, again) = (bank.url("/echo/pay"), bank.url("/naive/again"));
    let source = format!(
        r#"tasks:
  - id: basic
    type: http.Request
    method: POST
    uri: "{url}?token={{{{ secret('STORED') | urlencode }}}}"
    options: {{auth: {{type: BASIC, username: ada, password: "{{{{ secret('STORED') }}}}"}}}}
    body: "{{{{ {{'nested': {{'deep': secret('STORED')}}, 'list': [secret('FROM_ENV')]}} }}}}"
  - {{id: say, type: log.Log, message: "{{{{ outputs.basic.body }}}}"}}
  - {{id: on, type: http.Request, method: POST, uri: '{again}', body: "{{{{ outputs.basic.body }}}}"}}
outputs:
  - {{id: everything, type: JSON, value: "{{{{ outputs.basic }}}}"}}
"#
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    server.until(&run, "completed").await;
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("ada:{STORED}"));
    let call = &bank.calls("pay")[0];
    assert_eq!(call.headers["authorization"], format!("Basic {encoded}"));
    assert!(call.body.contains(STORED) && call.body.contains(FROM_ENVIRONMENT), "{}", call.body);
    // What was hidden is sent on as it came, not as the bare secret.
    let passed_on = &bank.calls("again")[0].body;
    assert!(passed_on.contains(&encoded), "{passed_on}");
    look_everywhere(&server, &run).await;
    assert_eq!(leaks(&server), Vec::<String>::new());
    server.restart().await;
    look_everywhere(&server, &run).await;
    server.stop().await;
    assert_eq!(leaks(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_secret_in_a_request_that_is_cut_off_is_sent_again_and_not_stored() {
    let (mut server, bank) = (canary_server().await, Bank::start().await);
    let more = "effect: keyed\nheaders: {Authorization: \"Bearer {{ secret('STORED') }}\"}";
    server.push(&post("a", &bank.url("/hold/pay"), more)).await;
    let run = server.trigger("a", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    assert_eq!(leaks(&server), Vec::<String>::new());
    server.restart().await;
    bank.arrived("pay", 2).await;
    bank.release("pay", 2);
    server.until(&run, "completed").await;
    assert!(bank.calls("pay").iter().all(|call| call.headers["authorization"] == format!("Bearer {STORED}")));
    assert_eq!(leaks(&server), Vec::<String>::new());
}

#[tokio::test]
async fn errors_do_not_quote_secrets() {
    let (server, bank) = (canary_server().await, Bank::start().await);
    let failing = [
        (
            "status",
            format!(
                "tasks:
  - {{id: x, type: http.Request, method: POST, uri: \"{}?token={{{{ secret('STORED') }}}}\"}}\n",
                bank.url("/status/500/x")
            ),
        ),
        ("uri", "tasks:\n  - {id: x, type: http.Request, uri: \"not a url {{ secret('STORED') }}\"}\n".to_owned()),
        (
            "host",
            "tasks:
  - {id: x, type: http.Request, uri: \"http://{{ secret('STORED') }}.invalid/\"}\n"
                .to_owned(),
        ),
        ("fail", "tasks:\n  - {id: x, type: execution.Fail, errorMessage: \"{{ secret('STORED') }}\"}\n".to_owned()),
        ("number", "tasks:\n  - {id: x, type: debug.Return, format: \"{{ secret('STORED') | number }}\"}\n".to_owned()),
        (
            "header",
            "tasks:
  - {id: x, type: http.Request, uri: 'http://127.0.0.1:9/', headers: {X-A: \"{{ secret('STORED') }}\\n\"}}\n"
                .to_owned(),
        ),
        ("sleep", "tasks:\n  - {id: x, type: flow.Sleep, duration: \"{{ secret('STORED') }}\"}\n".to_owned()),
        (
            "each",
            "tasks:
  - id: x
    type: flow.ForEach
    values: \"{{ secret('STORED') }}\"
    tasks:
      - {id: y, type: log.Log, message: hi}\n"
                .to_owned(),
        ),
    ];
    for (name, source) in failing {
        server.push(&flow(name, &source)).await;
        let run = server.trigger_wait(name, Some("k"), json!({})).await;
        look_everywhere(&server, &run.run_id()).await;
        assert_eq!(run.json["status"], "failed", "{name}: {}", run.text);
    }
    assert_eq!(leaks(&server), Vec::<String>::new());
}

#[tokio::test]
async fn secrets_where_they_would_be_stored_are_refused_or_masked() {
    let server = canary_server().await;
    let labels = "tasks:
  - {id: l, type: execution.Labels, labels: {hush: \"{{ secret('STORED') }}\"}}
  - {id: kv, type: kv.Set, key: hush, value: \"{{ secret('STORED') }}\"}\n";
    server.push(&flow("a", labels)).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    look_everywhere(&server, &run).await;
    server
        .push(&flow(
            "key",
            "tasks:
  - {id: say, type: log.Log, message: hi}
idempotency: {key: \"{{ secret('STORED') }}-{{ trigger.data.x }}\"}\n",
        ))
        .await;
    let answer = server.trigger("key", None, json!({"x": 1})).await;
    assert!(answer.status >= 400, "{}", answer.text);
    server
        .push(&flow(
            "child",
            "inputs:
  - {id: hush, type: STRING}
tasks:
  - {id: say, type: log.Log, message: '{{ inputs.hush }}'}\n",
        ))
        .await;
    server
        .push(&flow(
            "parent",
            "tasks:
  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, inputs: {hush: \"{{ secret('STORED') }}\"}}\n",
        ))
        .await;
    let run = server.trigger_wait("parent", Some("k"), json!({})).await.run_id();
    look_everywhere(&server, &run).await;
    for child in server.runs_of("child").await {
        look_everywhere(&server, child["run_id"].as_str().expect("an id")).await;
    }
    server.get("/v1/kv/e2e/hush").await;
    assert_eq!(leaks(&server), Vec::<String>::new());
}

/// The process's environment is the operator's: whoever writes flows in another workspace does not read it.
#[tokio::test]
async fn secrets_of_the_environment_belong_to_the_main_workspace() {
    let server = Server::with(
        Options::default()
            .env(
                "SECRET_FROM_ENV",
                &base64::Engine::encode(&base64::engine::general_purpose::STANDARD, FROM_ENVIRONMENT),
            )
            .env("ENV_REGION", "region-of-the-operator"),
    )
    .await;
    let bank = Bank::start().await;
    server.post("/v1/workspaces", json!({"id": "other"})).await.ok();
    let other = server.workspace("other");
    let region = flow(
        "env",
        "tasks:\n  - {id: e, type: debug.Return, format: \"{{ envs.region ?? 'none' }}\"}\noutputs:\n  - {id: said, type: STRING, value: '{{ outputs.e.value }}'}\n",
    );
    for (name, api) in [("main", server.workspace("main")), ("other", other)] {
        let more = "headers: {Authorization: \"{{ secret('FROM_ENV') }}\"}";
        api.push(&post("a", &bank.url(&format!("/naive/{name}")), more)).await;
        api.push(&region).await;
        let sent = api.trigger_wait("a", None, json!({})).await;
        let said = api.trigger_wait("env", None, json!({})).await.json["outputs"]["said"].clone();
        let expected = if name == "main" { ("completed", "region-of-the-operator") } else { ("failed", "none") };
        assert_eq!(
            (sent.json["status"].as_str(), said.as_str()),
            (Some(expected.0), Some(expected.1)),
            "{name}: {}",
            sent.text
        );
    }
    assert_eq!((bank.count("main"), bank.count("other")), (1, 0));
    assert_eq!(bank.calls("main")[0].headers["authorization"], FROM_ENVIRONMENT);
}
