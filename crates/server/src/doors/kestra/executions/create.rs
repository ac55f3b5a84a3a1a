//! `POST /executions/{namespace}/{id}`: an execution is created, or, under a key that is known, shown again.

use super::uploads::Uploads;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::event;
use crate::doors::form::{self, Form};
use crate::doors::kestra::{execution, filters};
use crate::problem::Problem;
use crate::refused::rejected;
use axum::http::HeaderValue;
use semel_core::admission::{Decision, PresetName};
use semel_core::labels::{FROM, KIND, KINDS, SYSTEM};
use semel_core::{Door, FlowRef, Millis, RunId};
use semel_engine::flows::LoadedFlow;
use semel_engine::{FlowLookupError, Occurrence};
use semel_store::AdmitResult;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

/// How long `wait=true` holds the connection.
const WAIT: Duration = Duration::from_secs(3_600);

pub async fn post(call: Call) -> Answer {
    let flow = find_flow(&call)?;
    let wait = flag(&call, "wait")?;
    let mut occurrence = occurrence(&call, flow.clone())?;
    let mut uploads = Uploads::new(&call, &flow.flow_ref, None, &flow.index.flow.inputs)?;
    let mut inputs = inputs(&form::read(&call, &mut uploads).await?, &flow);
    occurrence.run = uploads.into_inputs(&mut inputs);
    occurrence.inputs = Json::Object(inputs);
    let workspace = occurrence.workspace.clone();
    let result = call.app.admit(occurrence).await?;
    let (id, replayed) = run_of(result)?;
    if wait {
        call.app.wait_ended(&workspace, id, WAIT).await?;
    }
    let whole = execution::find(&call.app, &workspace, id).await?;
    let mut shown = execution::shown(&whole, true, call.now());
    if !wait && !replayed {
        execution::as_created(&mut shown, &whole);
    }
    shown["url"] = execution::url(None, &whole.run.0).into();
    let mut response = ok(shown)?;
    if replayed {
        response.headers_mut().insert("x-idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// What the request says, but for its inputs.
pub fn occurrence(call: &Call, flow: Arc<LoadedFlow>) -> Result<Occurrence, Problem> {
    let (mut labels, correlation_id) = labels(call)?;
    labels.extend(kind(call)?.map(|kind| (KIND.to_owned(), kind)));
    let breakpoints = breakpoints(call, &flow)?;
    let who = call.principal()?;
    let guard = correlation_id.clone().filter(|_| call.app.config().correlation_guard);
    Ok(Occurrence {
        workspace: who.workspace.clone(),
        flow,
        door: Door::Kestra,
        caller: who.name.clone(),
        caller_key: event::header_key(&call.headers)?,
        door_preset: if guard.is_some() { PresetName::KestraGuard } else { PresetName::Semel },
        intrinsic_key: guard,
        request_preset: None,
        scope: None,
        inputs: json!({}),
        trigger: json!({}).into(),
        trigger_id: None,
        labels,
        correlation_id,
        run: None,
        start_at: call.query.read("scheduleDate", "a date such as 2026-05-01T08:00:00Z", Millis::parse_rfc3339)?,
        breakpoints,
    })
}

/// The tasks that the request wants to stop before, separated by commas.
pub fn breakpoints(call: &Call, flow: &LoadedFlow) -> Result<Vec<String>, Problem> {
    let text = call.query.one("breakpoints")?.unwrap_or_default();
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    // Ids of tasks have no dots: what follows one is a value of a loop.
    let known = |name: &str| match flow.index.task(name.split('.').next().unwrap_or_default()) {
        Some(_) => Ok(name.to_owned()),
        None => Err(Problem::query("breakpoints", "names a task that the flow does not have")),
    };
    names.map(known).collect()
}

/// The run that the event came to, and whether an earlier one had made it.
pub fn run_of(result: AdmitResult) -> Result<(RunId, bool), Problem> {
    let (decision, reason) = (result.decision, result.reason);
    if decision == Decision::Reject {
        return Err(rejected(reason, result.run.map(|run| run.id)));
    }
    let run = result.run.ok_or_else(|| Problem::internal("a decision without a run"))?;
    let replayed = matches!(decision, Decision::Attach | Decision::Replay | Decision::Hold | Decision::Resume);
    Ok((run.id, replayed))
}

/// The flow of the path, in the revision that is asked for.
pub fn find_flow(call: &Call) -> Result<Arc<LoadedFlow>, Problem> {
    let address = FlowRef::new(call.param("namespace")?, call.param("id")?);
    let revision = call.query.read("revision", "a revision", |text| text.parse::<u32>().ok())?;
    let (workspace, engine) = (call.workspace()?, call.app.engine());
    let found = match revision {
        Some(revision) => engine.flow_revision(&workspace, &address, revision),
        None => engine.flow(&workspace, &address),
    };
    let flow = found.map_err(|error| match error {
        FlowLookupError::Store(error) => error.into(),
        FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. } => {
            Problem::new(Code::FlowUnknown, "Requested Flow is not found.")
        }
    })?;
    if flow.index.flow.disabled {
        return Err(Problem::new(Code::FlowDisabled, "Requested Flow is disabled."));
    }
    Ok(flow)
}

type Labels = Vec<(String, String)>;

/// Labels of the request, and the correlation id among them.
pub fn labels(call: &Call) -> Result<(Labels, Option<String>), Problem> {
    let mut labels = vec![(FROM.to_owned(), "api".to_owned())];
    let mut correlation = None;
    for text in call.query.all("labels") {
        let (key, value) = filters::label(text)?;
        if key == execution::CORRELATION {
            if value.is_empty() || value.chars().count() > 255 {
                return Err(Problem::new(Code::IllegalArgument, "system.correlationId has 1 to 255 characters"));
            }
            correlation = Some(value);
            continue;
        }
        if key.starts_with(SYSTEM) && key != FROM {
            return Err(system_label(&key, &value));
        }
        if value.is_empty() {
            return Err(Problem::new(Code::IllegalArgument, format!("Label values must not be empty: {key}")));
        }
        labels.retain(|(known, _)| *known != key);
        labels.push((key, value));
    }
    Ok((labels, correlation))
}

pub fn system_label(key: &str, value: &str) -> Problem {
    let detail = format!("System labels can only be set by Semel itself, offending label: {key}={value}");
    Problem::new(Code::IllegalArgument, detail)
}

/// A parameter that is true or false.
pub fn flag(call: &Call, name: &str) -> Result<bool, Problem> {
    let read = |text: &str| match text {
        "true" | "" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Ok(call.query.read(name, "true or false", read)?.unwrap_or(false))
}

/// What the form gives to the declared inputs; what is not declared is left aside, as Kestra does.
pub fn inputs(form: &Form, flow: &LoadedFlow) -> Map<String, Json> {
    let declared =
        |name: &str| flow.index.flow.inputs.iter().any(|def| def.id == name || def.id.split('.').next() == Some(name));
    let mut inputs = form.inputs();
    inputs.retain(|name, _| declared(name));
    inputs
}

/// The kind of the execution, if it is not the usual one.
fn kind(call: &Call) -> Result<Option<String>, Problem> {
    match call.query.one("kind")? {
        None | Some("NORMAL") => Ok(None),
        Some(kind) if KINDS.contains(&kind) => Ok(Some(kind.to_owned())),
        Some(_) => Err(Problem::query("kind", "is one of NORMAL, TEST and PLAYGROUND")),
    }
}
