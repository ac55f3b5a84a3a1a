//! `semel flow validate`: no server, all mistakes at once, each at its place.

use crate::program::{semel_in, semel_with_stdin};
use serde_json::json;

const GOOD: &str = "id: hello\nnamespace: demo\ntasks:\n  - id: say\n    type: log.Log\n    message: hi\n";
const BAD: &str = "id: hello\nnamespace: demo\ntasks:\n  - id: say\n    type: log.Lgo\n    message: hi\n";

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("good.yaml"), GOOD).unwrap();
    std::fs::write(directory.path().join("bad.yaml"), BAD).unwrap();
    directory
}

#[test]
fn a_good_flow_is_0() {
    let directory = directory();
    let ran = semel_in(directory.path(), &["flow", "validate", "good.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "good.yaml: ok\n", ""));
    let envelope = semel_in(directory.path(), &["flow", "validate", "good.yaml", "--json"]).json();
    assert_eq!(envelope["ok"], json!(true));
    assert_eq!(envelope["data"][0]["workflow_id"], json!("demo:hello"));
    assert_eq!(envelope["meta"], json!({}));
    assert_eq!(semel_with_stdin(&["flow", "validate", "-"], GOOD).stdout, "<stdin>: ok\n");
}

#[test]
fn a_bad_flow_is_1_with_file_line_and_column() {
    let directory = directory();
    let ran = semel_in(directory.path(), &["flow", "validate", "good.yaml", "bad.yaml"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.stdout, "good.yaml: ok\nbad.yaml: 1 error\n");
    assert!(ran.stderr.contains("bad.yaml:5:11") && ran.stderr.contains("log.Lgo"), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: 1 error in 1 of 2 files"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn a_bad_flow_with_json_is_an_envelope_with_places() {
    let directory = directory();
    let ran = semel_in(directory.path(), &["flow", "validate", "bad.yaml", "--json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.is_empty());
    let envelope = ran.json();
    assert_eq!((&envelope["ok"], &envelope["error"]["code"]), (&json!(false), &json!("flow_invalid")));
    let error = &envelope["error"]["details"][0]["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&json!(5), &json!(11)));
}

#[test]
fn what_is_not_text_is_said_so() {
    let directory = directory();
    std::fs::write(directory.path().join("binary.yaml"), b"id: a\n\xff\xfe\n").unwrap();
    let ran = semel_in(directory.path(), &["flow", "validate", "binary.yaml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("binary.yaml: line 2 is not UTF-8"), "{}", ran.stderr);
}
