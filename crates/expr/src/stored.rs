//! How values are written to the journal and read back.
//!
//! A hole is `{"$semel": {"text": [...]}}`. Caller data may hold an object with a `$semel` key of its own; it is
//! wrapped as `{"$semel": {"object": …}}` and everything below that wrapper is read verbatim, so no caller can forge a
//! hole, and no nesting of such objects grows by more than two levels. Only when a map that the author built holds
//! both a `$semel` key and a hole is `{"$semel": {"fields": …}}` used, whose members are read with these rules again.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use crate::taint;
use crate::template::Template;
use crate::value::{Part, SecretRef, Tainted, Value};

const MARK: &str = "$semel";

impl Value {
    /// JSON for storage; holds references and ciphertext, never secret text.
    pub fn to_stored(&self) -> Json {
        match self {
            Value::Tainted(tainted) => {
                json!({ MARK: { "text": tainted.parts.iter().map(stored_part).collect::<Vec<_>>() } })
            }
            Value::Deferred(template) => json!({ MARK: { "template": template.source() } }),
            Value::List(items) => Json::Array(items.iter().map(Value::to_stored).collect()),
            Value::Map(entries) | Value::HeaderMap(entries) => stored_map(self, entries),
            plain => plain.to_masked_json(),
        }
    }

    /// Reads what `to_stored` wrote. Anything it could not have written is taken as plain data.
    pub fn from_stored(json: &Json) -> Value {
        match json {
            Json::Array(items) => Value::list(items.iter().map(Value::from_stored).collect()),
            Json::Object(entries) => match entries.get(MARK) {
                Some(marked) if entries.len() == 1 => from_marked(marked).unwrap_or_else(|| Value::from_json(json)),
                _ => fields(entries),
            },
            plain => Value::from_json(plain),
        }
    }

    /// Performer side: replaces every hole by its real text. Call it right before use and store nothing of it.
    pub fn fill(&self, reveal: &dyn Fn(&Part) -> Result<String, String>) -> Result<Json, String> {
        Ok(match self {
            Value::Tainted(tainted) => taint::reveal_parts(&tainted.parts, reveal)?.to_masked_json(),
            Value::List(items) => Json::Array(items.iter().map(|item| item.fill(reveal)).collect::<Result<_, _>>()?),
            Value::Map(entries) | Value::HeaderMap(entries) => {
                let mut filled = Map::with_capacity(entries.len());
                for (key, item) in entries.iter() {
                    filled.insert(key.clone(), item.fill(reveal)?);
                }
                Json::Object(filled)
            }
            plain => plain.to_masked_json(),
        })
    }
}

fn stored_part(part: &Part) -> Json {
    match part {
        Part::Text(text) => Json::String(text.clone()),
        Part::Secret(reference) => {
            json!({ "secret": reference.name, "version": reference.version })
        }
        Part::Sealed(sealed) => json!({ "sealed": sealed }),
    }
}

fn stored_map(whole: &Value, entries: &IndexMap<String, Value>) -> Json {
    let fields = || Json::Object(entries.iter().map(|(key, item)| (key.clone(), item.to_stored())).collect());
    if !entries.contains_key(MARK) {
        fields()
    } else if whole.is_tainted() || whole.has_deferred() {
        json!({ MARK: { "fields": fields() } })
    } else {
        json!({ MARK: { "object": whole.to_masked_json() } })
    }
}

fn from_marked(marked: &Json) -> Option<Value> {
    let entries = marked.as_object().filter(|entries| entries.len() == 1)?;
    let (kind, content) = entries.iter().next()?;
    match (kind.as_str(), content) {
        ("text", Json::Array(parts)) => {
            let parts = parts.iter().map(read_part).collect::<Option<_>>()?;
            Some(Value::Tainted(Arc::new(Tainted { parts })))
        }
        ("template", Json::String(source)) => Some(
            Template::parse(source).map_or_else(|_| Value::str(source), |parsed| Value::Deferred(Arc::new(parsed))),
        ),
        ("object", Json::Object(_)) => Some(Value::from_json(content)),
        ("fields", Json::Object(entries)) => Some(fields(entries)),
        _ => None,
    }
}

fn fields(entries: &Map<String, Json>) -> Value {
    Value::map(entries.iter().map(|(key, item)| (key.clone(), Value::from_stored(item))).collect())
}

fn read_part(json: &Json) -> Option<Part> {
    match json {
        Json::String(text) => Some(Part::Text(text.clone())),
        Json::Object(entries) => match (entries.get("secret"), entries.get("version"), entries.get("sealed")) {
            (Some(Json::String(name)), Some(version), None) => {
                Some(Part::Secret(SecretRef { name: name.clone(), version: version.as_u64()? }))
            }
            (None, None, Some(Json::String(sealed))) => Some(Part::Sealed(sealed.clone())),
            _ => None,
        },
        _ => None,
    }
}
