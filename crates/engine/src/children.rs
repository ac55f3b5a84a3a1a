//! Sub-runs: what a step starts, and under which key.

use crate::admit::{Lineage, prepare};
use crate::api::{AdmitError, FlowLookupError, Occurrence};
use crate::away;
use crate::evaluate::{Evaluator, Found};
use crate::flows::{Flows, LoadedFlow};
use crate::pauses::told_of;
use crate::scope::Services;
use semel_core::admission::{
    KeySource, LatePolicy, MismatchPolicy, OnDone, OnEnded, OnLive, Policy, PresetName, Window, WindowFrom,
};
use semel_core::ir::{ConductorFlow, SubflowSpec};
use semel_core::run::{Failure, StepKey};
use semel_core::{Door, FlowRef, Millis, RunId, WorkspaceId};
use semel_expr::{Budget, Value, render_json};
use semel_store::{OpKind, ParentRef};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// A run that a step wants, its expressions evaluated.
pub(crate) struct Start {
    pub flow: FlowRef,
    /// The flow itself, where it is stored only with the start.
    pub defined: Option<Arc<LoadedFlow>>,
    pub revision: Option<u32>,
    pub inputs: Value,
    pub labels: Vec<(String, String)>,
    /// The author's key, and what a twin gets.
    pub key: Option<String>,
    pub strategy: Option<PresetName>,
    /// The name of a workflow of Conductor's, whose versions share their keys.
    pub workflow: Option<String>,
    pub correlation_id: Option<String>,
    /// What the run hears of its parent.
    pub trigger: Json,
    pub start_at: Option<Millis>,
    pub waits: bool,
    pub new_on_restart: bool,
}

