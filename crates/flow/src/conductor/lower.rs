//! The workflow as a whole, and lists of its tasks.

use super::model::{Task, Workflow};
use super::{CompiledWorkflow, Violation};
use semel_core::admission::Busy;
use semel_core::ir::{
    CONDUCTOR_NAMESPACE, CacheSpec, ConductorFlow, ConductorTask, Dialect, EffectSpec, Flow, IR_VERSION, LaneSpec,
    OutputDef, Retry, RetrySchedule, Sla, SlaBehavior, SlaRule, StartCache, StartTerms, SubflowSpec, Task as Step,
    TaskKind, companion, step_name,
};
use semel_core::limits::Limits;
use serde_json::{Map, Value as Json, json};

/// Runs that may wait for a slot of a rate limit; Conductor has no bound.
const WAITING_MAX: u32 = 1_000_000;
/// What a task definition says that says nothing about it.
const RETRIES: u64 = 3;
const RETRY_DELAY_SECONDS: u64 = 60;

pub struct Lowering<'a> {
    pub limits: &'a Limits,
    pub flow_id: String,
    pub inner: Vec<Flow>,
    pub found: Vec<Violation>,
}

/// The IR of a workflow, or what is wrong with it that only shows here.
pub fn workflow(workflow: &Workflow, id: Option<String>, limits: &Limits) -> Result<CompiledWorkflow, Vec<Violation>> {
    let flow_id = id.unwrap_or_else(|| ConductorFlow::flow_id(&workflow.name, workflow.version));
    let mut lowering = Lowering { limits, flow_id, inner: Vec::new(), found: Vec::new() };
    let tasks = lowering.list(&workflow.tasks);
    let flow = lowering.flow(workflow, tasks);
    if lowering.found.is_empty() { Ok(CompiledWorkflow { flow, inner: lowering.inner }) } else { Err(lowering.found) }
}

