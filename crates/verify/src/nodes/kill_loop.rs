//! The kill loop over several nodes: each lives, dies and comes back by itself, beside the others.
//!
//! | death | how |
//! |---|---|
//! | `random` | SIGKILL 5 ms to 8 s after it was ready |
//! | `starting` | SIGKILL within its first 150 ms, ready or not |
//! | `frozen` | SIGSTOP for longer than its lease, SIGCONT; it goes on for a moment; then as `random` |
//! | `told` | SIGTERM: it hands its runs over and ends well |
//! | the name of a failpoint | it aborts there by itself (only with a binary that has failpoints) |
//!
//! One death in four leaves the node down for longer than a lease, so that the others must take its runs over.

use super::LEASE;
use super::node::{Node, Reached};
use super::scene::{Scene, Setting, failure};
use crate::kill::company::START_MAX;
use crate::kill::nemesis::{POINTS, armed};
use crate::kill::report::Report;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SIGABRT: i32 = 6;
/// A failpoint life that has not died by then is killed.
const FAILPOINT_MAX: Duration = Duration::from_secs(4);
const STOP_MAX: Duration = Duration::from_secs(35);
const LOOK_AGAIN: Duration = Duration::from_millis(3);
/// Looks at the store in the course of a loop.
const LOOK_EVERY: Duration = Duration::from_secs(20);

