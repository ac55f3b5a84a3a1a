//! The named functions of jq that queries use. Nothing here reads a clock, the environment or other inputs.

use indexmap::IndexMap;
use jaq_core::ops::Math;

use super::eval::{Env, Interpreter, Out, Outcome, Raise, fail};
use super::order::{index, members, order, text, truthy};
use super::paths::{delete_all, get, keys};
use super::values::{
    entry, flattened, format, from_entries, holds, join, length, list, number, positions, rounded, to_number,
    transpose, trimmed, type_name,
};
use super::{JqTerm, refused};
use crate::ops;
use crate::value::Value;

pub(super) fn call(
    jq: &mut Interpreter,
    name: &str,
    args: &[JqTerm],
    input: &Value,
    env: Option<&Env>,
    out: Out,
) -> Outcome<()> {
    jq.spend(input_cost(input))?;
    match args {
        [] => match plain(jq, name, input)? {
            Some(value) => {
                let value = jq.built(value)?;
                out.push(value);
                Ok(())
            }
            None => stream(jq, name, input, out),
        },
        [term] => one(jq, name, term, input, env, out),
        [first, second] => two(jq, name, first, second, input, env, out),
        [first, second, third] if name == "range" => {
            for from in jq.all(first, input, env)? {
                for to in jq.all(second, input, env)? {
                    for by in jq.all(third, input, env)? {
                        range(jq, &from, &to, &by, out)?;
                    }
                }
            }
            Ok(())
        }
        _ => unknown(name),
    }
}

/// Sorting, comparing and searching look at all members.
fn input_cost(input: &Value) -> u64 {
    match input {
        Value::List(items) => items.len() as u64 / 4,
        Value::Map(entries) | Value::HeaderMap(entries) => entries.len() as u64 / 4,
        Value::Str(text) => text.len() as u64 / 128,
        _ => 0,
    }
}

pub(super) fn unknown<T>(name: &str) -> Outcome<T> {
    Err(Raise::Stop(refused(&format!("the function `{name}` is not supported"))))
}

/// Functions of no argument with any number of outputs.
fn stream(jq: &mut Interpreter, name: &str, input: &Value, out: Out) -> Outcome<()> {
    let keep = match name {
        "empty" => false,
        "error" => return Err(Raise::Error(input.clone())),
        "recurse" => return jq.descend(input, out),
        "paths" | "leaf_paths" => {
            for place in jq.every_place(input)?.into_iter().skip(1) {
                if name == "paths" || members(&get(input, &place)?).is_empty() {
                    out.push(Value::list(place));
                }
            }
            return Ok(());
        }
        "values" => *input != Value::Null,
        "nulls" => *input == Value::Null,
        "booleans" => matches!(input, Value::Bool(_)),
        "numbers" => matches!(input, Value::Int(_) | Value::Float(_)),
        "strings" => matches!(input, Value::Str(_)),
        "arrays" => matches!(input, Value::List(_)),
        "objects" => matches!(input, Value::Map(_) | Value::HeaderMap(_)),
        "iterables" => matches!(input, Value::List(_) | Value::Map(_) | Value::HeaderMap(_)),
        "scalars" => !matches!(input, Value::List(_) | Value::Map(_) | Value::HeaderMap(_)),
        _ => return unknown(name),
    };
    if keep {
        out.push(input.clone());
    }
    Ok(())
}

fn sorted(input: &Value) -> Outcome<Vec<Value>> {
    let mut items = list(input)?.to_vec();
    items.sort_by(order);
    Ok(items)
}

