//! Tasks on files.

use super::server::{Script, Server, answer};
use super::shelf::{BYTES_MAX, Bench};
use semel_core::WorkspaceId;
use semel_tasks::{CHUNK_BYTES, Files};
use serde_json::json;

#[tokio::test]
async fn a_text_becomes_a_file_under_the_steps_own_name() {
    let bench = Bench::new();
    let uri = bench.write("write", "hello").await;
    assert_eq!(uri, "kestra:///shop/order/executions/07070707-0707-0707-0707-070707070707/tasks/write/00ff/file.txt");
    assert_eq!(bench.text(&json!(uri)), "hello");
    // A step that is repeated writes over its own file.
    assert_eq!(bench.write("write", "again").await, uri);
    assert_eq!(bench.text(&json!(uri)), "again");
    let output = bench.done("storage.Write", "json", json!({"content": {"a": 1}})).await;
    assert_eq!(bench.text(&output["uri"]), r#"{"a":1}"#);
}

#[tokio::test]
async fn files_are_joined_with_what_comes_between() {
    let bench = Bench::new();
    let files = json!([bench.write("a", "one").await, bench.write("b", "two").await]);
    let joined = bench.done("storage.Concat", "c", json!({"files": files, "separator": "\n"})).await;
    assert_eq!(bench.text(&joined["uri"]), "one\ntwo\n");
    let joined = bench.done("storage.Concat", "d", json!({"files": files.to_string(), "extension": ".csv"})).await;
    assert_eq!(bench.text(&joined["uri"]), "onetwo");
    assert!(joined["uri"].as_str().unwrap().ends_with(".csv"));
    assert_eq!(bench.verdict("storage.Concat", json!({"files": "one"})).await, "clean:bad_config");
    let missing = json!({"files": ["kestra:///a/b/executions/07070707-0707-0707-0707-070707070707/x"]});
    assert_eq!(bench.verdict("storage.Concat", missing).await, "clean:file_missing");
}

#[tokio::test]
async fn a_file_is_split_by_rows_parts_and_bytes() {
    let bench = Bench::new();
    let from = bench.write("write", "1\n2\n3\r\n4\n5").await;
    for (how, parts) in [
        (json!({"rows": 2}), vec!["1\n2\n", "3\n4\n", "5\n"]),
        (json!({"partitions": 2}), vec!["1\n3\n5\n", "2\n4\n"]),
        (json!({"partitions": 9}), vec!["1\n", "2\n", "3\n", "4\n", "5\n"]),
        (json!({"bytes": "3"}), vec!["1\n2\n", "3\n4\n", "5\n"]),
        (json!({"rows": 5, "separator": ";"}), vec!["1;2;3;4;5;"]),
    ] {
        let mut config = how.clone();
        config["from"] = json!(from);
        let output = bench.done("storage.Split", "split", config).await;
        let found: Vec<String> = output["uris"].as_array().unwrap().iter().map(|uri| bench.text(uri)).collect();
        assert_eq!(found, parts, "{how}");
        assert!(output["uris"][0].as_str().unwrap().ends_with(".txt"));
    }
    assert_eq!(bench.verdict("storage.Split", json!({"from": from})).await, "clean:bad_config");
    let empty = bench.write("empty", "").await;
    assert_eq!(bench.done("storage.Split", "none", json!({"from": empty, "rows": 1})).await, json!({"uris": []}));
}

#[tokio::test]
async fn a_step_has_no_more_files_than_the_limit() {
    let limits = semel_core::limits::Limits { step_files_max: 3, ..Default::default() };
    let bench = Bench::with(None, limits);
    for (rows, verdict) in [("1\n2\n3\n", "done"), ("1\n2\n3\n4\n", "clean:too_many_files")] {
        let from = bench.write("write", rows).await;
        assert_eq!(bench.verdict("storage.Split", json!({"from": from, "rows": 1})).await, verdict);
        assert_eq!(bench.verdict("storage.Split", json!({"from": from, "partitions": 9})).await, verdict);
    }
}

#[tokio::test]
async fn rows_are_turned_round() {
    let bench = Bench::new();
    let from = bench.write("write", "1\n2\n3\n").await;
    let output = bench.done("storage.Reverse", "reverse", json!({"from": from})).await;
    assert_eq!(bench.text(&output["uri"]), "3\n2\n1\n");
}

#[tokio::test]
async fn files_have_a_size_and_can_be_deleted() {
    let bench = Bench::new();
    let uri = bench.write("write", "hello").await;
    assert_eq!(bench.done("storage.Size", "size", json!({"uri": uri})).await, json!({"size": 5}));
    let delete = json!({"uri": uri});
    assert_eq!(bench.done("storage.Delete", "d", delete.clone()).await, json!({"uri": uri, "deleted": true}));
    assert_eq!(bench.done("storage.Delete", "d", delete).await, json!({"uri": uri, "deleted": false}));
    let must = json!({"uri": uri, "errorOnMissing": true});
    assert_eq!(bench.verdict("storage.Delete", must).await, "clean:file_missing");
    assert_eq!(bench.verdict("storage.Size", json!({"uri": uri})).await, "clean:file_missing");
}

#[tokio::test]
async fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
    let bench = Bench::new();
    let most = "x".repeat(BYTES_MAX as usize);
    let uri = bench.write("write", &most).await;
    assert_eq!(bench.text(&json!(uri)), most);
    let at = bench.shelf.find(&WorkspaceId::default(), &uri).unwrap().unwrap();
    assert_eq!(at.chunks as usize, (BYTES_MAX as usize).div_ceil(CHUNK_BYTES));
    let more = json!({"content": format!("{most}y")});
    assert_eq!(bench.verdict("storage.Write", more).await, "clean:file_too_large");
}

