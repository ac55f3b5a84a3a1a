//! What the engine's answer to an evaluation starts.

use super::Machine;
use super::effects::Loss;
use crate::ir::{EffectClass, ErrandKind, Retry, Task, TaskKind};
use crate::run::event::{Action, Evaluated, Event, Failure, ListName, Payload, StepOutcome, TimerWhy, VariableChange};
use crate::run::state::{Sending, Step, Work};
use crate::run::step::StepKey;

impl Machine<'_> {
    /// What counts for a step is what was so when it began.
    pub(super) fn note_retry(&mut self, key: &StepKey, retry: Option<Box<Retry>>) {
        let fresh = |step: &Step| step.retry.is_none() && matches!(step.work, Work::Evaluating);
        if let Some(retry) = retry
            && !self.state.paused
            && self.state.steps.get(key).is_some_and(fresh)
        {
            self.emit(Event::RetrySet { step: key.clone(), retry });
        }
    }

    pub(super) fn evaluated(&mut self, key: &StepKey, result: Result<Evaluated, Failure>) {
        if !self.state.steps.get(key).is_some_and(|step| step.work.is_evaluated()) || self.state.paused {
            return; // Resume asks again
        }
        let Some(task) = self.flow.task(key.task_id()) else { return };
        let step = key.clone();
        match result {
            // A group that has begun fails like one whose task failed: its handlers run.
            Err(failure) if self.state.steps.get(key).is_some_and(|step| matches!(step.work, Work::Group(_))) => {
                self.answer(key, None, Some(failure), false);
            }
            // To read what is not there yet is to fail like any other attempt.
            Err(failure) if tries_again(task) && self.next_attempt_in(key).is_some() => {
                self.attempt_failed(key, failure, Loss::No);
            }
            Err(failure) => self.end_step(key, StepOutcome::Failed, None, Some(failure)),
            Ok(Evaluated::Skip) => self.end_step(key, StepOutcome::Skipped, None, None),
            Ok(Evaluated::SkipWith { output }) => self.end_step(key, StepOutcome::Skipped, output, None),
            Ok(Evaluated::Group) => {
                let (concurrent, by_needs) = match &task.kind {
                    TaskKind::Parallel { concurrent, .. } => (*concurrent, false),
                    TaskKind::Dag { concurrent, .. } => (*concurrent, true),
                    _ => (1, false),
                };
                // What it shows of itself is known when its tasks are done.
                let asks =
                    matches!(&task.kind, TaskKind::WorkingDirectory { output_files, .. } if !output_files.is_empty());
                self.emit(Event::Branched {
                    step: step.clone(),
                    list: ListName::Tasks,
                    concurrent,
                    asks,
                    by_needs,
                    output: None,
                });
                self.touched.push_back(step);
            }
            Ok(Evaluated::Branch { list, output }) => {
                let asks = matches!(task.kind, TaskKind::Pause(_));
                self.emit(Event::Branched { step: step.clone(), list, concurrent: 1, asks, by_needs: false, output });
                self.touched.push_back(step);
            }
            Ok(Evaluated::Items { count, items, stops }) => {
                if count > self.limits.foreach_items_max {
                    let text = format!("{count} items; at most {} are allowed", self.limits.foreach_items_max);
                    return self.end_step(key, StepOutcome::Failed, None, Some(Failure::new("too_many_items", text)));
                }
                let (concurrent, asks, each_asks) = match &task.kind {
                    TaskKind::ForEach { concurrent, .. } => (*concurrent, false, false),
                    TaskKind::Loop(spec) => (spec.concurrent, true, true),
                    TaskKind::LoopUntil(_) => (1, true, false),
                    TaskKind::Batches(_) => (0, true, false),
                    _ => (1, false, false),
                };
                let each_is_step = matches!(task.kind, TaskKind::Batches(_));
                self.emit(Event::LoopStarted { step, count, concurrent, asks, each_asks, each_is_step, stops, items });
                self.touched.push_back(key.clone());
            }
            Ok(Evaluated::Sleep { ms } | Evaluated::Again { ms } | Evaluated::Pause { ms: Some(ms), .. })
                if ms > self.limits.wait_ms_max =>
            {
                // A shorter wait than was asked for would be a lie.
                let text = format!("a wait may last {}", crate::duration::print_ms(self.limits.wait_ms_max));
                self.end_step(key, StepOutcome::Failed, None, Some(Failure::new("wait_too_long", text)));
            }
            Ok(Evaluated::Sleep { ms }) => match task.timeout_ms.filter(|most| *most < ms) {
                Some(most) => self.set_timer(key, most, TimerWhy::CutShort),
                None => self.set_timer(key, ms, TimerWhy::Sleep),
            },
            Ok(Evaluated::Again { ms }) => self.set_timer(key, ms, TimerWhy::Interval),
            Ok(Evaluated::Answered { output, failure, stop }) => self.answer(key, output, failure, stop),
            Ok(Evaluated::Reviewed { then }) => {
                let then = Some(then);
                self.emit(Event::GroupAnswered { step, stop: false, output: None, failure: None, then });
                self.touched.push_back(key.clone());
            }
            Ok(Evaluated::Exit { state, reason, output }) => self.exit(key, state, reason, output),
            Ok(Evaluated::Pause { ms, late }) => {
                self.emit(Event::StepPaused { step, at: self.now, late });
                if let Some(ms) = ms {
                    self.set_timer(key, ms, TimerWhy::Pause);
                }
            }
            Ok(Evaluated::Inline { result, labels }) => {
                if let Some(labels) = labels {
                    self.emit(Event::LabelsSet { labels });
                }
                match result {
                    Ok(output) => self.end_step(key, self.ending(key, task), output, None),
                    Err(failure) => self.attempt_failed(key, failure, Loss::No),
                }
            }
            Ok(Evaluated::Effect { class, out_key, window_ms, timeout_ms, request }) => {
                let first = Sending {
                    send: 0,
                    repeats: 0,
                    lost: false,
                    class,
                    out_key: self.state.out_key(key, out_key),
                    safe_until: (class == EffectClass::Keyed).then(|| self.now.plus(window_ms)),
                    timeout_ms,
                };
                self.send(key, first, Some(request));
            }
            // A message was left, or taken by a step beside this one, since the step was evaluated.
            Ok(Evaluated::Errand { terms, .. }) if terms.kind == ErrandKind::Messages && self.has_messages() => {
                self.act(Action::Evaluate(step));
            }
            Ok(Evaluated::Messages { from, .. }) if from != self.state.messages_taken => {
                self.act(Action::Evaluate(step));
            }
            Ok(Evaluated::Messages { count, output, .. }) => {
                if count > 0 {
                    self.emit(Event::MessagesTaken { step, count });
                }
                self.end_step(key, self.ending(key, task), Some(output), None);
            }
            Ok(Evaluated::Errand { terms, request }) => self.set_errand(key, *terms, request),
            Ok(Evaluated::Variables(change)) => {
                self.emit(match change {
                    VariableChange::Set(variables) => Event::VariablesSet { variables, by: None, append: false },
                    VariableChange::Unset(names) => Event::VariablesUnset { names },
                });
                self.end_step(key, self.ending(key, task), None, None);
            }
            Ok(Evaluated::Op) => {
                self.emit(Event::OpRequested { step: step.clone() });
                self.act(Action::Op(step));
            }
            Ok(Evaluated::Child { alone }) => {
                self.emit(Event::ChildRequested { step: step.clone(), alone });
                if let Some(ms) = task.timeout_ms {
                    self.set_timer(key, ms, TimerWhy::Timeout);
                }
                self.act(Action::Op(step));
            }
        }
    }

    fn has_messages(&self) -> bool {
        self.state.messages_left > self.state.messages_taken
    }

    /// A group is told that its list was the last one.
    fn answer(&mut self, key: &StepKey, output: Option<Payload>, failure: Option<Failure>, stop: bool) {
        self.emit(Event::GroupAnswered { step: key.clone(), stop, output, failure, then: None });
        self.touched.push_back(key.clone());
    }

    /// A step that needed several attempts ends with a warning if its author wants to see that.
    pub(super) fn ending(&self, key: &StepKey, task: &Task) -> StepOutcome {
        let retried = self.state.steps.get(key).is_some_and(|s| s.attempt > 1);
        let warn = task.retry.as_ref().is_some_and(|r| r.warning_on_retry);
        if retried && warn { StepOutcome::Warning } else { StepOutcome::Success }
    }
}

/// A task that does something itself, by its author's own word on how often: what cannot be evaluated is tried as often.
fn tries_again(task: &Task) -> bool {
    matches!(task.kind, TaskKind::Leaf { .. } | TaskKind::Subflow(_)) && task.conductor.is_none()
}
