//! Conductor's schedules: workflows that the clock starts.
//!
//! A schedule is kept as a flow of its own that cannot be run, with one trigger for each of its crons, so that a definition
//! and the rows that say when it is due change together. When an instant has come, the workflow is started in the
//! transaction that moves the schedule on: however many nodes look, and whoever dies, an instant is settled once.
//!
//! What came of an instant is told by a row:
//!
//! | state | what it means |
//! |---|---|
//! | POLLED | the start is about to be decided, under the id that the row names; whoever finds it so looks whether that run is there |
//! | EXECUTED | the workflow that was started, or that had been started with the same key |
//! | FAILED | nothing was started, and why |

use super::names::arrived_name;
use crate::api::{AdmitError, FlowLookupError, Occurrence};
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::schedules::missed_rule;
use crate::workflows::inline_id;
use semel_core::admission::{Decision, PresetName, check_key};
use semel_core::ir::{
    CONDUCTOR_NAMESPACE, ConductorFlow, Dialect, Flow, IR_VERSION, RecoverMissed, Trigger, TriggerKind,
};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::{
    Done, FlowRow, PushRule, SCHEDULE_EXECUTIONS, ScheduleRow, StoreError, Tick, TriggerState, Work, newest_first,
};
use semel_tasks::schedule::next_after;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// What the id of a schedule begins with; no workflow is called so.
const PREFIX: &str = "~schedule~";
/// Schedules read at a time.
const PAGE: u32 = 500;
/// Missed instants made up for at most, per schedule and look.
const CATCH_UP_MAX: usize = 1_000;
/// How long it is known what came of an instant.
const REMEMBERED_MS: i64 = 7 * 86_400_000;

/// A schedule, as much of it as says when it fires and what it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    pub name: String,
    /// Cron and time zone, at least one.
    pub crons: Vec<(String, String)>,
    pub start: Option<Millis>,
    pub end: Option<Millis>,
    pub paused: bool,
    /// Instants that were missed are made up for.
    pub catches_up: bool,
    /// The whole of it, as it is shown.
    pub document: Map<String, Json>,
}

/// A StartWorkflowRequest as the clock needs it.
struct Wish {
    workflow: String,
    version: Option<u32>,
    key: Option<String>,
    strategy: Option<PresetName>,
}

fn address(name: &str) -> FlowRef {
    FlowRef::new(CONDUCTOR_NAMESPACE, format!("{PREFIX}{name}"))
}

/// Whether the flow is one of Conductor's schedules.
pub fn is_timetable(flow: &FlowRef) -> bool {
    flow.namespace == CONDUCTOR_NAMESPACE && flow.id.starts_with(PREFIX)
}

/// The first instant of a cron after another, within bounds.
fn after(cron: &str, zone: &str, start: Option<Millis>, end: Option<Millis>, at: Millis) -> Option<Millis> {
    let from = start.map_or(at, |start| at.max(start.plus(-1)));
    let next = next_after(&plain_cron(cron), zone, true, from.0).ok().flatten().map(Millis);
    next.filter(|next| end.is_none_or(|end| *next <= end))
}

/// Spring's names for what others write with an `@`, and `?` for "any".
fn plain_cron(cron: &str) -> String {
    let trimmed = cron.trim();
    match trimmed {
        "@yearly" | "@annually" => "0 0 0 1 1 *".to_owned(),
        "@monthly" => "0 0 0 1 * *".to_owned(),
        "@weekly" => "0 0 0 * * SUN".to_owned(),
        "@daily" | "@midnight" => "0 0 0 * * *".to_owned(),
        "@hourly" => "0 0 * * * *".to_owned(),
        other => other.split_ascii_whitespace().enumerate().map(plain_field).collect::<Vec<_>>().join(" "),
    }
}

/// The largest number of each field: seconds, minutes, hours, days, months, days of the week.
const LARGEST: [u32; 6] = [59, 59, 23, 31, 12, 7];

/// `5/10` is Spring's word for 5-59/10: from there on, to the end of the field.
fn plain_field((place, field): (usize, &str)) -> String {
    let largest = LARGEST.get(place).copied().unwrap_or_default();
    let plain = |item: &str| match item.split_once('/') {
        _ if item == "?" => "*".to_owned(),
        Some((from, step)) if !from.is_empty() && from.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{from}-{largest}/{step}")
        }
        _ => item.to_owned(),
    };
    field.split(',').map(plain).collect::<Vec<_>>().join(",")
}

