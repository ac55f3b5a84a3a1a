//! Searches over workflows and tasks.
//!
//! Workflows are searched for by the store, with exact totals. Tasks are part of the journals of their workflows, so a
//! search over tasks looks through those of all workflows that its other conditions leave, and of which the words of
//! their tasks ([`super::task_words`]) say that they may have such a task.

use super::listing::{found, is_live};
use super::query::{Condition, Order, Query, Test, Value, parse};
use super::task::id_text;
use super::workflow::{self, correlation, reason, started_with, status};
use super::{body, listing, start, task, task_words};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use semel_core::admission::is_callers;
use semel_core::ir::CONDUCTOR_NAMESPACE;
use semel_core::run::{Conclusion, StateOf, Status};
use semel_core::{FlowRef, Millis};
use semel_engine::{TaskStory, WorkflowStory, public_json};
use semel_store::WholeRun;
use semel_store::search::{Cmp, Field, FieldTest, Interval, RunSearch, Sort, SortBy, TextTest, When};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Results on one page at most.
const SIZE_MAX: u64 = 5_000;
const SIZE: u64 = 100;
/// Workflows that are read at a time when their tasks are looked through.
const RUNS_PAGE: u32 = 1_000;

/// Conductor's words for how a workflow stands, each with the heads that show it.
const STATUSES: [&str; 6] = ["RUNNING", "PAUSED", "COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED"];

fn word_of(head: &StateOf) -> &'static str {
    match head.status {
        Status::Completed => "COMPLETED",
        Status::Failed if head.conclusion == Some(Conclusion::TimedOut) => "TIMED_OUT",
        Status::Failed => "FAILED",
        Status::Held if head.ended => "FAILED",
        Status::Cancelled => "TERMINATED",
        Status::Paused | Status::Held => "PAUSED",
        Status::Queued | Status::Running | Status::Waiting => "RUNNING",
    }
}

pub fn live_heads() -> Vec<StateOf> {
    StateOf::all().filter(is_live).collect()
}

/// All workflows, newest first.
pub fn conductor_search(call: &Call) -> RunSearch {
    let namespace = TextTest::In(vec![CONDUCTOR_NAMESPACE.to_owned()]);
    RunSearch {
        fields: vec![FieldTest { field: Field::Namespace, test: namespace, not: false }],
        now: call.now(),
        ..RunSearch::default()
    }
}

/// The name and the version of a flow as Conductor shows them; a definition that is gone is told by its id.
fn name_and_version(call: &Call, flow: &FlowRef) -> Result<(String, u32), Problem> {
    let workspace = call.workspace()?;
    if let Ok(known) = call.app.engine().flow_head(&workspace, flow)
        && let Some(own) = known.index.flow.conductor.as_deref()
    {
        return Ok((own.name.clone(), own.version));
    }
    let name = flow.id.split(['~', '@']).next().unwrap_or_default().to_owned();
    let version = flow.id.rsplit_once('@').and_then(|(_, version)| version.parse().ok()).unwrap_or(0);
    Ok((name, version))
}

/// Ids of the flows that have runs and whose name and version pass.
pub async fn flows_of(call: &Call, passes: impl Fn(&str, u32) -> bool) -> Result<Vec<String>, Problem> {
    let workspace = call.workspace()?;
    let flows = call.app.read(move |store| store.flows_with_runs(&workspace)).await?;
    let mut found = Vec::new();
    for flow in flows.into_iter().filter(|flow| flow.namespace == CONDUCTOR_NAMESPACE) {
        let (name, version) = name_and_version(call, &flow)?;
        if passes(&name, version) {
            found.push(flow.id);
        }
    }
    Ok(found)
}

/// What a search asks for, besides conditions on tasks.
struct Asked {
    search: RunSearch,
    /// Conditions on the tasks of a workflow, all of which must hold.
    tasks: Vec<Query>,
    free_text: Option<String>,
}

/// Which conditions are about tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Workflows,
    Tasks,
}

