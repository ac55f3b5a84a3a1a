//! The binary as a server, and the client commands against it.

use crate::program::{Ran, command, semel_in};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

pub struct Server {
    child: Child,
    pub url: String,
    /// What it said before it was ready.
    said: String,
    /// Kept open: a server must not fail because nobody reads its log.
    stderr: BufReader<Box<dyn Read + Send>>,
}

impl Server {
    /// Starts a server in `directory` and waits for the line that says it is ready.
    pub fn start(directory: &Path, args: &[&str]) -> Server {
        let mut command =
            command(directory, &[&["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"], args].concat());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the server starts");
        let stderr: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("stderr is piped"));
        let mut stderr = BufReader::new(stderr);
        let mut said = String::new();
        let url = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the server ended: {said}");
            if let Some((_, rest)) = line.split_once(" ready on ") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
            said.push_str(&line);
        };
        Server { child, url, said, stderr }
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Exit code and what was logged until then.
    fn wait(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

pub fn ok(ran: Ran) -> Json {
    assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    let envelope = ran.json();
    assert_eq!(envelope["ok"], json!(true));
    envelope["data"].clone()
}

#[test]
fn the_first_start_makes_a_private_token_and_tells_only_where() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let data = directory.path().join("semel-data");
    assert_eq!(mode(&data), 0o700);
    for file in ["admin.token", "secret.key", "semel.db"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
    assert!(token.starts_with("sml_"));
    assert!(server.said.contains("the admin token is in semel-data/admin.token"), "{}", server.said);
    assert!(!server.said.contains(token.trim()));

    assert_eq!(
        ok(semel_in(directory.path(), &["token", "list", "--json", "--server", &server.url]))[0]["role"],
        json!("admin")
    );
    let stranger = tempfile::tempdir().unwrap();
    let refused = semel_in(stranger.path(), &["run", "list", "--json", "--server", &server.url]);
    assert_eq!(refused.code, 1);
    assert_eq!(refused.json()["error"]["details"]["status"], json!(401));

    server.signal("TERM");
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains(token.trim()));
    let again = Server::start(directory.path(), &[]);
    assert!(!again.said.contains("first start"), "{}", again.said);
    assert_eq!(std::fs::read_to_string(data.join("admin.token")).unwrap(), token);
}

