//! Prints a value as YAML: block style, texts quoted only where YAML would read something else.

use crate::value::Value;

pub(crate) fn emit(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Writes a value that begins `column` columns in, or right after `- `. Kestra sets dashes one column in.
fn block(value: &Value, column: usize, out: &mut String) {
    match value {
        Value::List(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(column, out);
                }
                out.push_str(" - ");
                block(item, column + 3, out);
            }
        }
        Value::Map(entries) | Value::HeaderMap(entries) if !entries.is_empty() => {
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    pad(column, out);
                }
                out.push_str(&scalar(key));
                out.push(':');
                member(item, column, out);
            }
        }
        other => {
            out.push_str(&leaf(other));
            out.push('\n');
        }
    }
}

fn member(item: &Value, column: usize, out: &mut String) {
    let inner = match item {
        Value::List(items) if !items.is_empty() => column,
        Value::Map(entries) | Value::HeaderMap(entries) if !entries.is_empty() => column + 2,
        _ => {
            out.push(' ');
            return block(item, column, out);
        }
    };
    out.push('\n');
    pad(inner, out);
    block(item, inner, out);
}

fn pad(column: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', column));
}

fn leaf(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::List(_) => "[]".to_owned(),
        Value::Map(_) | Value::HeaderMap(_) => "{}".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_text(),
        text => scalar(&text.to_text()),
    }
}

fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '/'))
        && !text.ends_with(char::is_whitespace)
        && !text.ends_with(':')
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.chars().any(|c| c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
        && !is_reserved(text);
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

fn is_reserved(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(lower.as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n")
}
