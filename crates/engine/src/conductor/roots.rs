//! What `${…}` sees.

use super::notes::Note;
use super::resources::environment;
use crate::scope::{ExprScope, RunScope};
use indexmap::IndexMap;
use semel_core::ir::{ConductorFlow, Task};
use semel_core::run::{
    Concluded, EndStatus, Phase, RunState, StepKey, TERMINATED_AS_FAILED, conclusion_of, ended_status, errand_id,
};
use semel_expr::conductor::render_tree;
use semel_expr::{Budget, Scope, Value};

fn map<const N: usize>(entries: [(&str, Value); N]) -> IndexMap<String, Value> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn whole(number: impl Into<i128>) -> Value {
    Value::Int(number.into())
}

impl ExprScope<'_> {
    pub(crate) fn conductor_root(&self, name: &str) -> Option<Value> {
        match name {
            "workflow" => Some(self.workflow_root()),
            "CPEWF_TASK_ID" => {
                let run = self.run?;
                Some(Value::str(task_id(run.state, run.step?, attempt_at(run.state, run.step?))))
            }
            "~item" => self.memory.rounds_around(self.run?.step?, self.flow).pop().map(|round| round.value),
            "~failure" => self.failure_root(),
            reference => {
                let note = self.memory.notes.get(reference)?;
                let task = self.flow.index.task(note.step.task_id())?;
                Some(self.task_root(reference, note, task))
            }
        }
    }

    fn workflow_root(&self) -> Value {
        let none = ConductorFlow::default();
        let own = self.flow.index.flow.conductor.as_deref().unwrap_or(&none);
        let run = self.run;
        let own_word = run.map(|run| run.id.to_string());
        // A run whose caller named nothing has its own id for that, which Conductor does not know.
        let correlation = match run {
            Some(run) if Some(run.correlation_id) == own_word.as_deref() => Value::Null,
            Some(run) => Value::str(run.correlation_id),
            None => self.memory.more.get("correlationId").cloned().unwrap_or(Value::Null),
        };
        let parent = |name: &str| self.memory.trigger.get(name).unwrap_or(Value::Null);
        let env = match self.flow.reads_environment {
            true => environment(self.services, self.workspace),
            false => Value::map(IndexMap::new()),
        };
        Value::map(map([
            ("input", self.memory.inputs.clone()),
            ("output", Value::map(IndexMap::new())),
            ("variables", self.memory.variables.as_ref().unwrap_or(&self.flow.vars).clone()),
            ("status", run.map_or(Value::Null, |run| Value::str(status(run.state)))),
            ("workflowId", own_word.map_or(Value::Null, Value::str)),
            ("parentWorkflowId", parent("executionId")),
            ("parentWorkflowTaskId", parent("workflowTaskId")),
            ("workflowType", Value::str(&own.name)),
            ("version", whole(own.version)),
            ("correlationId", correlation),
            ("reasonForIncompletion", run.and_then(|run| reason(run.state)).map_or(Value::Null, Value::str)),
            ("schemaVersion", whole(2)),
            ("env", env),
        ]))
    }

    fn task_root(&self, reference: &str, note: &Note, task: &Task) -> Value {
        let run = self.run;
        let id = |run: RunScope<'_>| Value::str(task_id(run.state, &note.step, note.retry_count + 1));
        let id = run.map_or(Value::Null, id);
        let word = task.type_name.strip_prefix("conductor.").unwrap_or(&task.type_name);
        let name = task.conductor.as_ref().map_or(word, |own| own.name.as_str());
        let time = |at: Option<semel_core::Millis>| whole(at.map_or(0, |at| at.0));
        if task.conductor.is_none() {
            let done = Value::Bool(note.status == "COMPLETED");
            return Value::map(map([("output", note.output.clone()), ("succeeded", done)]));
        }
        Value::map(map([
            ("input", self.input_of(task)),
            ("output", note.output.clone()),
            ("status", Value::str(note.status)),
            ("taskType", Value::str(if word == "SIMPLE" { name } else { word })),
            ("taskDefName", Value::str(name)),
            ("referenceTaskName", Value::str(reference)),
            ("taskId", id),
            ("retryCount", whole(note.retry_count)),
            ("pollCount", whole(0)),
            ("iteration", whole(note.iteration)),
            ("scheduledTime", whole(note.started.0)),
            ("startTime", whole(note.started.0)),
            ("endTime", time(note.ended)),
            ("reasonForIncompletion", note.reason.as_deref().map_or(Value::Null, Value::str)),
            ("workflowInstanceId", run.map_or(Value::Null, |run| Value::str(run.id.to_string()))),
            ("correlationId", Value::Null),
            ("workerId", Value::Null),
            ("callbackAfterSeconds", whole(0)),
        ]))
    }

    /// What a task was given, computed once more: its templates see what they saw, but for variables that have
    /// changed since. A task that reads another one's input which reads another one's goes no further.
    fn input_of(&self, task: &Task) -> Value {
        let asked = |_: &&semel_core::ir::ConductorTask| self.flow.reads_inputs;
        let Some(own) = task.conductor.as_deref().filter(asked).filter(|own| !own.input.is_null()) else {
            return Value::map(IndexMap::new());
        };
        let shallow = Shallow { scope: self };
        render_tree(&own.input, &shallow, &mut Budget::default()).unwrap_or(Value::Null)
    }

    /// What a failure workflow is given, once the run has failed.
    fn failure_root(&self) -> Option<Value> {
        let run = self.run?;
        let concluded = run.state.concluded.as_ref().filter(|end| counts_as_failure(end))?;
        let mut given = match &self.memory.inputs {
            Value::Map(inputs) => inputs.as_ref().clone(),
            _ => IndexMap::new(),
        };
        let failed = self.memory.failed_step.as_ref();
        let failed = failed.map(|step| task_id(run.state, step, self.memory.notes.attempt_of(step)));
        given.extend(map([
            ("workflowId", Value::str(run.id.to_string())),
            ("reason", concluded.failure.as_ref().map_or(Value::Null, |failure| Value::str(failure.message()))),
            ("failureStatus", Value::str(status_of_end(concluded))),
            ("failureTaskId", failed.map_or(Value::Null, Value::str)),
            ("failedWorkflow", self.failed_workflow(concluded)),
        ]));
        Some(Value::map(given))
    }

    /// A task as workflows show it, which call its input and output otherwise than expressions do.
    fn told_task(&self, reference: &str, note: &Note, task: &Task) -> Value {
        let mut told = match self.task_root(reference, note, task) {
            Value::Map(fields) => fields.as_ref().clone(),
            _ => IndexMap::new(),
        };
        for (name, outside) in [("input", "inputData"), ("output", "outputData")] {
            if let Some(value) = told.get(name).cloned() {
                told.insert(outside.to_owned(), value);
            }
        }
        Value::map(told)
    }

    /// The run that has failed, as whoever makes up for it is told of it.
    fn failed_workflow(&self, concluded: &Concluded) -> Value {
        let mut told = match self.workflow_root() {
            Value::Map(fields) => fields.as_ref().clone(),
            _ => IndexMap::new(),
        };
        told.shift_remove("env");
        let output = concluded.outputs.as_ref().map_or(Value::Null, |given| Value::from_stored(given.json()));
        let tasks = self.memory.notes.shown(self.flow);
        told.extend(map([
            ("workflowName", told.get("workflowType").cloned().unwrap_or(Value::Null)),
            ("workflowVersion", told.get("version").cloned().unwrap_or(Value::Null)),
            ("output", output),
            (
                "tasks",
                Value::list(tasks.map(|(reference, note, task)| self.told_task(reference, note, task)).collect()),
            ),
        ]));
        Value::map(told)
    }
}

