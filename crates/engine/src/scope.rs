//! What an expression can see.

use crate::away;
use crate::cipher;
use crate::errands::PollBook;
use crate::files::{self, Question};
use crate::flows::LoadedFlow;
use crate::memory::{Memory, Round};
use crate::outside;
use crate::ports::Entropy;
use crate::secrets::Secrets;
use crate::task_book::TaskBook;
use indexmap::IndexMap;
use semel_core::date::Written;
use semel_core::files::{OUTPUT_DIRECTORY, WORKING_DIRECTORY};
use semel_core::ir::TaskKind;
use semel_core::limits::Limits;
use semel_core::run::{EndStatus, RunState, StateOf, Status, StepKey, conclusion_of};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_expr::{Part, Scope, SecretRef, Value};
use semel_store::{KvRow, Store, is_own_namespace};
use std::sync::Arc;

/// The outside services expressions may use.
pub struct Services {
    pub store: Arc<dyn Store>,
    pub secrets: Secrets,
    pub entropy: Arc<dyn Entropy>,
    /// `envs.*`: variables of the process that begin with `ENV_`, lower-cased.
    pub envs: Value,
    /// `kestra.url`.
    pub url: Option<String>,
    /// Who asks for errands, and when they did last.
    pub polls: PollBook,
    pub tasks: TaskBook,
}

/// The run an expression is evaluated in; absent while an occurrence is being admitted.
#[derive(Clone, Copy)]
pub struct RunScope<'a> {
    pub id: RunId,
    pub original: RunId,
    pub correlation_id: &'a str,
    pub created_at: Millis,
    pub state: &'a RunState,
    pub step: Option<&'a StepKey>,
}

/// One evaluation.
pub struct ExprScope<'a> {
    pub services: &'a Services,
    pub workspace: &'a WorkspaceId,
    pub flow: &'a LoadedFlow,
    pub memory: &'a Memory,
    pub run: Option<RunScope<'a>>,
    pub now: Millis,
}

fn text(value: impl Into<String>) -> Value {
    Value::Str(Arc::from(value.into()))
}

/// The value of a loop: Kestra makes texts of numbers and booleans. Maps and lists print as their JSON either way.
fn as_text(value: Value) -> Value {
    match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => text(value.to_text()),
        other => other,
    }
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::map(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<IndexMap<_, _>>())
}

