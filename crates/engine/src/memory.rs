//! The values of a run, folded from the journal beside its structure: what expressions can read.

use crate::conductor::Notes;
use crate::flows::LoadedFlow;
use indexmap::IndexMap;
use semel_core::ir::TaskKind;
use semel_core::run::{Back, Event, Payload, RunState, StepKey, StepOutcome, VerdictKind};
use semel_core::{Millis, RunId};
use semel_expr::Value;
use semel_store::{EffectRow, EffectState};
use serde_json::Value as Json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Entries that `errorLogs()` gives at most.
const ERRORS_MAX: usize = 100;

#[derive(Clone, Debug)]
pub struct Memory {
    /// How many attempts of a step have failed, over all restarts, and whether the last one is counted.
    pub tries: BTreeMap<StepKey, (u32, bool)>,
    /// Outputs that no expression of the flow reads are kept too: somebody may ask for any of them.
    pub keeps_all: bool,
    pub inputs: Value,
    pub trigger: Value,
    pub labels: IndexMap<String, String>,
    /// `outputs.<task>`; inside loops keyed by each enclosing loop's value.
    pub outputs: Value,
    /// `tasks.<task>.state`, inside loops keyed like the outputs; only where the flow asks for it.
    pub tasks: Value,
    /// Items of open loops.
    pub loops: BTreeMap<StepKey, Arc<Vec<Value>>>,
    /// What the tasks of open rounds gave, where rounds keep it to themselves.
    pub isolated: BTreeMap<StepKey, Value>,
    /// What the rounds of open loops showed of themselves.
    pub rounds: BTreeMap<StepKey, Rounds>,
    /// Stored requests of open effects: a repeat sends the same bytes.
    pub requests: BTreeMap<StepKey, Json>,
    /// Ledger rows of open effects.
    pub effects: BTreeMap<StepKey, EffectRow>,
    /// Payloads delivered by the lane.
    pub deliveries: Vec<Value>,
    /// The first step that failed the run, since it last began.
    pub failed_step: Option<StepKey>,
    /// `vars.*`, once a task has changed them.
    pub variables: Option<Value>,
    /// Messages that no step has taken, oldest first, and how many were taken.
    pub messages: VecDeque<Value>,
    pub messages_taken: u64,
    /// `errorLogs()`: failures of single steps since the run last began.
    pub errors: Vec<Value>,
    /// What is known of the tasks of a Conductor workflow.
    pub notes: Notes,
    /// What steps are given instead of what their author wrote, by whoever asked for them again.
    pub given: BTreeMap<StepKey, Value>,
    /// What tasks have given that are to be skipped, by id.
    pub skips: BTreeMap<String, Option<Payload>>,
    /// Roots of one expression alone, such as `response`.
    pub more: IndexMap<String, Value>,
}

/// The rounds of a loop that have ended.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// By number.
    pub outputs: BTreeMap<u32, Json>,
    /// The state in which each ended last, by Kestra's word.
    pub ended: BTreeMap<u32, &'static str>,
}

/// One loop around a step.
#[derive(Clone, Debug)]
pub struct Round {
    pub value: Value,
    pub number: u32,
    /// Of a loop over a map.
    pub key: Option<Value>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            tries: BTreeMap::new(),
            keeps_all: false,
            inputs: Value::map(IndexMap::new()),
            trigger: Value::map(IndexMap::new()),
            labels: IndexMap::new(),
            outputs: Value::map(IndexMap::new()),
            tasks: Value::map(IndexMap::new()),
            loops: BTreeMap::new(),
            isolated: BTreeMap::new(),
            rounds: BTreeMap::new(),
            requests: BTreeMap::new(),
            effects: BTreeMap::new(),
            deliveries: Vec::new(),
            failed_step: None,
            variables: None,
            messages: VecDeque::new(),
            messages_taken: 0,
            errors: Vec::new(),
            notes: Notes::default(),
            given: BTreeMap::new(),
            skips: BTreeMap::new(),
            more: IndexMap::new(),
        }
    }
}

