//! A writer: a thread with a queue and a connection. It drains its queue and carries everything out in one transaction.
//!
//! ```text
//!   read round        BEGIN · locks in order · guarded rows · clock          (none at all for a batch of new keys)
//!   scripts           over the working set; what they miss is read in a further round
//!   last flight       own row · changes · guards · COMMIT                    (one round trip)
//! ```
//!
//! | what happens | what the writer does |
//! |---|---|
//! | a script refuses | undoes that script; its neighbours stay |
//! | the database contradicts a guess, a lock is not had in time, a deadlock | rolls back, begins again with all it has learnt |
//! | a third time | the same, but one after the other with all others that have come so far |
//! | the same again and again | each work alone, so that only the culprit fails |
//! | full, away, shutting down | answers that to everybody; the next batch is the probe |
//! | the connection is lost after COMMIT was sent | finds out: see [`Writer::resolve`] |
//! | its own row is not as it left it, damage | poisons the store |

use crate::classify::{Error, LOST_PLACE, classify};
use crate::codec::{Columns, Statement, Val};
use crate::fetch::{self, Mode, Part};
use crate::flush::flush;
use crate::lease::Life;
use crate::open::{self, LOCK_MAX, NEXT_LOCK_MAX};
use crate::session::{COMMIT_BATCH, Call, Session};
use crate::set::{Care, Set};
use crate::shared::{CLOCK, Shared};
use crate::wants::{Wants, is_alone};
use crate::whole::{Own, ending};
use semel_store::queue::{Job, Queue};
use semel_store::{Done, Result, StoreError, Work, failpoint, script};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes in one transaction.
const BATCH_MAX: usize = 512;
/// How often a batch begins again before its works go one by one.
const ATTEMPTS_MAX: u32 = 8;
/// How long a single work begins again before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rounds of reading in one transaction. Each adds at least one row, so this is only reached by a slip.
const ROUNDS_MAX: u32 = 10_000;
const RESOLVE_EVERY: Duration = Duration::from_millis(250);

pub struct Writer {
    shared: Arc<Shared>,
    number: usize,
    session: Option<Session>,
    /// In which its row was made.
    life: Life,
    /// What this writer's row says.
    counter: i64,
}

/// How an attempt ended.
enum End {
    Committed(Vec<Result<Done>>),
    /// Nothing was done.
    RolledBack(Error),
    /// COMMIT was sent, and no answer came.
    Unknown(Vec<Result<Done>>, String),
}

/// What became of a transaction whose answer was lost.
enum Fate {
    Committed,
    /// It did not happen, and cannot happen any more.
    Void,
    /// Nobody can say: the store is being closed, or the database is not what it was.
    Lost(StoreError),
}

impl Writer {
    pub fn new(shared: Arc<Shared>, number: usize) -> Writer {
        let life = shared.lease.life();
        Writer { shared, number, session: None, life, counter: 0 }
    }

    fn queue(&self) -> &Queue {
        &self.shared.queues[self.number]
    }

    /// Runs until the queue is closed and empty.
    pub fn run(mut self) {
        let shared = self.shared.clone();
        while let Some(mut jobs) = self.queue().take(BATCH_MAX) {
            if shared.flights.gather(jobs.len(), shared.lease.living()) {
                jobs.extend(self.queue().take_waiting(BATCH_MAX - jobs.len()));
            }
            let patient = Queue::patient(&jobs);
            for part in parts(jobs) {
                shared.flights.fly(|| self.batch(part));
            }
            self.queue().done(patient);
        }
    }

    fn batch(&mut self, jobs: Vec<Job>) {
        let works: Vec<&Work> = jobs.iter().map(|job| &job.work).collect();
        let answers = match self.shared.health.poisoned() {
            Some(why) => Err(why),
            None => self.commit(&works),
        };
        match answers {
            Ok(answers) => {
                failpoint::committed(jobs.iter().map(|job| &job.work));
                self.shared.health.committed(jobs.len());
                jobs.into_iter().zip(answers).for_each(|(job, answer)| send(job, answer));
            }
            Err(error) => {
                let error = self.shared.health.note(error);
                jobs.into_iter().for_each(|job| send(job, Err(error.clone())));
            }
        }
    }

