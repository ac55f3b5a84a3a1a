//! `/api/human/template`: forms for tasks that people do, by name and version.

use super::tags::{self, Kind};
use super::{body, documents, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_store::{HUMAN_TEMPLATES, KvRow};
use serde_json::{Map, Value as Json, json};

fn unknown(name: &str) -> Problem {
    Problem::new(Code::DefinitionUnknown, format!("No template found with name {name}"))
}

fn key(name: &str, version: u32) -> String {
    format!("{name}@{version:010}")
}

async fn versions(call: &Call, name: &str) -> Result<Vec<KvRow>, Problem> {
    documents::all(call, HUMAN_TEMPLATES, &format!("{name}@")).await
}

/// This version, or the newest.
pub async fn find(call: &Call, name: &str, version: Option<u32>) -> Result<Option<Json>, Problem> {
    let row = match version.filter(|version| *version > 0) {
        Some(version) => documents::find(call, HUMAN_TEMPLATES, &key(name, version)).await?,
        None => versions(call, name).await?.pop(),
    };
    Ok(row.map(|row| row.value))
}

fn checked(given: Json) -> Result<(String, u32, Map<String, Json>), Problem> {
    let Json::Object(mut fields) = given else {
        return Err(Problem::new(Code::BodyInvalid, "a template is an object"));
    };
    fields.retain(|_, value| !value.is_null());
    let name = body::field(&fields, "name")?.unwrap_or_default();
    if name.trim().is_empty() || name.len() > 255 || name.contains('@') {
        return Err(Problem::field("name", "the name of a template has 1 to 255 bytes, and no @"));
    }
    for field in ["jsonSchema", "templateUI"] {
        if !fields.get(field).is_some_and(Json::is_object) {
            return Err(Problem::field(field, "must be an object"));
        }
    }
    let version = body::whole(&fields, "version")?.unwrap_or(1).max(1);
    let version = u32::try_from(version).map_err(|_| Problem::field("version", "is too large"))?;
    Ok((name, version, fields))
}

async fn save(call: &Call) -> Result<Vec<Json>, Problem> {
    let new_version = body::query_flag(call, "newVersion", false)?;
    let templates: Vec<_> = body::one_or_more(call)?.into_iter().map(checked).collect::<Result<_, _>>()?;
    let mut saved = Vec::new();
    for (name, version, mut fields) in templates {
        let version = match new_version {
            true => {
                let newest = versions(call, &name).await?.pop();
                let newest = newest.and_then(|row| row.value["version"].as_u64()).unwrap_or(0);
                u32::try_from(newest + 1).map_err(|_| Problem::field("version", "is too large"))?
            }
            false => version,
        };
        fields.insert("version".to_owned(), version.into());
        fields.insert("updateTime".to_owned(), call.now().0.into());
        fields.entry("createTime").or_insert_with(|| json!(call.now().0));
        fields.insert("updatedBy".to_owned(), json!(call.principal()?.name));
        documents::put(call, HUMAN_TEMPLATES, key(&name, version), Json::Object(fields.clone())).await?;
        saved.push(Json::Object(fields));
    }
    Ok(saved)
}

pub async fn post(call: Call) -> Answer {
    ok(save(&call).await?.pop().unwrap_or_default())
}

pub async fn post_all(call: Call) -> Answer {
    ok(save(&call).await?)
}

pub async fn list(call: Call) -> Answer {
    let (name, version) = (body::query(&call, "name")?, body::query_whole(&call, "version")?);
    let fits = |template: &Json| {
        name.as_deref().is_none_or(|name| template["name"] == name) && version.is_none_or(|v| template["version"] == v)
    };
    let rows = documents::all(&call, HUMAN_TEMPLATES, "").await?;
    ok(rows.into_iter().map(|row| row.value).filter(fits).collect::<Vec<Json>>())
}

pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?;
    ok(find(&call, name, None).await?.ok_or_else(|| unknown(name))?)
}

pub async fn check(call: &Call, name: &str) -> Result<(), Problem> {
    find(call, name, None).await?.map(|_| ()).ok_or_else(|| unknown(name))
}

fn path_version(call: &Call) -> Result<u32, Problem> {
    call.param("version")?.parse().map_err(|_| Problem::query("version", "must be a version"))
}

pub async fn get_version(call: Call) -> Answer {
    let name = call.param("name")?;
    ok(find(&call, name, Some(path_version(&call)?)).await?.ok_or_else(|| unknown(name))?)
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?;
    let rows = versions(&call, name).await?;
    if rows.is_empty() {
        return Err(unknown(name));
    }
    tags::forget(&call, Kind::Template, name).await?;
    for row in rows {
        documents::delete(&call, HUMAN_TEMPLATES, &row.key).await?;
    }
    done()
}

pub async fn delete_version(call: Call) -> Answer {
    let name = call.param("name")?;
    match documents::delete(&call, HUMAN_TEMPLATES, &key(name, path_version(&call)?)).await? {
        true => done(),
        false => Err(unknown(name)),
    }
}
