//! Effects: the right to send, and what each answer (or its absence) leads to.

use super::{Machine, SENDS_MAX};
use crate::ir::{EffectClass, OnDoubt};
use crate::planted;
use crate::run::errand::FAILED_FOR_GOOD;
use crate::run::event::{Action, By, Event, Failure, Payload, Performed, StepOutcome, TimerWhy};
use crate::run::retry::delay_ms;
use crate::run::state::{Sending, Step, Timer, Work, leaves_doubt};
use crate::run::step::StepKey;

/// How long a far side remembers a key when its author did not say.
const KEY_WINDOW_MS: i64 = 86_400_000;

/// What a failed attempt leaves unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The far side said no, or nothing left.
    No,
    /// Something may have arrived, and the class allows to send it again.
    Repeatable,
    /// Something may have arrived, and it must not be sent again unasked.
    Final,
}

impl Machine<'_> {
    /// Records the right to send once more, and asks for it.
    pub(super) fn send(&mut self, key: &StepKey, sending: Sending, request: Option<Payload>) {
        let attempt = self.state.steps.get(key).map_or(1, |s| s.attempt);
        let send = sending.send + 1;
        // Past its window the far side has forgotten the key, and a new window begins.
        let safe_until =
            sending.safe_until.map(|until| if self.now < until { until } else { self.now.plus(self.window_ms(key)) });
        self.emit(Event::Intent {
            step: key.clone(),
            attempt,
            send,
            class: sending.class,
            out_key: if planted!(EffectKeyCountsSends) {
                format!("{}-{send}", sending.out_key)
            } else {
                sending.out_key
            },
            safe_until,
            timeout_ms: sending.timeout_ms,
            request,
        });
        self.act(Action::Perform { step: key.clone(), send });
    }

    fn window_ms(&self, key: &StepKey) -> i64 {
        self.flow.task(key.task_id()).and_then(|t| t.effect.window_ms).unwrap_or(KEY_WINDOW_MS)
    }

    pub(super) fn on_doubt(&self, key: &StepKey) -> OnDoubt {
        self.flow.task(key.task_id()).map_or(OnDoubt::Hold, |t| t.effect.on_doubt)
    }

    /// May this effect be sent again without asking anyone?
    pub(super) fn repeatable(&self, key: &StepKey, sending: &Sending) -> bool {
        match sending.class {
            EffectClass::Pure | EffectClass::Read | EffectClass::Repeatable => true,
            EffectClass::Keyed => {
                sending.safe_until.is_some_and(|until| self.now < until) || self.on_doubt(key) == OnDoubt::Repeat
            }
            EffectClass::Naked | EffectClass::Probed | EffectClass::Transactional => {
                self.on_doubt(key) == OnDoubt::Repeat || planted!(NakedRepeated)
            }
        }
    }

    pub(super) fn performed(&mut self, key: &StepKey, send: u32, outcome: Performed) {
        let Some(Step { work: Work::Sending(sending), .. }) = self.state.steps.get(key) else { return };
        if sending.send != send {
            return; // an answer to an older send: the newer one is what counts
        }
        let sending = sending.clone();
        let Some(task) = self.flow.task(key.task_id()) else { return };
        match outcome {
            Performed::Done { output } => self.end_step(key, self.ending(key, task), Some(output), None),
            Performed::FailedClean { failure } => self.attempt_failed(key, failure, Loss::No),
            Performed::Lost { failure } => {
                let again = self.repeatable(key, &sending) && !self.state.is_stopping();
                if again && sending.repeats + 1 < SENDS_MAX {
                    self.emit(Event::SendLost { step: key.clone(), send, failure });
                    self.set_timer(key, 250 << sending.repeats.min(6), TimerWhy::Backoff);
                } else {
                    self.attempt_failed(key, failure, if again { Loss::Repeatable } else { Loss::Final });
                }
            }
        }
    }

    /// An attempt failed: wait for the next one, or fail the step.
    pub(super) fn attempt_failed(&mut self, key: &StepKey, failure: Failure, loss: Loss) {
        let Some(step) = self.state.steps.get(key) else { return };
        let attempt = step.attempt;
        let sent = match &step.work {
            Work::Sending(sending) | Work::Backoff { sending: Some(sending), .. } => {
                Some((sending.send, sending.class, sending.lost))
            }
            _ => None,
        };
        let for_good = loss == Loss::Final || failure.code == FAILED_FOR_GOOD;
        let delay = if for_good { None } else { self.next_attempt_in(key) };
        // A sub-run's time-out belongs to the attempt.
        self.clear_timers(|timer| timer.step == *key);
        if let (Some(_), Loss::Repeatable, Some((send, _, _))) = (delay, loss, sent) {
            self.emit(Event::SendLost { step: key.clone(), send, failure: failure.clone() });
        }
        // That the last send was refused says nothing about one before it whose answer was lost.
        let doubt = delay.is_none()
            && sent.is_some_and(|(_, class, lost_before)| leaves_doubt(class) && (loss != Loss::No || lost_before));
        self.emit(Event::AttemptFailed { step: key.clone(), attempt, failure: failure.clone(), doubt });
        match delay {
            Some(delay) => self.set_timer(key, delay, TimerWhy::Backoff),
            None if self.state.is_stopping() => self.end_step(key, StepOutcome::Cancelled, None, Some(failure)),
            None => self.end_step(key, StepOutcome::Failed, None, Some(failure)),
        }
    }

    /// How long the next attempt at a step has to wait, if there is to be one.
    pub(super) fn next_attempt_in(&self, key: &StepKey) -> Option<i64> {
        let step = self.state.steps.get(key).filter(|_| !self.state.is_stopping())?;
        let own = self.flow.task(key.task_id()).and_then(|task| task.retry.as_ref());
        // One that wants a new run is the business of the run, once it has failed.
        let retry = step.retry.as_deref().or(own).filter(|retry| !retry.new_execution)?;
        let (first_at, id) = (step.first_at.unwrap_or(self.now), self.state.step_id(key));
        delay_ms(retry, step.attempt + 1, first_at, self.now, id, self.limits.retries_max)
    }

    pub(super) fn timer_fired(&mut self, timer: u64) {
        let Some(Timer { step, why, .. }) = self.state.timers.get(&timer).cloned() else { return };
        self.emit(Event::TimerFired { timer });
        match why {
            TimerWhy::Sleep => self.end_step(&step, StepOutcome::Success, None, None),
            TimerWhy::CutShort => {
                let failure = Failure::new("timeout", "the step would have slept longer than its timeout");
                self.attempt_failed(&step, failure, Loss::No);
            }
            TimerWhy::Backoff => self.try_again(&step),
            TimerWhy::Timeout => self.timed_out(&step),
            TimerWhy::Pause => self.pause_is_over(&step),
            TimerWhy::Interval => self.touched.push_back(step),
            TimerWhy::Quiet | TimerWhy::StartDate => self.act(Action::EnterLane),
            TimerWhy::Sla(place) => self.sla_broken(place),
            TimerWhy::FlowRetry if self.retry_of_run().is_some_and(|retry| retry.new_execution) => {
                self.act(Action::RunAgain);
            }
            TimerWhy::FlowRetry => self.reopen(By { who: "flow retry".into(), why: String::new() }),
        }
    }

    pub(super) fn try_again(&mut self, key: &StepKey) {
        if self.state.paused {
            return; // Resume finds it
        }
        match self.state.steps.get(key).map(|s| s.work.clone()) {
            // The wait may have outlasted the window: a lost request is then no longer safe to repeat.
            Some(Work::Backoff { sending: Some(sending), .. }) if sending.lost && !self.repeatable(key, &sending) => {
                let failure =
                    Failure::new("lost", "an answer was lost, and the time in which a repeat is safe is over");
                self.attempt_failed(key, failure, Loss::Final);
            }
            Some(Work::Backoff { sending: Some(sending), .. }) => self.send(key, sending, None),
            Some(Work::Evaluating) => self.act(Action::Evaluate(key.clone())),
            _ => {}
        }
    }
}
