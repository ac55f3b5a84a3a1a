//! The same of many workflows at once: what went wrong with one is said beside those that it went well with.

use super::body;
use super::control::{Op, bulk_answer, carry_out};
use super::workflow::{self, unknown};
use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::RunId;
use serde_json::{Map, Value as Json};

/// As many as Conductor takes.
const IDS_MAX: usize = 1_000;

fn ids(call: &Call) -> Result<Vec<String>, Problem> {
    let ids = body::texts(call)?;
    if ids.is_empty() {
        return Err(Problem::new(Code::BodyInvalid, "workflowIds list cannot be null or empty."));
    }
    if ids.len() > IDS_MAX {
        let detail = format!("Cannot process more than {IDS_MAX} workflows. Please use multiple requests.");
        return Err(Problem::new(Code::BodyInvalid, detail));
    }
    Ok(ids)
}

async fn each(call: Call, op: Op) -> Answer {
    let (mut errors, mut successful) = (Map::new(), Vec::new());
    for id in ids(&call)? {
        let asked = match id.parse::<RunId>() {
            Ok(run) => carry_out(&call, run, &op).await,
            Err(()) => Err(unknown(&id)),
        };
        match asked {
            Ok(()) => successful.push(Json::String(id)),
            // The store is away or the caller may not: the same for all of them.
            Err(problem) if is_about_all(problem.code) => return Err(problem),
            Err(problem) => _ = errors.insert(id, problem.detail.into()),
        }
    }
    bulk_answer(errors, successful)
}

fn is_about_all(code: Code) -> bool {
    matches!(code, Code::StoreBusy | Code::StoreFull | Code::StoreClosed | Code::StorePoisoned | Code::Forbidden)
}

pub async fn pause(call: Call) -> Answer {
    each(call, Op::Pause).await
}

pub async fn resume(call: Call) -> Answer {
    each(call, Op::Resume).await
}

pub async fn restart(call: Call) -> Answer {
    let latest = body::query_flag(&call, "useLatestDefinitions", false)?;
    each(call, Op::Restart { latest }).await
}

pub async fn retry(call: Call) -> Answer {
    each(call, Op::Retry { anew: true }).await
}

pub async fn terminate(call: Call) -> Answer {
    let as_failed = body::query_flag(&call, "triggerFailureWorkflow", false)?;
    let reason = body::query(&call, "reason")?;
    each(call, Op::Terminate { reason, as_failed }).await
}

pub async fn remove(call: Call) -> Answer {
    each(call, Op::Remove { reason: Some("removed".to_owned()) }).await
}

pub async fn terminate_remove(call: Call) -> Answer {
    let reason = body::query(&call, "reason")?;
    each(call, Op::Remove { reason }).await
}

/// The workflows themselves.
pub async fn search(call: Call) -> Answer {
    let tasks = body::query_flag(&call, "includeTasks", true)?;
    let (mut errors, mut successful) = (Map::new(), Vec::new());
    for id in ids(&call)? {
        let found = match id.parse::<RunId>() {
            Ok(run) => workflow::find(&call.app, &call.workspace()?, run).await,
            Err(()) => Err(unknown(&id)),
        };
        match found {
            Ok(story) => successful.push(workflow::shown(&story, tasks, call.sees_payloads())),
            Err(problem) if is_about_all(problem.code) => return Err(problem),
            Err(problem) => _ = errors.insert(id, problem.detail.into()),
        }
    }
    bulk_answer(errors, successful)
}
