//! Values an expression computes with.
//!
//! Containers and texts sit behind `Arc`, because the same outputs are looked up again and again while a run goes on.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::template::{SyntaxError, Template};

/// Evaluated value; cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Arc<str>),
    /// Holds, or was computed from, a secret.
    Tainted(Arc<Tainted>),
    List(Arc<Vec<Value>>),
    Map(Arc<IndexMap<String, Value>>),
    /// A map whose names ignore ASCII case, such as HTTP headers; stored as a plain object.
    HeaderMap(Arc<IndexMap<String, Value>>),
    /// Author text rendered on access (`vars.*`), never caller data.
    Deferred(Arc<Template>),
}

/// A text with holes where secrets belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tainted {
    pub parts: Vec<Part>,
}

/// One stretch of a tainted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Ordinary text around the holes.
    Text(String),
    /// A secret that the performer looks up right before use.
    Secret(SecretRef),
    /// Opaque ciphertext, made by `Scope::seal`, of something computed through a secret.
    Sealed(String),
}

/// Names one version of a secret, so a replay fills the same text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SecretRef {
    pub name: String,
    pub version: u64,
}

/// What a hole looks like wherever a tainted value is shown.
pub(crate) const MASK: &str = "***";

impl Value {
    /// Shorthand for a text value.
    pub fn str(text: impl AsRef<str>) -> Value {
        Value::Str(Arc::from(text.as_ref()))
    }

