//! A definition as Conductor's model has it.

use super::Violation;
use super::reader::{Object, Reader};
use indexmap::IndexMap;
use semel_core::ir::{Moment, SchemaUse, StateEvent};
use serde_json::{Map, Value as Json};

#[derive(Debug, Default)]
pub struct Workflow {
    pub name: String,
    pub version: u32,
    pub description: Option<String>,
    pub tasks: Vec<Task>,
    pub output_parameters: Map<String, Json>,
    pub input_template: Map<String, Json>,
    pub variables: Map<String, Json>,
    pub failure_workflow: Option<String>,
    pub failure_workflow_version: Option<u32>,
    pub timeout_seconds: u64,
    pub times_out: bool,
    pub schema_version: u64,
    pub restartable: bool,
    pub rate_limit: Option<(Option<String>, u64)>,
    pub masked_fields: Vec<String>,
    pub input_schema: Option<SchemaUse>,
    pub output_schema: Option<SchemaUse>,
    /// The key, and how many seconds an answer is kept.
    pub cache: Option<(String, u64)>,
}

#[derive(Debug, Default)]
pub struct Task {
    pub path: String,
    pub name: String,
    pub reference: String,
    pub kind: String,
    pub input: Map<String, Json>,
    /// One expression that gives all of the input.
    pub input_expression: Option<String>,
    pub optional: bool,
    pub permissive: bool,
    pub async_complete: bool,
    pub start_delay: u64,
    pub retry_count: Option<u32>,
    pub decision_cases: Option<IndexMap<String, Vec<Task>>>,
    pub default_case: Vec<Task>,
    pub evaluator_type: Option<String>,
    pub expression: Option<String>,
    pub case_value_param: Option<String>,
    pub case_expression: Option<String>,
    pub script_expression: Option<String>,
    pub fork_tasks: Option<Vec<Vec<Task>>>,
    pub join_on: Vec<String>,
    pub default_exclusive_join: Vec<String>,
    pub dynamic_task_name_param: Option<String>,
    pub dynamic_fork_tasks_param: Option<String>,
    pub dynamic_fork_tasks_input_param: Option<String>,
    pub dynamic_fork_join_tasks_param: Option<String>,
    pub loop_condition: Option<String>,
    pub loop_over: Vec<Task>,
    pub items: Option<String>,
    pub sink: Option<String>,
    pub sub_workflow: Option<SubWorkflow>,
    /// As it stands; null where there is none.
    pub task_definition: Json,
    pub on_state_change: Vec<StateEvent>,
    /// The key, and for how many seconds.
    pub cache: Option<(String, u64)>,
    /// What that definition holds its input and its output to.
    pub input_schema: Option<SchemaUse>,
    pub output_schema: Option<SchemaUse>,
}

#[derive(Debug, Default)]
pub struct SubWorkflow {
    pub path: String,
    pub name: Option<String>,
    pub version: Json,
    pub definition: Json,
    pub domains: Json,
    pub priority: Json,
    pub idempotency_key: Option<String>,
    pub idempotency_strategy: Option<String>,
}

impl Task {
    /// All of the input: a map of templates, or one that gives a map.
    pub fn whole_input(&self) -> Json {
        match &self.input_expression {
            Some(expression) => Json::String(expression.clone()),
            None => Json::Object(self.input.clone()),
        }
    }

    /// The lists of tasks inside this one.
    pub fn lists(&self) -> Vec<&Vec<Task>> {
        let cases = self.decision_cases.iter().flat_map(IndexMap::values);
        let forks = self.fork_tasks.iter().flatten();
        cases.chain([&self.default_case]).chain(forks).chain([&self.loop_over]).collect()
    }

    /// This task and all inside it.
    pub fn each<'a>(&'a self, see: &mut dyn FnMut(&'a Task)) {
        see(self);
        for task in self.lists().into_iter().flatten() {
            task.each(see);
        }
    }
}

pub fn read(json: &Json) -> (Option<Workflow>, Vec<Violation>) {
    let mut reader = Reader::default();
    let workflow = reader.object(json, "").map(|object| reader.workflow(&object));
    (workflow, reader.violations)
}

