//! The loop itself: start the server, let it live for a moment, end it, again; then let everything settle and judge.
//!
//! | death | how |
//! |---|---|
//! | `random` | SIGKILL 5 to 800 ms after it was ready |
//! | `starting` | SIGKILL within its first 150 ms, ready or not |
//! | `stopped` | SIGSTOP for 1 to 2.5 s, in which a second server must be refused the file; SIGCONT; then as `random` |
//! | the name of a failpoint | it aborts there by itself (only with a binary that has failpoints) |

use super::check::{self, Evidence, Kind, violation};
use super::company::{Company, LOOK_AGAIN, Owned, START_MAX, end_sender, reserve, settle, signal};
use super::flows;
use super::observe::Api;
use super::person::Person;
use super::records;
use super::report::Report;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use semel_store::check::Options;
use semel_store_sqlite::Inspection;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIGABRT: i32 = 6;
/// Looks at the file in the course of a loop; one takes the longer the more there is in it.
const CHECKS: u32 = 5;
/// A failpoint life that has not died by then is killed.
const FAILPOINT_MAX: Duration = Duration::from_millis(1_500);
/// Small, so that checkpoints happen in short lives.
const CHECKPOINT_PAGES: &str = "60";

pub struct Plan {
    pub kills: u32,
    pub seed: u64,
    /// The binary that is shipped.
    pub binary: PathBuf,
    /// The same with failpoints; without it all deaths come from outside.
    pub failpoints: Option<PathBuf>,
    /// The program that is ledger and sender.
    pub company: PathBuf,
    /// An empty directory for the store and the records.
    pub directory: PathBuf,
    /// A failpoint that breaks a promise, armed in every fourth life: the control, which must be found out.
    pub sabotage: Option<String>,
}

/// (name, the highest pass to die at, microseconds later at most).
pub type Point = (&'static str, u32, u32);

/// Places in the work of every server.
pub const POINTS: &[Point] = &[
    ("admission.committed", 12, 0),
    ("admission.committing", 12, 4_000),
    ("intent.committed", 20, 0),
    ("intent.committing", 20, 4_000),
    ("effect.sending", 25, 0),
    ("effect.answered", 25, 0),
    ("outcome.committing", 25, 4_000),
    ("outcome.committed", 25, 0),
];

/// Places in the work of a server with a file of its own.
const POINTS_OF_A_FILE: &[Point] = &[("checkpoint.begun", 2, 6_000), ("checkpoint.copied", 2, 0)];

/// The name of the place, and how a server is told to die there.
pub fn armed((name, pass_max, later_max): Point, chance: &mut StdRng) -> (String, String) {
    let pass = chance.random_range(1..=pass_max);
    let action = match later_max {
        0 => "abort".to_owned(),
        max => format!("abort_in:{}", chance.random_range(0..=max)),
    };
    (name.to_owned(), format!("{name}@{pass}={action}"))
}

/// One life of the server: how it is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Death {
    Random { after: Duration },
    Starting { after: Duration },
    Stopped { before: Duration, pause: Duration, after: Duration },
    Failpoint { name: String, arming: String },
}

impl Death {
    fn name(&self) -> &str {
        match self {
            Death::Random { .. } => "random",
            Death::Starting { .. } => "starting",
            Death::Stopped { .. } => "stopped",
            Death::Failpoint { name, .. } => name,
        }
    }
}

/// The deaths of a loop: migrations first, for only a new file has any; then mixed, each failpoint in its turn.
fn deaths(plan: &Plan, chance: &mut StdRng) -> Vec<Death> {
    let mut deaths = Vec::new();
    if plan.failpoints.is_some() {
        for (name, pass) in [("migration.script", 1), ("migration.script", 2), ("migration.committed", 1)] {
            deaths.push(Death::Failpoint { name: name.to_owned(), arming: format!("{name}@{pass}=abort") });
        }
    }
    let moment = |chance: &mut StdRng| Duration::from_millis(chance.random_range(5..=800));
    let mut turn = 0;
    while deaths.len() < plan.kills as usize {
        let number = deaths.len();
        let death = match (&plan.sabotage, chance.random_range(0..100)) {
            (Some(name), _) if number % 4 == 3 => {
                let pass = chance.random_range(3..=15);
                Death::Failpoint { name: name.clone(), arming: format!("{name}@{pass}=skip") }
            }
            (_, 0..45) if plan.failpoints.is_some() => {
                let points = [POINTS, POINTS_OF_A_FILE].concat();
                let (name, arming) = armed(points[turn % points.len()], chance);
                turn += 1;
                Death::Failpoint { name, arming }
            }
            (_, 0..50) => Death::Starting { after: Duration::from_millis(chance.random_range(0..=150)) },
            (_, 50..54) => Death::Stopped {
                before: Duration::from_millis(chance.random_range(20..=300)),
                pause: Duration::from_millis(chance.random_range(1_000..=2_500)),
                after: moment(chance),
            },
            _ => Death::Random { after: moment(chance) },
        };
        deaths.push(death);
    }
    deaths.truncate(plan.kills as usize);
    deaths
}