#[test]
fn a_second_server_on_the_store_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--dev"]);
    let second = semel_in(directory.path(), &["serve", "--dev", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    let same_port =
        semel_in(directory.path(), &["serve", "--dev", "--listen", server.url.trim_start_matches("http://")]);
    assert_eq!(same_port.code, 1);
    assert!(same_port.stderr.contains("another program has that port"), "{}", same_port.stderr);
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("k");
    std::fs::write(&key, "x").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(directory.path().join("semel.toml"), "[secrets]\nkey_file = 'k'\n").unwrap();
    let ran = semel_in(directory.path(), &["serve", "--dev", "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("can be read by others") && ran.stderr.contains("hint: chmod 600 k"), "{}", ran.stderr);
}

#[test]
fn a_server_ends_with_its_parent_and_on_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &["--dev"]);
    drop(server.child.stdin.take());
    assert_eq!(server.wait().0, Some(0));
    let server = Server::start(directory.path(), &["--dev"]);
    server.signal("INT");
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn a_server_whose_log_nobody_reads_goes_on_and_still_stops() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &["--dev", "--log-level", "trace"]);
    server.stderr = BufReader::new(Box::new(std::io::empty()));
    assert_eq!(ok(semel_in(directory.path(), &["run", "list", "--json", "--server", &server.url])), json!([]));
    drop(server.child.stdin.take());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

const FLOW: &str = "id: hello\nnamespace: demo\ninputs:\n  - id: name\n    type: STRING\ntasks:\n  - id: say\n    type: log.Log\n    message: \"hi {{ inputs.name }}\"\n  - id: keep\n    type: debug.Return\n    format: \"{{ inputs.name }}\"\noutputs:\n  - id: who\n    type: STRING\n    value: \"{{ outputs.keep.value }}\"\n";

#[test]
fn a_flow_is_pushed_started_watched_and_explained() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--dev"]);
    std::fs::write(directory.path().join("hello.yaml"), FLOW).unwrap();
    let run = |args: &[&str]| semel_in(directory.path(), &[args, &["--json", "--server", &server.url]].concat());

    assert_eq!(ok(run(&["flow", "push", "hello.yaml"]))[0]["workflow_id"], json!("demo:hello"));
    assert_eq!(ok(run(&["flow", "push", "hello.yaml"]))[0]["changed"], json!(false));
    assert_eq!(ok(run(&["flow", "list"]))[0]["revision"], json!(1));
    assert_eq!(ok(run(&["flow", "show", "hello"]))["source"], json!(FLOW));
    assert_eq!(ok(run(&["flow", "revisions", "demo:hello"])).as_array().unwrap().len(), 1);

    let started = ok(run(&[
        "run",
        "start",
        "demo:hello",
        "--input",
        "name=Ada",
        "--key",
        "k1",
        "--label",
        "team=ops",
        "--wait",
        "20",
    ]));
    assert_eq!((&started["status"], &started["outputs"]["who"]), (&json!("completed"), &json!("Ada")));
    let id = started["run_id"].as_str().unwrap();
    let twin = ok(run(&["run", "start", "demo:hello", "--input", "name=Ada", "--key", "k1"]));
    assert_eq!((&twin["run_id"], &twin["idempotent_replayed"]), (&json!(id), &json!(true)));

    assert_eq!(ok(run(&["run", "list", "--label", "team=ops", "--status", "completed"])).as_array().unwrap().len(), 1);
    assert_eq!(ok(run(&["run", "list", "--status", "failed"])), json!([]));
    let shown = ok(run(&["run", "show", id, "--logs", "--steps", "--journal"]));
    assert_eq!(shown["logs"][0]["message"], json!("hi Ada"));
    assert!(!shown["journal"].as_array().unwrap().is_empty() && shown["steps"].is_array());
    assert_eq!(run(&["run", "watch", id]).code, 0);
    assert_eq!(ok(run(&["run", "replays", id])).as_array().unwrap().len(), 1);
    assert_eq!(ok(run(&["run", "children", id])), json!([]));
    assert_eq!(ok(run(&["decision", "list", "--run", id])).as_array().unwrap().len(), 2);
    assert_eq!(ok(run(&["key", "list", "--key", "k1"]))[0]["run_id"], json!(id));
    assert_eq!(ok(run(&["key", "show", "k1", "--workflow", "demo:hello"]))["items"][0]["run_id"], json!(id));
    assert!(ok(run(&["key", "explain", "k1", "--workflow", "demo:hello"]))["explanation"].is_array());

    assert_eq!(run(&["run", "pause", id]).code, 1);
    assert_eq!(run(&["run", "show", "01a1e230-0000-7000-8000-000000000000"]).code, 1);
    ok(run(&["key", "release", "k1", "--workflow", "demo:hello", "--why", "test"]));
    ok(run(&["run", "erase", id]));
    ok(run(&["run", "delete", id]));
    assert_eq!(ok(run(&["run", "list"])), json!([]));
}

#[test]
fn values_secrets_tokens_and_workspaces_are_managed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let run = |args: &[&str]| semel_in(directory.path(), &[args, &["--json", "--server", &server.url]].concat());

    ok(run(&["kv", "set", "shop", "rate", "0.19"]));
    assert_eq!(ok(run(&["kv", "get", "shop", "rate"]))["value"], json!(0.19));
    assert_eq!(run(&["kv", "set", "shop", "rate", "1", "--no-overwrite"]).code, 1);
    assert_eq!(ok(run(&["kv", "list", "shop"])).as_array().unwrap().len(), 1);
    ok(run(&["kv", "delete", "shop", "rate"]));
    assert_eq!(run(&["kv", "get", "shop", "rate"]).code, 1);

    std::fs::write(directory.path().join("value"), "hunter2\n").unwrap();
    ok(run(&["secret", "set", "BANK", "--value-file", "value"]));
    let listed = run(&["secret", "list"]);
    assert!(listed.stdout.contains("BANK") && !listed.stdout.contains("hunter2"));
    ok(run(&["secret", "delete", "BANK"]));

    ok(run(&["workspace", "create", "staging"]));
    assert!(ok(run(&["workspace", "list"])).as_array().unwrap().iter().any(|row| row["id"] == json!("staging")));
    let made = ok(run(&["token", "create", "--role", "author", "--workspace", "staging", "--expires", "P1D"]));
    assert_eq!(made["workspace"], json!("staging"));
    let token = made["token"].as_str().unwrap();
    assert_eq!(ok(run(&["flow", "list", "--token", token])), json!([]));
    assert_eq!(run(&["token", "create", "--role", "viewer", "--token", token]).code, 1, "an author makes no tokens");
    let viewer = ok(run(&["token", "create", "--role", "viewer"]));
    ok(run(&["token", "revoke", viewer["id"].as_str().unwrap()]));
    assert_eq!(run(&["run", "list", "--token", viewer["token"].as_str().unwrap()]).code, 1);
    assert_eq!(ok(run(&["schedule", "list"])), json!([]));
}
