//! Workflows of Conductor's with workers, at Conductor's own addresses.
//!
//! | figure | what one workflow is |
//! |---|---|
//! | `one_task` | one SIMPLE task |
//! | `twenty_tasks` | twenty SIMPLE tasks, one after the other |
//!
//! Clients start a workflow with a key of its own and wait for its end. Workers are connections of the same process: they
//! poll in batches, answer with `update-v2`, and go on with the task that this hands out. The commits are those of the
//! whole server while it is measured, divided by the workflows that ended.

use super::figure::Figure;
use super::load::{Keys, Shape, To};
use super::wire::Wire;
use super::{Bench, Options, broken, prepared, runtime};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::process::Process;
use reqwest::{Method, RequestBuilder, Url};
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::task::JoinSet;

struct Case {
    name: &'static str,
    tasks: usize,
}

const CASES: [Case; 2] = [Case { name: "one_task", tasks: 1 }, Case { name: "twenty_tasks", tasks: 20 }];
const WORKERS: usize = 16;
const TASK: &str = "bench_task";
/// What the published figures are: twenty tasks, 14 servers and a database of 64 cores.
const PUBLISHED: &str =
    "35 workflows/s of 20 tasks on 14 servers and a PostgreSQL of 64 cores (Netflix/conductor 2067)";

pub fn run(options: Options, shell: &Shell) -> Result<Reply, Failure> {
    if options.runs > 0 || options.nodes > 1 || options.check {
        let failure = Failure::usage("`bench conductor` takes --store, --seconds and --clients only");
        return Err(failure.hint("semel bench conductor --seconds 10 --clients 32"));
    }
    prepared(&options, shell, |bench| {
        let server = bench.start(0)?;
        let site = Site::new(bench, &server)?;
        site.define()?;
        let workers = Workers::start(server.address, bench.token())?;
        let measured =
            CASES.iter().map(|case| measure(bench, &site, &server, case)).collect::<Result<Vec<Measured>, Failure>>();
        workers.stop()?;
        bench.end(server)?;
        let measured = measured?;
        Ok(Reply::new(report(&measured, &options), text(&measured)))
    })
}

struct Measured {
    figure: Figure,
    commits: f64,
    writes: f64,
}

/// The server's other addresses.
struct Site {
    client: Client,
}

impl Site {
    fn new(bench: &Bench<'_>, server: &Process) -> Result<Site, Failure> {
        let base = Url::parse(&format!("http://{}", server.address)).map_err(broken)?;
        Ok(Site { client: Client::with_token(base, bench.token())? })
    }

    async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let answer = self.client.open(request).await?;
        Ok(answer.bytes().await.map_err(broken)?.to_vec())
    }

    fn define(&self) -> Result<(), Failure> {
        runtime()?.block_on(async {
            let post = |path: &[&str], body: Json| self.client.request(Method::POST, path).json(&body);
            let task = json!([{"name": TASK, "retryCount": 0, "responseTimeoutSeconds": 60}]);
            self.bytes(post(&["api", "metadata", "taskdefs"], task)).await?;
            for case in &CASES {
                let task = |n: usize| json!({"name": TASK, "taskReferenceName": format!("t{n}"), "type": "SIMPLE", "inputParameters": {"order": "${workflow.input.order}"}});
                let definition =
                    json!({"name": case.name, "version": 1, "tasks": (0..case.tasks).map(task).collect::<Vec<Json>>()});
                self.bytes(post(&["api", "metadata", "workflow"], definition)).await?;
            }
            Ok(())
        })
    }

    /// Commits and writes so far.
    fn tally(&self) -> Result<(f64, f64), Failure> {
        let text = runtime()?.block_on(self.bytes(self.client.request(Method::GET, &["metrics"])))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            line.ok_or_else(|| broken(format!("the server does not tell {name}")))
        };
        Ok((number("semel_store_commits_total ")?, number("semel_store_writes_total ")?))
    }
}

fn measure(bench: &Bench<'_>, site: &Site, server: &Process, case: &Case) -> Result<Measured, Failure> {
    bench.say(&format!("{}: workflows of {} tasks, {WORKERS} workers", case.name, case.tasks));
    let shape = Shape {
        addresses: vec![server.address],
        token: bench.token(),
        to: To::Conductor(case.name),
        wait: false,
        keys: Keys::Fresh(format!("{}-{}", case.name, bench.tag)),
        replayed: None,
    };
    let before = site.tally()?;
    let mut figure = Figure::default();
    for round in 0..super::ROUNDS {
        let keys = Keys::Fresh(format!("{}-{}-{round}", case.name, bench.tag));
        figure.add(super::load::run(
            &Shape { keys, ..shape.clone() },
            bench.options.clients,
            bench.time().div_f64(f64::from(super::ROUNDS)),
        )?);
    }
    let after = site.tally()?;
    let each = |all: f64| all / (figure.operations().max(1) as f64);
    Ok(Measured { commits: each(after.0 - before.0), writes: each(after.1 - before.1), figure })
}