/// What is wrong with a cron of six fields in a time zone.
pub fn check_cron(cron: &str, zone: &str) -> Result<(), String> {
    let plain = plain_cron(cron);
    semel_flow::parse_cron(&plain, true)
        .map_err(|error| format!("`{cron}` is not a cron of six fields, seconds first: {error}"))?;
    match next_after(&plain, zone, true, 0) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("`{cron}` never comes")),
        Err(error) => Err(error),
    }
}

/// The next instants of a cron.
pub fn upcoming(
    cron: &str,
    zone: &str,
    bounds: (Option<Millis>, Option<Millis>),
    now: Millis,
    count: usize,
) -> Vec<Millis> {
    let mut found: Vec<Millis> = Vec::new();
    while found.len() < count {
        let last = found.last().copied().unwrap_or(now);
        match after(cron, zone, bounds.0, bounds.1, last) {
            Some(next) => found.push(next),
            None => break,
        }
    }
    found
}

impl Timetable {
    /// Reads a document that was checked when it was stored.
    pub fn of(document: &Json) -> Option<Timetable> {
        let Json::Object(document) = document else { return None };
        let time = |name: &str| document.get(name).and_then(Json::as_i64).filter(|at| *at > 0).map(Millis);
        let flag = |name: &str| document.get(name).and_then(Json::as_bool).unwrap_or(false);
        let zone = |json: Option<&Json>| {
            let named = json.and_then(Json::as_str).filter(|zone| !zone.is_empty());
            named.unwrap_or("UTC").to_owned()
        };
        let listed = document.get("cronSchedules").and_then(Json::as_array).into_iter().flatten();
        let own = zone(document.get("zoneId"));
        let mut crons: Vec<(String, String)> = listed
            .filter_map(|one| {
                let zone =
                    one.get("zoneId").filter(|zone| !zone.is_null()).map_or_else(|| own.clone(), |z| zone(Some(z)));
                Some((one["cronExpression"].as_str()?.to_owned(), zone))
            })
            .collect();
        if crons.is_empty() {
            crons.push((document.get("cronExpression")?.as_str()?.to_owned(), own));
        }
        Some(Timetable {
            name: document.get("name")?.as_str()?.to_owned(),
            crons,
            start: time("scheduleStartTime"),
            end: time("scheduleEndTime"),
            paused: flag("paused"),
            catches_up: flag("runCatchupScheduleInstances"),
            document: document.clone(),
        })
    }

    fn recover(&self) -> RecoverMissed {
        if self.catches_up { RecoverMissed::All } else { RecoverMissed::None }
    }

    /// Names one of the crons together with all that its instants follow from: another timetable is another trigger.
    fn trigger_id(&self, place: usize) -> String {
        let (cron, zone) = &self.crons[place];
        let bounds = format!("{:?} {:?}", self.start, self.end);
        format!("{place}-{}", &Hash16::of(&[cron.as_bytes(), zone.as_bytes(), bounds.as_bytes()]).hex()[..8])
    }

    fn place_of(&self, trigger: &str) -> Option<usize> {
        (0..self.crons.len()).find(|place| self.trigger_id(*place) == trigger)
    }

    /// The first instant of one of the crons after another.
    fn after(&self, place: usize, at: Millis) -> Option<Millis> {
        let (cron, zone) = &self.crons[place];
        after(cron, zone, self.start, self.end, at)
    }

    /// When it fires next.
    pub fn next(&self, now: Millis) -> Option<Millis> {
        (0..self.crons.len()).filter_map(|place| self.after(place, now)).min()
    }

