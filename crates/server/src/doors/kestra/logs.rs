//! `/logs`: what runs wrote, by execution or all together.

use super::execution;
use super::filters::{self, Field, Filter, Op};
use super::matching::TextTest;
use super::paged::{Paged, results};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use semel_core::run::StepKey;
use semel_core::{FlowRef, Millis, RunId, WorkspaceId, duration};
use semel_store::{Done, LogQuery, LogRow, Refusal, RunQuery, Store, StoreError, Work};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const FIELDS: &[Field] = &[
    Field::Query,
    Field::Scope,
    Field::Namespace,
    Field::StartDate,
    Field::EndDate,
    Field::TimeRange,
    Field::FlowId,
    Field::TriggerId,
    Field::Level,
    Field::ExecutionId,
];
/// Lines read at a time.
const ROWS: u32 = 1_000;
/// Words of levels, the least urgent first.
const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

/// This level and the more urgent ones.
fn from_level(word: &str) -> Option<&'static [&'static str]> {
    let at = LEVELS.iter().position(|level| level.eq_ignore_ascii_case(word))?;
    Some(&LEVELS[at..])
}

/// Kestra has no word for what the server itself says about a run.
fn level(row: &LogRow) -> &str {
    if LEVELS.contains(&row.level.as_str()) { &row.level } else { "INFO" }
}

/// Ids of task runs by step.
pub type Ids = BTreeMap<StepKey, String>;

/// A line as Kestra shows it.
pub fn entry(flow: &FlowRef, row: &LogRow, ids: &Ids, payloads: bool) -> Json {
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
        out["attemptNumber"] = 0.into();
    }
    if let Some(id) = ids.get(&row.step) {
        out["taskRunId"] = id.as_str().into();
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
    attempt: Option<u32>,
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

    pub fn passes(&self, row: &LogRow, ids: &Ids) -> bool {
        self.levels.is_none_or(|levels| levels.contains(&level(row)))
            && self.task.as_ref().is_none_or(|task| row.step.task_id() == task)
            && self.task_run.as_ref().is_none_or(|id| ids.get(&row.step) == Some(id))
            // A line does not say in which attempt it was written; all are told with the first.
            && self.attempt.is_none_or(|attempt| attempt == 0)
    }
}

