//! `templating.TemplatedTask`: the text of a task is rendered, read as one, and done as what it is.
//!
//! What came out of the rendering is data. It is not rendered a second time, so that no caller's text becomes an
//! expression.

use crate::evaluate::{Evaluator, Found};
use indexmap::IndexMap;
use semel_core::ir::{LeafMode, Task, TaskKind};
use semel_core::run::{Evaluated, Failure, StepKey};
use semel_expr::Value;
use semel_tasks::REGISTRY;
use serde_json::{Value as Json, json};

pub(crate) const TEMPLATED: &str = "templating.TemplatedTask";
/// Where a request says as which type it is performed.
pub(crate) const AS: &str = "~type";

fn wrong(message: impl std::fmt::Display) -> Failure {
    Failure::new("bad_spec", format!("`spec`: {message}"))
}

impl Evaluator<'_> {
    pub(crate) fn templated(
        &self,
        key: &StepKey,
        task: &Task,
        written: &Json,
        found: &mut Found,
    ) -> Result<Evaluated, Failure> {
        let spec = written.get("spec").and_then(Json::as_str).unwrap_or_default();
        let yaml = |text: &str| semel_flow::yaml_value(text, self.limits).map_err(wrong);
        let rendered = match self.text(spec)? {
            Value::Str(text) => Value::from_json(&yaml(&text)?),
            // A text with a secret in it is not looked at: its parts are rendered one by one.
            _ => self.json(&yaml(spec)?)?,
        };
        let (task, mode, config) = self.task_of(task, &rendered)?;
        match mode {
            LeafMode::Inline => Ok(self.inline(&task, &config, found)),
            LeafMode::Op => {
                let plain = config.to_plain_json().ok_or_else(|| wrong("keys keep plain values, and no secrets"))?;
                found.op = Some(self.kv_op(key, &task.type_name, &plain)?);
                Ok(Evaluated::Op)
            }
            LeafMode::Effect => {
                let Value::Map(fields) = &config else { return Err(wrong("it must be a map")) };
                let mut fields = fields.as_ref().clone();
                fields.insert(AS.to_owned(), Value::str(task.type_name.as_str()));
                self.effect(&task, &task.type_name, &Value::map(fields), found)
            }
            LeafMode::Errand => Err(wrong("a task of this type cannot be made here")),
        }
    }

    /// The task that a definition means, how it works, and its properties.
    fn task_of(&self, task: &Task, rendered: &Value) -> Result<(Task, LeafMode, Value), Failure> {
        let Value::Map(fields) = rendered else { return Err(wrong("it must be a map")) };
        let mut shown = rendered.to_masked_json();
        shown["id"] = json!(task.id);
        let flow = json!({"id": "templated", "namespace": self.flow.flow_ref.namespace, "tasks": [shown]});
        let compiled = semel_flow::compile(&flow.to_string(), &REGISTRY, self.limits).map_err(|found| {
            let first = found.into_iter().find(semel_flow::Diagnostic::is_error);
            wrong(first.map(|one| one.message).unwrap_or_default())
        })?;
        let made = compiled.flow.tasks.into_iter().next().ok_or_else(|| wrong("it is no task"))?;
        let TaskKind::Leaf { mode, config } = made.kind else {
            return Err(wrong(format!(
                "{} holds tasks or steers the run, which a templated task cannot",
                made.type_name
            )));
        };
        if made.type_name == TEMPLATED {
            return Err(wrong("it cannot be a templated task itself"));
        }
        let own = fields.iter().filter(|(name, _)| config.get(name.as_str()).is_some());
        let own: IndexMap<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok((Task { type_name: made.type_name, ..task.clone() }, mode, Value::map(own)))
    }
}