    fn flow(&self) -> Flow {
        let FlowRef { namespace, id } = address(&self.name);
        let trigger = |(place, (cron, zone)): (usize, &(String, String))| Trigger {
            id: self.trigger_id(place),
            disabled: self.paused,
            inputs: Default::default(),
            labels: Default::default(),
            kind: TriggerKind::Schedule {
                cron: plain_cron(cron),
                timezone: zone.clone(),
                with_seconds: true,
                recover: self.recover(),
                late_max_ms: None,
            },
            conditions: Vec::new(),
            stop_after: Vec::new(),
            allow_concurrent: true,
        };
        Flow {
            ir_version: IR_VERSION,
            id,
            namespace,
            description: None,
            labels: Default::default(),
            inputs: Vec::new(),
            variables: json!({}),
            tasks: Vec::new(),
            errors: Vec::new(),
            finally: Vec::new(),
            after: Vec::new(),
            outputs: Vec::new(),
            triggers: self.crons.iter().enumerate().map(trigger).collect(),
            lane: None,
            retry: None,
            // Only the workflow that it names is run.
            disabled: true,
            idempotency: None,
            sla: Vec::new(),
            checks: Vec::new(),
            dialect: Dialect::Conductor,
            conductor: None,
        }
    }

    fn rows(&self, workspace: &WorkspaceId, now: Millis) -> Vec<ScheduleRow> {
        if self.paused {
            return Vec::new();
        }
        let row = |place: usize| ScheduleRow {
            workspace: workspace.clone(),
            flow: address(&self.name),
            trigger: self.trigger_id(place),
            next_due: self.after(place, now),
            last_fired: None,
            state: TriggerState::default(),
        };
        (0..self.crons.len()).map(row).collect()
    }

    /// What the expressions of a key see at an instant.
    fn roots(&self, at: Millis, execution: &str, input: &Map<String, Json>) -> Map<String, Json> {
        let roots = json!({
            "scheduledTime": at.0,
            "scheduleName": self.name,
            "executionId": execution,
            "workflow": {"input": input},
        });
        roots.as_object().cloned().unwrap_or_default()
    }
}

impl Engine {
    /// Stores a schedule; it goes on from now, or from where it was if its instants stay the same.
    pub async fn put_timetable(&self, workspace: &WorkspaceId, table: &Timetable, by: &str) -> Result<(), StoreError> {
        let now = self.store().now();
        let row = FlowRow {
            workspace: workspace.clone(),
            flow: address(&table.name),
            revision: 0,
            source: Json::Object(table.document.clone()).to_string(),
            ir: serde_json::to_string(&table.flow()).map_err(|error| StoreError::Bug(error.to_string()))?,
            disabled: true,
            deleted: false,
            created_at: now,
            created_by: by.to_owned(),
        };
        let flow = row.flow.clone();
        let work = Work::PutFlow { row: Box::new(row), schedules: table.rows(workspace, now), rule: PushRule::Any };
        self.write_flow(workspace, &flow, work).await.map(|_| ())
    }

