//! What this machine does: a real server over HTTP, beside the limits that HTTP and the disk set here.
//!
//! | figure | what one operation is |
//! |---|---|
//! | `raw_http` | a request to a server that does nothing |
//! | `raw_commit` | the rows of a fresh run, written straight through the store, in groups; as statements on PostgreSQL |
//! | `fresh` | a trigger with a new key, answered when durable; its run of one step goes on behind the answer |
//! | `replay` | a trigger with the key of a finished run |
//! | `hot` | a trigger with a new key that all clients send at the same moment |
//! | `steps10` | a trigger with a new key, answered when its run of ten steps has ended |
//!
//! Other work on the machine disturbs every figure, so all are measured in turn, in several rounds, and judged by
//! their ratios. `cpu_us` is the server's processor time per operation: the steadiest of all. With several nodes the
//! same load is measured on one of them and spread over all, in turn.

pub mod conductor;
mod figure;
pub mod kestra;
mod load;
mod place;
mod raw_commit;
pub mod raw_http;
mod report;
mod usage;
mod wire;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell, say};
use crate::process::{Process, Start};
use figure::Figure;
use load::{Keys, Shape, To};
use place::Place;
use raw_commit::RawStore;
use report::{Figures, Report};
use reqwest::{Method, Url};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use usage::Meter;

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
    pub nodes: usize,
    pub check: bool,
}

pub fn run(options: Options, shell: &Shell) -> Result<Reply, Failure> {
    prepared(&options, shell, |bench| bench.report())
}