#[tokio::test]
async fn nothing_is_read_from_another_workspace() {
    let bench = Bench::new();
    let uri = bench.write("write", "mine").await;
    let mut request = bench.request("storage.Size", "size", json!({"uri": uri}));
    request.home.workspace = WorkspaceId("other".into());
    assert_eq!(super::server::verdict(&bench.perform(request).await), "clean:file_missing");
}

#[tokio::test]
async fn an_answer_is_kept_as_a_file() {
    let bench = Bench::new();
    let body = "a,b\n".repeat(100_000);
    let head = "content-disposition: attachment; filename=\"data 1.csv\"\r\n";
    let server = Server::start(Script::Answer(answer("200 OK", head, &body))).await;
    let output = bench.done("http.Download", "get", json!({"uri": server.uri("/x")})).await;
    assert_eq!(bench.text(&output["uri"]), body);
    assert!(output["uri"].as_str().unwrap().ends_with("/data%201.csv"), "{output}");
    assert_eq!((output["code"].as_u64(), output["length"].as_u64()), (Some(200), Some(body.len() as u64)));
    assert_eq!(output["headers"]["content-disposition"][0], json!("attachment; filename=\"data 1.csv\""));
    let plain = Server::start(Script::Answer(answer("200 OK", "", "x"))).await;
    let output = bench.done("http.Download", "get", json!({"uri": plain.uri("/a.zip?b=c.d")})).await;
    assert!(output["uri"].as_str().unwrap().ends_with("/download.zip"), "{output}");
}

#[tokio::test]
async fn a_download_that_failed_leaves_no_file() {
    let bench = Bench::new();
    let missing = Server::start(Script::Answer(answer("404 Not Found", "", "no"))).await;
    assert_eq!(bench.verdict("http.Download", json!({"uri": missing.uri("/")})).await, "clean:http_status");
    let allowed = json!({"uri": missing.uri("/"), "options": {"allowFailed": true}});
    assert_eq!(bench.done("http.Download", "get", allowed).await["code"], json!(404));
    let empty = Server::start(Script::Answer(answer("200 OK", "", ""))).await;
    assert_eq!(bench.verdict("http.Download", json!({"uri": empty.uri("/")})).await, "clean:empty_answer");
    let may = json!({"uri": empty.uri("/"), "failOnEmptyResponse": false});
    assert_eq!(bench.done("http.Download", "get", may).await["length"], json!(0));
    let large = Server::start(Script::Answer(answer("200 OK", "", &"x".repeat(BYTES_MAX as usize + 1)))).await;
    assert_eq!(bench.verdict("http.Download", json!({"uri": large.uri("/")})).await, "clean:answer_too_large");
}

