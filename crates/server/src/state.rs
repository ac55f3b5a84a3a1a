//! What all handlers share.

use crate::auth::{RandomFn, TokenCache, os_random};
use crate::doors::conductor::signal::Unheard;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::refusals::Refusals;
use crate::refused::not_pushed;
use semel_core::limits::Limits;
use semel_core::run::By;
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_engine::{Control, Engine, Occurrence, PushError};
use semel_store::{AdmitResult, Done, PushRule, Store, StoreError, Work};
use serde::Deserialize;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Where a key sent to the trigger door is unique, for flows that do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerScope {
    #[default]
    Flow,
    /// One key across all workflows of the workspace, as the copied contract literally says.
    Workspace,
}

#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// No tokens are asked for. Whoever sets it must bind loopback only.
    pub dev: bool,
    pub limits: Limits,
    pub trigger_scope: TriggerScope,
    /// A correlation id that a caller of the Kestra door gives is a key: at most one run of it is open or succeeded.
    pub correlation_guard: bool,
    pub version: String,
    pub random: RandomFn,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            dev: false,
            limits: Limits::default(),
            trigger_scope: TriggerScope::default(),
            correlation_guard: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            random: os_random,
        }
    }
}

/// Bodies above the usual limit that are in memory at once; others wait for a place.
const LARGE_BODIES_MAX: usize = 16;

/// Cheap to clone; one per server.
#[derive(Clone)]
pub struct AppState {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    config: ServerConfig,
    tokens: TokenCache,
    metrics: Metrics,
    refusals: Refusals,
    unheard: Arc<Unheard>,
    streams: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
    stopping: CancellationToken,
}

impl AppState {
    pub fn new(engine: Arc<Engine>, config: ServerConfig) -> AppState {
        let metrics = Metrics::new(&config.version);
        let streams = Arc::new(Semaphore::new(config.limits.event_streams_max));
        let large_bodies = Arc::new(Semaphore::new(LARGE_BODIES_MAX));
        let (tokens, refusals, stopping) = (TokenCache::default(), Refusals::default(), CancellationToken::new());
        let unheard = Arc::default();
        let inner = Inner { engine, config, tokens, metrics, refusals, unheard, streams, large_bodies, stopping };
        AppState { inner: Arc::new(inner) }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    pub fn config(&self) -> &ServerConfig {
        &self.inner.config
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.config.limits
    }

    pub(crate) fn tokens(&self) -> &TokenCache {
        &self.inner.tokens
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.inner.refusals
    }

    /// Requests whose callers may not have heard what they came to.
    pub(crate) fn unheard(&self) -> &Arc<Unheard> {
        &self.inner.unheard
    }

    /// Permits for event streams.
    pub(crate) fn streams(&self) -> &Arc<Semaphore> {
        &self.inner.streams
    }

    /// Places for bodies that are larger than most.
    pub(crate) fn large_bodies(&self) -> &Arc<Semaphore> {
        &self.inner.large_bodies
    }

    /// Cancelled when the server begins to stop: streams end, waits answer at once.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.inner.engine.store()
    }

    /// Reads without holding up the runtime's threads: a store may do file IO.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = self.store().clone();
        match tokio::task::spawn_blocking(move || read(store.as_ref())).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Problem::internal("a read panicked")),
        }
    }

    /// Runs to its end even if the caller hangs up: a future dropped between a durable write and
    /// what must follow it would leave a run that nobody drives until the next start.
    async fn to_the_end<T, E>(&self, work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, Problem>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        match tokio::spawn(work).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => Err(Problem::internal("a write panicked")),
        }
    }

    pub(crate) async fn admit(&self, occurrence: Occurrence) -> Result<AdmitResult, Problem> {
        let door = occurrence.door;
        // A caller that hangs up loses only its answer: what follows a durable admission is done by whoever
        // learns first that it is durable.
        let result = self.engine().admit(occurrence).await?;
        self.metrics().decided(door, &result);
        Ok(result)
    }

    pub(crate) async fn control(
        &self,
        workspace: WorkspaceId,
        run: RunId,
        control: Control,
        by: By,
    ) -> Result<(), Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.control(&workspace, run, control, by).await }).await
    }

    /// Lets a run go on; `inputs` is what is said to the step at which it stands still.
    pub(crate) async fn resume(
        &self,
        workspace: WorkspaceId,
        run: RunId,
        step: Option<String>,
        inputs: serde_json::Value,
        by: By,
    ) -> Result<(), Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.resume(&workspace, run, step.as_deref(), &inputs, by).await }).await
    }

    /// Approves or denies, at a step that asks for it.
    pub(crate) async fn review(
        &self,
        workspace: WorkspaceId,
        run: RunId,
        step: Option<String>,
        said: semel_core::ir::Reviewed,
        inputs: serde_json::Value,
        by: By,
    ) -> Result<(), Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.review(&workspace, run, step.as_deref(), said, &inputs, by).await }).await
    }

    pub(crate) async fn replay(
        &self,
        workspace: WorkspaceId,
        run: RunId,
        wish: semel_engine::ReplayWish,
        by: By,
    ) -> Result<AdmitResult, Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.replay(&workspace, run, &wish, &by).await }).await
    }

    pub(crate) async fn write(&self, work: Work) -> Result<Done, Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.write(work).await }).await
    }

    pub(crate) async fn put_secret(&self, workspace: WorkspaceId, name: String, value: String) -> Result<u64, Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.put_secret(&workspace, &name, &value).await }).await
    }

    pub(crate) async fn push_flow(
        &self,
        workspace: WorkspaceId,
        source: Arc<str>,
        by: String,
    ) -> Result<semel_engine::Pushed, Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move {
            engine.push_flow(&workspace, &source, &by).await.map_err(|error| not_pushed(error, &source))
        })
        .await
    }

    /// As [`AppState::push_flow`], for a door that words its refusals itself.
    pub(crate) async fn push_flow_if(
        &self,
        workspace: WorkspaceId,
        source: Arc<str>,
        by: String,
        rule: PushRule,
    ) -> Result<semel_engine::Pushed, PushError> {
        let engine = self.engine().clone();
        let pushing = tokio::spawn(async move { engine.push_flow_if(&workspace, &source, &by, rule).await });
        pushing.await.unwrap_or_else(|_| Err(StoreError::Bug("a push panicked".to_owned()).into()))
    }

    /// The revision that says that the flow is gone; `None` when there is no such flow.
    pub(crate) async fn delete_flow(
        &self,
        workspace: WorkspaceId,
        flow: FlowRef,
        by: String,
    ) -> Result<Option<u32>, Problem> {
        let engine = self.engine().clone();
        self.to_the_end(async move { engine.delete_flow(&workspace, &flow, &by).await }).await
    }

    /// Waits for a run's end, but not into the server's own.
    pub(crate) async fn wait_ended(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        limit: Duration,
    ) -> Result<bool, Problem> {
        tokio::select! {
            ended = self.engine().wait_ended(workspace, run, limit) => Ok(ended?),
            () = self.stopping().cancelled() => Ok(false),
        }
    }
}
