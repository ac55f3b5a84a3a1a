//! Workflows that are started and waited for: until they end, until something in them waits for somebody, until one of
//! the tasks that are named is done, or until the caller's time is over.

use super::start::{self, Start, begin, marked, of_input, path_version};
use super::workflow::{self, correlation, is_terminal, status};
use super::{body, task};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use crate::state::AppState;
use semel_core::ir::ErrandKind;
use semel_core::{RunId, WorkspaceId};
use semel_engine::{RunChange, TaskStory, WorkflowStory};
use serde_json::{Map, Value as Json};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

const WAIT_SECONDS: u64 = 10;
const WAIT_SECONDS_MAX: u64 = 300;
/// A change may happen at another node, which may not get to tell.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How deep workflows inside workflows are looked into.
const DEPTH_MAX: u32 = 16;

/// What the caller wants to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Target,
    Blocking,
    BlockingTask,
    BlockingTaskInput,
}

impl Show {
    pub fn read(call: &Call) -> Result<Show, Problem> {
        let word = body::query(call, "returnStrategy")?;
        Ok(match word.as_deref() {
            None | Some("TARGET_WORKFLOW") => Show::Target,
            Some("BLOCKING_WORKFLOW") => Show::Blocking,
            Some("BLOCKING_TASK") => Show::BlockingTask,
            Some("BLOCKING_TASK_INPUT") => Show::BlockingTaskInput,
            Some(_) => {
                let words = "TARGET_WORKFLOW, BLOCKING_WORKFLOW, BLOCKING_TASK or BLOCKING_TASK_INPUT";
                return Err(Problem::query("returnStrategy", format!("must be {words}")));
            }
        })
    }

    fn word(self) -> &'static str {
        match self {
            Show::Target => "TARGET_WORKFLOW",
            Show::Blocking => "BLOCKING_WORKFLOW",
            Show::BlockingTask => "BLOCKING_TASK",
            Show::BlockingTaskInput => "BLOCKING_TASK_INPUT",
        }
    }
}

/// `POST /workflow/execute/{name}/{version}`.
pub async fn post(call: Call) -> Answer {
    let mut fields = body::object(&call)?;
    fields.insert("name".to_owned(), call.param("name")?.into());
    let start = Start { version: path_version(&call)?, ..Start::read(&fields, &call.headers)? };
    let (show, wait) = (Show::read(&call)?, wait_of(body::query_whole(&call, "waitForSeconds")?));
    let references = references(body::query(&call, "waitUntilTaskRef")?);
    let (id, replayed) = begin(&call, start).await?;
    let seen = settle(&call.app, &call.workspace()?, id, &references, wait).await?;
    marked(ok(answer(&seen, show, request_id(&call)?, call.sees_payloads()))?, replayed)
}

/// `GET|POST /workflow/execute/{name}`: the bare output of the workflow.
pub async fn bare(call: Call) -> Answer {
    let header = |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let start = of_input(&call, call.param("name")?.to_owned(), super::metadata::version(&call)?)?;
    let seconds = header("waitforseconds").and_then(|text| text.parse().ok());
    let (id, replayed) = begin(&call, start).await?;
    let workspace = call.workspace()?;
    let references = references(header("waituntiltaskref"));
    let seen = settle(&call.app, &workspace, id, &references, wait_of(seconds)).await?;
    marked(ok(start::output(&seen.target.run.1))?, replayed)
}

fn wait_of(seconds: Option<u64>) -> Duration {
    Duration::from_secs(seconds.filter(|seconds| *seconds > 0).unwrap_or(WAIT_SECONDS).min(WAIT_SECONDS_MAX))
}

