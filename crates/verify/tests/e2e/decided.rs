//! The trigger door's decided list: what the contract left open and Semel has settled.

use crate::harness::{Bank, Options, Server, flow, post, quick};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn scope_is_the_flow() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    server.push(&quick("b")).await;
    let one = server.trigger("a", Some("k"), json!({})).await;
    let two = server.trigger("b", Some("k"), json!({})).await;
    assert!(!one.replayed() && !two.replayed());
    assert_eq!(two.json["workflow_id"], "e2e:b");
}

#[tokio::test]
async fn scope_workspace_makes_one_key_of_all_flows() {
    let server = Server::start().await;
    let block = "tasks:\n  - {id: say, type: log.Log, message: hi}\nidempotency: {preset: trigger, scope: workspace}\n";
    server.push(&flow("a", block)).await;
    server.push(&flow("b", block)).await;
    let one = server.trigger("a", Some("k"), json!({})).await;
    let two = server.trigger("b", Some("k"), json!({})).await;
    assert!(two.replayed());
    assert_eq!((two.run_id(), two.json["workflow_id"].as_str()), (one.run_id(), Some("e2e:a")));
}

#[tokio::test]
async fn the_server_can_set_the_scope_for_flows_that_do_not() {
    let server = Server::with(Options::default().env("SEMEL_TRIGGER_SCOPE", "workspace")).await;
    server.push(&quick("a")).await;
    server.push(&quick("b")).await;
    let one = server.trigger("a", Some("k"), json!({})).await;
    assert_eq!(server.trigger("b", Some("k"), json!({})).await.run_id(), one.run_id());
}

#[tokio::test]
async fn keys_that_are_none_are_refused_and_nothing_is_stored() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let before = server.stored().await;
    server.trigger("a", Some(""), json!({})).await.refused(400, "key_empty");
    server.trigger("a", Some("   "), json!({})).await.refused(400, "key_empty");
    server.trigger("a", Some("\t"), json!({})).await.refused(400, "key_empty");
    let two = server.trigger_request("a", Some("one"), json!({})).header("idempotency-key", "two");
    server.send(two).await.refused(400, "key_repeated");
    server.trigger("a", Some(&"é".repeat(256)), json!({})).await.refused(400, "key_too_long");
    let body = json!({"workflow_id": "e2e:a", "key": " k "});
    server.post("/v1/runs", body).await.refused(400, "key_outer_blanks");
    assert_eq!(server.stored().await, before);
    // The same key twice is one key, and characters are counted, not bytes.
    let same = server.trigger_request("a", Some("one"), json!({})).header("idempotency-key", "one");
    assert!(!server.send(same).await.replayed());
    assert!(!server.trigger("a", Some(&"é".repeat(255)), json!({})).await.replayed());
}

#[tokio::test]
async fn data_fills_the_inputs_by_name() {
    let server = Server::start().await;
    let typed = "inputs:
  - {id: order, type: STRING}
  - {id: amount, type: INT}
  - {id: note, type: STRING, required: false}
tasks:
  - {id: say, type: debug.Return, format: '{{ inputs.order }}/{{ inputs.amount }}/{{ trigger.data.extra }}'}
outputs:
  - {id: said, type: STRING, value: '{{ outputs.say.value }}'}\n";
    server.push(&flow("a", typed)).await;
    let before = server.stored().await;
    let missing = server.trigger("a", Some("k"), json!({"order": "o1"})).await;
    assert_eq!(missing.refused(422, "input_invalid").json["errors"][0]["field"], "amount");
    let wrong = server.trigger("a", Some("k"), json!({"order": "o1", "amount": "many"})).await;
    assert_eq!(wrong.refused(422, "input_invalid").json["errors"][0]["field"], "amount");
    assert_eq!(server.stored().await, before);
    // The refused calls spent no key.
    let good = server.trigger_wait("a", Some("k"), json!({"order": "o1", "amount": 7, "extra": "more"})).await;
    assert!(!good.replayed());
    assert_eq!(good.json["outputs"]["said"], "o1/7/more");
}

#[tokio::test]
async fn no_body_means_no_data() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let request = server.request(Method::POST, "/v1/workflows/a/trigger");
    let answer = server.send(request).await;
    assert!(!answer.replayed());
    assert_eq!(server.until(&answer.run_id(), "completed").await["inputs"], json!({}));
}

#[tokio::test]
async fn ids_find_their_flow_or_say_why_not() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    server.trigger("nope", Some("k"), json!({})).await.refused(404, "flow_unknown");
    assert_eq!(server.trigger("e2e:a", Some("k"), json!({})).await.json["workflow_id"], "e2e:a");
    server.push("id: a\nnamespace: other\ntasks:\n  - {id: say, type: log.Log, message: hi}\n").await;
    let before = server.stored().await;
    server.trigger("a", Some("k2"), json!({})).await.refused(409, "flow_ambiguous");
    assert_eq!(server.stored().await, before);
    assert_eq!(server.trigger("other:a", Some("k"), json!({})).await.json["workflow_id"], "other:a");
}