/// Text that is not to be resolved.
pub fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// The expression that gives a field of a task, or of a companion.
fn field_of(name: &str, path: &str) -> String {
    format!("${{['{}'].{path}}}", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

pub fn output_of(name: &str) -> String {
    field_of(name, "output")
}

/// One field of an output.
pub fn output_field(name: &str, field: &str) -> String {
    field_of(name, &format!("output.{field}"))
}

/// Whether a companion has done what it is there for.
pub fn succeeded(companion: &str) -> String {
    field_of(companion, "succeeded")
}

pub fn empty_is_null(map: &Map<String, Json>) -> Json {
    if map.is_empty() { Json::Null } else { Json::Object(map.clone()) }
}

impl Lowering<'_> {
    pub fn say(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.found.push(Violation::new(path, message));
    }

    fn flow(&self, workflow: &Workflow, tasks: Vec<Step>) -> Flow {
        let output = |(id, value): (&String, &Json)| OutputDef {
            id: id.clone(),
            output_type: None,
            value: value.clone(),
            required: false,
        };
        let conductor = ConductorFlow {
            name: workflow.name.clone(),
            version: workflow.version,
            input_template: empty_is_null(&workflow.input_template),
            restartable: workflow.restartable,
            masked_fields: workflow.masked_fields.clone(),
            input_schema: workflow.input_schema.clone(),
            output_schema: workflow.output_schema.clone(),
            cache: workflow
                .cache
                .as_ref()
                .map(|(key, seconds)| StartCache { key: key.clone(), ttl_ms: ttl_ms(*seconds) }),
        };
        Flow {
            ir_version: IR_VERSION,
            id: self.flow_id.clone(),
            namespace: CONDUCTOR_NAMESPACE.to_owned(),
            description: workflow.description.clone(),
            labels: Default::default(),
            inputs: Vec::new(),
            variables: Json::Object(workflow.variables.clone()),
            tasks,
            errors: Vec::new(),
            finally: Vec::new(),
            after: self.failure_workflow(workflow),
            outputs: workflow.output_parameters.iter().map(output).collect(),
            triggers: Vec::new(),
            lane: workflow.rate_limit.as_ref().map(|(key, limit)| LaneSpec {
                key: key.clone().filter(|key| !key.is_empty()),
                limit: u32::try_from(*limit).unwrap_or(u32::MAX),
                busy: Busy::Queue { max: WAITING_MAX },
            }),
            retry: None,
            disabled: false,
            idempotency: None,
            sla: timeout(workflow),
            checks: Vec::new(),
            dialect: Dialect::Conductor,
            conductor: Some(Box::new(conductor)),
        }
    }

    /// It is started by the run that failed, in the transaction that records its end: a crash loses neither.
    fn failure_workflow(&self, workflow: &Workflow) -> Vec<Step> {
        let Some(name) = &workflow.failure_workflow else { return Vec::new() };
        let failure = "${~failure}".to_owned();
        let terms = StartTerms {
            version: workflow.failure_workflow_version.map_or(Json::Null, Json::from),
            ..StartTerms::default()
        };
        let spec = SubflowSpec { wait: false, ..subflow(name.clone(), Json::String(failure.clone()), terms) };
        let id = companion("", "failure");
        vec![Step { run_if: Some(failure), ..step(id, "START_WORKFLOW", TaskKind::Subflow(spec)) }]
    }

    /// One task may become several, and what follows a fork may move into it.
    pub fn list(&mut self, tasks: &[Task]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut rest = tasks;
        while let [task, after @ ..] = rest {
            rest = after;
            match (task.kind.as_str(), after) {
                ("FORK_JOIN", [join, following @ ..]) if join.kind == "JOIN" => {
                    self.delay(task, &mut steps);
                    if self.fork(task, join, following, &mut steps) {
                        return steps;
                    }
                    rest = following;
                }
                ("FORK_JOIN_DYNAMIC", [join, following @ ..]) if join.kind == "JOIN" => {
                    self.delay(task, &mut steps);
                    self.dynamic_fork(task, join, &mut steps);
                    rest = following;
                }
                _ => {
                    self.delay(task, &mut steps);
                    self.task(task, &mut steps);
                }
            }
        }
        steps
    }

    fn delay(&mut self, task: &Task, steps: &mut Vec<Step>) {
        if task.start_delay > 0 {
            let kind = TaskKind::Sleep { duration: format!("PT{}S", task.start_delay) };
            steps.push(step(companion(&step_name(&task.reference), "delay"), "DELAY", kind));
        }
    }

    fn task(&mut self, task: &Task, steps: &mut Vec<Step>) {
        match task.kind.as_str() {
            "SWITCH" | "DECISION" => self.switch(task, steps),
            "DO_WHILE" => self.do_while(task, steps),
            "HTTP_POLL" => self.http_poll(task, steps),
            "SUB_WORKFLOW" => self.sub_workflow(task, steps),
            "START_WORKFLOW" => self.start_workflow(task, steps),
            "FORK_JOIN" | "FORK_JOIN_DYNAMIC" => self.leaf(&unjoined(task), steps),
            _ => self.leaf(task, steps),
        }
    }
}

/// A fork without its join. Such definitions are registered, and clients that build workflows in code make them; the
/// workflow fails when it gets there.
fn unjoined(task: &Task) -> Task {
    let reason = match task.kind.as_str() {
        "FORK_JOIN" => "Fork task definition is not followed by a join task.  Check the blueprint",
        _ => "Dynamic join definition is not followed by a join task.  Check the workflow definition.",
    };
    let input = json!({"terminationStatus": "FAILED", "terminationReason": reason});
    let input = input.as_object().cloned().unwrap_or_default();
    let (path, name, reference) = (task.path.clone(), task.name.clone(), task.reference.clone());
    Task { path, name, reference, kind: "TERMINATE".to_owned(), input, ..Task::default() }
}

fn timeout(workflow: &Workflow) -> Vec<Sla> {
    if workflow.timeout_seconds == 0 {
        return Vec::new();
    }
    let ms = i64::try_from(workflow.timeout_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
    let behavior = if workflow.times_out { SlaBehavior::Fail } else { SlaBehavior::None };
    let rule = SlaRule::MaxDuration { ms };
    vec![Sla { id: "timeoutSeconds".to_owned(), rule, behavior, labels: Default::default() }]
}

fn ttl_ms(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

/// A step that no task of the definition stands for.
pub fn step(id: String, kind_word: &str, kind: TaskKind) -> Step {
    Step {
        id,
        type_name: format!("conductor.{kind_word}"),
        written_type: None,
        kind,
        run_if: None,
        retry: None,
        timeout_ms: None,
        timeout: None,
        disabled: false,
        allow_failure: false,
        allow_warning: false,
        effect: EffectSpec::default(),
        cache: None,
        keep_output: true,
        conductor: None,
    }
}

/// The step of a task. What fails because something inside it failed is not made optional by its own `optional`.
pub fn step_of(task: &Task, kind: TaskKind) -> Step {
    let holds_tasks = kind.handlers().is_some();
    let conductor = ConductorTask {
        reference: task.reference.clone(),
        name: task.name.clone(),
        input: if task.input_expression.is_some() { task.whole_input() } else { empty_is_null(&task.input) },
        permissive: task.permissive,
        retry_count: task.retry_count,
        defined: task.task_definition.is_object(),
        on_state_change: task.on_state_change.clone(),
        input_schema: task.input_schema.clone().map(Box::new),
        output_schema: task.output_schema.clone().map(Box::new),
    };
    Step {
        allow_failure: task.optional && !holds_tasks,
        cache: task
            .cache
            .as_ref()
            .map(|(key, seconds)| CacheSpec { ttl_ms: Some(ttl_ms(*seconds)), key: Some(key.clone()) }),
        conductor: Some(Box::new(conductor)),
        ..step(step_name(&task.reference), &task.kind, kind)
    }
}

pub fn subflow(name: String, inputs: Json, terms: StartTerms) -> SubflowSpec {
    SubflowSpec {
        namespace: CONDUCTOR_NAMESPACE.to_owned(),
        flow_id: name,
        revision: None,
        inputs,
        labels: Default::default(),
        inherit_labels: false,
        wait: true,
        transmit_failed: true,
        key: None,
        outputs: Json::Null,
        schedule_date: None,
        new_on_restart: false,
        terms: Some(Box::new(terms)),
    }
}

/// How often a task of Conductor's own is tried: by the definition that came with it, or by its own count.
pub fn retry(task: &Task) -> Option<Retry> {
    let definition = &task.task_definition;
    let number = |name: &str| definition[name].as_u64();
    let retries = match task.retry_count {
        Some(count) => u64::from(count),
        None if definition.is_object() => number("retryCount").unwrap_or(RETRIES),
        None => 0,
    };
    if retries == 0 {
        return None;
    }
    let milliseconds = |seconds: u64| i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
    let interval_ms = milliseconds(number("retryDelaySeconds").unwrap_or(RETRY_DELAY_SECONDS));
    let max_interval_ms = number("maxRetryDelaySeconds").filter(|most| *most > 0).map_or(i64::MAX, milliseconds);
    let schedule = match definition["retryLogic"].as_str() {
        Some("LINEAR_BACKOFF") => {
            let scale = i64::try_from(number("backoffScaleFactor").unwrap_or(1)).unwrap_or(i64::MAX);
            RetrySchedule::Linear { interval_ms: interval_ms.saturating_mul(scale), max_interval_ms }
        }
        Some("EXPONENTIAL_BACKOFF") => RetrySchedule::Exponential { interval_ms, max_interval_ms, factor: 2.0 },
        _ => RetrySchedule::Constant { interval_ms },
    };
    let max_attempts = Some(u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1));
    Some(Retry { schedule, max_attempts, max_duration_ms: None, warning_on_retry: false, new_execution: false })
}
