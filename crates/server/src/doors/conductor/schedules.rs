//! `/api/scheduler`: workflows that the clock starts. What fires them is the engine's [`Timetable`].

use super::metadata::not_stored;
use super::start::{self, Start};
use super::tags::{self, Kind};
use super::{body, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::Millis;
use semel_engine::{Timetable, check_cron, upcoming};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Instants that are told in advance at most.
const UPCOMING_MAX: u64 = 5;
/// Crons of one schedule.
const CRONS_MAX: usize = 100;
const SIZE_MAX: u64 = 1_000;

fn unknown(name: &str) -> Problem {
    Problem::new(Code::DefinitionUnknown, format!("Schedule '{name}' not found"))
}

fn find(call: &Call, name: &str) -> Result<Timetable, Problem> {
    call.app.engine().timetable(&call.workspace()?, name)?.ok_or_else(|| unknown(name))
}

pub fn check(call: &Call, name: &str) -> Result<(), Problem> {
    find(call, name).map(|_| ())
}

/// Creates a schedule, or takes the place of the one of this name.
pub async fn save(call: Call) -> Answer {
    let mut given = body::object(&call)?;
    given.retain(|_, value| !value.is_null());
    let name = checked(&mut given)?;
    let before = call.app.engine().timetable(&call.workspace()?, &name)?;
    let (now, by) = (call.now().0, call.principal()?.name.clone());
    let kept = |field: &str, other: Json| before.as_ref().and_then(|b| b.document.get(field).cloned()).unwrap_or(other);
    given.insert("createTime".to_owned(), kept("createTime", json!(now)));
    let author = given.get("createdBy").cloned().unwrap_or_else(|| json!(by));
    given.insert("createdBy".to_owned(), kept("createdBy", author));
    given.insert("updatedTime".to_owned(), json!(now));
    given.entry("updatedBy").or_insert_with(|| json!(by));
    let listed = given.remove("tags");
    // What is started is there before the schedule is.
    if let Some(Json::Object(request)) = given.get("startWorkflowRequest")
        && request.contains_key("workflowDef")
    {
        start::definition(&call, &Start::of_request(request)?).await?;
    }
    let table = Timetable::of(&Json::Object(given)).ok_or_else(|| Problem::internal("a schedule that was checked"))?;
    store(&call, &table).await?;
    if let Some(Json::Array(listed)) = listed {
        tags::put(&call, Kind::Schedule, &name, &listed).await?;
    }
    ok(shown(&call, table, &due(&call)?).await?)
}

/// The document with what counts of it in its own type; its name.
fn checked(given: &mut Map<String, Json>) -> Result<String, Problem> {
    let name = body::field(given, "name")?.unwrap_or_default();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | ':');
    if name.trim().is_empty() || name.len() > 255 || !name.chars().all(fits) {
        let message = "the name of a schedule has 1 to 255 letters, digits, blanks and _ - . :";
        return Err(Problem::field("name", message));
    }
    let Some(Json::Object(request)) = given.get("startWorkflowRequest") else {
        return Err(Problem::field("startWorkflowRequest", "startWorkflowRequest cannot be null"));
    };
    let start = Start::of_request(request)?;
    let mut request = request.clone();
    request.retain(|_, value| !value.is_null());
    if let Some(definition) = start.named_definition() {
        request.insert("workflowDef".to_owned(), definition);
    }
    if let Some(version) = start.version {
        request.insert("version".to_owned(), version.into());
    }
    given.insert("startWorkflowRequest".to_owned(), Json::Object(request));
    for flag in ["paused", "runCatchupScheduleInstances"] {
        given.insert(flag.to_owned(), body::flag(given, flag)?.into());
    }
    for time in ["scheduleStartTime", "scheduleEndTime"] {
        match body::whole(given, time)?.filter(|at| *at > 0) {
            Some(at) => given.insert(time.to_owned(), at.into()),
            None => given.remove(time),
        };
    }
    let (start, end) = (body::whole(given, "scheduleStartTime")?, body::whole(given, "scheduleEndTime")?);
    if start.is_some() && end.is_some() && start > end {
        return Err(Problem::field("scheduleEndTime", "the schedule ends before it starts"));
    }
    let zone = body::field(given, "zoneId")?.filter(|zone| !zone.is_empty()).unwrap_or_else(|| "UTC".to_owned());
    given.insert("zoneId".to_owned(), zone.into());
    check_crons(given)?;
    Ok(name)
}

