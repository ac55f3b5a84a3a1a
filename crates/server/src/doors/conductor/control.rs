//! What people and programs ask of a workflow that is there.
//!
//! | asked | of | answer |
//! |---|---|---|
//! | pause | one that has ended | 409 |
//! | resume | one that is not paused | 500, as Conductor has it for an illegal state |
//! | end | one that completed | 409 |
//! | restart, rerun | one that has not ended | 409 |
//! | restart | one that completed and is not restartable | 404 |
//! | retry | one that runs | 404 |
//! | retry | one that completed | 409 |
//! | rerun | from a task that is not there | 400 |
//! | skip | a task that is not there, or has begun | 500 |
//! | remove | one that cannot end yet, because an answer from outside is awaited | 409 |
//!
//! One that runs is ended before it is removed: its key becomes free when nothing of it can happen any more.
//!
//! Clients repeat what they got no answer to, so a request that was granted is granted once more: see
//! [`semel_core::run::Wish`].

use super::metadata::find as find_flow;
use super::task::read_id;
use super::update::What;
use super::workflow::{self, id_of, is_terminal, unknown};
use super::{body, done, execute, text};
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::RunId;
use semel_core::ir::{CONDUCTOR_NAMESPACE, step_name};
use semel_core::run::{Seen, Status, StepKey};
use semel_engine::{Asking, Control, ControlError, ErrandTold, TaskStory, WorkflowStory};
use semel_store::{Done, ErrandWord, RunRow, Work};
use serde_json::{Map, Value as Json, json};
use std::time::{Duration, Instant};

/// How long the end of a workflow is waited for that is to be removed.
const END: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How deep workflows inside workflows are looked into for a task.
const RUNS_MAX: usize = 1_000;

/// The head of a workflow of the caller's workspace.
pub async fn head(call: &Call, id: RunId) -> Result<RunRow, Problem> {
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| store.run(&workspace, id)).await?;
    let head = found.map(|(row, _, _)| row).filter(|row| row.flow.namespace == CONDUCTOR_NAMESPACE);
    head.ok_or_else(|| unknown(&id.to_string()))
}

/// Asks, and words a refusal: `code` is what a state that does not allow it is here.
pub async fn ask(call: &Call, id: RunId, wish: Asking, code: Code, why: Option<&str>) -> Result<(), Problem> {
    let (workspace, by) = (call.workspace()?, call.by(why)?);
    let asked = call.app.engine().control(&workspace, id, Control::Wish { wish: Box::new(wish) }, by).await;
    asked.map_err(|error| match error {
        ControlError::Unknown => unknown(&id.to_string()),
        ControlError::NotPossible(text) => Problem::new(code, text).run(Some(id)),
        other => other.into(),
    })
}

/// What can be asked of one workflow and of many.
#[derive(Clone, Debug)]
pub enum Op {
    Pause,
    Resume,
    Terminate {
        reason: Option<String>,
        as_failed: bool,
    },
    Restart {
        latest: bool,
    },
    Retry {
        anew: bool,
    },
    /// What runs is ended first, for this reason.
    Remove {
        reason: Option<String>,
    },
}

pub async fn carry_out(call: &Call, id: RunId, op: &Op) -> Result<(), Problem> {
    let row = head(call, id).await?;
    match op {
        Op::Pause => ask(call, id, Asking::Pause, Code::NotPossible, None).await,
        Op::Resume => ask(call, id, Asking::Resume, Code::IllegalState, None).await,
        Op::Terminate { reason, as_failed } => terminate_one(call, id, reason.clone(), *as_failed).await,
        Op::Restart { latest } => restart_one(call, &row, *latest).await,
        Op::Retry { anew } => {
            let code = if row.ended_at.is_some() { Code::NotPossible } else { Code::StillRunning };
            ask(call, id, Asking::Retry { anew: *anew }, code, None).await
        }
        Op::Remove { reason } => {
            if !row.status.is_ended() {
                terminate_one(call, id, reason.clone(), false).await?;
                wait_for_end(call, id).await?;
            }
            remove_one(call, id).await
        }
    }
}

async fn terminate_one(call: &Call, id: RunId, reason: Option<String>, as_failed: bool) -> Result<(), Problem> {
    let reason = reason.unwrap_or_default();
    let why = reason.clone();
    ask(call, id, Asking::Terminate { reason, as_failed }, Code::NotPossible, Some(&why)).await
}

