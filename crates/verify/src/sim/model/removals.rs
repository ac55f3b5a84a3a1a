//! What is taken away: by a person, by the sweep, and from the key-value store.

use super::{Claim, EventId, Known, Model};
use semel_core::WorkspaceId;
use semel_core::run::{Event, Status};
use semel_store::{CommitResult, OpKind, RunCommit, Store, Work};

impl Model {
    /// A run that is live, or has a doubt open, keeps its key and its values.
    pub(super) fn refused(&self, work: &Work, store: &dyn Store) -> Option<&'static str> {
        let row = match work {
            Work::DeleteRun { workspace, run } | Work::EraseRun { workspace, run } => {
                Model::row(store, workspace, *run)
            }
            Work::ReleaseKey { workspace, hash, .. } => {
                let claim = store.claim(workspace, *hash).ok().flatten()?;
                Model::row(store, workspace, claim.run)
            }
            _ => None,
        }?;
        match row.status {
            _ if row.open_doubts > 0 => Some("doubt_open"),
            Status::Completed | Status::Failed | Status::Cancelled => None,
            _ => Some("run_live"),
        }
    }

    pub(super) fn free(&mut self, which: impl Fn(&Claim) -> bool) {
        let freed = &mut self.freed;
        self.claims.retain(|(workspace, _, key, _), claim| {
            let gone = which(claim);
            if gone {
                freed.insert((workspace.clone(), key.clone()));
            }
            !gone
        });
    }

    /// What has no window any more is gone after a sweep, and stays so if a person has its run go on.
    pub(super) fn forget(&mut self, store: &dyn Store) {
        let now = store.now().0;
        let is_over = |(event, claim): &(&EventId, &Claim)| {
            let row = Model::row(store, &WorkspaceId(event.0.clone()), claim.run);
            row.is_some_and(|row| self.known(claim, &row, now) == Known::Absent)
        };
        let over: Vec<EventId> = self.claims.iter().filter(is_over).map(|(event, _)| event.clone()).collect();
        for event in over {
            self.claims.remove(&event);
        }
    }

    pub(super) fn is_forgotten(&self, _: &Claim, _: &dyn Store) -> bool {
        // The run is gone, so nothing tells how it ended: the sweep asks for runs without claims.
        true
    }

    /// The key-value store, written down a second time.
    pub(super) fn key_values(&mut self, commit: &RunCommit, result: &CommitResult) {
        for op in &commit.ops {
            let (namespace, key) = match &op.kind {
                OpKind::KvSet { namespace, key, .. }
                | OpKind::KvGet { namespace, key, .. }
                | OpKind::KvDelete { namespace, key, .. }
                | OpKind::StateGet { namespace, key, .. }
                | OpKind::StateSet { namespace, key, .. } => (namespace.clone(), key.clone()),
                OpKind::Admit(_)
                | OpKind::EnterLane
                | OpKind::EnterLaneOrEnd { .. }
                | OpKind::ForceLane
                | OpKind::Toggle { .. }
                | OpKind::Publish { .. }
                | OpKind::Announce { .. }
                | OpKind::Define { .. }
                | OpKind::RunAgain { .. }
                | OpKind::Remember { .. }
                | OpKind::Ask { .. }
                | OpKind::Kill { .. } => continue,
            };
            let place = (commit.workspace.0.clone(), namespace, key);
            let there = self.kv.contains(&place);
            let wanted = match &op.kind {
                OpKind::KvSet { overwrite, .. } => {
                    self.kv.insert(place.clone());
                    *overwrite || !there
                }
                OpKind::StateSet { .. } => {
                    self.kv.insert(place.clone());
                    true
                }
                OpKind::KvGet { error_on_missing, .. } | OpKind::StateGet { error_on_missing, .. } => {
                    there || !error_on_missing
                }
                _ => {
                    self.kv.remove(&place);
                    there || !matches!(op.kind, OpKind::KvDelete { error_on_missing: true, .. })
                }
            };
            let given = result.appended.iter().find_map(|event| match event {
                Event::OpDone { step, ok, .. } if *step == op.step => Some(*ok),
                _ => None,
            });
            if given != Some(wanted) {
                self.broken("R5", format!("{:?} at {place:?} must go well: {wanted}, did: {given:?}", op.step));
            }
        }
    }
}