fn plain(jq: &mut Interpreter, name: &str, input: &Value) -> Outcome<Option<Value>> {
    Ok(Some(match name {
        "not" => Value::Bool(!truthy(input)),
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        "length" => length(input)?,
        "utf8bytelength" => Value::Int(text(input)?.len() as i128),
        "keys" | "keys_unsorted" => {
            if !matches!(input, Value::List(_) | Value::Map(_) | Value::HeaderMap(_)) {
                return fail(format!("{} has no keys", input.kind()));
            }
            let mut keys = keys(input);
            if name == "keys" {
                keys.sort_by(order);
            }
            Value::list(keys)
        }
        "add" => {
            let mut sum = Value::Null;
            for item in members(input) {
                sum = jq.math(Math::Add, &sum, &item)?;
            }
            sum
        }
        "any" => Value::Bool(members(input).iter().any(truthy)),
        "all" => Value::Bool(members(input).iter().all(truthy)),
        "flatten" => Value::list(flattened(jq, list(input)?, 1_000)?),
        "first" => index(input, &Value::Int(0))?,
        "last" => index(input, &Value::Int(-1))?,
        "sort" => Value::list(sorted(input)?),
        "unique" => {
            let mut items = sorted(input)?;
            items.dedup_by(|a, b| order(a, b).is_eq());
            Value::list(items)
        }
        "min" => list(input)?.iter().min_by(|a, b| order(a, b)).cloned().unwrap_or(Value::Null),
        "max" => list(input)?.iter().max_by(|a, b| order(a, b)).cloned().unwrap_or(Value::Null),
        "reverse" => match input {
            Value::Str(text) => Value::str(text.chars().rev().collect::<String>()),
            Value::Null => Value::list(Vec::new()),
            other => Value::list(list(other)?.iter().rev().cloned().collect()),
        },
        "floor" => rounded(input, f64::floor)?,
        "ceil" => rounded(input, f64::ceil)?,
        "round" => rounded(input, f64::round)?,
        "sqrt" => Value::Float(number(input)?.sqrt()),
        "abs" | "fabs" => match input {
            Value::Int(whole) => Value::Int(whole.saturating_abs()),
            other => Value::Float(number(other)?.abs()),
        },
        "tostring" => Value::str(format("@text", input)?),
        "tojson" => Value::str(format("@json", input)?),
        "tonumber" => to_number(input)?,
        "fromjson" => match serde_json::from_str(text(input)?) {
            Ok(json) => Value::from_json(&json),
            Err(_) => return fail("the text is not JSON"),
        },
        "type" => Value::str(type_name(input)),
        "ascii_downcase" => Value::str(text(input)?.to_ascii_lowercase()),
        "ascii_upcase" => Value::str(text(input)?.to_ascii_uppercase()),
        "trim" => Value::str(text(input)?.trim()),
        "ltrim" => Value::str(text(input)?.trim_start()),
        "rtrim" => Value::str(text(input)?.trim_end()),
        "to_entries" => Value::list(keys(input).into_iter().map(|key| entry(input, key)).collect::<Outcome<_>>()?),
        "from_entries" => from_entries(input)?,
        "transpose" => transpose(jq, input)?,
        name if name.starts_with('@') => Value::str(format(name, input)?),
        _ => return Ok(None),
    }))
}

/// Functions whose argument is a filter run on each member.
fn one(jq: &mut Interpreter, name: &str, term: &JqTerm, input: &Value, env: Option<&Env>, out: Out) -> Outcome<()> {
    match name {
        "select" => {
            for holds in jq.all(term, input, env)? {
                if truthy(&holds) {
                    out.push(input.clone());
                }
            }
            Ok(())
        }
        "map" => {
            let mut items = Vec::new();
            if !matches!(input, Value::List(_) | Value::Map(_) | Value::HeaderMap(_)) {
                return fail(format!("cannot iterate over {}", input.kind()));
            }
            for item in members(input) {
                jq.eval(term, &item, env, &mut items)?;
            }
            push(jq, Value::list(items), out)
        }
        "map_values" => map_values(jq, term, input, env, out),
        "with_entries" => {
            let mut entries = Vec::new();
            for key in keys(input) {
                jq.eval(term, &entry(input, key)?, env, &mut entries)?;
            }
            push(jq, from_entries(&Value::list(entries))?, out)
        }
        "any" | "all" => {
            let mut holds = Vec::new();
            for item in members(input) {
                jq.eval(term, &item, env, &mut holds)?;
            }
            let result = if name == "any" { holds.iter().any(truthy) } else { holds.iter().all(truthy) };
            push(jq, Value::Bool(result), out)
        }
        "sort_by" | "group_by" | "unique_by" | "min_by" | "max_by" => by_key(jq, name, term, input, env, out),
        "first" => {
            out.extend(jq.all(term, input, env)?.into_iter().next());
            Ok(())
        }
        "last" => {
            out.extend(jq.all(term, input, env)?.pop());
            Ok(())
        }
        "isempty" => {
            let empty = jq.all(term, input, env)?.is_empty();
            push(jq, Value::Bool(empty), out)
        }
        "add" => {
            let mut sum = Value::Null;
            for item in jq.all(term, input, env)? {
                sum = jq.math(Math::Add, &sum, &item)?;
            }
            push(jq, sum, out)
        }
        "del" => {
            let places = jq.places(term, input, env)?;
            jq.spend((places.len() * (1 + input.weight() / 128)) as u64)?;
            push(jq, delete_all(input, places), out)
        }
        "path" => {
            out.extend(jq.places(term, input, env)?.into_iter().map(Value::list));
            Ok(())
        }
        _ => {
            for argument in jq.all(term, input, env)? {
                with_value(jq, name, &argument, input, out)?;
            }
            Ok(())
        }
    }
}

