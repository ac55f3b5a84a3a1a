//! Keys, secrets, logs and the rest at the Kestra door.

use crate::harness::*;
use axum::body::Body;
use semel_server::Role;
use serde_json::{Value as Json, json};

const KV: &str = "/api/v1/main/namespaces/company.team/kv";
const TALKS: &str = "id: talks
namespace: company.team
tasks:
  - {id: say, type: log.Log, message: Hello, level: INFO}
  - {id: warn, type: log.Log, message: careful, level: WARN}
";

async fn put(server: &Server, key: &str, body: &str, ttl: Option<&str>) -> Answer {
    let mut request = request("PUT", &format!("{KV}/{key}")).header("content-type", "text/plain");
    if let Some(ttl) = ttl {
        request = request.header("ttl", ttl);
    }
    server.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn values_have_types_and_an_end() {
    let server = Server::start();
    for (body, shown) in [
        ("\"hello\"", "\"type\":\"STRING\",\"value\":\"hello\""),
        ("1.0", "\"type\":\"NUMBER\",\"value\":1.0"),
        ("true", "\"type\":\"BOOLEAN\",\"value\":true"),
        ("2021-09-01", "\"type\":\"DATE\",\"value\":\"2021-09-01\""),
        ("2021-09-01T01:02:03Z", "\"type\":\"DATETIME\",\"value\":\"2021-09-01T01:02:03Z\""),
        ("\"PT5S\"", "\"type\":\"DURATION\",\"value\":\"PT5S\""),
        ("{\"a\":[1]}", "\"type\":\"JSON\",\"value\":{\"a\":[1]}"),
    ] {
        assert_eq!(put(&server, "k", body, None).await.expect(200).text, "");
        let got = server.get(&format!("{KV}/k")).await.expect(200);
        assert!(got.text.contains(shown), "{}", got.text);
    }
    assert_eq!(server.get(&format!("{KV}/k")).await.json["revision"], 7);
    put(&server, "k", "two words", None).await.refused(422, "illegal_argument");
    put(&server, "bad$key", "1", None).await.refused(422, "illegal_argument");
    put(&server, "k", "1", Some("soon")).await.refused(422, "illegal_argument");
    let missing = server.get(&format!("{KV}/none")).await.refused(404, "kv_unknown");
    assert_eq!(missing.json["message"], "Not Found: No value found for key 'none' in namespace 'company.team'");

    put(&server, "short", "1", Some("PT1M")).await.expect(200);
    let listed = server.get(KV).await.expect(200).json;
    assert_eq!(listed.as_array().unwrap().iter().map(|row| row["key"].clone()).collect::<Vec<_>>(), ["k", "short"]);
    assert!(listed[1]["expirationDate"].is_string(), "{listed}");
    server.advance(61_000);
    server.get(&format!("{KV}/short")).await.refused(410, "expired");
    assert_eq!(server.get(KV).await.expect(200).json.as_array().unwrap().len(), 1, "what is over is not listed");
    let below = server.get("/api/v1/main/namespaces/company.team.eu/kv/inheritance").await.expect(200).json;
    assert_eq!(below[0]["key"], "k");
    let all = server.get("/api/v1/main/kv?filters[q][EQUALS]=K").await.expect(200).json;
    assert_eq!((&all["total"], &all["results"][0]["namespace"]), (&json!(1), &json!("company.team")));

    let gone = server.json("DELETE", KV, json!({"keys": ["k", "none"]})).await.expect(200);
    assert_eq!(gone.text, "{\"keys\":[\"k\"]}");
    put(&server, "k", "1", None).await.expect(200);
    assert_eq!(server.json("DELETE", &format!("{KV}/k"), Json::Null).await.expect(200).text, "true");
    assert_eq!(server.json("DELETE", &format!("{KV}/k"), Json::Null).await.expect(200).text, "false");
}

#[tokio::test]
async fn viewers_see_neither_values_nor_texts() {
    let server = Server::with_tokens();
    let (admin, viewer) = (server.token("main", Role::Admin, None), server.token("main", Role::Viewer, None));
    let send = async |token: &str, method: &str, path: &str, body: &str| {
        let request = request(method, path).header("authorization", format!("Bearer {token}"));
        server.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    send(&admin, "PUT", &format!("{KV}/k"), "\"4111\"").await.expect(200);
    send(&admin, "POST", "/api/v1/main/flows", &TALKS.replace("Hello", "4111")).await.expect(200);
    for path in [
        &format!("{KV}/k"),
        "/api/v1/main/flows/company.team/talks?source=true",
        "/api/v1/main/flows/company.team/talks/graph",
        "/api/v1/main/flows/company.team/talks/revisions",
        "/api/v1/main/flows/source?q=4111",
    ] {
        let shown = send(&viewer, "GET", path, "").await.expect(200);
        assert!(!shown.text.contains("4111"), "{path}: {}", shown.text);
    }
    send(&viewer, "GET", "/api/v1/main/logs/search?q=x", "").await.refused(403, "forbidden");
}

#[tokio::test]
async fn lines_are_read_searched_and_removed() {
    let server = Server::start();
    server.push(TALKS).await.expect(200);
    let run = server.trigger_waiting("talks", None, json!({}), Some(20)).await.expect(200).run_id();
    let lines = server.get(&format!("/api/v1/main/logs/{run}")).await.expect(200).json;
    let shown: Vec<(&str, &str)> = lines
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["taskId"].as_str().unwrap(), line["message"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [("say", "Hello"), ("warn", "careful")]);
    let execution = server.get(&format!("/api/v1/main/executions/{run}")).await.expect(200).json;
    assert_eq!(lines[0]["taskRunId"], execution["taskRunList"][0]["id"]);
    let urgent = server.get(&format!("/api/v1/main/logs/{run}?minLevel=WARN")).await.expect(200).json;
    assert_eq!(urgent.as_array().unwrap().len(), 1);
    let of_task = server.get(&format!("/api/v1/main/logs/{run}?taskId=say")).await.expect(200).json;
    assert_eq!(of_task[0]["level"], "INFO");
    let file = server.get(&format!("/api/v1/main/logs/{run}/download")).await.expect(200);
    assert!(file.text.ends_with("WARN careful\n"), "{}", file.text);
    let told = server.get(&format!("/api/v1/main/logs/{run}/follow?minLevel=WARN")).await.expect(200);
    let ids: Vec<&str> = told.text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!(ids, ["start", "progress", "end"], "{}", told.text);
    for (query, total) in [
        ("", 2),
        ("filters[q][EQUALS]=HELLO", 1),
        ("filters[level][EQUALS]=WARN", 1),
        ("filters[namespace][PREFIX]=company&filters[flowId][EQUALS]=talks", 2),
        ("filters[namespace][EQUALS]=other", 0),
        ("filters[triggerId][EQUALS]=x", 0),
        ("minLevel=ERROR", 0),
        ("namespace=company&size=1", 2),
    ] {
        let found = server.get(&format!("/api/v1/main/logs/search?{query}")).await.expect(200);
        assert_eq!(found.json["total"], total, "{query}: {}", found.text);
    }
    for (query, total) in [
        ("filters[scope][EQUALS]=SYSTEM", 0),
        ("filters[scope][EQUALS]=USER&filters[level][NOT_EQUALS]=WARN", 1),
        ("filters[timeRange][EQUALS]=PT1H", 2),
        ("filters[endDate][LESS_THAN]=2020-01-01T00:00:00Z", 0),
        ("timeRange=PT1H&scope=SYSTEM", 0),
    ] {
        let found = server.get(&format!("/api/v1/main/logs/search?{query}")).await.expect(200);
        assert_eq!(found.json["total"], total, "{query}: {}", found.text);
    }
    for query in ["filters[q][NOT_EQUALS]=x", "filters[level][EQUALS]=LOUD", "filters[scope][EQUALS]=MINE"] {
        server.get(&format!("/api/v1/main/logs/search?{query}")).await.refused(400, "filter_invalid");
    }
    for (attempt, count) in [(0, 2), (1, 0)] {
        let lines = server.get(&format!("/api/v1/main/logs/{run}?attempt={attempt}")).await.expect(200).json;
        assert_eq!(lines.as_array().unwrap().len(), count, "attempt {attempt}");
    }
    server
        .json("DELETE", &format!("/api/v1/main/logs/{run}?taskId=say"), Json::Null)
        .await
        .refused(422, "illegal_argument");
    server.json("DELETE", &format!("/api/v1/main/logs/{run}"), Json::Null).await.expect(200);
    assert_eq!(server.get(&format!("/api/v1/main/logs/{run}")).await.expect(200).json, json!([]));
    let nobody = "01890000-0000-7000-8000-000000000000";
    server.get(&format!("/api/v1/main/logs/{nobody}")).await.refused(404, "run_unknown");
}

#[tokio::test]
async fn names_of_secrets_are_listed_and_nothing_else() {
    let server = Server::start();
    server.json("PUT", "/v1/secrets/API_TOKEN", json!({"value": "hunter2hunter2"})).await.expect(200);
    for path in ["/api/v1/main/secrets", "/api/v1/main/namespaces/company.team/secrets?q=api"] {
        let shown = server.get(path).await.expect(200);
        assert_eq!(shown.json, json!({"readOnly": true, "results": [{"key": "API_TOKEN"}], "total": 1}));
    }
    let inherited = server.get("/api/v1/main/namespaces/company.team/inherited-secrets").await.expect(200).json;
    assert_eq!(inherited, json!({"company.team": ["API_TOKEN"]}));
}

#[tokio::test]
async fn namespaces_schedules_and_slots_are_shown() {
    let server = Server::start();
    let flow = "id: nightly\nnamespace: company.team\nconcurrency: {limit: 1}\ntriggers:\n  - {id: tick, type: io.kestra.plugin.core.trigger.Schedule, cron: '0 0 * * *'}\ntasks:\n  - {id: pay, type: http.Request, uri: 'https://pay.example/', method: POST}\n";
    server.push(flow).await.expect(200);
    let names = server.get("/api/v1/main/namespaces/search").await.expect(200).json;
    let ids: Vec<&str> = names["results"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["company", "company.team", "system"]);
    let found = server.get("/api/v1/main/triggers/search?filters[triggerId][EQUALS]=tick").await.expect(200).json;
    assert_eq!((&found["total"], &found["results"][0]["abstractTrigger"]["cron"]), (&json!(1), &json!("0 0 * * *")));
    assert!(found["results"][0]["triggerContext"]["nextExecutionDate"].is_string(), "{found}");
    let of_flow = server.get("/api/v1/main/triggers/company.team/nightly").await.expect(200).json;
    assert_eq!(of_flow["results"][0]["triggerId"], "tick");
    let named = json!({"namespace": "company.team", "flowId": "nightly", "triggerId": "tick"});
    let with = |more: Json| {
        let mut body = named.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let off = server.json("PUT", "/api/v1/main/triggers", with(json!({"disabled": true}))).await.expect(200).json;
    assert_eq!(off["disabled"], true);
    for (query, total) in [
        ("filters[triggerState][EQUALS]=DISABLED", 1),
        ("filters[triggerState][NOT_EQUALS]=disabled", 0),
        ("filters[workerId][EQUALS]=w", 0),
        ("filters[startDate][GREATER_THAN]=2020-01-01T00:00:00Z", 0),
        ("workerId=w", 0),
        ("filters[scope][EQUALS]=USER&filters[q][EQUALS]=tick", 1),
        ("filters[q][NOT_EQUALS]=tick", 0),
    ] {
        let found = server.get(&format!("/api/v1/main/triggers/search?{query}")).await.expect(200).json;
        assert_eq!(found["total"], total, "{query}: {found}");
    }
    server.get("/api/v1/main/triggers/search?filters[triggerState][EQUALS]=x").await.refused(400, "filter_invalid");
    assert_eq!(server.get("/api/v1/main/triggers/company.team/nightly?q=none").await.expect(200).json["total"], 0);
    let on = json!({"triggers": [named], "disabled": false});
    assert_eq!(
        server.json("POST", "/api/v1/main/triggers/set-disabled/by-triggers", on).await.expect(200).json["count"],
        1
    );
    let wanted = json!({"backfill": {"start": "2025-12-01T00:00:00Z", "end": "2025-12-03T00:00:00Z", "paused": true}});
    let filled = server.json("PUT", "/api/v1/main/triggers", with(wanted)).await.expect(200).json;
    assert_eq!(filled["backfill"]["paused"], true, "{filled}");
    server.json("PUT", "/api/v1/main/triggers/backfill/unpause", named.clone()).await.expect(200);
    let ended = server.json("POST", "/api/v1/main/triggers/backfill/delete/by-query", json!({})).await.expect(200);
    assert_eq!(ended.json["count"], 1);
    server.json("POST", "/api/v1/main/triggers/backfill/delete", named.clone()).await.refused(409, "not_possible");
    server
        .json("POST", "/api/v1/main/triggers/company.team/nightly/tick/unlock", json!({}))
        .await
        .refused(409, "not_possible");
    server.json("POST", "/api/v1/main/triggers/company.team/nightly/tick/restart", json!({})).await.expect(200);
    server.json("PUT", "/api/v1/main/triggers", with(json!({"disabled": true}))).await.expect(200);
    server.json("DELETE", "/api/v1/main/triggers/company.team/nightly/tick", Json::Null).await.expect(204);
    let anew = server.get("/api/v1/main/triggers/company.team/nightly").await.expect(200).json;
    assert_eq!(anew["results"][0]["disabled"], false, "what is forgotten begins anew: {anew}");
    let gone = server.json("DELETE", "/api/v1/main/triggers/delete/by-triggers", json!([named])).await.expect(200);
    assert_eq!(gone.json["count"], 1);
    server
        .json("DELETE", "/api/v1/main/triggers/company.team/nightly/none", Json::Null)
        .await
        .refused(404, "flow_unknown");
    server
        .json("PUT", "/api/v1/main/triggers", with(json!({"triggerId": "none", "disabled": true})))
        .await
        .refused(404, "flow_unknown");
    server.hold_effects();
    server.trigger("nightly", None, json!({})).await.expect(200);
    let slots = server.get("/api/v1/main/concurrency-limit/search").await.expect(200).json;
    assert_eq!(slots["results"][0]["running"], 1, "{slots}");
    let path = "/api/v1/main/concurrency-limit/company.team/nightly";
    server.json("PUT", path, json!({"running": 1})).await.expect(200);
    server.json("PUT", path, json!({"running": 0})).await.refused(409, "not_possible");
    let run = "0197aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee";
    let metrics = server.get(&format!("/api/v1/main/metrics/{run}?sort=name:asc&size=100")).await.expect(200);
    assert_eq!(metrics.text, "{\"results\":[],\"total\":0}");
    assert_eq!(server.get("/api/v1/metrics/names/company.team/nightly").await.expect(200).json, json!([]));
    assert_eq!(server.get("/api/v1/executions/namespaces").await.expect(200).json, json!(["company.team"]));
    let flows = server.get("/api/v1/main/executions/namespaces/company.team/flows").await.expect(200).json;
    assert_eq!((&flows[0]["id"], flows[0]["tasks"][0].get("uri")), (&json!("nightly"), None));
    assert_eq!(server.get("/api/v1/configs").await.expect(200).json["edition"], "OSS");
}
