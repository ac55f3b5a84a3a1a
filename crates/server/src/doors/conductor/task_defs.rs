//! `/api/metadata/taskdefs`: how tasks for workers are retried, timed and limited.
//!
//! A definition is kept as it was written; what it says is read when a task begins.

use super::{body, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::ir::SchemaUse;
use semel_store::{Done, KvRow, TASK_DEFINITIONS, Work};
use serde_json::{Map, Value as Json, json};

/// Definitions read at a time.
const PAGE: u32 = 1_000;
/// What a definition says that leaves it out, as clients expect to read it.
const DEFAULTS: &[(&str, i64)] = &[
    ("retryCount", 3),
    ("timeoutSeconds", 0),
    ("retryDelaySeconds", 60),
    ("responseTimeoutSeconds", 3_600),
    ("backoffScaleFactor", 1),
    ("rateLimitPerFrequency", 0),
    ("rateLimitFrequencyInSeconds", 1),
];

/// Registers one or several; what is there is replaced.
pub async fn post(call: Call) -> Answer {
    let definitions = checked(body::one_or_more(&call)?)?;
    for definition in definitions {
        put(&call, definition).await?;
    }
    done()
}

/// Replaces one that is there.
pub async fn update(call: Call) -> Answer {
    let definitions = checked(body::one_or_more(&call)?)?;
    for definition in &definitions {
        if find(&call, name_of(definition)).await?.is_none() {
            return Err(unknown(name_of(definition)));
        }
    }
    for definition in definitions {
        put(&call, definition).await?;
    }
    done()
}

pub async fn list(call: Call) -> Answer {
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| {
        let mut found: Vec<KvRow> = Vec::new();
        loop {
            let after = found.last().map(|row| row.key.clone());
            let page = store.kv_list(&workspace, TASK_DEFINITIONS, after.as_deref(), PAGE)?;
            let full = page.len() == PAGE as usize;
            found.extend(page);
            if !full {
                return Ok(found);
            }
        }
    });
    ok(rows.await?.iter().map(shown).collect::<Vec<Json>>())
}

pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    let row = find(&call, &name).await?.ok_or_else(|| unknown(&name))?;
    ok(shown(&row))
}

pub async fn delete(call: Call) -> Answer {
    let key = call.param("name")?.to_owned();
    let work =
        Work::KvDelete { workspace: call.workspace()?, namespace: TASK_DEFINITIONS.to_owned(), key: key.clone() };
    match call.app.write(work).await? {
        Done::Missing => Err(unknown(&key)),
        Done::Count(0) => Err(unknown(&key)),
        _ => done(),
    }
}

