//! Looking before deciding: whoever comes at the same time looks together, in one round trip.
//!
//! Most of what arrives is new or a twin of what is finished. To find out costs a look at a key; one by one the database
//! would spend more on the transaction around it than on the look.

use crate::classify::classify;
use crate::fetch;
use crate::reads::{Pool, look};
use crate::set::Set;
use crate::shared::Shared;
use crate::wants::Wants;
use parking_lot::{Condvar, Mutex};
use semel_store::{AdmitRequest, PeekReply, Result, StoreError, script};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Keys looked up in one round trip.
const TOGETHER_MAX: usize = 512;

type Waiting = (Box<AdmitRequest>, PeekReply);

/// Those who wait to look.
#[derive(Default)]
pub struct Looks {
    waiting: Mutex<(Vec<Waiting>, bool)>,
    come: Condvar,
}

impl Looks {
    pub fn push(&self, request: Box<AdmitRequest>, reply: PeekReply) {
        let mut waiting = self.waiting.lock();
        if waiting.1 {
            drop(waiting);
            return reply(Err(StoreError::Closed));
        }
        waiting.0.push((request, reply));
        self.come.notify_one();
    }

    /// Those who still wait are answered; nobody else may come.
    pub fn close(&self) {
        self.waiting.lock().1 = true;
        self.come.notify_all();
    }

    fn take(&self) -> Option<Vec<Waiting>> {
        let mut waiting = self.waiting.lock();
        while waiting.0.is_empty() {
            if waiting.1 {
                return None;
            }
            self.come.wait(&mut waiting);
        }
        let count = waiting.0.len().min(TOGETHER_MAX);
        Some(waiting.0.drain(..count).collect())
    }
}

/// Looks for others until nobody can come any more.
pub fn run(shared: &Shared, pool: &Pool) {
    while let Some(waiting) = shared.looks.take() {
        look_together(shared, pool, waiting);
    }
}

fn look_together(shared: &Shared, pool: &Pool, mut waiting: Vec<Waiting>) {
    let mut wants = Wants::default();
    waiting.iter().for_each(|(request, _)| wants.admission(request));
    while !waiting.is_empty() {
        let set = match pool.with(shared, |session| look(session, shared, &wants)).and_then(|found| {
            let mut set = Set::read_only(shared.clock.now());
            found.into_iter().try_for_each(|(part, rows)| fetch::take_in(&mut set, part, &rows))?;
            fetch::settle(&mut set, &wants);
            Ok(set)
        }) {
            Ok(set) => set,
            Err(error) => {
                let error = classify(&error);
                if error.is_fatal() {
                    // Damage seen by a reader is damage: nothing more may be written on top of it.
                    shared.health.poison(&error);
                }
                return waiting.into_iter().for_each(|(_, reply)| send(reply, Err(error.clone())));
            }
        };
        (waiting, wants) = decide(set, waiting, wants);
    }
}

/// Answers those for whom enough was read; the others look again, at everything they need.
fn decide(mut set: Set, waiting: Vec<Waiting>, mut wants: Wants) -> (Vec<Waiting>, Wants) {
    let mut again = Vec::new();
    for (request, reply) in waiting {
        match catch_unwind(AssertUnwindSafe(|| set.apply(|tx| script::peek(tx, &request)))) {
            Ok(Some(answer)) => send(reply, answer),
            Ok(None) => again.push((request, reply)),
            Err(_) => send(reply, Err(StoreError::Bug("a rule of the store was broken (panic)".into()))),
        }
    }
    wants.merge(set.take_missing());
    (again, wants)
}

/// A reply that panics must not take the others with it.
fn send<T>(reply: Box<dyn FnOnce(Result<T>) + Send>, answer: Result<T>) {
    if catch_unwind(AssertUnwindSafe(|| reply(answer))).is_err() {
        tracing::error!("a reply panicked");
    }
}
