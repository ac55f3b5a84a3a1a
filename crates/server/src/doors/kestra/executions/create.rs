//! `POST /executions/{namespace}/{id}`: an execution is created, or, under a key that is known, shown again.

use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::event;
use crate::doors::kestra::form::{self, Form};
use crate::doors::kestra::{execution, filters};
use crate::problem::Problem;
use crate::refused::rejected;
use axum::http::HeaderValue;
use semel_core::admission::{Decision, PresetName};
use semel_core::ir::InputType;
use semel_core::{Door, FlowRef, Millis, RunId};
use semel_engine::files::UploadError;
use semel_engine::flows::LoadedFlow;
use semel_engine::{FlowLookupError, Occurrence};
use semel_store::AdmitResult;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

/// How long `wait=true` holds the connection.
const WAIT: Duration = Duration::from_secs(3_600);

const SYSTEM: &str = "system.";
const FROM: &str = "system.from";

pub async fn post(call: Call) -> Answer {
    let flow = find_flow(&call)?;
    let (labels, correlation_id) = labels(&call)?;
    let wait = flag(&call, "wait")?;
    let start_at = call.query.read("scheduleDate", "a date such as 2026-05-01T08:00:00Z", Millis::parse_rfc3339)?;
    check_kind(&call)?;
    let form = form::read(&call).await?;
    let mut inputs = inputs(&form, &flow);
    let run = files(&call, &flow, &form, &mut inputs).await?;
    let who = call.principal()?;
    let guard = correlation_id.clone().filter(|_| call.app.config().correlation_guard);
    let occurrence = Occurrence {
        workspace: who.workspace.clone(),
        flow,
        door: Door::Kestra,
        caller: who.name.clone(),
        caller_key: event::header_key(&call.headers)?,
        door_preset: if guard.is_some() { PresetName::KestraGuard } else { PresetName::Semel },
        intrinsic_key: guard,
        request_preset: None,
        scope: None,
        inputs: Json::Object(inputs),
        trigger: json!({}).into(),
        trigger_id: None,
        labels,
        correlation_id,
        run,
        start_at,
    };
    let workspace = who.workspace.clone();
    let result = call.app.admit(occurrence).await?;
    let (id, replayed) = run_of(result)?;
    if wait {
        call.app.wait_ended(&workspace, id, WAIT).await?;
    }
    let whole = execution::find(&call.app, &workspace, id).await?;
    let mut shown = execution::shown(&whole, true, call.now());
    shown["url"] = execution::url(None, &whole.run.0).into();
    let mut response = ok(shown)?;
    if replayed {
        response.headers_mut().insert("x-idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
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

/// Takes in the files of the form, each for the input that its part or its file is named after. They belong to the run
/// that is to be, whose id is returned; if it never comes to be, a sweep removes them.
async fn files(
    call: &Call,
    flow: &LoadedFlow,
    form: &Form,
    inputs: &mut Map<String, Json>,
) -> Result<Option<RunId>, Problem> {
    let (workspace, engine) = (call.workspace()?, call.app.engine());
    let mut run = None;
    for def in flow.index.flow.inputs.iter().filter(|def| def.input_type == InputType::File) {
        let Some(file) = form.files.iter().find(|file| file.field == def.id || file.name == def.id) else { continue };
        let id = *run.get_or_insert_with(|| engine.fresh_run());
        let mut upload = engine.upload(&workspace, &flow.flow_ref, id, &def.id, &file.name);
        let refused = |error: UploadError| match error {
            UploadError::Store(error) => error.into(),
            other => Problem::new(Code::IllegalArgument, format!("Invalid input for `{}`, {other}", def.id)),
        };
        upload.write(&file.bytes).await.map_err(refused)?;
        inputs.insert(def.id.clone(), upload.finish().await.map_err(refused)?.into());
    }
    Ok(run)
}

/// Executions of the other kinds are hidden from Kestra's lists; here every execution is a normal one.
fn check_kind(call: &Call) -> Result<(), Problem> {
    match call.query.one("kind")? {
        None | Some("NORMAL") => Ok(()),
        Some(other) => {
            Err(Problem::new(Code::IllegalArgument, format!("executions of kind {other} are not built; use NORMAL")))
        }
    }
}