async fn asked(call: &Call, about: About) -> Result<Asked, Problem> {
    let start = body::query_whole(call, "start")?.unwrap_or(0);
    let size = body::query_whole(call, "size")?.unwrap_or(SIZE);
    if size > SIZE_MAX {
        return Err(Problem::query(
            "size",
            format!("Cannot return more than {SIZE_MAX} workflows. Please use pagination."),
        ));
    }
    let free_text = body::query(call, "freeText")?.filter(|text| text != "*");
    let mut search = conductor_search(call);
    (search.offset, search.limit) = (start, u32::try_from(size).unwrap_or(u32::MAX));
    search.sort = sorting(body::query(call, "sort")?.as_deref(), about)?;
    let mut tasks = Vec::new();
    for part in parse(&body::query(call, "query")?.unwrap_or_default())?.into_parts() {
        let of_tasks = part.conditions().iter().filter(|condition| is_of_task(&condition.field)).count();
        if about == About::Workflows || of_tasks == 0 {
            narrow_by(call, &mut search, &part).await?;
        } else if of_tasks == part.conditions().len() {
            tasks.push(part);
        } else {
            let text = "OR joins conditions on tasks, or conditions on workflows; these are some of both";
            return Err(Problem::query("query", text));
        }
    }
    if about == About::Workflows {
        search.words = free_text.clone();
    }
    if body::query_flag(call, "topLevelOnly", false)? {
        search.is_child = Some(false);
    }
    Ok(Asked { search, tasks, free_text })
}

fn is_of_task(field: &str) -> bool {
    let own =
        ["taskId", "taskType", "taskDefName", "referenceTaskName", "status", "startTime", "endTime", "updateTime"];
    own.contains(&field) || field == "scheduledTime"
}

/// `startTime:DESC,status:ASC`; a bar between them is read too.
fn sorting(text: Option<&str>, about: About) -> Result<Vec<Sort>, Problem> {
    let mut sorts = Vec::new();
    for term in text.unwrap_or_default().split([',', '|']).map(str::trim).filter(|term| !term.is_empty()) {
        let (field, order) = term.split_once(':').unwrap_or((term, "ASC"));
        let descending = match order.trim().to_ascii_uppercase().as_str() {
            "ASC" => false,
            "DESC" => true,
            _ => return Err(Problem::query("sort", format!("`{order}` is not an order: ASC or DESC"))),
        };
        let by = match field.trim() {
            "workflowId" => SortBy::Id,
            "startTime" | "createTime" => SortBy::Start,
            "endTime" => SortBy::End,
            "updateTime" | "modifiedTime" => SortBy::Update,
            "workflowType" | "workflowName" | "version" => SortBy::FlowId,
            "status" => SortBy::State,
            "correlationId" => SortBy::Correlation,
            "executionTime" => SortBy::Duration,
            // Tasks of one workflow stay in their order.
            _ if about == About::Tasks => continue,
            _ => return Err(Problem::query("sort", format!("`{field}` is not a field that workflows are sorted by"))),
        };
        sorts.push(Sort { by, descending });
    }
    Ok(sorts)
}

/// One more thing that must hold, or of several one.
async fn narrow_by(call: &Call, search: &mut RunSearch, query: &Query) -> Result<(), Problem> {
    match query {
        Query::One(condition) => narrow(call, search, condition).await,
        Query::All(parts) => {
            for part in parts {
                Box::pin(narrow_by(call, search, part)).await?;
            }
            Ok(())
        }
        Query::Any(parts) => {
            let mut group = Vec::with_capacity(parts.len());
            for part in parts {
                let mut one = RunSearch::default();
                Box::pin(narrow_by(call, &mut one, part)).await?;
                group.push(one);
            }
            search.groups.push(group);
            Ok(())
        }
    }
}

/// One more thing that must hold.
async fn narrow(call: &Call, search: &mut RunSearch, condition: &Condition) -> Result<(), Problem> {
    let field = condition.field.as_str();
    match field {
        "workflowId" => text_tests(search, Field::Id, condition)?,
        "parentWorkflowId" => text_tests(search, Field::Parent, condition)?,
        "correlationId" => text_tests(search, Field::Correlation, condition)?,
        "idempotencyKey" => text_tests(search, Field::Key, condition)?,
        "workflowType" | "workflowName" => {
            let (values, not) = texts(condition)?;
            let flows = flows_of(call, |name, _| values.iter().any(|value| fits(value, name)) != not).await?;
            search.fields.push(FieldTest { field: Field::FlowId, test: TextTest::In(flows), not: false });
        }
        "version" | "workflowVersion" => {
            let passes = version_test(condition)?;
            let flows = flows_of(call, |_, version| passes(version)).await?;
            search.fields.push(FieldTest { field: Field::FlowId, test: TextTest::In(flows), not: false });
        }
        "status" => {
            let (values, not) = texts(condition)?;
            if let Some(value) = values.iter().find(|value| !STATUSES.iter().any(|status| fits(value, status))) {
                let text = format!("`{}` is not a status: {}", value.text, STATUSES.join(", "));
                return Err(Problem::query("query", text));
            }
            let wanted = |head: &StateOf| values.iter().any(|value| fits(value, word_of(head))) != not;
            let heads = StateOf::all().filter(wanted);
            search.heads = Some(match search.heads.take() {
                None => heads.collect(),
                Some(before) => heads.filter(|head| before.contains(head)).collect(),
            });
        }
        "startTime" | "createTime" => search.intervals.push(interval(When::Start, condition)?),
        "endTime" => search.intervals.push(interval(When::End, condition)?),
        "updateTime" | "modifiedTime" => search.intervals.push(interval(When::Update, condition)?),
        _ => {
            let known = "workflowId, correlationId, idempotencyKey, parentWorkflowId, workflowType, version, status, \
                         startTime, endTime, updateTime";
            return Err(Problem::query("query", format!("`{field}` is not a field of this search: {known}")));
        }
    }
    Ok(())
}

