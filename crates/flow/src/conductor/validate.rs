//! Conductor's rules about a definition, in its words, and what this build does not have, in ours.

use super::model::{Task, Workflow};
use super::{References, Violation};
use semel_core::limits::Limits;
use semel_core::subject::publishable;
use semel_core::wait;
use semel_expr::conductor::{is_expression, roots};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// Names that are no tasks: values of the server that it tells.
const SYSTEM_NAMES: &[&str] = &["CPEWF_TASK_ID", "NETFLIX_ENV", "NETFLIX_STACK"];

const BUILT: &[&str] = &[
    "SIMPLE",
    "HTTP",
    "HTTP_POLL",
    "INLINE",
    "LAMBDA",
    "JSON_JQ_TRANSFORM",
    "SWITCH",
    "DECISION",
    "DO_WHILE",
    "FORK_JOIN",
    "JOIN",
    "EXCLUSIVE_JOIN",
    "FORK_JOIN_DYNAMIC",
    "SUB_WORKFLOW",
    "START_WORKFLOW",
    "WAIT",
    "YIELD",
    "HUMAN",
    "WAIT_FOR_WEBHOOK",
    "TERMINATE",
    "SET_VARIABLE",
    "DYNAMIC",
    "NOOP",
    "EVENT",
    "UPDATE_TASK",
    "GET_WORKFLOW",
    "PULL_WORKFLOW_MESSAGES",
];

/// Only where the feature of this name is built: it brings a C library along.
const KAFKA: &str = "KAFKA_PUBLISH";

/// Types whose answer can be kept for others. What is computed on the spot is computed each time, which gives the same.
const CACHED: &[&str] = &["SIMPLE", "HTTP", "INLINE", "LAMBDA", "JSON_JQ_TRANSFORM"];

pub fn violations(workflow: &Workflow, limits: &Limits, may_name: References) -> Vec<Violation> {
    let mut check = Check { workflow, may_name, references: BTreeSet::new(), found: Vec::new() };
    check.workflow();
    let mut tasks = Vec::new();
    for task in &workflow.tasks {
        task.each(&mut |task| tasks.push(task));
    }
    let most = limits.yaml_nodes_max;
    if tasks.len() > most {
        check.say("tasks", format!("a workflow may have {most} tasks; this one has {}", tasks.len()));
        return check.found;
    }
    for task in &tasks {
        check.reference(task);
    }
    for task in &tasks {
        check.task(task);
    }
    check.found
}

struct Check<'a> {
    workflow: &'a Workflow,
    may_name: References,
    references: BTreeSet<&'a str>,
    found: Vec<Violation>,
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c.is_whitespace() || "_<>{}#-".contains(c))
}

fn text<'a>(input: &'a Map<String, Json>, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Json::as_str).filter(|text| !text.trim().is_empty())
}

impl<'a> Check<'a> {
    fn say(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.found.push(Violation::new(path, message));
    }

    fn workflow(&mut self) {
        let workflow = self.workflow;
        if workflow.name.is_empty() {
            self.say("name", "WorkflowDef name cannot be null or empty");
        } else if !is_name(&workflow.name) {
            let message = format!(
                "Invalid name '{}'. Allowed characters are alphanumeric, underscores, spaces, hyphens, and special characters like <, >, {{, }}, #",
                workflow.name
            );
            self.say("name", message);
        }
        if workflow.tasks.is_empty() {
            self.say("tasks", "WorkflowTask list cannot be empty");
        }
        if workflow.schema_version != 2 {
            self.say("schemaVersion", "workflowDef schemaVersion: 2 is only supported");
        }
        if let Some((_, 0)) = workflow.rate_limit {
            self.say("rateLimitConfig.concurrentExecLimit", "concurrentExecLimit must be 1 or more");
        }
    }

