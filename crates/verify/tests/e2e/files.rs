//! Files of runs: written, split, read in expressions; scripts that use them; all of it over a kill.

use crate::harness::{Bank, Options, PATIENCE, Server, eventually, flow};
use serde_json::json;

const SPLIT: &str = r#"
tasks:
  - {id: write, type: storage.Write, content: "a\nb\nc\n", extension: .txt}
  - {id: split, type: storage.Split, from: "{{ outputs.write.uri }}", rows: 2}
  - id: each
    type: flow.ForEach
    values: "{{ outputs.split.uris }}"
    tasks:
      - {id: say, type: log.Log, message: "{{ read(taskrun.value) | trim }}"}
  - {id: join, type: storage.Concat, files: "{{ outputs.split.uris }}", separator: "-"}
outputs:
  - {id: text, type: STRING, value: "{{ read(outputs.join.uri) }}"}
  - {id: size, type: INT, value: "{{ fileSize(outputs.write.uri) }}"}
  - {id: there, type: BOOL, value: "{{ fileExists(outputs.write.uri) }}"}
  - {id: empty, type: BOOL, value: "{{ isFileEmpty(outputs.write.uri) }}"}
  - {id: uri, type: STRING, value: "{{ outputs.write.uri }}"}
"#;

#[tokio::test]
async fn files_pass_from_step_to_step_and_into_expressions() {
    let server = Server::start().await;
    server.push(&flow("a", SPLIT)).await;
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "completed", "{}", run.text);
    let stored = server.run(&run.run_id()).await;
    let outputs = &stored["outputs"];
    assert_eq!((&outputs["text"], &outputs["size"]), (&json!("a\nb\n-c\n-"), &json!(6)), "{outputs}");
    assert_eq!((&outputs["there"], &outputs["empty"]), (&json!(true), &json!(false)));
    let home = format!("kestra:///e2e/a/executions/{}/tasks/write/", run.run_id());
    assert!(outputs["uri"].as_str().unwrap().starts_with(&home), "{outputs}");
    assert_eq!(server.log_lines(&run.run_id()).await, ["a\nb", "c"]);
}

#[tokio::test]
async fn a_file_of_another_workspace_is_not_there() {
    let server = Server::start().await;
    server.push(&flow("a", SPLIT)).await;
    let run = server.trigger_wait("a", None, json!({})).await.run_id();
    let uri = server.run(&run).await["outputs"]["uri"].as_str().unwrap().to_owned();
    let look = flow("look", "tasks:\n  - {id: l, type: log.Log, message: '{{ fileExists(trigger.data.uri) }}'}\n");
    server.push(&look).await;
    let here = server.trigger_wait("look", None, json!({"uri": uri})).await.run_id();
    assert_eq!(server.log_lines(&here).await, ["true"]);
    server.post("/v1/workspaces", json!({"id": "other"})).await;
    let other = server.workspace("other");
    other.push(&look).await;
    let there = other.trigger_wait("look", None, json!({"uri": uri})).await;
    let logs = other.get(&format!("/v1/runs/{}/logs", there.run_id())).await;
    assert!(logs.text.contains("false") && !logs.text.contains("true"), "{}", logs.text);
}

#[tokio::test]
async fn a_download_is_a_file() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    let tasks = format!(
        "tasks:\n  - {{id: get, type: http.Download, uri: '{}'}}\noutputs:\n  \
         - {{id: same, type: BOOL, value: \"{{{{ outputs.get.length == fileSize(outputs.get.uri) }}}}\"}}\n",
        bank.url("/bytes/1000/data.json")
    );
    server.push(&flow("a", &tasks)).await;
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "completed", "{}", run.text);
    assert_eq!(server.run(&run.run_id()).await["outputs"]["same"], json!(true));
}

#[tokio::test]
async fn scripts_are_off_unless_the_operator_turns_them_on() {
    let script = flow("a", "tasks:\n  - {id: s, type: process.Commands, commands: ['true']}\n");
    let server = Server::start().await;
    server.push(&script).await;
    let run = server.trigger("a", None, json!({})).await.run_id();
    let failed = server.until(&run, "failed").await;
    assert_eq!(failed["error"]["code"], json!("not_built"), "{failed}");
}

const SCRIPT: &str = r#"
tasks:
  - {id: write, type: storage.Write, content: "hello", extension: .txt}
  - id: run
    type: io.kestra.plugin.scripts.shell.Commands
    taskRunner: {type: io.kestra.plugin.core.runner.Process}
    inputFiles: {in.txt: "{{ outputs.write.uri }}"}
    outputFiles: ["*.out"]
    env: {WHO: "{{ secret('CANARY_WHO') }}"}
    commands:
      - tr a-z A-Z < in.txt > big.out
      - echo "for $WHO"
      - "echo '::{\"outputs\":{\"n\":42}}::'"
outputs:
  - {id: text, type: STRING, value: "{{ read(outputs.run.outputFiles['big.out']) }}"}
  - {id: n, type: INT, value: "{{ outputs.run.vars.n }}"}
"#;

#[tokio::test]
async fn a_script_works_on_files_and_its_secrets_stay_hidden() {
    let server = Server::with(Options::default().env("SEMEL_SCRIPTS_ENABLED", "true")).await;
    server.put("/v1/secrets/CANARY_WHO", json!({"value": "very-secret-name"})).await;
    server.push(&flow("a", SCRIPT)).await;
    let run = server.trigger_wait("a", None, json!({})).await;
    assert_eq!(run.json["status"], "completed", "{}", run.text);
    let outputs = server.run(&run.run_id()).await["outputs"].clone();
    assert_eq!((&outputs["text"], &outputs["n"]), (&json!("HELLO"), &json!(42)), "{outputs}");
    let lines = server.log_lines(&run.run_id()).await;
    assert!(lines.len() == 1 && lines[0].starts_with("for ") && !lines[0].contains("very-secret-name"), "{lines:?}");
}

#[tokio::test]
async fn a_script_whose_server_died_is_held_and_one_that_may_be_repeated_is_repeated() {
    let here = tempfile::tempdir().expect("a directory");
    let script = |id: &str, more: &str| {
        let commands = format!("echo x >> {0}/{id}; test -e {0}/go || sleep 20", here.path().display());
        flow(id, &format!("tasks:\n  - {{id: s, type: process.Commands, commands: ['{commands}']{more}}}\n"))
    };
    let mut server = Server::with(Options::default().env("SEMEL_SCRIPTS_ENABLED", "true")).await;
    server.push(&script("naked", "")).await;
    server.push(&script("again", ", effect: repeatable, timeout: PT30S")).await;
    let (naked, again) = (
        server.trigger("naked", None, json!({})).await.run_id(),
        server.trigger("again", None, json!({})).await.run_id(),
    );
    let began = |id: &str| std::fs::read_to_string(here.path().join(id)).unwrap_or_default().lines().count();
    eventually(PATIENCE, "both run", || async { (began("naked") + began("again") == 2).then_some(()) }).await;
    std::fs::write(here.path().join("go"), "").expect("a file");
    server.restart().await;
    server.until(&naked, "held").await;
    server.until(&again, "completed").await;
    assert_eq!((began("naked"), began("again")), (1, 2));
}