/// Refuses a name that has no definition.
pub async fn check(call: &Call, name: &str) -> Result<(), Problem> {
    find(call, name).await?.map(|_| ()).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Problem {
    Problem::new(Code::DefinitionUnknown, format!("Task {name} not found"))
}

fn name_of(definition: &Map<String, Json>) -> &str {
    definition.get("name").and_then(Json::as_str).unwrap_or_default()
}

async fn find(call: &Call, name: &str) -> Result<Option<KvRow>, Problem> {
    let (workspace, name) = (call.workspace()?, name.to_owned());
    call.app.read(move |store| store.kv(&workspace, TASK_DEFINITIONS, &name)).await
}

async fn put(call: &Call, definition: Map<String, Json>) -> Result<(), Problem> {
    let work = Work::KvSet {
        workspace: call.workspace()?,
        namespace: TASK_DEFINITIONS.to_owned(),
        key: name_of(&definition).to_owned(),
        value: Json::Object(definition),
        kv_type: "JSON".to_owned(),
        overwrite: true,
        ttl_ms: None,
    };
    call.app.write(work).await.map(|_| ())
}

/// The definition as it was written, with what it leaves out.
pub fn shown(row: &KvRow) -> Json {
    with_defaults(row.value.clone())
}

fn with_defaults(mut out: Json) -> Json {
    for (name, value) in DEFAULTS {
        if out.get(*name).is_none_or(Json::is_null) {
            out[*name] = json!(value);
        }
    }
    for (name, value) in [("timeoutPolicy", "TIME_OUT_WF"), ("retryLogic", "FIXED")] {
        if out.get(name).is_none_or(Json::is_null) {
            out[name] = json!(value);
        }
    }
    for name in ["inputKeys", "outputKeys"] {
        if out.get(name).is_none_or(Json::is_null) {
            out[name] = json!([]);
        }
    }
    if out.get("inputTemplate").is_none_or(Json::is_null) {
        out["inputTemplate"] = json!({});
    }
    out
}

/// The definition that counts for a task: the one that came with its workflow, the registered one, else what counts
/// where there is none. Only workers' tasks are tried again, and have to be answered in time, without being asked to.
pub fn of_task(own: &Json, registered: Option<&Json>, name: &str, is_simple: bool) -> Json {
    let known = Some(own).filter(|own| own.is_object()).or(registered);
    let adhoc = || match is_simple {
        true => json!({}),
        false => json!({"retryCount": 0, "responseTimeoutSeconds": 0}),
    };
    let mut out = with_defaults(known.cloned().unwrap_or_else(adhoc));
    if out["name"].as_str().is_none_or(str::is_empty) {
        out["name"] = name.into();
    }
    out
}

/// All of them, or what is wrong with each: nothing is stored if one cannot be.
fn checked(definitions: Vec<Json>) -> Result<Vec<Map<String, Json>>, Problem> {
    let mut errors = Vec::new();
    let mut good = Vec::new();
    for (place, definition) in definitions.into_iter().enumerate() {
        let Json::Object(mut fields) = definition else {
            errors.push(json!({"path": format!("[{place}]"), "message": "a task definition is an object"}));
            continue;
        };
        fields.retain(|_, value| !value.is_null());
        errors.extend(violations(place, &fields));
        good.push(fields);
    }
    if errors.is_empty() {
        return Ok(good);
    }
    let first = errors[0]["message"].as_str().unwrap_or_default().to_owned();
    Err(Problem::new(Code::BodyInvalid, format!("Validation failed, check below errors for detail. {first}"))
        .errors(errors))
}

fn violations(place: usize, fields: &Map<String, Json>) -> Vec<Json> {
    let mut found = Vec::new();
    let mut say = |name: &str, message: String| {
        let invalid = fields.get(name).cloned().unwrap_or_default();
        found.push(json!({"path": format!("[{place}].{name}"), "message": message, "invalidValue": invalid}));
    };
    let name = name_of(fields);
    if name.trim().is_empty() {
        say("name", "TaskDef name cannot be null or empty".to_owned());
    } else if name.len() > 255 {
        say("name", "TaskDef name has at most 255 bytes".to_owned());
    }
    for field in [
        "retryCount",
        "timeoutSeconds",
        "retryDelaySeconds",
        "responseTimeoutSeconds",
        "backoffScaleFactor",
        "pollTimeoutSeconds",
        "totalTimeoutSeconds",
        "maxRetryDelaySeconds",
        "backoffJitterMs",
        "concurrentExecLimit",
        "rateLimitPerFrequency",
        "rateLimitFrequencyInSeconds",
    ] {
        let fits = |value: &Json| value.as_u64().is_some_and(|number| u32::try_from(number).is_ok());
        if fields.get(field).is_some_and(|value| !fits(value)) {
            say(field, format!("{field} must be a whole number, 0 or more"));
        }
    }
    for (field, words) in [
        ("timeoutPolicy", &["RETRY", "TIME_OUT_WF", "ALERT_ONLY"][..]),
        ("retryLogic", &["FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"][..]),
    ] {
        if fields.get(field).is_some_and(|value| !value.as_str().is_some_and(|word| words.contains(&word))) {
            say(field, format!("{field} must be one of {}", words.join(", ")));
        }
    }
    let number = |name: &str| fields.get(name).and_then(Json::as_u64).unwrap_or(0);
    let (timeout, response, total) =
        (number("timeoutSeconds"), number("responseTimeoutSeconds"), number("totalTimeoutSeconds"));
    if timeout > 0 && response > timeout {
        let message =
            format!("TaskDef: {name} responseTimeoutSeconds: {response} must be less than timeoutSeconds: {timeout}");
        say("responseTimeoutSeconds", message);
    }
    if total > 0 && timeout > total {
        let message = format!(
            "TaskDef: {name} timeoutSeconds: {timeout} must be less than or equal to totalTimeoutSeconds: {total}"
        );
        say("timeoutSeconds", message);
    }
    if fields.get("inputTemplate").is_some_and(|value| !value.is_object()) {
        say("inputTemplate", "inputTemplate must be an object".to_owned());
    }
    if fields.get("enforceSchema") == Some(&Json::Bool(true)) {
        for field in ["inputSchema", "outputSchema"] {
            if let Some(Err(message)) = fields.get(field).map(SchemaUse::read) {
                say(field, message);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_a_task_is_its_own_else_the_registered_one() {
        let registered = json!({"name": "work", "retryCount": 1});
        let shown = |own: Json, registered: Option<&Json>, simple: bool| {
            let shown = of_task(&own, registered, "work", simple);
            (shown["name"].clone(), shown["retryCount"].clone(), shown["responseTimeoutSeconds"].clone())
        };
        let is = |retries: u32, seconds: u32| (json!("work"), json!(retries), json!(seconds));
        assert_eq!(shown(json!({"retryCount": 7}), Some(&registered), true), is(7, 3_600));
        assert_eq!(shown(json!(null), Some(&registered), true), is(1, 3_600));
        assert_eq!(shown(json!(null), None, true), is(3, 3_600));
        assert_eq!(shown(json!(null), None, false), is(0, 0));
    }

    #[test]
    fn definitions_are_checked_before_any_is_stored() {
        assert_eq!(checked(vec![json!({"name": "a", "retryCount": 1, "description": null})]).unwrap().len(), 1);
        let wrong = |definition: Json| checked(vec![json!({"name": "good"}), definition]).unwrap_err().more.errors;
        assert_eq!(wrong(json!({}))[0]["path"], "[1].name");
        assert_eq!(wrong(json!({"name": "a", "retryCount": -1}))[0]["path"], "[1].retryCount");
        assert_eq!(wrong(json!({"name": "a", "timeoutPolicy": "X"}))[0]["path"], "[1].timeoutPolicy");
        let late = wrong(json!({"name": "a", "timeoutSeconds": 5, "responseTimeoutSeconds": 10}));
        assert_eq!(late[0]["path"], "[1].responseTimeoutSeconds");
        assert_eq!(wrong(json!("x"))[0]["path"], "[1]");
        let schema = |enforced: bool| json!({"name": "a", "enforceSchema": enforced, "inputSchema": {"type": "AVRO"}});
        assert_eq!(wrong(schema(true))[0]["path"], "[1].inputSchema");
        assert!(checked(vec![schema(false)]).is_ok(), "a schema that nobody is held to is a remark");
    }
}
