//! What people do to executions: to one, to several by their ids, or to all that a search finds.
//!
//! Several are all or nothing as far as that can be known before: if one of them is unknown or its state does not
//! allow the act, nothing is done.

use super::query;
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::doors::kestra::{execution, form};
use crate::json;
use crate::problem::Problem;
use axum::http::StatusCode;
use semel_core::run::KestraState;
use semel_core::{RunId, WorkspaceId};
use semel_engine::Control;
use semel_store::search::RunSearch;
use semel_store::{Done, RunRow, Work};
use serde_json::{Value as Json, json};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Kill,
    Restart,
    Pause,
    Resume,
    Delete,
}

impl Act {
    pub fn word(self) -> &'static str {
        match self {
            Act::Kill => "kill",
            Act::Restart => "restart",
            Act::Pause => "pause",
            Act::Resume => "resume",
            Act::Delete => "delete",
        }
    }

    /// Why the state of a run does not allow it, as far as its head tells.
    fn refused(self, row: &RunRow) -> Option<&'static str> {
        let state = execution::state_of(row);
        match self {
            Act::Kill if state.is_terminal() => Some("the execution is already finished"),
            Act::Restart if state != KestraState::Failed && state != KestraState::Killed => {
                Some("only a failed or killed execution is restarted")
            }
            Act::Restart | Act::Delete if row.open_doubts > 0 => Some("an effect is in doubt; give a verdict first"),
            Act::Pause if state != KestraState::Running => Some("the execution is not running"),
            Act::Resume if state != KestraState::Paused => Some("the execution is not paused"),
            Act::Delete if !state.is_terminal() => Some("the execution is not terminated"),
            Act::Kill | Act::Restart | Act::Pause | Act::Resume | Act::Delete => None,
        }
    }

    fn control(self) -> Option<Control> {
        match self {
            Act::Kill => Some(Control::Cancel),
            Act::Restart => Some(Control::RestartMarked),
            Act::Pause => Some(Control::Pause),
            Act::Resume => Some(Control::Resume),
            Act::Delete => None,
        }
    }
}

pub async fn head(call: &Call, id: RunId) -> Result<Option<RunRow>, Problem> {
    let workspace = call.workspace()?;
    Ok(call.app.read(move |store| store.run(&workspace, id)).await?.map(|(row, _, _)| row))
}

async fn perform(call: &Call, act: Act, id: RunId) -> Result<(), Problem> {
    let workspace: WorkspaceId = call.workspace()?;
    match act.control() {
        Some(control) => call.app.control(workspace, id, control, call.by(None)?).await,
        None => match call.app.write(Work::DeleteRun { workspace, run: id }).await? {
            Done::Missing => Err(Problem::run_unknown()),
            Done::Refused(refusal) => Err(refusal.into()),
            _ => Ok(()),
        },
    }
}

/// To the execution of the path.
async fn one(call: &Call, act: Act) -> Result<RunId, Problem> {
    let id = call.run_id()?;
    let row = head(call, id).await?.ok_or_else(Problem::run_unknown)?;
    if let Some(why) = act.refused(&row) {
        // A pause of what does not run is called an illegal argument there.
        let code = if act == Act::Pause { Code::IllegalArgument } else { Code::NotPossible };
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
    one(&call, Act::Kill).await?;
    let mut response = no_content()?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

pub async fn restart(call: Call) -> Answer {
    let id = one(&call, Act::Restart).await?;
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
    head(&call, id).await?.ok_or_else(Problem::run_unknown)?;
    let inputs = form::read(&call).await?.inputs();
    let inputs = if inputs.is_empty() { Json::Null } else { Json::Object(inputs) };
    call.app.resume(call.workspace()?, id, None, inputs, call.by(None)?).await?;
    no_content()
}

pub async fn delete(call: Call) -> Answer {
    one(&call, Act::Delete).await?;
    no_content()
}

/// The ids of the body: a JSON list of texts.
fn ids(call: &Call) -> Result<Vec<String>, Problem> {
    let wrong = || Problem::field("body", "must be a list of execution ids");
    let body = json::parse(if call.body.is_empty() { b"[]" } else { &call.body }, call.app.limits().json_depth_max)?;
    let items = body.as_array().ok_or_else(wrong)?;
    let most = call.app.limits().page_rows_max as usize;
    if items.len() > most {
        return Err(Problem::field("body", format!("at most {most} executions at once")));
    }
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// To all of these, or to none.
async fn several(call: &Call, act: Act, ids: Vec<String>) -> Answer {
    let mut found = Vec::new();
    let mut invalids: Vec<Json> = Vec::new();
    for text in ids {
        let row = match text.parse::<RunId>() {
            Ok(id) => head(call, id).await?,
            Err(()) => None,
        };
        let wrong = match &row {
            None => Some("execution not found"),
            Some(row) => act.refused(row),
        };
        match (row, wrong) {
            (Some(row), None) => found.push(row.id),
            (_, why) => invalids.push(json!({"message": why.unwrap_or_default(), "invalidValue": text})),
        }
    }
    if !invalids.is_empty() {
        let detail = format!("invalid bulk {}", act.word());
        return Err(Problem::new(Code::BulkInvalid, detail).with("invalids", invalids.into()));
    }
    for id in &found {
        perform(call, act, *id).await?;
    }
    ok(json!({"count": found.len()}))
}

async fn by_ids(call: Call, act: Act) -> Answer {
    let ids = ids(&call)?;
    several(&call, act, ids).await
}

/// All that the search finds and whose state allows it, in pages.
async fn by_query(call: Call, act: Act) -> Answer {
    let search = query::search(&call).await?;
    let limit = call.app.limits().page_rows_max;
    let (mut count, mut offset) = (0_u64, 0_u64);
    loop {
        let page = RunSearch { limit, offset, ..search.clone() };
        let workspace = call.workspace()?;
        let (runs, _) = call.app.read(move |store| store.search_runs(&workspace, &page)).await?;
        let all = runs.len();
        for (row, _, _) in runs {
            if act.refused(&row).is_some() {
                offset += 1;
                continue;
            }
            match perform(&call, act, row.id).await {
                Ok(_) => count += 1,
                // It has changed since it was found.
                Err(problem) if problem.code == Code::NotPossible => {
                    offset += 1;
                    continue;
                }
                Err(problem) => return Err(problem),
            }
            // What was deleted is no longer on the pages; what was changed may be.
            offset += u64::from(act != Act::Delete);
        }
        if all < limit as usize {
            return ok(json!({"count": count}));
        }
    }
}

macro_rules! bulk {
    ($($by_ids:ident, $by_query:ident: $act:ident;)+) => {
        $(
            pub async fn $by_ids(call: Call) -> Answer {
                by_ids(call, Act::$act).await
            }

            pub async fn $by_query(call: Call) -> Answer {
                by_query(call, Act::$act).await
            }
        )+
    };
}

bulk! {
    kill_by_ids, kill_by_query: Kill;
    restart_by_ids, restart_by_query: Restart;
    pause_by_ids, pause_by_query: Pause;
    resume_by_ids, resume_by_query: Resume;
    delete_by_ids, delete_by_query: Delete;
}
