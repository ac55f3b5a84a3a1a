//! From an occurrence to a prepared request: everything that can be computed outside the
//! transaction is, and whatever fails here stores nothing and spends no key.

use crate::api::{AdmitError, FieldError, Occurrence, TriggerValue};
use crate::checks;
use crate::conductor::{arrived_name, misfit};
use crate::driver::{Born, Driver};
use crate::flows::{Flows, LoadedFlow};
use crate::inputs;
use crate::memory::{Memory, trigger_value};
use crate::outside;
use crate::scope::{ExprScope, Services};
use indexmap::IndexMap;
use semel_core::admission::*;
use semel_core::fingerprint::Fingerprint;
use semel_core::ir::{ConductorFlow, IdempotencySpec, KeyScope, LaneSpec, Trigger};
use semel_core::limits::Limits;
use semel_core::{Door, Millis, RunId, WorkspaceId};
use semel_expr::conductor::{print, render_text};
use semel_expr::{Budget, Template, Value, render, render_json};
use semel_store::script::head_of;
use semel_store::{AdmitRequest, AdmitResult, KeyClaim, LaneRequest, ParentRef, RunRow, Terms, Work};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Ticks of one schedule that may wait for each other.
const SCHEDULE_QUEUE_MAX: u32 = 1_000;

/// Who the new run descends from.
#[derive(Clone, Debug)]
pub struct Lineage {
    pub parent: ParentRef,
    pub root: RunId,
    pub depth: u32,
}

/// As much of a request as decides what a twin gets, if that can be said without reading an expression. Its inputs are
/// not checked: see [`is_checked`].
pub fn sketch(services: &Services, occurrence: &Occurrence, now: Millis) -> Option<AdmitRequest> {
    let flow = &occurrence.flow;
    let plain = !flow.index.flow.disabled && !reads_at_admission(flow, trigger_of(occurrence));
    // A person's inputs are checked by name as well, which the payload says nothing of.
    if !plain || occurrence.door == Door::Cli || occurrence.caller_key.is_none() {
        return None;
    }
    let memory = Memory::default();
    let scope = ExprScope { services, workspace: &occurrence.workspace, flow, memory: &memory, run: None, now };
    begin(services, occurrence, &scope, now).ok()
}

/// True when what was found for a [`sketch`] holds for the whole request: its twin had the same payload, and it was
/// checked by this very revision.
pub fn is_checked(found: &AdmitResult, flow: &LoadedFlow) -> bool {
    let by_this = |run: &RunRow| run.revision == flow.revision && run.flow == flow.flow_ref;
    found.same_payload && found.run.as_ref().is_some_and(by_this)
}

fn trigger_of(occurrence: &Occurrence) -> Option<&Trigger> {
    let id = occurrence.trigger_id.as_ref()?;
    occurrence.flow.index.flow.triggers.iter().find(|trigger| trigger.id == *id)
}

/// What identifies the event and says how its twins are treated.
fn begin(
    services: &Services,
    occurrence: &Occurrence,
    scope: &ExprScope<'_>,
    now: Millis,
) -> Result<AdmitRequest, AdmitError> {
    let flow = &occurrence.flow;
    let block = flow.index.flow.idempotency.as_ref();
    let (key, policy) = match cached_start(occurrence)? {
        Some((key, policy)) => (Some(key), policy),
        None => (choose(occurrence, block, flow, scope)?, policy_for(occurrence, block)),
    };
    if key.is_none() && policy.require_key {
        return Err(KeyError::Missing.into());
    }
    let run = occurrence.run.unwrap_or_else(|| services.entropy.run_id(now));
    Ok(AdmitRequest {
        fingerprint: fingerprint(flow, occurrence),
        workspace: occurrence.workspace.clone(),
        flow: flow.flow_ref.clone(),
        revision: flow.revision,
        door: occurrence.door,
        occurrence: format!("{:016x}{:016x}", services.entropy.random(), now.0),
        caller: occurrence.caller.clone(),
        key,
        policy,
        lane: None,
        run,
        inputs: Json::Null,
        trigger: Json::Null,
        labels: Vec::new(),
        correlation_id: None,
        root: None,
        depth: 0,
        tick: None,
        hearing: None,
        announced: false,
        parent: None,
        terms: Terms::default(),
    })
}

