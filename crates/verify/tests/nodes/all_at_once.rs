//! Three nodes under load: one is killed, one is frozen for longer than its lease and goes on, the database is restarted.
//! Every event that was acknowledged has one run that ends, every effect is counted once, and the store is in order.

use crate::{begin, binary, company};
use semel_store_postgres::testing::Stop;
use semel_verify::nodes::scene::{Scene, Setting};
use semel_verify::nodes::{LEASE, database};
use std::time::Duration;
use tempfile::TempDir;

const UNDER_LOAD: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_a_freeze_and_a_restart_cost_no_acknowledged_event() {
    let _alone = begin().await;
    let directory = TempDir::new().expect("a directory");
    let mut server = database::start();
    let setting = Setting {
        seed: 9,
        binary: binary(),
        company: company(),
        directory: directory.path().to_owned(),
        stores: vec![server.address(); 3],
    };
    let mut scene = Scene::set(setting).expect("a scene");
    scene.begin().await.expect("it begins");
    tokio::time::sleep(UNDER_LOAD).await;
    scene.nodes[0].kill();
    scene.nodes[1].freeze();
    tokio::time::sleep(LEASE + UNDER_LOAD).await;
    scene.nodes[1].thaw();
    tokio::time::sleep(UNDER_LOAD).await;
    database::restart(&mut server, Stop::Immediate, Duration::from_millis(300));
    tokio::time::sleep(UNDER_LOAD).await;
    let report = scene.end(&server.address()).await.expect("it ends");
    eprintln!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.obligations > 100, "{report}");
}
