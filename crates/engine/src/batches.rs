//! `flow.ForEachItem`: the parts of a file, a sub-run for each, and what these gave.

use crate::evaluate::Evaluator;
use crate::files;
use semel_core::files::home;
use semel_core::ir::BatchSpec;
use semel_core::run::{Evaluated, Failure, Payload, StepKey};
use semel_expr::Value;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

impl Evaluator<'_> {
    /// What the sub-runs are made for: the addresses that the task before has listed.
    pub(crate) fn batches(&self, key: &StepKey, spec: &BatchSpec) -> Result<Evaluated, Failure> {
        let beside = key.parent().unwrap_or_default().child(&spec.split);
        let output = self.scope.memory.output_of(&beside, self.flow);
        let Some(Value::Str(list)) = output.and_then(|output| output.get("splits")) else {
            return Err(Failure::new("not_split", format!("`{}` has not listed any parts of a file", spec.split)));
        };
        let text = files::whole(self.services, self.workspace, &list, u64::MAX);
        let text = text.map_err(|message| Failure::new("file_missing", message))?;
        let items: Vec<Value> = String::from_utf8_lossy(&text).lines().map(Value::str).collect();
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Ok(Evaluated::items(count, Payload::new(Value::list(items).to_stored())))
    }

    /// What the task shows of its sub-runs, whatever became of them.
    pub(crate) fn batches_done(&self, key: &StepKey) -> Evaluated {
        let memory = self.scope.memory;
        // Kestra tells these two at any time; nothing is left of them here.
        let mut iterations: BTreeMap<&str, u32> = BTreeMap::from([("CREATED", 0), ("RUNNING", 0)]);
        for state in memory.rounds.get(key).into_iter().flat_map(|rounds| rounds.ended.values()) {
            *iterations.entry(state).or_default() += 1;
        }
        let output = json!({
            "iterations": iterations,
            "numberOfBatches": memory.loops.get(key).map_or(0, |items| items.len()),
            "subflowOutputsBaseUri": self.base(key),
        });
        Evaluated::Answered { output: Some(Payload::new(output)), failure: None, stop: false }
    }

    /// What the sub-runs gave, for the task that makes files of it.
    pub(crate) fn batch_outputs(&self, key: &StepKey, config: &Json) -> Value {
        let beside = key.parent().unwrap_or_default().child(config["items"].as_str().unwrap_or_default());
        let rounds = self.scope.memory.rounds.get(&beside).cloned().unwrap_or_default();
        let rows: Vec<Json> = rounds.outputs.into_iter().map(|(number, row)| json!([number, row])).collect();
        Value::from_stored(&json!({"base": self.base(&beside), "outputs": rows}))
    }

    /// The path under which the files of a step are.
    pub(crate) fn base(&self, key: &StepKey) -> String {
        let step = self.scope.run.map(|run| run.state.step_id(key).hex()).unwrap_or_default();
        format!("{}/tasks/{}/{step}", home(&self.flow.flow_ref, self.family.run), key.task_id())
    }
}
