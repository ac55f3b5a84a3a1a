//! `kill -9` while workers report: whoever has heard nothing says it again, and that is all anybody has to do.

use super::line::Line;
use super::*;
use crate::harness::Server;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn assert_clean(server: &Server) {
    let (exit, report) = crate::check::check(server, &server.store(), &["--full"]);
    assert_eq!((exit, crate::check::codes(&report)), (0, vec![]), "{report:#}");
}

/// The result is durable, the next task is handed out, the answer is lost, the server is dead. The worker knows nothing
/// of all this and sends its result again: it gets the task that was meant for it. Were it not so, that task would lie
/// there until its time is over, which is ten minutes here.
#[tokio::test]
async fn a_lost_answer_of_update_v2_and_a_dead_server_strand_no_task() {
    let mut server = Server::start().await;
    register(&server, of_one_task("pay", "charge")).await;
    define(&server, "charge", 600, 3).await;
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        ids.insert(started(&server.post("/api/workflow/pay", json!({})).await));
    }
    let mut task = take(&server, "charge", "w").await;
    let mut words = BTreeMap::new();
    for round in 0..ids.len() {
        let body = result(&task, "COMPLETED", json!({"paid": round}));
        words.insert(task["workflowInstanceId"].as_str().expect("an id").to_owned(), round);
        let line = Line::start(&server.url, "POST /api/tasks/update-v2", 1).await;
        let mut far = (*server).clone();
        far.url = line.url();
        let lost = far.try_send(far.request(reqwest::Method::POST, "/api/tasks/update-v2").json(&body)).await;
        assert!(lost.is_err() && line.lost_all(), "{lost:?}");
        server.restart().await;
        // The dead server's answer is asked for twice more: it is the same each time.
        let again = server.post("/api/tasks/update-v2", body.clone()).await;
        let once_more = server.post("/api/tasks/update-v2", body).await;
        assert_eq!((again.status, &again.json["taskId"]), (once_more.status, &once_more.json["taskId"]));
        let last = round + 1 == ids.len();
        assert_eq!(again.status, if last { 204 } else { 200 }, "{}", again.text);
        task = again.json;
    }
    for id in &ids {
        let ended = until(&server, id, "COMPLETED").await;
        assert_eq!(ended["output"]["paid"], words[id], "{ended:#}");
        let shown = attempts(&ended, "c");
        assert_eq!(shown.len(), 1, "no other attempt was needed: {ended:#}");
    }
    assert_clean(&server);
}

const KILLS: u32 = 30;
const RESPONSE_SECONDS: u64 = 2;
/// For a server that is being started again, and a machine that has other things to do.
const SLACK_MS: i64 = 8_000;

/// What the clients know, in whichever life of the server.
#[derive(Default)]
struct Town {
    url: Mutex<String>,
    /// For each attempt what was sent as its outcome.
    sent: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// For each task of each workflow the keys that workers were handed with it.
    keys: Mutex<BTreeMap<(String, String), BTreeSet<String>>>,
    /// Results that had to be sent again, because the server died over them.
    repeats: AtomicU32,
    closing: AtomicBool,
    closed: AtomicBool,
}

impl Town {
    fn api(&self, api: &Api) -> Api {
        let mut api = api.clone();
        api.url = self.url.lock().expect("not poisoned").clone();
        api
    }

    fn handed(&self, task: &Json) {
        let text = |name: &str| task[name].as_str().unwrap_or_else(|| panic!("no {name}: {task}")).to_owned();
        let place = (text("workflowInstanceId"), text("referenceTaskName"));
        self.keys.lock().expect("not poisoned").entry(place).or_default().insert(text("idempotencyKey"));
    }

    fn sends(&self, task: &Json, word: &str) {
        let id = task["taskId"].as_str().expect("an id").to_owned();
        self.sent.lock().expect("not poisoned").entry(id).or_default().insert(word.to_owned());
    }
}

