//! Trouble of the database under load: restarts of every kind, and a failover to a synchronous standby.

use super::LEASE;
use super::scene::{Scene, Setting};
use crate::kill::report::Report;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use semel_store_postgres::testing::{Proxy, Server, Stop};
use std::path::PathBuf;
use std::time::Duration;

pub struct Plan {
    pub restarts: u32,
    pub nodes: usize,
    pub seed: u64,
    pub binary: PathBuf,
    pub company: PathBuf,
    pub directory: PathBuf,
}

/// Waits in place. A server ends with the thread that started it, and those that the runtime has for waiting come and go;
/// so whoever calls this must not be a task of its own.
fn wait<T>(act: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(act)
}

async fn sleep(chance: &mut StdRng, from_ms: u64, to_ms: u64) {
    tokio::time::sleep(Duration::from_millis(chance.random_range(from_ms..=to_ms))).await;
}

pub fn start() -> Server {
    wait(Server::start)
}

/// Stops the server, leaves it down for a while, and starts it again.
pub fn restart(server: &mut Server, how: Stop, down: Duration) {
    wait(|| {
        server.stop(how);
        std::thread::sleep(down);
        server.resume();
    });
}

/// The name under which a way to stop is counted.
fn name(how: Stop) -> &'static str {
    match how {
        Stop::Fast => "database fast",
        Stop::Immediate => "database immediate",
        Stop::Killed => "database killed",
    }
}

/// Restarts the database again and again, fails it over once, and judges. `Err` is trouble of the test itself.
pub async fn run(plan: Plan) -> Result<Report, String> {
    let mut chance = StdRng::seed_from_u64(plan.seed);
    let mut server = start();
    let proxy = Proxy::to(server.port());
    let stores = vec![proxy.address(); plan.nodes];
    let Plan { seed, binary, company, directory, .. } = plan;
    let mut scene = Scene::set(Setting { seed, binary, company, directory, stores })?;
    scene.begin().await?;
    for number in 0..plan.restarts {
        sleep(&mut chance, 500, 2_500).await;
        let how = [Stop::Fast, Stop::Immediate, Stop::Killed][number as usize % 3];
        // Now and then it is away for longer than any lease.
        let long = number % 10 == 9;
        let down =
            if long { LEASE + Duration::from_secs(2) } else { Duration::from_millis(chance.random_range(0..800)) };
        restart(&mut server, how, down);
        *scene.report.kills.entry(name(how).to_owned()).or_default() += 1;
    }
    sleep(&mut chance, 500, 1_000).await;
    let standby = fail_over(server, &proxy).await;
    *scene.report.kills.entry("failover".to_owned()).or_default() += 1;
    sleep(&mut chance, 1_000, 2_000).await;
    scene.end(&standby.address()).await
}

/// Makes a standby that has every commit before it is acknowledged, lets it follow for a while, kills the first server
/// and puts the standby in its place.
async fn fail_over(mut server: Server, proxy: &Proxy) -> Server {
    let standby = wait(|| {
        let standby = server.standby("second", server.port());
        server.wait_for_standby("second");
        standby
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    wait(|| {
        server.stop(Stop::Killed);
        standby.promote();
    });
    proxy.switch(standby.port());
    standby
}