#[tokio::test]
async fn who_waits_gets_the_outputs_and_so_does_the_twin() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let source = post("a", &bank.url("/hold/pay"), "")
        + "outputs:\n  - {id: code, type: INT, value: '{{ outputs.pay.code }}'}\n";
    server.push(&source).await;
    let both = async {
        tokio::join!(server.trigger_wait("a", Some("k"), json!({})), async {
            bank.arrived("pay", 1).await;
            let twin = server.trigger_wait("a", Some("k"), json!({}));
            let open = async {
                // A twin that does not wait is answered while the run is live.
                assert!(server.trigger("a", Some("k"), json!({})).await.replayed());
                bank.release("pay", 1);
            };
            tokio::join!(twin, open).0
        })
    };
    let (first, twin) = both.await;
    assert!(!first.replayed() && twin.replayed());
    assert_eq!(first.run_id(), twin.run_id());
    assert_eq!((&first.json["outputs"], &twin.json["outputs"]), (&json!({"code": 200}), &json!({"code": 200})));
    assert_eq!((&first.json["status"], &twin.json["status"]), (&json!("completed"), &json!("completed")));
    assert_eq!(first.header("preference-applied"), "wait=30");
}

#[tokio::test]
async fn waiting_ends_after_the_time_given() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/hold/pay"), "")).await;
    let answer = server.send(server.trigger_request("a", Some("k"), json!({})).header("prefer", "wait=1")).await;
    assert!(!answer.replayed());
    assert!(answer.json.get("outputs").is_none(), "{}", answer.text);
    bank.release("pay", 1);
    server.until(&answer.run_id(), "completed").await;
}

#[tokio::test]
async fn a_key_is_free_again_when_its_run_is_deleted() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    let first = server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    assert_eq!(server.delete(&format!("/v1/runs/{first}")).await.status, 204);
    server.get(&format!("/v1/runs/{first}")).await.refused(404, "run_unknown");
    let again = server.trigger("a", Some("k"), json!({})).await;
    assert!(!again.replayed());
    assert_ne!(again.run_id(), first);
}

#[tokio::test]
async fn an_erased_runs_key_stays_spent() {
    let server = Server::start().await;
    server
        .push(&flow(
            "a",
            "inputs:
  - {id: name, type: STRING}
tasks:
  - {id: say, type: log.Log, message: 'hello {{ inputs.name }}'}\n",
        ))
        .await;
    let run = server.trigger_wait("a", Some("k"), json!({"name": "Ariadne-7"})).await.run_id();
    assert_eq!(server.post(&format!("/v1/runs/{run}/erase"), json!({})).await.status, 204);
    server.trigger("a", Some("k"), json!({"name": "Ariadne-7"})).await.refused(410, "erased");
    let shown = server.run(&run).await;
    assert_eq!(
        (&shown["erased"], &shown["inputs"], &shown["status"]),
        (&json!(true), &json!(null), &json!("completed"))
    );
    for path in ["journal", "logs"] {
        let answer = server.get(&format!("/v1/runs/{run}/{path}")).await;
        assert!(!answer.text.contains("Ariadne"), "{}", answer.text);
    }
}

/// Large values live in pages of their own, which an ordinary rewrite frees long before the erasure.
#[tokio::test]
async fn an_erased_run_leaves_no_bytes_in_the_file() {
    let mut server = Server::start().await;
    let tasks = "inputs:\n  - {id: name, type: STRING}\ntasks:\n  - {id: say, type: debug.Return, format: '{{ inputs.name }}'}\n";
    server
        .push(&flow("a", &format!("{tasks}outputs:\n  - {{id: said, value: '{{{{ outputs.say.value }}}}'}}\n")))
        .await;
    let name = format!("{}Ariadne-8", "thread ".repeat(2_000));
    let run = server.trigger_wait("a", Some("key-of-Ariadne-8"), json!({"name": name})).await.run_id();
    assert_eq!(server.post(&format!("/v1/runs/{run}/erase"), json!({})).await.status, 204);
    server.trigger("a", Some("key-of-Ariadne-8"), json!({"name": "x"})).await.refused(410, "erased");
    server.stop().await;
    for entry in std::fs::read_dir(server.path("data")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes.windows(9).any(|window| window == b"Ariadne-8" || window == b"thread th");
        assert!(!found, "{} still holds what was erased", path.display());
    }
}
