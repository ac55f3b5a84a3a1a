//! How a value stands inside a text.

use crate::value::Value;

/// As Java prints it, since definitions were written for that: `{name=value}`, `[a, b]`, and the word `null`.
pub(super) fn java(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::List(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Value::Map(entries) | Value::HeaderMap(entries) => {
            out.push('{');
            for (place, (name, item)) in entries.iter().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                out.push_str(name);
                out.push('=');
                write(item, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_text()),
    }
}
