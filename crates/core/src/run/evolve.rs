//! Folding the journal: what each event does to the state. No rule is applied here; an event says
//! what was decided, and this is what it means.

use super::conclusion::{Conclusion, conclusion_of};
use super::errand::ErrandTerms;
use super::event::{EndStatus, Event, Failure, ListName, Stage, StepOutcome, TimerWhy, VerdictKind};
use super::state::{
    Asks, Concluded, Doubt, Exit, GroupState, Needs, Phase, RunState, Sending, Step, Timer, Work, leaves_doubt,
};
use super::step::{StepKey, step_id};
use super::wish::{Asked, LastAsked};
use crate::ids::RunId;
use crate::ir::{EffectClass, OnTime};
use crate::time::Millis;

impl RunState {
    /// Folds a whole journal. `None` when it does not begin with [`Event::Created`].
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<RunState> {
        let mut events = events.into_iter();
        let Event::Created { logical, .. } = events.next()? else { return None };
        let mut state = RunState::new(*logical);
        for event in events {
            state.evolve(event);
        }
        Some(state)
    }

    pub fn evolve(&mut self, event: &Event) {
        match event {
            Event::Created { logical, .. } => *self = RunState::new(*logical),
            Event::InputsReplaced { .. }
            | Event::InputsGiven { .. }
            | Event::Delivered { .. }
            | Event::LabelsSet { .. }
            | Event::LabelsReplaced { .. }
            | Event::VariablesSet { .. }
            | Event::VariablesUnset { .. }
            | Event::ErrandAnswered { .. }
            | Event::Forced { .. } => {}
            Event::MessageLeft { .. } => self.messages_left += 1,
            Event::MessagesTaken { count, .. } => self.messages_taken += u64::from(*count),
            Event::RetrySet { step, retry } => {
                if let Some(step) = self.steps.get_mut(step) {
                    step.retry = Some(retry.clone());
                }
            }
            Event::ReplayOf { from, .. } => self.seeded = *from,
            Event::RetryOf { .. } => self.carry_on(),
            Event::SlaBroken { sla } => {
                self.slas_broken.insert(*sla);
            }
            Event::Started { at } if self.carried => self.restart(self.round + 1, *at),
            Event::Started { at } => self.open_root(*at),
            Event::StepStarted { step, take, round, at } => self.start_step(step, *take, *round, *at),
            Event::Branched { step, list, concurrent, asks, by_needs, .. } => {
                let asks = if *asks { Asks::WhenDone } else { Asks::Never };
                let needs = by_needs.then(Needs::default);
                let over = self.is_over_around(step);
                let group = GroupState { asks, needs, over, ..GroupState::new(list.clone(), *concurrent, None) };
                self.set_work(step, Work::Group(group));
            }
            Event::GroupAsks { step } => {
                if let Some(group) = self.group_mut(step) {
                    group.asks = Asks::Now;
                }
            }
            Event::GroupAnswered { step, stop, failure, then, .. } => {
                self.answer_group(step, *stop, failure.as_ref());
                if let Some(group) = self.group_mut(step) {
                    group.then = *then;
                }
            }
            Event::LoopStarted { step, count, concurrent, asks, each_asks, each_is_step, stops, .. } => {
                self.stops.retain(|key| !key.is_under(step));
                self.stops.extend(stops.iter().cloned());
                let asks = if *asks { Asks::WhenDone } else { Asks::Never };
                let group = GroupState::new(ListName::Tasks, *concurrent, Some(*count));
                let over = self.is_over_around(step);
                let group = GroupState { asks, each_asks: *each_asks, each_is_step: *each_is_step, over, ..group };
                self.set_work(step, Work::Group(group));
            }
            Event::GroupStage { step, stage } => {
                if let Some(group) = self.group_mut(step) {
                    if group.stage == Stage::Body {
                        group.body_next = group.next;
                    }
                    group.stage = *stage;
                    group.next = 0;
                    group.handler_failed = false;
                }
            }
            Event::TimerSet { timer, due, step, why } => self.set_timer(*timer, *due, step, *why),
            Event::TimerCleared { timer } => {
                if self.timers.remove(timer).is_some_and(|cleared| cleared.why == TimerWhy::StartDate) {
                    self.conclusion = None;
                }
            }
            Event::TimerFired { timer } => self.fire_timer(*timer),
            Event::Intent { step, attempt, send, class, out_key, safe_until, timeout_ms, .. } => {
                // A send whose fate is not known stays unknown, whatever a later one is answered.
                let (repeats, lost) = match self.steps.get(step).map(|s| &s.work) {
                    Some(Work::Sending(sending)) => (sending.repeats, leaves_doubt(*class)),
                    Some(Work::Backoff { sending: Some(sending), .. } | Work::Doubtful(sending)) => {
                        (sending.repeats, sending.lost && leaves_doubt(*class))
                    }
                    _ => (0, false),
                };
                if self.doubts.get(step).is_some_and(|doubt| doubt.verdict.is_some()) {
                    self.doubts.remove(step);
                }
                if let Some(found) = self.steps.get_mut(step) {
                    found.attempt = *attempt;
                    found.work = Work::Sending(Sending {
                        send: *send,
                        repeats,
                        lost,
                        class: *class,
                        out_key: out_key.clone(),
                        safe_until: *safe_until,
                        timeout_ms: *timeout_ms,
                    });
                }
            }
            Event::SendLost { step, .. } => {
                if let Some(Work::Sending(sending)) = self.steps.get_mut(step).map(|s| &mut s.work) {
                    sending.repeats += 1;
                    sending.lost = true;
                }
            }
            Event::AttemptFailed { step, attempt, failure, doubt } => {
                self.fail_attempt(step, *attempt, failure, *doubt)
            }
            Event::ErrandSet { step, attempt, terms, .. } => self.set_errand(step, *attempt, terms.as_deref()),
            Event::OpRequested { step } => self.set_work(step, Work::Op),
            Event::OpDone { step, ok: true, .. } => self.end_step(step, StepOutcome::Success, false, None),
            Event::OpDone { step, ok: false, failure, .. } => {
                let failure = failure.clone().unwrap_or_else(|| Failure::new("op_failed", "the operation failed"));
                self.set_work(step, Work::OpFailed { failure });
            }
            Event::ChildRequested { step, alone } => {
                self.set_work(step, Work::Child { run: None, timer: None });
                if let Some(found) = self.steps.get_mut(step) {
                    found.alone = *alone;
                }
            }
            Event::ChildStarted { step, run: child } => {
                if let Some(Work::Child { run, .. }) = self.steps.get_mut(step).map(|s| &mut s.work) {
                    *run = Some(*child);
                }
            }
            Event::ChildEnded { run, doubts, .. } => self.note_doubts_below(*run, *doubts),
            Event::DoubtsBelow { run, count } => self.note_doubts_below(*run, *count),
            Event::DoubtRaised { step, failure } => {
                let sending = match self.steps.get(step).map(|s| &s.work) {
                    Some(Work::Sending(sending)) => sending.clone(),
                    _ => return,
                };
                self.raise_doubt(step, sending.class, failure);
                self.set_work(step, Work::Doubtful(sending));
            }
            Event::Verdict { step, verdict, .. } => self.take_verdict(step, *verdict),
            Event::StepEnded { step, outcome, tolerated, failure, .. } => {
                self.end_step(step, *outcome, *tolerated, failure.as_ref());
            }
            Event::StepPaused { step, late, .. } => self.pause_step(step, *late),
            Event::StepResumed { step, how, list, failure, review, .. } => {
                self.resume_step(step, *how, list, failure.as_ref());
                if let (Some(_), Some(group)) = (review, self.group_mut(step)) {
                    group.asks = Asks::WhenDone;
                }
            }
            Event::BodiesEnd { within, failure } => self.end_bodies(within, failure.as_ref()),
            Event::Exited { step, outcome, failure } => {
                self.exit = Some(Exit { step: step.clone(), outcome: *outcome, failure: failure.clone() });
            }
            Event::Paused { .. } => (self.paused, self.asked) = (true, None),
            Event::Resumed { at, .. } => {
                self.asked = at.map(|at| LastAsked { what: Asked::Resume, at });
                self.paused = false;
                self.passed = self.leave_breakpoint();
            }
            Event::BreakpointsSet { tasks, places } => {
                self.breakpoints = tasks.clone();
                self.stops = places.iter().cloned().collect();
            }
            Event::StoppedAt { step } => {
                self.paused = true;
                self.stopped_at = Some(step.clone());
                self.conclusion = Some(Conclusion::Breakpoint);
            }
            Event::Restored { .. } => self.restored = true,
            Event::Released { .. } => self.restored = false,
            Event::CancelRequested { alone, .. } => {
                self.cancelling = true;
                self.alone = *alone;
                self.paused = false;
                self.leave_breakpoint();
            }
            Event::StopRequested { status, failure, .. } => {
                self.cancelling = true;
                self.paused = false;
                self.leave_breakpoint();
                self.stop = Some((*status, failure.clone()));
            }
            Event::Restarted { round, at, anew, child, .. } => self.begin_again(*round, *at, *anew, child.as_ref()),
            Event::Replayed { take, from, at, back: None, .. } => self.replay(*take, *from, *at),
            Event::Replayed { take, at, back: Some(back), .. } => self.go_back(*take, *at, back),
            Event::SkipAsked { task, .. } => _ = self.skips.insert(task.clone()),
            Event::Jumped { take, to, step, at, .. } => self.jump(*take, *to, step.as_ref(), *at),
            Event::FlowChanged { flow, revision, at, places, .. } => self.change_flow(flow, *revision, *at, places),
            Event::Finishing => self.phase = Phase::Finishing,
            Event::Concluded { status, warned, outputs, failure } => {
                let (outputs, failure) = (outputs.clone(), failure.clone());
                self.concluded = Some(Concluded { status: *status, warned: *warned, outputs, failure });
                self.phase = Phase::Open;
                self.paused = false;
                self.leave_breakpoint();
                (self.cancelling, self.alone) = (false, false);
                self.exit = None;
            }
            Event::Ended { status, warned, failure, .. } => {
                self.asked = None;
                self.phase = Phase::Ended(*status);
                self.paused = false;
                self.leave_breakpoint();
                self.restored = false;
                self.exit = None;
                self.warned = *warned;
                self.timers.clear();
                self.concluded = None;
                self.conclusion = conclusion_of(*status, failure.as_ref().map(|failure| failure.code.as_str()));
            }
            Event::StatusChanged { status, warned, conclusion, .. } => {
                self.phase = Phase::Ended(*status);
                self.warned = *warned;
                self.conclusion = *conclusion;
            }
        }
    }

