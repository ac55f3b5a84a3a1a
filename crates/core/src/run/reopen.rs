//! Folding what begins a run again: all of it, from one of its steps on, or only what failed.

use super::back::{Back, Frame, child_of};
use super::conclusion::Conclusion;
use super::event::{Stage, TimerWhy, VerdictKind};
use super::evolve::root_step;
use super::state::{Asks, Phase, RunState, Step, Work};
use super::step::StepKey;
use super::wish::{Asked, LastAsked};
use crate::ids::{FlowRef, RunId};
use crate::time::Millis;

impl RunState {
    pub(super) fn begin_again(&mut self, round: u32, at: Millis, anew: bool, child: Option<&(StepKey, RunId)>) {
        self.restart(round, at);
        if anew {
            self.child_round = round;
        }
        if let Some((key, run)) = child
            && let Some(step) = self.steps.get_mut(key)
        {
            step.work = Work::Child { run: Some(*run), timer: None };
        }
        self.asked = Some(LastAsked { what: Asked::Retry, at });
    }

    /// What failed beside the step goes on as after a restart; the groups around it are as they were when it started.
    pub(super) fn go_back(&mut self, take: u32, at: Millis, back: &Back) {
        self.restart(self.round + 1, at);
        (self.take, self.flow_attempt, self.first_started) = (take, 1, Some(at));
        (self.paused, self.warned) = (false, false);
        self.skips.clear();
        for frame in &back.frames {
            self.open_frame(frame, back, at);
        }
        self.forget_under(&back.step);
        for frame in &back.frames {
            let open = self.steps.keys().filter(|key| key.parent().as_ref() == Some(&frame.step)).count();
            if let Some(group) = self.group_mut(&frame.step) {
                group.open = open as u32;
            }
        }
        let steps = &self.steps;
        self.doubts.retain(|key, _| steps.contains_key(key));
        self.asked = Some(LastAsked { what: Asked::Redo(Some(back.step.clone())), at });
    }

    fn open_frame(&mut self, frame: &Frame, back: &Back, at: Millis) {
        let path = child_of(&frame.step, &back.step);
        let goes = |key: &StepKey| match &frame.undone {
            None => true,
            Some(undone) => key.iteration_number().is_none() && undone.contains(key.task_id()),
        };
        let children = self.steps.keys().filter(|key| key.parent().as_ref() == Some(&frame.step));
        let gone: Vec<StepKey> = children.filter(|key| path.as_ref() != Some(*key) && goes(key)).cloned().collect();
        for key in gone {
            self.forget_under(&key);
        }
        let work = Work::Group(frame.group.clone());
        let first_at = self.steps.get(&frame.step).and_then(|step| step.first_at).or(Some(at));
        let step = Step {
            take: frame.take,
            round: frame.round,
            attempt: 1,
            first_at,
            new_keys: 0,
            errand: false,
            alone: false,
            retry: None,
            work,
        };
        self.steps.insert(frame.step.clone(), step);
    }

    /// What was under way ends by events of its own.
    pub(super) fn jump(&mut self, take: u32, to: u32, step: Option<&StepKey>, at: Millis) {
        self.take = take;
        let list = step.and_then(StepKey::parent).unwrap_or_default();
        if let Some(group) = self.group_mut(&list) {
            group.next = to;
        }
        let what = step.map_or(Asked::Jump(to), |step| Asked::JumpInside(step.clone()));
        self.asked = Some(LastAsked { what, at });
    }

    pub(super) fn change_flow(&mut self, flow: &FlowRef, revision: u32, at: Millis, places: &[(StepKey, u32)]) {
        for (key, next) in places {
            if let Some(group) = self.group_mut(key) {
                group.next = *next;
            }
        }
        self.asked = Some(LastAsked { what: Asked::Upgrade(flow.clone(), revision), at });
    }

