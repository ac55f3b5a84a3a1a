//! Task definitions: what counts of one, and where it is found.

use super::schemas::schemas_of;
use crate::evaluate::{Evaluator, Found};
use indexmap::IndexMap;
use semel_core::ir::{ConductorTask, FORKED_REFERENCE, Retry, RetrySchedule, Task};
use semel_core::run::Failure;
use semel_expr::Value;
use serde::Deserialize;
use serde_json::Value as Json;

/// What counts of a task definition here. Conductor's own defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Definition {
    pub retry_count: u32,
    pub retry_logic: String,
    pub retry_delay_seconds: u32,
    pub backoff_scale_factor: u32,
    pub max_retry_delay_seconds: u32,
    pub backoff_jitter_ms: u32,
    pub timeout_seconds: u32,
    pub timeout_policy: String,
    pub response_timeout_seconds: u32,
    pub poll_timeout_seconds: Option<u32>,
    pub total_timeout_seconds: u32,
    pub input_template: Json,
    pub input_schema: Json,
    pub output_schema: Json,
    pub enforce_schema: bool,
}

impl Default for Definition {
    fn default() -> Definition {
        Definition {
            retry_count: 3,
            retry_logic: "FIXED".to_owned(),
            retry_delay_seconds: 60,
            backoff_scale_factor: 1,
            max_retry_delay_seconds: 0,
            backoff_jitter_ms: 0,
            timeout_seconds: 0,
            timeout_policy: "TIME_OUT_WF".to_owned(),
            response_timeout_seconds: 3_600,
            poll_timeout_seconds: None,
            total_timeout_seconds: 0,
            input_template: Json::Null,
            input_schema: Json::Null,
            output_schema: Json::Null,
            enforce_schema: false,
        }
    }
}

/// Seconds as milliseconds; 0 is no limit.
pub(super) fn limit_ms(seconds: u32) -> Option<i64> {
    (seconds > 0).then(|| i64::from(seconds) * 1_000)
}

impl Definition {
    pub fn retry(&self, count: u32) -> Option<Retry> {
        let interval_ms = i64::from(self.retry_delay_seconds) * 1_000;
        let max_interval_ms = limit_ms(self.max_retry_delay_seconds).unwrap_or(i64::from(i32::MAX) * 1_000);
        let schedule = match self.retry_logic.as_str() {
            "LINEAR_BACKOFF" => {
                let interval_ms = interval_ms * i64::from(self.backoff_scale_factor.max(1));
                RetrySchedule::Linear { interval_ms, max_interval_ms }
            }
            "EXPONENTIAL_BACKOFF" => RetrySchedule::Exponential { interval_ms, max_interval_ms, factor: 2.0 },
            _ => RetrySchedule::Constant { interval_ms: interval_ms.min(max_interval_ms) },
        };
        (count > 0).then(|| Retry {
            schedule,
            max_attempts: Some(count.saturating_add(1)),
            max_duration_ms: limit_ms(self.total_timeout_seconds),
            warning_on_retry: false,
            new_execution: false,
        })
    }
}

impl Evaluator<'_> {
    /// The definition that came with the workflow, else the registered one. That of a task which a dynamic fork has made
    /// is an expression.
    pub(crate) fn definition(&self, own: &Json, name: &str) -> Result<Option<Definition>, Failure> {
        let given = match own {
            Json::String(_) => self.json(own)?.to_plain_json().unwrap_or(Json::Null),
            own => own.clone(),
        };
        let stored = match &given {
            Json::Null => {
                let found = self.services.task_definition(self.workspace, name).map_err(|error| {
                    crate::away::note(&error);
                    Failure::new("store", error.to_string())
                })?;
                found.map_or(Json::Null, |found| (*found).clone())
            }
            own => own.clone(),
        };
        if stored.is_null() {
            return Ok(None);
        }
        let wrong = |error: serde_json::Error| {
            Failure::new("bad_config", format!("the definition of task `{name}` cannot be used: {error}"))
        };
        serde_json::from_value(without_nulls(stored)).map(Some).map_err(wrong)
    }

    /// The registered definition of a task that the server carries out itself, where none came with it.
    pub(crate) fn registered(&self, task: &Task) -> Result<Option<Definition>, Failure> {
        let Some(own) = task.conductor.as_deref().filter(|own| !own.defined) else { return Ok(None) };
        let name = match own.reference.as_str() {
            FORKED_REFERENCE => self.plain_text(&own.name, "name")?,
            _ => own.name.clone(),
        };
        self.definition(&Json::Null, &name)
    }
}

impl Evaluator<'_> {
    /// How often a task is tried, by its registered definition.
    pub(crate) fn note_retry(&self, task: &Task, found: &mut Found) -> Result<Option<Definition>, Failure> {
        let definition = self.registered(task)?;
        found.retry = definition.as_ref().and_then(|known| registered_retry(known, task.conductor.as_deref()));
        Ok(definition)
    }

    /// The input of a task that the server carries out, with what its registered definition has for it.
    pub(crate) fn defined_input(&self, task: &Task, config: &Json, found: &mut Found) -> Result<Value, Failure> {
        let definition = self.note_retry(task, found)?;
        let mut input = self.rendered(task, config)?;
        if let Some(definition) = &definition {
            fill_in(&mut input, &definition.input_template);
        }
        let schemas = schemas_of(task, definition.as_ref())?;
        self.hold_input(schemas.input.as_ref(), &input)?;
        Ok(input)
    }
}

/// How often a task is tried by its registered definition; nothing is said where there is none.
pub(crate) fn registered_retry(definition: &Definition, task: Option<&ConductorTask>) -> Option<Box<Retry>> {
    let count = task.and_then(|own| own.retry_count).unwrap_or(definition.retry_count);
    definition.retry(count).map(Box::new)
}

/// Inputs that are absent or null are those of the definition.
pub(crate) fn fill_in(input: &mut Value, template: &Json) {
    let Json::Object(fields) = template else { return };
    let mut filled: IndexMap<String, Value> = match &*input {
        Value::Map(map) => map.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        _ => IndexMap::new(),
    };
    for (name, value) in fields {
        let slot = filled.entry(name.clone()).or_insert(Value::Null);
        if *slot == Value::Null {
            *slot = Value::from_json(value);
        }
    }
    *input = Value::map(filled);
}

/// Clients write out what they do not set.
fn without_nulls(json: Json) -> Json {
    match json {
        Json::Object(fields) => Json::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}