    pub(super) fn group_mut(&mut self, key: &StepKey) -> Option<&mut GroupState> {
        match self.steps.get_mut(key).map(|s| &mut s.work) {
            Some(Work::Group(group)) => Some(group),
            _ => None,
        }
    }

    fn set_work(&mut self, key: &StepKey, work: Work) {
        if let Some(step) = self.steps.get_mut(key) {
            step.work = work;
        }
    }

    fn open_root(&mut self, at: Millis) {
        self.phase = Phase::Open;
        self.conclusion = None;
        self.first_started.get_or_insert(at);
        let mut root = root_step(self.take);
        if let Work::Group(group) = &mut root.work {
            group.next = self.seeded;
        }
        self.steps.insert(StepKey::root(), root);
    }

    fn start_step(&mut self, key: &StepKey, take: u32, round: u32, at: Millis) {
        let (mut asks, mut is_step) = (Asks::Never, key.iteration_number().is_none());
        if let Some(parent) = key.parent()
            && let Some(group) = self.group_mut(&parent)
        {
            group.next += 1;
            group.open += 1;
            if group.each_asks {
                asks = Asks::WhenDone;
            }
            is_step |= group.each_is_step;
            if let (Some(needs), Stage::Body) = (&mut group.needs, group.stage) {
                needs.started.insert(key.task_id().to_owned());
            }
        }
        self.steps_started += 1;
        if self.passed.as_ref() == Some(key) {
            self.passed = None;
        }
        let work = if is_step {
            Work::Evaluating
        } else {
            Work::Group(GroupState { asks, ..GroupState::new(ListName::Tasks, 1, None) })
        };
        let first_at = Some(at);
        let step =
            Step { take, round, attempt: 1, first_at, new_keys: 0, errand: false, alone: false, retry: None, work };
        self.steps.insert(key.clone(), step);
    }