fn push(jq: &mut Interpreter, value: Value, out: Out) -> Outcome<()> {
    let value = jq.built(value)?;
    out.push(value);
    Ok(())
}

fn map_values(jq: &mut Interpreter, term: &JqTerm, input: &Value, env: Option<&Env>, out: Out) -> Outcome<()> {
    let value = match input {
        Value::Map(entries) | Value::HeaderMap(entries) => {
            let mut map = IndexMap::new();
            for (key, item) in entries.iter() {
                if let Some(new) = jq.all(term, item, env)?.into_iter().next() {
                    map.insert(key.clone(), new);
                }
            }
            Value::map(map)
        }
        other => {
            let mut items = Vec::new();
            for item in list(other)? {
                items.extend(jq.all(term, item, env)?.into_iter().next());
            }
            Value::list(items)
        }
    };
    push(jq, value, out)
}

fn by_key(jq: &mut Interpreter, name: &str, term: &JqTerm, input: &Value, env: Option<&Env>, out: Out) -> Outcome<()> {
    let mut keyed = Vec::new();
    for item in list(input)? {
        let key = Value::list(jq.all(term, item, env)?);
        keyed.push((key, item.clone()));
    }
    keyed.sort_by(|a, b| order(&a.0, &b.0));
    let items = |keyed: Vec<(Value, Value)>| Value::list(keyed.into_iter().map(|(_, item)| item).collect());
    let value = match name {
        "sort_by" => items(keyed),
        "min_by" => keyed.into_iter().next().map_or(Value::Null, |(_, item)| item),
        "max_by" => keyed.into_iter().next_back().map_or(Value::Null, |(_, item)| item),
        "unique_by" => {
            keyed.dedup_by(|a, b| order(&a.0, &b.0).is_eq());
            items(keyed)
        }
        _ => {
            let groups = keyed.chunk_by(|a, b| order(&a.0, &b.0).is_eq());
            Value::list(groups.map(|group| items(group.to_vec())).collect())
        }
    };
    push(jq, value, out)
}

/// Functions whose argument is a value.
fn with_value(jq: &mut Interpreter, name: &str, argument: &Value, input: &Value, out: Out) -> Outcome<()> {
    let value = match name {
        "error" => return Err(Raise::Error(argument.clone())),
        "range" => return range(jq, &Value::Int(0), argument, &Value::Int(1), out),
        "has" => match (input, argument) {
            (Value::Map(_) | Value::HeaderMap(_), Value::Str(key)) => Value::Bool(input.get(key).is_some()),
            (Value::List(items), Value::Int(at)) => Value::Bool((0..items.len() as i128).contains(at)),
            _ => {
                return fail(format!("cannot ask {} for {}", input.kind(), argument.kind()));
            }
        },
        "in" => return with_value(jq, "has", input, argument, out),
        "contains" => Value::Bool(holds(jq, input, argument)?),
        "inside" => Value::Bool(holds(jq, argument, input)?),
        "startswith" => Value::Bool(text(input)?.starts_with(text(argument)?)),
        "endswith" => Value::Bool(text(input)?.ends_with(text(argument)?)),
        "ltrimstr" => trimmed(input, argument, |text, part| text.strip_prefix(part)),
        "rtrimstr" => trimmed(input, argument, |text, part| text.strip_suffix(part)),
        "split" => Value::list(text(input)?.split(text(argument)?).map(Value::str).collect()),
        "join" => join(jq, input, text(argument)?)?,
        "flatten" => match argument {
            Value::Int(levels) => Value::list(flattened(jq, list(input)?, *levels)?),
            other => {
                return fail(format!("flatten needs a whole number, found {}", other.kind()));
            }
        },
        "test" => {
            jq.spend(50)?;
            Value::Bool(ops::regex(text(argument)?)?.is_match(text(input)?))
        }
        "index" | "indices" | "rindex" => positions(name, input, argument)?,
        "getpath" => get(input, list(argument)?)?,
        "nth" => index(input, argument)?,
        "splits" => {
            jq.spend(50)?;
            let regex = ops::regex(text(argument)?)?;
            out.extend(regex.split(text(input)?).map(Value::str));
            return Ok(());
        }
        _ => return unknown(name),
    };
    push(jq, value, out)
}

