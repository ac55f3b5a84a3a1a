//! Sub-runs and other ops, whose results are journaled by the transaction that carried them.

use super::Machine;
use super::effects::Loss;
use crate::ids::RunId;
use crate::ir::{Dialect, SubflowSpec};
use crate::run::conclusion::Conclusion;
use crate::run::errand::{CANCELLED, TIMED_OUT};
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload, StepOutcome};
use crate::run::state::{Phase, Step, Work};
use crate::run::step::StepKey;

/// How a sub-run has ended.
#[derive(Clone, Copy)]
pub(super) struct ChildEnd {
    pub run: RunId,
    pub status: EndStatus,
    pub conclusion: Option<Conclusion>,
    pub warned: bool,
}

impl Machine<'_> {
    /// Only a sub-run has a durable time-out of its own; calls are timed by the performer.
    pub(super) fn timed_out(&mut self, key: &StepKey) {
        let Some(Step { work: Work::Child { run, .. }, .. }) = self.state.steps.get(key) else { return };
        // The admission is on its way: `go_on` finds the time-out when the child is known.
        let Some(run) = *run else { return };
        let by = By { who: "timeout".into(), why: format!("step {key} took too long") };
        self.act(Action::CancelChild { run, by });
        let code = if self.flow.flow.dialect == Dialect::Conductor { TIMED_OUT } else { "timeout" };
        self.end_step(key, StepOutcome::Failed, None, Some(Failure::new(code, "the sub-run took too long")));
    }

    pub(super) fn child_ended(&mut self, ended: ChildEnd, outputs: Payload, doubts: u32) {
        let ChildEnd { run, .. } = ended;
        // A run that was replaced ended with its steps open, and its sub-run may be restarted on its own: then only
        // what is unknown below matters here.
        if self.state.is_ended() {
            return self.doubts_below(run, doubts);
        }
        // Several steps may have asked for one event: its run ends for all of them.
        let waiting: Vec<StepKey> = self
            .state
            .steps
            .iter()
            .filter(|(_, step)| matches!(step.work, Work::Child { run: Some(child), .. } if child == run))
            .map(|(key, _)| key.clone())
            .collect();
        if waiting.is_empty() {
            return self.doubts_below(run, doubts);
        }
        for key in waiting {
            self.child_ended_for(&key, ended, outputs.clone(), doubts);
        }
    }

    fn child_ended_for(&mut self, key: &StepKey, ended: ChildEnd, outputs: Payload, doubts: u32) {
        let ChildEnd { run, status, conclusion, warned } = ended;
        self.emit(Event::ChildEnded { step: key.clone(), run, status, outputs: outputs.clone(), doubts });
        let transmit = self.subflow(key).is_none_or(|spec| spec.transmit_failed);
        let code = match (status, conclusion) {
            (EndStatus::Failed, Some(Conclusion::TimedOut)) if self.tells_its_output() => TIMED_OUT,
            (EndStatus::Cancelled, _) if self.tells_its_output() => CANCELLED,
            _ => "subflow_failed",
        };
        let failure = |word: &str| Failure::new(code, format!("sub-run {run} {word}"));
        match status {
            // In Conductor a workflow that completed is one that completed.
            EndStatus::Completed if warned && transmit && !self.tells_its_output() => {
                self.end_step(key, StepOutcome::Warning, Some(outputs), None);
            }
            EndStatus::Completed => self.end_step(key, StepOutcome::Success, Some(outputs), None),
            _ if self.state.is_stopping() => self.end_step(key, StepOutcome::Cancelled, None, None),
            EndStatus::Failed | EndStatus::Cancelled if !transmit => {
                self.end_step(key, StepOutcome::Success, Some(outputs), None);
            }
            // Another sub-run is tried, where the author wants that.
            EndStatus::Failed if self.tells_its_output() && self.next_attempt_in(key).is_some() => {
                self.attempt_failed(key, failure("failed"), Loss::No);
            }
            EndStatus::Failed => self.end_step(key, StepOutcome::Failed, Some(outputs), Some(failure("failed"))),
            EndStatus::Cancelled => {
                self.end_step(key, StepOutcome::Failed, Some(outputs), Some(failure("was cancelled")))
            }
        }
    }

    pub(super) fn doubts_below(&mut self, run: RunId, count: u32) {
        let known = self.state.doubts_below.get(&run).copied().unwrap_or(0);
        if known != count {
            self.emit(Event::DoubtsBelow { run, count });
        }
        if self.state.phase == Phase::Ended(EndStatus::Failed) && self.verdicts_go_on() {
            self.reopen_by_verdicts(By { who: "verdict".into(), why: "the last doubt below is settled".into() });
        }
    }

    /// An op's result was journaled by its transaction: act on it.
    pub(super) fn go_on(&mut self) {
        let failed: Vec<(StepKey, Failure)> = self
            .state
            .steps
            .iter()
            .filter_map(|(key, step)| match &step.work {
                Work::OpFailed { failure } => Some((key.clone(), failure.clone())),
                _ => None,
            })
            .collect();
        for (key, failure) in failed {
            self.attempt_failed(&key, failure, Loss::No);
        }
        self.go_on_with_children();
        self.touch_all_groups();
    }

    /// A child is known now: what was decided before that applies to it.
    fn go_on_with_children(&mut self) {
        let children: Vec<(StepKey, RunId, Option<u64>)> = self
            .state
            .steps
            .iter()
            .filter_map(|(key, step)| match step.work {
                Work::Child { run: Some(run), timer } => Some((key.clone(), run, timer)),
                _ => None,
            })
            .collect();
        for (key, run, timer) in children {
            if !self.waits_for_child(&key) {
                self.note_failure_workflow(run);
                self.end_step(&key, StepOutcome::Success, None, None);
            } else if (self.state.cancelling && !self.state.alone)
                || (self.state.exit.is_some() && self.tells_its_output())
            {
                self.act(Action::CancelChild {
                    run,
                    by: By { who: "parent".into(), why: "the parent run is cancelled".into() },
                });
            } else if self.state.is_stopping() {
                // It goes on by itself.
                self.end_step(&key, StepOutcome::Cancelled, None, None);
            } else if timer.is_some_and(|timer| !self.state.timers.contains_key(&timer)) {
                self.timed_out(&key);
            }
        }
    }

    pub(super) fn waits_for_child(&self, key: &StepKey) -> bool {
        let alone = self.state.steps.get(key).is_some_and(|step| step.alone);
        !alone && self.subflow(key).is_none_or(|spec| spec.wait)
    }

    fn subflow(&self, key: &StepKey) -> Option<&SubflowSpec> {
        self.flow.task(key.task_id()).and_then(|task| task.kind.subflow())
    }
}
