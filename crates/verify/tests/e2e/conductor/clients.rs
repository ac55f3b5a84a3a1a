//! The clients that Conductor's users have, as they are released, at the real binary.
//!
//! `scripts/test` fetches them from the package indexes into the target directory and runs these tests; by hand:
//! `SEMEL_PYTHON=… SEMEL_NODE_CLIENTS=… cargo test -p semel-verify --test e2e -- --ignored conductor::clients`, where the
//! first is a Python that has `conductor-python` and the second a directory with the packages of npm.

use super::line::Line;
use super::*;
use crate::harness::Server;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `scripts/test` says of where the client is.
fn named(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable);
    let value = value.unwrap_or_else(|| panic!("{variable} is not set: scripts/test fetches the client and sets it"));
    let path = std::path::absolute(value).expect("a path");
    assert!(path.exists(), "{variable} names {}, which is not there", path.display());
    path
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/conductor").join(name)
}

/// Runs the client to its end; what it printed, of which every line is shown if it fails.
async fn run(mut command: Command) -> String {
    let output = tokio::task::spawn_blocking(move || command.output().expect("the client runs")).await;
    let output = output.expect("no panic");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn assert_clean(server: &Server) {
    let (exit, report) = crate::check::check(server, &server.store(), &["--full"]);
    assert_eq!((exit, crate::check::codes(&report)), (0, vec![]), "{report:#}");
}

#[tokio::test]
#[ignore = "needs conductor-python; scripts/test fetches it and runs this"]
async fn the_python_client_finds_what_it_expects() {
    let server = Server::start().await;
    let mut command = Command::new(named("SEMEL_PYTHON"));
    command.arg(script("python_client.py")).current_dir(server.path(""));
    command.env("CONDUCTOR_SERVER_URL", format!("{}/api", server.url)).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = run(command).await;
    let passed: Vec<&str> = said.lines().filter(|line| line.starts_with("passed ")).collect();
    assert_eq!(passed.len(), 10, "{said}");
    assert_clean(&server);
}

/// The client sends a start whose answer is lost three times more. With a key that is one workflow.
#[tokio::test]
#[ignore = "needs the client of npm; scripts/test fetches it and runs this"]
async fn the_javascript_client_finds_what_it_expects_and_its_repeats_start_nothing() {
    let server = Server::start().await;
    let line = Line::start(&server.url, "POST /api/workflow ", 3).await;
    let mut command = Command::new("node");
    command.arg(script("node_client.mjs")).current_dir(server.path(""));
    command.env("SEMEL_NODE_CLIENTS", named("SEMEL_NODE_CLIENTS"));
    command.env("SEMEL_SERVER_URL", &server.url).env("SEMEL_LINE_URL", line.url());
    let said = run(command).await;
    assert_eq!(said.lines().filter(|line| line.starts_with("passed ")).count(), 4, "{said}");
    assert_eq!((line.seen(), line.lost_all()), (4, true), "the client did not send it again:\n{said}");
    let through: Vec<Json> = server.all("/v1/runs?correlation_id=line").await;
    assert_eq!(through.len(), 1, "{through:#?}");
    assert!(said.contains(through[0]["run_id"].as_str().expect("an id")), "{said}");
    assert_clean(&server);
}
