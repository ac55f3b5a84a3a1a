//! Tasks that hold no others, and the choice between lists of them.

use super::lower::{Lowering, literal, output_field, output_of, retry, step, step_of, succeeded};
use super::model::Task;
use semel_core::ir::{Errand, ErrandKind, LeafMode, Task as Step, TaskKind, companion, step_name};
use serde_json::{Map, Value as Json, json};

/// A script of the definition itself, which is not resolved; its input is.
pub fn script(id: String, word: &str, text: &str, input: &Map<String, Json>) -> Step {
    let config = json!({"script": literal(text), "input": input});
    step(id, word, TaskKind::Leaf { mode: LeafMode::Effect, config })
}

pub fn inline(config: Json) -> TaskKind {
    TaskKind::Leaf { mode: LeafMode::Inline, config }
}

pub fn errand(errand: &Errand) -> TaskKind {
    // A record of texts and numbers is always JSON.
    TaskKind::Leaf { mode: LeafMode::Errand, config: serde_json::to_value(errand).unwrap_or(Json::Null) }
}

/// What is told to whoever listens.
fn event(task: &Task) -> TaskKind {
    let sink = task.sink.clone().unwrap_or_default();
    let config = json!({"sink": &sink, "reference": literal(&task.reference), "payload": task.input});
    // What goes outside is sent when the intent of it is durable; what stays here is a row beside the end of the task.
    let mode = if sink.trim().starts_with("nats:") { LeafMode::Effect } else { LeafMode::Op };
    TaskKind::Leaf { mode, config }
}

fn errand_of(task: &Task, kind: ErrandKind, queue: String) -> Errand {
    let text = |name: &str| {
        let found = task.input.get(name).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
        found.filter(|_| kind == ErrandKind::Wait).map(str::to_owned)
    };
    let matches = task.input.get("matches").filter(|_| kind == ErrandKind::Webhook);
    Errand {
        kind,
        queue,
        input: task.whole_input(),
        duration: text("duration"),
        until: text("until"),
        matches: matches.cloned().unwrap_or(Json::Null),
        task_definition: task.task_definition.clone(),
        retry_count: task.retry_count,
        retry_count_from: None,
        output: Json::Null,
    }
}

/// A WAIT that only a signal ends: whatever its input says of times is input.
fn yielding(task: &Task) -> Errand {
    Errand { duration: None, until: None, ..errand_of(task, ErrandKind::Wait, "YIELD".to_owned()) }
}

