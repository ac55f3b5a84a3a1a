//! Single steps: retries, timeouts, handlers, key-value pairs, branches.

use crate::harness::{Bank, Server, flow, post};
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test]
async fn retries_wait_longer_each_time_and_keep_the_key() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let retry = "retry: {type: exponential, interval: PT0.4S, maxInterval: PT5S, delayFactor: 2, maxAttempts: 4}";
    server.push(&post("a", &bank.url("/flaky/2/pay"), retry)).await;
    let began = Instant::now();
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "completed", "{}", run.text);
    // 0.4 s, then 0.8 s.
    assert!(began.elapsed() >= Duration::from_millis(1_200), "{:?}", began.elapsed());
    let keys = bank.keys("pay");
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn retries_end_at_their_number() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server
        .push(&post("a", &bank.url("/flaky/9/pay"), "retry: {type: constant, interval: PT0.05S, maxAttempts: 3}"))
        .await;
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!((run.json["status"].as_str(), bank.count("pay")), (Some("failed"), 3));
}

#[tokio::test]
async fn a_retry_that_waits_survives_a_kill() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/flaky/1/pay"), "retry: {type: constant, interval: PT2S, maxAttempts: 3}")).await;
    let run = server.trigger("a", None, json!({})).await.run_id();
    server.until(&run, "waiting").await;
    server.restart().await;
    server.until(&run, "completed").await;
    assert_eq!(bank.count("pay"), 2);
}

#[tokio::test]
async fn a_timeout_ends_the_attempt_and_leaves_a_naked_call_in_doubt() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("post", &bank.url("/slow/8000/post"), "timeout: PT0.5S")).await;
    let url = bank.url("/slow/8000/get");
    server
        .push(&flow("get", &format!("tasks:\n  - {{id: get, type: http.Request, uri: '{url}', timeout: PT0.5S}}\n")))
        .await;
    let began = Instant::now();
    let naked = server.trigger_wait("post", None, json!({})).await;
    assert_eq!(naked.json["status"], "held", "{}", naked.text);
    let read = server.trigger_wait("get", None, json!({})).await;
    assert_eq!(read.json["status"], "failed", "{}", read.text);
    // Far from the time that the calls would have taken; how long it takes here is the machine's affair.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(server.run(&read.run_id()).await["open_doubts"], 0);
}

#[tokio::test]
async fn errors_run_on_failure_and_finally_always() {
    let server = Server::start().await;
    let source = "tasks:
  - {id: maybe, type: execution.Fail, condition: '{{ trigger.data.fail }}'}
  - {id: work, type: log.Log, message: work}
errors:
  - {id: alarm, type: log.Log, message: alarm}
finally:
  - {id: clean, type: log.Log, message: clean}\n";
    server.push(&flow("a", source)).await;
    let bad = server.trigger_wait("a", None, json!({"fail": true})).await;
    assert_eq!(
        (bad.json["status"].as_str(), server.log_lines(&bad.run_id()).await),
        (Some("failed"), vec!["Task failure".to_owned(), "alarm".to_owned(), "clean".to_owned()])
    );
    let good = server.trigger_wait("a", None, json!({"fail": false})).await;
    assert_eq!(
        (good.json["status"].as_str(), server.log_lines(&good.run_id()).await),
        (Some("completed"), vec!["work".to_owned(), "clean".to_owned()])
    );
}

#[tokio::test]
async fn a_tolerated_failure_is_a_warning() {
    let server = Server::start().await;
    server
        .push(&flow(
            "a",
            "tasks:
  - {id: no, type: execution.Fail, allowFailure: true}
  - {id: say, type: log.Log, message: on}\n",
        ))
        .await;
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "completed", "{}", run.text);
    let shown = server.run(&run.run_id()).await;
    assert_eq!(
        (&shown["warnings"], server.log_lines(&run.run_id()).await),
        (&json!(true), vec!["Task failure".to_owned(), "on".to_owned()])
    );
}

#[tokio::test]
async fn branches_switches_and_skipped_steps() {
    let server = Server::start().await;
    let source = "inputs:
  - {id: kind, type: STRING}
tasks:
  - id: by
    type: flow.Switch
    value: '{{ inputs.kind }}'
    cases:
      big:
        - {id: b, type: log.Log, message: big}
    defaults:
      - {id: d, type: log.Log, message: other}
  - {id: skipped, type: log.Log, message: never, runIf: '{{ false }}'}
  - id: check
    type: flow.If
    condition: \"{{ inputs.kind == 'big' }}\"
    then:
      - {id: t, type: log.Log, message: yes it is}
    else:
      - {id: e, type: log.Log, message: no it is not}\n";
    server.push(&flow("a", source)).await;
    let big = server.trigger_wait("a", None, json!({"kind": "big"})).await;
    assert_eq!(server.log_lines(&big.run_id()).await, ["big", "yes it is"]);
    let small = server.trigger_wait("a", None, json!({"kind": "small"})).await;
    assert_eq!(server.log_lines(&small.run_id()).await, ["other", "no it is not"]);
}

