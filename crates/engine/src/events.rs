//! Conductor's event handlers: what the events that EVENT tasks publish set going.
//!
//! An event is a row that the transaction which ended its task has left. Here the rows are taken in order of time, each
//! handler that listens acts, and then the row goes. Each action has the name of its event, so that it happens once:
//!
//! | and if the process dies | then |
//! |---|---|
//! | after an action and before the row is gone | the handlers act again; a start finds the run that it has made, an answer finds the task answered, an end finds the run ended, variables find their event in the journal |
//! | before any | nothing has happened, and the row is still there |
//!
//! What came of an event that a handler was there for can be read for a week, under a name that is the event's own: to
//! hear of it again writes the same.

use crate::api::{AdmitError, Asking, Control, ControlError, ErrandAnswer, Occurrence};
use crate::conductor::strategy;
use crate::errands::ErrandError;
use crate::handle::Engine;
use crate::replay::journal_of;
use crate::scope::Services;
use semel_core::admission::{Decision, PresetName};
use semel_core::ir::{CONDUCTOR_NAMESPACE, ConductorFlow, step_name};
use semel_core::run::{By, Event as Told};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_expr::conductor::{print, render_tree};
use semel_expr::{Budget, Part, Scope, SecretRef, Value};
use semel_store::{
    EVENT_EXECUTIONS, EVENT_HANDLERS, EVENT_MESSAGES, EVENTS, ErrandRow, Store, StoreError, Work, newest_first,
};
use semel_tasks::{Home, Log, Outcome, Request, Stop};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const PAGE: u32 = 100;
const CONDITION_MS: u64 = 10_000;
/// What a condition may be written in.
pub const EVALUATORS: [&str; 5] = ["", "default", "javascript", "graaljs", "value-param"];
/// For so long it can be read what came of an event.
const REMEMBERED_MS: i64 = 7 * 86_400_000;
/// Payloads that are longer are not kept with it.
const PAYLOAD_MAX: usize = 16 << 10;

/// An event handler as it was registered; what stands in an action is looked at when it acts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Handler {
    name: String,
    event: String,
    condition: Option<String>,
    evaluator_type: Option<String>,
    active: bool,
    actions: Vec<Json>,
}

#[derive(Clone, Debug, Deserialize)]
struct Event {
    id: String,
    event: String,
    payload: Json,
    /// When it was published.
    #[serde(default)]
    at: Millis,
}

/// Why an action did nothing. What the store only refuses for now is tried again.
enum Trouble {
    Store(StoreError),
    Refused(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Store(error)
    }
}

fn refused<T>(text: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Refused(text.into()))
}

/// The errand that is out for a task of a run; in a loop, that of the latest round.
pub(crate) fn open_errand(
    store: &Arc<dyn Store>,
    workspace: &WorkspaceId,
    run: RunId,
    reference: &str,
) -> Result<Option<ErrandRow>, StoreError> {
    let step = step_name(reference);
    let rows = store.errands_of(workspace, run)?;
    let own = rows.into_iter().filter(|row| row.open && row.more.step.task_id() == step);
    Ok(own.max_by_key(|row| (row.more.set_at, row.more.attempt)))
}

impl Engine {
    /// Lets handlers hear of the events that tasks have published.
    pub async fn hear_events(&self) -> Result<(), StoreError> {
        if !self.is_first() {
            return Ok(());
        }
        for workspace in self.workspaces_with_handlers()? {
            while self.hear_page(&workspace).await? {}
        }
        Ok(())
    }

    pub(crate) fn workspaces_with_handlers(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let mut workspaces: Vec<WorkspaceId> = self.store().workspaces()?.into_iter().map(|row| row.id).collect();
        if !workspaces.contains(&WorkspaceId::default()) {
            workspaces.push(WorkspaceId::default());
        }
        Ok(workspaces)
    }