async fn restart_one(call: &Call, row: &RunRow, latest: bool) -> Result<(), Problem> {
    let workspace = call.workspace()?;
    let own = call.app.engine().flow_revision(&workspace, &row.flow, row.revision)?;
    let own = own.index.flow.conductor.as_deref();
    let name = own.map(|own| own.name.clone()).unwrap_or_default();
    let flow = match latest {
        true => {
            let newest = find_flow(call, &name, None)?;
            Some((newest.flow_ref.clone(), newest.revision))
        }
        false => None,
    };
    let restartable = own.is_none_or(|own| own.restartable);
    let code = if row.status == Status::Completed && !restartable { Code::NotRestartable } else { Code::NotPossible };
    let wish = Asking::Redo { step: None, flow, inputs: None, task_input: None, correlation_id: None };
    ask(call, row.id, wish, code, None).await
}

async fn remove_one(call: &Call, id: RunId) -> Result<(), Problem> {
    let work = Work::DeleteRun { workspace: call.workspace()?, run: id };
    match call.app.write(work).await? {
        Done::Missing => Err(unknown(&id.to_string())),
        Done::Refused(refusal) => Err(refusal.into()),
        _ => Ok(()),
    }
}

/// What was sent settles before the end.
async fn wait_for_end(call: &Call, id: RunId) -> Result<(), Problem> {
    let until = Instant::now() + END;
    while !head(call, id).await?.status.is_ended() && Instant::now() < until {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

pub async fn pause(call: Call) -> Answer {
    carry_out(&call, id_of(&call)?, &Op::Pause).await?;
    done()
}

pub async fn resume(call: Call) -> Answer {
    carry_out(&call, id_of(&call)?, &Op::Resume).await?;
    done()
}

pub async fn terminate(call: Call) -> Answer {
    let as_failed = body::query_flag(&call, "triggerFailureWorkflow", false)?;
    let op = Op::Terminate { reason: body::query(&call, "reason")?, as_failed };
    carry_out(&call, id_of(&call)?, &op).await?;
    done()
}

pub async fn remove(call: Call) -> Answer {
    carry_out(&call, id_of(&call)?, &Op::Remove { reason: Some("removed".to_owned()) }).await?;
    done()
}

pub async fn terminate_remove(call: Call) -> Answer {
    let op = Op::Remove { reason: body::query(&call, "reason")? };
    carry_out(&call, id_of(&call)?, &op).await?;
    done()
}

pub async fn restart(call: Call) -> Answer {
    let latest = body::query_flag(&call, "useLatestDefinitions", false)?;
    carry_out(&call, id_of(&call)?, &Op::Restart { latest }).await?;
    no_content()
}

/// The failed sub-workflow goes on only if that is asked for.
pub async fn retry(call: Call) -> Answer {
    let resumes = body::query_flag(&call, "resumeSubworkflowTasks", false)?;
    carry_out(&call, id_of(&call)?, &Op::Retry { anew: !resumes }).await?;
    no_content()
}

/// Nothing waits to be decided here: a run goes on by itself. Only that it is there is checked.
pub async fn decide(call: Call) -> Answer {
    head(&call, id_of(&call)?).await?;
    done()
}

/// Tasks that were to be asked about later can be taken at once.
pub async fn reset_callbacks(call: Call) -> Answer {
    let (workspace, row) = (call.workspace()?, head(&call, id_of(&call)?).await?);
    if row.status.is_ended() {
        return Err(Problem::new(Code::NotPossible, "Workflow is in terminal state").run(Some(row.id)));
    }
    let (run, of) = (row.id, workspace.clone());
    let rows = call.app.read(move |store| store.errands_of(&of, run)).await?;
    let now = call.now();
    for errand in rows.iter().filter(|errand| errand.open && !errand.taken && errand.free_at > now) {
        let word = ErrandWord::Later { progress: None, after_ms: 0 };
        match call.app.engine().touch_errand(&workspace, errand.id, None, word).await {
            Ok(_) | Err(semel_engine::ErrandError::Over(_) | semel_engine::ErrandError::Unknown) => {}
            Err(semel_engine::ErrandError::Store(error)) => return Err(error.into()),
        }
    }
    no_content()
}

/// `POST /{id}/rerun`: the id of the workflow, which stays the same.
pub async fn rerun(call: Call) -> Answer {
    let id = id_of(&call)?;
    let fields = body::object(&call)?;
    head(&call, id).await?;
    let task = body::field(&fields, "reRunFromTaskId")?.filter(|task| !task.is_empty());
    let inputs = body::map(&fields, "workflowInput")?.map(Json::Object);
    let task_input = body::map(&fields, "taskInput")?.map(Json::Object);
    let correlation_id = body::field(&fields, "correlationId")?;
    let redo = |step, inputs, correlation_id, task_input| Asking::Redo {
        step,
        flow: None,
        inputs,
        task_input,
        correlation_id,
    };
    let Some(task) = task else {
        ask(&call, id, redo(None, inputs, correlation_id, None), Code::NotPossible, None).await?;
        return text(id.to_string());
    };
    let (run, step) = place_of(&call, id, &task).await?;
    // Inside of a sub-workflow only its own task is given something else.
    let (inputs, correlation_id) = if run == id { (inputs, correlation_id) } else { (None, None) };
    ask(&call, run, redo(Some(step), inputs, correlation_id, task_input), Code::NotPossible, None).await?;
    text(id.to_string())
}

/// The run and the step of a task, in the workflow or in those below it. Attempts that were given up count too.
async fn place_of(call: &Call, id: RunId, task: &str) -> Result<(RunId, StepKey), Problem> {
    let missing = || Problem::new(Code::BodyInvalid, format!("Task {task} not found"));
    let wanted = read_id(task).ok_or_else(missing)?;
    let workspace = call.workspace()?;
    if let Some(row) = call.app.read(move |store| store.errand(&workspace, wanted)).await? {
        if is_below(call, row.run, id).await? {
            return Ok((row.run, row.more.step));
        }
        return Err(missing());
    }
    let mut open = vec![id];
    let mut seen = 0;
    while let Some(run) = open.pop() {
        seen += 1;
        if seen > RUNS_MAX {
            break;
        }
        let story = match workflow::find(&call.app, &call.workspace()?, run).await {
            Ok(story) => story,
            Err(problem) if problem.code == Code::RunUnknown && run != id => continue,
            Err(problem) => return Err(problem),
        };
        if let Some(found) = story.tasks.iter().find(|task| task.id == wanted || task.step_id == wanted) {
            return Ok((run, found.step.clone()));
        }
        open.extend(story.tasks.iter().filter_map(|task| task.child));
    }
    Err(missing())
}

/// Whether a run is the other one, or was started by it or by one below it.
async fn is_below(call: &Call, run: RunId, above: RunId) -> Result<bool, Problem> {
    let mut current = Some(run);
    while let Some(id) = current {
        if id == above {
            return Ok(true);
        }
        current = head(call, id).await?.parent.map(|parent| parent.run);
    }
    Ok(false)
}

/// `PUT /{id}/skiptask/{ref}`. Python's client sends what it has to say as a parameter in its own words, which cannot be
/// read; its body is empty then.
pub async fn skip(call: Call) -> Answer {
    let id = id_of(&call)?;
    let fields = body::object(&call)?;
    head(&call, id).await?;
    let given = |name: &str| Ok::<_, Problem>(body::map(&fields, name)?.map(Json::Object));
    let task = step_name(call.param("ref")?);
    let wish = Asking::Skip { task, input: given("taskInput")?, output: given("taskOutput")? };
    ask(&call, id, wish, Code::IllegalState, None).await?;
    done()
}

/// `POST /{id}/variables`: the workflow.
pub async fn variables(call: Call) -> Answer {
    let id = id_of(&call)?;
    let variables = Some(Json::Object(body::object(&call)?));
    head(&call, id).await?;
    ask(&call, id, Asking::Tell { variables, errand: None }, Code::NotPossible, None).await?;
    let story = workflow::find(&call.app, &call.workspace()?, id).await?;
    ok(workflow::shown(&story, true, call.sees_payloads()))
}

/// `POST /{id}/state`: variables and what became of a task, together; the workflow when there is something to see.
pub async fn state(call: Call) -> Answer {
    let id = id_of(&call)?;
    let fields = body::object(&call)?;
    let references = body::query(&call, "waitUntilTaskRef")?.unwrap_or_default();
    let references: Vec<String> = references.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let wait = Duration::from_secs(body::query_whole(&call, "waitForSeconds")?.unwrap_or(10).min(300));
    let request_id = execute::request_id(&call)?;
    let variables = body::map(&fields, "variables")?.filter(|given| !given.is_empty()).map(Json::Object);
    let story = workflow::find(&call.app, &call.workspace()?, id).await?;
    tell_state(&call, &story, &fields, variables).await?;
    let seen = execute::settle(&call.app, &call.workspace()?, id, &references, wait).await?;
    let mut shown = workflow::shown(&seen.target, true, call.sees_payloads());
    shown["requestId"] = request_id.into();
    ok(shown)
}

async fn tell_state(
    call: &Call,
    story: &WorkflowStory,
    fields: &Map<String, Json>,
    variables: Option<Json>,
) -> Result<(), Problem> {
    let id = story.run.0.id;
    let named = body::field(fields, "taskReferenceName")?.filter(|name| !name.is_empty());
    let result = body::map(fields, "taskResult")?;
    let (Some(reference), Some(result)) = (named, result) else {
        return match variables {
            Some(_) => ask(call, id, Asking::Tell { variables, errand: None }, Code::NotPossible, None).await,
            None => Ok(()),
        };
    };
    let is_called = |task: &&TaskStory| task.reference == reference || task.plain_reference() == reference;
    let Some(task) = story.tasks.iter().rev().find(is_called) else {
        return Err(Problem::new(Code::TaskUnknown, format!("no task {reference} of workflow {id} has begun")));
    };
    let status = body::field(&result, "status")?.unwrap_or_else(|| "COMPLETED".to_owned());
    let output = Json::Object(body::map(&result, "outputData")?.unwrap_or_default());
    let worker = body::field(&result, "workerId")?.filter(|worker| !worker.is_empty());
    // A task that has ended stays as it is: the request may be a repeat.
    let open = task.is_open() && task.terms.is_some();
    match What::read(&status, output, &result)? {
        What::Ended(end) if open => {
            let seen = Seen { worker: worker.or(task.worker.clone()), polls: task.polls, taken_at: task.started_at };
            let told = ErrandTold { step: task.step.clone(), attempt: task.retry_count + 1, end, seen };
            let wish = Asking::Tell { variables, errand: Some(Box::new(told)) };
            ask(call, id, wish, Code::NotPossible, None).await
        }
        What::Word(word) if open => {
            if variables.is_some() {
                ask(call, id, Asking::Tell { variables, errand: None }, Code::NotPossible, None).await?;
            }
            let touched = call.app.engine().touch_errand(&call.workspace()?, task.id, worker, word).await;
            match touched {
                Err(semel_engine::ErrandError::Store(error)) => Err(error.into()),
                _ => Ok(()),
            }
        }
        _ if variables.is_some() && !is_terminal(workflow::status(&story.run.0)) => {
            ask(call, id, Asking::Tell { variables, errand: None }, Code::NotPossible, None).await
        }
        _ => Ok(()),
    }
}

/// `POST /{id}/jump/{ref}`: the body is what the task is given.
pub async fn jump(call: Call) -> Answer {
    let id = id_of(&call)?;
    let input = Some(body::object(&call)?).filter(|given| !given.is_empty()).map(Json::Object);
    head(&call, id).await?;
    let task = step_name(call.param("ref")?);
    ask(&call, id, Asking::Jump { task, input }, Code::NotPossible, None).await?;
    done()
}

/// `POST /{id}/upgrade`: `{name, version, workflowInput, taskOutput}`.
pub async fn upgrade(call: Call) -> Answer {
    let id = id_of(&call)?;
    let fields = body::object(&call)?;
    let row = head(&call, id).await?;
    let own = call.app.engine().flow_revision(&call.workspace()?, &row.flow, row.revision)?;
    let own = own.index.flow.conductor.as_deref().map(|own| own.name.clone()).unwrap_or_default();
    let name = body::field(&fields, "name")?.filter(|name| !name.is_empty()).unwrap_or(own);
    let version = body::whole(&fields, "version")?.filter(|version| *version > 0);
    let version = version.map(|version| u32::try_from(version).map_err(|_| Problem::field("version", "is too large")));
    let flow = find_flow(&call, &name, version.transpose()?)?;
    let wish = Asking::Upgrade {
        flow: flow.flow_ref.clone(),
        revision: flow.revision,
        inputs: body::map(&fields, "workflowInput")?.map(Json::Object),
        outputs: Json::Object(body::map(&fields, "taskOutput")?.unwrap_or_default()),
    };
    ask(&call, id, wish, Code::NotPossible, None).await?;
    done()
}

/// What became of each of several.
pub fn bulk_answer(errors: Map<String, Json>, successful: Vec<Json>) -> Answer {
    ok(json!({"bulkErrorResults": errors, "bulkSuccessfulResults": successful}))
}
