//! Tasks that are answered by name, or because they are what a workflow waits for.
//!
//! Nothing in such a request names the attempt it is about, so a client that repeats it without having heard the answer
//! could answer the next one. What was answered is remembered with the request for as long as its caller may not have
//! heard: while the answer is being made, and after a caller that has hung up. A caller who sends a key
//! (`X-Idempotency-key`) is remembered by it, whatever it has heard.

use super::control::head;
use super::execute::{Show, answer, request_id, settle, waits_for_somebody};
use super::task::id_text;
use super::update::{STATUSES, Said, What, tell};
use super::workflow::{self, id_of};
use super::{body, text};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use parking_lot::Mutex;
use semel_core::run::Status;
use semel_core::{Hash16, Millis, RunId};
use semel_engine::{TaskStory, WorkflowStory};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long what follows a task may take to begin.
const COMES_NEXT: Duration = Duration::from_secs(1);
/// How long a workflow may take to get to where it waits for whoever signals already.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const TIMEOUT_MS: u64 = 5_000;
const TIMEOUT_MS_MAX: u64 = 300_000;
/// How long a caller that has hung up may take to come back.
const REPEAT_MS: i64 = 120_000;
/// Requests that are remembered; older ones are forgotten first.
const REMEMBERED_MAX: usize = 10_000;
const DEPTH_MAX: u32 = 16;

/// What requests were about whose callers may not have heard so.
#[derive(Default)]
pub struct Unheard(Mutex<BTreeMap<Hash16, (Hash16, Millis)>>);

impl Unheard {
    fn recall(&self, request: Hash16, now: Millis) -> Option<Hash16> {
        let known = self.0.lock().get(&request).copied();
        known.filter(|(_, at)| now.since(*at) < REPEAT_MS).map(|(task, _)| task)
    }

    fn note(&self, request: Hash16, task: Hash16, now: Millis) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, (_, at)| now.since(*at) < REPEAT_MS);
        }
        if known.len() < REMEMBERED_MAX {
            known.insert(request, (task, now));
        }
    }

    fn heard(&self, request: Hash16) {
        self.0.lock().remove(&request);
    }
}

/// Forgets the request when its answer has been made; dropped before that, the caller has hung up.
struct Pending {
    unheard: Arc<Unheard>,
    request: Hash16,
    keyed: bool,
}

impl Pending {
    fn heard(self) {
        if !self.keyed {
            self.unheard.heard(self.request);
        }
    }
}

/// Which request this is: what was asked, and the caller's key if there is one.
fn digest(call: &Call, run: RunId, words: &str) -> (Hash16, bool) {
    let key = call.headers.get("x-idempotency-key").or_else(|| call.headers.get("idempotency-key"));
    let key = key.map(|value| value.as_bytes());
    let parts: [&[u8]; 4] = [run.as_bytes(), words.as_bytes(), &call.body, key.unwrap_or_default()];
    (Hash16::of(&parts), key.is_some())
}

/// What the path's status and the body say.
fn said(call: &Call, status: &str, worker: Option<String>) -> Result<Said, Problem> {
    let mut output = body::object(call)?;
    // One client wraps what it sends.
    if let (1, Some(Json::Object(inner))) = (output.len(), output.get("taskOutput")) {
        output = inner.clone();
    }
    let status = status.to_ascii_uppercase();
    let what = What::read(&status, Json::Object(output), &Map::new())
        .map_err(|_| Problem::query("status", format!("`{status}` is not a status of a result: {STATUSES}")))?;
    Ok(Said { worker, what, lines: Vec::new() })
}

/// `POST /tasks/{workflow}/{reference}/{status}`: the id of the task.
pub async fn by_reference(call: Call) -> Answer {
    let (task, pending) = answer_named(&call).await?;
    let answer = text(id_text(task));
    pending.heard();
    answer
}

/// The same; the workflow as it is then.
pub async fn by_reference_sync(call: Call) -> Answer {
    let (_, pending) = answer_named(&call).await?;
    at_rest(&call, id_of(&call)?).await?;
    let story = workflow::find(&call.app, &call.workspace()?, id_of(&call)?).await?;
    let answer = ok(workflow::shown(&story, true, call.sees_payloads()));
    pending.heard();
    answer
}

