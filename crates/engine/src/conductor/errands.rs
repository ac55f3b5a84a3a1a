//! Tasks that someone outside carries out: what they are given, and how long is too long.
//!
//! A task definition may change while a run is under way. What counts for a step is what it said when the step began, and
//! that is journaled with it.

use crate::evaluate::Evaluator;
use indexmap::IndexMap;
use semel_core::ir::{Errand, ErrandKind, Retry, RetrySchedule};
use semel_core::run::{ErrandTerms, Evaluated, Failure, Payload, WhenLate};
use semel_core::wait;
use semel_expr::Value;
use semel_store::TASK_DEFINITIONS;
use serde::Deserialize;
use serde_json::Value as Json;

/// What counts of a task definition here. Conductor's own defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Definition {
    retry_count: u32,
    retry_logic: String,
    retry_delay_seconds: u32,
    backoff_scale_factor: u32,
    max_retry_delay_seconds: u32,
    backoff_jitter_ms: u32,
    timeout_seconds: u32,
    timeout_policy: String,
    response_timeout_seconds: u32,
    poll_timeout_seconds: Option<u32>,
    total_timeout_seconds: u32,
    input_template: Json,
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
        }
    }
}

/// Seconds as milliseconds; 0 is no limit.
fn limit_ms(seconds: u32) -> Option<i64> {
    (seconds > 0).then(|| i64::from(seconds) * 1_000)
}

impl Definition {
    fn retry(&self, count: u32) -> Option<Retry> {
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
    /// `given`: what it is given instead of what its author wrote.
    pub(crate) fn errand(&self, config: &Json, given: Option<&Value>) -> Result<Evaluated, Failure> {
        let errand: Errand = serde_json::from_value(config.clone())
            .map_err(|error| Failure::new("bad_config", format!("the errand does not load: {error}")))?;
        let queue = self.plain_text(&errand.queue, "name")?;
        let definition = self.definition(&errand, &queue)?;
        let mut input = match given {
            Some(given) => given.clone(),
            None => self.json(&errand.input)?,
        };
        fill_in(&mut input, &definition.input_template);
        let wait_ms = self.wait_ms(&errand)?;
        let is_simple = errand.kind == ErrandKind::Simple;
        let terms = ErrandTerms {
            domain: self.domain(&queue).filter(|_| is_simple),
            priority: self.priority(),
            retry: definition.retry(errand.retry_count.unwrap_or(definition.retry_count)).filter(|_| is_simple),
            jitter_ms: Some(i64::from(definition.backoff_jitter_ms)).filter(|ms| *ms > 0),
            delay_ms: None,
            response_ms: limit_ms(definition.response_timeout_seconds).filter(|_| is_simple),
            poll_ms: definition.poll_timeout_seconds.and_then(limit_ms).filter(|_| is_simple),
            attempt_ms: if is_simple { limit_ms(definition.timeout_seconds) } else { wait_ms },
            when_late: match definition.timeout_policy.as_str() {
                "RETRY" => WhenLate::Again,
                "ALERT_ONLY" => WhenLate::Ignore,
                _ => WhenLate::EndRun,
            },
            kind: errand.kind,
            queue,
        };
        Ok(Evaluated::Errand { terms: Box::new(terms), request: Payload::new(input.to_stored()) })
    }

    /// The definition that came with the workflow, else the registered one, else Conductor's defaults.
    fn definition(&self, errand: &Errand, name: &str) -> Result<Definition, Failure> {
        let stored = match &errand.task_definition {
            Json::Null => {
                let row = self.services.store.kv(self.workspace, TASK_DEFINITIONS, name).map_err(|error| {
                    crate::away::note(&error);
                    Failure::new("store", error.to_string())
                })?;
                row.map_or(Json::Null, |row| row.value)
            }
            own => own.clone(),
        };
        if stored.is_null() {
            return Ok(Definition::default());
        }
        let wrong = |error: serde_json::Error| {
            Failure::new("bad_config", format!("the definition of task `{name}` cannot be used: {error}"))
        };
        serde_json::from_value(without_nulls(stored)).map_err(wrong)
    }

    fn wait_ms(&self, errand: &Errand) -> Result<Option<i64>, Failure> {
        let wrong = |what: &str, text: &str, like: &str| {
            Failure::new("bad_config", format!("`{what}: {text}` of a WAIT is not a time such as `{like}`"))
        };
        match (&errand.duration, &errand.until) {
            (Some(_), Some(_)) => Err(Failure::new("bad_config", "a WAIT has `duration` or `until`, not both")),
            (Some(template), None) => {
                let text = self.plain_text(template, "duration")?;
                wait::duration_ms(&text).map(Some).ok_or_else(|| wrong("duration", &text, "2 days 5 minutes"))
            }
            (None, Some(template)) => {
                let text = self.plain_text(template, "until")?;
                let at = wait::until(&text).ok_or_else(|| wrong("until", &text, "2026-05-01 08:00 UTC"))?;
                Ok(Some(at.since(self.now).max(0)))
            }
            (None, None) => Ok(None),
        }
    }

    fn started_with(&self, name: &str) -> Option<Value> {
        self.scope.memory.trigger.get(name)
    }

    fn priority(&self) -> u8 {
        let given = self.started_with("priority").and_then(|value| value.to_plain_json()?.as_u64());
        given.map_or(0, |priority| u8::try_from(priority.min(99)).unwrap_or(99))
    }

    /// The first of the domains that the run was started with for this task, or for all.
    fn domain(&self, task: &str) -> Option<String> {
        let domains = self.started_with("taskToDomain")?.to_plain_json()?;
        let named = domains.get(task).or_else(|| domains.get("*"))?.as_str()?;
        let first = named.split(',').map(str::trim).find(|name| !name.is_empty())?;
        (first != "NO_DOMAIN").then(|| first.to_owned())
    }
}

/// Inputs that are absent or null are those of the definition.
fn fill_in(input: &mut Value, template: &Json) {
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
