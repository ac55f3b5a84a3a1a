//! What a newcomer sees first: one payment event, delivered many times at once to a server that is killed between
//! the bank's commit and its answer, and in the end one run and one charge.
//!
//! Everything is real but the bank: the server is this executable in a process of its own, the deliveries are HTTP
//! requests, the kill is SIGKILL. The story, in order:
//!
//! | step | who | what |
//! |---|---|---|
//! | 1 | bank, server | start; the flow is pushed |
//! | 2 | provider | delivers the event `deliveries` times at the same moment |
//! | 3 | bank | commits the charge, rings, and does not answer yet |
//! | 4 | demo | waits for the answer "started", then kills the server; the bank's answer goes nowhere |
//! | 5 | server | starts again on the same store and port |
//! | 6 | provider | sends again what got no answer, until each delivery has one |
//! | 7 | demo | counts: the provider's answers, the server's API, the bank's books |
//!
//! Whatever way it ends, the server process ends with it and its directory is removed.

mod bank;
mod narrator;
mod provider;
mod tally;

use crate::cli::paging;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell, print_line, say};
use crate::process::Process;
use crate::signals::Stop;
use crate::table::field;
use bank::Bank;
use narrator::Narrator;
use provider::{Delivery, News, Provider};
use reqwest::{Method, Url};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tally::Tally;

const FLOW: &str = include_str!("demo/payments.yaml");
/// Where the flow file says the bank is; the demo's bank listens wherever there is room.
const BANK_IN_FLOW: &str = "http://127.0.0.1:9999";
const HOOK: &str = "/v1/webhooks/shop/payments/4eC39HqLyjWDarjtT1zdp7dc";
const WORKFLOW: &str = "shop:payments";
const EVENT_ID: &str = "evt_1042";

/// A charge must be asked for within this time, or something is wrong.
const CHARGE_LIMIT: Duration = Duration::from_secs(30);
/// How long the kill waits for the answer "started" to reach the provider.
const STARTED_LIMIT: Duration = Duration::from_secs(3);
const RUN_LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(25);

pub struct Options {
    pub once: bool,
    pub deliveries: u32,
    pub port: u16,
}

pub fn run(options: Options, shell: &Shell) -> Result<Reply, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("no runtime", error))?;
    runtime.block_on(async {
        let mut stop = Stop::listen().map_err(|error| broken("cannot listen for signals", error))?;
        let directory = tempfile::Builder::new().prefix("semel-demo-").tempdir();
        let directory = directory.map_err(|error| broken("no temporary directory", error))?;
        let told = tokio::select! {
            told = story(&options, shell, directory.path()) => told?,
            () = stop.next() => return Err(Failure::refused("interrupted", "stopped before the tally")),
        };
        conclude(&options, shell, told, &mut stop).await
    })
}

fn broken(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::refused("demo_failed", format!("{what}: {error}"))
}

/// What is left when the story has been told. The bank stays open as long as the server does.
struct Told {
    tally: Tally,
    process: Process,
    base: Url,
    _bank: Bank,
}

async fn story(options: &Options, shell: &Shell, directory: &Path) -> Result<Told, Failure> {
    let mut narrator = Narrator::new(shell, options.deliveries);
    narrator.title(&format!(
        "One payment, delivered {} times at once, to a server that is killed half-way.",
        options.deliveries
    ));

    let mut bank = Bank::open().await.map_err(|error| broken("the bank cannot open", error))?;
    narrator.tell("bank", &format!("open on http://{}, honours Idempotency-Key", bank.address));
    let process = Process::start(directory, options.port).await?;
    let base = url(&format!("http://{}", process.address))?;
    narrator.tell("server", &format!("process {} ready on http://{}", process.id(), process.address));
    let client = Client::without_token(base.clone())?;
    push_flow(&client, &bank).await?;
    narrator.tell("flow", &format!("{WORKFLOW} stored: a webhook, then a POST to the bank declared `effect: keyed`"));

    narrator.tell("provider", &format!("delivers event {EVENT_ID} {} times at once", options.deliveries));
    narrator.start_bar();
    let mut provider =
        Provider::deliver(url(&format!("http://{}{HOOK}", process.address))?, &event(), options.deliveries)?;
    let mut counts = Counts::default();
    counts.until_charged_and_started(&mut bank, &mut provider, &mut narrator).await?;
    narrator.tell("bank", "42.00 EUR charged and in the books; about to answer …");

    let (killed, port) = (process.id(), process.address.port());
    process.kill().map_err(|error| broken("cannot kill the server", error))?;
    bank.go_on();
    counts.drain(&mut provider, &mut narrator);
    counts.mark_kill();
    let answered = counts.answered_before_kill;
    narrator.tell(
        "kill -9",
        &format!(
            "process {killed} is gone, the bank's answer with it; {answered} of {} deliveries were answered",
            options.deliveries
        ),
    );

    let restarted = Instant::now();
    let process = Process::start(directory, port).await?;
    narrator.tell(
        "server",
        &format!("process {} ready on the same store after {} ms", process.id(), restarted.elapsed().as_millis()),
    );
    counts.until_all_answered(&mut provider, &mut narrator).await;
    provider.finish().await?;
    let run = run_ended(&client, counts.run_id()).await?;
    let recovered_ms = restarted.elapsed().as_millis() as i64;
    narrator.tell(
        "run",
        &format!("{} {}, {recovered_ms} ms after the restart began", field(&run, "run_id"), field(&run, "status")),
    );
    narrator.end();

    let tally = count(&client, &counts, &bank, &run, options, recovered_ms).await?;
    Ok(Told { tally, process, base, _bank: bank })
}

