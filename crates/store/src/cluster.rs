//! Several processes on one store: who drives which run, and how they hear of each other.
//!
//! | word | means |
//! |---|---|
//! | node | a process that has the store open, from its start to its end or to the loss of its lease |
//! | lease | the time, by the store's clock, until which the others leave a node's runs alone |
//! | owner | the node that drives an active run; a run that only waits has none |
//! | adopt | to take over the runs of a node whose lease has lapsed |
//!
//! Nothing that is promised depends on a note: what matters is in the store, and is also found by looking.

use crate::tx::Result;
use semel_core::run::Status;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What one process of several must know of the others.
pub trait Cluster: Send + Sync {
    /// This node's number: another one after its lease was lost.
    fn epoch(&self) -> u64;
    /// Until when this node may send what its durable intents say; `None` while it has no lease.
    fn send_before(&self) -> Option<Instant>;
    /// Takes over runs whose owner is gone, a bounded number of them. Whoever drove them is fenced.
    fn adopt(&self, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>>;
    /// This node's runs for which something was left.
    fn mail(&self, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>>;
    /// What was answered to a request that was left for a run; the error says why it was refused.
    fn answer(&self, ticket: Hash16) -> Result<Option<std::result::Result<(), String>>>;
    /// All nodes that are remembered, the newest first.
    fn nodes(&self) -> Result<Vec<NodeRow>>;
    /// Among the living this one is the oldest: the one that does what need be done only once.
    fn is_first(&self) -> bool;
    /// No other node was there a moment ago.
    fn is_alone(&self) -> bool;
    /// Tells the others. Some may not hear it.
    fn tell(&self, note: Note);
    /// From now on what others tell goes to `ear`.
    fn listen(&self, ear: Ear);
}

pub type Ear = Box<dyn Fn(Note) + Send + Sync>;

/// What nodes tell each other so that nobody need wait for the next look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Something was left for a run that another node drives.
    Mail {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// Somebody waits for this run: say when it changes.
    Watch {
        run: RunId,
    },
    Changed {
        run: RunId,
        version: u64,
        status: Status,
    },
    /// The run is not its driver's any more.
    Fenced {
        run: RunId,
    },
    /// The flow has a new revision.
    Pushed {
        workspace: WorkspaceId,
        flow: FlowRef,
    },
    /// A node has gone and left runs.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Alive,
    /// Its lease is over; its runs are being taken over.
    Lapsed,
    /// It has ended in an orderly way.
    Left,
}

impl NodeState {
    pub fn word(self) -> &'static str {
        match self {
            NodeState::Alive => "alive",
            NodeState::Lapsed => "lapsed",
            NodeState::Left => "left",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    pub epoch: u64,
    pub name: String,
    pub version: String,
    pub state: NodeState,
    pub started_at: Millis,
    pub seen_at: Millis,
    /// `None` where no lease is needed.
    pub lease_until: Option<Millis>,
    pub runs_owned: u64,
    /// The one that was asked.
    pub is_self: bool,
}
