//! Which workflow a task starts, and under which key.

use crate::away;
use crate::evaluate::Evaluator;
use indexmap::IndexMap;
use semel_core::ir::{ConductorFlow, StartTerms};
use semel_core::run::{Failure, Payload};
use semel_core::{FlowRef, RunId};
use semel_expr::Value;
use semel_expr::conductor::print;
use serde_json::Value as Json;

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
    pub(crate) fn workflow_named(&self, namespace: &str, name: &str, terms: &StartTerms) -> Result<FlowRef, Failure> {
        let version = match self.json(&terms.version)? {
            Value::Null => 0,
            Value::Int(version) => u32::try_from(version).unwrap_or(u32::MAX),
            other => {
                let text = print(&other);
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

    /// The caller's key, if there is one. One that does not resolve is no key, and is refused.
    pub(crate) fn start_key(&self, template: &str) -> Result<String, Failure> {
        match self.text(template)? {
            Value::Null => Err(Failure::new("key_unresolved", "`idempotencyKey` gives nothing")),
            value if value.is_tainted() => Err(Failure::new(
                "secret_not_allowed",
                "`idempotencyKey` is recorded as it is, so it cannot hold a secret",
            )),
            value => Ok(print(&value)),
        }
    }

    /// What the flow that is started hears of its parent.
    pub(crate) fn parent_words(&self, terms: Option<&StartTerms>, step_id: &str) -> Result<Json, Failure> {
        let mut words = serde_json::json!({
            "executionId": self.family.run.to_string(),
            "namespace": self.flow.flow_ref.namespace,
            "flowId": self.flow.flow_ref.id,
        });
        let Some(terms) = terms else { return Ok(words) };
        words["workflowTaskId"] = Json::String(step_id.to_owned());
        for (name, template) in [("priority", &terms.priority), ("taskToDomain", &terms.domains)] {
            let value = self.json(template)?;
            if value != Value::Null {
                words[name] = value.to_masked_json();
            }
        }
        Ok(words)
    }
}
