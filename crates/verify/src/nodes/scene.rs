//! The stage: nodes, ledger, sender, the person on call; how it begins, and how it is judged.
//!
//! A scene ends well: every node runs again, the sender is told to finish, everything has time to settle. What is still
//! open then, or does not agree, is a finding. So is a node that ended by itself.

use super::node::{Node, Reached};
use crate::kill::check::{self, Evidence, Kind, violation};
use crate::kill::company::{Company, Owned, START_MAX, end_sender, settle};
use crate::kill::observe::Api;
use crate::kill::person::Person;
use crate::kill::report::Report;
use crate::kill::{flows, records};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// The person and the readers go to the next node after this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Good answers that each node owes after everything.
const LAST_ANSWERS: usize = 5;
const DRAIN_MAX: Duration = Duration::from_secs(35);

pub struct Setting {
    pub seed: u64,
    /// The binary that is shipped.
    pub binary: PathBuf,
    /// The program that is ledger and sender.
    pub company: PathBuf,
    /// An empty directory for the records and the nodes.
    pub directory: PathBuf,
    /// The address of the database for each node, through a proxy or not.
    pub stores: Vec<String>,
}

pub struct Scene {
    pub nodes: Vec<Node>,
    pub report: Report,
    company: Company,
    ledger: (Owned, String),
    sender: Option<Owned>,
    person: Arc<Mutex<Person>>,
    on_call: Option<JoinHandle<()>>,
    api: Api,
    began: Instant,
}

impl Scene {
    /// The ledger runs; no node is started yet.
    pub fn set(setting: Setting) -> Result<Scene, String> {
        let mut chance = StdRng::seed_from_u64(setting.seed);
        let company = Company { program: setting.company, directory: setting.directory };
        let ledger = company.start_ledger()?;
        let node = |(number, store): (usize, &String)| {
            let name = format!("n{}", number + 1);
            Node::new(&name, &setting.binary, &company.directory, store, &mut chance)
        };
        let nodes = setting.stores.iter().enumerate().map(node).collect::<Result<Vec<Node>, String>>()?;
        let urls: Vec<String> = nodes.iter().map(Node::url).collect();
        let api = Api::of_any(&urls, PATIENCE).map_err(|error| error.to_string())?;
        let person = Arc::new(Mutex::new(Person::new(api.clone(), company.ledger_file())));
        let report = Report { seed: setting.seed, ..Report::default() };
        let (sender, on_call, began) = (None, None, Instant::now());
        Ok(Scene { nodes, report, company, ledger, sender, person, on_call, api, began })
    }

    /// Starts all nodes that are not, has the flows stored, and lets the sender loose.
    pub async fn begin(&mut self) -> Result<(), String> {
        self.start_all().await;
        for source in flows::sources(&self.ledger.1) {
            self.api.push(&source).await?;
        }
        let urls: Vec<String> = self.nodes.iter().map(Node::url).collect();
        self.sender = Some(self.company.start_sender(&urls, self.report.seed)?);
        self.on_call = Some(tokio::spawn(Person::on_call(self.person.clone())));
        Ok(())
    }

    pub async fn start_all(&mut self) {
        for number in 0..self.nodes.len() {
            if !self.nodes[number].is_started() {
                self.nodes[number].start(None);
            }
        }
        for number in 0..self.nodes.len() {
            let began = Instant::now();
            let reached = self.nodes[number].ready(START_MAX).await;
            self.report.started_within(began.elapsed());
            if reached != Reached::Ready {
                self.failed(number, &format!("does not start: {reached:?}"));
            }
        }
    }

    /// A finding about a node.
    pub fn failed(&mut self, number: usize, about: &str) {
        let found = failure(&self.nodes[number], about);
        self.report.violations.push(found);
    }

    /// What the nodes say of their store, while everything goes on.
    pub async fn look(&mut self, when: &str) {
        match self.api.post("/v1/check", &json!({})).await {
            Ok(report) if report["found"] == 0 => self.report.checks += 1,
            Ok(report) => self.report.violations.push(violation(Kind::StoreDamaged, format!("{when}: {report}"))),
            // No node answers at this moment.
            Err(_) => {}
        }
    }

    /// Makes everything well, waits, and judges. `database` is where it is now, beside all proxies.
    pub async fn end(mut self, database: &str) -> Result<Report, String> {
        for number in 0..self.nodes.len() {
            if let Some(status) = self.nodes[number].ended() {
                self.failed(number, &format!("ended by itself ({status})"));
                self.nodes[number].kill();
            }
        }
        self.start_all().await;
        if let Some(on_call) = self.on_call.take() {
            on_call.abort();
        }
        let mut sender = self.sender.take().ok_or("the scene has not begun")?;
        let person = self.person.clone();
        let mut person = person.lock().await;
        end_sender(&mut sender, &mut person).await?;
        self.api.push(&flows::tick(&self.ledger.1, true)).await?;
        settle(&self.api, &mut person).await?;
        self.report.verdicts = person.verdicts;
        self.last_answers().await;
        let world = self.api.world().await.map_err(|error| format!("the last reading failed: {error}"))?;
        self.look("at the end").await;
        self.stop_all().await;
        let calls = records::read(&self.company.ledger_file()).map_err(|error| format!("the ledger: {error}"))?;
        let notes = records::read(&self.company.sender_file()).map_err(|error| format!("the sender: {error}"))?;
        self.report.count(&calls, &notes, &world);
        self.report.violations.extend(check::violations(&Evidence { calls: &calls, notes: &notes, world: &world }));
        self.check_store(database);
        self.report.took = self.began.elapsed();
        Ok(self.report)
    }

    /// Each node by itself, not one of them for all.
    async fn last_answers(&mut self) {
        for number in 0..self.nodes.len() {
            let Ok(api) = Api::of_any(&[self.nodes[number].url()], PATIENCE) else { continue };
            for _ in 0..LAST_ANSWERS {
                if let Err(error) = api.get("/v1/runs?limit=1").await {
                    self.failed(number, &format!("does not answer at the end: {error}"));
                }
            }
        }
    }

    async fn stop_all(&mut self) {
        for number in 0..self.nodes.len() {
            match self.nodes[number].stop(DRAIN_MAX).await {
                Some(status) if status.success() => {}
                ended => self.failed(number, &format!("the last stop failed ({ended:?})")),
            }
        }
    }

    /// The checker as people use it, on the database, beside all proxies.
    fn check_store(&mut self, database: &str) {
        let about = |text: String| violation(Kind::StoreDamaged, format!("semel check: {text}"));
        match tokio::task::block_in_place(|| self.nodes[0].command(&["check", "--store", database]).output()) {
            Ok(output) if output.status.success() => self.report.checks += 1,
            Ok(output) => {
                let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                self.report.violations.push(about(said.join("\n")));
            }
            Err(error) => self.report.violations.push(about(error.to_string())),
        }
    }
}

pub fn failure(node: &Node, about: &str) -> check::Violation {
    violation(Kind::ServerFailed, format!("{} {about}; its last lines:\n{}", node.name, node.last_lines()))
}
