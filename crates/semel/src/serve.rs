//! The only place where the parts are put together: logs, data directory, store, engine, HTTP server, signals.
//!
//! | what happens | what the process does |
//! |---|---|
//! | the address or the store is in use | exit 1 before anything is changed |
//! | SIGTERM, Ctrl-C | stops taking work, drains for at most 30 s, exit 0 |
//! | a second one | ends at once; the next start goes on where this one stopped |
//! | the store can no longer be trusted | stops, says why, exit 1 |

mod admin_token;
mod data_dir;
mod logging;
mod secret_key;

use crate::SCRIPT_CHILD;
use crate::config::{Config, StorePath};
use crate::failure::Failure;
use crate::output::{Reply, Shell, say};
use crate::signals::Stop;
use semel_core::WorkspaceId;
use semel_engine::files::StoreFiles;
use semel_engine::items::ItemExpressions;
use semel_engine::secrets::MasterKey;
use semel_engine::system::{RealPerformer, SystemClock, SystemEntropy};
use semel_engine::{Engine, Parts};
use semel_server::{AppState, ServerConfig, TriggerScope};
use semel_store::{Store, StoreError, SweepRules, Work, WorkspaceRow};
use semel_store_postgres::PostgresStore;
use semel_store_sqlite::{OpenError, SqliteStore};
use semel_tasks::nats::Nats;
use semel_tasks::{Equipment, JavascriptConfig, NetConfig, PrivatePolicy, ScriptConfig};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const DRAIN_MAX: Duration = Duration::from_secs(30);
const SAME_WISH: Duration = Duration::from_millis(250);
/// Rows a sweep removes at once: few enough that admissions do not wait for it.
const SWEEP_ROWS_MAX: u32 = 500;
/// No file takes as long as this to be written, and no run to be admitted after the files of its inputs.
const UPLOAD_MS_MAX: i64 = 86_400_000;
const HEALTH_EVERY: Duration = Duration::from_millis(250);
const READY_EVERY: Duration = Duration::from_millis(5);

/// What only programs that start a server ask for.
pub struct Extras {
    pub port_file: Option<PathBuf>,
    pub until_stdin_ends: bool,
}

pub fn run(config: Config, extras: Extras, shell: &Shell) -> Result<Reply, Failure> {
    logging::start(&config, shell)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::refused("no_runtime", error.to_string()))?;
    runtime.block_on(serve(config, extras, shell))
}

async fn serve(config: Config, extras: Extras, shell: &Shell) -> Result<Reply, Failure> {
    let stop = Stop::listen().map_err(|error| Failure::refused("no_signals", error.to_string()))?;
    // First of all: a second server on one address must not get as far as the data.
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().map_err(|error| Failure::refused("listen", error.to_string()))?;
    data_dir::prepare(&config.data_dir)?;
    let store = open_store(&config, address)?;
    admin_token::ensure(store.as_ref(), &config, shell)?;
    let nats = config.nats.as_deref().map(Nats::new).transpose();
    let nats = nats.map_err(|error| Failure::config(format!("nats.url: {error}")))?;
    let engine = start_engine(store.clone(), &config, address, nats.clone())?;
    let app = AppState::new(engine.clone(), server_config(&config));

    let shutdown = CancellationToken::new();
    tokio::spawn(until_stopped(stop, extras.until_stdin_ends, shutdown.clone()));
    tokio::spawn(until_poisoned(engine.clone(), shutdown.clone()));
    tokio::spawn(engine.clone().run_background(sweep_rules(&config)));
    if let Some(nats) = nats {
        tokio::spawn(engine.clone().listen(nats));
    }
    tokio::spawn(announce(engine.clone(), config.clone(), address, extras.port_file));
    let mut serving = tokio::spawn(semel_server::serve(listener, app, shutdown.clone()));
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        _ = &mut serving => tracing::error!("the listener ended by itself; stopping"),
    }
    shutdown.cancel();
    let stopping = Instant::now();
    if !serving.is_finished() {
        // Open requests first, for they may still need the engine; both within one limit.
        let _ = tokio::time::timeout(DRAIN_MAX, serving).await;
    }
    engine.shutdown(DRAIN_MAX.saturating_sub(stopping.elapsed())).await;
    match engine.health() {
        Err(error) if error.is_fatal() => Err(poisoned(&error)),
        _ => Ok(Reply::already_printed()),
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::refused("listen", format!("cannot listen on {address}: {error}"));
        match error.kind() {
            std::io::ErrorKind::AddrInUse => failure.hint("another program has that port; give --listen another one"),
            _ => failure,
        }
    })
}

fn open_store(config: &Config, address: SocketAddr) -> Result<Arc<dyn Store>, Failure> {
    let store: Arc<dyn Store> = match &config.store {
        StorePath::Sqlite(path) => SqliteStore::open(path, semel_store_sqlite::Options::default())
            .map_err(|error: OpenError| Failure::refused(error.code(), error.to_string()))?,
        StorePath::Postgres(database) => {
            let name = format!("{}:{}", hostname(), address.port());
            let options = semel_store_postgres::Options { name, ..semel_store_postgres::Options::default() };
            PostgresStore::open(database, options).map_err(|error| Failure::refused(error.code(), error.to_string()))?
        }
    };
    ensure_main(store.as_ref())?;
    tell_restored(store.as_ref())?;
    Ok(store)
}

/// What this machine is called, for a list of nodes; nothing depends on it.
fn hostname() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    told.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "node".to_owned())
}

