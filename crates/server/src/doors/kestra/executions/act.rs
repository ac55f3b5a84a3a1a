//! What people do to an execution: end it, let it stand or go on, forget it.

use super::change;
use super::uploads::Uploads;
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::doors::kestra::flows::show::flag;
use crate::doors::{form, kestra::execution};
use crate::problem::Problem;
use axum::http::StatusCode;
use semel_core::run::KestraState;
use semel_core::{RunId, WorkspaceId};
use semel_engine::Control;
use semel_store::{Done, RunRow, Work};
use serde_json::Value as Json;
use std::time::Duration;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// `alone`: the executions that it has started go on.
    Kill {
        alone: bool,
    },
    /// `revision`: of its flow, by which it goes on; `None` means its own.
    Restart {
        revision: Option<u32>,
    },
    Pause,
    Resume,
    /// `live`: one that has not terminated is killed first.
    Delete {
        live: bool,
    },
}

impl Act {
    pub fn word(self) -> &'static str {
        match self {
            Act::Kill { .. } => "kill",
            Act::Restart { .. } => "restart",
            Act::Pause => "pause",
            Act::Resume => "resume",
            Act::Delete { .. } => "delete",
        }
    }

    /// Why the state of a run does not allow it, as far as its head tells.
    pub fn refused(self, row: &RunRow) -> Option<&'static str> {
        let state = execution::state_of(row);
        match self {
            Act::Kill { .. } if state.is_terminal() => Some("the execution is already finished"),
            Act::Restart { .. } if state != KestraState::Failed && state != KestraState::Killed => {
                Some("no task found to restart: only a failed or killed execution is restarted")
            }
            Act::Restart { .. } | Act::Delete { .. } if row.open_doubts > 0 => {
                Some("an effect is in doubt; give a verdict first")
            }
            Act::Pause if state != KestraState::Running => Some("the execution is not running"),
            Act::Resume if state != KestraState::Paused => Some("the execution is not paused"),
            Act::Delete { live: false } if !state.is_terminal() => Some("the execution is not terminated"),
            Act::Kill { .. } | Act::Restart { .. } | Act::Pause | Act::Resume | Act::Delete { .. } => None,
        }
    }

    fn control(self) -> Option<Control> {
        match self {
            Act::Kill { alone: false } => Some(Control::Cancel),
            Act::Kill { alone: true } => Some(Control::CancelAlone),
            Act::Restart { revision } => Some(Control::RestartMarked { revision }),
            Act::Pause => Some(Control::Pause),
            Act::Resume => Some(Control::Resume),
            Act::Delete { .. } => None,
        }
    }
}

/// For so long a delete waits until what was sent before the kill has settled.
const ENDING: Duration = Duration::from_secs(10);

pub async fn head(call: &Call, id: RunId) -> Result<Option<RunRow>, Problem> {
    let workspace = call.workspace()?;
    Ok(call.app.read(move |store| store.run(&workspace, id)).await?.map(|(row, _, _)| row))
}

pub async fn perform(call: &Call, act: Act, id: RunId) -> Result<(), Problem> {
    let workspace: WorkspaceId = call.workspace()?;
    if let Some(control) = act.control() {
        return call.app.control(workspace, id, control, call.by(None)?).await;
    }
    if act == (Act::Delete { live: true }) {
        end(call, id).await?;
        call.app.wait_ended(&workspace, id, ENDING).await?;
    }
    match call.app.write(Work::DeleteRun { workspace, run: id }).await? {
        Done::Missing => Err(Problem::run_unknown()),
        Done::Refused(refusal) => Err(refusal.into()),
        _ => Ok(()),
    }
}