    fn answer_group(&mut self, key: &StepKey, stop: bool, failure: Option<&Failure>) {
        if let Some(group) = self.group_mut(key) {
            group.asks = Asks::Answered;
            if let Some(failure) = failure {
                group.failed = true;
                group.failure = Some((key.clone(), failure.clone()));
            }
        }
        if let Some(parent) = key.parent().filter(|_| stop)
            && let Some(group) = self.group_mut(&parent)
        {
            group.count = group.count.map(|count| count.min(group.next));
        }
    }

    fn set_errand(&mut self, key: &StepKey, attempt: u32, terms: Option<&ErrandTerms>) {
        let Some(step) = self.steps.get_mut(key) else { return };
        (step.attempt, step.errand) = (attempt, true);
        match (&mut step.work, terms) {
            (work, Some(terms)) => *work = Work::Errand { terms: Box::new(terms.clone()), rests: false },
            (Work::Errand { rests, .. }, None) => *rests = false,
            _ => {}
        }
    }

    fn set_timer(&mut self, timer: u64, due: Millis, step: &StepKey, why: TimerWhy) {
        self.timers.insert(timer, Timer { due, step: step.clone(), why });
        self.next_timer = self.next_timer.max(timer + 1);
        match why {
            TimerWhy::FlowRetry => self.phase = Phase::RetryLater,
            TimerWhy::StartDate => self.conclusion = Some(Conclusion::Scheduled),
            _ => {}
        }
        let Some(found) = self.steps.get_mut(step) else { return };
        match why {
            TimerWhy::Sleep | TimerWhy::CutShort => found.work = Work::Sleeping { timer },
            TimerWhy::Backoff => {
                let sending = match &found.work {
                    Work::Sending(sending) | Work::Doubtful(sending) | Work::Backoff { sending: Some(sending), .. } => {
                        Some(sending.clone())
                    }
                    _ => None,
                };
                found.work = Work::Backoff { timer: Some(timer), sending };
            }
            TimerWhy::Timeout => {
                if let Work::Child { timer: slot, .. } = &mut found.work {
                    *slot = Some(timer);
                }
            }
            TimerWhy::Pause => {
                if let Work::AtPause { timer: slot, .. } = &mut found.work {
                    *slot = Some(timer);
                }
            }
            TimerWhy::Interval => {
                if let Work::Group(group) = &mut found.work {
                    group.asks = Asks::Later { timer };
                }
            }
            TimerWhy::Quiet | TimerWhy::FlowRetry | TimerWhy::StartDate | TimerWhy::Sla(_) => {}
        }
    }