#[tokio::test]
async fn a_form_carries_files() {
    let bench = Bench::new();
    let uri = bench.write("write", "hello").await;
    let mut server = Server::start(Script::Answer(answer("200 OK", "", "ok"))).await;
    let config = json!({
        "uri": server.uri("/"), "method": "POST", "contentType": "multipart/form-data",
        "formData": {"plain": "text", "file": uri, "named": {"name": "n\".txt", "content": "own"}},
    });
    assert_eq!(bench.verdict("http.Request", config).await, "done");
    let sent = server.next_request().await;
    for part in [
        "content-type: multipart/form-data; boundary=",
        "name=\"plain\"\r\n\r\ntext\r\n",
        "name=\"file\"; filename=\"file.txt\"\r\nContent-Type: application/octet-stream\r\n\r\nhello\r\n",
        "name=\"named\"; filename=\"n%22.txt\"\r\n",
    ] {
        assert!(sent.contains(part), "{part} in {sent}");
    }
}

#[tokio::test]
async fn rows_are_kept_by_a_condition() {
    let bench = Bench::new();
    let from = bench.write("write", "{\"a\":true,\"n\":1}\n{\"a\":false,\"n\":2}\n{\"n\":3}\n").await;
    for (extra, kept, dropped) in [
        (json!({"errorOrNullBehavior": "EXCLUDE"}), "1", 2),
        (json!({"errorOrNullBehavior": "INCLUDE"}), "1 3", 1),
        (json!({"errorOrNullBehavior": "INCLUDE", "filterType": "EXCLUDE"}), "2 3", 1),
    ] {
        let mut config = extra.clone();
        (config["from"], config["filterCondition"]) = (json!(from), json!("{{ a }}"));
        let output = bench.done("storage.FilterItems", "filter", config).await;
        let text = bench.text(&output["uri"]);
        let rows: Vec<String> = text.lines().map(|row| row[row.len() - 2..row.len() - 1].to_owned()).collect();
        assert_eq!((rows.join(" ").as_str(), output["droppedItemsTotal"].as_u64()), (kept, Some(dropped)), "{extra}");
        assert_eq!(output["processedItemsTotal"], json!(3));
    }
    let fails = json!({"from": from, "filterCondition": "{{ a }}"});
    assert_eq!(bench.verdict("storage.FilterItems", fails).await, "clean:expression");
}

#[tokio::test]
async fn of_rows_with_one_key_the_last_is_kept() {
    let bench = Bench::new();
    let from = bench.write("write", "{\"k\":1,\"n\":1}\n{\"k\":2,\"n\":2}\n{\"k\":1,\"n\":3}\n").await;
    let output = bench.done("storage.DeduplicateItems", "d", json!({"from": from, "expr": "{{ k }}"})).await;
    assert_eq!(bench.text(&output["uri"]), "{\"k\":2,\"n\":2}\n{\"k\":1,\"n\":3}\n");
    assert_eq!((output["numKeys"].as_u64(), output["droppedItemsTotal"].as_u64()), (Some(2), Some(1)));
}

