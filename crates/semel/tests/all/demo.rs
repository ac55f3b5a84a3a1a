//! The demo, for real: a server process, a SIGKILL, one charge.

use crate::program::{command, semel};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn the_tally_holds() {
    let ran = semel(&["demo", "--once", "--json"]);
    assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    let tally = ran.json()["data"].clone();
    for (name, expected) in [
        ("deliveries", 50),
        ("answered", 50),
        ("replays", 49),
        ("runs", 1),
        ("starts", 1),
        ("charges", 1),
        ("bank_calls", 2),
    ] {
        assert_eq!(tally[name], json!(expected), "{name}: {tally}");
    }
    assert_eq!(tally["holds"], json!(true));
}

#[test]
fn it_serves_until_ctrl_c_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path(), &["demo", "--deliveries", "5"]);
    // Its temporary directory is made in ours, so that we can see it go.
    command.env("TMPDIR", directory.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut server = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the demo ended early");
        if let Some((_, url)) = line.split_once("semel run list --server ") {
            server = url.trim().to_owned();
        }
        if line.contains("Serving until Ctrl-C") {
            break;
        }
    }
    let listed = semel(&["run", "list", "--json", "--server", &server]).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert_eq!(semel(&["run", "list", "--server", &server]).code, 3, "the server ended with the demo");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the directory is gone");
}
