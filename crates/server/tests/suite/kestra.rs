//! The Kestra door on a server in memory.

use crate::harness::*;
use axum::body::Body;
use serde_json::{Value as Json, json};

async fn create(server: &Server, path: &str) -> Answer {
    server.send(request("POST", &format!("/api/v1/main/executions/{path}")).body(Body::empty()).unwrap()).await
}

async fn search(server: &Server, query: &str) -> Json {
    server.get(&format!("/api/v1/main/executions/search?{query}")).await.expect(200).json
}

fn id(answer: &Answer) -> String {
    answer.json["id"].as_str().unwrap_or_else(|| panic!("no id in {}", answer.text)).to_owned()
}

const LOOP: &str = "
id: loop
namespace: shop
tasks:
  - id: each
    type: flow.ForEach
    values: ['a', 'b']
    tasks:
      - {id: say, type: debug.Return, format: '{{ taskrun.value }}'}
  - {id: never, type: log.Log, message: hi, runIf: 'false'}
";

#[tokio::test]
async fn an_execution_shows_its_task_runs() {
    let server = Server::start();
    server.push(LOOP).await.expect(200);
    let made = create(&server, "shop/loop?wait=true&labels=team:a:b").await.expect(200);
    let execution = &made.json;
    assert_eq!(execution["state"]["current"], "SUCCESS", "{}", made.text);
    assert_eq!(execution["url"], format!("/ui/main/executions/shop/loop/{}", id(&made)));
    let words: Vec<&str> =
        execution["state"]["histories"].as_array().unwrap().iter().map(|h| h["state"].as_str().unwrap()).collect();
    assert_eq!(words, ["CREATED", "RUNNING", "SUCCESS"]);
    let labels = execution["labels"].as_array().unwrap();
    for (key, value) in [("team", "a:b"), ("system.from", "api"), ("system.correlationId", &id(&made))] {
        assert!(labels.contains(&json!({"key": key, "value": value})), "{labels:?}");
    }
    let runs = execution["taskRunList"].as_array().unwrap();
    let shown: Vec<Json> =
        runs.iter().map(|run| json!([run["taskId"], run["value"], run["state"]["current"]])).collect();
    assert_eq!(
        json!(shown),
        json!([
            ["each", null, "SUCCESS"],
            ["say", "a", "SUCCESS"],
            ["say", "b", "SUCCESS"],
            ["never", null, "SKIPPED"]
        ])
    );
    assert_eq!(runs[1]["parentTaskRunId"], runs[0]["id"]);
    assert_eq!(runs[2]["iteration"], 1);
    assert_eq!(runs[2]["outputs"], json!({"value": "b"}));
    assert_eq!(runs[2]["attempts"][0]["state"]["current"], "SUCCESS");
    assert_eq!(server.get(&format!("/api/v1/executions/{}", id(&made))).await.expect(200).json["id"], id(&made));
}

#[tokio::test]
async fn searches_find_by_filters_and_by_the_older_parameters() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    server.push(FAILS).await.expect(200);
    let good =
        create(&server, "shop/echo?wait=true&labels=system.correlationId:order-1&labels=team:red").await.expect(200);
    server.advance(1);
    let bad = create(&server, "shop/fails?wait=true").await.expect(200);
    assert_eq!(bad.json["state"]["current"], "FAILED", "{}", bad.text);
    for (query, expected) in [
        ("", vec![&bad, &good]),
        ("sort=state.startDate:asc&sort=flowId:asc", vec![&good, &bad]),
        ("filters[state][IN]=SUCCESS", vec![&good]),
        ("filters%5Bstate%5D%5BNOT_IN%5D=SUCCESS,RUNNING", vec![&bad]),
        ("filters[labels][EQUALS][system.correlationId]=order-1&filters[namespace][EQUALS]=shop", vec![&good]),
        ("filters[labels][EQUALS][team]=red&filters[labels][EQUALS][x]=y", vec![]),
        ("filters[labels][NOT_EQUALS][team]=red", vec![&bad]),
        ("filters[flowId][REGEX]=^f.*s$", vec![&bad]),
        ("filters[namespace][PREFIX]=sho", vec![]),
        ("filters[namespace][CONTAINS]=ho", vec![&bad, &good]),
        ("filters[q][EQUALS]=ECH", vec![&good]),
        ("filters[timeRange][EQUALS]=PT1H", vec![&bad, &good]),
        ("filters[childFilter][EQUALS]=CHILD", vec![]),
        ("filters[scope][EQUALS]=SYSTEM", vec![]),
        ("state=FAILED&state=KILLED", vec![&bad]),
        ("namespace=shop&flowId=echo&labels=team:red", vec![&good]),
    ] {
        let found = search(&server, query).await;
        let ids: Vec<&str> = found["results"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
        let expected: Vec<String> = expected.into_iter().map(id).collect();
        assert_eq!(ids, expected, "{query}");
        assert_eq!(found["total"], expected.len(), "{query}");
    }
    let none = server.get("/api/v1/main/executions/search?filters[state][IN]=PAUSED&size=1").await;
    assert!(none.text.contains("\"total\":0"), "{}", none.text);
    let page = search(&server, "size=1&page=2").await;
    assert_eq!((&page["total"], &page["results"][0]["id"]), (&json!(2), &json!(id(&good))));
    for (query, status) in [("page=0", 422), ("size=0", 422), ("sort=x", 422), ("filters[state][REGEX]=x", 400)] {
        assert_eq!(server.get(&format!("/api/v1/main/executions/search?{query}")).await.status, status, "{query}");
    }
    let list = server.get("/api/v1/main/executions?namespace=shop&flowId=echo").await.expect(200);
    assert_eq!(list.json["total"], 1);
    let latest =
        server.json("POST", "/api/v1/main/executions/latest", json!([{"namespace": "shop", "id": "echo"}])).await;
    assert_eq!(latest.expect(200).json[0]["id"], id(&good));
}

