//! Executions at the Kestra door: their files and flows, what they are called, and what is done to several of them.

use crate::harness::*;
use axum::body::Body;
use serde_json::{Value as Json, json};

const API: &str = "/api/v1/main/executions";

async fn post(server: &Server, path: &str, body: impl Into<Body>) -> Answer {
    server.send(request("POST", &format!("{API}/{path}")).body(body.into()).unwrap()).await
}

async fn form(server: &Server, path: &str, parts: &[(&str, Option<&str>, &[u8])]) -> Answer {
    let mut body = Vec::new();
    for (field, file, bytes) in parts {
        let file = file.map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        body.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{field}\"{file}\r\n\r\n").into_bytes());
        body.extend_from_slice(bytes);
        body.extend(b"\r\n");
    }
    body.extend(b"--b--\r\n");
    let request = request("POST", &format!("{API}/{path}")).header("content-type", "multipart/form-data; boundary=b");
    // In pieces, as a connection brings it.
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.chunks(40_000).map(|piece| Ok(piece.to_vec())).collect();
    server.send(request.body(Body::from_stream(futures_util::stream::iter(pieces))).unwrap()).await
}

fn id(answer: &Answer) -> String {
    answer.json["id"].as_str().unwrap_or_else(|| panic!("no id in {}", answer.text)).to_owned()
}

async fn state(server: &Server, id: &str) -> String {
    let shown = server.get(&format!("{API}/{id}")).await.expect(200).json;
    shown["state"]["current"].as_str().unwrap().to_owned()
}

fn label(answer: &Json, key: &str) -> Json {
    let labels = answer["labels"].as_array().unwrap();
    labels.iter().find(|label| label["key"] == key).map_or(Json::Null, |label| label["value"].clone())
}

const READS: &str = "
id: reads
namespace: shop
inputs:
  - {id: doc, type: FILE}
tasks:
  - {id: size, type: debug.Return, format: '{{ fileSize(inputs.doc) }}'}
";

#[tokio::test]
async fn a_file_larger_than_other_bodies_comes_in_and_goes_out() {
    let server = Server::start();
    server.push(READS).await.expect(200);
    let most = server.app.config().limits.body_bytes_max;
    let big: Vec<u8> = (0..3 * most).map(|n| b'a' + (n % 7) as u8).collect();
    let made = form(&server, "shop/reads?wait=true", &[("doc", Some("big data.txt"), &big)]).await.expect(200);
    assert_eq!(made.json["taskRunList"][0]["outputs"]["value"], big.len().to_string(), "{}", made.text);
    let (run, address) = (id(&made), made.json["inputs"]["doc"].as_str().unwrap().replace('%', "%25"));
    let at = |what: &str, address: &str| format!("{API}/{run}/file{what}?path={address}");
    let file = server.get(&at("", &address)).await.expect(200);
    assert!(file.text.as_bytes() == big, "the bytes that came");
    assert_eq!(file.headers["content-length"], big.len().to_string());
    assert_eq!(file.headers["content-disposition"], "attachment; filename=\"big%20data.txt\"");
    assert_eq!(server.get(&at("/metas", &address)).await.expect(200).json, json!({"size": big.len()}));
    let preview = server.get(&at("/preview", &address)).await.expect(200).json;
    assert_eq!(
        (&preview["type"], &preview["truncated"], &preview["extension"]),
        (&json!("TEXT"), &json!(true), &json!("txt"))
    );
    let other = id(&form(&server, "shop/reads", &[("files", Some("doc"), b"x")]).await.expect(200));
    for (path, status, code) in [
        (at("", &address.replace(&run, &other)), 422, "illegal_argument"),
        (at("", "kestra:///etc/passwd"), 422, "illegal_argument"),
        (at("/preview", &format!("{address}/../../x")), 422, "illegal_argument"),
        (at("/metas", &format!("{address}x")), 404, "file_unknown"),
        (at("/preview", &format!("{address}&encoding=EBCDIC")), 422, "illegal_argument"),
        (format!("{API}/{run}/file"), 422, "query_invalid"),
    ] {
        server.get(&path).await.refused(status, code);
    }
    form(&server, "shop/reads", &[("doc", Some("empty.txt"), b"")]).await.refused(422, "illegal_argument");
    let fields = vec![b'x'; most + 1];
    form(&server, "shop/reads", &[("text", None, &fields)]).await.refused(413, "body_too_large");
    let named = form(&server, "shop/reads/validate", &[("doc", Some("a.txt"), b"x")]).await.expect(200).json;
    assert_eq!((&named["inputs"][0]["value"], &named["inputs"][0]["errors"]), (&json!("a.txt"), &Json::Null));
    let again =
        form(&server, &format!("{run}/replay-with-inputs"), &[("doc", Some("b.txt"), b"two")]).await.expect(200);
    server.ended("main", &id(&again)).await;
    let again = server.get(&format!("{API}/{}", id(&again))).await.expect(200).json;
    assert_eq!(again["taskRunList"][0]["outputs"]["value"], "3", "{again}");
}