struct Loop {
    plan: Plan,
    company: Company,
    address: String,
    report: Report,
}

/// Runs the loop and judges it. `Err` is trouble of the test itself.
pub async fn run(plan: Plan) -> Result<Report, String> {
    let began = Instant::now();
    let mut chance = StdRng::seed_from_u64(plan.seed);
    let company = Company { program: plan.company.clone(), directory: plan.directory.clone() };
    let (ledger, ledger_url) = company.start_ledger()?;
    let (_reserved, address) = reserve(&mut chance).ok_or("no free port")?;
    let deaths = deaths(&plan, &mut chance);
    let report = Report { seed: plan.seed, ..Report::default() };
    let mut this = Loop { plan, company, address, report };
    let mut sender = None;
    let person = Arc::new(tokio::sync::Mutex::new(this.person()?));
    let on_call = tokio::spawn(Person::on_call(person.clone()));
    for death in deaths {
        // The sender begins as soon as there are flows to send to.
        if sender.is_none() && !death.name().starts_with("migration.") {
            this.push_flows(&ledger_url).await?;
            sender = Some(this.company.start_sender(&[this.url()], this.plan.seed)?);
        }
        this.live(&death);
        if sender.is_some() && this.report.kills().is_multiple_of((this.plan.kills / CHECKS).max(1)) {
            // As the dead left it: nothing has been recovered yet.
            let when = format!("after {} deaths, the last {}", this.report.kills(), death.name());
            this.look_at_the_file(&when);
        }
    }
    let sender = sender.ok_or("too few kills to send anything")?;
    on_call.abort();
    let mut person = person.lock().await;
    this.settle_and_judge(sender, &mut person, &ledger_url).await?;
    this.report.verdicts = person.verdicts;
    drop(ledger);
    this.report.took = began.elapsed();
    Ok(this.report)
}

/// What became of a process that was waited for.
enum Reached {
    Ready,
    Ended(ExitStatus),
    Neither,
}

