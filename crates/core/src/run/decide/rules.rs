//! Rules about the whole run: what stops it, what it must keep, and what its author wants done after its end.

use super::Machine;
use crate::ir::{Sla, SlaBehavior, SlaRule};
use crate::run::errand::TIMED_OUT;
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload, Stage, TimerWhy};
use crate::run::index::FlowIndex;
use crate::run::state::{Concluded, Phase, RunState};
use crate::run::step::StepKey;
use serde_json::Value as Json;

/// The first assertion from this place on that was not broken yet.
fn next_assertion(flow: &FlowIndex, state: &RunState, from: u32) -> Option<u32> {
    let asserts = |(place, sla): &(u32, &Sla)| {
        *place >= from && matches!(sla.rule, SlaRule::Assertion { .. }) && !state.slas_broken.contains(place)
    };
    (0_u32..).zip(&flow.flow.sla).find(asserts).map(|(place, _)| place)
}

/// What a run asks for whose steps are all done: the last look at what its author asserts comes before the outputs.
pub fn finishing_action(flow: &FlowIndex, state: &RunState) -> Action {
    next_assertion(flow, state, 0).map_or(Action::EvaluateOutputs, Action::CheckSla)
}

impl Machine<'_> {
    /// A rule ends the run. What is in flight settles first, as after a cancel; handlers do not run.
    pub(super) fn stop(&mut self, by: By, status: EndStatus, failure: Failure) {
        match self.state.phase {
            Phase::Ended(_) => {}
            // What comes after the end is over with it; the end itself is decided.
            Phase::Open if self.state.cancelling || self.state.concluded.is_some() => {}
            Phase::Open => {
                self.emit(Event::StopRequested { by: by.clone(), status, failure });
                self.stop_steps(Some(&by));
            }
            Phase::Waiting | Phase::RetryLater | Phase::Finishing => {
                self.emit(Event::StopRequested { by, status, failure: failure.clone() });
                self.conclude(status, None, Some(failure));
            }
        }
    }

    /// The limits of time begin with the run.
    pub(super) fn watch_slas(&mut self) {
        let flow = self.flow;
        for (place, sla) in flow.flow.sla.iter().enumerate() {
            if let SlaRule::MaxDuration { ms } = sla.rule {
                self.set_timer(&StepKey::root(), ms, TimerWhy::Sla(place as u32));
            }
        }
    }

    /// After each step that has ended, what the author asserts must hold: one assertion after the other, from this
    /// place on. False when there is none left.
    pub(super) fn check_slas(&mut self, from: u32) -> bool {
        let flow = self.flow;
        let open = matches!(self.state.phase, Phase::Open | Phase::Finishing) && self.state.concluded.is_none();
        if flow.flow.sla.is_empty() || !open || self.state.cancelling {
            return false;
        }
        let Some(place) = next_assertion(flow, self.state, from) else { return false };
        self.act(Action::CheckSla(place));
        true
    }

    pub(super) fn finish_up(&mut self) {
        self.act(finishing_action(self.flow, self.state));
    }

    pub(super) fn sla_checked(&mut self, place: u32, holds: bool) {
        if !holds && !self.state.slas_broken.contains(&place) {
            self.sla_broken(place);
        }
        if !self.check_slas(place + 1) && self.state.phase == Phase::Finishing {
            self.act(Action::EvaluateOutputs);
        }
    }

    pub(super) fn sla_broken(&mut self, place: u32) {
        let flow = self.flow;
        let open = matches!(self.state.phase, Phase::Open | Phase::Finishing | Phase::RetryLater);
        let Some(sla) = flow.flow.sla.get(place as usize).filter(|_| open && self.state.concluded.is_none()) else {
            return;
        };
        self.emit(Event::SlaBroken { sla: place });
        if !sla.labels.is_empty() {
            let labels = sla.labels.iter().map(|(key, value)| (key.clone(), Json::String(value.clone()))).collect();
            self.emit(Event::LabelsSet { labels: Payload::new(Json::Object(labels)) });
        }
        let status = match sla.behavior {
            SlaBehavior::None => return,
            SlaBehavior::Fail => EndStatus::Failed,
            SlaBehavior::Cancel => EndStatus::Cancelled,
        };
        let text = match sla.rule {
            SlaRule::MaxDuration { ms } => {
                format!(
                    "the run has taken longer than {}, which its SLA `{}` allows",
                    crate::duration::print_ms(ms),
                    sla.id
                )
            }
            SlaRule::Assertion { .. } => format!("what the SLA `{}` asserts does not hold", sla.id),
        };
        let code = if self.tells_its_output() { TIMED_OUT } else { "sla" };
        self.stop(By { who: format!("sla {}", sla.id), why: String::new() }, status, Failure::new(code, text));
    }

    /// How the run ends is decided: it ends, or does first what its author wants done after that.
    pub(super) fn conclude(&mut self, status: EndStatus, outputs: Option<Payload>, failure: Option<Failure>) {
        let begun = self.state.steps.contains_key(&StepKey::root());
        if self.flow.flow.after.is_empty() || !begun || self.state.concluded.is_some() {
            return self.end_run(status, outputs, failure);
        }
        let warned = self.root_warned();
        self.clear_timers(|_| true);
        self.emit(Event::Concluded { status, warned, outputs, failure });
        self.emit(Event::GroupStage { step: StepKey::root(), stage: Stage::After });
        self.touched.push_back(StepKey::root());
    }

    /// What comes after the end is done, whatever came of it.
    pub(super) fn after_is_over(&mut self, concluded: Concluded) {
        let Concluded { status, warned, outputs, failure } = concluded;
        if status == EndStatus::Failed && self.verdicts_go_on() {
            let why = "given before the run had ended".into();
            return self.reopen_by_verdicts(By { who: "verdict".into(), why });
        }
        self.clear_timers(|_| true);
        self.emit(Event::Ended { status, warned, outputs, failure });
    }
}