async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Sends until there is an answer that says something. What the server says while it stops or starts says nothing.
async fn insist(town: &Town, api: &Api, path: &str, body: &Json) -> Answer {
    let mut first = true;
    loop {
        let api = town.api(api);
        match api.try_send(api.request(reqwest::Method::POST, path).json(body)).await {
            Ok(answer) if answer.status < 500 => return answer,
            _ => a_moment().await,
        }
        if std::mem::take(&mut first) && path == "/api/tasks/update-v2" {
            town.repeats.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Takes tasks and reports them; each answer brings the next one.
async fn worker(town: Arc<Town>, api: Api, kind: &'static str, number: u32) {
    let mut count = 0;
    let mut next: Option<Json> = None;
    while !town.closed.load(Ordering::SeqCst) {
        let Some(task) = next.take() else {
            let api = town.api(&api);
            let path = format!("/api/tasks/poll/batch/{kind}?workerid=w{number}&count=1&timeout=100");
            match api.try_send(api.request(reqwest::Method::GET, &path)).await {
                Ok(answer) if answer.status == 200 => {
                    next = answer.json.as_array().and_then(|all| all.first().cloned())
                }
                Ok(answer) if answer.status < 500 => panic!("{}: {}", answer.status, answer.text),
                _ => a_moment().await,
            }
            continue;
        };
        town.handed(&task);
        count += 1;
        let word = format!("w{number}-{count}");
        town.sends(&task, &word);
        let body = result(&task, "COMPLETED", json!({"paid": word}));
        let answer = insist(&town, &api, "/api/tasks/update-v2", &body).await;
        match answer.status {
            200 => next = Some(answer.json),
            204 => {}
            other => panic!("{other}: {}", answer.text),
        }
    }
}

/// Starts orders, one after the other, each until it has heard the id; returns them by their keys.
async fn shopper(town: Arc<Town>, api: Api) -> BTreeMap<String, String> {
    let mut orders = BTreeMap::new();
    while !town.closing.load(Ordering::SeqCst) {
        let key = format!("order-{}", orders.len());
        let body = json!({"name": "order", "idempotencyKey": key, "idempotencyStrategy": "RETURN_EXISTING"});
        let answer = insist(&town, &api, "/api/workflow", &body).await;
        orders.insert(key, started(&answer));
        a_moment().await;
    }
    orders
}

fn judge_task(town: &Town, order: &Json, reference: &str) {
    let all = attempts(order, reference);
    let done: Vec<&&Json> = all.iter().filter(|task| task["status"] == "COMPLETED").collect();
    assert_eq!(done.len(), 1, "one outcome: {order:#}");
    let sent = town.sent.lock().expect("not poisoned");
    let words = sent.get(done[0]["taskId"].as_str().expect("an id")).cloned().unwrap_or_default();
    let recorded = done[0]["outputData"]["paid"].as_str().unwrap_or_default();
    assert!(words.contains(recorded), "{recorded} is none of {words:?}: {order:#}");
    for attempt in all {
        let is_retried = attempt["status"] == "TIMED_OUT" && attempt["retried"] == true;
        assert!(attempt["status"] == "COMPLETED" || is_retried, "{order:#}");
        let held = attempt["endTime"].as_i64().unwrap_or(0) - attempt["startTime"].as_i64().unwrap_or(0);
        let most = RESPONSE_SECONDS as i64 * 1_000 + SLACK_MS;
        assert!((0..=most).contains(&held), "in one hand for {held} ms: {order:#}");
    }
}

#[tokio::test]
async fn thirty_kills_under_load_leave_one_outcome_for_every_task() {
    let mut server = Server::start().await;
    let task = |name: &str| json!({"name": name, "taskReferenceName": format!("{name}_ref"), "type": "SIMPLE"});
    let order = json!({"name": "order", "version": 1, "tasks": [task("charge"), task("pack"), task("charge_rest")],
        "outputParameters": {"paid": "${charge_ref.output.paid}"}});
    register(&server, order).await;
    for name in ["charge", "pack", "charge_rest"] {
        define(&server, name, RESPONSE_SECONDS, 20).await;
    }
    let (town, api) = (Arc::new(Town::default()), (*server).clone());
    *town.url.lock().expect("not poisoned") = server.url.clone();
    let mut workers = Vec::new();
    for (number, kind) in ["charge", "charge", "pack", "pack", "charge_rest", "charge_rest"].into_iter().enumerate() {
        workers.push(tokio::spawn(worker(town.clone(), api.clone(), kind, number as u32)));
    }
    let shopper = tokio::spawn(shopper(town.clone(), api.clone()));
    let mut chance = StdRng::seed_from_u64(7);
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(chance.random_range(5..=350))).await;
        server.restart().await;
        *town.url.lock().expect("not poisoned") = server.url.clone();
    }
    town.closing.store(true, Ordering::SeqCst);
    let orders = shopper.await.expect("no panic");
    let mut ended = Vec::new();
    for id in orders.values() {
        ended.push(until(&server, id, "COMPLETED").await);
    }
    town.closed.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.expect("no panic");
    }
    for order in &ended {
        for reference in ["charge_ref", "pack_ref", "charge_rest_ref"] {
            judge_task(&town, order, reference);
        }
    }
    {
        let keys = town.keys.lock().expect("not poisoned");
        assert_eq!(keys.len(), 3 * orders.len());
        assert!(keys.values().all(|of_one| of_one.len() == 1), "attempts at one task have one key");
    }
    let runs = server.runs().await;
    assert_eq!(runs.len(), orders.len(), "one run for each key");
    let repeats = town.repeats.load(Ordering::SeqCst);
    println!("{} orders over {KILLS} kills, {repeats} results sent again", orders.len());
    assert!(orders.len() >= KILLS as usize && repeats > 0, "{} orders, {repeats} repeats", orders.len());
    server.stop().await;
    assert_clean(&server);
}
