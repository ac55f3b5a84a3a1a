//! A rolling upgrade under load: a node of a newer build brings the schema to its version while older nodes serve, and
//! takes over what they leave.
//!
//! The newer build is the one with failpoints, which has a further migration when it is asked to.

use crate::{begin, binary, company, with_failpoints};
use semel_verify::kill::company::START_MAX;
use semel_verify::kill::observe::Api;
use semel_verify::nodes::node::{Node, Reached};
use semel_verify::nodes::scene::{Scene, Setting};
use semel_verify::nodes::{LEASE, database};
use std::time::Duration;
use tempfile::TempDir;

const UNDER_LOAD: Duration = Duration::from_secs(3);
const STOP_MAX: Duration = Duration::from_secs(35);

fn of_the_newer_build(node: &mut Node) {
    node.binary = with_failpoints();
    node.environment = vec![("SEMEL_FAILPOINT_NEXT_SCHEMA".to_owned(), "1".to_owned())];
}

async fn answers(node: &Node) -> bool {
    let api = Api::new(&node.url()).expect("a client");
    api.get("/v1/runs?limit=1").await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_builds_serve_side_by_side_and_the_newer_one_takes_over() {
    let _alone = begin().await;
    let directory = TempDir::new().expect("a directory");
    let server = database::start();
    let setting = Setting {
        seed: 11,
        binary: binary(),
        company: company(),
        directory: directory.path().to_owned(),
        stores: vec![server.address(); 3],
    };
    let versions = || tokio::task::block_in_place(|| server.number("SELECT max(version) FROM semel.migrations"));
    let mut scene = Scene::set(setting).expect("a scene");
    scene.begin().await.expect("it begins");
    let older = versions();
    tokio::time::sleep(UNDER_LOAD).await;

    // The first is told to stop, and comes back as the newer build, which migrates under load.
    let status = scene.nodes[2].stop(STOP_MAX).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {}", scene.nodes[2].last_lines());
    of_the_newer_build(&mut scene.nodes[2]);
    scene.nodes[2].start(None);
    assert_eq!(scene.nodes[2].ready(START_MAX).await, Reached::Ready, "{}", scene.nodes[2].last_lines());
    assert_eq!(versions(), older + 1);
    tokio::time::sleep(UNDER_LOAD).await;
    for node in &mut scene.nodes {
        assert!(node.ended().is_none() && answers(node).await, "{}: {}", node.name, node.last_lines());
    }

    // The second dies; what it had is taken over. As the older build it cannot come back.
    scene.nodes[1].kill();
    tokio::time::sleep(LEASE).await;
    scene.nodes[1].start(None);
    let refused = scene.nodes[1].end(START_MAX).await;
    assert_eq!(refused.and_then(|status| status.code()), Some(1), "{}", scene.nodes[1].last_lines());
    assert!(scene.nodes[1].log().contains("use the newer binary"), "{}", scene.nodes[1].last_lines());
    scene.nodes[1].kill();
    of_the_newer_build(&mut scene.nodes[1]);
    scene.nodes[1].start(None);
    assert_eq!(scene.nodes[1].ready(START_MAX).await, Reached::Ready, "{}", scene.nodes[1].last_lines());
    tokio::time::sleep(UNDER_LOAD).await;

    // The last one has served all the while.
    assert!(scene.nodes[0].ended().is_none(), "{}", scene.nodes[0].last_lines());
    let status = scene.nodes[0].stop(STOP_MAX).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {}", scene.nodes[0].last_lines());
    of_the_newer_build(&mut scene.nodes[0]);
    let report = scene.end(&server.address()).await.expect("it ends");
    eprintln!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.obligations > 100, "{report}");
}
