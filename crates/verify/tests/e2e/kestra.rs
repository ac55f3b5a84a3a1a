//! Kestra's own guide to duplicate executions, as it stands: its two flows, its curl commands, its secret and its key.
//! Only the port is another one.

use crate::harness::{Answer, Api, Options, PATIENCE, Server, eventually};
use base64::Engine as _;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use tempfile::TempDir;

const GUARDED: &str = r#"id: payment_flow_guarded
namespace: company.team

inputs:
  - id: idempotencyKey
    type: STRING

tasks:
  - id: check_existing
    type: io.kestra.plugin.core.http.Request
    uri: "http://localhost:8080/api/v1/{{ kv('KESTRA_TENANT') }}/executions/search?filters[labels][EQUALS][system.correlationId]={{ inputs.idempotencyKey }}&filters[namespace][EQUALS]=company.team&filters[flowId][EQUALS]=payment_flow_guarded&filters[state][IN]=SUCCESS&size=1"
    method: GET
    headers:
      Authorization: "Bearer {{ secret('KESTRA_API_TOKEN') }}"

  - id: maybe_skip
    type: io.kestra.plugin.core.flow.If
    condition: "{{ not (outputs.check_existing.body contains '\"total\":0') }}"
    then:
      - id: skip
        type: io.kestra.plugin.core.log.Log
        message: "Duplicate {{ inputs.idempotencyKey }} skipped; already succeeded"
    else:
      - id: continue
        type: io.kestra.plugin.core.log.Log
        message: "First time for {{ inputs.idempotencyKey }}, proceed"
"#;

const WEBHOOK: &str = r#"id: payment_webhook
namespace: company.team

variables:
  idem_key: "{{ trigger.headers['Idempotency-Key'] | first }}"

tasks:
  - id: set_idempotency_key
    type: io.kestra.plugin.core.execution.Labels
    labels:
      idempotency.key: "{{ vars.idem_key }}"

  - id: check_existing
    type: io.kestra.plugin.core.http.Request
    uri: "http://localhost:8080/api/v1/{{ kv('KESTRA_TENANT') }}/executions/search?filters[labels][EQUALS][idempotency.key]={{ vars.idem_key }}&filters[namespace][EQUALS]=company.team&filters[flowId][EQUALS]=payment_webhook&filters[state][IN]=SUCCESS&size=1"
    method: GET
    headers:
      Authorization: "Bearer {{ secret('KESTRA_API_TOKEN') }}"

  - id: maybe_skip
    type: io.kestra.plugin.core.flow.If
    condition: "{{ not (outputs.check_existing.body contains '\"total\":0') }}"
    then:
      - id: skip
        type: io.kestra.plugin.core.log.Log
        message: "Duplicate {{ vars.idem_key }} skipped"
    else:
      - id: process_payment
        type: io.kestra.plugin.core.log.Log
        message: "Charge payment for {{ vars.idem_key }}"

triggers:
  - id: webhook
    type: io.kestra.plugin.core.trigger.Webhook
    key: payment-events
"#;

/// A server with tokens, of which one is the secret that the flows read.
struct Guide {
    server: Server,
    api: Api,
    _data: TempDir,
}

impl Guide {
    async fn start() -> Guide {
        let data = TempDir::new().expect("a directory");
        let options = Options { tokens: true, ..Options::default() }.data(data.path());
        let mut first = Server::with(options.clone()).await;
        first.stop().await;
        let token = std::fs::read_to_string(data.path().join("admin.token")).expect("a token").trim().to_owned();
        let encoded = base64::engine::general_purpose::STANDARD.encode(&token);
        let server = Server::with(options.env("SECRET_KESTRA_API_TOKEN", &encoded)).await;
        let api = server.token(&token);
        api.put("/v1/kv/company.team/KESTRA_TENANT", json!({"value": "main"})).await.ok();
        Guide { server, api, _data: data }
    }

    async fn push(&self, flow: &str) {
        let address = self.server.url.trim_start_matches("http://");
        self.api.push(&flow.replace("localhost:8080", address)).await;
    }

    /// What the guide's curl command sends: a label in the query, an input in a form.
    fn post(&self, key: &str) -> reqwest::RequestBuilder {
        let path =
            format!("/api/v1/main/executions/company.team/payment_flow_guarded?labels=system.correlationId:{key}");
        let form = format!(
            "--------------------------b\r\nContent-Disposition: form-data; name=\"idempotencyKey\"\r\n\r\n{key}\r\n--------------------------b--\r\n"
        );
        let kind = "multipart/form-data; boundary=------------------------b";
        self.api.request(reqwest::Method::POST, &path).header("content-type", kind).body(form)
    }

    async fn hook(&self, key: &str) -> Answer {
        let path = "/api/v1/main/executions/webhook/company.team/payment_webhook/payment-events";
        let request = Api::new(&self.server.url).request(reqwest::Method::POST, path);
        self.api.send(request.header("Idempotency-Key", key).body("{}")).await
    }

    async fn ended(&self, answer: Answer) -> Json {
        let id = answer.ok()["id"].as_str().expect("an id").to_owned();
        let path = format!("/api/v1/main/executions/{id}");
        eventually(PATIENCE, "the execution ends", || async {
            let execution = self.api.get(&path).await.ok();
            execution["state"]["endDate"].is_string().then_some(execution)
        })
        .await
    }

    async fn total(&self, filter: &str) -> u64 {
        let answer = self.api.get(&format!("/api/v1/executions/search?{filter}")).await;
        assert!(answer.text.contains("\"total\":"), "{}", answer.text);
        answer.ok()["total"].as_u64().expect("a total")
    }
}

