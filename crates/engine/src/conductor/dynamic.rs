//! DYNAMIC: a task whose type is known only when it starts. A name that is a type of Conductor's own runs as that type,
//! any other is that of a task for workers. What comes in its input is data, and is not resolved again.

use super::errands::errand_of;
use super::starts::strategy;
use crate::children::Start;
use crate::evaluate::{Evaluator, Found};
use crate::templated::{AS, TEMPLATED};
use indexmap::IndexMap;
use semel_core::ir::{CONDUCTOR_NAMESPACE, Errand, ErrandKind, Task};
use semel_core::run::{Evaluated, Failure, StepKey};
use semel_expr::Value;
use semel_expr::conductor::print;
use serde_json::Value as Json;

pub(crate) const DYNAMIC: &str = "conductor.DYNAMIC";

/// Types that need other tasks around them, or inside.
const NOT_ALONE: &[&str] = &[
    "SWITCH",
    "DECISION",
    "DO_WHILE",
    "FORK_JOIN",
    "FORK_JOIN_DYNAMIC",
    "JOIN",
    "EXCLUSIVE_JOIN",
    "TERMINATE",
    "DYNAMIC",
    "HTTP_POLL",
    "START_WORKFLOW",
    "KAFKA_PUBLISH",
    "PULL_WORKFLOW_MESSAGES",
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
        let is_simple = !matches!(
            word,
            "HTTP"
                | "INLINE"
                | "LAMBDA"
                | "JSON_JQ_TRANSFORM"
                | "NOOP"
                | "SET_VARIABLE"
                | "SUB_WORKFLOW"
                | "WAIT"
                | "HUMAN"
                | "WAIT_FOR_WEBHOOK"
        );
        if is_simple {
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
                Ok(Evaluated::Child)
            }
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
