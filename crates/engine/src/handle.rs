//! What doors see of the engine.

use crate::admit::{admission, is_checked, prepare, sketch};
use crate::api::*;
use crate::away;
use crate::driver::{Born, Driver, Happened};
use crate::errands::Bells;
use crate::files::Upload;
use crate::flows::{Flows, LoadedFlow};
use crate::outside;
use crate::polling::Poll;
use crate::ports::{Aside, Clock, Entropy, Performer};
use crate::scope::Services;
use crate::secrets::{MasterKey, Secrets};
use crate::shell::{Fatal, Message, Shell, Waiters};
use crate::system::TokioAside;
use parking_lot::Mutex;
use semel_core::ir::Catalog;
use semel_core::limits::Limits;
use semel_core::run::{By, Status};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_expr::Value;
use semel_store::{
    AdmitRequest, AdmitResult, DecisionRow, Done, Hearing, NodeRow, NodeState, Note, Peeked, Store, StoreError,
    SweepRules, Tick, Work,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};

/// What an engine is built from.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub performer: Arc<dyn Performer>,
    pub catalog: &'static dyn Catalog,
    pub limits: Limits,
    pub master_key: Option<MasterKey>,
    /// The process's environment, for `SECRET_` and `ENV_` variables.
    pub environment: Vec<(String, String)>,
    /// The server's own address, as `kestra.url`.
    pub url: Option<String>,
}

/// The engine. Shared by all doors.
pub struct Engine {
    pub(crate) services: Arc<Services>,
    pub(crate) flows: Arc<Flows>,
    pub(crate) catalog: &'static dyn Catalog,
    limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    started_at: Millis,
    pub(crate) told: Told,
    ready: Arc<AtomicBool>,
    stopping: AtomicBool,
    admitting: Arc<AtomicU64>,
    /// Read-only decisions logged per claim, since the process began.
    logged: Mutex<BTreeMap<Hash16, u32>>,
    fatal: Fatal,
    performer: Arc<dyn Performer>,
    /// Polls whose turn has come.
    polls: Mutex<Vec<Poll>>,
    pub(crate) nats: std::sync::OnceLock<semel_tasks::nats::Nats>,
    pub(crate) bells: Arc<Bells>,
    /// Lines added by others, counted from a random number on.
    pub(crate) added_lines: AtomicU64,
}

/// Who hears of a durable admission. Cloned into the store's answer, so that it is told whether or
/// not the caller still waits.
#[derive(Clone)]
pub(crate) struct Told {
    sender: Sender<Message>,
    changes: broadcast::Sender<RunChange>,
    waiters: Waiters,
}

/// A place among the admissions under way, free again when dropped.
struct Place(Arc<AtomicU64>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Someone waits for a run; leaving in the middle leaves nothing behind.
struct Waiting<'a> {
    waiters: &'a Waiters,
    run: RunId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        if let Some(list) = waiters.get_mut(&self.run) {
            list.retain(|waiter| !waiter.is_closed());
            if list.is_empty() {
                waiters.remove(&self.run);
            }
        }
    }
}

/// How long whoever waits for a run relies on being told by the node that drives it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Rows of the decision log that twins of one event may add.
const DECISIONS_PER_KEY_MAX: u32 = 10_000;
const LOGGED_KEYS_MAX: usize = 65_536;
/// States in which an admission can leave runs.
const ENDED_AT_ADMISSION: &[&str] = &["CANCELLED", "FAILED"];

