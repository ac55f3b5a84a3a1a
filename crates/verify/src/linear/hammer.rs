//! Clients that hammer a few hot keys on several nodes, each attempt at any of them, while the nodes have trouble; then
//! the judgement of every key's history.
//!
//! A place among the hot keys belongs to one key for a while and then to a new one, so that there are always keys that
//! nobody has asked for yet. Every second attempt is about one of a few places that are hotter than the rest, and some
//! are made at several nodes at once. Three of four keys are for ever, the others have a window of seconds.

use super::check::{Again, Fault, Window, faults, window_faults};
use super::trouble::{Place, TROUBLES, Trouble};
use super::{Attempt, Heard};
use crate::kill::company::START_MAX;
use crate::kill::observe::Api;
use crate::nodes::node::{Node, Reached};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use reqwest::Client;
use semel_store_postgres::testing::{Proxy, Server};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// After this many attempts a place gets a new key.
const ATTEMPTS_PER_KEY: u32 = 60;
const HOTTEST: usize = 8;
const WINDOW: Duration = Duration::from_secs(4);
/// How far the clock that a node trusts may be from the client's, on one machine.
const SLACK: Duration = Duration::from_millis(500);
/// A client that has heard nothing for so long gives up: it does not know what became of it.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// A key does not expire while its run is live, which is as long as it takes to find out that its node is not.
const LIVE_MAX: Duration = Duration::from_secs(20);
/// After an attempt without an answer a client leaves that node alone for a moment, as a load balancer does.
const AVOID: Duration = Duration::from_millis(500);
const TROUBLE_EVERY: Duration = Duration::from_secs(4);
const LAST_ANSWERS: usize = 5;
const SETTLE_MAX: Duration = Duration::from_secs(60);

pub struct Plan {
    pub nodes: usize,
    pub clients: usize,
    pub keys: usize,
    /// At least so many, and at least so many troubles; but no longer than this.
    pub attempts: u64,
    pub troubles: usize,
    pub time_max: Duration,
    pub seed: u64,
    pub binary: PathBuf,
    pub directory: PathBuf,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub attempts: usize,
    pub unheard: usize,
    pub keys: usize,
    pub created: usize,
    /// Runs whose creator heard nothing: others were told of them.
    pub unclaimed: usize,
    pub troubles: BTreeMap<Trouble, usize>,
    pub took: Duration,
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "VIOLATION {violation}")?;
        }
        write!(
            f,
            "SUMMARY linear seed={} attempts={} unheard={} keys={} created={} unclaimed={} troubles={:?} took={:.0?} violations={}",
            self.seed,
            self.attempts,
            self.unheard,
            self.keys,
            self.created,
            self.unclaimed,
            self.troubles,
            self.took,
            self.violations.len()
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    windowed: bool,
}

impl Key {
    fn flow(&self) -> &'static str {
        if self.windowed { "windowed" } else { "once" }
    }
}

struct Shared {
    began: Instant,
    urls: Vec<String>,
    /// The hot keys, and how often each was asked for.
    hot: StdMutex<Vec<(Key, u32)>>,
    made: AtomicU64,
    attempts: AtomicU64,
    history: StdMutex<BTreeMap<Key, Vec<Attempt>>>,
    refused: StdMutex<Vec<String>>,
    stop: AtomicBool,
}

fn locked<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn fresh(&self) -> Key {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Key { name: format!("hot-{number}"), windowed: number % 4 == 3 }
    }

    fn choose(&self, chance: &mut StdRng) -> Key {
        let mut hot = locked(&self.hot);
        let places = if chance.random_bool(0.5) { HOTTEST.min(hot.len()) } else { hot.len() };
        let place = chance.random_range(0..places);
        let (key, asked) = &mut hot[place];
        *asked += 1;
        let chosen = key.clone();
        if *asked >= ATTEMPTS_PER_KEY {
            hot[place] = (self.fresh(), 0);
        }
        chosen
    }

    /// One attempt, written down with what was heard. False: nothing was.
    async fn attempt(&self, client: &Client, url: &str, key: &Key) -> bool {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let request = client
            .post(format!("{url}/v1/workflows/hot:{}/trigger", key.flow()))
            .header("idempotency-key", &key.name)
            .json(&json!({"data": {}}));
        let invoked = self.now();
        let answer = async {
            let answer = request.send().await?;
            Ok::<_, reqwest::Error>((answer.status().as_u16(), answer.json::<Json>().await?))
        }
        .await;
        let returned = self.now();
        let heard = match answer {
            Ok((200..=299, body)) => body["run_id"].as_str().map(|run| Heard {
                returned,
                run: run.to_owned(),
                created: body["idempotent_replayed"] == false,
            }),
            // Whether a node that cannot reach its store has done it, it does not say.
            Ok((429 | 500..=599, _)) | Err(_) => None,
            Ok((status, body)) => {
                locked(&self.refused).push(format!("{} was answered {status}: {body}", key.name));
                None
            }
        };
        let known = heard.is_some();
        locked(&self.history).entry(key.clone()).or_default().push(Attempt { invoked, heard });
        known
    }
}