const ASKS: &str = "
id: asks
namespace: shop
tasks:
  - id: wait
    type: flow.Pause
    onResume:
      - {id: doc, type: FILE}
      - {id: count, type: INT}
  - {id: size, type: debug.Return, format: '{{ fileSize(outputs.wait.onResume.doc) }} {{ outputs.wait.onResume.count }}'}
";

#[tokio::test]
async fn a_pause_is_told_files_too_and_can_be_asked_before() {
    let server = Server::start();
    server.push(ASKS).await.expect(200);
    let run = id(&post(&server, "shop/asks", "").await.expect(200));
    while state(&server, &run).await != "PAUSED" {
        tokio::task::yield_now().await;
    }
    let wrong = form(&server, &format!("{run}/resume/validate"), &[("count", None, b"many")]).await.expect(200).json;
    assert_eq!(wrong["inputs"].as_array().unwrap().len(), 2, "{wrong}");
    assert!(wrong["inputs"][1]["errors"][0]["message"].is_string(), "{wrong}");
    assert_eq!(state(&server, &run).await, "PAUSED", "nothing has changed");
    let said: [(&str, Option<&str>, &[u8]); 2] = [("doc", Some("d.txt"), b"12345"), ("count", None, b"7")];
    form(&server, &format!("{run}/resume"), &said).await.expect(204);
    server.ended("main", &run).await;
    let shown = server.get(&format!("{API}/{run}")).await.expect(200).json;
    assert_eq!(shown["taskRunList"][1]["outputs"]["value"], "5 7", "{shown}");
    form(&server, &format!("{run}/resume/validate"), &[]).await.refused(409, "not_possible");
}

const HOOKED: &str = "
id: hooked
namespace: shop
triggers:
  - {id: hook, type: trigger.Webhook, key: opens}
tasks:
  - {id: say, type: debug.Return, format: '{{ trigger.path ?? \"none\" }} {{ trigger.body | length }}'}
";

#[tokio::test]
async fn a_webhook_says_where_it_came_from_and_takes_larger_bodies() {
    let server = Server::start();
    server.push(HOOKED).await.expect(200);
    let most = server.app.config().limits.body_bytes_max;
    let body = "x".repeat(2 * most);
    for (rest, said) in [("/orders", format!("orders {}", body.len())), ("", format!("none {}", body.len()))] {
        let made = post(&server, &format!("webhook/shop/hooked/opens{rest}"), body.clone()).await.expect(200);
        assert_eq!(label(&made.json, "system.from"), "trigger");
        server.ended("main", &id(&made)).await;
        let shown = server.get(&format!("{API}/{}", id(&made))).await.expect(200).json;
        assert_eq!(shown["taskRunList"][0]["outputs"]["value"], said);
    }
    let past = "x".repeat(server.app.config().limits.webhook_bytes_max + 1);
    post(&server, "webhook/shop/hooked/opens", past).await.refused(413, "body_too_large");
    post(&server, "webhook/shop/hooked/wrong/orders", "").await.refused(404, "webhook_unknown");
}

