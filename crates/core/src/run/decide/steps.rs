//! Groups and their steps: what starts next, and what an end means to the parent.

use super::Machine;
use crate::ir::{Group, LoopSpec, Task, TaskKind};
use crate::run::event::{Action, Event, Failure, Payload, Stage, StepOutcome, TimerWhy};
use crate::run::state::{Asks, GroupState, Needs, Phase, Step, Timer, Work};
use crate::run::step::StepKey;

impl Machine<'_> {
    /// Starts children and ends groups until nothing moves.
    pub(super) fn settle(&mut self) {
        while let Some(key) = self.touched.pop_front() {
            self.pump(&key);
        }
    }

    pub(super) fn pump(&mut self, key: &StepKey) {
        loop {
            let Some(Step { work: Work::Group(group), .. }) = self.state.steps.get(key) else { return };
            if self.state.phase != Phase::Open || self.state.is_kept(key) {
                return;
            }
            let width = match (group.stage, group.concurrent) {
                (Stage::Body, 0) => self.limits.parallel_branches_max,
                (Stage::Body, n) => n.min(self.limits.parallel_branches_max),
                _ => 1,
            };
            let stop = self.state.is_stopping()
                || match group.stage {
                    Stage::Body => (group.failed && !group.each_is_step) || group.cancelled || group.over,
                    // In a handler only its own failure stops it; the body's is why it runs.
                    Stage::Errors | Stage::Finally | Stage::After => group.handler_failed,
                };
            let next = if stop || group.open >= width { None } else { self.next_child(key, group) };
            if let Some(child) = next {
                if self.state.paused {
                    return;
                }
                if self.state.stops_at(&child) {
                    return self.emit(Event::StoppedAt { step: child });
                }
                self.start_step(key, child);
                continue;
            }
            if group.open > 0 || !self.next_stage(key) {
                return;
            }
        }
    }

    /// The child that a group would start next, if any is left that may start.
    fn next_child(&self, key: &StepKey, group: &GroupState) -> Option<StepKey> {
        let children = self.flow.children(key, &group.list, group.stage);
        match (group.stage, group.count, &group.needs) {
            (Stage::Body, Some(count), _) => (group.next < count).then(|| key.iteration(group.next)),
            (Stage::Body, None, Some(needs)) => {
                let ready =
                    |task: &&Task| !needs.started.contains(&task.id) && self.needs_are_met(key, needs, &task.id);
                children.iter().find(ready).map(|task| key.child(&task.id))
            }
            _ => children.get(group.next as usize).map(|task| key.child(&task.id)),
        }
    }

    /// A task that is disabled is not there, and nobody waits for it.
    fn needs_are_met(&self, group: &StepKey, needs: &Needs, id: &str) -> bool {
        let Some(TaskKind::Dag { depends, group: Group { tasks, .. }, .. }) =
            self.flow.task(group.task_id()).map(|task| &task.kind)
        else {
            return true;
        };
        let mut wanted = depends.get(id).into_iter().flatten();
        wanted.all(|needed| needs.done.contains(needed) || !tasks.iter().any(|task| task.id == *needed))
    }

    pub(super) fn start_step(&mut self, parent: &StepKey, key: StepKey) {
        let (stage, parent_round) = match self.state.steps.get(parent) {
            Some(Step { round, work: Work::Group(group), .. }) => (group.stage, *round),
            _ => (Stage::Body, 0),
        };
        // Steps of handlers run anew after each restart, so their ids carry the round.
        let round = if stage == Stage::Body { parent_round } else { self.state.round + 1 };
        self.emit(Event::StepStarted { step: key.clone(), take: self.state.take, round, at: self.now });
        if self.state.steps_started > self.limits.steps_per_run_max {
            let text = format!("a run may have {} steps", self.limits.steps_per_run_max);
            return self.end_step(&key, StepOutcome::Failed, None, Some(Failure::new("steps_limit", text)));
        }
        match self.state.steps.get(&key).is_some_and(|step| step.work.is_evaluated()) {
            true => self.act(Action::Evaluate(key)),
            false => self.touched.push_back(key),
        }
    }

    /// Moves a group whose children are done to its next stage; false when it has ended.
    pub(super) fn next_stage(&mut self, key: &StepKey) -> bool {
        let Some(Step { work: Work::Group(group), .. }) = self.state.steps.get(key) else { return false };
        let has = |stage: Stage| !self.flow.children(key, &group.list, stage).is_empty();
        let over = self.state.is_stopping() || (group.failed && !group.each_is_step) || group.cancelled || group.over;
        if group.stage == Stage::Body && !matches!(group.asks, Asks::Never | Asks::Answered) && !over {
            self.ask(key);
            return false;
        }
        let next = match group.stage {
            _ if self.state.is_stopping() => None,
            Stage::After => None,
            Stage::Body if group.failed && has(Stage::Errors) => Some(Stage::Errors),
            Stage::Body | Stage::Errors if has(Stage::Finally) => Some(Stage::Finally),
            Stage::Body | Stage::Errors | Stage::Finally => None,
        };
        if let Some(stage) = next {
            self.emit(Event::GroupStage { step: key.clone(), stage });
            return true;
        }
        let outcome = self.outcome_of(key, group);
        let failure = group.failure.clone().map(|(_, failure)| failure);
        let went_well = matches!(outcome, StepOutcome::Success | StepOutcome::Warning);
        match group.then.filter(|_| went_well) {
            Some(then) => self.reviewed(key, then, outcome),
            None if key.is_root() => self.root_ended(outcome),
            // A decision ends its round of a loop, and the loop goes on.
            None if outcome == StepOutcome::Cancelled && group.over && self.is_ended_round(key) => {
                self.end_step(key, StepOutcome::Skipped, None, None);
            }
            None => self.end_step(key, outcome, None, failure),
        }
        false
    }

    fn outcome_of(&self, key: &StepKey, group: &GroupState) -> StepOutcome {
        let tolerates = || {
            let task = self.flow.task(key.task_id()).filter(|_| key.iteration_number().is_none());
            matches!(task.map(|task| &task.kind), Some(TaskKind::AllowFailure(_)))
        };
        match (&self.state.exit, group) {
            _ if self.state.cancelling => StepOutcome::Cancelled,
            // Whatever holds the step that ended the run ends like it.
            (Some(exit), _) if exit.step.is_under(key) => exit.outcome,
            (Some(_), _) | (None, GroupState { cancelled: true, .. }) => StepOutcome::Cancelled,
            (None, GroupState { failed: true, .. }) if tolerates() => StepOutcome::Warning,
            (None, GroupState { failed: true, .. }) => StepOutcome::Failed,
            (None, GroupState { warned: true, .. }) => StepOutcome::Warning,
            _ => StepOutcome::Success,
        }
    }

    /// The list of a group is done: what comes next is evaluated, unless it is already or the run is paused.
    fn ask(&mut self, key: &StepKey) {
        let asks = matches!(self.state.steps.get(key), Some(Step { work: Work::Group(group), .. }) if group.asks == Asks::WhenDone);
        if asks && !self.state.paused {
            self.emit(Event::GroupAsks { step: key.clone() });
            self.act(Action::Evaluate(key.clone()));
        }
    }

    pub(super) fn end_step(
        &mut self,
        key: &StepKey,
        outcome: StepOutcome,
        output: Option<Payload>,
        failure: Option<Failure>,
    ) {
        let task = self.flow.task(key.task_id()).filter(|_| key.iteration_number().is_none());
        let outcome = match (outcome, task) {
            (StepOutcome::Warning, Some(task)) if task.allow_warning => StepOutcome::Success,
            (StepOutcome::Failed, Some(task)) if task.allow_failure && task.allow_warning => StepOutcome::Success,
            (other, _) => other,
        };
        let failure = failure.filter(|_| outcome != StepOutcome::Success);
        let tolerated = outcome == StepOutcome::Failed
            && (task.is_some_and(|t| t.allow_failure) || self.keeps_failures_to_itself(key));
        self.clear_timers(|timer| timer.step == *key);
        let fatal = failure.clone().filter(|_| outcome == StepOutcome::Failed && !tolerated);
        self.emit(Event::StepEnded { step: key.clone(), outcome, at: self.now, tolerated, output, failure });
        if let Some(parent) = key.parent() {
            self.touched.push_back(parent);
        }
        if let Some(failure) = fatal {
            self.end_all_by(key, failure);
        }
    }

    /// A round of a loop that goes on whatever becomes of its rounds.
    fn keeps_failures_to_itself(&self, key: &StepKey) -> bool {
        let kind = self.flow.task(key.task_id()).map(|task| &task.kind);
        key.iteration_number().is_some()
            && matches!(kind, Some(TaskKind::Loop(LoopSpec { transmit_failed: false, .. })))
    }

    pub(super) fn clear_timers(&mut self, which: impl Fn(&Timer) -> bool) {
        let gone: Vec<u64> = self.state.timers.iter().filter(|(_, t)| which(t)).map(|(id, _)| *id).collect();
        for timer in gone {
            self.emit(Event::TimerCleared { timer });
        }
    }

    pub(super) fn set_timer(&mut self, step: &StepKey, delay: i64, why: TimerWhy) {
        let due = self.now.plus(delay.clamp(0, self.limits.wait_ms_max));
        self.emit(Event::TimerSet { timer: self.state.next_timer, due, step: step.clone(), why });
    }
}
