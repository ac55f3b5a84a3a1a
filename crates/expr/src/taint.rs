//! Looking through holes, and closing them again.
//!
//! An operator that must see a secret works on a revealed copy and seals its result as one opaque text. So that
//! `fromJson(secret('SA')).project` works, a sealed result that is not a text is sealed as JSON behind a marker
//! character; revealing it gives the typed value back. Keys and shape of such a result stay hidden too.

use std::sync::Arc;

use crate::value::{Part, Tainted, Value};
use crate::{EvalError, Scope};

/// Opens sealed text that is JSON. A sealed text that itself begins with it is sealed as a JSON string.
const JSON_MARK: char = '\u{1}';

/// The real value behind the parts: typed when it is one sealed JSON value, else text.
pub(crate) fn reveal_parts(parts: &[Part], reveal: &dyn Fn(&Part) -> Result<String, String>) -> Result<Value, String> {
    if let [part @ Part::Sealed(_)] = parts {
        return Ok(unseal(&reveal(part)?));
    }
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Secret(_) => text.push_str(&reveal(part)?),
            Part::Sealed(_) => text.push_str(&unseal(&reveal(part)?).to_text()),
        }
    }
    Ok(Value::str(text))
}

fn unseal(plain: &str) -> Value {
    match plain.strip_prefix(JSON_MARK) {
        Some(json) => serde_json::from_str(json).map_or_else(|_| Value::str(json), |json| Value::from_json(&json)),
        None => Value::str(plain),
    }
}

/// The texts inside what a seal held: one for a text, every text of it for a list or a map.
pub fn texts_in_sealed(plain: &str) -> Vec<String> {
    fn collect(json: &serde_json::Value, out: &mut Vec<String>) {
        match json {
            serde_json::Value::String(text) => out.push(text.clone()),
            serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
            serde_json::Value::Object(entries) => entries.values().for_each(|item| collect(item, out)),
            serde_json::Value::Number(number) => out.push(number.to_string()),
            serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        }
    }
    let Some(json) = plain.strip_prefix(JSON_MARK) else { return vec![plain.to_owned()] };
    let Ok(json) = serde_json::from_str(json) else { return vec![json.to_owned()] };
    let mut out = Vec::new();
    collect(&json, &mut out);
    out
}

/// A copy with every hole filled. Only ever held while one operator computes.
pub(crate) fn reveal(value: &Value, scope: &dyn Scope) -> Result<Value, EvalError> {
    Ok(match value {
        Value::Tainted(tainted) => reveal_parts(&tainted.parts, &|part| scope.reveal(part))
            .map_err(|message| EvalError::new("secret", message))?,
        Value::List(items) if value.is_tainted() => {
            Value::list(items.iter().map(|item| reveal(item, scope)).collect::<Result<_, _>>()?)
        }
        Value::Map(entries) | Value::HeaderMap(entries) if value.is_tainted() => {
            let mut filled = indexmap::IndexMap::with_capacity(entries.len());
            for (key, item) in entries.iter() {
                filled.insert(key.clone(), reveal(item, scope)?);
            }
            Value::map(filled)
        }
        plain => plain.clone(),
    })
}

/// Hides a result computed through a secret.
pub(crate) fn seal(value: &Value, scope: &dyn Scope) -> Result<Value, EvalError> {
    let plain = match value {
        // That there is nothing is a bit of control flow, and `??` has to see it.
        Value::Null => return Ok(Value::Null),
        Value::Str(text) if !text.starts_with(JSON_MARK) => text.to_string(),
        other => format!("{JSON_MARK}{}", other.to_masked_json()),
    };
    let sealed = scope.seal(&plain).map_err(|message| EvalError::new("secret", message))?;
    Ok(Value::Tainted(Arc::new(Tainted { parts: vec![Part::Sealed(sealed)] })))
}

/// A printable form: a container with holes becomes one sealed JSON text, everything else is itself.
pub(crate) fn printable(value: &Value, scope: &dyn Scope) -> Result<Value, EvalError> {
    match value {
        Value::List(_) | Value::Map(_) | Value::HeaderMap(_) if value.is_tainted() => {
            seal(&Value::str(reveal(value, scope)?.to_text()), scope)
        }
        other => Ok(other.clone()),
    }
}

/// Concatenation, the one operation that keeps holes apart from the text around them. Takes printable values.
pub(crate) fn concat(left: &Value, right: &Value) -> Value {
    if !left.is_tainted() && !right.is_tainted() {
        return Value::str(left.to_text() + &right.to_text());
    }
    let mut text = TextBuilder::default();
    text.push(left);
    text.push(right);
    text.finish()
}

/// Collects printed text and holes in order.
#[derive(Default)]
pub(crate) struct TextBuilder {
    parts: Vec<Part>,
    holes: bool,
}

impl TextBuilder {
    pub(crate) fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// Prints a value. Callers seal a container with holes first: its secrets may need JSON escapes.
    pub(crate) fn push(&mut self, value: &Value) {
        match value {
            Value::Tainted(tainted) => {
                self.holes = true;
                for part in &tainted.parts {
                    match part {
                        Part::Text(text) => self.push_text(text),
                        hole => self.parts.push(hole.clone()),
                    }
                }
            }
            plain => self.push_text(&plain.to_text()),
        }
    }

    pub(crate) fn finish(mut self) -> Value {
        if self.holes {
            return Value::Tainted(Arc::new(Tainted { parts: self.parts }));
        }
        match self.parts.pop() {
            Some(Part::Text(text)) => Value::str(text),
            _ => Value::str(""),
        }
    }
}