const CHECKED: &str = "
id: checked
namespace: shop
inputs:
  - {id: amount, type: INT}
checks:
  - {condition: '{{ inputs.amount < 10 }}', message: too much, style: WARNING, behavior: BLOCK_EXECUTION}
tasks:
  - id: if
    type: flow.If
    condition: '{{ inputs.amount > 1 }}'
    then:
      - {id: pay, type: debug.Return, format: 'secret-4111'}
";

#[tokio::test]
async fn the_flow_of_an_execution_is_shown_without_what_its_tasks_say() {
    let server = Server::start();
    server.push(CHECKED).await.expect(200);
    let checked = form(&server, "shop/checked/validate", &[("amount", None, b"11")]).await.expect(200).json;
    assert_eq!(checked["checks"], json!([{"message": "too much", "style": "WARNING", "behavior": "BLOCK_EXECUTION"}]));
    let fine = form(&server, "shop/checked/validate", &[("amount", None, b"3")]).await.expect(200).json;
    assert_eq!(fine["checks"], json!([]));
    let made = form(&server, "shop/checked?wait=true", &[("amount", None, b"3")]).await.expect(200);
    server.push(&CHECKED.replace("id: pay", "id: charge")).await.expect(200);
    let flow = server.get(&format!("{API}/{}/flow", id(&made))).await.expect(200);
    assert!(!flow.text.contains("4111") && flow.json["revision"] == 1, "{}", flow.text);
    assert_eq!(flow.json["tasks"][0]["tasks"][0]["id"], "pay");
    let newest = server.get(&format!("{API}/flows/shop/checked")).await.expect(200).json;
    assert_eq!((&newest["revision"], &newest["tasks"][0]["tasks"][0]["id"]), (&json!(2), &json!("charge")));
    let first = server.get(&format!("{API}/flows/shop/checked?revision=1")).await.expect(200).json;
    assert_eq!(first["tasks"][0]["tasks"][0]["id"], "pay");
    server.get(&format!("{API}/flows/shop/nothing")).await.refused(404, "flow_unknown");
    let graph = server.get(&format!("{API}/{}/graph", id(&made))).await.expect(200);
    assert!(!graph.text.contains("\"format\""), "{}", graph.text);
    let node = graph.json["nodes"].as_array().unwrap().iter().find(|node| node["uid"] == "pay").unwrap().clone();
    assert_eq!(node["taskRun"]["state"]["current"], "SUCCESS", "{node}");
}

#[tokio::test]
async fn executions_of_other_kinds_are_hidden_until_they_are_asked_for() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    let usual = id(&post(&server, "shop/echo?wait=true", "").await.expect(200));
    server.advance(1);
    let test = post(&server, "shop/echo?wait=true&kind=TEST", "").await.expect(200);
    assert_eq!((&test.json["kind"], label(&test.json, "system.kind")), (&json!("TEST"), Json::Null));
    let test = id(&test);
    for (query, expected) in [
        ("", vec![&usual]),
        ("filters[kind][EQUALS]=TEST", vec![&test]),
        ("filters[kind][IN]=TEST,NORMAL", vec![&test, &usual]),
        ("filters[kind][NOT_EQUALS]=TEST", vec![&usual]),
        ("filters[kind][EQUALS]=PLAYGROUND", vec![]),
    ] {
        let found = server.get(&format!("{API}/search?{query}")).await.expect(200).json;
        let ids: Vec<&str> = found["results"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{query}");
    }
    assert_eq!(server.get(&format!("{API}?namespace=shop&flowId=echo")).await.expect(200).json["total"], 1);
    post(&server, "shop/echo?kind=ODD", "").await.refused(422, "query_invalid");
    let again = post(&server, &format!("{test}/replay"), "").await.expect(200);
    assert_eq!(again.json["kind"], "TEST", "a replay is of the same kind");
    assert_eq!((&again.json["parentId"], &again.json["originalId"]), (&json!(test), &json!(test)));
}

