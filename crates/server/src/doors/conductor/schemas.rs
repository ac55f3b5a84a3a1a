//! `/api/schema`: schemas by name and version. They are kept and shown; nothing is checked against them.

use super::{body, documents, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_store::{KvRow, SCHEMAS};
use serde_json::{Map, Value as Json, json};

fn unknown(name: &str, version: Option<u32>) -> Problem {
    let version = version.map(|version| format!(" and version {version}")).unwrap_or_default();
    Problem::new(Code::DefinitionUnknown, format!("No schema found with name {name}{version}"))
}

fn key(name: &str, version: u32) -> String {
    format!("{name}@{version:010}")
}

fn version_of(row: &KvRow) -> u32 {
    row.key.rsplit_once('@').and_then(|(_, version)| version.parse().ok()).unwrap_or_default()
}

async fn versions(call: &Call, name: &str) -> Result<Vec<KvRow>, Problem> {
    documents::all(call, SCHEMAS, &format!("{name}@")).await
}

fn path_version(call: &Call) -> Result<u32, Problem> {
    call.param("version")?.parse().map_err(|_| Problem::query("version", "must be a version"))
}

/// Registers one or several; with `newVersion` each under the next version of its name.
pub async fn save(call: Call) -> Answer {
    let new_version = body::query_flag(&call, "newVersion", false)?;
    let schemas: Vec<(String, u32, Map<String, Json>)> =
        body::one_or_more(&call)?.into_iter().map(checked).collect::<Result<_, _>>()?;
    let by = call.principal()?.name.clone();
    for (name, version, mut fields) in schemas {
        let version = match new_version {
            true => versions(&call, &name).await?.last().map_or(0, version_of).saturating_add(1),
            false => version,
        };
        let before = documents::find(&call, SCHEMAS, &key(&name, version)).await?;
        let now = call.now().0;
        let created = before.as_ref().map_or_else(|| json!(now), |row| row.value["createTime"].clone());
        let author = before.as_ref().map_or_else(|| json!(by), |row| row.value["createdBy"].clone());
        for (field, value) in [
            ("version", json!(version)),
            ("createTime", created),
            ("createdBy", author),
            ("updateTime", json!(now)),
            ("updatedBy", json!(by)),
        ] {
            fields.insert(field.to_owned(), value);
        }
        documents::put(&call, SCHEMAS, key(&name, version), Json::Object(fields)).await?;
    }
    done()
}

fn checked(given: Json) -> Result<(String, u32, Map<String, Json>), Problem> {
    let Json::Object(mut fields) = given else { return Err(Problem::new(Code::BodyInvalid, "a schema is an object")) };
    fields.retain(|_, value| !value.is_null());
    let name = body::field(&fields, "name")?.unwrap_or_default();
    if name.trim().is_empty() || name.len() > 255 || name.contains('@') {
        return Err(Problem::field("name", "the name of a schema has 1 to 255 bytes, and no @"));
    }
    let kind = body::field(&fields, "type")?.unwrap_or_else(|| "JSON".to_owned());
    if !matches!(kind.as_str(), "JSON" | "AVRO" | "PROTOBUF") {
        return Err(Problem::field("type", format!("`{kind}` is none of JSON, AVRO and PROTOBUF")));
    }
    let version = body::whole(&fields, "version")?.unwrap_or(1).max(1);
    let version = u32::try_from(version).map_err(|_| Problem::field("version", "is too large"))?;
    fields.insert("type".to_owned(), kind.into());
    Ok((name, version, fields))
}

pub async fn list(call: Call) -> Answer {
    let short = body::query_flag(&call, "short", false)?;
    let rows = documents::all(&call, SCHEMAS, "").await?;
    let shown = |row: KvRow| {
        let mut schema = row.value;
        if let (true, Json::Object(fields)) = (short, &mut schema) {
            fields.retain(|name, _| matches!(name.as_str(), "name" | "version" | "type"));
        }
        schema
    };
    ok(rows.into_iter().map(shown).collect::<Vec<Json>>())
}

/// The newest version.
pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?;
    let newest = versions(&call, name).await?.pop().ok_or_else(|| unknown(name, None))?;
    ok(newest.value)
}

pub async fn get_version(call: Call) -> Answer {
    let (name, version) = (call.param("name")?, path_version(&call)?);
    let row = documents::find(&call, SCHEMAS, &key(name, version)).await?;
    ok(row.ok_or_else(|| unknown(name, Some(version)))?.value)
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?;
    let rows = versions(&call, name).await?;
    if rows.is_empty() {
        return Err(unknown(name, None));
    }
    for row in rows {
        documents::delete(&call, SCHEMAS, &row.key).await?;
    }
    done()
}

pub async fn delete_version(call: Call) -> Answer {
    let (name, version) = (call.param("name")?, path_version(&call)?);
    match documents::delete(&call, SCHEMAS, &key(name, version)).await? {
        true => done(),
        false => Err(unknown(name, Some(version))),
    }
}
