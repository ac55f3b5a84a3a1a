//! Whose a key is when a run goes on that had lost it to another one.

use super::Model;
use semel_store::{RunCommit, Store};

impl Model {
    /// Another run has the key of this one, and has not ended.
    pub(super) fn key_goes_on(&self, commit: &RunCommit, store: &dyn Store) -> bool {
        let key = commit.reopen.as_ref().and_then(|reopen| reopen.claim);
        let mut others = self.claims.values().filter(|claim| Some(claim.hash) == key && claim.run != commit.run);
        others.any(|claim| Model::row(store, &commit.workspace, claim.run).is_some_and(|row| !row.status.is_ended()))
    }

    /// A person has the run go on: its key is its own again, and nobody else goes on with it.
    pub(super) fn takes_key_back(&mut self, commit: &RunCommit, store: &dyn Store) {
        let Some(reopen) = &commit.reopen else { return };
        if self.key_goes_on(commit, store) {
            if !reopen.forced {
                self.broken("R1", format!("run {} goes on, and so does another run of its key", commit.run));
            }
            return;
        }
        for claim in self.claims.values_mut().filter(|c| Some(c.hash) == reopen.claim && c.run != commit.run) {
            claim.run = commit.run;
            // A key that was forgotten in between is counted on from where the run was.
            let own = Model::row(store, &commit.workspace, commit.run).map_or(0, |row| row.generation - 1);
            claim.generation = claim.generation.max(own);
        }
    }
}
