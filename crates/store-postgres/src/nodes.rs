//! Other nodes: taking over what they leave, and hearing from them.

use crate::PostgresStore;
use crate::classify::Error;
use crate::codec::{Columns, Statement, Val};
use crate::open;
use crate::session::{Call, Session};
use crate::shared::{CLOCK, Shared};
use parking_lot::Mutex;
use semel_core::{Hash16, RunId, WorkspaceId};
use semel_store::{Cluster, Ear, NodeRow, NodeState, Note, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// Whoever is in the way of a fence is looked at again later.
const FENCE_LOCK_MAX: &str = "200ms";
/// Notes in one message to the server.
const NOTES_MAX: usize = 100;
/// A message that a node has not looked at for this many rounds is told again, and then seldom.
const MAIL_FIRST: u32 = 2;
const MAIL_AGAIN: u32 = 60;
const MAIL_ROWS_MAX: i64 = 4_096;
/// Nodes that are gone and own nothing are shown for this long.
const SHOWN_MS: i64 = 3_600_000;

/// A note on its way, with the epoch of who sends it.
#[derive(Serialize, Deserialize)]
struct Letter {
    from: i64,
    #[serde(flatten)]
    note: Note,
}

/// Where notes go out and come in.
pub struct Post {
    out: Mutex<Option<Sender<Note>>>,
    ear: Arc<Mutex<Option<Ear>>>,
    /// Messages that were there at the last look, and how often they were.
    seen: Mutex<BTreeMap<i64, u32>>,
}

impl Post {
    pub fn new() -> (Post, Receiver<Note>) {
        let (sender, receiver) = channel();
        (Post { out: Mutex::new(Some(sender)), ear: Arc::default(), seen: Mutex::default() }, receiver)
    }

    /// No more notes are taken; those that wait are sent.
    pub fn close(&self) {
        self.out.lock().take();
    }
}

/// The name under which the nodes of a schema hear each other.
pub fn channel_of(schema: &str) -> String {
    format!("semel_{}", Hash16::of(&[schema.as_bytes()]).hex())
}

/// Sends notes until nobody can write any more.
pub fn speak(shared: &Shared, notes: &Receiver<Note>) {
    let mut session: Option<Session> = None;
    while let Ok(first) = notes.recv() {
        let mut all = vec![first];
        while let Some(note) = (all.len() < NOTES_MAX).then(|| notes.try_recv().ok()).flatten() {
            if !all.contains(&note) {
                all.push(note);
            }
        }
        let usable = session.take().filter(|session| !session.is_closed());
        let Some(open) = usable.or_else(|| shared.connect().ok()) else { continue };
        // What is lost is found by looking.
        if open.fly(vec![Call::Typed(letters(shared, all))]).rows().is_ok() {
            session = Some(open);
        }
    }
}

fn letters(shared: &Shared, notes: Vec<Note>) -> Statement {
    let from = shared.lease.life().epoch;
    let texts: Vec<String> =
        notes.into_iter().filter_map(|note| serde_json::to_string(&Letter { from, note }).ok()).collect();
    let array = serde_json::to_string(&texts).unwrap_or_else(|_| "[]".into());
    let sql = "SELECT pg_notify($1, n)::text FROM json_array_elements_text($2::json) AS n";
    Statement::new(sql, vec![Val::own(shared.channel.clone()), Val::own(array)])
}

/// Hands what others say to whoever listens.
pub fn hear(shared: &Arc<Shared>) {
    let (ear, own) = (shared.post.ear.clone(), Arc::downgrade(shared));
    let take = move |text: String| {
        let Some(shared) = own.upgrade() else { return };
        let Ok(letter) = serde_json::from_str::<Letter>(&text) else { return };
        if letter.from != shared.lease.life().epoch
            && let Some(ear) = ear.lock().as_ref()
        {
            ear(letter.note);
        }
    };
    shared.sockets.listen(&shared.address, &shared.channel, Arc::new(take));
}

impl PostgresStore {
    fn own_epoch(&self) -> i64 {
        self.shared.lease.life().epoch
    }

    /// Makes sure that nodes whose lease has lapsed cannot write any more.
    fn fence(&self) -> std::result::Result<(), Error> {
        let gone = format!(
            "WITH gone AS (SELECT id FROM nodes WHERE NOT fenced AND epoch <> $1 AND lease_until < ({CLOCK}) \
             ORDER BY epoch FOR UPDATE SKIP LOCKED), \
             marked AS (UPDATE nodes SET fenced = true FROM gone WHERE nodes.id = gone.id RETURNING nodes.id) \
             UPDATE batches SET fenced = true FROM marked WHERE batches.node = marked.id RETURNING 1"
        );
        let own = self.own_epoch();
        self.pool.with(&self.shared, |session| {
            let mut calls = self.write_briefly();
            calls.push(Call::Typed(Statement::new(gone.clone(), vec![Val::int(own)])));
            calls.push(Call::Text("COMMIT".into()));
            session.fly(calls).rows().map(|_| ())
        })
    }

    fn write_briefly(&self) -> Vec<Call> {
        let begin = &self.shared.begin_write;
        vec![Call::Text(format!("{begin}; SET LOCAL lock_timeout = '{FENCE_LOCK_MAX}'"))]
    }

    fn take_over(&self, limit: u32) -> std::result::Result<Vec<(WorkspaceId, RunId)>, Error> {
        let take = "UPDATE runs r SET owner = $1, epoch = r.epoch + 1 FROM (SELECT t.ws, t.id FROM runs t WHERE t.owner IN \
                    (SELECT epoch FROM nodes WHERE fenced AND NOT emptied) ORDER BY t.id LIMIT $2 FOR UPDATE OF t SKIP LOCKED) k \
                    WHERE r.ws = k.ws AND r.id = k.id AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $1 AND NOT fenced) \
                    RETURNING r.ws, r.id";
        let emptied = "UPDATE nodes n SET emptied = true WHERE n.fenced AND NOT n.emptied \
                       AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.owner = n.epoch)";
        let own = self.own_epoch();
        self.pool.with(&self.shared, |session| {
            let mut calls = self.write_briefly();
            calls.push(Call::Typed(Statement::new(take, vec![Val::int(own), Val::int(limit)])));
            calls.push(Call::Typed(Statement::new(emptied, vec![])));
            calls.push(Call::Text("COMMIT".into()));
            let rows = session.fly(calls).rows()?;
            rows[1].iter().map(|row| Ok((row.ws(0)?, row.run(1)?))).collect()
        })
    }
}

impl Cluster for PostgresStore {
    fn epoch(&self) -> u64 {
        self.own_epoch().unsigned_abs()
    }

    fn send_before(&self) -> Option<Instant> {
        self.shared.lease.send_before()
    }

    fn adopt(&self, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        if self.shared.lease.may_judge()
            && let Err(error) = self.fence()
            && !error.is_race()
        {
            return self.checked(Err(error));
        }
        match self.take_over(limit) {
            Err(error) if error.is_race() => Ok(vec![]),
            taken => self.checked(taken),
        }
    }

    fn mail(&self, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        let sql = "SELECT i.seq, i.ws, i.run FROM runs r JOIN inbox i ON i.ws = r.ws AND i.run = r.id WHERE r.owner = $1 \
                   ORDER BY i.seq LIMIT $2";
        let own = self.own_epoch();
        let values = || vec![Val::int(own), Val::int(MAIL_ROWS_MAX)];
        let found = self.all(sql, values, |row| Ok((row.int(0)?, (row.ws(1)?, row.run(2)?))))?;
        let mut seen = self.shared.post.seen.lock();
        let (before, mut due) = (std::mem::take(&mut *seen), Vec::new());
        for (seq, at) in found {
            let times = before.get(&seq).map_or(1, |times| times + 1);
            seen.insert(seq, times);
            if (times == MAIL_FIRST || times % MAIL_AGAIN == 0) && due.len() < limit as usize && !due.contains(&at) {
                due.push(at);
            }
        }
        Ok(due)
    }

    fn answer(&self, ticket: Hash16) -> Result<Option<std::result::Result<(), String>>> {
        let sql = "SELECT refused FROM answers WHERE ticket = $1";
        let found = self.one(sql, || vec![Val::hash(ticket)], |row| row.text_opt(0))?;
        Ok(found.map(|refused| refused.map_or(Ok(()), Err)))
    }

    fn nodes(&self) -> Result<Vec<NodeRow>> {
        let sql = format!(
            "SELECT n.epoch, n.name, n.version, n.started_at, n.seen_at, n.lease_until, n.fenced, n.has_left, \
             (SELECT count(*) FROM runs r WHERE r.owner = n.epoch), n.lease_until >= ({CLOCK}) FROM nodes n \
             WHERE n.epoch > 0 AND (NOT n.fenced OR NOT n.emptied OR n.seen_at > ({CLOCK}) - $1) ORDER BY n.epoch DESC LIMIT 1000"
        );
        let own = self.own_epoch();
        self.all(
            &sql,
            || vec![Val::int(SHOWN_MS)],
            |row| {
                let epoch = row.int(0)?;
                let state = match (row.yes(6)?, row.yes(7)?, row.yes(9)?) {
                    (true, true, _) => NodeState::Left,
                    (false, _, true) => NodeState::Alive,
                    (_, _, _) => NodeState::Lapsed,
                };
                Ok(NodeRow {
                    epoch: epoch.unsigned_abs(),
                    name: row.text(1)?,
                    version: row.text(2)?,
                    state,
                    started_at: row.millis(3)?,
                    seen_at: row.millis(4)?,
                    lease_until: Some(row.millis(5)?),
                    runs_owned: row.number(8)?,
                    is_self: epoch == own,
                })
            },
        )
    }

    fn is_first(&self) -> bool {
        self.shared.lease.is_first()
    }

    fn is_alone(&self) -> bool {
        self.shared.lease.living() <= 1
    }

    fn tell(&self, note: Note) {
        if let Some(out) = self.shared.post.out.lock().as_ref() {
            // The thread that sends is gone only when the store is being closed.
            let _ = out.send(note);
        }
    }

    fn listen(&self, ear: Ear) {
        *self.shared.post.ear.lock() = Some(ear);
    }
}

/// Says that this node has gone, so that nobody waits for its lease.
pub fn leave(session: &Session, shared: &Shared) -> std::result::Result<(), Error> {
    open::leave(session, &shared.begin_write, shared.lease.life().node)?;
    session.fly(vec![Call::Typed(letters(shared, vec![Note::Left]))]).rows().map(|_| ())
}