    pub fn timetable(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<Timetable>, StoreError> {
        let row = self.store().flow(workspace, &address(name), None)?;
        Ok(row.and_then(|row| Timetable::of(&serde_json::from_str(&row.source).ok()?)))
    }

    /// All schedules, in order of name.
    pub fn timetables(&self, workspace: &WorkspaceId) -> Result<Vec<Timetable>, StoreError> {
        let mut found = Vec::new();
        let mut after = address("");
        loop {
            let page = self.store().flows(workspace, Some(&after), PAGE)?;
            let Some(last) = page.last() else { return Ok(found) };
            let (full, next) = (page.len() == PAGE as usize, last.flow.clone());
            let own = page.iter().filter(|row| is_timetable(&row.flow));
            found.extend(own.filter_map(|row| Timetable::of(&serde_json::from_str(&row.source).ok()?)));
            if !full || !is_timetable(&next) {
                return Ok(found);
            }
            after = next;
        }
    }

    /// False if there was none.
    pub async fn delete_timetable(&self, workspace: &WorkspaceId, name: &str, by: &str) -> Result<bool, StoreError> {
        Ok(self.delete_flow(workspace, &address(name), by).await?.is_some())
    }

    /// When each of the schedules is due, as it is stored.
    pub fn timetables_due(&self, workspace: &WorkspaceId) -> Result<Vec<(String, Millis)>, StoreError> {
        let rows = self.store().schedules(workspace)?;
        let own = rows.into_iter().filter(|row| is_timetable(&row.flow));
        Ok(own.filter_map(|row| Some((row.flow.id.strip_prefix(PREFIX)?.to_owned(), row.next_due?))).collect())
    }

    /// Fires the instants of one cron of a schedule that are due.
    pub(crate) async fn fire_timetable(
        &self,
        row: ScheduleRow,
        flow: &LoadedFlow,
        now: Millis,
    ) -> Result<(), StoreError> {
        let document = serde_json::from_str(&flow.source).unwrap_or(Json::Null);
        let table = Timetable::of(&document).filter(|table| !table.paused);
        let Some((table, place)) =
            table.and_then(|table| Some((table.place_of(&row.trigger)?, table))).map(|(p, t)| (t, p))
        else {
            return self.advance(ScheduleRow { next_due: None, ..row }).await;
        };
        let mut due = Vec::new();
        let mut next = row.next_due;
        while let Some(at) = next.filter(|at| *at <= now && due.len() < CATCH_UP_MAX) {
            due.push(at);
            next = table.after(place, at);
        }
        // More than a look can hold are due: which one is the last shows when all have been seen.
        let more = next.is_some_and(|at| at <= now) && !table.catches_up;
        let mut last = row.last_fired;
        for at in if more { vec![] } else { missed_rule(&due, table.recover(), None, now) } {
            if !self.fire_at(&row, &table, place, at, now).await? {
                return self.advance(ScheduleRow { next_due: Some(at), last_fired: last, ..row }).await;
            }
            last = Some(at);
        }
        self.advance(ScheduleRow { next_due: next, last_fired: last, ..row }).await
    }

    /// Settles one instant; false when it must stay due.
    async fn fire_at(
        &self,
        row: &ScheduleRow,
        table: &Timetable,
        place: usize,
        at: Millis,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let key = format!("{}\n{}\n{}", newest_first(at), table.name, row.trigger);
        let request = table.document.get("startWorkflowRequest").cloned().unwrap_or_default();
        let fresh = self.fresh_run();
        let begun = json!({
            "executionId": fresh.to_string(),
            "scheduleName": table.name,
            "scheduledTime": at.0,
            "executionTime": now.0,
            "workflowName": request["name"],
            "startWorkflowRequest": request,
            "state": "POLLED",
            "zoneId": table.crons[place].1,
            "runId": fresh.to_string(),
        });
        let mut record = self.begin_execution(&row.workspace, &key, begun).await?;
        if record["state"] != "POLLED" {
            return Ok(true);
        }
        let tick = Tick {
            trigger: row.trigger.clone(),
            at,
            next: table.after(place, at),
            backfill: false,
            schedule: Some(row.flow.clone()),
        };
        let mut key_of = None;
        let decided = match self.arrival_at(&row.workspace, table, place, at, &record) {
            Ok(occurrence) => {
                key_of = occurrence.caller_key.clone();
                self.admit_at(*occurrence, Some(tick)).await.map_err(Fault::Admit)
            }
            Err(fault) => Err(fault),
        };
        match decided {
            Ok(result) if result.decision == Decision::Reject => {
                let known = key_of.map(|key| format!("Workflow with the idempotency key {key} already exists"));
                record["state"] = json!("FAILED");
                record["reason"] = known.map_or_else(|| json!(result.reason), Json::from);
            }
            Ok(result) => {
                record["state"] = json!("EXECUTED");
                record["workflowId"] = json!(result.run.map(|run| run.id.to_string()));
            }
            // Another node was faster, or an earlier process that could not say so any more.
            Err(Fault::Admit(AdmitError::Store(StoreError::Conflict(_)))) => return Ok(true),
            Err(Fault::Store(error) | Fault::Admit(AdmitError::Store(error))) => {
                tracing::warn!(schedule = table.name, %error, "an instant could not be settled yet");
                return Ok(false);
            }
            Err(Fault::Admit(AdmitError::TooManyPending)) => return Ok(false),
            Err(Fault::Admit(error)) => {
                record["state"] = json!("FAILED");
                record["reason"] = json!(error.to_string());
            }
            Err(Fault::Refused(reason)) => {
                record["state"] = json!("FAILED");
                record["reason"] = json!(reason);
            }
        }
        self.note_execution(&row.workspace, &key, record, true).await?;
        Ok(true)
    }

    /// The row of an instant: the one that is there, or this one.
    async fn begin_execution(&self, workspace: &WorkspaceId, key: &str, begun: Json) -> Result<Json, StoreError> {
        match self.note_execution(workspace, key, begun.clone(), false).await? {
            Done::Kv(None) => {
                let known = self.store().kv(workspace, SCHEDULE_EXECUTIONS, key)?;
                Ok(known.map_or(begun, |row| row.value))
            }
            _ => Ok(begun),
        }
    }

    async fn note_execution(
        &self,
        workspace: &WorkspaceId,
        key: &str,
        value: Json,
        overwrite: bool,
    ) -> Result<Done, StoreError> {
        let work = Work::KvSet {
            workspace: workspace.clone(),
            namespace: SCHEDULE_EXECUTIONS.to_owned(),
            key: key.to_owned(),
            value,
            kv_type: "JSON".to_owned(),
            overwrite,
            ttl_ms: Some(REMEMBERED_MS),
        };
        self.write(work).await
    }

    /// What arrives at an instant.
    fn arrival_at(
        &self,
        workspace: &WorkspaceId,
        table: &Timetable,
        place: usize,
        at: Millis,
        record: &Json,
    ) -> Result<Box<Occurrence>, Fault> {
        let request = &record["startWorkflowRequest"];
        let execution = record["executionId"].as_str().unwrap_or_default();
        let mut input = request["input"].as_object().cloned().unwrap_or_default();
        let wish = wish(request, &table.roots(at, execution, &input)).map_err(Fault::Refused)?;
        for (name, value) in [
            ("_startedByScheduler", json!(table.name)),
            ("_scheduledTime", json!(at.0)),
            ("_executedTime", record["executionTime"].clone()),
            ("_executionId", json!(execution)),
            ("_schedulerCron", json!(table.crons[place].0)),
        ] {
            input.insert(name.to_owned(), value);
        }
        let found = match &request["workflowDef"] {
            // It was stored with the schedule.
            definition @ Json::Object(_) => {
                self.flows().head(workspace, &FlowRef::new(CONDUCTOR_NAMESPACE, inline_id(definition)))
            }
            _ => self.workflow(workspace, &wish.workflow, wish.version),
        };
        let flow = found.map_err(|error| match error {
            FlowLookupError::Store(error) => Fault::Store(error),
            FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. } => {
                let version = wish.version.map_or("null".to_owned(), |version| version.to_string());
                Fault::Refused(format!("No such workflow found by name: {}, version: {version}", wish.workflow))
            }
        })?;
        let mut words = json!({"createdBy": request["createdBy"], "schedule": table.name});
        for name in ["priority", "taskToDomain"] {
            if !request[name].is_null() {
                words[name] = request[name].clone();
            }
        }
        let text = |name: &str| request[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let run: Option<RunId> = record["runId"].as_str().and_then(|id| id.parse().ok());
        Ok(Box::new(occurrence(workspace, flow, wish, input, words, text("correlationId"), run)))
    }
}

fn occurrence(
    workspace: &WorkspaceId,
    flow: Arc<LoadedFlow>,
    wish: Wish,
    input: Map<String, Json>,
    words: Json,
    correlation_id: Option<String>,
    run: Option<RunId>,
) -> Occurrence {
    Occurrence {
        workspace: workspace.clone(),
        door: Door::Schedule,
        caller: format!("schedule {}", words["schedule"].as_str().unwrap_or_default()),
        request_preset: wish.strategy.filter(|_| wish.key.is_some()),
        caller_key: wish.key,
        // The instant itself is settled once by the row of the schedule, however long a key would be remembered.
        intrinsic_key: None,
        door_preset: PresetName::ConductorFail,
        scope: Some(ConductorFlow::key_scope(&wish.workflow)),
        inputs: Json::Object(input),
        trigger: words.into(),
        trigger_id: None,
        labels: Vec::new(),
        correlation_id,
        run,
        start_at: None,
        breakpoints: Vec::new(),
        flow,
    }
}

/// Why an instant started nothing.
enum Fault {
    Refused(String),
    Store(StoreError),
    Admit(AdmitError),
}

fn wish(request: &Json, roots: &Map<String, Json>) -> Result<Wish, String> {
    let strategy = match request["idempotencyStrategy"].as_str().unwrap_or_default() {
        "" => None,
        "FAIL" => Some(PresetName::ConductorFail),
        "RETURN_EXISTING" => Some(PresetName::ConductorReturnExisting),
        "FAIL_ON_RUNNING" => Some(PresetName::ConductorFailOnRunning),
        other => return Err(format!("`{other}` is none of FAIL, RETURN_EXISTING and FAIL_ON_RUNNING")),
    };
    let key = match request["idempotencyKey"].as_str().filter(|key| !key.is_empty()) {
        None => None,
        Some(template) => {
            let key = arrived_name(template, roots)
                .map_err(|error| format!("the idempotencyKey `{template}` did not resolve: {error}"))?;
            check_key(&key).map_err(|error| format!("the idempotencyKey `{template}` cannot be used: {error}"))?;
            Some(key)
        }
    };
    let version = request["version"].as_u64().and_then(|version| u32::try_from(version).ok());
    Ok(Wish {
        workflow: request["name"].as_str().unwrap_or_default().to_owned(),
        version: version.filter(|version| *version > 0),
        key,
        strategy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(more: Json) -> Timetable {
        let mut document = json!({"name": "s", "cronExpression": "0 */5 * ? * *",
            "startWorkflowRequest": {"name": "w"}});
        document.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        Timetable::of(&document).unwrap()
    }

    #[test]
    fn crons_have_seconds_and_bounds() {
        let five = table(json!({}));
        assert_eq!(five.next(Millis(0)), Some(Millis(300_000)));
        assert_eq!(table(json!({"scheduleStartTime": 600_000})).next(Millis(0)), Some(Millis(600_000)));
        assert_eq!(table(json!({"scheduleEndTime": 299_999})).next(Millis(0)), None);
        let two = table(
            json!({"cronSchedules": [{"cronExpression": "*/2 * * * * *"}, {"cronExpression": "0 0 9 * * MON-FRI", "zoneId": "Europe/Berlin"}]}),
        );
        assert_eq!(two.next(Millis(0)), Some(Millis(2_000)));
        assert_eq!(two.crons[1].1, "Europe/Berlin");
        assert_eq!(table(json!({"cronExpression": "5/20 * * ? * *"})).next(Millis(5_000)), Some(Millis(25_000)));
        assert_eq!(
            table(json!({"cronExpression": "0 0 1,6/9 * * *"})).next(Millis(3_600_000)),
            Some(Millis(21_600_000))
        );
        for spring in ["0/5 * * ? * *", "0 0/15 8-17 * * MON-FRI", "0 0 0 1/2 1/3 ?", "0 0 12 ? * 2/2"] {
            assert_eq!(check_cron(spring, "UTC"), Ok(()), "{spring}");
        }
        assert!(check_cron("0 0 * * *", "UTC").is_err(), "five fields are another language");
        assert!(check_cron("0 0 0 30 2 *", "UTC").is_err(), "never");
        assert!(check_cron("0 0 0 * * *", "Mars/Base").is_err());
        assert!(check_cron("@daily", "UTC").is_ok());
    }

    #[test]
    fn another_timetable_is_another_trigger() {
        let of = |more: Json| table(more).trigger_id(0);
        assert_eq!(of(json!({})), of(json!({"description": "x"})));
        assert_ne!(of(json!({})), of(json!({"scheduleStartTime": 5})));
        assert_ne!(of(json!({})), of(json!({"zoneId": "Asia/Tokyo"})));
    }

    #[test]
    fn a_key_is_that_of_its_instant() {
        let request = |key: &str| json!({"name": "w", "idempotencyKey": key, "idempotencyStrategy": "FAIL"});
        let at = |ms: i64| table(json!({})).roots(Millis(ms), "e", &Map::new());
        let key = |template: &str, ms: i64| wish(&request(template), &at(ms)).map(|wish| wish.key);
        assert_eq!(key("daily-${scheduledTime}", 5).unwrap().as_deref(), Some("daily-5"));
        assert_ne!(key("${scheduledTime}", 5).unwrap(), key("${scheduledTime}", 6).unwrap());
        assert!(key("${nowhere}", 5).is_err());
        assert_eq!(key("", 5).unwrap(), None);
    }
}