/// Clients look for what comes next in the workflow that they are answered with: until it waits for somebody, or
/// [`COMES_NEXT`] is over.
async fn at_rest(call: &Call, run: RunId) -> Result<(), Problem> {
    let until = Instant::now() + COMES_NEXT;
    while head(call, run).await?.status == Status::Running && Instant::now() < until {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

async fn answer_named(call: &Call) -> Result<(Hash16, Pending), Problem> {
    let (run, reference, status) = (id_of(call)?, call.param("ref")?.to_owned(), call.param("status")?.to_owned());
    let said = said(call, &status, body::query(call, "workerid")?)?;
    let find = async || {
        let story = workflow::find(&call.app, &call.workspace()?, run).await?;
        let found = story.tasks.iter().rev().find(|task| task.is_open() && is_called(task, &reference));
        found.filter(|task| task.terms.is_some()).map(|task| task.id).ok_or_else(|| {
            let detail = format!("Found no running task {reference} of workflow {run} to update");
            Problem::new(Code::TaskUnknown, detail)
        })
    };
    answer_once(call, run, &format!("{reference}/{status}"), said, find).await
}

fn is_called(task: &TaskStory, reference: &str) -> bool {
    task.reference == reference || task.plain_reference() == reference
}

/// Answers the task that the request is about: the one it was about before, if this is a repeat.
async fn answer_once(
    call: &Call,
    run: RunId,
    words: &str,
    said: Said,
    find: impl AsyncFnOnce() -> Result<Hash16, Problem>,
) -> Result<(Hash16, Pending), Problem> {
    let (request, keyed) = digest(call, run, words);
    let unheard = call.app.unheard().clone();
    let task = match unheard.recall(request, call.now()) {
        Some(task) => task,
        None => find().await?,
    };
    unheard.note(request, task, call.now());
    let pending = Pending { unheard, request, keyed };
    match tell(call, task, said).await {
        Ok(_) => Ok((task, pending)),
        Err(problem) => {
            pending.unheard.heard(request);
            Err(problem)
        }
    }
}

/// `POST /tasks/{workflow}/{status}/signal`: nothing is said of what comes of it, nor of a workflow that waits for nobody.
pub async fn post(call: Call) -> Answer {
    match signal(&call).await {
        Ok((_, pending)) => pending.heard(),
        Err(problem) if problem.code == Code::TaskUnknown => {}
        Err(problem) => return Err(problem),
    }
    super::done()
}

/// The same; answered when the workflow waits again or has ended.
pub async fn post_sync(call: Call) -> Answer {
    let show = Show::read(&call)?;
    let wait = body::query_whole(&call, "timeoutMillis")?.unwrap_or(TIMEOUT_MS).min(TIMEOUT_MS_MAX);
    let (_, pending) = signal(&call).await?;
    let seen = settle(&call.app, &call.workspace()?, id_of(&call)?, &[], Duration::from_millis(wait)).await?;
    let answer = ok(answer(&seen, show, request_id(&call)?, call.sees_payloads()));
    pending.heard();
    answer
}

async fn signal(call: &Call) -> Result<(Hash16, Pending), Problem> {
    // The path has the status where others have a name.
    let (run, status) = (id_of(call)?, call.param("ref")?.to_owned());
    let said = said(call, &status, None)?;
    let find = async || {
        let until = Instant::now() + ON_ITS_WAY;
        loop {
            match blocked(call, run).await? {
                Blocked::At(task) => return Ok(task),
                // Clients signal as soon as they have seen a task begin; the workflow is on its way.
                Blocked::NotYet if Instant::now() < until => tokio::time::sleep(LOOK_AGAIN).await,
                Blocked::NotYet | Blocked::Nowhere => {
                    let detail = format!("Found no blocked task in workflow {run} to signal");
                    return Err(Problem::new(Code::TaskUnknown, detail));
                }
            }
        }
    };
    answer_once(call, run, &format!("signal/{status}"), said, find).await
}

/// Where a workflow waits for somebody.
enum Blocked {
    At(Hash16),
    /// Something goes on by itself.
    NotYet,
    Nowhere,
}

/// The first task of the workflow, or of one below it, that waits for somebody.
async fn blocked(call: &Call, run: RunId) -> Result<Blocked, Problem> {
    let mut open = vec![(run, 0)];
    let mut goes_on = false;
    while let Some((run, depth)) = open.pop() {
        let story: WorkflowStory = workflow::find(&call.app, &call.workspace()?, run).await?;
        if let Some(task) = story.tasks.iter().find(|task| waits_for_somebody(task) || is_human(task)) {
            return Ok(Blocked::At(task.id));
        }
        goes_on |= story.run.0.status == Status::Running;
        let children = story.tasks.iter().rev().filter(|task| task.is_open()).filter_map(|task| task.child);
        open.extend(children.filter(|_| depth < DEPTH_MAX).map(|child| (child, depth + 1)));
    }
    Ok(if goes_on { Blocked::NotYet } else { Blocked::Nowhere })
}

fn is_human(task: &TaskStory) -> bool {
    task.is_open() && task.terms.as_ref().is_some_and(|terms| terms.kind == semel_core::ir::ErrandKind::Human)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_remembered_until_its_caller_has_heard() {
        let unheard = Arc::new(Unheard::default());
        let (request, task) = (Hash16([1; 16]), Hash16([2; 16]));
        assert_eq!(unheard.recall(request, Millis(0)), None);
        unheard.note(request, task, Millis(0));
        assert_eq!(unheard.recall(request, Millis(5)), Some(task));
        assert_eq!(unheard.recall(request, Millis(REPEAT_MS)), None, "too long ago");
        Pending { unheard: unheard.clone(), request, keyed: true }.heard();
        assert_eq!(unheard.recall(request, Millis(5)), Some(task), "a key is remembered");
        Pending { unheard: unheard.clone(), request, keyed: false }.heard();
        assert_eq!(unheard.recall(request, Millis(5)), None);
    }
}
