//! What people change of executions: where they stand, what they are called, whether they are done again.

use super::act;
use super::create::{self, system_label};
use super::uploads::Uploads;
use crate::call::{Answer, Call, no_content};
use crate::codes::Code;
use crate::doors::{form, kestra::execution};
use crate::json;
use crate::problem::Problem;
use semel_core::RunId;
use semel_core::run::{Conclusion, EndStatus, KestraState, StepOutcome};
use semel_engine::flows::LoadedFlow;
use semel_engine::{Control, FlowLookupError, ReplayWish};
use semel_store::RunRow;
use serde::Deserialize;
use serde_json::Value as Json;
use std::sync::Arc;

fn illegal(detail: impl Into<String>) -> Problem {
    Problem::new(Code::IllegalArgument, detail)
}

/// The head of the execution of the path.
async fn head(call: &Call) -> Result<RunRow, Problem> {
    act::head(call, call.run_id()?).await?.ok_or_else(Problem::run_unknown)
}

async fn change(call: &Call, id: RunId, control: Control) -> Answer {
    call.app.control(call.workspace()?, id, control, call.by(None)?).await?;
    act::shown(call, id).await
}

/// Starts what waits for its slot or its date.
pub async fn force_run(call: Call) -> Answer {
    let row = head(&call).await?;
    if execution::state_of(&row).is_terminal() {
        return Err(illegal("the execution is already terminated"));
    }
    change(&call, row.id, Control::ForceRun { queued: false }).await
}

fn state_parameter(call: &Call, name: &str) -> Result<Option<KestraState>, Problem> {
    let Some(word) = call.query.one(name)? else { return Ok(None) };
    KestraState::parse(word).map(Some).ok_or_else(|| illegal(format!("`{name}` is not a state")))
}

/// Takes an execution out of the line of its lane: to run, or to end.
pub async fn unqueue(call: Call) -> Answer {
    let row = head(&call).await?;
    if execution::state_of(&row) != KestraState::Queued {
        return Err(illegal("only a queued execution is unqueued"));
    }
    change(&call, row.id, unqueued(&call, "state")?).await
}

/// What a queued execution is to become, by this parameter.
pub fn unqueued(call: &Call, name: &str) -> Result<Control, Problem> {
    Ok(match state_parameter(call, name)?.unwrap_or(KestraState::Running) {
        KestraState::Running => Control::ForceRun { queued: true },
        KestraState::Failed => Control::Dequeue { status: EndStatus::Failed },
        KestraState::Cancelled | KestraState::Killed => Control::Dequeue { status: EndStatus::Cancelled },
        _ => return Err(illegal("a queued execution becomes RUNNING, CANCELLED or FAILED")),
    })
}

/// Calls an end another one.
pub async fn change_status(call: Call) -> Answer {
    let row = head(&call).await?;
    let control = ending(&call, "status")?;
    if !execution::state_of(&row).is_terminal() {
        return Err(illegal("only a terminated execution is given another state"));
    }
    change(&call, row.id, control).await
}

/// What an end is to be called, by this parameter.
pub fn ending(call: &Call, name: &str) -> Result<Control, Problem> {
    let wanted = state_parameter(call, name)?.ok_or_else(|| illegal(format!("`{name}` is missing")))?;
    if !wanted.is_terminal() {
        return Err(illegal("You can only change the status of an execution to a terminal state."));
    }
    let (status, warned, conclusion) = match wanted {
        KestraState::Warning => (EndStatus::Completed, true, None),
        KestraState::Failed => (EndStatus::Failed, false, None),
        KestraState::Killed => (EndStatus::Cancelled, false, None),
        KestraState::Cancelled => (EndStatus::Cancelled, false, Some(Conclusion::ByRule)),
        KestraState::Retried => (EndStatus::Failed, false, Some(Conclusion::Retried)),
        KestraState::Skipped => (EndStatus::Completed, false, Some(Conclusion::Skipped)),
        _ => (EndStatus::Completed, false, None),
    };
    Ok(Control::ChangeStatus { status, warned, conclusion })
}

#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "taskRunId")]
    task_run: String,
    state: KestraState,
}

