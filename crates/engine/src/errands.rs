//! Errands at the doors: taking them, keeping them, answering them.
//!
//! | and if the process dies … | then |
//! |---|---|
//! | after an errand was taken and before whoever asked has heard of it | nobody gives a sign of life, and the next attempt is set out when its time is over; asked once more in the same breath, the same one is handed out |
//! | after an answer is durable and before whoever gave it has heard | the repeat finds that the attempt has ended, and changes nothing |

use crate::api::{Control, ControlError, ErrandAnswer};
use crate::handle::Engine;
use crate::scope::Services;
use parking_lot::Mutex;
use semel_core::run::{By, StepKey};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_expr::{Part, Value};
use semel_store::{Done, ErrandQueue, ErrandRow, ErrandWord, LogLine, POLLED, StoreError, TakeErrands, TakeRate, Work};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;

/// Errands that may be told of as late in one go.
const LATE_MAX: u32 = 200;
/// Another node may set an errand out, or one may become free by itself: nobody relies on the bell alone.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Rung when errands are set out; one for each queue that somebody waits at.
#[derive(Default)]
pub struct Bells(Mutex<BTreeMap<(WorkspaceId, String), Arc<Notify>>>);

impl Bells {
    pub fn ring(&self, workspace: &WorkspaceId, queue: &str) {
        let bells = self.0.lock();
        if let Some(bell) = bells.get(&(workspace.clone(), queue.to_owned())) {
            bell.notify_waiters();
        }
    }

    fn at(&self, workspace: &WorkspaceId, queue: &str) -> Arc<Notify> {
        let mut bells = self.0.lock();
        // Those that nobody waits at any more.
        bells.retain(|_, bell| Arc::strong_count(bell) > 1);
        bells.entry((workspace.clone(), queue.to_owned())).or_default().clone()
    }
}

/// Who asked for errands of a queue last, at this node.
#[derive(Clone, Debug)]
pub struct Polled {
    pub from: ErrandQueue,
    pub worker: String,
    pub at: Millis,
}

/// Queues that are remembered as asked for; more are not.
const POLLED_MAX: usize = 10_000;

/// How long ago somebody may have asked for the tasks of a domain that is still tended.
const TENDED_MS: i64 = 10_000;
/// How often a node tells the others that its domains are tended.
const TELL_MS: i64 = 3_000;

/// The last asking at each queue: by whom, when, and when the other nodes were told of it.
#[derive(Default)]
pub struct PollBook(Mutex<BTreeMap<(WorkspaceId, ErrandQueue), LastPoll>>);

#[derive(Clone)]
struct LastPoll {
    worker: String,
    at: Millis,
    told: Option<Millis>,
}

impl PollBook {
    /// Whether it is time to tell others.
    pub(crate) fn note(&self, request: &TakeErrands, at: Millis) -> bool {
        let mut known = self.0.lock();
        let key = (request.workspace.clone(), request.from.clone());
        if known.len() >= POLLED_MAX && !known.contains_key(&key) {
            return true;
        }
        let told = known.get(&key).and_then(|last| last.told);
        let tells = told.is_none_or(|told| at.since(told) >= TELL_MS);
        let told = if tells { Some(at) } else { told };
        known.insert(key, LastPoll { worker: request.worker.clone(), at, told });
        tells
    }

    fn is_tended(&self, workspace: &WorkspaceId, from: &ErrandQueue, now: Millis) -> bool {
        let known = self.0.lock();
        known.get(&(workspace.clone(), from.clone())).is_some_and(|last| now.since(last.at) < TENDED_MS)
    }
}

fn polled_key(from: &ErrandQueue) -> String {
    Hash16::of(&[b"polled", from.queue.as_bytes(), from.domain.as_bytes()]).hex()
}

impl Services {
    /// Whether somebody has asked for tasks of this domain lately, here or at another node.
    pub(crate) fn is_tended(
        &self,
        workspace: &WorkspaceId,
        from: &ErrandQueue,
        now: Millis,
    ) -> Result<bool, StoreError> {
        if self.polls.is_tended(workspace, from, now) {
            return Ok(true);
        }
        if self.store.cluster().is_none() {
            return Ok(false);
        }
        let row = self.store.kv(workspace, POLLED, &polled_key(from))?;
        Ok(row.is_some_and(|row| row.expires_at.is_none_or(|at| at > now)))
    }
}

