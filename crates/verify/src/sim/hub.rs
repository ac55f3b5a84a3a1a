//! The ports of a node, all ending in one place: the store with its faults, the outside, errands
//! and sleeps. Nothing here acts by itself; the world takes what was asked for and decides when.

use super::chance::Chance;
use super::faults::{Fault, Faults};
use super::model::Model;
use parking_lot::{Mutex, RwLock};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_engine::ports::{Aside, Clock, Entropy, Errand, Performer};
use semel_store::check::Audit;
use semel_store::*;
use semel_tasks::{Outcome, Request};
use serde_json::Value as Json;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub type NodeId = u32;

/// A write that a node has asked for.
pub struct Submission {
    pub node: NodeId,
    pub work: Work,
    pub reply: Reply,
}

/// A value that comes later.
pub struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

pub type Later<T> = Arc<Mutex<Slot<T>>>;

pub fn later<T>() -> Later<T> {
    Arc::new(Mutex::new(Slot { value: None, waker: None }))
}

pub fn settle<T>(slot: &Later<T>, value: T) {
    let waker = {
        let mut slot = slot.lock();
        slot.value = Some(value);
        slot.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

struct Wait<T>(Later<T>);

impl<T> Future for Wait<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.lock();
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A request that a node has handed over to be sent.
pub struct Sent {
    pub node: NodeId,
    pub request: Request,
    pub slot: Later<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A value is another than was written.
    Value,
    /// The end of a row is missing.
    Torn,
}

/// What the nodes have asked for since the world last looked, and what all share.
pub struct Hub {
    pub store: RwLock<Arc<dyn Store>>,
    pub faults: Mutex<Faults>,
    pub model: Mutex<Model>,
    pub submitted: Mutex<Vec<Submission>>,
    pub sent: Mutex<Vec<Sent>>,
    pub errands: Mutex<Vec<(NodeId, Errand)>>,
    pub sleeps: Mutex<Vec<(NodeId, u64, Later<()>)>>,
    /// The wall clock: it may jump.
    pub clock: Arc<AtomicI64>,
    pub entropy: AtomicU64,
    /// A run whose journal is damaged, how, and how often it was read since.
    pub damage: Mutex<Option<(RunId, Damage)>>,
    pub damage_seen: AtomicU64,
    pub seed: u64,
}

impl Hub {
    /// The store of the present incarnation.
    pub fn inner(&self) -> Arc<dyn Store> {
        self.store.read().clone()
    }
}

/// One node's view of the hub.
pub struct Ports {
    pub hub: Arc<Hub>,
    pub node: NodeId,
    pub poisoned: Mutex<Option<StoreError>>,
}

impl Ports {
    fn read<T>(&self, read: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        read(self.hub.inner().as_ref())
    }

    fn damaged_read(
        &self,
        run: RunId,
        read: impl FnOnce(&dyn Store) -> Result<Vec<JournalRow>>,
    ) -> Result<Vec<JournalRow>> {
        let mut rows = self.busy_read(read)?;
        let damage = *self.hub.damage.lock();
        if let (Some((of, how)), Some(row)) = (damage, rows.first_mut())
            && of == run
        {
            self.hub.damage_seen.fetch_add(1, Ordering::SeqCst);
            match (how, &mut row.values) {
                (Damage::Value, Some(values)) => {
                    let text = String::from_utf8_lossy(values).replacen("\"id\":\"", "\"id\":\"x", 1);
                    *values = text.into_bytes();
                }
                _ => row.events.truncate(row.events.len() / 2),
            }
        }
        Ok(rows)
    }

    /// A read that the store may refuse for now.
    fn busy_read<T>(&self, read: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        if self.hub.faults.lock().strikes(Fault::ReadBusy) {
            return Err(StoreError::Busy("simulated".into()));
        }
        read(self.hub.inner().as_ref())
    }
}

impl Store for Ports {
    fn submit(&self, work: Work, reply: Reply) {
        self.hub.submitted.lock().push(Submission { node: self.node, work, reply });
    }

    fn peek(&self, request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>> {
        if let Some(why) = self.poisoned.lock().clone() {
            return Err(why);
        }
        let found = self.hub.inner().peek(request)?;
        self.hub.model.lock().peeked(request, found.as_ref(), self.hub.inner().as_ref());
        Ok(found)
    }

    fn now(&self) -> Millis {
        self.hub.inner().now()
    }

    fn close(&self) {}

    fn health(&self) -> Result<()> {
        match self.poisoned.lock().clone() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

macro_rules! pass_on {
    ($($how:ident $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        impl Reads for Ports {
            $(fn $name(&self $(, $arg: $type)*) -> Result<$out> { self.$how(|s| s.$name($($arg),*)) })*

            fn journal(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>> {
                self.damaged_read(id, |s| s.journal(workspace, id, after, limit))
            }

            fn audit(&self, look: &mut dyn FnMut(&dyn Audit) -> Result<()>) -> Result<()> {
                self.hub.inner().audit(look)
            }
        }
    };
}

pass_on! {
    busy_read load_run(workspace: &WorkspaceId, id: RunId) -> Option<LoadedRun>;
    read run(workspace: &WorkspaceId, id: RunId) -> Option<WholeRun>;
    read runs(workspace: &WorkspaceId, query: &RunQuery) -> Vec<WholeRun>;
    read search_runs(workspace: &WorkspaceId, search: &semel_store::search::RunSearch) -> (Vec<WholeRun>, u64);
    read flows_with_runs(workspace: &WorkspaceId) -> Vec<FlowRef>;
    read logs(workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Vec<LogRow>;
    read errand(workspace: &WorkspaceId, id: Hash16) -> Option<ErrandRow>;
    read errands_of(workspace: &WorkspaceId, run: RunId) -> Vec<ErrandRow>;
    read errands(workspace: &WorkspaceId, kind: semel_core::ir::ErrandKind, after: Option<Hash16>, limit: u32) -> Vec<ErrandRow>;
    read has_free_errand(workspace: &WorkspaceId, from: &ErrandQueue) -> bool;
    read errand_counts(workspace: &WorkspaceId) -> Vec<(ErrandQueue, u64, u64)>;
    read next_errand() -> Option<Millis>;
    read effects(workspace: &WorkspaceId, id: RunId) -> Vec<EffectRow>;
    read decisions(workspace: &WorkspaceId, query: &DecisionQuery) -> Vec<DecisionRow>;
    read claims(workspace: &WorkspaceId, query: &ClaimQuery) -> Vec<semel_core::admission::Claim>;
    read claim(workspace: &WorkspaceId, hash: Hash16) -> Option<semel_core::admission::Claim>;
    busy_read flow(workspace: &WorkspaceId, flow: &FlowRef, revision: Option<u32>) -> Option<FlowRow>;
    read flow_revisions(workspace: &WorkspaceId, flow: &FlowRef) -> Vec<FlowRow>;
    read flows(workspace: &WorkspaceId, after: Option<&FlowRef>, limit: u32) -> Vec<FlowRow>;
    read flows_named(workspace: &WorkspaceId, id: &str) -> Vec<FlowRow>;
    read flow_names(workspace: &WorkspaceId) -> Vec<FlowRef>;
    read kv_namespaces(workspace: &WorkspaceId) -> Vec<String>;
    read log_search(workspace: &WorkspaceId, query: &LogQuery) -> (Vec<(FlowRef, LogRow)>, u64);
    busy_read kv(workspace: &WorkspaceId, namespace: &str, key: &str) -> Option<KvRow>;
    read kv_list(workspace: &WorkspaceId, namespace: &str, after: Option<&str>, limit: u32) -> Vec<KvRow>;
    busy_read file(workspace: &WorkspaceId, run: RunId, path: &str) -> Option<FileRow>;
    read files(workspace: &WorkspaceId, run: RunId, after: Option<&str>, limit: u32) -> Vec<FileRow>;
    busy_read file_chunk(workspace: &WorkspaceId, run: RunId, file: Hash16, number: u32) -> Option<Vec<u8>>;
    busy_read secret(workspace: &WorkspaceId, name: &str, version: Option<u64>) -> Option<SecretRow>;
    read secrets(workspace: &WorkspaceId) -> Vec<SecretRow>;
    read token(id: &str) -> Option<TokenRow>;
    read tokens(workspace: &WorkspaceId) -> Vec<TokenRow>;
    read workspaces() -> Vec<WorkspaceRow>;
    read active_runs(after: Option<RunId>, limit: u32) -> Vec<(WorkspaceId, RunId)>;
    read due_timers(now: Millis, limit: u32) -> Vec<TimerRow>;
    read next_timer() -> Option<Millis>;
    read due_schedules(now: Millis, limit: u32) -> Vec<ScheduleRow>;
    read next_schedule() -> Option<Millis>;
    read schedules(workspace: &WorkspaceId) -> Vec<ScheduleRow>;
    read changes(before: Millis, limit: u32) -> Vec<ChangeRow>;
    read dump() -> Json;
}

impl Performer for Ports {
    fn perform(&self, request: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let slot = later();
        self.hub.sent.lock().push(Sent { node: self.node, request, slot: slot.clone() });
        Box::pin(Wait(slot))
    }
}

impl Aside for Ports {
    fn run(&self, errand: Errand) {
        self.hub.errands.lock().push((self.node, errand));
    }

    fn sleep(&self, time: Duration) -> Errand {
        let slot = later();
        self.hub.sleeps.lock().push((self.node, time.as_millis() as u64, slot.clone()));
        Box::pin(Wait(slot))
    }
}

impl Clock for Hub {
    fn now(&self) -> Millis {
        Millis(self.clock.load(Ordering::SeqCst))
    }
}

impl Entropy for Hub {
    fn run_id(&self, now: Millis) -> RunId {
        let n = self.entropy.fetch_add(1, Ordering::SeqCst);
        let mut bytes = [0u8; 10];
        bytes[2..].copy_from_slice(&n.to_be_bytes());
        RunId(uuid::Builder::from_unix_timestamp_millis(now.0.max(0) as u64, &bytes).into_uuid())
    }

    fn random(&self) -> u64 {
        let n = self.entropy.fetch_add(1, Ordering::SeqCst);
        Chance::of(self.seed, 7, n).draw()
    }
}