fn check_crons(given: &Map<String, Json>) -> Result<(), Problem> {
    let table = Timetable::of(&Json::Object(given.clone()));
    let Some(table) = table.filter(|table| table.crons.len() <= CRONS_MAX) else {
        return Err(Problem::field("cronExpression", format!("a schedule has one to {CRONS_MAX} crons")));
    };
    for (cron, zone) in &table.crons {
        check_cron(cron, zone).map_err(|message| Problem::field("cronExpression", message))?;
    }
    Ok(())
}

async fn store(call: &Call, table: &Timetable) -> Result<(), Problem> {
    let (engine, workspace, by) = (call.app.engine().clone(), call.workspace()?, call.principal()?.name.clone());
    let table = table.clone();
    // To its end, also where the caller hangs up.
    let storing = tokio::spawn(async move { engine.put_timetable(&workspace, &table, &by).await });
    let stored = storing.await.map_err(|_| Problem::internal("a write panicked"))?;
    stored.map_err(|error| not_stored(error.into(), &Json::Null))
}

type Due = BTreeMap<String, Millis>;

/// The first instant of each schedule.
fn due(call: &Call) -> Result<Due, Problem> {
    let mut found = Due::new();
    for (name, at) in call.app.engine().timetables_due(&call.workspace()?)? {
        let first = found.entry(name).or_insert(at);
        *first = at.min(*first);
    }
    Ok(found)
}

async fn shown(call: &Call, table: Timetable, due: &Due) -> Result<Json, Problem> {
    let mut document = table.document;
    if let Some(next) = due.get(&table.name) {
        document.insert("nextRunTime".to_owned(), next.0.into());
    }
    tags::shown_with(call, Kind::Schedule, &table.name, document).await
}

fn starts(table: &Timetable, workflow: &str) -> bool {
    table.document.get("startWorkflowRequest").is_some_and(|request| request["name"] == workflow)
}

pub async fn list(call: Call) -> Answer {
    let workflow = body::query(&call, "workflowName")?;
    let (due, mut found) = (due(&call)?, Vec::new());
    for table in call.app.engine().timetables(&call.workspace()?)? {
        if workflow.as_deref().is_none_or(|name| starts(&table, name)) {
            found.push(shown(&call, table, &due).await?);
        }
    }
    ok(found)
}

/// Those that have a tag, as `key:value`.
pub async fn by_tag(call: Call) -> Answer {
    let wanted = body::query(&call, "tag")?.ok_or_else(|| Problem::query("tag", "is missing: key:value"))?;
    let (key, value) = wanted.split_once(':').unwrap_or((&wanted, ""));
    let (due, mut found) = (due(&call)?, Vec::new());
    for table in call.app.engine().timetables(&call.workspace()?)? {
        let one = shown(&call, table, &due).await?;
        let has = |tag: &Json| tag["key"] == key && (value.is_empty() || tag["value"] == value);
        if one["tags"].as_array().is_some_and(|tags| tags.iter().any(has)) {
            found.push(one);
        }
    }
    ok(found)
}

pub async fn search(call: Call) -> Answer {
    let (workflow, name) = (body::query(&call, "workflowName")?, body::query(&call, "scheduleName")?);
    let paused = body::query(&call, "paused")?.map(|_| body::query_flag(&call, "paused", false)).transpose()?;
    let words = body::query(&call, "freeText")?.filter(|text| text != "*");
    let (start, size) = page(&call)?;
    let (due, mut found) = (due(&call)?, Vec::new());
    for table in call.app.engine().timetables(&call.workspace()?)? {
        let fits = workflow.as_deref().is_none_or(|name| starts(&table, name))
            && name.as_deref().is_none_or(|part| table.name.contains(part))
            && paused.is_none_or(|paused| table.paused == paused)
            && words.as_deref().is_none_or(|words| Json::Object(table.document.clone()).to_string().contains(words));
        if fits {
            found.push(table);
        }
    }
    if body::query(&call, "sort")?.is_some_and(|sort| sort.to_ascii_uppercase().ends_with(":DESC")) {
        found.reverse();
    }
    let total = found.len();
    let mut results = Vec::new();
    for table in found.into_iter().skip(start).take(size) {
        results.push(shown(&call, table, &due).await?);
    }
    ok(json!({"totalHits": total, "results": results}))
}