/// A `*` of a pattern stands for any text.
fn fits(value: &Value, text: &str) -> bool {
    match value.pattern {
        true => TextTest::Glob(value.text.clone()).holds(text),
        false => value.text == text,
    }
}

fn texts(condition: &Condition) -> Result<(&[Value], bool), Problem> {
    match &condition.test {
        Test::In { values, not } => Ok((values, *not)),
        Test::Compare { .. } | Test::Between { .. } => {
            let text = format!("`{}` is compared with =, != or IN", condition.field);
            Err(Problem::query("query", text))
        }
    }
}

/// Several patterns cannot be asked for at once: each row is looked at for one of them.
fn text_tests(search: &mut RunSearch, field: Field, condition: &Condition) -> Result<(), Problem> {
    let (values, not) = texts(condition)?;
    let test = match values {
        [one] if one.pattern => TextTest::Glob(one.text.clone()),
        several if several.iter().any(|value| value.pattern) => {
            let text = format!("`{}` takes one value with a `*`, or several without", condition.field);
            return Err(Problem::query("query", text));
        }
        several => TextTest::In(several.iter().map(|value| value.text.clone()).collect()),
    };
    search.fields.push(FieldTest { field, test, not });
    Ok(())
}

fn whole(condition: &Condition, text: &str) -> Result<i64, Problem> {
    let wrong =
        || Problem::query("query", format!("`{}` is compared with a whole number, not `{text}`", condition.field));
    text.trim().parse().map_err(|_| wrong())
}

/// Milliseconds since 1970, or a date.
fn instant(condition: &Condition, text: &str) -> Result<Millis, Problem> {
    match Millis::parse_rfc3339(text.trim()) {
        Some(at) => Ok(at),
        None => whole(condition, text).map(Millis),
    }
}

fn version_test(condition: &Condition) -> Result<Box<dyn Fn(u32) -> bool + Send + Sync>, Problem> {
    Ok(match &condition.test {
        Test::In { values, not } => {
            let numbers = values.iter().map(|value| whole(condition, &value.text)).collect::<Result<Vec<_>, _>>()?;
            let not = *not;
            Box::new(move |version| numbers.contains(&i64::from(version)) != not)
        }
        Test::Compare { than, value } => {
            let (than, bound) = (*than, whole(condition, value)?);
            Box::new(move |version| compare(than, i64::from(version), bound))
        }
        Test::Between { from, to } => {
            let (from, to) = (whole(condition, from)?, whole(condition, to)?);
            Box::new(move |version| (from..=to).contains(&i64::from(version)))
        }
    })
}

fn compare(than: Order, one: i64, other: i64) -> bool {
    match than {
        Order::Less => one < other,
        Order::LessOrEqual => one <= other,
        Order::Greater => one > other,
        Order::GreaterOrEqual => one >= other,
    }
}

pub fn interval(of: When, condition: &Condition) -> Result<Interval, Problem> {
    let tests = match &condition.test {
        Test::Compare { than, value } => {
            let cmp = match than {
                Order::Less => Cmp::Lt,
                Order::LessOrEqual => Cmp::Le,
                Order::Greater => Cmp::Gt,
                Order::GreaterOrEqual => Cmp::Ge,
            };
            vec![(cmp, instant(condition, value)?)]
        }
        Test::Between { from, to } => vec![(Cmp::Ge, instant(condition, from)?), (Cmp::Le, instant(condition, to)?)],
        Test::In { values, not } => match (&values[..], not) {
            ([one], false) => vec![(Cmp::Eq, instant(condition, &one.text)?)],
            (several, true) => {
                let others = several.iter().map(|value| Ok((Cmp::Ne, instant(condition, &value.text)?)));
                others.collect::<Result<_, Problem>>()?
            }
            _ => {
                let text = format!("`{}` is compared with one instant, or with BETWEEN", condition.field);
                return Err(Problem::query("query", text));
            }
        },
    };
    Ok(Interval { of: vec![of], tests })
}