const ONE_AT_A_TIME: &str = "
id: narrow
namespace: shop
concurrency: {limit: 1}
tasks:
  - {id: pay, type: http.Request, uri: 'https://pay.example/', method: POST}
";

#[tokio::test]
async fn what_is_done_to_several_is_done_to_all_or_to_none() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    server.push(ONE_AT_A_TIME).await.expect(200);
    let mut ended = Vec::new();
    for _ in 0..2 {
        ended.push(id(&post(&server, "shop/echo?wait=true&labels=team:red", "").await.expect(200)));
    }
    server.hold_effects();
    let mut line = Vec::new();
    for _ in 0..4 {
        line.push(id(&post(&server, "shop/narrow", "").await.expect(200)));
    }
    let send = |method: &'static str, path: String, body: Json| {
        let server = &server;
        async move { server.json(method, &format!("{API}/{path}"), body).await }
    };
    let none = |act: &'static str, ids: [&String; 2]| send("POST", format!("{act}/by-ids"), json!(ids));
    for (act, message) in [
        ("replay", "invalid bulk replay"),
        ("change-status/by-ids?newStatus=FAILED&x=", "invalid bulk change execution status"),
        ("unqueue", "invalid bulk unqueue"),
        ("force-run", "invalid bulk force run"),
    ] {
        let path = if act.contains('?') { act.to_owned() } else { format!("{act}/by-ids") };
        let refused = send("POST", path, json!([ended[0], line[3]])).await.refused(400, "bulk_invalid");
        assert_eq!(refused.json["message"], message);
        assert_eq!(refused.json["invalids"].as_array().unwrap().len(), 1, "{}", refused.text);
    }
    none("replay", [&ended[0], &"nobody".to_owned()]).await.refused(400, "bulk_invalid");
    let count = |answer: Answer| answer.expect(200).json["count"].clone();
    // In the line: one out of it to run, one to end, one by force.
    assert_eq!(count(send("POST", "unqueue/by-ids".into(), json!([line[1]])).await), 1);
    assert_eq!(count(send("POST", "unqueue/by-ids?state=CANCELLED".into(), json!([line[2]])).await), 1);
    assert_eq!(count(send("POST", "force-run/by-query?filters[state][EQUALS]=QUEUED".into(), Json::Null).await), 1);
    let states = [state(&server, &line[1]).await, state(&server, &line[2]).await, state(&server, &line[3]).await];
    assert_eq!(states, ["RUNNING", "CANCELLED", "RUNNING"]);
    // Ends and labels.
    let query = "filters[flowId][EQUALS]=echo";
    assert_eq!(count(send("POST", format!("change-status/by-query?{query}&newStatus=WARNING"), Json::Null).await), 2);
    assert_eq!(state(&server, &ended[1]).await, "WARNING");
    send("POST", "change-status/by-ids?newStatus=RUNNING".into(), json!([ended[0]]))
        .await
        .refused(422, "illegal_argument");
    let add = json!([{"key": "seen", "value": "yes"}]);
    let of_system = json!({"executionsId": ended, "executionLabels": [{"key": "system.x", "value": "y"}]});
    send("POST", "labels/by-ids".into(), of_system).await.refused(422, "illegal_argument");
    let live = json!({"executionsId": [ended[0], line[1]], "executionLabels": add});
    send("POST", "labels/by-ids".into(), live).await.refused(400, "bulk_invalid");
    assert_eq!(count(send("POST", format!("labels/by-query?{query}"), add).await), 2);
    let shown = server.get(&format!("{API}/{}", ended[0])).await.expect(200).json;
    assert_eq!((label(&shown, "seen"), label(&shown, "team")), (json!("yes"), json!("red")), "labels are added");
    // Done again.
    assert_eq!(count(send("POST", format!("replay/by-query?{query}"), Json::Null).await), 2);
    let found = server.get(&format!("{API}/search?{query}")).await.expect(200).json;
    assert_eq!(found["total"], 4);
    let mixed = send("DELETE", "kill/by-query?filters[namespace][EQUALS]=shop".into(), Json::Null).await;
    mixed.refused(400, "bulk_invalid");
    assert_eq!(state(&server, &line[0]).await, "RUNNING", "none of them was killed");
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused() {
    let server = Server::start();
    server.push(ECHO).await.expect(200);
    server.push(FAILS).await.expect(200);
    let done = id(&post(&server, "shop/echo?wait=true", "").await.expect(200));
    let failed = id(&post(&server, "shop/fails?wait=true", "").await.expect(200));
    for name in ["deleteLogs", "deleteStorage"] {
        let path = format!("{API}/{done}?{name}=false");
        server.json("DELETE", &path, Json::Null).await.refused(422, "query_invalid");
    }
    let well = post(&server, &format!("{done}/restart"), "").await.refused(422, "illegal_argument");
    assert!(well.text.contains("no task found to restart"), "{}", well.text);
    post(&server, &format!("{failed}/restart?revision=7"), "").await.refused(404, "flow_unknown");
    post(&server, &format!("{failed}/restart?revision=1"), "").await.expect(200);
    server.json("DELETE", &format!("{API}/{done}?deleteLogs=true&deleteMetrics=false"), Json::Null).await.expect(204);
}