    /// All or nothing, but for works that failed alone. `Err` means that nothing was committed, or that nobody knows.
    fn commit(&mut self, works: &[&Work]) -> Result<Vec<Result<Done>>> {
        let (begun, mut learned) = (Instant::now(), Wants::default());
        let mut last = None;
        for attempt in 0.. {
            if attempt >= ATTEMPTS_MAX && (works.len() > 1 || begun.elapsed() > PATIENCE) {
                break;
            }
            let care = match attempt {
                0 => Care::Hopeful,
                1 => Care::Careful,
                _ => Care::Insistent,
            };
            let was_open = self.session.is_some();
            match self.attempt(works, care, &mut learned)? {
                End::Committed(answers) => return Ok(answers),
                End::Unknown(answers, why) => match self.resolve(&why) {
                    Fate::Committed => return Ok(answers),
                    Fate::Void => last = Some(Error::Lost(why)),
                    Fate::Lost(error) => return Err(error),
                },
                End::RolledBack(error) if error.is_race() => {
                    tracing::debug!(attempt, works = works.len(), "a batch begins again: {error:?}");
                    if attempt == 0 {
                        self.shared.guess.was_wrong();
                    }
                    self.shared.closing.sleep(self.pause(attempt));
                    last = Some(error);
                }
                End::RolledBack(error) if error.has_code(LOST_PLACE) => return Err(self.lost_place(&error)),
                // The connection was old, perhaps older than the server: a new one gets one chance.
                End::RolledBack(error @ Error::Lost(_)) if was_open => last = Some(error),
                End::RolledBack(error) => {
                    last = Some(error);
                    break;
                }
            }
        }
        let error = last.unwrap_or(Error::Lost("nothing was tried".into()));
        match classify(&error) {
            // One of them asks for something that cannot be: the others must not suffer for it.
            StoreError::Bug(_) if works.len() > 1 => works.iter().map(|work| self.commit_alone(work)).collect(),
            _ if works.len() > 1 && error.is_race() => works.iter().map(|work| self.commit_alone(work)).collect(),
            StoreError::Bug(text) => Ok(vec![Err(StoreError::Bug(text))]),
            other => Err(other),
        }
    }

    /// Its row is not as it was left. If another node has fenced this one, that is how it hears of it: what was asked
    /// for was not done, and may be asked for again in another life. Else the database is not what it was.
    fn lost_place(&mut self, error: &Error) -> StoreError {
        let (shared, node) = (self.shared.clone(), self.life.node);
        let fenced = self.session().and_then(|session| open::is_fenced(session, &shared.begin_read, node));
        match fenced {
            Ok(Some(true)) => {
                shared.lease.doubt();
                StoreError::Busy("the lease of this node has lapsed; it takes part again in a moment".into())
            }
            Ok(Some(false) | None) => classify(error),
            Err(error) => {
                self.session = None;
                classify(&error)
            }
        }
    }

    /// The inner answer is this work's own.
    fn commit_alone(&mut self, work: &Work) -> Result<Result<Done>> {
        let answer = self.commit(&[work])?.pop();
        Ok(answer.unwrap_or_else(|| Err(StoreError::Bug("a work was not answered".into()))))
    }

    /// Longer each time, and not the same for two who meet.
    fn pause(&self, attempt: u32) -> Duration {
        let dice = self.life.node.as_u128().rotate_left(attempt * 7) as u64 ^ self.counter.unsigned_abs();
        let step = 1 << attempt.min(6);
        Duration::from_millis(if attempt < 2 { 0 } else { dice % step })
    }

    fn session(&mut self) -> std::result::Result<&Session, Error> {
        let usable = self.session.take().filter(|session| !session.is_closed());
        let session = match usable {
            Some(session) => session,
            None => self.shared.connect()?,
        };
        Ok(self.session.insert(session))
    }

