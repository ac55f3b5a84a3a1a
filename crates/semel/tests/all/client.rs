//! What the client commands send, and what they make of the answers.

use crate::fake::Fake;
use crate::program::{command, semel, semel_in, semel_with_stdin};
use serde_json::json;

const RUN: &str = r#"{"run_id":"r1","workflow_id":"shop:payments","revision":3,"status":"completed","key":"evt_1","labels":{},"inputs":{"n":1},"outputs":null,"error":null,"created_at":"2026-01-01T00:00:00.000Z","started_at":"2026-01-01T00:00:00.000Z","ended_at":"2026-01-01T00:00:01.500Z","open_doubts":0,"take":0}"#;

fn run_with(status: &str) -> String {
    RUN.replace("completed", status)
}

#[test]
fn lists_are_tabbed_in_a_pipe_and_follow_cursors() {
    let page = |next: &str| format!(r#"{{"items":[{RUN}],"next_cursor":{next}}}"#);
    let fake = Fake::answering(&[(200, &page("\"c2\"")), (200, &page("null")), (200, &page("\"c9\""))]);
    let ran = semel(&["run", "list", "--all", "--status", "failed,held", "--label", "a=b c", "--server", &fake.url]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 3);
    assert!(ran.stdout.lines().nth(1).unwrap().starts_with("r1\tshop:payments\tcompleted\tevt_1\t"));
    let asked = fake.asked();
    assert_eq!(asked[0].line, "GET /v1/runs?status=failed&status=held&label=a%3Ab+c&limit=50");
    assert!(asked[1].line.ends_with("&cursor=c2"));
    let one_page = semel(&["run", "list", "--json", "--server", &fake.url]).json();
    assert_eq!(one_page["meta"]["next_cursor"], json!("c9"));
    assert_eq!(one_page["data"].as_array().unwrap().len(), 1);
}

#[test]
fn a_start_sends_inputs_key_labels_and_the_wish_to_wait() {
    let fake =
        Fake::answering(&[(200, r#"{"run_id":"r1","status":"completed","idempotent_replayed":false}"#), (200, RUN)]);
    let args = ["run", "start", "shop:payments", "--inputs", r#"{"a":1,"n":0}"#, "--input", "n:=2", "--input", "t=3"];
    let more = ["--key", "evt_1", "--label", "team=ops", "--wait", "7", "--json", "--server", &fake.url];
    let ran = semel(&[&args[..], &more[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let asked = fake.asked();
    assert_eq!(asked[0].line, "POST /v1/runs");
    assert_eq!(asked[0].header("prefer"), Some("wait=7"));
    let expected = json!({"workflow_id": "shop:payments", "inputs": {"a": 1, "n": 2, "t": "3"}, "labels": {"team": "ops"}, "key": "evt_1"});
    assert_eq!(asked[0].json(), expected);
    assert_eq!(ran.json()["data"]["status"], json!("completed"));
}

#[test]
fn waiting_for_a_run_that_does_not_complete_is_1() {
    for (status, code) in
        [("failed", "run_failed"), ("cancelled", "run_cancelled"), ("held", "run_held"), ("running", "not_ended")]
    {
        let started = format!(r#"{{"run_id":"r1","status":"{status}","idempotent_replayed":false}}"#);
        let fake = Fake::answering(&[(200, &started), (200, &run_with(status))]);
        let ran = semel(&["run", "start", "x", "--wait", "1", "--json", "--server", &fake.url]);
        assert_eq!(ran.code, 1);
        let envelope = ran.json();
        assert_eq!(envelope["error"]["code"], json!(code));
        assert_eq!(envelope["error"]["details"]["run_id"], json!("r1"));
    }
}

#[test]
fn a_watch_follows_to_the_end() {
    let stream = |last: &str| {
        format!(
            "event: run\ndata: {}\n\n: still here\n\nevent: run\ndata: {last}\n\nevent: end\ndata: {last}\n\n",
            run_with("running")
        )
    };
    let fake = Fake::answering(&[(200, &stream(RUN)), (200, &stream(&run_with("failed")))]);
    let ran = semel(&["run", "watch", "r1", "--json", "--server", &fake.url]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let statuses: Vec<_> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["data"]["status"].clone())
        .collect();
    assert_eq!(statuses, ["running", "completed", "completed"]);
    assert_eq!(semel(&["run", "watch", "r1", "--server", &fake.url]).code, 1);
    assert_eq!(fake.asked()[0].line, "GET /v1/runs/r1/follow");
}

#[test]
fn refusals_keep_the_servers_code_detail_and_hint() {
    let problem = r#"{"type":"x","title":"Not possible","status":409,"code":"not_possible","detail":"the run has ended","hint":"use restart"}"#;
    let fake = Fake::answering(&[(409, problem), (409, problem), (502, "<html>")]);
    let ran = semel(&["run", "pause", "r1", "--why", "x", "--server", &fake.url]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert_eq!(ran.stderr, "error: the run has ended\nhint: use restart\n");
    assert_eq!(fake.asked()[0].json(), json!({"why": "x"}));
    let envelope = semel(&["run", "pause", "r1", "--json", "--server", &fake.url]).json();
    assert_eq!(
        envelope["error"],
        json!({"code": "not_possible", "message": "the run has ended", "hint": "use restart", "details": {"status": 409}})
    );
    assert_eq!(semel(&["run", "pause", "r1", "--server", &fake.url]).code, 1);
}

#[test]
fn tokens_come_from_flag_variable_file_or_the_local_server() {
    let empty = r#"{"items":[],"next_cursor":null}"#;
    let fake = Fake::answering(&[(200, empty), (200, empty), (200, empty), (200, empty), (200, empty)]);
    let directory = tempfile::tempdir().unwrap();
    let list = ["kv", "list", "a b", "--server", &fake.url];
    let bearer = |index: usize| fake.asked()[index].header("authorization").map(str::to_owned);

    assert_eq!(semel_in(directory.path(), &list).code, 0);
    assert_eq!(bearer(0), None);
    std::fs::create_dir(directory.path().join("semel-data")).unwrap();
    std::fs::write(directory.path().join("semel-data/admin.token"), "local\n").unwrap();
    semel_in(directory.path(), &list);
    assert_eq!(bearer(1).as_deref(), Some("Bearer local"));
    std::fs::write(directory.path().join("t"), " file \n").unwrap();
    semel_in(directory.path(), &[&list[..], &["--token-file", "t", "--workspace", "w"]].concat());
    assert_eq!(bearer(2).as_deref(), Some("Bearer file"));
    assert_eq!(fake.asked()[2].header("x-semel-workspace"), Some("w"));
    let with_variable = command(directory.path(), &list).env("SEMEL_TOKEN", "variable").output().unwrap();
    assert!(with_variable.status.success());
    assert_eq!(bearer(3).as_deref(), Some("Bearer variable"));
    let both = command(directory.path(), &[&list[..], &["--token", "flag"]].concat())
        .env("SEMEL_TOKEN", "variable")
        .output()
        .unwrap();
    assert!(both.status.success());
    assert_eq!(bearer(4).as_deref(), Some("Bearer flag"));
    assert_eq!(fake.asked()[0].line, "GET /v1/kv/a%20b?limit=50");
}

#[test]
fn a_token_is_data_and_its_story_is_talk() {
    let made = r#"{"token":"sml_x_y","id":"x","role":"author","workspace":"staging"}"#;
    let fake = Fake::answering(&[(200, made)]);
    let ran = semel(&[
        "token",
        "create",
        "--role",
        "author",
        "--workspace",
        "staging",
        "--expires",
        "P90D",
        "--server",
        &fake.url,
    ]);
    assert_eq!(ran.stdout, "sml_x_y\n");
    assert!(ran.stderr.contains("not shown again"));
    let asked = &fake.asked()[0];
    assert_eq!(asked.json(), json!({"role": "author", "name": "author", "workspace": "staging", "expires_in": "P90D"}));
    assert_eq!(asked.header("x-semel-workspace"), None, "the workspace is the token's, not the caller's");
}

#[test]
fn verdicts_and_values_are_sent_as_meant() {
    let fake = Fake::answering(&[(200, RUN), (200, RUN), (200, "{}"), (200, "{}"), (200, r#"{"version":2}"#)]);
    let url = fake.url.as_str();
    semel(&["run", "verdict", "r1", "--done", r#"{"code":200}"#, "--why", "seen", "--step", "charge", "--server", url]);
    semel(&["run", "verdict", "r1", "--repeat-new-key", "--why", "lost", "--server", url]);
    semel(&["kv", "set", "ns", "k/1", "-5", "--ttl", "PT1H", "--server", url]);
    semel(&["kv", "set", "ns", "k", "007", "--no-overwrite", "--server", url]);
    let secret = semel_with_stdin(&["secret", "set", "BANK", "--server", url], "a\nb\n");
    assert_eq!(secret.stdout, "stored BANK version 2\n");
    let asked = fake.asked();
    assert_eq!(
        asked[0].json(),
        json!({"verdict": "done", "result": {"code": 200}, "why": "seen", "step_id": "charge"})
    );
    assert_eq!(asked[1].json(), json!({"verdict": "repeat_new_key", "why": "lost"}));
    assert_eq!(
        (asked[2].line.as_str(), asked[2].json()),
        ("PUT /v1/kv/ns/k%2F1", json!({"value": -5, "overwrite": true, "ttl": "PT1H"}))
    );
    assert_eq!(asked[3].json(), json!({"value": "007", "overwrite": false}));
    assert_eq!(asked[4].json(), json!({"value": "a\nb"}));
}

#[test]
fn a_refused_push_is_drawn_with_the_files_own_name() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("bad.yaml"),
        "id: hello\nnamespace: demo\ntasks:\n  - id: say\n    type: log.Lgo\n",
    )
    .unwrap();
    let problem =
        r#"{"code":"flow_invalid","status":422,"detail":"the flow has 1 error","rendered":"from the server"}"#;
    let pushed = r#"{"workflow_id":"demo:ok","revision":1,"changed":true,"warnings":[]}"#;
    let fake = Fake::answering(&[(422, problem), (200, pushed), (422, problem)]);
    let ran = semel_in(directory.path(), &["flow", "push", "bad.yaml", "--server", &fake.url]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("bad.yaml:5:11") && ran.stderr.contains("error: the flow has 1 error"),
        "{}",
        ran.stderr
    );
    std::fs::write(
        directory.path().join("ok.yaml"),
        "id: ok\nnamespace: demo\ntasks:\n  - id: say\n    type: log.Log\n    message: hi\n",
    )
    .unwrap();
    // Only the server knows that a sub-flow is missing; then its own picture is shown.
    let ran = semel_in(directory.path(), &["flow", "push", "ok.yaml", "ok.yaml", "--server", &fake.url]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "demo:ok revision 1 stored\n"));
    assert!(ran.stderr.starts_with("from the server"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let many = format!(r#"{{"items":[{}],"next_cursor":null}}"#, vec![RUN; 2_000].join(","));
    let fake = Fake::answering(&[(200, &many)]);
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path(), &["run", "list", "--server", &fake.url]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