impl Evaluator<'_> {
    pub(crate) fn child(&self, key: &StepKey, spec: &SubflowSpec, found: &mut Found) -> Result<OpKind, Failure> {
        if let Some(request) = spec.terms.as_ref().and_then(|terms| terms.request.as_ref()) {
            return self.start(key, self.requested_start(key, &self.text(request)?)?);
        }
        let namespace = self.plain_text(&spec.namespace, "namespace")?;
        let terms = spec.terms.as_deref();
        let template = terms.and_then(|terms| terms.definition.as_ref());
        let given = template.map(|template| self.text(template)).transpose()?.unwrap_or(Value::Null);
        let defined = match given {
            Value::Null => None,
            given => Some(self.defined_workflow(&spec.flow_id, &given, found)?),
        };
        let name = match &defined {
            Some(flow) => flow.index.flow.conductor.as_ref().map(|own| own.name.clone()).unwrap_or_default(),
            None => self.plain_text(&spec.flow_id, "flowId")?,
        };
        let flow = match (&defined, terms) {
            (Some(flow), _) => flow.flow_ref.clone(),
            (None, Some(terms)) => self.workflow_named(&namespace, &name, &self.json(&terms.version)?)?,
            (None, None) => FlowRef::new(namespace, &name),
        };
        let mut labels: Vec<(String, String)> = Vec::new();
        if spec.inherit_labels {
            labels.extend(self.scope.memory.labels.clone());
        }
        // What a hidden run starts is hidden too.
        let kind = self.scope.memory.labels.get_key_value(semel_core::labels::KIND);
        labels.extend(kind.map(|(name, value)| (name.clone(), value.clone())));
        for (name, template) in &spec.labels {
            labels.push((name.clone(), self.plain_text(template, "labels")?));
        }
        let own_key = match (&spec.key, terms) {
            (Some(template), Some(_)) => Some(self.start_key(&self.text(template)?)?),
            (Some(template), None) => Some(self.plain_text(template, "idempotencyKey")?),
            (None, Some(terms)) if terms.inherits_key => self.inherited_key(key),
            (None, _) => None,
        };
        let correlation = terms.and_then(|terms| terms.correlation_id.as_ref());
        let correlation_id = correlation.map(|template| self.plain_text(template, "correlationId")).transpose()?;
        let trigger = match terms {
            Some(terms) => self.parent_words(key, &self.json(&terms.priority)?, &self.json(&terms.domains)?),
            None => self.words_of_parent(),
        };
        self.start(
            key,
            Start {
                flow,
                defined,
                revision: spec.revision,
                inputs: self.json(&spec.inputs)?,
                labels,
                key: own_key,
                strategy: terms.and_then(|terms| terms.strategy),
                workflow: terms.map(|_| name),
                correlation_id,
                trigger,
                start_at: spec.schedule_date.as_ref().map(|date| self.instant(date, "scheduleDate")).transpose()?,
                waits: spec.wait,
                new_on_restart: spec.new_on_restart,
            },
        )
    }

    /// The name of the run that a step starts by itself: the step's, so that a crash does not make a second one. In
    /// Conductor each attempt has a run of its own.
    fn own_key(&self, key: &StepKey, start: &Start) -> String {
        let Some(run) = self.scope.run else { return String::new() };
        let (id, round) = (run.state.step_id(key).hex(), run.state.round);
        let attempt = run.state.steps.get(key).map_or(1, |step| step.attempt);
        // A person may have asked for another one.
        let again = if start.new_on_restart { round } else { run.state.child_round };
        match start.workflow {
            Some(_) if attempt > 1 => format!("{id}-{round}-{attempt}"),
            _ if again > 0 => format!("{id}-{again}"),
            _ => id,
        }
    }

    /// A sub-run goes through the one admission, in the transaction that records the step.
    pub(crate) fn start(&self, key: &StepKey, start: Start) -> Result<OpKind, Failure> {
        if self.family.depth + 1 > self.limits.subrun_depth_max {
            let text = format!("sub-runs may nest {} deep", self.limits.subrun_depth_max);
            return Err(Failure::new("subflow_too_deep", text));
        }
        let found = match (start.defined.clone(), start.revision) {
            (Some(flow), _) => Ok(flow),
            (None, Some(revision)) => self.flows.revision(self.workspace, &start.flow, revision),
            (None, None) => self.flows.head(self.workspace, &start.flow),
        };
        let flow = found.map_err(|error| {
            if let FlowLookupError::Store(error) = &error {
                away::note(error);
            }
            Failure::new("flow_unknown", error.to_string())
        })?;
        // The child's own store form keeps holes; what the caller of an API sends cannot have any.
        let plain = start.inputs.to_plain_json().ok_or_else(|| {
            Failure::new(
                "secret_not_allowed",
                "a sub-run's inputs cannot hold a secret; read it with secret() in the sub-flow",
            )
        })?;
        let intrinsic_key = self.own_key(key, &start);
        let occurrence = Occurrence {
            workspace: self.workspace.clone(),
            flow,
            door: Door::Subflow,
            caller: format!("run {}", self.family.run),
            intrinsic_key: Some(intrinsic_key),
            caller_key: start.key,
            door_preset: PresetName::Semel,
            request_preset: start.strategy,
            scope: start.workflow.as_deref().map(ConductorFlow::key_scope),
            inputs: if plain.is_null() { json!({}) } else { plain },
            trigger: start.trigger.into(),
            trigger_id: None,
            labels: start.labels,
            correlation_id: Some(start.correlation_id.unwrap_or_else(|| self.family.correlation_id.to_owned())),
            run: None,
            start_at: start.start_at,
            breakpoints: vec![],
        };
        let lineage = Lineage {
            parent: ParentRef { run: self.family.run, step: key.clone(), waits: start.waits },
            root: self.family.root,
            depth: self.family.depth + 1,
        };
        let mut request = prepare(self.services, occurrence, None, Some(lineage), self.now).map_err(|error| {
            let code = if matches!(error, AdmitError::Inputs(_)) { "input_invalid" } else { "subflow_refused" };
            Failure::new(code, error.in_words())
        })?;
        // Another key comes with what its twins get.
        if request.key.as_ref().is_none_or(|key| key.source == KeySource::Intrinsic) {
            request.policy = CHILD_POLICY;
        }
        request.announced = self.flows.is_heard(self.workspace, &["CANCELLED", "FAILED"]);
        Ok(OpKind::Admit(Box::new(request)))
    }
}

/// The old property `outputs` of a sub-flow, rendered as at the end of the sub-run, in stored form.
pub(crate) fn outputs_of_child(
    services: &Services,
    flows: &Flows,
    workspace: &WorkspaceId,
    run: RunId,
    templates: &Json,
) -> Result<Json, String> {
    let told = told_of(services, flows, workspace, run).map_err(|error| error.to_string())?;
    let (root, now) = (StepKey::root(), services.store.now());
    let scope = told.scope(services, workspace, run, &root, now);
    let rendered = render_json(templates, &scope, &mut Budget::default(), true);
    rendered.map(|value| value.to_stored()).map_err(|error| error.message)
}

/// A parent that goes on after a failure goes on with the same child, whose finished effects stay.
const CHILD_POLICY: Policy = Policy {
    live: OnLive::Attach,
    done: OnDone::Replay,
    failed: OnEnded::Resume,
    cancelled: OnEnded::Resume,
    mismatch: MismatchPolicy::Ignore,
    window: Window::For { from: WindowFrom::Completed, duration_ms: 30 * 86_400_000 },
    late: LatePolicy::Start,
    require_key: false,
    expire_live: false,
};