impl Lowering<'_> {
    pub fn leaf(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let input = || task.whole_input();
        let effect = |config: Json| TaskKind::Leaf { mode: LeafMode::Effect, config };
        let kind = match task.kind.as_str() {
            "SIMPLE" => errand(&errand_of(task, ErrandKind::Simple, literal(&task.name))),
            "DYNAMIC" => errand(&errand_of(task, ErrandKind::Simple, self.dynamic_name(task))),
            "WAIT" => errand(&errand_of(task, ErrandKind::Wait, "WAIT".to_owned())),
            "YIELD" => errand(&yielding(task)),
            "HUMAN" => errand(&errand_of(task, ErrandKind::Human, "HUMAN".to_owned())),
            "WAIT_FOR_WEBHOOK" => errand(&errand_of(task, ErrandKind::Webhook, "WAIT_FOR_WEBHOOK".to_owned())),
            "PULL_WORKFLOW_MESSAGES" => {
                errand(&errand_of(task, ErrandKind::Messages, "PULL_WORKFLOW_MESSAGES".to_owned()))
            }
            "HTTP" | "KAFKA_PUBLISH" | "EVENT" if task.async_complete => return self.answered_later(task, steps),
            "HTTP" | "KAFKA_PUBLISH" => effect(self.request_config(task)),
            "EVENT" => event(task),
            "UPDATE_TASK" => TaskKind::Leaf { mode: LeafMode::Op, config: input() },
            "INLINE" => {
                let mut config = task.input.clone();
                for (name, own) in [("evaluatorType", &task.evaluator_type), ("expression", &task.expression)] {
                    if let Some(own) = own {
                        config.entry(name).or_insert_with(|| Json::String(own.clone()));
                    }
                }
                let picks = config.get("evaluatorType").and_then(Json::as_str) == Some("value-param");
                if picks { inline(Json::Object(config)) } else { effect(Json::Object(config)) }
            }
            "LAMBDA" => {
                let mut config = task.input.clone();
                let own = task.script_expression.clone().map(Json::String);
                let text = own.or_else(|| config.get("scriptExpression").cloned()).unwrap_or(Json::Null);
                config.insert("expression".to_owned(), text);
                effect(Json::Object(config))
            }
            "JOIN" => inline(json!({"joinOn": literals(&task.join_on)})),
            "EXCLUSIVE_JOIN" => {
                inline(json!({"joinOn": literals(&task.join_on), "default": literals(&task.default_exclusive_join)}))
            }
            "TERMINATE" => {
                steps.push(step_of(task, inline(input())));
                let status = task.input.get("terminationStatus").and_then(Json::as_str).unwrap_or_default();
                let id = companion(&step_name(&task.reference), "exit");
                steps.push(step(id, "EXIT", TaskKind::Exit { state: status.to_owned() }));
                return;
            }
            // SET_VARIABLE, JSON_JQ_TRANSFORM, GET_WORKFLOW and NOOP: whatever else there might be was refused before.
            _ => inline(input()),
        };
        steps.push(Step { retry: self.own_retry(task, &kind), ..step_of(task, kind) });
    }

    /// Errands are tried again by their task definition, which is read when they start.
    fn own_retry(&self, task: &Task, kind: &TaskKind) -> Option<semel_core::ir::Retry> {
        match kind {
            TaskKind::Leaf { mode: LeafMode::Errand, .. } => None,
            _ => retry(task),
        }
    }

    fn dynamic_name(&mut self, task: &Task) -> String {
        let param = task.dynamic_task_name_param.as_deref().unwrap_or_default();
        match task.input.get(param) {
            Some(Json::String(template)) => template.clone(),
            _ => {
                let message = format!(
                    "Cannot map a dynamic task based on the parameter and input. Parameter= {param}: inputParameters has no text of that name"
                );
                self.say(format!("{}.dynamicTaskNameParam", task.path), message);
                String::new()
            }
        }
    }

    pub fn request_config(&mut self, task: &Task) -> Json {
        if task.input_expression.is_some() {
            return task.whole_input();
        }
        let mut config = task.input.clone();
        for (name, value) in task.task_definition["inputTemplate"].as_object().into_iter().flatten() {
            config.entry(name).or_insert_with(|| value.clone());
        }
        Json::Object(config)
    }

    /// The call is made, and then somebody says what came of it.
    fn answered_later(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let own = step_name(&task.reference);
        let call = companion(&own, "call");
        let kind = match task.kind.as_str() {
            "EVENT" => event(task),
            _ => TaskKind::Leaf { mode: LeafMode::Effect, config: self.request_config(task) },
        };
        let allow_failure = task.optional;
        steps.push(Step { retry: retry(task), allow_failure, ..step(call.clone(), &task.kind, kind) });
        let waits = Errand {
            output: Json::String(output_of(&call)),
            ..errand_of(task, ErrandKind::Callback, literal(&task.name))
        };
        // Nobody is waited for where an optional call has failed.
        let run_if = task.optional.then(|| succeeded(&call));
        steps.push(Step { run_if, ..step_of(task, errand(&waits)) });
    }

    pub fn switch(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let own = step_name(&task.reference);
        let decides = task.kind == "DECISION";
        let script_text = match (decides, task.evaluator_type.as_deref()) {
            (true, _) => task.case_expression.as_deref().filter(|text| !text.trim().is_empty()),
            (false, Some("javascript" | "graaljs")) => task.expression.as_deref(),
            (false, _) => None,
        };
        let mut run_if = None;
        let value = match script_text {
            Some(text) => {
                let id = companion(&own, "script");
                let result = output_field(&id, "result");
                run_if = task.optional.then(|| succeeded(&id));
                let script = script(id, "SCRIPT", text, &task.input);
                steps.push(Step { allow_failure: task.optional, ..script });
                result
            }
            None => {
                let param = if decides { &task.case_value_param } else { &task.expression };
                match task.input.get(param.as_deref().unwrap_or_default()) {
                    Some(Json::String(template)) => template.clone(),
                    None | Some(Json::Null) => "null".to_owned(),
                    Some(other) => literal(&other.to_string()),
                }
            }
        };
        let mut cases = indexmap::IndexMap::new();
        for (case, list) in task.decision_cases.iter().flatten() {
            // A DECISION takes an empty case for none; a SWITCH does not.
            if !(decides && list.is_empty()) {
                cases.insert(case.clone(), self.list(list));
            }
        }
        let defaults = Some(self.list(&task.default_case));
        let kind = TaskKind::Switch { value, cases, defaults, errors: Vec::new(), finally: Vec::new() };
        steps.push(Step { run_if, ..step_of(task, kind) });
    }
}

pub fn literals(names: &[String]) -> Vec<String> {
    names.iter().map(|name| literal(name)).collect()
}
