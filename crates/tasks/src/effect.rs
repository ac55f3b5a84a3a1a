//! Tasks that leave the process.
//!
//! The engine makes the intent durable, calls [`Performer::perform`], and makes the outcome
//! durable. The performer's one duty besides the call is to tell apart what surely did not
//! happen, what was answered, and what may have happened unseen.

use crate::TaskError;
use crate::files::{Desk, Expressions, Files, Home};
use crate::inline::{Level, LogLine};
use crate::javascript::{Javascript, JavascriptConfig};
use crate::nats::Nats;
use crate::net::{CallError, Lookup, Net, NetConfig, NetError};
use crate::registry::{self, REGISTRY, Work};
use crate::script::{ScriptConfig, Scripts};
use semel_core::ir::{Catalog, EffectClass};
use semel_core::limits::Limits;
use serde_json::Value as Json;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// One attempt at an effect, as the durable intent describes it.
#[derive(Clone)]
pub struct Request {
    /// Stable id of the step, hex. The same for each attempt.
    pub step_id: String,
    pub type_name: String,
    /// Rendered, secrets filled in.
    pub config: Json,
    /// The attempt surely ends within this time of its first byte; a takeover relies on it.
    pub timeout_ms: u64,
    /// Outbound key to send, unless the author set one.
    pub idempotency_key: Option<String>,
    /// No byte may leave at or after this instant.
    pub send_before: Option<Instant>,
    pub traceparent: Option<String>,
    /// Where the files of the step are.
    pub home: Home,
    /// What the step has to say while it is performed.
    pub log: Log,
    pub stop: Stop,
}

/// Tells whoever performs a step that its run is being cancelled. Only scripts listen: a request that has left cannot be
/// called back.
#[derive(Clone, Default)]
pub struct Stop(Arc<(AtomicBool, Notify)>);

impl Stop {
    pub fn ask(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.0.1.notify_one();
    }

    /// Ends when it is asked for.
    pub async fn asked(&self) {
        while !self.0.0.load(Ordering::SeqCst) {
            self.0.1.notified().await;
        }
    }
}

/// Lines of a step's log, gathered while it is performed. Clones share them.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<LogLine>>>);

impl Log {
    pub fn say(&self, level: Level, message: impl Into<String>) {
        // A line of a thread that has panicked is worth no less.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(LogLine { level, message: message.into() });
    }

    pub fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The code of a call that was not made because the node's lease was over: provably nothing has left.
pub const LEASE_LAPSED: &str = "lease_lapsed";

#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Outcome {
    Done {
        output: Json,
    },
    /// The far side answered, or provably never got the request.
    FailedClean {
        code: &'static str,
        message: String,
        output: Option<Json>,
        /// The same request may well succeed later.
        retryable: bool,
    },
    /// Bytes may have left and no complete answer was read.
    Lost {
        code: &'static str,
        message: String,
    },
}

impl From<TaskError> for Outcome {
    fn from(error: TaskError) -> Outcome {
        Outcome::FailedClean { code: error.code, message: error.message, output: None, retryable: false }
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Outcome {
        match error {
            CallError::Clean { code, message, retryable, answer: _ } => {
                Outcome::FailedClean { code, message, output: None, retryable }
            }
            CallError::Lost { code, message } => Outcome::Lost { code, message },
        }
    }
}

/// What performers work with.
pub(crate) struct Tools {
    pub net: Net,
    files: Option<Arc<dyn Files>>,
    items: Option<Arc<dyn Expressions>>,
    pub scripts: Option<Arc<Scripts>>,
    pub javascript: Option<Arc<Javascript>>,
    pub nats: Option<Nats>,
    pub limits: Limits,
}

impl Tools {
    pub fn desk(&self, request: &Request) -> Result<Desk, TaskError> {
        let files = self.files.clone();
        let files = files.ok_or(TaskError { code: "file_store", message: "no files can be kept here".to_owned() })?;
        let until = Instant::now().checked_add(Duration::from_millis(request.timeout_ms));
        Ok(Desk { files, items: self.items.clone(), home: request.home.clone(), until })
    }
}

/// The work of a task on files alone: it waits for the store, on a thread that may.
pub(crate) type FileWork = fn(&Desk, &Request, &Limits) -> Result<Json, TaskError>;

pub(crate) fn blocking(tools: &Tools, request: Request, work: FileWork) -> Performing<'_> {
    Box::pin(async move {
        let desk = match tools.desk(&request) {
            Ok(desk) => desk,
            Err(error) => return error.into(),
        };
        let (limits, time) = (tools.limits.clone(), Duration::from_millis(request.timeout_ms));
        let working = tokio::task::spawn_blocking(move || work(&desk, &request, &limits));
        match tokio::time::timeout(time, working).await {
            Ok(Ok(Ok(output))) => Outcome::Done { output },
            Ok(Ok(Err(error))) => error.into(),
            Ok(Err(panicked)) => TaskError { code: "internal", message: panicked.to_string() }.into(),
            Err(_) => TaskError { code: "timeout", message: format!("not done within {} ms", time.as_millis()) }.into(),
        }
    })
}

