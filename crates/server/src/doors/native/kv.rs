//! `/v1/kv`: the key-value store that flows share.

use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::problem::Problem;
use crate::view;
use semel_core::duration;
use semel_store::{Done, Work};
use serde::{Deserialize, Deserializer};
use serde_json::{Value as Json, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    /// Null is a value; only an absent field is a mistake.
    #[serde(default, deserialize_with = "given")]
    value: Option<Json>,
    #[serde(default)]
    ttl: Option<String>,
    #[serde(default)]
    overwrite: Option<bool>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

fn unknown() -> Problem {
    Problem::new(Code::KvUnknown, "no such key in this namespace")
}

/// Of a path; what the server itself keeps is no namespace.
fn namespace(call: &Call) -> Result<String, Problem> {
    let name = call.param("namespace")?;
    if semel_store::is_own_namespace(name) { Err(unknown()) } else { Ok(name.to_owned()) }
}

pub async fn list(call: Call) -> Answer {
    let page = call.page("kv")?;
    let (workspace, namespace, fetch) = (call.workspace()?, namespace(&call)?, page.fetch());
    let after = page.after().map(str::to_owned);
    let rows = call.app.read(move |store| store.kv_list(&workspace, &namespace, after.as_deref(), fetch)).await?;
    let payloads = call.sees_payloads();
    ok(page.answer(rows, |row| row.key.clone(), |row| view::kv(row, payloads)))
}

pub async fn show(call: Call) -> Answer {
    let (workspace, namespace, key) = (call.workspace()?, namespace(&call)?, call.param("key")?.to_owned());
    let row = call.app.read(move |store| store.kv(&workspace, &namespace, &key)).await?.ok_or_else(unknown)?;
    if row.expires_at.is_some_and(|end| call.now() >= end) {
        return Err(Problem::new(Code::Expired, "the value of this key has expired"));
    }
    ok(view::kv(&row, call.sees_payloads()))
}

pub async fn put(call: Call) -> Answer {
    let body: Put = call.json()?;
    let value = body.value.ok_or_else(|| Problem::field("value", "is missing"))?;
    let ttl_ms = body
        .ttl
        .as_deref()
        .map(duration::parse_ms)
        .transpose()
        .map_err(|error| Problem::field("ttl", error.to_string()))?;
    if ttl_ms == Some(0) {
        return Err(Problem::field("ttl", "must be longer than nothing"));
    }
    let (namespace, key) = (namespace(&call)?, call.param("key")?.to_owned());
    super::check_name("namespace", &namespace)?;
    super::check_name("key", &key)?;
    let work = Work::KvSet {
        workspace: call.workspace()?,
        namespace: namespace.clone(),
        key: key.clone(),
        kv_type: type_word(&value).to_owned(),
        value,
        overwrite: body.overwrite.unwrap_or(true),
        ttl_ms,
    };
    match super::done(call.app.write(work).await?, unknown)? {
        Done::Kv(None) => {
            Err(Problem::new(Code::Exists, "the key has a value and `overwrite` is false; nothing was changed"))
        }
        Done::Kv(Some(revision)) => ok(json!({"namespace": namespace, "key": key, "revision": revision})),
        _ => Err(Problem::internal("the store answered a kv write with something else")),
    }
}

/// The type of a value written without one, in the words flows use.
fn type_word(value: &Json) -> &'static str {
    match value {
        Json::String(_) => "STRING",
        Json::Number(_) => "NUMBER",
        Json::Bool(_) => "BOOLEAN",
        Json::Null | Json::Array(_) | Json::Object(_) => "JSON",
    }
}

pub async fn delete(call: Call) -> Answer {
    let (namespace, key) = (namespace(&call)?, call.param("key")?.to_owned());
    let work = Work::KvDelete { workspace: call.workspace()?, namespace, key };
    match super::done(call.app.write(work).await?, unknown)? {
        Done::Count(0) => Err(unknown()),
        _ => no_content(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_value_and_absence_is_not() {
        let read = |text: &str| serde_json::from_str::<Put>(text).unwrap().value;
        assert_eq!(read(r#"{"value":null}"#), Some(Json::Null));
        assert_eq!(read(r#"{"value":{"a":1}}"#), Some(json!({"a": 1})));
        assert_eq!(read("{}"), None);
    }
}