    fn pause_step(&mut self, key: &StepKey, late: OnTime) {
        let Some(step) = self.steps.get_mut(key) else { return };
        let group = match &step.work {
            Work::Group(group) => GroupState { asks: Asks::WhenDone, ..group.clone() },
            _ => GroupState { asks: Asks::WhenDone, ..GroupState::new(ListName::OnPause, 1, None) },
        };
        step.work = Work::AtPause { timer: None, late, group };
    }

    fn resume_step(&mut self, key: &StepKey, how: OnTime, list: &ListName, failure: Option<&Failure>) {
        let Some(Step { work, .. }) = self.steps.get_mut(key) else { return };
        let Work::AtPause { group: before, .. } = &*work else { return };
        *work = Work::Group(match failure {
            // A restart stands still here once more.
            Some(failure) => {
                GroupState { failed: true, failure: Some((key.clone(), failure.clone())), ..before.clone() }
            }
            None => {
                GroupState { warned: before.warned || how == OnTime::Warn, ..GroupState::new(list.clone(), 1, None) }
            }
        });
    }

    /// What runs in a list goes on to its end; handlers are not touched.
    fn end_bodies(&mut self, within: &StepKey, failure: Option<&Failure>) {
        for (_, step) in self.steps.iter_mut().filter(|(key, _)| key.is_under(within)) {
            if let Work::Group(group) | Work::AtPause { group, .. } = &mut step.work {
                group.over |= group.stage == Stage::Body;
            }
        }
        if let (true, Some(failure)) = (within.is_root(), failure) {
            self.stop = Some((EndStatus::Cancelled, failure.clone()));
        }
    }

