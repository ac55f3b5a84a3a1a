//! `/logs`: what one execution wrote.

use super::execution;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use semel_core::run::StepKey;
use semel_core::{FlowRef, Millis, RunId, WorkspaceId};
use semel_engine::taskruns::TaskRun;
use semel_store::{Done, LogRow, Refusal, RunQuery, Store, StoreError, Work};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Lines read at a time.
const ROWS: u32 = 1_000;
/// Words of levels, the least urgent first.
pub const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

/// This level and the more urgent ones.
pub fn from_level(word: &str) -> Option<&'static [&'static str]> {
    let at = LEVELS.iter().position(|level| level.eq_ignore_ascii_case(word))?;
    Some(&LEVELS[at..])
}

/// Kestra has no word for what the server itself says about a run.
fn level(row: &LogRow) -> &str {
    if LEVELS.contains(&row.level.as_str()) { &row.level } else { "INFO" }
}

/// What a line does not say of its step.
#[derive(Default)]
pub struct Steps(BTreeMap<StepKey, Step>);

struct Step {
    /// The id of its task run.
    id: String,
    /// When each attempt began.
    attempts: Vec<Millis>,
}

impl Steps {
    fn id(&self, step: &StepKey) -> Option<&str> {
        self.0.get(step).map(|step| step.id.as_str())
    }

    /// The number of the attempt in which the line was written: the last that had begun then.
    fn attempt(&self, row: &LogRow) -> usize {
        let begun = |step: &Step| step.attempts.iter().filter(|at| **at <= row.at).count();
        self.0.get(&row.step).map_or(0, begun).saturating_sub(1)
    }
}

/// A line as Kestra shows it.
pub fn entry(flow: &FlowRef, row: &LogRow, steps: &Steps, payloads: bool) -> Json {
    let mut out = json!({
        "namespace": flow.namespace,
        "flowId": flow.id,
        "executionId": row.run.to_string(),
        "timestamp": row.at.to_rfc3339(),
        "level": level(row),
        "thread": "engine",
        "deleted": false,
    });
    if row.step != StepKey::root() {
        out["taskId"] = row.step.task_id().into();
        out["attemptNumber"] = steps.attempt(row).into();
    }
    if let Some(id) = steps.id(&row.step) {
        out["taskRunId"] = id.into();
    }
    if payloads {
        out["message"] = row.message.as_str().into();
    }
    out
}

/// What lines of one execution are asked for.
pub struct Wanted {
    levels: Option<&'static [&'static str]>,
    task: Option<String>,
    task_run: Option<String>,
    attempt: Option<usize>,
}

impl Wanted {
    pub fn read(call: &Call) -> Result<Wanted, Problem> {
        Ok(Wanted {
            levels: call.query.read("minLevel", "TRACE, DEBUG, INFO, WARN or ERROR", from_level)?,
            task: call.query.text("taskId")?,
            task_run: call.query.text("taskRunId")?,
            attempt: call.query.read("attempt", "a number", |text| text.parse().ok())?,
        })
    }

    pub fn passes(&self, row: &LogRow, steps: &Steps) -> bool {
        self.levels.is_none_or(|levels| levels.contains(&level(row)))
            && self.task.as_ref().is_none_or(|task| row.step.task_id() == task)
            && self.task_run.as_ref().is_none_or(|id| steps.id(&row.step) == Some(id))
            && self.attempt.is_none_or(|attempt| row.step != StepKey::root() && attempt == steps.attempt(row))
    }
}

/// The flow of an execution, and its steps.
pub fn known(store: &dyn Store, workspace: &WorkspaceId, id: RunId) -> Result<Option<(FlowRef, Steps)>, StoreError> {
    let Some(whole) = execution::read(store, workspace, id)? else { return Ok(None) };
    let step = |run: &TaskRun| {
        let attempts = run.attempts.iter().filter_map(|history| history.first().map(|(_, at)| *at)).collect();
        (run.step.clone(), Step { id: run.id.hex(), attempts })
    };
    Ok(Some((whole.run.0.flow, Steps(whole.told.task_runs.iter().map(step).collect()))))
}

fn lines(store: &dyn Store, workspace: &WorkspaceId, id: RunId) -> Result<Vec<LogRow>, StoreError> {
    let mut found: Vec<LogRow> = Vec::new();
    loop {
        let page = store.logs(workspace, id, found.last().map_or(0, |row| row.seq), ROWS)?;
        let more = page.len() == ROWS as usize;
        found.extend(page);
        if !more {
            return Ok(found);
        }
    }
}

