//! Flows ready to run, and the cache of them.

use crate::api::FlowLookupError;
use crate::conductor::limit_by_tag;
use parking_lot::RwLock;
use semel_core::ir::{Dialect, Flow, LeafMode, Task, TaskKind, Trigger, TriggerKind};
use semel_core::run::FlowIndex;
use semel_core::{FlowRef, Millis, WorkspaceId, planted};
use semel_expr::Value;
use semel_store::{FlowRow, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One revision of a flow, compiled and indexed.
#[derive(Clone, Debug)]
pub struct LoadedFlow {
    pub flow_ref: FlowRef,
    pub revision: u32,
    pub index: FlowIndex,
    pub source: String,
    /// `vars.*`: author text, rendered on access.
    pub vars: Value,
    /// Some expression asks for the states of tasks, which are kept then.
    pub reads_tasks: bool,
    /// Some expression asks for what a task was given, which is computed again then.
    pub reads_inputs: bool,
    /// Some expression asks for what was set for the workspace, which is read then.
    pub reads_environment: bool,
    /// It only computes, and not for long: a run of it may be done in the commit that admits it.
    pub is_brief: bool,
    /// Top-level task id → ids of everything inside it, itself included.
    inside: BTreeMap<String, BTreeSet<String>>,
}

impl LoadedFlow {
    /// Reads a stored revision. A stored flow compiled once, so a failure means damage.
    pub fn from_row(row: &FlowRow) -> Result<LoadedFlow, StoreError> {
        let flow: Flow = serde_json::from_str(&row.ir)
            .map_err(|e| StoreError::Bug(format!("flow {} revision {} does not load: {e}", row.flow, row.revision)))?;
        let vars = match flow.dialect {
            Dialect::Kestra => Value::deferred_tree(&flow.variables)
                .map_err(|e| StoreError::Bug(format!("variables of {} do not parse: {}", row.flow, e.message)))?,
            Dialect::Conductor => Value::from_json(&flow.variables),
        };
        let vars = if vars == Value::Null { Value::map(indexmap::IndexMap::new()) } else { vars };
        let mut inside = BTreeMap::new();
        for task in &flow.tasks {
            let mut ids = BTreeSet::new();
            collect_ids(&serde_json::json!(task), &mut ids);
            inside.insert(task.id.clone(), ids);
        }
        let flow_dialect = flow.dialect;
        let index = FlowIndex::new(flow);
        Ok(LoadedFlow {
            flow_ref: row.flow.clone(),
            revision: row.revision,
            reads_tasks: flow_dialect == Dialect::Kestra && reads_tasks(&row.ir),
            reads_inputs: flow_dialect == Dialect::Conductor && reads_inputs(&row.ir),
            reads_environment: flow_dialect == Dialect::Conductor && reads_environment(&row.ir),
            is_brief: is_brief(&index),
            index,
            source: row.source.clone(),
            vars,
            inside,
        })
    }

    pub fn is_conductor(&self) -> bool {
        self.index.flow.dialect == Dialect::Conductor
    }

    /// Is task `id` the top-level task `top` or inside it?
    pub fn is_within(&self, top: &str, id: &str) -> bool {
        self.inside.get(top).is_some_and(|ids| ids.contains(id))
    }
}

/// Whether the text of a flow may name `tasks` in an expression. Too often costs memory, never a wrong answer.
fn reads_tasks(ir: &str) -> bool {
    let named = ["tasksWithState", "printContext", "fetchContext"].iter().any(|name| ir.contains(name));
    let before =
        |at: usize| ir[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"'));
    let after = |at: usize| ir[at..].trim_start().starts_with(['.', '[', '|', '}']);
    named || ir.match_indices("tasks").any(|(at, word)| !before(at) && after(at + word.len()))
}

/// Whether an expression of a Conductor workflow may name the input of a task. Too often costs time, never a wrong answer.
fn reads_inputs(ir: &str) -> bool {
    let of_task = |at: usize| !ir[..at].ends_with("workflow") && !ir[..at].ends_with("~item");
    ir.match_indices(".input").any(|(at, _)| of_task(at)) || ir.contains("['input']") || ir.contains(".${")
}

/// Whether an expression may name `workflow.env`. Too often costs time, never a wrong answer.
fn reads_environment(ir: &str) -> bool {
    ir.contains(".env") || ir.contains("['env']") || ir.contains("${workflow}") || ir.contains(".${")
}

/// Tasks of a flow that is done at its door.
const BRIEF_TASKS_MAX: usize = 64;

/// Nothing in the flow waits, repeats or reaches outside.
fn is_brief(index: &FlowIndex) -> bool {
    let computes = |task: &Task| match &task.kind {
        TaskKind::Leaf { mode, .. } => *mode == LeafMode::Inline,
        TaskKind::Exit { .. } => true,
        TaskKind::ForEach { .. } | TaskKind::LoopUntil(_) | TaskKind::Loop(_) | TaskKind::Pause(_) => false,
        TaskKind::Sleep { .. } | TaskKind::Subflow(_) => false,
        kind => kind.handlers().is_some(),
    };
    index.tasks().count() <= BRIEF_TASKS_MAX && index.tasks().all(computes)
}

/// Ids of all tasks in a task's JSON: objects that have both `id` and `type`.
fn collect_ids(json: &serde_json::Value, ids: &mut BTreeSet<String>) {
    match json {
        serde_json::Value::Object(map) => {
            if let (Some(serde_json::Value::String(id)), true) = (map.get("id"), map.contains_key("type")) {
                ids.insert(id.clone());
            }
            map.values().for_each(|v| collect_ids(v, ids));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|v| collect_ids(v, ids)),
        _ => {}
    }
}

type Key = (WorkspaceId, FlowRef);

/// A trigger that hears of runs, and the flow it belongs to.
#[derive(Clone, Debug)]
pub struct Listener {
    pub flow: Arc<LoadedFlow>,
    /// Its place among the flow's triggers.
    at: usize,
}

impl Listener {
    pub fn trigger(&self) -> &Trigger {
        &self.flow.index.flow.triggers[self.at]
    }

    /// It fires for other runs in this state.
    pub fn hears(&self, state: &str) -> bool {
        match &self.trigger().kind {
            TriggerKind::Flow { states, .. } => states.iter().any(|one| one == state),
            TriggerKind::Webhook { .. }
            | TriggerKind::Schedule { .. }
            | TriggerKind::ScheduleOnDates { .. }
            | TriggerKind::Http { .. } => false,
        }
    }

    /// It is switched off by a run of its own in this state.
    pub fn stops(&self, state: &str) -> bool {
        self.trigger().stop_after.iter().any(|one| one == state)
    }
}

/// The flow triggers of a workspace, in order of flow and trigger.
type Listeners = Arc<Vec<Listener>>;
/// Name without a namespace → the flow that has it, with the instant at which that was read.
type Names = BTreeMap<String, (FlowRef, Millis)>;

/// Newest revisions and the ones that runs pin, read once.
pub struct Flows {
    store: Arc<dyn Store>,
    /// With the instant at which each was read.
    heads: RwLock<BTreeMap<Key, (Arc<LoadedFlow>, Millis)>>,
    /// Pushes so far: what was read before one is not kept after it.
    pushes: AtomicU64,
    pinned: RwLock<BTreeMap<(Key, u32), Arc<LoadedFlow>>>,
    /// With the instant at which they were read.
    listeners: RwLock<BTreeMap<WorkspaceId, (Listeners, Millis)>>,
    /// Workspace → name without a namespace → the one flow that has it, with the instant at which that was read. Most
    /// callers name their flow so, and would pay for a look into the store with every event.
    names: RwLock<BTreeMap<WorkspaceId, Names>>,
}

const HEAD_TRUSTED_MS: i64 = 1_000;
/// Versions of a workflow that are read at once.
const VERSIONS_PAGE: u32 = 100;
/// Pinned revisions kept in memory; more are read from the store when needed.
const PINNED_MAX: usize = 1_024;

impl Flows {
    pub fn new(store: Arc<dyn Store>) -> Flows {
        Flows {
            store,
            heads: RwLock::default(),
            pushes: AtomicU64::new(0),
            pinned: RwLock::default(),
            listeners: RwLock::default(),
            names: RwLock::default(),
        }
    }

    /// The newest revision.
    pub fn head(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        let key = (workspace.clone(), flow.clone());
        if let Some((found, at)) = self.heads.read().get(&key)
            && self.is_fresh(*at)
        {
            return Ok(found.clone());
        }
        let before = self.pushes.load(Ordering::SeqCst);
        let row = self.store.flow(workspace, flow, None)?.ok_or_else(|| FlowLookupError::Unknown(flow.to_string()))?;
        let mut loaded = LoadedFlow::from_row(&row)?;
        if let Some(lane) = limit_by_tag(self.store.as_ref(), workspace, &loaded)? {
            loaded.index.flow.lane = Some(lane);
        }
        let loaded = Arc::new(loaded);
        let mut heads = self.heads.write();
        if self.pushes.load(Ordering::SeqCst) == before {
            heads.insert(key, (loaded.clone(), self.store.now()));
        }
        Ok(loaded)
    }

    /// A push at another node is told to this one; if that is lost, the store is looked at again after a while.
    fn is_fresh(&self, read_at: Millis) -> bool {
        self.store.cluster().is_none() || self.store.now().since(read_at) < HEAD_TRUSTED_MS
    }

    /// The revision a run was admitted with.
    pub fn revision(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        revision: u32,
    ) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        if planted!(RunFollowsNewestFlow) {
            return self.head(workspace, flow);
        }
        let key = (workspace.clone(), flow.clone());
        if let Some((found, _)) = self.heads.read().get(&key).filter(|(f, _)| f.revision == revision) {
            return Ok(found.clone());
        }
        if let Some(found) = self.pinned.read().get(&(key.clone(), revision)) {
            return Ok(found.clone());
        }
        let row = self.store.flow(workspace, flow, Some(revision))?;
        let row = row.ok_or_else(|| FlowLookupError::Unknown(format!("{flow} revision {revision}")))?;
        let loaded = Arc::new(LoadedFlow::from_row(&row)?);
        let mut pinned = self.pinned.write();
        if pinned.len() >= PINNED_MAX {
            pinned.clear();
        }
        pinned.insert((key, revision), loaded.clone());
        Ok(loaded)
    }

    /// The newest version of a Conductor workflow.
    pub fn newest_version(
        &self,
        workspace: &WorkspaceId,
        namespace: &str,
        name: &str,
    ) -> Result<Option<u32>, StoreError> {
        let prefix = format!("{name}@");
        let mut newest = None;
        let mut after = FlowRef::new(namespace, &prefix);
        loop {
            let page = self.store.flows(workspace, Some(&after), VERSIONS_PAGE)?;
            let Some(last) = page.last() else { return Ok(newest) };
            let last = last.flow.clone();
            let own = |row: &FlowRow| row.flow.namespace == namespace && row.flow.id.starts_with(&prefix);
            let versions =
                page.iter().filter(|row| own(row)).filter_map(|row| row.flow.id[prefix.len()..].parse().ok());
            newest = versions.chain(newest).max();
            if page.len() < VERSIONS_PAGE as usize || !own(&page[page.len() - 1]) {
                return Ok(newest);
            }
            after = last;
        }
    }

    /// `id` where that is unique in the workspace, or `namespace:id`.
    pub fn resolve(&self, workspace: &WorkspaceId, name: &str) -> Result<Arc<LoadedFlow>, FlowLookupError> {
        if let Some((namespace, id)) = name.split_once(':') {
            return self.head(workspace, &FlowRef::new(namespace, id));
        }
        let known = self.names.read().get(workspace).and_then(|names| names.get(name).cloned());
        if let Some((flow, at)) = known
            && self.is_fresh(at)
        {
            return self.head(workspace, &flow);
        }
        let before = self.pushes.load(Ordering::SeqCst);
        let mut rows = self.store.flows_named(workspace, name)?;
        match rows.len() {
            0 => Err(FlowLookupError::Unknown(name.to_owned())),
            1 => {
                let flow = rows.remove(0).flow;
                let mut names = self.names.write();
                if self.pushes.load(Ordering::SeqCst) == before {
                    let own = names.entry(workspace.clone()).or_default();
                    own.insert(name.to_owned(), (flow.clone(), self.store.now()));
                }
                drop(names);
                self.head(workspace, &flow)
            }
            _ => Err(FlowLookupError::Ambiguous {
                name: name.to_owned(),
                candidates: rows.into_iter().map(|r| r.flow.to_string()).collect(),
            }),
        }
    }

    /// Who hears of the workspace's runs.
    pub fn listeners(&self, workspace: &WorkspaceId) -> Result<Listeners, StoreError> {
        if let Some((found, at)) = self.listeners.read().get(workspace)
            && self.is_fresh(*at)
        {
            return Ok(found.clone());
        }
        let before = self.pushes.load(Ordering::SeqCst);
        let mut found = Vec::new();
        let mut flows: Vec<FlowRef> = self.store.schedules(workspace)?.into_iter().map(|row| row.flow).collect();
        flows.dedup();
        for name in flows {
            let flow = match self.head(workspace, &name) {
                Ok(flow) => flow,
                Err(FlowLookupError::Store(error)) => return Err(error),
                // Removed since.
                Err(FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. }) => continue,
            };
            let triggers = flow.index.flow.triggers.iter().enumerate();
            let hears = |t: &Trigger| matches!(t.kind, TriggerKind::Flow { .. }) || !t.stop_after.is_empty();
            let heard = triggers.filter(|(_, t)| !t.disabled && hears(t));
            found.extend(heard.map(|(at, _)| Listener { flow: flow.clone(), at }));
        }
        let found = Arc::new(found);
        let mut listeners = self.listeners.write();
        if self.pushes.load(Ordering::SeqCst) == before {
            listeners.insert(workspace.clone(), (found.clone(), self.store.now()));
        }
        Ok(found)
    }

    /// Whether anybody hears of one of these states. If that cannot be read now, somebody may.
    pub fn is_heard(&self, workspace: &WorkspaceId, states: &[&str]) -> bool {
        let hears = |one: &Listener| states.iter().any(|state| one.hears(state) || one.stops(state));
        self.listeners(workspace).map_or(true, |listeners| listeners.iter().any(hears))
    }

    /// A push changed the newest revision.
    pub fn forget(&self, workspace: &WorkspaceId, flow: &FlowRef) {
        let mut heads = self.heads.write();
        self.listeners.write().remove(workspace);
        let mut names = self.names.write();
        if let Some(own) = names.get_mut(workspace) {
            own.remove(&flow.id);
        }
        self.pushes.fetch_add(1, Ordering::SeqCst);
        heads.remove(&(workspace.clone(), flow.clone()));
    }
}