    fn fire_timer(&mut self, timer: u64) {
        let Some(fired) = self.timers.remove(&timer) else { return };
        if fired.why == TimerWhy::StartDate {
            self.conclusion = None;
        }
        let Some(step) = self.steps.get_mut(&fired.step) else { return };
        match &mut step.work {
            // An inline attempt is evaluated anew; a request is sent again as it was.
            Work::Backoff { sending: None, .. } => step.work = Work::Evaluating,
            Work::Backoff { timer, .. } => *timer = None,
            // The next round of a loop.
            Work::Group(group) if fired.why == TimerWhy::Interval => {
                group.count = group.count.map(|count| count + 1);
                group.asks = Asks::WhenDone;
            }
            _ => {}
        }
    }

    fn fail_attempt(&mut self, key: &StepKey, attempt: u32, failure: &Failure, doubt: bool) {
        let class = match self.steps.get_mut(key) {
            Some(step) => {
                step.attempt = attempt + 1;
                match &mut step.work {
                    Work::Sending(sending) | Work::Doubtful(sending) | Work::Backoff { sending: Some(sending), .. } => {
                        sending.repeats = 0;
                        sending.class
                    }
                    Work::Errand { rests, .. } => {
                        *rests = true;
                        EffectClass::Repeatable
                    }
                    _ => EffectClass::Pure,
                }
            }
            None => return,
        };
        if doubt {
            self.raise_doubt(key, class, failure);
        }
    }

    fn raise_doubt(&mut self, key: &StepKey, class: EffectClass, failure: &Failure) {
        let (take, round) = self.steps.get(key).map_or((self.take, 0), |s| (s.take, s.round));
        let step_id = step_id(self.logical, take, round, key);
        self.doubts.insert(key.clone(), Doubt { step_id, class, code: failure.code.clone(), verdict: None });
    }

    fn note_doubts_below(&mut self, run: RunId, count: u32) {
        if count == 0 {
            self.doubts_below.remove(&run);
        } else {
            self.doubts_below.insert(run, count);
        }
    }

