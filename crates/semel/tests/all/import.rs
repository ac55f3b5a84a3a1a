//! `semel import kestra`: what of a folder of flows runs here, with file and line.

use crate::program::semel_in;
use crate::server::{Server, ok};
use serde_json::json;

const GOOD: &str =
    "id: hello\nnamespace: demo\ntasks:\n  - id: say\n    type: io.kestra.plugin.core.log.Log\n    message: hi\n";
const TWO: &str = "id: one\nnamespace: demo\ntasks:\n  - {id: say, type: log.Log, message: hi}\n---\nid: pay\nnamespace: demo\ntasks:\n  - id: call\n    type: io.kestra.plugin.core.http.Request\n    uri: http://127.0.0.1:1/\n    method: POST\n";
const BAD: &str = "id: spark\nnamespace: demo\ntasks:\n  - id: run\n    type: io.kestra.plugin.spark.JarSubmit\n";

fn folder() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("flows/team")).unwrap();
    for (name, text) in [
        ("flows/good.yaml", GOOD),
        ("flows/team/two.yml", TWO),
        ("flows/team/compose.yml", "services: {}\n"),
        ("flows/readme.md", "tasks:\n"),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

#[test]
fn a_folder_is_judged_without_a_server() {
    let directory = folder();
    let ran = semel_in(directory.path(), &["import", "kestra", "flows", "--check"]);
    assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("unchanged flows/good.yaml:1 demo:hello"), "{}", ran.stdout);
    assert!(ran.stdout.contains("unchanged flows/team/two.yml:1 demo:one"), "{}", ran.stdout);
    assert!(ran.stdout.contains("differs   flows/team/two.yml:6 demo:pay"), "{}", ran.stdout);
    assert!(ran.stdout.contains("flows/team/two.yml:9:5: after a crash in mid-call"), "{}", ran.stdout);
    assert!(ran.stdout.contains("skipped   flows/team/compose.yml:1: not a flow"), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("3 flows: 2 unchanged, 1 with differences, 0 missing something; 0 pushed\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_is_missing_has_its_line_and_the_rest_is_pushed() {
    let directory = folder();
    std::fs::write(directory.path().join("flows/spark.yaml"), BAD).unwrap();
    std::fs::write(directory.path().join("flows/twice.yaml"), GOOD).unwrap();
    let server = Server::start(directory.path(), &["--dev"]);
    let import = ["import", "kestra", "flows", "--server", &server.url, "--json"];
    let ran = semel_in(directory.path(), &import);
    assert_eq!(ran.code, 1, "{} {}", ran.stdout, ran.stderr);
    let report = &ran.json()["error"]["details"];
    assert_eq!((&report["pushed"], &report["missing"]), (&json!(3), &json!(2)), "{report}");
    let spark = report["flows"].as_array().unwrap().iter().find(|flow| flow["file"] == "flows/spark.yaml").unwrap();
    assert_eq!(spark["missing"][0]["line"], 5);
    assert!(spark["missing"][0]["message"].as_str().unwrap().contains("JarSubmit"), "{spark}");
    let twice = report["flows"].as_array().unwrap().iter().find(|flow| flow["file"] == "flows/twice.yaml").unwrap();
    assert_eq!(twice["missing"][0]["code"], "duplicate_id");
    let stored = ok(semel_in(directory.path(), &["flow", "list", "--server", &server.url, "--json"]));
    let names: Vec<&str> =
        stored.as_array().unwrap().iter().map(|flow| flow["workflow_id"].as_str().unwrap()).collect();
    assert_eq!(names, ["demo:hello", "demo:one", "demo:pay"]);
}

#[test]
fn a_folder_without_flows_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let ran = semel_in(directory.path(), &["import", "kestra", ".", "--check"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no flow below ."), "{}", ran.stderr);
    assert_eq!(semel_in(directory.path(), &["import", "kestra", "nowhere", "--check"]).code, 2);
}