/// Prepares one occurrence, from its [`sketch`] if there is one.
pub fn prepare(
    services: &Services,
    occurrence: Occurrence,
    sketch: Option<AdmitRequest>,
    lineage: Option<Lineage>,
    now: Millis,
) -> Result<AdmitRequest, AdmitError> {
    let flow = occurrence.flow.clone();
    if flow.index.flow.disabled {
        return Err(AdmitError::Disabled);
    }
    if occurrence.door == Door::Cli {
        // Events carry what their senders like; a person who names an input means one of the flow's.
        inputs::check_names(&flow.index.flow.inputs, &occurrence.inputs).map_err(AdmitError::Inputs)?;
    }
    let sent = occurrence.trigger.written_out(&occurrence.inputs, occurrence.caller_key.as_deref());
    let trigger = trigger_of(&occurrence);
    let labels = merge_labels(&occurrence, &flow);
    // Most flows have no expression that is read at the door, and then nobody sees these values.
    let reads = reads_at_admission(&flow, trigger);
    let mut memory = Memory::default();
    if reads {
        memory.trigger = trigger_value(&Value::from_json(&sent).to_stored());
        memory.labels = labels.iter().cloned().collect();
    }
    if let (true, Some(id)) = (reads, &occurrence.correlation_id) {
        memory.more.insert("correlationId".to_owned(), Value::str(id));
    }
    if let TriggerValue::Heard { outputs, .. } = &occurrence.trigger {
        memory.outputs = Value::from_json(outputs);
    }
    let mut filled = None;
    if let Some(trigger) = trigger.filter(|trigger| !trigger.inputs.is_empty()) {
        let mut given = occurrence.inputs.clone();
        fill_from_trigger(services, &occurrence, trigger, &memory, now, &mut given)?;
        inputs::written_by_author(&flow.index.flow.inputs, &mut given);
        filled = Some(given);
    } else if occurrence.door == Door::Subflow && !flow.is_conductor() {
        let mut given = occurrence.inputs.clone();
        inputs::written_by_author(&flow.index.flow.inputs, &mut given);
        filled = Some(given);
    }
    let given = filled.as_ref().unwrap_or(&occurrence.inputs);
    let workspace = &occurrence.workspace;
    let scope = ExprScope { services, workspace, flow: &flow, memory: &memory, run: None, now };
    let stored = match &flow.index.flow.conductor {
        Some(own) => {
            let stored = inputs::untyped(given, &own.input_template).map_err(AdmitError::Inputs)?;
            hold_inputs(services, workspace, own, &stored)?;
            stored
        }
        None => inputs::check(&flow.index.flow.inputs, given, &scope).map_err(AdmitError::Inputs)?,
    };
    // What is stored and what keys are made of: without the texts of secret inputs.
    let trigger_stored = inputs::hide_secrets(&sent, &flow.index.flow.inputs, given, &stored).to_stored();
    if reads {
        memory.inputs = Value::from_stored(&stored);
        memory.trigger = trigger_value(&trigger_stored);
    }
    let scope = ExprScope { services, workspace, flow: &flow, memory: &memory, run: None, now };
    let begun = match sketch {
        Some(sketch) => sketch,
        // What makes an event that event must be the same when it comes again.
        None => outside::without(|| begin(services, &occurrence, &scope, now))?,
    };
    let ended = checks::ended(&occurrence, &scope)?;
    let lane = outside::without(|| lane_for(&occurrence, flow.index.flow.lane.as_ref(), &flow, &scope))?;
    let trigger_labels = trigger.map(|t| render_labels(t, &scope)).transpose()?.unwrap_or_default();
    let mut all_labels: IndexMap<String, String> = labels.into_iter().collect();
    all_labels.extend(trigger_labels);
    Ok(AdmitRequest {
        lane,
        inputs: stored,
        trigger: trigger_stored,
        labels: all_labels.into_iter().collect(),
        correlation_id: occurrence.correlation_id,
        root: lineage.as_ref().map(|l| l.root),
        depth: lineage.as_ref().map_or(0, |l| l.depth),
        parent: lineage.map(|l| l.parent),
        terms: Terms { start_at: occurrence.start_at, ended, breakpoints: occurrence.breakpoints, ..Terms::default() },
        ..begun
    })
}