    /// A step that waits for its verdict goes on at once, so the doubt is gone; but a step that was
    /// called failed keeps it, and so does one that had failed with its doubt: a restart must not
    /// send again what was called done.
    fn take_verdict(&mut self, key: &StepKey, verdict: VerdictKind) {
        let waits = match self.steps.get_mut(key) {
            Some(step) => {
                if verdict == VerdictKind::RepeatNewKey {
                    step.new_keys += 1;
                }
                matches!(step.work, Work::Doubtful(_))
            }
            None => false,
        };
        if waits && verdict != VerdictKind::Fail {
            self.doubts.remove(key);
        } else if let Some(doubt) = self.doubts.get_mut(key) {
            doubt.verdict = Some(verdict);
        }
        let new_key = self.out_key(key, None);
        if let Some(Step { work: Work::Doubtful(sending), .. }) = self.steps.get_mut(key) {
            sending.repeats = 0;
            sending.lost = false;
            if verdict == VerdictKind::RepeatNewKey {
                // The far side does not know this key: its window begins with the next send.
                sending.out_key = new_key;
                sending.safe_until = sending.safe_until.map(|_| Millis(0));
            }
        }
    }

    fn end_step(&mut self, key: &StepKey, outcome: StepOutcome, tolerated: bool, failure: Option<&Failure>) {
        let lasting = match outcome {
            StepOutcome::Failed => !tolerated,
            StepOutcome::Cancelled => true,
            StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped => false,
        };
        let mut keep = false;
        if let Some(parent) = key.parent()
            && let Some(group) = self.group_mut(&parent)
        {
            if group.kept.remove(key) {
                // It had failed, and a verdict says that it was done: once none is left the group has not failed.
                group.failed = !group.kept.is_empty();
                group.failure = group.failure.take().filter(|_| group.failed);
            } else {
                group.open = group.open.saturating_sub(1);
            }
            if let (Some(needs), Stage::Body, false) = (&mut group.needs, group.stage, lasting) {
                needs.done.insert(key.task_id().to_owned());
            }
            match outcome {
                StepOutcome::Failed if !tolerated => {
                    group.failed = true;
                    group.handler_failed = group.stage != Stage::Body;
                    if let (None, Some(failure)) = (&group.failure, failure) {
                        group.failure = Some((key.clone(), failure.clone()));
                    }
                }
                StepOutcome::Cancelled => group.cancelled = true,
                StepOutcome::Warning | StepOutcome::Failed => group.warned = true,
                StepOutcome::Success | StepOutcome::Skipped => {}
            }
            keep = lasting && group.stage == Stage::Body;
            if keep {
                group.kept.insert(key.clone());
            }
        }
        if keep {
            if let Some(step) = self.steps.get_mut(key) {
                match &step.work {
                    Work::Child { run: Some(run), .. } => _ = self.failed_children.insert(key.clone(), *run),
                    // The attempt that was out is over.
                    Work::Errand { rests: false, .. } => step.attempt += 1,
                    _ => {}
                }
                match &step.work {
                    Work::Group(_) => {}
                    Work::AtPause { group, .. } => step.work = Work::Group(group.clone()),
                    _ => step.work = Work::Failed,
                }
            }
        } else if !(key.is_root() && lasting) {
            self.forget_under(key);
        }
    }

    /// Removes a step and all below it.
    pub(super) fn forget_under(&mut self, key: &StepKey) {
        let gone: Vec<StepKey> = self
            .steps
            .range(key.clone()..)
            .map(|(k, _)| k)
            .take_while(|k| k.0.starts_with(&key.0))
            .filter(|k| k.is_under(key))
            .cloned()
            .collect();
        for key in gone {
            self.steps.remove(&key);
        }
    }

    /// The step before which the run had stopped.
    fn leave_breakpoint(&mut self) -> Option<StepKey> {
        let step = self.stopped_at.take()?;
        self.conclusion = None;
        Some(step)
    }

    /// All before this happened to another run. This one waits for its turn like any new one.
    fn carry_on(&mut self) {
        self.phase = Phase::Waiting;
        self.carried = true;
        self.paused = false;
        self.timers.clear();
        self.forget_the_end();
    }
}

pub(super) fn root_step(take: u32) -> Step {
    let work = Work::Group(GroupState::new(ListName::Tasks, 1, None));
    Step { take, round: 0, attempt: 1, first_at: None, new_keys: 0, errand: false, alone: false, retry: None, work }
}