const STANDS: &str = "
id: stands
namespace: shop
tasks:
  - {id: stand, type: flow.Pause}
";

#[tokio::test]
async fn an_execution_that_goes_on_is_killed_before_it_is_deleted() {
    let server = Server::start();
    server.push(STANDS).await.expect(200);
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(id(&post(&server, "shop/stands", "").await.expect(200)));
    }
    let delete = |path: String, body: Json| {
        let server = &server;
        async move { server.json("DELETE", &format!("{API}/{path}"), body).await }
    };
    delete(runs[0].clone(), Json::Null).await.expect(204);
    delete(runs[0].clone(), Json::Null).await.refused(404, "run_unknown");
    // Several at once, only if that is asked for.
    delete("by-ids".into(), json!([runs[1]])).await.refused(400, "bulk_invalid");
    let deleted = delete("by-ids?includeNonTerminated=true".into(), json!([runs[1]])).await.expect(200);
    assert_eq!(deleted.json, json!({"count": 1}));
    let all = "by-query?filters[flowId][EQUALS]=stands";
    delete(all.into(), Json::Null).await.refused(400, "bulk_invalid");
    let deleted = delete(format!("{all}&includeNonTerminated=true&deleteMetrics=false"), Json::Null).await.expect(200);
    assert_eq!(deleted.json, json!({"count": 2}));
    for run in runs {
        server.get(&format!("{API}/{run}")).await.refused(404, "run_unknown");
    }
}

const MENDED: &str = "
id: mended
namespace: shop
tasks:
  - {id: charge, type: http.Request, method: POST, uri: 'https://ok.example'}
  - id: both
    type: flow.Parallel
    tasks:
      - {id: label, type: http.Request, method: POST, uri: 'https://ok.example'}
      - {id: ship, type: http.Request, method: POST, uri: 'https://fail.example'}
";