/// A place for the store and a directory for the processes; both go when `measure` has ended.
fn prepared(
    options: &Options,
    shell: &Shell,
    measure: impl FnOnce(&Bench<'_>) -> Result<Reply, Failure>,
) -> Result<Reply, Failure> {
    let directory = tempfile::Builder::new().prefix("semel-bench-").tempdir().map_err(broken)?;
    let tag = tag();
    let place = Place::new(options.store.as_deref(), directory.path(), &tag)?;
    if options.nodes > 1 && matches!(place, Place::File(_)) {
        let failure = Failure::usage("a SQLite file has one server; --nodes needs a database");
        return Err(failure.hint("semel bench --store postgres://user@host/database --nodes 3"));
    }
    measure(&Bench { options, directory: directory.path(), place, tag, shell })
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
    place: Place,
    tag: String,
    shell: &'a Shell,
}

impl Bench<'_> {
    fn report(&self) -> Result<Reply, Failure> {
        let report = self.measure()?;
        let missed: Vec<String> = report.floors().iter().filter(|floor| !floor.met).map(|floor| floor.text()).collect();
        if self.options.check && !missed.is_empty() {
            let failure = Failure::refused("floor_missed", format!("missed: {}", missed.join("; ")));
            return Err(failure.details(report.json()).text(report.text()));
        }
        Ok(Reply::new(report.json(), report.text()))
    }

    fn measure(&self) -> Result<Report, Failure> {
        // The first server makes the store and leaves one run in it, whose rows the raw store repeats.
        let server = self.start(0)?;
        self.push(&server, &[FRESH, STEPS10])?;
        let model = self.shape(&[&server], "bench:fresh", &format!("model-{}", self.tag));
        load::run(&model, 1, Duration::from_millis(50))?;
        self.end(server)?;
        let mut report = Report {
            nodes: self.options.nodes,
            one: (self.options.nodes > 1).then(Figures::default),
            has_database: matches!(self.place, Place::Database(_)),
            clients: self.options.clients,
            seconds: self.options.seconds,
            ..Report::default()
        };
        let mut raw = RawStore::open(&self.place, "bench", "fresh", format!("raw-{}", self.tag))?;
        if self.options.runs > 0 {
            self.fill(&mut raw)?;
        }
        report.runs_before = raw.runs_stored();
        let half = self.time().div_f64(2.0);
        report.raw_commit.add(raw.measure(self.options.clients, half)?);
        raw.close();

        self.measure_servers(&mut report)?;

        let mut raw = RawStore::open(&self.place, "bench", "fresh", format!("raw2-{}", self.tag))?;
        report.raw_commit.add(raw.measure(self.options.clients, half)?);
        raw.close();
        report.store_bytes = self.place.bytes();
        Ok(report)
    }

    fn measure_servers(&self, report: &mut Report) -> Result<(), Failure> {
        self.say("starting the server");
        let began = Instant::now();
        let mut servers = vec![self.start(0)?];
        report.cold_start = began.elapsed();
        report.idle_kib = usage::memory_kib(servers[0].id()).map_or(0, |(now, _)| now);
        for number in 1..self.options.nodes {
            servers.push(self.start(number)?);
        }
        let trivial = self.spawn(&["bench", "--raw-http-server"], "raw")?;
        let all: Vec<&Process> = servers.iter().collect();
        for round in 0..ROUNDS {
            self.say(&format!("round {} of {ROUNDS}", round + 1));
            let raw = Shape { replayed: None, ..self.shape(&[&trivial], "bench:fresh", &self.tag) };
            report.raw_http.add(self.load(&raw, &[&trivial])?);
            if let Some(one) = &mut report.one {
                self.round(&format!("one-{round}"), &all[..1], one)?;
            }
            self.round(&round.to_string(), &all, &mut report.all)?;
        }
        let peaks = servers.iter().filter_map(|server| usage::memory_kib(server.id()));
        report.peak_kib = peaks.map(|(_, highest)| highest).max().unwrap_or_default();
        servers.push(trivial);
        servers.into_iter().try_for_each(|process| self.end(process))
    }

    fn round(&self, round: &str, servers: &[&Process], figures: &mut Figures) -> Result<(), Failure> {
        let tag = |name: &str| format!("{name}-{}-{round}", self.tag);
        let fresh = self.shape(servers, "bench:fresh", &tag("fresh"));
        figures.fresh.add(self.load(&fresh, servers)?);
        let done = Shape { wait: true, ..self.shape(servers, "bench:fresh", &tag("done")) };
        load::run(&done, 1, Duration::from_millis(1))?;
        let key = Keys::Same(format!("{}-0-0", tag("done")));
        let replay = Shape { keys: key, replayed: Some(true), ..self.shape(servers, "bench:fresh", "") };
        figures.replay.add(self.load(&replay, servers)?);
        let hot = Shape { keys: Keys::Hot(tag("hot")), replayed: None, ..self.shape(servers, "bench:fresh", "") };
        figures.hot.add(self.load(&hot, servers)?);
        let steps = Shape { wait: true, ..self.shape(servers, "bench:steps10", &tag("steps")) };
        figures.steps10.add(self.load(&steps, servers)?);
        Ok(())
    }

    /// One kind of load for its part of a round.
    fn load(&self, shape: &Shape, processes: &[&Process]) -> Result<Figure, Failure> {
        let warm = match &shape.keys {
            Keys::Fresh(prefix) => Shape { keys: Keys::Fresh(format!("{prefix}-warm")), ..shape.clone() },
            Keys::Hot(prefix) => Shape { keys: Keys::Hot(format!("{prefix}-warm")), ..shape.clone() },
            Keys::Same(_) => shape.clone(),
        };
        load::run(&warm, self.options.clients, WARM_UP)?;
        let processes = processes.iter().map(|process| process.id()).collect();
        let meter = Meter { processes, database: self.place.database() };
        let before = meter.read();
        let figure = load::run(shape, self.options.clients, self.time().div_f64(f64::from(ROUNDS)))?;
        Ok(figure.used(meter.read().since(before)))
    }

    fn fill(&self, raw: &mut RawStore) -> Result<(), Failure> {
        let stored = raw.runs_stored();
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

    fn shape(&self, servers: &[&Process], flow: &'static str, prefix: &str) -> Shape {
        let keys = Keys::Fresh(prefix.to_owned());
        let addresses = servers.iter().map(|server| server.address).collect();
        Shape { addresses, token: self.token(), to: To::Trigger(flow), wait: false, keys, replayed: Some(false) }
    }

    /// The token that the first start made: what is measured includes looking at it.
    fn token(&self) -> Option<String> {
        std::fs::read_to_string(self.data().join("admin.token")).ok().map(|text| text.trim().to_owned())
    }

    /// Beside a store that stays, for its first token is made once.
    fn data(&self) -> PathBuf {
        match &self.place {
            Place::File(path) if self.options.store.is_some() => path.with_extension("bench"),
            Place::File(_) | Place::Database(_) => self.directory.join("data"),
        }
    }

    fn start(&self, number: usize) -> Result<Process, Failure> {
        let store = self.place.store();
        let data = self.data().display().to_string();
        self.spawn(
            &["serve", "--until-stdin-ends", "--listen", "127.0.0.1:0", "--store", &store, "--data-dir", &data],
            &format!("server-{number}"),
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
