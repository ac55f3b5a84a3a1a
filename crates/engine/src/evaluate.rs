//! Evaluating a step: its `runIf`, then what its kind needs. Pure work is done on the spot.

use crate::conductor::{DYNAMIC, EVENT, PULL, exit_state};
use crate::flows::{Flows, LoadedFlow};
use crate::inputs;
use crate::scope::{ExprScope, Services};
use crate::templated::TEMPLATED;
use semel_core::duration;
use semel_core::ir::{ExitState, LeafMode, MERGE_PART, OnTime, PauseSpec, Retry, SlaRule, Task, TaskKind, UntilSpec};
use semel_core::limits::Limits;
use semel_core::run::{Evaluated, Failure, ListName, Payload, StepKey, VariableChange, Work};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_expr::{Budget, EvalError, Template, Value, conductor, render, render_json};
use semel_store::{FlowRow, OpKind};
use semel_tasks::{InlineOutcome, Level, LogLine, effect_class, own_expressions, run_inline, timeout_hint_ms};
use serde_json::{Value as Json, json};

/// How long the far side is assumed to remember a key.
const KEY_WINDOW_MS: i64 = 86_400_000;

/// What evaluating found besides the answer to the machine.
#[derive(Default)]
pub struct Found {
    pub logs: Vec<LogLine>,
    pub op: Option<OpKind>,
    /// What is to be stored before it.
    pub definitions: Vec<FlowRow>,
    /// How often the step is tried, where its definition is not in the flow.
    pub retry: Option<Box<Retry>>,
}

/// The run a step belongs to, as sub-runs need it.
pub struct Family<'a> {
    pub run: RunId,
    pub root: RunId,
    pub depth: u32,
    pub correlation_id: &'a str,
}

pub struct Evaluator<'a> {
    pub services: &'a Services,
    pub flows: &'a Flows,
    pub limits: &'a Limits,
    pub workspace: &'a WorkspaceId,
    pub flow: &'a LoadedFlow,
    pub scope: ExprScope<'a>,
    pub family: Family<'a>,
    pub now: Millis,
}

fn failure(error: &EvalError) -> Failure {
    Failure::new(error.code, &error.message)
}

