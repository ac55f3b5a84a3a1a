//! Plain rules of jq values: literals, truth, indexing, and the total order.

use std::cmp::Ordering;

use indexmap::IndexMap;
use jaq_core::ops::Cmp;

use super::eval::{Outcome, fail};
use crate::ops;
use crate::value::Value;

pub(super) fn literal(text: &str) -> Outcome<Value> {
    if let Ok(whole) = text.parse::<i128>() {
        return Ok(Value::Int(whole));
    }
    match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() < 1e18 => Ok(Value::Int(number as i128)),
        Ok(number) if number.is_finite() => Ok(Value::Float(number)),
        _ => fail("a number is out of range"),
    }
}

pub(super) fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

pub(super) fn text(value: &Value) -> Outcome<&str> {
    match value {
        Value::Str(text) => Ok(text),
        other => fail(format!("expected a text, found {}", other.kind())),
    }
}

pub(super) fn members(value: &Value) -> Vec<Value> {
    match value {
        Value::List(items) => items.to_vec(),
        Value::Map(entries) | Value::HeaderMap(entries) => entries.values().cloned().collect(),
        _ => Vec::new(),
    }
}

/// `.[key]`: null where nothing is, an error where nothing can be.
pub(super) fn index(value: &Value, key: &Value) -> Outcome<Value> {
    match (value, key) {
        (Value::Null, Value::Str(_) | Value::Int(_) | Value::Null) => Ok(Value::Null),
        (Value::Map(_) | Value::HeaderMap(_), Value::Str(name)) => Ok(value.get(name).unwrap_or(Value::Null)),
        (Value::List(items), Value::Int(position)) => {
            let position = if *position < 0 { position + items.len() as i128 } else { *position };
            Ok(usize::try_from(position).ok().and_then(|position| items.get(position).cloned()).unwrap_or(Value::Null))
        }
        (value, key) => fail(format!("cannot index {} with {}", value.kind(), key.kind())),
    }
}

pub(super) fn slice(value: &Value, from: Option<i128>, to: Option<i128>) -> Outcome<Value> {
    let cut = |length: usize| {
        let place =
            |bound: i128| (if bound < 0 { bound + length as i128 } else { bound }).clamp(0, length as i128) as usize;
        let (from, to) = (from.map_or(0, place), to.map_or(length, place));
        from.min(to)..to
    };
    match value {
        Value::Null => Ok(Value::Null),
        Value::List(items) => Ok(Value::list(items[cut(items.len())].to_vec())),
        Value::Str(text) => {
            let letters: Vec<char> = text.chars().collect();
            Ok(Value::str(letters[cut(letters.len())].iter().collect::<String>()))
        }
        other => fail(format!("cannot slice {}", other.kind())),
    }
}

pub(super) fn compare(op: Cmp, left: &Value, right: &Value) -> bool {
    match op {
        Cmp::Eq => ops::equal(left, right),
        Cmp::Ne => !ops::equal(left, right),
        Cmp::Lt => order(left, right).is_lt(),
        Cmp::Le => order(left, right).is_le(),
        Cmp::Gt => order(left, right).is_gt(),
        Cmp::Ge => order(left, right).is_ge(),
    }
}

/// jq's total order: null, false, true, numbers, texts, lists, maps. Numbers compare as floats, so it stays total.
pub(super) fn order(left: &Value, right: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Int(_) | Value::Float(_) => 3,
        Value::Str(_) | Value::Tainted(_) | Value::Deferred(_) => 4,
        Value::List(_) => 5,
        Value::Map(_) | Value::HeaderMap(_) => 6,
    };
    let sorted = |entries: &IndexMap<String, Value>| {
        let mut pairs: Vec<(String, Value)> = entries.iter().map(|(key, item)| (key.clone(), item.clone())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.into_iter().unzip::<String, Value, Vec<_>, Vec<_>>()
    };
    rank(left).cmp(&rank(right)).then_with(|| match (left, right) {
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => order_lists(a, b),
        (Value::Map(a) | Value::HeaderMap(a), Value::Map(b) | Value::HeaderMap(b)) => {
            let ((keys, values), (other_keys, other_values)) = (sorted(a), sorted(b));
            keys.cmp(&other_keys).then_with(|| order_lists(&values, &other_values))
        }
        _ => ops::float(left).unwrap_or(0.0).total_cmp(&ops::float(right).unwrap_or(0.0)),
    })
}

fn order_lists(left: &[Value], right: &[Value]) -> Ordering {
    let different = left.iter().zip(right).map(|(a, b)| order(a, b)).find(|ordering| ordering.is_ne());
    different.unwrap_or_else(|| left.len().cmp(&right.len()))
}
