//! `/triggers`: what fires by itself, with when it did and when it will. Webhooks and flow triggers wait for others and
//! are not listed, as on Kestra.

use super::flow_json;
use super::flows::{mentions, show::flag};
use super::paged::Paged;
use super::trigger_search::{Asked, is_off};
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use semel_core::{FlowRef, Millis, WorkspaceId};
use semel_engine::{BackfillRequest, TriggerError, TriggerView};
use semel_store::{Backfill, FlowRow};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Triggers of one request.
const TRIGGERS_MAX: usize = 1_000;

/// A trigger as callers name it. What else they send back of what they were shown is left aside.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    namespace: String,
    flow_id: String,
    trigger_id: String,
    #[serde(default)]
    disabled: Option<bool>,
    #[serde(default)]
    backfill: Option<Wanted>,
}

/// A backfill as it is asked for.
#[derive(Clone, Debug, Deserialize)]
struct Wanted {
    start: String,
    #[serde(default)]
    end: Option<String>,
    #[serde(default)]
    inputs: Option<Json>,
    #[serde(default)]
    labels: Option<Json>,
    #[serde(default)]
    paused: bool,
}

impl Named {
    fn flow(&self) -> FlowRef {
        FlowRef::new(&self.namespace, &self.flow_id)
    }

    fn of(view: &TriggerView) -> Named {
        let flow = &view.row.flow;
        Named {
            namespace: flow.namespace.clone(),
            flow_id: flow.id.clone(),
            trigger_id: view.row.trigger.clone(),
            disabled: None,
            backfill: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Pause,
    Unpause,
    End,
    Unlock,
    Restart,
    Forget,
    Disable,
    Enable,
}

impl From<TriggerError> for Problem {
    fn from(error: TriggerError) -> Problem {
        match error {
            TriggerError::Unknown => Problem::new(Code::FlowUnknown, "no flow has such a trigger that fires by itself"),
            TriggerError::NotPossible(why) => Problem::new(Code::NotPossible, why),
            TriggerError::Store(error) => error.into(),
        }
    }
}

async fn act(call: &Call, named: &Named, act: Act) -> Result<(), Problem> {
    let (engine, workspace, flow, trigger) =
        (call.app.engine(), call.workspace()?, named.flow(), named.trigger_id.as_str());
    let done = match act {
        Act::Pause => engine.pause_backfill(&workspace, &flow, trigger, true).await,
        Act::Unpause => engine.pause_backfill(&workspace, &flow, trigger, false).await,
        Act::End => engine.end_backfill(&workspace, &flow, trigger).await,
        Act::Unlock => engine.unlock_trigger(&workspace, &flow, trigger).await,
        Act::Restart => engine.restart_trigger(&workspace, &flow, trigger).await,
        Act::Forget => engine.forget_trigger(&workspace, &flow, trigger).await,
        Act::Disable => engine.set_trigger_disabled(&workspace, &flow, trigger, true).await,
        Act::Enable => engine.set_trigger_disabled(&workspace, &flow, trigger, false).await,
    };
    Ok(done?)
}

fn backfill(given: &Backfill) -> Json {
    let labels = given.labels.iter().map(|(key, value)| json!({"key": key, "value": value}));
    json!({
        "start": given.start.to_rfc3339(),
        "end": given.end.to_rfc3339(),
        "currentDate": given.current.to_rfc3339(),
        "paused": given.paused,
        "labels": labels.collect::<Vec<_>>(),
    })
}

/// What is known of a trigger.
fn context(view: &TriggerView) -> Json {
    let row = &view.row;
    let mut out = json!({
        "namespace": row.flow.namespace,
        "flowId": row.flow.id,
        "triggerId": row.trigger,
        "disabled": is_off(view),
    });
    let facts = [
        ("date", row.last_fired.map(|at| at.to_rfc3339().into())),
        ("nextExecutionDate", row.next_due.map(|at| at.to_rfc3339().into())),
        ("executionId", row.state.last_run.map(|run| run.to_string().into())),
        ("backfill", row.state.backfill.as_ref().map(backfill)),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            out[name] = fact;
        }
    }
    out
}

/// The trigger as its author wrote it.
fn written(view: &TriggerView, call: &Call) -> Json {
    let row = FlowRow {
        workspace: view.row.workspace.clone(),
        flow: view.row.flow.clone(),
        revision: view.flow.revision,
        source: view.flow.source.clone(),
        ir: String::new(),
        disabled: false,
        deleted: false,
        created_at: Millis(0),
        created_by: String::new(),
    };
    let flow = flow_json::flow(&row, call.app.limits(), call.sees_payloads());
    let of_id = |trigger: &&Json| trigger["id"] == view.row.trigger.as_str();
    flow["triggers"].as_array().into_iter().flatten().find(of_id).cloned().unwrap_or(Json::Null)
}

async fn all(call: &Call, workspace: &WorkspaceId) -> Result<Vec<TriggerView>, Problem> {
    let (engine, owner) = (call.app.engine().clone(), workspace.clone());
    call.app.read(move |_| engine.triggers(&owner)).await
}

/// What the query asks for.
async fn asked(call: &Call) -> Result<Vec<TriggerView>, Problem> {
    let (asked, workspace) = (Asked::read(call)?, call.workspace()?);
    let mut views = all(call, &workspace).await?;
    views.retain(|view| asked.passes(view));
    Ok(views)
}

async fn shown(call: &Call, named: &Named) -> Answer {
    let (engine, workspace, flow, trigger) =
        (call.app.engine().clone(), call.workspace()?, named.flow(), named.trigger_id.clone());
    let view = call.app.read(move |_| engine.trigger(&workspace, &flow, &trigger)).await?;
    ok(context(&view.ok_or(TriggerError::Unknown)?))
}

fn sort(paged: &Paged, views: &mut [TriggerView]) -> Result<(), Problem> {
    let fields = ["triggerId", "flowId", "namespace", "nextExecutionDate", "date"];
    paged.sort(views, &fields, |view, field| {
        let row = &view.row;
        let time = |at: Option<Millis>| at.map(Millis::to_rfc3339).unwrap_or_default();
        match field {
            "triggerId" => row.trigger.clone(),
            "flowId" => row.flow.id.clone(),
            "namespace" => row.flow.namespace.clone(),
            "nextExecutionDate" => time(row.next_due),
            _ => time(row.last_fired),
        }
    })
}

pub async fn search(call: Call) -> Answer {
    let paged = Paged::read(&call.query)?;
    let mut views = asked(&call).await?;
    sort(&paged, &mut views)?;
    paged.answer(&views, |view| json!({"abstractTrigger": written(view, &call), "triggerContext": context(view)}))
}

pub async fn of_flow(call: Call) -> Answer {
    let (paged, workspace) = (Paged::read(&call.query)?, call.workspace()?);
    let flow = FlowRef::new(call.param("namespace")?, call.param("flow")?);
    let wanted = call.query.text("q")?.unwrap_or_default();
    let mut views = all(&call, &workspace).await?;
    views.retain(|view| view.row.flow == flow && mentions(&flow, &view.row.trigger, &wanted));
    sort(&paged, &mut views)?;
    paged.answer(&views, context)
}

/// `PUT /triggers`: on or off, and a backfill to begin.
pub async fn put(call: Call) -> Answer {
    let named: Named = call.json()?;
    if let Some(wanted) = named.backfill.clone() {
        let request = request(wanted)?;
        let (engine, workspace) = (call.app.engine(), call.workspace()?);
        engine.start_backfill(&workspace, &named.flow(), &named.trigger_id, request).await?;
    }
    if let Some(disabled) = named.disabled {
        act(&call, &named, if disabled { Act::Disable } else { Act::Enable }).await?;
    }
    shown(&call, &named).await
}

fn request(wanted: Wanted) -> Result<BackfillRequest, Problem> {
    let instant = |name: &str, text: &str| {
        Millis::parse_rfc3339(text)
            .ok_or_else(|| Problem::field(name, "must be an instant such as 2026-01-31T10:00:00Z"))
    };
    Ok(BackfillRequest {
        start: instant("backfill.start", &wanted.start)?,
        end: wanted.end.as_deref().map(|text| instant("backfill.end", text)).transpose()?,
        inputs: wanted.inputs.unwrap_or_else(|| json!({})),
        labels: labels(wanted.labels.unwrap_or(Json::Null))?,
        paused: wanted.paused,
    })
}

/// A map, or a list of `{key, value}`.
fn labels(given: Json) -> Result<Vec<(String, String)>, Problem> {
    #[derive(Deserialize)]
    struct Label {
        key: String,
        value: String,
    }
    let wrong = |error: serde_json::Error| Problem::field("backfill.labels", error.to_string());
    let found: Vec<(String, String)> = match given {
        Json::Null => vec![],
        map @ Json::Object(_) => {
            serde_json::from_value::<BTreeMap<String, String>>(map).map_err(wrong)?.into_iter().collect()
        }
        list => {
            let list: Vec<Label> = serde_json::from_value(list).map_err(wrong)?;
            list.into_iter().map(|label| (label.key, label.value)).collect()
        }
    };
    match found.iter().find(|(key, _)| key.starts_with("system.")) {
        Some((key, value)) => Err(Problem::new(
            Code::IllegalArgument,
            format!("System labels can only be set by Semel itself, offending label: {key}={value}."),
        )),
        None => Ok(found),
    }
}

async fn one(call: Call, what: Act) -> Answer {
    let named: Named = call.json()?;
    act(&call, &named, what).await?;
    shown(&call, &named).await
}

/// Those that it can be done to; the others are left as they are, as on Kestra.
async fn each(call: &Call, triggers: Vec<Named>, what: Act) -> Answer {
    let mut count = 0;
    for named in &triggers {
        match act(call, named, what).await {
            Ok(()) => count += 1,
            Err(problem) if matches!(problem.code, Code::NotPossible | Code::FlowUnknown) => {}
            Err(problem) => return Err(problem),
        }
    }
    ok(json!({"count": count}))
}

fn bounded(triggers: Vec<Named>) -> Result<Vec<Named>, Problem> {
    let fits = triggers.len() <= TRIGGERS_MAX;
    if fits {
        Ok(triggers)
    } else {
        Err(Problem::new(Code::BodyInvalid, format!("at most {TRIGGERS_MAX} triggers at once")))
    }
}

async fn by_triggers(call: Call, what: Act) -> Answer {
    let body = json::parse(&call.body, call.app.limits().json_depth_max)?;
    let triggers: Vec<Named> = serde_json::from_value(body)
        .map_err(|error| Problem::new(Code::BodyInvalid, format!("the body must be a list of triggers: {error}")))?;
    each(&call, bounded(triggers)?, what).await
}

async fn by_query(call: Call, what: Act) -> Answer {
    let triggers = asked(&call).await?.iter().map(Named::of).collect();
    each(&call, triggers, what).await
}

macro_rules! handlers {
    ($($name:ident: $way:ident, $act:ident;)+) => {
        $(
            pub async fn $name(call: Call) -> Answer {
                $way(call, Act::$act).await
            }
        )+
    };
}

handlers! {
    pause: one, Pause;
    pause_by_triggers: by_triggers, Pause;
    pause_by_query: by_query, Pause;
    unpause: one, Unpause;
    unpause_by_triggers: by_triggers, Unpause;
    unpause_by_query: by_query, Unpause;
    end: one, End;
    end_by_triggers: by_triggers, End;
    end_by_query: by_query, End;
    unlock: of_path, Unlock;
    unlock_by_triggers: by_triggers, Unlock;
    unlock_by_query: by_query, Unlock;
    restart: of_path, Restart;
    delete_by_triggers: by_triggers, Forget;
    delete_by_query: by_query, Forget;
}

#[derive(Deserialize)]
struct Switch {
    #[serde(default)]
    triggers: Vec<Named>,
    #[serde(default = "yes")]
    disabled: bool,
}

fn yes() -> bool {
    true
}

pub async fn set_disabled_by_triggers(call: Call) -> Answer {
    let switch: Switch = call.json()?;
    each(&call, bounded(switch.triggers)?, if switch.disabled { Act::Disable } else { Act::Enable }).await
}

pub async fn set_disabled_by_query(call: Call) -> Answer {
    let disabled = flag(&call.query, "disabled", true)?;
    by_query(call, if disabled { Act::Disable } else { Act::Enable }).await
}

fn named(call: &Call) -> Result<Named, Problem> {
    Ok(Named {
        namespace: call.param("namespace")?.to_owned(),
        flow_id: call.param("flow")?.to_owned(),
        trigger_id: call.param("trigger")?.to_owned(),
        disabled: None,
        backfill: None,
    })
}

/// To the trigger of the path.
async fn of_path(call: Call, what: Act) -> Answer {
    let named = named(&call)?;
    act(&call, &named, what).await?;
    shown(&call, &named).await
}

/// What is remembered of the trigger goes; as long as its flow has it, it goes on from now.
pub async fn delete(call: Call) -> Answer {
    act(&call, &named(&call)?, Act::Forget).await?;
    no_content()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_a_map_or_a_list_and_not_the_system_s() {
        let a = || ("a".to_owned(), "1".to_owned());
        assert_eq!(labels(json!({"a": "1"})).unwrap(), [a()]);
        assert_eq!(labels(json!([{"key": "a", "value": "1"}])).unwrap(), [a()]);
        assert!(labels(Json::Null).unwrap().is_empty());
        assert_eq!(labels(json!({"system.x": "1"})).unwrap_err().code, Code::IllegalArgument);
        assert_eq!(labels(json!([1])).unwrap_err().code, Code::BodyInvalid);
    }

    #[test]
    fn a_backfill_has_instants() {
        let of = |start: &str| request(serde_json::from_value(json!({"start": start, "labels": null})).unwrap());
        assert_eq!(of("2026-01-01T00:00:00Z").unwrap().end, None);
        assert_eq!(of("yesterday").unwrap_err().code, Code::BodyInvalid);
    }
}