impl Engine {
    /// Builds the engine and starts its driver thread, which first recovers active runs. Must be
    /// called inside a tokio runtime: effects run on it.
    pub fn start(parts: Parts) -> Arc<Engine> {
        let (engine, shell) = Engine::build(parts, Arc::new(TokioAside(tokio::runtime::Handle::current())));
        let told = engine.fatal.clone();
        let spawned = std::thread::Builder::new().name("semel-driver".to_owned()).spawn(move || {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shell.run())).is_err() {
                let why = "the driver stopped on a broken invariant (panic)".to_owned();
                told.lock().get_or_insert(StoreError::Poisoned(why));
            }
        });
        if let Err(error) = spawned {
            *engine.fatal.lock() = Some(StoreError::Poisoned(format!("the driver thread does not start: {error}")));
        }
        engine
    }

    /// The engine and the driver's side of it, which somebody must run.
    pub(crate) fn build(parts: Parts, aside: Arc<dyn Aside>) -> (Arc<Engine>, Shell) {
        let envs = parts
            .environment
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("ENV_")?.to_lowercase(), Value::str(value.as_str()))))
            .collect();
        let secrets = Secrets::new(parts.store.clone(), parts.master_key, parts.environment, parts.entropy.clone());
        let services = Arc::new(Services {
            store: parts.store.clone(),
            secrets,
            entropy: parts.entropy,
            envs: Value::map(envs),
            url: parts.url,
            polls: crate::errands::PollBook::default(),
            tasks: crate::task_book::TaskBook::default(),
        });
        let flows = Arc::new(Flows::new(parts.store.clone()));
        let (sender, inbox) = std::sync::mpsc::channel();
        let (changes, _) = broadcast::channel(4_096);
        let waiters: Waiters = Arc::default();
        let bells: Arc<Bells> = Arc::default();
        let ready = Arc::new(AtomicBool::new(false));
        let fatal = Fatal::default();
        let performer = parts.performer.clone();
        let shell = Shell {
            driver: Driver::new(services.clone(), flows.clone(), parts.limits.clone()),
            store: parts.store,
            performer: parts.performer,
            aside,
            inbox,
            sender: sender.clone(),
            changes: changes.clone(),
            waiters: waiters.clone(),
            bells: bells.clone(),
            ready: ready.clone(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            next_timer: Millis(0),
            next_rounds: Millis(0),
            watched: BTreeMap::new(),
            stopping: None,
            fatal: fatal.clone(),
        };
        let told = Told { sender, changes, waiters };
        if let Some(cluster) = services.store.cluster() {
            let (told, flows) = (told.clone(), flows.clone());
            cluster.listen(Box::new(move |note| told.heard(&flows, note)));
        }
        let first_line = services.entropy.random();
        let engine = Arc::new(Engine {
            services,
            flows,
            catalog: parts.catalog,
            limits: parts.limits,
            started_at: parts.clock.now(),
            clock: parts.clock,
            told,
            ready,
            stopping: AtomicBool::new(false),
            admitting: Arc::default(),
            logged: Mutex::default(),
            fatal,
            performer,
            polls: Mutex::default(),
            nats: std::sync::OnceLock::new(),
            bells,
            added_lines: AtomicU64::new(first_line),
        });
        (engine, shell)
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub(crate) fn performer(&self) -> &Arc<dyn Performer> {
        &self.performer
    }

    pub(crate) fn polls(&self) -> &Mutex<Vec<Poll>> {
        &self.polls
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn flows(&self) -> &Arc<Flows> {
        &self.flows
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.services.store
    }

    /// Finds a flow by `id` (unique in the workspace) or `namespace:id`.
    pub fn resolve_flow(&self, workspace: &WorkspaceId, name: &str) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        self.flows.resolve(workspace, name)
    }

    pub fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        self.flows.head(workspace, flow)
    }

    /// The one way in.
    pub async fn admit(&self, occurrence: Occurrence) -> Result<AdmitResult, AdmitError> {
        self.admit_at(occurrence, None).await
    }

    /// As [`Engine::admit`]; what is an instant of a schedule moves the schedule on as well.
    pub(crate) async fn admit_at(&self, occurrence: Occurrence, tick: Option<Tick>) -> Result<AdmitResult, AdmitError> {
        self.admit_once(occurrence, tick, None).await
    }

    /// As [`Engine::admit`]; what is a change of another run is settled for the trigger as well.
    pub(crate) async fn admit_heard(
        &self,
        occurrence: Occurrence,
        hearing: Hearing,
    ) -> Result<AdmitResult, AdmitError> {
        self.admit_once(occurrence, None, Some(hearing)).await
    }

    /// Sees to what expressions of inputs ask for, before anything of the event is stored.
    async fn prepared(
        &self,
        occurrence: Occurrence,
        sketch: Option<AdmitRequest>,
        now: Millis,
    ) -> Result<AdmitRequest, AdmitError> {
        if !outside::may_ask(&occurrence.flow.index.flow.inputs) {
            return away::noticed(|| prepare(&self.services, occurrence, sketch, None, now))?;
        }
        let workspace = occurrence.workspace.clone();
        let key = occurrence.caller_key.as_ref().or(occurrence.intrinsic_key.as_ref());
        let event = key.map(|key| format!("{} {key}", occurrence.flow.flow_ref));
        let act = || away::noticed(|| prepare(&self.services, occurrence.clone(), sketch.clone(), None, now));
        outside::answered(self, &workspace, event.as_deref(), act).await?
    }

    async fn admit_once(
        &self,
        occurrence: Occurrence,
        tick: Option<Tick>,
        hearing: Option<Hearing>,
    ) -> Result<AdmitResult, AdmitError> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(StoreError::Closed.into());
        }
        if let Some(error) = self.fatal.lock().clone() {
            return Err(error.into());
        }
        let (flow, now) = (occurrence.flow.clone(), self.store().now());
        let sketch = sketch(&self.services, &occurrence, now);
        let mut looked = tick.is_some() || hearing.is_some();
        if let Some(sketch) = sketch.as_ref().filter(|_| !looked) {
            match self.peek(sketch).await? {
                Some((result, row)) if is_checked(&result, &flow) => return Ok(self.twin(result, row)),
                // It may yet be refused for what it brings.
                Some(_) => {}
                None => looked = true,
            }
        }
        let prepared = self.prepared(occurrence, sketch, now).await?;
        let announced = self.flows.is_heard(&prepared.workspace, ENDED_AT_ADMISSION);
        let request = AdmitRequest { tick, hearing, announced, ..prepared };
        if request.key.is_some()
            && !looked
            && let Some((result, row)) = self.peek(&request).await?
        {
            return Ok(self.twin(result, row));
        }
        let waiting = self.admitting.fetch_add(1, Ordering::SeqCst);
        let place = Place(self.admitting.clone());
        if waiting >= self.limits.pending_admissions_max {
            return Err(AdmitError::TooManyPending);
        }
        let (reply, answer) = oneshot::channel();
        let (told, workspace) = (self.told.clone(), request.workspace.clone());
        let (work, begin) = admission(&self.services, &self.flows, &self.limits, &flow, request, now);
        self.store().submit(
            work,
            Box::new(move |done| {
                drop(place);
                if let Ok(Done::Admitted(result)) = &done {
                    told.follow_up(&workspace, begin, result);
                }
                // The caller may have gone away; the run goes on.
                let _ = reply.send(done);
            }),
        );
        match answer.await.unwrap_or(Err(StoreError::Closed))? {
            Done::Admitted(result) => Ok(*result),
            other => Err(StoreError::Bug(format!("an admission was answered with {other:?}")).into()),
        }
    }

    /// A store of several nodes is across a network: nobody blocks a thread for a look, and those who come together
    /// look together.
    async fn peek(&self, request: &AdmitRequest) -> Result<Peeked, StoreError> {
        if self.store().cluster().is_none() {
            return self.store().peek(request);
        }
        if request.key.as_ref().is_some_and(|key| !self.store().is_worth_a_look(key)) {
            return Ok(None);
        }
        let (reply, answer) = oneshot::channel();
        let told = move |found| {
            // The caller may have gone away.
            let _ = reply.send(found);
        };
        self.store().peek_later(Box::new(request.clone()), Box::new(told));
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// An occurrence that changes nothing: its row is logged, and nobody waits for that.
    fn twin(&self, result: AdmitResult, row: DecisionRow) -> AdmitResult {
        if self.is_logged(row.claim) {
            // The row rides the next group commit; losing it in a crash loses nothing else.
            self.store().submit(Work::LogDecision(Box::new(row)), Box::new(|_| {}));
        }
        result
    }

    /// A sender that repeats one event for ever must not fill the disk: past the cap its
    /// occurrences are counted by the metrics only.
    fn is_logged(&self, claim: Option<Hash16>) -> bool {
        let Some(claim) = claim else { return true };
        let mut logged = self.logged.lock();
        if logged.len() >= LOGGED_KEYS_MAX {
            logged.clear();
        }
        let count = logged.entry(claim).or_insert(0);
        *count = count.saturating_add(1);
        *count <= DECISIONS_PER_KEY_MAX
    }

    pub async fn control(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        control: Control,
        by: By,
    ) -> Result<(), ControlError> {
        // The driver may hold the run of another workspace: the wall is checked here first.
        if self.store().run(workspace, run)?.is_none() {
            return Err(ControlError::Unknown);
        }
        self.tell_driver(workspace, run, control, by).await
    }

    pub(crate) async fn tell_driver(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        control: Control,
        by: By,
    ) -> Result<(), ControlError> {
        let (reply, answer) = oneshot::channel();
        self.told.tell(Message::Control { workspace: workspace.clone(), run, control, by, reply });
        answer.await.unwrap_or(Err(ControlError::Store(StoreError::Closed)))
    }

    /// Waits until the run has ended or is held, at most `limit`. True when it has.
    pub async fn wait_ended(&self, workspace: &WorkspaceId, run: RunId, limit: Duration) -> Result<bool, StoreError> {
        let _waiting = Waiting { waiters: &self.told.waiters, run };
        let (done, ended) = oneshot::channel();
        self.told.waiters.lock().entry(run).or_default().push(done);
        // Asked after registering, so an end in between is not missed.
        let settled = |row: &Option<semel_store::WholeRun>| {
            row.as_ref().is_none_or(|(row, _, _)| row.status.is_ended() || row.status == Status::Held)
        };
        let Some(cluster) = self.store().cluster() else {
            if settled(&self.store().run(workspace, run)?) {
                return Ok(true);
            }
            return Ok(tokio::time::timeout(limit, ended).await.is_ok());
        };
        if settled(&self.run_from_afar(workspace, run).await?) {
            return Ok(true);
        }
        // Another node may drive it: that one is asked to tell, and the store is looked at in case it cannot.
        let (mut ended, mut left, mut pause) = (ended, limit, Duration::from_millis(20));
        while !left.is_zero() {
            if cluster.is_alone() {
                pause = LOOK_AGAIN;
            } else {
                self.watch(run);
            }
            let wait = pause.min(left);
            if tokio::time::timeout(wait, &mut ended).await.is_ok()
                || settled(&self.run_from_afar(workspace, run).await?)
            {
                return Ok(true);
            }
            (left, pause) = (left - wait, (pause * 2).min(LOOK_AGAIN));
        }
        Ok(false)
    }

    /// A run read where that is a journey: those who serve requests do not wait for it.
    async fn run_from_afar(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
    ) -> Result<Option<semel_store::WholeRun>, StoreError> {
        let (store, workspace) = (self.store().clone(), workspace.clone());
        let read = tokio::task::spawn_blocking(move || store.run(&workspace, run)).await;
        read.unwrap_or_else(|_| Err(StoreError::Bug("a read panicked".to_owned())))
    }

    /// Asks whichever node drives the run to tell this one of its changes.
    fn watch(&self, run: RunId) {
        if let Some(cluster) = self.store().cluster() {
            cluster.tell(Note::Watch { run });
        }
    }

    /// For followers of a run: asks to be told of its changes, and says how soon to look all the same, if at all.
    pub fn follow(&self, run: RunId) -> Option<Duration> {
        self.watch(run);
        self.store().cluster().map(|_| LOOK_AGAIN)
    }

    /// Every change of every run from now on; a lagging receiver re-reads the store.
    pub fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.told.changes.subscribe()
    }

    /// How many wait for a run.
    pub fn waiting(&self) -> usize {
        self.told.waiters.lock().values().map(Vec::len).sum()
    }

    /// Names of the secrets that flows of the workspace can ask for.
    pub fn secret_names(&self, workspace: &WorkspaceId) -> Result<Vec<String>, StoreError> {
        self.services.secrets.names(workspace)
    }

    pub async fn put_secret(&self, workspace: &WorkspaceId, name: &str, value: &str) -> Result<u64, SecretError> {
        for _ in 0..8 {
            let row = self.services.secrets.encrypt(workspace, name, value)?;
            match self.write(Work::PutSecret(Box::new(row))).await? {
                Done::Secret { version } => return Ok(version),
                // Somebody else stored this version first: encrypt for the next one.
                _ => continue,
            }
        }
        Err(StoreError::Busy("the secret is being written by others".to_owned()).into())
    }

    /// Any management write (kv, tokens, workspaces, release, erase, …).
    pub async fn write(&self, work: Work) -> Result<Done, StoreError> {
        let defines = crate::task_book::is_task_definition(&work);
        let done = write(self.store(), work).await;
        if defines {
            self.services.tasks.forget();
        }
        done
    }

    /// Checks a webhook's signature over the raw bytes.
    pub fn verify_signature(
        &self,
        signature: &ResolvedSignature,
        headers: &dyn Fn(&str) -> Option<String>,
        raw_body: &[u8],
    ) -> Result<(), semel_tasks::signature::SignatureError> {
        let now = self.store().now();
        let header = signature.header.as_deref();
        semel_tasks::signature::verify(
            signature.scheme,
            header,
            &signature.secrets,
            headers,
            raw_body,
            now.0,
            signature.tolerance_ms,
        )
    }

    /// The id of a run that is to be, for files that are taken in before it is admitted.
    pub fn fresh_run(&self) -> RunId {
        self.services.entropy.run_id(self.store().now())
    }

    /// Begins to take in a file for an input. Admit the run with [`Occurrence::run`] and the address as the input's value.
    pub fn upload(&self, workspace: &WorkspaceId, flow: &FlowRef, run: RunId, input: &str, name: &str) -> Upload {
        Upload::new(&self.services, workspace, flow, run, input, name, self.limits.file_bytes_max)
    }

    /// Begins to take in a file of a namespace; `None` for what cannot be the name of one.
    pub fn upload_to_namespace(&self, workspace: &WorkspaceId, namespace: &str, name: &str) -> Option<Upload> {
        Upload::to_namespace(&self.services, workspace, namespace, name, self.limits.file_bytes_max)
    }

    /// Bounded clean-up; called now and then.
    pub async fn sweep(&self, rules: SweepRules) -> Result<u64, StoreError> {
        match self.write(Work::Sweep(rules)).await? {
            Done::Count(count) => Ok(count),
            _ => Ok(0),
        }
    }

    /// `Err` while writes are refused; a fatal one means that the node must stop.
    pub fn health(&self) -> Result<(), StoreError> {
        match self.fatal.lock().clone() {
            Some(error) => Err(error),
            None => self.store().health(),
        }
    }

    /// The processes that share the store; this one alone where nobody else can.
    pub fn nodes(&self, version: &str) -> Result<Vec<NodeRow>, StoreError> {
        if let Some(cluster) = self.store().cluster() {
            return cluster.nodes();
        }
        let now = self.store().now();
        let mut runs_owned = 0;
        let mut after = None;
        loop {
            let page = self.store().active_runs(after, 10_000)?;
            runs_owned += page.len() as u64;
            after = page.last().map(|(_, run)| *run);
            if page.len() < 10_000 {
                break;
            }
        }
        Ok(vec![NodeRow {
            epoch: 1,
            name: self.services.url.clone().unwrap_or_default(),
            version: version.to_owned(),
            state: NodeState::Alive,
            started_at: self.started_at,
            seen_at: now,
            lease_until: None,
            runs_owned,
            is_self: true,
        }])
    }

    /// True once recovery has read every active run.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Stops taking work, lets what is in flight settle (at most `limit`), closes the store.
    pub async fn shutdown(&self, limit: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        let (done, settled) = oneshot::channel();
        self.told.tell(Message::Stop(done));
        if tokio::time::timeout(limit, settled).await.is_err() {
            tracing::warn!("some requests did not settle in time; their effects are judged at the next start");
        }
        self.store().close();
    }
}

