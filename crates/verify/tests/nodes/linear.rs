//! Three nodes, sixteen clients, two hundred hot keys, and trouble every few seconds. `SEMEL_ATTEMPTS=N`,
//! `SEMEL_LINEAR_SEED=N` and `SEMEL_NODES=N` ask for others.

use crate::{begin, binary, number};
use semel_verify::linear::hammer::{self, Plan, Report};
use std::time::Duration;
use tempfile::TempDir;

const ATTEMPTS: u64 = 50_000;

async fn hammer(attempts: u64, troubles: usize) -> Report {
    let _alone = begin().await;
    let directory = TempDir::new().expect("a directory");
    let plan = Plan {
        nodes: usize::try_from(number("SEMEL_NODES", 3)).expect("not that many"),
        clients: 16,
        keys: 200,
        attempts,
        troubles,
        time_max: Duration::from_secs(240 + attempts / 250),
        seed: number("SEMEL_LINEAR_SEED", 1),
        binary: binary(),
        directory: directory.path().to_owned(),
    };
    let report = hammer::run(plan).await.expect("the hammer falls");
    eprintln!("{report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_by_several_nodes_is_one_object() {
    let attempts = number("SEMEL_ATTEMPTS", ATTEMPTS);
    let report = hammer(attempts, 18).await;
    assert!(report.violations.is_empty(), "{report}");
    // A hammer that fell on nothing shows nothing.
    assert!(report.attempts as u64 >= attempts && report.created > 500, "{report}");
    assert!(report.unheard > 0 && report.unheard < report.attempts / 3, "{report}");
}
