//! What must hold at the end of each seed, whatever happened in it.
//!
//! | id | where |
//! |---|---|
//! | R1, R4, I1, I3, I6, I13, I16, I18 | [`super::model`], at each decision; [`rows::claims`] at the end |
//! | R2, R3, I2, I4, I17 | [`answers`] |
//! | R5, R8, R11, I12, I13 | [`journal`] |
//! | R6, I8 | the world, as each request leaves; [`effects`] |
//! | R7, I7, I9, I10 | [`effects`], [`journal`] |
//! | R9, R10, I11, I14, I15 | [`rows`]; I14 and I15 also at each release, deletion and erasure |
//! | R12, I16 | [`super::model`] and [`answers`]: the same keys in several workspaces |
//! | R13 | any error of the store that was not ordered; `scenarios` for damage |
//! | I21 | [`rows::erased`] |
//! | I22 | [`rows::schedules`] |
//! | I24 | [`rows::waiters`] |
//!
//! Not here: I5 (what a refusal shows is the server's, tested there), I19 and I23 (approvals and
//! callbacks are not built), I20 (compensation is not built).

mod answers;
mod effects;
mod journal;
mod rows;

use super::model::Violation;
use super::world::World;
use journal::{Entry, Journal};
use semel_core::run::{Event, decode_events};
use semel_core::{RunId, WorkspaceId};
use semel_store::{EffectRow, RunRow, RunValues, Store};
use serde_json::Value as Json;
use std::collections::BTreeMap;

pub type Finding = Violation;

/// A run with all that is stored of it.
pub struct Stored {
    pub row: RunRow,
    pub values: RunValues,
    pub entries: Vec<Entry>,
    pub effects: Vec<EffectRow>,
}

impl Stored {
    /// The inputs it ran with, as its journal has them; none once erased.
    pub fn inputs(&self) -> Option<Json> {
        let mut found = None;
        for entry in &self.entries {
            if let Event::Created { inputs, .. } | Event::InputsReplaced { inputs, .. } = &entry.event {
                found = inputs.value.as_deref().cloned();
            }
        }
        found
    }
}

pub struct Facts<'a> {
    pub world: &'a World,
    pub runs: BTreeMap<RunId, Stored>,
    pub dump: Json,
    pub findings: Vec<Finding>,
}

impl Facts<'_> {
    pub fn broken(&mut self, id: &'static str, text: String) {
        self.findings.push(Finding { id, text });
    }
}

/// Checks a world that is over.
pub fn all(world: &mut World) {
    let world_of_workers = world.is_of_workers();
    let findings = {
        let mut facts = Facts { world, runs: BTreeMap::new(), dump: Json::Null, findings: vec![] };
        gather(&mut facts);
        let runs = std::mem::take(&mut facts.runs);
        for stored in runs.values() {
            let Some(flow) = world.spec_of(&stored.row) else {
                facts.broken("R10", format!("run {} follows a text that was never pushed", stored.row.id));
                continue;
            };
            if let Some(inputs) = stored.inputs() {
                let entries: Vec<Entry> =
                    stored.entries.iter().map(|e| Entry { seq: e.seq, at: e.at, event: e.event.clone() }).collect();
                let resumed = world.hub.model.lock().resumed.get(&stored.row.id).copied().unwrap_or(0);
                let journal = Journal { row: &stored.row, flow: &flow, entries, inputs, resumed };
                facts.findings.extend(journal::check(&journal));
            }
        }
        facts.runs = runs;
        if world_of_workers {
            super::works::check(&mut facts);
        } else {
            answers::check(&mut facts);
            effects::check(&mut facts);
        }
        rows::check(&mut facts);
        facts.findings
    };
    for finding in findings {
        world.broken(finding.id, finding.text);
    }
}

/// What the journal of a run says, event by event.
pub fn entries(store: &dyn Store, workspace: &WorkspaceId, run: RunId) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for journal in store.journal(workspace, run, 0, 100_000).unwrap_or_default() {
        let events = decode_events(&journal.events, journal.values.as_deref())
            .map_err(|error| format!("run {run}, row {}: {error}", journal.seq))?;
        entries.extend(events.into_iter().map(|event| Entry { seq: journal.seq, at: journal.at, event }));
    }
    Ok(entries)
}

fn gather(facts: &mut Facts<'_>) {
    let store = facts.world.hub.inner();
    let born: Vec<(WorkspaceId, RunId)> = facts.world.hub.model.lock().born.clone();
    match store.dump() {
        Ok(dump) => facts.dump = dump,
        Err(error) => facts.broken("R13", format!("the store cannot be dumped: {error}")),
    }
    for (workspace, run) in born {
        let Some((row, values, _)) = store.run(&workspace, run).ok().flatten() else { continue };
        let entries = entries(store.as_ref(), &workspace, run).unwrap_or_else(|text| {
            facts.broken("R13", text);
            vec![]
        });
        let effects = store.effects(&workspace, run).unwrap_or_default();
        facts.runs.insert(run, Stored { row, values, entries, effects });
    }
}
