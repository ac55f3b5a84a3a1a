//! `retry:` of a task or of the flow.

use super::Context;
use super::fields::{Fields, Names};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use semel_core::ir::{Retry, RetrySchedule};

const COMMON: &[&str] = &["type", "maxAttempts", "maxAttempt", "maxDuration", "warningOnRetry", "behavior"];
const TYPES: &[&str] = &["constant", "exponential", "random"];

impl<'a> Context<'a> {
    pub fn retry(&mut self, node: &'a Node) -> Option<Retry> {
        // The type decides which other fields there are, so it is read first.
        let raw = self.map(node, "`retry`")?;
        let type_node = self.required(&raw, "`retry`", "type")?;
        let kind = self.word(type_node, "retry.type", TYPES)?;
        let own: &[&str] = match kind {
            "constant" => &["interval"],
            "exponential" => &["interval", "maxInterval", "delayFactor"],
            _ => &["minInterval", "maxInterval"],
        };
        let what = format!("{} {kind} retry", if kind == "exponential" { "an" } else { "a" });
        let fields = self.fields(node, Names { what: &what, allowed: &[own, COMMON], not_built: &[] })?;
        let schedule = match kind {
            "constant" => {
                self.interval(&fields, &what, "interval").map(|interval_ms| RetrySchedule::Constant { interval_ms })
            }
            "exponential" => self.exponential(&fields, &what),
            _ => self.random(&fields, &what),
        };
        let behavior = fields.get("behavior");
        let behavior =
            behavior.and_then(|node| self.word(node, "behavior", &["RETRY_FAILED_TASK", "CREATE_NEW_EXECUTION"]));
        let max_attempts = self.max_attempts(&fields);
        let max_duration_ms = fields.get("maxDuration").and_then(|node| self.positive_duration(node, "maxDuration"));
        let warning_on_retry =
            fields.get("warningOnRetry").and_then(|node| self.bool(node, "warningOnRetry")).unwrap_or(false);
        let new_execution = behavior == Some("CREATE_NEW_EXECUTION");
        Some(Retry { schedule: schedule?, max_attempts, max_duration_ms, warning_on_retry, new_execution })
    }

    fn interval(&mut self, fields: &Fields<'a>, what: &str, name: &str) -> Option<i64> {
        let node = self.required(fields, what, name)?;
        self.duration(node, name)
    }

    fn exponential(&mut self, fields: &Fields<'a>, what: &str) -> Option<RetrySchedule> {
        let interval_ms = self.interval(fields, what, "interval");
        let max_interval_ms = self.interval(fields, what, "maxInterval");
        let factor = match fields.get("delayFactor") {
            None => 2.0,
            Some(node) => match node.to_json().as_f64().filter(|factor| (1.0..=1_000.0).contains(factor)) {
                Some(factor) => factor,
                None => {
                    self.wrong_type(node, "delayFactor", "a number from 1 to 1000");
                    return None;
                }
            },
        };
        let (interval_ms, max_interval_ms) = (interval_ms?, max_interval_ms?);
        self.ordered(fields, "interval", interval_ms, "maxInterval", max_interval_ms);
        Some(RetrySchedule::Exponential { interval_ms, max_interval_ms, factor })
    }

    fn random(&mut self, fields: &Fields<'a>, what: &str) -> Option<RetrySchedule> {
        let min_interval_ms = self.interval(fields, what, "minInterval");
        let max_interval_ms = self.interval(fields, what, "maxInterval");
        let (min_interval_ms, max_interval_ms) = (min_interval_ms?, max_interval_ms?);
        self.ordered(fields, "minInterval", min_interval_ms, "maxInterval", max_interval_ms);
        Some(RetrySchedule::Random { min_interval_ms, max_interval_ms })
    }

    pub fn ordered(&mut self, fields: &Fields<'a>, low: &str, low_ms: i64, high: &str, high_ms: i64) {
        if low_ms > high_ms {
            let at = fields.get(high).map_or_else(|| fields.place(), |node| node.at.clone());
            self.error(codes::BAD_VALUE, &at, format!("`{high}` is shorter than `{low}`"));
        }
    }

    fn max_attempts(&mut self, fields: &Fields<'a>) -> Option<u32> {
        if fields.get("maxAttempts").is_some() && fields.get("maxAttempt").is_some() {
            let finding = Finding::error(
                codes::CONFLICT,
                fields.key_at("maxAttempt"),
                "`maxAttempt` is the old name of `maxAttempts`; give one of them",
            );
            self.report(finding);
        }
        let node = fields.get("maxAttempts").or_else(|| fields.get("maxAttempt"))?;
        self.count(node, "maxAttempts", 1, self.limits.retries_max)
    }
}
