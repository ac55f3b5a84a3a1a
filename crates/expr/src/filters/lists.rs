//! Filters on lists and maps.

use crate::filters::Args;
use crate::value::Value;
use crate::{Budget, EvalError, budget as limits, ops};

pub(super) fn apply(name: &str, input: &Value, args: &Args, budget: &mut Budget) -> Result<Value, EvalError> {
    match name {
        "first" => Ok(end(input, name)?.0),
        "last" => Ok(end(input, name)?.1),
        "length" => length(input),
        "keys" => keys(input),
        "values" => Ok(Value::list(members(input, name)?)),
        "chunk" => chunk(input, args),
        "flatten" => flatten(input),
        "slice" => slice(input, args),
        "join" => join(input, args, budget),
        "sort" | "rsort" => sort(name, input),
        "reverse" => reverse(input),
        "distinct" => distinct(input, budget),
        _ => merge(input, args),
    }
}

fn wrong(name: &str, input: &Value) -> EvalError {
    EvalError::type_error(format!("filter `{name}` cannot take {}", input.kind()))
}

fn members(input: &Value, name: &str) -> Result<Vec<Value>, EvalError> {
    match input {
        Value::List(items) => Ok(items.to_vec()),
        Value::Map(entries) | Value::HeaderMap(entries) => Ok(entries.values().cloned().collect()),
        Value::Null => Ok(Vec::new()),
        other => Err(wrong(name, other)),
    }
}

/// First and last member; of a text its first and last letter.
fn end(input: &Value, name: &str) -> Result<(Value, Value), EvalError> {
    if let Value::Str(text) = input {
        let letter = |letter: Option<char>| letter.map_or(Value::Null, |letter| Value::str(letter.to_string()));
        return Ok((letter(text.chars().next()), letter(text.chars().next_back())));
    }
    let members = members(input, name)?;
    let pick = |member: Option<&Value>| member.cloned().unwrap_or(Value::Null);
    Ok((pick(members.first()), pick(members.last())))
}

fn length(input: &Value) -> Result<Value, EvalError> {
    let length = match input {
        Value::Null => 0,
        Value::Str(text) => text.chars().count(),
        Value::List(items) => items.len(),
        Value::Map(entries) | Value::HeaderMap(entries) => entries.len(),
        _ => 0,
    };
    Ok(Value::Int(length as i128))
}

fn keys(input: &Value) -> Result<Value, EvalError> {
    match input {
        Value::Map(entries) | Value::HeaderMap(entries) => Ok(Value::list(entries.keys().map(Value::str).collect())),
        Value::List(items) => Ok(Value::list((0..items.len()).map(|index| Value::Int(index as i128)).collect())),
        Value::Null => Ok(Value::list(Vec::new())),
        other => Err(wrong("keys", other)),
    }
}

fn chunk(input: &Value, args: &Args) -> Result<Value, EvalError> {
    let size = args.int(0, "size", "chunk")?.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    let size = size.ok_or_else(|| EvalError::type_error("`chunk` needs a size of at least 1"))?;
    Ok(Value::list(members(input, "chunk")?.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect()))
}

/// One level of nested lists is dissolved.
fn flatten(input: &Value) -> Result<Value, EvalError> {
    let Value::List(items) = input else { return Err(wrong("flatten", input)) };
    let mut out = Vec::new();
    for item in items.iter() {
        match item {
            Value::List(inner) => out.extend(inner.iter().cloned()),
            one => out.push(one.clone()),
        }
    }
    Ok(Value::list(out))
}

fn slice(input: &Value, args: &Args) -> Result<Value, EvalError> {
    let bound = |value: Option<i64>, default: usize, length: usize| match value {
        None => default,
        Some(number) => usize::try_from(number).unwrap_or(0).min(length),
    };
    let (from, to) = (args.int(0, "fromIndex", "slice")?, args.int(1, "toIndex", "slice")?);
    let cut = |length: usize| {
        let to = bound(to, length, length);
        (bound(from, 0, length).min(to), to)
    };
    match input {
        Value::Str(text) => {
            let letters: Vec<char> = text.chars().collect();
            let (from, to) = cut(letters.len());
            Ok(Value::str(letters[from..to].iter().collect::<String>()))
        }
        other => {
            let members = members(other, "slice")?;
            let (from, to) = cut(members.len());
            Ok(Value::list(members[from..to].to_vec()))
        }
    }
}

fn join(input: &Value, args: &Args, budget: &Budget) -> Result<Value, EvalError> {
    if let Value::Str(_) = input {
        return Ok(input.clone());
    }
    let separator = args.text(0, "separator").unwrap_or_default();
    let mut out = String::new();
    for (index, member) in members(input, "join")?.iter().enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&if *member == Value::Null { "null".to_owned() } else { member.to_text() });
        if out.len() > budget.output_bytes {
            return Err(limits::too_large());
        }
    }
    Ok(Value::str(out))
}

fn sort(name: &str, input: &Value) -> Result<Value, EvalError> {
    let mut items = members(input, name)?;
    // Comparing neighbours first finds mixed kinds, which a sort has no order for.
    for pair in items.windows(2) {
        ops::order(&pair[0], &pair[1])?;
    }
    // Whole numbers beside floats compare as floats throughout: a mixed rule would be no total order.
    if items.iter().any(|item| matches!(item, Value::Float(_))) {
        items.sort_by(|a, b| ops::float(a).unwrap_or(0.0).total_cmp(&ops::float(b).unwrap_or(0.0)));
    } else {
        items.sort_by(|a, b| ops::order(a, b).unwrap_or(std::cmp::Ordering::Equal));
    }
    if name == "rsort" {
        items.reverse();
    }
    Ok(Value::list(items))
}

fn reverse(input: &Value) -> Result<Value, EvalError> {
    match input {
        Value::Str(text) => Ok(Value::str(text.chars().rev().collect::<String>())),
        other => {
            let mut items = members(other, "reverse")?;
            items.reverse();
            Ok(Value::list(items))
        }
    }
}

fn distinct(input: &Value, budget: &mut Budget) -> Result<Value, EvalError> {
    let mut seen = indexmap::IndexMap::new();
    for item in members(input, "distinct")? {
        limits::spend(budget, 1)?;
        seen.entry(super::json_text(&item)).or_insert(item);
    }
    Ok(Value::list(seen.into_values().collect()))
}

fn merge(input: &Value, args: &Args) -> Result<Value, EvalError> {
    match (input, args.required(0, "items", "merge")?) {
        (one, Value::Null) => Ok(one.clone()),
        (Value::Map(left) | Value::HeaderMap(left), Value::List(right)) => {
            let mut merged = (**left).clone();
            merged.extend(right.iter().map(|item| (item.to_text(), item.clone())));
            Ok(Value::map(merged))
        }
        (Value::Map(left) | Value::HeaderMap(left), Value::Map(right) | Value::HeaderMap(right)) => {
            let mut merged = (**left).clone();
            merged.extend(right.iter().map(|(key, item)| (key.clone(), item.clone())));
            Ok(Value::map(merged))
        }
        (left, right) => {
            let mut merged = members(left, "merge")?;
            merged.extend(members(right, "merge")?);
            Ok(Value::list(merged))
        }
    }
}
