//! A database that restarts under load and fails over. `SEMEL_RESTARTS=N` asks for more, `SEMEL_KILL_SEED=N` for others.

use crate::{begin, binary, company, number};
use rand::SeedableRng;
use rand::rngs::StdRng;
use semel_store_postgres::testing::{Proxy, Stop};
use semel_verify::kill::observe::Api;
use semel_verify::nodes::database::{self, Plan};
use semel_verify::nodes::node::{Node, Reached};
use serde_json::json;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RESTARTS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn restarts_and_a_failover_lose_nothing_and_repeat_nothing() {
    let _alone = begin().await;
    let directory = TempDir::new().expect("a directory");
    let restarts = number("SEMEL_RESTARTS", RESTARTS);
    let plan = Plan {
        restarts: u32::try_from(restarts).expect("not that many"),
        nodes: usize::try_from(number("SEMEL_NODES", 2)).expect("not that many"),
        seed: number("SEMEL_KILL_SEED", 1),
        binary: binary(),
        company: company(),
        directory: directory.path().to_owned(),
    };
    let report = database::run(plan).await.expect("the loop runs");
    eprintln!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert_eq!(u64::from(report.kills()), restarts + 1);
    assert!(report.obligations as u64 > 4 * restarts, "{report}");
}

async fn is_taken(api: &Api) -> bool {
    let answer = api.post("/v1/workflows/kill:quick/trigger", &json!({"data": {}})).await;
    answer.is_ok_and(|answer| answer["run_id"].is_string())
}

/// What a synchronous standby is for: without it a failover may lose what was acknowledged. The node notices and stops,
/// rather than go on with a past that is not the one it has told of.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_has_forgotten_stops_the_node() {
    let _alone = begin().await;
    let directory = TempDir::new().expect("a directory");
    let mut first = database::start();
    let (line, replication) = (Proxy::to(first.port()), Proxy::to(first.port()));
    let mut chance = StdRng::seed_from_u64(7);
    let mut node = Node::new("n1", &binary(), directory.path(), &line.address(), &mut chance).expect("a node");
    node.start(None);
    assert_eq!(node.ready(PATIENCE).await, Reached::Ready, "{}", node.log());
    let api = Api::new(&node.url()).expect("a client");
    let flow = "id: quick\nnamespace: kill\ntasks:\n  - {id: say, type: log.Log, message: hello}\n";
    api.push(flow).await.expect("a flow");
    assert!(is_taken(&api).await);
    let standby = tokio::task::block_in_place(|| first.standby("second", replication.port()));
    replication.cut();
    for _ in 0..20 {
        assert!(is_taken(&api).await, "{}", node.log());
    }
    tokio::task::block_in_place(|| {
        first.stop(Stop::Killed);
        standby.promote();
    });
    line.switch(standby.port());
    let began = Instant::now();
    // It notices with its next write at the latest.
    while node.ended().is_none() && began.elapsed() < PATIENCE {
        let _ = is_taken(&api).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = node.ended().unwrap_or_else(|| panic!("the node goes on:\n{}", node.log()));
    assert_eq!(status.code(), Some(1), "{}", node.log());
    assert!(node.log().contains("the database is behind what it has acknowledged"), "{}", node.log());
}
