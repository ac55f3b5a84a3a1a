//! A run as Kestra's execution. Absent values are left out, as Kestra does.

use crate::problem::Problem;
use crate::state::AppState;
use semel_core::ir::{FILES_PART, KEEP_PART};
use semel_core::run::{KestraState, decode_events};
use semel_core::{Door, Millis, RunId, WorkspaceId, labels};
use semel_engine::taskruns::{History, TaskRun, Telling, Told};
use semel_engine::{Engine, public_json};
use semel_store::{RunRow, Store, StoreError, WholeRun};
use serde_json::{Map, Value as Json, json};

/// Journal rows read at a time.
const ROWS: u32 = 1_000;

pub use semel_core::labels::CORRELATION;

/// A run with what its journal tells.
pub struct Whole {
    pub run: WholeRun,
    pub told: Told,
    /// Those of the flow, with what tasks have set.
    variables: Json,
}

/// Reads a run with its journal.
pub fn read(store: &dyn Store, workspace: &WorkspaceId, id: RunId) -> Result<Option<Whole>, StoreError> {
    let Some(run) = store.run(workspace, id)? else { return Ok(None) };
    Ok(Some(with_journal(store, workspace, run)?))
}

pub fn with_journal(store: &dyn Store, workspace: &WorkspaceId, run: WholeRun) -> Result<Whole, StoreError> {
    let id = run.0.id;
    let mut telling = Telling::new(id);
    let mut after = 0;
    loop {
        let rows = store.journal(workspace, id, after, ROWS)?;
        for row in &rows {
            let events = decode_events(&row.events, row.values.as_deref())
                .map_err(|error| StoreError::Bug(format!("journal of {id}: {error}")))?;
            events.iter().for_each(|event| telling.hear(event, row.at));
            after = row.seq;
        }
        if rows.len() < ROWS as usize {
            return Ok(Whole { run, told: telling.done(), variables: Json::Null });
        }
    }
}

impl Whole {
    /// With the variables of the revision that it runs; flows in use are in memory.
    pub fn varied(mut self, engine: &Engine) -> Whole {
        let row = &self.run.0;
        if let Ok(flow) = engine.flow_revision(&row.workspace, &row.flow, row.revision) {
            self.variables = self.told.variables_over(flow.index.flow.variables.clone());
        }
        self
    }
}

/// The execution of a run of the caller's workspace.
pub async fn find(app: &AppState, workspace: &WorkspaceId, id: RunId) -> Result<Whole, Problem> {
    let workspace = workspace.clone();
    let engine = app.engine().clone();
    let found = app.read(move |store| Ok(read(store, &workspace, id)?.map(|whole| whole.varied(&engine)))).await?;
    found.ok_or_else(Problem::run_unknown)
}

/// The state that lists and single executions show.
pub fn state_of(row: &RunRow) -> KestraState {
    row.state_of().kestra()
}

/// `task`, or `task.value`.
fn breakpoint(name: &str) -> Json {
    match name.split_once('.') {
        Some((task, value)) => json!({"id": task, "value": value}),
        None => json!({"id": name}),
    }
}

fn time(at: Millis) -> Json {
    at.to_rfc3339().into()
}

/// `PT0.546S`.
fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let (hours, minutes, seconds, rest) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
    let mut out = String::from("PT");
    if hours > 0 {
        out += &format!("{hours}H");
    }
    if minutes > 0 {
        out += &format!("{minutes}M");
    }
    if seconds > 0 || rest > 0 || out == "PT" {
        let fraction = if rest > 0 { format!(".{rest:03}").trim_end_matches('0').to_owned() } else { String::new() };
        out += &format!("{seconds}{fraction}S");
    }
    out
}