impl Memory {
    /// Folds one event. `state` is the state after the event.
    pub fn fold(&mut self, run: RunId, event: &Event, state: &RunState, flow: &LoadedFlow, at: Millis) {
        self.note_state(event, flow);
        if flow.is_conductor() {
            self.notes.fold(event, &self.loops, flow);
        }
        match event {
            Event::Created { inputs, trigger, labels, .. } => {
                self.inputs = Value::from_stored(inputs.json());
                self.trigger = trigger_value(trigger.json());
                self.set_labels(labels.json());
            }
            Event::InputsReplaced { inputs, trigger } => {
                self.inputs = Value::from_stored(inputs.json());
                self.trigger = trigger_value(trigger.json());
            }
            Event::InputsGiven { inputs: Some(inputs), .. } => self.inputs = Value::from_stored(inputs.json()),
            Event::Delivered { payload } => self.deliveries.push(Value::from_stored(payload.json())),
            Event::MessageLeft { message, .. } => self.messages.push_back(Value::from_stored(message.json())),
            Event::MessagesTaken { count, .. } => {
                self.messages_taken += u64::from(*count);
                let gone = self.messages.len().min(*count as usize);
                self.messages.drain(..gone);
            }
            Event::LabelsSet { labels } => self.set_labels(labels.json()),
            Event::LabelsReplaced { labels, .. } => {
                self.labels.clear();
                self.set_labels(labels.json());
            }
            Event::VariablesSet { variables, append, .. } => {
                let known = self.variables.get_or_insert_with(|| flow.vars.clone());
                let given = Value::from_stored(variables.json());
                match (append, flow.is_conductor()) {
                    (true, _) => added(known, given),
                    (false, true) => replace(known, given),
                    (false, false) => merge(known, given),
                }
            }
            Event::VariablesUnset { names } => {
                let known = self.variables.get_or_insert_with(|| flow.vars.clone());
                if let Value::Map(map) = known {
                    let gone = |name: &str| names.json().as_array().is_some_and(|all| all.iter().any(|n| n == name));
                    Arc::make_mut(map).retain(|name, _| !gone(name));
                }
            }
            Event::Branched { step, output: Some(output), .. } => self.set_output(step, output.json(), flow),
            Event::LoopStarted { step, items, .. } => {
                let items = match Value::from_stored(items.json()) {
                    Value::List(items) => items,
                    _ => Arc::new(Vec::new()),
                };
                self.loops.insert(step.clone(), items);
            }
            Event::StepStarted { step, .. } => self.note_round(step, flow),
            Event::GroupAnswered { step, output: Some(output), .. } if step.iteration_number().is_some() => {
                if let (Some(parent), Some(n)) = (step.parent(), step.iteration_number()) {
                    self.rounds.entry(parent).or_default().outputs.insert(n, output.json().clone());
                }
            }
            Event::OpDone { step, output: Some(output), .. }
            | Event::GroupAnswered { step, output: Some(output), .. }
            | Event::StepResumed { step, output: Some(output), review: None, .. } => {
                self.set_output(step, output.json(), flow);
            }
            Event::StepResumed { step, output: Some(output), review: Some(_), .. } => {
                if let Some(slot) = self.output_slot(step, flow) {
                    merge(slot, Value::from_stored(output.json()));
                }
            }
            Event::ChildStarted { step, run } => {
                self.set_output(step, &started(step, *run, state, flow), flow);
            }
            Event::StepEnded { step, outcome, output, failure, tolerated, .. } => {
                self.count_try(step, *outcome == StepOutcome::Failed);
                if failure.is_some() && !tolerated {
                    self.failed_step.get_or_insert_with(|| step.clone());
                }
                if let Some(failure) = failure {
                    self.note_error(step, failure.message(), flow, at);
                }
                if let Some(output) = output {
                    self.set_output(step, output.json(), flow);
                }
                // A loop that failed may go on after a restart, and needs its items then.
                let over = match outcome {
                    StepOutcome::Success | StepOutcome::Warning | StepOutcome::Skipped => true,
                    StepOutcome::Failed => *tolerated,
                    StepOutcome::Cancelled => false,
                };
                if over {
                    self.loops.remove(step);
                    // What sub-runs gave is still asked for by the task beside theirs.
                    let asked_for = |key: &StepKey| matches!(kind_of(key, flow), Some(TaskKind::Batches(_)));
                    self.rounds.retain(|key, _| !key.is_under(step) || (key == step && asked_for(key)));
                    self.isolated.remove(step);
                }
                self.note_end_of_round(step, *outcome, output.as_ref().map(Payload::json), flow);
                if *outcome == StepOutcome::Success || *outcome == StepOutcome::Warning {
                    // A verdict may call done what had failed.
                    self.failed_step = self.failed_step.take().filter(|failed| failed != step);
                    self.mark(step, EffectState::Done, at);
                    self.requests.remove(step);
                }
            }
            Event::Intent { step, attempt, send, class, out_key, safe_until, request, .. } => {
                if let Some(request) = request {
                    self.requests.insert(step.clone(), request.json().clone());
                }
                let row = EffectRow {
                    step_id: state.step_id(step),
                    run,
                    step: step.clone(),
                    class: *class,
                    state: EffectState::Intent,
                    attempt: *attempt,
                    sends: *send,
                    out_key: out_key.clone(),
                    safe_until: *safe_until,
                    at,
                };
                self.effects.insert(step.clone(), row);
            }
            Event::ErrandSet { step, request: Some(request), .. } => {
                self.requests.insert(step.clone(), request.json().clone());
            }
            Event::AttemptFailed { step, doubt, .. } => {
                let (count, noted) = self.tries.entry(step.clone()).or_default();
                (*count, *noted) = (*count + 1, true);
                self.mark(step, if *doubt { EffectState::InDoubt } else { EffectState::FailedClean }, at);
            }
            Event::DoubtRaised { step, .. } => self.mark(step, EffectState::InDoubt, at),
            Event::Verdict { step, verdict, result, .. } => {
                if let Some(result) = result {
                    self.set_output(step, result.json(), flow);
                }
                match verdict {
                    VerdictKind::Done => self.mark(step, EffectState::Done, at),
                    VerdictKind::Fail => self.mark(step, EffectState::FailedClean, at),
                    VerdictKind::Repeat | VerdictKind::RepeatNewKey => {}
                }
            }
            Event::Replayed { back: Some(back), .. } => self.go_back(back, flow),
            Event::Replayed { from, back: None, .. } => {
                self.tries.clear();
                self.failed_step = None;
                self.variables = None;
                self.given.clear();
                self.skips.clear();
                self.drop_outputs_from(*from, flow);
            }
            Event::SkipAsked { task, output, .. } => _ = self.skips.insert(task.clone(), output.clone()),
            Event::Jumped { to, step, input: Some(input), .. } => {
                let first = || Some(StepKey::root().child(&flow.index.flow.tasks.get(*to as usize)?.id));
                if let Some(step) = step.clone().or_else(first) {
                    self.given.insert(step, Value::from_stored(input.json()));
                }
            }
            Event::Started { .. } | Event::Restarted { .. } | Event::RetryOf { .. } => {
                self.failed_step = None;
                self.errors.clear();
            }
            Event::Branched { output: None, .. }
            | Event::InputsGiven { inputs: None, .. }
            | Event::Jumped { input: None, .. }
            | Event::FlowChanged { .. }
            | Event::OpDone { output: None, .. }
            | Event::StepResumed { output: None, .. }
            | Event::GroupAnswered { output: None, .. }
            | Event::StepPaused { .. }
            | Event::Exited { .. }
            | Event::BodiesEnd { .. }
            | Event::GroupAsks { .. }
            | Event::GroupStage { .. }
            | Event::TimerSet { .. }
            | Event::TimerCleared { .. }
            | Event::TimerFired { .. }
            | Event::SendLost { .. }
            | Event::ErrandSet { request: None, .. }
            | Event::ErrandAnswered { .. }
            | Event::OpRequested { .. }
            | Event::RetrySet { .. }
            | Event::ChildRequested { .. }
            | Event::ChildEnded { .. }
            | Event::DoubtsBelow { .. }
            | Event::Paused { .. }
            | Event::Resumed { .. }
            | Event::BreakpointsSet { .. }
            | Event::StoppedAt { .. }
            | Event::Restored { .. }
            | Event::Released { .. }
            | Event::CancelRequested { .. }
            | Event::StopRequested { .. }
            | Event::SlaBroken { .. }
            | Event::Forced { .. }
            | Event::ReplayOf { .. }
            | Event::Concluded { .. }
            | Event::StatusChanged { .. }
            | Event::Finishing
            | Event::Ended { .. } => {}
        }
    }

