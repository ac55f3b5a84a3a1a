//! DO_WHILE, and other kinds that Conductor words otherwise.

use crate::evaluate::Evaluator;
use semel_core::ir::{DoWhile, ExitState, Task, TaskKind, UntilSpec};
use semel_core::run::{Evaluated, Failure, GroupState, ListName, Payload, StepKey, Work};
use semel_expr::Value;
use semel_expr::conductor::print;
use serde_json::json;

impl Evaluator<'_> {
    /// The first round, if there is one.
    pub(crate) fn do_while_begins(&self, spec: &DoWhile) -> Result<Evaluated, Failure> {
        let Some(items) = &spec.items else {
            return Ok(Evaluated::items(1, Payload::new(json!([]))));
        };
        let items = match self.json(items)? {
            Value::Null => Value::list(Vec::new()),
            list @ Value::List(_) => list,
            // A value alone is a list of one.
            other => Value::list(vec![other]),
        };
        let is_empty = matches!(&items, Value::List(items) if items.is_empty());
        Ok(Evaluated::items(u32::from(!is_empty), Payload::new(items.to_stored())))
    }

    /// After a round. The condition was found by its last task; the items, if there are any, have the last word.
    pub(crate) fn do_while_again(&self, key: &StepKey, task: &Task, spec: &UntilSpec) -> Result<Evaluated, Failure> {
        let count = match self.work(key) {
            Some(Work::Group(GroupState { count: Some(count), .. })) => *count,
            _ => 1,
        };
        let items = spec.do_while.as_ref().and_then(|own| own.items.as_ref());
        let items_left = match items {
            Some(_) => self.scope.memory.loops.get(key).is_some_and(|items| (count as usize) < items.len()),
            None => true,
        };
        if items_left && !self.text(&spec.condition)?.is_truthy_text() {
            return Ok(Evaluated::Again { ms: 0 });
        }
        let reference = task.conductor.as_ref().map_or(task.id.as_str(), |own| own.reference.as_str());
        let output = self.scope.memory.notes.get(reference).map(|note| note.output.to_stored());
        let mut output = output.unwrap_or_else(|| json!({}));
        if count == 0
            && let Some(output) = output.as_object_mut()
        {
            output.insert("iteration".to_owned(), json!(0));
        }
        Ok(Evaluated::Answered { output: Some(Payload::new(output)), failure: None, stop: false })
    }

    /// SWITCH and DECISION: a value without a case goes to the default, and that may be nothing.
    pub(crate) fn conductor_switch(&self, task: &Task) -> Result<Evaluated, Failure> {
        let TaskKind::Switch { value, cases, defaults, .. } = &task.kind else { return Ok(Evaluated::Group) };
        let value = self.text(value)?;
        if value.is_tainted() {
            return Err(Failure::new("secret_not_allowed", "what a switch chooses by cannot hold a secret"));
        }
        let value = print(&value);
        let list = match (cases.contains_key(&value), defaults) {
            (true, _) => ListName::Case(value.clone()),
            (false, Some(_)) => ListName::Defaults,
            (false, None) => return Err(Failure::new("no_case", format!("no case matches `{value}`"))),
        };
        let output = match task.type_name.as_str() {
            "conductor.DECISION" => json!({"caseOutput": [value]}),
            _ => json!({"evaluationResult": [value], "selectedCase": value}),
        };
        Ok(Evaluated::Branch { list, output: Some(Payload::new(output)) })
    }
}

impl Evaluator<'_> {
    /// Why a TERMINATE ends the run, in its author's words.
    pub(crate) fn exit_reason(&self, task: &Task) -> Option<String> {
        let own = task.id.strip_suffix("~exit").filter(|_| self.flow.is_conductor())?;
        let task = self.flow.index.task(own)?.conductor.as_ref()?;
        let reason = self.json(task.input.get("terminationReason")?).ok()?;
        (reason != Value::Null).then(|| print(&reason))
    }
}

/// TERMINATE's word for how the run ends.
pub fn exit_state(word: &str) -> Option<ExitState> {
    match word.trim() {
        "COMPLETED" => Some(ExitState::Success),
        "FAILED" => Some(ExitState::Failed),
        "TERMINATED" => Some(ExitState::Cancelled),
        _ => None,
    }
}