    fn reference(&mut self, task: &'a Task) {
        if task.name.is_empty() {
            self.say(format!("{}.name", task.path), "WorkflowTask name cannot be empty or null");
        }
        if task.reference.is_empty() {
            let message = "WorkflowTask taskReferenceName name cannot be empty or null";
            self.say(format!("{}.taskReferenceName", task.path), message);
        } else if task.reference == "workflow" {
            let message = "taskReferenceName: workflow means the workflow itself in expressions; take another";
            self.say(format!("{}.taskReferenceName", task.path), message);
        } else if !self.references.insert(&task.reference) {
            let message = format!(
                "taskReferenceName: {} should be unique across tasks for a given workflowDefinition: {}",
                task.reference, self.workflow.name
            );
            self.say(format!("{}.taskReferenceName", task.path), message);
        }
    }

    fn required(&mut self, task: &Task, field: &str, is_there: bool) {
        if !is_there {
            let message = format!("{field} field is required for taskType: {} taskName: {}", task.kind, task.name);
            self.say(task.path.clone(), message);
        }
    }

    fn task(&mut self, task: &Task) {
        let kind = task.kind.as_str();
        if !(BUILT.contains(&kind) || kind == KAFKA && cfg!(feature = "kafka")) {
            let message = match kind {
                KAFKA => "the task type KAFKA_PUBLISH is not in this build of Semel: build it with `--features kafka`, or send to Kafka with an HTTP task, through a REST proxy of it".to_owned(),
                _ => format!("the task type {kind} is not built; there are {}", BUILT.join(", ")),
            };
            self.say(format!("{}.type", task.path), message);
            return;
        }
        if task.cache.is_some() && (!CACHED.contains(&kind) || task.async_complete) {
            let message = format!("cacheConfig is for tasks that ask somebody: {}", CACHED.join(", "));
            self.say(format!("{}.cacheConfig", task.path), message);
        }
        self.inputs(task, &task.input);
        if task.input_expression.is_some() {
            return self.whole_input(task);
        }
        match kind {
            "DECISION" => {
                let has_value = task.case_value_param.is_some() || task.case_expression.is_some();
                self.required(task, "caseValueParam or caseExpression", has_value);
                self.cases(task);
            }
            "SWITCH" => {
                self.required(task, "evaluatorType", task.evaluator_type.is_some());
                self.required(task, "expression", task.evaluator_type.is_none() || task.expression.is_some());
                self.evaluator(task, task.evaluator_type.as_deref(), &format!("{}.evaluatorType", task.path));
                self.cases(task);
            }
            "INLINE" => {
                let own = task.evaluator_type.as_deref().or_else(|| text(&task.input, "evaluatorType"));
                self.evaluator(task, own, &format!("{}.inputParameters.evaluatorType", task.path));
                let has = task.expression.is_some() || task.input.contains_key("expression");
                self.required(task, "inputParameters.expression", has);
            }
            "LAMBDA" => {
                let has = task.script_expression.is_some() || task.input.contains_key("scriptExpression");
                self.required(task, "inputParameters.scriptExpression", has);
            }
            "DO_WHILE" => self.do_while(task),
            "DYNAMIC" => self.required(task, "dynamicTaskNameParam", task.dynamic_task_name_param.is_some()),
            "FORK_JOIN" if task.fork_tasks.as_ref().is_none_or(Vec::is_empty) => {
                let name = &task.name;
                let message =
                    format!("forkTasks should have atleast one task for taskType: FORK_JOIN taskName: {name}");
                self.say(task.path.clone(), message);
            }
            "FORK_JOIN_DYNAMIC" => self.dynamic_fork(task),
            "HTTP" | "HTTP_POLL" => {
                let has = ["http_request", "uri", "method"].iter().any(|name| task.input.contains_key(*name));
                let has = has || task.task_definition["inputTemplate"]["http_request"].is_object();
                self.required(task, "inputParameters.http_request or inputParameters.uri", has);
            }
            KAFKA => {
                let has = task.input.contains_key("kafka_request");
                let has = has || task.task_definition["inputTemplate"]["kafka_request"].is_object();
                self.required(task, "inputParameters.kafka_request", has);
            }
            "JSON_JQ_TRANSFORM" => {
                self.required(task, "inputParameters.queryExpression", task.input.contains_key("queryExpression"));
            }
            "SUB_WORKFLOW" => {
                self.required(task, "subWorkflowParam", task.sub_workflow.is_some());
            }
            "START_WORKFLOW" => {
                self.required(task, "inputParameters.startWorkflow", task.input.contains_key("startWorkflow"));
            }
            "EVENT" => self.sink(task),
            "WAIT" => self.wait(task),
            "TERMINATE" => self.terminate(task),
            "JOIN" | "EXCLUSIVE_JOIN" => self.join(task),
            _ => {}
        }
    }

