//! What can be asked again: see [`crate::run::Wish`]. A refusal changes nothing and says why.

use super::{Machine, NotPossible, refuse};
use crate::ids::RunId;
use crate::ir::ErrandKind;
use crate::run::conclusion::Conclusion;
use crate::run::errand::{ErrandTerms, Said, Seen};
use crate::run::event::{Action, By, EndStatus, Event, Failure, Payload, Stage, StepOutcome};
use crate::run::state::{Phase, Work};
use crate::run::step::StepKey;
use crate::run::wish::{Asked, MESSAGES_FULL, MESSAGES_MAX, REPEAT_MS, Redo, Told, Upgrade, Wish};

impl Machine<'_> {
    pub(super) fn wish(&mut self, wish: Wish, by: By) -> Result<(), NotPossible> {
        if self.is_granted(&wish) {
            return Ok(());
        }
        match wish {
            Wish::Pause => self.pause(by),
            Wish::Resume => self.resume(by),
            Wish::Terminate { failure } => self.terminate(by, failure),
            Wish::Retry { anew } => self.retry(by, anew),
            Wish::Redo(redo) => self.redo(by, *redo),
            Wish::Skip { task, input, output } => self.skip(by, task, input, output),
            Wish::Tell { variables, errand } => self.tell(by, variables, errand.map(|told| *told)),
            Wish::Leave { message, output } => self.leave(by, message, output),
            Wish::Append { variables } => self.append(by, variables),
            Wish::Jump { task, input } => self.jump(by, &task, input),
            Wish::Upgrade(upgrade) => self.upgrade(by, *upgrade),
        }
    }

    /// The wish has come true already.
    fn is_granted(&self, wish: &Wish) -> bool {
        let last = self.state.asked.as_ref().filter(|asked| self.now.since(asked.at) < REPEAT_MS);
        let last = last.filter(|_| !self.state.is_ended()).map(|asked| &asked.what);
        match (wish, last) {
            (Wish::Pause, _) => self.state.paused && !self.state.is_ended(),
            (Wish::Terminate { .. }, _) => {
                // A failure that ended the run has cancelled what ran beside it, which is over.
                let is_ending = self.state.cancelling && !self.state.is_ended();
                is_ending || self.state.phase == Phase::Ended(EndStatus::Cancelled)
            }
            (Wish::Skip { task, .. }, _) => self.state.skips.contains(task) && !self.state.is_ended(),
            (Wish::Resume, Some(Asked::Resume)) | (Wish::Retry { .. }, Some(Asked::Retry)) => !self.state.paused,
            (Wish::Redo(redo), Some(Asked::Redo(step))) => redo.back.as_ref().map(|back| &back.step) == step.as_ref(),
            (Wish::Jump { task, .. }, Some(Asked::Jump(place))) => {
                self.flow.flow.tasks.get(*place as usize).is_some_and(|found| found.id == *task)
            }
            // In a later round of a loop it is another step.
            (Wish::Jump { task, .. }, Some(Asked::JumpInside(step))) => {
                step.task_id() == task && self.place_of(task).map_or(true, |(list, _)| list.child(task) == *step)
            }
            (Wish::Upgrade(upgrade), Some(Asked::Upgrade(flow, revision))) => {
                upgrade.flow == *flow && upgrade.revision == *revision
            }
            (
                Wish::Resume
                | Wish::Retry { .. }
                | Wish::Redo(_)
                | Wish::Tell { .. }
                | Wish::Leave { .. }
                | Wish::Append { .. }
                | Wish::Jump { .. }
                | Wish::Upgrade(_),
                _,
            ) => false,
        }
    }

    fn terminate(&mut self, by: By, failure: Failure) -> Result<(), NotPossible> {
        match self.state.phase {
            Phase::Ended(EndStatus::Completed) => refuse("the run completed; there is nothing left to end"),
            Phase::Ended(_) if self.state.open_doubts() > 0 => {
                refuse("an effect is in doubt; give a verdict first (semel run verdict)")
            }
            Phase::Ended(_) => {
                let (status, warned) = (EndStatus::Cancelled, self.state.warned);
                self.emit(Event::StatusChanged { status, warned, conclusion: None, by, failure: Some(failure) });
                Ok(())
            }
            Phase::Waiting | Phase::Open | Phase::Finishing | Phase::RetryLater => {
                self.stop(by, EndStatus::Cancelled, failure);
                Ok(())
            }
        }
    }

    fn retry(&mut self, by: By, anew: bool) -> Result<(), NotPossible> {
        self.may_restart()?;
        self.reopen_with(by, anew, None, None);
        self.watch_slas();
        Ok(())
    }

    fn redo(&mut self, by: By, redo: Redo) -> Result<(), NotPossible> {
        let Redo { back, flow, inputs, correlation_id } = redo;
        self.may_replay()?;
        let completed = self.state.phase == Phase::Ended(EndStatus::Completed);
        let restartable = self.flow.flow.conductor.as_ref().is_none_or(|own| own.restartable);
        if back.is_none() && completed && !restartable {
            return refuse("the workflow is not restartable once it has completed");
        }
        if let Some((flow, revision)) = flow {
            self.emit(Event::FlowChanged { by: by.clone(), flow, revision, at: self.now, places: vec![] });
        }
        if inputs.is_some() || correlation_id.is_some() {
            self.emit(Event::InputsGiven { by: by.clone(), inputs, correlation_id });
        }
        match back {
            None => self.replay(by, None)?,
            Some(back) => {
                let done: Vec<StepKey> = self.settled_steps(crate::run::VerdictKind::Done).collect();
                let first = |key: &StepKey| {
                    self.flow.flow.tasks.iter().position(|task| back.step.is_under(&key.child(&task.id)))
                };
                let from = first(&StepKey::root()).unwrap_or(0) as u32;
                let step = back.step.clone();
                let take = self.state.take + 1;
                self.emit(Event::Replayed { by, take, from, at: self.now, back: Some(Box::new(back)) });
                for key in done.into_iter().filter(|key| self.state.steps.contains_key(key)).collect::<Vec<_>>() {
                    self.end_step(&key, StepOutcome::Success, None, None);
                }
                for key in self.state.evaluated_steps() {
                    self.act(Action::Evaluate(key));
                }
                if let Some(parent) = step.parent() {
                    self.start_step(&parent, step);
                }
                self.touch_all_groups();
            }
        }
        self.watch_slas();
        Ok(())
    }

    fn skip(
        &mut self,
        by: By,
        task: String,
        input: Option<Payload>,
        output: Option<Payload>,
    ) -> Result<(), NotPossible> {
        if self.state.phase != Phase::Open || self.state.paused || self.state.is_stopping() {
            return refuse(format!("the run is not running, so `{task}` cannot be skipped"));
        }
        if self.flow.task(&task).is_none() {
            return refuse(format!("`{task}` is not a task of this flow"));
        }
        if self.state.steps.keys().any(|key| key.task_id() == task && key.iteration_number().is_none()) {
            return refuse(format!("`{task}` has begun already; only a task that was not reached can be skipped"));
        }
        self.emit(Event::SkipAsked { by, task, input, output });
        Ok(())
    }

    fn tell(&mut self, by: By, variables: Option<Payload>, errand: Option<Told>) -> Result<(), NotPossible> {
        if self.state.is_ended() {
            return refuse("the run has ended; its variables stay as they are");
        }
        if let Some(told) = &errand {
            self.is_awaited(&told.step, told.attempt)?;
        }
        if let Some(variables) = variables {
            self.emit(Event::VariablesSet { variables, by: Some(by), append: false });
        }
        match errand {
            Some(Told { step, attempt, said, seen }) => self.errand_said(&step, attempt, said, seen),
            None => Ok(()),
        }
    }

    /// A step waits for a message only where none is there, so this one is the first.
    fn leave(&mut self, by: By, message: Payload, output: Payload) -> Result<(), NotPossible> {
        if self.state.is_ended() || self.state.paused {
            return refuse("the run is not RUNNING: nobody would pull the message");
        }
        if self.state.messages_left - self.state.messages_taken >= MESSAGES_MAX {
            return refuse(MESSAGES_FULL);
        }
        let waits = |(_, _, terms): &(&StepKey, u32, &ErrandTerms)| terms.kind == ErrandKind::Messages;
        let waiting = self.state.errands().find(waits).map(|(step, attempt, _)| (step.clone(), attempt));
        self.emit(Event::MessageLeft { message, by });
        let Some((step, attempt)) = waiting else { return Ok(()) };
        self.emit(Event::MessagesTaken { step: step.clone(), count: 1 });
        self.errand_said(&step, attempt, Said::Done { output }, Seen::default())
    }

    fn append(&mut self, by: By, variables: Payload) -> Result<(), NotPossible> {
        if self.state.is_ended() {
            return refuse("the run has ended; its variables stay as they are");
        }
        self.emit(Event::VariablesSet { variables, by: Some(by), append: true });
        Ok(())
    }

    /// What is under way in the list is skipped; what runs beside the list goes on. What was sent must have settled:
    /// nobody would hear of its answer.
    fn jump(&mut self, by: By, task: &str, input: Option<Payload>) -> Result<(), NotPossible> {
        if self.state.phase != Phase::Open || self.state.is_stopping() || self.state.concluded.is_some() {
            return refuse(format!("the run is not running, so it cannot go on from `{task}`"));
        }
        let (list, to) = self.place_of(task)?;
        let inside = |key: &StepKey| key.is_under(&list) && *key != list;
        let in_the_air = |work: &Work| matches!(work, Work::Sending(_) | Work::Op | Work::Child { run: None, .. });
        let awaited = self.state.steps.iter().any(|(key, step)| inside(key) && in_the_air(&step.work));
        if awaited || self.state.open_doubts() > 0 {
            return refuse("something was sent and its answer is awaited; try again when it is there");
        }
        let goes_on = |key: &StepKey| {
            let group = self.state.group(key);
            group.is_none_or(|group| group.stage == Stage::Body && !group.failed)
        };
        if !std::iter::successors(Some(list.clone()), StepKey::parent).all(|key| goes_on(&key)) {
            return refuse("the run has failed and is about to end; retry it instead");
        }
        // Going back is to ask for finished steps again.
        let reached = self.state.group(&list).map_or(0, |group| group.next);
        let take = self.state.take + u32::from(to < reached);
        let under = self.state.steps.iter().filter(|(key, _)| inside(key));
        let children: Vec<RunId> = under
            .filter_map(|(_, step)| match step.work {
                Work::Child { run: Some(run), .. } => Some(run),
                _ => None,
            })
            .collect();
        for run in children {
            self.act(Action::CancelChild { run, by: by.clone() });
        }
        let under_way: Vec<StepKey> =
            self.state.steps.keys().filter(|key| key.parent().as_ref() == Some(&list)).cloned().collect();
        let step = (!list.is_root()).then(|| list.child(task));
        self.emit(Event::Jumped { by, take, to, step, at: self.now, input });
        for key in under_way {
            self.clear_timers(|timer| timer.step.is_under(&key) && !timer.step.is_root());
            self.end_step(&key, StepOutcome::Skipped, None, None);
        }
        self.touched.push_back(list);
        Ok(())
    }

    /// The list that a task stands in, and its place there: the outermost, or one that is under way and does its tasks in
    /// their order. Of a loop that is its round, of a fork one of its branches.
    fn place_of(&self, task: &str) -> Result<(StepKey, u32), NotPossible> {
        if let Some(to) = self.flow.flow.tasks.iter().position(|found| found.id == task) {
            return Ok((StepKey::root(), to as u32));
        }
        if self.flow.task(task).is_none() {
            return refuse(format!("`{task}` is not a task of this flow"));
        }
        let open = self.state.steps.iter().filter_map(|(key, step)| {
            let Work::Group(group) = &step.work else { return None };
            let ordered = group.concurrent == 1 && group.count.is_none() && group.needs.is_none();
            let children = self.flow.children(key, &group.list, Stage::Body);
            let to = children.iter().position(|found| found.id == task).filter(|_| ordered && !key.is_root())?;
            Some((key.clone(), to as u32))
        });
        let found: Vec<(StepKey, u32)> = open.collect();
        match &found[..] {
            [one] => Ok(one.clone()),
            [] => refuse(format!(
                "the list that `{task}` stands in is not under way, or does its tasks at the same time; a run goes on \
                 from a task of the outermost list or of one that is under way"
            )),
            _ => refuse(format!("`{task}` is under way several times; nothing says which one is meant")),
        }
    }

    /// All that is open must have its place in the new definition, which is the one the machine was given.
    fn upgrade(&mut self, by: By, upgrade: Upgrade) -> Result<(), NotPossible> {
        if self.state.phase != Phase::Open || self.state.is_stopping() || self.state.concluded.is_some() {
            return refuse("the run is not running; only one that is can go on by another definition");
        }
        let root = StepKey::root();
        if !self.state.steps.keys().any(|key| key.parent().as_ref() == Some(&root)) {
            return refuse("nothing of the run is under way; resume it, then have it go on by another definition");
        }
        let places = self.places(self.state, &upgrade.was)?;
        if upgrade.inputs.is_some() {
            self.emit(Event::InputsGiven { by: by.clone(), inputs: upgrade.inputs, correlation_id: None });
        }
        for (task, output) in upgrade.missed {
            let step = StepKey::root().child(&task);
            let (take, at) = (self.state.take, self.now);
            self.emit(Event::StepStarted { step: step.clone(), take, round: 0, at });
            self.end_step(&step, StepOutcome::Skipped, output, None);
        }
        let (flow, revision) = (upgrade.flow, upgrade.revision);
        self.emit(Event::FlowChanged { by, flow, revision, at: self.now, places });
        self.touch_all_groups();
        Ok(())
    }

    /// A sub-run that failed this run goes on: so does this one, and waits for it.
    pub(super) fn child_reopened(&mut self, run: RunId, by: By) {
        let ended = matches!(self.state.phase, Phase::Ended(EndStatus::Failed | EndStatus::Cancelled));
        if !ended || self.state.open_doubts() > 0 || self.state.conclusion == Some(Conclusion::Retried) {
            return;
        }
        let failed =
            self.state.failed_children.iter().find(|(key, child)| **child == run && self.state.steps.contains_key(key));
        if let Some((step, run)) = failed.map(|(step, run)| (step.clone(), *run)) {
            self.reopen_with(by, false, Some((step, run)), None);
            self.watch_slas();
        }
    }
}
