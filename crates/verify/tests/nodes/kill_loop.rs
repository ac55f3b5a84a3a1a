//! The kill loop over three nodes. `SEMEL_NODE_KILLS=N` asks for more, `SEMEL_KILL_SEED=N` for others; a long one is
//! `kill-loop run --nodes 3`, which `scripts/soak` uses.

use crate::{begin, binary, company, number, with_failpoints};
use semel_verify::kill::check::Kind;
use semel_verify::kill::report::Report;
use semel_verify::nodes::database;
use semel_verify::nodes::kill_loop::{self, Plan};
use semel_verify::nodes::scene::Setting;
use tempfile::TempDir;

const KILLS: u64 = 100;

async fn kill_loop(kills: u64, nodes: usize, seed: u64, sabotage: Option<&str>) -> Report {
    let _alone = begin().await;
    let directory = TempDir::new().expect("a directory");
    let server = database::start();
    let plan = Plan {
        kills: u32::try_from(kills).expect("not that many"),
        failpoints: Some(with_failpoints()),
        sabotage: sabotage.map(str::to_owned),
        database: server.address(),
        setting: Setting {
            seed,
            binary: binary(),
            company: company(),
            directory: directory.path().to_owned(),
            stores: vec![server.address(); nodes],
        },
    };
    let report = kill_loop::run(plan).await.expect("the loop runs");
    eprintln!("{report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_kills_the_nodes_promises_are_kept_and_nothing_happens_twice() {
    let kills = number("SEMEL_NODE_KILLS", KILLS);
    let nodes = usize::try_from(number("SEMEL_NODES", 3)).expect("not that many");
    let report = kill_loop(kills, nodes, number("SEMEL_KILL_SEED", 1), None).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(u64::from(report.kills()) >= kills);
    // A loop that did next to nothing shows nothing.
    assert!(report.obligations as u64 > 4 * kills, "{report}");
    if kills >= KILLS {
        let points = report.kills.keys().filter(|how| how.contains('.')).count();
        assert!(points >= 5, "failpoints reached: {:?}", report.kills);
        assert!(report.runs.get("held").is_some_and(|held| *held > 0), "{report}");
    }
}

/// The loop can go red: with a node that answers before the admission is durable, promises are lost.
#[tokio::test(flavor = "multi_thread")]
async fn control_a_promise_before_it_is_durable_is_found_out() {
    let report = kill_loop(12, 2, 3, Some("admission.committing")).await;
    assert!(report.kills.contains_key("admission.committing"), "{report}");
    let lost = report.violations.iter().filter(|found| found.kind == Kind::PromiseLost || found.kind == Kind::TwoRuns);
    assert!(lost.count() > 0, "the lie was not noticed: {report}");
}
