//! Operators and tests on plain values. The evaluator reveals secrets before and seals results after.

use std::cmp::Ordering;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::EvalError;
use crate::ast::{BinaryOp, Test, UnaryOp};
use crate::value::Value;

/// Truth inside an expression: a text is true when it is not empty, so `'false'` is. What a whole template rendered to
/// has another rule, [`Value::is_truthy_text`].
pub(crate) fn truthy(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) | Value::HeaderMap(entries) => !entries.is_empty(),
        other => other.is_truthy_text(),
    }
}

/// Null, blank text, or a container without members.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Str(text) => text.trim().is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) | Value::HeaderMap(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Operators whose boolean may steer the flow although it was computed through a secret.
pub(crate) fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Contains | IsIn | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual | Matches)
}

pub(crate) fn test(test: Test, value: &Value) -> Result<bool, EvalError> {
    Ok(match test {
        Test::Defined => *value != Value::Null,
        Test::Null => *value == Value::Null,
        Test::Empty => is_empty(value),
        Test::Even => whole(value)? % 2 == 0,
        Test::Odd => whole(value)? % 2 != 0,
        Test::Iterable => matches!(value, Value::List(_)),
        Test::Map => matches!(value, Value::Map(_) | Value::HeaderMap(_)),
        Test::Json => match value {
            Value::Str(text) => serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(),
            Value::List(_) | Value::Map(_) | Value::HeaderMap(_) => true,
            _ => false,
        },
    })
}

fn whole(value: &Value) -> Result<i128, EvalError> {
    match value {
        Value::Int(number) => Ok(*number),
        other => Err(EvalError::type_error(format!("expected a whole number, found {}", other.kind()))),
    }
}

pub(crate) fn sign(op: UnaryOp, value: &Value) -> Result<Value, EvalError> {
    match (op, &operand(value)) {
        (UnaryOp::Minus, Value::Int(number)) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        (UnaryOp::Minus, Value::Float(number)) => Ok(Value::Float(-number)),
        (_, number @ (Value::Int(_) | Value::Float(_))) => Ok(number.clone()),
        (_, other) => Err(EvalError::type_error(format!("a sign needs a number, found {}", other.kind()))),
    }
}

type Spend<'a> = &'a mut dyn FnMut(u64) -> Result<(), EvalError>;

pub(crate) fn binary(op: BinaryOp, left: &Value, right: &Value, spend: Spend) -> Result<Value, EvalError> {
    use BinaryOp::*;
    Ok(match op {
        Equal => Value::Bool(equal(left, right)),
        NotEqual => Value::Bool(!equal(left, right)),
        // Nothing is neither smaller nor larger than anything.
        Less | LessEqual | Greater | GreaterEqual if *left == Value::Null || *right == Value::Null => {
            Value::Bool(false)
        }
        Less => Value::Bool(order(left, right)? == Ordering::Less),
        LessEqual => Value::Bool(order(left, right)? != Ordering::Greater),
        Greater => Value::Bool(order(left, right)? == Ordering::Greater),
        GreaterEqual => Value::Bool(order(left, right)? != Ordering::Less),
        Contains => Value::Bool(contains(left, right)?),
        IsIn => Value::Bool(is_in(left, right)),
        Matches => Value::Bool(matches(left, right, spend)?),
        Add => match left {
            Value::List(items) => add_to_list(items, right),
            _ => arithmetic(op, left, right)?,
        },
        Subtract => match (left, right) {
            (Value::List(items), Value::List(taken)) => {
                Value::list(items.iter().filter(|item| !taken.contains(item)).cloned().collect())
            }
            (Value::List(items), one) => {
                let mut rest = items.to_vec();
                if let Some(found) = rest.iter().position(|item| equal(item, one)) {
                    rest.remove(found);
                }
                Value::list(rest)
            }
            _ => arithmetic(op, left, right)?,
        },
        Multiply | Divide | Modulo => arithmetic(op, left, right)?,
        Range => range(left, right, 1, spend)?,
        Or | And | Concat | Coalesce | CoalesceMissing => {
            return Err(EvalError::type_error("this operator is evaluated elsewhere"));
        }
    })
}

/// Numbers compare by value whatever their kind; a text never equals a number.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        (Value::Map(a) | Value::HeaderMap(a), Value::Map(b) | Value::HeaderMap(b)) => {
            a.len() == b.len() && a.iter().all(|(key, item)| b.get(key).is_some_and(|other| equal(item, other)))
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b)),
        _ => left == right,
    }
}

pub(crate) fn order(left: &Value, right: &Value) -> Result<Ordering, EvalError> {
    let ordering = match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => match (float(left), float(right)) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => None,
        },
    };
    ordering.ok_or_else(|| EvalError::type_error(format!("cannot compare {} with {}", left.kind(), right.kind())))
}

pub(crate) fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn contains(whole: &Value, part: &Value) -> Result<bool, EvalError> {
    match (whole, part) {
        (Value::Null, _) => Ok(false),
        (Value::List(items), Value::List(wanted)) => {
            Ok(wanted.iter().all(|one| items.iter().any(|item| equal(item, one))))
        }
        (Value::List(items), one) => Ok(items.iter().any(|item| equal(item, one))),
        (Value::Map(_) | Value::HeaderMap(_), Value::List(keys)) => {
            Ok(keys.iter().all(|key| whole.get(&key.to_text()).is_some()))
        }
        (Value::Map(_) | Value::HeaderMap(_), key) => Ok(whole.get(&key.to_text()).is_some()),
        (Value::Str(text), Value::List(parts)) => Ok(parts.iter().all(|part| text.contains(&*part.to_text()))),
        (Value::Str(text), part) => Ok(text.contains(&*part.to_text())),
        (other, _) => {
            Err(EvalError::type_error(format!("`contains` needs a text, a list or a map, found {}", other.kind())))
        }
    }
}

