//! Sub-runs: what goes down, what comes back, and that they live and die with their root.

use crate::harness::{Bank, PATIENCE, Server, eventually, flow, post};
use serde_json::json;

#[tokio::test]
async fn inputs_labels_and_the_correlation_id_go_down_and_outputs_come_back() {
    let server = Server::start().await;
    let child = "inputs:
  - {id: who, type: STRING}
tasks:
  - {id: say, type: debug.Return, format: 'hello {{ inputs.who }} of {{ run.correlationId }}'}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.say.value }}'}\n";
    server.push(&flow("child", child)).await;
    let parent = "labels: {team: blue}
tasks:
  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, inputs: {who: '{{ trigger.data.who }}'}, labels: {step: sub}, inheritLabels: true}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.sub.outputs.said }}'}\n";
    server.push(&flow("parent", parent)).await;
    let body = json!({"workflow_id": "e2e:parent", "inputs": {"who": "ann"}, "correlation_id": "order-17", "labels": {"extra": "x"}});
    let root = server.post("/v1/runs", body).await.run_id();
    let ended = server.until(&root, "completed").await;
    assert_eq!(ended["outputs"], json!({"said": "hello ann of order-17"}));
    let children = server.all(&format!("/v1/runs/{root}/children")).await;
    let child = &children[0];
    assert_eq!(
        (&child["correlation_id"], &child["parent_run_id"], &child["root_run_id"]),
        (&json!("order-17"), &json!(root), &json!(root))
    );
    assert_eq!(child["labels"], json!({"team": "blue", "extra": "x", "step": "sub"}));
    assert_eq!(server.all("/v1/runs?correlation_id=order-17").await.len(), 2);
    assert_eq!(server.all("/v1/runs?label=step:sub").await.len(), 1);
}

#[tokio::test]
async fn a_failure_below_is_transmitted_unless_the_flow_says_no() {
    let server = Server::start().await;
    server.push(&flow("child", "tasks:\n  - {id: no, type: execution.Fail, errorMessage: deep trouble}\n")).await;
    server.push(&flow("strict", "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child}\n")).await;
    server
        .push(&flow(
            "mild",
            "tasks:
  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, transmitFailed: false}
  - {id: say, type: log.Log, message: 'it {{ outputs.sub.state }}'}\n",
        ))
        .await;
    let strict = server.trigger_wait("strict", None, json!({})).await;
    assert_eq!(strict.json["status"], "failed");
    let error = &server.run(&strict.run_id()).await["error"];
    assert_eq!((&error["code"], &error["step"]), (&json!("subflow_failed"), &json!("sub")));
    let mild = server.trigger_wait("mild", None, json!({})).await;
    assert_eq!(mild.json["status"], "completed");
    assert_eq!(server.log_lines(&mild.run_id()).await, ["it FAILED"]);
}

#[tokio::test]
async fn a_sub_run_that_is_not_waited_for_goes_its_own_way() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("child", &bank.url("/hold/pay"), "")).await;
    server
        .push(&flow(
            "parent",
            "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, wait: false}\n",
        ))
        .await;
    let root = server.trigger_wait("parent", None, json!({})).await;
    assert_eq!(root.json["status"], "completed");
    bank.arrived("pay", 1).await;
    bank.release("pay", 1);
    let child = server.runs_of("child").await[0]["run_id"].as_str().expect("an id").to_owned();
    server.until(&child, "completed").await;
}

#[tokio::test]
async fn cancelling_the_root_cancels_all_below() {
    let server = Server::start().await;
    server.push(&flow("leaf", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT10M}\n")).await;
    server.push(&flow("middle", "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: leaf}\n")).await;
    server
        .push(&flow(
            "root",
            "tasks:
  - id: both
    type: flow.Parallel
    tasks:
      - {id: one, type: flow.Subflow, namespace: e2e, flowId: middle}
      - {id: two, type: flow.Subflow, namespace: e2e, flowId: leaf}\n",
        ))
        .await;
    let root = server.trigger("root", Some("k"), json!({})).await.run_id();
    eventually(PATIENCE, "two sleeping leaves", || async {
        let leaves = server.runs_of("leaf").await;
        (leaves.len() == 2 && leaves.iter().all(|run| run["status"] == "waiting")).then_some(())
    })
    .await;
    server.control(&root, "cancel").await.ok();
    server.until(&root, "cancelled").await;
    for run in server.runs().await {
        server.until(run["run_id"].as_str().expect("an id"), "cancelled").await;
    }
}

#[tokio::test]
async fn parents_with_the_same_key_of_a_sub_run_share_it() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let child = post("child", &bank.url("/hold/pay"), "")
        + "outputs:\n  - {id: code, type: INT, value: '{{ outputs.pay.code }}'}\n";
    server.push(&child).await;
    let parent = "tasks:
  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, idempotencyKey: 'order-{{ trigger.data.order }}'}
outputs:
  - {id: code, type: INT, value: '{{ outputs.sub.outputs.code }}'}\n";
    server.push(&flow("parent", parent)).await;
    let one = server.trigger("parent", None, json!({"order": 7})).await.run_id();
    let two = server.trigger("parent", None, json!({"order": 7})).await.run_id();
    bank.arrived("pay", 1).await;
    bank.release("pay", 5);
    for run in [&one, &two] {
        assert_eq!(server.until(run, "completed").await["outputs"], json!({"code": 200}));
    }
    // A third one comes after the end and is given the same result.
    let three = server.trigger_wait("parent", None, json!({"order": 7})).await;
    assert_eq!(three.json["outputs"], json!({"code": 200}), "{}", three.text);
    assert_eq!((server.runs_of("child").await.len(), bank.count("pay")), (1, 1));
}

