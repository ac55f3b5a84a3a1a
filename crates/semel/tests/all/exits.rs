//! Exit codes and envelopes: what scripts build on.

use crate::program::{nobody, semel, semel_in, semel_with_stdin};
use serde_json::json;

#[test]
fn wrong_usage_is_2() {
    for args in [
        &["frobnicate"][..],
        &["run"],
        &["run", "list", "--status", "sleeping"],
        &["run", "start"],
        &["run", "verdict", "x", "--why", "y"],
        &["run", "verdict", "x", "--repeat", "--fail", "--why", "y"],
        &["run", "list", "--server", "127.0.0.1:8080"],
        &["run", "start", "x", "--inputs", "[1]"],
        &["key", "release", "k", "--why", "w"],
        &["token", "create", "--role", "king"],
        &["token", "create", "--role", "admin", "--expires", "P1M"],
        &["flow", "validate", "no-such-file.yaml"],
        &["serve", "--dev", "--listen", "0.0.0.0:0"],
        &["serve", "--store", "postgres:x"],
        &["serve", "--config", "no-such-file.toml"],
        &["demo", "--deliveries", "1"],
    ] {
        let ran = semel(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?} wrote data: {}", ran.stdout);
        assert!(!ran.stderr.is_empty(), "{args:?} said nothing");
    }
}

#[test]
fn wrong_usage_with_json_is_an_envelope() {
    for args in [&["frobnicate", "--json"][..], &["run", "list", "--server", "nowhere", "--json"]] {
        let ran = semel(args);
        assert_eq!(ran.code, 2);
        let envelope = ran.json();
        assert_eq!(envelope["ok"], json!(false));
        assert_eq!(envelope["error"]["code"], json!("usage"));
        assert!(envelope["error"]["hint"].is_string() && ran.stderr.is_empty());
    }
}

#[test]
fn nobody_there_is_3_with_a_hint() {
    let server = nobody();
    for args in [
        &["run", "list"][..],
        &["flow", "list"],
        &["kv", "get", "a", "b"],
        &["key", "show", "k"],
        &["run", "watch", "r"],
    ] {
        let ran = semel(&[args, &["--server", &server]].concat());
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
        assert!(ran.stderr.contains("hint: start one with: semel serve --dev"), "{}", ran.stderr);
    }
    let envelope = semel(&["run", "list", "--json", "--server", &server]).json();
    assert_eq!(envelope["error"]["code"], json!("unreachable"));
    assert_eq!(envelope["error"]["hint"], json!("start one with: semel serve --dev"));
}

#[test]
fn help_and_version_are_0_and_data() {
    for args in
        [&["--help"][..], &["--version"], &["version"], &["run", "start", "--help"], &["help", "run", "verdict"]]
    {
        let ran = semel(args);
        assert_eq!(ran.code, 0, "{args:?}");
        assert!(!ran.stdout.is_empty() && ran.stderr.is_empty(), "{args:?}");
    }
    let version = semel(&["version", "--json"]).json();
    assert_eq!(version["data"]["version"], json!(env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = semel(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.contains("semel") && ran.stdout.contains("verdict"), "{shell}");
    }
    assert_eq!(semel(&["completions", "tcsh"]).code, 2);
}

#[test]
fn a_secret_is_never_an_argument() {
    let server = nobody();
    assert_eq!(semel(&["secret", "set", "NAME", "hunter2", "--server", &server]).code, 2);
    let empty = semel_with_stdin(&["secret", "set", "NAME", "--server", &server], "\n");
    assert_eq!(empty.code, 2, "{}", empty.stderr);
    let given = semel_with_stdin(&["secret", "set", "NAME", "--server", &server], "hunter2\n");
    assert_eq!(given.code, 3);
    assert!(!given.stderr.contains("hunter2"));
}

#[test]
fn a_bad_configuration_is_shown_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), "listen = '127.0.0.1:0'\n[limits]\nbody_bytes = 5\n").unwrap();
    let ran = semel_in(directory.path(), &["serve"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("semel.toml:3:1: unknown field `body_bytes`"), "{}", ran.stderr);
    assert!(!directory.path().join("semel-data").exists(), "a refused start leaves nothing behind");
}
