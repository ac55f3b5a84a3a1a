//! Every run as its journal tells it, checked against what its flow says must happen. Written
//! from the flow reference: it shares no code with the machine that wrote the journal.

mod kinds;
mod words;

use super::super::flows::{Ask, Class, Flow, Kind, Task};
use super::Finding;
use semel_core::ir::OnTime;
use semel_core::run::{EndStatus, Event, ListName, Payload, Stage, StepOutcome, TimerWhy, VerdictKind};
use semel_core::{Millis, RunId};
use semel_store::RunRow;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use words::{is_iteration, join, may_follow_an_end, may_happen_while_held, name, parent, task_id, wait_of};

/// One event with the time and number of its row.
pub struct Entry {
    pub seq: u64,
    pub at: Millis,
    pub event: Event,
}

pub struct Journal<'a> {
    pub row: &'a RunRow,
    pub flow: &'a Flow,
    pub entries: Vec<Entry>,
    pub inputs: Json,
    /// How often a twin had it go on.
    pub resumed: usize,
}

/// What is open in a run.
struct Open {
    ended: bool,
    attempt: u32,
    first_at: Millis,
    last_failed: Option<(u64, u32)>,
    intents: u32,
}

struct Walk<'a> {
    journal: &'a Journal<'a>,
    findings: Vec<Finding>,
    /// Steps of the present take and round.
    steps: BTreeMap<String, Open>,
    outcomes: BTreeMap<String, StepOutcome>,
    lists: BTreeMap<String, ListName>,
    counts: BTreeMap<String, u32>,
    stages: BTreeMap<String, Stage>,
    timers: BTreeMap<u64, (Millis, TimerWhy, String)>,
    /// How the sub-run of a step ended.
    children: BTreeMap<String, EndStatus>,
    /// How steps at which the run stood still went on.
    resumed_steps: BTreeMap<String, OnTime>,
    /// The flow has ended its run.
    exited: bool,
    fired: BTreeSet<u64>,
    take: u32,
    ended: Option<EndStatus>,
    cancelling: bool,
    paused: bool,
    /// A person or a retry asked for failed steps again: order then no longer tells.
    reopened: bool,
    out_keys: BTreeMap<(String, u32, u32, u32), String>,
    new_keys: BTreeMap<String, u32>,
    place: BTreeMap<String, (u32, u32)>,
    last_at: Millis,
    /// How often it went on for a twin.
    resumed: usize,
    /// A restore holds it.
    restored: bool,
    /// Timers that its release may set again.
    set_again: BTreeSet<u64>,
    /// The row at hand, and when the one before it was written.
    seq: u64,
    before: Millis,
}

/// Checks one run; the findings say which promise is broken.
pub fn check(journal: &Journal<'_>) -> Vec<Finding> {
    let mut walk = Walk {
        journal,
        findings: vec![],
        steps: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        lists: BTreeMap::new(),
        counts: BTreeMap::new(),
        stages: BTreeMap::new(),
        timers: BTreeMap::new(),
        children: BTreeMap::new(),
        resumed_steps: BTreeMap::new(),
        exited: false,
        fired: BTreeSet::new(),
        take: 0,
        ended: None,
        cancelling: false,
        paused: false,
        reopened: false,
        out_keys: BTreeMap::new(),
        new_keys: BTreeMap::new(),
        place: BTreeMap::new(),
        last_at: Millis(0),
        resumed: 0,
        restored: false,
        set_again: BTreeSet::new(),
        seq: 0,
        before: Millis(0),
    };
    for entry in &journal.entries {
        walk.step(entry);
    }
    walk.finish();
    walk.findings
}