/// `start` and `size` of the query.
pub fn page(call: &Call) -> Result<(usize, usize), Problem> {
    let number = |name: &str, other: u64| Ok::<_, Problem>(body::query_whole(call, name)?.unwrap_or(other));
    let size = number("size", 100)?;
    if size > SIZE_MAX {
        return Err(Problem::query("size", format!("at most {SIZE_MAX} are shown at once")));
    }
    let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok((whole(number("start", 0)?), whole(size)))
}

/// 200 without a body where there is none: clients take that for "no such schedule".
pub async fn get(call: Call) -> Answer {
    let table = find(&call, call.param("name")?)?;
    ok(shown(&call, table, &due(&call)?).await?)
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    find(&call, &name)?;
    tags::forget(&call, Kind::Schedule, &name).await?;
    let (engine, workspace, by) = (call.app.engine().clone(), call.workspace()?, call.principal()?.name.clone());
    let gone = name.clone();
    let deleting = tokio::spawn(async move { engine.delete_timetable(&workspace, &gone, &by).await });
    match deleting.await.map_err(|_| Problem::internal("a write panicked"))?? {
        true => done(),
        false => Err(unknown(&name)),
    }
}

/// Stops or goes on. One that goes on does so from now: what was missed meanwhile is not made up for.
async fn set_paused(call: &Call, name: &str, paused: bool, reason: Option<String>) -> Result<(), Problem> {
    let mut table = find(call, name)?;
    if table.paused == paused {
        return Ok(());
    }
    table.paused = paused;
    table.document.insert("paused".to_owned(), paused.into());
    table.document.remove("pausedReason");
    if let Some(reason) = reason.filter(|_| paused) {
        table.document.insert("pausedReason".to_owned(), reason.into());
    }
    table.document.insert("updatedTime".to_owned(), call.now().0.into());
    store(call, &table).await
}

pub async fn pause(call: Call) -> Answer {
    set_paused(&call, call.param("name")?, true, body::query(&call, "reason")?).await?;
    done()
}

pub async fn resume(call: Call) -> Answer {
    set_paused(&call, call.param("name")?, false, None).await?;
    done()
}

async fn bulk(call: Call, paused: bool) -> Answer {
    let (mut errors, mut successful) = (Map::new(), Vec::new());
    for name in body::texts(&call)? {
        match set_paused(&call, &name, paused, None).await {
            Ok(()) => successful.push(name),
            Err(problem) if problem.code == Code::DefinitionUnknown => {
                errors.insert(name, problem.detail.into());
            }
            Err(problem) => return Err(problem),
        }
    }
    ok(json!({"bulkErrorResults": errors, "bulkSuccessfulResults": successful}))
}

pub async fn bulk_pause(call: Call) -> Answer {
    bulk(call, true).await
}

pub async fn bulk_resume(call: Call) -> Answer {
    bulk(call, false).await
}

async fn all(call: Call, paused: bool) -> Answer {
    for table in call.app.engine().timetables(&call.workspace()?)? {
        set_paused(&call, &table.name, paused, None).await?;
    }
    ok(json!({"status": "done"}))
}

pub async fn pause_all(call: Call) -> Answer {
    all(call, true).await
}

pub async fn resume_all(call: Call) -> Answer {
    all(call, false).await
}

/// Nothing falls out of a queue here.
pub async fn requeue(_: Call) -> Answer {
    ok(json!({"recordIds.size": 0, "sampleIds": []}))
}

pub async fn next_few(call: Call) -> Answer {
    let cron = body::query(&call, "cronExpression")?;
    let cron = cron.ok_or_else(|| Problem::query("cronExpression", "is missing"))?;
    let zone = body::query(&call, "zoneId")?.unwrap_or_else(|| "UTC".to_owned());
    check_cron(&cron, &zone).map_err(|message| Problem::query("cronExpression", message))?;
    let time = |name: &str| -> Result<Option<Millis>, Problem> {
        let at = body::query_whole(&call, name)?.filter(|at| *at > 0);
        Ok(at.map(|at| Millis(i64::try_from(at).unwrap_or(i64::MAX))))
    };
    let bounds = (time("scheduleStartTime")?, time("scheduleEndTime")?);
    let limit = body::query_whole(&call, "limit")?.unwrap_or(3).min(UPCOMING_MAX);
    let found = upcoming(&cron, &zone, bounds, call.now(), usize::try_from(limit).unwrap_or(1));
    ok(found.into_iter().map(|at| at.0).collect::<Vec<i64>>())
}
