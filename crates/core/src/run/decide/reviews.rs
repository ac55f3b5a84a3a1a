//! Steps at which somebody approves or denies: the decision, and what it means to the run.

use super::{Machine, NotPossible, refuse};
use crate::ir::{AfterReview, OnTime, ReviewDecision, ReviewSpec, Reviewed, TaskKind};
use crate::run::event::{By, Event, Failure, ListName, Payload, StepOutcome};
use crate::run::state::Work;
use crate::run::step::StepKey;
use serde_json::json;

/// The code of the failure of a run, or a step, that a decision has ended.
const REVIEW: &str = "review";

impl Machine<'_> {
    pub(super) fn review_of(&self, key: &StepKey) -> Option<&ReviewSpec> {
        match self.flow.task(key.task_id()).map(|task| &task.kind) {
            Some(TaskKind::Pause(spec)) => spec.review.as_deref(),
            _ => None,
        }
    }

    /// The step stands still already. Nobody is who let its time go by.
    pub(super) fn decided(&mut self, key: &StepKey, by: Option<By>, said: Reviewed, inputs: Option<Payload>) {
        let Reviewed { decision, comment } = said;
        let list = match decision {
            ReviewDecision::Approved => ListName::Tasks,
            ReviewDecision::Denied => ListName::OnDeny,
            ReviewDecision::Expired => ListName::OnExpire,
        };
        let mut output = json!({"decision": decision.word(), "auto": false, "on": self.now.to_rfc3339()});
        let due = match self.state.steps.get(key).map(|step| &step.work) {
            Some(Work::AtPause { timer: Some(timer), .. }) => self.state.timers.get(timer).map(|timer| timer.due),
            _ => None,
        };
        // A timer that has fired was due now.
        if let Some(due) = due.or((decision == ReviewDecision::Expired).then_some(self.now)) {
            output["due"] = json!(due.to_rfc3339());
        }
        if let Some(by) = &by {
            output["by"] = json!(by.who);
        }
        if let Some(comment) = comment {
            output["comment"] = json!(comment);
        }
        if let Some(inputs) = inputs {
            output["inputs"] = inputs.json().clone();
        }
        self.clear_timers(|timer| timer.step == *key);
        self.emit(Event::StepResumed {
            step: key.clone(),
            at: self.now,
            how: OnTime::Resume,
            list,
            by,
            output: Some(Payload::new(output)),
            failure: None,
            review: Some(decision),
        });
        self.touched.push_back(key.clone());
    }

    /// What follows the decision has ended well, and so has the step but for what the decision means.
    pub(super) fn reviewed(&mut self, key: &StepKey, then: AfterReview, outcome: StepOutcome) {
        let failure = Failure::new(REVIEW, format!("the decision at step {key} ended the run"));
        match then {
            AfterReview::Continue => self.end_step(key, outcome, None, None),
            AfterReview::Warn => self.end_step(key, StepOutcome::Warning, None, None),
            AfterReview::Fail => {
                let failure = Failure::new(REVIEW, "the decision fails the run");
                self.end_step(key, StepOutcome::Failed, None, Some(failure));
            }
            AfterReview::Succeed => {
                self.end_bodies(key, None);
                self.end_step(key, StepOutcome::Success, None, None);
            }
            AfterReview::Kill if self.round_around(key).is_root() => {
                let by = By { who: REVIEW.into(), why: format!("the decision at step {key}") };
                // The run is open: one of its steps has just ended.
                let _ = self.cancel(by);
            }
            AfterReview::Cancel | AfterReview::Kill => {
                self.end_bodies(key, Some(failure));
                self.end_step(key, StepOutcome::Cancelled, None, None);
            }
        }
    }

    /// No other task starts, and who stands still beside the step is not waited for. What runs goes on to its end.
    fn end_bodies(&mut self, key: &StepKey, failure: Option<Failure>) {
        let within = self.round_around(key);
        let outcome = if failure.is_some() { StepOutcome::Cancelled } else { StepOutcome::Skipped };
        self.emit(Event::BodiesEnd { within: within.clone(), failure });
        let waits = |work: &Work| matches!(work, Work::AtPause { .. });
        let steps = self.state.steps.iter().filter(|(other, step)| waits(&step.work) && other.is_under(&within));
        let waiting: Vec<StepKey> =
            steps.map(|(other, _)| other.clone()).filter(|other| self.state.is_over_around(other)).collect();
        for other in waiting {
            self.end_step(&other, outcome, None, None);
        }
        let groups = self.state.steps.iter().filter(|(_, step)| matches!(step.work, Work::Group(_)));
        let groups: Vec<StepKey> = groups.map(|(group, _)| group.clone()).filter(|group| group != key).collect();
        self.touched.extend(groups.into_iter().rev());
    }

    /// A round of a loop is what a decision in it ends; else it is the run.
    fn round_around(&self, key: &StepKey) -> StepKey {
        let mut around = std::iter::successors(key.parent(), StepKey::parent);
        around.find(|key| self.is_round_of_its_own(key)).unwrap_or_else(StepKey::root)
    }

    fn is_round_of_its_own(&self, key: &StepKey) -> bool {
        let kind = self.flow.task(key.task_id()).map(|task| &task.kind);
        key.iteration_number().is_some() && matches!(kind, Some(TaskKind::Loop(_)))
    }

    /// Whether what was cancelled here is a round that a decision has ended, and no more than that.
    pub(super) fn is_ended_round(&self, key: &StepKey) -> bool {
        !self.state.is_stopping() && self.is_round_of_its_own(key)
    }

    pub(super) fn refuse_bare_resume(&self, key: &StepKey) -> Result<(), NotPossible> {
        match self.review_of(key) {
            Some(_) => {
                refuse(format!("step `{key}` waits for a review: approve or deny it, a bare resume says neither"))
            }
            None => Ok(()),
        }
    }
}