    /// What was known of steps that are done again is forgotten; loops around the step have their items again.
    fn go_back(&mut self, back: &Back, flow: &LoadedFlow) {
        (self.failed_step, self.errors) = (None, Vec::new());
        let keeps = |key: &StepKey| back.keeps(&flow.index, key);
        self.requests.retain(|key, _| keeps(key));
        self.effects.retain(|key, _| keeps(key));
        self.loops.retain(|key, _| keeps(key));
        self.isolated.retain(|key, _| keeps(key));
        self.rounds.retain(|key, _| keeps(key));
        self.given.clear();
        self.skips.clear();
        for frame in &back.frames {
            if let Some(Value::List(items)) = frame.items.as_ref().map(|items| Value::from_stored(items.json())) {
                self.loops.insert(frame.step.clone(), items);
            }
        }
        if let Some(input) = &back.input {
            self.given.insert(back.step.clone(), Value::from_stored(input.json()));
        }
    }

    /// The ledger row an event changed, if it did.
    pub fn ledger_row(&self, event: &Event) -> Option<EffectRow> {
        match event {
            Event::Intent { step, .. }
            | Event::AttemptFailed { step, .. }
            | Event::DoubtRaised { step, .. }
            | Event::Verdict { step, .. }
            | Event::StepEnded { step, .. } => self.effects.get(step).cloned(),
            _ => None,
        }
    }

