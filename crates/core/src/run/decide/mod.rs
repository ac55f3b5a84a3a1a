//! The machine: one input in, events and actions out.
//!
//! [`decide`] folds every event it emits into the state it was given, so afterwards the state is
//! exactly the fold of the journal with those events appended. If the commit of those events is
//! refused, the caller throws the state away and loads it again.
//!
//! What each failure does: an expression that does not evaluate fails its step; a clean failure
//! is retried by the author's policy, then fails the step; a lost answer is sent again where the
//! class allows, else the step fails with its effect in doubt; a crash in mid-effect repeats,
//! fails or holds by class and `on_doubt`. A failed step fails its group unless `allowFailure`;
//! `errors:` then `finally:` run; the run ends Failed, or Held while a doubt is open.
//!
//! While a run is paused what was sent may settle, and nothing starts: no step, no send, no op.
//! `Resume` finds all that waited.

mod asked;
mod children;
mod effects;
mod errands;
mod evaluated;
mod exits;
mod fatal;
mod pauses;
mod people;
mod places;
mod recover;
mod restored;
mod reviews;
mod rules;
mod steps;
mod wishes;

use children::ChildEnd;
use fatal::end_of;
pub use rules::finishing_action;

use super::event::{Action, By, EndStatus, Event, Failure, Input, Payload, StepOutcome, TimerWhy, VerdictKind};
use super::index::FlowIndex;
use super::retry::delay_ms;
use super::state::{GroupState, Phase, RunState, Work};
use super::step::StepKey;
use crate::ir::Retry;
use crate::limits::Limits;
use crate::planted;
use crate::time::Millis;
use std::collections::VecDeque;

/// Automatic sends of one attempt after lost answers, the first included.
pub const SENDS_MAX: u32 = 5;

/// Why an input is not possible now. The text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotPossible(pub String);

/// What came of an input.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    pub events: Vec<Event>,
    pub actions: Vec<Action>,
}

/// Decides one input. On `Err` nothing has changed.
pub fn decide(
    flow: &FlowIndex,
    state: &mut RunState,
    input: Input,
    now: Millis,
    limits: &Limits,
) -> Result<Decided, NotPossible> {
    let mut machine = Machine { flow, state, now, limits, out: Decided::default(), touched: VecDeque::new() };
    machine.handle(input)?;
    machine.settle();
    let ended = |event: &Event| matches!(event, Event::StepEnded { .. });
    if machine.state.phase == Phase::Open && machine.out.events.iter().any(ended) && machine.check_slas(0) {
        // It comes before the steps that were started by the end it looks at.
        machine.out.actions.rotate_right(1);
    }
    Ok(machine.out)
}

struct Machine<'a> {
    flow: &'a FlowIndex,
    state: &'a mut RunState,
    now: Millis,
    limits: &'a Limits,
    out: Decided,
    /// Groups that may have something to start or to end.
    touched: VecDeque<StepKey>,
}

pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, NotPossible> {
    Err(NotPossible(text.into()))
}