    /// What is computed as a whole cannot be looked into here.
    fn whole_input(&mut self, task: &Task) {
        let kinds = [
            "SIMPLE",
            "HUMAN",
            "HTTP",
            KAFKA,
            "JSON_JQ_TRANSFORM",
            "SUB_WORKFLOW",
            "SET_VARIABLE",
            "NOOP",
            "GET_WORKFLOW",
            "UPDATE_TASK",
        ];
        if !kinds.contains(&task.kind.as_str()) {
            let message = format!("inputExpression is not built for {}; use inputParameters", task.kind);
            self.say(format!("{}.inputExpression", task.path), message);
        }
        if task.kind == "SUB_WORKFLOW" {
            self.required(task, "subWorkflowParam", task.sub_workflow.is_some());
        }
    }

    fn cases(&mut self, task: &Task) {
        match &task.decision_cases {
            None => self.required(task, "decisionCases", false),
            Some(cases) if cases.is_empty() => {
                let message = format!(
                    "decisionCases should have atleast one task for taskType: {} taskName: {}",
                    task.kind, task.name
                );
                self.say(task.path.clone(), message);
            }
            Some(_) => {}
        }
    }

    fn evaluator(&mut self, task: &Task, word: Option<&str>, path: &str) {
        let known = |word: &str| matches!(word, "value-param" | "javascript" | "graaljs") || is_expression(word);
        if let Some(word) = word.filter(|word| !known(word)) {
            let message =
                format!("Unknown evaluator '{word}' in {} task. There are value-param and javascript", task.kind);
            self.say(path, message);
        }
    }

    fn do_while(&mut self, task: &Task) {
        let over_items = task.items.is_some() || task.input.contains_key("_items");
        self.required(task, "loopCondition", task.loop_condition.is_some() || over_items);
        self.required(task, "loopOver", !task.loop_over.is_empty());
        let keep = task.input.get("keepLastN");
        if keep.is_some_and(|keep| keep.as_u64().is_none_or(|keep| keep == 0)) {
            self.say(format!("{}.inputParameters.keepLastN", task.path), "keepLastN must be a number, 1 or more");
        }
    }

    fn dynamic_fork(&mut self, task: &Task) {
        if task.input.contains_key("forkTaskInputs") {
            return;
        }
        let two = task.dynamic_fork_tasks_param.is_some() || task.dynamic_fork_tasks_input_param.is_some();
        if task.dynamic_fork_join_tasks_param.is_some() {
            if two {
                let message = format!(
                    "dynamicForkJoinTasksParam or combination of dynamicForkTasksInputParamName and dynamicForkTasksParam cam be used for taskType: {} taskName: {}",
                    task.kind, task.name
                );
                self.say(task.path.clone(), message);
            }
            return;
        }
        self.required(task, "dynamicForkTasksParam", task.dynamic_fork_tasks_param.is_some());
        self.required(task, "dynamicForkTasksInputParamName", task.dynamic_fork_tasks_input_param.is_some());
    }