    /// True when there may be more.
    async fn hear_page(&self, workspace: &WorkspaceId) -> Result<bool, StoreError> {
        let rows = self.store().kv_list(workspace, EVENTS, None, PAGE)?;
        let full = rows.len() == PAGE as usize;
        for row in rows {
            match serde_json::from_value::<Event>(row.value.clone()) {
                Ok(event) => self.hear_event(workspace, &Event { at: published_at(&row.key), ..event }).await?,
                Err(error) => tracing::error!(key = row.key, %error, "an event does not load"),
            }
            let (workspace, namespace, key) = (workspace.clone(), EVENTS.to_owned(), row.key);
            self.write(Work::KvDelete { workspace, namespace, key }).await?;
        }
        Ok(full)
    }

    async fn hear_event(&self, workspace: &WorkspaceId, event: &Event) -> Result<(), StoreError> {
        let mut after = None;
        let mut told: Vec<Json> = Vec::new();
        let mut is_heard = false;
        loop {
            let rows = self.store().kv_list(workspace, EVENT_HANDLERS, after.as_deref(), PAGE)?;
            let full = rows.len() == PAGE as usize;
            for row in rows {
                let listens = |handler: &Handler| handler.active && handler.event == event.event;
                match serde_json::from_value::<Handler>(without_nulls(row.value)) {
                    Ok(handler) if listens(&handler) => {
                        is_heard = true;
                        told.extend(self.act_on(workspace, &handler, event).await?);
                    }
                    Ok(_) => {}
                    Err(error) => tracing::error!(handler = row.key, %error, "an event handler does not load"),
                }
                after = Some(row.key);
            }
            if !full {
                break;
            }
        }
        if is_heard {
            self.note_event(workspace, event, told).await?;
        }
        Ok(())
    }

    /// Keeps the event, and what its handlers have made of it.
    async fn note_event(&self, workspace: &WorkspaceId, event: &Event, told: Vec<Json>) -> Result<(), StoreError> {
        let text = event.payload.to_string();
        let whole = if text.len() <= PAYLOAD_MAX { event.payload.clone() } else { json!({}) };
        let status = if told.is_empty() { "RECEIVED" } else { "HANDLED" };
        let when = newest_first(event.at);
        for (place, mut one) in told.iter().cloned().enumerate() {
            one["fullMessagePayload"] = whole.clone();
            let handler = one["name"].as_str().unwrap_or_default();
            let key = format!("{handler}\n{when}\n{}-{place}", event.id);
            self.remember(workspace, EVENT_EXECUTIONS, key, one).await?;
        }
        let message = json!({"id": event.id, "eventTarget": event.event, "eventType": "MESSAGE", "createdAt": event.at,
            "status": status, "fullPayload": whole, "payload": whole.to_string(), "eventExecutions": told});
        self.remember(workspace, EVENT_MESSAGES, format!("{}\n{when}\n{}", event.event, event.id), message).await
    }

    async fn remember(
        &self,
        workspace: &WorkspaceId,
        namespace: &str,
        key: String,
        value: Json,
    ) -> Result<(), StoreError> {
        let kept = Work::KvSet {
            workspace: workspace.clone(),
            namespace: namespace.to_owned(),
            key,
            value,
            kv_type: "JSON".to_owned(),
            overwrite: true,
            ttl_ms: Some(REMEMBERED_MS),
        };
        self.write(kept).await.map(|_| ())
    }

    /// Leaves an event for the handlers; durable when this returns.
    pub async fn publish_event(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        name: &str,
        payload: Json,
    ) -> Result<(), StoreError> {
        let published = Work::KvSet {
            workspace: workspace.clone(),
            namespace: EVENTS.to_owned(),
            key: format!("{:013}-{id}", self.store().now().0),
            value: json!({"id": id, "event": name, "payload": payload}),
            kv_type: "JSON".to_owned(),
            overwrite: true,
            ttl_ms: None,
        };
        self.write(published).await.map(|_| ())
    }