/// A state with its history. `startDate` is the first instant of it, `endDate` there only at the end or in a pause.
fn state(history: &[(KestraState, Millis)], now: Millis) -> Json {
    let (Some((_, start)), Some((current, last))) = (history.first(), history.last()) else {
        return json!({"current": "CREATED", "histories": []});
    };
    let histories: Vec<Json> =
        history.iter().map(|(state, at)| json!({"state": state.word(), "date": time(*at)})).collect();
    let over = current.is_terminal() || *current == KestraState::Paused;
    let end = if over { *last } else { now };
    let mut out = json!({"current": current.word(), "histories": histories, "duration": duration(end.since(*start)), "startDate": time(*start)});
    if over {
        out["endDate"] = time(*last);
    }
    out
}

/// The history as told, ending in the state that the head has.
fn history(row: &RunRow, told: &Told) -> History {
    let mut history = told.history.clone();
    if history.is_empty() {
        history.push((KestraState::Created, row.created_at));
    }
    let current = state_of(row);
    let last = history.last().map(|(state, _)| *state);
    // A journal knows finer states of a run that goes on.
    let finer = current == KestraState::Running
        && matches!(last, Some(KestraState::Killing | KestraState::Retrying | KestraState::Created));
    if last != Some(current) && !finer {
        history.push((current, row.ended_at.unwrap_or(row.updated_at)));
    }
    history
}

/// As much of an execution as its head tells: which one it is, and how it stands.
pub fn status(row: &RunRow, now: Millis) -> Json {
    json!({
        "executionId": row.id.to_string(),
        "tenantId": row.workspace.0,
        "namespace": row.flow.namespace,
        "flowId": row.flow.id,
        "state": state(&history(row, &Told::default()), now),
    })
}

/// All labels, those of the system first.
fn shown_labels(row: &RunRow, all: &[(String, String)]) -> Json {
    let correlation = json!({"key": CORRELATION, "value": row.correlation_id});
    // The kind has a place of its own.
    let own = all.iter().filter(|(key, _)| key != labels::KIND);
    let own = own.map(|(key, value)| json!({"key": key, "value": value}));
    own.chain([correlation]).collect()
}

/// The execution. `payloads: false` is what a viewer sees.
pub fn shown(whole: &Whole, payloads: bool, now: Millis) -> Json {
    let (row, values, label_pairs) = &whole.run;
    let mut out = Map::new();
    let mut put = |name: &str, value: Json| drop(out.insert(name.to_owned(), value));
    put("id", row.id.to_string().into());
    put("namespace", row.flow.namespace.as_str().into());
    put("flowId", row.flow.id.as_str().into());
    put("flowRevision", row.revision.into());
    // What fills a working directory, or keeps files of it, is no task of the author's.
    let is_task = |run: &&TaskRun| ![FILES_PART, KEEP_PART].iter().any(|part| run.step.task_id().ends_with(part));
    let task_runs = whole.told.task_runs.iter().filter(is_task).map(|run| task_run(row, run, payloads, now));
    let task_runs: Vec<Json> = task_runs.collect();
    if !task_runs.is_empty() {
        put("taskRunList", task_runs.into());
    }
    for (name, value) in [("inputs", &values.inputs), ("outputs", &values.outputs)] {
        let value = value.as_ref().filter(|_| payloads).map(public_json);
        if let Some(value @ Json::Object(_)) =
            value.filter(|value| value.as_object().is_some_and(|map| !map.is_empty()))
        {
            put(name, value);
        }
    }
    if payloads && whole.variables.as_object().is_some_and(|variables| !variables.is_empty()) {
        put("variables", whole.variables.clone());
    }
    put("labels", shown_labels(row, label_pairs));
    put("state", state(&history(row, &whole.told), now));
    put("originalId", row.more.original.unwrap_or(row.logical).to_string().into());
    if let Some(parent) = row.more.replay_of {
        put("parentId", parent.to_string().into());
    }
    if let Some(trigger) = trigger(whole, payloads) {
        put("trigger", trigger);
    }
    put("deleted", false.into());
    if let Some(at) = row.more.start_at {
        put("scheduleDate", time(at));
    }
    if let Some((_, kind)) = label_pairs.iter().find(|(key, _)| key == labels::KIND) {
        put("kind", kind.as_str().into());
    }
    if !whole.told.breakpoints.is_empty() {
        put("breakpoints", whole.told.breakpoints.iter().map(|name| breakpoint(name)).collect());
    }
    put("metadata", json!({"attemptNumber": whole.told.attempts, "originalCreatedDate": time(row.created_at)}));
    Json::Object(out)
}

