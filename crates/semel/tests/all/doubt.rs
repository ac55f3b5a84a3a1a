//! A server killed in the middle of an effect that nothing makes safe to repeat: held, until somebody knows.

use crate::program::semel_in;
use crate::server::{Server, ok};
use serde_json::{Value as Json, json};
use std::io::Read;
use std::net::TcpListener;

const FLOW: &str = "id: pay\nnamespace: shop\ntasks:\n  - id: before\n    type: log.Log\n    message: before\n  - id: charge\n    type: http.Request\n    method: POST\n    uri: http://ADDRESS/charge\n    body: {amount: 1}\n  - id: after\n    type: log.Log\n    message: \"charged with {{ outputs.charge.code }}\"\n";

/// Takes one request whole and says nothing.
fn swallow(listener: &TcpListener) -> std::net::TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0u8; 1024];
    while !seen.ends_with(b"{\"amount\":1}") {
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "cut off: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    stream
}

/// Starts the flow, kills the server while the far side is silent, and starts it again. Gives the held run's id.
fn held_run(directory: &std::path::Path, listener: &TcpListener) -> (Server, String) {
    std::fs::write(directory.join("pay.yaml"), FLOW.replace("ADDRESS", &listener.local_addr().unwrap().to_string()))
        .unwrap();
    let server = Server::start(directory, &["--dev"]);
    ok(semel_in(directory, &["flow", "push", "pay.yaml", "--json", "--server", &server.url]));
    let started =
        ok(semel_in(directory, &["run", "start", "shop:pay", "--key", "k", "--json", "--server", &server.url]));
    let id = started["run_id"].as_str().unwrap().to_owned();
    let far_side = swallow(listener);
    server.kill();
    drop(far_side);
    let server = Server::start(directory, &["--dev"]);
    let watched = semel_in(directory, &["run", "watch", &id, "--server", &server.url]);
    assert_eq!(watched.code, 1, "{}", watched.stdout);
    assert!(watched.stderr.contains("semel run verdict"), "{}", watched.stderr);
    (server, id)
}

#[test]
fn an_effect_in_doubt_is_held_and_a_verdict_lets_it_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, id) = held_run(directory.path(), &listener);
    let run = |args: &[&str]| semel_in(directory.path(), &[args, &["--json", "--server", &server.url]].concat());

    assert_eq!(ok(run(&["run", "list", "--status", "held"]))[0]["run_id"], json!(id));
    assert_eq!(ok(run(&["run", "show", &id, "--steps"]))["steps"][0]["state"], json!("in_doubt"));
    let twin = ok(run(&["run", "start", "shop:pay", "--key", "k"]));
    assert_eq!(twin["run_id"], json!(id), "a twin does not repeat it");
    assert_eq!(run(&["run", "delete", &id]).code, 1);
    assert_eq!(run(&["key", "release", "k", "--workflow", "shop:pay", "--why", "x"]).code, 1);

    ok(run(&["run", "verdict", &id, "--done", r#"{"code":201}"#, "--why", "the bank shows it"]));
    assert_eq!(run(&["run", "watch", &id]).code, 0);
    let logs = ok(run(&["run", "show", &id, "--logs"]))["logs"].clone();
    let messages: Vec<&Json> = logs.as_array().unwrap().iter().map(|line| &line["message"]).collect();
    assert_eq!(messages, [&json!("before"), &json!("charged with 201")], "nothing was done twice");
}

#[test]
fn a_verdict_may_also_be_that_it_fails() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, id) = held_run(directory.path(), &listener);
    let run = |args: &[&str]| semel_in(directory.path(), &[args, &["--json", "--server", &server.url]].concat());
    ok(run(&["run", "verdict", &id, "--fail", "--why", "paid in cash", "--step", "charge"]));
    assert_eq!(run(&["run", "watch", &id]).json_lines().last().unwrap()["error"]["code"], json!("run_failed"));
}