/// Refuses inputs of a Conductor workflow that do not fit its schema.
fn hold_inputs(
    services: &Services,
    workspace: &WorkspaceId,
    own: &ConductorFlow,
    stored: &Json,
) -> Result<(), AdmitError> {
    let Some(wanted) = &own.input_schema else { return Ok(()) };
    let given = Value::from_stored(stored).to_masked_json();
    match misfit(services, workspace, Some(wanted), &given).map_err(AdmitError::Store)? {
        None => Ok(()),
        Some(text) => {
            let message = format!("the input does not fit the schema of the workflow: {text}");
            Err(AdmitError::Inputs(vec![FieldError { field: "input".to_owned(), message }]))
        }
    }
}

/// The checks of the flow that do not hold.
pub fn failed_checks(
    services: &Services,
    occurrence: &Occurrence,
    now: Millis,
) -> Result<Vec<checks::FailedCheck>, AdmitError> {
    let (flow, workspace) = (&occurrence.flow, &occurrence.workspace);
    let sent = occurrence.trigger.written_out(&occurrence.inputs, occurrence.caller_key.as_deref());
    let mut memory = Memory {
        trigger: trigger_value(&Value::from_json(&sent).to_stored()),
        labels: merge_labels(occurrence, flow).into_iter().collect(),
        ..Memory::default()
    };
    let scope = ExprScope { services, workspace, flow, memory: &memory, run: None, now };
    let stored = inputs::check(&flow.index.flow.inputs, &occurrence.inputs, &scope).map_err(AdmitError::Inputs)?;
    memory.inputs = Value::from_stored(&stored);
    let scope = ExprScope { services, workspace, flow, memory: &memory, run: None, now };
    Ok(checks::failed(&flow.index.flow.checks, &scope))
}

/// The write that admits a prepared occurrence. A run that only computes is done in the same commit; the request is
/// handed back if a driver will have to begin the run.
pub fn admission(
    services: &Arc<Services>,
    flows: &Arc<Flows>,
    limits: &Limits,
    flow: &LoadedFlow,
    request: AdmitRequest,
    now: Millis,
) -> (Work, Option<AdmitRequest>) {
    if request.terms.is_told_by_journal() {
        return (Work::Admit(Box::new(request)), None);
    }
    if flow.is_brief {
        let born = Born {
            row: head_of(&request, now),
            inputs: request.inputs.clone(),
            trigger: request.trigger.clone(),
            labels: request.labels.clone(),
        };
        if let Some(first) = Driver::whole_run(services, flows, limits, born, now) {
            return (Work::AdmitAndRun(Box::new((request, first))), None);
        }
    }
    (Work::Admit(Box::new(request.clone())), Some(request))
}

/// Whether an expression of the flow is evaluated before there is a run.
fn reads_at_admission(flow: &LoadedFlow, trigger: Option<&Trigger>) -> bool {
    let flow = &flow.index.flow;
    trigger.is_some_and(|trigger| !trigger.inputs.is_empty() || !trigger.labels.is_empty())
        || flow.inputs.iter().any(|def| def.defaults.is_some())
        || !flow.checks.is_empty()
        || flow.idempotency.as_ref().is_some_and(|block| block.key.is_some())
        || flow.lane.as_ref().is_some_and(|lane| lane.key.is_some())
}

/// Flow labels without `system.*`, then the request's; what a trigger has started says so.
fn merge_labels(occurrence: &Occurrence, flow: &LoadedFlow) -> Vec<(String, String)> {
    let mut merged: IndexMap<String, String> = flow
        .index
        .flow
        .labels
        .iter()
        .filter(|(k, _)| !k.starts_with("system."))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if matches!(occurrence.door, Door::Webhook | Door::Schedule | Door::Flow) {
        merged.insert(semel_core::labels::FROM.to_owned(), "trigger".to_owned());
    }
    merged.extend(occurrence.labels.iter().cloned());
    merged.into_iter().collect()
}

fn render_labels(trigger: &Trigger, scope: &ExprScope<'_>) -> Result<Vec<(String, String)>, AdmitError> {
    trigger
        .labels
        .iter()
        .map(|(key, template)| Ok((key.clone(), render_plain(template, scope, "trigger labels")?)))
        .collect()
}