impl ExprScope<'_> {
    fn labels(&self) -> Value {
        let mut nested = serde_json::Map::new();
        let correlation = self.run.map(|r| ("system.correlationId".to_owned(), r.correlation_id.to_owned()));
        for (key, value) in self.memory.labels.clone().into_iter().chain(correlation) {
            put_dotted(&mut nested, &key, serde_json::Value::String(value));
        }
        Value::from_json(&serde_json::Value::Object(nested))
    }

    /// A key of a namespace. From the flow's own one those of the namespaces above it are seen too.
    pub(crate) fn key_seen_from(&self, namespace: &str, key: &str) -> Result<Option<KvRow>, String> {
        let own = &self.flow.flow_ref.namespace;
        let above = own.rmatch_indices('.').map(|(end, _)| &own[..end]).filter(|_| namespace == own);
        for namespace in std::iter::once(namespace).chain(above) {
            let row = self.services.store.kv(self.workspace, namespace, key).map_err(|error| {
                away::note(&error);
                error.to_string()
            })?;
            if let Some(row) = row.filter(|row| row.expires_at.is_none_or(|at| self.now < at)) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    pub fn has_variable(&self, name: &str) -> bool {
        self.memory.variables.as_ref().unwrap_or(&self.flow.vars).get(name).is_some()
    }

    fn flow_root(&self) -> Value {
        map([
            ("id", text(&self.flow.flow_ref.id)),
            ("namespace", text(&self.flow.flow_ref.namespace)),
            ("revision", Value::Int(i128::from(self.flow.revision))),
            ("tenantId", text(&self.workspace.0)),
        ])
    }

    fn run_root(&self) -> Option<Value> {
        let run = self.run?;
        Some(map([
            ("id", text(run.id.to_string())),
            ("correlationId", text(run.correlation_id)),
            ("inbox", Value::list(self.memory.deliveries.clone())),
        ]))
    }

    fn execution_root(&self) -> Option<Value> {
        let run = self.run?;
        Some(map([
            ("id", text(run.id.to_string())),
            ("originalId", text(run.original.to_string())),
            ("startDate", text(run.created_at.to_rfc3339())),
            ("state", text(state_word(run.state))),
        ]))
    }

    fn taskrun_root(&self) -> Option<Value> {
        let run = self.run?;
        self.taskrun_of(&run, run.step?)
    }

    fn taskrun_of(&self, run: &RunScope, key: &StepKey) -> Option<Value> {
        let step = run.state.steps.get(key);
        let mut entries = IndexMap::new();
        entries.insert("id".to_owned(), text(run.state.step_id(key).hex()));
        entries.insert(
            "attemptsCount".to_owned(),
            Value::Int(i128::from(self.memory.tries.get(key).map_or(0, |(count, _)| *count))),
        );
        let mut parent = key.parent();
        while let Some(iteration) = parent.take_if(|parent| parent.iteration_number().is_some()) {
            parent = iteration.parent();
        }
        if let Some(parent) = parent.filter(|parent| !parent.is_root()) {
            entries.insert("parentId".to_owned(), text(run.state.step_id(&parent).hex()));
        }
        if let Some(at) = step.and_then(|s| s.first_at) {
            entries.insert("startDate".to_owned(), text(at.to_rfc3339()));
        }
        if let Some(round) = self.memory.rounds_around(key, self.flow).pop() {
            // A sub-run for each part of a file: the part is not called a value.
            let name = if key.iteration_number().is_some() && self.makes_batches(key) { "items" } else { "value" };
            entries.insert(name.to_owned(), as_text(round.value));
            entries.insert("iteration".to_owned(), Value::Int(i128::from(round.number)));
        }
        Some(Value::map(entries))
    }

    /// The task run of the working directory around the step.
    fn directory_root(&self) -> Option<Value> {
        let run = self.run?;
        let is_directory = |key: &StepKey| {
            let task = self.flow.index.task(key.task_id()).filter(|_| key.iteration_number().is_none());
            matches!(task.map(|task| &task.kind), Some(TaskKind::WorkingDirectory { .. }))
        };
        let around = std::iter::successors(run.step?.parent(), StepKey::parent).find(is_directory)?;
        self.taskrun_of(&run, &around)
    }

    fn makes_batches(&self, key: &StepKey) -> bool {
        matches!(self.flow.index.task(key.task_id()).map(|task| &task.kind), Some(TaskKind::Batches(_)))
    }

    /// The round a step is in: `item.value`, `item.index`, `item.key`, and those around it from the nearest outwards.
    fn item(&self) -> Option<Value> {
        let mut around = self.memory.rounds_around(self.run?.step?, self.flow);
        let shown = |round: &Round| {
            let mut entries = IndexMap::new();
            entries.insert("value".to_owned(), round.value.clone());
            entries.insert("index".to_owned(), Value::Int(i128::from(round.number)));
            entries.extend(round.key.clone().map(|key| ("key".to_owned(), key)));
            entries
        };
        let mut item = shown(&around.pop()?);
        let parents: Vec<Value> = around.iter().rev().map(|round| Value::map(shown(round))).collect();
        item.extend(parents.first().cloned().map(|parent| ("parent".to_owned(), parent)));
        item.insert("parents".to_owned(), Value::list(parents));
        Some(Value::map(item))
    }

    /// Tasks around the step that have a value of a loop or an output, from the nearest outwards.
    fn parents(&self) -> Option<Value> {
        let mut list = Vec::new();
        let mut ancestor = self.run?.step?.parent();
        while let Some(key) = ancestor.filter(|key| !key.is_root()) {
            if key.iteration_number().is_none() && !self.makes_batches(&key) {
                list.extend(self.parent_entry(&key));
            }
            ancestor = key.parent();
        }
        Some(Value::list(list))
    }

    /// As Kestra has it, only the tasks right below a loop carry its value.
    fn parent_entry(&self, key: &StepKey) -> Option<Value> {
        let mut entry = IndexMap::new();
        let values = self.memory.loop_values(key, self.flow);
        if key.parent().is_some_and(|parent| parent.iteration_number().is_some()) {
            let value = as_text(values.last().cloned().unwrap_or(Value::Null));
            entry.insert("taskrun".to_owned(), map([("value", value)]));
        }
        let output = self.memory.outputs.get(key.task_id());
        let output = output.and_then(|all| values.iter().try_fold(all, |inner, value| inner.get(&value.to_text())));
        if let Some(output @ Value::Map(_)) = output {
            entry.insert("outputs".to_owned(), output);
        }
        if entry.is_empty() {
            return None;
        }
        entry.insert("task".to_owned(), map([("id", text(key.task_id()))]));
        Some(Value::map(entry))
    }
}

/// What comes after the end of a run sees how it ended.
fn state_word(state: &RunState) -> &'static str {
    let head = match &state.concluded {
        None => {
            let (ended, warned) = (state.is_ended(), state.warned);
            StateOf { status: state.status(), warned, ended, conclusion: state.conclusion }
        }
        Some(end) => {
            let status = match end.status {
                EndStatus::Completed => Status::Completed,
                EndStatus::Failed => Status::Failed,
                EndStatus::Cancelled => Status::Cancelled,
            };
            let conclusion = conclusion_of(end.status, end.failure.as_ref().map(|failure| failure.code.as_str()));
            StateOf { status, warned: end.warned, ended: true, conclusion }
        }
    };
    head.kestra().word()
}

