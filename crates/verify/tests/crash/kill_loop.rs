//! The kill loop of continuous integration, and its controls. `SEMEL_KILLS=N` asks for more, `SEMEL_KILL_SEED=N` for
//! others; a long one is `kill-loop run`, which `scripts/soak` uses.

use crate::number;
use semel_verify::kill::check::Kind;
use semel_verify::kill::nemesis::{self, Plan};
use semel_verify::kill::report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const KILLS: u64 = 100;

fn target() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_kill-loop")).parent().expect("target/<profile>").to_owned()
}

fn build(arguments: &[&str]) {
    let directory = target().parent().expect("a target directory").to_owned();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "-p", "semel"]).args(arguments).env("CARGO_TARGET_DIR", directory);
    assert!(cargo.status().expect("cargo").success(), "the binary does not build");
}

/// The binary that is shipped: `SEMEL_BIN`, else the one in the target directory.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SEMEL_BIN") {
        return path.into();
    }
    let path = target().join("semel");
    if !path.exists() {
        build(&[]);
    }
    path
}

/// The same with failpoints: `SEMEL_FAILPOINTS_BIN`, else `semel-failpoints` beside the other. Both are built under
/// one name, so that whoever makes this one (`scripts/test` does) moves it away and builds the other again.
fn with_failpoints() -> PathBuf {
    if let Some(path) = std::env::var_os("SEMEL_FAILPOINTS_BIN") {
        return path.into();
    }
    let path = target().join("semel-failpoints");
    assert!(
        path.exists(),
        "no binary with failpoints: cargo build -p semel --features failpoints, move it to {}, and build semel again",
        path.display()
    );
    path
}

async fn kill_loop(kills: u64, seed: u64, sabotage: Option<&str>) -> Report {
    // Fails only if one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = TempDir::new().expect("a directory");
    let plan = Plan {
        kills: u32::try_from(kills).expect("not that many"),
        seed,
        binary: binary(),
        failpoints: Some(with_failpoints()),
        company: env!("CARGO_BIN_EXE_kill-loop").into(),
        directory: directory.path().to_owned(),
        sabotage: sabotage.map(str::to_owned),
    };
    let report = nemesis::run(plan).await.expect("the loop runs");
    eprintln!("{report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_kills_the_process_promises_are_kept_and_nothing_happens_twice() {
    let kills = number("SEMEL_KILLS", KILLS);
    let report = kill_loop(kills, number("SEMEL_KILL_SEED", 1), None).await;
    assert!(report.violations.is_empty(), "{report}");
    assert_eq!(u64::from(report.kills()), kills);
    // A loop that did next to nothing shows nothing.
    assert!(report.obligations as u64 > 4 * kills, "{report}");
    if kills >= KILLS {
        let points = report.kills.keys().filter(|how| how.contains('.')).count();
        assert!(points >= 10, "failpoints reached: {:?}", report.kills);
        assert!(report.pauses > 0 && report.runs.get("held").is_some_and(|held| *held > 0), "{report}");
    }
}

/// The loop can go red: with a server that answers before the admission is durable, promises are lost.
#[tokio::test(flavor = "multi_thread")]
async fn control_a_promise_before_it_is_durable_is_found_out() {
    let report = kill_loop(16, 3, Some("admission.committing")).await;
    assert!(report.kills.contains_key("admission.committing"), "{report}");
    let lost = report.violations.iter().filter(|found| found.kind == Kind::PromiseLost || found.kind == Kind::TwoRuns);
    assert!(lost.count() > 0, "the lie was not noticed: {report}");
}

/// And with one that sends before the intent is durable, calls are seen that no intent allows.
#[tokio::test(flavor = "multi_thread")]
async fn control_a_call_before_its_intent_is_found_out() {
    let report = kill_loop(16, 4, Some("intent.committing")).await;
    assert!(report.violations.iter().any(|found| found.kind == Kind::CallWithoutIntent), "not noticed: {report}");
}

#[test]
fn the_shipped_binary_has_no_failpoints() {
    let has =
        |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("a binary")).contains("SEMEL_FAILPOINT");
    assert!(has(&with_failpoints()), "the search finds nothing where it must");
    assert!(!has(&binary()), "{} has failpoints: build it again without the feature", binary().display());
}
