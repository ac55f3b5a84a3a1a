//! The effect ledger, computed again from the events.

use super::codes::Code;
use crate::rows::{EffectRow, EffectState};
use semel_core::Hash16;
use semel_core::ir::{EffectClass, Flow, OnDoubt, Task};
use semel_core::run::{Event, RunState, StepKey, StepOutcome, VerdictKind};
use semel_core::{Millis, RunId};
use std::collections::BTreeMap;

/// What is known of one effect.
struct Effect {
    row: EffectRow,
    /// Something may have left and its fate is not recorded.
    unknown: bool,
    /// So it was of a send before the last one: an answer to a later one does not change that.
    lost: bool,
    /// A person asked for another send since.
    allowed: bool,
    /// A person said that it did not happen; to have the run go on is then to ask for another send.
    called_failed: bool,
    new_key: bool,
}

#[derive(Default)]
pub(super) struct Ledger {
    /// By step id: what the effects table must hold.
    effects: BTreeMap<Hash16, Effect>,
    /// Steps that are open, or failed and may go on.
    open: BTreeMap<StepKey, Hash16>,
}

impl Ledger {
    /// Sees one event; `state` is the state after it.
    pub fn see(
        &mut self,
        run: RunId,
        event: &Event,
        state: &RunState,
        flow: Option<&Flow>,
        out: &mut Vec<(Code, String)>,
    ) {
        match event {
            Event::StepStarted { step, .. } => {
                self.open.remove(step);
            }
            Event::Replayed { back: None, .. } => self.open.clear(),
            Event::Replayed { back: Some(_), .. } => {
                self.open.retain(|step, _| state.steps.contains_key(step));
                self.effects.values_mut().filter(|e| e.called_failed).for_each(|effect| effect.allowed = true);
            }
            Event::Restarted { .. } => {
                self.effects.values_mut().filter(|e| e.called_failed).for_each(|effect| effect.allowed = true);
            }
            Event::Intent { .. } => self.intent(run, event, state, flow, out),
            Event::SendLost { step, .. } => self.of(step, |effect| effect.unknown = true),
            Event::AttemptFailed { step, doubt, .. } => self.of(step, |effect| {
                effect.unknown = *doubt || effect.lost;
                effect.row.state = if *doubt { EffectState::InDoubt } else { EffectState::FailedClean };
            }),
            Event::DoubtRaised { step, .. } => self.of(step, |effect| {
                effect.unknown = true;
                effect.row.state = EffectState::InDoubt;
            }),
            Event::Verdict { step, verdict, .. } => self.of(step, |effect| match verdict {
                VerdictKind::Done => effect.row.state = EffectState::Done,
                VerdictKind::Fail => (effect.row.state, effect.called_failed) = (EffectState::FailedClean, true),
                VerdictKind::Repeat => effect.allowed = true,
                VerdictKind::RepeatNewKey => (effect.allowed, effect.new_key) = (true, true),
            }),
            Event::StepEnded { step, outcome: StepOutcome::Success | StepOutcome::Warning, .. } => {
                self.of(step, |effect| {
                    effect.row.state = EffectState::Done;
                    effect.unknown = false;
                });
                self.open.remove(step);
            }
            _ => {}
        }
    }

    fn of(&mut self, step: &StepKey, change: impl FnOnce(&mut Effect)) {
        if let Some(effect) = self.open.get(step).and_then(|id| self.effects.get_mut(id)) {
            change(effect);
        }
    }

    fn intent(
        &mut self,
        run: RunId,
        event: &Event,
        state: &RunState,
        flow: Option<&Flow>,
        out: &mut Vec<(Code, String)>,
    ) {
        let Event::Intent { step, attempt, send, class, out_key, safe_until, .. } = event else { return };
        let id = state.step_id(step);
        let row = EffectRow {
            step_id: id,
            run,
            step: step.clone(),
            class: *class,
            state: EffectState::Intent,
            attempt: *attempt,
            sends: *send,
            out_key: out_key.clone(),
            safe_until: *safe_until,
            at: Millis(0),
        };
        let mut lost = false;
        if let Some(before) = self.effects.get(&id) {
            before.next_send(&row, flow, out);
            lost = before.unknown && !before.allowed;
        }
        self.open.insert(step.clone(), id);
        let next = Effect { row, unknown: true, lost, allowed: false, called_failed: false, new_key: false };
        self.effects.insert(id, next);
    }

    /// The rows the table must hold, by step id. The instant is not compared.
    pub fn rows(&self) -> impl Iterator<Item = (&Hash16, &EffectRow)> {
        self.effects.iter().map(|(id, effect)| (id, &effect.row))
    }
}

impl Effect {
    /// May this effect be sent again, and so?
    fn next_send(&self, next: &EffectRow, flow: Option<&Flow>, out: &mut Vec<(Code, String)>) {
        let step = &next.step;
        if self.row.state == EffectState::Done {
            out.push((Code::EffectDoneTwice, format!("the effect of step `{step}` was done and is sent again")));
        }
        if next.out_key != self.row.out_key && !self.new_key {
            let (old, new) = (&self.row.out_key, &next.out_key);
            out.push((
                Code::EffectKeyChanged,
                format!("the effect of step `{step}` changed its key from {old} to {new}"),
            ));
        }
        // A flow that cannot be read is found elsewhere.
        let told_to_repeat = flow.is_none_or(|flow| on_doubt(flow, step.task_id()) == Some(OnDoubt::Repeat));
        if !self.unknown || self.allowed || told_to_repeat {
            return;
        }
        match next.class {
            EffectClass::Pure | EffectClass::Read | EffectClass::Repeatable => {}
            EffectClass::Keyed if next.safe_until == self.row.safe_until => {}
            EffectClass::Keyed => {
                let text =
                    format!("the effect of step `{step}` was sent again after its far side had forgotten the key");
                out.push((Code::EffectRepeated, text));
            }
            EffectClass::Naked | EffectClass::Probed | EffectClass::Transactional => {
                let text = format!(
                    "the effect of step `{step}` was sent again with its fate unknown, and nobody asked for it"
                );
                out.push((Code::EffectRepeated, text));
            }
        }
    }
}

fn on_doubt(flow: &Flow, id: &str) -> Option<OnDoubt> {
    [&flow.tasks, &flow.errors, &flow.finally, &flow.after].into_iter().find_map(|list| find(list, id))
}

fn find(list: &[Task], id: &str) -> Option<OnDoubt> {
    list.iter().find_map(|task| match task.id == id {
        true => Some(task.effect.on_doubt),
        false => task.kind.lists().into_iter().find_map(|list| find(list, id)),
    })
}
