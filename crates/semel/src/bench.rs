//! What this machine does: a real server over HTTP, beside the limits that HTTP and the disk set here.
//!
//! | figure | what one operation is |
//! |---|---|
//! | `raw_http` | a request to a server that does nothing |
//! | `raw_commit` | the rows of a fresh run, written straight through the store, in groups |
//! | `fresh` | a trigger with a new key, answered when durable; its run of one step goes on behind the answer |
//! | `replay` | a trigger with the key of a finished run |
//! | `hot` | a trigger with a new key that all clients send at the same moment |
//! | `steps10` | a trigger with a new key, answered when its run of ten steps has ended |
//!
//! Other work on the machine disturbs every figure, so all are measured in turn, in several rounds, and judged by
//! their ratios. `cpu_us` is the server's processor time per operation: the steadiest of all.

mod figure;
mod load;
mod raw_commit;
pub mod raw_http;
mod report;
mod usage;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell, say};
use crate::process::{Process, Start};
use figure::Figure;
use load::{Keys, Shape};
use raw_commit::RawStore;
use report::Report;
use reqwest::{Method, Url};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FRESH: &str = include_str!("bench/fresh.yaml");
const STEPS10: &str = include_str!("bench/steps10.yaml");
const ROUNDS: u32 = 3;
/// Each kind of load runs this long unmeasured, so that caches and connections are as they will be.
const WARM_UP: Duration = Duration::from_millis(300);

pub struct Options {
    pub store: Option<String>,
    pub seconds: f64,
    pub clients: usize,
    pub runs: u64,
    pub check: bool,
}

pub fn run(options: Options, shell: &Shell) -> Result<Reply, Failure> {
    let directory = tempfile::Builder::new().prefix("semel-bench-").tempdir().map_err(broken)?;
    let path = match &options.store {
        None => directory.path().join("semel.db"),
        Some(text) => PathBuf::from(text.strip_prefix("sqlite:").unwrap_or(text)),
    };
    let path = std::path::absolute(path).map_err(broken)?;
    let bench = Bench { options: &options, directory: directory.path(), path, tag: tag(), shell };
    let report = bench.measure()?;
    let missed: Vec<String> = report.floors().iter().filter(|floor| !floor.met).map(|floor| floor.text()).collect();
    if options.check && !missed.is_empty() {
        let failure = Failure::refused("floor_missed", format!("missed: {}", missed.join("; ")));
        return Err(failure.details(report.json()).text(report.text()));
    }
    Ok(Reply::new(report.json(), report.text()))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::refused("bench_failed", error.to_string())
}

/// Makes the keys of this measurement its own, on a store that saw others.
fn tag() -> String {
    format!("{:08x}", rand::random::<u32>())
}

