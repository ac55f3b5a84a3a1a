//! Registered task definitions, as they were read last. They are asked for at every poll and every task, and where the
//! store is another machine each time would be a journey.

use crate::scope::Services;
use parking_lot::Mutex;
use semel_core::{Millis, WorkspaceId};
use semel_store::{StoreError, TASK_DEFINITIONS, Work};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What another node has registered anew counts here after so long.
const TRUSTED_MS: i64 = 1_000;
/// Definitions that are remembered; more are read each time.
const KNOWN_MAX: usize = 10_000;

#[derive(Default)]
pub struct TaskBook(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// How often definitions were written here: what was read before is not remembered after.
    writes: u64,
    known: BTreeMap<(WorkspaceId, String), (Millis, Arc<Json>)>,
}

impl TaskBook {
    /// Something was registered or taken away at this node.
    pub(crate) fn forget(&self) {
        let mut book = self.0.lock();
        book.writes += 1;
        book.known.clear();
    }
}

/// Whether a write changes a registered definition.
pub(crate) fn is_task_definition(work: &Work) -> bool {
    match work {
        Work::KvSet { namespace, .. } | Work::KvDelete { namespace, .. } => namespace == TASK_DEFINITIONS,
        _ => false,
    }
}

impl Services {
    /// The registered definition of a task, if there is one.
    pub(crate) fn task_definition(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<Arc<Json>>, StoreError> {
        let read = || Ok(self.store.kv(workspace, TASK_DEFINITIONS, name)?.map(|row| Arc::new(row.value)));
        if self.store.cluster().is_none() {
            return read();
        }
        let (key, now) = ((workspace.clone(), name.to_owned()), self.store.now());
        let before = {
            let book = self.tasks.0.lock();
            match book.known.get(&key) {
                Some((at, known)) if now.since(*at) < TRUSTED_MS => return Ok(Some(known.clone())),
                _ => book.writes,
            }
        };
        // One that is not there is looked for each time: it may have just been registered elsewhere.
        let Some(found) = read()? else { return Ok(None) };
        let mut book = self.tasks.0.lock();
        if book.writes == before && (book.known.len() < KNOWN_MAX || book.known.contains_key(&key)) {
            book.known.insert(key, (now, found.clone()));
        }
        Ok(Some(found))
    }
}
