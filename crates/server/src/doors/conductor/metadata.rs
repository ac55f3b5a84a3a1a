//! `/api/metadata/workflow`: definitions of workflows, by name and version.

use super::{body, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_core::ir::{CONDUCTOR_NAMESPACE, ConductorFlow};
use semel_engine::FlowLookupError;
use semel_engine::flows::LoadedFlow;
use semel_engine::workflows::{WorkflowError, name_and_version};
use semel_flow::conductor::Violation;
use semel_store::{FlowRow, PushRule};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// Registers one definition; with `overwrite` it takes the place of what is there. A list is taken too.
pub async fn create(call: Call) -> Answer {
    let overwrite = body::query_flag(&call, "overwrite", false)?;
    let new_version = body::query_flag(&call, "newVersion", false)?;
    let definitions = body::one_or_more(&call)?;
    for definition in &definitions {
        call.app.engine().validate_workflow(definition).map_err(|found| invalid(&found))?;
    }
    for mut definition in definitions {
        if new_version {
            let name = definition["name"].as_str().unwrap_or_default().to_owned();
            let newest = newest(&call, &name)?;
            definition["version"] = json!(newest.map_or(1, |version| version + 1));
        }
        push(&call, &definition, if overwrite { PushRule::Any } else { PushRule::New }).await?;
    }
    done()
}

/// Writes all of them; what one breaks is said beside what went well.
pub async fn update(call: Call) -> Answer {
    let mut errors = Map::new();
    let mut successful = Vec::new();
    for definition in body::one_or_more(&call)? {
        let name = definition["name"].as_str().unwrap_or_default().to_owned();
        match push(&call, &definition, PushRule::Any).await {
            Ok(()) => successful.push(name),
            Err(problem) if problem.code == Code::FlowInvalid => {
                errors.insert(name, problem.detail.into());
            }
            Err(problem) => return Err(problem),
        }
    }
    ok(json!({"bulkErrorResults": errors, "bulkSuccessfulResults": successful}))
}

pub async fn validate(call: Call) -> Answer {
    for definition in body::one_or_more(&call)? {
        call.app.engine().validate_workflow(&definition).map_err(|found| invalid(&found))?;
    }
    done()
}

pub async fn list(call: Call) -> Answer {
    let name = body::query(&call, "name")?;
    let short = body::query_flag(&call, "short", false)?;
    let rows = all(&call).await?;
    let wanted = |row: &&FlowRow| {
        let known = name_and_version(&row.flow).map(|(known, _)| known);
        name.as_deref().is_none_or(|name| known == Some(name))
    };
    let show = |row: &FlowRow| match short {
        true => short_form(row),
        false => definition(row),
    };
    ok(rows.iter().filter(wanted).map(show).collect::<Vec<Json>>())
}

pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    let version = version(&call)?;
    let flow = find(&call, &name, version)?;
    let (workspace, address) = (call.workspace()?, flow.flow_ref.clone());
    let row = call.app.read(move |store| store.flow(&workspace, &address, None)).await?;
    ok(definition(&row.ok_or_else(|| unknown(&name, version))?))
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    let version = call.param("version")?.parse::<u32>().map_err(|_| Problem::query("version", "must be a version"))?;
    let flow = FlowRef::new(CONDUCTOR_NAMESPACE, ConductorFlow::flow_id(&name, version));
    match call.app.delete_flow(call.workspace()?, flow, call.principal()?.name.clone()).await? {
        Some(_) => done(),
        None => Err(unknown(&name, Some(version))),
    }
}

/// Name to the versions there are, oldest first.
pub async fn names_and_versions(call: Call) -> Answer {
    let rows = all(&call).await?;
    let mut found: BTreeMap<&str, Vec<(u32, Json)>> = BTreeMap::new();
    for row in &rows {
        if let Some((name, version)) = name_and_version(&row.flow) {
            let entry = json!({"name": name, "version": version, "createTime": row.created_at.0});
            found.entry(name).or_default().push((version, entry));
        }
    }
    let ordered = found.into_iter().map(|(name, mut versions)| {
        versions.sort_by_key(|(version, _)| *version);
        (name.to_owned(), versions.into_iter().map(|(_, entry)| entry).collect::<Vec<Json>>().into())
    });
    ok(ordered.collect::<Map<String, Json>>())
}

/// Names of all workflows.
pub async fn names(call: Call) -> Answer {
    let rows = all(&call).await?;
    let names = rows.iter().filter_map(|row| name_and_version(&row.flow)).map(|(name, _)| name);
    ok(names.collect::<BTreeSet<&str>>())
}

/// The versions of one of them, oldest first; none of one that is not there.
pub async fn versions(call: Call) -> Answer {
    let (name, rows) = (call.param("name")?, all(&call).await?);
    let known = rows.iter().filter_map(|row| Some((name_and_version(&row.flow)?, row.created_at)));
    let own = known.filter(|((known, _), _)| *known == name).map(|((_, version), at)| (version, at));
    let shown = |(version, at): (u32, _)| json!({"name": name, "version": version, "createTime": at});
    ok(own.collect::<BTreeMap<_, semel_core::Millis>>().into_iter().map(shown).collect::<Vec<Json>>())
}