    /// Shorthand for a list value.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(items))
    }

    /// Shorthand for a map value.
    pub fn map(entries: IndexMap<String, Value>) -> Value {
        Value::Map(Arc::new(entries))
    }

    /// A lone secret reference, as `secret('X')` yields it.
    pub fn secret(reference: SecretRef) -> Value {
        Value::Tainted(Arc::new(Tainted { parts: vec![Part::Secret(reference)] }))
    }

    /// Plain JSON as it came from outside; an object with a `$semel` key is only an object here.
    pub fn from_json(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => number_from_json(number),
            Json::String(text) => Value::str(text),
            Json::Array(items) => Value::list(items.iter().map(Value::from_json).collect()),
            Json::Object(entries) => {
                Value::map(entries.iter().map(|(key, item)| (key.clone(), Value::from_json(item))).collect())
            }
        }
    }

    /// HTTP headers: like `from_json` for an object, but names are looked up ignoring ASCII case.
    pub fn headers(entries: IndexMap<String, Value>) -> Value {
        Value::HeaderMap(Arc::new(entries))
    }

    /// Author data under `vars`: every text that holds a template becomes `Deferred`.
    pub fn deferred_tree(json: &Json) -> Result<Value, SyntaxError> {
        Ok(match json {
            Json::String(text) if text.contains('{') => {
                let template = Template::parse(text)?;
                if template.is_static() { Value::str(text) } else { Value::Deferred(Arc::new(template)) }
            }
            Json::Array(items) => Value::list(items.iter().map(Value::deferred_tree).collect::<Result<_, _>>()?),
            Json::Object(entries) => {
                let mut map = IndexMap::with_capacity(entries.len());
                for (key, item) in entries {
                    map.insert(key.clone(), Value::deferred_tree(item)?);
                }
                Value::map(map)
            }
            plain => Value::from_json(plain),
        })
    }

    /// Plain JSON, or `None` when anything inside is tainted.
    pub fn to_plain_json(&self) -> Option<Json> {
        if self.is_tainted() { None } else { Some(self.to_masked_json()) }
    }

    /// JSON for people: holes are shown as `***`.
    pub fn to_masked_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Int(number) => json_from_int(*number),
            Value::Float(number) => serde_json::Number::from_f64(*number).map_or(Json::Null, Json::Number),
            Value::Str(text) => Json::String(text.to_string()),
            Value::Tainted(tainted) => Json::String(tainted.masked()),
            Value::List(items) => Json::Array(items.iter().map(Value::to_masked_json).collect()),
            Value::Map(entries) | Value::HeaderMap(entries) => {
                Json::Object(entries.iter().map(|(key, item)| (key.clone(), item.to_masked_json())).collect())
            }
            Value::Deferred(template) => Json::String(template.source().to_owned()),
        }
    }

    /// Kestra's rule for conditions: rendered text is false only for `false`, `0`, `-0` and nothing at all.
    /// A tainted text counts as true unless it is empty, since looking at it would take a `Scope`.
    pub fn is_truthy_text(&self) -> bool {
        match self {
            Value::Tainted(tainted) => !tainted.parts.is_empty(),
            other => !matches!(other.to_text().as_str(), "false" | "0" | "-0" | ""),
        }
    }

    /// Member of a map by name, or of a list by decimal position.
    pub fn get(&self, name: &str) -> Option<Value> {
        match self {
            Value::Map(entries) => entries.get(name).cloned(),
            Value::HeaderMap(entries) => header(entries, name).cloned(),
            Value::List(items) => items.get(name.parse::<usize>().ok()?).cloned(),
            _ => None,
        }
    }

    /// Text as a template prints it: maps and lists as compact JSON, holes as `***`.
    pub fn to_text(&self) -> String {
        match self {
            Value::Null => String::new(),
            Value::Bool(flag) => flag.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => float_text(*number),
            Value::Str(text) => text.to_string(),
            Value::Tainted(tainted) => tainted.masked(),
            Value::Deferred(template) => template.source().to_owned(),
            Value::List(_) | Value::Map(_) | Value::HeaderMap(_) => self.to_masked_json().to_string(),
        }
    }

    /// Whether a secret is anywhere inside.
    pub fn is_tainted(&self) -> bool {
        match self {
            Value::Tainted(_) => true,
            Value::List(items) => items.iter().any(Value::is_tainted),
            Value::Map(entries) | Value::HeaderMap(entries) => entries.values().any(Value::is_tainted),
            _ => false,
        }
    }

    pub(crate) fn has_deferred(&self) -> bool {
        match self {
            Value::Deferred(_) => true,
            Value::List(items) => items.iter().any(Value::has_deferred),
            Value::Map(entries) | Value::HeaderMap(entries) => entries.values().any(Value::has_deferred),
            _ => false,
        }
    }

    /// Levels of containers. Kept small for every value built here, because dropping one recurses.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Value::List(items) => 1 + items.iter().map(Value::depth).max().unwrap_or(0),
            Value::Map(entries) | Value::HeaderMap(entries) => {
                1 + entries.values().map(Value::depth).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Rough size in bytes when printed; what limits and fuel are charged by.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Value::Str(text) => text.len(),
            Value::List(items) => items.iter().map(|item| item.weight() + 1).sum::<usize>() + 2,
            Value::Map(entries) | Value::HeaderMap(entries) => {
                entries.iter().map(|(key, item)| key.len() + item.weight() + 4).sum::<usize>() + 2
            }
            Value::Tainted(tainted) => tainted.parts.iter().map(Part::weight).sum(),
            _ => 8,
        }
    }

    /// The word error messages use for this kind of value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Str(_) | Value::Deferred(_) => "a text",
            Value::Tainted(_) => "a secret",
            Value::List(_) => "a list",
            Value::Map(_) | Value::HeaderMap(_) => "a map",
        }
    }
}

impl Tainted {
    fn masked(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Secret(_) | Part::Sealed(_) => MASK,
            })
            .collect()
    }
}

impl Part {
    fn weight(&self) -> usize {
        match self {
            Part::Text(text) | Part::Sealed(text) => text.len(),
            Part::Secret(reference) => reference.name.len() + 8,
        }
    }
}

fn header<'a>(entries: &'a IndexMap<String, Value>, name: &str) -> Option<&'a Value> {
    entries.get(name).or_else(|| entries.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, item)| item))
}

fn number_from_json(number: &serde_json::Number) -> Value {
    match number.as_i128() {
        Some(whole) => Value::Int(whole),
        None => Value::Float(number.as_f64().unwrap_or(0.0)),
    }
}

/// JSON numbers hold 64 bits; a larger whole number is written as a float rather than lost.
pub(crate) fn json_from_int(number: i128) -> Json {
    serde_json::Number::from_i128(number)
        .or_else(|| serde_json::Number::from_f64(number as f64))
        .map_or(Json::Null, Json::Number)
}

/// A float as Java prints it: always with a point, and with an exponent from ten million on and below a thousandth.
fn float_text(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        return if number.is_nan() { "NaN".to_owned() } else { number.to_string().replace("inf", "Infinity") };
    }
    if number == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    let (digits, exponent) = text.split_once('E').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}
