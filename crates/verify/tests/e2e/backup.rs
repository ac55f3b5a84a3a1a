//! `semel backup` beside a running server, `semel restore`, and what a restored store does.

use crate::check::check;
use crate::harness::{Bank, Options, Server, flow, post, quick};
use serde_json::{Value as Json, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

fn semel(server: &Server, arguments: &[&str]) -> Output {
    server.command().args(arguments).output().expect("the binary runs")
}

fn must(server: &Server, arguments: &[&str]) -> Json {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let output = semel(server, &arguments);
    let envelope: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no envelope: {output:?}"));
    assert_eq!(envelope["ok"], true, "{envelope}");
    envelope["data"].clone()
}

fn refused(server: &Server, arguments: &[&str], code: &str) {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let output = semel(server, &arguments);
    let envelope: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no envelope: {output:?}"));
    assert_eq!((envelope["error"]["code"].as_str(), output.status.code()), (Some(code), Some(1)), "{envelope}");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Puts the restored store where the server's was, and starts on it.
async fn start_on(server: &mut Server, restored: &Path) {
    let data = server.store().parent().expect("a directory").to_owned();
    std::fs::rename(&data, server.path("lost")).expect("the old one goes away");
    std::fs::rename(restored, &data).expect("the restored one takes its place");
    server.restart().await;
}

#[tokio::test]
async fn a_restored_store_holds_what_was_open_and_marks_what_may_be_known() {
    let (mut server, bank) = (Server::start().await, Bank::start().await);
    server.push(&quick("quick")).await;
    server.push(&post("paid", &bank.url("/naive/paid"), "")).await;
    server.push(&flow("nap", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT2S}\n")).await;
    let done = server.trigger_wait("quick", Some("before"), json!({})).await.run_id();
    let nap = server.trigger("nap", Some("nap"), json!({})).await.run_id();
    server.until(&nap, "waiting").await;
    let store = format!("sqlite:{}", text(&server.store()));
    let file = server.path("monday.backup");
    let made = must(&server, &["backup", &text(&file), "--store", &store]);
    assert_eq!(made["path"], text(&file));
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    refused(&server, &["backup", &text(&file), "--store", &store], "backup_exists");
    // Lost with the disk: an event, and the end of a run.
    server.trigger_wait("paid", Some("after"), json!({})).await.run_id();
    server.until(&nap, "completed").await;
    server.kill9();
    assert_eq!(check(&server, &file, &[]).0, 0, "a backup can be checked");
    refused(
        &server,
        &["serve", "--dev", "--listen", "127.0.0.1:0", "--store", &format!("sqlite:{}", text(&file))],
        "store_backup",
    );

    let target = server.path("restored");
    let restored = must(&server, &["restore", &text(&file), "--to", &text(&target)]);
    assert_eq!((&restored["open_runs"], &restored["fate"]), (&json!(1), &json!("held")));
    refused(&server, &["restore", &text(&file), "--to", &text(&target)], "target_not_empty");
    let names: Vec<_> =
        std::fs::read_dir(&target).expect("a directory").map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["semel.db"], "and nothing else");
    start_on(&mut server, &target).await;

    // Its timer is due, and does not fire.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.run(&nap).await["status"], "held");
    assert_eq!(server.trigger("nap", Some("nap"), json!({})).await.run_id(), nap, "its twin meets it");
    server.control(&nap, "resume").await.refused(409, "not_possible");
    server.control(&done, "release").await.refused(409, "not_possible");
    assert!(server.trigger("quick", Some("before"), json!({})).await.replayed(), "what the backup knew is known");
    server.trigger_wait("paid", Some("after"), json!({})).await.run_id();
    assert_eq!(bank.count("paid"), 2, "what it did not know happens again");
    let decisions = server.all("/v1/decisions?key=after").await;
    assert_eq!(decisions[0]["reason"], "first_after_restore", "but not unnoticed");
    let (exit, report) = check(&server, &server.store(), &[]);
    assert_eq!(exit, 0, "{report}");
    assert_eq!(report["restored"]["incarnation"], restored["incarnation"]);

    server.cli_json(&["run", "release", &nap, "--why", "it slept"]).await;
    server.until(&nap, "completed").await;
    let released = server.journal(&nap).await.into_iter().find(|event| event["event"] == "released").expect("an event");
    assert_eq!(released["by"]["why"], "it slept");
    assert_eq!(check(&server, &server.store(), &[]).0, 0);
}

#[tokio::test]
async fn a_restore_can_be_accepted_as_a_whole_if_the_backup_is_young_enough() {
    let mut server = Server::start().await;
    server.push(&flow("nap", "tasks:\n  - {id: nap, type: flow.Sleep, duration: PT0.5S}\n")).await;
    let nap = server.trigger("nap", Some("nap"), json!({})).await.run_id();
    let store = format!("sqlite:{}", text(&server.store()));
    let file = server.path("b");
    must(&server, &["backup", &text(&file), "--store", &store]);
    server.kill9();
    let target = text(&server.path("restored"));
    let later = ["restore", &text(&file), "--to", &target, "--accept-since", "2999-01-01T00:00:00Z"].map(str::to_owned);
    refused(&server, &later.each_ref().map(String::as_str), "backup_too_old");
    let restored = must(
        &server,
        &["restore", &text(&file), "--to", &target, "--accept-since", "2020-01-01T00:00:00Z", "--why", "idle"],
    );
    assert_eq!((&restored["open_runs"], &restored["fate"]), (&json!(1), &json!("accepted")));
    let target = server.path("restored");
    start_on(&mut server, &target).await;
    server.until(&nap, "completed").await;
    assert_eq!(check(&server, &server.store(), &[]).0, 0);
}

#[tokio::test]
async fn backups_made_under_load_are_whole() {
    let server = Server::start().await;
    server.push(&quick("quick")).await;
    let store = format!("sqlite:{}", text(&server.store()));
    let writing = async {
        for n in 0..150 {
            server.trigger("quick", Some(&format!("k{n}")), json!({})).await.run_id();
        }
    };
    let backing = async {
        for n in 0..3 {
            let file = server.path(&format!("b{n}"));
            let mut command = server.command();
            command.args(["backup", "--store", &store]).arg(&file);
            let output = tokio::task::spawn_blocking(move || command.output().expect("the binary runs"))
                .await
                .expect("no panic");
            assert!(output.status.success(), "{output:?}");
        }
    };
    tokio::join!(writing, backing);
    for n in 0..3 {
        let (exit, report) = check(&server, &server.path(&format!("b{n}")), &["--full"]);
        assert_eq!(exit, 0, "{report}");
    }
}

/// Killed at any moment, a backup or a restore leaves nothing under its name, or all of it.
#[tokio::test]
async fn a_killed_backup_or_restore_leaves_nothing_or_all_of_it() {
    let server = Server::with(Options::default()).await;
    server.push(&quick("quick")).await;
    for n in 0..40 {
        server.trigger("quick", Some(&format!("k{n}")), json!({"text": "x".repeat(20_000)})).await.run_id();
    }
    let store = format!("sqlite:{}", text(&server.store()));
    let whole = server.path("whole");
    must(&server, &["backup", &text(&whole), "--store", &store]);
    let (mut nothing, mut all) = (0, 0);
    for n in 0..30u64 {
        let file = server.path(&format!("b{n}"));
        let target = server.path(&format!("r{n}"));
        let mut backup = server.command();
        backup.args(["backup", "--store", &store]).arg(&file);
        let mut restore = server.command();
        restore.arg("restore").arg(&whole).arg("--to").arg(&target);
        for (mut command, result) in [(backup, file), (restore, target.join("semel.db"))] {
            let mut child = command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .expect("it starts");
            tokio::time::sleep(Duration::from_millis(8 * n)).await;
            // It may have ended already.
            let _ = child.kill();
            child.wait().expect("an end");
            if result.exists() {
                all += 1;
                assert_eq!(check(&server, &result, &[]).0, 0, "{}", result.display());
            } else {
                nothing += 1;
            }
        }
        // What a dead one left behind does not stand in the way.
        if !target.join("semel.db").exists() {
            must(&server, &["restore", &text(&whole), "--to", &text(&target)]);
        }
    }
    assert!(nothing > 0 && all > 0, "nothing {nothing}, all {all}");
}

#[tokio::test]
async fn a_backup_holds_no_key_and_no_secret() {
    let server = Server::start().await;
    let put = server.put("/v1/secrets/TOKEN", json!({"value": "canary-7f3a91"})).await;
    assert!(put.status < 300, "{}", put.text);
    let key = std::fs::read_to_string(server.store().with_file_name("secret.key")).expect("the key");
    let store = format!("sqlite:{}", text(&server.store()));
    let file = server.path("b");
    must(&server, &["backup", &text(&file), "--store", &store]);
    let bytes = std::fs::read(&file).expect("the backup");
    for text in ["canary-7f3a91", key.trim()] {
        assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "found {text}");
    }
}
