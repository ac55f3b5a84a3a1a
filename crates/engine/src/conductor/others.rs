//! What a task says to the outside of its run: events for whoever listens, answers to tasks of other workflows, and
//! questions about them.

use crate::api::{Control, ErrandAnswer};
use crate::away;
use crate::evaluate::Evaluator;
use crate::events::open_errand;
use semel_core::ir::{ConductorFlow, Task};
use semel_core::run::{By, Failure, StepKey, workflow_status};
use semel_core::{Hash16, RunId};
use semel_expr::Value;
use semel_expr::conductor::print;
use semel_store::{OpKind, StoreError};
use serde_json::{Map, Value as Json, json};

/// With a sink of the server's own it leaves an event beside its end; with another one it sends a message.
pub(crate) const EVENT: &str = "conductor.EVENT";

fn refused(message: impl Into<String>) -> Failure {
    Failure::new("bad_config", message)
}

fn unread(error: &StoreError) -> Failure {
    away::note(error);
    Failure::new("store", error.to_string())
}

fn text(config: &Value, name: &str) -> Option<String> {
    config.get(name).filter(|value| *value != Value::Null).map(|value| print(&value)).filter(|text| !text.is_empty())
}

fn run_named(text: &str) -> Result<RunId, Failure> {
    text.parse().map_err(|()| Failure::new("run_unknown", format!("No such workflow found by id: {text}")))
}