#[tokio::test]
async fn a_restart_goes_on_by_another_revision() {
    let server = Server::start();
    server.push(MENDED).await.expect(200);
    let failed = id(&post(&server, "shop/mended?wait=true", "").await.expect(200));
    assert_eq!(state(&server, &failed).await, "FAILED");
    let moved =
        MENDED.replace("      - {id: label", "      - {id: first, type: debug.Return, format: x}\n      - {id: label");
    server.push(&moved).await.expect(200);
    let restart = |revision: u32| {
        let (server, path) = (&server, format!("{failed}/restart?revision={revision}"));
        async move { post(server, &path, "").await }
    };
    let refused = restart(2).await.refused(409, "not_possible");
    assert!(refused.text.contains("stands in another order"), "{}", refused.text);
    assert_eq!(state(&server, &failed).await, "FAILED");
    let more = "  - {id: tell, type: debug.Return, format: '{{ outputs.ship.code }}'}\n";
    let mended = format!("{}{more}", MENDED.replace("fail.example", "ok.example"));
    server.push(&mended).await.expect(200);
    let unknown = restart(9).await.refused(404, "flow_unknown");
    assert!(unknown.text.contains("Unable to find revision 9 on flow shop.mended"), "{}", unknown.text);
    let again = restart(3).await.expect(200).json;
    assert_eq!((&again["id"], &again["flowRevision"]), (&json!(failed), &json!(3)));
    assert_eq!(label(&again, "system.restarted"), "true");
    server.ended("main", &failed).await;
    let shown = server.get(&format!("{API}/{failed}")).await.expect(200).json;
    assert_eq!((&shown["state"]["current"], &shown["flowRevision"]), (&json!("SUCCESS"), &json!(3)));
    let attempts: Vec<(&str, usize)> = shown["taskRunList"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| run["taskId"] != "both")
        .map(|run| (run["taskId"].as_str().unwrap(), run["attempts"].as_array().unwrap().len()))
        .collect();
    assert_eq!(attempts, [("charge", 1), ("label", 1), ("ship", 2), ("tell", 1)], "what was done stays done");
    // A replay in another revision is a new execution.
    let replay = post(&server, &format!("{failed}/replay?revision=2"), "").await.expect(200).json;
    assert_eq!((&replay["parentId"], &replay["flowRevision"]), (&json!(failed), &json!(2)));
    post(&server, &format!("{failed}/replay?revision=9"), "").await.refused(404, "flow_unknown");
}

const PARENT: &str = "
id: parent
namespace: shop
tasks:
  - {id: sub, type: flow.Subflow, namespace: shop, flowId: call, wait: true}
";

#[tokio::test]
async fn a_kill_reaches_what_was_started_or_leaves_it() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.push(PARENT).await.expect(200);
    server.hold_effects();
    for (cascade, child_after) in [("true", "KILLED"), ("false", "SUCCESS")] {
        let parent = id(&post(&server, "shop/parent", "").await.expect(200));
        let child = loop {
            let query = format!("filters[triggerExecutionId][EQUALS]={parent}");
            let found = server.get(&format!("{API}/search?{query}")).await.expect(200).json;
            if let Some(child) =
                found["results"][0]["id"].as_str().filter(|_| found["results"][0]["taskRunList"].is_array())
            {
                break child.to_owned();
            }
            tokio::task::yield_now().await;
        };
        let path = format!("{API}/{parent}/kill?isOnKillCascade={cascade}");
        server.json("DELETE", &path, Json::Null).await.expect(202);
        if cascade == "false" {
            server.ended("main", &parent).await;
            assert_eq!(state(&server, &child).await, "RUNNING");
        }
        server.release_effects();
        server.ended("main", &child).await;
        server.ended("main", &parent).await;
        server.hold_effects();
        assert_eq!(
            (state(&server, &parent).await, state(&server, &child).await),
            ("KILLED".into(), child_after.into())
        );
    }
}

