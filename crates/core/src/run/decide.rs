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

use super::event::*;
use super::index::FlowIndex;
use super::retry::delay_ms;
use super::state::*;
use super::step::StepKey;
use crate::ids::RunId;
use crate::ir::{EffectClass, OnDoubt, Task, TaskKind};
use crate::limits::Limits;
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
pub fn decide(flow: &FlowIndex, state: &mut RunState, input: Input, now: Millis, limits: &Limits) -> Result<Decided, NotPossible> {
    let mut machine = Machine { flow, state, now, limits, out: Decided::default(), touched: VecDeque::new() };
    machine.handle(input)?;
    machine.settle();
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

fn refuse<T>(text: impl Into<String>) -> Result<T, NotPossible> {
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
        match input {
            Input::Start => self.start(),
            Input::Evaluated { step, result } => self.evaluated(&step, result),
            Input::OutputsEvaluated(result) => self.outputs_evaluated(result),
            Input::Performed { step, send, outcome } => self.performed(&step, send, outcome),
            Input::Continue => self.go_on(),
            Input::TimerFired { timer } => self.timer_fired(timer),
            Input::ChildEnded { run, status, outputs, doubts } => self.child_ended(run, status, outputs, doubts),
            Input::DoubtsBelow { run, count } => self.doubts_below(run, count),
            Input::Delivered { payload } => self.emit(Event::Delivered { payload }),
            Input::Pause { by } => return self.pause(by),
            Input::Resume { by } => return self.resume(by),
            Input::Cancel { by } => return self.cancel(by),
            Input::Restart { by } => return self.restart(by),
            Input::Replay { by, from } => return self.replay(by, from),
            Input::Verdict { step, verdict, by, result } => return self.verdict(step, verdict, by, result),
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
        self.touched.push_back(StepKey::root());
    }

    // ---- steps -------------------------------------------------------------------------------

    /// Starts children and ends groups until nothing moves.
    fn settle(&mut self) {
        while let Some(key) = self.touched.pop_front() {
            self.pump(&key);
        }
    }

    fn pump(&mut self, key: &StepKey) {
        loop {
            let Some(Step { work: Work::Group(group), .. }) = self.state.steps.get(key) else { return };
            if self.state.phase != Phase::Open {
                return;
            }
            let children = self.flow.children(key, &group.list, group.stage);
            let total = match (group.stage, group.count) {
                (Stage::Body, Some(count)) => count,
                _ => children.len() as u32,
            };
            let width = match (group.stage, group.concurrent) {
                (Stage::Body, 0) => self.limits.parallel_branches_max,
                (Stage::Body, n) => n.min(self.limits.parallel_branches_max),
                _ => 1,
            };
            let stop = self.state.cancelling
                || match group.stage {
                    Stage::Body => group.failed || group.cancelled,
                    // In a handler only its own failure stops it; the body's is why it runs.
                    Stage::Errors | Stage::Finally => group.handler_failed,
                };
            if !stop && group.next < total && group.open < width {
                let child = match (group.stage, group.count) {
                    (Stage::Body, Some(_)) => key.iteration(group.next),
                    _ => key.child(&children[group.next as usize].id),
                };
                self.start_step(key, child);
                continue;
            }
            if group.open > 0 {
                return;
            }
            if stop || group.next >= total {
                if self.next_stage(key) {
                    continue;
                }
                return;
            }
            return;
        }
    }

    fn start_step(&mut self, parent: &StepKey, key: StepKey) {
        let (stage, parent_round) = match self.state.steps.get(parent) {
            Some(Step { round, work: Work::Group(group), .. }) => (group.stage, *round),
            _ => (Stage::Body, 0),
        };
        // Steps of handlers run anew after each restart, so their ids carry the round.
        let round = if stage == Stage::Body { parent_round } else { self.state.round + 1 };
        self.emit(Event::StepStarted { step: key.clone(), take: self.state.take, round, at: self.now });
        if self.state.steps_started > self.limits.steps_per_run_max {
            let text = format!("a run may have {} steps", self.limits.steps_per_run_max);
            return self.end_step(&key, StepOutcome::Failed, None, Some(Failure::new("steps_limit", text)));
        }
        if key.iteration_number().is_some() {
            self.touched.push_back(key);
        } else if !self.state.paused {
            self.act(Action::Evaluate(key));
        }
    }

    /// Moves a group whose children are done to its next stage; false when it has ended.
    fn next_stage(&mut self, key: &StepKey) -> bool {
        let Some(Step { work: Work::Group(group), .. }) = self.state.steps.get(key) else { return false };
        let has = |stage: Stage| !self.flow.children(key, &group.list, stage).is_empty();
        let next = match group.stage {
            _ if self.state.cancelling => None,
            Stage::Body if group.failed && has(Stage::Errors) => Some(Stage::Errors),
            Stage::Body | Stage::Errors if has(Stage::Finally) => Some(Stage::Finally),
            Stage::Body | Stage::Errors | Stage::Finally => None,
        };
        if let Some(stage) = next {
            self.emit(Event::GroupStage { step: key.clone(), stage });
            return true;
        }
        let outcome = match group {
            _ if self.state.cancelling || group.cancelled => StepOutcome::Cancelled,
            GroupState { failed: true, .. } => StepOutcome::Failed,
            GroupState { warned: true, .. } => StepOutcome::Warning,
            _ => StepOutcome::Success,
        };
        let failure = group.failure.clone().map(|(_, failure)| failure);
        if key.is_root() {
            self.root_ended(outcome);
        } else {
            self.end_step(key, outcome, None, failure);
        }
        false
    }

    fn end_step(&mut self, key: &StepKey, outcome: StepOutcome, output: Option<Payload>, failure: Option<Failure>) {
        let task = self.flow.task(key.task_id()).filter(|_| key.iteration_number().is_none());
        let outcome = match (outcome, task) {
            (StepOutcome::Warning, Some(task)) if task.allow_warning => StepOutcome::Success,
            (other, _) => other,
        };
        let tolerated = outcome == StepOutcome::Failed && task.is_some_and(|t| t.allow_failure);
        self.clear_timers(|timer| timer.step == *key);
        self.emit(Event::StepEnded { step: key.clone(), outcome, at: self.now, tolerated, output, failure });
        if let Some(parent) = key.parent() {
            self.touched.push_back(parent);
        }
    }

    fn clear_timers(&mut self, which: impl Fn(&Timer) -> bool) {
        let gone: Vec<u64> = self.state.timers.iter().filter(|(_, t)| which(t)).map(|(id, _)| *id).collect();
        for timer in gone {
            self.emit(Event::TimerCleared { timer });
        }
    }

    fn set_timer(&mut self, step: &StepKey, delay: i64, why: TimerWhy) {
        let due = self.now.plus(delay.clamp(0, self.limits.wait_ms_max));
        self.emit(Event::TimerSet { timer: self.state.next_timer, due, step: step.clone(), why });
    }

    // ---- evaluation --------------------------------------------------------------------------

    fn evaluated(&mut self, key: &StepKey, result: Result<Evaluated, Failure>) {
        let Some(Step { work: Work::Evaluating, .. }) = self.state.steps.get(key) else { return };
        let Some(task) = self.flow.task(key.task_id()) else { return };
        let step = key.clone();
        match result {
            Err(failure) => self.end_step(key, StepOutcome::Failed, None, Some(failure)),
            Ok(Evaluated::Skip) => self.end_step(key, StepOutcome::Skipped, None, None),
            Ok(Evaluated::Group) => {
                let concurrent = match &task.kind {
                    TaskKind::Parallel { concurrent, .. } => *concurrent,
                    _ => 1,
                };
                self.emit(Event::Branched { step: step.clone(), list: ListName::Tasks, concurrent, output: None });
                self.touched.push_back(step);
            }
            Ok(Evaluated::Branch { list, output }) => {
                self.emit(Event::Branched { step: step.clone(), list, concurrent: 1, output });
                self.touched.push_back(step);
            }
            Ok(Evaluated::Items { count, items }) => {
                if count > self.limits.foreach_items_max {
                    let text = format!("{count} items; at most {} are allowed", self.limits.foreach_items_max);
                    return self.end_step(key, StepOutcome::Failed, None, Some(Failure::new("too_many_items", text)));
                }
                let concurrent = match &task.kind {
                    TaskKind::ForEach { concurrent, .. } => *concurrent,
                    _ => 1,
                };
                self.emit(Event::LoopStarted { step: step.clone(), count, concurrent, items });
                self.touched.push_back(step);
            }
            Ok(Evaluated::Sleep { ms }) => self.set_timer(key, ms, TimerWhy::Sleep),
            Ok(Evaluated::Inline { result, labels }) => {
                if let Some(labels) = labels {
                    self.emit(Event::LabelsSet { labels });
                }
                match result {
                    Ok(output) => self.end_step(key, self.ending(key, task), output, None),
                    Err(failure) => self.attempt_failed(key, failure, false, true),
                }
            }
            Ok(Evaluated::Effect { class, out_key, window_ms, timeout_ms, request }) => {
                let first = Sending {
                    send: 0,
                    repeats: 0,
                    class,
                    out_key: out_key.unwrap_or_else(|| self.state.step_id(key).hex()),
                    safe_until: (class == EffectClass::Keyed).then(|| self.now.plus(window_ms)),
                    timeout_ms,
                };
                self.send(key, first, Some(request));
            }
            Ok(Evaluated::Op) => {
                self.emit(Event::OpRequested { step: step.clone() });
                self.act(Action::Op(step));
            }
            Ok(Evaluated::Child) => {
                self.emit(Event::ChildRequested { step: step.clone() });
                if let Some(ms) = task.timeout_ms {
                    self.set_timer(key, ms, TimerWhy::Timeout);
                }
                self.act(Action::Op(step));
            }
        }
    }

    /// A step that needed several attempts ends with a warning if its author wants to see that.
    fn ending(&self, key: &StepKey, task: &Task) -> StepOutcome {
        let retried = self.state.steps.get(key).is_some_and(|s| s.attempt > 1);
        let warn = task.retry.as_ref().is_some_and(|r| r.warning_on_retry);
        if retried && warn { StepOutcome::Warning } else { StepOutcome::Success }
    }

    // ---- effects -----------------------------------------------------------------------------

    /// Records the right to send once more, and asks for it.
    fn send(&mut self, key: &StepKey, sending: Sending, request: Option<Payload>) {
        let attempt = self.state.steps.get(key).map_or(1, |s| s.attempt);
        let send = sending.send + 1;
        self.emit(Event::Intent {
            step: key.clone(),
            attempt,
            send,
            class: sending.class,
            out_key: sending.out_key,
            safe_until: sending.safe_until,
            timeout_ms: sending.timeout_ms,
            request,
        });
        self.act(Action::Perform { step: key.clone(), send });
    }

    /// May this effect be sent again without asking anyone?
    fn repeatable(&self, key: &StepKey, sending: &Sending) -> bool {
        let on_doubt = self.flow.task(key.task_id()).map_or(OnDoubt::Hold, |t| t.effect.on_doubt);
        match sending.class {
            EffectClass::Pure | EffectClass::Read | EffectClass::Repeatable => true,
            EffectClass::Keyed => {
                sending.safe_until.is_some_and(|until| self.now < until) || on_doubt == OnDoubt::Repeat
            }
            EffectClass::Naked | EffectClass::Probed | EffectClass::Transactional => on_doubt == OnDoubt::Repeat,
        }
    }

    /// Would giving up on this effect leave something unknown that a new run could repeat?
    fn leaves_doubt(class: EffectClass) -> bool {
        match class {
            EffectClass::Pure | EffectClass::Read | EffectClass::Repeatable => false,
            EffectClass::Keyed | EffectClass::Naked | EffectClass::Probed | EffectClass::Transactional => true,
        }
    }

    fn performed(&mut self, key: &StepKey, send: u32, outcome: Performed) {
        let Some(Step { work: Work::Sending(sending), .. }) = self.state.steps.get(key) else { return };
        if sending.send != send {
            return; // an answer to an older send: the newer one is what counts
        }
        let sending = sending.clone();
        let Some(task) = self.flow.task(key.task_id()) else { return };
        match outcome {
            Performed::Done { output } => self.end_step(key, self.ending(key, task), Some(output), None),
            Performed::FailedClean { failure } => self.attempt_failed(key, failure, false, true),
            Performed::Lost { failure } => {
                let again = self.repeatable(key, &sending) && !self.state.cancelling;
                if again && sending.repeats + 1 < SENDS_MAX {
                    self.emit(Event::SendLost { step: key.clone(), send, failure });
                    self.set_timer(key, 250 << sending.repeats.min(6), TimerWhy::Backoff);
                } else {
                    self.attempt_failed(key, failure, Self::leaves_doubt(sending.class), again);
                }
            }
        }
    }

    /// An attempt failed: wait for the next one, or fail the step.
    fn attempt_failed(&mut self, key: &StepKey, failure: Failure, doubt: bool, may_retry: bool) {
        let Some(step) = self.state.steps.get(key) else { return };
        let (attempt, first_at) = (step.attempt, step.first_at.unwrap_or(self.now));
        let retry = self.flow.task(key.task_id()).and_then(|t| t.retry.as_ref());
        let delay = match retry {
            Some(retry) if may_retry && !doubt && !self.state.cancelling => {
                delay_ms(retry, attempt + 1, first_at, self.now, self.state.step_id(key), self.limits.retries_max)
            }
            _ => None,
        };
        self.emit(Event::AttemptFailed { step: key.clone(), attempt, failure: failure.clone(), doubt });
        match delay {
            Some(delay) => self.set_timer(key, delay, TimerWhy::Backoff),
            None if self.state.cancelling => self.end_step(key, StepOutcome::Cancelled, None, Some(failure)),
            None => self.end_step(key, StepOutcome::Failed, None, Some(failure)),
        }
    }

    fn timer_fired(&mut self, timer: u64) {
        let Some(Timer { step, why, .. }) = self.state.timers.get(&timer).cloned() else { return };
        self.emit(Event::TimerFired { timer });
        match why {
            TimerWhy::Sleep => self.end_step(&step, StepOutcome::Success, None, None),
            TimerWhy::Backoff => self.try_again(&step),
            TimerWhy::Timeout => self.timed_out(&step),
            TimerWhy::Quiet => self.act(Action::EnterLane),
            TimerWhy::FlowRetry => self.reopen(By { who: "flow retry".into(), why: String::new() }),
        }
    }

    fn try_again(&mut self, key: &StepKey) {
        if self.state.paused {
            return; // Resume finds it
        }
        match self.state.steps.get(key).map(|s| s.work.clone()) {
            Some(Work::Backoff { sending: Some(sending), .. }) => self.send(key, sending, None),
            Some(Work::Evaluating) => self.act(Action::Evaluate(key.clone())),
            _ => {}
        }
    }

    /// Only a sub-run has a durable time-out of its own; calls are timed by the performer.
    fn timed_out(&mut self, key: &StepKey) {
        let Some(Step { work: Work::Child { run, .. }, .. }) = self.state.steps.get(key) else { return };
        if let Some(run) = *run {
            let by = By { who: "timeout".into(), why: format!("step {key} took too long") };
            self.act(Action::CancelChild { run, by });
        }
        self.end_step(key, StepOutcome::Failed, None, Some(Failure::new("timeout", "the sub-run took too long")));
    }

    // ---- sub-runs ----------------------------------------------------------------------------

    fn child_ended(&mut self, run: RunId, status: EndStatus, outputs: Payload, doubts: u32) {
        let waiting = self.state.steps.iter().find_map(|(key, step)| match step.work {
            Work::Child { run: Some(child), .. } if child == run => Some(key.clone()),
            _ => None,
        });
        let Some(key) = waiting else { return self.doubts_below(run, doubts) };
        self.emit(Event::ChildEnded { step: key.clone(), run, status, outputs: outputs.clone(), doubts });
        let transmit = match self.flow.task(key.task_id()).map(|t| &t.kind) {
            Some(TaskKind::Subflow(spec)) => spec.transmit_failed,
            _ => true,
        };
        let failure = |word: &str| Failure::new("subflow_failed", format!("sub-run {run} {word}"));
        match status {
            EndStatus::Completed => self.end_step(&key, StepOutcome::Success, Some(outputs), None),
            _ if self.state.cancelling => self.end_step(&key, StepOutcome::Cancelled, None, None),
            EndStatus::Failed | EndStatus::Cancelled if !transmit => {
                self.end_step(&key, StepOutcome::Warning, Some(outputs), None);
            }
            EndStatus::Failed => self.end_step(&key, StepOutcome::Failed, Some(outputs), Some(failure("failed"))),
            EndStatus::Cancelled => self.end_step(&key, StepOutcome::Failed, Some(outputs), Some(failure("was cancelled"))),
        }
    }

    fn doubts_below(&mut self, run: RunId, count: u32) {
        let known = self.state.doubts_below.get(&run).copied().unwrap_or(0);
        if known != count {
            self.emit(Event::DoubtsBelow { run, count });
        }
    }

    /// An op's result was journaled by its transaction: act on it.
    fn go_on(&mut self) {
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
            self.attempt_failed(&key, failure, false, true);
        }
        let unattended: Vec<StepKey> = self
            .state
            .steps
            .iter()
            .filter(|(key, step)| matches!(step.work, Work::Child { run: Some(_), .. }) && !self.waits_for_child(key))
            .map(|(key, _)| key.clone())
            .collect();
        for key in unattended {
            self.end_step(&key, StepOutcome::Success, None, None);
        }
        let groups: Vec<StepKey> =
            self.state.steps.iter().filter(|(_, s)| matches!(s.work, Work::Group(_))).map(|(k, _)| k.clone()).collect();
        self.touched.extend(groups);
    }

    fn waits_for_child(&self, key: &StepKey) -> bool {
        match self.flow.task(key.task_id()).map(|t| &t.kind) {
            Some(TaskKind::Subflow(spec)) => spec.wait,
            _ => true,
        }
    }

    // ---- the end -----------------------------------------------------------------------------

    fn root_ended(&mut self, outcome: StepOutcome) {
        match outcome {
            StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped => {
                self.emit(Event::Finishing);
                self.act(Action::EvaluateOutputs);
            }
            StepOutcome::Cancelled => self.end_run(EndStatus::Cancelled, None, None),
            StepOutcome::Failed => self.run_failed(),
        }
    }

    fn run_failed(&mut self) {
        let failure = match self.state.steps.get(&StepKey::root()).map(|s| &s.work) {
            Some(Work::Group(group)) => group.failure.clone().map(|(_, failure)| failure),
            _ => None,
        };
        let delay = match &self.flow.flow.retry {
            Some(retry) if self.state.open_doubts() == 0 => {
                let first = self.state.first_started.unwrap_or(self.now);
                let salt = self.state.step_id(&StepKey::root());
                delay_ms(retry, self.state.flow_attempt + 1, first, self.now, salt, self.limits.retries_max)
            }
            _ => None,
        };
        match delay {
            Some(delay) => self.set_timer(&StepKey::root(), delay, TimerWhy::FlowRetry),
            None => self.end_run(EndStatus::Failed, None, failure),
        }
    }

    fn outputs_evaluated(&mut self, result: Result<Option<Payload>, Failure>) {
        if self.state.phase != Phase::Finishing {
            return;
        }
        match result {
            Ok(outputs) => self.end_run(EndStatus::Completed, outputs, None),
            Err(failure) => self.end_run(EndStatus::Failed, None, Some(failure)),
        }
    }

    fn end_run(&mut self, status: EndStatus, outputs: Option<Payload>, failure: Option<Failure>) {
        let warned = match self.state.steps.get(&StepKey::root()).map(|s| &s.work) {
            Some(Work::Group(group)) => group.warned,
            _ => false,
        };
        self.clear_timers(|_| true);
        self.emit(Event::Ended { status, warned, outputs, failure });
    }

    // ---- what people ask for -----------------------------------------------------------------

    fn pause(&mut self, by: By) -> Result<(), NotPossible> {
        match self.state.phase {
            Phase::Open if self.state.cancelling => refuse("the run is being cancelled"),
            Phase::Open if self.state.paused => refuse("the run is paused already"),
            Phase::Open => {
                self.emit(Event::Paused { by });
                Ok(())
            }
            Phase::Waiting => refuse("the run has not started; cancel it instead"),
            Phase::Finishing | Phase::RetryLater | Phase::Ended(_) => refuse("only a running run can be paused"),
        }
    }

    fn resume(&mut self, by: By) -> Result<(), NotPossible> {
        if !self.state.paused || self.state.is_ended() {
            return refuse("the run is not paused; use restart for a failed run");
        }
        self.emit(Event::Resumed { by });
        let ready: Vec<(StepKey, bool)> = self
            .state
            .steps
            .iter()
            .filter_map(|(key, step)| match step.work {
                Work::Evaluating => Some((key.clone(), true)),
                Work::Backoff { timer: None, .. } => Some((key.clone(), false)),
                _ => None,
            })
            .collect();
        for (key, evaluate) in ready {
            if evaluate {
                self.act(Action::Evaluate(key));
            } else {
                self.try_again(&key);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, by: By) -> Result<(), NotPossible> {
        match self.state.phase {
            Phase::Ended(_) => return refuse("the run has ended already"),
            Phase::Waiting | Phase::RetryLater | Phase::Finishing => {
                self.emit(Event::CancelRequested { by });
                self.end_run(EndStatus::Cancelled, None, None);
                return Ok(());
            }
            Phase::Open if self.state.cancelling => return Ok(()),
            Phase::Open => {}
        }
        self.emit(Event::CancelRequested { by: by.clone() });
        let steps: Vec<(StepKey, Work)> = self.state.steps.iter().map(|(k, s)| (k.clone(), s.work.clone())).collect();
        for (key, work) in steps {
            match work {
                // What has been sent must settle; what a child has sent, too.
                Work::Sending(_) | Work::Op | Work::Child { run: None, .. } => {}
                Work::Child { run: Some(run), .. } => self.act(Action::CancelChild { run, by: by.clone() }),
                Work::Group(_) => self.touched.push_back(key),
                Work::Evaluating
                | Work::Backoff { .. }
                | Work::Sleeping { .. }
                | Work::OpFailed { .. }
                | Work::Doubtful(_) => self.end_step(&key, StepOutcome::Cancelled, None, None),
                Work::Failed => {}
            }
        }
        Ok(())
    }

    fn restart(&mut self, by: By) -> Result<(), NotPossible> {
        match self.state.phase {
            Phase::Ended(_) if self.state.open_doubts() > 0 => {
                refuse("an effect is in doubt; give a verdict first (semel run verdict)")
            }
            Phase::Ended(EndStatus::Completed) => refuse("the run completed; use replay to do finished steps again"),
            Phase::Ended(EndStatus::Failed | EndStatus::Cancelled) => {
                self.reopen(by);
                Ok(())
            }
            Phase::Waiting | Phase::Open | Phase::Finishing | Phase::RetryLater => refuse("the run has not ended"),
        }
    }

    /// Goes on from the failed steps; what a verdict called done is not asked for again.
    fn reopen(&mut self, by: By) {
        let settled: Vec<StepKey> = self
            .state
            .doubts
            .iter()
            .filter(|(_, doubt)| doubt.verdict == Some(VerdictKind::Done))
            .map(|(key, _)| key.clone())
            .collect();
        let round = self.state.round + 1;
        self.emit(Event::Restarted { by, round, at: self.now });
        for key in settled {
            if self.state.steps.contains_key(&key) {
                self.end_step(&key, StepOutcome::Success, None, None);
            }
        }
        let again: Vec<StepKey> = self
            .state
            .steps
            .iter()
            .filter(|(_, s)| matches!(s.work, Work::Evaluating))
            .map(|(k, _)| k.clone())
            .collect();
        for key in again {
            self.act(Action::Evaluate(key));
        }
        let groups: Vec<StepKey> =
            self.state.steps.iter().filter(|(_, s)| matches!(s.work, Work::Group(_))).map(|(k, _)| k.clone()).collect();
        // Innermost first, so that a parent sees its children's ends.
        self.touched.extend(groups.into_iter().rev());
    }

    fn replay(&mut self, by: By, from: Option<String>) -> Result<(), NotPossible> {
        if !self.state.is_ended() {
            return refuse("the run has not ended; cancel it first");
        }
        if self.state.open_doubts() > 0 {
            return refuse("an effect is in doubt; give a verdict first (semel run verdict)");
        }
        let from = match from {
            None => 0,
            Some(id) => match self.flow.flow.tasks.iter().position(|task| task.id == id) {
                Some(index) => index as u32,
                None => return refuse(format!("`{id}` is not a top-level task of this flow; a replay begins at one")),
            },
        };
        self.emit(Event::Replayed { by, take: self.state.take + 1, from, at: self.now });
        self.touched.push_back(StepKey::root());
        Ok(())
    }

    fn verdict(&mut self, key: StepKey, verdict: VerdictKind, by: By, result: Option<Payload>) -> Result<(), NotPossible> {
        match self.state.doubts.get(&key) {
            Some(doubt) if doubt.verdict.is_none() => {}
            _ => return refuse(format!("no doubt is open at step `{key}`")),
        }
        if verdict == VerdictKind::Done && result.is_none() {
            return refuse("a verdict of done needs the step's result (an object such as {})");
        }
        let doubtful = match self.state.steps.get(&key).map(|s| &s.work) {
            Some(Work::Doubtful(sending)) => Some(sending.clone()),
            _ => None,
        };
        self.emit(Event::Verdict { step: key.clone(), verdict, by: by.clone(), result: result.clone() });
        match doubtful {
            Some(sending) => self.go_on_from(&key, sending, verdict, result),
            None if self.state.phase == Phase::Ended(EndStatus::Failed) => self.after_late_verdict(by),
            None => {}
        }
        Ok(())
    }

    /// The run waits at the step itself.
    fn go_on_from(&mut self, key: &StepKey, mut sending: Sending, verdict: VerdictKind, result: Option<Payload>) {
        match verdict {
            VerdictKind::Done => self.end_step(key, StepOutcome::Success, result, None),
            VerdictKind::Fail => {
                let failure = Failure::new("verdict_fail", "an operator decided that the step failed");
                self.end_step(key, StepOutcome::Failed, None, Some(failure));
            }
            VerdictKind::Repeat => self.send(key, sending, None),
            VerdictKind::RepeatNewKey => {
                sending.out_key = format!("{}-{}", self.state.step_id(key).hex(), sending.send + 1);
                sending.safe_until = sending.safe_until.map(|_| self.now.plus(86_400_000));
                self.send(key, sending, None);
            }
        }
    }

    /// The run had ended; it goes on once every doubt is decided and one of them says so.
    fn after_late_verdict(&mut self, by: By) {
        if self.state.open_doubts() > 0 {
            return;
        }
        let goes_on = self.state.doubts.values().any(|d| match d.verdict {
            Some(VerdictKind::Done | VerdictKind::Repeat | VerdictKind::RepeatNewKey) => true,
            Some(VerdictKind::Fail) | None => false,
        });
        if goes_on {
            self.reopen(by);
        }
    }

    // ---- recovery ----------------------------------------------------------------------------

    fn recover(&mut self) {
        match self.state.phase {
            Phase::Finishing => self.act(Action::EvaluateOutputs),
            Phase::Open => self.recover_steps(),
            Phase::Waiting | Phase::RetryLater | Phase::Ended(_) => {}
        }
    }

    fn recover_steps(&mut self) {
        let steps: Vec<(StepKey, Work)> = self.state.steps.iter().map(|(k, s)| (k.clone(), s.work.clone())).collect();
        for (key, work) in steps {
            match work {
                Work::Evaluating if !self.state.paused => self.act(Action::Evaluate(key)),
                Work::Sending(sending) => self.recover_effect(&key, sending),
                // Ops and child admissions commit with their results; an open one was never sent.
                Work::Op | Work::Child { run: None, .. } => self.act(Action::Op(key)),
                Work::Evaluating
                | Work::Group(_)
                | Work::Backoff { .. }
                | Work::OpFailed { .. }
                | Work::Sleeping { .. }
                | Work::Child { .. }
                | Work::Doubtful(_)
                | Work::Failed => {}
            }
        }
        self.go_on();
    }

    /// The process died between the intent and the outcome.
    fn recover_effect(&mut self, key: &StepKey, sending: Sending) {
        if self.repeatable(key, &sending) && !self.state.cancelling {
            return self.send(key, sending, None);
        }
        let failure = Failure::new("crashed", "the process stopped after the request may have left and before its answer was recorded");
        if !Self::leaves_doubt(sending.class) {
            return self.end_step(key, StepOutcome::Cancelled, None, Some(failure));
        }
        match self.flow.task(key.task_id()).map_or(OnDoubt::Hold, |t| t.effect.on_doubt) {
            OnDoubt::Fail => self.attempt_failed(key, failure, true, false),
            OnDoubt::Hold | OnDoubt::Repeat => {
                self.emit(Event::DoubtRaised { step: key.clone(), failure });
                if self.state.cancelling {
                    self.end_step(key, StepOutcome::Cancelled, None, None);
                }
            }
        }
    }
}