impl Walk<'_> {
    fn broken(&mut self, id: &'static str, text: String) {
        let row = self.journal.row;
        self.findings.push(Finding { id, text: format!("run {} of {}: {text}", row.id, row.flow) });
    }

    fn task(&self, step: &str) -> Option<Task> {
        self.journal.flow.task(task_id(step)).cloned()
    }

    fn step(&mut self, entry: &Entry) {
        let at = entry.at;
        if at < self.last_at {
            self.broken("R8", format!("row {} is older than the one before", entry.seq));
        }
        if entry.seq != self.seq {
            (self.seq, self.before) = (entry.seq, self.last_at);
        }
        self.last_at = at;
        if let (Event::CancelRequested { .. }, true) = (&entry.event, self.resumed < self.journal.resumed) {
            // It was to go on for a twin, and was replaced before its driver could write that.
            self.ended = None;
        }
        if let (Some(status), false) = (self.ended, may_follow_an_end(&entry.event)) {
            self.broken("R5", format!("{:?} after the run had ended {status:?}", name(&entry.event)));
        }
        if self.restored && !may_happen_while_held(&entry.event) {
            self.broken("R5", format!("{:?} while a restore held the run", name(&entry.event)));
        }
        match &entry.event {
            Event::Restored { .. } => self.restored = true,
            Event::Released { .. } => {
                self.restored = false;
                self.set_again = self.timers.keys().copied().collect();
            }
            Event::Created { revision, .. } if *revision != self.journal.row.revision => {
                self.broken("R10", "the journal and the head name different revisions".into());
            }
            Event::Started { .. } => {}
            Event::StepStarted { step, take, round, at } => self.started(&step.0, *take, *round, *at),
            Event::Branched { step, list, .. } => self.branched(&step.0, list),
            Event::LoopStarted { step, count, items, .. } => self.looped(&step.0, *count, items),
            Event::GroupStage { step, stage } => self.staged(&step.0, *stage),
            Event::ChildStarted { step, .. } => {
                // The attempts of a step that starts a sub-run are those to have it admitted.
                if let Some(open) = self.steps.get_mut(&step.0) {
                    open.last_failed = None;
                }
            }
            Event::ChildEnded { step, status, .. } => {
                self.children.insert(step.0.clone(), *status);
            }
            Event::TimerSet { timer, due, why, step } => {
                let again = self.set_again.remove(timer);
                if *why != TimerWhy::Quiet && self.timers.contains_key(timer) && !again {
                    self.broken("R8", format!("timer {timer} was set twice"));
                }
                self.timers.insert(*timer, (*due, *why, step.0.clone()));
                self.timer_set(&entry.event, at);
            }
            Event::TimerCleared { timer } => {
                self.timers.remove(timer);
            }
            Event::TimerFired { timer } => match self.timers.remove(timer) {
                Some((_, why, step)) if why != TimerWhy::FlowRetry && self.outcomes.contains_key(&step) => {
                    self.broken("R8", format!("timer {timer} fired for step {step}, which had ended"));
                }
                Some((due, _, _)) if due > at => {
                    self.broken("R8", format!("timer {timer} fired {} ms early", due.since(at)));
                }
                Some((_, TimerWhy::Quiet, _)) => {}
                Some((_, TimerWhy::Interval, step)) => *self.counts.entry(step).or_insert(0) += 1,
                Some(_) if !self.fired.insert(*timer) => self.broken("R8", format!("timer {timer} fired twice")),
                Some(_) => {}
                None => self.broken("R8", format!("timer {timer} fired and was not set")),
            },
            Event::Intent { step, attempt, class, out_key, safe_until, .. } => {
                let class = format!("{class:?}").to_lowercase();
                self.intent(&step.0, *attempt, &class, out_key, *safe_until, at);
            }
            Event::AttemptFailed { step, attempt, doubt, .. } => self.attempt_failed(&step.0, *attempt, *doubt),
            Event::StepEnded { step, outcome, output, .. } => self.step_ended(&step.0, *outcome, output.as_ref()),
            Event::OpDone { step, ok: true, .. } => self.step_ended(&step.0, StepOutcome::Success, None),
            Event::Verdict { step, verdict, .. } => {
                if *verdict == VerdictKind::RepeatNewKey {
                    *self.new_keys.entry(step.0.clone()).or_insert(0) += 1;
                }
                // What a person calls done has not failed. One that is to be sent again has: it begins anew when the
                // run does.
                if *verdict == VerdictKind::Done && !self.tolerated(&step.0) {
                    self.outcomes.remove(&step.0);
                }
            }
            Event::StepPaused { step, late, .. } => self.stands_still(&step.0, *late),
            Event::StepResumed { step, how, by, .. } => self.goes_on(&step.0, *how, by.is_some()),
            // As after a cancel nothing begins any more; what was begun settles.
            Event::Exited { step, .. } => {
                if !matches!(self.task(&step.0).map(|task| task.kind), Some(Kind::Exit(_))) {
                    self.broken("R10", format!("step {step} ended the run, and is not there for that"));
                }
                (self.cancelling, self.exited) = (true, true);
            }
            Event::Paused { .. } => self.paused = true,
            Event::Resumed { .. } => self.paused = false,
            Event::CancelRequested { .. } => {
                self.cancelling = true;
                self.paused = false;
            }
            Event::Restarted { by, .. } => {
                self.resumed += usize::from(by.who.starts_with("twin "));
                self.reopen();
            }
            Event::Replayed { take, .. } => {
                self.reopen();
                self.take = *take;
                self.steps.clear();
                self.outcomes.clear();
                self.stages.clear();
                self.lists.clear();
                self.counts.clear();
            }
            Event::Ended { status, .. } => {
                self.timers.clear();
                // What ended is not paused: to have it go on is to have it go on.
                self.paused = false;
                self.run_ended(*status);
            }
            _ => {}
        }
    }

    fn reopen(&mut self) {
        self.ended = None;
        (self.cancelling, self.exited) = (false, false);
        self.reopened = true;
        self.timers.clear();
        self.stages.clear();
        // Failed and open steps begin again; those that ended well stay.
        let well = |outcome: &StepOutcome| {
            matches!(outcome, StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped)
        };
        let tolerated: BTreeSet<String> = self.steps.keys().filter(|k| self.tolerated(k)).cloned().collect();
        let failed = |outcome: &StepOutcome| *outcome == StepOutcome::Failed;
        self.outcomes.retain(|step, outcome| well(outcome) || (failed(outcome) && tolerated.contains(step)));
        // Handlers run anew.
        let handlers = self.journal.flow.handler_tasks();
        let in_handler = |step: &str| step.split('/').any(|part| handlers.contains(task_id(part)));
        self.outcomes.retain(|step, _| !in_handler(step));
        self.steps.retain(|step, _| !in_handler(step));
        let stays = |key: &String| self.outcomes.contains_key(key);
        let again: Vec<String> = self.steps.keys().filter(|key| !stays(key)).cloned().collect();
        for key in again {
            let Some(step) = self.steps.get_mut(&key) else { continue };
            *step =
                Open { ended: false, attempt: 1, first_at: step.first_at, last_failed: None, intents: step.intents };
        }
    }

    fn started(&mut self, step: &str, take: u32, round: u32, at: Millis) {
        if self.paused {
            self.broken("R5", format!("step {step} started while the run was paused"));
        }
        if self.cancelling {
            self.broken("I12", format!("step {step} started while the run was being cancelled"));
        }
        if take != self.take {
            self.broken("I13", format!("step {step} started in take {take}, the run is in {}", self.take));
        }
        self.place.insert(step.to_owned(), (take, round));
        let group = parent(step).unwrap_or_default();
        if self.outcomes.contains_key(step) && self.stages.get(&group).is_none_or(|s| *s == Stage::Body) {
            self.broken("R5", format!("step {step} started again after it had ended"));
        }
        let open = self.open_in(&group);
        let width = self.width_of(&group);
        if width > 0 && open >= width as usize {
            self.broken("R5", format!("step {step} started beside {open} others, {width} may run at once"));
        }
        if !is_iteration(step) {
            let list = self.list_of(&group);
            let Some(position) = list.iter().position(|task| task.id == task_id(step)) else {
                return self.broken("R10", format!("step {step} is not part of the list its group runs"));
            };
            // One after the other: those before have ended well.
            let by_needs = self.depends_in(&group, step);
            if !by_needs && width == 1 && !self.reopened {
                for before in &list[..position] {
                    let key = join(&group, &before.id);
                    let handler = self.stages.get(&group).is_some_and(|s| *s != Stage::Body);
                    match self.outcomes.get(&key) {
                        Some(StepOutcome::Cancelled) | None => {
                            self.broken("R5", format!("step {step} started before {key} had ended"));
                        }
                        Some(StepOutcome::Failed) if !before.allow_failure && !handler => {
                            self.broken("R5", format!("step {step} started after {key} had failed"));
                        }
                        Some(_) => {}
                    }
                }
            }
        } else if let Some(n) = step.rsplit('[').next().and_then(|n| n.trim_end_matches(']').parse::<u32>().ok())
            && n >= self.counts.get(&group).copied().unwrap_or(0)
        {
            self.broken("R5", format!("iteration {step} of a loop of {:?}", self.counts.get(&group)));
        }
        let known = Open { ended: false, attempt: 1, first_at: at, last_failed: None, intents: 0 };
        self.steps.insert(step.to_owned(), known);
    }

    fn open_in(&self, group: &str) -> usize {
        self.steps.iter().filter(|(key, open)| !open.ended && parent(key).as_deref() == Some(group)).count()
    }

    fn branched(&mut self, step: &str, list: &ListName) {
        self.lists.insert(step.to_owned(), list.clone());
        let Some(task) = self.task(step) else { return };
        let inputs = &self.journal.inputs;
        let right = match &task.kind {
            Kind::If { ask, .. } => *list == if ask.answer(inputs) { ListName::Then } else { ListName::Else },
            Kind::Switch { cases, .. } => {
                let kind = inputs["kind"].as_str().unwrap_or_default();
                match cases.iter().any(|(case, _)| *case == kind) {
                    true => *list == ListName::Case(kind.to_owned()),
                    false => *list == ListName::Defaults,
                }
            }
            _ => *list == ListName::Tasks,
        };
        if !right {
            self.broken("R10", format!("step {step} went by {list:?} with inputs {inputs}"));
        }
    }

    fn looped(&mut self, step: &str, count: u32, items: &Payload) {
        self.counts.insert(step.to_owned(), count);
        self.looped_so(step, count);
        if let Some(Kind::ForEach { items: wanted, .. }) = self.task(step).map(|t| t.kind)
            && (count as usize != wanted.len() || (items.value.is_some() && *items.json() != serde_json::json!(wanted)))
        {
            self.broken("R10", format!("loop {step} has {count} items, its flow names {}", wanted.len()));
        }
    }

    fn staged(&mut self, step: &str, stage: Stage) {
        if self.open_in(step) > 0 {
            self.broken("R5", format!("group {step:?} goes to {stage:?} with steps open"));
        }
        if stage == Stage::Errors && !self.failed_in(step) {
            self.broken("R5", format!("group {step:?} handles errors and nothing failed"));
        }
        self.stages.insert(step.to_owned(), stage);
    }

    fn failed_in(&self, group: &str) -> bool {
        self.outcomes.iter().any(|(key, outcome)| {
            *outcome == StepOutcome::Failed && parent(key).as_deref() == Some(group) && !self.tolerated(key)
        })
    }

    fn tolerated(&self, key: &str) -> bool {
        match self.task(key) {
            Some(task) if is_iteration(key) => matches!(task.kind, Kind::Loop { transmit: false, .. }),
            task => task.is_some_and(|t| t.allow_failure),
        }
    }

    fn timer_set(&mut self, event: &Event, at: Millis) {
        let Event::TimerSet { due, step, why, .. } = event else { return };
        let Some(task) = self.task(&step.0) else { return };
        let waits = due.since(at);
        match (why, &task.kind) {
            (TimerWhy::Sleep, Kind::Sleep(ms)) | (TimerWhy::Pause, Kind::Pause { ms: Some(ms), .. }) => {
                let begun = self.steps.get(&step.0).map_or(at, |s| s.first_at);
                if waits > *ms || due.since(begun) < *ms {
                    self.broken("R8", format!("step {step} sleeps {waits} ms instead of {ms}"));
                }
            }
            (TimerWhy::Backoff, _) => {
                // The decision was taken after the row before and not after this one.
                let failed = self.steps.get(&step.0).and_then(|s| s.last_failed).filter(|f| f.0 == self.seq);
                if let (Some((_, attempt)), Some(retry)) = (failed, &task.retry) {
                    let (low, high) = wait_of(retry, attempt);
                    if due.since(self.before) < low || waits > high {
                        self.broken("R8", format!("retry of {step} waits {waits} ms, not {low} to {high}"));
                    }
                }
            }
            _ => {}
        }
    }

    fn intent(&mut self, step: &str, attempt: u32, class: &str, out_key: &str, safe_until: Option<Millis>, at: Millis) {
        let Some(task) = self.task(step) else { return };
        let Kind::Http(call) = &task.kind else {
            return self.broken("R6", format!("step {step} has an intent and is no effect"));
        };
        if call.class.word() != class {
            self.broken("R7", format!("step {step} is {} and its intent says {class}", call.class.word()));
        }
        if self.paused {
            self.broken("R5", format!("step {step} got an intent while the run was paused"));
        }
        if self.cancelling {
            self.broken("I12", format!("step {step} got an intent while the run was being cancelled"));
        }
        let most = task.retry.as_ref().map_or(1, |r| r.attempts);
        if attempt > most && !self.reopened && self.new_verdicts() == 0 {
            self.broken("R7", format!("step {step} is in attempt {attempt}, its flow allows {most}"));
        }
        if (call.class == Class::Keyed) != safe_until.is_some() {
            self.broken("I10", format!("step {step} is {} and safe until {safe_until:?}", call.class.word()));
        }
        if let Some(until) = safe_until
            && until.since(at) > call.window_ms.unwrap_or(86_400_000)
        {
            self.broken("I10", format!("step {step} is safe until {until:?}, longer than its window"));
        }
        let (take, round) = self.place.get(step).copied().unwrap_or((self.take, 0));
        let key = (step.to_owned(), take, round, self.new_keys.get(step).copied().unwrap_or(0));
        match self.out_keys.get(&key) {
            Some(known) if known != out_key => {
                self.broken("R7", format!("step {step} was sent with the keys {known} and {out_key}"));
            }
            Some(_) => {}
            None => {
                self.out_keys.insert(key, out_key.to_owned());
            }
        }
        match self.steps.get_mut(step) {
            Some(open) if open.ended => {
                self.broken("R5", format!("step {step} got an intent after it had ended"));
            }
            Some(open) => {
                open.intents += 1;
                open.attempt = attempt;
            }
            None => self.broken("R6", format!("step {step} got an intent and never started")),
        }
    }

    fn new_verdicts(&self) -> usize {
        let verdict = |e: &&Entry| matches!(e.event, Event::Verdict { .. });
        self.journal.entries.iter().filter(verdict).count()
    }

    fn attempt_failed(&mut self, step: &str, attempt: u32, doubt: bool) {
        if doubt
            && let Some(Kind::Http(call)) = self.task(step).map(|t| t.kind)
            && matches!(call.class, Class::Read | Class::Repeatable)
        {
            self.broken("R7", format!("step {step} is {} and left a doubt", call.class.word()));
        }
        if let Some(open) = self.steps.get_mut(step) {
            open.last_failed = Some((self.seq, attempt));
        }
    }

    fn step_ended(&mut self, step: &str, outcome: StepOutcome, output: Option<&Payload>) {
        let group = parent(step);
        if let Some(before) = self.outcomes.get(step)
            && group.as_ref().is_some_and(|g| self.stages.get(g).is_none_or(|s| *s == Stage::Body))
        {
            self.broken("R5", format!("step {step} ended {outcome:?} after it had ended {before:?}"));
        }
        if self.open_in(step) > 0 && !self.cancelling {
            self.broken("R5", format!("group {step} ended with steps open"));
        }
        let open = self.steps.entry(step.to_owned()).or_insert(Open {
            ended: false,
            attempt: 1,
            first_at: Millis(0),
            last_failed: None,
            intents: 0,
        });
        open.ended = true;
        let well = matches!(outcome, StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped);
        let (attempt, last_failed, intents) = (open.attempt, open.last_failed, open.intents);
        self.outcomes.insert(step.to_owned(), outcome);
        let Some(task) = self.task(step) else { return };
        if is_iteration(step) {
            return;
        }
        let skipped = task.run_if.is_some_and(|ask: Ask| !ask.answer(&self.journal.inputs));
        if (outcome == StepOutcome::Skipped) != skipped && well {
            self.broken("R10", format!("step {step} ended {outcome:?}, runIf says skipped: {skipped}"));
        }
        match &task.kind {
            Kind::Http(_) if outcome == StepOutcome::Success && intents == 0 && self.new_verdicts() == 0 => {
                self.broken("R6", format!("step {step} succeeded and was never sent"));
            }
            Kind::Fail(ask) if !skipped && well && ask.answer(&self.journal.inputs) => {
                self.broken("R10", format!("step {step} must fail and ended {outcome:?}"));
            }
            Kind::Return if outcome == StepOutcome::Success => {
                let wanted = format!("{} {}", task.id, self.journal.inputs["n"]);
                if let Some(output) = output.filter(|o| o.value.is_some())
                    && output.json()["value"] != Json::String(wanted.clone())
                {
                    self.broken("R10", format!("step {step} returned {}, not {wanted}", output.json()));
                }
            }
            _ => {}
        }
        self.ended_so(step, &task, outcome);
        if let (Kind::Subflow(sub), Some(status)) = (&task.kind, self.children.remove(step)) {
            let right = match status {
                // One that ended with a warning is one, where the step passes on how it ended.
                EndStatus::Completed => {
                    outcome == StepOutcome::Success || (sub.transmit && outcome == StepOutcome::Warning)
                }
                _ if self.cancelling => outcome == StepOutcome::Cancelled,
                _ if sub.transmit => outcome == StepOutcome::Failed,
                _ => outcome == StepOutcome::Success,
            };
            if !right {
                self.broken("R10", format!("the sub-run of {step} ended {status:?}, the step {outcome:?}"));
            }
        }
        // Before it gives up it uses every attempt it has.
        if outcome == StepOutcome::Failed
            && let (Some(retry), Some((_, failed))) = (&task.retry, last_failed)
            && failed < retry.attempts
            && !self.doubtful(step)
            && !self.cancelling
        {
            self.broken("R11", format!("step {step} gave up in attempt {failed} of {} ({attempt})", retry.attempts));
        }
        if task.kind.holds_tasks() && well && outcome != StepOutcome::Skipped && !self.exited {
            self.group_done(step, &task);
        }
    }

    fn doubtful(&self, step: &str) -> bool {
        self.journal.entries.iter().any(|e| match &e.event {
            Event::AttemptFailed { step: s, doubt, .. } => s.0 == step && *doubt,
            Event::DoubtRaised { step: s, .. } | Event::Verdict { step: s, .. } => s.0 == step,
            // Commits of these fail by their own kind.
            _ => false,
        })
    }

    /// A group that ended well has done all of its list, and its `finally`.
    fn group_done(&mut self, step: &str, task: &Task) {
        let mut missing = Vec::new();
        if let Kind::AllowFailure(_) = task.kind
            && self.failed_in(step)
        {
            return;
        }
        if let Kind::ForEach { .. } | Kind::Loop { .. } | Kind::LoopUntil { .. } = task.kind {
            let count = self.counts.get(step).copied().unwrap_or(0);
            missing.extend((0..count).map(|n| format!("{step}[{n}]")).filter(|k| !self.outcomes.contains_key(k)));
        } else {
            let stage = self.stages.remove(step);
            let body = self.list_of(step);
            if let Some(stage) = stage {
                self.stages.insert(step.to_owned(), stage);
            }
            missing.extend(body.iter().map(|t| join(step, &t.id)).filter(|k| !self.outcomes.contains_key(k)));
        }
        missing.extend(task.finally.iter().map(|t| join(step, &t.id)).filter(|k| !self.outcomes.contains_key(k)));
        if !missing.is_empty() && !self.reopened {
            self.broken("R11", format!("group {step} ended well without {}", missing.join(", ")));
        }
        if self.failed_in(step) && !self.reopened {
            self.broken("R5", format!("group {step} ended well, and a step of it had failed"));
        }
    }

    fn run_ended(&mut self, status: EndStatus) {
        self.ended = Some(status);
        let flow = self.journal.flow;
        let replaced = self.cancelling;
        let open: Vec<&String> = self.steps.iter().filter(|(_, s)| !s.ended).map(|(k, _)| k).collect();
        if !open.is_empty() && !replaced && !self.reopened {
            let text = format!("ended {status:?} with open steps {open:?}");
            self.broken("R5", text);
        }
        if status == EndStatus::Cancelled && !self.cancelling && self.steps.contains_key("") {
            self.broken("R9", "ended cancelled and nobody asked for it".into());
        }
        let failed = self.failed_in("");
        let begun = flow.tasks.iter().any(|t| self.steps.contains_key(&t.id));
        match status {
            EndStatus::Completed => {
                let missing: Vec<&str> =
                    flow.tasks.iter().filter(|t| !self.outcomes.contains_key(&t.id)).map(|t| t.id.as_str()).collect();
                if !missing.is_empty() && !self.reopened {
                    self.broken("R11", format!("completed without {}", missing.join(", ")));
                }
                if failed && !self.reopened {
                    self.broken("R5", "completed, and a step had failed".into());
                }
            }
            EndStatus::Failed if begun && !failed && !self.reopened && !self.exited => {
                self.broken("R5", "failed, and no step had failed".into());
            }
            EndStatus::Failed | EndStatus::Cancelled => {}
        }
        let body_failed =
            flow.tasks.iter().any(|t| !t.allow_failure && self.outcomes.get(&t.id) == Some(&StepOutcome::Failed));
        let handlers: Vec<(&Vec<Task>, bool)> = vec![(&flow.errors, body_failed), (&flow.finally, begun)];
        for (list, wanted) in handlers {
            let first = list.first().map(|t| t.id.clone());
            if let Some(first) = first
                && wanted
                && !self.cancelling
                && !self.reopened
                && !self.steps.contains_key(&first)
            {
                self.broken("R11", format!("ended {status:?} without its handler {first}"));
            }
        }
    }

    fn finish(&mut self) {
        let mut seen: BTreeMap<&String, &(String, u32, u32, u32)> = BTreeMap::new();
        let mut twice = Vec::new();
        for (place, key) in &self.out_keys {
            if let Some(other) = seen.insert(key, place)
                && other.0 != place.0
            {
                twice.push(format!("steps {} and {} share the outbound key {key}", other.0, place.0));
            }
        }
        for text in twice {
            self.broken("R7", text);
        }
        if self.ended.is_none() && !self.findings.is_empty() {
            return;
        }
        if self.ended.is_none() {
            self.broken("R11", "its journal does not end".into());
        }
    }
}

/// The run a parent's journal says it started.
pub fn children(entries: &[Entry]) -> Vec<(String, RunId)> {
    entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::ChildStarted { step, run } => Some((step.0.clone(), *run)),
            _ => None,
        })
        .collect()
}