/// `isIn` compares what values look like: `1 isIn ['1']` holds. A map has its keys and its values.
fn is_in(one: &Value, whole: &Value) -> bool {
    if *one == Value::Null {
        return false;
    }
    let text = one.to_text();
    match whole {
        Value::List(items) => items.iter().any(|item| item.to_text() == text),
        Value::Map(entries) | Value::HeaderMap(entries) => {
            entries.iter().any(|(key, item)| *key == text || item.to_text() == text)
        }
        _ => false,
    }
}

fn matches(text: &Value, pattern: &Value, spend: Spend) -> Result<bool, EvalError> {
    spend(100)?;
    let regex = regex(&format!("^(?:{})$", pattern.to_text()))?;
    Ok(regex.is_match(&text.to_text()))
}

/// Compiles a pattern; the engine is linear in time, and its size is bounded here.
pub(crate) fn regex(pattern: &str) -> Result<regex::Regex, EvalError> {
    regex::RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 20)
        .nest_limit(50)
        .build()
        .map_err(|_| EvalError::type_error("this is not a regular expression we can use"))
}

fn add_to_list(items: &Arc<Vec<Value>>, right: &Value) -> Value {
    let mut out = items.to_vec();
    match right {
        Value::List(more) => out.extend(more.iter().cloned()),
        one => out.push(one.clone()),
    }
    Value::list(out)
}

fn overflow() -> EvalError {
    EvalError::type_error("the result does not fit a number")
}

/// A text that is a number counts as one, but not for `+`, which joins texts.
fn operand(value: &Value) -> Value {
    let Value::Str(text) = value else { return value.clone() };
    let whole = text.parse::<i128>().ok().map(Value::Int);
    let number = whole.or_else(|| text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float));
    number.unwrap_or_else(|| value.clone())
}

fn arithmetic(op: BinaryOp, left: &Value, right: &Value) -> Result<Value, EvalError> {
    let (left, right) = (&operand(left), &operand(right));
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        if *b == 0 && matches!(op, BinaryOp::Divide | BinaryOp::Modulo) {
            return Err(EvalError::type_error("division by zero"));
        }
        let result = match op {
            BinaryOp::Add => a.checked_add(*b),
            BinaryOp::Subtract => a.checked_sub(*b),
            BinaryOp::Multiply => a.checked_mul(*b),
            BinaryOp::Divide => a.checked_div(*b),
            _ => a.checked_rem(*b),
        };
        return result.map(Value::Int).ok_or_else(overflow);
    }
    let (Some(a), Some(b)) = (float(left), float(right)) else {
        let message = format!("cannot calculate with {} and {}", left.kind(), right.kind());
        return Err(EvalError::type_error(message));
    };
    Ok(Value::Float(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        _ => a % b,
    }))
}

/// Inclusive range of numbers, or of single letters.
pub(crate) fn range(from: &Value, to: &Value, step: i128, spend: Spend) -> Result<Value, EvalError> {
    let letter = |value: &Value| match value {
        Value::Str(text) => text.chars().next().filter(|first| text.len() == first.len_utf8()),
        _ => None,
    };
    if let (Some(first), Some(last)) = (letter(from), letter(to)) {
        let (first, last) = (i128::from(u32::from(first)), i128::from(u32::from(last)));
        let codes = steps(first, last, step, spend)?;
        let letters = codes.into_iter().filter_map(|code| char::from_u32(code as u32));
        return Ok(Value::list(letters.map(|letter| Value::str(letter.to_string())).collect()));
    }
    let numbers = steps(whole(from)?, whole(to)?, step, spend)?;
    Ok(Value::list(numbers.into_iter().map(Value::Int).collect()))
}

fn steps(from: i128, to: i128, step: i128, spend: Spend) -> Result<Vec<i128>, EvalError> {
    if step == 0 {
        return Err(EvalError::type_error("a range needs a step other than zero"));
    }
    let mut out = Vec::new();
    let mut next = Some(from);
    while let Some(number) = next.filter(|number| if step > 0 { *number <= to } else { *number >= to }) {
        // A number in a row is cheap: a loop over 100,000 of them must fit the fuel of one step.
        if out.len() % 16 == 0 {
            spend(1)?;
        }
        out.push(number);
        next = number.checked_add(step);
    }
    Ok(out)
}

/// What a loop walks over.
pub(crate) fn entries(value: &Value) -> Result<Vec<Value>, EvalError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => Ok(items.to_vec()),
        Value::Map(entries) | Value::HeaderMap(entries) => {
            Ok(entries.iter().map(|(key, item)| entry(key, item)).collect())
        }
        other => Err(EvalError::type_error(format!("`for` needs a list or a map, found {}", other.kind()))),
    }
}

fn entry(key: &str, item: &Value) -> Value {
    Value::map(IndexMap::from([("key".to_owned(), Value::str(key)), ("value".to_owned(), item.clone())]))
}
