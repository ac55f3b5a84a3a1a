//! PULL_WORKFLOW_MESSAGES: a task takes what was left for its workflow, or waits for the first.
//!
//! Messages stand in the journal of the run, and so does what was taken of them: each is taken by one task, whoever dies.

use super::errands::errand_of;
use crate::evaluate::Evaluator;
use semel_core::run::{Evaluated, Failure, Payload};
use semel_expr::Value;
use serde_json::{Value as Json, json};

pub(crate) const PULL: &str = "conductor.PULL_WORKFLOW_MESSAGES";
/// What one task takes at most.
const BATCH_MAX: u64 = 100;

/// What a task gives that has taken these.
pub(crate) fn pulled(messages: &[Json]) -> Json {
    json!({"messages": messages, "count": messages.len()})
}

impl Evaluator<'_> {
    pub(crate) fn pull(&self, config: &Json) -> Result<Evaluated, Failure> {
        let errand = errand_of(config)?;
        let input = self.json(&errand.input)?;
        let given = input.to_masked_json();
        let batch = given["batchSize"].as_f64().map_or(1, |size| size.max(1.0) as u64).min(BATCH_MAX);
        let waits = given["blocking"].as_bool().unwrap_or(true);
        let memory = &self.scope.memory;
        let taken: Vec<Json> = memory.messages.iter().take(batch as usize).filter_map(Value::to_plain_json).collect();
        if taken.is_empty() && waits {
            return self.errand_for(&errand, "PULL_WORKFLOW_MESSAGES".to_owned(), input, (None, None));
        }
        let count = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        let output = Payload::new(Value::from_json(&pulled(&taken)).to_stored());
        Ok(Evaluated::Messages { from: memory.messages_taken, count, output })
    }
}