/// An errand as whoever takes it is given it.
#[derive(Clone, Debug)]
pub struct Errand {
    pub row: ErrandRow,
    /// What is asked for, its secrets filled in.
    pub request: Json,
}

/// Why an answer to an errand was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ErrandError {
    #[error("no such errand")]
    Unknown,
    /// It was answered, given up or withdrawn before. What is said changes nothing.
    #[error("the attempt has ended already")]
    Over(Box<ErrandRow>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Who asked for errands of this workspace at this node, since it began.
    pub fn polled(&self, workspace: &WorkspaceId) -> Vec<Polled> {
        let known = self.services.polls.0.lock();
        let own = known.iter().filter(|((owner, _), _)| owner == workspace);
        own.map(|((_, from), last)| Polled { from: from.clone(), worker: last.worker.clone(), at: last.at }).collect()
    }

    /// Lines about a step of a run from someone outside; false if there is no such run.
    pub async fn add_logs(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        step: StepKey,
        level: &str,
        lines: Vec<LogLine>,
    ) -> Result<bool, StoreError> {
        let nonce = self.added_lines.fetch_add(lines.len() as u64, Ordering::Relaxed);
        let (workspace, level) = (workspace.clone(), level.to_owned());
        let done = self.write(Work::AddLogs { workspace, run, step, level, lines, nonce }).await?;
        Ok(!matches!(done, Done::Missing))
    }

    /// Hands errands out; waits at most so long for the first. What the registered definition of the task says about how
    /// many may be out, and how many may be taken within so long, counts where the request says nothing.
    pub async fn take_errands(&self, mut request: TakeErrands, wait: Duration) -> Result<Vec<Errand>, StoreError> {
        let definition = self.services.task_definition(&request.workspace, &request.from.queue)?;
        if let Some(definition) = definition {
            let number = |name: &str| definition[name].as_u64().filter(|number| *number > 0);
            let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            request.limit = request.limit.or(number("concurrentExecLimit").map(small));
            let rate = number("rateLimitPerFrequency").map(|count| TakeRate {
                count: small(count),
                window_ms: i64::from(small(number("rateLimitFrequencyInSeconds").unwrap_or(1))) * 1_000,
            });
            request.rate = request.rate.or(rate);
        }
        self.note_poll(&request).await?;
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        let bell = (!wait.is_zero()).then(|| self.bells.at(&request.workspace, &request.from.queue));
        loop {
            // Listening before looking: what is set out in between rings.
            let rung = bell.as_ref().map(|bell| bell.notified());
            let taken = self.take_now(&request).await?;
            self.tell_taken(&request.workspace, &taken).await?;
            let goes_on = taken.is_empty() && !over.is_elapsed() && !self.is_stopping();
            let Some(rung) = rung.filter(|_| goes_on) else {
                return taken.into_iter().map(|row| self.errand_of(&request.workspace, row)).collect();
            };
            // Either way it looks again.
            tokio::select! {
                _ = tokio::time::timeout(LOOK_AGAIN, rung) => {}
                () = &mut over => {}
            }
        }
    }

    /// Other nodes hear of it now and then: which domain a task is for depends on who asks.
    async fn note_poll(&self, request: &TakeErrands) -> Result<(), StoreError> {
        let tells = self.services.polls.note(request, self.clock.now());
        if tells && !request.from.domain.is_empty() && self.store().cluster().is_some() {
            let told = Work::KvSet {
                workspace: request.workspace.clone(),
                namespace: POLLED.to_owned(),
                key: polled_key(&request.from),
                value: Json::Null,
                kv_type: "JSON".to_owned(),
                overwrite: true,
                ttl_ms: Some(TENDED_MS),
            };
            self.write(told).await?;
        }
        Ok(())
    }

    /// Publishes what tasks want told when somebody has them.
    async fn tell_taken(&self, workspace: &WorkspaceId, taken: &[ErrandRow]) -> Result<(), StoreError> {
        for event in taken.iter().filter(|row| row.more.seen.polls == 1).flat_map(|row| &row.more.on_taken) {
            let word = |name: &str| event[name].as_str().unwrap_or_default();
            self.publish_event(workspace, word("id"), word("event"), event["payload"].clone()).await?;
        }
        Ok(())
    }

    /// A queue with nothing in it costs a look, not a write. Where a look is a journey, all that ask together go at once.
    async fn take_now(&self, request: &TakeErrands) -> Result<Vec<ErrandRow>, StoreError> {
        let is_near = self.store().cluster().is_none() && request.after.is_none();
        if is_near && !self.store().has_free_errand(&request.workspace, &request.from)? {
            return Ok(Vec::new());
        }
        match self.write(Work::TakeErrands(Box::new(request.clone()))).await? {
            Done::Errands(rows) => Ok(rows),
            other => Err(StoreError::Bug(format!("errands were asked for, and the store said {other:?}"))),
        }
    }

    /// What is asked for; a secret that cannot be read is left out with its name.
    pub fn errand_of(&self, workspace: &WorkspaceId, row: ErrandRow) -> Result<Errand, StoreError> {
        let stored = row.more.request.clone().unwrap_or(Json::Null);
        let fill = |part: &Part| self.services.secrets.reveal(workspace, part);
        let value = Value::from_stored(&stored);
        let request = match value.fill(&fill) {
            Ok(filled) => filled,
            Err(error) => {
                tracing::warn!(run = %row.run, error, "a secret of an errand cannot be read");
                value.to_masked_json()
            }
        };
        Ok(Errand { row, request })
    }

    /// A sign of life, or word that it is not done yet.
    pub async fn touch_errand(
        &self,
        workspace: &WorkspaceId,
        id: Hash16,
        worker: Option<String>,
        word: ErrandWord,
    ) -> Result<ErrandRow, ErrandError> {
        match self.write(Work::TouchErrand { workspace: workspace.clone(), id, worker, word }).await? {
            Done::Errands(mut rows) if rows.len() == 1 => {
                let row = rows.remove(0);
                self.bells.ring(workspace, &row.queue);
                Ok(row)
            }
            _ => Err(self.not_awaited(workspace, id)?),
        }
    }

    /// Records what became of an attempt, of which this row was read in the workspace; durable when this returns.
    pub async fn answer_errand(
        &self,
        workspace: &WorkspaceId,
        row: ErrandRow,
        end: ErrandAnswer,
        worker: Option<String>,
    ) -> Result<ErrandRow, ErrandError> {
        if !row.open {
            return Err(ErrandError::Over(Box::new(row)));
        }
        let mut seen = row.more.seen.clone();
        seen.worker = worker.or(seen.worker);
        let by = By { who: seen.worker.clone().unwrap_or_else(|| "worker".to_owned()), why: String::new() };
        let control = Control::Errand { step: row.more.step.clone(), attempt: row.more.attempt, end, seen };
        // The row was this workspace's, and so is its run.
        match self.tell_driver(workspace, row.run, control, by).await {
            Ok(()) => Ok(row),
            Err(ControlError::NotPossible(_)) => Err(ErrandError::Over(Box::new(row))),
            Err(ControlError::Unknown | ControlError::Inputs(_)) => Err(ErrandError::Unknown),
            Err(ControlError::Store(error)) => Err(error.into()),
        }
    }

    fn not_awaited(&self, workspace: &WorkspaceId, id: Hash16) -> Result<ErrandError, StoreError> {
        let known = self.store().errand(workspace, id)?;
        Ok(known.map_or(ErrandError::Unknown, |row| ErrandError::Over(Box::new(row))))
    }

    /// Tells runs of errands that are late.
    pub async fn tell_late_errands(&self) -> Result<(), StoreError> {
        if self.store().next_errand()?.is_none_or(|due| due > self.store().now()) {
            return Ok(());
        }
        if let Done::Wake(runs) = self.write(Work::TellLate { limit: LATE_MAX }).await? {
            for (workspace, run) in runs {
                self.told.wake(workspace, run);
            }
        }
        Ok(())
    }
}