impl Reader {
    fn workflow(&mut self, object: &Object<'_>) -> Workflow {
        let policy = self.text(object, "timeoutPolicy");
        if let Some(word) = policy.as_deref().filter(|word| !matches!(*word, "TIME_OUT_WF" | "ALERT_ONLY")) {
            let message = format!("`{word}` is not a timeoutPolicy: TIME_OUT_WF or ALERT_ONLY");
            self.violations.push(Violation::new(object.at("timeoutPolicy"), message));
        }
        let rate_limit = object.get("rateLimitConfig").and_then(|json| {
            let inner = self.object(json, &object.at("rateLimitConfig"))?;
            Some((self.text(&inner, "rateLimitKey"), self.number(&inner, "concurrentExecLimit").unwrap_or(0)))
        });
        // What is not said here is yes of a workflow, and no of a task.
        let enforced = self.flag(object, "enforceSchema").unwrap_or(true);
        Workflow {
            name: self.text(object, "name").unwrap_or_default(),
            version: self.small(object, "version").unwrap_or(1),
            description: self.text(object, "description"),
            tasks: self.tasks(object.get("tasks"), &object.at("tasks")),
            output_parameters: self.map(object, "outputParameters"),
            input_template: self.map(object, "inputTemplate"),
            variables: self.map(object, "variables"),
            failure_workflow: self.text(object, "failureWorkflow").filter(|name| !name.is_empty()),
            failure_workflow_version: self.small(object, "failureWorkflowVersion"),
            timeout_seconds: self.number(object, "timeoutSeconds").unwrap_or(0),
            times_out: policy.as_deref() == Some("TIME_OUT_WF"),
            schema_version: self.number(object, "schemaVersion").unwrap_or(2),
            restartable: self.flag(object, "restartable").unwrap_or(true),
            rate_limit,
            masked_fields: self.texts(object, "maskedFields"),
            input_schema: self.schema(object, "inputSchema", enforced),
            output_schema: self.schema(object, "outputSchema", enforced),
            cache: object.get("cacheConfig").and_then(|json| self.cache(json, &object.at("cacheConfig"))),
        }
    }

    /// A schema that nobody is held to is a remark.
    fn schema(&mut self, object: &Object<'_>, name: &str, enforced: bool) -> Option<SchemaUse> {
        let written = object.get(name).filter(|_| enforced)?;
        match SchemaUse::read(written) {
            Ok(found) => Some(found),
            Err(message) => {
                self.violations.push(Violation::new(object.at(name), message));
                None
            }
        }
    }

    fn small(&mut self, object: &Object<'_>, name: &str) -> Option<u32> {
        let number = self.number(object, name)?;
        match u32::try_from(number) {
            Ok(number) if number <= i32::MAX as u32 => Some(number),
            _ => {
                self.violations.push(Violation::new(object.at(name), format!("{number} is too large")));
                None
            }
        }
    }

    fn tasks(&mut self, json: Option<&Json>, path: &str) -> Vec<Task> {
        let items = self.items(json, path);
        let object = |(path, json): (String, &Json)| self.object(json, &path).map(|object| self.task(&object));
        items.into_iter().filter_map(object).collect()
    }

    fn task(&mut self, object: &Object<'_>) -> Task {
        let forks = object.get("forkTasks").map(|json| {
            let branches = self.items(Some(json), &object.at("forkTasks"));
            branches.into_iter().map(|(path, branch)| self.tasks(Some(branch), &path)).collect()
        });
        let cases = object.get("decisionCases").and_then(|json| {
            let path = object.at("decisionCases");
            self.object(json, &path)?;
            let cases = json.as_object().into_iter().flatten();
            Some(
                cases
                    .map(|(case, list)| (case.clone(), self.tasks(Some(list), &format!("{path}['{case}']"))))
                    .collect(),
            )
        });
        let definition = object.get("taskDefinition").and_then(|json| {
            let path = object.at("taskDefinition");
            json.is_object().then(|| self.object(json, &path)).flatten()
        });
        let [input_schema, output_schema] = match &definition {
            Some(definition) => {
                let enforced = self.flag(definition, "enforceSchema").unwrap_or(false);
                ["inputSchema", "outputSchema"].map(|name| self.schema(definition, name, enforced))
            }
            None => [None, None],
        };
        Task {
            name: self.text(object, "name").unwrap_or_default(),
            reference: self.text(object, "taskReferenceName").unwrap_or_default(),
            kind: self.text(object, "type").unwrap_or_else(|| "SIMPLE".to_owned()),
            input: self.map(object, "inputParameters"),
            input_expression: object
                .get("inputExpression")
                .and_then(|json| self.input_expression(json, &object.at("inputExpression"))),
            optional: self.flag(object, "optional").unwrap_or(false),
            permissive: self.flag(object, "permissive").unwrap_or(false),
            async_complete: self.flag(object, "asyncComplete").unwrap_or(false),
            start_delay: self.number(object, "startDelay").unwrap_or(0),
            retry_count: self.small(object, "retryCount"),
            decision_cases: cases,
            default_case: self.tasks(object.get("defaultCase"), &object.at("defaultCase")),
            evaluator_type: self.text(object, "evaluatorType"),
            expression: self.text(object, "expression"),
            case_value_param: self.text(object, "caseValueParam"),
            case_expression: self.text(object, "caseExpression"),
            script_expression: self.text(object, "scriptExpression"),
            fork_tasks: forks,
            join_on: self.texts(object, "joinOn"),
            default_exclusive_join: self.texts(object, "defaultExclusiveJoinTask"),
            dynamic_task_name_param: self.text(object, "dynamicTaskNameParam"),
            dynamic_fork_tasks_param: self.text(object, "dynamicForkTasksParam"),
            dynamic_fork_tasks_input_param: self.text(object, "dynamicForkTasksInputParamName"),
            dynamic_fork_join_tasks_param: self.text(object, "dynamicForkJoinTasksParam"),
            loop_condition: self.text(object, "loopCondition"),
            loop_over: self.tasks(object.get("loopOver"), &object.at("loopOver")),
            items: self.text(object, "items"),
            sink: self.text(object, "sink"),
            sub_workflow: object
                .get("subWorkflowParam")
                .and_then(|json| self.sub_workflow(json, &object.at("subWorkflowParam"))),
            task_definition: object.get("taskDefinition").cloned().unwrap_or(Json::Null),
            input_schema,
            output_schema,
            cache: object.get("cacheConfig").and_then(|json| self.cache(json, &object.at("cacheConfig"))),
            on_state_change: object
                .get("onStateChange")
                .map_or_else(Vec::new, |json| self.on_state_change(json, &object.at("onStateChange"))),
            path: object.path.clone(),
        }
    }

