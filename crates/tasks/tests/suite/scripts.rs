//! Scripts as processes.

use super::shelf::Bench;
use semel_core::limits::Limits;
use semel_tasks::{Outcome, ScriptConfig};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn bench() -> (tempfile::TempDir, Bench) {
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::with_scripts(directory.path());
    (directory, bench)
}

async fn run(bench: &Bench, config: Json) -> Json {
    bench.done("process.Commands", "run", config).await
}

#[tokio::test]
async fn scripts_are_off_unless_they_are_turned_on() {
    assert_eq!(Bench::new().verdict("process.Commands", json!({"commands": ["true"]})).await, "clean:not_built");
}

#[tokio::test]
async fn a_script_gives_outputs_and_logs() {
    let (directory, bench) = bench();
    let commands = json!(["echo hello", r#"echo '::{"outputs":{"a":1,"b":"two"}}::'"#, "echo oh >&2"]);
    let request = bench.request("process.Commands", "run", json!({"commands": commands}));
    let log = request.log.clone();
    let Outcome::Done { output } = bench.perform(request).await else { panic!("not done") };
    assert_eq!(output, json!({"vars": {"a": 1, "b": "two"}, "exitCode": 0, "outputFiles": {}}));
    let mut said: Vec<String> =
        log.take().into_iter().map(|line| format!("{} {}", line.level.word(), line.message)).collect();
    said.sort();
    assert_eq!(said, ["ERROR oh", "INFO hello"]);
    // Nothing of it is left on the disk.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_exit_code_decides() {
    let (_directory, bench) = bench();
    let request = bench.request("process.Commands", "run", json!({"commands": ["exit 3"]}));
    let Outcome::FailedClean { code, message, output, .. } = bench.perform(request).await else { panic!("not failed") };
    assert_eq!((code, message.as_str()), ("script_failed", "Command failed with exit code 3"));
    assert_eq!(output.unwrap()["exitCode"], json!(3));
    assert_eq!(bench.verdict("process.Commands", json!({"commands": ["false", "true"]})).await, "clean:script_failed");
    let on = json!({"commands": ["false", "true"], "failFast": false});
    assert_eq!(bench.verdict("process.Commands", on).await, "done");
    let killed = json!({"commands": ["kill -9 $$"]});
    assert_eq!(bench.verdict("process.Commands", killed).await, "clean:script_killed");
    let nothing = json!({"commands": ["x"], "interpreter": ["/does/not/exist"]});
    assert_eq!(bench.verdict("process.Commands", nothing).await, "clean:script_failed");
}

#[tokio::test]
async fn a_process_sees_its_own_variables_and_not_the_servers() {
    let (_directory, bench) = bench();
    let commands = json!([
        r#"echo "::{\"outputs\":{\"own\":\"$OWN\",\"names\":\"$(env | cut -d= -f1 | sort | tr '\n' ' ')\"}}::""#
    ]);
    let output = run(&bench, json!({"commands": commands, "env": {"OWN": "mine"}})).await;
    assert_eq!(output["vars"]["own"], json!("mine"));
    let names = output["vars"]["names"].as_str().unwrap();
    // The shell adds a few of its own.
    let known = ["HOME", "LANG", "OLDPWD", "OWN", "PATH", "PWD", "SHLVL", "WORKING_DIR", "_"];
    assert!(names.split_whitespace().all(|name| known.contains(&name)), "{names}");
}

#[tokio::test]
async fn files_go_in_and_come_out() {
    let (_directory, bench) = bench();
    let uri = bench.write("write", "from storage").await;
    let output = run(
        &bench,
        json!({
            "commands": ["cat in/a.txt b.txt > c.txt", "mkdir out && echo deep > out/d.csv", "ln -s /etc/hostname out/link.csv"],
            "inputFiles": {"in/a.txt": "given ", "b.txt": uri},
            "outputFiles": ["c.txt", "out/**"],
        }),
    )
    .await;
    let files = output["outputFiles"].as_object().unwrap();
    // What a link leads to is not the script's to give.
    assert_eq!(files.keys().collect::<Vec<_>>(), ["c.txt", "out/d.csv"]);
    assert_eq!(bench.text(&files["c.txt"]), "given from storage");
    assert_eq!(bench.text(&files["out/d.csv"]), "deep\n");
    for name in ["../x", "/tmp/x", "a/../../x", ""] {
        let config = json!({"commands": ["true"], "inputFiles": {name: "x"}});
        assert_eq!(bench.verdict("process.Commands", config).await, "clean:bad_config", "{name}");
    }
}

#[tokio::test]
async fn an_address_in_a_command_is_a_local_file() {
    let (_directory, bench) = bench();
    let uri = bench.write("write", "hello").await;
    let commands = json!([format!("cp {uri} copy.txt")]);
    let output = run(&bench, json!({"commands": commands, "outputFiles": "*.txt"})).await;
    assert_eq!(bench.text(&output["outputFiles"]["copy.txt"]), "hello");
}

#[tokio::test]
async fn a_script_is_told_where_it_works_and_where_its_outputs_go() {
    let (_directory, bench) = bench();
    let config = json!({
        "commands": [
            "test \"kestra:working-directory\" = \"$(pwd)\"",
            "cat kestra:working-directory/in.txt > kestra:output-directory/a.txt",
            "mkdir kestra:output-directory/b && echo deep > outputs/b/c.txt",
        ],
        "inputFiles": {"in.txt": "kestra:working-directory"},
        "outputDirectory": true,
    });
    let output = run(&bench, config).await;
    let files = output["outputFiles"].as_object().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["a.txt", "b/c.txt"]);
    assert!(bench.text(&files["a.txt"]).starts_with('/'), "a directory is named from the root on");
}

#[tokio::test]
async fn files_of_the_machine_are_not_given() {
    let (_directory, bench) = bench();
    let config = json!({"commands": ["true"], "inputFiles": {"x": "file:///etc/hostname"}});
    assert_eq!(bench.verdict("process.Commands", config).await, "clean:not_built");
}

#[tokio::test]
async fn a_script_begins_with_files_of_the_namespace() {
    let (_directory, bench) = bench();
    let uri = bench.write("write", "hello").await;
    bench.done("namespace.UploadFiles", "put", json!({"namespace": "shop", "filesMap": {"a/x.txt": uri}})).await;
    let config = json!({
        "commands": ["cat a/x.txt y.txt > out"], "outputFiles": ["out"],
        "namespaceFiles": {"enabled": true}, "inputFiles": {"y.txt": "nsfile:///a/x.txt"},
    });
    assert_eq!(bench.text(&run(&bench, config).await["outputFiles"]["out"]), "hellohello");
}

#[tokio::test]
async fn packages_are_installed_by_the_shell() {
    let (_directory, bench) = bench();
    let config = json!({"script": "print(1)", "dependencies": ["x"], "interpreter": ["python3", "-c"]});
    assert_eq!(bench.verdict("process.Python", config).await, "clean:bad_config");
    // Nothing of that name can be installed, and then the script does not begin.
    let config = json!({"script": "open('made', 'w')", "dependencies": ["no such package!"], "outputFiles": ["made"]});
    assert_eq!(bench.verdict("process.Python", config).await, "clean:script_failed");
}

#[tokio::test]
async fn a_script_is_one_text() {
    let (_directory, bench) = bench();
    let script = "for n in 1 2; do\n  echo \"::{\\\"outputs\\\":{\\\"n$n\\\":$n}}::\"\ndone\n";
    let output = bench.done("process.Script", "run", json!({"script": script})).await;
    assert_eq!(output["vars"], json!({"n1": 1, "n2": 2}));
}

/// Starts something that would go on for long, and says which process it is.
const LEAVES_ONE: &str = r#"sleep 600 & echo "::{\"outputs\":{\"pid\":$!}}::""#;

/// Waits until a process is gone, or is only waited for by its parent.
async fn is_gone(pid: &Json) {
    let stat = format!("/proc/{}/stat", pid.as_u64().expect("a process"));
    let until = Instant::now() + Duration::from_secs(10);
    while std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ")) {
        assert!(Instant::now() < until, "it goes on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_script_past_its_time_is_killed_with_all_it_started() {
    let (_directory, bench) = bench();
    let mut request = bench.request("process.Commands", "run", json!({"commands": [LEAVES_ONE, "sleep 600"]}));
    request.timeout_ms = 500;
    let Outcome::FailedClean { code, output, .. } = bench.perform(request).await else { panic!("not failed") };
    assert_eq!(code, "timeout");
    is_gone(&output.unwrap()["vars"]["pid"]).await;
}

#[tokio::test]
async fn what_a_script_leaves_behind_ends_with_it() {
    let (_directory, bench) = bench();
    let output = run(&bench, json!({"commands": [LEAVES_ONE]})).await;
    is_gone(&output["vars"]["pid"]).await;
}

#[tokio::test]
async fn a_step_that_is_given_up_takes_its_script_along() {
    let (directory, bench) = bench();
    let said = directory.path().join("pid");
    let commands = json!([
        format!("echo $$ > {}.tmp && mv {}.tmp {}", said.display(), said.display(), said.display()),
        "sleep 600"
    ]);
    let request = bench.request("process.Commands", "run", json!({"commands": commands}));
    let mut running = Box::pin(bench.perform(request));
    let pid = loop {
        tokio::select! {
            outcome = &mut running => panic!("{outcome:?}"),
            () = tokio::task::yield_now() => {}
        }
        if let Ok(text) = std::fs::read_to_string(&said) {
            break text.trim().parse::<u64>().unwrap();
        }
    };
    drop(running);
    is_gone(&json!(pid)).await;
}

#[tokio::test]
async fn lines_are_kept_up_to_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { step_log_lines_max: 5, log_line_bytes_max: 10, ..Limits::default() };
    let bench = Bench::with(Some(ScriptConfig { directory: directory.path().to_owned() }), limits);
    for (count, last) in [(4, "4"), (6, "further lines of this step are dropped")] {
        let request = bench.request("process.Commands", "run", json!({"commands": [format!("seq {count}")]}));
        let log = request.log.clone();
        assert_eq!(super::server::verdict(&bench.perform(request).await), "done");
        let lines = log.take();
        assert_eq!((lines.len(), lines.last().unwrap().message.as_str()), (count.min(5), last));
    }
    let request = bench.request("process.Commands", "run", json!({"commands": ["echo 12345678901234"]}));
    let log = request.log.clone();
    assert_eq!(super::server::verdict(&bench.perform(request).await), "done");
    assert_eq!(log.take()[0].message, "1234567890");
}

#[tokio::test]
async fn only_processes_run_scripts() {
    let (_directory, bench) = bench();
    let docker = json!({"commands": ["true"], "taskRunner": {"type": "io.kestra.plugin.scripts.runner.docker.Docker"}});
    assert_eq!(bench.verdict("process.Commands", docker).await, "clean:not_built");
    let process = json!({"commands": ["true"], "taskRunner": {"type": "io.kestra.plugin.core.runner.Process"}});
    assert_eq!(bench.verdict("process.Commands", process).await, "done");
}

#[tokio::test]
async fn steps_share_a_working_directory() {
    let (_directory, bench) = bench();
    let shared = |step: &str, type_name: &str, config: Json| {
        let mut request = bench.request(type_name, step, config);
        request.home.shared = Some(format!("{}/around", request.home.path.replace(step, "wd")));
        bench.perform(request)
    };
    let done = |outcome: Outcome| match outcome {
        Outcome::Done { output } => output,
        other => panic!("{other:?}"),
    };
    done(shared("put", "storage.LocalFiles", json!({"inputs": {"in/a.txt": "one", "gone.txt": "x"}})).await);
    let commands = json!(["cat in/a.txt > b.txt", "echo two >> in/a.txt", "rm gone.txt"]);
    done(shared("first", "process.Commands", json!({"commands": commands})).await);
    let kept = done(shared("last", "storage.LocalFiles", json!({"outputs": ["**"]})).await);
    let uris = kept["uris"].as_object().unwrap();
    assert_eq!(uris.keys().collect::<Vec<_>>(), ["b.txt", "in/a.txt"]);
    assert_eq!((bench.text(&uris["b.txt"]), bench.text(&uris["in/a.txt"])), ("one".into(), "onetwo\n".into()));
}

#[tokio::test]
async fn a_python_script_is_run_from_a_file() {
    let (_directory, bench) = bench();
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let script = "import json, os\nprint('::' + json.dumps({'outputs': {'who': os.environ['WHO']}}) + '::')\n";
    let output = bench.done("process.Python", "run", json!({"script": script, "env": {"WHO": "me"}})).await;
    assert_eq!(output["vars"], json!({"who": "me"}));
}

#[tokio::test]
async fn a_script_whose_run_is_cancelled_is_killed() {
    let (_directory, bench) = bench();
    let request = bench.request("process.Commands", "run", json!({"commands": [LEAVES_ONE, "sleep 600"]}));
    request.stop.ask();
    let Outcome::FailedClean { code, .. } = bench.perform(request).await else { panic!("not failed") };
    assert_eq!(code, "script_killed");
}
