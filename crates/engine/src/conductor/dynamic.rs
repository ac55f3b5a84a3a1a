//! DYNAMIC: a task whose type is known only when it starts. A name that is a type of Conductor's own runs as that type,
//! any other is that of a task for workers. What comes in its input is data, and is not resolved again.

use super::errands::errand_of;
use super::leaves::workflow_output;
use super::loops::exit_state;
use super::starts::strategy;
use crate::children::Start;
use crate::evaluate::{Evaluator, Found};
use crate::templated::{AS, TEMPLATED};
use indexmap::IndexMap;
use semel_core::ir::{CONDUCTOR_NAMESPACE, Errand, ErrandKind, Task};
use semel_core::run::{Evaluated, Failure, Payload, StepKey};
use semel_expr::Value;
use semel_expr::conductor::print;
use serde_json::Value as Json;

pub(crate) const DYNAMIC: &str = "conductor.DYNAMIC";

/// Types that are nothing without what other fields of a task say: tasks inside, conditions, queues.
const NOT_ALONE: &[&str] = &["DO_WHILE", "HTTP_POLL", "KAFKA_PUBLISH"];

/// Types that are carried out here. Any other name is that of a task for workers, as in Conductor also FORK_JOIN and
/// DYNAMIC itself, which only are types of a definition.
const OWN: &[&str] = &[
    "HTTP",
    "INLINE",
    "LAMBDA",
    "JSON_JQ_TRANSFORM",
    "NOOP",
    "SET_VARIABLE",
    "SUB_WORKFLOW",
    "START_WORKFLOW",
    "WAIT",
    "HUMAN",
    "WAIT_FOR_WEBHOOK",
    "PULL_WORKFLOW_MESSAGES",
    "EVENT",
    "UPDATE_TASK",
    "GET_WORKFLOW",
    "TERMINATE",
    "SWITCH",
    "DECISION",
    "JOIN",
    "EXCLUSIVE_JOIN",
];

/// The type that a request is performed as.
pub(crate) fn performed_as(type_name: &str, config: &mut Json) -> String {
    let is_told = matches!(type_name, DYNAMIC | TEMPLATED);
    match config.as_object_mut().filter(|_| is_told).and_then(|fields| fields.remove(AS)) {
        Some(Json::String(word)) if type_name == DYNAMIC => format!("conductor.{word}"),
        Some(Json::String(name)) => name,
        _ => type_name.to_owned(),
    }
}

/// TERMINATE: the task completes with what the workflow gives, and the workflow ends as it says.
fn dynamic_exit(input: &Value) -> Result<Evaluated, Failure> {
    let state = text(input, "terminationStatus").and_then(|word| exit_state(&word));
    let state = state.ok_or_else(|| Failure::new("bad_state", "given termination status is not valid"))?;
    let output = Some(Payload::new(workflow_output(input).to_stored()));
    Ok(Evaluated::Exit { state, reason: text(input, "terminationReason"), output })
}

fn field(input: &Value, name: &str) -> Value {
    input.get(name).unwrap_or(Value::Null)
}

fn text(input: &Value, name: &str) -> Option<String> {
    Some(field(input, name)).filter(|value| *value != Value::Null).map(|value| print(&value))
}