    fn sink(&mut self, task: &Task) {
        let sink = task.sink.as_deref().unwrap_or_default().trim();
        self.required(task, "sink", !sink.is_empty());
        let own = sink == "conductor" || sink.starts_with("conductor:") || sink.starts_with("nats:");
        if !(sink.is_empty() || own || is_expression(sink)) {
            let message = format!(
                "`{sink}`: there are the sinks `conductor`, `conductor:name` and `nats:subject`; other queues outside (kafka:, sqs:, amqp:) are not built, send to them with an HTTP task"
            );
            self.say(format!("{}.sink", task.path), message);
        }
        if let Some(subject) = sink.strip_prefix("nats:").filter(|_| !is_expression(sink))
            && let Err(message) = publishable(subject)
        {
            self.say(format!("{}.sink", task.path), message);
        }
    }

    fn wait(&mut self, task: &Task) {
        let (duration, until) = (text(&task.input, "duration"), text(&task.input, "until"));
        if duration.is_some() && until.is_some() {
            let message = "Both 'duration' and 'until' specified. Please provide only one input";
            self.say(task.path.clone(), message);
        }
        if let Some(text) = duration.filter(|text| !is_expression(text) && wait::duration_ms(text).is_none()) {
            let message = format!("Not valid duration: {text}");
            self.say(format!("{}.inputParameters.duration", task.path), message);
        }
        if let Some(text) = until.filter(|text| !is_expression(text) && wait::until(text).is_none()) {
            let message = format!("Unable to parse date {text}");
            self.say(format!("{}.inputParameters.until", task.path), message);
        }
    }

    fn terminate(&mut self, task: &Task) {
        if task.optional {
            self.say(task.path.clone(), format!("terminate task cannot be optional, taskName: {}", task.name));
        }
        let status = text(&task.input, "terminationStatus");
        let known = |word: &str| matches!(word, "COMPLETED" | "FAILED" | "TERMINATED") || is_expression(word);
        if !status.is_some_and(known) {
            let message = format!(
                "terminate task must have an terminationStatus parameter and must be set to COMPLETED or FAILED, taskName: {}",
                task.name
            );
            self.say(task.path.clone(), message);
        }
    }

    fn join(&mut self, task: &Task) {
        for (field, names) in [("joinOn", &task.join_on), ("defaultExclusiveJoinTask", &task.default_exclusive_join)] {
            for name in names {
                if !self.references.contains(name.as_str()) {
                    let message =
                        format!("taskReferenceName: {name} of {field} is not defined in workflow definition.");
                    self.say(format!("{}.{field}", task.path), message);
                }
            }
        }
    }

    /// Expressions that name a task which is not there. A name that is computed is not looked at.
    fn inputs(&mut self, task: &Task, input: &Map<String, Json>) {
        for (key, value) in input {
            self.input(task, key, value);
        }
    }

    fn input(&mut self, task: &Task, key: &str, value: &Json) {
        match value {
            Json::String(text) => {
                for root in roots(text) {
                    let known = self.may_name == References::Any
                        || root == "workflow"
                        || SYSTEM_NAMES.contains(&root.as_str())
                        || self.references.contains(root.as_str())
                        // Made at run time by a dynamic fork.
                        || root.starts_with('_');
                    let dotted = text.contains(&format!("{root}.")) || text.contains(&format!("{root}["));
                    if !known && dotted && !self.has_dynamic_forks() {
                        let message = format!(
                            "taskReferenceName: {root} for given task: {} input value: {key} of input parameter: {text} is not defined in workflow definition.",
                            task.name
                        );
                        self.say(format!("{}.inputParameters.{key}", task.path), message);
                    }
                }
            }
            Json::Array(items) => items.iter().for_each(|item| self.input(task, key, item)),
            Json::Object(fields) => self.inputs(task, fields),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// Then names come up that no definition holds.
    fn has_dynamic_forks(&self) -> bool {
        let mut found = false;
        for task in &self.workflow.tasks {
            task.each(&mut |task| found |= task.kind == "FORK_JOIN_DYNAMIC");
        }
        found
    }
}
