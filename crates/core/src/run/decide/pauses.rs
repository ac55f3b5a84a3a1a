//! Steps at which a run stands still: what lets it go on, and what the end of their time means.

use super::{Machine, NotPossible, refuse};
use crate::ir::{OnTime, ReviewDecision, Reviewed, TaskKind};
use crate::run::event::{By, Event, Failure, ListName, Payload};
use crate::run::state::{Phase, Work};
use crate::run::step::StepKey;
use serde_json::json;

impl Machine<'_> {
    /// Nothing else of the run is touched: it may stand still at other steps too, or be paused as a whole.
    pub(super) fn resume_step(
        &mut self,
        key: &StepKey,
        by: By,
        inputs: Option<Payload>,
        review: Option<Reviewed>,
    ) -> Result<(), NotPossible> {
        let stands = matches!(self.state.steps.get(key).map(|s| &s.work), Some(Work::AtPause { .. }));
        if self.state.phase != Phase::Open || !stands {
            return refuse(format!("the run does not stand still at step `{key}`"));
        }
        match review {
            Some(_) if self.review_of(key).is_none() => return refuse(format!("step `{key}` asks for no decision")),
            Some(said) => self.decided(key, Some(by), said, inputs),
            None => {
                self.refuse_bare_resume(key)?;
                self.go_on_from_pause(key, OnTime::Resume, Some(by), inputs, None);
            }
        }
        Ok(())
    }

    /// As [`Self::resume_step`] at the step that was reached first, for whoever has nothing to say to it.
    pub(super) fn resume_first_step(&mut self, key: &StepKey, by: By) -> Result<(), NotPossible> {
        match self.flow.task(key.task_id()).map(|task| &task.kind) {
            Some(TaskKind::Pause(spec)) if !spec.on_resume.is_empty() => {
                let names: Vec<&str> = spec.on_resume.iter().map(|input| input.id.as_str()).collect();
                refuse(format!("step `{key}` takes inputs; resume the run with {}", names.join(", ")))
            }
            _ => self.resume_step(key, by, None, None),
        }
    }

    /// The time of a pause is over.
    pub(super) fn pause_is_over(&mut self, key: &StepKey) {
        let Some(Work::AtPause { late, .. }) = self.state.steps.get(key).map(|s| &s.work) else { return };
        let late = *late;
        if self.review_of(key).is_some() {
            let said = Reviewed { decision: ReviewDecision::Expired, comment: None };
            return self.decided(key, None, said, None);
        }
        let failure = (late == OnTime::Fail).then(|| Failure::new("pause_over", "nobody resumed the run in time"));
        if late == OnTime::Cancel {
            let by = By { who: "pause".into(), why: format!("nobody resumed the run at step {key} in time") };
            // A run that stands still is open, so this is possible.
            let _ = self.cancel(by);
            return;
        }
        self.go_on_from_pause(key, late, None, None, failure);
    }

    fn go_on_from_pause(
        &mut self,
        key: &StepKey,
        how: OnTime,
        by: Option<By>,
        inputs: Option<Payload>,
        failure: Option<Failure>,
    ) {
        self.clear_timers(|timer| timer.step == *key);
        let output = self.output_of_pause(how, by.as_ref(), inputs);
        let (step, list) = (key.clone(), ListName::Tasks);
        let output = Some(output);
        self.emit(Event::StepResumed { step, at: self.now, how, list, by, output, failure, review: None });
        self.touched.push_back(key.clone());
    }

    /// What the step shows of how it went on.
    fn output_of_pause(&self, how: OnTime, by: Option<&By>, inputs: Option<Payload>) -> Payload {
        let to = match how {
            OnTime::Resume => "RUNNING",
            OnTime::Warn => "WARNING",
            OnTime::Fail => "FAILED",
            OnTime::Cancel => "CANCELLED",
        };
        let mut resumed = json!({"on": self.now.to_rfc3339(), "to": to});
        if let Some(by) = by {
            resumed["by"] = json!(by.who);
        }
        let mut output = json!({ "resumed": resumed });
        if let Some(inputs) = inputs {
            output["onResume"] = inputs.json().clone();
        }
        Payload::new(output)
    }
}