/// Calls a failed task run something else; the execution goes on from there.
pub async fn state(call: Call) -> Answer {
    let row = head(&call).await?;
    let mark: Mark = json::parse_as(&call.body, call.app.limits().json_depth_max)?;
    let outcome = match mark.state {
        KestraState::Success => StepOutcome::Success,
        KestraState::Warning => StepOutcome::Warning,
        KestraState::Skipped => StepOutcome::Skipped,
        KestraState::Failed => StepOutcome::Failed,
        _ => return Err(illegal("a task run is called SUCCESS, WARNING, SKIPPED or FAILED")),
    };
    change(&call, row.id, Control::MarkStep { step: mark.task_run, outcome }).await
}

/// `[{"key", "value"}]` as they may stand on this execution: those of the system as they are.
pub fn labels(given: &Json, row: &RunRow, known: &[(String, String)]) -> Result<Vec<(String, String)>, Problem> {
    let wrong = || Problem::field("labels", "must be a list of {\"key\", \"value\"}");
    let mut out = Vec::new();
    for item in given.as_array().ok_or_else(wrong)? {
        let text = |name: &str| item.get(name).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
        let (key, value) = (text("key").ok_or_else(wrong)?, text("value").ok_or_else(wrong)?);
        if key.starts_with("system.") {
            let own = key == execution::CORRELATION && row.correlation_id == value;
            if !own && !known.iter().any(|(name, text)| name == key && text == value) {
                return Err(system_label(key, value));
            }
            continue;
        }
        out.push((key.to_owned(), value.to_owned()));
    }
    Ok(out)
}

pub async fn set(call: Call) -> Answer {
    let id = call.run_id()?;
    let given = json::parse(&call.body, call.app.limits().json_depth_max)?;
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| store.run(&workspace, id)).await?;
    let (row, _, known) = found.ok_or_else(Problem::run_unknown)?;
    if !execution::state_of(&row).is_terminal() {
        return Err(Problem::new(Code::BulkInvalid, format!("The execution {id} is not terminated.")));
    }
    let labels = labels(&given, &row, &known)?;
    change(&call, id, Control::SetLabels { labels }).await
}

/// Lets an execution go on that has stopped before a task; others may be named to stop before.
pub async fn resume_from_breakpoint(call: Call) -> Answer {
    let row = head(&call).await?;
    let breakpoints = create::breakpoints(&call, &*flow_of(&call, &row)?)?;
    let control = Control::ResumeFromBreakpoint { breakpoints };
    call.app.control(call.workspace()?, row.id, control, call.by(None)?).await?;
    no_content()
}

pub fn revision(call: &Call) -> Result<Option<u32>, Problem> {
    call.query.read("revision", "a revision", |text| text.parse::<u32>().ok())
}

/// The flow in the revision that is asked for, or in that of the execution.
pub fn flow_of(call: &Call, row: &RunRow) -> Result<Arc<LoadedFlow>, Problem> {
    let revision = revision(call)?.unwrap_or(row.revision);
    let found = call.app.engine().flow_revision(&call.workspace()?, &row.flow, revision);
    found.map_err(|error| match error {
        FlowLookupError::Store(error) => error.into(),
        FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. } => {
            let (namespace, id) = (&row.flow.namespace, &row.flow.id);
            Problem::new(Code::FlowUnknown, format!("Unable to find revision {revision} on flow {namespace}.{id}"))
        }
    })
}

async fn again(call: Call, inputs: Option<Json>, run: Option<RunId>) -> Answer {
    let flow = flow_of(&call, &head(&call).await?)?;
    let (from, breakpoints) = (call.query.text("taskRunId")?, create::breakpoints(&call, &flow)?);
    let wish = ReplayWish { from, revision: Some(flow.revision), inputs, run, breakpoints };
    let id = replayed(&call, call.run_id()?, wish).await?;
    act::shown(&call, id).await
}

/// The execution that does it again.
pub async fn replayed(call: &Call, id: RunId, wish: ReplayWish) -> Result<RunId, Problem> {
    let result = call.app.replay(call.workspace()?, id, wish, call.by(None)?).await?;
    Ok(create::run_of(result)?.0)
}

/// A new execution that does again what an ended one did.
pub async fn replay(call: Call) -> Answer {
    again(call, None, None).await
}

pub async fn replay_with_inputs(call: Call) -> Answer {
    let row = head(&call).await?;
    let flow = flow_of(&call, &row)?;
    let mut uploads = Uploads::new(&call, &row.flow, None, &flow.index.flow.inputs)?;
    let mut inputs = create::inputs(&form::read(&call, &mut uploads).await?, &flow);
    let run = uploads.into_inputs(&mut inputs);
    again(call, Some(Json::Object(inputs)), run).await
}