    fn attempt(&mut self, works: &[&Work], care: Care, learned: &mut Wants) -> Result<End> {
        let shared = self.shared.clone();
        let life = shared.lease.life();
        if life != self.life {
            (self.life, self.counter) = (life, 0);
        }
        let next = self.counter + 1;
        let number = self.number as i64;
        let session = match self.session() {
            Ok(session) => session,
            Err(error) => return Ok(End::RolledBack(error)),
        };
        let set = Set::new(life.epoch, shared.clock.now(), care, *shared.restored_at.lock());
        let mut transaction = Transaction { shared: &shared, session, set, care, rounds: 0 };
        let answers = match transaction.work(works, learned) {
            Ok(answers) => answers,
            Err(Trouble::Broken(error)) => {
                self.roll_back();
                return Err(error);
            }
            Err(Trouble::Said(error)) => {
                self.roll_back_after(&error);
                return Ok(End::RolledBack(error));
            }
        };
        let end = if failpoint::committing(works.iter().copied()) { "ROLLBACK" } else { COMMIT_BATCH };
        let own = Own { node: life.node, writer: number, next, now: transaction.set.now.0 };
        let restored = transaction.set.restored.as_ref().map(|row| row.restored_at);
        let end = transaction.land(own, end);
        match end {
            Ok(()) => {
                self.counter = next;
                if restored.is_some() {
                    *shared.restored_at.lock() = restored;
                }
                Ok(End::Committed(answers))
            }
            Err(Landing::RolledBack(error)) => {
                self.roll_back_after(&error);
                Ok(End::RolledBack(error))
            }
            Err(Landing::Unknown(why)) => {
                self.session = None;
                Ok(End::Unknown(answers, why))
            }
        }
    }

    /// A connection that is lost needs no word of farewell.
    fn roll_back_after(&mut self, error: &Error) {
        match error {
            Error::Lost(_) => self.session = None,
            Error::Server { .. } | Error::Damaged(_) => self.roll_back(),
        }
    }

    /// A connection on which not even this works is dropped, and what it had begun with it.
    fn roll_back(&mut self) {
        let done = self.session.as_ref().map(|session| session.fly(vec![Call::Text("ROLLBACK".into())]).rows());
        if !matches!(done, Some(Ok(_))) {
            self.session = None;
        }
    }

    /// Finds out what became of the transaction that was to raise this writer's row from `counter` to `counter + 1`.
    ///
    /// The row is locked first, which waits for a transaction that is still under way. If it has been raised, the
    /// transaction was committed. If not, it is raised past it: the transaction, wherever it is still on its way, then
    /// finds a row that it does not expect, and fails. Only after that may its works be tried again.
    fn resolve(&mut self, why: &str) -> Fate {
        tracing::warn!("the answer to a commit was lost ({why}); looking for it");
        loop {
            match self.look_up() {
                Ok(fate) => return fate,
                Err(error) => {
                    self.session = None;
                    let error = self.shared.health.note(classify(&error));
                    if error.is_fatal() {
                        return Fate::Lost(error);
                    }
                    // Those who wait behind have not begun, and need not wait.
                    let waiting = self.queue().take_waiting(BATCH_MAX);
                    let patient = Queue::patient(&waiting);
                    waiting.into_iter().for_each(|job| send(job, Err(error.clone())));
                    self.queue().done(patient);
                }
            }
            if !self.shared.closing.sleep(RESOLVE_EVERY) {
                let text = "the store was closed before the fate of a commit was known";
                return Fate::Lost(StoreError::Poisoned(text.into()));
            }
        }
    }