pub async fn search(call: Call) -> Answer {
    let asked = asked(&call, About::Workflows).await?;
    let (page, total) = found(&call, asked.search).await?;
    let mut results = Vec::new();
    for whole in &page {
        results.push(summary(&call, whole)?);
    }
    answer(total, results)
}

pub async fn search_v2(call: Call) -> Answer {
    let asked = asked(&call, About::Workflows).await?;
    let (page, total) = found(&call, asked.search).await?;
    let mut results = Vec::new();
    for (row, _, _) in &page {
        results.extend(listing::shown(&call, row, true).await?);
    }
    answer(total, results)
}

fn answer(total: u64, results: Vec<Json>) -> Answer {
    ok(json!({"totalHits": total, "results": results}))
}

fn date(at: Option<Millis>) -> Json {
    at.map_or(Json::Null, |at| at.to_rfc3339().into())
}

/// What a list shows of a workflow.
fn summary(call: &Call, (row, values, _): &WholeRun) -> Result<Json, Problem> {
    let (name, version) = name_and_version(call, &row.flow)?;
    let payload = |value: Json| if call.sees_payloads() { value.to_string() } else { String::new() };
    let input = payload(values.inputs.as_ref().map_or_else(|| json!({}), public_json));
    let output = payload(start::output(values));
    let words = started_with(values);
    let began = row.started_at.unwrap_or(row.created_at);
    let mut out = json!({
        "workflowType": name,
        "version": version,
        "workflowId": row.id.to_string(),
        "correlationId": correlation(row),
        "startTime": date(Some(began)),
        "updateTime": date(Some(row.updated_at)),
        "endTime": date(row.ended_at),
        "status": status(row),
        "inputSize": input.len(),
        "outputSize": output.len(),
        "input": input,
        "output": output,
        "executionTime": row.ended_at.map_or(0, |at| at.since(began).max(0)),
        "failedReferenceTaskNames": "",
        "failedTaskNames": [],
        "priority": words.get("priority").cloned().unwrap_or_else(|| json!(0)),
        "createdBy": words.get("createdBy").cloned().unwrap_or_default(),
        "taskToDomain": words.get("taskToDomain").cloned().unwrap_or_else(|| json!({})),
        "parentWorkflowId": row.parent.as_ref().map(|parent| parent.run.to_string()).unwrap_or_default(),
    });
    let optional = [
        ("idempotencyKey", row.key.as_deref().filter(|key| is_callers(key)).map(Json::from)),
        ("reasonForIncompletion", reason(values).map(Json::from)),
        ("event", words.get("event").cloned()),
    ];
    for (name, value) in optional {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            out[name] = value;
        }
    }
    if let Some(step) = values.failure.as_ref().and_then(|failure| failure["step"].as_str()) {
        let reference = step.rsplit('/').next().unwrap_or_default();
        out["failedReferenceTaskNames"] = reference.into();
        out["failedTaskNames"] = json!([reference]);
    }
    Ok(out)
}

/// Shows those that have a task which passes, with the places of their tasks that do, in the order that was asked for.
async fn look_through(
    call: &Call,
    about: &Asked,
    mut see: impl FnMut(WorkflowStory, Vec<usize>),
) -> Result<(), Problem> {
    let mut search = RunSearch { offset: 0, limit: RUNS_PAGE, ..about.search.clone() };
    task_words::narrow(&mut search, &about.tasks)?;
    let mut seen = BTreeSet::new();
    loop {
        let (page, _) = found(call, search.clone()).await?;
        let is_last = page.len() < RUNS_PAGE as usize;
        // What was admitted in between has moved the others on.
        for (row, _, _) in page.into_iter().filter(|(row, _, _)| seen.insert(row.id)) {
            let story = match workflow::find(&call.app, &call.workspace()?, row.id).await {
                Ok(story) => story,
                Err(problem) if problem.code == crate::codes::Code::RunUnknown => continue,
                Err(problem) => return Err(problem),
            };
            let mut passing = Vec::new();
            for (place, task) in story.tasks.iter().enumerate() {
                if passes(about, task)? {
                    passing.push(place);
                }
            }
            if !passing.is_empty() {
                see(story, passing);
            }
        }
        if is_last {
            return Ok(());
        }
        search.offset += u64::from(RUNS_PAGE);
    }
}

