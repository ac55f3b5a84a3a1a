//! Where a run goes on when another definition takes over from the one it went by.
//!
//! What was begun keeps its name, and must have its place in the new definition. Tasks in a row go on behind the last
//! one that was begun, wherever it stands now: what the new definition has before it is not made up for. Tasks beside
//! each other must have begun in the same order, so that none is begun twice or forgotten.

use super::{Machine, NotPossible, refuse};
use crate::run::index::FlowIndex;
use crate::run::state::{GroupState, RunState, Work};
use crate::run::step::StepKey;

impl Machine<'_> {
    /// For each group of `state`, how far it has come by the definition that the machine was given. `was` is the other.
    pub(super) fn places(&self, state: &RunState, was: &FlowIndex) -> Result<Vec<(StepKey, u32)>, NotPossible> {
        self.all_have_places(state)?;
        let mut places = Vec::new();
        for (key, step) in &state.steps {
            let Work::Group(group) = &step.work else { continue };
            if group.count.is_none() && group.needs.is_none() {
                places.push((key.clone(), self.place(key, group, was)?));
            }
        }
        Ok(places)
    }

    fn all_have_places(&self, state: &RunState) -> Result<(), NotPossible> {
        for (key, step) in state.steps.iter().filter(|(key, _)| key.iteration_number().is_none()) {
            let Some(parent) = key.parent() else { continue };
            let Some(group) = state.group(&parent) else { continue };
            let children = self.flow.children(&parent, &group.list, group.stage);
            if !children.iter().any(|task| task.id == key.task_id()) {
                return refuse(format!("`{key}` is under way and has no place in the new definition"));
            }
            let holds_tasks = self.flow.task(key.task_id()).is_some_and(|task| task.kind.handlers().is_some());
            if matches!(step.work, Work::Group(_)) && !holds_tasks {
                return refuse(format!("`{key}` is under way and is another kind of task in the new definition"));
            }
        }
        Ok(())
    }

    fn place(&self, key: &StepKey, group: &GroupState, was: &FlowIndex) -> Result<u32, NotPossible> {
        let old = was.children(key, &group.list, group.stage);
        let new = self.flow.children(key, &group.list, group.stage);
        let begun = old.get(..group.next as usize).unwrap_or(old);
        let Some(last) = begun.last() else { return Ok(0) };
        if group.concurrent != 1 {
            let same = new.len() >= begun.len() && new.iter().zip(begun).all(|(new, old)| new.id == old.id);
            let text = || format!("what has begun of `{key}` stands in another order in the new definition");
            return if same { Ok(group.next) } else { refuse(text()) };
        }
        match new.iter().position(|task| task.id == last.id) {
            Some(place) => Ok(place as u32 + 1),
            None => refuse(format!("`{}` was begun last and has no place in the new definition", last.id)),
        }
    }
}
