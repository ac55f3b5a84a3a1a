//! What people ask of a run at a door beyond stopping it and doing it again. A refusal changes nothing and says why.

use super::{Machine, NotPossible, refuse};
use crate::run::conclusion::Conclusion;
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload, StepOutcome, TimerWhy};
use crate::run::state::{Phase, Work};
use crate::run::step::StepKey;
use serde_json::json;

impl Machine<'_> {
    /// A run that waits for its slot or its date starts now. One that has begun has nothing to be forced to.
    pub(super) fn force_run(&mut self, by: By, queued: bool) -> Result<(), NotPossible> {
        let waits = self.state.timers.values().any(|t| matches!(t.why, TimerWhy::StartDate | TimerWhy::Quiet));
        match self.state.phase {
            Phase::Ended(_) => refuse("the run has ended already"),
            Phase::Waiting if queued && waits => refuse("the run does not wait for its slot"),
            Phase::Waiting => {
                self.clear_timers(|_| true);
                self.emit(Event::Forced { by });
                self.act(Action::ForceLane);
                Ok(())
            }
            _ if queued => refuse("the run does not wait for its slot"),
            Phase::Open | Phase::Finishing | Phase::RetryLater => Ok(()),
        }
    }

    pub(super) fn set_labels(&mut self, by: By, labels: Payload) -> Result<(), NotPossible> {
        if !self.state.is_ended() {
            return refuse("the run has not ended; its labels are set by its tasks");
        }
        self.emit(Event::LabelsReplaced { labels, by });
        Ok(())
    }

    pub(super) fn change_status(
        &mut self,
        by: By,
        status: EndStatus,
        warned: bool,
        conclusion: Option<Conclusion>,
    ) -> Result<(), NotPossible> {
        if self.state.open_doubts() > 0 {
            return refuse("an effect is in doubt; give a verdict first (semel run verdict)");
        }
        if !self.state.is_ended() {
            return refuse("the run has not ended; only the status of one that has can be changed");
        }
        self.emit(Event::StatusChanged { status, warned, conclusion, by, failure: None });
        Ok(())
    }

    /// What Kestra shows of a run that was begun again.
    pub(super) fn label_restarted(&mut self) {
        self.emit(Event::LabelsSet { labels: Payload::new(json!({"system.restarted": "true"})) });
    }

    /// A step that failed the run is called something else, and the run goes on from there.
    pub(super) fn mark_step(&mut self, key: StepKey, outcome: StepOutcome, by: By) -> Result<(), NotPossible> {
        if self.state.open_doubts() > 0 {
            return refuse("an effect is in doubt; give a verdict first (semel run verdict)");
        }
        if !matches!(self.state.phase, Phase::Ended(EndStatus::Failed | EndStatus::Cancelled)) {
            return refuse("only a step of a run that failed or was cancelled can be called something else");
        }
        if self.state.conclusion == Some(Conclusion::Retried) {
            return refuse("another run has taken its place; its steps are called something else there");
        }
        let failed = self.state.steps.get(&key).is_some_and(|step| !matches!(step.work, Work::Doubtful(_)));
        if key.is_root() || !failed {
            return refuse(format!(
                "step `{key}` did not fail the run; only one that did can be called something else"
            ));
        }
        self.reopen(by.clone());
        self.label_restarted();
        self.out.actions.retain(|action| !matches!(action, Action::Evaluate(step) if step.is_under(&key)));
        let failure = (outcome == StepOutcome::Failed)
            .then(|| Failure::new("marked_failed", format!("{} called the step failed", by.who)));
        self.end_step(&key, outcome, None, failure);
        Ok(())
    }
}