impl Evaluator<'_> {
    pub fn step(&self, key: &StepKey, found: &mut Found) -> Result<Evaluated, Failure> {
        let Some(task) = self.flow.index.task(key.task_id()) else {
            return Err(Failure::new("unknown_task", format!("the flow has no task `{}`", key.task_id())));
        };
        // A group that is evaluated again has begun long since.
        let begun = !matches!(self.work(key), None | Some(Work::Evaluating));
        if let Some(output) = self.scope.memory.skips.get(&task.id).filter(|_| !begun) {
            return Ok(Evaluated::SkipWith { output: output.clone() });
        }
        if let Some(condition) = &task.run_if
            && !begun
            && !self.text(condition)?.is_truthy_text()
        {
            return Ok(Evaluated::Skip);
        }
        match &task.kind {
            TaskKind::WorkingDirectory { output_files, .. } if begun => self.directory_files(key, output_files),
            TaskKind::Sequential(_)
            | TaskKind::AllowFailure(_)
            | TaskKind::WorkingDirectory { .. }
            | TaskKind::Dag { .. }
            | TaskKind::Parallel { .. } => Ok(Evaluated::Group),
            TaskKind::LoopUntil(UntilSpec { do_while: Some(spec), .. }) if !begun => self.do_while_begins(spec),
            TaskKind::LoopUntil(spec) if spec.do_while.is_some() => self.do_while_again(key, task, spec),
            TaskKind::LoopUntil(_) if !begun => Ok(Evaluated::items(1, Payload::new(json!([])))),
            TaskKind::LoopUntil(spec) => self.round_again(key, spec, found),
            TaskKind::Loop(spec) if !begun => self.own_items(&spec.values),
            TaskKind::Loop(spec) if key.iteration_number().is_some() => self.round(spec),
            TaskKind::Loop(_) => Ok(self.rounds(key)),
            TaskKind::Batches(spec) if key.iteration_number().is_some() => {
                found.op = Some(self.child(key, &spec.subflow, found)?);
                Ok(Evaluated::Child { alone: false })
            }
            TaskKind::Batches(spec) if !begun => self.batches(key, spec),
            TaskKind::Batches(_) => Ok(self.batches_done(key)),
            TaskKind::Exit { state } => {
                let word = self.plain_text(state, "state")?;
                let state = if self.flow.is_conductor() { exit_state(&word) } else { ExitState::parse(&word) };
                let state = state.ok_or_else(|| {
                    Failure::new("bad_state", format!("`{word}` is not a state that a run can be ended with"))
                })?;
                Ok(Evaluated::Exit { state, reason: self.exit_reason(task), output: None })
            }
            TaskKind::If { condition, .. } => {
                let yes = self.text(condition)?.is_truthy_text();
                let list = if yes { ListName::Then } else { ListName::Else };
                Ok(Evaluated::Branch { list, output: Some(Payload::new(json!({"evaluationResult": yes}))) })
            }
            TaskKind::Switch { .. } if self.flow.is_conductor() => self.conductor_switch(task),
            TaskKind::Switch { value, cases, defaults, .. } => {
                let value = self.plain_text(value, "value")?;
                let list = if cases.contains_key(&value) {
                    ListName::Case(value.clone())
                } else if defaults.is_some() {
                    ListName::Defaults
                } else {
                    return Err(Failure::new(
                        "no_case",
                        format!("no case matches `{value}` and there are no defaults"),
                    ));
                };
                let output = json!({"value": value, "defaults": list == ListName::Defaults});
                Ok(Evaluated::Branch { list, output: Some(Payload::new(output)) })
            }
            TaskKind::ForEach { values, .. } => self.items(values),
            TaskKind::Sleep { duration } => Ok(Evaluated::Sleep { ms: self.duration(duration, "duration")? }),
            TaskKind::Pause(PauseSpec { review: Some(review), .. }) if !begun => self.ask(review),
            TaskKind::Pause(PauseSpec { review: Some(review), .. }) if self.decision(key).is_some() => {
                self.reviewed(key, review)
            }
            TaskKind::Pause(spec) if !begun && !spec.on_pause.is_empty() => {
                Ok(Evaluated::Branch { list: ListName::OnPause, output: None })
            }
            TaskKind::Pause(spec) => self.pause(task, spec),
            TaskKind::Subflow(spec) => {
                if self.flow.is_conductor() {
                    self.note_retry(task, found)?;
                }
                found.op = Some(self.child(key, spec, found)?);
                Ok(Evaluated::Child { alone: false })
            }
            TaskKind::Leaf { mode, config } => self.leaf(key, task, *mode, config, found),
        }
    }

    /// The flow's outputs; `None` when it declares none.
    pub fn outputs(&self) -> Result<Option<Payload>, Failure> {
        if self.flow.is_conductor()
            && let Some(given) = self.scope.memory.notes.run_output(self.flow)
        {
            self.hold_run_output(&given)?;
            return Ok(Some(Payload::new(given.to_stored())));
        }
        if self.flow.index.flow.outputs.is_empty() {
            return Ok(None);
        }
        let mut out = serde_json::Map::new();
        for output in &self.flow.index.flow.outputs {
            let value = self.json(&output.value)?;
            // What holds a secret stays as it is: nothing may look at it here.
            let value = match (output.output_type, value.to_plain_json()) {
                (Some(declared), Some(plain)) => {
                    let typed = inputs::output(declared, &plain);
                    let wrong = |why| Failure::new("bad_output", format!("the output `{}`: {why}", output.id));
                    Value::from_json(&typed.map_err(wrong)?)
                }
                _ => value,
            };
            if output.required && value == Value::Null {
                let text = format!("the output `{}` is required, and has no value", output.id);
                return Err(Failure::new("bad_output", text));
            }
            out.insert(output.id.clone(), value.to_stored());
        }
        let out = Json::Object(out);
        if self.flow.is_conductor() {
            self.hold_run_output(&Value::from_stored(&out))?;
        }
        Ok(Some(Payload::new(out)))
    }

    /// Whether what an SLA asserts holds. One that cannot be evaluated does not.
    pub fn assertion(&self, place: u32) -> bool {
        match self.flow.index.flow.sla.get(place as usize).map(|sla| &sla.rule) {
            Some(SlaRule::Assertion { assert }) => self.text(assert).is_ok_and(|text| text.is_truthy_text()),
            Some(SlaRule::MaxDuration { .. }) | None => true,
        }
    }

    pub(crate) fn text(&self, template: &str) -> Result<Value, Failure> {
        if self.flow.is_conductor() {
            return conductor::render_text(template, &self.scope, &mut Budget::default()).map_err(|e| failure(&e));
        }
        let parsed = Template::of(template).map_err(|e| Failure::new("syntax", e.message))?;
        render(&parsed, &self.scope, &mut Budget::default()).map_err(|e| failure(&e))
    }

    pub(crate) fn plain_text(&self, template: &str, what: &str) -> Result<String, Failure> {
        match self.text(template)? {
            Value::Str(text) => Ok(text.to_string()),
            Value::Null => Err(Failure::new("missing_variable", format!("`{what}` gives nothing"))),
            value if self.flow.is_conductor() && !value.is_tainted() => Ok(conductor::print(&value)),
            _ => Err(Failure::new(
                "secret_not_allowed",
                format!("`{what}` is recorded as it is, so it cannot hold a secret"),
            )),
        }
    }

    pub(crate) fn duration(&self, template: &str, what: &str) -> Result<i64, Failure> {
        let text = self.plain_text(template, what)?;
        duration::parse_ms(&text).map_err(|e| Failure::new("bad_duration", e.to_string()))
    }

    /// The author's own limit for an attempt.
    fn time_limit(&self, task: &Task) -> Result<Option<i64>, Failure> {
        match &task.timeout {
            Some(template) => match self.duration(template, "timeout")? {
                0 => Err(Failure::new("bad_duration", "`timeout` must be longer than zero")),
                ms => Ok(Some(ms)),
            },
            None => Ok(task.timeout_ms),
        }
    }

    pub(crate) fn work(&self, key: &StepKey) -> Option<&Work> {
        self.scope.run.and_then(|run| run.state.steps.get(key)).map(|step| &step.work)
    }

    /// `timeout` counts where no duration does, and then the step has failed.
    fn pause(&self, task: &Task, spec: &PauseSpec) -> Result<Evaluated, Failure> {
        let Some(duration) = &spec.duration else {
            return Ok(Evaluated::Pause { ms: self.time_limit(task)?, late: OnTime::Fail });
        };
        let word = self.plain_text(&spec.behavior, "behavior")?;
        let late = OnTime::parse(&word).ok_or_else(|| {
            Failure::new("bad_behavior", format!("`{word}` is not a behavior: RESUME, WARN, FAIL or CANCEL"))
        })?;
        Ok(Evaluated::Pause { ms: Some(self.duration(duration, "pauseDuration")?), late })
    }

    pub(crate) fn instant(&self, template: &str, what: &str) -> Result<Millis, Failure> {
        let text = self.plain_text(template, what)?;
        let wrong = || Failure::new("bad_date", format!("`{what}` must be a date such as 2026-05-01T08:00:00Z"));
        Millis::parse_rfc3339(&text).ok_or_else(wrong)
    }

    pub(crate) fn json(&self, tree: &Json) -> Result<Value, Failure> {
        if self.flow.is_conductor() {
            return conductor::render_tree(tree, &self.scope, &mut Budget::default()).map_err(|e| failure(&e));
        }
        render_json(tree, &self.scope, &mut Budget::default(), true).map_err(|e| failure(&e))
    }

    fn items(&self, values: &Json) -> Result<Evaluated, Failure> {
        let not_list = || Failure::new("not_a_list", "`values` must give a list or the JSON text of a list");
        let list = match self.json(values)? {
            Value::List(items) => Value::List(items),
            Value::Str(text) => match serde_json::from_str::<Json>(&text) {
                Ok(json @ Json::Array(_)) => Value::from_json(&json),
                _ => return Err(not_list()),
            },
            _ => return Err(not_list()),
        };
        let count = match &list {
            Value::List(items) if items.contains(&Value::Null) => {
                let message = format!("Found null values on Each, with values={}", list.to_text());
                return Err(Failure::new("not_a_list", message));
            }
            Value::List(items) => items.len(),
            _ => 0,
        };
        Ok(Evaluated::items(u32::try_from(count).unwrap_or(u32::MAX), Payload::new(list.to_stored())))
    }

    fn leaf(
        &self,
        key: &StepKey,
        task: &Task,
        mode: LeafMode,
        config: &Json,
        found: &mut Found,
    ) -> Result<Evaluated, Failure> {
        let written = config;
        if task.type_name == TEMPLATED {
            return self.templated(key, task, written, found);
        }
        let config = match (mode, task.type_name.as_str()) {
            (LeafMode::Errand, _) => Value::Null,
            (LeafMode::Effect, _) if self.flow.is_conductor() => self.defined_input(task, written, found)?,
            (_, MERGE_PART) => self.batch_outputs(key, written),
            _ => self.rendered(task, written)?,
        };
        let config = match self.scope.memory.given.get(key) {
            Some(given) => with_input(config, given),
            None => config,
        };
        match mode {
            LeafMode::Inline if self.flow.is_conductor() => self.conductor_leaf(task, &config),
            LeafMode::Inline => Ok(self.inline(task, &config, found)),
            LeafMode::Op if self.flow.is_conductor() => {
                found.op = Some(self.conductor_op(key, task, &config)?);
                Ok(Evaluated::Op)
            }
            LeafMode::Op => {
                let plain = config.to_plain_json().ok_or_else(|| {
                    Failure::new(
                        "secret_not_allowed",
                        "the key-value store keeps plain values; it cannot hold a secret",
                    )
                })?;
                found.op = Some(self.kv_op(key, &task.type_name, &plain)?);
                Ok(Evaluated::Op)
            }
            LeafMode::Effect if task.type_name == EVENT => {
                self.effect(task, &task.type_name, &self.message(&config)?, found)
            }
            LeafMode::Effect => self.effect(task, &task.type_name, &config, found),
            LeafMode::Errand if task.type_name == DYNAMIC => self.dynamic(key, task, written, found),
            LeafMode::Errand if task.type_name == PULL => self.pull(written),
            LeafMode::Errand => {
                let evaluated = self.errand(written, self.scope.memory.given.get(key))?;
                let known = match &evaluated {
                    Evaluated::Errand { request, .. } => self.known(task, request, found),
                    _ => None,
                };
                Ok(known.unwrap_or(evaluated))
            }
        }
    }

    /// What another run got for the same.
    fn known(&self, task: &Task, request: &Payload, found: &mut Found) -> Option<Evaluated> {
        let (run, output) = self.cached(task, request)?;
        let message = format!("taken from the cache: run {run} asked for the same");
        found.logs.push(LogLine { level: Level::Info, message });
        Some(Evaluated::Inline { result: Ok(Some(output)), labels: None })
    }

    /// The properties of a task, but for those that it evaluates itself.
    pub(crate) fn rendered(&self, task: &Task, config: &Json) -> Result<Value, Failure> {
        let own: Vec<&str> = own_expressions(&task.type_name).collect();
        let Json::Object(fields) = config else { return self.json(config) };
        if task.type_name == "output.OutputValues" {
            // What is written as an expression is text here, as in Kestra; what is written as a number stays one.
            return render_json(config, &self.scope, &mut Budget::default(), false).map_err(|e| failure(&e));
        }
        if own.is_empty() {
            return self.json(config);
        }
        let rest = fields.iter().filter(|(name, _)| !own.contains(&name.as_str()));
        let rendered = self.json(&Json::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect()))?;
        let kept = own.iter().filter_map(|name| Some(((*name).to_owned(), Value::from_json(fields.get(*name)?))));
        match rendered {
            Value::Map(map) => Ok(Value::map(map.iter().map(|(k, v)| (k.clone(), v.clone())).chain(kept).collect())),
            other => Ok(other),
        }
    }

    pub(crate) fn inline(&self, task: &Task, config: &Value, found: &mut Found) -> Evaluated {
        // What only passes a value on keeps its holes; what prints or looks sees a mask.
        let passes = matches!(task.type_name.as_str(), "debug.Return" | "output.OutputValues") && config.is_tainted();
        let outcome = if passes {
            InlineOutcome::Done { output: passed_on(&task.type_name, config), logs: vec![], labels: vec![] }
        } else {
            run_inline(&task.type_name, &config.to_masked_json())
        };
        match outcome {
            InlineOutcome::Done { output, logs, labels } => {
                found.logs.extend(logs);
                let labels = (!labels.is_empty()).then(|| {
                    Payload::new(Json::Object(labels.into_iter().map(|(k, v)| (k, Json::String(v))).collect()))
                });
                let output = if passes { output } else { Value::from_json(&output).to_stored() };
                let empty = output.as_object().is_some_and(serde_json::Map::is_empty) || output.is_null();
                Evaluated::Inline { result: Ok((!empty).then(|| Payload::new(output))), labels }
            }
            InlineOutcome::Failed { code, message, logs } => {
                found.logs.extend(logs);
                Evaluated::Inline { result: Err(Failure::new(code, message)), labels: None }
            }
            InlineOutcome::SetVariables { names, overwrite } => {
                let known: Vec<&String> = names.iter().filter(|name| self.scope.has_variable(name)).collect();
                if !overwrite && !known.is_empty() {
                    return variables_fail("variable_exists", "`overwrite` is false, and there are already", &known);
                }
                // As it was rendered: what holds a secret keeps its holes.
                let given = config.get("variables").unwrap_or(Value::Null);
                let given = match &given {
                    Value::Str(text) => {
                        serde_json::from_str(text).map_or(given.clone(), |json| Value::from_json(&json))
                    }
                    _ => given,
                };
                Evaluated::Variables(VariableChange::Set(Payload::new(given.to_stored())))
            }
            InlineOutcome::UnsetVariables { names, ignore_missing } => {
                let missing: Vec<&String> = names.iter().filter(|name| !self.scope.has_variable(name)).collect();
                if !ignore_missing && !missing.is_empty() {
                    return variables_fail("variable_missing", "there are no variables", &missing);
                }
                Evaluated::Variables(VariableChange::Unset(Payload::new(json!(names))))
            }
        }
    }

    /// What a task of this type would do; that of the task itself may be known only now.
    pub(crate) fn effect(
        &self,
        task: &Task,
        type_name: &str,
        config: &Value,
        found: &mut Found,
    ) -> Result<Evaluated, Failure> {
        if type_name == "storage.Write" && config.is_tainted() {
            let text = "files keep plain values; they cannot hold a secret";
            return Err(Failure::new("secret_not_allowed", text));
        }
        let request = Payload::new(config.to_stored());
        if let Some(known) = self.known(task, &request, found) {
            return Ok(known);
        }
        let masked = config.to_masked_json();
        let class = task.effect.class.unwrap_or_else(|| effect_class(type_name, &masked));
        let out_key = task.effect.key.as_ref().map(|template| self.plain_text(template, "effect.key")).transpose()?;
        let timeout_ms = self
            .time_limit(task)?
            .or_else(|| timeout_hint_ms(type_name, &masked).and_then(|ms| i64::try_from(ms).ok()))
            .unwrap_or(self.limits.http_timeout_ms as i64);
        Ok(Evaluated::Effect {
            class,
            out_key,
            window_ms: task.effect.window_ms.unwrap_or(KEY_WINDOW_MS),
            timeout_ms,
            request,
        })
    }
}

fn variables_fail(code: &str, what: &str, names: &[&String]) -> Evaluated {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let failure = Failure::new(code, format!("{what} {}", names.join(", ")));
    Evaluated::Inline { result: Err(failure), labels: None }
}

/// A configuration whose `input` is what somebody gave instead.
fn with_input(config: Value, given: &Value) -> Value {
    match config {
        Value::Map(fields) if fields.contains_key("input") => {
            let mut fields = fields.as_ref().clone();
            fields.insert("input".to_owned(), given.clone());
            Value::map(fields)
        }
        other => other,
    }
}

/// The output of a task that hands its configuration on, holes included.
fn passed_on(type_name: &str, config: &Value) -> Json {
    let (from, to) = if type_name == "debug.Return" { ("format", "value") } else { ("values", "values") };
    let value = config.get(from).unwrap_or(Value::Null);
    let mut map = serde_json::Map::new();
    map.insert(to.to_owned(), value.to_stored());
    Json::Object(map)
}
