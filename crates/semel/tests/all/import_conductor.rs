//! `semel import conductor`: what of a folder of definitions runs here, with file, line and JSON path.

use crate::program::semel_in;
use crate::server::Server;
use serde_json::json;

const TASKS: &str = "[{\"name\": \"job\", \"retryCount\": 1},\n {\"name\": \"other\", \"timeoutSeconds\": 5,\n  \"isolationGroupId\": \"g\"}]\n";
const GOOD: &str =
    "{\"name\": \"good\", \"version\": 2,\n \"tasks\": [{\"name\": \"job\", \"taskReferenceName\": \"j\"}]}\n";
const PAYS: &str = "{\"name\": \"pays\",\n \"tasks\": [\n  {\"name\": \"call\", \"taskReferenceName\": \"c\",\n   \"type\": \"HTTP\", \"inputParameters\": {\"uri\": \"http://127.0.0.1:1\", \"method\": \"POST\"}}]}\n";
const BAD: &str = "{\"name\": \"bad\", \"tasks\": [\n  {\"name\": \"x\", \"taskReferenceName\": \"x\",\n   \"type\": \"LLM_DREAM\"}]}\n";

fn folder() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("defs/team")).unwrap();
    for (name, text) in [
        ("defs/tasks.json", TASKS),
        ("defs/team/good.json", GOOD),
        ("defs/pays.json", PAYS),
        ("defs/package.json", "{\"name\": \"p\"}"),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

#[test]
fn a_folder_is_judged_without_a_server() {
    let directory = folder();
    let ran = semel_in(directory.path(), &["import", "conductor", "defs", "--check"]);
    assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    for line in [
        "unchanged defs/tasks.json:1 task job",
        "differs   defs/tasks.json:2 task other",
        "  defs/tasks.json:3: isolationGroupId: is kept and shown",
        "unchanged defs/team/good.json:1 workflow good version 2",
        "differs   defs/pays.json:1 workflow pays version 1",
        "  defs/pays.json:4: tasks[0].type: after a crash in mid-call",
        "skipped   defs/package.json:1: not a definition",
    ] {
        assert!(ran.stdout.contains(line), "{line} is not in\n{}", ran.stdout);
    }
    let summary = "4 definitions: 2 unchanged, 2 with differences, 0 missing something; 0 pushed\n";
    assert!(ran.stdout.ends_with(summary), "{}", ran.stdout);
}

#[test]
fn what_is_missing_has_its_line_and_the_rest_is_pushed() {
    let directory = folder();
    std::fs::write(directory.path().join("defs/bad.json"), BAD).unwrap();
    std::fs::write(directory.path().join("defs/twice.json"), GOOD).unwrap();
    let server = Server::start(directory.path(), &["--dev"]);
    let import = ["import", "conductor", "defs", "--server", &server.url, "--json"];
    let ran = semel_in(directory.path(), &import);
    assert_eq!(ran.code, 1, "{} {}", ran.stdout, ran.stderr);
    let report = &ran.json()["error"]["details"];
    assert_eq!((&report["pushed"], &report["missing"]), (&json!(4), &json!(2)), "{report}");
    let found =
        |file: &str| report["definitions"].as_array().unwrap().iter().find(|one| one["file"] == file).unwrap().clone();
    let bad = found("defs/bad.json");
    assert_eq!((&bad["missing"][0]["line"], &bad["missing"][0]["path"]), (&json!(3), &json!("tasks[0].type")), "{bad}");
    assert!(bad["missing"][0]["message"].as_str().unwrap().contains("LLM_DREAM"), "{bad}");
    assert!(found("defs/twice.json")["missing"][0]["message"].as_str().unwrap().contains("is defined at"));
    // Again: what is there is taken as it is.
    let again = semel_in(directory.path(), &import).json();
    assert_eq!(again["error"]["details"]["pushed"], 4);
}

#[test]
fn a_folder_without_definitions_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let ran = semel_in(directory.path(), &["import", "conductor", ".", "--check"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no definition below ."), "{}", ran.stderr);
}