/// How a task is called outside: each attempt has a name of its own.
pub(crate) fn task_id(state: &RunState, step: &StepKey, attempt: u32) -> String {
    errand_id(state.step_id(step), attempt).uuid().to_string()
}

/// The attempt at a step that is being made.
pub(crate) fn attempt_at(state: &RunState, step: &StepKey) -> u32 {
    state.steps.get(step).map_or(1, |step| step.attempt.max(1))
}

/// A scope in which tasks have no input: what ends the circle of inputs that name each other.
struct Shallow<'a> {
    scope: &'a ExprScope<'a>,
}

impl Scope for Shallow<'_> {
    fn root(&self, name: &str) -> Option<Value> {
        match (name, self.scope.memory.notes.get(name)) {
            (_, None) => self.scope.conductor_root(name),
            (_, Some(note)) => {
                let entries = map([("output", note.output.clone()), ("status", Value::str(note.status))]);
                Some(Value::map(entries))
            }
        }
    }

    fn secret(&self, name: &str, namespace: Option<&str>) -> Result<semel_expr::SecretRef, String> {
        self.scope.secret(name, namespace)
    }

    fn reveal(&self, part: &semel_expr::Part) -> Result<String, String> {
        self.scope.reveal(part)
    }

    fn seal(&self, plain: &str) -> Result<String, String> {
        self.scope.seal(plain)
    }

    fn kv(&self, key: &str, namespace: Option<&str>, error_on_missing: bool) -> Result<Value, String> {
        self.scope.kv(key, namespace, error_on_missing)
    }

    fn now_millis(&self) -> i64 {
        self.scope.now_millis()
    }

    fn random_u64(&self) -> u64 {
        self.scope.random_u64()
    }
}

/// Ended by a person, a run counts as failed if they want it so.
fn counts_as_failure(end: &Concluded) -> bool {
    let code = end.failure.as_ref().map(|failure| failure.code.as_str());
    end.status == EndStatus::Failed || code == Some(TERMINATED_AS_FAILED)
}

fn status_of_end(end: &Concluded) -> &'static str {
    ended_status(end.status, conclusion_of(end.status, end.failure.as_ref().map(|failure| failure.code.as_str())))
}

/// A run whose outputs are being computed has the status that it will end with.
fn status(state: &RunState) -> &'static str {
    match (&state.concluded, &state.stop, state.phase) {
        (Some(end), _, _) => status_of_end(end),
        (None, _, Phase::Ended(end)) => ended_status(end, state.conclusion),
        (None, Some((end, failure)), Phase::Finishing) => ended_status(*end, conclusion_of(*end, Some(&failure.code))),
        (None, _, _) if state.paused => "PAUSED",
        (None, _, _) => "RUNNING",
    }
}

fn reason(state: &RunState) -> Option<String> {
    let concluded = state.concluded.as_ref().and_then(|end| end.failure.as_ref());
    let failure = concluded.or(state.stop.as_ref().map(|(_, failure)| failure))?;
    Some(failure.message().to_owned())
}