struct Bench<'a> {
    options: &'a Options,
    directory: &'a Path,
    path: PathBuf,
    tag: String,
    shell: &'a Shell,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Report, Failure> {
        // The first server makes the store and leaves one run in it, whose rows the raw store repeats.
        let server = self.start()?;
        self.push(&server, &[FRESH, STEPS10])?;
        load::run(&self.shape(&server, "bench:fresh", &format!("model-{}", self.tag)), 1, Duration::from_millis(50))?;
        self.end(server)?;
        let mut report = Report { clients: self.options.clients, seconds: self.options.seconds, ..Report::default() };
        let mut raw = RawStore::open(&self.path, "bench", "fresh", format!("raw-{}", self.tag))?;
        if self.options.runs > 0 {
            self.fill(&mut raw)?;
        }
        report.runs_before = raw.runs_stored()?;
        let half = self.time().div_f64(2.0);
        report.raw_commit.add(raw.measure(self.options.clients, half)?);
        raw.close();

        self.say("starting the server");
        let began = Instant::now();
        let server = self.start()?;
        report.cold_start = began.elapsed();
        report.idle_kib = usage::memory_kib(server.id()).map_or(0, |(now, _)| now);
        let trivial = self.spawn(&["bench", "--raw-http-server"], "raw")?;
        for round in 0..ROUNDS {
            self.round(round, &server, &trivial, &mut report)?;
        }
        report.peak_kib = usage::memory_kib(server.id()).map_or(0, |(_, highest)| highest);
        self.end(trivial)?;
        self.end(server)?;

        let mut raw = RawStore::open(&self.path, "bench", "fresh", format!("raw2-{}", self.tag))?;
        report.raw_commit.add(raw.measure(self.options.clients, half)?);
        raw.close();
        report.store_bytes = std::fs::metadata(&self.path).map_or(0, |data| data.len());
        Ok(report)
    }

    fn round(&self, round: u32, server: &Process, trivial: &Process, report: &mut Report) -> Result<(), Failure> {
        self.say(&format!("round {} of {ROUNDS}", round + 1));
        let tag = |name: &str| format!("{name}-{}-{round}", self.tag);
        let raw = Shape { address: trivial.address, replayed: None, ..self.shape(server, "bench:fresh", &tag("raw")) };
        report.raw_http.add(self.load(&raw, trivial)?);
        let fresh = self.shape(server, "bench:fresh", &tag("fresh"));
        report.fresh.add(self.load(&fresh, server)?);
        let done = Shape { wait: true, ..self.shape(server, "bench:fresh", &tag("done")) };
        load::run(&done, 1, Duration::from_millis(1))?;
        let key = Keys::Same(format!("{}-0-0", tag("done")));
        let replay = Shape { keys: key, replayed: Some(true), ..self.shape(server, "bench:fresh", "") };
        report.replay.add(self.load(&replay, server)?);
        let hot = Shape { keys: Keys::Hot(tag("hot")), replayed: None, ..self.shape(server, "bench:fresh", "") };
        report.hot.add(self.load(&hot, server)?);
        let steps = Shape { wait: true, ..self.shape(server, "bench:steps10", &tag("steps")) };
        report.steps10.add(self.load(&steps, server)?);
        Ok(())
    }

    /// One kind of load for its part of a round.
    fn load(&self, shape: &Shape, process: &Process) -> Result<Figure, Failure> {
        let warm = match &shape.keys {
            Keys::Fresh(prefix) => Shape { keys: Keys::Fresh(format!("{prefix}-warm")), ..shape.clone() },
            Keys::Hot(prefix) => Shape { keys: Keys::Hot(format!("{prefix}-warm")), ..shape.clone() },
            Keys::Same(_) => shape.clone(),
        };
        load::run(&warm, self.options.clients, WARM_UP)?;
        let before = usage::cpu(process.id());
        let figure = load::run(shape, self.options.clients, self.time().div_f64(f64::from(ROUNDS)))?;
        let used = usage::cpu(process.id()).zip(before).map_or(Duration::ZERO, |(after, before)| after - before);
        Ok(figure.cpu(used))
    }

    fn fill(&self, raw: &mut RawStore) -> Result<(), Failure> {
        let stored = raw.runs_stored()?;
        let missing = self.options.runs.saturating_sub(stored);
        self.say(&format!("the store has {stored} runs; adding {missing}"));
        raw.fill(missing, |done| {
            if done > 0 && done % 500_000 == 0 {
                self.say(&format!("{done} of {missing}"));
            }
        })
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.options.seconds)
    }

    fn shape(&self, server: &Process, flow: &'static str, prefix: &str) -> Shape {
        let keys = Keys::Fresh(prefix.to_owned());
        Shape { address: server.address, token: self.token(), flow, wait: false, keys, replayed: Some(false) }
    }

    /// The token that the first start made: what is measured includes looking at it.
    fn token(&self) -> Option<String> {
        std::fs::read_to_string(self.data().join("admin.token")).ok().map(|text| text.trim().to_owned())
    }

    /// Beside a store that stays, for its first token is made once.
    fn data(&self) -> PathBuf {
        match self.options.store {
            None => self.directory.join("data"),
            Some(_) => self.path.with_extension("bench"),
        }
    }

    fn start(&self) -> Result<Process, Failure> {
        let store = format!("sqlite:{}", self.path.display());
        let data = self.data().display().to_string();
        self.spawn(
            &["serve", "--until-stdin-ends", "--listen", "127.0.0.1:0", "--store", &store, "--data-dir", &data],
            "server",
        )
    }

    fn spawn(&self, arguments: &[&str], name: &str) -> Result<Process, Failure> {
        let directory = self.directory.join(name);
        std::fs::create_dir_all(&directory).map_err(broken)?;
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        runtime()?.block_on(Process::spawn(Start { directory: &directory, arguments: &arguments }))
    }

    fn end(&self, process: Process) -> Result<(), Failure> {
        runtime()?.block_on(process.end());
        Ok(())
    }

    fn push(&self, server: &Process, flows: &[&'static str]) -> Result<(), Failure> {
        let base = Url::parse(&format!("http://{}", server.address)).map_err(broken)?;
        let client = Client::with_token(base, self.token())?;
        runtime()?.block_on(async {
            for flow in flows {
                let request = client.request(Method::PUT, &["v1", "workflows"]);
                client.answer(request.header("content-type", "application/yaml").body(*flow)).await?;
            }
            Ok(())
        })
    }

    fn say(&self, text: &str) {
        if !self.shell.json {
            say(text);
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)
}