#[tokio::test]
async fn executions_are_acted_on_one_by_one_and_together() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.hold_effects();
    let one = id(&create(&server, "shop/call").await.expect(200));
    let two = id(&create(&server, "shop/call").await.expect(200));
    let at = |rest: &str| format!("/api/v1/main/executions/{rest}");
    let bulk = server.json("DELETE", &at("kill/by-ids"), json!([one, "nonsense"])).await.refused(400, "bulk_invalid");
    assert_eq!(bulk.json["invalids"][0]["invalidValue"], "nonsense");
    server.json("DELETE", &at(&format!("{one}/kill")), Json::Null).await.expect(202);
    let killed = server.json("DELETE", &at("kill/by-query?filters[flowId][EQUALS]=call"), Json::Null).await.expect(200);
    assert!(killed.json["count"].as_u64().unwrap() >= 1, "{}", killed.text);
    server.release_effects();
    for run in [&one, &two] {
        server.ended("main", run).await;
    }
    server.json("DELETE", &at(&format!("{one}/kill")), Json::Null).await.refused(409, "not_possible");
    let gone = server.json("DELETE", &at("by-ids"), json!([one, two])).await;
    assert!(gone.status == 200 || gone.status == 409 || gone.status == 400, "{}", gone.text);
    server.get(&at("00000000-0000-7000-8000-000000000000")).await.refused(404, "run_unknown");
}

#[tokio::test]
async fn a_follower_gets_start_and_end_and_an_expression_is_read_in_the_light_of_the_run() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let made = create(&server, "shop/echo?wait=true").await.expect(200);
    let followed = server.get(&format!("/api/v1/main/executions/{}/follow", id(&made))).await.expect(200);
    assert!(followed.text.starts_with("id: start\n"), "{}", followed.text);
    assert!(followed.text.contains("id: end\n") && followed.text.contains("\"SUCCESS\""), "{}", followed.text);
    let eval = |rest: String, text: &'static str| {
        let path = format!("/api/v1/main/executions/{}/eval{rest}", id(&made));
        server.send(request("POST", &path).body(Body::from(text)).unwrap())
    };
    assert_eq!(eval(String::new(), "{{ outputs.say.value }}").await.expect(200).json, json!({"result": "1"}));
    assert!(eval(String::new(), "{{ nothing }}").await.expect(200).json["error"].is_string());
    let task_run = made.json["taskRunList"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(eval(format!("/{task_run}"), "{{ task.id }}").await.expect(200).json, json!({"result": "say"}));
    let hook = server.get("/api/v1/main/executions/webhook/shop/echo/wrong").await.refused(404, "webhook_unknown");
    assert_eq!(hook.json["message"], "Not Found: Webhook not found");
    // Also what no expression of the flow reads can be asked for.
    let quiet = "id: quiet\nnamespace: shop\ntasks:\n  - {id: say, type: debug.Return, format: unread}\n";
    server.push(quiet).await.expect(200);
    let made = create(&server, "shop/quiet?wait=true").await.expect(200);
    let path = format!("/api/v1/main/executions/{}/eval", id(&made));
    let asked = server.send(request("POST", &path).body(Body::from("{{ outputs.say.value }}")).unwrap()).await;
    assert_eq!(asked.expect(200).json, json!({"result": "unread"}));
}

#[tokio::test]
async fn inputs_come_as_a_form_and_are_checked() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let form = |path: &str, amount: &str| {
        let body = format!(
            "--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n{amount}\r\n--b\r\nContent-Disposition: form-data; name=\"else\"\r\n\r\nx\r\n--b--\r\n"
        );
        let request = request("POST", &format!("/api/v1/main/executions/shop/echo{path}"));
        server.send(request.header("content-type", "multipart/form-data; boundary=b").body(Body::from(body)).unwrap())
    };
    let made = form("?wait=true", "7").await.expect(200);
    assert_eq!((&made.json["inputs"], &made.json["outputs"]), (&json!({"amount": 7}), &json!({"said": "7"})));
    let wrong = form("", "many").await.refused(422, "input_invalid");
    assert!(wrong.json["message"].as_str().unwrap().starts_with("Invalid entity: "), "{}", wrong.text);
    let checked = form("/validate", "many").await.expect(200);
    assert_eq!(checked.json["inputs"][0]["input"]["id"], "amount");
    assert!(checked.json["inputs"][0]["errors"][0]["message"].is_string(), "{}", checked.text);
    assert_eq!(form("/validate", "3").await.expect(200).json["inputs"][0]["value"], 3);
}