fn fill_from_trigger(
    services: &Services,
    occurrence: &Occurrence,
    trigger: &Trigger,
    memory: &Memory,
    now: Millis,
    given: &mut Json,
) -> Result<(), AdmitError> {
    let scope =
        ExprScope { services, workspace: &occurrence.workspace, flow: &occurrence.flow, memory, run: None, now };
    if !given.is_object() {
        *given = json!({});
    }
    for (name, template) in &trigger.inputs {
        let value = render_json(template, &scope, &mut Budget::default(), true)
            .map_err(|e| AdmitError::Expression { what: "trigger inputs", message: e.message })?;
        let plain = value.to_plain_json().ok_or(AdmitError::Expression {
            what: "trigger inputs",
            message: format!("input `{name}` would hold a secret; read it with secret() in the task instead"),
        })?;
        if let Some(map) = given.as_object_mut() {
            // What comes with the occurrence itself, as with a backfill, is meant to differ.
            map.entry(name).or_insert(plain);
        }
    }
    Ok(())
}

/// Renders to plain text; a secret is refused, since the result is stored and compared.
fn render_plain(template: &str, scope: &ExprScope<'_>, what: &'static str) -> Result<String, AdmitError> {
    let fail = |message: String| AdmitError::Expression { what, message };
    if scope.flow.is_conductor() {
        let value = render_text(template, scope, &mut Budget::default()).map_err(|e| fail(e.message))?;
        return if value.is_tainted() { Err(fail("it would hold a secret".to_owned())) } else { Ok(print(&value)) };
    }
    let parsed = Template::of(template).map_err(|e| fail(e.message))?;
    match render(&parsed, scope, &mut Budget::default()).map_err(|e| fail(e.message))? {
        Value::Str(text) => Ok(text.to_string()),
        _ => Err(fail("it would hold a secret".to_owned())),
    }
}

fn choose(
    occurrence: &Occurrence,
    block: Option<&IdempotencySpec>,
    flow: &LoadedFlow,
    scope: &ExprScope<'_>,
) -> Result<Option<KeyClaim>, AdmitError> {
    let applies = |block: &&IdempotencySpec| match &block.doors {
        Some(doors) => doors.contains(&occurrence.door),
        None => occurrence.door.carries_payload(),
    };
    let flow_key = match block.filter(applies).and_then(|b| b.key.as_ref()) {
        None => None,
        Some(template) => {
            let text = render_plain(template, scope, "idempotency.key").map_err(|error| match error {
                AdmitError::Expression { message, .. } => AdmitError::Key(KeyError::Unresolved(message)),
                other => other,
            })?;
            if text.trim().is_empty() {
                return Err(KeyError::Unresolved("it gives an empty text".to_owned()).into());
            }
            Some(text)
        }
    };
    let chosen = choose_key(occurrence.caller_key.clone(), flow_key, occurrence.intrinsic_key.clone())?;
    let Some(ChosenKey { key, source }) = chosen else { return Ok(None) };
    let default_scope = KeyScope::default();
    let key_scope = block.map(|b| &b.scope).or(occurrence.scope.as_ref()).unwrap_or(&default_scope);
    let scope = scope_text(key_scope, &flow.flow_ref, source);
    let hash = claim_hash(&occurrence.workspace, &scope, &key);
    Ok(Some(KeyClaim { hash, key, scope, source }))
}

/// `cacheConfig` of a workflow: who starts the same gets the workflow that is under way, or the answer that is there. It
/// is a key like any other, so the transaction that starts the workflow decides it. A caller's own key comes first, and a
/// key of which a part gives nothing remembers nothing.
fn cached_start(occurrence: &Occurrence) -> Result<Option<(KeyClaim, Policy)>, AdmitError> {
    let Some(own) = occurrence.flow.index.flow.conductor.as_deref() else { return Ok(None) };
    let Some(cache) = own.cache.as_ref().filter(|_| occurrence.caller_key.is_none()) else { return Ok(None) };
    let stored = inputs::untyped(&occurrence.inputs, &own.input_template).map_err(AdmitError::Inputs)?;
    let input = Value::from_stored(&stored).to_masked_json();
    let mut roots = input.as_object().cloned().unwrap_or_default();
    roots.insert("workflow".to_owned(), json!({ "input": input }));
    let Ok(key) = arrived_name(&cache.key, &roots) else { return Ok(None) };
    let key = remembered_key(&key);
    let scope = scope_text(&own.cache_scope(), &occurrence.flow.flow_ref, KeySource::Flow);
    let hash = claim_hash(&occurrence.workspace, &scope, &key);
    let policy = Policy {
        live: OnLive::Attach,
        done: OnDone::Replay,
        failed: OnEnded::Rerun,
        cancelled: OnEnded::Rerun,
        mismatch: MismatchPolicy::Ignore,
        window: Window::For { from: WindowFrom::Completed, duration_ms: cache.ttl_ms },
        late: LatePolicy::Start,
        require_key: false,
        expire_live: false,
    };
    Ok(Some((KeyClaim { hash, key, scope, source: KeySource::Flow }, policy)))
}