pub(crate) type Performing<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// What an effect type brings to the registry.
pub(crate) struct EffectWork {
    pub class: fn(&Json) -> EffectClass,
    pub sends_key: fn(&Json) -> bool,
    pub timeout_ms: fn(&Json) -> Option<u64>,
    pub perform: for<'a> fn(&'a Tools, Request) -> Performing<'a>,
}

/// The work of a type that only computes: repeated without a thought, no key, no time of its own.
pub(crate) const fn pure() -> EffectWork {
    fn nothing(_: &Tools, request: Request) -> Performing<'_> {
        Box::pin(async move { TaskError::unknown_type(&request.type_name).into() })
    }
    EffectWork { class: |_| EffectClass::Pure, sends_key: |_| false, timeout_ms: |_| None, perform: nothing }
}

/// The class of a step whose author declared none. An unknown type is naked: the safest guess.
pub fn effect_class(type_name: &str, config: &Json) -> EffectClass {
    match registry::work(type_name) {
        Some(Work::Effect(work)) => (work.class)(config),
        Some(Work::Inline(_) | Work::Op(_)) | None => {
            REGISTRY.find(type_name).map_or(EffectClass::Naked, |spec| spec.class)
        }
    }
}

/// Does a step of this type send the key it is given?
pub fn sends_idempotency_key(type_name: &str, config: &Json) -> bool {
    match registry::work(type_name) {
        Some(Work::Effect(work)) => (work.sends_key)(config),
        Some(Work::Inline(_) | Work::Op(_)) | None => false,
    }
}

/// How long the author lets the far side take, if the properties say so. The engine needs it
/// before the call, to write a truthful [`Request::timeout_ms`] into the intent.
pub fn timeout_hint_ms(type_name: &str, config: &Json) -> Option<u64> {
    match registry::work(type_name) {
        Some(Work::Effect(work)) => (work.timeout_ms)(config),
        Some(Work::Inline(_) | Work::Op(_)) | None => None,
    }
}

/// What a performer works with besides the network.
pub struct Equipment {
    pub files: Arc<dyn Files>,
    pub items: Arc<dyn Expressions>,
    /// `None`: scripts are turned off.
    pub scripts: Option<ScriptConfig>,
    pub limits: Limits,
}

/// Performs effects. Clones share connections and limits.
#[derive(Clone)]
pub struct Performer {
    tools: Arc<Tools>,
}

impl Performer {
    pub fn new(config: NetConfig) -> Result<Performer, NetError> {
        Ok(Performer::with(Net::new(&config)?))
    }

    /// With another source of addresses than the operating system.
    pub fn with_lookup(config: NetConfig, lookup: Arc<dyn Lookup>) -> Result<Performer, NetError> {
        Ok(Performer::with(Net::with_lookup(&config, lookup)?))
    }

    fn with(net: Net) -> Performer {
        let limits = Limits::default();
        let tools = Tools { net, files: None, items: None, scripts: None, javascript: None, nats: None, limits };
        Performer { tools: Arc::new(tools) }
    }

    /// One that also keeps files, and runs scripts if it is told where.
    pub fn equipped(config: NetConfig, equipment: Equipment) -> Result<Performer, NetError> {
        let Equipment { files, items, scripts, limits } = equipment;
        let scripts = scripts.map(|config| Arc::new(Scripts::new(config, limits.scripts_max)));
        let (files, items) = (Some(files), Some(items));
        let tools = Tools { net: Net::new(&config)?, files, items, scripts, javascript: None, nats: None, limits };
        Ok(Performer { tools: Arc::new(tools) })
    }

    /// One that also runs the scripts of Conductor's definitions. To be called before it is shared.
    pub fn with_javascript(mut self, config: JavascriptConfig) -> Performer {
        if let Some(tools) = Arc::get_mut(&mut self.tools) {
            tools.javascript = Some(Arc::new(Javascript::new(config)));
        }
        self
    }

    /// One that also publishes. To be called before it is shared.
    pub fn with_nats(mut self, nats: Option<Nats>) -> Performer {
        if let Some(tools) = Arc::get_mut(&mut self.tools) {
            tools.nats = nats;
        }
        self
    }

    pub async fn perform(&self, request: Request) -> Outcome {
        match registry::work(&request.type_name) {
            Some(Work::Effect(work)) => (work.perform)(&self.tools, request).await,
            Some(Work::Inline(_) | Work::Op(_)) | None => TaskError::unknown_type(&request.type_name).into(),
        }
    }
}