    /// Forgets ledger rows and requests of steps that are over; call after they were written.
    pub fn forget_settled(&mut self, state: &RunState) {
        let open = |step: &StepKey| state.steps.contains_key(step) || state.doubts.contains_key(step);
        self.effects.retain(|step, row| row.state != EffectState::Done && open(step));
        self.requests.retain(|step, _| open(step));
    }

    /// Gives effects the ids of their steps: where a snapshot was read, the state that an intent
    /// was folded beside did not know them yet.
    pub fn name_effects(&mut self, state: &RunState) {
        for row in self.effects.values_mut() {
            if state.steps.contains_key(&row.step) {
                row.step_id = state.step_id(&row.step);
            } else if let Some(doubt) = state.doubts.get(&row.step) {
                // A step of a handler that has ended is gone, but its doubt knows it.
                row.step_id = doubt.step_id;
            }
        }
    }

    fn note_state(&mut self, event: &Event, flow: &LoadedFlow) {
        if !flow.reads_tasks {
            return;
        }
        let (step, state) = match event {
            Event::StepStarted { step, .. } => (step, "RUNNING"),
            Event::StepEnded { step, outcome, tolerated, .. } => (step, state_word(*outcome, *tolerated)),
            _ => return,
        };
        if step.is_root() || step.iteration_number().is_some() {
            return;
        }
        let mut path = vec![step.task_id().to_owned()];
        path.extend(self.loop_values(step, flow).iter().map(Value::to_text));
        path.push("state".to_owned());
        if let Some(slot) = place(&mut self.tasks, &path) {
            *slot = Value::str(state);
        }
    }

    /// A group fails with its child's failure; only the child's own is noted.
    fn note_error(&mut self, step: &StepKey, message: &str, flow: &LoadedFlow, at: Millis) {
        let group = step.iteration_number().is_some()
            || flow.index.task(step.task_id()).is_none_or(|task| task.kind.only_holds_tasks());
        if !group && self.errors.len() < ERRORS_MAX {
            let entry = serde_json::json!({"taskId": step.task_id(), "level": "ERROR", "message": message, "timestamp": at.to_rfc3339()});
            self.errors.push(Value::from_json(&entry));
        }
    }

    fn mark(&mut self, step: &StepKey, to: EffectState, at: Millis) {
        if let Some(row) = self.effects.get_mut(step) {
            row.state = to;
            row.at = at;
        }
    }

    fn set_labels(&mut self, labels: &Json) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.labels.insert(key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }

    /// A loop that goes round until something holds tells how often it has.
    fn note_round(&mut self, step: &StepKey, flow: &LoadedFlow) {
        let (Some(n), Some(parent)) = (step.iteration_number(), step.parent()) else { return };
        if matches!(kind_of(&parent, flow), Some(TaskKind::LoopUntil(_))) && !flow.is_conductor() {
            self.set_output(&parent, &serde_json::json!({"iterationCount": n + 1}), flow);
        }
    }