    fn look_up(&mut self) -> std::result::Result<Fate, Error> {
        let (shared, number, sent) = (self.shared.clone(), self.number as i64, self.counter + 1);
        let node = self.life.node;
        let session = self.session()?;
        let key = || vec![Val::Id(Some(node)), Val::int(number)];
        let ask = "SELECT counter FROM batches WHERE node = $1 AND writer = $2 FOR UPDATE";
        let rows = session
            .fly(vec![Call::Text(shared.begin_write.clone()), Call::Typed(Statement::new(ask, key()))])
            .rows()?
            .pop()
            .unwrap_or_default();
        let found = rows.first().map(|row| row.int(0)).transpose()?.unwrap_or(-1);
        let fate = if found == sent {
            Fate::Committed
        } else if found >= sent - 1 {
            Fate::Void
        } else {
            let text =
                format!("the database is behind what it has acknowledged: it says {found}, it had said {}", sent - 1);
            return Ok(Fate::Lost(self.shared.health.poison(&StoreError::Poisoned(text))));
        };
        let mut calls = vec![];
        let after = if matches!(fate, Fate::Void) { sent + 1 } else { sent };
        if found != after {
            let mut values = key();
            values.push(Val::int(after));
            let sql = "UPDATE batches SET counter = $3 WHERE node = $1 AND writer = $2";
            calls.push(Call::Typed(Statement::new(sql, values)));
        }
        calls.push(Call::Text("COMMIT".into()));
        session.fly(calls).rows()?;
        self.counter = after;
        Ok(fate)
    }
}

/// Works that ask about whole tables are done alone.
fn parts(jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let mut parts: Vec<Vec<Job>> = Vec::new();
    let mut open = false;
    for job in jobs {
        let alone = is_alone(&job.work);
        match parts.last_mut().filter(|_| open && !alone) {
            Some(part) => part.push(job),
            None => parts.push(vec![job]),
        }
        open = !alone;
    }
    parts
}

/// A reply that panics must not take the writer with it.
fn send(job: Job, answer: Result<Done>) {
    if catch_unwind(AssertUnwindSafe(|| (job.reply)(answer))).is_err() {
        tracing::error!("a reply panicked; the write itself was answered");
    }
}

/// What ends a transaction before its last flight.
enum Trouble {
    /// The database said so, or is away.
    Said(Error),
    /// This process cannot be trusted.
    Broken(StoreError),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Said(error)
    }
}

enum Landing {
    RolledBack(Error),
    Unknown(String),
}

struct Transaction<'a> {
    shared: &'a Shared,
    session: &'a Session,
    set: Set,
    care: Care,
    rounds: u32,
}

