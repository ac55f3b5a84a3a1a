//! The lists of tasks inside a task, in one place: whoever walks a flow walks all of them.

use super::{Group, Task, TaskKind};

impl TaskKind {
    /// Every list of tasks inside this one.
    pub fn lists(&self) -> Vec<&Vec<Task>> {
        match self {
            TaskKind::Sequential(group) | TaskKind::Parallel { group, .. } | TaskKind::ForEach { group, .. } => {
                group.lists()
            }
            TaskKind::If { then, otherwise, errors, finally, .. } => vec![then, otherwise, errors, finally],
            TaskKind::Switch { cases, defaults, errors, finally, .. } => {
                cases.values().chain(defaults).chain([errors, finally]).collect()
            }
            TaskKind::Pause(spec) => std::iter::once(&spec.on_pause).chain(spec.group.lists()).collect(),
            TaskKind::Sleep { .. } | TaskKind::Subflow(_) | TaskKind::Leaf { .. } => vec![],
        }
    }

    /// As [`Self::lists`], to be changed.
    pub fn lists_mut(&mut self) -> Vec<&mut Vec<Task>> {
        match self {
            TaskKind::Sequential(group) | TaskKind::Parallel { group, .. } | TaskKind::ForEach { group, .. } => {
                group.lists_mut()
            }
            TaskKind::If { then, otherwise, errors, finally, .. } => vec![then, otherwise, errors, finally],
            TaskKind::Switch { cases, defaults, errors, finally, .. } => {
                cases.values_mut().chain(defaults).chain([errors, finally]).collect()
            }
            TaskKind::Pause(spec) => std::iter::once(&mut spec.on_pause).chain(spec.group.lists_mut()).collect(),
            TaskKind::Sleep { .. } | TaskKind::Subflow(_) | TaskKind::Leaf { .. } => vec![],
        }
    }

    /// `errors:` and `finally:`, of a task that has them.
    pub fn handlers(&self) -> Option<(&Vec<Task>, &Vec<Task>)> {
        match self {
            TaskKind::Sequential(group) | TaskKind::Parallel { group, .. } | TaskKind::ForEach { group, .. } => {
                Some((&group.errors, &group.finally))
            }
            TaskKind::Pause(spec) => Some((&spec.group.errors, &spec.group.finally)),
            TaskKind::If { errors, finally, .. } | TaskKind::Switch { errors, finally, .. } => Some((errors, finally)),
            TaskKind::Sleep { .. } | TaskKind::Subflow(_) | TaskKind::Leaf { .. } => None,
        }
    }

    /// It does nothing by itself: it fails because a task inside it failed.
    pub fn only_holds_tasks(&self) -> bool {
        match self {
            TaskKind::Sequential(_)
            | TaskKind::Parallel { .. }
            | TaskKind::If { .. }
            | TaskKind::Switch { .. }
            | TaskKind::ForEach { .. } => true,
            TaskKind::Pause(_) | TaskKind::Sleep { .. } | TaskKind::Subflow(_) | TaskKind::Leaf { .. } => false,
        }
    }
}

impl Group {
    fn lists(&self) -> Vec<&Vec<Task>> {
        vec![&self.tasks, &self.errors, &self.finally]
    }

    fn lists_mut(&mut self) -> Vec<&mut Vec<Task>> {
        vec![&mut self.tasks, &mut self.errors, &mut self.finally]
    }
}
