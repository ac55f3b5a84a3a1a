//! After a crash: pure work is asked for again, effects by their class.

use super::Machine;
use super::effects::Loss;
use crate::ir::OnDoubt;
use crate::planted;
use crate::run::event::{Action, Event, Failure, StepOutcome, TimerWhy};
use crate::run::state::{Phase, Sending, Work, leaves_doubt};
use crate::run::step::StepKey;

impl Machine<'_> {
    pub(super) fn recover(&mut self) {
        match self.state.phase {
            Phase::Finishing => self.finish_up(),
            Phase::Open => {
                self.recover_steps();
                self.check_slas(0);
            }
            Phase::RetryLater if self.state.needs_successor() => self.act(Action::RunAgain),
            Phase::Waiting | Phase::RetryLater | Phase::Ended(_) => {}
        }
    }

    pub(super) fn recover_steps(&mut self) {
        let steps: Vec<(StepKey, Work)> = self.state.steps.iter().map(|(k, s)| (k.clone(), s.work.clone())).collect();
        for (key, work) in steps {
            match work {
                work if work.is_evaluated() && !self.state.paused => self.act(Action::Evaluate(key)),
                Work::Sending(sending) => self.recover_effect(&key, sending),
                // Ops and child admissions commit with their results; an open one was never carried out.
                Work::Op | Work::Child { run: None, .. } if self.state.is_stopping() => {
                    self.end_step(&key, StepOutcome::Cancelled, None, None);
                }
                Work::Op | Work::Child { run: None, .. } => self.act(Action::Op(key)),
                Work::Sleeping { .. } if planted!(SecondTimer) => self.set_timer(&key, 1_000, TimerWhy::Sleep),
                Work::Evaluating
                | Work::Group(_)
                | Work::Backoff { .. }
                | Work::Errand { .. }
                | Work::OpFailed { .. }
                | Work::Sleeping { .. }
                | Work::AtPause { .. }
                | Work::Child { .. }
                | Work::Doubtful(_)
                | Work::Failed => {}
            }
        }
        self.go_on();
    }

    /// The process died between the intent and the outcome.
    pub(super) fn recover_effect(&mut self, key: &StepKey, sending: Sending) {
        let failure = Failure::new(
            "crashed",
            "the process stopped after the request may have left and before its answer was recorded",
        );
        if self.repeatable(key, &sending) && !self.state.is_stopping() {
            if self.state.paused {
                self.emit(Event::SendLost { step: key.clone(), send: sending.send, failure });
                return self.set_timer(key, 0, TimerWhy::Backoff);
            }
            return self.send(key, sending, None);
        }
        if !leaves_doubt(sending.class) {
            return self.end_step(key, StepOutcome::Cancelled, None, Some(failure));
        }
        match self.on_doubt(key) {
            OnDoubt::Fail => self.attempt_failed(key, failure, Loss::Final),
            OnDoubt::Hold | OnDoubt::Repeat => {
                self.emit(Event::DoubtRaised { step: key.clone(), failure });
                if self.state.is_stopping() {
                    self.end_step(key, StepOutcome::Cancelled, None, None);
                }
            }
        }
    }
}
