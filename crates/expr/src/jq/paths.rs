//! Places inside a value, for `|=`, `=`, `del` and `paths`.

use jaq_core::load::parse::BinaryOp;
use jaq_core::path::Part;

use super::JqTerm;
use super::eval::{Env, Interpreter, Out, Outcome, fail};
use super::order::{index, truthy};
use crate::value::Value;

pub(super) type Place = Vec<Value>;

impl Interpreter<'_> {
    /// The places a path expression names inside `input`.
    pub(super) fn places(&mut self, term: &JqTerm, input: &Value, env: Option<&Env>) -> Outcome<Vec<Place>> {
        self.spend(1)?;
        match term {
            JqTerm::Id => Ok(vec![Vec::new()]),
            JqTerm::Recurse => self.every_place(input),
            JqTerm::Path(head, path) => {
                let mut places = self.places(head, input, env)?;
                for (part, _) in &path.0 {
                    let mut next = Vec::new();
                    for place in places {
                        let value = get(input, &place)?;
                        for key in self.keys_of(&value, part, input, env)? {
                            self.spend(1 + place.len() as u64)?;
                            next.push(place.iter().cloned().chain([key]).collect());
                        }
                    }
                    places = next;
                }
                Ok(places)
            }
            JqTerm::BinOp(left, BinaryOp::Pipe(None), right) => {
                let mut out = Vec::new();
                for place in self.places(left, input, env)? {
                    let value = get(input, &place)?;
                    for tail in self.places(right, &value, env)? {
                        self.spend(1 + (place.len() + tail.len()) as u64)?;
                        out.push(place.iter().cloned().chain(tail).collect());
                    }
                }
                Ok(out)
            }
            JqTerm::BinOp(left, BinaryOp::Comma, right) => {
                let mut out = self.places(left, input, env)?;
                out.extend(self.places(right, input, env)?);
                Ok(out)
            }
            JqTerm::Call("empty", _) => Ok(Vec::new()),
            JqTerm::Call("select", args) => {
                let Some(condition) = args.first() else {
                    return fail("select needs a condition");
                };
                let holds = self.all(condition, input, env)?;
                Ok(holds.iter().filter(|value| truthy(value)).map(|_| Vec::new()).collect())
            }
            _ => fail("this is not a path"),
        }
    }

    fn keys_of(&mut self, value: &Value, part: &Part<JqTerm>, input: &Value, env: Option<&Env>) -> Outcome<Vec<Value>> {
        match part {
            Part::Index(key) => self.all(key, input, env),
            Part::Range(None, None) => Ok(keys(value)),
            Part::Range(..) => fail("slices cannot be updated"),
        }
    }

    pub(super) fn every_place(&mut self, input: &Value) -> Outcome<Vec<Place>> {
        let mut out: Vec<Place> = vec![Vec::new()];
        let mut next = 0;
        while let Some(place) = out.get(next).cloned() {
            next += 1;
            for key in keys(&get(input, &place)?) {
                self.spend(1 + place.len() as u64)?;
                out.push(place.iter().cloned().chain([key]).collect());
            }
        }
        Ok(out)
    }

    pub(super) fn update(
        &mut self,
        left: &JqTerm,
        op: &BinaryOp<&str>,
        right: &JqTerm,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let places = self.places(left, input, env)?;
        // `=` and its arithmetic kin evaluate their right side on the whole input, `|=` on each place.
        let rights = if matches!(op, BinaryOp::Update) { vec![Value::Null] } else { self.all(right, input, env)? };
        for outer in &rights {
            let mut result = input.clone();
            for place in &places {
                let old = get(&result, place)?;
                let new = match op {
                    BinaryOp::Update => self.all(right, &old, env)?.into_iter().next(),
                    BinaryOp::UpdateMath(math) => Some(self.math(*math, &old, outer)?),
                    BinaryOp::UpdateAlt if truthy(&old) => Some(old),
                    _ => Some(outer.clone()),
                };
                self.spend(1 + result.weight() as u64 / 128)?;
                result = match new {
                    Some(new) => self.set(&result, place, new)?,
                    None => delete(&result, place),
                };
            }
            let result = self.built(result)?;
            out.push(result);
        }
        Ok(())
    }

    /// A copy of `value` with `new` at the place; missing maps and list positions are made.
    pub(super) fn set(&mut self, value: &Value, place: &[Value], new: Value) -> Outcome<Value> {
        let Some((key, rest)) = place.split_first() else {
            return Ok(new);
        };
        self.spend(1)?;
        let inner = self.set(&index(value, key)?, rest, new)?;
        match (value, key) {
            (Value::Map(_) | Value::HeaderMap(_) | Value::Null, Value::Str(name)) => {
                let mut map = match value {
                    Value::Map(entries) | Value::HeaderMap(entries) => (**entries).clone(),
                    _ => indexmap::IndexMap::new(),
                };
                map.insert(name.to_string(), inner);
                Ok(Value::map(map))
            }
            (Value::List(_) | Value::Null, Value::Int(position)) => {
                let mut list = if let Value::List(items) = value { items.to_vec() } else { Vec::new() };
                let position = if *position < 0 { position + list.len() as i128 } else { *position };
                let Ok(position) = usize::try_from(position) else {
                    return fail("a position lies before the list");
                };
                self.spend(position.saturating_sub(list.len()) as u64)?;
                if position >= list.len() {
                    list.resize(position + 1, Value::Null);
                }
                list[position] = inner;
                Ok(Value::list(list))
            }
            _ => fail("this place cannot be set"),
        }
    }
}

/// Deletes places, later ones first so that positions stay right.
pub(super) fn delete_all(value: &Value, mut places: Vec<Place>) -> Value {
    places.sort_by(|a, b| super::order::order(&Value::list(b.clone()), &Value::list(a.clone())));
    places.iter().fold(value.clone(), |value, place| delete(&value, place))
}

fn delete(value: &Value, place: &[Value]) -> Value {
    match (value, place) {
        (_, []) => Value::Null,
        (Value::Map(entries) | Value::HeaderMap(entries), [Value::Str(name), rest @ ..]) => {
            let mut map = (**entries).clone();
            if rest.is_empty() {
                map.shift_remove(&**name);
            } else if let Some(inner) = map.get_mut(&**name) {
                *inner = delete(inner, rest);
            }
            Value::map(map)
        }
        (Value::List(items), [Value::Int(position), rest @ ..]) => {
            let mut list = items.to_vec();
            let position = if *position < 0 { position + list.len() as i128 } else { *position };
            match usize::try_from(position).ok().filter(|position| *position < list.len()) {
                Some(position) if rest.is_empty() => drop(list.remove(position)),
                Some(position) => list[position] = delete(&list[position], rest),
                None => {}
            }
            Value::list(list)
        }
        (other, _) => other.clone(),
    }
}

pub(super) fn keys(value: &Value) -> Vec<Value> {
    match value {
        Value::List(items) => (0..items.len()).map(|position| Value::Int(position as i128)).collect(),
        Value::Map(entries) | Value::HeaderMap(entries) => entries.keys().map(Value::str).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn get(value: &Value, place: &[Value]) -> Outcome<Value> {
    let mut value = value.clone();
    for key in place {
        value = index(&value, key)?;
    }
    Ok(value)
}