fn references(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Only echoed.
pub fn request_id(call: &Call) -> Result<String, Problem> {
    let own = || uuid_of(&call.app);
    Ok(body::query(call, "requestId")?.unwrap_or_else(own))
}

fn uuid_of(app: &AppState) -> String {
    let mut bytes = [0u8; 16];
    (app.config().random)(&mut bytes);
    semel_core::Hash16(bytes).uuid().to_string()
}

/// A workflow, and what in it or below it waits for somebody.
pub struct Seen {
    pub target: WorkflowStory,
    /// The workflow that has the first of them, if that is not the target itself, and where the tasks are.
    below: Option<WorkflowStory>,
    blocking: Vec<TaskStory>,
}

impl Seen {
    fn blocked(&self) -> &WorkflowStory {
        self.below.as_ref().unwrap_or(&self.target)
    }

    fn is_settled(&self) -> bool {
        is_terminal(status(&self.target.run.0)) || !self.blocking.is_empty()
    }
}

/// A WAIT without a time of its own.
pub fn waits_for_somebody(task: &TaskStory) -> bool {
    let waits = |kind: ErrandKind, ms: Option<i64>| kind == ErrandKind::Wait && ms.is_none();
    task.is_open() && task.terms.as_ref().is_some_and(|terms| waits(terms.kind, terms.attempt_ms))
}

async fn look(app: &AppState, workspace: &WorkspaceId, id: RunId, references: &[String]) -> Result<Seen, Problem> {
    let target = workflow::find(app, workspace, id).await?;
    let mut blocking = Vec::new();
    let mut below = None;
    let mut open: Vec<(RunId, u32)> = Vec::new();
    gather(&target, references, &mut blocking, &mut open, 0);
    let found_at_target = !blocking.is_empty();
    while let Some((child, depth)) = open.pop() {
        let story = match workflow::find(app, workspace, child).await {
            Ok(story) => story,
            Err(problem) if problem.code == crate::codes::Code::RunUnknown => continue,
            Err(problem) => return Err(problem),
        };
        let before = blocking.len();
        gather(&story, references, &mut blocking, &mut open, depth);
        if below.is_none() && !found_at_target && blocking.len() > before {
            below = Some(story);
        }
    }
    Ok(Seen { target, below, blocking })
}

fn gather(
    story: &WorkflowStory,
    references: &[String],
    blocking: &mut Vec<TaskStory>,
    open: &mut Vec<(RunId, u32)>,
    depth: u32,
) {
    for task in &story.tasks {
        let is_awaited = !task.is_open() && references.contains(&task.reference);
        if waits_for_somebody(task) || is_awaited {
            blocking.push(task.clone());
        }
        if let Some(child) = task.child.filter(|_| task.is_open() && depth < DEPTH_MAX) {
            open.push((child, depth + 1));
        }
    }
}

/// Looks until there is something to say, or the time is over.
pub async fn settle(
    app: &AppState,
    workspace: &WorkspaceId,
    id: RunId,
    references: &[String],
    wait: Duration,
) -> Result<Seen, Problem> {
    if references.is_empty() && !can_block(app, workspace, id).await? {
        // Only its end can settle it: nobody need look at it before.
        app.wait_ended(workspace, id, wait).await?;
        return look(app, workspace, id, references).await;
    }
    let until = Instant::now() + wait;
    let mut changes = app.engine().changes();
    loop {
        app.engine().follow(id);
        let seen = look(app, workspace, id, references).await?;
        let left = until.saturating_duration_since(Instant::now());
        if seen.is_settled() || left.is_zero() || app.stopping().is_cancelled() {
            return Ok(seen);
        }
        let root = seen.target.run.0.root;
        let open: Vec<RunId> = seen.target.tasks.iter().filter_map(|task| task.child).chain([id, root]).collect();
        tokio::select! {
            () = changed(&mut changes, &open) => {}
            () = tokio::time::sleep(LOOK_AGAIN.min(left)) => {}
            () = app.stopping().cancelled() => {}
        }
    }
}

/// Kinds of task that may have a workflow, or one below it, wait for somebody.
const BLOCKING: &[&str] = &["WAIT", "YIELD", "SUB_WORKFLOW", "DYNAMIC", "FORK_JOIN_DYNAMIC"];

async fn can_block(app: &AppState, workspace: &WorkspaceId, id: RunId) -> Result<bool, Problem> {
    let owner = workspace.clone();
    let Some((row, _, _)) = app.read(move |store| store.run(&owner, id)).await? else {
        return Err(workflow::unknown(&id.to_string()));
    };
    let flow = app.engine().flow_revision(workspace, &row.flow, row.revision)?;
    let word = |name: &str| name.strip_prefix("conductor.").is_some_and(|word| BLOCKING.contains(&word));
    Ok(flow.index.tasks().any(|task| word(&task.type_name)))
}

/// One of these runs has changed, or may have.
async fn changed(changes: &mut broadcast::Receiver<RunChange>, runs: &[RunId]) {
    loop {
        match changes.recv().await {
            Ok(change) if runs.contains(&change.run) => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// A SignalResponse; null where a task is asked for and none waits.
pub fn answer(seen: &Seen, show: Show, request_id: String, payloads: bool) -> Json {
    let target = &seen.target.run.0;
    let mut out = Map::new();
    let mut put = |name: &str, value: Json| drop(out.insert(name.to_owned(), value));
    put("responseType", show.word().into());
    put("targetWorkflowId", target.id.to_string().into());
    put("targetWorkflowStatus", status(target).into());
    put("requestId", request_id.into());
    let whole = match show {
        Show::Target => workflow::shown(&seen.target, true, payloads),
        Show::Blocking => workflow::shown(seen.blocked(), true, payloads),
        Show::BlockingTask | Show::BlockingTaskInput => {
            let Some(first) = seen.blocking.first() else { return Json::Null };
            let story = seen.blocked();
            put("workflowId", story.run.0.id.to_string().into());
            let Json::Object(task) = task::shown(story, first, 1, payloads) else { return Json::Null };
            for (name, value) in task {
                // A task that stands alone calls these otherwise, and clients read no other names.
                match name.as_str() {
                    "inputData" => put("input", value),
                    "outputData" => put("output", value),
                    "workflowPriority" => put("priority", value),
                    "startTime" => put("createTime", value),
                    "workerId" => put("createdBy", value),
                    _ => put(&name, value),
                }
            }
            put("correlationId", correlation(&story.run.0).map_or(Json::Null, Json::from));
            return Json::Object(out);
        }
    };
    for name in [
        "workflowId",
        "correlationId",
        "input",
        "output",
        "status",
        "tasks",
        "variables",
        "priority",
        "createdBy",
        "createTime",
        "updateTime",
        "reasonForIncompletion",
        "workflowName",
        "workflowVersion",
    ] {
        if let Some(value) = whole.get(name) {
            put(name, value.clone());
        }
    }
    Json::Object(out)
}