/// The provider's side of the tally, kept while the news comes in.
#[derive(Default)]
struct Counts {
    answered: Vec<Delivery>,
    answered_before_kill: u32,
    cut_off: u32,
}

impl Counts {
    fn note(&mut self, news: News, narrator: &mut Narrator) {
        match news {
            News::Answered(delivery) => {
                self.answered.push(delivery);
                narrator.answered(self.answered.len());
            }
            News::CutOff => self.cut_off += 1,
        }
    }

    fn drain(&mut self, provider: &mut Provider, narrator: &mut Narrator) {
        while let Ok(news) = provider.news.try_recv() {
            self.note(news, narrator);
        }
    }

    fn mark_kill(&mut self) {
        self.answered_before_kill = self.answered.len() as u32;
    }

    fn knows_the_start(&self) -> bool {
        self.answered.iter().any(|delivery| !delivery.replayed)
    }

    /// Both must have happened before the kill, or the story is another one: a start whose own answer is lost is
    /// told "replayed" when it comes again, and nobody would ever have been told "started".
    async fn until_charged_and_started(
        &mut self,
        bank: &mut Bank,
        provider: &mut Provider,
        narrator: &mut Narrator,
    ) -> Result<(), Failure> {
        let limit = tokio::time::sleep(CHARGE_LIMIT);
        tokio::pin!(limit);
        let mut charged = false;
        while !(charged && self.knows_the_start()) {
            tokio::select! {
                () = bank.first_charge(), if !charged => {
                    charged = true;
                    limit.as_mut().reset(tokio::time::Instant::now() + STARTED_LIMIT);
                }
                Some(news) = provider.news.recv() => self.note(news, narrator),
                () = &mut limit => break,
            }
        }
        if charged { Ok(()) } else { Err(Failure::refused("demo_failed", "no charge reached the bank within 30 s")) }
    }

    async fn until_all_answered(&mut self, provider: &mut Provider, narrator: &mut Narrator) {
        // Each delivery drops its end of the channel when it has its answer or gives up.
        while let Some(news) = provider.news.recv().await {
            self.note(news, narrator);
        }
    }

    fn run_id(&self) -> &str {
        self.answered.first().map(|delivery| delivery.run_id.as_str()).unwrap_or_default()
    }
}

fn url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|error| broken(text, error))
}

fn event() -> Json {
    json!({ "id": EVENT_ID, "type": "payment.requested", "amount": "42.00", "currency": "EUR", "card": "tok_visa" })
}

async fn push_flow(client: &Client, bank: &Bank) -> Result<(), Failure> {
    let source = FLOW.replace(BANK_IN_FLOW, &format!("http://{}", bank.address));
    let request =
        client.request(Method::PUT, &["v1", "workflows"]).header("content-type", "application/yaml").body(source);
    client.answer(request).await.map(|_| ())
}