/// What the request says, else the flow's block, else the door; `strict` puts the block first.
pub fn policy_for(occurrence: &Occurrence, block: Option<&IdempotencySpec>) -> Policy {
    match (occurrence.request_preset, block) {
        (Some(preset), None) => preset.preset().policy,
        (Some(preset), Some(block)) if !block.strict => {
            Policy { require_key: block.require_key, expire_live: block.expire_live, ..preset.preset().policy }
        }
        (_, Some(block)) => block_policy(block),
        (None, None) => occurrence.door_preset.preset().policy,
    }
}

fn block_policy(block: &IdempotencySpec) -> Policy {
    let base = block.preset.unwrap_or(PresetName::Semel).preset().policy;
    Policy {
        live: block.live.unwrap_or(base.live),
        done: block.done.unwrap_or(base.done),
        failed: block.failed.unwrap_or(base.failed),
        cancelled: block.cancelled.unwrap_or(base.cancelled),
        mismatch: block.mismatch.unwrap_or(base.mismatch),
        window: block.window.unwrap_or(base.window),
        late: block.late.unwrap_or(base.late),
        require_key: block.require_key,
        expire_live: block.expire_live,
    }
}

fn lane_for(
    occurrence: &Occurrence,
    spec: Option<&LaneSpec>,
    flow: &LoadedFlow,
    scope: &ExprScope<'_>,
) -> Result<Option<LaneRequest>, AdmitError> {
    let Some(spec) = spec else {
        // A schedule is its own lane: its ticks do not overlap, and those made up for wait in line.
        return Ok(match (&occurrence.door, &occurrence.trigger_id) {
            (Door::Schedule, Some(id)) if !trigger_of(occurrence).is_some_and(|trigger| trigger.allow_concurrent) => {
                Some(LaneRequest {
                    hash: lane_hash(&occurrence.workspace, &flow.flow_ref, &format!("schedule {id}")),
                    limit: 1,
                    busy: Busy::Queue { max: SCHEDULE_QUEUE_MAX },
                })
            }
            _ => None,
        });
    };
    lane_of(spec, &occurrence.workspace, flow, scope).map(Some)
}

pub fn lane_of(
    spec: &LaneSpec,
    workspace: &WorkspaceId,
    flow: &LoadedFlow,
    scope: &ExprScope<'_>,
) -> Result<LaneRequest, AdmitError> {
    let key = match &spec.key {
        Some(template) => render_plain(template, scope, "lane.key")?,
        None => String::new(),
    };
    Ok(LaneRequest { hash: lane_hash(workspace, &flow.flow_ref, &key), limit: spec.limit, busy: spec.busy })
}

/// The flow it names and the payload it carries; never headers.
fn fingerprint(flow: &LoadedFlow, occurrence: &Occurrence) -> Fingerprint {
    let none = Json::Null;
    let part = |name: &str| occurrence.trigger.payload(name).unwrap_or(&none);
    let nameless = |value: &Json| match occurrence.run {
        Some(run) => without(value, &run.to_string()),
        None => value.clone(),
    };
    let uploaded = occurrence.run.is_some().then(|| nameless(&occurrence.inputs));
    let inputs = uploaded.as_ref().unwrap_or(&occurrence.inputs);
    let name = json!(flow.flow_ref.to_string());
    let mut parts = vec![&name, inputs, part("body"), part("parameters")];
    // Few webhooks have one, and what the others are known by stays as it is.
    parts.extend(occurrence.trigger.payload("path"));
    let stored = ["uri", "parts", "formFields"].map(|name| occurrence.trigger.payload(name).map(nameless));
    parts.extend(stored.iter().flatten());
    Fingerprint::of(&parts)
}

/// The addresses of uploaded files name the run that was to be; another delivery of the same files names another.
fn without(value: &Json, run: &str) -> Json {
    match value {
        Json::String(text) => Json::String(text.replace(run, "")),
        Json::Array(items) => items.iter().map(|item| without(item, run)).collect(),
        Json::Object(map) => map.iter().map(|(name, item)| (name.clone(), without(item, run))).collect(),
        other => other.clone(),
    }
}