    fn note_end_of_round(&mut self, step: &StepKey, outcome: StepOutcome, output: Option<&Json>, flow: &LoadedFlow) {
        let (Some(parent), Some(number)) = (step.parent(), step.iteration_number()) else { return };
        let word = match outcome {
            StepOutcome::Success | StepOutcome::Skipped => "SUCCESS",
            StepOutcome::Warning => "WARNING",
            StepOutcome::Failed => "FAILED",
            StepOutcome::Cancelled => "KILLED",
        };
        match kind_of(&parent, flow) {
            Some(TaskKind::Loop(_)) => {
                self.rounds.entry(parent).or_default().ended.insert(number, word);
            }
            Some(TaskKind::Batches(_)) => {
                let rounds = self.rounds.entry(parent).or_default();
                // The state of the sub-run, which the step may not have taken for its own.
                let state = output.and_then(|output| output["state"].as_str());
                let known = ["SUCCESS", "WARNING", "FAILED", "KILLED"].into_iter().find(|word| Some(*word) == state);
                rounds.ended.insert(number, known.unwrap_or(word));
                let given = output.map(|output| &output["outputs"]).filter(|given| **given != serde_json::json!({}));
                rounds.outputs.extend(given.filter(|given| given.is_object()).map(|given| (number, given.clone())));
            }
            _ => {}
        }
    }

    /// The loops over values around a step, outermost first.
    pub fn rounds_around(&self, step: &StepKey, flow: &LoadedFlow) -> Vec<Round> {
        let mut found = Vec::new();
        for (key, number) in step.iterations() {
            let item = || self.loops.get(&key).and_then(|items| items.get(number as usize)).cloned();
            match kind_of(&key, flow) {
                Some(TaskKind::LoopUntil(_)) => {}
                Some(TaskKind::Loop(_)) => {
                    let item = item().unwrap_or(Value::Null);
                    let value = item.get("value").unwrap_or(Value::Null);
                    found.push(Round { value, number, key: item.get("key") });
                }
                _ => found.push(Round { value: item().unwrap_or(Value::Null), number, key: None }),
            }
        }
        found
    }

    /// Values of the loops around a step, outermost first.
    pub fn loop_values(&self, step: &StepKey, flow: &LoadedFlow) -> Vec<Value> {
        self.rounds_around(step, flow).into_iter().map(|round| round.value).collect()
    }

    /// `outputs` as a step sees them: its own rounds' before those of the run.
    pub fn outputs_at(&self, step: Option<&StepKey>, flow: &LoadedFlow) -> Value {
        let mut seen = self.outputs.clone();
        for round in step.map(|step| own_rounds(step, flow)).unwrap_or_default() {
            if let (Value::Map(seen), Some(Value::Map(own))) = (&mut seen, self.isolated.get(&round)) {
                Arc::make_mut(seen).extend(own.iter().map(|(id, value)| (id.clone(), value.clone())));
            }
        }
        seen
    }

    /// Where the output of a step is: the round that keeps it to itself, and the path from there.
    fn place_of(&self, step: &StepKey, flow: &LoadedFlow) -> (Option<StepKey>, Vec<String>) {
        let own = own_rounds(step, flow).pop();
        let mut path = vec![step.task_id().to_owned()];
        for (key, n) in step.iterations() {
            let within = own.as_ref().is_none_or(|round| key.is_under(round));
            if within && kind_of(&key, flow).is_none_or(TaskKind::keys_outputs_by_value) {
                let item = self.loops.get(&key).and_then(|items| items.get(n as usize));
                path.push(item.map_or_else(String::new, Value::to_text));
            }
        }
        (own, path)
    }

    /// The output of exactly this step, if the flow can read it.
    pub fn output_of(&self, step: &StepKey, flow: &LoadedFlow) -> Option<Value> {
        let (own, path) = self.place_of(step, flow);
        let all = own.map_or(Some(&self.outputs), |round| self.isolated.get(&round))?;
        path.iter().try_fold(all.clone(), |inner, name| inner.get(name))
    }

    /// What is computed on the spot fails without saying of its attempt that it did.
    fn count_try(&mut self, step: &StepKey, failed: bool) {
        if !failed {
            self.tries.remove(step);
            return;
        }
        let (count, noted) = self.tries.entry(step.clone()).or_default();
        *count += u32::from(!*noted);
        *noted = false;
    }

