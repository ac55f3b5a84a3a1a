//! Words that events add about the tasks of a run, for searches over tasks.
//!
//! The story of a run is what judges; a word only says where to look. So there is a word for everything that a story
//! may show of a task by its id, its names, its type or its troubles, and rather one too many than one too few.

use super::story::shown_name;
use crate::flows::LoadedFlow;
use crate::memory::Memory;
use semel_core::ir::ErrandKind;
use semel_core::ir::{ConductorTask, Task, TaskKind, companion};
use semel_core::run::{
    ErrandEnd, ErrandTerms, Event, RunState, StepKey, StepOutcome, TimerWhy, errand_id, task_status,
};
use semel_expr::Value;
use semel_store::{TaskWord, WordOf};
use std::collections::BTreeSet;

/// How an attempt ends that has not simply completed or been withdrawn.
pub const TROUBLES: [&str; 5] =
    ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT", "COMPLETED_WITH_ERRORS", "SKIPPED"];

/// Call before the memory has folded the event: it forgets loops that end.
pub(crate) fn words_of(
    event: &Event,
    flow: &LoadedFlow,
    state: &RunState,
    memory: &Memory,
    out: &mut BTreeSet<TaskWord>,
) {
    let mut teller = Teller { flow, state, memory, out };
    match event {
        Event::StepStarted { step, .. }
        | Event::Branched { step, .. }
        | Event::LoopStarted { step, .. }
        | Event::ChildStarted { step, .. }
        | Event::GroupAnswered { step, .. } => teller.met(step),
        Event::Intent { step, attempt, .. } => teller.attempt(step, *attempt),
        Event::AttemptFailed { step, attempt, failure, .. } => {
            teller.attempt(step, *attempt);
            teller.trouble(step, task_status(StepOutcome::Failed, false, Some(&failure.code)));
        }
        // The next attempt is shown while it waits.
        Event::TimerSet { step, why: TimerWhy::Backoff, .. } => {
            let attempt = memory.notes.attempt_of(step) + 1;
            teller.attempt(step, attempt);
        }
        Event::ErrandSet { step, attempt, terms, .. } => {
            teller.attempt(step, *attempt);
            if let Some(terms) = terms {
                teller.handed_out(terms);
            }
        }
        Event::ErrandAnswered { step, attempt, end, .. } => {
            teller.attempt(step, *attempt);
            match end {
                ErrandEnd::Failed => teller.trouble(step, "FAILED"),
                ErrandEnd::FailedForGood => teller.trouble(step, "FAILED_WITH_TERMINAL_ERROR"),
                ErrandEnd::TimedOut => teller.trouble(step, "TIMED_OUT"),
                ErrandEnd::Done | ErrandEnd::Withdrawn => {}
            }
        }
        Event::StepEnded { step, outcome, tolerated, failure, .. } if step.iteration_number().is_none() => {
            teller.met(step);
            let code = failure.as_ref().map(|failure| failure.code.as_str());
            teller.trouble(step, task_status(*outcome, *tolerated, code));
        }
        // What is tried again because somebody asked gets ids that count on from what was shown before.
        Event::Restarted { .. } | Event::Replayed { .. } | Event::Jumped { .. } => teller.say(WordOf::UntoldId, ""),
        _ => {}
    }
}

struct Teller<'a> {
    flow: &'a LoadedFlow,
    state: &'a RunState,
    memory: &'a Memory,
    out: &'a mut BTreeSet<TaskWord>,
}

impl Teller<'_> {
    fn say(&mut self, of: WordOf, text: &str) {
        self.out.insert(TaskWord { of, text: text.to_owned() });
    }

    fn id(&mut self, step: &StepKey, attempt: u32) {
        let id = errand_id(self.state.step_id(step), attempt);
        self.say(WordOf::Id, &id.hex());
    }

    /// The step is there, with its first attempt.
    fn met(&mut self, step: &StepKey) {
        self.attempt(step, 1);
    }

    fn attempt(&mut self, step: &StepKey, attempt: u32) {
        let flow = self.flow;
        let Some(task) = flow.index.task(step.task_id()).filter(|_| step.iteration_number().is_none()) else { return };
        let Some(own) = task.conductor.as_deref() else { return };
        self.id(step, attempt);
        self.names(task, own, step);
        if task.type_name.starts_with("conductor.FORK_JOIN") {
            self.joins(step, matches!(task.kind, TaskKind::Dag { .. }));
        }
    }

    fn names(&mut self, task: &Task, own: &ConductorTask, step: &StepKey) {
        let reference = self.text(&own.reference, step);
        let name = self.text(shown_name(task, own), step);
        let kind = match task.type_name.strip_prefix("conductor.").unwrap_or(&task.type_name) {
            "SIMPLE" | "DYNAMIC" => name.clone(),
            "FORK_JOIN" | "FORK_JOIN_DYNAMIC" => Some("FORK".to_owned()),
            word => Some(word.to_owned()),
        };
        for (of, text) in [(WordOf::Reference, reference), (WordOf::Name, name), (WordOf::Kind, kind)] {
            match text {
                Some(text) => self.say(of, &text),
                None => self.say(WordOf::Untold, ""),
            }
        }
    }

    /// A JOIN is shown from the moment its fork begins. Which one belongs to the fork does not matter here.
    fn joins(&mut self, fork: &StepKey, is_partial: bool) {
        let flow = self.flow;
        for join in flow.index.tasks().filter(|task| task.type_name.ends_with("JOIN") && task.conductor.is_some()) {
            let key = match (is_partial, fork.parent()) {
                (true, _) => fork.child(&companion(fork.task_id(), "rest")).child(&join.id),
                (false, Some(parent)) => parent.child(&join.id),
                (false, None) => continue,
            };
            self.id(&key, 1);
            if let Some(own) = join.conductor.as_deref() {
                self.names(join, own, &key);
            }
        }
    }

    /// A task for workers is shown by the name it was handed out under.
    fn handed_out(&mut self, terms: &ErrandTerms) {
        if terms.kind == ErrandKind::Simple {
            self.say(WordOf::Name, &terms.queue);
            self.say(WordOf::Kind, &terms.queue);
        }
    }

    fn trouble(&mut self, step: &StepKey, status: &str) {
        let is_shown = self.flow.index.task(step.task_id()).is_some_and(|task| task.conductor.is_some());
        if is_shown && TROUBLES.contains(&status) {
            self.say(WordOf::Trouble, status);
        }
    }

    /// A text of the definition as it is shown, unless it is only known by computing it.
    fn text(&self, template: &str, step: &StepKey) -> Option<String> {
        if !template.contains('$') {
            return Some(template.to_owned());
        }
        let field = template.strip_prefix("${~item.")?.strip_suffix('}')?;
        let (around, n) = step.iterations().pop()?;
        match self.memory.loops.get(&around)?.get(n as usize)?.get(field)? {
            Value::Null => None,
            value => Some(value.to_text()),
        }
    }
}
