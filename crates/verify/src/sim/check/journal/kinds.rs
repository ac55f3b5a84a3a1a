//! What each kind of task runs, and what the later ones promise.

use super::super::super::flows::{Kind, Task};
use super::Walk;
use super::words::{is_iteration, join, task_id};
use semel_core::ir::OnTime;
use semel_core::run::{ListName, Stage, StepOutcome};

impl Walk<'_> {
    /// The list of tasks a group runs now.
    pub(super) fn list_of(&self, group: &str) -> Vec<Task> {
        let flow = self.journal.flow;
        let stage = self.stages.get(group).copied().unwrap_or(Stage::Body);
        if group.is_empty() {
            return match stage {
                Stage::Body => flow.tasks.clone(),
                Stage::Errors => flow.errors.clone(),
                Stage::Finally => flow.finally.clone(),
                // No flow of the simulator has tasks for after its end.
                Stage::After => vec![],
            };
        }
        let Some(task) = self.task(group) else { return vec![] };
        if is_iteration(group) {
            return match task.kind {
                Kind::ForEach { tasks, .. } | Kind::Loop { tasks, .. } | Kind::LoopUntil { tasks, .. } => tasks,
                _ => vec![],
            };
        }
        match stage {
            Stage::Errors => task.errors,
            Stage::Finally => task.finally,
            Stage::After => vec![],
            Stage::Body => match (task.kind, self.lists.get(group)) {
                (
                    Kind::Sequential(tasks)
                    | Kind::Parallel { tasks, .. }
                    | Kind::AllowFailure(tasks)
                    | Kind::WorkingDirectory(tasks)
                    | Kind::Dag { tasks, .. },
                    _,
                ) => tasks,
                (Kind::If { then, .. }, Some(ListName::Then)) => then,
                (Kind::If { otherwise, .. }, _) => otherwise,
                (Kind::Switch { defaults, .. }, Some(ListName::Defaults)) => defaults.unwrap_or_default(),
                (Kind::Switch { cases, .. }, Some(ListName::Case(word))) => {
                    cases.into_iter().find(|(case, _)| case == word).map(|(_, tasks)| tasks).unwrap_or_default()
                }
                _ => vec![],
            },
        }
    }

    pub(super) fn width_of(&self, group: &str) -> u32 {
        if group.is_empty() || is_iteration(group) || self.stages.get(group).is_some_and(|s| *s != Stage::Body) {
            return 1;
        }
        match self.task(group).map(|t| t.kind) {
            Some(
                Kind::Parallel { concurrent, .. }
                | Kind::ForEach { concurrent, .. }
                | Kind::Dag { concurrent, .. }
                | Kind::Loop { concurrent, .. },
            ) => concurrent,
            _ => 1,
        }
    }

    /// True in a group whose tasks start by what they depend on: there all of that has ended well.
    pub(super) fn depends_in(&mut self, group: &str, step: &str) -> bool {
        let Some(Kind::Dag { depends, .. }) = self.task(group).map(|task| task.kind) else { return false };
        let in_body = self.stages.get(group).is_none_or(|stage| *stage == Stage::Body);
        if is_iteration(group) || !in_body {
            return false;
        }
        for needed in depends.get(task_id(step)).into_iter().flatten() {
            let key = join(group, needed);
            match self.outcomes.get(&key) {
                Some(StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped) => {}
                Some(StepOutcome::Failed) if self.tolerated(&key) => {}
                _ if self.reopened => {}
                other => self.broken("R5", format!("step {step} started, and {key} which it needs is {other:?}")),
            }
        }
        true
    }

    pub(super) fn looped_so(&mut self, step: &str, count: u32) {
        let wanted = match self.task(step).map(|task| task.kind) {
            Some(Kind::Loop { items, .. }) => items.len(),
            Some(Kind::LoopUntil { .. }) => 1,
            _ => return,
        };
        if count as usize != wanted {
            self.broken("R10", format!("loop {step} begins with {count} rounds, not {wanted}"));
        }
    }

    pub(super) fn stands_still(&mut self, step: &str, late: OnTime) {
        let wanted = match self.task(step).map(|task| task.kind) {
            Some(Kind::Pause { ms: Some(_), behavior }) => behavior,
            Some(Kind::Pause { ms: None, .. }) => "FAIL",
            _ => return self.broken("R10", format!("the run stands still at {step}, which is no pause")),
        };
        if late.word() != wanted {
            self.broken("R10", format!("the end of the time of {step} means {}, not {wanted}", late.word()));
        }
    }

    pub(super) fn goes_on(&mut self, step: &str, how: OnTime, somebody: bool) {
        let wanted = match self.task(step).map(|task| task.kind) {
            Some(Kind::Pause { behavior, .. }) if !somebody => behavior,
            _ => "RESUME",
        };
        if how.word() != wanted {
            self.broken("R10", format!("step {step} went on by {}, not {wanted}", how.word()));
        }
        self.resumed_steps.insert(step.to_owned(), how);
    }

    pub(super) fn ended_so(&mut self, step: &str, task: &Task, outcome: StepOutcome) {
        let failed = outcome == StepOutcome::Failed;
        match &task.kind {
            Kind::AllowFailure(_) if !self.cancelling => {
                let warns = outcome == StepOutcome::Warning;
                if failed || (self.failed_in(step) && !warns && !self.reopened) {
                    self.broken("R10", format!("step {step} keeps failures to itself and ended {outcome:?}"));
                }
            }
            Kind::LoopUntil { rounds, .. } if outcome == StepOutcome::Success && !self.cancelling => {
                let done = self.counts.get(step).copied().unwrap_or(0);
                if done != *rounds {
                    self.broken("R11", format!("loop {step} ended after {done} rounds, not {rounds}"));
                }
            }
            Kind::Pause { .. } => {
                let wanted = match self.resumed_steps.remove(step) {
                    Some(OnTime::Resume) => StepOutcome::Success,
                    Some(OnTime::Warn) => StepOutcome::Warning,
                    Some(OnTime::Fail) => StepOutcome::Failed,
                    Some(OnTime::Cancel) | None => return,
                };
                if outcome != wanted && !self.cancelling {
                    self.broken("R10", format!("step {step} ended {outcome:?}, not {wanted:?}"));
                }
            }
            _ => {}
        }
    }
}