pub struct Plan {
    pub kills: u32,
    /// The same with failpoints; without it all deaths come from outside.
    pub failpoints: Option<PathBuf>,
    /// A failpoint that breaks a promise, armed in every fourth life: the control, which must be found out.
    pub sabotage: Option<String>,
    /// The address of the database beside all proxies.
    pub database: String,
    pub setting: Setting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    Random { after: Duration },
    Starting { after: Duration },
    Frozen { before: Duration, pause: Duration, after: Duration },
    Told { after: Duration },
    Failpoint { name: String, arming: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Death {
    how: How,
    /// How long the node stays away.
    down: Duration,
}

fn millis(chance: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(chance.random_range(from..=to))
}

/// Longer than a lease, by any clock.
fn past_lease(chance: &mut StdRng) -> Duration {
    LEASE + millis(chance, 1_000, 3_000)
}

fn life(chance: &mut StdRng) -> Duration {
    if chance.random_bool(0.6) { millis(chance, 5, 800) } else { millis(chance, 1_000, 8_000) }
}

fn deaths(plan: &Plan, chance: &mut StdRng) -> VecDeque<Death> {
    let mut turn = 0;
    let one = |number: u32| {
        let how = match (&plan.sabotage, chance.random_range(0..100)) {
            (Some(name), _) if number % 4 == 3 => {
                let pass = chance.random_range(3..=15);
                How::Failpoint { name: name.clone(), arming: format!("{name}@{pass}=skip") }
            }
            (_, 0..40) if plan.failpoints.is_some() => {
                let (name, arming) = armed(POINTS[turn % POINTS.len()], chance);
                turn += 1;
                How::Failpoint { name, arming }
            }
            (_, 0..46) => How::Starting { after: millis(chance, 0, 150) },
            (_, 46..56) => How::Frozen {
                before: millis(chance, 100, 1_500),
                pause: past_lease(chance),
                after: millis(chance, 100, 2_000),
            },
            (_, 56..62) => How::Told { after: millis(chance, 200, 2_000) },
            _ => How::Random { after: life(chance) },
        };
        let down = if chance.random_bool(0.25) { past_lease(chance) } else { millis(chance, 0, 300) };
        Death { how, down }
    };
    (0..plan.kills).map(one).collect()
}

struct Shared {
    left: Mutex<VecDeque<Death>>,
    report: Mutex<Report>,
    failpoints: Option<PathBuf>,
}

impl Shared {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Death> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn failed(&self, node: &Node, about: &str) {
        self.report().violations.push(failure(node, about));
    }
}

/// Runs the loop and judges it. `Err` is trouble of the test itself.
pub async fn run(plan: Plan) -> Result<Report, String> {
    let mut chance = StdRng::seed_from_u64(plan.setting.seed);
    let deaths = deaths(&plan, &mut chance);
    let mut scene = Scene::set(plan.setting)?;
    if let Some(binary) = &plan.failpoints {
        die_migrating(&mut scene, binary).await;
    }
    scene.begin().await?;
    let shared = Arc::new(Shared {
        left: Mutex::new(deaths),
        report: Mutex::new(std::mem::take(&mut scene.report)),
        failpoints: plan.failpoints,
    });
    let nodes = std::mem::take(&mut scene.nodes);
    let tasks: Vec<_> = nodes.into_iter().map(|node| tokio::spawn(lives(node, shared.clone()))).collect();
    let mut looked = Instant::now();
    while tasks.iter().any(|task| !task.is_finished()) {
        if looked.elapsed() > LOOK_EVERY {
            scene.look("meanwhile").await;
            looked = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for task in tasks {
        scene.nodes.push(task.await.map_err(|error| error.to_string())?);
    }
    scene.report.absorb(std::mem::take(&mut *shared.report()));
    scene.end(&plan.database).await
}

/// Only a new database has migrations.
async fn die_migrating(scene: &mut Scene, binary: &std::path::Path) {
    for point in ["migration.script", "migration.committed"] {
        let node = &mut scene.nodes[0];
        let shipped = std::mem::replace(&mut node.binary, binary.to_owned());
        node.start(Some(&format!("{point}@1=abort")));
        let status = node.end(START_MAX).await;
        node.kill();
        node.binary = shipped;
        match status {
            Some(status) if status.signal() == Some(SIGABRT) => {
                *scene.report.kills.entry(point.to_owned()).or_default() += 1;
            }
            other => scene.failed(0, &format!("did not reach {point}: {other:?}")),
        }
    }
}

/// The lives of one node, until there are no deaths left. It is up when it begins.
async fn lives(mut node: Node, shared: Arc<Shared>) -> Node {
    while let Some(death) = shared.next() {
        let how = live(&mut node, &death.how, &shared).await;
        node.kill();
        *shared.report().kills.entry(how).or_default() += 1;
        tokio::time::sleep(death.down).await;
    }
    node
}

async fn live(node: &mut Node, how: &How, shared: &Shared) -> String {
    if let (How::Failpoint { name, arming }, Some(binary)) = (how, &shared.failpoints) {
        return until_failpoint(node, binary.clone(), name, arming, shared).await;
    }
    let started_before = node.is_started();
    if !started_before {
        node.start(None);
    }
    let name = match how {
        How::Starting { after } => {
            tokio::time::sleep(*after).await;
            "starting"
        }
        How::Random { after } => {
            ready_then(node, *after, shared).await;
            "random"
        }
        How::Frozen { before, pause, after } => {
            ready_then(node, *before, shared).await;
            node.freeze();
            tokio::time::sleep(*pause).await;
            node.thaw();
            shared.report().pauses += 1;
            tokio::time::sleep(*after).await;
            "frozen"
        }
        How::Told { after } => {
            ready_then(node, *after, shared).await;
            match node.stop(STOP_MAX).await {
                Some(status) if status.success() => {}
                ended => shared.failed(node, &format!("was told to stop and did not end well ({ended:?})")),
            }
            "told"
        }
        How::Failpoint { .. } => "random",
    };
    // What ends by itself, but for an abort at a failpoint, is a finding and not a kill.
    if let Some(status) = node.ended() {
        shared.failed(node, &format!("ended by itself ({status}) in a life that was to end {name}"));
    }
    name.to_owned()
}

async fn ready_then(node: &mut Node, after: Duration, shared: &Shared) {
    let began = Instant::now();
    match node.ready(START_MAX).await {
        Reached::Ready => {
            shared.report().started_within(began.elapsed());
            tokio::time::sleep(after).await;
        }
        reached => shared.failed(node, &format!("did not start ({reached:?})")),
    }
}

/// Waits for the abort; without one it is killed after a while.
async fn until_failpoint(node: &mut Node, binary: PathBuf, name: &str, arming: &str, shared: &Shared) -> String {
    // Alive if this is its first death.
    node.kill();
    let shipped = std::mem::replace(&mut node.binary, binary);
    node.start(Some(arming));
    let began = Instant::now();
    let mut status = None;
    while status.is_none() && began.elapsed() < FAILPOINT_MAX {
        status = node.ended();
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    node.binary = shipped;
    match status {
        Some(status) if status.signal() == Some(SIGABRT) => return name.to_owned(),
        Some(status) => shared.failed(node, &format!("ended by itself ({status}) before {name}")),
        None => shared.report().missed += 1,
    }
    "random".to_owned()
}