impl Machine<'_> {
    fn emit(&mut self, event: Event) {
        self.state.evolve(&event);
        self.out.events.push(event);
    }

    fn act(&mut self, action: Action) {
        self.out.actions.push(action);
    }

    fn handle(&mut self, input: Input) -> Result<(), NotPossible> {
        let heedless = planted!(HeldRunGoesOn)
            && !matches!(input, Input::Release { .. } | Input::Cancel { .. } | Input::CancelAlone { .. });
        if self.state.restored && !heedless {
            return self.held_by_restore(input);
        }
        match input {
            Input::Start => self.start(),
            Input::Evaluated { step, result, retry } => {
                self.note_retry(&step, retry);
                self.evaluated(&step, result);
            }
            Input::OutputsEvaluated(result) => self.outputs_evaluated(result),
            Input::Performed { step, send, outcome } => self.performed(&step, send, outcome),
            Input::Errand { step, attempt, said, seen } => return self.errand_said(&step, attempt, said, seen),
            Input::Continue => self.go_on(),
            Input::TimerFired { timer } => self.timer_fired(timer),
            Input::ChildEnded { run, status, conclusion, warned, outputs, doubts } => {
                self.child_ended(ChildEnd { run, status, conclusion, warned }, outputs, doubts);
            }
            Input::DoubtsBelow { run, count } => self.doubts_below(run, count),
            Input::Delivered { payload } => self.emit(Event::Delivered { payload }),
            Input::Pause { by } => return self.pause(by),
            Input::Resume { by } => return self.resume(by),
            Input::ResumeStep { step, by, inputs, review } => return self.resume_step(&step, by, inputs, review),
            Input::ResumeFromBreakpoint { by, tasks, places } => return self.resume_from_breakpoint(by, tasks, places),
            Input::Release { .. } => return refuse("no restore holds the run"),
            Input::Cancel { by } => return self.cancel(by),
            Input::CancelAlone { by } => return self.cancel_alone(by),
            Input::Restart { by } => return self.restart(by),
            Input::RestartMarked { by, other } => {
                match other {
                    None => self.restart(by)?,
                    Some(other) => self.restart_by(by, *other)?,
                }
                self.label_restarted();
            }
            Input::Replay { by, from } => return self.replay(by, from),
            Input::Verdict { step, verdict, by, result } => return self.verdict(step, verdict, by, result),
            Input::Stop { by, status, failure } => self.stop(by, status, failure),
            Input::ForceRun { by, queued } => return self.force_run(by, queued),
            Input::SetLabels { by, labels } => return self.set_labels(by, labels),
            Input::ChangeStatus { by, status, warned, conclusion } => {
                return self.change_status(by, status, warned, conclusion);
            }
            Input::MarkStep { step, outcome, by } => return self.mark_step(step, outcome, by),
            Input::Wish { wish, by } => return self.wish(wish, by),
            Input::ChildReopened { run, by } => self.child_reopened(run, by),
            Input::SlaChecked { sla, holds } => self.sla_checked(sla, holds),
            Input::Recover => self.recover(),
        }
        Ok(())
    }

    fn start(&mut self) {
        if self.state.phase != Phase::Waiting {
            return;
        }
        self.clear_timers(|_| true);
        self.emit(Event::Started { at: self.now });
        self.watch_slas();
        // A run that goes on where another one failed begins with what failed there.
        for key in self.state.evaluated_steps() {
            self.act(Action::Evaluate(key));
        }
        self.touch_all_groups();
    }

    fn touch_all_groups(&mut self) {
        let groups = self.state.steps.iter().filter(|(_, s)| matches!(s.work, Work::Group(_))).map(|(k, _)| k.clone());
        // Innermost first, so that a parent sees its children's ends.
        self.touched.extend(groups.rev());
    }

    fn root_ended(&mut self, outcome: StepOutcome) {
        if let Some(concluded) = self.state.concluded.clone() {
            return self.after_is_over(concluded);
        }
        if let Some(exit) = self.state.exit.clone().filter(|_| !self.state.cancelling) {
            return self.exited(exit);
        }
        match outcome {
            StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped => {
                self.emit(Event::Finishing);
                self.finish_up();
            }
            StepOutcome::Cancelled => match self.state.stop.clone() {
                Some((status, failure)) if self.tells_its_output() => self.give_outputs(status, Some(failure)),
                Some((status, failure)) => self.conclude(status, None, Some(failure)),
                None => self.conclude(EndStatus::Cancelled, None, None),
            },
            StepOutcome::Failed => self.run_failed(),
        }
    }

    fn run_failed(&mut self) {
        if self.verdicts_go_on() {
            return self
                .reopen_by_verdicts(By { who: "verdict".into(), why: "given before the run had failed".into() });
        }
        let failure = match self.state.steps.get(&StepKey::root()).map(|s| &s.work) {
            Some(Work::Group(group)) => group.failure.clone().map(|(_, failure)| failure),
            _ => None,
        };
        // What a person called failed is not sent again by itself.
        let called_failed = self.settled_steps(VerdictKind::Fail).next().is_some();
        let delay = match self.retry_of_run() {
            Some(retry) if self.state.open_doubts() == 0 && !called_failed => {
                let first = self.state.first_started.unwrap_or(self.now);
                let salt = self.state.step_id(&StepKey::root());
                delay_ms(retry, self.state.flow_attempt + 1, first, self.now, salt, self.limits.retries_max)
            }
            _ => None,
        };
        match delay {
            Some(delay) => self.set_timer(&StepKey::root(), delay, TimerWhy::FlowRetry),
            None if self.tells_its_output() => self.give_outputs(end_of(failure.as_ref()), failure),
            None => self.conclude(EndStatus::Failed, None, failure),
        }
    }

    /// The flow's own `retry:`, unless the task that failed the run wants a new one.
    pub(super) fn retry_of_run(&self) -> Option<&Retry> {
        let mut key = StepKey::root();
        while let Some(Work::Group(GroupState { failure: Some((below, _)), .. })) =
            self.state.steps.get(&key).map(|step| &step.work)
            && *below != key
        {
            key = below.clone();
        }
        let task = self.flow.task(key.task_id()).and_then(|task| task.retry.as_ref());
        task.filter(|retry| retry.new_execution).or(self.flow.flow.retry.as_ref())
    }

    fn outputs_evaluated(&mut self, result: Result<Option<Payload>, Failure>) {
        if self.state.phase != Phase::Finishing {
            return;
        }
        match (self.state.stop.clone(), result) {
            (Some((EndStatus::Failed, _)), _) if self.verdicts_go_on() => {
                let by = By { who: "verdict".into(), why: "given before the run had failed".into() };
                self.reopen_by_verdicts(by);
            }
            // What it has to show changes nothing about how it ends.
            (Some((status, failure)), result) => self.conclude(status, result.unwrap_or(None), Some(failure)),
            (None, Ok(outputs)) => self.conclude(EndStatus::Completed, outputs, None),
            (None, Err(failure)) => self.conclude(EndStatus::Failed, None, Some(failure)),
        }
    }

    fn end_run(&mut self, status: EndStatus, outputs: Option<Payload>, failure: Option<Failure>) {
        let warned = self.root_warned();
        self.clear_timers(|_| true);
        self.emit(Event::Ended { status, warned, outputs, failure });
    }

    fn root_warned(&self) -> bool {
        match self.state.steps.get(&StepKey::root()).map(|s| &s.work) {
            Some(Work::Group(group)) if group.warned => true,
            _ => self.state.exit.as_ref().is_some_and(|exit| exit.outcome == StepOutcome::Warning),
        }
    }
}