    /// What came of each of the handler's actions.
    async fn act_on(&self, workspace: &WorkspaceId, handler: &Handler, event: &Event) -> Result<Vec<Json>, StoreError> {
        let condition = handler.condition.as_deref().filter(|text| !text.trim().is_empty());
        if let Some(condition) = condition {
            let evaluator = handler.evaluator_type.as_deref();
            match self.condition_holds(workspace, condition, evaluator, &event.id, &event.payload).await {
                Ok(true) => {}
                Ok(false) => return Ok(Vec::new()),
                Err(error) => {
                    tracing::warn!(handler = handler.name, event = event.event, error, "a condition cannot be judged");
                    return Ok(Vec::new());
                }
            }
        }
        let mut told = Vec::with_capacity(handler.actions.len());
        for (place, action) in handler.actions.iter().enumerate() {
            let name = format!("{} {} {place}", event.id, handler.name);
            let (status, output, why) = match self.action(workspace, action, event, &name).await {
                Ok(output) => ("COMPLETED", output, String::new()),
                Err(Trouble::Store(error)) => return Err(error),
                Err(Trouble::Refused(error)) => {
                    tracing::error!(handler = handler.name, event = event.event, place, error, "an action did nothing");
                    ("FAILED", json!({}), error)
                }
            };
            told.push(json!({"id": name, "messageId": event.id, "name": handler.name, "event": event.event,
                "created": event.at, "status": status, "action": action["action"], "output": output,
                "statusDescription": why}));
        }
        Ok(told)
    }

    /// A condition is JavaScript that sees the payload as `$`, or names a field of it that must be true.
    pub async fn condition_holds(
        &self,
        workspace: &WorkspaceId,
        condition: &str,
        evaluator: Option<&str>,
        id: &str,
        payload: &Json,
    ) -> Result<bool, String> {
        if let Some(word) = evaluator.filter(|word| !EVALUATORS.contains(word)) {
            return Err(format!("`{word}` is not an evaluatorType: javascript or value-param"));
        }
        if evaluator == Some("value-param") {
            return Ok(payload.get(condition) == Some(&Json::Bool(true)));
        }
        let request = Request {
            step_id: id.to_owned(),
            type_name: "conductor.LOOP_CONDITION".to_owned(),
            config: json!({"script": condition, "input": payload}),
            timeout_ms: CONDITION_MS,
            idempotency_key: None,
            send_before: None,
            traceparent: None,
            home: Home { workspace: workspace.clone(), ..Home::default() },
            log: Log::default(),
            stop: Stop::default(),
        };
        match self.performer().perform(request).await {
            Outcome::Done { output } => Ok(output["stop"] == Json::Bool(false)),
            Outcome::FailedClean { message, .. } | Outcome::Lost { message, .. } => Err(message),
        }
    }

    async fn action(&self, workspace: &WorkspaceId, action: &Json, event: &Event, name: &str) -> Result<Json, Trouble> {
        let word = action["action"].as_str().unwrap_or_default();
        let scope =
            Payload { value: Value::from_json(&event.payload), services: self.services(), now: self.store().now().0 };
        let given = render_tree(&action[word], &scope, &mut Budget::default());
        let given = given.map_err(|error| Trouble::Refused(error.message))?.to_masked_json();
        let nothing = json!({});
        match word {
            "start_workflow" => {
                let run = self.start_by_event(workspace, &given, event, name).await?;
                return Ok(json!({"workflowId": run.map(|run| run.to_string())}));
            }
            "complete_task" => self.answer_by_event(workspace, &given, event, true).await,
            "fail_task" => self.answer_by_event(workspace, &given, event, false).await,
            "terminate_workflow" => self.end_by_event(workspace, &given, event).await,
            "update_workflow_variables" => self.set_by_event(workspace, &given, event, name).await,
            other => refused(format!(
                "there is no action `{other}`: start_workflow, complete_task, fail_task, terminate_workflow or \
                 update_workflow_variables"
            )),
        }
        .map(|()| nothing)
    }

