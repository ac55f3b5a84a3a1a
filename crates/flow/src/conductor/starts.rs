//! Tasks that start other workflows.

use super::lower::{Lowering, literal, retry, step_of, subflow};
use super::model::Task;
use super::{References, Violation, compile_as};
use semel_core::admission::PresetName;
use semel_core::ir::{ConductorFlow, StartTerms, SubflowSpec, Task as Step, TaskKind, step_name};
use semel_expr::conductor::is_expression;
use serde_json::{Map, Value as Json};

impl Lowering<'_> {
    pub fn sub_workflow(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let Some(param) = &task.sub_workflow else { return };
        let strategy =
            self.strategy(param.idempotency_strategy.as_deref(), param.idempotency_key.is_some(), &param.path);
        let mut terms = StartTerms {
            request: None,
            definition: None,
            version: param.version.clone(),
            strategy,
            inherits_key: strategy.is_some() && param.idempotency_key.is_none(),
            correlation_id: None,
            priority: param.priority.clone(),
            domains: param.domains.clone(),
        };
        let path = format!("{}.workflowDefinition", param.path);
        let name = match self.definition(task, &param.definition, &path, &mut terms) {
            Some(own) => own,
            None => match &param.name {
                Some(name) if !name.is_empty() => name.clone(),
                // The definition says what it is called.
                _ if terms.definition.is_some() => String::new(),
                _ => {
                    self.say(format!("{}.name", param.path), "SubWorkflowParams name cannot be null or empty");
                    return;
                }
            },
        };
        let spec = SubflowSpec { key: param.idempotency_key.clone(), ..subflow(name, task.whole_input(), terms) };
        steps.push(Step { retry: retry(task), ..step_of(task, TaskKind::Subflow(spec)) });
    }

    /// Starts and goes on.
    pub fn start_workflow(&mut self, task: &Task, steps: &mut Vec<Step>) {
        let path = format!("{}.inputParameters.startWorkflow", task.path);
        let request = match task.input.get("startWorkflow") {
            Some(Json::Object(request)) => request,
            Some(Json::String(text)) if is_expression(text) => {
                let terms = StartTerms { request: Some(text.clone()), ..StartTerms::default() };
                let spec = SubflowSpec { wait: false, ..subflow(String::new(), Json::Null, terms) };
                steps.push(Step { retry: retry(task), ..step_of(task, TaskKind::Subflow(spec)) });
                return;
            }
            Some(_) => return self.say(path, "startWorkflow must be an object, or an expression that gives one"),
            None => return,
        };
        let text = |name: &str| request.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        let field = |name: &str| request.get(name).cloned().unwrap_or(Json::Null);
        let key = text("idempotencyKey").map(str::to_owned);
        let mut terms = StartTerms {
            request: None,
            definition: None,
            version: field("version"),
            strategy: self.strategy(text("idempotencyStrategy"), key.is_some(), &path).filter(|_| key.is_some()),
            inherits_key: false,
            correlation_id: text("correlationId").map(str::to_owned),
            priority: field("priority"),
            domains: field("taskToDomain"),
        };
        let inner = format!("{path}.workflowDef");
        let name = self
            .definition(task, &field("workflowDef"), &inner, &mut terms)
            .or_else(|| text("name").map(str::to_owned))
            .or_else(|| terms.definition.is_some().then(String::new));
        let Some(name) = name else {
            return self.say(format!("{path}.name"), "Workflow name cannot be null or empty");
        };
        let inputs = match field("input") {
            Json::Null => Json::Object(Map::new()),
            given => given,
        };
        let spec = SubflowSpec { wait: false, key, ..subflow(name, inputs, terms) };
        steps.push(Step { retry: retry(task), ..step_of(task, TaskKind::Subflow(spec)) });
    }

    /// A key without a strategy: a twin fails.
    fn strategy(&mut self, word: Option<&str>, has_key: bool, path: &str) -> Option<PresetName> {
        match word {
            None => has_key.then_some(PresetName::ConductorFail),
            Some("FAIL") => Some(PresetName::ConductorFail),
            Some("RETURN_EXISTING") => Some(PresetName::ConductorReturnExisting),
            Some("FAIL_ON_RUNNING") => Some(PresetName::ConductorFailOnRunning),
            Some(word) => {
                let message =
                    format!("`{word}` is not an idempotencyStrategy: FAIL, RETURN_EXISTING or FAIL_ON_RUNNING");
                self.say(format!("{path}.idempotencyStrategy"), message);
                None
            }
        }
    }

    /// A definition inside this one becomes a flow of its own beside it; the name it is started by.
    fn definition(&mut self, task: &Task, definition: &Json, path: &str, terms: &mut StartTerms) -> Option<String> {
        let version = match definition {
            Json::Null => return None,
            Json::Object(fields) => fields.get("version").and_then(Json::as_u64).unwrap_or(1),
            Json::String(text) if is_expression(text) => {
                terms.definition = Some(text.clone());
                return None;
            }
            _ => {
                self.say(path, "a workflow definition is expected here");
                return None;
            }
        };
        let name = format!("{}~{}", self.flow_id, step_name(&task.reference));
        let version = u32::try_from(version).unwrap_or(u32::MAX);
        let id = ConductorFlow::flow_id(&name, version);
        match compile_as(definition, self.limits, Some(id), References::Any) {
            Ok(compiled) => {
                self.inner.push(compiled.flow);
                self.inner.extend(compiled.inner);
            }
            Err(violations) => {
                let under = |inner: Violation| {
                    let dot = if inner.path.is_empty() { "" } else { "." };
                    Violation { path: format!("{path}{dot}{}", inner.path), ..inner }
                };
                self.found.extend(violations.into_iter().map(under));
            }
        }
        terms.version = Json::from(version);
        Some(literal(&name))
    }
}
