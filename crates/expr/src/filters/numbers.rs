//! Filters on numbers.

use crate::EvalError;
use crate::filters::Args;
use crate::value::Value;

/// Digits after the point that `numberFormat` writes at most.
const DECIMALS_MAX: usize = 40;

pub(super) fn apply(name: &str, input: &Value, args: &Args) -> Result<Value, EvalError> {
    match name {
        "number" => number(input, args),
        "abs" => abs(input),
        _ => number_format(input, args),
    }
}

fn abs(input: &Value) -> Result<Value, EvalError> {
    match input {
        Value::Int(number) => Ok(Value::Int(number.saturating_abs())),
        Value::Float(number) => Ok(Value::Float(number.abs())),
        other => Err(EvalError::type_error(format!("filter `abs` cannot take {}", other.kind()))),
    }
}

fn number(input: &Value, args: &Args) -> Result<Value, EvalError> {
    let value = match input {
        Value::Int(_) | Value::Float(_) => input.clone(),
        Value::Str(text) => parse(text.trim())?,
        other => {
            return Err(EvalError::type_error(format!("filter `number` cannot take {}", other.kind())));
        }
    };
    let kind = args.text(0, "type").map(|kind| kind.to_uppercase());
    Ok(match (kind.as_deref(), value) {
        (Some("INT" | "LONG" | "BIGINTEGER"), Value::Float(_)) if matches!(input, Value::Str(_)) => {
            return Err(EvalError::new("filter", "this is not a whole number"));
        }
        (Some("INT" | "LONG" | "BIGINTEGER"), Value::Float(number)) => Value::Int(number.trunc() as i128),
        (Some("FLOAT" | "DOUBLE" | "BIGDECIMAL"), Value::Int(number)) => Value::Float(number as f64),
        (_, value) => value,
    })
}

fn parse(text: &str) -> Result<Value, EvalError> {
    if let Ok(whole) = text.parse::<i128>() {
        return Ok(Value::Int(whole));
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map(Value::Float).ok_or_else(|| EvalError::new("filter", format!("`{}` is not a number", short(text))))
}

pub(super) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The part of Java's `DecimalFormat` that people use: `#,##0.00`, a fixed prefix and suffix, `%`.
fn number_format(input: &Value, args: &Args) -> Result<Value, EvalError> {
    let pattern = args.text(0, "format").unwrap_or_else(|| "#,##0.###".to_owned());
    let value = crate::ops::float(&number(input, &Args::default())?).unwrap_or(0.0);
    let is_digit = |c: char| matches!(c, '#' | '0' | ',' | '.');
    let start = pattern.find(is_digit).unwrap_or(pattern.len());
    let end = pattern.rfind(is_digit).map_or(start, |last| last + 1);
    let (prefix, digits, suffix) = (&pattern[..start], &pattern[start..end], &pattern[end..]);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let value = if suffix.contains('%') { value * 100.0 } else { value };
    let text = format!("{:.*}", fraction.len().min(DECIMALS_MAX), value.abs());
    let (integer, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let least = whole.matches('0').count().min(DECIMALS_MAX);
    let mut integer = format!("{integer:0>least$}");
    if least == 0 && integer == "0" && !decimals.is_empty() {
        integer.clear();
    }
    if let Some(comma) = whole.rfind(',') {
        integer = grouped(&integer, whole.len() - comma - 1);
    }
    let required = fraction.matches('0').count().min(decimals.len());
    let kept = decimals.trim_end_matches('0').len().max(required);
    let point = if kept > 0 { "." } else { "" };
    let sign = if value < 0.0 { "-" } else { "" };
    Ok(Value::str(format!("{sign}{prefix}{integer}{point}{}{suffix}", &decimals[..kept])))
}

fn grouped(digits: &str, size: usize) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && size > 0 && (digits.len() - index).is_multiple_of(size) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