#[tokio::test]
async fn key_value_pairs_are_shared_typed_and_expire() {
    let server = Server::start().await;
    server
        .push(&flow(
            "set",
            "tasks:
  - {id: set, type: kv.Set, key: n, value: '{{ trigger.data.n }}', kvType: NUMBER}
  - {id: get, type: kv.Get, key: n}
  - {id: gone, type: kv.Delete, key: n}
outputs:
  - {id: n, type: INT, value: '{{ outputs.get.value }}'}
  - {id: gone, type: BOOL, value: '{{ outputs.gone.deleted }}'}\n",
        ))
        .await;
    let run = server.trigger_wait("set", None, json!({"n": 41})).await;
    assert_eq!(run.json["outputs"], json!({"n": 41, "gone": true}), "{}", run.text);
    server.get("/v1/kv/e2e/n").await.refused(404, "kv_unknown");
    server.put("/v1/kv/e2e/x", json!({"value": {"a": [1, 2]}})).await.ok();
    server.put("/v1/kv/e2e/x", json!({"value": 2, "overwrite": false})).await.refused(409, "exists");
    assert_eq!(server.get("/v1/kv/e2e/x").await.ok()["value"], json!({"a": [1, 2]}));
    server.put("/v1/kv/e2e/y", json!({"value": 1, "ttl": "PT1S"})).await.ok();
    crate::harness::clock_reaches(Instant::now(), Duration::from_millis(1_200)).await;
    server.get("/v1/kv/e2e/y").await.refused(410, "expired");
    server.push(&flow("missing", "tasks:\n  - {id: get, type: kv.Get, key: nope}\n")).await;
    assert_eq!(server.trigger_wait("missing", None, json!({})).await.json["status"], "failed");
}

#[tokio::test]
async fn labels_and_output_values_are_kept() {
    let server = Server::start().await;
    let source = "labels: {a: one}
tasks:
  - {id: l, type: execution.Labels, labels: {b: '{{ trigger.data.b }}'}}
  - {id: o, type: output.OutputValues, values: {n: '{{ 1 + 1 }}', list: [1, '{{ labels.b }}']}}
outputs:
  - {id: list, type: JSON, value: '{{ outputs.o.values.list }}'}\n";
    server.push(&flow("a", source)).await;
    let run = server.trigger_wait("a", None, json!({"b": "two"})).await;
    assert_eq!(run.json["outputs"]["list"], json!([1, "two"]), "{}", run.text);
    assert_eq!(server.run(&run.run_id()).await["labels"], json!({"a": "one", "b": "two"}));
    assert_eq!(server.all("/v1/runs?label=b:two").await.len(), 1);
}

#[tokio::test]
async fn an_expression_that_does_not_resolve_fails_its_step_with_its_name() {
    let server = Server::start().await;
    server.push(&flow("a", "tasks:\n  - {id: bad, type: log.Log, message: '{{ trigger.data.nope.deeper }}'}\n")).await;
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "failed", "{}", run.text);
    let error = &server.run(&run.run_id()).await["error"];
    assert_eq!(error["step"], "bad");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("nope") || text.contains("deeper")), "{error}");
}

#[tokio::test]
async fn an_endless_expression_is_stopped() {
    let server = Server::start().await;
    server.push(&flow("a", "tasks:
  - {id: bad, type: debug.Return, format: '{% for i in range(1, 1000000) %}{% for j in range(1, 1000000) %}x{% endfor %}{% endfor %}'}\n")).await;
    let began = Instant::now();
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "failed", "{}", run.text);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_flow_retry_tries_the_whole_run_again_and_keeps_finished_effects() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let (one, two) = (bank.url("/naive/one"), bank.url("/flaky/1/two"));
    let source = format!(
        "tasks:
  - {{id: one, type: http.Request, method: POST, uri: '{one}'}}
  - {{id: two, type: http.Request, method: POST, uri: '{two}'}}
retry: {{type: constant, interval: PT0.2S, maxAttempts: 3}}\n"
    );
    server.push(&flow("a", &source)).await;
    let run = server.trigger_wait("a", Some("k"), json!({})).await;
    assert_eq!(run.json["status"], "completed", "{}", run.text);
    assert_eq!((bank.count("one"), bank.count("two")), (1, 2));
    assert_eq!(bank.keys("two")[0], bank.keys("two")[1]);
}
