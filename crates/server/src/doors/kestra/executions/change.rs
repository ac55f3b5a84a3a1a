//! What people change of executions: where they stand, what they are called, whether they are done again.

use super::act;
use super::create::{self, system_label};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::kestra::{execution, form};
use crate::json;
use crate::problem::Problem;
use semel_core::RunId;
use semel_core::run::{Conclusion, EndStatus, KestraState, StepOutcome};
use semel_engine::{Control, ReplayWish};
use semel_store::RunRow;
use serde::Deserialize;
use serde_json::{Value as Json, json};

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
    let control = match state_parameter(&call, "state")?.unwrap_or(KestraState::Running) {
        KestraState::Running => Control::ForceRun { queued: true },
        KestraState::Failed => Control::Dequeue { status: EndStatus::Failed },
        KestraState::Cancelled | KestraState::Killed => Control::Dequeue { status: EndStatus::Cancelled },
        _ => return Err(illegal("a queued execution becomes RUNNING, CANCELLED or FAILED")),
    };
    change(&call, row.id, control).await
}

/// Calls an end another one.
pub async fn change_status(call: Call) -> Answer {
    let row = head(&call).await?;
    let wanted = state_parameter(&call, "status")?.ok_or_else(|| illegal("`status` is missing"))?;
    if !execution::state_of(&row).is_terminal() || !wanted.is_terminal() {
        return Err(illegal("only a terminated execution is given another state, and only a terminal one"));
    }
    change(&call, row.id, ending(wanted)).await
}

fn ending(state: KestraState) -> Control {
    let (status, warned, conclusion) = match state {
        KestraState::Warning => (EndStatus::Completed, true, None),
        KestraState::Failed => (EndStatus::Failed, false, None),
        KestraState::Killed => (EndStatus::Cancelled, false, None),
        KestraState::Cancelled => (EndStatus::Cancelled, false, Some(Conclusion::ByRule)),
        KestraState::Retried => (EndStatus::Failed, false, Some(Conclusion::Retried)),
        KestraState::Skipped => (EndStatus::Completed, false, Some(Conclusion::Skipped)),
        _ => (EndStatus::Completed, false, None),
    };
    Control::ChangeStatus { status, warned, conclusion }
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
fn labels(given: &Json, row: &RunRow, known: &[(String, String)]) -> Result<Vec<(String, String)>, Problem> {
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

async fn set_labels(call: &Call, id: RunId, given: &Json) -> Result<(), Problem> {
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| store.run(&workspace, id)).await?;
    let (row, _, known) = found.ok_or_else(Problem::run_unknown)?;
    if !execution::state_of(&row).is_terminal() {
        return Err(Problem::new(Code::BulkInvalid, format!("The execution {id} is not terminated.")));
    }
    let labels = labels(given, &row, &known)?;
    call.app.control(call.workspace()?, id, Control::SetLabels { labels }, call.by(None)?).await
}

pub async fn set(call: Call) -> Answer {
    let id = call.run_id()?;
    let given = json::parse(&call.body, call.app.limits().json_depth_max)?;
    set_labels(&call, id, &given).await?;
    act::shown(&call, id).await
}

#[derive(Deserialize)]
struct Several {
    #[serde(rename = "executionsId")]
    ids: Vec<String>,
    #[serde(rename = "executionLabels")]
    labels: Json,
}

pub async fn set_by_ids(call: Call) -> Answer {
    let several: Several = json::parse_as(&call.body, call.app.limits().json_depth_max)?;
    let ids: Result<Vec<RunId>, ()> = several.ids.iter().map(|text| text.parse::<RunId>()).collect();
    let ids = ids.map_err(|()| Problem::run_unknown())?;
    for id in &ids {
        set_labels(&call, *id, &several.labels).await?;
    }
    ok(json!({"count": ids.len()}))
}

async fn again(call: Call, inputs: Option<Json>) -> Answer {
    let id = call.run_id()?;
    let revision = call.query.read("revision", "a revision", |text| text.parse::<u32>().ok())?;
    let wish = ReplayWish { from: call.query.text("taskRunId")?, revision, inputs };
    let workspace = call.workspace()?;
    let result = call.app.replay(workspace, id, wish, call.by(None)?).await?;
    let (id, _) = create::run_of(result)?;
    act::shown(&call, id).await
}

/// A new execution that does again what an ended one did.
pub async fn replay(call: Call) -> Answer {
    again(call, None).await
}

pub async fn replay_with_inputs(call: Call) -> Answer {
    let inputs = form::read(&call).await?.inputs();
    again(call, Some(Json::Object(inputs))).await
}
