//! Which workflow a task starts, and under which key.

use super::roots::{attempt_at, task_id};
use crate::api::FlowLookupError;
use crate::away;
use crate::children::Start;
use crate::evaluate::{Evaluator, Found};
use crate::flows::LoadedFlow;
use crate::workflows::inline_id;
use indexmap::IndexMap;
use semel_core::admission::PresetName;
use semel_core::ir::{CONDUCTOR_NAMESPACE, ConductorFlow, Flow};
use semel_core::run::{FAILED_FOR_GOOD, Failure, Payload, StepKey};
use semel_core::{FlowRef, RunId};
use semel_expr::Value;
use semel_expr::conductor::print;
use semel_flow::conductor::compile_under;
use semel_store::FlowRow;
use serde_json::Value as Json;
use std::sync::Arc;

/// What a SUB_WORKFLOW task gives: the output of the workflow, and which run it was.
pub fn sub_workflow_output(run: RunId, outputs: &Json) -> Payload {
    let mut all = match Value::from_stored(outputs) {
        Value::Map(outputs) => outputs.as_ref().clone(),
        _ => IndexMap::new(),
    };
    all.insert("subWorkflowId".to_owned(), Value::str(run.to_string()));
    Payload::new(Value::map(all).to_stored())
}

impl Evaluator<'_> {
    /// The flow of this name, in the version that is asked for or in the newest.
    pub(crate) fn workflow_named(&self, namespace: &str, name: &str, version: &Value) -> Result<FlowRef, Failure> {
        let version = match version {
            Value::Null => 0,
            // As clients write what they leave open, and as an input that is empty gives it.
            Value::Str(text) if text.trim().is_empty() => 0,
            Value::Int(version) => u32::try_from(*version).unwrap_or(u32::MAX),
            other => {
                let text = print(other);
                let whole = text.trim().parse::<f64>().ok().filter(|n| n.fract() == 0.0 && *n >= 0.0);
                whole
                    .map(|n| n as u32)
                    .ok_or_else(|| Failure::new("bad_version", format!("`{text}` is not the version of a workflow")))?
            }
        };
        let version = match version {
            0 => self.newest_version(namespace, name)?,
            version => version,
        };
        Ok(FlowRef::new(namespace, ConductorFlow::flow_id(name, version)))
    }

    fn newest_version(&self, namespace: &str, name: &str) -> Result<u32, Failure> {
        let found = self.flows.newest_version(self.workspace, namespace, name).map_err(|error| {
            away::note(&error);
            Failure::new("flow_unknown", error.to_string())
        })?;
        found.ok_or_else(|| {
            let text = format!("The Task {name} defined as a sub-workflow has no workflow definition available ");
            Failure::new("flow_unknown", text)
        })
    }

    /// The flow of a definition that was computed. Its rows are stored by the transaction that starts it, unless they are
    /// there already: they have the name of their content. `name` is what it is called if it does not say so.
    pub(crate) fn defined_workflow(
        &self,
        name: &str,
        given: &Value,
        found: &mut Found,
    ) -> Result<Arc<LoadedFlow>, Failure> {
        let wrong = |text: String| Failure::new(FAILED_FOR_GOOD, format!("the computed workflow definition: {text}"));
        let plain = given.to_plain_json();
        let plain = plain.ok_or_else(|| Failure::new("secret_not_allowed", "a definition cannot hold a secret"))?;
        let definition = match plain {
            Json::String(text) => {
                serde_json::from_str(&text).map_err(|error| wrong(format!("it is not JSON: {error}")))?
            }
            other => other,
        };
        let Json::Object(mut fields) = definition else { return Err(wrong("an object is expected".to_owned())) };
        if fields.get("name").is_none_or(|name| name.as_str().is_none_or(str::is_empty)) && !name.is_empty() {
            fields.insert("name".to_owned(), Json::String(self.plain_text(name, "name")?));
        }
        let definition = Json::Object(fields);
        let address = FlowRef::new(CONDUCTOR_NAMESPACE, inline_id(&definition));
        match self.flows.head(self.workspace, &address) {
            Ok(known) => return Ok(known),
            Err(FlowLookupError::Store(error)) => {
                away::note(&error);
                return Err(Failure::new("store", error.to_string()));
            }
            Err(FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. }) => {}
        }
        let compiled = compile_under(&definition, self.limits, address.id.clone()).map_err(|violations| {
            let told: Vec<String> =
                violations.iter().take(5).map(|one| format!("{}: {}", one.path, one.message)).collect();
            wrong(told.join("; "))
        })?;
        let source = definition.to_string();
        let row = |flow: &Flow| {
            let ir = serde_json::to_string(flow).map_err(|error| wrong(error.to_string()))?;
            Ok::<_, Failure>(FlowRow {
                workspace: self.workspace.clone(),
                flow: flow.flow_ref(),
                revision: 1,
                source: source.clone(),
                ir,
                disabled: false,
                deleted: false,
                created_at: self.now,
                created_by: format!("run {}", self.family.run),
            })
        };
        let own = row(&compiled.flow)?;
        let loaded = LoadedFlow::from_row(&own).map_err(|error| wrong(error.to_string()))?;
        found.definitions = compiled.inner.iter().map(row).collect::<Result<_, _>>()?;
        found.definitions.push(own);
        Ok(Arc::new(loaded))
    }

    /// The caller's key, if there is one. One that does not resolve is no key, and is refused.
    pub(crate) fn start_key(&self, given: &Value) -> Result<String, Failure> {
        match given {
            Value::Null => Err(Failure::new("key_unresolved", "`idempotencyKey` gives nothing")),
            value if value.is_tainted() => Err(Failure::new(
                "secret_not_allowed",
                "`idempotencyKey` is recorded as it is, so it cannot hold a secret",
            )),
            value => Ok(print(value)),
        }
    }

    /// The key of this run, and the step: two children of one run do not share theirs.
    pub(crate) fn inherited_key(&self, key: &StepKey) -> Option<String> {
        let own = self.scope.memory.trigger.get("key").filter(|own| *own != Value::Null)?;
        Some(format!("{}/{key}", own.to_text()))
    }

    /// A START_WORKFLOW whose request was computed as a whole: what it holds is data.
    pub(crate) fn requested_start(&self, key: &StepKey, request: &Value) -> Result<Start, Failure> {
        let field = |name: &str| request.get(name).unwrap_or(Value::Null);
        let text = |name: &str| Some(field(name)).filter(|value| *value != Value::Null).map(|value| print(&value));
        let Some(name) = text("name").filter(|name| !name.is_empty()) else {
            return Err(Failure::new("bad_config", "`startWorkflow` gives no `name` of a workflow"));
        };
        if field("workflowDef") != Value::Null {
            let text = "a `workflowDef` in a request that is computed is not built; register it and name it";
            return Err(Failure::new("not_built", text));
        }
        let own_key = match field("idempotencyKey") {
            Value::Null => None,
            given => Some(self.start_key(&given)?),
        };
        Ok(Start {
            flow: self.workflow_named(CONDUCTOR_NAMESPACE, &name, &field("version"))?,
            defined: None,
            revision: None,
            inputs: field("input"),
            labels: Vec::new(),
            strategy: strategy(text("idempotencyStrategy").as_deref(), own_key.is_some())?,
            key: own_key,
            workflow: Some(name),
            correlation_id: text("correlationId"),
            trigger: self.parent_words(key, &field("priority"), &field("taskToDomain")),
            start_at: None,
            waits: false,
            new_on_restart: false,
        })
    }

    /// What any run that is started by a step hears.
    pub(crate) fn words_of_parent(&self) -> Json {
        serde_json::json!({
            "executionId": self.family.run.to_string(),
            "namespace": self.flow.flow_ref.namespace,
            "flowId": self.flow.flow_ref.id,
            "flowRevision": self.flow.revision,
        })
    }

    /// What a workflow hears of its parent.
    pub(crate) fn parent_words(&self, key: &StepKey, priority: &Value, domains: &Value) -> Json {
        let mut words = self.words_of_parent();
        let own = self.scope.run.map(|run| task_id(run.state, key, attempt_at(run.state, key)));
        words["workflowTaskId"] = Json::String(own.unwrap_or_default());
        for (name, value) in [("priority", priority), ("taskToDomain", domains)] {
            if *value != Value::Null {
                words[name] = value.to_masked_json();
            }
        }
        words
    }
}

/// What a twin gets: a key without a strategy fails it, and a strategy without a key says nothing.
pub(crate) fn strategy(word: Option<&str>, has_key: bool) -> Result<Option<PresetName>, Failure> {
    let strategy = match word {
        None | Some("FAIL") => PresetName::ConductorFail,
        Some("RETURN_EXISTING") => PresetName::ConductorReturnExisting,
        Some("FAIL_ON_RUNNING") => PresetName::ConductorFailOnRunning,
        Some(word) => {
            let text = format!("`{word}` is not an idempotencyStrategy: FAIL, RETURN_EXISTING or FAIL_ON_RUNNING");
            return Err(Failure::new("bad_config", text));
        }
    };
    Ok(has_key.then_some(strategy))
}
