//! Tasks that someone outside carries out: what they are given, and how long is too long.
//!
//! A task definition may change while a run is under way. What counts for a step is what it said when the step began, and
//! that is journaled with it.

use super::definitions::{fill_in, limit_ms};
use crate::evaluate::Evaluator;
use semel_core::ir::{Errand, ErrandKind};
use semel_core::run::{ErrandTerms, Evaluated, FAILED_FOR_GOOD, Failure, Payload, WhenLate};
use semel_core::wait;
use semel_expr::Value;
use semel_store::ErrandQueue;
use serde_json::Value as Json;

/// The word for the queue that has no domain.
const NO_DOMAIN: &str = "NO_DOMAIN";

impl Evaluator<'_> {
    /// `given`: what it is given instead of what its author wrote.
    pub(crate) fn errand(&self, config: &Json, given: Option<&Value>) -> Result<Evaluated, Failure> {
        let errand = errand_of(config)?;
        let queue = self.plain_text(&errand.queue, "name")?;
        let input = match given {
            Some(given) => given.clone(),
            None => self.json(&errand.input)?,
        };
        let wait = (self.optional_text(&errand.duration)?, self.optional_text(&errand.until)?);
        self.errand_for(&errand, queue, input, wait)
    }

    fn optional_text(&self, template: &Option<String>) -> Result<Option<String>, Failure> {
        template.as_ref().map(|template| self.plain_text(template, "duration or until")).transpose()
    }

    /// An errand whose expressions are evaluated; `wait` is how long, or until when.
    pub(crate) fn errand_for(
        &self,
        errand: &Errand,
        queue: String,
        mut input: Value,
        wait: (Option<String>, Option<String>),
    ) -> Result<Evaluated, Failure> {
        let definition = self.definition(&errand.task_definition, &queue)?.unwrap_or_default();
        fill_in(&mut input, &definition.input_template);
        let schemas = definition.schemas()?;
        self.hold_input(schemas.input.as_ref(), &input)?;
        let wait_ms = self.wait_ms(wait)?;
        let is_simple = errand.kind == ErrandKind::Simple;
        let count = match &errand.retry_count_from {
            Some(template) => {
                self.json(&Json::String(template.clone()))?.to_plain_json().and_then(|count| count.as_u64())
            }
            None => errand.retry_count.map(u64::from),
        };
        let count = count.map_or(definition.retry_count, |count| u32::try_from(count).unwrap_or(u32::MAX));
        let terms = ErrandTerms {
            domain: if is_simple { self.domain(&queue)? } else { None },
            priority: self.priority(),
            retry: definition.retry(count).filter(|_| is_simple),
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
            output_schema: self.schema_data(schemas.output.as_ref())?,
            kind: errand.kind,
            queue,
        };
        Ok(Evaluated::Errand { terms: Box::new(terms), request: Payload::new(input.to_stored()) })
    }

    fn wait_ms(&self, wait: (Option<String>, Option<String>)) -> Result<Option<i64>, Failure> {
        let wrong = |what: &str, text: &str, like: &str| {
            Failure::new("bad_config", format!("`{what}: {text}` of a WAIT is not a time such as `{like}`"))
        };
        match wait {
            (Some(_), Some(_)) => {
                let text = "Both 'duration' and 'until' specified. Please provide only one input";
                Err(Failure::new(FAILED_FOR_GOOD, text))
            }
            (Some(text), None) => {
                wait::duration_ms(&text).map(Some).ok_or_else(|| wrong("duration", &text, "2 days 5 minutes"))
            }
            (None, Some(text)) => {
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

    /// The domain that the run was started with for this task, or for all. Of several the first one counts that
    /// somebody tends; if nobody does, the last one, which may say that there is none.
    fn domain(&self, task: &str) -> Result<Option<String>, Failure> {
        let Some(domains) = self.started_with("taskToDomain").and_then(|domains| domains.to_plain_json()) else {
            return Ok(None);
        };
        let named = domains.get(task).or_else(|| domains.get("*")).and_then(Json::as_str).unwrap_or_default();
        let names: Vec<&str> = named.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let Some((last, before)) = names.split_last() else { return Ok(None) };
        let is_one = |name: &&&str| !name.eq_ignore_ascii_case(NO_DOMAIN);
        for name in before.iter().filter(is_one) {
            let from = ErrandQueue { queue: task.to_owned(), domain: (*name).to_owned() };
            let tended = self.services.is_tended(self.workspace, &from, self.now).map_err(|error| {
                crate::away::note(&error);
                Failure::new("store", error.to_string())
            })?;
            if tended {
                return Ok(Some(from.domain));
            }
        }
        Ok(Some(last).filter(is_one).map(|name| (*name).to_owned()))
    }
}

pub(super) fn errand_of(config: &Json) -> Result<Errand, Failure> {
    serde_json::from_value(config.clone())
        .map_err(|error| Failure::new("bad_config", format!("the errand does not load: {error}")))
}