fn passes(about: &Asked, task: &TaskStory) -> Result<bool, Problem> {
    for query in &about.tasks {
        if !query.judge(&|condition| holds(condition, task))? {
            return Ok(false);
        }
    }
    let Some(part) = about.free_text.as_ref().map(|text| text.to_lowercase()) else { return Ok(true) };
    let shown = [task.reference.as_str(), &task.name, &task.kind, task.reason.as_deref().unwrap_or_default()];
    Ok(shown.iter().any(|text| text.to_lowercase().contains(&part)) || id_text(task.id).contains(&part))
}

fn holds(condition: &Condition, task: &TaskStory) -> Result<bool, Problem> {
    let id = id_text(task.id);
    let text = match condition.field.as_str() {
        "taskId" => id.as_str(),
        "taskType" => &task.kind,
        "taskDefName" => &task.name,
        "referenceTaskName" => &task.reference,
        "status" => task.status,
        time => {
            let at = match time {
                "startTime" => task.started_at,
                "endTime" => task.ended_at,
                "updateTime" => Some(task.updated_at),
                _ => Some(task.scheduled_at),
            };
            let tests = interval(When::Start, condition)?.tests;
            return Ok(tests.iter().all(|(cmp, bound)| at.is_some_and(|at| cmp.holds(at.cmp(bound)))));
        }
    };
    let (values, not) = texts(condition)?;
    Ok(values.iter().any(|value| fits(value, text)) != not)
}

/// Counts what it is given, and keeps what is on the page that was asked for.
struct Page<T> {
    total: u64,
    from: u64,
    limit: usize,
    kept: Vec<T>,
}

impl<T> Page<T> {
    fn new(about: &Asked) -> Page<T> {
        Page { total: 0, from: about.search.offset, limit: about.search.limit as usize, kept: Vec::new() }
    }

    fn add(&mut self, make: impl FnOnce() -> T) {
        if self.total >= self.from && self.kept.len() < self.limit {
            self.kept.push(make());
        }
        self.total += 1;
    }
}

async fn workflows_found(call: &Call) -> Result<Page<WorkflowStory>, Problem> {
    let about = asked(call, About::Tasks).await?;
    let mut page = Page::new(&about);
    look_through(call, &about, |story, _| page.add(|| story)).await?;
    Ok(page)
}

/// Workflows that have such a task.
pub async fn by_tasks(call: Call) -> Answer {
    let page = workflows_found(&call).await?;
    let mut results = Vec::new();
    for story in &page.kept {
        results.push(summary(&call, &story.run)?);
    }
    answer(page.total, results)
}

pub async fn by_tasks_v2(call: Call) -> Answer {
    let page = workflows_found(&call).await?;
    let payloads = call.sees_payloads();
    answer(page.total, page.kept.iter().map(|story| workflow::shown(story, true, payloads)).collect())
}

async fn tasks_found(call: &Call) -> Result<Page<Json>, Problem> {
    let about = asked(call, About::Tasks).await?;
    let mut page = Page::new(&about);
    let payloads = call.sees_payloads();
    look_through(call, &about, |story, places| {
        for place in places {
            page.add(|| task::shown(&story, &story.tasks[place], place + 1, payloads));
        }
    })
    .await?;
    Ok(page)
}

/// `GET /tasks/search`: in short.
pub async fn tasks(call: Call) -> Answer {
    let page = tasks_found(&call).await?;
    answer(page.total, page.kept.iter().map(task_summary).collect())
}

pub async fn tasks_v2(call: Call) -> Answer {
    let page = tasks_found(&call).await?;
    answer(page.total, page.kept)
}

fn task_summary(task: &Json) -> Json {
    let at = |name: &str| date(task[name].as_i64().filter(|at| *at > 0).map(Millis));
    let number = |name: &str| task[name].as_i64().unwrap_or(0);
    let took = if number("endTime") > 0 { (number("endTime") - number("startTime")).max(0) } else { 0 };
    json!({
        "workflowId": task["workflowInstanceId"],
        "workflowType": task["workflowType"],
        "correlationId": task["correlationId"],
        "scheduledTime": at("scheduledTime"),
        "startTime": at("startTime"),
        "updateTime": at("updateTime"),
        "endTime": at("endTime"),
        "status": task["status"],
        "reasonForIncompletion": task["reasonForIncompletion"],
        "executionTime": took,
        "queueWaitTime": task["queueWaitTime"],
        "taskDefName": task["taskDefName"],
        "taskType": task["taskType"],
        "input": task["inputData"].to_string(),
        "output": task["outputData"].to_string(),
        "taskId": task["taskId"],
        "taskReferenceName": task["referenceTaskName"],
        "workflowPriority": task["workflowPriority"],
        "domain": task["domain"],
    })
}