/// Whoever does not wait is shown what was created: that it has begun since, or is done, is nothing to rely on.
pub fn as_created(shown: &mut Json, whole: &Whole) {
    let goes_on = |state: &KestraState| matches!(state, KestraState::Running | KestraState::Queued);
    let begun = whole.told.history.iter().any(|(state, _)| goes_on(state));
    let first = whole.told.history.first().filter(|(state, _)| begun && *state == KestraState::Created);
    let (Some(first), Some(fields)) = (first, shown.as_object_mut()) else { return };
    fields.insert("state".to_owned(), state(&[*first], first.1));
    fields.remove("taskRunList");
    fields.remove("outputs");
}

/// What started the execution, where that was a trigger or another execution.
fn trigger(whole: &Whole, payloads: bool) -> Option<Json> {
    let (row, values, _) = &whole.run;
    let kind = match row.door {
        Door::Webhook => "io.kestra.plugin.core.trigger.Webhook",
        Door::Schedule => "io.kestra.plugin.core.trigger.Schedule",
        Door::Subflow => "io.kestra.plugin.core.flow.Subflow",
        Door::Flow => "io.kestra.plugin.core.trigger.Flow",
        _ => return None,
    };
    let mut variables = match values.trigger.as_ref().filter(|_| payloads).map(public_json) {
        Some(Json::Object(variables)) => variables,
        _ => Map::new(),
    };
    if let Some(parent) = &row.parent {
        variables.insert("executionId".to_owned(), parent.run.to_string().into());
    }
    // Triggers say who they are beside what they bring.
    let id = variables.remove("id");
    let mut out = json!({"type": kind, "variables": variables});
    if let Some(id) = id {
        out["id"] = id;
    }
    if let Some(parent) = &row.parent {
        out["id"] = parent.step.task_id().into();
    }
    Some(out)
}

pub fn task_run(row: &RunRow, run: &TaskRun, payloads: bool, now: Millis) -> Json {
    let mut out = json!({
        "id": run.id.hex(),
        "executionId": row.id.to_string(),
        "namespace": row.flow.namespace,
        "flowId": row.flow.id,
        "taskId": run.step.task_id(),
        "state": state(&run.history, now),
    });
    if let Some(parent) = run.parent {
        out["parentTaskRunId"] = parent.hex().into();
    }
    if let Some(value) = run.value.as_ref().filter(|_| payloads) {
        out["value"] = value.as_str().into();
    }
    if let Some(iteration) = run.iteration {
        out["iteration"] = iteration.into();
    }
    if !run.attempts.is_empty() {
        let attempts: Vec<Json> = run.attempts.iter().map(|history| json!({"state": state(history, now)})).collect();
        out["attempts"] = attempts.into();
    }
    if let Some(outputs) = run.outputs.as_ref().filter(|_| payloads) {
        out["outputs"] = public_json(outputs);
    }
    out
}

/// Where people look at the execution.
pub fn url(base: Option<&str>, row: &RunRow) -> String {
    let base = base.unwrap_or_default().trim_end_matches('/');
    format!("{base}/ui/{}/executions/{}/{}/{}", row.workspace, row.flow.namespace, row.flow.id, row.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_iso_8601() {
        for (ms, text) in
            [(0, "PT0S"), (546, "PT0.546S"), (1_500, "PT1.5S"), (60_000, "PT1M"), (3_661_001, "PT1H1M1.001S")]
        {
            assert_eq!(duration(ms), text);
        }
    }
}
