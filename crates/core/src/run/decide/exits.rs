//! Ends of a run before its last step: a person cancels it, or the flow itself ends it.

use super::effects::Loss;
use super::{Machine, NotPossible, refuse};
use crate::ir::{Dialect, ExitState};
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload, StepOutcome};
use crate::run::state::{Exit, Phase, Work};
use crate::run::step::StepKey;
use crate::run::wish::TERMINATED;

/// The code of the failure of a run that its flow has ended.
const EXIT: &str = "exit";

impl Machine<'_> {
    pub(super) fn cancel(&mut self, by: By) -> Result<(), NotPossible> {
        self.cancelled(by, false)
    }

    /// The sub-runs are not waited for any more, and go on by themselves.
    pub(super) fn cancel_alone(&mut self, by: By) -> Result<(), NotPossible> {
        self.cancelled(by, true)
    }

    pub(super) fn cancelled(&mut self, by: By, alone: bool) -> Result<(), NotPossible> {
        match self.state.phase {
            Phase::Ended(_) => return refuse("the run has ended already"),
            // Conductor shows why a run was ended.
            _ if self.flow.flow.dialect == Dialect::Conductor && !alone && !self.state.cancelling => {
                let failure = Failure::new(TERMINATED, by.why.as_str());
                self.stop(by, EndStatus::Cancelled, failure);
                return Ok(());
            }
            Phase::Waiting | Phase::RetryLater | Phase::Finishing => {
                self.emit(Event::CancelRequested { by, alone });
                self.conclude(EndStatus::Cancelled, None, None);
                return Ok(());
            }
            Phase::Open if self.state.cancelling => return Ok(()),
            Phase::Open => {}
        }
        self.emit(Event::CancelRequested { by: by.clone(), alone });
        self.stop_steps((!alone).then_some(&by));
        Ok(())
    }

    /// The flow ends its run: sub-runs go on by themselves, unless the run is to be killed.
    pub(super) fn exit(&mut self, key: &StepKey, state: ExitState, reason: Option<String>, output: Option<Payload>) {
        let outcome = match state {
            ExitState::Success => StepOutcome::Success,
            ExitState::Warning => StepOutcome::Warning,
            ExitState::Failed => StepOutcome::Failed,
            ExitState::Cancelled => StepOutcome::Cancelled,
            ExitState::Killed => {
                let by = By { who: "exit".into(), why: format!("step {key} ended the run") };
                // The run is open: it has just evaluated a step.
                let _ = self.cancel(by);
                return;
            }
        };
        let failure = reason.map_or_else(|| exited(key), |reason| Failure::new(EXIT, reason));
        let failure = Some(failure).filter(|_| matches!(outcome, StepOutcome::Failed | StepOutcome::Cancelled));
        self.emit(Event::Exited { step: key.clone(), outcome, failure: failure.clone() });
        let failure = failure.filter(|_| outcome == StepOutcome::Failed);
        if self.state.steps.get(key).is_some_and(|step| matches!(step.work, Work::Group(_))) {
            self.touched.push_back(key.clone());
        } else if output.is_some() {
            self.end_step(key, StepOutcome::Success, output, None);
        } else {
            self.end_step(key, outcome, None, failure);
        }
        // What a workflow of Conductor's has started ends with it.
        let by = By { who: "exit".into(), why: format!("step {key} ended the run") };
        self.stop_steps(self.tells_its_output().then_some(&by));
    }

    /// How a run ends that its flow has ended.
    pub(super) fn exited(&mut self, exit: Exit) {
        let Exit { step, outcome, failure } = exit;
        let status = match outcome {
            StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped => EndStatus::Completed,
            StepOutcome::Failed => EndStatus::Failed,
            StepOutcome::Cancelled => EndStatus::Cancelled,
        };
        // A rule of the flow says so, not a person: the failure tells it.
        let failure = (status != EndStatus::Completed).then(|| failure.unwrap_or_else(|| exited(&step)));
        if self.tells_its_output() {
            return self.give_outputs(status, failure);
        }
        self.conclude(status, None, failure);
    }

    /// What has been sent must settle, and so must what is on its way to become a sub-run. All else ends here.
    pub(super) fn stop_steps(&mut self, kill: Option<&By>) {
        let steps: Vec<(StepKey, Work)> = self.state.steps.iter().map(|(k, s)| (k.clone(), s.work.clone())).collect();
        for (key, work) in steps {
            // The step that ended the run is kept, and is not open any more.
            if self.state.is_kept(&key) {
                continue;
            }
            match (work, kill) {
                (Work::Sending(_) | Work::Op | Work::Child { run: None, .. } | Work::Failed, _) => {}
                (Work::Child { run: Some(run), .. }, Some(by)) => self.act(Action::CancelChild { run, by: by.clone() }),
                (Work::Group(_), _) => self.touched.push_back(key),
                (Work::Backoff { sending: Some(sending), .. }, _) if sending.lost => {
                    let failure =
                        Failure::new("lost", "an answer was lost, and the run was cancelled before the repeat");
                    self.attempt_failed(&key, failure, Loss::Final);
                }
                (
                    Work::Evaluating
                    | Work::Backoff { .. }
                    | Work::Errand { .. }
                    | Work::Sleeping { .. }
                    | Work::AtPause { .. }
                    | Work::Child { .. }
                    | Work::OpFailed { .. }
                    | Work::Doubtful(_),
                    _,
                ) => self.end_step(&key, StepOutcome::Cancelled, None, None),
            }
        }
    }
}

fn exited(step: &StepKey) -> Failure {
    Failure::new(EXIT, format!("step {step} ended the run"))
}