async fn run_ended(client: &Client, id: &str) -> Result<Json, Failure> {
    let started = Instant::now();
    loop {
        let run = client.get(&["v1", "runs", id], &[]).await?;
        let settled = matches!(field(&run, "status").as_str(), "completed" | "failed" | "cancelled" | "held");
        if settled || started.elapsed() > RUN_LIMIT {
            return Ok(run);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn count(
    client: &Client,
    counts: &Counts,
    bank: &Bank,
    run: &Json,
    options: &Options,
    recovered_ms: i64,
) -> Result<Tally, Failure> {
    let answered = &counts.answered;
    let named: BTreeSet<&str> = answered.iter().map(|delivery| delivery.run_id.as_str()).collect();
    let runs = client.get(&["v1", "runs"], &[("limit", "500".to_owned())]).await?;
    let mut tally = Tally {
        deliveries: options.deliveries,
        answered: answered.len() as u32,
        replays: answered.iter().filter(|delivery| delivery.replayed).count() as u32,
        run_ids_named: named.len() as u32,
        sends: answered.iter().map(|delivery| delivery.sends).sum(),
        answered_before_kill: counts.answered_before_kill,
        resent: answered.iter().filter(|delivery| delivery.sends > 1).count() as u32,
        run_id: field(run, "run_id"),
        run_status: field(run, "status"),
        runs: runs["items"].as_array().map_or(0, Vec::len) as u32,
        bank_calls: bank.calls(),
        bank_charges: bank.charges(),
        bank_keys: bank.keys(),
        recovered_ms,
        ..Tally::default()
    };
    count_decisions(client, &mut tally).await?;
    Ok(tally)
}

/// Rows of replays ride the next commit without being waited for, so the last ones may be a moment late.
async fn count_decisions(client: &Client, tally: &mut Tally) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let (rows, _) = paging::fetch(
            client,
            &["v1", "decisions"],
            vec![("workflow_id", WORKFLOW.to_owned())],
            &paging::EVERYTHING,
        )
        .await?;
        tally.decisions = rows.len() as u32;
        tally.starts = rows.iter().filter(|row| field(row, "decision") == "start").count() as u32;
        if tally.decisions >= tally.decisions_min() || started.elapsed() > STARTED_LIMIT {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn conclude(options: &Options, shell: &Shell, told: Told, stop: &mut Stop) -> Result<Reply, Failure> {
    let text = format!("{}\n", told.tally.text(shell.out));
    let faults = told.tally.faults();
    if !faults.is_empty() {
        told.process.end().await;
        let failure = Failure::refused("tally_broken", format!("the tally does not hold: {}", faults.join("; ")));
        return Err(failure.details(told.tally.json()).text(text));
    }
    let reply = Reply::new(told.tally.json(), text);
    if options.once {
        told.process.end().await;
        return Ok(reply);
    }
    // A reader that went away does not end the demo; Ctrl-C does.
    let _ = if shell.json { print_line(&reply.envelope().to_string()) } else { shell.print_reply(&reply) };
    if !shell.json {
        say(&look_further(shell, &told));
    }
    stop.next().await;
    told.process.end().await;
    Ok(Reply::already_printed())
}

fn look_further(shell: &Shell, told: &Told) -> String {
    let base = told.base.as_str().trim_end_matches('/');
    let run = &told.tally.run_id;
    let commands = [
        format!("semel run list --server {base}"),
        format!("semel run show {run} --steps --logs --server {base}"),
        format!("semel run replays {run} --server {base}"),
        format!("semel key explain {EVENT_ID} --workflow {WORKFLOW} --server {base}"),
        format!("curl -s {base}/v1/decisions"),
        format!("curl -s {base}{HOOK} --json '{}'", event()),
    ];
    let lines: Vec<String> = commands.iter().map(|command| format!("  {command}")).collect();
    let title = shell.err.bold("Look further (the last one delivers the event once more):");
    format!("\n{title}\n{}\n\nServing until Ctrl-C.", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_is_valid_and_meets_the_constants() {
        let compiled = semel_flow::compile(FLOW, &semel_tasks::REGISTRY, &Default::default());
        let compiled =
            compiled.unwrap_or_else(|errors| panic!("{}", semel_flow::render(&errors, "payments.yaml", FLOW, false)));
        assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
        assert_eq!(format!("{}:{}", compiled.flow.namespace, compiled.flow.id), WORKFLOW);
        assert!(FLOW.contains(BANK_IN_FLOW));
        assert!(FLOW.contains(HOOK.rsplit('/').next().unwrap()));
    }
}
