//! No more calls at once than configured, in all and per host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Above this many hosts, those without a call are forgotten.
const HOSTS_KEPT_MAX: usize = 256;

pub struct Slots {
    all: Arc<Semaphore>,
    per_host_max: usize,
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// Holds the places of one call until it is dropped.
pub struct Slot {
    _host: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Slots {
    pub fn new(all_max: usize, per_host_max: usize) -> Slots {
        let all = Arc::new(Semaphore::new(all_max.min(Semaphore::MAX_PERMITS)));
        Slots { all, per_host_max: per_host_max.min(Semaphore::MAX_PERMITS), hosts: Mutex::default() }
    }

    /// Waits for a place at the host first, so that calls queued for one slow host do not take
    /// the common places from all others. `None` if the semaphores were closed, which never happens.
    pub async fn take(&self, host: &str) -> Option<Slot> {
        let host = self.host(host).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot { _host: host, _all: all })
    }

    fn host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(host).and_then(Weak::upgrade) {
            return known;
        }
        if hosts.len() >= HOSTS_KEPT_MAX {
            hosts.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let fresh = Arc::new(Semaphore::new(self.per_host_max));
        hosts.insert(host.to_owned(), Arc::downgrade(&fresh));
        fresh
    }
}