#[tokio::test]
async fn a_flow_that_does_not_exist_fails_the_step() {
    let server = Server::start().await;
    server.push(&flow("parent", "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: nope}\n")).await;
    let run = server.trigger_wait("parent", None, json!({})).await;
    assert_eq!(run.json["status"], "failed", "{}", run.text);
    assert_eq!(server.run(&run.run_id()).await["error"]["step"], "sub");
}

#[tokio::test]
async fn inputs_that_do_not_fit_the_child_fail_the_step_and_make_no_run() {
    let server = Server::start().await;
    server
        .push(&flow("child", "inputs:\n  - {id: n, type: INT}\ntasks:\n  - {id: say, type: log.Log, message: hi}\n"))
        .await;
    server
        .push(&flow(
            "parent",
            "tasks:\n  - {id: sub, type: flow.Subflow, namespace: e2e, flowId: child, inputs: {n: many}}\n",
        ))
        .await;
    let run = server.trigger_wait("parent", None, json!({})).await;
    assert_eq!(run.json["status"], "failed", "{}", run.text);
    assert!(server.runs_of("child").await.is_empty());
}

#[tokio::test]
async fn recursion_ends_at_the_depth_limit() {
    let server = Server::start().await;
    let source = "inputs:
  - {id: n, type: INT, defaults: 0}
tasks:
  - id: more
    type: flow.If
    condition: '{{ inputs.n < 100 }}'
    then:
      - {id: sub, type: flow.Subflow, namespace: e2e, flowId: deep, inputs: {n: '{{ inputs.n + 1 }}'}}\n";
    server.push(&flow("deep", source)).await;
    let run = server.trigger_wait("deep", None, json!({})).await;
    assert_eq!(run.json["status"], "failed", "{}", run.text);
    let count = server.runs_of("deep").await.len();
    assert!((2..=17).contains(&count), "{count} runs");
}

/// A key can name the run that waits for the one that uses it. Both would wait for ever.
#[tokio::test]
async fn a_sub_run_whose_key_is_its_ancestors_fails_instead_of_waiting_for_ever() {
    let server = Server::start().await;
    let keyed = "idempotency: {key: '{{ trigger.data.id }}', scope: workspace, preset: trigger}\n";
    let sub = |flow: &str, key: &str, more: &str| {
        format!("tasks:\n  - {{id: sub, type: flow.Subflow, namespace: e2e, flowId: {flow}{key}{more}}}\n")
    };
    let own = ", idempotencyKey: '{{ trigger.data.id }}'";
    let given = ", idempotencyKey: '{{ inputs.id }}'";
    let input = "inputs:\n  - {id: id, type: STRING, required: false}\n";
    server.push(&flow("leaf", &format!("{keyed}{input}tasks:\n  - {{id: s, type: log.Log, message: hi}}\n"))).await;
    server.push(&flow("middle", &format!("{input}{}", sub("leaf", given, "")))).await;
    server.push(&flow("itself", &format!("{keyed}{}", sub("leaf", own, "")))).await;
    server
        .push(&flow("above", &format!("{keyed}{}", sub("middle", "", ", inputs: {id: '{{ trigger.data.id }}'}"))))
        .await;
    server.push(&flow("apart", &format!("{keyed}{}", sub("leaf", own, ", wait: false")))).await;
    for name in ["itself", "above"] {
        let answer = server.trigger_wait(name, None, json!({"id": name})).await;
        assert_eq!(answer.json["status"], "failed", "{name}: {}", answer.text);
    }
    let waiting =
        |runs: Vec<serde_json::Value>| runs.iter().map(|run| run["error"]["code"].clone()).collect::<Vec<_>>();
    assert_eq!(waiting(server.runs_of("itself").await), ["subflow_waits_for_itself"]);
    assert_eq!(waiting(server.runs_of("middle").await), ["subflow_waits_for_itself"]);
    // Who does not wait has nothing to wait for.
    let answer = server.trigger_wait("apart", None, json!({"id": "apart"})).await;
    assert_eq!(answer.json["status"], "completed", "{}", answer.text);
    assert!(server.runs_of("leaf").await.is_empty());
}

/// Neither is the other's ancestor: each named the other's event, and would wait for its run.
#[tokio::test]
async fn two_runs_do_not_wait_for_each_other() {
    let server = Server::start().await;
    let keyed = "idempotency: {key: '{{ trigger.data.id }}', scope: workspace, preset: trigger}\n";
    let sub = |key: &str| {
        format!("  - {{id: sub, type: flow.Subflow, namespace: e2e, flowId: leaf, idempotencyKey: {key}}}\n")
    };
    server.push(&flow("leaf", &format!("{keyed}tasks:\n  - {{id: s, type: log.Log, message: hi}}\n"))).await;
    server.push(&flow("left", &format!("{keyed}tasks:\n{}", sub("r")))).await;
    server.push(&flow("right", &format!("{keyed}tasks:\n  - {{id: stop, type: flow.Pause}}\n{}", sub("l")))).await;
    let right = server.trigger("right", None, json!({"id": "r"})).await.run_id();
    server.until(&right, "paused").await;
    let left = server.trigger("left", None, json!({"id": "l"})).await.run_id();
    eventually(PATIENCE, "the left one waits for the right one", async || {
        let events = server.all(&format!("/v1/runs/{left}/journal")).await;
        events.iter().any(|event| event.to_string().contains(&right)).then_some(())
    })
    .await;
    let resumed = server.post(&format!("/v1/runs/{right}/resume"), json!({})).await;
    assert_eq!(resumed.status, 200, "{}", resumed.text);
    let ended = server.until(&right, "failed").await;
    assert_eq!(ended["error"]["code"], "subflow_waits_for_itself", "{ended}");
    assert_eq!(server.until(&left, "failed").await["error"]["code"], "subflow_failed");
}