/// Whoever reads the log of a restored store must know that part of its past is lost.
fn tell_restored(store: &dyn Store) -> Result<(), Failure> {
    let told = store.audit(&mut |audit| {
        if let Some(row) = audit.restored()? {
            let (backup_at, restored_at) = (row.backup_at.to_rfc3339(), row.restored_at.to_rfc3339());
            tracing::warn!(
                incarnation = row.incarnation,
                backup_at,
                restored_at,
                "this store was restored from a backup; `semel run list --status held` shows what waits to be released"
            );
        }
        Ok(())
    });
    told.map_err(|error: StoreError| Failure::refused(error.code(), error.to_string()))
}

/// The default workspace is there from the first start on.
fn ensure_main(store: &dyn Store) -> Result<(), Failure> {
    let broken = |error: StoreError| Failure::refused(error.code(), error.to_string());
    let main = WorkspaceId::default();
    if !store.workspaces().map_err(broken)?.iter().any(|row| row.id == main) {
        store.call(Work::PutWorkspace(WorkspaceRow { id: main, created_at: store.now() })).map_err(broken)?;
    }
    Ok(())
}

/// Starts the engine, which recovers what an earlier process left.
fn start_engine(
    store: Arc<dyn Store>,
    config: &Config,
    address: SocketAddr,
    nats: Option<Nats>,
) -> Result<Arc<Engine>, Failure> {
    let limits = &config.limits;
    let net = NetConfig {
        private: if config.outbound_private_allowed { PrivatePolicy::Allow } else { PrivatePolicy::Deny },
        allow: config.outbound_allow.clone(),
        timeout_ms: limits.http_timeout_ms,
        answer_bytes_max: limits.http_answer_bytes_max,
        calls_max: limits.http_calls_max,
        calls_per_host_max: limits.http_calls_per_host_max,
    };
    let entropy = Arc::new(SystemEntropy);
    let files = StoreFiles { store: store.clone(), entropy: entropy.clone(), bytes_max: limits.file_bytes_max };
    let equipment = Equipment {
        files: Arc::new(files),
        items: Arc::new(ItemExpressions { store: store.clone(), entropy: entropy.clone() }),
        scripts: config.scripts.clone().map(|directory| ScriptConfig { directory }),
        limits: limits.clone(),
    };
    let performer = semel_tasks::Performer::equipped(net, equipment)
        .map_err(|error| Failure::config(format!("outbound: {error}")))?;
    let performer = performer.with_nats(nats.clone());
    let performer = match std::env::current_exe() {
        Ok(program) => performer.with_javascript(JavascriptConfig::new(program, vec![SCRIPT_CHILD.to_owned()])),
        // Then scripts fail with a message, and all else works.
        Err(_) => performer,
    };
    Ok(Engine::start(Parts {
        store,
        clock: Arc::new(SystemClock),
        entropy,
        performer: Arc::new(RealPerformer(performer)),
        catalog: &semel_tasks::REGISTRY,
        limits: limits.clone(),
        master_key: Some(MasterKey::new(secret_key::load(&config.secret_key)?)),
        environment: std::env::vars().collect(),
        url: Some(format!("http://{address}")),
    }))
}

fn sweep_rules(config: &Config) -> SweepRules {
    SweepRules {
        limit: SWEEP_ROWS_MAX,
        decisions_ms: config.retention_decisions_ms,
        uploads_ms: UPLOAD_MS_MAX,
        history_ms: config.retention_history_ms,
    }
}

fn server_config(config: &Config) -> ServerConfig {
    ServerConfig {
        dev: config.dev,
        limits: config.limits.clone(),
        trigger_scope: if config.trigger_scope_workspace { TriggerScope::Workspace } else { TriggerScope::Flow },
        correlation_guard: config.correlation_guard,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..ServerConfig::default()
    }
}

/// Waits for recovery, then says so: to people on stderr, to programs in the port file.
async fn announce(engine: Arc<Engine>, config: Config, address: SocketAddr, port_file: Option<PathBuf>) {
    while !engine.is_ready() {
        tokio::time::sleep(READY_EVERY).await;
    }
    let dev = if config.dev { ", dev" } else { "" };
    say(&format!("semel {} ready on http://{address} (store {}{dev})", env!("CARGO_PKG_VERSION"), config.store));
    if let Some(path) = port_file {
        // Written as a whole: whoever waits for the file never reads half an address.
        if let Err(failure) = data_dir::write_private(&path, &address.to_string()) {
            tracing::warn!("{}", failure.message());
        }
    }
}

/// The first wish to stop is granted in an orderly way, the second at once.
async fn until_stopped(mut stop: Stop, until_stdin_ends: bool, shutdown: CancellationToken) {
    tokio::select! {
        () = stop.next() => {}
        () = stdin_ended(), if until_stdin_ends => {}
        () = shutdown.cancelled() => {}
    }
    shutdown.cancel();
    tracing::info!("stopping; once more to end at once");
    // Terminals and timeout(1) signal the process and then its group: that is one wish, told twice.
    let _ = tokio::time::timeout(SAME_WISH, async {
        loop {
            stop.next().await
        }
    })
    .await;
    stop.next().await;
    say("ended at once; the next start goes on where this one stopped");
    std::process::exit(1);
}

async fn stdin_ended() {
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own: a read of stdin cannot be cancelled, and must not hold up the runtime's end.
    std::thread::spawn(move || {
        // An error ends it like an end does.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(tell);
    });
    // The channel closes when the thread is through.
    let _ = told.await;
}

async fn until_poisoned(engine: Arc<Engine>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = engine.health()
            && error.is_fatal()
        {
            tracing::error!(%error, "the store can no longer be trusted; stopping");
            shutdown.cancel();
        }
        tokio::time::sleep(HEALTH_EVERY).await;
    }
}

fn poisoned(error: &StoreError) -> Failure {
    Failure::refused(error.code(), error.to_string())
        .hint("what was answered is safe; look at the disk before starting again, and keep a copy of the file")
}
