//! Reading rendered properties.
//!
//! Rendering may leave a boolean or a number as text, and an absent property as null, so each
//! reader accepts both forms. A property of the wrong shape is an error with its name and never
//! its value: the value may hold a secret.

use crate::TaskError;
use semel_core::duration;
use serde_json::Value as Json;

/// A property that is there and not null.
pub fn present<'a>(config: &'a Json, name: &str) -> Option<&'a Json> {
    config.get(name).filter(|value| !value.is_null())
}

/// A JSON value as the text a template would print for it.
pub fn as_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

pub fn text(config: &Json, name: &str) -> Option<String> {
    present(config, name).map(as_text)
}

pub fn required_text(config: &Json, name: &str) -> Result<String, TaskError> {
    text(config, name)
        .filter(|value| !value.is_empty())
        .ok_or_else(|| TaskError::config(format!("`{name}` is missing or empty")))
}

pub fn flag(config: &Json, name: &str, default: bool) -> Result<bool, TaskError> {
    let wrong = || TaskError::config(format!("`{name}` must be true or false"));
    match present(config, name) {
        None => Ok(default),
        Some(Json::Bool(value)) => Ok(*value),
        Some(Json::String(value)) => match value.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(wrong()),
        },
        Some(_) => Err(wrong()),
    }
}

pub fn duration_ms(config: &Json, name: &str) -> Result<Option<i64>, TaskError> {
    match present(config, name) {
        None => Ok(None),
        Some(value) => duration::parse_ms(&as_text(value))
            .map(Some)
            .map_err(|error| TaskError::config(format!("`{name}`: {error}"))),
    }
}

/// A map, given as one or as JSON text of one.
pub fn map(config: &Json, name: &str) -> Result<Option<serde_json::Map<String, Json>>, TaskError> {
    match present(config, name) {
        None => Ok(None),
        Some(value) => match decoded(value) {
            Json::Object(map) => Ok(Some(map)),
            _ => Err(TaskError::config(format!("`{name}` must be a map"))),
        },
    }
}

/// A list of texts, or one.
pub fn texts(config: &Json, name: &str) -> Result<Vec<String>, TaskError> {
    match present(config, name) {
        None => Ok(Vec::new()),
        Some(Json::Array(items)) => Ok(items.iter().map(as_text).collect()),
        Some(Json::Object(_)) => Err(TaskError::config(format!("`{name}` must be a text or a list of texts"))),
        Some(single) => match decoded(single) {
            Json::Array(items) => Ok(items.iter().map(as_text).collect()),
            _ => Ok(vec![as_text(single)]),
        },
    }
}

/// The value behind JSON text, or the value itself.
pub fn decoded(value: &Json) -> Json {
    match value {
        Json::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    }
}

/// A list of HTTP statuses: numbers, numbers as text, or JSON text of the list.
pub fn statuses(config: &Json, name: &str) -> Result<Vec<u16>, TaskError> {
    let wrong = || TaskError::config(format!("`{name}` must list HTTP statuses, for example [409]"));
    let items = match present(config, name).map(decoded) {
        None => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(single) => vec![single],
    };
    let status = |item: &Json| as_text(item).trim().parse::<u16>().ok().filter(|code| (100..=599).contains(code));
    items.iter().map(|item| status(item).ok_or_else(wrong)).collect()
}