fn client() -> Result<Client, String> {
    Client::builder().no_proxy().timeout(PATIENCE).build().map_err(|error| error.to_string())
}

/// One client, with what it knows of the nodes.
struct Hand {
    client: Client,
    avoid: Vec<Option<Instant>>,
}

impl Hand {
    /// Nodes that answered lately, in any order; all of them if none did.
    fn nodes(&self, chance: &mut StdRng) -> Vec<usize> {
        let is_well = |number: &usize| self.avoid[*number].is_none_or(|since| since.elapsed() > AVOID);
        let all: Vec<usize> = (0..self.avoid.len()).collect();
        let mut well: Vec<usize> = all.iter().copied().filter(is_well).collect();
        if well.is_empty() {
            well = all;
        }
        well.shuffle(chance);
        well
    }

    async fn fall(&mut self, shared: &Shared, chance: &mut StdRng) {
        let key = shared.choose(chance);
        let copies = if chance.random_bool(0.2) { self.avoid.len() } else { 1 };
        let nodes: Vec<usize> = self.nodes(chance).into_iter().take(copies).collect();
        let attempts = nodes.iter().map(|number| shared.attempt(&self.client, &shared.urls[*number], &key));
        let known = futures_util::future::join_all(attempts).await;
        for (number, known) in nodes.iter().zip(&known) {
            self.avoid[*number] = (!known).then(Instant::now);
        }
        if known.iter().all(|known| !known) {
            // All of them may be away: no reason to spin.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn hammer(shared: Arc<Shared>, mut chance: StdRng) -> Result<(), String> {
    let mut hand = Hand { client: client()?, avoid: vec![None; shared.urls.len()] };
    while !shared.stop.load(Ordering::Relaxed) {
        hand.fall(&shared, &mut chance).await;
    }
    Ok(())
}

fn flow(id: &str, window: &str) -> String {
    let tasks = "tasks:\n  - {id: say, type: log.Log, message: hello}\n";
    format!("id: {id}\nnamespace: hot\n{tasks}idempotency: {{preset: trigger, window: {window}}}\n")
}

struct Cluster {
    database: Server,
    places: Vec<Arc<Mutex<Place>>>,
    urls: Vec<String>,
}

async fn cluster(plan: &Plan, chance: &mut StdRng) -> Result<Cluster, String> {
    // In place: a server ends with the thread that started it.
    let database = tokio::task::block_in_place(Server::start);
    let (mut places, mut urls) = (Vec::new(), Vec::new());
    for number in 1..=plan.nodes {
        let proxy = Proxy::to(database.port());
        let name = format!("n{number}");
        let mut node = Node::new(&name, &plan.binary, &plan.directory, &proxy.address(), chance)?;
        node.start(None);
        let reached = node.ready(START_MAX).await;
        if reached != Reached::Ready {
            return Err(format!("{name} does not start ({reached:?}):\n{}", node.last_lines()));
        }
        urls.push(node.url());
        places.push(Arc::new(Mutex::new(Place { node, proxy })));
    }
    let api = Api::new(&urls[0]).map_err(|error| error.to_string())?;
    api.push(&flow("once", "forever")).await?;
    api.push(&flow("windowed", &format!("PT{}S", WINDOW.as_secs()))).await?;
    Ok(Cluster { database, places, urls })
}

/// Hammers, heals, and judges. `Err` is trouble of the test itself.
pub async fn run(plan: Plan) -> Result<Report, String> {
    let mut chance = StdRng::seed_from_u64(plan.seed);
    let cluster = cluster(&plan, &mut chance).await?;
    let shared = Arc::new(Shared {
        began: Instant::now(),
        urls: cluster.urls.clone(),
        hot: StdMutex::default(),
        made: AtomicU64::new(0),
        attempts: AtomicU64::new(0),
        history: StdMutex::default(),
        refused: StdMutex::default(),
        stop: AtomicBool::new(false),
    });
    *locked(&shared.hot) = (0..plan.keys).map(|_| (shared.fresh(), 0)).collect();
    let seeds: Vec<u64> = (0..plan.clients).map(|_| chance.random()).collect();
    let clients: Vec<_> =
        seeds.into_iter().map(|seed| tokio::spawn(hammer(shared.clone(), StdRng::seed_from_u64(seed)))).collect();
    let mut report = Report { seed: plan.seed, ..Report::default() };
    make_trouble(&plan, &cluster, &shared, &mut chance, &mut report).await?;
    shared.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.map_err(|error| error.to_string())??;
    }
    last_answers(&shared, &mut chance, &mut report).await?;
    if let Err(about) = judge(&shared, &cluster, &mut report).await {
        report.violations.push(about);
    }
    report.took = shared.began.elapsed();
    drop(cluster.database);
    Ok(report)
}

/// Begins a trouble every few seconds, with a node that has none, until there was enough of everything; waits for all.
async fn make_trouble(
    plan: &Plan,
    cluster: &Cluster,
    shared: &Shared,
    chance: &mut StdRng,
    report: &mut Report,
) -> Result<(), String> {
    let mut tasks = Vec::new();
    while shared.attempts.load(Ordering::Relaxed) < plan.attempts || tasks.len() < plan.troubles {
        if shared.began.elapsed() > plan.time_max {
            let attempts = shared.attempts.load(Ordering::Relaxed);
            report.violations.push(format!("only {attempts} attempts within {:?}", plan.time_max));
            break;
        }
        tokio::time::sleep(TROUBLE_EVERY).await;
        let from = chance.random_range(0..cluster.places.len());
        let mut order = cluster.places.iter().cycle().skip(from).take(cluster.places.len());
        let Some(mut place) = order.find_map(|place| place.clone().try_lock_owned().ok()) else { continue };
        let trouble = TROUBLES[tasks.len() % TROUBLES.len()];
        *report.troubles.entry(trouble).or_default() += 1;
        let luck = StdRng::seed_from_u64(chance.random());
        tasks.push(tokio::spawn(async move { place.suffer(trouble, luck).await }));
    }
    for task in tasks {
        if let Err(about) = task.await.map_err(|error| error.to_string())? {
            report.violations.push(about);
        }
    }
    for place in &cluster.places {
        report.violations.extend(place.lock().await.ended_by_itself());
    }
    Ok(())
}

/// After everything each node answers well, about keys that are known and about new ones.
async fn last_answers(shared: &Shared, chance: &mut StdRng, report: &mut Report) -> Result<(), String> {
    let client = client()?;
    for url in &shared.urls {
        let mut good = 0;
        let began = Instant::now();
        // A node that was cut off a moment ago may need another one to find its database again.
        while good < LAST_ANSWERS && began.elapsed() < START_MAX {
            let key = if good % 2 == 0 { shared.choose(chance) } else { shared.fresh() };
            good = if shared.attempt(&client, url, &key).await { good + 1 } else { 0 };
        }
        if good < LAST_ANSWERS {
            report.violations.push(format!("{url} does not answer well after everything is"));
        }
    }
    Ok(())
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn faults_of(key: &Key, history: &[Attempt]) -> Vec<Fault> {
    if !key.windowed {
        return faults(history, Again::Never);
    }
    let mut found = faults(history, Again::AfterWindow);
    found.extend(window_faults(
        history,
        &Window { span: micros(WINDOW), slack: micros(SLACK), live_max: micros(LIVE_MAX) },
    ));
    found
}

async fn judge(shared: &Shared, cluster: &Cluster, report: &mut Report) -> Result<(), String> {
    report.violations.append(&mut locked(&shared.refused));
    let history = std::mem::take(&mut *locked(&shared.history));
    let mut promised: BTreeMap<String, &Key> = BTreeMap::new();
    for (key, attempts) in &history {
        let found = faults_of(key, attempts);
        if !found.is_empty() {
            report.violations.push(format!("{}: {found:?}\n  {attempts:?}", key.name));
        }
        let heard: Vec<&Heard> = attempts.iter().filter_map(|one| one.heard.as_ref()).collect();
        let created: BTreeSet<&str> = heard.iter().filter(|one| one.created).map(|one| one.run.as_str()).collect();
        let told: BTreeSet<&str> = heard.iter().map(|one| one.run.as_str()).collect();
        report.attempts += attempts.len();
        report.unheard += attempts.len() - heard.len();
        report.created += created.len();
        report.unclaimed += told.difference(&created).count();
        promised.extend(told.into_iter().map(|run| (run.to_owned(), key)));
    }
    report.keys = history.len();
    compare(&promised, cluster, report).await
}

/// What is stored: every run that anybody was told of, one for each key that is for ever, all of them ended.
async fn compare(promised: &BTreeMap<String, &Key>, cluster: &Cluster, report: &mut Report) -> Result<(), String> {
    let api = Api::of_any(&cluster.urls, Duration::from_secs(30)).map_err(|error| error.to_string())?;
    let (began, unreadable) = (Instant::now(), |error: reqwest::Error| format!("the last reading failed: {error}"));
    while !api.runs("?status=queued,running,waiting").await.map_err(unreadable)?.is_empty()
        && began.elapsed() < SETTLE_MAX
    {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
    let mut missing: BTreeMap<&str, &Key> = promised.iter().map(|(run, key)| (run.as_str(), *key)).collect();
    for run in api.runs("").await.map_err(unreadable)? {
        missing.remove(run.id.as_str());
        if run.status != "completed" {
            report.violations.push(format!("run {} of {} is {}", run.id, run.flow, run.status));
        }
        if run.flow == "once" {
            *by_key.entry(run.key.unwrap_or_default()).or_default() += 1;
        }
    }
    let told = missing.iter().map(|(run, key)| format!("run {run} of {} was promised and is not there", key.name));
    report.violations.extend(told);
    let twice = by_key.iter().filter(|(_, count)| **count > 1);
    report.violations.extend(twice.map(|(key, count)| format!("{key} has {count} runs")));
    let checked = api.post("/v1/check", &json!({})).await.map_err(|error| error.to_string())?;
    if checked["found"] != 0 {
        report.violations.push(format!("check: {checked}"));
    }
    Ok(())
}