/// What goes on is killed, and those that it has started go on by themselves: nobody asked for them to be deleted.
pub async fn end(call: &Call, id: RunId) -> Result<(), Problem> {
    let row = head(call, id).await?.ok_or_else(Problem::run_unknown)?;
    if execution::state_of(&row).is_terminal() {
        return Ok(());
    }
    match call.app.control(call.workspace()?, id, Control::CancelAlone, call.by(None)?).await {
        // It may have ended, or been killed, a moment ago.
        Err(problem) if problem.code != Code::NotPossible => Err(problem),
        _ => Ok(()),
    }
}

/// To the execution of the path.
async fn one(call: &Call, act: Act) -> Result<RunId, Problem> {
    let id = call.run_id()?;
    let row = head(call, id).await?.ok_or_else(Problem::run_unknown)?;
    if let Some(why) = act.refused(&row) {
        // A pause of what does not run is called an illegal argument there, and so is a restart of what has ended well.
        let ended_well =
            matches!(act, Act::Restart { .. }) && execution::state_of(&row).is_terminal() && row.open_doubts == 0;
        let code = if act == Act::Pause || ended_well { Code::IllegalArgument } else { Code::NotPossible };
        return Err(Problem::new(code, format!("Cannot {} execution {id}: {why}", act.word())));
    }
    perform(call, act, id).await?;
    Ok(id)
}

pub async fn shown(call: &Call, id: RunId) -> Answer {
    let whole = execution::find(&call.app, &call.workspace()?, id).await?;
    ok(execution::shown(&whole, call.sees_payloads(), call.now()))
}

pub async fn kill(call: Call) -> Answer {
    let alone = !flag(&call.query, "isOnKillCascade", true)?;
    one(&call, Act::Kill { alone }).await?;
    let mut response = no_content()?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

pub async fn restart(call: Call) -> Answer {
    let revision = change::revision(&call)?;
    if revision.is_some() {
        let row = head(&call, call.run_id()?).await?.ok_or_else(Problem::run_unknown)?;
        change::flow_of(&call, &row)?;
    }
    let id = one(&call, Act::Restart { revision }).await?;
    shown(&call, id).await
}

pub async fn pause(call: Call) -> Answer {
    one(&call, Act::Pause).await?;
    no_content()
}

/// A step that asked for inputs is told them.
pub async fn resume(call: Call) -> Answer {
    let id = call.run_id()?;
    // Its head does not tell: a run that was paused while a call is out shows as running until the call has settled.
    let row = head(&call, id).await?.ok_or_else(Problem::run_unknown)?;
    if execution::state_of(&row) == KestraState::Breakpoint {
        return Err(Problem::new(
            Code::NotPossible,
            "the execution stands at a breakpoint; use resume-from-breakpoint",
        ));
    }
    let (engine, workspace) = (call.app.engine().clone(), call.workspace()?);
    let pauses = tokio::task::spawn_blocking(move || engine.pauses(&workspace, id)).await;
    let pauses = pauses.map_err(|_| Problem::internal("a look at a run panicked"))??;
    let asked = pauses.first().map(|pause| pause.inputs.as_slice()).unwrap_or_default();
    let mut uploads = Uploads::new(&call, &row.flow, Some(id), asked)?;
    let mut inputs = form::read(&call, &mut uploads).await?.inputs();
    uploads.into_inputs(&mut inputs);
    let inputs = if inputs.is_empty() { Json::Null } else { Json::Object(inputs) };
    call.app.resume(call.workspace()?, id, None, inputs, call.by(None)?).await?;
    no_content()
}

/// What belongs to an execution goes with it. There are no metrics, so none are kept or deleted.
pub fn goes_as_a_whole(call: &Call) -> Result<(), Problem> {
    for name in ["deleteLogs", "deleteStorage"] {
        if !flag(&call.query, name, true)? {
            return Err(Problem::query(name, "cannot be false: logs and files go with their execution"));
        }
    }
    flag(&call.query, "deleteMetrics", true).map(|_| ())
}

pub async fn delete(call: Call) -> Answer {
    goes_as_a_whole(&call)?;
    one(&call, Act::Delete { live: true }).await?;
    no_content()
}
