//! Short stories beside the seeds: damage that a start must not read over.

use super::hub::Damage;
use super::model::Violation;
use super::plan::Script;
use super::world::World;
use semel_core::RunId;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// A row is damaged while nobody looks; the next start must stop with a code and write nothing.
/// `None` where the seed has no run that a start would read.
pub fn damaged(seed: u64) -> Option<Vec<Violation>> {
    let mut script = Script::new(seed);
    script.faults = Some(BTreeSet::new());
    let how = if seed.is_multiple_of(2) { Damage::Value } else { Damage::Torn };
    let mut world = World::new(script, false);
    let run = world.until_active()?;
    world.damage(run, how);
    let version = world.version_of(run);
    world.restart_and_look();
    if world.hub.damage_seen.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let mut violations = world.hub.model.lock().violations.clone();
    let mut broken = |text: String| violations.push(Violation { id: "R13", text });
    match world.stopped_with() {
        Some("store_poisoned") => {}
        other => broken(format!("run {run} was damaged ({how:?}), and the node goes on: {other:?}")),
    }
    if world.version_of(run) != version {
        broken(format!("run {run} was damaged ({how:?}), and written to"));
    }
    Some(violations)
}

impl World {
    /// Lets things happen until a run is active in the store.
    fn until_active(&mut self) -> Option<RunId> {
        for _ in 0..500 {
            let active = self.hub.inner().active_runs(None, 10).ok()?;
            if let Some((_, run)) = active.first() {
                return Some(*run);
            }
            if !self.one_event() {
                return None;
            }
        }
        None
    }

    fn damage(&mut self, run: RunId, how: Damage) {
        self.damaged = true;
        *self.hub.damage.lock() = Some((run, how));
    }

    fn version_of(&self, run: RunId) -> Option<u64> {
        let born = self.hub.model.lock().born.clone();
        let (ws, _) = born.into_iter().find(|(_, id)| *id == run)?;
        self.hub.inner().run(&ws, run).ok().flatten().map(|(row, _, _)| row.version)
    }
}