/// The execution, and the ids of its task runs.
pub fn known(store: &dyn Store, workspace: &WorkspaceId, id: RunId) -> Result<Option<(FlowRef, Ids)>, StoreError> {
    let Some(whole) = execution::read(store, workspace, id)? else { return Ok(None) };
    let ids = whole.told.task_runs.iter().map(|run| (run.step.clone(), run.id.hex())).collect();
    Ok(Some((whole.run.0.flow, ids)))
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

async fn asked(call: &Call) -> Result<(FlowRef, Ids, Vec<LogRow>), Problem> {
    let (workspace, id, wanted) = (call.workspace()?, call.run_id()?, Wanted::read(call)?);
    let found = call.app.read(move |store| {
        let Some((flow, ids)) = known(store, &workspace, id)? else { return Ok(None) };
        let mut rows = lines(store, &workspace, id)?;
        rows.retain(|row| wanted.passes(row, &ids));
        Ok(Some((flow, ids, rows)))
    });
    found.await?.ok_or_else(Problem::run_unknown)
}

pub async fn of_execution(call: Call) -> Answer {
    let (flow, ids, rows) = asked(&call).await?;
    let payloads = call.sees_payloads();
    ok(rows.iter().map(|row| entry(&flow, row, &ids, payloads)).collect::<Vec<Json>>())
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

/// What a search over all executions asks for.
#[derive(Default)]
struct Search {
    query: LogQuery,
    flows: Vec<(Field, TextTest)>,
    /// A trigger writes no lines of its own here: who asks for one finds nothing.
    nothing: bool,
}

impl Search {
    fn read(call: &Call) -> Result<Search, Problem> {
        let mut asked = filters::read(&call.query, FIELDS)?;
        if asked.is_empty() {
            asked = legacy(call);
        }
        let mut out = Search::default();
        for filter in &asked {
            out.take(filter, call.now())?;
        }
        if let Some(levels) = call.query.read("minLevel", "a level", from_level)? {
            out.query.levels = levels.to_vec();
        }
        Ok(out)
    }

    fn take(&mut self, filter: &Filter, now: Millis) -> Result<(), Problem> {
        let wrong = |what: &str| Problem::new(Code::FilterInvalid, format!("`{}` must be {what}", filter.field.word()));
        match filter.field {
            Field::Query => self.query.text = Some(filter.value.clone()).filter(|text| !text.is_empty()),
            Field::Namespace | Field::FlowId => self.flows.push((filter.field, TextTest::new(filter)?)),
            Field::Level => self.query.levels = from_level(&filter.value).ok_or_else(|| wrong("a level"))?.to_vec(),
            Field::ExecutionId => match filter.value.parse() {
                Ok(run) if filter.op == Op::Equals => self.query.run = Some(run),
                Ok(_) => return Err(wrong("compared with EQUALS")),
                Err(()) => self.nothing = true,
            },
            Field::StartDate | Field::EndDate => {
                let at = Millis::parse_rfc3339(&filter.value)
                    .ok_or_else(|| wrong("an instant such as 2026-01-31T10:00:00Z"))?;
                self.bound(filter.op, at);
            }
            Field::TimeRange => {
                let back = duration::parse_ms(&filter.value).map_err(|_| wrong("a duration such as PT24H"))?;
                self.bound(Op::GreaterThanOrEqualTo, now.plus(-back));
            }
            Field::TriggerId => self.nothing |= !matches!(filter.op, Op::NotEquals | Op::NotIn),
            _ => {}
        }
        Ok(())
    }

    fn bound(&mut self, op: Op, at: Millis) {
        let (from, to) = match op {
            Op::GreaterThan => (Some(at.plus(1)), None),
            Op::GreaterThanOrEqualTo => (Some(at), None),
            Op::LessThan => (None, Some(at)),
            Op::LessThanOrEqualTo => (None, Some(at.plus(1))),
            _ => (Some(at), Some(at.plus(1))),
        };
        self.query.from = self.query.from.max(from);
        self.query.to = match (self.query.to, to) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

fn legacy(call: &Call) -> Vec<Filter> {
    let names = [
        ("q", Field::Query, Op::Equals),
        ("namespace", Field::Namespace, Op::Prefix),
        ("flowId", Field::FlowId, Op::Equals),
        ("triggerId", Field::TriggerId, Op::Equals),
        ("executionId", Field::ExecutionId, Op::Equals),
        ("startDate", Field::StartDate, Op::GreaterThanOrEqualTo),
        ("endDate", Field::EndDate, Op::LessThanOrEqualTo),
    ];
    let of = |(name, field, op)| call.query.all(name).map(move |text| Filter::new(field, op, text)).collect::<Vec<_>>();
    names.into_iter().flat_map(of).collect()
}

pub async fn search(call: Call) -> Answer {
    let (paged, mut search, workspace) = (Paged::read(&call.query)?, Search::read(&call)?, call.workspace()?);
    if search.nothing {
        return results(vec![], 0);
    }
    if !call.sees_payloads() && search.query.text.is_some() {
        return Err(Problem::new(Code::Forbidden, "who may not see messages cannot search in them"));
    }
    search.query.oldest_first = match paged.sort.as_slice() {
        [] => true,
        [(field, ascends)] if field == "timestamp" => *ascends,
        _ => return Err(Problem::query("sort", "Invalid sort parameter: logs are sorted by timestamp")),
    };
    search.query.skip = paged.skip() as u64;
    search.query.limit = u32::try_from(paged.size).unwrap_or(u32::MAX);
    let found = call.app.read(move |store| {
        if !search.flows.is_empty() {
            let passes = |flow: &FlowRef| {
                search.flows.iter().all(|(field, test)| {
                    test.holds(if *field == Field::Namespace { &flow.namespace } else { &flow.id })
                })
            };
            search.query.flows = Some(store.flow_names(&workspace)?.into_iter().filter(passes).collect());
        }
        let (rows, total) = store.log_search(&workspace, &search.query)?;
        let mut ids: BTreeMap<RunId, Ids> = BTreeMap::new();
        for (_, row) in &rows {
            if let Entry::Vacant(slot) = ids.entry(row.run) {
                slot.insert(known(store, &workspace, row.run)?.map(|(_, ids)| ids).unwrap_or_default());
            }
        }
        Ok((rows, total, ids))
    });
    let (rows, total, ids) = found.await?;
    let (payloads, none) = (call.sees_payloads(), Ids::new());
    let shown = rows.iter().map(|(flow, row)| entry(flow, row, ids.get(&row.run).unwrap_or(&none), payloads)).collect();
    results(shown, usize::try_from(total).unwrap_or(usize::MAX))
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
    fn bounds_are_all_kept() {
        let mut search = Search::default();
        for (op, at) in
            [(Op::GreaterThanOrEqualTo, 10), (Op::GreaterThan, 4), (Op::LessThan, 50), (Op::LessThanOrEqualTo, 20)]
        {
            search.bound(op, Millis(at));
        }
        assert_eq!((search.query.from, search.query.to), (Some(Millis(10)), Some(Millis(21))));
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
        let ids = Ids::from([(StepKey("pay".to_owned()), "ab".to_owned())]);
        let flow = FlowRef::new("a", "b");
        let shown = entry(&flow, &row, &ids, true);
        assert_eq!(
            (&shown["taskId"], &shown["taskRunId"], &shown["level"]),
            (&json!("pay"), &json!("ab"), &json!("INFO"))
        );
        assert!(!entry(&flow, &row, &ids, false).to_string().contains("4111"));
        let root = LogRow { step: StepKey::root(), ..row };
        assert_eq!(entry(&flow, &root, &ids, true).get("taskId"), None);
    }
}
