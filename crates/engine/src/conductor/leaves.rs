//! Tasks of Conductor's own that only compute. Their values may have holes, which they pass on.

use super::fork;
use crate::evaluate::Evaluator;
use indexmap::IndexMap;
use semel_core::ir::Task;
use semel_core::run::{Evaluated, Failure, Payload, VariableChange};
use semel_expr::conductor::{print, transform};
use semel_expr::{Budget, Value};

/// What the variables of a run may take, as Conductor has it by default.
const VARIABLES_BYTES_MAX: usize = 256 * 1024;

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl Evaluator<'_> {
    /// The word of a task type that Conductor has.
    pub(crate) fn conductor_leaf(&self, task: &Task, config: &Value) -> Result<Evaluated, Failure> {
        self.computed(task, task.type_name.strip_prefix("conductor.").unwrap_or(&task.type_name), config)
    }

    /// What a task of this type gives.
    pub(crate) fn computed(&self, task: &Task, word: &str, config: &Value) -> Result<Evaluated, Failure> {
        let output = match word {
            "NOOP" => map([]),
            "INLINE" => self.picked(config)?,
            "JSON_JQ_TRANSFORM" => self.jq(config)?,
            "JOIN" => self.joined(config),
            "EXCLUSIVE_JOIN" => self.joined_by_one(config)?,
            "TERMINATE" => workflow_output(config),
            "GET_WORKFLOW" => self.workflow_of(config)?,
            "FORK_TASKS" => fork::tasks(config, self.scope.memory.notes.is_first_fork(task, self.flow))?,
            "SET_VARIABLE" => return self.variables(config),
            other => return Err(Failure::new("unknown_type", format!("no task type `{other}` of this kind"))),
        };
        Ok(Evaluated::Inline { result: Ok(Some(Payload::new(output.to_stored()))), labels: None })
    }

    /// INLINE with `value-param`: the expression names one of the inputs.
    fn picked(&self, config: &Value) -> Result<Value, Failure> {
        match config.get("expression") {
            Some(Value::Str(name)) if !name.trim().is_empty() => {
                Ok(map([("result", config.get(&name).unwrap_or(Value::Null))]))
            }
            _ => {
                let message =
                    "Empty 'expression' in Inline task's input parameters. A non-empty String value must be provided.";
                Err(Failure::new("bad_config", message))
            }
        }
    }

    fn jq(&self, config: &Value) -> Result<Value, Failure> {
        let Some(Value::Str(program)) = config.get("queryExpression") else {
            return Err(Failure::new("bad_config", "Missing 'queryExpression' in input parameters"));
        };
        let outputs = transform(&program, config, &self.scope, &mut Budget::default())
            .map_err(|error| Failure::new(error.code, error.message))?;
        let first = outputs.first().cloned().unwrap_or(Value::Null);
        Ok(map([("result", first), ("resultList", Value::list(outputs))]))
    }

    /// The outputs of all that were waited for, by reference name.
    fn joined(&self, config: &Value) -> Value {
        let output = |name: String| {
            let output = self.scope.memory.notes.get(&name)?.output.clone();
            let is_empty = matches!(&output, Value::Map(entries) if entries.is_empty());
            (!is_empty).then_some((name, output))
        };
        Value::map(names(config, "joinOn").into_iter().filter_map(output).collect())
    }

    /// The output of the first that ran; of those for the other case, where none did.
    fn joined_by_one(&self, config: &Value) -> Result<Value, Failure> {
        let notes = &self.scope.memory.notes;
        let all = names(config, "joinOn").into_iter().chain(names(config, "default"));
        let ran = |name: String| notes.get(&name).filter(|note| note.status != "SKIPPED");
        match all.into_iter().find_map(ran) {
            Some(note) => Ok(note.output.clone()),
            None => {
                let message = "none of the tasks of joinOn and defaultExclusiveJoinTask has run";
                Err(Failure::new("nothing_to_join", message))
            }
        }
    }

    fn variables(&self, config: &Value) -> Result<Evaluated, Failure> {
        let mut all = match self.scope.memory.variables.as_ref().unwrap_or(&self.flow.vars) {
            Value::Map(known) => known.as_ref().clone(),
            _ => IndexMap::new(),
        };
        if let Value::Map(given) = config {
            all.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        let bytes = Value::map(all).to_stored().to_string().len();
        if bytes > VARIABLES_BYTES_MAX {
            let message = format!(
                "The variables payload size: {bytes} of workflow: {} is greater than the permissible limit: {} kilobytes",
                self.family.run,
                VARIABLES_BYTES_MAX / 1024
            );
            return Err(Failure::new("too_large", message));
        }
        Ok(Evaluated::Variables(VariableChange::Set(Payload::new(config.to_stored()))))
    }
}

pub(super) fn names(config: &Value, field: &str) -> Vec<String> {
    match config.get(field) {
        Some(Value::List(items)) => items.iter().map(print).collect(),
        _ => Vec::new(),
    }
}

/// TERMINATE: what the run gives.
pub(super) fn workflow_output(config: &Value) -> Value {
    match config.get("workflowOutput") {
        None | Some(Value::Null) => map([]),
        Some(output @ Value::Map(_)) => output,
        Some(other) => map([("output", other)]),
    }
}
