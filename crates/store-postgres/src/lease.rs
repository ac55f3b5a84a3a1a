//! This process's place among the others: its life, its lease, and the pulse that keeps it.
//!
//! A *life* is a row of `nodes` with a number, the epoch. It ends when the process leaves, or when its lease has lapsed
//! and another node has fenced it: then nothing it sends can be committed, and it begins another life.
//!
//! | clock | used for |
//! |---|---|
//! | the database's | when a lease ends: the only one that nodes share |
//! | this machine's, both monotonic and wall | when to stop sending effects: earlier than the lease ends, whichever clock says so |

use crate::classify::{Error, classify};
use crate::codec::{Columns, Statement, Val};
use crate::open;
use crate::reads::Pool;
use crate::session::{Call, Session};
use crate::shared::{CLOCK, Shared};
use parking_lot::Mutex;
use semel_core::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

/// How long the others wait for a node that says nothing.
pub const LEASE: Duration = Duration::from_secs(6);
/// Parts of a lease: so long before its end nothing is sent any more, so often it is renewed, so often it is looked at.
const MARGIN: u32 = 6;
const RENEWALS: u32 = 4;
const LOOKS: u32 = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub node: Uuid,
    pub epoch: i64,
}

pub struct Lease {
    length: Duration,
    life: Mutex<Life>,
    held: Mutex<Held>,
    /// A writer was told that its life is over.
    doubted: AtomicBool,
    /// The oldest of the living.
    first: AtomicBool,
    /// How many live.
    living: AtomicUsize,
}

struct Held {
    /// When the last renewal that went well was asked for.
    since: Instant,
    wall: SystemTime,
    /// Since when every renewal has gone well.
    steady: Instant,
}

impl Lease {
    /// A life that was begun by what was asked for at `since`.
    pub fn new(length: Duration, life: Life, since: Instant) -> Lease {
        let held = Held { since, wall: SystemTime::now(), steady: since };
        Lease {
            length,
            life: Mutex::new(life),
            held: Mutex::new(held),
            doubted: AtomicBool::new(false),
            first: false.into(),
            living: 1.into(),
        }
    }

    pub fn length_ms(&self) -> i64 {
        i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX)
    }

    pub fn life(&self) -> Life {
        *self.life.lock()
    }

    /// Until when effects may be sent.
    pub fn send_before(&self) -> Option<Instant> {
        let (held, allowed) = (self.held.lock(), self.length - self.length / MARGIN);
        let until = held.since + allowed;
        let by_wall = held.wall.elapsed().is_ok_and(|passed| passed < allowed);
        (Instant::now() < until && by_wall).then_some(until)
    }

    /// The database has been in reach for so long that every living node had time to say so.
    pub fn may_judge(&self) -> bool {
        let held = self.held.lock();
        held.since.elapsed() < self.length && held.steady.elapsed() > self.length
    }

    /// How many nodes there are, this one included.
    pub fn living(&self) -> usize {
        self.living.load(Ordering::Relaxed)
    }

    pub fn is_first(&self) -> bool {
        self.first.load(Ordering::Acquire)
    }

    /// Asks the pulse to look whether this life is over.
    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
    }

    fn renewed(&self, since: Instant, wall: SystemTime) {
        let mut held = self.held.lock();
        if since.duration_since(held.since) > self.length {
            held.steady = since;
        }
        (held.since, held.wall) = (since, wall);
    }

    fn broken(&self) {
        self.held.lock().steady = Instant::now();
    }

    fn begin(&self, life: Life) {
        *self.life.lock() = life;
        self.broken();
    }
}

/// What the database says to a renewal.
struct Beat {
    now: i64,
    is_alive: bool,
    first: Option<i64>,
    restored_at: Option<i64>,
    living: usize,
}

/// Renews the lease, begins another life when this one is over, and keeps the idea of the time right.
pub fn pulse(shared: &Arc<Shared>, pool: &Pool) {
    let mut renewed = Instant::now();
    let length = shared.lease.length;
    while shared.closing.sleep(length / LOOKS) {
        if renewed.elapsed() < length / RENEWALS && !shared.lease.doubted.swap(false, Ordering::AcqRel) {
            continue;
        }
        let (since, wall) = (Instant::now(), SystemTime::now());
        match pool.with(shared, |session| beat(session, shared)) {
            Ok(found) if found.is_alive => {
                take_in(shared, &found);
                shared.lease.renewed(since, wall);
                renewed = since;
            }
            Ok(found) => {
                take_in(shared, &found);
                begin_again(shared, pool);
            }
            Err(error) => {
                shared.lease.broken();
                tracing::warn!("the database does not answer: {}", classify(&error));
            }
        }
    }
}

fn take_in(shared: &Shared, found: &Beat) {
    shared.clock.was(found.now);
    shared.lease.first.store(found.first == Some(shared.lease.life().epoch), Ordering::Release);
    shared.lease.living.store(found.living.max(1), Ordering::Relaxed);
    *shared.restored_at.lock() = found.restored_at.map(Millis);
}

fn beat(session: &Session, shared: &Shared) -> Result<Beat, Error> {
    let life = shared.lease.life();
    let renew = format!(
        "UPDATE nodes SET seen_at = ({CLOCK}), lease_until = ({CLOCK}) + $2 WHERE id = $1 AND NOT fenced RETURNING 1"
    );
    let look = format!(
        "SELECT ({CLOCK}), (SELECT min(epoch) FROM nodes WHERE NOT fenced), restored_at, \
         (SELECT count(*) FROM nodes WHERE NOT fenced) FROM meta WHERE id = 1"
    );
    let calls = vec![
        Call::Text(shared.begin_write.clone()),
        Call::Typed(Statement::new(renew, vec![Val::Id(Some(life.node)), Val::int(shared.lease.length_ms())])),
        Call::Typed(Statement::new(look, vec![])),
        Call::Text("COMMIT".into()),
    ];
    let rows = session.fly(calls).rows()?;
    let Some(row) = rows[2].first() else {
        return Err(semel_store::codec::Damaged("the row of meta is not there".into()).into());
    };
    let is_alive = !rows[1].is_empty();
    let (first, restored_at) = (row.int_opt(1)?, row.int_opt(2)?);
    Ok(Beat { now: row.int(0)?, is_alive, first, restored_at, living: row.number(3)? })
}

/// What this process drove is somebody else's now; it takes part again under another number.
fn begin_again(shared: &Arc<Shared>, pool: &Pool) {
    let since = Instant::now();
    let entered = pool.with(shared, |session| {
        let who = open::Who { name: &shared.name, node: Uuid::now_v7(), writers: shared.queues.len() };
        open::enter(session, &shared.begin_write, &who, shared.lease.length_ms())
    });
    match entered {
        Ok(start) => {
            let old = shared.lease.life().epoch;
            tracing::warn!(epoch = start.life.epoch, old, "the lease of this node had lapsed; it takes part again");
            shared.lease.begin(start.life);
            shared.lease.renewed(since, SystemTime::now());
        }
        Err(error) => tracing::warn!("this node cannot take part again yet: {}", classify(&error)),
    }
}