    async fn start_by_event(
        &self,
        workspace: &WorkspaceId,
        given: &Json,
        event: &Event,
        name: &str,
    ) -> Result<Option<RunId>, Trouble> {
        let Some(workflow) = text(given, "name") else { return refused("start_workflow names no workflow") };
        let version = match text(given, "version").map(|word| word.parse::<f64>()) {
            Some(Ok(number)) if number >= 1.0 => Some(number as u32),
            None | Some(Ok(_)) => self.flows().newest_version(workspace, CONDUCTOR_NAMESPACE, &workflow)?,
            Some(Err(_)) => return refused("`version` of start_workflow is not a number"),
        };
        let Some(version) = version else { return refused(format!("no workflow {workflow} is registered")) };
        let flow = FlowRef::new(CONDUCTOR_NAMESPACE, ConductorFlow::flow_id(&workflow, version));
        let flow = self.flows().head(workspace, &flow).map_err(|error| Trouble::Refused(error.to_string()))?;
        let mut inputs = match &given["input"] {
            Json::Object(fields) => fields.clone(),
            _ => serde_json::Map::new(),
        };
        inputs.insert("conductor.event.messageId".to_owned(), json!(event.id));
        inputs.insert("conductor.event.name".to_owned(), json!(event.event));
        let key = text(given, "idempotencyKey");
        let wanted = strategy(text(given, "idempotencyStrategy").as_deref(), key.is_some());
        let request_preset = wanted.map_err(|failure| Trouble::Refused(failure.message().to_owned()))?;
        let domains =
            Some(&given["taskToDomain"]).filter(|own| own.is_object()).unwrap_or(&event.payload["taskToDomain"]);
        let occurrence = Occurrence {
            workspace: workspace.clone(),
            flow,
            door: Door::Queue,
            caller: format!("event {}", event.event),
            intrinsic_key: Some(name.to_owned()),
            caller_key: key,
            door_preset: PresetName::Semel,
            request_preset,
            scope: Some(ConductorFlow::key_scope(&workflow)),
            inputs: Json::Object(inputs),
            trigger: json!({"event": event.event, "priority": given["priority"], "taskToDomain": domains}).into(),
            trigger_id: None,
            labels: Vec::new(),
            correlation_id: text(given, "correlationId"),
            run: None,
            start_at: None,
            breakpoints: vec![],
        };
        match self.admit(occurrence).await {
            Ok(result) if result.decision == Decision::Reject => {
                let key = text(given, "idempotencyKey").unwrap_or_default();
                refused(format!("Workflow with the idempotency key {key} already exists"))
            }
            Ok(result) => Ok(result.run.map(|run| run.id)),
            Err(AdmitError::Store(error)) => Err(error.into()),
            Err(error) => refused(error.to_string()),
        }
    }

    async fn answer_by_event(
        &self,
        workspace: &WorkspaceId,
        given: &Json,
        event: &Event,
        done: bool,
    ) -> Result<(), Trouble> {
        let row = match (text(given, "taskId"), text(given, "workflowId"), text(given, "taskRefName")) {
            (Some(id), _, _) => match Hash16::from_hex(&id.replace('-', "")) {
                Some(id) => self.store().errand(workspace, id)?,
                None => None,
            },
            (None, Some(workflow), Some(reference)) => match workflow.parse() {
                Ok(run) => open_errand(self.store(), workspace, run, &reference)?,
                Err(()) => None,
            },
            _ => return refused("the action names no task: `taskId`, or `workflowId` and `taskRefName`"),
        };
        let Some(row) = row else { return refused("no such task waits for somebody to say what became of it") };
        let mut output = match &given["output"] {
            Json::Object(fields) => fields.clone(),
            _ => serde_json::Map::new(),
        };
        for name in ["workflowId", "taskId", "taskRefName"] {
            output.insert(name.to_owned(), given[name].clone());
        }
        output.insert("conductor.event.messageId".to_owned(), json!(event.id));
        output.insert("conductor.event.name".to_owned(), json!(event.event));
        let output = Json::Object(output);
        let message = text(given, "reasonForIncompletion").unwrap_or_default();
        let end = match done {
            true => ErrandAnswer::Done { output },
            false => ErrandAnswer::Failed { message, output: Some(output), for_good: false },
        };
        match self.answer_errand(workspace, row, end, None).await {
            Ok(_) | Err(ErrandError::Over(_)) => Ok(()),
            Err(ErrandError::Unknown) => refused("the task is gone"),
            Err(ErrandError::Store(error)) => Err(error.into()),
        }
    }