/// `isPublicHoliday(date, country)`: of the whole country, on the day as it is written.
fn is_public_holiday(args: &[Value], named: &[(String, Value)]) -> Result<Value, String> {
    let argument = |at: usize, names: &[&str]| {
        let found = args.get(at).or_else(|| named.iter().find(|(n, _)| names.contains(&n.as_str())).map(|(_, v)| v));
        match found {
            Some(Value::Str(text)) => Ok(text.to_string()),
            Some(_) => Err(format!("`{}` of isPublicHoliday() must be a text without secrets", names[0])),
            None => Err(format!("isPublicHoliday() needs `{}`", names[0])),
        }
    };
    if args.len() > 2 || named.iter().any(|(name, _)| name == "subDivision") {
        return Err("isPublicHoliday() knows whole countries, and no subdivisions of them".to_owned());
    }
    let (date, country) = (argument(0, &["date"])?, argument(1, &["country", "countryCode"])?);
    let day = Written::parse(&date).ok_or_else(|| format!("`{date}` is not a date"))?;
    day.is_holiday(&country).map(Value::Bool).map_err(|error| error.to_string())
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Map(entries) | Value::HeaderMap(entries) if entries.is_empty())
}

/// Puts a value into nested maps along the dots of its key.
pub fn put_dotted(target: &mut serde_json::Map<String, serde_json::Value>, key: &str, value: serde_json::Value) {
    match key.split_once('.') {
        None => {
            target.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let slot = target.entry(first).or_insert_with(|| serde_json::json!({}));
            if !slot.is_object() {
                *slot = serde_json::json!({});
            }
            if let Some(inner) = slot.as_object_mut() {
                put_dotted(inner, rest, value);
            }
        }
    }
}

