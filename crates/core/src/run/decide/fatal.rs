//! The failure that is a run's last: in Conductor's workflows one task ends all others.

use super::Machine;
use crate::ids::RunId;
use crate::ir::{Dialect, TaskKind};
use crate::run::errand::CANCELLED;
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload};
use crate::run::step::StepKey;
use serde_json::{Map, Value as Json};

/// How a run ends whose last failure this is.
pub(super) fn end_of(failure: Option<&Failure>) -> EndStatus {
    match failure {
        Some(failure) if failure.code == CANCELLED => EndStatus::Cancelled,
        _ => EndStatus::Failed,
    }
}

impl Machine<'_> {
    /// Whether the run has outputs however it ends.
    pub(super) fn tells_its_output(&self) -> bool {
        self.flow.flow.dialect == Dialect::Conductor
    }

    /// The run ends like this once its outputs are known.
    pub(super) fn give_outputs(&mut self, status: EndStatus, failure: Option<Failure>) {
        if let (None, Some(failure)) = (&self.state.stop, failure) {
            let by = By { who: "flow".into(), why: String::new() };
            self.emit(Event::StopRequested { by, status, failure });
        }
        self.emit(Event::Finishing);
        self.act(Action::EvaluateOutputs);
    }

    /// What the run gives tells which workflow was started because it failed.
    pub(super) fn note_failure_workflow(&mut self, run: RunId) {
        let Some(end) = self.state.concluded.clone().filter(|_| self.tells_its_output()) else { return };
        let mut outputs = match end.outputs.as_ref().map(Payload::json) {
            Some(Json::Object(fields)) => fields.clone(),
            _ => Map::new(),
        };
        outputs.insert("conductor.failure_workflow".to_owned(), Json::String(run.to_string()));
        let (status, warned, failure) = (end.status, end.warned, end.failure);
        let outputs = Some(Payload::new(Json::Object(outputs)));
        self.emit(Event::Concluded { status, warned, outputs, failure });
    }

    /// A task that may not fail has: what runs beside it is taken back. Where nothing does, the failure finds its own
    /// way up.
    pub(super) fn end_all_by(&mut self, key: &StepKey, failure: Failure) {
        if self.tells_its_output() && self.is_fatal(key) && self.others_are_open(key) {
            let by = By { who: "task".into(), why: format!("step {key} failed") };
            self.stop(by, end_of(Some(&failure)), failure);
        }
    }

    /// What only holds tasks fails because one of them did, which has had its say; but a fork that has failed for one
    /// whose failure waits for the others ends those of another fork around it.
    fn is_fatal(&self, key: &StepKey) -> bool {
        let Some(task) = self.flow.task(key.task_id()).filter(|_| key.iteration_number().is_none()) else {
            return false;
        };
        let permissive = task.conductor.as_ref().is_some_and(|own| own.permissive);
        let waits = matches!(task.kind, TaskKind::Sequential(_) | TaskKind::Switch { .. });
        !permissive && !waits
    }

    fn others_are_open(&self, key: &StepKey) -> bool {
        let beside = |other: &StepKey| !key.is_under(other) && !other.is_under(key);
        self.state.steps.keys().any(|other| beside(other) && !self.state.is_kept(other))
    }
}