async fn asked(call: &Call) -> Result<(FlowRef, Steps, Vec<LogRow>), Problem> {
    let (workspace, id, wanted) = (call.workspace()?, call.run_id()?, Wanted::read(call)?);
    let found = call.app.read(move |store| {
        let Some((flow, steps)) = known(store, &workspace, id)? else { return Ok(None) };
        let mut rows = lines(store, &workspace, id)?;
        rows.retain(|row| wanted.passes(row, &steps));
        Ok(Some((flow, steps, rows)))
    });
    found.await?.ok_or_else(Problem::run_unknown)
}

pub async fn of_execution(call: Call) -> Answer {
    let (flow, steps, rows) = asked(&call).await?;
    let payloads = call.sees_payloads();
    ok(rows.iter().map(|row| entry(&flow, row, &steps, payloads)).collect::<Vec<Json>>())
}

/// The lines as a text file.
pub async fn download(call: Call) -> Answer {
    let (_, _, rows) = asked(&call).await?;
    let payloads = call.sees_payloads();
    let line = |row: &LogRow| {
        let message = if payloads { row.message.as_str() } else { "" };
        format!("{} {} {message}\n", row.at.to_rfc3339(), level(row))
    };
    let text: String = rows.iter().map(line).collect();
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    let name = format!("attachment; filename=\"{}.log\"", call.run_id()?);
    if let Ok(value) = HeaderValue::from_str(&name) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// The whole log of an ended execution.
pub async fn delete(call: Call) -> Answer {
    if ["minLevel", "taskRunId", "taskId", "attempt"].iter().any(|name| call.query.all(name).next().is_some()) {
        return Err(Problem::new(Code::IllegalArgument, "a log is deleted as a whole; leave the parameters out"));
    }
    let work = Work::DeleteLogs { workspace: call.workspace()?, run: call.run_id()? };
    match call.app.write(work).await? {
        Done::Missing => Err(Problem::run_unknown()),
        Done::Refused(refusal) => Err(refusal.into()),
        _ => Ok(Response::new(Body::empty())),
    }
}

/// The logs of all ended executions of a flow; those that go on keep theirs.
pub async fn delete_of_flow(call: Call) -> Answer {
    let workspace = call.workspace()?;
    let (namespace, flow_id) = (Some(call.param("namespace")?.to_owned()), Some(call.param("flow")?.to_owned()));
    let mut query = RunQuery { namespace, flow_id, limit: ROWS, ..RunQuery::default() };
    loop {
        let (owner, asked) = (workspace.clone(), query.clone());
        let rows = call.app.read(move |store| store.runs(&owner, &asked)).await?;
        for (row, _, _) in &rows {
            let answer = call.app.write(Work::DeleteLogs { workspace: workspace.clone(), run: row.id }).await?;
            debug_assert!(!matches!(answer, Done::Refused(why) if why != Refusal::RunLive));
        }
        query.before = rows.last().map(|(row, _, _)| row.id);
        if rows.len() < ROWS as usize {
            return Ok(Response::new(Body::empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_means_itself_and_what_is_more_urgent() {
        assert_eq!(from_level("warn"), Some(&["WARN", "ERROR"][..]));
        assert_eq!(from_level("TRACE").map(<[_]>::len), Some(5));
        assert_eq!(from_level("LOUD"), None);
    }

    #[test]
    fn a_line_has_its_task_and_viewers_do_not_see_its_text() {
        let row = LogRow {
            run: RunId::from_bytes([1; 16]),
            seq: 1,
            at: Millis(0),
            level: "AUDIT".to_owned(),
            step: StepKey("pay".to_owned()),
            message: "card 4111".to_owned(),
        };
        let step = Step { id: "ab".to_owned(), attempts: vec![Millis(0), Millis(50), Millis(90)] };
        let steps = Steps(BTreeMap::from([(StepKey("pay".to_owned()), step)]));
        let flow = FlowRef::new("a", "b");
        let shown = entry(&flow, &row, &steps, true);
        assert_eq!(
            (&shown["taskId"], &shown["taskRunId"], &shown["level"]),
            (&json!("pay"), &json!("ab"), &json!("INFO"))
        );
        assert!(!entry(&flow, &row, &steps, false).to_string().contains("4111"));
        for (at, attempt) in [(0, 0), (49, 0), (50, 1), (60, 1), (95, 2)] {
            let line = LogRow { at: Millis(at), ..row.clone() };
            assert_eq!(entry(&flow, &line, &steps, true)["attemptNumber"], attempt, "{at}");
        }
        let root = LogRow { step: StepKey::root(), ..row };
        assert_eq!(entry(&flow, &root, &steps, true).get("taskId"), None);
    }
}
