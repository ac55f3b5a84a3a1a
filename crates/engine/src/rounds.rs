//! Loops that are evaluated again after their rounds.

use crate::evaluate::{Evaluator, Found};
use semel_core::ir::{LoopSpec, UntilSpec};
use semel_core::run::{Evaluated, Failure, GroupState, Payload, Step, StepKey, Work};
use semel_expr::Value;
use semel_tasks::{Level, LogLine};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// A list that the author gives no values for.
fn not_values() -> Failure {
    Failure::new("not_a_list", "`values` must give a list, a map, or the JSON text of one")
}

impl Evaluator<'_> {
    /// After a round: is there another?
    pub(crate) fn round_again(&self, key: &StepKey, spec: &UntilSpec, found: &mut Found) -> Result<Evaluated, Failure> {
        let count = match self.work(key) {
            Some(Work::Group(GroupState { count: Some(count), .. })) => *count,
            _ => 1,
        };
        let output = Some(Payload::new(json!({ "iterationCount": count })));
        if self.text(&spec.condition)?.is_truthy_text() {
            return Ok(Evaluated::Answered { output, failure: None, stop: false });
        }
        let Some(bound) = self.bound_reached(key, spec, count)? else {
            let first_ms = self.duration(&spec.interval, "interval")?;
            return Ok(Evaluated::Again { ms: spec.growth.map_or(first_ms, |growth| growth.wait_ms(first_ms, count)) });
        };
        found.logs.push(LogLine { level: Level::Warn, message: bound.to_owned() });
        let fails = match &spec.fail_on_max {
            Json::String(template) => self.text(template)?.is_truthy_text(),
            other => other.as_bool() == Some(true),
        };
        let failure = fails.then(|| Failure::new("max_reached", bound));
        Ok(Evaluated::Answered { output, failure, stop: false })
    }

    fn bound_reached(&self, key: &StepKey, spec: &UntilSpec, count: u32) -> Result<Option<&'static str>, Failure> {
        if let Some(most) = &spec.max_iterations {
            let text = self.json(most)?.to_text();
            let most: u32 = text
                .trim()
                .parse()
                .map_err(|_| Failure::new("bad_number", "`maxIterations` must give a whole number, one at least"))?;
            if count >= most {
                return Ok(Some("Max iterations reached"));
            }
        }
        if let Some(most) = &spec.max_duration {
            let most = self.duration(most, "maxDuration")?;
            let begun = self.scope.run.and_then(|run| run.state.steps.get(key)).and_then(|step: &Step| step.first_at);
            if begun.is_some_and(|begun| self.now.since(begun) >= most) {
                return Ok(Some("Max duration reached"));
            }
        }
        Ok(None)
    }

    /// What a loop of its own goes over: values as text, and keys where it is a map.
    pub(crate) fn own_items(&self, values: &Json) -> Result<Evaluated, Failure> {
        let found = match self.json(values)? {
            Value::Str(text) => Value::from_json(&serde_json::from_str::<Json>(&text).map_err(|_| not_values())?),
            other => other,
        };
        let items: Vec<Value> = match &found {
            Value::List(items) => items.iter().map(|item| entry(None, item)).collect(),
            Value::Map(map) => map.iter().map(|(key, item)| entry(Some(key), item)).collect(),
            _ => return Err(not_values()),
        };
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Ok(Evaluated::items(count, Payload::new(Value::list(items).to_stored())))
    }

    /// What a round shows of itself, and whether it was the last one.
    pub(crate) fn round(&self, spec: &LoopSpec) -> Result<Evaluated, Failure> {
        let mut shown = Map::new();
        for output in &spec.outputs {
            shown.insert(output.id.clone(), self.json(&output.value)?.to_stored());
        }
        let stop = match &spec.break_when {
            Some(condition) => self.text(condition)?.is_truthy_text(),
            None => false,
        };
        let output = (!spec.outputs.is_empty()).then(|| Payload::new(Json::Object(shown)));
        Ok(Evaluated::Answered { output, failure: None, stop })
    }

    /// What the loop shows of its rounds.
    pub(crate) fn rounds(&self, key: &StepKey) -> Evaluated {
        let memory = self.scope.memory;
        let rounds = memory.rounds.get(key).cloned().unwrap_or_default();
        let item = |n: u32| {
            let item = memory.loops.get(key).and_then(|items| items.get(n as usize)).cloned();
            let mut shown = item.map_or(Json::Null, |item| item.to_stored());
            if let Json::Object(map) = &mut shown {
                map.insert("iteration".to_owned(), json!(n));
            }
            shown
        };
        let outputs: Vec<Json> =
            rounds.outputs.iter().map(|(n, output)| json!({"item": item(*n), "outputs": output})).collect();
        let mut ended: BTreeMap<&str, u32> = BTreeMap::new();
        for state in rounds.ended.values() {
            *ended.entry(state).or_default() += 1;
        }
        let mut output = json!({
            "iterationCount": rounds.ended.len(),
            "runningIterations": 0,
            "terminatedIterations": ended,
        });
        if !outputs.is_empty() {
            output["outputs"] = Json::Array(outputs);
        }
        Evaluated::Answered { output: Some(Payload::new(output)), failure: None, stop: false }
    }
}

fn entry(key: Option<&String>, value: &Value) -> Value {
    let value = match value {
        Value::List(_) | Value::Map(_) => Value::str(value.to_text().as_str()),
        other => other.clone(),
    };
    let mut map = indexmap::IndexMap::from([("value".to_owned(), value)]);
    map.extend(key.map(|key| ("key".to_owned(), Value::str(key.as_str()))));
    Value::map(map)
}
