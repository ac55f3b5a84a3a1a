//! Workers that die, that answer late, twice, or more than one thing: every task has one outcome, and no task is lost.

use super::*;
use crate::harness::{Server, clock_reaches};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server with one workflow, whose task a silent worker loses after `seconds`.
async fn shop(seconds: u64) -> Server {
    let server = Server::start().await;
    register(&server, of_one_task("pay", "charge")).await;
    define(&server, "charge", seconds, 5).await;
    server
}

async fn start(server: &Server) -> String {
    started(&server.post("/api/workflow/pay", json!({"amount": 5})).await)
}

async fn send(server: &Server, body: Json) -> Answer {
    server.post("/api/tasks", body).await
}

fn statuses(workflow: &Json, reference: &str) -> Vec<(String, bool)> {
    let shown = attempts(workflow, reference);
    shown.iter().map(|task| (task["status"].as_str().expect("a status").to_owned(), task["retried"] == true)).collect()
}

#[tokio::test]
async fn a_task_whose_worker_dies_is_handed_out_again_with_the_same_key() {
    let server = shop(1).await;
    let id = start(&server).await;
    let first = take(&server, "charge", "dies").await;
    let began = Instant::now();
    assert_eq!((&first["retryCount"], &first["responseTimeoutSeconds"]), (&json!(0), &json!(1)));
    let second = take(&server, "charge", "lives").await;
    assert!(began.elapsed() >= Duration::from_millis(900), "not before its time: {:?}", began.elapsed());
    assert_ne!(first["taskId"], second["taskId"]);
    assert_eq!((&second["retryCount"], &second["referenceTaskName"]), (&json!(1), &json!("c")));
    assert_eq!(first["idempotencyKey"], second["idempotencyKey"]);
    assert!(second["idempotencyKey"].as_str().is_some_and(|key| !key.is_empty()));
    assert_eq!(second["inputData"], json!({"amount": 5}));
    // What the dead says comes too late; it is told so by nothing happening.
    let late = send(&server, result(&first, "COMPLETED", json!({"paid": "late"}))).await;
    assert_eq!((late.status, late.text.as_str()), (200, first["taskId"].as_str().expect("an id")));
    assert_eq!(workflow(&server, &id).await["status"], "RUNNING");
    send(&server, result(&second, "COMPLETED", json!({"paid": "in time"}))).await;
    let ended = until(&server, &id, "COMPLETED").await;
    assert_eq!(ended["output"], json!({"paid": "in time"}));
    assert_eq!(statuses(&ended, "c"), [("TIMED_OUT".to_owned(), true), ("COMPLETED".to_owned(), false)]);
    assert_eq!(attempts(&ended, "c")[1]["retriedTaskId"], first["taskId"]);
    // Nor do any of the repeats change what is recorded, at either address.
    for task in [&first, &second] {
        for status in ["COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "IN_PROGRESS"] {
            let body = result(task, status, json!({"paid": "again"}));
            assert_eq!(send(&server, body.clone()).await.status, 200);
            assert_eq!(server.post("/api/tasks/update-v2", body).await.status, 204);
        }
    }
    assert_eq!(workflow(&server, &id).await, ended);
}

#[tokio::test]
async fn a_result_after_the_timeout_and_before_the_next_attempt_is_taken_changes_nothing() {
    let server = shop(1).await;
    let id = start(&server).await;
    let first = take(&server, "charge", "slow").await;
    eventually(PATIENCE, "the second attempt waits", || async {
        (attempts(&workflow(&server, &id).await, "c").len() == 2).then_some(())
    })
    .await;
    for status in ["COMPLETED", "FAILED_WITH_TERMINAL_ERROR"] {
        assert_eq!(send(&server, result(&first, status, json!({"paid": "late"}))).await.status, 200);
    }
    let waiting = workflow(&server, &id).await;
    assert_eq!((&waiting["status"], statuses(&waiting, "c")[1].0.as_str()), (&json!("RUNNING"), "SCHEDULED"));
    let second = take(&server, "charge", "other").await;
    send(&server, result(&second, "COMPLETED", json!({"paid": "in time"}))).await;
    assert_eq!(until(&server, &id, "COMPLETED").await["output"], json!({"paid": "in time"}));
}

#[tokio::test]
async fn a_worker_that_says_it_lives_keeps_its_task() {
    let server = shop(1).await;
    let id = start(&server).await;
    let task = take(&server, "charge", "slow").await;
    let began = Instant::now();
    for beat in 1..=8 {
        clock_reaches(began, Duration::from_millis(300 * beat)).await;
        let mut alive = result(&task, "IN_PROGRESS", json!({}));
        alive["extendLease"] = json!(true);
        assert_eq!(send(&server, alive).await.status, 200);
        let nothing = server.get("/api/tasks/poll/charge?workerid=other").await;
        assert_eq!(nothing.status, 204, "{}", nothing.text);
    }
    send(&server, result(&task, "COMPLETED", json!({"paid": true}))).await;
    let ended = until(&server, &id, "COMPLETED").await;
    assert_eq!(statuses(&ended, "c"), [("COMPLETED".to_owned(), false)]);
}

