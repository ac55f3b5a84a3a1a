//! Tags, secrets, variables, schemas and event handlers of the Conductor door.

use crate::harness::*;
use axum::body::Body;
use semel_server::Role;
use serde_json::{Value as Json, json};

async fn workflow(server: &Server, name: &str, kind: &str, input: Json) {
    let task = json!({"name": "t", "taskReferenceName": "t", "type": kind, "inputParameters": input});
    let definition = json!({"name": name, "version": 1, "tasks": [task], "outputParameters": {"said": "${t.output}"}});
    server.json("POST", "/api/metadata/workflow", definition).await.expect(200);
}

async fn raw(server: &Server, method: &str, path: &str, body: &'static str) -> Answer {
    server.send(request(method, path).body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn tags_are_added_replaced_and_removed() {
    let server = Server::start();
    workflow(&server, "w", "NOOP", json!({})).await;
    server.json("POST", "/api/metadata/taskdefs", json!([{"name": "job"}])).await.expect(200);
    let tag = |key: &str, value: &str| json!({"key": key, "value": value, "type": "METADATA"});
    for base in ["/api/metadata/workflow/w/tags", "/api/metadata/task/job/tags"] {
        assert_eq!(server.get(base).await.expect(200).json, json!([]));
        server.json("POST", base, tag("a", "1")).await.expect(200);
        server.json("PUT", base, json!([tag("b", "2"), tag("c", "3"), tag("a", "1")])).await.expect(200);
        server.json("DELETE", base, tag("b", "2")).await.expect(200);
        assert_eq!(server.get(base).await.json, json!([tag("a", "1"), tag("c", "3")]));
        server.json("PUT", base, json!([tag("z", "9")])).await.expect(200);
        assert_eq!(server.get(base).await.json, json!([tag("z", "9")]));
    }
    assert_eq!(server.get("/api/metadata/tags").await.json, json!([tag("z", "9")]));
    for unknown in ["/api/metadata/workflow/nothing/tags", "/api/metadata/task/nothing/tags"] {
        server.get(unknown).await.expect(404);
        server.json("POST", unknown, tag("a", "1")).await.expect(404);
    }
    server.json("POST", "/api/metadata/workflow/w/tags", json!({"value": "x"})).await.expect(400);
}

#[tokio::test]
async fn a_limit_of_its_own_address_is_a_tag() {
    let server = Server::start();
    workflow(&server, "limited", "NOOP", json!({})).await;
    let address = "/api/metadata/workflow/limited/rate-limit";
    server.get(address).await.expect(404);
    server.json("PUT", address, json!({"concurrentExecLimit": 10, "rateLimitKey": "mine"})).await.expect(200);
    assert_eq!(server.get(address).await.expect(200).json, json!({"concurrentExecLimit": 10, "rateLimitKey": "mine"}));
    server.json("PUT", address, json!({"concurrentExecLimit": 3})).await.expect(200);
    let tags = server.get("/api/metadata/workflow/limited/tags").await.expect(200).json;
    assert_eq!(tags, json!([{"key": "limited", "type": "RATE_LIMIT", "value": 3}]));
    server.json("PUT", address, json!({"concurrentExecLimit": 0})).await.expect(400);
    server
        .json("PUT", address, json!({"concurrentExecLimit": 3, "rateLimitKey": "${workflow.input.x}"}))
        .await
        .expect(400);
    server.json("DELETE", address, json!({})).await.expect(200);
    server.get(address).await.expect(404);
    server.json("PUT", "/api/metadata/workflow/nobody/rate-limit", json!({"concurrentExecLimit": 1})).await.expect(404);
}

#[tokio::test]
async fn a_rate_limit_tag_limits() {
    let server = Server::start();
    workflow(&server, "w", "WAIT", json!({})).await;
    let start = async || server.json("POST", "/api/workflow", json!({"name": "w"})).await.expect(200).text;
    let free = start().await;
    let tag = json!({"key": "w", "value": 1, "type": "RATE_LIMIT"});
    server.json("POST", "/api/metadata/workflow/w/tags", tag.clone()).await.expect(200);
    assert_eq!(server.get("/api/metadata/workflow/w/tags").await.json, json!([tag]));
    let (first, second) = (start().await, start().await);
    let state = async |id: &str| server.get(&format!("/v1/runs/{id}")).await.expect(200).json["status"].clone();
    assert_ne!(state(&first).await, "queued");
    assert_eq!(state(&second).await, "queued", "one at once");
    server.json("POST", &format!("/api/tasks/{first}/t/COMPLETED"), json!({})).await.expect(200);
    server.ended("main", &first).await;
    // Its turn has come; whoever lets it begin does so after the end of the first is known.
    for _ in 0..1_000 {
        if state(&second).await != "queued" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_ne!(state(&second).await, "queued");
    server.json("DELETE", "/api/metadata/workflow/w/tags", tag).await.expect(200);
    let (third, fourth) = (start().await, start().await);
    assert!(state(&third).await != "queued" && state(&fourth).await != "queued", "nothing limits any more");
    assert_ne!(state(&free).await, "queued");
    let wrong = json!({"key": "w", "value": "many", "type": "RATE_LIMIT"});
    server.json("POST", "/api/metadata/workflow/w/tags", wrong).await.expect(400);
}

#[tokio::test]
async fn secrets_are_semel_s_own() {
    let server = Server::start();
    // As one client sends a text, and as another does.
    raw(&server, "PUT", "/api/secrets/PLAIN", "it's \\\"so\\\"").await.expect(200);
    raw(&server, "PUT", "/api/secrets/QUOTED", "\"hunter2\"").await.expect(200);
    let plain = server.get("/api/secrets/PLAIN").await.expect(200);
    assert_eq!(plain.text, "it's \"so\"");
    assert_eq!(plain.headers["content-type"], "text/plain;charset=UTF-8");
    assert_eq!(server.get("/api/secrets/QUOTED").await.expect(200).text, "hunter2");
    assert_eq!(server.json("POST", "/api/secrets", json!({})).await.expect(200).json, json!(["PLAIN", "QUOTED"]));
    assert_eq!(server.get("/api/secrets").await.expect(200).json, json!(["PLAIN", "QUOTED"]));
    assert_eq!(server.get("/api/secrets/PLAIN/exists").await.expect(200).json, true);
    assert_eq!(server.get("/v1/secrets").await.json["items"].as_array().unwrap().len(), 2);
    let tag = json!({"key": "env", "value": "test", "type": "METADATA"});
    server.json("PUT", "/api/secrets/PLAIN/tags", json!([tag])).await.expect(200);
    let listed = server.get("/api/secrets-v2").await.expect(200).json;
    assert_eq!(listed[0], json!({"name": "PLAIN", "tags": [tag]}));
    server.json("DELETE", "/api/secrets/PLAIN/tags", json!([tag])).await.expect(200);
    assert_eq!(server.get("/api/secrets/PLAIN/tags").await.json, json!([]));
    raw(&server, "DELETE", "/api/secrets/PLAIN", "{}").await.expect(200);
    assert_eq!(server.get("/api/secrets/PLAIN/exists").await.json, false);
    for gone in ["/api/secrets/PLAIN", "/api/secrets/PLAIN/tags"] {
        server.get(gone).await.expect(404);
    }
    let bad = raw(&server, "PUT", "/api/secrets/a.b", "x").await.expect(400);
    assert!(bad.json["message"].as_str().unwrap().contains("is not a secret name"), "{}", bad.text);
}

#[tokio::test]
async fn the_value_of_a_secret_is_for_admins() {
    let server = Server::with_tokens();
    let as_role = async |role: Role, method: &str, path: &str| {
        let request = request(method, path).header("x-authorization", server.token("main", role, None));
        server.send(request.body(Body::from("value")).unwrap()).await
    };
    as_role(Role::Author, "PUT", "/api/secrets/S").await.expect(403);
    as_role(Role::Admin, "PUT", "/api/secrets/S").await.expect(200);
    let refused = as_role(Role::Author, "GET", "/api/secrets/S").await.expect(403);
    assert!(!refused.text.contains("value\""));
    assert_eq!(as_role(Role::Admin, "GET", "/api/secrets/S").await.expect(200).text, "value");
    as_role(Role::Author, "GET", "/api/secrets/S/exists").await.expect(200);
}

#[tokio::test]
async fn workflows_read_variables() {
    let server = Server::start();
    workflow(&server, "w", "SET_VARIABLE", json!({"x": "at ${workflow.env.REGION}"})).await;
    raw(&server, "PUT", "/api/environment/REGION", "eu").await.expect(200);
    assert_eq!(server.get("/api/environment/REGION").await.expect(200).text, "eu");
    let listed = server.get("/api/environment").await.expect(200).json;
    assert_eq!(listed, json!([{"name": "REGION", "value": "eu", "tags": []}]));
    let start = async || {
        let run = server.json("POST", "/api/workflow", json!({"name": "w"})).await.expect(200).text;
        server.ended("main", &run).await;
        server.get(&format!("/api/workflow/{run}")).await.json["variables"]["x"].clone()
    };
    assert_eq!(start().await, "at eu");
    raw(&server, "PUT", "/api/environment/REGION", "us").await.expect(200);
    assert_eq!(start().await, "at us");
    raw(&server, "DELETE", "/api/environment/REGION", "").await.expect(200);
    server.get("/api/environment/REGION").await.expect(404);
    assert_eq!(start().await, "at null");
    raw(&server, "PUT", "/api/environment/a%20b", "x").await.expect(400);
}

#[tokio::test]
async fn schemas_have_versions() {
    let server = Server::start();
    let schema = |data: Json| json!([{"name": "s", "version": 1, "type": "JSON", "data": data}]);
    server.json("POST", "/api/schema", schema(json!({"type": "object"}))).await.expect(200);
    server.json("POST", "/api/schema?newVersion=True", schema(json!({"type": "array"}))).await.expect(200);
    assert_eq!(server.get("/api/schema/s/1").await.expect(200).json["data"]["type"], "object");
    let newest = server.get("/api/schema/s").await.expect(200).json;
    assert_eq!((&newest["version"], &newest["data"]["type"]), (&json!(2), &json!("array")));
    let short = server.get("/api/schema?short=true").await.expect(200).json;
    assert_eq!(
        short,
        json!([{"name": "s", "version": 1, "type": "JSON"}, {"name": "s", "version": 2, "type": "JSON"}])
    );
    raw(&server, "DELETE", "/api/schema/s/2", "").await.expect(200);
    server.get("/api/schema/s/2").await.expect(404);
    raw(&server, "DELETE", "/api/schema/s", "").await.expect(200);
    for gone in ["/api/schema/s", "/api/schema/s/1"] {
        server.get(gone).await.expect(404);
        raw(&server, "DELETE", gone, "").await.expect(404);
    }
    server.json("POST", "/api/schema", json!({"name": "", "type": "JSON"})).await.expect(400);
    server.json("POST", "/api/schema", json!({"name": "x", "type": "XML"})).await.expect(400);
}

#[tokio::test]
async fn event_handlers_are_kept_by_name() {
    let server = Server::start();
    let handler = |active: bool| {
        let action = json!({"action": "start_workflow", "start_workflow": {"name": "w"}});
        json!({"name": "h", "event": "conductor:x:y", "active": active, "actions": [action]})
    };
    server.json("POST", "/api/event", handler(true)).await.expect(200);
    server.json("POST", "/api/event", json!([handler(true)])).await.expect(409);
    assert_eq!(server.get("/api/event/conductor:x:y").await.expect(200).json[0]["name"], "h");
    server.json("PUT", "/api/event", handler(false)).await.expect(200);
    assert_eq!(server.get("/api/event/conductor:x:y").await.json, json!([]), "it is not active");
    assert_eq!(server.get("/api/event/conductor:x:y?activeOnly=false").await.json.as_array().unwrap().len(), 1);
    assert_eq!(server.get("/api/event/handler/h").await.expect(200).json["active"], false);
    assert_eq!(server.get("/api/event").await.expect(200).json.as_array().unwrap().len(), 1);
    raw(&server, "DELETE", "/api/event/h", "{}").await.expect(200);
    server.get("/api/event/handler/h").await.expect(404);
    server.json("PUT", "/api/event", handler(true)).await.expect(404);
    let mut wrong = handler(true);
    wrong["actions"] = json!([{"action": "dance"}]);
    server.json("POST", "/api/event", wrong).await.expect(400);
}

#[tokio::test]
async fn a_person_takes_a_task_alone_and_completes_it() {
    let server = Server::start();
    let definition = json!({"displayName": "Please look", "assignments": [
        {"assignee": {"user": "ada", "userType": "EXTERNAL_USER"}, "slaMinutes": 5},
        {"assignee": {"user": "bob", "userType": "EXTERNAL_USER"}}],
        "userFormTemplate": {"name": "form", "version": 1}});
    workflow(&server, "w", "HUMAN", json!({"order": 7, "__humanTaskDefinition": definition})).await;
    let run = server.json("POST", "/api/workflow", json!({"name": "w"})).await.expect(200).text;
    let search = async |body: Json| {
        let found = server.json("POST", "/api/human/tasks/search", body).await.expect(200).json;
        found["results"].as_array().unwrap().clone()
    };
    let mut found = Vec::new();
    for _ in 0..200 {
        found = search(json!({"states": ["ASSIGNED"], "workflowNames": ["w"]})).await;
        if !found.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!((&found[0]["assignee"]["user"], &found[0]["taskRefName"]), (&json!("ada"), &json!("t")));
    assert_eq!((&found[0]["workflowId"], &found[0]["displayName"]), (&json!(run), &json!("Please look")));
    let id = found[0]["taskId"].as_str().unwrap();
    let task = |rest: &str| format!("/api/human/tasks/{id}{rest}");
    let form = json!({"name": "form", "version": 1, "jsonSchema": {}, "templateUI": {"kind": "x"}});
    server.json("POST", "/api/human/template", form).await.expect(200);
    assert_eq!(server.get("/api/human/template/form/1").await.expect(200).json["templateUI"]["kind"], "x");
    server.json("POST", &task("/externalUser/eve"), json!({})).await.expect(409);
    let claimed = server.json("POST", &task("/externalUser/ada?withTemplate=true"), json!({})).await.expect(200).json;
    assert_eq!((&claimed["state"], &claimed["claimant"]["user"]), (&json!("IN_PROGRESS"), &json!("ada")));
    assert_eq!(claimed["humanTaskDef"]["fullTemplate"]["name"], "form");
    server.json("POST", &task("/externalUser/ada"), json!({})).await.expect(200);
    server.json("POST", &task("/skip"), json!({})).await.expect(200);
    server.json("POST", &task("/externalUser/bob"), json!({})).await.expect(200);
    server.json("POST", &task("/skip"), json!({})).await.expect(409);
    server.json("POST", &task("/release"), json!({})).await.expect(200);
    assert_eq!(server.get(&task("")).await.expect(200).json["state"], "ASSIGNED");
    let other = json!([{"assignee": {"user": "eve", "userType": "EXTERNAL_USER"}}]);
    server.json("POST", &task("/reassign"), other).await.expect(200);
    assert_eq!(search(json!({"assignees": [{"user": "eve", "userType": "EXTERNAL_USER"}]})).await.len(), 1);
    server.json("POST", &task("/update?complete=false"), json!({"seen": true})).await.expect(200);
    assert_eq!(server.get(&task("")).await.expect(200).json["output"]["seen"], true);
    server.json("POST", &task("/update?complete=true"), json!({"good": "yes"})).await.expect(200);
    server.ended("main", &run).await;
    let ended = server.get(&format!("/api/workflow/{run}")).await.expect(200).json;
    assert_eq!(ended["output"]["said"]["good"], "yes");
    assert_eq!(ended["output"]["said"]["seen"], true);
    assert_eq!(server.get(&task("")).await.expect(200).json["state"], "COMPLETED");
    assert_eq!(search(json!({"states": ["COMPLETED"]})).await.len(), 1);
    assert!(search(json!({"states": ["ASSIGNED", "PENDING", "IN_PROGRESS"]})).await.is_empty());
    server.json("POST", &task("/update?complete=true"), json!({})).await.expect(404);
    server.get("/api/human/tasks/nothing").await.expect(404);
    assert_eq!(server.get(&task("/conductorTask")).await.expect(200).json["status"], "COMPLETED");
    // Forgotten, and once more by a client that has not heard of it.
    for _ in 0..2 {
        server.json("DELETE", &format!("/api/human/tasks/delete/{id}"), json!({})).await.expect(200);
    }
    assert!(search(json!({"states": ["COMPLETED"]})).await.is_empty());
    server.get(&task("")).await.expect(404);
}

#[tokio::test]
async fn a_task_that_is_waited_for_is_not_deleted() {
    let server = Server::start();
    let definition = json!({"displayName": "Please look", "assignments": [{"assignee": {"user": "ada"}}]});
    workflow(&server, "w", "HUMAN", json!({"__humanTaskDefinition": definition})).await;
    let run = server.json("POST", "/api/workflow", json!({"name": "w"})).await.expect(200).text;
    let tasks = server.get(&format!("/api/workflow/{run}")).await.expect(200).json["tasks"].clone();
    let id = tasks[0]["taskId"].as_str().unwrap();
    let names = async |kind: &str| {
        let path = format!("/api/human/tasks/getTaskDisplayNames?searchType={kind}");
        server.get(&path).await.expect(200).json
    };
    assert_eq!(names("ADMIN").await, json!(["Please look"]));
    assert_eq!(names("INBOX").await, json!([]), "it is for ada");
    server.get("/api/human/tasks/getTaskDisplayNames?searchType=ALL").await.expect(400);
    let refused = server.json("DELETE", &format!("/api/human/tasks/delete/{id}"), json!({})).await.expect(409);
    assert!(refused.json["message"].as_str().unwrap().contains(&run), "{}", refused.text);
    server.json("DELETE", "/api/human/tasks/delete", json!([id])).await.expect(409);
    server.json("DELETE", "/api/human/tasks/delete", json!(["nothing"])).await.expect(404);
    assert_eq!(server.get(&format!("/api/human/tasks/{id}")).await.expect(200).json["state"], "ASSIGNED");
}

#[tokio::test]
async fn an_event_that_is_sent_is_acted_on_and_can_be_read() {
    let server = Server::start();
    workflow(&server, "down", "NOOP", json!({})).await;
    let action = json!({"action": "start_workflow", "start_workflow": {"name": "down", "input": {"of": "${order}"}}});
    let handler = json!({"name": "h", "event": "order paid", "active": true, "actions": [action]});
    server.json("POST", "/api/event", handler).await.expect(200);
    server
        .json("POST", "/api/event", json!({"name": "later", "event": "e", "active": true, "actions": []}))
        .await
        .expect(200);
    assert_eq!(server.get("/api/event/handler/h").await.json["createdBy"], "app:dev");
    server.json("POST", "/api/event/handleIncomingEvent", json!({})).await.expect(400);
    let send = async || {
        let body = json!({"event": "order paid", "order": 7}).to_string();
        let request = request("POST", "/api/event/handleIncomingEvent").header("x-idempotency-key", "k1");
        server.send(request.body(Body::from(body)).unwrap()).await.expect(200);
        server.engine.hear_events().await.unwrap();
    };
    send().await;
    send().await;
    let executions = server.get("/api/event/execution/h").await.expect(200).json;
    let first = &executions[0];
    assert_eq!(
        (&first["name"], &first["event"], &first["status"]),
        (&json!("h"), &json!("order paid"), &json!("COMPLETED"))
    );
    assert_eq!((&first["action"], first["created"].is_u64()), (&json!("start_workflow"), true));
    let started = server.get("/api/workflow/search?query=workflowType%3Ddown").await.expect(200).json;
    assert_eq!(started["totalHits"], 1, "sent again, it is the same event");
    assert_eq!(started["results"][0]["workflowId"], first["output"]["workflowId"]);
    let messages = server.get("/api/event/message/order%20paid?from=0").await.expect(200).json;
    assert_eq!((&messages[0]["eventTarget"], &messages[0]["fullPayload"]["order"]), (&json!("order paid"), &json!(7)));
    let overview = server.get("/api/event/execution").await.expect(200).json;
    assert_eq!((&overview["totalHits"], &overview["results"][0]["numberOfActions"]), (&json!(2), &json!(1)));
    assert_eq!(server.get("/api/event/message?from=0").await.expect(200).json["results"][0]["event"], "order paid");
    assert_eq!(server.get("/api/event/queue/config").await.expect(200).json, json!({}));
    server.get("/api/event/queue/config/kafka/q").await.expect(404);
    server.json("PUT", "/api/event/queue/config/kafka/q", json!("x")).await.expect(400);
    let reach = async |sink: &str| server.json("POST", "/api/event/queue/connectivity", json!({"sink": sink})).await;
    assert_eq!(reach("conductor:x").await.expect(200).json["successful"], true);
    assert_eq!(reach("kafka:x").await.expect(200).json["successful"], false);
    reach("").await.expect(400);
}
