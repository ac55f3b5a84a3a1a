//! JSON from strangers: depth is checked on the bytes before anything is built, and an object
//! that names a key twice is refused, because two parsers may read it as two different events.

use crate::codes::Code;
use crate::problem::Problem;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};
use std::fmt;

/// The deepest nesting of arrays and objects in the text, without checking that it is JSON.
pub fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Refuses text that is nested deeper than the limit.
pub fn check_depth(bytes: &[u8], depth_max: usize) -> Result<(), Problem> {
    let found = depth(bytes);
    if found <= depth_max {
        return Ok(());
    }
    Err(Problem::new(Code::JsonTooDeep, format!("the JSON is nested {found} deep; at most {depth_max} are accepted")))
}

pub fn utf8(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        Problem::new(
            Code::BodyNotUtf8,
            format!("the body is not UTF-8 from byte {} on; send UTF-8", error.valid_up_to()),
        )
    })
}

/// Parses one JSON value strictly.
pub fn parse(bytes: &[u8], depth_max: usize) -> Result<Json, Problem> {
    let text = utf8(bytes)?;
    check_depth(bytes, depth_max)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        let message = error.to_string();
        let code = if message.starts_with(DUPLICATE) { Code::JsonDuplicateKey } else { Code::BodyNotJson };
        Problem::new(code, format!("the body cannot be read as JSON: {message}"))
    })
}

/// Parses JSON into a typed body; the message names the field that is wrong.
pub fn parse_as<T: DeserializeOwned>(bytes: &[u8], depth_max: usize) -> Result<T, Problem> {
    let value = parse(bytes, depth_max)?;
    if !value.is_object() {
        return Err(Problem::new(Code::BodyInvalid, "the body must be a JSON object"));
    }
    serde_json::from_value(value)
        .map_err(|error| Problem::new(Code::BodyInvalid, format!("the body cannot be used: {error}")))
}

/// A whole number, also where a client writes all its numbers as floats (`7.0`).
pub fn whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    use serde::Deserialize;
    /// Up to here every whole number is a float of its own.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let refused =
        |found: &Json| D::Error::custom(format!("invalid value: `{found}`, expected a whole number from 0 on"));
    match Option::<Json>::deserialize(deserializer)? {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Number(number)) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => Ok(Some(whole)),
            (None, Some(float)) if float.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&float) => Ok(Some(float as u64)),
            _ => Err(refused(&Json::Number(number))),
        },
        Some(other) => Err(refused(&other)),
    }
}

const DUPLICATE: &str = "the key ";

/// Builds a value and refuses an object with a repeated key.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Json;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            out.push(item);
        }
        Ok(Json::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict)?;
            if out.contains_key(&key) {
                return Err(A::Error::custom(format!("{DUPLICATE}`{key}` appears twice in one object")));
            }
            out.insert(key, value);
        }
        Ok(Json::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        for (text, expected) in [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[1,{"b":[]}]}"#, 4),
            (r#""[[[[""#, 0),
            (r#"{"a\"[[[":"]]\\"}"#, 1),
            ("]]]][", 1),
        ] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_depth_limit_holds_at_the_limit_and_one_past_it() {
        assert!(parse(nested(64).as_bytes(), 64).is_ok());
        assert_eq!(parse(nested(65).as_bytes(), 64).unwrap_err().code, Code::JsonTooDeep);
        assert_eq!(parse(nested(500_000).as_bytes(), 64).unwrap_err().code, Code::JsonTooDeep);
    }

    #[test]
    fn values_are_kept_and_duplicates_refused() {
        let text = r#"{"z":1,"a":[null,true,-3,18446744073709551615,1.5,"é"],"o":{"z":1}}"#;
        assert_eq!(parse(text.as_bytes(), 64).unwrap(), serde_json::from_str::<Json>(text).unwrap());
        assert_eq!(parse(text.as_bytes(), 64).unwrap().to_string(), text);
        for twice in [r#"{"a":1,"a":1}"#, r#"[{"x":{"b":1,"\u0062":2}}]"#] {
            assert_eq!(parse(twice.as_bytes(), 64).unwrap_err().code, Code::JsonDuplicateKey, "{twice}");
        }
    }

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        #[derive(Debug, serde::Deserialize)]
        struct Shape {
            #[serde(default, deserialize_with = "whole")]
            n: Option<u64>,
        }
        let read = |text: &str| parse_as::<Shape>(text.as_bytes(), 64).map(|shape| shape.n).map_err(|p| p.code);
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read(r#"{"n":null}"#), Ok(None));
        for (text, number) in [("7", 7), ("7.0", 7), ("7e2", 700), ("18446744073709551615", u64::MAX)] {
            assert_eq!(read(&format!(r#"{{"n":{text}}}"#)), Ok(Some(number)), "{text}");
        }
        for text in ["-1", "7.5", "1e300", "\"7\"", "[]", "-1.0"] {
            assert_eq!(read(&format!(r#"{{"n":{text}}}"#)), Err(Code::BodyInvalid), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", "{", "{}{}", "{} x", "nul", "{'a':1}", "1e999"] {
            assert_eq!(parse(text.as_bytes(), 64).unwrap_err().code, Code::BodyNotJson, "{text}");
        }
        assert_eq!(parse(b"\"\xff\"", 64).unwrap_err().code, Code::BodyNotUtf8);
    }

    #[test]
    fn a_typed_body_names_what_is_wrong() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Shape {
            #[allow(dead_code)]
            name: String,
        }
        assert!(parse_as::<Shape>(br#"{"name":"x"}"#, 64).is_ok());
        let problem = parse_as::<Shape>(br#"{"nam":"x"}"#, 64).unwrap_err();
        assert_eq!(problem.code, Code::BodyInvalid);
        assert!(problem.detail.contains("`nam`"), "{}", problem.detail);
        assert_eq!(parse_as::<Shape>(b"[]", 64).unwrap_err().code, Code::BodyInvalid);
        assert_eq!(parse_as::<Json>(b"{}", 64).unwrap(), json!({}));
    }
}