impl Scope for ExprScope<'_> {
    fn root(&self, name: &str) -> Option<Value> {
        if self.flow.is_conductor() {
            return self.conductor_root(name);
        }
        match name {
            "inputs" => Some(self.memory.inputs.clone()),
            "outputs" => Some(self.memory.outputs_at(self.run.and_then(|run| run.step), self.flow)),
            // What nothing has triggered has none, so that `??` can tell.
            "trigger" | "schedule" => Some(self.memory.trigger.clone()).filter(|trigger| !is_empty(trigger)),
            "vars" => Some(self.memory.variables.as_ref().unwrap_or(&self.flow.vars).clone()),
            "labels" => Some(self.labels()),
            "flow" => Some(self.flow_root()),
            "run" => self.run_root(),
            "execution" => self.execution_root(),
            "taskrun" => self.taskrun_root(),
            "item" => self.item(),
            "step" => self.run.and_then(|r| r.step.map(|key| map([("id", text(r.state.step_id(key).hex()))]))),
            "workingDir" => self.run.and_then(|run| run.step).map(|_| text(WORKING_DIRECTORY)),
            "outputDir" => self.run.and_then(|run| run.step).map(|_| text(OUTPUT_DIRECTORY)),
            "workerTaskrun" => self.directory_root(),
            "task" => {
                let task = self.flow.index.task(self.run?.step?.task_id())?;
                let written = task.written_type.as_ref().unwrap_or(&task.type_name);
                Some(map([("id", text(&task.id)), ("type", text(written))]))
            }
            "parent" => self.parents().and_then(|list| match list {
                Value::List(items) => items.first().cloned(),
                _ => None,
            }),
            "parents" => self.parents(),
            "tasks" => self.run.map(|_| self.memory.tasks.clone()),
            // As with secrets of the environment: they are the operator's.
            "envs" if self.workspace.0 != WorkspaceId::DEFAULT => Some(map([])),
            "envs" => Some(self.services.envs.clone()),
            "globals" => Some(map([])),
            "kestra" => {
                Some(map([("environment", Value::Null), ("url", self.services.url.clone().map_or(Value::Null, text))]))
            }
            other => self.memory.more.get(other).cloned(),
        }
    }

    fn secret(&self, name: &str, _namespace: Option<&str>) -> Result<SecretRef, String> {
        self.services.secrets.find(self.workspace, name)
    }

    fn reveal(&self, part: &Part) -> Result<String, String> {
        self.services.secrets.reveal(self.workspace, part)
    }

    fn seal(&self, plain: &str) -> Result<String, String> {
        self.services.secrets.seal(self.workspace, plain)
    }

    fn kv(&self, key: &str, namespace: Option<&str>, error_on_missing: bool) -> Result<Value, String> {
        let namespace = namespace.unwrap_or(&self.flow.flow_ref.namespace);
        if is_own_namespace(namespace) {
            return Err(format!("`{namespace}` cannot be a namespace"));
        }
        match self.key_seen_from(namespace, key)? {
            Some(row) => Ok(Value::from_json(&row.value)),
            None if error_on_missing => Err(format!("The key '{key}' does not exist in the namespace '{namespace}'.")),
            None => Ok(Value::Null),
        }
    }

    fn now_millis(&self) -> i64 {
        self.now.0
    }

    fn random_u64(&self) -> u64 {
        self.services.entropy.random()
    }

    fn host(&self, name: &str, args: &[Value], named: &[(String, Value)]) -> Option<Result<Value, String>> {
        if let Some(question) = Question::of(name) {
            let own = &self.flow.flow_ref.namespace;
            return Some(files::answer(self.services, self.workspace, own, question, name, args, named));
        }
        match name {
            "encrypt" | "decrypt" => Some(cipher::answer(self.services, self.workspace, name, args, named)),
            "http" => Some(outside::http(args, named)),
            "subflow" => Some(outside::subflow(args, named)),
            "isPublicHoliday" => Some(is_public_holiday(args, named)),
            "errorLogs" => Some(Ok(Value::list(self.memory.errors.clone()))),
            "yaml" => Some(match args {
                [Value::Str(text)] => {
                    semel_flow::yaml_value(text, &Limits::default()).map(|json| Value::from_json(&json))
                }
                _ => Err("yaml() takes one text that holds no secret".to_owned()),
            }),
            _ => None,
        }
    }
}