/// Workers on a thread of their own, until they are told to stop.
struct Workers {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Workers {
    fn start(address: SocketAddr, token: Option<String>) -> Result<Workers, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let thread = std::thread::Builder::new().name("bench-workers".to_owned()).spawn(move || {
            runtime()?.block_on(async {
                let work = |number| work(number, address, token.clone(), told.clone());
                let mut working: JoinSet<Result<(), Failure>> = (0..WORKERS).map(work).collect();
                while let Some(ended) = working.join_next().await {
                    ended.map_err(broken)??;
                }
                Ok(())
            })
        });
        Ok(Workers { over, thread: thread.map_err(broken)? })
    }

    fn stop(self) -> Result<(), Failure> {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| broken("a worker panicked"))?
    }
}

async fn work(number: usize, address: SocketAddr, token: Option<String>, over: Arc<AtomicBool>) -> Result<(), Failure> {
    let mut wire = Wire::connect(address).await?;
    let token = token.map_or(String::new(), |token| format!("X-Authorization: {token}\r\n"));
    let poll = format!(
        "GET /api/tasks/poll/batch/{TASK}?workerid=w{number}&count=4&timeout=200 HTTP/1.1\r\nHost: localhost\r\n{token}\r\n"
    );
    while !over.load(Ordering::SeqCst) {
        // In turn: the next task of a workflow comes after the others that were taken with it.
        let mut taken: VecDeque<Json> =
            serde_json::from_slice(wire.exchange(poll.as_bytes()).await?).map_err(broken)?;
        while let Some(task) = taken.pop_front() {
            let body = json!({"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"],
                "workerId": format!("w{number}"), "status": "COMPLETED", "outputData": {"done": true}});
            let body = body.to_string();
            let request = format!(
                "POST /api/tasks/update-v2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{token}Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let answer = wire.exchange(request.as_bytes()).await?;
            if !answer.is_empty() {
                taken.push_back(serde_json::from_slice(answer).map_err(broken)?);
            }
        }
    }
    Ok(())
}

fn report(measured: &[Measured], options: &Options) -> Json {
    let mut cases = serde_json::Map::new();
    for (case, one) in CASES.iter().zip(measured) {
        let mut json = one.figure.json();
        json["tasks_per_second"] = json!((one.figure.per_second() * case.tasks as f64).round());
        json["commits_per_workflow"] = json!((one.commits * 100.0).round() / 100.0);
        json["writes_per_workflow"] = json!((one.writes * 100.0).round() / 100.0);
        cases.insert(case.name.to_owned(), json);
    }
    json!({"clients": options.clients, "workers": WORKERS, "seconds": options.seconds, "figures": cases, "published": PUBLISHED})
}

fn text(measured: &[Measured]) -> String {
    let mut out = format!(
        "{:<14}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
        "", "workflows/s", "p50 ms", "p99 ms", "tasks/s", "commits", "writes"
    );
    for (case, one) in CASES.iter().zip(measured) {
        let ms = |share| f64::from(one.figure.quantile(share)) / 1e3;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{:<14}{:>12.0}{:>12.2}{:>12.2}{:>12.0}{:>12.2}{:>12.2}",
            case.name,
            one.figure.per_second(),
            ms(0.5),
            ms(0.99),
            one.figure.per_second() * case.tasks as f64,
            one.commits,
            one.writes,
        );
    }
    out + &format!("\nCommits and writes are for each workflow. Published, on other hardware: {PUBLISHED}.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn workflows_are_told_in_tasks_and_commits() {
        let one =
            || Measured { figure: Figure::new(vec![100; 50], Duration::from_secs(1)), commits: 1.234, writes: 4.0 };
        let options = Options { store: None, seconds: 1.0, clients: 2, runs: 0, nodes: 1, check: false };
        let json = report(&[one(), one()], &options);
        assert_eq!(json["figures"]["twenty_tasks"]["tasks_per_second"], json!(1_000.0));
        assert_eq!(json["figures"]["one_task"]["commits_per_workflow"], json!(1.23));
        assert!(text(&[one(), one()]).contains("twenty_tasks"));
    }
}