    fn set_output(&mut self, step: &StepKey, output: &Json, flow: &LoadedFlow) {
        if flow.is_conductor() {
            return self.notes.set_output(step, output, &self.loops, flow);
        }
        if let Some(slot) = self.output_slot(step, flow) {
            *slot = Value::from_stored(output);
        }
    }

    /// Where the output of a step is kept, if it is.
    fn output_slot(&mut self, step: &StepKey, flow: &LoadedFlow) -> Option<&mut Value> {
        let is_kept = flow.index.task(step.task_id()).is_some_and(|task| task.keep_output || self.keeps_all);
        if step.iteration_number().is_some() || !is_kept {
            return None;
        }
        let (own, path) = self.place_of(step, flow);
        let target = match own {
            Some(round) => self.isolated.entry(round).or_insert_with(|| Value::map(IndexMap::new())),
            None => &mut self.outputs,
        };
        place(target, &path)
    }

    fn drop_outputs_from(&mut self, from: u32, flow: &LoadedFlow) {
        let keep: Vec<&str> = flow.index.flow.tasks.iter().take(from as usize).map(|t| t.id.as_str()).collect();
        if let Value::Map(map) = &mut self.outputs {
            Arc::make_mut(map).retain(|id, _| keep.iter().any(|top| flow.is_within(top, id)));
        }
        self.requests.clear();
        self.effects.clear();
        self.loops.clear();
        self.isolated.clear();
        self.rounds.clear();
    }
}

/// How Kestra calls the end of a task.
fn state_word(outcome: StepOutcome, tolerated: bool) -> &'static str {
    match outcome {
        StepOutcome::Success => "SUCCESS",
        StepOutcome::Warning => "WARNING",
        StepOutcome::Skipped => "SKIPPED",
        StepOutcome::Failed if tolerated => "WARNING",
        StepOutcome::Failed => "FAILED",
        StepOutcome::Cancelled => "KILLED",
    }
}

/// What a task shows of the run it has started.
fn started(step: &StepKey, run: RunId, state: &RunState, flow: &LoadedFlow) -> Json {
    let alone = state.steps.get(step).is_some_and(|step| step.alone);
    let name = match kind_of(step, flow) {
        _ if alone => "workflowId",
        Some(TaskKind::Subflow(spec)) if spec.terms.is_some() && spec.wait => "subWorkflowId",
        Some(TaskKind::Subflow(spec)) if spec.terms.is_some() => "workflowId",
        _ if flow.is_conductor() => "subWorkflowId",
        _ => "executionId",
    };
    serde_json::json!({ name: run.to_string() })
}

/// Each name of what is given takes the place of what had it.
fn replace(target: &mut Value, given: Value) {
    match (target, given) {
        (Value::Map(known), Value::Map(given)) => {
            Arc::make_mut(known).extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        (target, given) => *target = given,
    }
}

/// As [`replace`], but a list gets what is given behind what it has.
fn added(target: &mut Value, given: Value) {
    let (Value::Map(known), Value::Map(given)) = (target, given) else { return };
    let known = Arc::make_mut(known);
    for (name, value) in given.iter() {
        let value = match (known.get(name), value) {
            (Some(Value::List(before)), Value::List(more)) => before.iter().chain(more.iter()).cloned().collect(),
            (Some(Value::List(before)), one) => before.iter().chain([one]).cloned().collect(),
            (_, other) => {
                known.insert(name.clone(), other.clone());
                continue;
            }
        };
        known.insert(name.clone(), Value::list(value));
    }
}

/// Maps field by field; anything else takes the place of what was there.
fn merge(target: &mut Value, given: Value) {
    match (target, given) {
        (Value::Map(known), Value::Map(given)) => {
            let known = Arc::make_mut(known);
            for (name, value) in given.iter() {
                match known.get_mut(name) {
                    Some(slot) => merge(slot, value.clone()),
                    None => _ = known.insert(name.clone(), value.clone()),
                }
            }
        }
        (target, given) => *target = given,
    }
}

fn kind_of<'a>(step: &StepKey, flow: &'a LoadedFlow) -> Option<&'a TaskKind> {
    flow.index.task(step.task_id()).map(|task| &task.kind)
}

