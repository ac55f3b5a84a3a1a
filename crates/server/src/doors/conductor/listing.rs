//! Lists of workflows and of their tasks, and the short forms of one.

use super::search::{conductor_search, flows_of, live_heads};
use super::workflow::{self, correlation, id_of, status};
use super::{body, start, task};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use semel_core::Millis;
use semel_core::run::StateOf;
use semel_store::search::{Cmp, Field, FieldTest, Interval, RunSearch, TextTest, When};
use semel_store::{RunRow, WholeRun};
use serde_json::{Map, Value as Json, json};

/// Ids that a list without pages shows at most.
const IDS_MAX: u32 = 10_000;
/// Workflows with one correlation id that are shown at most.
const CORRELATED_MAX: u32 = 1_000;

/// `GET /{id}/status`.
pub async fn status_of(call: Call) -> Answer {
    let (with_output, with_variables) =
        (body::query_flag(&call, "includeOutput", false)?, body::query_flag(&call, "includeVariables", false)?);
    let story = workflow::find(&call.app, &call.workspace()?, id_of(&call)?).await?;
    let (row, values, _) = &story.run;
    let shown = |value: Json| if call.sees_payloads() { value } else { json!({}) };
    let output = if with_output { start::output(values) } else { json!({}) };
    let variables = if with_variables { story.variables.clone() } else { json!({}) };
    ok(json!({
        "workflowId": row.id.to_string(),
        "correlationId": correlation(row),
        "status": status(row),
        "output": shown(output),
        "variables": shown(variables),
    }))
}

/// `GET /{id}/tasks`: one page of them.
pub async fn tasks(call: Call) -> Answer {
    let start = body::query_whole(&call, "start")?.unwrap_or(0);
    let count = body::query_whole(&call, "count")?.unwrap_or(15);
    let wanted: Vec<String> = call.query.all("status").flat_map(|text| text.split(',')).map(str::to_owned).collect();
    let wanted: Vec<String> = wanted.into_iter().filter(|status| !matches!(status.as_str(), "" | "None")).collect();
    let story = workflow::find(&call.app, &call.workspace()?, id_of(&call)?).await?;
    let all = story.tasks.iter().enumerate();
    let found: Vec<(usize, _)> =
        all.filter(|(_, task)| wanted.is_empty() || wanted.iter().any(|status| status == task.status)).collect();
    let total = found.len();
    let page = found.into_iter().skip(usize::try_from(start).unwrap_or(usize::MAX));
    let page = page.take(usize::try_from(count).unwrap_or(usize::MAX));
    let shown: Vec<Json> = page.map(|(place, one)| task::shown(&story, one, place + 1, call.sees_payloads())).collect();
    ok(json!({"totalHits": total, "results": shown}))
}

/// `GET /running/{name}`: ids of those that run; with two instants, of all that were created between them.
pub async fn running(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    let version = body::query_whole(&call, "version")?.unwrap_or(1);
    let (from, to) = (body::query_whole(&call, "startTime")?, body::query_whole(&call, "endTime")?);
    let at = |ms: u64| Millis(i64::try_from(ms).unwrap_or(i64::MAX));
    let flows = flows_of(&call, move |own, of| own == name && u64::from(of) == version).await?;
    let between = matches!((from, to), (Some(from), Some(to)) if from > 0 && to > 0);
    let mut search = RunSearch { limit: IDS_MAX, ..conductor_search(&call) };
    search.fields.push(FieldTest { field: Field::FlowId, test: TextTest::In(flows), not: false });
    match (from, to) {
        (Some(from), Some(to)) if between => {
            let tests = vec![(Cmp::Ge, at(from)), (Cmp::Le, at(to))];
            search.intervals.push(Interval { of: vec![When::Start], tests });
        }
        _ => search.heads = Some(live_heads()),
    }
    let (page, _) = found(&call, search).await?;
    ok(page.iter().map(|(row, _, _)| row.id.to_string()).collect::<Vec<_>>())
}

pub async fn found(call: &Call, search: RunSearch) -> Result<(Vec<WholeRun>, u64), Problem> {
    let workspace = call.workspace()?;
    call.app.read(move |store| store.search_runs(&workspace, &search)).await
}

/// What a list of correlated workflows shows.
struct Wanted {
    closed: bool,
    tasks: bool,
}

impl Wanted {
    fn read(call: &Call) -> Result<Wanted, Problem> {
        Ok(Wanted {
            closed: body::query_flag(call, "includeClosed", false)?,
            tasks: body::query_flag(call, "includeTasks", false)?,
        })
    }
}

/// `GET /{name}/correlated/{correlation}`.
pub async fn correlated(call: Call) -> Answer {
    let (name, id) = (call.param("id")?.to_owned(), call.param("correlation")?.to_owned());
    let all = by_correlation(&call, vec![name], vec![id.clone()], Wanted::read(&call)?).await?;
    ok(all.get(&id).cloned().unwrap_or_else(|| json!([])))
}

/// `POST /{name}/correlated`: the body is the ids.
pub async fn correlated_many(call: Call) -> Answer {
    let name = call.param("id")?.to_owned();
    let ids = body::texts(&call)?;
    ok(by_correlation(&call, vec![name], ids, Wanted::read(&call)?).await?)
}

/// `POST /correlated/batch`: several names and several ids.
pub async fn correlated_batch(call: Call) -> Answer {
    let fields = body::object(&call)?;
    let texts = |name: &str| -> Result<Vec<String>, Problem> {
        let list = fields.get(name).and_then(Json::as_array);
        let list = list.ok_or_else(|| Problem::field(name, "must be a list of texts"))?;
        let text = |item: &Json| item.as_str().map(str::to_owned);
        list.iter().map(text).collect::<Option<_>>().ok_or_else(|| Problem::field(name, "must be a list of texts"))
    };
    let (names, ids) = (texts("workflowNames")?, texts("correlationIds")?);
    ok(by_correlation(&call, names, ids, Wanted::read(&call)?).await?)
}

/// Correlation id to its workflows, newest first.
async fn by_correlation(
    call: &Call,
    names: Vec<String>,
    ids: Vec<String>,
    wanted: Wanted,
) -> Result<Map<String, Json>, Problem> {
    let flows = flows_of(call, move |own, _| names.iter().any(|name| name == own)).await?;
    let mut search = RunSearch { limit: CORRELATED_MAX, ..conductor_search(call) };
    search.fields.push(FieldTest { field: Field::FlowId, test: TextTest::In(flows), not: false });
    search.fields.push(FieldTest { field: Field::Correlation, test: TextTest::In(ids.clone()), not: false });
    if !wanted.closed {
        search.heads = Some(live_heads());
    }
    let (page, _) = found(call, search).await?;
    let mut all: Map<String, Json> = ids.into_iter().map(|id| (id, json!([]))).collect();
    for (row, _, _) in &page {
        let shown = shown(call, row, wanted.tasks).await?;
        if let (Some(shown), Some(Json::Array(list))) = (shown, all.get_mut(&row.correlation_id)) {
            list.push(shown);
        }
    }
    Ok(all)
}

/// The workflow of a row; none if it went away meanwhile.
pub async fn shown(call: &Call, row: &RunRow, tasks: bool) -> Result<Option<Json>, Problem> {
    match workflow::find(&call.app, &call.workspace()?, row.id).await {
        Ok(story) => Ok(Some(workflow::shown(&story, tasks, call.sees_payloads()))),
        Err(problem) if problem.code == crate::codes::Code::RunUnknown => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Whether a head is of a workflow that has not ended.
pub fn is_live(head: &StateOf) -> bool {
    !head.ended && !head.status.is_ended()
}