impl Evaluator<'_> {
    pub(crate) fn conductor_op(&self, key: &StepKey, task: &Task, config: &Value) -> Result<OpKind, Failure> {
        match task.type_name.strip_prefix("conductor.") {
            Some("EVENT") => self.published(key, config),
            _ => self.task_update(key, config),
        }
    }

    pub(super) fn own(&self) -> ConductorFlow {
        self.flow.index.flow.conductor.as_deref().cloned().unwrap_or_default()
    }

    /// A message for a queue outside: what the event would say, and where it goes.
    pub(crate) fn message(&self, config: &Value) -> Result<Value, Failure> {
        let sink = text(config, "sink").unwrap_or_default();
        let payload = self.event_payload(config, &sink, &sink)?;
        Ok(Value::from_json(&json!({"sink": sink, "payload": payload})))
    }

    fn event_payload(&self, config: &Value, sink: &str, event: &str) -> Result<Map<String, Json>, Failure> {
        let plain = config.get("payload").unwrap_or(Value::Null).to_plain_json();
        let plain = plain.ok_or_else(|| Failure::new("secret_not_allowed", "an event cannot hold a secret"))?;
        let mut payload = match plain {
            Json::Object(fields) => fields,
            _ => Map::new(),
        };
        self.add_own_words(&mut payload);
        for (name, value) in [("sink", json!(sink)), ("event_produced", json!(event))] {
            payload.insert(name.to_owned(), value);
        }
        Ok(payload)
    }

    /// The event is the step's: it is left in the transaction that records the step, and once.
    pub(super) fn published(&self, key: &StepKey, config: &Value) -> Result<OpKind, Failure> {
        let own = self.own();
        let (sink, reference) =
            (text(config, "sink").unwrap_or_default(), text(config, "reference").unwrap_or_default());
        let event = match sink.strip_prefix("conductor") {
            Some("") => format!("conductor:{}:{reference}", own.name),
            Some(rest) if rest.starts_with(':') => format!("conductor:{}{rest}", own.name),
            _ => return Err(refused(format!("Invalid / Unsupported sink specified: {sink}"))),
        };
        let payload = self.event_payload(config, &sink, &event)?;
        let id = self.scope.run.map(|run| run.state.step_id(key).hex()).unwrap_or_default();
        let output = Value::from_json(&Json::Object(payload.clone())).to_stored();
        let row = json!({"id": id, "event": event, "payload": payload});
        Ok(OpKind::Publish { key: format!("{:013}-{id}", self.now.0), event: row, output })
    }

    /// UPDATE_TASK: what became of a task of this workflow or of another one.
    pub(super) fn task_update(&self, key: &StepKey, config: &Value) -> Result<OpKind, Failure> {
        let (workflow, reference, id) =
            (text(config, "workflowId"), text(config, "taskRefName"), text(config, "taskId"));
        let store = &self.services.store;
        let found = match (&id, &workflow, &reference) {
            (Some(id), _, _) => {
                let id = Hash16::from_hex(&id.replace('-', ""))
                    .ok_or_else(|| refused(format!("No such task found by id: {id}")))?;
                store.errand(self.workspace, id).map_err(|error| unread(&error))?
            }
            (None, Some(workflow), Some(reference)) => {
                open_errand(store, self.workspace, run_named(workflow)?, reference).map_err(|error| unread(&error))?
            }
            _ => return Err(refused("UPDATE_TASK needs `taskId`, or `workflowId` and `taskRefName`")),
        };
        let row = found.filter(|row| row.open).ok_or_else(|| {
            let name = reference.or(id).unwrap_or_default();
            Failure::new("task_unknown", format!("no task `{name}` waits for somebody to say what became of it"))
        })?;
        let given = config.get("taskOutput").unwrap_or(Value::Null).to_plain_json();
        let given = given.ok_or_else(|| Failure::new("secret_not_allowed", "an answer cannot hold a secret"))?;
        let output = match (config.get("mergeOutput"), &row.more.progress, given) {
            (Some(Value::Bool(true)), Some(Json::Object(known)), Json::Object(more)) => {
                Json::Object(known.clone().into_iter().chain(more).collect())
            }
            (_, _, Json::Null) => json!({}),
            (_, _, given) => given,
        };
        let message = text(config, "reasonForIncompletion").unwrap_or_default();
        let end = match text(config, "taskStatus").as_deref() {
            Some("COMPLETED") => ErrandAnswer::Done { output },
            Some("FAILED") => ErrandAnswer::Failed { message, output: Some(output), for_good: false },
            Some("FAILED_WITH_TERMINAL_ERROR") => {
                ErrandAnswer::Failed { message, output: Some(output), for_good: true }
            }
            Some("CANCELED") => ErrandAnswer::Cancelled { message, output: Some(output) },
            other => {
                let word = other.unwrap_or("nothing");
                let text = format!("`taskStatus` is {word}: COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR or CANCELED");
                return Err(refused(text));
            }
        };
        let (step, attempt, seen) = (row.more.step.clone(), row.more.attempt, row.more.seen.clone());
        let control = serde_json::to_value(Control::Errand { step, attempt, end, seen })
            .map_err(|error| Failure::new("internal", error.to_string()))?;
        let own = self.scope.run.map(|own| own.state.step_id(key)).unwrap_or(Hash16([0; 16]));
        let by = By { who: format!("run {}", self.family.run), why: "a task of it asked for that".into() };
        Ok(OpKind::Ask { run: row.run, ticket: Hash16::of(&[b"asked by", &own.0]), control, by })
    }

    /// GET_WORKFLOW: the head of another workflow, without its tasks.
    pub(super) fn workflow_of(&self, config: &Value) -> Result<Value, Failure> {
        let id = text(config, "id").or_else(|| text(config, "workflowId"));
        let id = id.ok_or_else(|| refused("GET_WORKFLOW needs the `id` of a workflow"))?;
        let found = self.services.store.run(self.workspace, run_named(&id)?).map_err(|error| unread(&error))?;
        let (row, values, _) =
            found.ok_or_else(|| Failure::new("run_unknown", format!("No such workflow found by id: {id}")))?;
        let (name, version) = row.flow.id.rsplit_once('@').unwrap_or((&row.flow.id, "1"));
        let shown = |value: &Option<Json>| value.as_ref().map_or(json!({}), crate::public_json);
        let reason = values.failure.as_ref().map(|failure| failure["message"].clone());
        Ok(Value::from_json(&json!({
            "workflowId": row.id.to_string(),
            "workflowName": name,
            "workflowVersion": version.parse::<u32>().unwrap_or(1),
            "status": workflow_status(row.status, row.ended_at.is_some(), row.conclusion),
            "correlationId": Some(&row.correlation_id).filter(|id| **id != row.id.to_string()),
            "input": shown(&values.inputs),
            "output": shown(&values.outputs),
            "reasonForIncompletion": reason,
            "createTime": row.created_at.0,
            "endTime": row.ended_at.map_or(0, |at| at.0),
        })))
    }
}