/// The rounds around a step, or being it, that keep their outputs to themselves, outermost first.
fn own_rounds(step: &StepKey, flow: &LoadedFlow) -> Vec<StepKey> {
    let own = |key: &StepKey| matches!(kind_of(key, flow), Some(TaskKind::Loop(_)));
    step.iterations().into_iter().filter(|(key, _)| own(key)).map(|(key, n)| key.iteration(n)).collect()
}

/// A path of nested maps, which are shared: only what is on the way is copied.
fn place<'a>(target: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    let Some((first, rest)) = path.split_first() else { return Some(target) };
    if !matches!(target, Value::Map(_)) {
        *target = Value::map(IndexMap::new());
    }
    match target {
        Value::Map(map) => place(Arc::make_mut(map).entry(first.clone()).or_insert(Value::Null), rest),
        _ => None,
    }
}

/// The `trigger` variable; header names are looked up whatever their case.
pub fn trigger_value(stored: &Json) -> Value {
    let value = Value::from_stored(stored);
    let Value::Map(map) = &value else { return value };
    let Some(Value::Map(headers)) = map.get("headers") else { return value };
    let headers = Value::headers(headers.as_ref().clone());
    let mut map = map.as_ref().clone();
    map.insert("headers".to_owned(), headers);
    Value::map(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::ir::EffectClass;
    use semel_core::run::{Failure, Stage};
    use semel_core::{FlowRef, WorkspaceId};
    use semel_store::FlowRow;
    use serde_json::json;

    fn flow() -> LoadedFlow {
        let ir = json!({"ir_version": 1, "id": "order", "namespace": "shop", "tasks": []}).to_string();
        let row = FlowRow {
            workspace: WorkspaceId::default(),
            flow: FlowRef::new("shop", "order"),
            revision: 1,
            source: String::new(),
            ir,
            disabled: false,
            deleted: false,
            created_at: Millis(0),
            created_by: "test".into(),
        };
        LoadedFlow::from_row(&row).expect("a flow")
    }

    /// A run whose error handler sent something and lost the answer.
    fn lost_in_a_handler(run: RunId) -> Vec<Event> {
        let (root, step) = (StepKey::root(), StepKey("tell".into()));
        let nothing = || Payload::new(json!({}));
        let failed = |step: &StepKey| Event::StepEnded {
            step: step.clone(),
            outcome: StepOutcome::Failed,
            at: Millis(1),
            tolerated: false,
            output: None,
            failure: Some(Failure::new("lost", "no answer")),
        };
        let start = |step: &StepKey, round| Event::StepStarted { step: step.clone(), take: 0, round, at: Millis(1) };
        let first = StepKey("first".into());
        vec![
            Event::Created {
                flow: FlowRef::new("shop", "order"),
                revision: 1,
                logical: run,
                inputs: nothing(),
                trigger: nothing(),
                labels: nothing(),
                queued: false,
            },
            Event::Started { at: Millis(1) },
            start(&first, 0),
            failed(&first),
            Event::GroupStage { step: root, stage: Stage::Errors },
            start(&step, 1),
            Event::Intent {
                step: step.clone(),
                attempt: 1,
                send: 1,
                class: EffectClass::Naked,
                out_key: "key".into(),
                safe_until: None,
                timeout_ms: 1,
                request: Some(nothing()),
            },
            Event::AttemptFailed {
                step: step.clone(),
                attempt: 1,
                failure: Failure::new("lost", "no answer"),
                doubt: true,
            },
            failed(&step),
        ]
    }

    #[test]
    fn a_doubt_of_a_handler_keeps_its_name_behind_a_snapshot() {
        let run = RunId::from_bytes([7; 16]);
        let (flow, events) = (flow(), lost_in_a_handler(run));
        let state = RunState::fold(&events).expect("a journal");
        let mut memory = Memory::default();
        // What a snapshot covers is folded beside a state that knows nothing yet.
        for event in &events {
            memory.fold(run, event, &RunState::new(run), &flow, Millis(1));
        }
        memory.forget_settled(&state);
        memory.name_effects(&state);
        let step = StepKey("tell".into());
        assert_eq!(memory.effects[&step].step_id, state.doubts[&step].step_id);
    }
}