impl Evaluator<'_> {
    pub(crate) fn dynamic(
        &self,
        key: &StepKey,
        task: &Task,
        config: &Json,
        found: &mut Found,
    ) -> Result<Evaluated, Failure> {
        let errand = errand_of(config)?;
        let name = self.plain_text(&errand.queue, "dynamicTaskNameParam")?;
        let input = self.json(&errand.input)?;
        let word = name.as_str();
        if NOT_ALONE.contains(&word) {
            return Err(Failure::new("bad_config", format!("a DYNAMIC task cannot run as {word}")));
        }
        if !OWN.contains(&word) {
            return self.errand_for(&errand, name, input, (None, None));
        }
        if let Some(definition) = self.definition(&errand.task_definition, word)? {
            let count = errand.retry_count.unwrap_or(definition.retry_count);
            found.retry = definition.retry(count).map(Box::new);
        }
        match word {
            "HTTP" => self.performed(task, word, input, found),
            "INLINE" if text(&input, "evaluatorType").as_deref() == Some("value-param") => {
                self.computed(task, word, &input)
            }
            "INLINE" | "LAMBDA" => self.performed(task, word, input, found),
            "SUB_WORKFLOW" => {
                found.op = Some(self.start(key, self.dynamic_start(key, &input)?)?);
                Ok(Evaluated::Child { alone: false })
            }
            "START_WORKFLOW" => {
                found.op = Some(self.start(key, self.requested_start(key, &field(&input, "startWorkflow"))?)?);
                Ok(Evaluated::Child { alone: true })
            }
            "PULL_WORKFLOW_MESSAGES" => self.pull(config),
            "EVENT" => self.dynamic_event(key, task, input, found),
            "UPDATE_TASK" => {
                found.op = Some(self.task_update(key, &input)?);
                Ok(Evaluated::Op)
            }
            "TERMINATE" => dynamic_exit(&input),
            // A task of this name has no cases: it chooses nothing, and the workflow goes on.
            "SWITCH" | "DECISION" => self.computed(task, "NOOP", &input),
            "JOIN" => self.dynamic_join(task, &input),
            "WAIT" => {
                let wait = (text(&input, "duration"), text(&input, "until"));
                self.errand_for(&Errand { kind: ErrandKind::Wait, ..errand }, name, input, wait)
            }
            "HUMAN" => self.errand_for(&Errand { kind: ErrandKind::Human, ..errand }, name, input, (None, None)),
            "WAIT_FOR_WEBHOOK" => {
                let matches = field(&input, "matches").to_masked_json();
                self.errand_for(&Errand { kind: ErrandKind::Webhook, matches, ..errand }, name, input, (None, None))
            }
            _ => self.computed(task, word, &input),
        }
    }

    /// The sink stands in the input, all of which is what the event says.
    fn dynamic_event(&self, key: &StepKey, task: &Task, input: Value, found: &mut Found) -> Result<Evaluated, Failure> {
        let sink = text(&input, "sink").unwrap_or_default();
        let reference = task.conductor.as_ref().map(|own| own.reference.clone()).unwrap_or_default();
        let fields =
            [("sink", Value::str(&sink)), ("reference", Value::str(reference)), ("payload", input)].into_iter();
        let config = Value::map(fields.map(|(name, value)| (name.to_owned(), value)).collect());
        if sink.starts_with("nats:") {
            return self.performed(task, "EVENT", self.message(&config)?, found);
        }
        found.op = Some(self.published(key, &config)?);
        Ok(Evaluated::Op)
    }

    /// It can join what has ended. Nothing would wake it for what has not.
    fn dynamic_join(&self, task: &Task, input: &Value) -> Result<Evaluated, Failure> {
        let notes = &self.scope.memory.notes;
        let open = |name: &String| notes.get(name).is_none_or(|note| note.ended.is_none());
        match super::leaves::names(input, "joinOn").into_iter().find(open) {
            None => self.computed(task, "JOIN", input),
            Some(name) => {
                let message = format!("a DYNAMIC task that runs as JOIN joins what has ended, and `{name}` has not");
                Err(Failure::new("bad_config", message))
            }
        }
    }

    fn performed(&self, task: &Task, word: &str, input: Value, found: &mut Found) -> Result<Evaluated, Failure> {
        let mut fields = match input {
            Value::Map(fields) => fields.as_ref().clone(),
            _ => IndexMap::new(),
        };
        fields.insert(AS.to_owned(), Value::str(word));
        self.effect(task, &format!("conductor.{word}"), &Value::map(fields), found)
    }

    /// As the type itself reads what its mapper has put into the input.
    fn dynamic_start(&self, key: &StepKey, input: &Value) -> Result<Start, Failure> {
        let name = text(input, "subWorkflowName").ok_or_else(|| {
            Failure::new("bad_config", "a DYNAMIC task that runs as SUB_WORKFLOW needs `subWorkflowName` in its input")
        })?;
        let inputs = match field(input, "workflowInput") {
            Value::Null => input.clone(),
            given => given,
        };
        let own_key = match field(input, "idempotencyKey") {
            Value::Null => None,
            given => Some(self.start_key(&given)?),
        };
        let strategy = strategy(text(input, "idempotencyStrategy").as_deref(), own_key.is_some())?;
        Ok(Start {
            flow: self.workflow_named(CONDUCTOR_NAMESPACE, &name, &field(input, "subWorkflowVersion"))?,
            defined: None,
            revision: None,
            inputs,
            labels: Vec::new(),
            key: own_key,
            strategy,
            workflow: Some(name),
            correlation_id: None,
            trigger: self.parent_words(key, &field(input, "priority"), &field(input, "subWorkflowTaskToDomain")),
            start_at: None,
            waits: true,
            new_on_restart: false,
        })
    }
}