#[tokio::test]
async fn local_files_are_put_and_kept() {
    let bench = Bench::new();
    let uri = bench.write("write", "stored").await;
    let config = json!({"inputs": {"a.txt": "given", "in/b.txt": uri, "c.csv": "no"}, "outputs": ["**/*.txt"]});
    let output = bench.done("storage.LocalFiles", "local", config).await;
    let uris = output["uris"].as_object().unwrap();
    assert_eq!(uris.keys().collect::<Vec<_>>(), ["a.txt", "in/b.txt"]);
    assert_eq!((bench.text(&uris["a.txt"]), bench.text(&uris["in/b.txt"])), ("given".into(), "stored".into()));
    let outside = json!({"inputs": {"../x": "y"}});
    assert_eq!(bench.verdict("storage.LocalFiles", outside).await, "clean:bad_config");
}

#[tokio::test]
async fn a_log_becomes_a_file() {
    let bench = Bench::new();
    let all = bench.done("log.Fetch", "fetch", json!({"level": "TRACE"})).await;
    assert_eq!(all["size"], json!(2_500));
    let some = bench.done("log.Fetch", "fetch", json!({"tasksId": ["t0"]})).await;
    let text = bench.text(&some["uri"]);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["taskId"], &first["level"], &first["message"]),
        (&json!("t0"), &json!("WARN"), &json!("line 6"))
    );
    assert_eq!(some["size"].as_u64(), Some(text.lines().count() as u64));
    assert_eq!(bench.verdict("log.Fetch", json!({"executionId": "x"})).await, "clean:bad_config");
}

#[tokio::test]
async fn a_file_of_items_is_cut_and_what_came_of_it_is_gathered() {
    let bench = Bench::new();
    let items = bench.write("write", "1\n2\n3\n").await;
    for (batch, parts) in [
        (json!({}), vec!["1\n", "2\n", "3\n"]),
        (json!({"rows": 2}), vec!["1\n2\n", "3\n"]),
        (json!({"partitions": 2, "separator": "\n"}), vec!["1\n3\n", "2\n"]),
    ] {
        let output = bench.done("flow.ForEachItemSplit", "split", json!({"items": items, "batch": batch})).await;
        let list = bench.text(&output["splits"]);
        let found: Vec<String> = list.lines().map(|uri| bench.text(&json!(uri))).collect();
        assert_eq!(found, parts, "{batch}");
    }
    assert_eq!(bench.verdict("flow.ForEachItemSplit", json!({"items": "a text"})).await, "clean:bad_config");
    let base = "/shop/order/executions/07070707-0707-0707-0707-070707070707/tasks/items/0a";
    let config = json!({"base": base, "outputs": [[0, {"n": 1}], [2, {"n": 3}]]});
    let merged = bench.done("flow.ForEachItemMergeOutputs", "merge", config).await;
    assert_eq!(bench.text(&merged["subflowOutputs"]), "{\"n\":1}\n{\"n\":3}\n");
    assert_eq!(bench.text(&json!(format!("kestra://{base}/2/outputs.ion"))), "{\"n\":3}\n");
    let nothing = bench.done("flow.ForEachItemMergeOutputs", "none", json!({"base": base, "outputs": []})).await;
    assert_eq!(nothing, json!({}));
}

#[tokio::test]
async fn runs_are_counted_by_flow_and_namespace() {
    let bench = Bench::new();
    let mut config = json!({
        "flows": [{"namespace": "shop", "flowId": "order"}, {"namespace": "shop", "flowId": "a"}],
        "namespaces": ["shop"], "states": ["SUCCESS"], "startDate": "2026-01-01T00:00:00Z", "expression": "count",
    });
    // The bench gives the field of that name for an expression: only what says `true` is kept.
    assert_eq!(bench.done("execution.Count", "count", config.clone()).await, json!({"results": [], "total": 0}));
    config["states"] = json!(["NOWHERE"]);
    assert_eq!(bench.verdict("execution.Count", config.clone()).await, "clean:bad_config");
    config["states"] = json!(null);
    config["startDate"] = json!("yesterday");
    assert_eq!(bench.verdict("execution.Count", config).await, "clean:bad_config");
    let nothing = json!({"startDate": "2026-01-01T00:00:00Z", "expression": "count"});
    assert_eq!(bench.verdict("execution.Count", nothing).await, "clean:bad_config");
}
