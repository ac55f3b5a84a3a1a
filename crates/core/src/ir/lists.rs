//! The lists of tasks inside a task, in one place: whoever walks a flow walks all of them.

use super::{BatchSpec, Group, LoopSpec, PauseSpec, SubflowSpec, Task, TaskKind, UntilSpec};

/// The group of a task that has one, borrowed as the task is.
macro_rules! group_of {
    ($kind:expr) => {
        match $kind {
            TaskKind::Sequential(group)
            | TaskKind::AllowFailure(group)
            | TaskKind::Parallel { group, .. }
            | TaskKind::WorkingDirectory { group, .. }
            | TaskKind::Dag { group, .. }
            | TaskKind::ForEach { group, .. }
            | TaskKind::LoopUntil(UntilSpec { group, .. })
            | TaskKind::Loop(LoopSpec { group, .. })
            | TaskKind::Pause(PauseSpec { group, .. }) => Some(group),
            TaskKind::If { .. }
            | TaskKind::Switch { .. }
            | TaskKind::Sleep { .. }
            | TaskKind::Exit { .. }
            | TaskKind::Subflow(_)
            | TaskKind::Batches(_)
            | TaskKind::Leaf { .. } => None,
        }
    };
}

impl TaskKind {
    /// The group of a task that has one list of tasks with handlers, whatever else it has.
    pub fn group(&self) -> Option<&Group> {
        group_of!(self)
    }

    fn group_mut(&mut self) -> Option<&mut Group> {
        group_of!(self)
    }

    /// What a task makes sub-runs of.
    pub fn subflow(&self) -> Option<&SubflowSpec> {
        match self {
            TaskKind::Subflow(spec) | TaskKind::Batches(BatchSpec { subflow: spec, .. }) => Some(spec),
            _ => None,
        }
    }

    /// Every list of tasks inside this one.
    pub fn lists(&self) -> Vec<&Vec<Task>> {
        let mut found: Vec<&Vec<Task>> = match self {
            TaskKind::If { then, otherwise, errors, finally, .. } => vec![then, otherwise, errors, finally],
            TaskKind::Switch { cases, defaults, errors, finally, .. } => {
                cases.values().chain(defaults).chain([errors, finally]).collect()
            }
            TaskKind::Pause(spec) => {
                [&spec.on_pause].into_iter().chain(spec.review.as_ref().map(|review| &review.on_deny)).collect()
            }
            _ => vec![],
        };
        if let Some(Group { tasks, errors, finally }) = self.group() {
            found.extend([tasks, errors, finally]);
        }
        found
    }

    /// As [`Self::lists`], to be changed.
    pub fn lists_mut(&mut self) -> Vec<&mut Vec<Task>> {
        match self {
            TaskKind::If { then, otherwise, errors, finally, .. } => vec![then, otherwise, errors, finally],
            TaskKind::Switch { cases, defaults, errors, finally, .. } => {
                cases.values_mut().chain(defaults).chain([errors, finally]).collect()
            }
            TaskKind::Pause(PauseSpec { on_pause, group, review, .. }) => {
                let mut found = vec![on_pause];
                found.extend(review.as_mut().map(|review| &mut review.on_deny));
                found.extend([&mut group.tasks, &mut group.errors, &mut group.finally]);
                found
            }
            kind => match kind.group_mut() {
                Some(Group { tasks, errors, finally }) => vec![tasks, errors, finally],
                None => vec![],
            },
        }
    }

    /// `errors:` and `finally:`, of a task that has them.
    pub fn handlers(&self) -> Option<(&Vec<Task>, &Vec<Task>)> {
        match self {
            TaskKind::If { errors, finally, .. } | TaskKind::Switch { errors, finally, .. } => Some((errors, finally)),
            kind => kind.group().map(|group| (&group.errors, &group.finally)),
        }
    }

    /// It does nothing by itself: it fails because a task inside it failed.
    pub fn only_holds_tasks(&self) -> bool {
        match self {
            TaskKind::If { .. } | TaskKind::Switch { .. } => true,
            TaskKind::Pause(_) | TaskKind::LoopUntil(_) => false,
            kind => kind.group().is_some(),
        }
    }

    /// Its rounds see each other's outputs by the value they were for. Where this is false, a task inside has one
    /// output, whatever the round.
    pub fn keys_outputs_by_value(&self) -> bool {
        matches!(self, TaskKind::ForEach { .. })
    }
}
