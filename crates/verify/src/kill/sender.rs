//! The sender: a provider of events as providers are. It sends twins at the same time, sends again when it got no
//! answer, sends old events again, now and then with another payload, and writes down every promise it was given.
//! Where there are several servers each attempt goes to any of them, as through a load balancer.
//!
//! It runs until its stdin says `drain`; then it begins nothing new and keeps on until everything it began is taken.

use super::flows::{FLOWS, Flow, HOOK_KEY, NAMESPACE};
use super::records::{AppendLog, Note};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value as Json, json};
use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const SENDERS: u64 = 6;
const LANES: u64 = 3;
/// Between two events of one sender, at most.
const PAUSE_MS_MAX: u64 = 120;
/// How long an event is offered after everything is well again.
const DRAIN_MAX: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);
/// Whoever can go to another server does not wait long for one.
const PATIENCE_OF_MANY: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Event {
    flow: &'static Flow,
    name: String,
    lane: String,
}

struct Sender {
    client: Client,
    servers: Vec<String>,
    log: AppendLog,
    attempts: AtomicU64,
    numbers: AtomicU64,
    draining: AtomicBool,
    drain_until: Mutex<Option<Instant>>,
    /// Events that were promised, to be sent again.
    taken: Mutex<Vec<Event>>,
}

/// What one delivery led to.
enum Delivered {
    Promised {
        run: String,
        replayed: bool,
    },
    Refused {
        status: u16,
        code: String,
    },
    /// No answer, or one that says nothing about the event.
    Doubt,
}

/// Sends until told to drain. Returns when every event that was begun is taken or given up.
pub async fn run(servers: Vec<String>, log: AppendLog, seed: u64) -> io::Result<()> {
    let patience = if servers.len() > 1 { PATIENCE_OF_MANY } else { PATIENCE };
    let client = Client::builder().no_proxy().timeout(patience).build().map_err(io::Error::other)?;
    let sender = Arc::new(Sender {
        client,
        servers,
        log,
        attempts: AtomicU64::new(0),
        numbers: AtomicU64::new(0),
        draining: AtomicBool::new(false),
        drain_until: Mutex::default(),
        taken: Mutex::default(),
    });
    let watched = sender.clone();
    std::thread::spawn(move || {
        // The end of stdin means that nobody leads this process any more.
        let _ = io::stdin().lock().lines().next();
        *watched.drain_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + DRAIN_MAX);
        watched.draining.store(true, Ordering::SeqCst);
    });
    let loops = (0..SENDERS).map(|number| {
        let sender = sender.clone();
        tokio::spawn(async move { sender.work(StdRng::seed_from_u64(seed ^ (number << 32))).await })
    });
    for task in loops.collect::<Vec<_>>() {
        task.await.map_err(io::Error::other)??;
    }
    sender.twins_of_all().await?;
    sender.log.append(&Note::Ended { attempts: sender.attempts.load(Ordering::SeqCst) })
}