pub async fn latest_versions(call: Call) -> Answer {
    let rows = all(&call).await?;
    let mut newest: BTreeMap<&str, (u32, &FlowRow)> = BTreeMap::new();
    for row in &rows {
        if let Some((name, version)) = name_and_version(&row.flow) {
            let known = newest.entry(name).or_insert((version, row));
            if known.0 < version {
                *known = (version, row);
            }
        }
    }
    ok(newest.values().map(|(_, row)| definition(row)).collect::<Vec<Json>>())
}

async fn all(call: &Call) -> Result<Vec<FlowRow>, Problem> {
    let (engine, workspace) = (call.app.engine().clone(), call.workspace()?);
    let read = tokio::task::spawn_blocking(move || engine.workflows(&workspace)).await;
    Ok(read.map_err(|_| Problem::internal("a read panicked"))??)
}

fn newest(call: &Call, name: &str) -> Result<Option<u32>, Problem> {
    match call.app.engine().workflow(&call.workspace()?, name, None) {
        Ok(flow) => Ok(flow.index.flow.conductor.as_ref().map(|own| own.version)),
        Err(FlowLookupError::Store(error)) => Err(error.into()),
        Err(FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. }) => Ok(None),
    }
}

/// The `version` of the query; 0 and nothing are the newest.
pub fn version(call: &Call) -> Result<Option<u32>, Problem> {
    let version = body::query_whole(call, "version")?.filter(|version| *version > 0);
    version.map(|version| u32::try_from(version).map_err(|_| Problem::query("version", "is too large"))).transpose()
}

pub fn unknown(name: &str, version: Option<u32>) -> Problem {
    let version = version.map_or("null".to_owned(), |version| version.to_string());
    let detail = format!("No such workflow found by name: {name}, version: {version}");
    Problem::new(Code::FlowUnknown, detail)
}

pub fn find(call: &Call, name: &str, version: Option<u32>) -> Result<std::sync::Arc<LoadedFlow>, Problem> {
    call.app.engine().workflow(&call.workspace()?, name, version).map_err(|error| match error {
        FlowLookupError::Store(error) => error.into(),
        FlowLookupError::Unknown(_) | FlowLookupError::Ambiguous { .. } => unknown(name, version),
    })
}

async fn push(call: &Call, definition: &Json, rule: PushRule) -> Result<(), Problem> {
    let (engine, workspace, by) = (call.app.engine().clone(), call.workspace()?, call.principal()?.name.clone());
    let owned = definition.clone();
    // To its end, also where the caller hangs up.
    let pushing = tokio::spawn(async move { engine.push_workflow(&workspace, &owned, &by, rule).await });
    match pushing.await.map_err(|_| Problem::internal("a push panicked"))? {
        Ok(_) => Ok(()),
        Err(error) => Err(not_stored(error, definition)),
    }
}

/// A definition that was not stored, in Conductor's words.
pub fn not_stored(error: WorkflowError, definition: &Json) -> Problem {
    match error {
        WorkflowError::Invalid(found) => invalid(&found),
        WorkflowError::Exists => {
            let name = definition["name"].as_str().unwrap_or_default();
            let version = definition["version"].as_u64().unwrap_or(1);
            Problem::new(Code::Exists, format!("Workflow with {name}.{version} already exists!"))
        }
        WorkflowError::Store(error) => error.into(),
    }
}

pub fn invalid(found: &[Violation]) -> Problem {
    let errors: Vec<Json> = found
        .iter()
        .map(|one| json!({"path": one.path, "message": one.message, "invalidValue": one.invalid_value}))
        .collect();
    let first = found.first().map(|one| format!(" {}: {}", one.path, one.message)).unwrap_or_default();
    Problem::new(Code::FlowInvalid, format!("Validation failed, check below errors for detail.{first}")).errors(errors)
}

fn short_form(row: &FlowRow) -> Json {
    let (name, version) = name_and_version(&row.flow).unwrap_or_default();
    let whole = definition(row);
    json!({"name": name, "version": version, "description": whole["description"], "createTime": row.created_at.0,
        "ownerEmail": whole["ownerEmail"]})
}

/// A definition as it was written, with what it leaves out.
pub fn definition(row: &FlowRow) -> Json {
    let mut out = written(&row.source);
    for (name, value) in [("createTime", row.created_at.0), ("updateTime", row.created_at.0)] {
        out[name] = json!(value);
    }
    out["createdBy"] = json!(row.created_by);
    out
}

/// The text of a definition, with what it leaves out.
pub fn written(source: &str) -> Json {
    let mut out = match serde_json::from_str(source) {
        Ok(Json::Object(fields)) => Json::Object(fields),
        _ => json!({}),
    };
    let defaults = json!({
        "version": 1, "schemaVersion": 2, "restartable": true, "inputParameters": [], "outputParameters": {},
        "variables": {}, "inputTemplate": {}, "timeoutPolicy": "ALERT_ONLY", "timeoutSeconds": 0,
        "workflowStatusListenerEnabled": false,
    });
    for (name, value) in defaults.as_object().into_iter().flatten() {
        if out.get(name).is_none_or(Json::is_null) {
            out[name.as_str()] = value.clone();
        }
    }
    out
}
