//! Values of the key-value store as Kestra's API takes and gives them: the text says the type.

use crate::json;
use semel_core::{Millis, duration};
use semel_store::KvRow;
use serde_json::Value as Json;

/// The type of a body and its value; `None` when it is none of them. A text needs its quotes, unless it is one word.
pub fn read(body: &str, depth_max: usize) -> Option<(&'static str, Json)> {
    let text = body.trim();
    if is_date(text) {
        return Some(("DATE", text.into()));
    }
    if is_instant(text) {
        return Some(("DATETIME", text.into()));
    }
    if let Ok(value) = json::parse(text.as_bytes(), depth_max) {
        return Some((type_of(&value), value));
    }
    let word: Json = text.into();
    is_word(text).then(|| (type_of(&word), word))
}

/// The type that a value without a declared one has.
pub fn type_of(value: &Json) -> &'static str {
    match value {
        Json::String(text) if is_duration(text) => "DURATION",
        Json::String(_) | Json::Null => "STRING",
        Json::Number(_) => "NUMBER",
        Json::Bool(_) => "BOOLEAN",
        Json::Array(_) | Json::Object(_) => "JSON",
    }
}

/// The declared type of a stored value; a text that is a duration is one, whoever wrote it.
pub fn shown_type(row: &KvRow) -> String {
    if row.kv_type == "STRING" { type_of(&row.value).to_owned() } else { row.kv_type.clone() }
}

/// What a key may be made of.
pub fn is_key(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphanumeric())
        && key.len() <= KEY_BYTES_MAX
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

const KEY_BYTES_MAX: usize = 255;

fn is_date(text: &str) -> bool {
    text.len() == 10 && is_instant(&format!("{text}T00:00:00Z"))
}

fn is_instant(text: &str) -> bool {
    text.len() > 10 && text.as_bytes().get(10) == Some(&b'T') && Millis::parse_rfc3339(text).is_some()
}

fn is_duration(text: &str) -> bool {
    text.starts_with('P') && duration::parse_ms(text).is_ok()
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_says_the_type() {
        for (body, kv_type, value) in [
            (r#"{"hello":"world"}"#, "JSON", json!({"hello": "world"})),
            (r#"["hello","world"]"#, "JSON", json!(["hello", "world"])),
            (r#""hello""#, "STRING", json!("hello")),
            ("hello", "STRING", json!("hello")),
            (" 1\n", "NUMBER", json!(1)),
            ("1.0", "NUMBER", json!(1.0)),
            ("true", "BOOLEAN", json!(true)),
            ("2021-09-01", "DATE", json!("2021-09-01")),
            ("2021-09-01T01:02:03Z", "DATETIME", json!("2021-09-01T01:02:03Z")),
            (r#""PT5S""#, "DURATION", json!("PT5S")),
            ("PT5S", "DURATION", json!("PT5S")),
            ("null", "STRING", Json::Null),
        ] {
            assert_eq!(read(body, 64), Some((kv_type, value)), "{body}");
        }
        for bad in ["", " ", "two words", "{", "[1,", "2021-13-01", "\"open", "{\"a\":1,\"a\":2}"] {
            assert_eq!(read(bad, 64), None, "{bad}");
        }
    }

    #[test]
    fn keys_are_names() {
        for good in ["a", "KESTRA_TENANT", "a.b-c", "1"] {
            assert!(is_key(good), "{good}");
        }
        for bad in ["", ".a", "a b", "bad$key", "ü"] {
            assert!(!is_key(bad), "{bad}");
        }
        assert!(!is_key(&"a".repeat(256)));
    }
}
