//! What builtins compute from one value: lengths, conversions, formats, searches.

use base64::Engine as _;
use indexmap::IndexMap;

use super::eval::{Interpreter, Outcome, Raise, fail};
use super::order::{index, members, text};
use crate::ops;
use crate::value::Value;

pub(super) fn list(input: &Value) -> Outcome<&[Value]> {
    match input {
        Value::List(items) => Ok(items),
        other => fail(format!("expected a list, found {}", other.kind())),
    }
}

pub(super) fn length(input: &Value) -> Outcome<Value> {
    Ok(match input {
        Value::Null => Value::Int(0),
        Value::Str(text) => Value::Int(text.chars().count() as i128),
        Value::List(items) => Value::Int(items.len() as i128),
        Value::Map(entries) | Value::HeaderMap(entries) => Value::Int(entries.len() as i128),
        Value::Int(number) => Value::Int(number.saturating_abs()),
        Value::Float(number) => Value::Float(number.abs()),
        other => return fail(format!("{} has no length", other.kind())),
    })
}

pub(super) fn number(input: &Value) -> Outcome<f64> {
    ops::float(input).map_or_else(|| fail(format!("expected a number, found {}", input.kind())), Ok)
}

pub(super) fn rounded(input: &Value, round: fn(f64) -> f64) -> Outcome<Value> {
    match input {
        Value::Int(_) => Ok(input.clone()),
        other => Ok(Value::Int(round(number(other)?) as i128)),
    }
}

pub(super) fn to_number(input: &Value) -> Outcome<Value> {
    match input {
        Value::Int(_) | Value::Float(_) => Ok(input.clone()),
        other => match serde_json::from_str::<serde_json::Number>(text(other)?.trim()) {
            Ok(number) => Ok(Value::from_json(&serde_json::Value::Number(number))),
            Err(_) => fail("the text is not a number"),
        },
    }
}

pub(super) fn type_name(input: &Value) -> &'static str {
    match input {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) | Value::Float(_) => "number",
        Value::List(_) => "array",
        Value::Map(_) | Value::HeaderMap(_) => "object",
        Value::Str(_) | Value::Tainted(_) | Value::Deferred(_) => "string",
    }
}

pub(super) fn entry(input: &Value, key: Value) -> Outcome<Value> {
    let value = index(input, &key)?;
    Ok(Value::map(IndexMap::from([("key".to_owned(), key), ("value".to_owned(), value)])))
}

pub(super) fn from_entries(input: &Value) -> Outcome<Value> {
    let mut map = IndexMap::new();
    for item in members(input) {
        let pick = |names: &[&str]| names.iter().find_map(|name| item.get(name));
        let key = pick(&["key", "k", "name", "Name", "Key", "K"]).unwrap_or(Value::Null);
        map.insert(format("@text", &key)?, pick(&["value", "v", "Value", "V"]).unwrap_or(Value::Null));
    }
    Ok(Value::map(map))
}

pub(super) fn transpose(jq: &mut Interpreter, input: &Value) -> Outcome<Value> {
    let rows = list(input)?;
    let width = rows.iter().map(|row| members(row).len()).max().unwrap_or(0);
    jq.spend((width * rows.len()) as u64)?;
    let column = |at: usize| rows.iter().map(|row| index(row, &Value::Int(at as i128))).collect::<Outcome<Vec<_>>>();
    Ok(Value::list((0..width).map(|at| column(at).map(Value::list)).collect::<Outcome<_>>()?))
}

pub(super) fn flattened(jq: &mut Interpreter, items: &[Value], levels: i128) -> Outcome<Vec<Value>> {
    let mut out = Vec::new();
    for item in items {
        jq.spend(1)?;
        match item {
            Value::List(inner) if levels > 0 => out.extend(flattened(jq, inner, levels - 1)?),
            other => out.push(other.clone()),
        }
    }
    Ok(out)
}

