//! What a restore means to the oracle: what came after the backup never was, what was open is held, and an event that
//! is new to the store may not be new.

use super::{Incoming, Model};
use crate::sim::flows::WindowSpec;
use semel_core::run::{Event, Status, decode_events};
use semel_core::{Door, Millis, RunId, WorkspaceId};
use semel_store::{AdmitRequest, AdmitResult, RunCommit, Store};
use std::collections::BTreeMap;

impl Model {
    /// The model as it was at the backup, in the world as it is.
    pub fn back_to(&mut self, backup: &Model, restored_at: i64) {
        let now = std::mem::replace(self, backup.clone());
        self.callers = now.callers;
        self.violations = now.violations;
        self.decisions = now.decisions;
        self.knowns = now.knowns;
        self.restored_at = Some(restored_at);
    }

    /// How the runs stand, and whether they have ended. One that ended with a doubt is held by that.
    pub fn standing(&self, store: &dyn Store) -> BTreeMap<RunId, (Status, bool)> {
        let row = |(workspace, run): &(WorkspaceId, RunId)| {
            let row = Model::row(store, workspace, *run)?;
            Some((*run, (row.status, row.ended_at.is_some())))
        };
        self.born.iter().filter_map(row).collect()
    }

    /// Every run that had not ended is held, or goes on because somebody accepted that.
    pub fn hold(&mut self, before: &BTreeMap<RunId, (Status, bool)>, after: &dyn Store, accepted: bool) -> Vec<RunId> {
        let mut open = Vec::new();
        for (workspace, run) in self.born.clone() {
            let Some((before, ended)) = before.get(&run).copied() else { continue };
            let Some(after) = Model::row(after, &workspace, run) else { continue };
            let wanted = if ended || accepted { before } else { Status::Held };
            if after.status != wanted {
                self.broken("I15", format!("run {run} was {before:?} at the backup, and is {:?}", after.status));
            }
            if !ended {
                open.push(run);
            }
        }
        if !accepted {
            self.held = open.iter().copied().collect();
        }
        open
    }

    /// Could the lost part of the store have known an event that is new now?
    pub(super) fn may_have_known(&self, incoming: &Incoming, now: i64) -> bool {
        let Some(restored) = self.restored_at else { return false };
        match incoming.rules.window {
            WindowSpec::Forever => true,
            WindowSpec::WhileLive => false,
            WindowSpec::FirstSeen(ms) | WindowSpec::Completed(ms) => now < restored + ms,
        }
    }

    /// A tick for an instant before the restore may have run already: its run waits for a person.
    pub(super) fn born_held(&mut self, request: &AdmitRequest, result: &AdmitResult) {
        let Some(run) = &result.run else { return };
        let date = request.trigger["date"].as_str().and_then(Millis::parse_rfc3339);
        let before = date.is_some_and(|date| self.restored_at.is_some_and(|restored| date.0 <= restored));
        let known = self.callers.get(&request.caller).cloned().or_else(|| self.identify(request));
        let marked = known.is_some_and(|incoming| self.may_have_known(&incoming, run.created_at.0));
        let wanted = request.door == Door::Schedule && before && marked && !run.status.is_ended();
        // Only an event that is new: a rerun, or one that is late, was known.
        let held = run.status == Status::Held;
        if held != (wanted && result.generation == 1) {
            self.broken("I22", format!("run {} of a tick from before the restore is {:?}", run.id, run.status));
        }
        if held {
            self.held.insert(run.id);
        }
    }

    /// A run that is held writes nothing before somebody has said that it goes on.
    pub(super) fn goes_on(&mut self, commit: &RunCommit) {
        if !self.held.contains(&commit.run) || commit.events.is_empty() {
            return;
        }
        let events = decode_events(&commit.events, None).unwrap_or_default();
        if !matches!(events.first(), Some(Event::Released { .. })) {
            self.broken("R5", format!("run {} is held by the restore, and goes on", commit.run));
        }
        self.held.remove(&commit.run);
    }
}
