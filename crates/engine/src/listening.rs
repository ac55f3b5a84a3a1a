//! Events from outside: what the NATS server has for the event handlers that listen to `nats:subject`, or to
//! `nats:subject:group`.
//!
//! | the process dies | then |
//! |---|---|
//! | before the event is stored | a stream hands the message over again; nobody has acted |
//! | after it, before the message counts as taken | it comes again under the same id, and each action of a handler has the name of its event: it happens once |
//!
//! Every node listens; a message goes to one of them.

use crate::events::listened_to;
use crate::handle::Engine;
use semel_core::{Hash16, WorkspaceId};
use semel_store::StoreError;
use semel_tasks::nats::{Incoming, Nats};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// What events of the NATS server are called.
pub const NATS: &str = "nats:";
/// The group of an event that names none.
const GROUP: &str = "semel";
/// How often handlers are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// After what went wrong.
const AGAIN: Duration = Duration::from_secs(5);

/// The subject and the group of an event.
pub fn nats_source(event: &str) -> Option<(&str, &str)> {
    let source = event.strip_prefix(NATS)?;
    Some(source.split_once(':').unwrap_or((source, GROUP)))
}

impl Engine {
    /// Listens for whatever active handlers want to hear, until the engine stops.
    pub async fn listen(self: Arc<Self>, nats: Nats) {
        // It is asked to listen once.
        let _ = self.nats.set(nats.clone());
        let mut listeners: BTreeMap<(WorkspaceId, String), JoinHandle<()>> = BTreeMap::new();
        while !self.is_stopping() {
            match self.wanted() {
                Ok(wanted) => {
                    listeners.retain(|source, listener| {
                        // One that has ended is begun again.
                        let stays = wanted.contains(source) && !listener.is_finished();
                        if !stays {
                            listener.abort();
                        }
                        stays
                    });
                    for source in wanted {
                        let (engine, nats) = (self.clone(), nats.clone());
                        let listen = || tokio::spawn(engine.listen_to(nats, source.0.clone(), source.1.clone()));
                        listeners.entry(source.clone()).or_insert_with(listen);
                    }
                }
                Err(error) => tracing::error!(%error, "event handlers cannot be read"),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        listeners.values().for_each(JoinHandle::abort);
    }

    /// Whether the NATS server answers.
    pub async fn check_nats(&self) -> Result<(), String> {
        match self.nats.get() {
            Some(nats) => nats.check().await,
            None => Err("no NATS server is named: set nats.url of the server".to_owned()),
        }
    }

    /// Events of the NATS server that an active handler listens to.
    fn wanted(&self) -> Result<Vec<(WorkspaceId, String)>, StoreError> {
        let mut found = Vec::new();
        for workspace in self.workspaces_with_handlers()? {
            let events = listened_to(&**self.store(), &workspace)?.into_iter();
            found.extend(events.filter(|event| nats_source(event).is_some()).map(|event| (workspace.clone(), event)));
        }
        Ok(found)
    }

    async fn listen_to(self: Arc<Self>, nats: Nats, workspace: WorkspaceId, event: String) {
        let Some((subject, _)) = nats_source(&event) else { return };
        let name = name_of(&workspace, &event);
        loop {
            let take = |message: Incoming| self.take_message(&workspace, &event, message);
            let why = nats.listen(subject, &name, take).await;
            tracing::warn!(event, why, "nothing is heard; it is tried again");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Leaves the message for the handlers. True when that is durable.
    async fn take_message(&self, workspace: &WorkspaceId, event: &str, message: Incoming) -> bool {
        let id = match &message.id {
            Some(id) => Hash16::of(&[b"nats", event.as_bytes(), id.as_bytes()]).hex(),
            None => self.fresh_run().to_string(),
        };
        match self.publish_event(workspace, &id, event, payload(&message.payload)).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(event, %error, "a message cannot be stored; it is left where it is");
                false
            }
        }
    }
}

/// Who shares the messages of an event: the nodes, but not two workspaces, nor two events whose subjects overlap. Of a
/// stream it is the place of the event, also after a restart.
fn name_of(workspace: &WorkspaceId, event: &str) -> String {
    format!("semel-{}", Hash16::of(&[b"nats", workspace.0.as_bytes(), event.as_bytes()]).hex())
}

/// Handlers see the fields of an object; whatever else arrives is its `payload`.
fn payload(bytes: &[u8]) -> Json {
    match serde_json::from_slice(bytes) {
        Ok(Json::Object(fields)) => Json::Object(fields),
        Ok(other) => json!({ "payload": other }),
        Err(_) => json!({"payload": String::from_utf8_lossy(bytes)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_a_subject_and_maybe_a_group() {
        assert_eq!(nats_source("nats:orders.paid"), Some(("orders.paid", "semel")));
        assert_eq!(nats_source("nats:orders.paid:billing"), Some(("orders.paid", "billing")));
        assert_eq!(nats_source("conductor:w:x"), None);
    }

    #[test]
    fn workspaces_and_events_do_not_share_their_messages() {
        let (one, other) = (WorkspaceId("one".to_owned()), WorkspaceId("other".to_owned()));
        assert_eq!(name_of(&one, "nats:a.b"), name_of(&one, "nats:a.b"));
        assert_ne!(name_of(&one, "nats:a.b"), name_of(&other, "nats:a.b"));
        assert_ne!(name_of(&one, "nats:a.b"), name_of(&one, "nats:a.*"));
        assert_ne!(name_of(&one, "nats:a.b"), name_of(&one, "nats:a.b:group"));
    }

    #[test]
    fn a_message_that_is_no_object_is_its_payload() {
        assert_eq!(payload(br#"{"a": 1}"#), json!({"a": 1}));
        assert_eq!(payload(b"[1]"), json!({"payload": [1]}));
        assert_eq!(payload(b"plain"), json!({"payload": "plain"}));
    }
}