/// `@text` and its kin.
pub(super) fn format(name: &str, value: &Value) -> Outcome<String> {
    let plain = || {
        if let Value::Str(text) = value { text.to_string() } else { value.to_masked_json().to_string() }
    };
    let row = |separator: &str, cell: &dyn Fn(&Value) -> String| {
        Ok(list(value)?.iter().map(cell).collect::<Vec<_>>().join(separator))
    };
    match name {
        "@text" => Ok(plain()),
        "@json" => Ok(value.to_masked_json().to_string()),
        "@base64" => Ok(base64::engine::general_purpose::STANDARD.encode(plain())),
        "@base64d" => match base64::engine::general_purpose::STANDARD.decode(plain()) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(_) => fail("the text is not base64"),
        },
        "@uri" => Ok(plain().bytes().map(uri_byte).collect()),
        "@csv" => row(",", &|cell| match cell {
            Value::Str(text) => format!("\"{}\"", text.replace('"', "\"\"")),
            other => other.to_text(),
        }),
        "@tsv" => row("\t", &|cell| cell.to_text().replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")),
        "@sh" => Ok(match value {
            Value::Str(text) => format!("'{}'", text.replace('\'', "'\\''")),
            other => other.to_text(),
        }),
        "@html" => {
            let escaped = plain().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            Ok(escaped.replace('\'', "&#39;").replace('"', "&quot;"))
        }
        _ => super::builtins::unknown(name),
    }
}

fn uri_byte(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

pub(super) fn trimmed<'a>(input: &'a Value, part: &'a Value, cut: fn(&'a str, &'a str) -> Option<&'a str>) -> Value {
    match (input, part) {
        (Value::Str(text), Value::Str(part)) => cut(text, part).map_or_else(|| input.clone(), Value::str),
        _ => input.clone(),
    }
}

pub(super) fn join(jq: &mut Interpreter, input: &Value, separator: &str) -> Outcome<Value> {
    let mut joined = String::new();
    for (position, item) in list(input)?.iter().enumerate() {
        if position > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&item.to_text());
        if joined.len() > jq.budget.output_bytes {
            return Err(Raise::Stop(crate::budget::too_large()));
        }
    }
    Ok(Value::str(joined))
}

/// jq's `contains`: texts by substring, lists and maps member by member.
pub(super) fn holds(jq: &mut Interpreter, whole: &Value, part: &Value) -> Outcome<bool> {
    jq.spend(1)?;
    Ok(match (whole, part) {
        (Value::Str(whole), Value::Str(part)) => whole.contains(&**part),
        (Value::List(whole), Value::List(parts)) => {
            for part in parts.iter() {
                let mut found = false;
                for item in whole.iter() {
                    found = found || holds(jq, item, part)?;
                }
                if !found {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(_) | Value::HeaderMap(_), Value::Map(parts)) => {
            for (key, part) in parts.iter() {
                match whole.get(key) {
                    Some(item) if holds(jq, &item, part)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        _ => ops::equal(whole, part),
    })
}

pub(super) fn positions(name: &str, input: &Value, wanted: &Value) -> Outcome<Value> {
    let found: Vec<Value> = match (input, wanted) {
        (Value::Str(whole), Value::Str(part)) if !part.is_empty() => {
            let (mut bytes, mut letters) = (0, 0);
            let mut position = |at: usize| {
                letters += whole[bytes..at].chars().count() as i128;
                bytes = at;
                Value::Int(letters)
            };
            whole.match_indices(&**part).map(|(at, _)| position(at)).collect()
        }
        (Value::List(items), wanted) => {
            let same = items.iter().enumerate().filter(|(_, item)| ops::equal(item, wanted));
            same.map(|(at, _)| Value::Int(at as i128)).collect()
        }
        _ => Vec::new(),
    };
    Ok(match name {
        "indices" => Value::list(found),
        "index" => found.first().cloned().unwrap_or(Value::Null),
        _ => found.last().cloned().unwrap_or(Value::Null),
    })
}