fn range(jq: &mut Interpreter, from: &Value, to: &Value, by: &Value, out: Out) -> Outcome<()> {
    let (mut at, to, by) = (number(from)?, number(to)?, number(by)?);
    if by == 0.0 {
        return fail("a range needs a step other than zero");
    }
    while if by > 0.0 { at < to } else { at > to } {
        jq.spend(1)?;
        out.push(if at.fract() == 0.0 { Value::Int(at as i128) } else { Value::Float(at) });
        at += by;
    }
    Ok(())
}

fn two(
    jq: &mut Interpreter,
    name: &str,
    first: &JqTerm,
    second: &JqTerm,
    input: &Value,
    env: Option<&Env>,
    out: Out,
) -> Outcome<()> {
    let firsts = jq.all(first, input, env)?;
    match name {
        "limit" | "nth" => {
            for count in &firsts {
                let count = number(count)?.max(0.0) as usize;
                let items = jq.all(second, input, env)?;
                if name == "nth" {
                    out.extend(items.into_iter().nth(count));
                } else {
                    out.extend(items.into_iter().take(count));
                }
            }
            return Ok(());
        }
        "range" => {
            for from in &firsts {
                for to in jq.all(second, input, env)? {
                    range(jq, from, &to, &Value::Int(1), out)?;
                }
            }
            return Ok(());
        }
        _ => {}
    }
    for a in &firsts {
        for b in jq.all(second, input, env)? {
            let value = match name {
                "sub" | "gsub" => substitute(jq, name, input, a, &b)?,
                "setpath" => jq.set(input, list(a)?, b)?,
                "test" => {
                    jq.spend(50)?;
                    Value::Bool(ops::regex(&with_flags(text(a)?, &b)?)?.is_match(text(input)?))
                }
                "split" => {
                    jq.spend(50)?;
                    let regex = ops::regex(&with_flags(text(a)?, &b)?)?;
                    Value::list(regex.split(text(input)?).map(Value::str).collect())
                }
                _ => return unknown(name),
            };
            push(jq, value, out)?;
        }
    }
    Ok(())
}

fn with_flags(pattern: &str, flags: &Value) -> Outcome<String> {
    let insensitive = matches!(flags, Value::Str(flags) if flags.contains('i'));
    Ok(if insensitive { format!("(?i){pattern}") } else { pattern.to_owned() })
}

fn substitute(jq: &mut Interpreter, name: &str, input: &Value, pattern: &Value, new: &Value) -> Outcome<Value> {
    jq.spend(50)?;
    let (whole, new, regex) = (text(input)?, text(new)?, ops::regex(text(pattern)?)?);
    let mut out = String::new();
    let mut from = 0;
    for found in regex.find_iter(whole).take(if name == "sub" { 1 } else { usize::MAX }) {
        out.push_str(&whole[from..found.start()]);
        out.push_str(new);
        from = found.end();
        if out.len() > jq.budget.output_bytes {
            return Err(Raise::Stop(crate::budget::too_large()));
        }
    }
    out.push_str(&whole[from..]);
    Ok(Value::str(out))
}