    /// Failed leaves are evaluated again, groups go on with their bodies; finished steps stay finished.
    pub(super) fn restart(&mut self, round: u32, at: Millis) {
        self.phase = Phase::Open;
        self.carried = false;
        self.round = round;
        self.flow_attempt += 1;
        (self.cancelling, self.alone) = (false, false);
        self.exit = None;
        self.forget_the_end();
        // A try of the flow under its own `retry:` goes on under the same limits of time.
        self.timers.retain(|_, timer| matches!(timer.why, TimerWhy::Sla(_)));
        // A step that a person called failed stays so until it is sent again at a person's wish:
        // no later retry of the flow may take it for an ordinary failure.
        self.doubts.retain(|_, doubt| matches!(doubt.verdict, None | Some(VerdictKind::Fail)));
        self.forget_handlers();
        self.failed_children.clear();
        let children: Vec<StepKey> = self.steps.keys().filter_map(StepKey::parent).collect();
        for (key, step) in &mut self.steps {
            // A run that was replaced from outside ended where it stood still.
            if let Work::AtPause { group, .. } = &step.work {
                step.work = Work::Group(group.clone());
            }
            match &mut step.work {
                Work::Group(group) => {
                    group.open = children.iter().filter(|parent| *parent == key).count() as u32;
                    group.kept.clear();
                    if group.stage != Stage::Body {
                        // The body goes on where it stopped; handlers run anew if needed again.
                        group.stage = Stage::Body;
                        group.next = group.body_next;
                    }
                    group.failed = false;
                    group.handler_failed = false;
                    group.cancelled = false;
                    group.failure = None;
                    if group.asks != Asks::Never {
                        group.asks = Asks::WhenDone;
                    }
                }
                // A run that was replaced from outside ended with quiet steps still open.
                Work::Failed
                | Work::Evaluating
                | Work::Backoff { .. }
                | Work::Errand { .. }
                | Work::Op
                | Work::OpFailed { .. }
                | Work::Sleeping { .. }
                | Work::Child { .. } => {
                    if matches!(step.work, Work::Errand { rests: false, .. }) {
                        step.attempt += 1;
                    }
                    if !step.errand {
                        step.attempt = 1;
                    }
                    step.work = Work::Evaluating;
                    step.first_at = Some(at);
                }
                Work::Sending(_) | Work::Doubtful(_) | Work::AtPause { .. } => {}
            }
        }
        if !self.steps.contains_key(&StepKey::root()) {
            self.steps.insert(StepKey::root(), root_step(self.take));
        }
    }

    pub(super) fn forget_the_end(&mut self) {
        self.stop = None;
        self.concluded = None;
        self.conclusion = self.stopped_at.is_some().then_some(Conclusion::Breakpoint);
        self.slas_broken.clear();
    }

    /// Steps of `errors:` and `finally:` that a replaced run left open.
    fn forget_handlers(&mut self) {
        let mut gone = Vec::new();
        for (key, step) in &self.steps {
            if let Work::Group(group) = &step.work
                && group.stage != Stage::Body
            {
                gone.extend(
                    self.steps.keys().filter(|k| k.parent().as_ref() == Some(key) && !group.kept.contains(*k)).cloned(),
                );
            }
        }
        for key in gone {
            self.forget_under(&key);
        }
    }

    pub(super) fn replay(&mut self, take: u32, from: u32, at: Millis) {
        self.phase = Phase::Open;
        self.take = take;
        (self.cancelling, self.alone) = (false, false);
        self.exit = None;
        self.paused = false;
        self.warned = false;
        self.forget_the_end();
        self.timers.clear();
        self.doubts.clear();
        self.steps.clear();
        self.first_started = Some(at);
        self.flow_attempt = 1;
        self.skips.clear();
        self.failed_children.clear();
        self.asked = Some(LastAsked { what: Asked::Redo(None), at });
        let mut root = root_step(take);
        if let Work::Group(group) = &mut root.work {
            group.next = from;
        }
        self.steps.insert(StepKey::root(), root);
    }
}