#[tokio::test]
async fn a_task_that_is_put_back_comes_again_later_as_the_same_attempt() {
    let server = shop(60).await;
    let id = start(&server).await;
    let task = take(&server, "charge", "one").await;
    let began = Instant::now();
    let mut later = result(&task, "IN_PROGRESS", json!({"page": 1}));
    later["callbackAfterSeconds"] = json!(1);
    assert_eq!(send(&server, later).await.status, 200);
    let again = take(&server, "charge", "two").await;
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!((&again["taskId"], &again["outputData"]), (&task["taskId"], &json!({"page": 1})));
    assert_eq!(again["pollCount"], 2);
    send(&server, result(&again, "COMPLETED", json!({"paid": true}))).await;
    assert_eq!(statuses(&until(&server, &id, "COMPLETED").await, "c").len(), 1);
}

/// What the workers of a test have done: for each attempt the words that were sent, the first one first.
#[derive(Default)]
struct Book(Mutex<BTreeMap<String, Vec<String>>>);

impl Book {
    /// The attempt is in somebody's hands; nobody else may ever get it.
    fn handed(&self, task: &Json) {
        let id = task["taskId"].as_str().expect("an id").to_owned();
        assert!(self.0.lock().expect("not poisoned").insert(id, Vec::new()).is_none(), "handed out twice: {task}");
    }

    fn sends(&self, task: &Json, word: &str) {
        let id = task["taskId"].as_str().expect("an id");
        self.0.lock().expect("not poisoned").get_mut(id).expect("handed out").push(word.to_owned());
    }
}

/// Does its work badly until there is none.
async fn bad_worker(api: Api, number: u64, book: Arc<Book>, over: Arc<std::sync::atomic::AtomicBool>) {
    let (mut chance, worker) = (StdRng::seed_from_u64(number), format!("w{number}"));
    let mut late = Vec::new();
    while !over.load(std::sync::atomic::Ordering::SeqCst) {
        let path = format!("/api/tasks/poll/batch/charge?workerid={worker}&count=2&timeout=100");
        for task in api.get(&path).await.ok().as_array().cloned().unwrap_or_default() {
            book.handed(&task);
            let word = |chance: &mut StdRng| format!("{worker}-{}", chance.random_range(0..u64::MAX));
            let how = chance.random_range(0..100);
            let times = if how < 40 { 3 } else { 1 };
            let words: Vec<String> = (0..times).map(|_| word(&mut chance)).collect();
            match how {
                // Gone without a word.
                0..10 => {}
                // Too late: the next attempt is under way.
                10..25 => {
                    let (api, task, book, words) = (api.clone(), task.clone(), book.clone(), words.clone());
                    late.push(tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(1_400)).await;
                        tell(&api, &book, &task, &words).await;
                    }));
                }
                _ => tell(&api, &book, &task, &words).await,
            }
        }
    }
    for one in late {
        one.await.expect("no panic");
    }
}

/// Sends each word as the outcome of the task: the first at one address, the rest at both.
async fn tell(api: &Api, book: &Book, task: &Json, words: &[String]) {
    for (place, word) in words.iter().enumerate() {
        book.sends(task, word);
        let body = result(task, if place == 1 { "FAILED" } else { "COMPLETED" }, json!({"paid": word}));
        assert_eq!(api.post("/api/tasks", body).await.status, 200);
    }
}

#[tokio::test]
async fn a_crowd_of_bad_workers_leaves_one_outcome_for_every_task() {
    let server = shop(1).await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(start(&server).await);
    }
    let (book, over) = (Arc::new(Book::default()), Arc::default());
    let crowd: Vec<_> = (1..=6)
        .map(|number| tokio::spawn(bad_worker((*server).clone(), number, book.clone(), Arc::clone(&over))))
        .collect();
    let mut ended = Vec::new();
    for id in &ids {
        ended.push(until(&server, id, "COMPLETED").await);
    }
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    for worker in crowd {
        worker.await.expect("no panic");
    }
    let book = book.0.lock().expect("not poisoned").clone();
    let (mut retried, mut shown) = (0, 0);
    for before in &ended {
        let now = workflow(&server, before["workflowId"].as_str().expect("an id")).await;
        assert_eq!(&now, before, "what came later changed nothing");
        let all = attempts(&now, "c");
        let (last, earlier) = all.split_last().expect("an attempt");
        assert_eq!(last["status"], "COMPLETED");
        // The first word that was sent for the attempt is the one that counts.
        assert_eq!(
            book[last["taskId"].as_str().expect("an id")].first().map(String::as_str),
            last["outputData"]["paid"].as_str()
        );
        assert_eq!(now["output"]["paid"], last["outputData"]["paid"]);
        for attempt in earlier {
            assert_eq!((&attempt["status"], &attempt["retried"]), (&json!("TIMED_OUT"), &json!(true)), "{now:#}");
            assert_eq!(attempt["idempotencyKey"], last["idempotencyKey"]);
        }
        retried += earlier.len();
        shown += all.len();
    }
    assert_eq!(book.len(), shown, "every attempt that was handed out is shown, and no other");
    assert!(retried > 0, "nobody died");
    let (exit, report) = crate::check::check(&server, &server.store(), &[]);
    assert_eq!((exit, crate::check::codes(&report)), (0, vec![]), "{report:#}");
}