fn tasks(execution: &Json) -> Vec<String> {
    let runs = execution["taskRunList"].as_array().expect("task runs");
    runs.iter().map(|run| run["taskId"].as_str().expect("a task").to_owned()).collect()
}

#[tokio::test]
async fn the_guide_s_api_flow_skips_the_second_time() {
    let guide = Guide::start().await;
    guide.push(GUARDED).await;
    let first = guide.ended(guide.api.send(guide.post("payment-ORD-123")).await).await;
    assert_eq!(first["state"]["current"], "SUCCESS", "{first}");
    assert_eq!(tasks(&first), ["check_existing", "maybe_skip", "continue"]);
    assert!(
        first["labels"]
            .as_array()
            .expect("labels")
            .contains(&json!({"key": "system.correlationId", "value": "payment-ORD-123"})),
        "{first}"
    );
    assert_eq!(first["inputs"], json!({"idempotencyKey": "payment-ORD-123"}));
    let second = guide.ended(guide.api.send(guide.post("payment-ORD-123")).await).await;
    assert_eq!(tasks(&second), ["check_existing", "maybe_skip", "skip"]);
    assert_ne!(first["id"], second["id"]);
    let other = guide.ended(guide.api.send(guide.post("payment-ORD-124")).await).await;
    assert_eq!(tasks(&other)[2], "continue");
    let by = |key: &str| {
        format!("filters%5Blabels%5D%5BEQUALS%5D%5Bsystem.correlationId%5D={key}&filters[state][IN]=SUCCESS")
    };
    assert_eq!(guide.total(&by("payment-ORD-123")).await, 2);
    assert_eq!(guide.total(&by("payment-ORD-124")).await, 1);
    assert_eq!(guide.total(&by("payment-ORD-125")).await, 0);
}

#[tokio::test]
async fn the_guide_s_webhook_flow_skips_the_second_time() {
    let guide = Guide::start().await;
    guide.push(WEBHOOK).await;
    let first = guide.ended(guide.hook("evt_1").await).await;
    assert_eq!(first["state"]["current"], "SUCCESS", "{first}");
    assert_eq!(tasks(&first).last().map(String::as_str), Some("process_payment"), "{first}");
    assert!(
        first["labels"].as_array().expect("labels").contains(&json!({"key": "idempotency.key", "value": "evt_1"})),
        "{first}"
    );
    let second = guide.ended(guide.hook("evt_1").await).await;
    assert_eq!(tasks(&second).last().map(String::as_str), Some("skip"), "{second}");
    let other = guide.ended(guide.hook("evt_2").await).await;
    assert_eq!(tasks(&other).last().map(String::as_str), Some("process_payment"), "{other}");
}

/// The guide says that its check is not atomic. One block in the flow makes it so.
#[tokio::test]
async fn with_an_idempotency_block_of_200_racing_posts_one_proceeds() {
    let guide = Guide::start().await;
    guide.push(&format!("{GUARDED}\nidempotency:\n  key: \"{{{{ inputs.idempotencyKey }}}}\"\n")).await;
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let (api, request) = (guide.api.clone(), guide.post("payment-ORD-200"));
            tokio::spawn(async move { api.send(request).await })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("no panic"));
    }
    let ids: BTreeSet<String> =
        answers.iter().map(|answer| answer.clone().ok()["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(answers.iter().filter(|answer| answer.header("x-idempotent-replayed") != "true").count(), 1);
    let one = guide.ended(answers.remove(0)).await;
    assert_eq!(tasks(&one), ["check_existing", "maybe_skip", "continue"]);
    assert_eq!(guide.total("filters[flowId][EQUALS]=payment_flow_guarded").await, 1);
}

/// The token as the password of Basic credentials, paths without a tenant, refusals as Kestra words them.
#[tokio::test]
async fn kestra_s_other_ways_in_and_its_refusals() {
    let guide = Guide::start().await;
    guide.push(GUARDED).await;
    let token = std::fs::read_to_string(guide._data.path().join("admin.token")).expect("a token");
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("admin@kestra.io:{}", token.trim()));
    let plain = Api::new(&guide.server.url);
    let api = plain.with("authorization", &format!("Basic {basic}"));
    assert_eq!(api.get("/api/v1/executions/search").await.ok(), json!({"results": [], "total": 0}));
    let message = |answer: Answer| (answer.status, answer.json["message"].as_str().unwrap_or_default().to_owned());
    let (status, said) = message(plain.get("/api/v1/main/executions/search").await);
    assert!(status == 401 && said.starts_with("Unauthorized: "), "{said}");
    let (status, said) = message(api.get("/api/v1/elsewhere/executions/search").await);
    assert!(status == 404 && said.starts_with("Not Found: "), "{said}");
    let (status, said) = message(api.get("/api/v1/main/no/such/path").await);
    assert!(status == 404 && said.starts_with("Not Found: "), "{said}");
    let path = "/api/v1/main/executions/company.team/payment_flow_guarded";
    let post = |path: String| api.send(api.request(reqwest::Method::POST, &path));
    let (status, said) = message(post(path.to_owned()).await);
    assert!(status == 422 && said.contains("idempotencyKey"), "{status} {said}");
    let (status, said) = message(post(format!("{path}?labels=system.restarted:true")).await);
    assert_eq!(
        (status, said.as_str()),
        (
            422,
            "Illegal argument: System labels can only be set by Semel itself, offending label: system.restarted=true"
        )
    );
    assert_eq!(message(post("/api/v1/main/executions/company.team/nothing".into()).await).0, 404);
    let (status, said) = message(api.get("/api/v1/main/executions/search?filters[colour][EQUALS]=red").await);
    assert!(status == 400 && said.starts_with("Invalid query filters: "), "{said}");
}
