//! DO_WHILE and HTTP_POLL.

use super::leaves::script;
use super::lower::{Lowering, output_field, output_of, retry, step, step_of};
use super::model::Task;
use semel_core::ir::{DoWhile, Group, Growth, LeafMode, Task as Step, TaskKind, UntilSpec, companion, step_name};
use semel_expr::conductor::is_expression;
use serde_json::{Map, Value as Json, json};

/// Between two polls, where nothing else is said.
const POLLING_SECONDS: u64 = 60;

fn until(condition: String, interval: String, do_while: Option<DoWhile>, tasks: Vec<Step>) -> UntilSpec {
    UntilSpec {
        condition,
        interval,
        growth: None,
        max_iterations: None,
        max_duration: None,
        fail_on_max: Json::Bool(false),
        do_while,
        group: Group { tasks, ..Group::default() },
    }
}

impl Lowering<'_> {
    /// Its condition is a script, which is the last task of each round: what it found is there when the loop asks.
    pub fn do_while(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let own = step_name(&task.reference);
        let mut tasks = self.list(&task.loop_over);
        let mut condition = String::new();
        let text = task.loop_condition.as_deref().filter(|text| !text.trim().is_empty());
        if let Some(text) = text {
            let id = companion(&own, "condition");
            condition = output_field(&id, "stop");
            tasks.push(script(id, "LOOP_CONDITION", text, &seen_by_condition(task)));
        }
        let items = task.items.clone().filter(|items| !items.trim().is_empty()).map(Json::String);
        let items = items.or_else(|| task.input.get("_items").filter(|items| !items.is_null()).cloned());
        let keep_last = task.input.get("keepLastN").and_then(Json::as_u64);
        let keep_last = keep_last.map(|keep| u32::try_from(keep).unwrap_or(u32::MAX));
        let spec = until(condition, "PT0S".to_owned(), Some(DoWhile { items, keep_last }), tasks);
        steps.push(step_of(task, TaskKind::LoopUntil(spec)));
    }

    /// Calls until a script says that it is enough. The call is the task; the loop around it is not shown.
    pub fn http_poll(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let own = step_name(&task.reference);
        let request = task.input.get("http_request").and_then(Json::as_object).unwrap_or(&task.input);
        let path = format!("{}.inputParameters", task.path);
        let growth = match request.get("pollingStrategy").map(|word| word.as_str().unwrap_or_default()) {
            None | Some("FIXED") => None,
            Some("LINEAR_BACKOFF") => Some(Growth::Linear),
            Some("EXPONENTIAL_BACKOFF") => Some(Growth::Exponential),
            Some(word) => {
                let message =
                    format!("`{word}` is not a pollingStrategy: FIXED, LINEAR_BACKOFF or EXPONENTIAL_BACKOFF");
                self.say(format!("{path}.pollingStrategy"), message);
                None
            }
        };
        let seconds = match request.get("pollingInterval") {
            None | Some(Json::Null) => POLLING_SECONDS,
            Some(Json::Number(number)) => number.as_u64().unwrap_or(POLLING_SECONDS),
            Some(Json::String(text)) if !is_expression(text) => text.trim().parse().unwrap_or(POLLING_SECONDS),
            Some(_) => {
                self.say(format!("{path}.pollingInterval"), "pollingInterval must be a number of seconds");
                POLLING_SECONDS
            }
        };
        let Some(text) = request.get("terminationCondition").and_then(Json::as_str) else {
            self.say(
                format!("{path}.terminationCondition"),
                format!("terminationCondition field is required for taskType: HTTP_POLL taskName: {}", task.name),
            );
            return;
        };
        let kind = TaskKind::Leaf { mode: LeafMode::Effect, config: self.request_config(task) };
        let call = Step { retry: retry(task), ..step_of(task, kind) };
        let id = companion(&own, "condition");
        let condition = output_field(&id, "stop");
        let input = Map::from_iter([("output".to_owned(), Json::String(output_of(&task.reference)))]);
        let mut enough = script(id, "LOOP_CONDITION", text, &input);
        if let TaskKind::Leaf { config, .. } = &mut enough.kind {
            config["until"] = json!(true);
        }
        let interval = format!("PT{seconds}S");
        let around = UntilSpec { growth, ..until(condition, interval, None, vec![call, enough]) };
        steps.push(step(companion(&own, "poll"), "POLL", TaskKind::LoopUntil(around)));
    }
}

/// The loop's own input, its output so far, and the outputs of all tasks inside it.
fn seen_by_condition(task: &Task) -> Map<String, Json> {
    let mut input = task.input.clone();
    for name in ["_items", "keepLastN"] {
        input.remove(name);
    }
    let mut inside = Vec::new();
    task.each(&mut |one| inside.push(one.reference.clone()));
    for reference in inside {
        input.insert(reference.clone(), Json::String(output_of(&reference)));
    }
    if task.items.is_some() || task.input.contains_key("_items") {
        for name in ["loopIndex", "loopItem"] {
            input.insert(name.to_owned(), Json::String(output_field(&task.reference, name)));
        }
    }
    input
}
