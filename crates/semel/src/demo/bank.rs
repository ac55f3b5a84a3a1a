//! The fake bank: one endpoint that takes money, and remembers the keys it has seen.
//!
//! It commits a charge first and answers afterwards, like any bank. Before the answer to its very first charge
//! it rings a bell and waits: that is the moment in which the demo kills the server.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// What the bank's books say.
#[derive(Debug, Default)]
struct Books {
    calls: u32,
    /// One charge per key; a known key is answered with the charge it made.
    charges: BTreeMap<String, String>,
    bell: Option<oneshot::Sender<()>>,
}

#[derive(Clone)]
struct Counter {
    books: Arc<Mutex<Books>>,
    may_answer: watch::Receiver<bool>,
}

pub struct Bank {
    pub address: SocketAddr,
    books: Arc<Mutex<Books>>,
    may_answer: watch::Sender<bool>,
    first_charge: oneshot::Receiver<()>,
    server: tokio::task::JoinHandle<()>,
}

impl Bank {
    pub async fn open() -> std::io::Result<Bank> {
        let (bell, first_charge) = oneshot::channel();
        let (may_answer, waiting) = watch::channel(false);
        let books = Arc::new(Mutex::new(Books { bell: Some(bell), ..Books::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/charges", post(charge))
            .with_state(Counter { books: books.clone(), may_answer: waiting });
        let server = tokio::spawn(async move {
            // It serves until the demo ends; an accept error shows as a failed charge.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Bank { address, books, may_answer, first_charge, server })
    }

    /// Returns when the first charge is in the books and its answer has not been sent. Returns once.
    pub async fn first_charge(&mut self) {
        // Awaited in place: a caller that waits for several things at once drops this future and comes back.
        // The sender lives in the books, so it rings or the demo is over.
        let _ = (&mut self.first_charge).await;
    }

    /// From now on the bank answers. The one who waited for the first answer may be gone.
    pub fn go_on(&self) {
        self.may_answer.send_replace(true);
    }

    pub fn calls(&self) -> u32 {
        lock(&self.books).calls
    }

    pub fn charges(&self) -> u32 {
        lock(&self.books).charges.len() as u32
    }

    pub fn keys(&self) -> Vec<String> {
        lock(&self.books).charges.keys().cloned().collect()
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn charge(State(counter): State<Counter>, headers: HeaderMap, body: String) -> (StatusCode, Json<Value>) {
    let Some(key) = headers.get("idempotency-key").and_then(|value| value.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "no Idempotency-Key" })));
    };
    let (charge, known, bell) = commit(&mut lock(&counter.books), key);
    if let Some(bell) = bell {
        // Nobody listens when the demo is over.
        let _ = bell.send(());
    }
    let mut may_answer = counter.may_answer;
    // An error means that the demo is over, and then nobody waits for the answer either.
    let _ = may_answer.wait_for(|yes| *yes).await;
    let order: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    (StatusCode::OK, Json(json!({ "charge": charge, "amount": order["amount"], "already_charged": known })))
}

fn commit(books: &mut Books, key: &str) -> (String, bool, Option<oneshot::Sender<()>>) {
    books.calls += 1;
    let known = books.charges.get(key).cloned();
    let next = format!("ch_{}", books.charges.len() + 1);
    let charge = books.charges.entry(key.to_owned()).or_insert(next).clone();
    (charge, known.is_some(), books.bell.take())
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_key_is_not_charged_again() {
        let mut books = Books::default();
        assert_eq!(commit(&mut books, "a").0, "ch_1");
        let (charge, known, _) = commit(&mut books, "a");
        assert_eq!((charge.as_str(), known), ("ch_1", true));
        assert_eq!(commit(&mut books, "b").0, "ch_2");
        assert_eq!((books.calls, books.charges.len()), (3, 2));
    }
}
