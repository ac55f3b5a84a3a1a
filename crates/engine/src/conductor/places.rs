//! Where the first tasks of a fork and its JOIN stand among the tasks of a workflow.
//!
//! Branches begin together, and which of them is heard of first is chance. Clients that count tasks look for the first
//! task of each branch behind the fork, in the order of the definition, and for the JOIN behind them.

use super::story::TaskStory;
use crate::flows::LoadedFlow;
use semel_core::ir::TaskKind;
use semel_core::run::StepKey;
use std::collections::BTreeMap;

/// Puts the first tasks of a fork and its JOIN behind the fork.
pub(super) fn put_in_order(tasks: &mut Vec<TaskStory>, flow: &LoadedFlow, fork: &StepKey, join: &StepKey) {
    let Some(at) = tasks.iter().position(|task| task.step == *fork) else { return };
    let mut begun: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, task) in tasks.iter().enumerate().skip(at + 1).filter(|(_, task)| task.step != *join) {
        let Some(branch) = branch_of(&task.step, fork).and_then(|branch| rank(flow, fork, branch)) else { continue };
        let known = begun.entry(branch).or_default();
        // What the first task of a branch holds has begun with it.
        let follows = |last: &usize| last + 1 == place && task.step.is_under(&tasks[known[0]].step) && !task.retried;
        if known.last().is_none_or(follows) {
            known.push(place);
        }
    }
    let shown = tasks.iter().position(|task| task.step == *join);
    let order: Vec<usize> = begun.into_values().flatten().chain(shown).collect();
    let rest = (at + 1..tasks.len()).filter(|place| !order.contains(place));
    let order: Vec<usize> = (0..=at).chain(order.iter().copied()).chain(rest).collect();
    let mut from: Vec<Option<TaskStory>> = std::mem::take(tasks).into_iter().map(Some).collect();
    tasks.extend(order.into_iter().filter_map(|place| from.get_mut(place)?.take()));
}

/// Which branch of the fork a step is in: a task, a companion that holds several, or the round of a dynamic fork.
fn branch_of<'a>(step: &'a StepKey, fork: &StepKey) -> Option<&'a str> {
    let inside = step.0.strip_prefix(&fork.0)?;
    match inside.as_bytes().first()? {
        b'/' => Some(inside[1..].split(['/', '[']).next().unwrap_or_default()),
        b'[' => Some(inside.split(']').next().unwrap_or_default()),
        _ => None,
    }
}

/// The place of a branch among those that begin with the fork. Of one that is cut where a JOIN waits for it, only the
/// first piece does.
fn rank(flow: &LoadedFlow, fork: &StepKey, branch: &str) -> Option<usize> {
    if let Some(round) = branch.strip_prefix('[') {
        return round.parse().ok();
    }
    let (group, depends) = match &flow.index.task(fork.task_id())?.kind {
        TaskKind::Parallel { group, .. } => (group, None),
        TaskKind::Dag { group, depends, .. } => (group, depends.get(branch)),
        _ => return None,
    };
    depends.is_none_or(Vec::is_empty).then(|| group.tasks.iter().position(|task| task.id == branch))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_told_apart() {
        let key = |text: &str| StepKey(text.to_owned());
        let branch = |step: &str| branch_of(&key(step), &key("f")).map(str::to_owned);
        assert_eq!(branch("f/a"), Some("a".to_owned()));
        assert_eq!(branch("f/f~0/b"), Some("f~0".to_owned()));
        assert_eq!(branch("f/loop[3]/c"), Some("loop".to_owned()));
        assert_eq!(branch("f[2]/kind/d"), Some("[2".to_owned()));
        assert_eq!(branch("fork/a"), None, "another one whose name begins alike");
        assert_eq!(branch("f"), None);
    }
}
