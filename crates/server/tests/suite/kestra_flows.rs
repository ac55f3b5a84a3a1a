//! Flows at the Kestra door.

use crate::harness::*;
use axum::body::Body;
use serde_json::{Value as Json, json};

const PAY: &str = "id: pay
namespace: company.team
labels:
  team: a
tasks:
  - id: say
    type: io.kestra.plugin.core.log.Log
    message: hi
";

async fn yaml(server: &Server, method: &str, path: &str, text: &str) -> Answer {
    let request = request(method, path).header("content-type", "application/x-yaml");
    server.send(request.body(Body::from(text.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_flow_is_created_changed_deleted_and_brought_back() {
    let server = Server::start();
    let created = yaml(&server, "POST", "/api/v1/main/flows", PAY).await.expect(200).json;
    assert_eq!((&created["id"], &created["revision"], &created["source"]), (&json!("pay"), &json!(1), &json!(PAY)));
    assert_eq!(created["labels"], json!([{"key": "team", "value": "a"}]));
    let again = yaml(&server, "POST", "/api/v1/main/flows", PAY).await.refused(422, "flow_invalid");
    assert_eq!(again.json["message"], "Invalid entity: flow.id: Flow id already exists");
    assert_eq!(again.json["_embedded"]["errors"][0]["path"], "flow.id");

    let one = "/api/v1/main/flows/company.team/pay";
    assert_eq!(
        yaml(&server, "PUT", one, PAY).await.expect(200).json["revision"],
        1,
        "an identical text is no revision"
    );
    let changed = PAY.replace("hi", "bye");
    assert_eq!(yaml(&server, "PUT", one, &changed).await.expect(200).json["revision"], 2);
    let other = yaml(&server, "PUT", one, &PAY.replace("id: pay", "id: bill")).await.refused(422, "flow_invalid");
    assert!(other.json["message"].as_str().unwrap().contains("Illegal flow id update"), "{}", other.text);
    let moved = yaml(&server, "PUT", one, &PAY.replace("company.team", "company")).await.refused(422, "flow_invalid");
    assert!(moved.json["message"].as_str().unwrap().contains("Illegal namespace update"), "{}", moved.text);
    yaml(&server, "PUT", "/api/v1/main/flows/company.team/none", PAY).await.refused(404, "flow_unknown");

    assert_eq!(server.get(one).await.expect(200).json.get("source"), None);
    let first = server.get(&format!("{one}?revision=1&source=true")).await.expect(200).json;
    assert_eq!((&first["source"], &first["tasks"][0]["message"]), (&json!(PAY), &json!("hi")));
    assert_eq!(server.get("/api/v1/flows/company.team/pay").await.expect(200).json["revision"], 2, "no tenant is main");

    server.json("DELETE", one, Json::Null).await.expect(204);
    server.json("DELETE", one, Json::Null).await.refused(404, "flow_unknown");
    let missing = server.get(one).await.refused(404, "flow_unknown");
    assert_eq!(missing.json["message"], "Not Found: Requested Flow is not found.");
    let gone = server.get(&format!("{one}?allowDeleted=true")).await.expect(200).json;
    assert_eq!((&gone["deleted"], &gone["revision"]), (&json!(true), &json!(3)));
    server.trigger("company.team:pay", None, json!({})).await.refused(404, "flow_unknown");
    let back = yaml(&server, "POST", "/api/v1/main/flows", PAY).await.expect(200).json;
    assert_eq!((&back["revision"], &back["deleted"]), (&json!(4), &json!(false)));
    let revisions = server.get(&format!("{one}/revisions")).await.expect(200).json;
    let numbers: Vec<u64> = revisions.as_array().unwrap().iter().map(|row| row["revision"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_flow_with_a_mistake_is_refused_at_its_path() {
    let server = Server::start();
    let bad = PAY.replace("log.Log", "log.Lgo").replace("    message", "    mesage");
    let refused = yaml(&server, "POST", "/api/v1/main/flows", &bad).await.refused(422, "flow_invalid");
    let first = &refused.json["_embedded"]["errors"][0];
    assert_eq!(first["path"], "tasks[0].type");
    assert!(first["message"].as_str().unwrap().starts_with("Invalid type: io.kestra.plugin.core.log.Lgo"), "{first}");
    let text = format!("{PAY}---\n{bad}---\n{{");
    let judged = yaml(&server, "POST", "/api/v1/main/flows/validate", &text).await.expect(200).json;
    assert_eq!(judged.as_array().unwrap().len(), 3);
    assert_eq!((judged[0].get("constraints"), &judged[0]["flow"]), (None, &json!("pay")));
    assert!(judged[1]["constraints"].as_str().unwrap().contains("Invalid type"), "{judged}");
    assert_eq!(judged[2]["index"], 2);
}

#[tokio::test]
async fn flows_are_searched_listed_and_acted_on_together() {
    let server = Server::start();
    for (id, namespace) in [("a", "company.team"), ("b", "company.team"), ("c", "company"), ("d", "system")] {
        let text = PAY.replace("id: pay", &format!("id: {id}")).replace("company.team", namespace);
        yaml(&server, "POST", "/api/v1/main/flows", &text).await.expect(200);
    }
    let ids = async |query: &str| {
        let answer = server.get(&format!("/api/v1/main/flows/search?{query}")).await.expect(200);
        let rows = answer.json["results"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
        (rows.collect::<Vec<_>>().join(""), answer.json["total"].as_u64().unwrap())
    };
    assert_eq!(ids("").await, ("cabd".to_owned(), 4), "by namespace and id");
    assert_eq!(ids("size=1&page=2&sort=id:desc").await, ("c".to_owned(), 4));
    assert_eq!(ids("filters[namespace][PREFIX]=company").await, ("cab".to_owned(), 3));
    assert_eq!(ids("filters%5Bnamespace%5D%5BEQUALS%5D=company").await, ("c".to_owned(), 1));
    assert_eq!(ids("filters[scope][EQUALS]=SYSTEM").await, ("d".to_owned(), 1));
    assert_eq!(ids("filters[labels][EQUALS][team]=a&filters[flowId][IN]=a,c").await, ("ca".to_owned(), 2));
    assert_eq!(ids("namespace=company.team&q=B").await, ("b".to_owned(), 1), "older parameters");
    server.get("/api/v1/main/flows/search?filters[colour][EQUALS]=x").await.refused(400, "filter_invalid");
    server.get("/api/v1/main/flows/search?page=0").await.refused(422, "query_invalid");
    let found = server.get("/api/v1/main/flows/source?q=MESSAGE&size=1").await.expect(200).json;
    assert_eq!(found["total"], 4);
    assert!(found["results"][0]["fragments"][0].as_str().unwrap().contains("[mark]message[/mark]"), "{found}");
    assert_eq!(server.get("/api/v1/main/flows/company.team").await.expect(200).json.as_array().unwrap().len(), 2);
    let names = server.get("/api/v1/main/flows/distinct-namespaces").await.expect(200).json;
    assert_eq!(names, json!(["company", "company.team", "system"]));

    let some = json!([{"namespace": "company.team", "id": "a"}, {"namespace": "company", "id": "c"}]);
    let off = server.json("POST", "/api/v1/main/flows/disable/by-ids", some.clone()).await.expect(200);
    assert_eq!(off.text, "{\"count\":2}");
    let a = server.get("/api/v1/main/flows/company.team/a?source=true").await.expect(200).json;
    assert_eq!((&a["disabled"], &a["revision"]), (&json!(true), &json!(2)));
    assert!(a["source"].as_str().unwrap().ends_with("disabled: true\n"), "{a}");
    server.trigger("company.team:a", None, json!({})).await.refused(409, "flow_disabled");
    let on = server.json("POST", "/api/v1/main/flows/enable/by-query?namespace=company", Json::Null).await.expect(200);
    assert_eq!(on.json["count"], 2);
    let unknown = json!([{"namespace": "company.team", "id": "b"}, {"namespace": "x", "id": "y"}]);
    server.json("DELETE", "/api/v1/main/flows/delete/by-ids", unknown).await.refused(404, "flow_unknown");
    assert_eq!(ids("").await.1, 4, "all or nothing");
    let zip = server.json("POST", "/api/v1/main/flows/export/by-ids", some.clone()).await.expect(200);
    assert!(zip.text.starts_with("PK"), "an archive");
    assert_eq!(server.json("DELETE", "/api/v1/main/flows/delete/by-ids", some).await.expect(200).json["count"], 2);
    assert_eq!(ids("").await, ("bd".to_owned(), 2));
}

#[tokio::test]
async fn a_namespace_becomes_what_a_text_says() {
    let server = Server::start();
    let of = |id: &str| PAY.replace("id: pay", &format!("id: {id}"));
    let text = format!("{}---\n{}", of("a"), of("b"));
    let path = "/api/v1/main/flows/company.team";
    assert_eq!(yaml(&server, "POST", path, &text).await.expect(200).json.as_array().unwrap().len(), 2);
    let twice = yaml(&server, "POST", path, &format!("{}---\n{}", of("a"), of("a"))).await.refused(422, "flow_invalid");
    assert!(twice.json["message"].as_str().unwrap().contains("Duplicate flow id"), "{}", twice.text);
    let foreign = yaml(&server, "POST", path, &of("a").replace("company.team", "other")).await;
    assert!(foreign.refused(422, "flow_invalid").text.contains("Flow namespace is invalid"));
    let elsewhere = "/api/v1/main/flows/company.put?override=true";
    let put = yaml(&server, "POST", elsewhere, &of("c").replace("company.team", "other")).await.expect(200).json;
    assert_eq!((&put[0]["namespace"], &put[0]["id"]), (&json!("company.put"), &json!("c")));
    server.get("/api/v1/main/flows/company.put/c").await.expect(200);
    server.get("/api/v1/main/flows/other/c").await.refused(404, "flow_unknown");
    let left = yaml(&server, "POST", path, &of("c")).await.expect(200).json;
    let shown: Vec<(&str, bool)> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["id"].as_str().unwrap(), row["deleted"].as_bool().unwrap()))
        .collect();
    assert_eq!(shown, [("a", true), ("b", true), ("c", false)]);
    yaml(&server, "POST", &format!("{path}?delete=false"), &of("d")).await.expect(200);
    let ids = server.get(path).await.expect(200).json;
    assert_eq!(ids.as_array().unwrap().iter().map(|row| row["id"].clone()).collect::<Vec<_>>(), ["c", "d"]);
    yaml(&server, "POST", "/api/v1/main/flows/bulk?namespace=company&allowNamespaceChild=true", &of("e"))
        .await
        .expect(200);
    assert_eq!(server.get(path).await.expect(200).json[0]["id"], "e");
}

#[tokio::test]
async fn flows_come_in_as_files() {
    let server = Server::start();
    let send = async |name: &str, content: &str| {
        let body = format!(
            "--x\r\ncontent-disposition: form-data; name=\"fileUpload\"; filename=\"{name}\"\r\n\r\n{content}\r\n--x--\r\n"
        );
        let request = request("POST", "/api/v1/main/flows/import");
        let request = request.header("content-type", "multipart/form-data; boundary=x");
        server.send(request.body(Body::from(body)).unwrap()).await
    };
    let bad = PAY.replace("log.Log", "log.Lgo");
    assert_eq!(send("flows.yaml", &format!("{PAY}---\n{bad}")).await.expect(200).text, "[\"1\"]");
    server.get("/api/v1/main/flows/company.team/pay").await.expect(200);
    send("flows.exe", PAY).await.refused(422, "illegal_argument");
}

#[tokio::test]
async fn a_flow_is_drawn_and_its_neighbours_are_known() {
    let server = Server::start();
    yaml(&server, "POST", "/api/v1/main/flows", PAY).await.expect(200);
    let caller = "id: caller\nnamespace: company.team\ntasks:\n  - id: call\n    type: io.kestra.plugin.core.flow.Subflow\n    namespace: company.team\n    flowId: pay\n";
    yaml(&server, "POST", "/api/v1/main/flows", caller).await.expect(200);
    let graph = server.get("/api/v1/main/flows/company.team/pay/graph").await.expect(200).json;
    assert_eq!(graph["nodes"][1]["uid"], "say");
    let around = server.get("/api/v1/main/flows/company.team/pay/dependencies").await.expect(200).json;
    assert_eq!(
        around["edges"],
        json!([{"source": "company.team_caller", "target": "company.team_pay", "relation": "FLOW_TASK"}])
    );
    let task = server.get("/api/v1/main/flows/company.team/pay/tasks/say").await.expect(200).json;
    assert_eq!(task["message"], "hi");
    server.get("/api/v1/main/flows/company.team/pay/tasks/none").await.refused(404, "flow_unknown");
}