impl Told {
    /// Tells the driver what a durable admission means for it.
    pub(crate) fn wake(&self, workspace: WorkspaceId, run: RunId) {
        self.tell(Message::Happened(Happened::Wake { workspace, run }));
    }

    pub(crate) fn follow_up(&self, workspace: &WorkspaceId, begin: Option<AdmitRequest>, result: &AdmitResult) {
        for run in &result.fenced {
            self.tell(Message::Fenced(*run));
        }
        for run in &result.wake {
            self.tell(Message::Happened(Happened::Wake { workspace: workspace.clone(), run: *run }));
        }
        if let Some(due) = result.timer_due {
            self.tell(Message::TimerAt(due));
        }
        for run in &result.fenced {
            self.changed(RunChange { run: *run, version: 0, status: Status::Cancelled });
        }
        if let Some(row) = result.run.as_ref().filter(|row| result.created && row.status.is_ended()) {
            self.changed(RunChange { run: row.id, version: row.version, status: row.status });
        } else if let (Some(row), Some(request)) = (result.born(), begin) {
            let born =
                Born { row: row.clone(), inputs: request.inputs, trigger: request.trigger, labels: request.labels };
            self.tell(Message::Happened(Happened::Born(Box::new(born))));
        }
    }

    fn heard(&self, flows: &Flows, note: Note) {
        match note {
            Note::Pushed { workspace, flow } => flows.forget(&workspace, &flow),
            Note::Changed { run, version, status } => {
                let change = RunChange { run, version, status };
                if status.is_ended() || status == Status::Held {
                    return self.changed(change);
                }
                // Nobody may be following.
                let _ = self.changes.send(change);
            }
            note => self.tell(Message::Heard(note)),
        }
    }

    fn changed(&self, change: RunChange) {
        for waiter in self.waiters.lock().remove(&change.run).unwrap_or_default() {
            // Whoever waited may have gone away.
            let _ = waiter.send(());
        }
        // Nobody may be following.
        let _ = self.changes.send(change);
    }

    fn tell(&self, message: Message) {
        // The driver is gone only when the process stops; what is durable is found again.
        let _ = self.sender.send(message);
    }
}

pub(crate) async fn write(store: &Arc<dyn Store>, work: Work) -> Result<Done, StoreError> {
    let (reply, answer) = oneshot::channel();
    store.submit(
        work,
        Box::new(move |done| {
            // The caller may have gone away; the write stands.
            let _ = reply.send(done);
        }),
    );
    answer.await.unwrap_or(Err(StoreError::Closed))
}