#[tokio::test]
async fn executions_that_belong_together_are_followed_together() {
    let server = Server::start();
    server.push(CALL).await.expect(200);
    server.push(PARENT).await.expect(200);
    let parent = id(&post(&server, "shop/parent?wait=true", "").await.expect(200));
    let told = server.get(&format!("{API}/{parent}/follow-dependencies")).await.expect(200);
    let ids: Vec<&str> = told.text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!(ids, ["start", "end", "end"], "{}", told.text);
    let told = told.text.lines().filter_map(|line| line.strip_prefix("data: "));
    let flows = told.map(|data| serde_json::from_str::<Json>(data).unwrap()["flowId"].to_string());
    let flows: std::collections::BTreeSet<String> = flows.collect();
    assert_eq!(flows, ["\"call\"", "\"parent\"", "null"].map(str::to_owned).into());
    let nobody = "00000000-0000-7000-8000-000000000000";
    server.get(&format!("{API}/{nobody}/follow-dependencies")).await.refused(404, "run_unknown");
}

const STEPS: &str = "
id: steps
namespace: shop
tasks:
  - {id: one, type: debug.Return, format: '1'}
  - id: each
    type: flow.ForEach
    values: ['a', 'b']
    tasks:
      - {id: two, type: debug.Return, format: '{{ taskrun.value }}'}
  - {id: three, type: debug.Return, format: '{{ outputs.one.value }}'}
";

#[tokio::test]
async fn an_execution_stops_before_the_tasks_that_are_named() {
    let server = Server::start();
    server.push(STEPS).await.expect(200);
    let stands = |run: String| {
        let server = &server;
        async move {
            while state(server, &run).await != "BREAKPOINT" {
                tokio::task::yield_now().await;
            }
            let shown = server.get(&format!("{API}/{run}")).await.expect(200).json;
            shown["taskRunList"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|run| run["taskId"].clone())
                .collect::<Vec<Json>>()
        }
    };
    let made = post(&server, "shop/steps?breakpoints=two,three", "").await.expect(200);
    let run = id(&made);
    assert_eq!(stands(run.clone()).await, ["one", "each"]);
    let shown = server.get(&format!("{API}/{run}")).await.expect(200).json;
    assert_eq!(shown["breakpoints"], json!([{"id": "two"}, {"id": "three"}]));
    let found = server.get(&format!("{API}/search?filters[state][EQUALS]=BREAKPOINT")).await.expect(200).json;
    assert_eq!(found["total"], 1);
    post(&server, &format!("{run}/resume"), "").await.refused(409, "not_possible");
    post(&server, &format!("{run}/resume-from-breakpoint?breakpoints=nothing"), "").await.refused(422, "query_invalid");
    post(&server, &format!("{run}/resume-from-breakpoint?breakpoints=three"), "").await.expect(204);
    assert_eq!(stands(run.clone()).await, ["one", "each", "two", "two"]);
    post(&server, &format!("{run}/resume-from-breakpoint"), "").await.expect(204);
    server.ended("main", &run).await;
    assert_eq!(state(&server, &run).await, "SUCCESS");
    post(&server, &format!("{run}/resume-from-breakpoint"), "").await.refused(409, "not_possible");
    let again = id(&post(&server, &format!("{run}/replay?breakpoints=one"), "").await.expect(200));
    assert!(stands(again.clone()).await.is_empty());
    server.json("DELETE", &format!("{API}/{again}/kill"), Json::Null).await.expect(202);
    server.ended("main", &again).await;
    assert_eq!(state(&server, &again).await, "KILLED");
    post(&server, "shop/steps?breakpoints=nothing", "").await.refused(422, "query_invalid");
    post(&server, "shop/steps?breakpoints=nothing.a", "").await.refused(422, "query_invalid");
}

const ROUNDS: &str = "
id: rounds
namespace: shop
tasks:
  - id: each
    type: flow.ForEach
    values: [3, {sku: 1.5}, b, b]
    tasks:
      - {id: say, type: debug.Return, format: '{{ taskrun.value }}'}
      - {id: after, type: debug.Return, format: x}
";