    async fn end_by_event(&self, workspace: &WorkspaceId, given: &Json, event: &Event) -> Result<(), Trouble> {
        let run = text(given, "workflowId").and_then(|id| id.parse().ok());
        let Some(run) = run else { return refused("terminate_workflow names no workflow") };
        let why = text(given, "terminationReason").unwrap_or_else(|| format!("event {}", event.event));
        let by = By { who: format!("event {}", event.event), why };
        match self.control(workspace, run, Control::Cancel, by).await {
            // One that has ended already is what was asked for.
            Ok(()) | Err(ControlError::NotPossible(_)) => Ok(()),
            Err(ControlError::Store(error)) => Err(error.into()),
            Err(error) => refused(error.to_string()),
        }
    }

    /// The journal of the workflow has the name of the action beside the variables, in one commit: whoever looks again
    /// finds it there, and leaves alone what the workflow has made of them since.
    async fn set_by_event(
        &self,
        workspace: &WorkspaceId,
        given: &Json,
        event: &Event,
        name: &str,
    ) -> Result<(), Trouble> {
        let run = text(given, "workflowId").and_then(|id| id.parse().ok());
        let Some(run) = run else { return refused("update_workflow_variables names no workflow") };
        let variables = given["variables"].clone();
        if !variables.is_object() {
            return refused("`variables` of update_workflow_variables is not an object");
        }
        let by = By { who: format!("event {}", event.event), why: name.to_owned() };
        let is_this = |told: &Told| matches!(told, Told::VariablesSet { by: Some(known), .. } if *known == by);
        if journal_of(self.services(), workspace, run)?.iter().any(is_this) {
            return Ok(());
        }
        let wish = Box::new(match given["appendArray"] == Json::Bool(true) {
            true => Asking::Append { variables },
            false => Asking::Tell { variables: Some(variables), errand: None },
        });
        match self.control(workspace, run, Control::Wish { wish }, by).await {
            Ok(()) => Ok(()),
            Err(ControlError::Store(error)) => Err(error.into()),
            Err(error) => refused(error.to_string()),
        }
    }
}

/// What the active handlers of a workspace listen to.
pub(crate) fn listened_to(store: &dyn Store, workspace: &WorkspaceId) -> Result<BTreeSet<String>, StoreError> {
    let (mut found, mut after) = (BTreeSet::new(), None);
    loop {
        let rows = store.kv_list(workspace, EVENT_HANDLERS, after.as_deref(), PAGE)?;
        let active = rows.iter().filter(|row| row.value["active"] == true);
        found.extend(active.filter_map(|row| row.value["event"].as_str().map(str::to_owned)));
        match rows.last() {
            Some(last) if rows.len() == PAGE as usize => after = Some(last.key.clone()),
            _ => return Ok(found),
        }
    }
}

/// The key of an event begins with the instant.
fn published_at(key: &str) -> Millis {
    Millis(key.split('-').next().and_then(|at| at.parse().ok()).unwrap_or_default())
}

fn text(given: &Json, name: &str) -> Option<String> {
    match &given[name] {
        Json::Null => None,
        value => Some(print(&Value::from_json(value))).filter(|text| !text.is_empty()),
    }
}

fn without_nulls(json: Json) -> Json {
    match json {
        Json::Object(fields) => Json::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// What the expressions of a handler see: the fields of the payload, and nothing else.
struct Payload<'a> {
    value: Value,
    services: &'a Services,
    now: i64,
}

impl Scope for Payload<'_> {
    fn root(&self, name: &str) -> Option<Value> {
        self.value.get(name)
    }

    fn secret(&self, name: &str, _: Option<&str>) -> Result<SecretRef, String> {
        Err(format!("an event handler cannot read the secret `{name}`"))
    }

    fn reveal(&self, _: &Part) -> Result<String, String> {
        Err("an event handler cannot read secrets".to_owned())
    }

    fn seal(&self, _: &str) -> Result<String, String> {
        Err("an event handler cannot keep secrets".to_owned())
    }

    fn kv(&self, key: &str, _: Option<&str>, _: bool) -> Result<Value, String> {
        Err(format!("an event handler cannot read the key `{key}`"))
    }

    fn now_millis(&self) -> i64 {
        self.now
    }

    fn random_u64(&self) -> u64 {
        self.services.entropy.random()
    }
}
