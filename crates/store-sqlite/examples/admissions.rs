//! Measures durable admissions: a closed loop of callers, random keys, two labels, 5 % twins.
//!
//! `cargo run --release -p semel-store-sqlite --example admissions -- <seconds> <callers> <file> [runs to load first]`

use semel_core::admission::{KeySource, PresetName, claim_hash};
use semel_core::fingerprint::Fingerprint;
use semel_core::{Door, FlowRef, RunId, WorkspaceId};
use semel_store::*;
use semel_store_sqlite::{Options, SqliteStore};
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

fn request(number: u64) -> AdmitRequest {
    let workspace = WorkspaceId::default();
    let flow = FlowRef::new("shop.orders", "process-order");
    // One in twenty repeats an earlier key.
    let subject = if number % 20 == 19 { number / 2 } else { number };
    let key = format!("order-{:016x}", subject.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let scope = format!("flow:{flow}");
    let inputs = json!({"order": key, "customer": {"id": subject % 10_000, "tier": "gold", "name": "A. Customer"},
        "lines": [{"sku": "A-1", "quantity": 2, "price": "19.90"}, {"sku": "B-7", "quantity": 1, "price": "5.00"}], "note": "leave at the door"});
    AdmitRequest {
        flow,
        revision: 1,
        door: Door::Trigger,
        occurrence: format!("req-{number}"),
        caller: "token ci".into(),
        fingerprint: Fingerprint::of(&[&inputs]),
        key: Some(KeyClaim { hash: claim_hash(&workspace, &scope, &key), key, scope, source: KeySource::Caller }),
        policy: PresetName::Semel.preset().policy,
        lane: None,
        run: RunId::from_bytes(((0x0190_u128 << 112) | (u128::from(number) << 60)).to_be_bytes()),
        inputs,
        trigger: json!({"type": "http"}),
        labels: vec![("team".into(), format!("t{}", subject % 50)), ("region".into(), "eu".into())],
        correlation_id: None,
        parent: None,
        root: None,
        depth: 0,
        workspace,
    }
}

fn submit(store: &SqliteStore, number: u64, done: &Sender<(Instant, bool)>) {
    let (done, began) = (done.clone(), Instant::now());
    let work = Work::Admit(Box::new(request(number)));
    store.submit(
        work,
        Box::new(move |answer| {
            let created = matches!(answer.expect("the write is accepted"), Done::Admitted(result) if result.created);
            // The receiver is gone only when the measurement is over.
            let _ = done.send((began, created));
        }),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, callers, file, rest @ ..] = &arguments[..] else { panic!("<seconds> <callers> <file> [runs]") };
    let (seconds, callers): (u64, u64) = (seconds.parse().expect("seconds"), callers.parse().expect("callers"));
    let load: u64 = rest.first().map_or(0, |n| n.parse().expect("runs"));
    let store = SqliteStore::open(&PathBuf::from(file), Options { cache_mib: 256, ..Options::default() })
        .expect("the store opens");
    let (done, answers) = channel();
    let mut next = 0;
    let mut run = |until: &dyn Fn(u64) -> bool, window: u64| -> (u64, Vec<u64>) {
        let (mut finished, mut waiting, mut took, mut created) = (0, 0, Vec::new(), 0);
        loop {
            while waiting < window && !until(finished + waiting) {
                submit(&store, next, &done);
                next += 1;
                waiting += 1;
            }
            if waiting == 0 {
                return (created, took);
            }
            let (began, new) = answers.recv().expect("an answer");
            took.push(began.elapsed().as_micros() as u64);
            created += u64::from(new);
            finished += 1;
            waiting -= 1;
        }
    };
    let mut created = 0;
    if load > 0 {
        created += run(&|n| n >= load, 1_024).0;
        println!("loaded {created} runs");
    }
    let began = Instant::now();
    let (new, mut took) = run(&|_| began.elapsed() > Duration::from_secs(seconds), callers);
    let elapsed = began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
    println!(
        "{:.0} admissions/s ({} callers); ms p50 {:.1} p99 {:.1} p99.9 {:.1}",
        took.len() as f64 / elapsed,
        callers,
        at(0.5),
        at(0.99),
        at(0.999)
    );
    store.close();
    let stored = rusqlite::Connection::open(file)
        .expect("a file")
        .query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0));
    assert_eq!(stored.expect("a count") as u64, created + new, "every run that was answered is stored, and no other");
}