impl Loop {
    fn person(&self) -> Result<Person, String> {
        Ok(Person::new(self.api()?, self.company.ledger_file()))
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn api(&self) -> Result<Api, String> {
        Api::new(&self.url()).map_err(|error| error.to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.plan.directory.join(name)
    }

    fn serve(&self, binary: &Path, address: &str, port_file: &Path) -> Command {
        let mut command = Command::new(binary);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SEMEL_")) {
            command.env_remove(name);
        }
        let store = format!("sqlite:{}", self.path("data").join("semel.db").display());
        command.args(["serve", "--dev", "--listen", address, "--store", &store, "--port-file"]).arg(port_file);
        command.current_dir(&self.plan.directory).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn spawn(&self, arming: Option<&str>) -> Child {
        let port_file = self.path("server.address");
        // The file of an earlier life must not be taken for the new one's.
        let _ = std::fs::remove_file(&port_file);
        let binary = match (&self.plan.failpoints, arming) {
            (Some(binary), Some(_)) => binary,
            _ => &self.plan.binary,
        };
        let mut command = self.serve(binary, &self.address, &port_file);
        if let Some(arming) = arming {
            command.env("SEMEL_FAILPOINT", arming).env("SEMEL_FAILPOINT_CHECKPOINT_PAGES", CHECKPOINT_PAGES);
        }
        let log = File::options().create(true).append(true).open(self.path("server.log")).expect("a log file");
        command.stderr(log).spawn().expect("the binary starts")
    }

    fn wait_ready(&mut self, child: &mut Child, limit: Duration) -> Reached {
        let (began, port_file) = (Instant::now(), self.path("server.address"));
        while began.elapsed() < limit {
            if let Ok(Some(status)) = child.try_wait() {
                return Reached::Ended(status);
            }
            if std::fs::read_to_string(&port_file).is_ok_and(|text| !text.is_empty()) {
                self.report.started_within(began.elapsed());
                return Reached::Ready;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Reached::Neither
    }

    fn failed(&mut self, about: String) {
        let log = std::fs::read_to_string(self.path("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n");
        self.report.violations.push(violation(Kind::ServerFailed, format!("{about}; its last lines:\n{last}")));
    }

    /// One life, from start to death.
    fn live(&mut self, death: &Death) {
        let arming = match death {
            Death::Failpoint { arming, .. } => Some(arming.as_str()),
            Death::Random { .. } | Death::Starting { .. } | Death::Stopped { .. } => None,
        };
        let mut child = self.spawn(arming);
        let how = match death {
            Death::Failpoint { name, .. } => self.until_failpoint(&mut child, name),
            Death::Starting { after } => {
                std::thread::sleep(*after);
                Some("starting".to_owned())
            }
            Death::Random { after } => {
                self.ready_then(&mut child, *after);
                Some("random".to_owned())
            }
            Death::Stopped { before, pause, after } => {
                self.ready_then(&mut child, *before);
                self.pause(&child, *pause);
                std::thread::sleep(*after);
                Some("stopped".to_owned())
            }
        };
        // What ends by itself, but for an abort at a failpoint, is a finding and not a kill.
        if let (Some("random" | "starting" | "stopped"), Ok(Some(status))) = (how.as_deref(), child.try_wait()) {
            self.failed(format!("the server ended by itself ({status})"));
        }
        let _ = child.kill();
        let _ = child.wait();
        *self.report.kills.entry(how.unwrap_or_else(|| "random".to_owned())).or_default() += 1;
    }

    fn ready_then(&mut self, child: &mut Child, after: Duration) {
        match self.wait_ready(child, START_MAX) {
            Reached::Ready => std::thread::sleep(after),
            Reached::Ended(status) => self.failed(format!("the server did not start ({status})")),
            Reached::Neither => self.failed(format!("the server was not ready within {START_MAX:?}")),
        }
    }

    /// Waits for the abort. `None`: it did not come, and the process is to be killed.
    fn until_failpoint(&mut self, child: &mut Child, name: &str) -> Option<String> {
        let began = Instant::now();
        while began.elapsed() < FAILPOINT_MAX {
            match child.try_wait() {
                Ok(Some(status)) if status.signal() == Some(SIGABRT) => return Some(name.to_owned()),
                Ok(Some(status)) => {
                    self.failed(format!("the server ended by itself ({status}) before {name}"));
                    return None;
                }
                _ => std::thread::sleep(LOOK_AGAIN),
            }
        }
        self.report.missed += 1;
        None
    }

    /// Stops the process, shows that nobody else gets its file meanwhile, and lets it go on.
    fn pause(&mut self, child: &Child, pause: Duration) {
        let began = Instant::now();
        signal(child, "STOP");
        let mut second = self.serve(&self.plan.binary, "127.0.0.1:0", &self.path("second.address"));
        second.stderr(Stdio::piped());
        match second.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                if output.status.code() != Some(1) || !said.contains("is in use by another process") {
                    self.failed(format!("a second server on the file was not refused: {}: {said}", output.status));
                }
            }
            Err(error) => self.failed(format!("a second server could not be tried: {error}")),
        }
        std::thread::sleep(pause.saturating_sub(began.elapsed()));
        signal(child, "CONT");
        self.report.pauses += 1;
    }

    async fn push_flows(&mut self, ledger: &str) -> Result<(), String> {
        let mut child = Owned(self.spawn(None));
        if !matches!(self.wait_ready(&mut child.0, START_MAX), Reached::Ready) {
            return Err("the server does not start".to_owned());
        }
        let api = self.api()?;
        for source in flows::sources(ledger) {
            api.push(&source).await?;
        }
        // Its end is a kill like the others: a push that was answered is kept.
        Ok(())
    }

    async fn settle_and_judge(&mut self, mut sender: Owned, person: &mut Person, ledger: &str) -> Result<(), String> {
        let mut server = Owned(self.spawn(None));
        match self.wait_ready(&mut server.0, START_MAX) {
            Reached::Ready => {}
            Reached::Ended(_) | Reached::Neither => {
                self.failed("the last start failed".to_owned());
                return Ok(());
            }
        }
        let api = self.api()?;
        end_sender(&mut sender, person).await?;
        api.push(&flows::tick(ledger, true)).await?;
        settle(&api, person).await?;
        let world = api.world().await.map_err(|error| format!("the last reading failed: {error}"))?;
        self.semel_check("beside the running server");
        signal(&server.0, "TERM");
        let status = server.0.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            self.failed(format!("the last stop failed ({status})"));
        }
        let calls = records::read(&self.company.ledger_file()).map_err(|error| format!("the ledger: {error}"))?;
        let notes = records::read(&self.company.sender_file()).map_err(|error| format!("the sender: {error}"))?;
        self.report.count(&calls, &notes, &world);
        let found = check::violations(&Evidence { calls: &calls, notes: &notes, world: &world });
        self.report.violations.extend(found);
        self.semel_check("at the end");
        Ok(())
    }

    /// The checker as people use it.
    fn semel_check(&mut self, when: &str) {
        let store = format!("sqlite:{}", self.path("data").join("semel.db").display());
        let mut command = Command::new(&self.plan.binary);
        command.args(["check", "--full", "--store", &store]).current_dir(&self.plan.directory).stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => self.report.checks += 1,
            Ok(output) => {
                let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                self.report.violations.push(violation(Kind::StoreDamaged, format!("{when}: {}", said.join("\n"))));
            }
            Err(error) => self.report.violations.push(violation(Kind::StoreDamaged, format!("{when}: {error}"))),
        }
    }

    /// The same as a library, on the file as it lies there.
    fn look_at_the_file(&mut self, when: &str) {
        let path = self.path("data").join("semel.db");
        let looked = Inspection::open(&path)
            .map_err(|error| error.to_string())
            .and_then(|file| file.check(&Options::default(), true, &mut |_| {}).map_err(|error| error.to_string()));
        let about = |text: String| violation(Kind::StoreDamaged, format!("{when}: {text}"));
        match looked {
            Ok(found) => {
                let texts = found.violations.iter().map(|one| format!("{} {}: {}", one.code, one.what, one.message));
                self.report.violations.extend(texts.map(about));
                self.report.checks += 1;
            }
            Err(error) => self.report.violations.push(about(error)),
        }
    }
}