impl Sender {
    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    fn may_go_on(&self) -> bool {
        self.drain_until.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|until| Instant::now() < until)
    }

    async fn work(self: Arc<Self>, mut chance: StdRng) -> io::Result<()> {
        while !self.is_draining() {
            let event = self.fresh(&mut chance);
            self.note(&Note::Offered { flow: event.flow.id.to_owned(), event: event.name.clone() })?;
            let copies = if chance.random_bool(0.4) { chance.random_range(2..=4) } else { 1 };
            let copies: Vec<_> = (0..copies).map(|_| tokio::spawn(self.clone().until_taken(event.clone()))).collect();
            for copy in copies {
                copy.await.map_err(io::Error::other)??;
            }
            if chance.random_bool(0.15) {
                self.altered(&event).await?;
            }
            if let Some(old) = self.old(&mut chance).filter(|_| chance.random_bool(0.25)) {
                self.clone().until_taken(old).await?;
            }
            tokio::time::sleep(Duration::from_millis(chance.random_range(0..=PAUSE_MS_MAX))).await;
        }
        Ok(())
    }

    fn fresh(&self, chance: &mut StdRng) -> Event {
        let mut roll = chance.random_range(0..100_u32);
        let chosen = FLOWS.iter().find(|flow| {
            let hit = roll < flow.share;
            roll = roll.saturating_sub(flow.share);
            hit
        });
        let flow = chosen.unwrap_or(&FLOWS[0]);
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let lane = format!("L{}", number % LANES);
        Event { flow, name: format!("{}-{number}-{lane}", flow.id), lane }
    }

    fn old(&self, chance: &mut StdRng) -> Option<Event> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        (!taken.is_empty()).then(|| taken[chance.random_range(0..taken.len())].clone())
    }

    fn note(&self, note: &Note) -> io::Result<()> {
        tokio::task::block_in_place(|| self.log.append(note))
    }

    fn request(&self, event: &Event, amount: u32) -> RequestBuilder {
        let (client, server) = (&self.client, &self.servers[rand::rng().random_range(0..self.servers.len())]);
        if event.flow.id == "hook" {
            let url = format!("{server}/v1/webhooks/{NAMESPACE}/hook/{HOOK_KEY}");
            return client.post(url).json(&json!({"id": event.name, "amount": amount}));
        }
        let data = json!({"event": event.name, "lane": event.lane, "amount": amount});
        let url = format!("{server}/v1/workflows/{NAMESPACE}:{}/trigger", event.flow.id);
        client.post(url).header("idempotency-key", &event.name).json(&json!({"data": data}))
    }

    async fn deliver(&self, event: &Event, amount: u32) -> Delivered {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let Ok(answer) = self.request(event, amount).send().await else { return Delivered::Doubt };
        let status = answer.status().as_u16();
        // A promise is a whole answer: half a body is no answer.
        let Ok(body) = answer.json::<Json>().await else { return Delivered::Doubt };
        match (status, body["run_id"].as_str()) {
            (200..=299, Some(run)) => {
                Delivered::Promised { run: run.to_owned(), replayed: body["idempotent_replayed"] == true }
            }
            (429 | 500..=599, _) => Delivered::Doubt,
            // Its lane waits for a verdict, which is allowed; it will come.
            (409, _) if body["code"] == "held_no_replace" => Delivered::Doubt,
            _ => Delivered::Refused { status, code: body["code"].as_str().unwrap_or_default().to_owned() },
        }
    }

    async fn until_taken(self: Arc<Self>, event: Event) -> io::Result<()> {
        let (flow, name) = (event.flow.id.to_owned(), event.name.clone());
        let mut wait_ms = 10;
        while self.may_go_on() {
            match self.deliver(&event, 5).await {
                Delivered::Promised { run, replayed } => {
                    self.note(&Note::Promised { flow, event: name, run, replayed })?;
                    self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(event);
                    return Ok(());
                }
                Delivered::Refused { status, code } => {
                    return self.note(&Note::Refused { flow, event: name, status, code });
                }
                Delivered::Doubt => {
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                    wait_ms = (wait_ms * 2).min(160);
                }
            }
        }
        self.note(&Note::GaveUp { flow, event: name })
    }

    /// The same key with another payload, until it is answered at all.
    async fn altered(&self, event: &Event) -> io::Result<()> {
        let (flow, name) = (event.flow.id.to_owned(), event.name.clone());
        while self.may_go_on() {
            let (status, run) = match self.deliver(event, 6).await {
                Delivered::Promised { run, .. } => (200, Some(run)),
                Delivered::Refused { status, .. } => (status, None),
                Delivered::Doubt => {
                    tokio::time::sleep(Duration::from_millis(40)).await;
                    continue;
                }
            };
            return self.note(&Note::Altered { flow, event: name, status, run });
        }
        Ok(())
    }

    /// At the end every tenth event comes once more, however long ago it was.
    async fn twins_of_all(self: &Arc<Self>) -> io::Result<()> {
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        for event in taken.into_iter().step_by(10) {
            self.clone().until_taken(event).await?;
        }
        Ok(())
    }
}