#[tokio::test]
async fn an_execution_stops_at_one_value_of_a_loop() {
    let server = Server::start();
    server.push(ROUNDS).await.expect(200);
    // The value it is to begin next, once it stands.
    let stands = |run: String| {
        let server = &server;
        async move {
            while state(server, &run).await != "BREAKPOINT" {
                tokio::task::yield_now().await;
            }
            let shown = server.get(&format!("{API}/{run}")).await.expect(200).json;
            let rounds: Vec<&Json> = shown["taskRunList"].as_array().unwrap().iter().collect();
            let done = |task: &str| rounds.iter().filter(|run| run["taskId"] == task).count();
            (done("say"), done("after"))
        }
    };
    // A value may have dots of its own.
    let made = post(&server, "shop/rounds?breakpoints=say.%7B%22sku%22:1.5%7D,after.nowhere", "").await.expect(200);
    let run = id(&made);
    assert_eq!(stands(run.clone()).await, (1, 1));
    let shown = server.get(&format!("{API}/{run}")).await.expect(200).json;
    let breakpoints = json!([{"id": "say", "value": "{\"sku\":1.5}"}, {"id": "after", "value": "nowhere"}]);
    assert_eq!(shown["breakpoints"], breakpoints);
    // A loop that has begun knows its values: each round that has it stops.
    post(&server, &format!("{run}/resume-from-breakpoint?breakpoints=after.b"), "").await.expect(204);
    assert_eq!(stands(run.clone()).await, (3, 2));
    post(&server, &format!("{run}/resume-from-breakpoint?breakpoints=after.b"), "").await.expect(204);
    assert_eq!(stands(run.clone()).await, (4, 3));
    post(&server, &format!("{run}/resume-from-breakpoint"), "").await.expect(204);
    server.ended("main", &run).await;
    let again = id(&post(&server, &format!("{run}/replay?breakpoints=after.3"), "").await.expect(200));
    assert_eq!(stands(again).await, (1, 0));
}

const VARIED: &str = "
id: restart
namespace: shop.pay
variables: {greeting: hello, kept: 1}
tasks:
  - {id: set, type: execution.SetVariables, variables: {greeting: 'hi {{ flow.id }}'}}
  - {id: say, type: debug.Return, format: '{{ vars.greeting }}'}
";

#[tokio::test]
async fn an_execution_is_shown_as_it_was_created_and_with_its_variables() {
    let server = Server::start();
    server.push(VARIED).await.expect(200);
    // The flow has the name of something that is asked of executions.
    let made = post(&server, "shop.pay/restart", "").await.expect(200);
    assert_eq!(made.json["state"]["current"], "CREATED", "{}", made.text);
    assert_eq!((&made.json["taskRunList"], &made.json["outputs"]), (&Json::Null, &Json::Null));
    server.ended("main", &id(&made)).await;
    let ended = server.get(&format!("{API}/{}/", id(&made))).await.expect(200).json;
    assert_eq!(ended["state"]["current"], "SUCCESS", "a slash at the end of a path says nothing");
    assert_eq!(ended["variables"], json!({"greeting": "hi restart", "kept": 1}));
    let waited = post(&server, "shop.pay/restart?wait=true", "").await.expect(200).json;
    assert_eq!((&waited["state"]["current"], &waited["scheduleDate"]), (&json!("SUCCESS"), &Json::Null));
    let later = post(&server, "shop.pay/restart?scheduleDate=2031-01-01T00:00:00%2B02:00", "").await.expect(200).json;
    assert_eq!(later["scheduleDate"], "2030-12-31T22:00:00.000Z", "{later}");
    let wrong = post(&server, &format!("{}/eval", id(&made)), "{{ nothing }}").await.expect(200).json;
    assert!(wrong["error"] == wrong["stackTrace"] && wrong["error"].is_string(), "{wrong}");
    let all = server.get(&format!("{API}/search?size=1000")).await.expect(200).json;
    assert_eq!(all["total"], 3);
    server.get(&format!("{API}/search?size=1001")).await.refused(422, "query_invalid");
}