impl Transaction<'_> {
    /// Runs the scripts until none of them misses anything.
    fn work(&mut self, works: &[&Work], learned: &mut Wants) -> std::result::Result<Vec<Result<Done>>, Trouble> {
        let mut wants = learned.clone();
        works.iter().for_each(|work| wants.of(work));
        if self.care == Care::Hopeful && wants.is_empty_but_for_keys() {
            wants.claims.into_iter().for_each(|key| self.set.claims.assume_absent(key));
        } else {
            self.read(wants, learned)?;
        }
        let mut answers = Vec::with_capacity(works.len());
        while !self.pass(works, &mut answers)? {
            let missing = self.set.take_missing();
            self.read(missing, learned)?;
        }
        Ok(answers)
    }

    /// Runs what is not answered yet. After a miss the others run too, only to learn what they will miss.
    fn pass(&mut self, works: &[&Work], answers: &mut Vec<Result<Done>>) -> std::result::Result<bool, Trouble> {
        let mut missed_at = None;
        for work in &works[answers.len()..] {
            let mark = self.set.mark();
            let set = &mut self.set;
            let done = catch_unwind(AssertUnwindSafe(|| set.apply(|tx| script::apply(tx, work))));
            let broken = |_| Trouble::Broken(StoreError::Poisoned("a rule of the store was broken (panic)".into()));
            match done {
                Ok(Some(answer)) if missed_at.is_none() => answers.push(answer),
                Ok(Some(_)) => {}
                Ok(None) => missed_at = missed_at.or(Some(mark)),
                // What runs after a miss runs on half of the truth.
                Err(_) if missed_at.is_some() => self.set.undo_to(mark),
                Err(panic) => return Err(broken(panic)),
            }
        }
        if let Some(mark) = missed_at {
            self.set.undo_to(mark);
        }
        Ok(missed_at.is_none())
    }

    fn read(&mut self, wants: Wants, learned: &mut Wants) -> std::result::Result<(), Trouble> {
        if self.rounds > ROUNDS_MAX {
            return Err(Trouble::Broken(StoreError::Bug("a script never has enough".into())));
        }
        fetch::prepare(&mut self.set, &wants);
        let statements = fetch::round(&self.set, &wants, Mode::Lock(self.care));
        let mut calls = self.preface(Call::Begin);
        let before = calls.len();
        let parts: Vec<Part> = statements.iter().map(|(part, _)| *part).collect();
        calls.extend(statements.into_iter().map(|(_, statement)| Call::Typed(statement)));
        if self.rounds == 0 {
            // After the locks: whoever had them before has an earlier time.
            calls.push(Call::Typed(Statement::new(CLOCK, vec![])));
        }
        let flown = self.session.fly(calls).rows()?;
        let mut rows = flown.into_iter().skip(before);
        for part in parts {
            fetch::take_in(&mut self.set, part, &rows.next().unwrap_or_default())?;
        }
        if let Some(row) = rows.next().as_ref().and_then(|rows| rows.first()) {
            self.set.now = self.shared.clock.was(row.int(0)?);
        }
        fetch::settle(&mut self.set, &wants);
        learned.merge(wants);
        self.rounds += 1;
        Ok(())
    }

    /// BEGIN, once. Whoever has locks already waits only briefly for more: two who wait for each other find out sooner
    /// than the database would tell them, and the one who gives up takes all its locks in order the next time.
    fn preface(&self, begin: fn(String) -> Call) -> Vec<Call> {
        match (self.rounds, self.care) {
            (0, Care::Hopeful | Care::Careful) => vec![begin(self.shared.begin_write.clone())],
            // Those who have lost twice go one after the other, and meet only those who have not.
            (0, Care::Insistent) => {
                let (write, turn) = (&self.shared.begin_write, &self.shared.turn);
                vec![begin(format!("{write}; {turn}"))]
            }
            (1, Care::Hopeful | Care::Careful) => {
                vec![Call::Text(format!("SET LOCAL lock_timeout = '{NEXT_LOCK_MAX}'"))]
            }
            (_, _) => vec![],
        }
    }

    fn land(self, own: Own, end: &str) -> std::result::Result<(), Landing> {
        let ending = ending(&own, flush(&self.set));
        let mut calls = match (self.rounds, self.care) {
            // One call of a function has its plans anyway: a mark would only cost it.
            (0, _) if ending.len() == 1 => self.preface(Call::Text),
            (0, _) => self.preface(Call::Begin),
            (1, _) | (_, Care::Insistent) => vec![],
            (_, Care::Hopeful | Care::Careful) => vec![Call::Text(format!("SET LOCAL lock_timeout = '{LOCK_MAX}'"))],
        };
        calls.extend(ending.into_iter().map(Call::Typed));
        calls.push(Call::Text(end.to_owned()));
        let flown = self.session.fly(calls);
        let all_sent = flown.all_sent;
        let mut lost = None;
        for result in flown.results {
            match result {
                Ok(_) => {}
                // The first thing that went wrong; what follows only says that the transaction is over.
                Err(error @ (Error::Server { .. } | Error::Damaged(_))) => return Err(Landing::RolledBack(error)),
                Err(Error::Lost(text)) => lost = lost.or(Some(text)),
            }
        }
        match lost {
            None if all_sent => Ok(()),
            None => Err(Landing::RolledBack(Error::Lost("not all of it was sent".into()))),
            Some(text) if all_sent => Err(Landing::Unknown(text)),
            Some(text) => Err(Landing::RolledBack(Error::Lost(text))),
        }
    }
}