    /// `{"onStart,onFailed": [{"type", "payload"}]}`.
    fn on_state_change(&mut self, json: &Json, path: &str) -> Vec<StateEvent> {
        let mut events = Vec::new();
        if self.object(json, path).is_none() {
            return events;
        }
        for (words, list) in json.as_object().into_iter().flatten() {
            let place = format!("{path}['{words}']");
            let moments: Vec<Option<Moment>> = words.split(',').map(|word| Moment::parse(word.trim())).collect();
            if moments.contains(&None) {
                let message = format!(
                    "`{words}` is no state that is told of: onScheduled, onStart, onSuccess, onFailed or onCancelled, or several with commas"
                );
                self.violations.push(Violation::new(place.clone(), message));
            }
            for (at, event) in self.items(Some(list).filter(|list| !list.is_null()), &place) {
                let Some(event) = self.object(event, &at) else { continue };
                let Some(event_type) = self.text(&event, "type").filter(|word| !word.trim().is_empty()) else {
                    self.violations.push(Violation::new(event.at("type"), "an event has a `type`, which names it"));
                    continue;
                };
                let payload = Json::Object(self.map(&event, "payload"));
                let each = |at: Moment| StateEvent { at, event_type: event_type.clone(), payload: payload.clone() };
                events.extend(moments.iter().flatten().copied().map(each));
            }
        }
        events
    }

    fn cache(&mut self, json: &Json, path: &str) -> Option<(String, u64)> {
        let object = self.object(json, path)?;
        let key = self.text(&object, "key").filter(|key| !key.trim().is_empty());
        let seconds = self.number(&object, "ttlInSecond").filter(|seconds| *seconds > 0);
        // What clients write out that have none.
        if key.is_none() && seconds.is_none() {
            return None;
        }
        for (name, is_there) in [("key", key.is_some()), ("ttlInSecond", seconds.is_some())] {
            if !is_there {
                let message = format!("cacheConfig needs a `key` over the input, and `ttlInSecond`: no {name}");
                self.violations.push(Violation::new(object.at(name), message));
            }
        }
        key.zip(seconds)
    }

    fn input_expression(&mut self, json: &Json, path: &str) -> Option<String> {
        let object = self.object(json, path)?;
        let word = self.text(&object, "type").unwrap_or_else(|| "JSON_PATH".to_owned());
        if word != "JSON_PATH" {
            let message = format!("`{word}` is not a type of inputExpression: JSON_PATH");
            self.violations.push(Violation::new(object.at("type"), message));
        }
        let text = self.text(&object, "expression").filter(|text| !text.trim().is_empty())?;
        let path = text.trim();
        let path = path.strip_prefix("${").and_then(|path| path.strip_suffix('}')).unwrap_or(path);
        Some(format!("${{{}}}", path.strip_prefix("$.").unwrap_or(path)))
    }

    fn sub_workflow(&mut self, json: &Json, path: &str) -> Option<SubWorkflow> {
        let object = self.object(json, path)?;
        let field = |name: &str| object.get(name).cloned().unwrap_or(Json::Null);
        Some(SubWorkflow {
            path: path.to_owned(),
            name: self.text(&object, "name"),
            version: field("version"),
            definition: field("workflowDefinition"),
            domains: field("taskToDomain"),
            priority: field("priority"),
            idempotency_key: self.text(&object, "idempotencyKey").filter(|key| !key.is_empty()),
            idempotency_strategy: self.text(&object, "idempotencyStrategy").filter(|word| !word.is_empty()),
        })
    }
}
