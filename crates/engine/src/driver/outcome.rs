//! What came back from the outside, with its secrets taken out again.

use super::active::Mask;
use semel_core::run::{Failure, Payload, Performed};
use semel_expr::{Part, Value};
use semel_tasks::Outcome;
use std::sync::Arc;

/// An outcome for the machine, with every secret the request carried masked out again.
pub(super) fn translate(outcome: Outcome, masks: &[Mask]) -> Performed {
    let failure = |code: &str, message: String| {
        let hidden = masks
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .fold(message, |m, (_, text)| m.replace(text.as_str(), "***"));
        Failure::new(code, hidden)
    };
    match outcome {
        Outcome::Done { output } => {
            Performed::Done { output: Payload::new(hide(&Value::from_json(&output), masks).to_stored()) }
        }
        Outcome::FailedClean { code, message, .. } => Performed::FailedClean { failure: failure(code, message) },
        Outcome::Lost { code, message } => Performed::Lost { failure: failure(code, message) },
    }
}

/// Puts holes where a far side echoed a secret, or what was computed through one.
pub(crate) fn hide(value: &Value, masks: &[Mask]) -> Value {
    let masks: Vec<&Mask> = masks.iter().filter(|(part, text)| text.len() >= echo_bytes_min(part)).collect();
    if masks.is_empty() {
        return value.clone();
    }
    match value {
        Value::Str(text) => hide_text(text, &masks),
        Value::List(items) => Value::list(items.iter().map(|v| hide_each(v, &masks)).collect()),
        Value::Map(map) => Value::map(map.iter().map(|(k, v)| (k.clone(), hide_each(v, &masks))).collect()),
        other => other.clone(),
    }
}

/// Shorter texts would hit ordinary ones; a sealed value may be as plain as `true`.
fn echo_bytes_min(part: &Part) -> usize {
    match part {
        Part::Sealed(_) => 8,
        Part::Secret(_) | Part::Text(_) => 4,
    }
}

fn hide_each(value: &Value, masks: &[&Mask]) -> Value {
    let owned: Vec<Mask> = masks.iter().map(|m| (*m).clone()).collect();
    hide(value, &owned)
}

fn hide_text(text: &str, masks: &[&Mask]) -> Value {
    let mut parts: Vec<Part> = vec![Part::Text(text.to_owned())];
    for (hole, plain) in masks {
        parts = parts
            .into_iter()
            .flat_map(|part| match part {
                Part::Text(text) => {
                    let pieces: Vec<&str> = text.split(plain.as_str()).collect();
                    let mut out = Vec::new();
                    for (i, piece) in pieces.iter().enumerate() {
                        if i > 0 {
                            out.push(hole.clone());
                        }
                        if !piece.is_empty() {
                            out.push(Part::Text((*piece).to_owned()));
                        }
                    }
                    out
                }
                other => vec![other],
            })
            .collect();
    }
    if parts.iter().any(|p| !matches!(p, Part::Text(_))) {
        return Value::Tainted(Arc::new(semel_expr::Tainted { parts }));
    }
    Value::Str(Arc::from(text))
}
