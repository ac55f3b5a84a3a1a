//! Steps that someone outside carries out: set out, answered, set out again.

use super::effects::Loss;
use super::{Machine, NotPossible, refuse};
use crate::ids::Hash16;
use crate::ir::ErrandKind;
use crate::planted;
use crate::run::errand::{ErrandEnd, ErrandTerms, FAILED_FOR_GOOD, Late, Said, Seen, TIMED_OUT, WhenLate};
use crate::run::event::{By, EndStatus, Event, Failure, Payload, StepOutcome};
use crate::run::retry::delay_ms;
use crate::run::state::{Step, Work};
use crate::run::step::StepKey;
use crate::schema;

impl Machine<'_> {
    pub(super) fn set_errand(&mut self, key: &StepKey, terms: ErrandTerms, request: Payload) {
        let attempt = self.state.steps.get(key).map_or(1, |step| step.attempt);
        let free_at = self.now.plus(terms.delay_ms.unwrap_or(0).max(0));
        self.emit(Event::ErrandSet {
            step: key.clone(),
            attempt,
            at: self.now,
            free_at,
            terms: Some(Box::new(terms)),
            request: Some(request),
        });
    }

    /// An answer counts if it is for the attempt that is out. A repeat, or an answer to an attempt that was given up,
    /// changes nothing.
    pub(super) fn errand_said(
        &mut self,
        key: &StepKey,
        attempt: u32,
        said: Said,
        seen: Seen,
    ) -> Result<(), NotPossible> {
        let terms = self.is_awaited(key, attempt)?;
        match said {
            Said::Done { output } => match misfit(&terms, &output) {
                None => {
                    self.answered(key, attempt, ErrandEnd::Done, seen, None);
                    self.end_step(key, StepOutcome::Success, Some(output), None);
                }
                // The work is done: to have it done once more would not make the telling of it right.
                Some(text) => {
                    self.answered(key, attempt, ErrandEnd::FailedForGood, seen, Some(output));
                    self.errand_failed(key, &terms, Failure::new(FAILED_FOR_GOOD, text), true);
                }
            },
            Said::Failed { failure, output, for_good } => {
                let end = if for_good { ErrandEnd::FailedForGood } else { ErrandEnd::Failed };
                self.answered(key, attempt, end, seen, output);
                self.errand_failed(key, &terms, failure, for_good);
            }
            Said::Late(Late::Attempt) if terms.kind == ErrandKind::Wait => {
                self.answered(key, attempt, ErrandEnd::Done, seen, None);
                self.end_step(key, StepOutcome::Success, None, None);
            }
            Said::Late(late) => self.errand_late(key, attempt, &terms, late, seen),
        }
        Ok(())
    }

    pub(super) fn is_awaited(&self, key: &StepKey, attempt: u32) -> Result<Box<ErrandTerms>, NotPossible> {
        match self.state.steps.get(key) {
            Some(Step { attempt: out, work: Work::Errand { terms, rests: false }, .. })
                if *out == attempt || planted!(AttemptNotCompared) =>
            {
                Ok(terms.clone())
            }
            _ => refuse(format!("attempt {attempt} of step `{key}` is not awaited any more")),
        }
    }

    fn answered(&mut self, key: &StepKey, attempt: u32, end: ErrandEnd, seen: Seen, output: Option<Payload>) {
        self.emit(Event::ErrandAnswered { step: key.clone(), attempt, at: self.now, end, seen, output });
    }

    fn errand_late(&mut self, key: &StepKey, attempt: u32, terms: &ErrandTerms, late: Late, seen: Seen) {
        // Whoever fell silent is given up whatever the author says of long attempts.
        let when_late = if late == Late::Response { WhenLate::Again } else { terms.when_late };
        if when_late == WhenLate::Ignore {
            return;
        }
        let text = match late {
            Late::Poll => format!("nobody took it within {}", print(terms.poll_ms)),
            Late::Response => format!("no sign of life for {}", print(terms.response_ms)),
            Late::Attempt => format!("not done within {}", print(terms.attempt_ms)),
        };
        let failure = Failure::new(TIMED_OUT, text);
        self.answered(key, attempt, ErrandEnd::TimedOut, seen, None);
        match when_late {
            WhenLate::Again => self.errand_failed(key, terms, failure, false),
            WhenLate::EndRun | WhenLate::Ignore => {
                self.end_step(key, StepOutcome::Failed, None, Some(failure.clone()));
                let by = By { who: "timeout".into(), why: format!("step {key} took too long") };
                self.stop(by, EndStatus::Failed, failure);
            }
        }
    }

    fn errand_failed(&mut self, key: &StepKey, terms: &ErrandTerms, failure: Failure, for_good: bool) {
        let Some(step) = self.state.steps.get(key) else { return };
        let (attempt, first_at, id) = (step.attempt, step.first_at.unwrap_or(self.now), self.state.step_id(key));
        let delay = match &terms.retry {
            Some(retry) if !for_good && !self.state.is_stopping() => {
                delay_ms(retry, attempt + 1, first_at, self.now, id, self.limits.retries_max)
            }
            _ => None,
        };
        let Some(delay) = delay else { return self.attempt_failed(key, failure, Loss::No) };
        self.emit(Event::AttemptFailed { step: key.clone(), attempt, failure, doubt: false });
        if !self.state.paused {
            self.set_errand_again(key, delay + jitter(id, attempt, terms.jitter_ms));
        }
    }

    /// The next attempt, for the same request.
    pub(super) fn set_errand_again(&mut self, key: &StepKey, delay: i64) {
        let attempt = self.state.steps.get(key).map_or(1, |step| step.attempt);
        let free_at = self.now.plus(delay.clamp(0, self.limits.wait_ms_max));
        let (step, at) = (key.clone(), self.now);
        self.emit(Event::ErrandSet { step, attempt, at, free_at, terms: None, request: None });
    }
}

/// In what an output does not fit the schema that the step began with.
fn misfit(terms: &ErrandTerms, output: &Payload) -> Option<String> {
    if terms.output_schema.is_null() {
        return None;
    }
    let found = schema::misfits(&terms.output_schema, output.json());
    (!found.is_empty()).then(|| format!("the output does not fit its schema: {}", schema::in_words(&found)))
}

fn print(ms: Option<i64>) -> String {
    crate::duration::print_ms(ms.unwrap_or(0))
}

fn jitter(id: Hash16, attempt: u32, most: Option<i64>) -> i64 {
    let Some(most) = most.filter(|most| *most > 0) else { return 0 };
    let digest = Hash16::of(&[b"jitter", &id.0, &attempt.to_be_bytes()]);
    let drawn = u32::from_be_bytes([digest.0[0], digest.0[1], digest.0[2], digest.0[3]]);
    i64::from(drawn) % (most + 1)
}
