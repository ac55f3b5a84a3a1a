//! What people ask for. A refusal changes nothing and says why.

use super::{Machine, NotPossible, refuse};
use crate::ids::RunId;
use crate::run::conclusion::Conclusion;
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload, Stage, StepOutcome, TimerWhy, VerdictKind};
use crate::run::state::{GroupState, Phase, Work};
use crate::run::step::StepKey;
use crate::run::wish::Other;

impl Machine<'_> {
    pub(super) fn pause(&mut self, by: By) -> Result<(), NotPossible> {
        match self.state.phase {
            Phase::Open if self.state.is_stopping() => refuse("the run is being ended"),
            Phase::Open if self.state.paused => refuse("the run is paused already"),
            Phase::Open => {
                self.emit(Event::Paused { by });
                Ok(())
            }
            Phase::Waiting => refuse("the run has not started; cancel it instead"),
            Phase::Finishing | Phase::RetryLater | Phase::Ended(_) => refuse("only a running run can be paused"),
        }
    }

    pub(super) fn resume(&mut self, by: By) -> Result<(), NotPossible> {
        if !self.state.paused || self.state.is_ended() {
            let steps = self.state.paused_steps();
            // A question is not answered by a bare resume, and hides no pause beside it.
            let step = steps.iter().find(|step| self.review_of(step).is_none()).or(steps.first());
            if let (Phase::Open, Some(step)) = (self.state.phase, step) {
                return self.resume_first_step(step, by);
            }
            if self.state.open_doubts() > 0 {
                return refuse("the run is not paused: an effect is in doubt; give a verdict (semel run verdict)");
            }
            return refuse("the run is not paused; use restart for a failed run");
        }
        self.emit(Event::Resumed { by, at: Some(self.now) });
        let resting: Vec<StepKey> = self
            .state
            .steps
            .iter()
            .filter(|(_, step)| matches!(step.work, Work::Errand { rests: true, .. }))
            .map(|(key, _)| key.clone())
            .collect();
        for key in resting {
            self.set_errand_again(&key, 0);
        }
        let ready: Vec<(StepKey, bool)> = self
            .state
            .steps
            .iter()
            .filter_map(|(key, step)| match &step.work {
                work if work.is_evaluated() => Some((key.clone(), true)),
                Work::Backoff { timer: None, .. } => Some((key.clone(), false)),
                _ => None,
            })
            .collect();
        for (key, evaluate) in ready {
            if evaluate {
                self.act(Action::Evaluate(key));
            } else {
                self.try_again(&key);
            }
        }
        self.touch_all_groups();
        Ok(())
    }

    /// The step that it has stopped before is let through; other tasks that are named stop it again.
    pub(super) fn resume_from_breakpoint(
        &mut self,
        by: By,
        tasks: Vec<String>,
        places: Vec<StepKey>,
    ) -> Result<(), NotPossible> {
        if self.state.phase != Phase::Open || self.state.stopped_at.is_none() {
            return refuse("the run does not stand at a breakpoint");
        }
        self.emit(Event::BreakpointsSet { tasks, places });
        self.resume(by)
    }

    pub(super) fn restart(&mut self, by: By) -> Result<(), NotPossible> {
        self.may_restart()?;
        self.reopen(by);
        Ok(())
    }

    /// As [`Self::restart`], by another definition.
    pub(super) fn restart_by(&mut self, by: By, other: Other) -> Result<(), NotPossible> {
        self.may_restart()?;
        // The places are those of the run as the restart leaves it.
        let mut again = self.state.clone();
        again.restart(again.round + 1, self.now);
        let places = self.places(&again, &other.was)?;
        let Other { flow, revision, .. } = other;
        let changed = Event::FlowChanged { by: by.clone(), flow, revision, at: self.now, places };
        self.reopen_with(by, false, None, Some(changed));
        Ok(())
    }

    pub(super) fn may_restart(&self) -> Result<(), NotPossible> {
        match self.state.phase {
            _ if self.state.open_doubts() > 0 => {
                refuse("an effect is in doubt; give a verdict first (semel run verdict)")
            }
            _ if self.state.conclusion == Some(Conclusion::Retried) => {
                refuse("another run has taken its place; restart that one")
            }
            Phase::Ended(EndStatus::Completed) => refuse("the run completed; use replay to do finished steps again"),
            Phase::Ended(EndStatus::Failed | EndStatus::Cancelled) => Ok(()),
            _ if self.state.paused => refuse("the run is paused; use resume"),
            Phase::Waiting | Phase::Open | Phase::Finishing | Phase::RetryLater => {
                refuse("the run has not ended; it goes on by itself")
            }
        }
    }

    /// Goes on from the failed steps; what a verdict called done is not asked for again.
    pub(super) fn reopen(&mut self, by: By) {
        self.reopen_with(by, false, None, None);
    }

    /// As [`Self::reopen`]. `anew`: with new sub-runs for those that failed; `child`: a step waits for its sub-run again;
    /// `other`: by this definition, in the event that says so.
    pub(super) fn reopen_with(&mut self, by: By, anew: bool, child: Option<(StepKey, RunId)>, other: Option<Event>) {
        let done: Vec<StepKey> = self.settled_steps(VerdictKind::Done).collect();
        let round = self.state.round + 1;
        self.emit(Event::Restarted { by, round, at: self.now, anew, child });
        if let Some(changed) = other {
            self.emit(changed);
        }
        for key in done {
            self.end_step(&key, StepOutcome::Success, None, None);
        }
        let again = if self.state.paused { vec![] } else { self.state.evaluated_steps() };
        for key in again {
            self.act(Action::Evaluate(key));
        }
        self.touch_all_groups();
    }

    /// As [`Self::reopen`], but a step that a verdict called failed stays failed: only a restart
    /// that a person asks for does it again.
    pub(super) fn reopen_by_verdicts(&mut self, by: By) {
        let failed: Vec<StepKey> = self.settled_steps(VerdictKind::Fail).collect();
        self.reopen(by);
        self.out.actions.retain(|action| !matches!(action, Action::Evaluate(key) if failed.contains(key)));
        for key in failed {
            self.end_step(&key, StepOutcome::Failed, None, Some(called_failed()));
        }
    }

    /// Failed steps, kept for a restart, whose doubt was settled in this way.
    pub(super) fn settled_steps(&self, verdict: VerdictKind) -> impl Iterator<Item = StepKey> {
        let doubts = self.state.doubts.iter();
        doubts
            .filter(move |(key, doubt)| doubt.verdict == Some(verdict) && self.state.steps.contains_key(key))
            .map(|(key, _)| key.clone())
    }

    pub(super) fn may_replay(&self) -> Result<(), NotPossible> {
        if self.state.open_doubts() > 0 {
            return refuse("an effect is in doubt; give a verdict first (semel run verdict)");
        }
        if !self.state.is_ended() {
            return refuse("the run has not ended; cancel it first");
        }
        Ok(())
    }

    pub(super) fn replay(&mut self, by: By, from: Option<String>) -> Result<(), NotPossible> {
        self.may_replay()?;
        let from = match from {
            None => 0,
            Some(id) => match self.flow.flow.tasks.iter().position(|task| task.id == id) {
                Some(index) if index > 0 && index as u32 >= self.state.tasks_reached() => {
                    return refuse(format!("`{id}` was never reached; a replay begins at a task that was"));
                }
                Some(index) => index as u32,
                None => return refuse(format!("`{id}` is not a top-level task of this flow; a replay begins at one")),
            },
        };
        self.emit(Event::Replayed { by, take: self.state.take + 1, from, at: self.now, back: None });
        self.touched.push_back(StepKey::root());
        Ok(())
    }

    pub(super) fn verdict(
        &mut self,
        key: StepKey,
        verdict: VerdictKind,
        by: By,
        result: Option<Payload>,
    ) -> Result<(), NotPossible> {
        match self.state.doubts.get(&key) {
            Some(doubt) if doubt.verdict.is_none() => {}
            _ => return refuse(format!("no doubt is open at step `{key}`")),
        }
        if verdict == VerdictKind::Done && result.is_none() {
            return refuse("a verdict of done needs the step's result (an object such as {})");
        }
        let waits_here = matches!(self.state.steps.get(&key).map(|s| &s.work), Some(Work::Doubtful(_)));
        self.emit(Event::Verdict { step: key.clone(), verdict, by: by.clone(), result: result.clone() });
        if waits_here {
            self.go_on_from(&key, verdict, result);
        } else if self.state.phase == Phase::Ended(EndStatus::Failed) && self.verdicts_go_on() {
            self.reopen_by_verdicts(by);
        } else if let Some(group) = key.parent() {
            self.nothing_failed(&group);
        }
        Ok(())
    }

    /// All steps that failed a group turn out to be done while others of it are still open: the group goes on, and its
    /// `errors:` have nothing to handle. Where the group has ended already, the verdicts wait until the run has failed.
    fn nothing_failed(&mut self, group: &StepKey) {
        let Some(Work::Group(GroupState { stage: Stage::Body, kept, .. })) =
            self.state.steps.get(group).map(|step| &step.work)
        else {
            return;
        };
        let is_done =
            |key: &StepKey| self.state.doubts.get(key).is_some_and(|doubt| doubt.verdict == Some(VerdictKind::Done));
        let going_on = self.state.phase == Phase::Open && !self.state.is_stopping() && !self.state.is_kept(group);
        if !going_on || !kept.iter().all(is_done) {
            return;
        }
        for key in kept.clone() {
            self.end_step(&key, StepOutcome::Success, None, None);
        }
    }

    /// The run waits at the step itself.
    fn go_on_from(&mut self, key: &StepKey, verdict: VerdictKind, result: Option<Payload>) {
        match verdict {
            VerdictKind::Done => self.end_step(key, StepOutcome::Success, result, None),
            VerdictKind::Fail => self.end_step(key, StepOutcome::Failed, None, Some(called_failed())),
            VerdictKind::Repeat | VerdictKind::RepeatNewKey if self.state.paused => {
                self.set_timer(key, 0, TimerWhy::Backoff);
            }
            VerdictKind::Repeat | VerdictKind::RepeatNewKey => {
                if let Some(Work::Doubtful(sending)) = self.state.steps.get(key).map(|s| s.work.clone()) {
                    self.send(key, sending, None);
                }
            }
        }
    }

    /// A failed run goes on once every doubt is decided and one of them, at a step that failed
    /// the run, says so.
    pub(super) fn verdicts_go_on(&self) -> bool {
        let mut wanted = [VerdictKind::Done, VerdictKind::Repeat, VerdictKind::RepeatNewKey].into_iter();
        self.state.open_doubts() == 0 && wanted.any(|verdict| self.settled_steps(verdict).next().is_some())
    }
}

fn called_failed() -> Failure {
    Failure::new("verdict_fail", "an operator decided that the step failed")
}
